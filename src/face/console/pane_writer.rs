//! Writes the lines of a pane: labelled, wrapped, those that read like errors in red (pure).

use super::error_lines::is_error;
use super::line_buffer::Print;
use super::line_styles::Paints;
use super::pane_display::Shown;
use super::printed_rows::Body;
use super::row_writer::Rows;
use crate::event::lines_in;
use crate::face::clean::{are_printable, push_clean};
use crate::face::session_labels::Label;
use crate::face::tone::Tone;

/// Writes what is to be printed of a pane.
pub(super) struct Writer<'a> {
    rows: &'a Rows,
    label: &'a Label,
    /// The pane's number.
    pane: u64,
    /// The programs' own colours.
    paints: &'a Paints,
    body: &'a mut Body,
    /// Whether lines that read like errors are looked for: agents talk about errors.
    reads: bool,
    /// The last of them.
    pub error: Option<String>,
    out: &'a mut String,
}

impl<'a> Writer<'a> {
    /// Writes to `out` and `body`; of a pane its label, its number, and whether an agent draws it.
    pub fn new(
        rows: &'a Rows,
        (label, pane, is_agent): (&'a Label, u64, bool),
        paints: &'a Paints,
        body: &'a mut Body,
        out: &'a mut String,
    ) -> Self {
        Self {
            rows,
            label,
            pane,
            paints,
            body,
            reads: !is_agent && (rows.look.coloured || rows.columns.is_some()),
            error: None,
            out,
        }
    }

    pub fn show(&mut self, shown: Shown<'_>) {
        match shown {
            Shown::FullScreen => {
                let text = "[full-screen program]";
                self.rows.note(self.label, Tone::Dim, text, self.out);
            }
            Shown::Text(Print::Chunk(first, chunk)) => self.chunk(first, chunk),
            Shown::Text(Print::Line(number, line)) => self.line('|', number, line),
            Shown::Text(Print::Again(number, line)) => self.line('~', number, line),
            Shown::Text(Print::Over(number, line)) => {
                let mut rows = String::new();
                self.push('|', number, line, &mut rows);
                self.body.replace((self.pane, number), Some(&rows));
            }
            Shown::Text(Print::Gone(number)) => self.body.replace((self.pane, number), None),
        }
    }

    fn line(&mut self, mark: char, number: i64, line: &str) {
        let start = self.out.len();
        let mut out = std::mem::take(self.out);
        self.push(mark, number, line, &mut out);
        *self.out = out;
        self.mark(start, number);
    }

    fn push(&mut self, mark: char, number: i64, line: &str, out: &mut String) {
        let tone = self.tone(line);
        match self.paints.paint(number, line) {
            Some(painted) => self.rows.painted(self.label, mark, &painted, out),
            None => self.rows.row(self.label, mark, tone, line, out),
        }
    }

    /// The line with this number stands there from `start` on.
    fn mark(&mut self, start: usize, number: i64) {
        self.body.mark(start, self.out.len(), (self.pane, number));
    }

    /// A chunk may have thousands of lines: what they have in common is made once.
    fn chunk(&mut self, first_line: i64, chunk: &str) {
        let mut before = String::new();
        self.rows.push_label(self.label, '|', &mut before);
        let is_printable = are_printable(chunk);
        let room = self.rows.text_columns(self.label).unwrap_or(usize::MAX);
        let has_colours = !self.paints.is_empty();
        for (number, line) in (first_line..=i64::MAX).zip(lines_in(chunk)) {
            // As many columns as bytes, at most.
            let is_plain = self.tone(line) == Tone::Plain;
            if !is_plain || line.len() > room || has_colours {
                self.line('|', number, line);
                continue;
            }
            let start = self.out.len();
            self.out.push_str(&before);
            if !line.is_empty() {
                self.out.push(' ');
                match is_printable {
                    true => self.out.push_str(line),
                    false => push_clean(self.out, line),
                }
            }
            self.out.push('\n');
            self.mark(start, number);
        }
    }

    fn tone(&mut self, line: &str) -> Tone {
        if !self.reads || !is_error(line) {
            return Tone::Plain;
        }
        self.error = Some(line.to_owned());
        Tone::Alarm
    }
}
