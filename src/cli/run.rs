//! `td-observe run`: a command, what it prints while it prints it, and its exit code.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use crossbeam_channel::{never, select_biased};
use signal_hook::consts::SIGPIPE;

use super::failure::Failure;
use super::history_args::TypedKeeping;
use super::keeping;
use super::live;
use super::options::Options;
use super::run_args::TypedRun;
use super::signals::Signals;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::face::Printer;
use crate::observe::JobHandle;
use crate::process::{self, Command, CommandControl, CommandOutcome, PtySize, Stdin};

/// The configuration of `run`.
#[derive(Debug)]
pub(super) struct Config {
    command: Command,
    execution_id: Option<String>,
    /// The command has the screen to itself.
    has_screen: bool,
    keeping: TypedKeeping,
}

impl Config {
    pub fn from_typed(typed: TypedRun, options: &Options) -> Result<Self, Failure> {
        if typed.execution_id.as_ref().is_some_and(String::is_empty) {
            return Err(Failure::usage("--execution-id: the id is empty"));
        }
        let mut words = typed.command.into_iter();
        let program = words.next().filter(|program| !program.is_empty());
        let Some(program) = program else {
            return Err(Failure::usage("the name of the program to run is empty"));
        };
        let mut command = Command::new(program)
            .args(words.collect::<Vec<OsString>>())
            .grace(typed.grace)
            .format(typed.format);
        if let Some(timeout) = typed.timeout {
            command = command.timeout(timeout);
        }
        if let Some(lines) = typed.max_lines {
            command = command.line_limit(lines);
        }
        if typed.stdin {
            command = command.stdin(Stdin::Inherited);
        }
        let mut has_screen = false;
        if typed.pty {
            command = command.pty(PtySize::of_terminal());
            has_screen = typed.stdin
                && io::stdin().is_terminal()
                && io::stdout().is_terminal()
                && !options.json
                && !options.quiet;
        }
        if has_screen {
            command = command.mirror(io::stdout());
        }
        Ok(Self {
            command,
            execution_id: typed.execution_id,
            has_screen,
            keeping: typed.keeping,
        })
    }
}

/// Runs the command to its end.
pub(super) fn run(options: &Options, config: Config) -> Result<ExitCode, Failure> {
    // While the command has the terminal, what it prints is still shown.
    process::allow_background_output();
    let control = process::CommandControl::new();
    let last_act = {
        let control = control.clone();
        move || control.kill()
    };
    let signals = Signals::catch(last_act)?;
    let clock = Clock::system();
    let (builder, rules) = keeping::builder(options, &config.keeping, &clock)?;
    keeping::check_id(&rules, config.execution_id.as_deref())?;
    let mut engine = builder.start().map_err(keeping::unusable)?;
    let printing = match config.has_screen {
        true => None,
        false => live::print_one(&engine, options, &clock)?,
    };
    let command = config.command.control(&control);
    let execution = match config.execution_id {
        Some(id) => engine.execute_as(id, command)?,
        None => engine.execute(command)?,
    };
    let interrupted = wait(&mut engine, &execution, printing.as_ref(), &signals);
    let ended = execution.wait();
    // A reader that does not read cannot delay a timeout.
    let is_over = interrupted || ended.as_ref().is_ok_and(|outcome| outcome.timed_out);
    // Problems of the engine are reported; the exit code is that of the command.
    live::finish(engine, printing, is_over, &signals, &clock);
    match ended {
        Ok(outcome) => {
            tell_lost(outcome.lost_lines);
            Ok(exit_code(&outcome))
        }
        Err(error) => Err(Failure::not_started(error, &rules)),
    }
}

/// Waits until the command has ended, or its reader has gone. Returns true if a signal arrived: the
/// command decides when to end then.
fn wait(
    engine: &mut Engine,
    execution: &JobHandle<CommandOutcome, CommandControl>,
    printing: Option<&Printer>,
    signals: &Signals,
) -> bool {
    let done = engine.done();
    let printed = printing.map_or_else(never, Printer::ended);
    select_biased! {
        recv(signals.first()) -> signal => {
            if let Ok(signal) = signal {
                execution.control().end(signal);
            }
            // The stream is closed when the source has ended.
            let _ = done.recv();
            return true;
        }
        recv(done) -> _ => {}
        recv(printed) -> _ => {
            // The command gets the signal that it would get without this program in between.
            execution.control().end(SIGPIPE);
            let _ = done.recv();
        }
    }
    false
}

/// Reports the number of lines that are missing beyond `--max-lines`.
fn tell_lost(lines: u64) {
    let lines = match lines {
        0 => return,
        1 => "1 more line was".to_owned(),
        more => format!("{more} more lines were"),
    };
    super::output::say(&format!("{lines} read and not kept: see --max-lines"));
}

fn exit_code(outcome: &CommandOutcome) -> ExitCode {
    // Exit codes and signals fit; anything else is no success.
    ExitCode::from(u8::try_from(outcome.code()).unwrap_or(1))
}
