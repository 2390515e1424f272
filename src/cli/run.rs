//! `td-observe run`: runs a command, shows its output as it is printed, and exits with its code.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueHint;
use clap_complete::engine::ArgValueCandidates;
use crossbeam_channel::{never, select_biased};
use signal_hook::consts::SIGPIPE;

use super::duration::parse_duration;
use super::failure::Failure;
use super::live::JunitFile;
#[cfg(feature = "notify")]
use super::notifying::Notifying;
use super::options::{self, Options, TypedKeeping, parse_execution_id};
use super::own_reports::{End, OwnReports};
use super::pass_through::{self, PassOptions};
use super::signals::Signals;
use super::{known, live};
use crate::agent::Format;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::face::JunitReport;
use crate::observe::JobHandle;
use crate::process::{self, Command, CommandControl, CommandOutcome, PtySize, Stdin};
use crate::thread::Stop;

/// The form in which the command's output is shown.
#[derive(Debug)]
enum Display {
    /// The command draws on the terminal itself.
    Screen,
    /// Standard output is not a terminal: the command's outputs are passed through unchanged.
    PassedThrough(PassOptions),
    /// A tree on a terminal, JSON, or nothing.
    Events { has_timestamps: bool },
}

/// The configuration of `run`.
#[derive(Debug)]
pub(super) struct Config {
    command: Command,
    execution_id: Option<String>,
    display: Display,
    junit: Option<PathBuf>,
    keeping: TypedKeeping,
}

