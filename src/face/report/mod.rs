//! The report of a night: what needs the user, what each row did, why it ended, and what was lost.
//!
//! ```text
//! pass (threads td-report-N):   the histories ─> fold (pure): the figures of each row
//! build, end (pure):            the folds of all runs ─> model: the report, also as JSON
//! terminal, markdown, html (pure): the report ─> text, with the same words
//! ```

mod build;
mod conversations;
mod end;
mod fold;
mod html;
mod last_lines;
mod markdown;
mod model;
mod pass;
mod schema;
mod tally;
mod terminal;
mod text;
mod transcript;
mod words;

pub(crate) use html::html;
pub(crate) use markdown::markdown;
pub(crate) use pass::{PassProgress, ReportQuery, read_report};
pub(crate) use schema::json_schema;
pub(crate) use terminal::TerminalReport;
pub(crate) use text::Texts;
