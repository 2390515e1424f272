//! Views: events in, lines on standard output out.
//!
//! ```text
//! console, json (pure): a delivery ─> text
//! printer (td-printer): a subscription ─> standard output
//! ```
//!
//! Whatever a pane, a name or a message holds, no control character of it reaches the terminal:
//! everything passes through `clean`. The renderers own no thread, channel, file or clock.

mod printer;

mod console;
mod json;
mod names;

mod clean;

pub(crate) use clean::one_line;
pub(crate) use console::{Console, Look, Standing};
pub(crate) use printer::{Printing, View};
