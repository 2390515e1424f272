//! Shows an engine's events until its sources have ended, stops it in the order that loses nothing, and reports
//! problems and the outcome: `--junit FILE`.
//!
//! `td-junit` blocks on its subscription and ends when the bus is closed.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crossbeam_channel::{Receiver, never, select_biased};

use super::failure::Failure;
use super::options::Options;
use super::signals::Signals;
use crate::agent::StateRules;
use crate::bus::{Delivery, SubscribeOptions};
use crate::clock::Clock;
use crate::engine::{Engine, Report};
use crate::face::{Console, ConsoleOptions, JunitReport, Printer, Renderer, Tree, TreeOptions};
use crate::thread::{self, Handle};

/// The time for which revisions on the console are merged.
const CONSOLE_LIMIT: Duration = Duration::from_millis(100);

/// The time that the output may take after the engine's end, once the user has requested the end. Together with
/// the limits of the engine, the program ends within two seconds.
pub(super) const PRINT_REST: Duration = Duration::from_millis(400);

/// Starts to print the engine's events, except with `-q`. Call it before sources are attached. The rules in
/// `agents` identify rows that are decoration, which are omitted.
pub(super) fn print(
    engine: &Engine,
    options: &Options,
    agents: Option<StateRules>,
    clock: &Clock,
) -> Result<Option<Printer>, Failure> {
    // Revisions are merged, because panes change often.
    let merged = SubscribeOptions {
        throttle: Some(CONSOLE_LIMIT),
        ..Default::default()
    };
    let console = || renderer(options, agents);
    show(engine, options, console, merged, clock)
}

pub(super) fn renderer(options: &Options, agents: Option<StateRules>) -> Renderer {
    if options.json {
        return Renderer::Json;
    }
    let console = Console::new(ConsoleOptions {
        coloured: options.coloured,
        aligned: std::io::stdout().is_terminal(),
        verbose: options.verbose > 0,
        names_hosts: options.reads_hosts(),
        ..ConsoleOptions::default()
    })
    .holding();
    let console = match agents {
        Some(rules) => console.without_decoration(rules),
        None => console,
    };
    Renderer::Console(Box::new(console))
}

/// Starts to print a new execution as a tree, except with `-q`.
pub(super) fn print_one(
    engine: &Engine,
    options: &Options,
    has_timestamps: bool,
    clock: &Clock,
) -> Result<Option<Printer>, Failure> {
    let style = TreeOptions {
        coloured: options.coloured,
        framed: std::io::stdout().is_terminal(),
        has_timestamps,
    };
    let tree = || Renderer::Tree(Tree::new(style));
    show(engine, options, tree, everything(), clock)
}

/// Returns options for a lane that is bounded only by its bytes and delivers each event unchanged, with the
/// same numbers as in the log.
pub(super) fn everything() -> SubscribeOptions {
    SubscribeOptions {
        capacity: Some(usize::MAX),
        ..Default::default()
    }
}

fn show(
    engine: &Engine,
    options: &Options,
    human_renderer: impl FnOnce() -> Renderer,
    subscribe: SubscribeOptions,
    clock: &Clock,
) -> Result<Option<Printer>, Failure> {
    if options.quiet {
        return Ok(None);
    }
    let (view, subscribe) = if options.json {
        (Renderer::Json, everything())
    } else {
        (human_renderer(), subscribe)
    };
    let mut events = engine.subscribe_with(subscribe);
    let next = move |deadline| events.recv_until(deadline);
    Ok(Some(Printer::start(next, view, clock.clone())?))
}

/// The end of an engine's work.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    /// True if there was a problem, which has been reported.
    pub failed: bool,
    /// True if the user requested the end.
    pub interrupted: bool,
}

/// Waits until the sources have ended, a signal arrives, the output is closed or the time is up; then stops the
/// engine, prints the remaining output, and reports problems.
pub(super) fn until_done<T>(
    mut engine: Engine,
    printing: Option<Printer>,
    signals: &Signals,
    time_up: &Receiver<T>,
    clock: &Clock,
) -> Ended {
    let done = engine.done();
    let printed = printing.as_ref().map_or_else(never, Printer::ended);
    let mut interrupted = false;
    select_biased! {
        recv(signals.first) -> _ => interrupted = true,
        recv(printed) -> _ => {}
        recv(done) -> _ => {}
        recv(time_up) -> _ => {}
    }
    let (report, failed) = finish(engine, printing, interrupted, signals, clock);
    Ended {
        failed: report_problems(report) || failed,
        interrupted,
    }
}

