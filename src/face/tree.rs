//! One execution as a tree: its command, what it prints, how it ended (pure).
//!
//! ```text
//!  ╭───< make@1763000000 >
//!  ├─► [command] make test
//!  │   first
//!  │   [stderr] problem
//!  ├─► [execution_status] FAILURE: exit code 7
//!  ╰──● after 1.5 s
//! ```
//!
//! Where it is not drawn, the same rows stand without the frame. The open line is the live line,
//! which a terminal shows last and rewrites; elsewhere it is shown when it is whole, or at the end.

use unicode_width::UnicodeWidthStr;

use super::asciicast::{gap, log_gap};
use super::clean::{one_line, push_clean};
use super::execution_lines::{Executions, Said, live_text, push_row, push_rows};
use super::tone::{Tone, push_styled};
use super::words::{Outcome, duration, lagged};
use crate::event::{Envelope, EventKind, TdEvent};

const HEAD: &str = " ╭───";
const ITEM: &str = " ├─► ";
const TEXT: &str = " │   ";
const FOOT: &str = " ╰──●";

/// How the tree looks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TreeOptions {
    /// With colours.
    pub coloured: bool,
    /// With its frame.
    pub drawn: bool,
}

/// Renders events.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    executions: Executions,
    /// Whose frame is open.
    open: Option<String>,
    rows: Rows,
}

/// How rows are written.
#[derive(Debug, Default)]
struct Rows {
    look: TreeOptions,
    /// What stands before a line of text, and before what is said about it.
    text: String,
    item: String,
}

impl Tree {
    pub fn new(look: TreeOptions) -> Self {
        let mut rows = Rows {
            look,
            ..Rows::default()
        };
        if look.drawn {
            let dim = Tone::Dim.style();
            push_styled(&mut rows.text, look.coloured, dim, TEXT.trim_end());
            rows.text.push_str("   ");
            push_styled(&mut rows.item, look.coloured, dim, ITEM.trim_end());
            rows.item.push(' ');
        }
        Self {
            rows,
            ..Self::default()
        }
    }

    /// Adds the rows of an event.
    pub fn event(&mut self, envelope: &Envelope, out: &mut String) {
        let event = &envelope.event;
        // The header of a log file is no part of what happened.
        if event.kind() == EventKind::LogOpened {
            return;
        }
        self.open(event.execution_id(), out);
        if matches!(event, TdEvent::LogGap { .. }) {
            self.break_off(out);
        }
        let rows = &self.rows;
        let is_taken = self.executions.take(event, &mut |said| match said {
            Said::Started(command) => rows.item("command", Tone::Plain, command, out),
            Said::CheckStarted(command) => rows.item("validation", Tone::Plain, command, out),
            Said::Line(line) => push_row(out, &rows.text, line, rows.look.coloured),
            Said::Plain { stream, lines } => {
                push_rows(out, &rows.text, stream, lines, rows.look.coloured);
            }
            Said::Agent(row) => rows.item(row.name, row.tone, &row.text, out),
            Said::Completed(outcome, ms) => rows.completed(outcome, ms, out),
            Said::CheckCompleted(outcome, ms) => {
                let (tone, text) = match outcome.is_good() {
                    true => (Tone::Good, "PASSED".to_owned()),
                    false => (Tone::Alarm, format!("FAILED: {}", outcome.words())),
                };
                let text = format!("{text} after {}", duration(ms));
                rows.item("validation", tone, &text, out);
            }
        });
        match event {
            TdEvent::ExecutionCompleted { pane: None, .. } => self.open = None,
            TdEvent::LoopCompleted { .. } => {
                rows.foot("", out);
                self.open = None;
            }
            _ if is_taken => {}
            TdEvent::Warning {
                context, message, ..
            } => rows.item("warning", Tone::Caution, &said_in(context, message), out),
            TdEvent::Error {
                context, message, ..
            } => rows.item("error", Tone::Alarm, &said_in(context, message), out),
            TdEvent::LogGap {
                first_seq,
                last_seq,
                ..
            } => {
                let count = last_seq.saturating_sub(*first_seq).saturating_add(1);
                let text = format!("{count}: {}", log_gap(*first_seq, *last_seq));
                rows.item("missing", Tone::Caution, &text, out);
            }
            TdEvent::OutputGap {
                lost_lines,
                reason,
                evidence,
                ..
            } => {
                if let Some(text) = gap(*lost_lines, reason, *evidence) {
                    rows.item("missing", Tone::Caution, &text, out);
                }
            }
            other => rows.item(other.type_name(), Tone::Dim, "", out),
        }
    }

