//! Showing an engine's events until it is done, and stopping in the order that loses nothing.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use crossbeam_channel::{Receiver, never, select_biased};

use super::failure::Failure;
use super::options::Options;
use super::report;
use super::signals::Signals;
use crate::agent::StateRules;
use crate::bus::SubscribeOptions;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::face::{Console, ConsoleOptions, Printer, Renderer, Tree, TreeOptions};

/// The time for which text for people is merged.
const CONSOLE_LIMIT: Duration = Duration::from_millis(100);

/// After the engine's end, how long the output may take once the user has asked for the end: with
/// the engine's own ceilings the end comes within two seconds.
pub(super) const PRINT_REST: Duration = Duration::from_millis(400);

/// Begins to show what the engine sends; call it before sources are attached. Nothing with `-q`.
/// `agents` know which rows of a screen are decoration, which is left out then.
pub(super) fn print(
    engine: &Engine,
    options: &Options,
    agents: Option<StateRules>,
    clock: &Clock,
) -> Result<Option<Printer>, Failure> {
    // Text for people is merged: panes change often.
    let merged = SubscribeOptions {
        throttle: Some(CONSOLE_LIMIT),
        ..Default::default()
    };
    let console = || renderer(options, agents);
    show(engine, options, console, merged, clock)
}

/// Returns the form in which the events of panes are shown.
pub(super) fn renderer(options: &Options, agents: Option<StateRules>) -> Renderer {
    if options.json {
        return Renderer::Json;
    }
    let console = Console::new(ConsoleOptions {
        coloured: options.coloured,
        aligned: std::io::stdout().is_terminal(),
        verbose: options.verbose > 0,
        has_timestamps: false,
    })
    .holding();
    let console = match agents {
        Some(rules) => console.without_decoration(rules),
        None => console,
    };
    Renderer::Console(console)
}

/// Begins to show one execution that is about to begin, as a tree on a terminal, each row with the
/// local time if that is wanted. Nothing with `-q`.
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

/// Bounded by its bytes only, and each event as it is: the same numbers as in the log.
fn everything() -> SubscribeOptions {
    SubscribeOptions {
        capacity: Some(usize::MAX),
        ..Default::default()
    }
}

fn show(
    engine: &Engine,
    options: &Options,
    for_people: impl FnOnce() -> Renderer,
    subscribe: SubscribeOptions,
    clock: &Clock,
) -> Result<Option<Printer>, Failure> {
    if options.quiet {
        return Ok(None);
    }
    let (view, subscribe) = match options.json {
        true => (Renderer::Json, everything()),
        false => (for_people(), subscribe),
    };
    let events = engine.subscribe_with(subscribe);
    Ok(Some(Printer::start(events, view, clock.clone())?))
}

/// The end of an engine's work.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    /// True if there was a problem, which was reported.
    pub failed: bool,
    /// True if the user asked for the end.
    pub interrupted: bool,
}

/// Waits until the sources are done, a signal arrives, the reader has gone or the time is up; then
/// stops the engine, prints the remaining output, and reports problems.
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
        recv(signals.first()) -> _ => interrupted = true,
        recv(printed) -> _ => {}
        recv(done) -> _ => {}
        recv(time_up) -> _ => {}
    }
    let failed = finish(engine, printing, interrupted, signals, clock);
    Ended {
        failed,
        interrupted,
    }
}

/// Returns the exit code of the program.
pub(super) fn code(failed: bool) -> ExitCode {
    match failed {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// Stops the engine, prints the remaining output, and reports problems; returns true if there were any. An
/// interrupted program does not wait for its reader.
pub(super) fn finish(
    engine: Engine,
    printing: Option<Printer>,
    interrupted: bool,
    signals: &Signals,
    clock: &Clock,
) -> bool {
    let report = engine.shutdown();
    let failed =
        printing.is_some_and(|printing| finish_printing(printing, interrupted, signals, clock));
    report::print(&report) || failed
}

/// Prints the remaining output; returns true if that failed.
pub(super) fn finish_printing(
    printing: Printer,
    interrupted: bool,
    signals: &Signals,
    clock: &Clock,
) -> bool {
    if !interrupted {
        // The reader may take its time until a signal arrives.
        select_biased! {
            recv(printing.ended()) -> _ => {}
            recv(signals.first()) -> _ => {}
        }
    }
    match printing.join_deadline(clock.now() + PRINT_REST) {
        Some(Ok(Ok(()))) => return false,
        Some(Ok(Err(error))) => {
            super::output::print_message(&format!("cannot write to standard output: {error}"));
        }
        Some(Err(panicked)) => super::output::print_message(&panicked.to_string()),
        None => {
            super::output::print_message(
                "standard output is blocked: the last events are not printed",
            );
            return false;
        }
    }
    true
}
