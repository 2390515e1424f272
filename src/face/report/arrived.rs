//! The report of another host, as it arrives: bounded, redacted again, and made to fit its span (pure).
//!
//! What a host says is foreign: its texts pass through `Text` as those of programs do, its lists end at their bounds, and
//! what does not fit its span is left out.

use serde::Deserialize;

use super::model::{Report, RowReport, SCHEMA};
use crate::board::bands::BandSpan;
use crate::timestamp::Timestamp;

/// Returns the report that a host has printed.
///
/// # Errors
/// The reason why it is none, in words.
pub(crate) fn arrived(
    json: &[u8],
    (since, until): (Timestamp, Timestamp),
    leaves_texts_out: bool,
) -> Result<Report, String> {
    #[derive(Deserialize)]
    struct Version {
        schema: u32,
    }
    let version: Version = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    if version.schema != SCHEMA {
        return Err(format!(
            "its format is {}, and this program reads {SCHEMA}",
            version.schema
        ));
    }
    let mut report: Report = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    report.metadata_only |= leaves_texts_out;
    for row in &mut report.rows {
        fit(&mut row.bands, (since, until));
        if leaves_texts_out {
            leave_texts_out(row);
        }
    }
    if leaves_texts_out {
        report.problems.clear();
        report.runs.iter_mut().for_each(|run| run.problems.clear());
    }
    Ok(report)
}

/// Keeps the activities that follow one another within the span.
fn fit(bands: &mut Vec<BandSpan>, (since, until): (Timestamp, Timestamp)) {
    let mut last = since;
    bands.retain(|span| {
        let fits = span.from >= last && span.from < span.until && span.until <= until;
        if fits {
            last = span.until;
        }
        fits
    });
}

/// Removes all texts from a row, whose host should have left them out.
fn leave_texts_out(row: &mut RowReport) {
    (row.name, row.label, row.pane, row.agent) = (None, None, None, None);
    row.end.detail = None;
    row.end.lines.clear();
    row.summaries.clear();
    row.tools.by_name.clear();
    for question in &mut row.questions.items {
        (question.asks, question.question_id) = (None, None);
    }
    for turn in &mut row.turns.items {
        turn.summary = None;
    }
    for outcome in &mut row.checks.outcomes {
        outcome.detail = None;
    }
    for job in &mut row.jobs.items {
        job.command = None;
        job.lines.clear();
    }
    for error in &mut row.errors.items {
        error.text = None;
    }
    if let Some(transcript) = &mut row.transcript {
        transcript.file = None;
    }
}
