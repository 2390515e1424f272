//! The command line: what was typed becomes plain config, and each subcommand has its file.
//!
//! Threads: the main one owns the engine and waits for signals, for the sources' end and for the
//! printer; `td-signals` turns signals into a message; the printer is the view's. Nothing polls.

mod args;
mod command_line;
mod duration;
mod options;

mod failure;

mod agent_args;
mod agent_hooks;
mod agents;
mod demo;
mod loop_args;
mod loops;
mod run;
mod run_args;
mod states;
mod wait;
mod wait_args;
mod watch;
mod watch_args;

mod hooks;
mod on_state;

mod history;
mod history_args;
mod keeping;
mod keys;
mod rule_files;

mod export;
mod export_raw;
mod log;
mod replay;
mod runs;

mod completion;
mod guide;
mod known;
mod manual;
mod markdown;
mod nearest;
mod pager;

mod descriptors;
mod live;
mod report;
mod signals;

mod diagnostics;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use args::{Args, Command};
use command_line::NotParsed;
use failure::Failure;
use options::Options;

/// Runs the program with these arguments, the first of which is its name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    if let Some(code) = completion::answer() {
        return code;
    }
    let args = match command_line::parse(args) {
        Ok(args) => args,
        Err(NotParsed::Clap(error)) if !error.use_stderr() => {
            // Help or the version. A reader that has gone away has read enough.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(NotParsed::Clap(error)) => return Failure::of_clap(&error).tell(),
        Err(NotParsed::Refused(failure)) => return failure.tell(),
    };
    match dispatch(args) {
        Ok(code) => code,
        Err(failure) => failure.tell(),
    }
}

fn dispatch(args: Args) -> Result<ExitCode, Failure> {
    let options = Options::from_typed(args.options)?;
    diagnostics::start(options.verbose);
    match args.command {
        Command::Demo(typed) => demo::run(&options, demo::Config::from_typed(&typed)),
        Command::Watch(typed) => watch::run(&options, watch::Config::from_typed(typed)?),
        Command::Run(typed) => run::run(&options, run::Config::from_typed(typed, &options)?),
        Command::Loop(typed) => loops::run(&options, loops::Config::from_typed(*typed, &options)?),
        Command::Agents(typed) => agents::run(&options, agents::Config::from_typed(typed)?),
        Command::Hooks(typed) => agent_hooks::run(&typed),
        Command::States(typed) => states::run(&options, &typed),
        Command::Wait(typed) => wait::run(&options, &typed),
        Command::Runs(typed) => runs::run(&options, typed),
        Command::Log(typed) => log::run(&options, log::Config::from_typed(typed, &options)?),
        Command::Replay(typed) => replay::run(&options, typed),
        Command::Export(typed) => export::run(&options, typed),
        Command::Completions(typed) => completion::run(typed.shell),
        Command::Man(typed) => manual::run(&typed.directory),
        Command::Help(typed) => guide::run(&typed.words),
        Command::Drain(typed) => {
            crate::tmux::drain(&typed.address, &typed.token)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Text on standard output. A reader that has gone away has read enough.
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    crate::face::unless_broken_pipe(written)
        .map_err(|error| Failure::other(format!("cannot write to standard output: {error}")))
}

/// One line as a terminal may show it.
fn one_safe_line(text: &str) -> String {
    crate::face::one_line(text)
}

/// One line on standard error, which holds no control characters of others.
fn say(text: &str) {
    // Nobody is left to be told where standard error is gone.
    let _ = writeln!(
        std::io::stderr(),
        "td-observe: {}",
        crate::face::one_line(text)
    );
}