    /// Adds a row that says how much was not shown.
    pub fn lagged(&mut self, missed: u64, out: &mut String) {
        // What comes next need not go on with these lines.
        self.break_off(out);
        self.rows
            .item("missing", Tone::Caution, &lagged(missed), out);
    }

    /// The live line, within so many columns; without a line end.
    pub fn live(&self, columns: usize) -> Option<String> {
        let coloured = self.rows.look.coloured;
        let taken = if self.rows.look.drawn {
            TEXT.width()
        } else {
            0
        };
        let columns = columns.checked_sub(taken)?;
        let text = live_text(self.executions.live()?, coloured, columns)?;
        Some([self.rows.text.as_str(), &text].concat())
    }

    /// Adds what is left: lines that were never ended, and the end of the frame.
    pub fn finish(&mut self, out: &mut String) {
        self.break_off(out);
        if self.open.take().is_some() {
            self.rows.foot("", out);
        }
    }

    fn break_off(&mut self, out: &mut String) {
        let rows = &self.rows;
        self.executions.break_off(&mut |said| {
            if let Said::Line(line) = said {
                push_row(out, &rows.text, line, rows.look.coloured);
            }
        });
    }

    /// Begins the frame of an execution, if it is not the one that is open.
    fn open(&mut self, id: &str, out: &mut String) {
        if self.open.as_deref() != Some(id) {
            if self.rows.look.drawn {
                let rule = Tone::Dim.style();
                push_styled(out, self.rows.look.coloured, rule, HEAD);
                out.push_str("< ");
                out.push_str(&one_line(id));
                out.push_str(" >\n");
            }
            self.open = Some(id.to_owned());
        }
    }
}

impl Rows {
    /// Adds `[name] text`.
    fn item(&self, name: &str, tone: Tone, text: &str, out: &mut String) {
        out.push_str(&self.item);
        let mut mark = String::from("[");
        push_clean(&mut mark, name);
        mark.push(']');
        push_styled(out, self.look.coloured, Tone::Dim.style(), &mark);
        let text = one_line(text);
        if !text.is_empty() {
            out.push(' ');
            push_styled(out, self.look.coloured, tone.style(), &text);
        }
        out.push('\n');
    }

    fn completed(&self, outcome: Outcome, ms: u64, out: &mut String) {
        let (tone, mut text) = match outcome.is_good() {
            true => (Tone::Good, "SUCCESS".to_owned()),
            false => (Tone::Alarm, format!("FAILURE: {}", outcome.words())),
        };
        let after = format!("after {}", duration(ms));
        if !self.look.drawn {
            text = format!("{text}, {after}");
        }
        self.item("execution_status", tone, &text, out);
        self.foot(&after, out);
    }

    /// Ends the frame, if there is one.
    fn foot(&self, text: &str, out: &mut String) {
        if self.look.drawn {
            push_styled(out, self.look.coloured, Tone::Dim.style(), FOOT);
            if !text.is_empty() {
                out.push(' ');
                push_styled(out, self.look.coloured, Tone::Dim.style(), text);
            }
            out.push('\n');
        }
    }
}

fn said_in(context: &str, message: &str) -> String {
    format!("{context}: {message}")
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
