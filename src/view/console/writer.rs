//! Writes the lines of a pane: labelled, wrapped, those that read like errors in red (pure).

use super::errors::is_error;
use super::lines::Print;
use super::paints::Paints;
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
    /// The programs' own colours.
    paints: &'a Paints,
    /// Whether lines that read like errors are looked for: agents talk about errors.
    reads: bool,
    /// The last of them.
    pub error: Option<String>,
    out: &'a mut String,
}

impl<'a> Writer<'a> {
    pub fn new(
        rows: &'a Rows,
        label: &'a Label,
        paints: &'a Paints,
        is_agent: bool,
        out: &'a mut String,
    ) -> Self {
        Self {
            rows,
            label,
            paints,
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
        }
    }

    fn line(&mut self, mark: char, number: i64, line: &str) {
        let tone = self.tone(line);
        if let Some(painted) = self.paints.paint(number, line) {
            return self.rows.painted(self.label, mark, &painted, self.out);
        }
        self.rows.row(self.label, mark, tone, line, self.out);
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
