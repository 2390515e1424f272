//! A run as plain text: what its panes read at last, and what else was written (pure).
//!
//! It takes two passes, because a line may have changed after it was said: a [`Survey`] keeps what
//! such lines read at last, then the lines are written in the order in which they came.

use std::fmt::Write;

use super::asciicast::{gap, log_gap};
use super::clean::push_clean;
use super::conversation;
use super::plain_text::Flow;
use super::session_labels::Names;
use super::survey::Survey;
use crate::event::{Envelope, PaneId, TdEvent, lines_in};

/// Writes the text, an envelope at a time.
#[derive(Debug)]
pub(crate) struct TextExport {
    survey: Survey,
    names: Names,
    /// Lines say whose they are.
    is_labelled: bool,
    flow: Flow,
    /// The run's id, as the last event says it.
    execution_id: String,
}

impl TextExport {
    /// For the run that was surveyed, or its pane.
    pub fn new(survey: Survey) -> Self {
        Self {
            names: Names::default(),
            is_labelled: !survey.is_of_one() && survey.panes().nth(1).is_some(),
            flow: Flow::new("\n"),
            execution_id: String::new(),
            survey,
        }
    }

    /// Adds the text of the next envelope of the log: the same that were surveyed.
    pub fn push(&mut self, envelope: &Envelope, out: &mut String) {
        let event = &envelope.event;
        self.names.note(event);
        let id = event.execution_id();
        if self.execution_id != id {
            id.clone_into(&mut self.execution_id);
        }
        if let Some(lines) = conversation::lines(event, false) {
            if event.pane().is_some_and(|pane| self.survey.is_wanted(pane)) {
                for line in lines {
                    self.line(id, event.pane(), &line.text, out);
                }
            }
            return;
        }
        match event {
            TdEvent::OutputUpdate {
                pane,
                first_line,
                chunk,
                ..
            } if self.survey.is_wanted(pane) => {
                self.lines_below(id, pane, *first_line, out);
                for (number, line) in (*first_line..=i64::MAX).zip(lines_in(chunk)) {
                    let last = self.survey.take(pane, number);
                    self.line(id, Some(pane), last.as_deref().unwrap_or(line), out);
                }
            }
            TdEvent::OutputGap {
                pane,
                first_line,
                lost_lines,
                reason,
                evidence,
                ..
            } if self.survey.is_wanted(pane) => {
                self.lines_below(id, pane, *first_line, out);
                if let Some(gap) = gap(*lost_lines, reason, *evidence) {
                    self.line(id, Some(pane), &format!("[{gap}]"), out);
                }
            }
            TdEvent::LogGap {
                first_seq,
                last_seq,
                ..
            } => {
                // What comes next need not go on with lines that are open.
                self.flow.finish(out);
                let gap = format!("[{}]", log_gap(*first_seq, *last_seq));
                self.line(id, None, &gap, out);
            }
            event if !self.survey.is_of_one() => self.flow.push(event, out),
            _ => {}
        }
    }

    /// Adds what is left: lines that were not settled, or not ended, in the end.
    pub fn finish(&mut self, out: &mut String) {
        self.flow.finish(out);
        let id = std::mem::take(&mut self.execution_id);
        for (pane, lines) in self.survey.take_rest() {
            let mut open = Open::default();
            for (number, line) in &lines {
                for line in open.next(*number, line) {
                    self.line(&id, Some(&pane), line, out);
                }
            }
        }
    }

    /// How many lines read as they were said first, because there were too many that changed.
    pub fn unkept(&self) -> u64 {
        self.survey.unkept()
    }

    /// Lines that were never said by `OutputUpdate`: they stood there when observation began, or
    /// were never settled.
    fn lines_below(&mut self, id: &str, pane: &PaneId, end: i64, out: &mut String) {
        let mut open = Open::default();
        while let Some((number, text)) = self.survey.take_below(pane, end) {
            for line in open.next(number, &text) {
                self.line(id, Some(pane), line, out);
            }
        }
    }

    fn line(&mut self, id: &str, pane: Option<&PaneId>, text: &str, out: &mut String) {
        self.flow.make_way(out);
        if self.is_labelled {
            // As the console has it, without padding. Writing to a string does not fail.
            let _ = write!(out, "{} |", self.names.label(id, pane).text);
            if !text.is_empty() {
                out.push(' ');
            }
        }
        push_clean(out, text);
        out.push('\n');
    }
}

/// Lines that were never said by `OutputUpdate`, one after the other.
#[derive(Debug, Default)]
struct Open {
    /// The number of the last line with text, and how many blank ones follow it.
    last: Option<i64>,
    blanks: usize,
}

impl Open {
    /// The lines that are lines now. A blank one is one between two that have text; else it is a row
    /// that has vanished.
    fn next<'t>(&mut self, number: i64, text: &'t str) -> impl Iterator<Item = &'t str> {
        let mut before = 0;
        if text.is_empty() {
            self.blanks += 1;
        } else {
            let blanks = std::mem::take(&mut self.blanks);
            let behind = self.last.replace(number).map(|last| number - last - 1);
            if behind.is_some_and(|behind| usize::try_from(behind) == Ok(blanks)) {
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
