//! Tests of the console.

use super::*;
use crate::face::samples::*;

mod agents;
mod lines;
mod pipe;
mod terminal;

fn coloured() -> Console {
    Console::new(ConsoleOptions {
        coloured: true,
        ..ConsoleOptions::default()
    })
}

fn verbose() -> Console {
    Console::new(ConsoleOptions {
        verbose: true,
        ..ConsoleOptions::default()
    })
}

fn show(console: &mut Console, event: TdEvent) -> String {
    let mut out = String::new();
    console.event(&envelope(0, event), &mut out);
    out
}

/// Returns the last live row.
fn live(console: &Console, columns: usize) -> Option<String> {
    console.live((columns, 24), 0).pop()
}

/// Renders events at these times in milliseconds, then finishes.
fn play(mut console: Console, events: impl IntoIterator<Item = (i64, TdEvent)>) -> String {
    let mut out = String::new();
    for (ms, event) in events {
        console.event(&envelope(ms * 1000, event), &mut out);
    }
    console.finish(&mut out);
    out
}

/// Returns an update of a full-screen program.
fn drawn() -> TdEvent {
    screen(80, 24, &[])
}
