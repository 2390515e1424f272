//! Writes the lines of a pane: labelled, wrapped, those that read like errors in red (pure).

use super::errors::is_error;
use super::lines::Print;
use super::pane::Shown;
use super::rows::Rows;
use crate::event::lines_in;
use crate::view::clean::{are_printable, push_clean};
use crate::view::names::Label;
use crate::view::tone::Tone;

/// Writes what is to be printed of a pane.
pub(super) struct Writer<'a> {
    rows: &'a Rows,
    label: &'a Label,
    /// Whether lines that read like errors are looked for: agents talk about errors.
    reads: bool,
    /// The last of them.
    pub error: Option<String>,
    out: &'a mut String,
}

impl<'a> Writer<'a> {
    pub fn new(rows: &'a Rows, label: &'a Label, is_agent: bool, out: &'a mut String) -> Self {
        Self {
            rows,
            label,
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
            Shown::Text(Print::Chunk(chunk)) => self.chunk(chunk),
            Shown::Text(Print::Line(line)) => self.line('|', line),
            Shown::Text(Print::Again(line)) => self.line('~', line),
        }
    }

    fn line(&mut self, mark: char, line: &str) {
        let tone = self.tone(line);
        self.rows.row(self.label, mark, tone, line, self.out);
    }

    /// A chunk may have thousands of lines: what they have in common is made once.
    fn chunk(&mut self, chunk: &str) {
        let mut before = String::new();
        self.rows.push_label(self.label, '|', &mut before);
        let is_printable = are_printable(chunk);
        let room = self.rows.text_columns(self.label).unwrap_or(usize::MAX);
        for line in lines_in(chunk) {
            // As many columns as bytes, at most.
            let is_plain = self.tone(line) == Tone::Plain;
            if !is_plain || line.len() > room {
                self.line('|', line);
                continue;
            }
            self.out.push_str(&before);
            if !line.is_empty() {
                self.out.push(' ');
                match is_printable {
                    true => self.out.push_str(line),
                    false => push_clean(self.out, line),
                }
            }
            self.out.push('\n');
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
