//! Views: events in, lines on standard output out.
//!
//! ```text
//! console, tree, json (pure): an event ─> text
//! page:                       events ─> standard output, the live rows last
//! printer (td-printer):       a subscription ─> a page
//! finals (pure):              the events of a log ─> each line as it reads at last
//! cast, transcript (pure):    the events of a log ─> a file's text
//! ```
//!
//! Whatever a pane, a name or a message holds, no control character of it reaches the terminal:
//! everything passes through `clean`, and what programs print through `sgr`, which leaves them their
//! colours. The renderers own no thread, channel, file or clock.

mod printer;

mod foot;
mod page;

mod console;
mod json;
mod names;
// The command `run` shows it.
mod tree;

mod cast;
mod finals;
mod survey;
mod transcript;

mod agents;
mod conversation;
mod executions;
mod flow;
mod loops;

mod open_lines;
mod sgr;

mod clean;
mod tone;
mod words;

#[cfg(test)]
mod samples;

pub(crate) use cast::{Cast, CastOptions};
pub(crate) use clean::one_line;
pub(crate) use console::{Console, Look, Standing};
pub(crate) use finals::{Applied, Finals};
pub(crate) use json::push_line;
pub(crate) use page::{Page, View, unless_broken_pipe};
pub(crate) use printer::Printing;
pub(crate) use survey::Survey;
pub(crate) use transcript::Transcript;
pub(crate) use tree::{Tree, TreeLook};
