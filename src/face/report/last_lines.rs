//! The last lines that a program printed before it failed.

use super::text::{Text, Texts};
use crate::agent::StateRules;
use crate::event::{Envelope, TdEvent};
use crate::history::{LogPages, PageQuery, RunDirectory};

/// The most lines: an error and what led to it.
const LINES_MAX: usize = 5;

/// The most events that are read for them: enough to see the beginning of a key of which they would show the end.
const EVENTS_MAX: usize = 200;

/// The most bytes of their lines in the log.
const BYTES_MAX: usize = 256 * 1024;

/// Returns the last lines that a pane, or the execution itself, printed before an event. Where the log cannot be read,
/// there are none: the pass has reported it.
pub(super) fn lines_before(
    run: &RunDirectory,
    seq: u64,
    pane: Option<&str>,
    texts: &Texts,
    is_stopped: &dyn Fn() -> bool,
) -> Vec<Text> {
    if texts.is_left_out() {
        return Vec::new();
    }
    let is_own = |envelope: &Envelope| {
        let of = envelope.event.pane().map(|pane| pane.as_str());
        of == pane && text_of(&envelope.event).is_some_and(|text| !text.trim().is_empty())
    };
    let query = PageQuery {
        records_max: EVENTS_MAX,
        bytes_max: BYTES_MAX,
        selects: &is_own,
        is_stopped,
    };
    let page = LogPages::new(run).before(seq, &query).unwrap_or_default();
    // Parts of a line follow one another.
    let texts_of = page.events.iter().filter_map(|of| text_of(&of.event));
    let text: String = texts_of.collect();
    // A shell shows the command again, behind its prompt.
    let rules = StateRules::builtin();
    let is_typed = |line: &str| rules.is_prompt(line) || rules.is_typed(line, pane.is_some());
    texts.last_lines(&text, LINES_MAX, |line| !is_typed(line))
}

/// Returns what a program printed.
fn text_of(event: &TdEvent) -> Option<&str> {
    match event {
        TdEvent::OutputUpdate { chunk, .. } => Some(chunk),
        TdEvent::ExecutionOutput { text, .. } => Some(text),
        _ => None,
    }
}
