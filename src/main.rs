//! The program: parse, run, exit code.

fn main() -> std::process::ExitCode {
    td_observe::cli::run(std::env::args_os())
}
