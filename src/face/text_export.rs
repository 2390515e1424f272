//! Exports a run as plain text: the final lines of its panes, and all other text (pure).
//!
//! The export takes two passes, because a line may change after its first report: a [`Survey`] collects the
//! last text of such lines, then the lines are written in the order of their events.

use std::collections::HashMap;
use std::fmt::Write;

use super::conversation::conversation_lines;
use super::describe::describe;
use super::plain_text::PlainText;
use super::sanitize::push_sanitized;
use super::session_labels::SessionLabels;
use super::survey::Survey;
use crate::event::{Envelope, PaneId, ScreenRow, TdEvent, lines_in};

/// Writes the text, one envelope at a time.
#[derive(Debug)]
pub(crate) struct TextExport {
    survey: Survey,
    labels: SessionLabels,
    /// True if lines name their pane.
    is_labelled: bool,
    plain: PlainText,
    /// The execution of the last event.
    execution_id: String,
    /// The rows of the last snapshot of each pane.
    screens: HashMap<PaneId, Vec<ScreenRow>>,
}

impl TextExport {
    /// Exports the surveyed run or pane.
    pub fn new(survey: Survey) -> Self {
        Self {
            labels: SessionLabels::default(),
            is_labelled: !survey.is_single_pane() && survey.panes().nth(1).is_some(),
            plain: PlainText::new("\n"),
            execution_id: String::new(),
            screens: HashMap::new(),
            survey,
        }
    }

    /// Appends the text of the next envelope of the surveyed log.
    pub fn push(&mut self, envelope: &Envelope, out: &mut String) {
        let event = &envelope.event;
        self.labels.note(event);
        let id = event.execution_id();
        if self.execution_id != id {
            id.clone_into(&mut self.execution_id);
        }
        let is_included = event.pane().is_none_or(|pane| self.survey.includes(pane));
        if let Some(lines) = conversation_lines(event, false) {
            for line in lines.iter().filter(|_| is_included) {
                self.push_line(id, event.pane(), &line.text, out);
            }
            return;
        }
        match event {
            TdEvent::OutputUpdate {
                pane,
                first_line,
                chunk,
                ..
            } if is_included => {
                self.push_lines_below(id, pane, *first_line, out);
                for (number, line) in (*first_line..=i64::MAX).zip(lines_in(chunk)) {
                    let last = self.survey.take(pane, number);
                    self.push_line(id, Some(pane), last.as_deref().unwrap_or(line), out);
                }
            }
            TdEvent::OutputGap {
                pane, first_line, ..
            } if is_included => {
                self.push_lines_below(id, pane, *first_line, out);
                self.push_gap(event, out);
            }
            TdEvent::ScreenSnapshot { pane, rows, .. } if is_included => {
                let shown = self.screens.insert(pane.clone(), rows.clone());
                let shown = shown.unwrap_or_default();
                // Rows that were on the previous screen are in the text already.
                let new = |row: &&ScreenRow| shown.iter().all(|shown| shown.text != row.text);
                for row in rows.iter().filter(new) {
                    self.push_line(id, Some(pane), &row.text, out);
                }
            }
            TdEvent::LogGap { .. } => {
                // Text after the gap does not continue open lines.
                self.plain.finish(out);
                self.push_gap(event, out);
            }
            event if !self.survey.is_single_pane() => {
                self.plain.push(event, out);
            }
            _ => {}
        }
    }

    /// Appends the lines that have not settled, and those that are still open.
    pub fn finish(&mut self, out: &mut String) {
        self.plain.finish(out);
        let id = std::mem::take(&mut self.execution_id);
        for (pane, lines) in self.survey.take_remaining() {
            let mut unsettled = UnsettledLines::default();
            for (number, line) in &lines {
                for line in unsettled.next(*number, line) {
                    self.push_line(&id, Some(&pane), line, out);
                }
            }
        }
    }

    /// Returns the number of changed lines that keep their first text, because there were too many.
    pub fn dropped_revisions(&self) -> u64 {
        self.survey.dropped_revisions()
    }

    /// Appends lines that are in no `OutputUpdate`: lines of the baseline, and lines that never settled.
    fn push_lines_below(&mut self, id: &str, pane: &PaneId, end: i64, out: &mut String) {
        let mut unsettled = UnsettledLines::default();
        while let Some((number, text)) = self.survey.take_below(pane, end) {
            for line in unsettled.next(number, &text) {
                self.push_line(id, Some(pane), line, out);
            }
        }
    }

    fn push_gap(&mut self, event: &TdEvent, out: &mut String) {
        if let Some(gap) = describe(event, false).filter(|gap| !gap.is_detail) {
            let gap = format!("[{}]", gap.text);
            self.push_line(event.execution_id(), event.pane(), &gap, out);
        }
    }

    fn push_line(&mut self, id: &str, pane: Option<&PaneId>, text: &str, out: &mut String) {
        self.plain.interrupt(out);
        if self.is_labelled {
            // As on the console, but without padding. Writing to a string does not fail.
            let _ = write!(out, "{} |", self.labels.label(id, pane).text);
            if !text.is_empty() {
                out.push(' ');
            }
        }
        push_sanitized(out, text);
        out.push('\n');
    }
}

/// Decides which blank rows among unsettled lines count as lines.
#[derive(Debug, Default)]
struct UnsettledLines {
    /// The number of the last line with text.
    last: Option<i64>,
    /// The number of blank rows after it.
    blanks: usize,
}

impl UnsettledLines {
    /// Returns the lines that are now certain. A blank row between lines with text is a line; any other blank
    /// row was erased.
    fn next<'t>(&mut self, number: i64, text: &'t str) -> impl Iterator<Item = &'t str> {
        let mut before = 0;
        if text.is_empty() {
            self.blanks += 1;
        } else {
            let blanks = std::mem::take(&mut self.blanks);
            let distance = self.last.replace(number).map(|last| number - last - 1);
            if distance.is_some_and(|distance| usize::try_from(distance) == Ok(blanks)) {
                before = blanks;
            }
        }
        let line = Some(text).filter(|text| !text.is_empty());
        std::iter::repeat_n("", before).chain(line)
    }
}

#[cfg(test)]
#[path = "text_export_tests.rs"]
mod tests;
