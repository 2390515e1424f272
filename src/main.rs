//! The `td-observe` program.

fn main() -> std::process::ExitCode {
    td_observe::cli::run(std::env::args_os())
}