impl Config {
    pub fn from_typed(typed: TypedRun, options: &Options) -> Result<Self, Failure> {
        let mut words = typed.command.into_iter();
        let program = words.next().filter(|program| !program.is_empty());
        let Some(program) = program else {
            return Err(usage!("the name of the program to run is empty"));
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
        if typed.pty {
            command = command.pty(PtySize::of_terminal());
        }
        let is_shown = !options.json && !options.quiet;
        let has_keys = typed.pty && typed.stdin && io::stdin().is_terminal();
        let display = match (is_shown, io::stdout().is_terminal()) {
            (true, true) if has_keys => {
                command = command.mirror(io::stdout());
                Display::Screen
            }
            (true, false) => Display::PassedThrough(PassOptions {
                has_timestamps: typed.timestamps,
                lines_max: typed.max_lines,
                is_terminal: typed.pty,
            }),
            _ => Display::Events {
                has_timestamps: typed.timestamps,
            },
        };
        Ok(Self {
            command,
            execution_id: typed.execution_id,
            display,
            junit: typed.junit,
            keeping: typed.keeping,
        })
    }
}

/// Runs the command to its end.
pub(super) fn run(options: &Options, config: Config) -> Result<ExitCode, Failure> {
    // This process must be able to print while the command's group has the terminal.
    process::allow_background_output();
    let control = process::CommandControl::new();
    let (kill_control, pass_control) = (control.clone(), control.clone());
    let pass = move |signal| pass_control.pass(signal);
    let signals = Signals::catch_and_pass(move || kill_control.kill(), pass)?;
    let clock = Clock::system();
    let id = config.execution_id.as_deref();
    let (mut engine, rules) = options::start(options, &config.keeping, id, &clock)?;
    #[cfg(feature = "notify")]
    let notifying = Notifying::start_alone(options, &engine, rules.clone(), &clock)?;
    // After what may be refused: an earlier report stays then.
    let junit = config.junit.as_deref().map(|path| {
        let suite = id.map_or_else(|| config.command.name(), str::to_owned);
        let case = rules.text(&config.command.line()).into_owned();
        let report = JunitReport::new(suite, case, clock.wall());
        JunitFile::collect(path, &engine, report)
    });
    let junit = junit.transpose()?;
    let reports = OwnReports::begin(options, config.command.name());
    let mut command = config.command.control(&control);
    let (mut printing, mut passing) = (None, None);
    match &config.display {
        Display::Screen => {}
        Display::Events { has_timestamps } => {
            printing = live::print_one(&engine, options, *has_timestamps, &clock)?;
        }
        Display::PassedThrough(pass) => {
            let (sink, begun) = pass_through::start(&engine, pass, &clock)?;
            command = command.byte_sink(sink);
            passing = Some(begun);
        }
    }
    let execution = match config.execution_id {
        Some(id) => engine.execute_as(id, command)?,
        None => engine.execute(command)?,
    };
    // The pass-through closes each output separately instead.
    let reader_gone = printing
        .as_ref()
        .map_or_else(never, |printer| printer.ended());
    let interrupted = wait(&mut engine, &execution, &reader_gone, &signals);
    let ended = execution.wait();
    // A slow reader must not delay the end after a timeout.
    let is_over = interrupted || ended.as_ref().is_ok_and(|outcome| outcome.timed_out);
    let (report, _) = live::finish(engine, printing, is_over, &signals, &clock);
    #[cfg(feature = "notify")]
    if let Some(notifying) = notifying {
        if is_over {
            notifying.stop();
        } else {
            notifying.finish();
        }
    }
    let is_cut = passing.is_some_and(|passing| passing.finish(is_over, &signals, &clock));
    // Problems of the engine are reported, but only the command sets the exit code.
    live::report_problems(report);
    let ended = ended.map_err(|error| Failure::not_started(error, &rules));
    let problem = ended.as_ref().err().map(Failure::text);
    let is_reported = junit.is_none_or(|junit| junit.finish(problem));
    let outcome = ended?;
    reports.end(&match outcome.code() {
        0 => End::Done,
        _ if interrupted => End::Stopped,
        _ if outcome.timed_out => End::Failed("the time is up".to_owned()),
        code => End::Failed(format!("exit code {code}")),
    });
    live::print_lost_lines(outcome.lost_lines);
    if outcome.has_asked && io::stdin().is_terminal() && !options.quiet {
        message!("hint: if the command waited for an answer: with --stdin it reads your keys");
    }
    let is_read = matches!(config.display, Display::Events { .. });
    live::print_streaming_hint(outcome.has_whole_messages && is_read, options);
    // A success must not hide output or a report that could not be written.
    if (is_cut || !is_reported) && outcome.code() == 0 {
        return Ok(live::code(true));
    }
    Ok(exit_code(&outcome))
}

/// Waits until the command has ended. Passes the first signal on to the command, and `SIGPIPE` if the output is
/// closed. Returns true if a signal arrived.
fn wait(
    engine: &mut Engine,
    execution: &JobHandle<CommandOutcome, CommandControl>,
    reader_gone: &Stop,
    signals: &Signals,
) -> bool {
    let done = engine.done();
    select_biased! {
        recv(signals.first) -> signal => {
            if let Ok(signal) = signal {
                execution.control().end(signal);
            }
            // `done` is closed when the source has ended; it has no messages.
            let _ = done.recv();
            return true;
        }
        recv(done) -> _ => {}
        recv(reader_gone) -> _ => {
            // The signal that the command would get from the closed output itself.
            execution.control().end(SIGPIPE);
            let _ = done.recv();
        }
    }
    false
}

fn exit_code(outcome: &CommandOutcome) -> ExitCode {
    // Exit codes and signals fit into a byte; any other value is a failure.
    ExitCode::from(u8::try_from(outcome.code()).unwrap_or(1))
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/run.txt").trim_end())]
pub(super) struct TypedRun {
    /// The program and its arguments
    #[arg(
        value_name = "CMD",
        required = true,
        trailing_var_arg = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,
    /// End the command and its group after this time: exit code 124
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// Kill the group if it has not ended this long after TERM
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    pub grace: Duration,
    /// Read standard output as text, or as the records of an agent: claude, codex, gemini, opencode,
    /// sse, json; auto detects them. Records become events
    #[arg(
        long = "as",
        value_name = "FORMAT",
        value_parser = known::parse_format,
        default_value = "text",
        add = ArgValueCandidates::new(known::formats)
    )]
    pub format: Format,
    /// The name of the run [default: PROGRAM@SECONDS]
    #[arg(long, value_name = "ID", value_parser = parse_execution_id)]
    pub execution_id: Option<String>,
    /// Give the command a terminal as large as yours; both outputs become one
    #[arg(long)]
    pub pty: bool,
    /// Let the command read the input of td-observe; on a terminal it gets the keys, including
    /// Ctrl-C. With --pty it also has the whole screen
    #[arg(long)]
    pub stdin: bool,
    /// Show and keep at most N lines, and the last lines of standard error if the command fails, with --pty
    /// those of its only output; a warning marks the cut
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_lines: Option<u64>,
    /// Begin each line with the local time
    #[arg(long)]
    pub timestamps: bool,
    /// Write the outcome to this file as JUnit XML, for CI
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub junit: Option<PathBuf>,
    #[command(flatten)]
    pub keeping: TypedKeeping,
}
