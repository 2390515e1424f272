//! Renders one execution as a tree: its command, its output, and how it ended (pure).
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
//! Without its frame, the tree has the same rows. The open line is the live row of a terminal; elsewhere it
//! is written when it is complete, or at the end.

use unicode_width::UnicodeWidthStr;

use super::describe::{describe, duration, lagged};
use super::execution_lines::{ExecutionText, live_text, push_event};
use super::local_time::RowTime;
use super::sanitize::one_line;
use super::stream_lines::StreamLines;
use super::tone::{Tone, push_styled};
use crate::event::{Envelope, EventKind, TdEvent};

const HEAD: &str = " ╭───";
const ITEM: &str = " ├─► ";
const TEXT: &str = " │   ";
const FOOT: &str = " ╰──●";

/// The appearance of the tree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TreeOptions {
    pub coloured: bool,
    /// True if the frame is drawn.
    pub framed: bool,
    /// True if each row has the local time.
    pub has_timestamps: bool,
}

/// Renders events.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    executions: StreamLines,
    /// The execution whose frame is open.
    open: Option<String>,
    rows: TreeRows,
}

/// Writes rows.
#[derive(Debug, Default)]
struct TreeRows {
    options: TreeOptions,
    /// The frame before a line of text, and before an item.
    text: String,
    item: String,
    time: RowTime,
}

impl Tree {
    pub fn new(options: TreeOptions) -> Self {
        let mut rows = TreeRows {
            options,
            time: RowTime::new(options.has_timestamps),
            ..TreeRows::default()
        };
        if options.framed {
            let dim = Tone::Dim.style();
            push_styled(&mut rows.text, options.coloured, dim, TEXT.trim_end());
            rows.text.push_str("   ");
            push_styled(&mut rows.item, options.coloured, dim, ITEM.trim_end());
            rows.item.push(' ');
        }
        Self {
            rows,
            ..Self::default()
        }
    }

    /// Appends the rows of an event.
    pub fn event(&mut self, envelope: &Envelope, out: &mut String) {
        let event = &envelope.event;
        // The header of a log file is not an event of the execution.
        if event.kind() == EventKind::LogOpened {
            return;
        }
        self.rows.time.set(envelope.ts);
        self.open(event.execution_id(), out);
        if matches!(event, TdEvent::LogGap { .. }) {
            self.end_lines(out);
        }
        let rows = &self.rows;
        let prefix = rows.text_prefix();
        let is_text = push_event(&mut self.executions, event, &mut |text| {
            text.push(out, &prefix, rows.options.coloured);
        });
        let foot = match event {
            TdEvent::ExecutionCompleted {
                pane: None,
                duration_ms,
                ..
            } => Some(format!("after {}", duration(*duration_ms))),
            TdEvent::LoopCompleted { .. } => Some(String::new()),
            _ => None,
        };
        let description = describe(event, false).filter(|text| !is_text && !text.is_detail);
        if let Some(description) = description {
            let has_duration = foot.is_none() || !rows.options.framed;
            let text = match has_duration {
                true => description.text_with_duration(),
                false => description.text.clone(),
            };
            match description.label() {
                Some(label) => rows.item(label, description.tone, &text, out),
                None => rows.item(&text, description.tone, "", out),
            }
        }
        if let Some(text) = foot {
            self.rows.foot(&text, out);
            self.open = None;
        }
    }

    /// Appends a row that reports the number of missed events.
    pub fn lagged(&mut self, missed: u64, out: &mut String) {
        // Text after the gap does not continue these lines.
        self.end_lines(out);
        let text = lagged(missed);
        self.rows.item("missing", Tone::Caution, &text, out);
    }

    /// Returns the live row without a line end, cut to `columns`.
    pub fn live(&self, columns: usize) -> Option<String> {
        let options = self.rows.options;
        let frame = if options.framed { TEXT.width() } else { 0 };
        let columns = columns.checked_sub(frame)?;
        let text = live_text(self.executions.live()?, options.coloured, columns)?;
        Some([self.rows.text.as_str(), &text].concat())
    }

    /// Appends the lines that are still open, and the end of the frame.
    pub fn finish(&mut self, out: &mut String) {
        self.end_lines(out);
        if self.open.take().is_some() {
            self.rows.foot("", out);
        }
    }

    fn end_lines(&mut self, out: &mut String) {
        let rows = &self.rows;
        let prefix = rows.text_prefix();
        self.executions.end_all(&mut |line| {
            ExecutionText::Line(line).push(out, &prefix, rows.options.coloured);
        });
    }

    /// Begins the frame of an execution, unless it is open.
    fn open(&mut self, id: &str, out: &mut String) {
        if self.open.as_deref() != Some(id) {
            if self.rows.options.framed {
                let dim = Tone::Dim.style();
                push_styled(out, self.rows.options.coloured, dim, HEAD);
                out.push_str("< ");
                out.push_str(&one_line(id));
                out.push_str(" >\n");
            }
            self.open = Some(id.to_owned());
        }
    }
}

impl TreeRows {
    /// Returns the prefix of a line of text.
    fn text_prefix(&self) -> String {
        [self.text.as_str(), &self.time.text].concat()
    }

    /// Appends `[label] text`.
    fn item(&self, label: &str, tone: Tone, text: &str, out: &mut String) {
        out.push_str(&self.item);
        out.push_str(&self.time.text);
        let mark = format!("[{label}]");
        push_styled(out, self.options.coloured, Tone::Dim.style(), &mark);
        let text = one_line(text);
        if !text.is_empty() {
            out.push(' ');
            push_styled(out, self.options.coloured, tone.style(), &text);
        }
        out.push('\n');
    }

    /// Ends the frame, if there is one.
    fn foot(&self, text: &str, out: &mut String) {
        if self.options.framed {
            push_styled(out, self.options.coloured, Tone::Dim.style(), FOOT);
            if !text.is_empty() {
                out.push(' ');
                push_styled(out, self.options.coloured, Tone::Dim.style(), text);
            }
            out.push('\n');
        }
    }
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
