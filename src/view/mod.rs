//! Views: events in, lines on standard output out.
//!
//! ```text
//! console, json (pure): a delivery ─> text
//! printer (td-printer): a subscription ─> standard output
//! cast, transcript (pure): the envelopes of a log ─> a file's text
//! ```
//!
//! Whatever a pane, a name or a message holds, no control character of it reaches the terminal:
//! everything passes through `clean`. The renderers own no thread, channel, file or clock.

mod printer;

mod console;
mod json;
mod names;

#[allow(dead_code, reason = "td-observe export, which is to come, calls it")]
mod cast;
#[allow(dead_code, reason = "td-observe export, which is to come, calls it")]
mod survey;
#[allow(dead_code, reason = "td-observe export, which is to come, calls it")]
mod transcript;

mod clean;
mod flow;

#[allow(
    unused_imports,
    reason = "td-observe export, which is to come, uses it"
)]
pub(crate) use cast::{Cast, CastOptions};
pub(crate) use clean::one_line;
pub(crate) use console::{Console, Look, Standing};
pub(crate) use printer::{Printing, View};
#[allow(
    unused_imports,
    reason = "td-observe export, which is to come, uses it"
)]
pub(crate) use survey::Survey;
#[allow(
    unused_imports,
    reason = "td-observe export, which is to come, uses it"
)]
pub(crate) use transcript::Transcript;
