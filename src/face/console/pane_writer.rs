//! Writes the output of a pane with its label, wrapped, and with error messages in red (pure).

use super::error_lines::is_error_line;
use super::line_buffer::LineOutput;
use super::pane_display::PaneOutput;
use super::printed_rows::PrintedRows;
use super::row_writer::RowWriter;
use crate::event::lines_in;
use crate::face::line_styles::LineStyles;
use crate::face::sanitize::{are_printable, push_sanitized};
use crate::face::session_labels::Label;
use crate::face::tone::Tone;

/// Writes the output of a pane's display.
pub(super) struct PaneWriter<'a> {
    pub rows: &'a RowWriter,
    pub label: &'a Label,
    pub number: u64,
    pub styles: &'a LineStyles,
    pub printed: &'a mut PrintedRows,
    /// True if error messages are recognized. Agents write about errors, so the lines of agents are excluded.
    pub finds_errors: bool,
    /// The last error message.
    pub error: Option<String>,
    pub out: &'a mut String,
}

impl PaneWriter<'_> {
    pub fn write(&mut self, output: PaneOutput<'_>) {
        match output {
            PaneOutput::FullScreen => {
                let text = "[full-screen program]";
                self.rows.row(self.label, '|', Tone::Dim, text, self.out);
            }
            PaneOutput::Lines(LineOutput::Chunk(first, chunk)) => self.write_chunk(first, chunk),
            PaneOutput::Lines(LineOutput::Line(number, line)) => self.write_line('|', number, line),
            PaneOutput::Lines(LineOutput::Changed(number, line)) => {
                self.write_line('~', number, line);
            }
            PaneOutput::Lines(LineOutput::Replace(number, line)) => {
                let mut rows = String::new();
                self.push_rows('|', number, line, &mut rows);
                self.printed.replace((self.number, number), Some(&rows));
            }
            PaneOutput::Lines(LineOutput::Remove(number)) => {
                self.printed.replace((self.number, number), None);
            }
        }
    }

    fn write_line(&mut self, mark: char, number: i64, line: &str) {
        let start = self.out.len();
        let mut out = std::mem::take(self.out);
        self.push_rows(mark, number, line, &mut out);
        *self.out = out;
        self.mark_line(start, number);
    }

    fn push_rows(&mut self, mark: char, number: i64, line: &str, out: &mut String) {
        let tone = self.tone(line);
        let painted = self.styles.paint(number, line);
        let painted = painted.unwrap_or_else(|| self.rows.styled(tone, line));
        self.rows.painted(self.label, mark, &painted, out);
    }

    /// Records that the text from `start` on is the line with this number.
    fn mark_line(&mut self, start: usize, number: i64) {
        self.printed
            .mark_line(start, self.out.len(), (self.number, number));
    }

    /// Writes a chunk. It may have thousands of lines, so their common prefix is rendered once.
    fn write_chunk(&mut self, first_line: i64, chunk: &str) {
        let mut before = String::new();
        self.rows.push_label(self.label, '|', &mut before);
        let is_printable = are_printable(chunk);
        let room = self.rows.text_columns(self.label).unwrap_or(usize::MAX);
        let has_styles = !self.styles.is_empty();
        for (number, line) in (first_line..=i64::MAX).zip(lines_in(chunk)) {
            let is_plain = self.tone(line) == Tone::Plain;
            // A line has at most as many columns as bytes.
            if !is_plain || line.len() > room || has_styles {
                self.write_line('|', number, line);
                continue;
            }
            let start = self.out.len();
            self.out.push_str(&before);
            if !line.is_empty() {
                self.out.push(' ');
                match is_printable {
                    true => self.out.push_str(line),
                    false => push_sanitized(self.out, line),
                }
            }
            self.out.push('\n');
            self.mark_line(start, number);
        }
    }

    fn tone(&mut self, line: &str) -> Tone {
        if !self.finds_errors || !is_error_line(line) {
            return Tone::Plain;
        }
        self.error = Some(line.to_owned());
        Tone::Alarm
    }
}