pub(super) fn code(failed: bool) -> ExitCode {
    ExitCode::from(u8::from(failed))
}

/// Stops the engine and prints the remaining output. Returns the report, whose problems are to be reported after
/// everything else, and true if the output could not be written. An interrupted program does not wait for its
/// reader.
pub(super) fn finish(
    engine: Engine,
    printing: Option<Printer>,
    interrupted: bool,
    signals: &Signals,
    clock: &Clock,
) -> (Report, bool) {
    let report = engine.shutdown();
    let failed =
        printing.is_some_and(|printing| finish_printing(printing, interrupted, signals, clock));
    (report, failed)
}

/// Prints the remaining output; returns true if that failed.
pub(super) fn finish_printing(
    printing: Printer,
    interrupted: bool,
    signals: &Signals,
    clock: &Clock,
) -> bool {
    if !interrupted {
        // A slow reader delays the end until a signal arrives.
        select_biased! {
            recv(printing.ended()) -> _ => {}
            recv(signals.first) -> _ => {}
        }
    }
    match printing.join_deadline(clock.now() + PRINT_REST) {
        Some(Ok(Ok(()))) => return false,
        Some(Ok(Err(error))) => {
            message!("cannot write to standard output: {error}");
        }
        Some(Err(panicked)) => super::output::print_message(&panicked.to_string()),
        None => {
            message!("standard output is blocked: the last events are not printed");
            return false;
        }
    }
    true
}

/// Prints what was lost on standard error, in one line; returns true if that is a failure. Losses that the log
/// itself records are none, nor is a run that another process writes, which has been announced.
pub(super) fn report_problems(mut report: Report) -> bool {
    if report.is_clean() {
        return false;
    }
    super::output::print_message(&report.to_string());
    if let Some(log) = &mut report.log {
        log.unlogged.clear();
        log.lost.retain(|lost| !lost.is_recorded);
    }
    !report.is_clean()
}

/// Prints the number of lines beyond `--max-lines`, if there are any.
pub(super) fn print_lost_lines(lines: u64) {
    let lines = match lines {
        0 => return,
        1 => "1 more line was".to_owned(),
        more => format!("{more} more lines were"),
    };
    message!("{lines} neither shown nor kept: see --max-lines");
}

/// Prints how an agent that wrote whole messages writes them word by word, if people read them: a pipe has no use
/// for the hint.
pub(super) fn print_streaming_hint(has_whole_messages: bool, options: &Options) {
    let is_read = std::io::stdout().is_terminal() && !options.json && !options.quiet;
    if has_whole_messages && is_read {
        message!(
            "hint: the agent printed whole messages: with --include-partial-messages Claude Code prints \
             each word as it comes"
        );
    }
}

/// The file, which remains empty until the end, so that it never contains the report of an earlier run; and the
/// report that is being collected.
pub(super) struct JunitFile {
    path: PathBuf,
    file: File,
    thread: Handle<JunitReport>,
}

impl JunitFile {
    /// Creates the file, and starts to collect events. Call it before the source is attached.
    pub fn collect(path: &Path, engine: &Engine, mut report: JunitReport) -> Result<Self, Failure> {
        let file = File::create(path)
            .map_err(|cause| usage!("--junit: cannot write {path:?}: {cause}"))?;
        let mut events = engine.subscribe_with(everything());
        let thread = thread::spawn("td-junit", move || {
            for delivery in events.iter() {
                match delivery {
                    // The final state of a line follows its intermediate states.
                    Delivery::Event(event) if event.seq.is_none() => {}
                    Delivery::Event(event) => report.push(&event),
                    Delivery::Lagged { missed } => report.lagged(missed),
                }
            }
            report
        })?;
        Ok(Self {
            path: path.to_owned(),
            file,
            thread,
        })
    }

    /// Writes the report, once the bus is closed. Returns false if that failed, after a message.
    #[must_use = "a success must not hide a report that is missing"]
    pub fn finish(mut self, problem: Option<&str>) -> bool {
        let report = match self.thread.join() {
            Ok(report) => report,
            Err(panicked) => {
                super::output::print_message(&panicked.to_string());
                return false;
            }
        };
        let written = self.file.write_all(report.finish(problem).as_bytes());
        if let Err(cause) = &written {
            message!("--junit: cannot write {:?}: {cause}", self.path);
        }
        written.is_ok()
    }
}
