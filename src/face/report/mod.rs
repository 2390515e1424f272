//! The report of a night: what needs the user, what each row did, why it ended, and what was lost.
//!
//! ```text
//! pass (threads td-report-N):   the histories ─> fold (pure): the figures of each row
//! build, end (pure):            the folds of all runs ─> model: the report, also as JSON
//! arrived, merge (pure):        the reports of other hosts ─> one model
//! terminal, markdown, html (pure): the report ─> text, with the same words
//! ```

#[cfg(feature = "hosts")]
mod arrived;
mod build;
mod conversations;
mod end;
mod fold;
mod foreign;
mod html;
mod last_lines;
mod markdown;
#[cfg(feature = "hosts")]
mod merge;
mod model;
mod pass;
mod recent;
mod schema;
mod tally;
mod terminal;
mod text;
mod transcript;
mod words;

#[cfg(feature = "hosts")]
pub(crate) use arrived::arrived;
pub(crate) use html::html;
pub(crate) use markdown::markdown;
#[cfg(feature = "hosts")]
pub(crate) use merge::{HostReport, merged};
pub(crate) use model::Report;
pub(crate) use pass::{PassProgress, ReportQuery, read_report};
pub(crate) use schema::json_schema;
pub(crate) use terminal::TerminalReport;
pub(crate) use text::Texts;

/// Returns the report of these events, of one run, in each of its formats: JSON, a terminal's of 80 columns, Markdown and a
/// page.
#[cfg(feature = "internals")]
pub(crate) fn in_all_formats(
    events: impl Iterator<Item = crate::event::Envelope>,
    (since, until): (crate::timestamp::Timestamp, crate::timestamp::Timestamp),
) -> [String; 4] {
    let texts = Texts::new(crate::redact::Rules::none(), false);
    let span = tally::Span { since, until };
    let mut fold = fold::RunFold::new(span);
    for envelope in events {
        fold.apply(&envelope, &texts, &mut |_| None);
    }
    let local = crate::face::LocalTime::of_system();
    let mut builder = build::ReportBuilder {
        span,
        texts: &texts,
        local: local.clone(),
    };
    let (report, rows) = builder.build_one(fold);
    let rows = rows.into_iter().map(|row| row.report).collect();
    let report = builder.finish(report, rows);
    let terminal = TerminalReport {
        width: 80,
        is_coloured: false,
        is_verbose: true,
    };
    [
        serde_json::to_string(&report).unwrap_or_default(),
        terminal.render(&report, local.clone()),
        markdown(&report, local.clone()),
        html(&report, local),
    ]
}
