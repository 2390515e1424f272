//! How the console writes a row: a label in its colour, a mark, text in its tone (pure).

use anstyle::{AnsiColor, Color, Style};
use unicode_width::UnicodeWidthStr;

use super::Look;
use crate::view::names::{COLOURS, Label};
use crate::view::tone::{Tone, push_styled};
use crate::view::words::{Outcome, duration};

/// Labels are padded to the widest one so far, up to this: more would leave no room for lines.
const LABEL_COLUMNS_MAX: usize = 20;

/// No red, which is for errors, and neither black nor white, which are backgrounds.
const PALETTE: [AnsiColor; COLOURS] = [
    AnsiColor::Cyan,
    AnsiColor::Green,
    AnsiColor::Magenta,
    AnsiColor::Blue,
    AnsiColor::Yellow,
    AnsiColor::BrightCyan,
    AnsiColor::BrightGreen,
    AnsiColor::BrightMagenta,
    AnsiColor::BrightBlue,
    AnsiColor::BrightYellow,
];

/// Writes rows, whose labels are as wide as each other where that is wanted.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub look: Look,
    label_columns: usize,
}

impl Rows {
    pub fn new(look: Look) -> Self {
        Self {
            look,
            label_columns: 0,
        }
    }

    /// A label is used from now on.
    pub fn make_room(&mut self, label: &Label) {
        if self.look.aligned {
            let columns = label.text.width().min(LABEL_COLUMNS_MAX);
            self.label_columns = self.label_columns.max(columns);
        }
    }

    /// A row.
    pub fn row(&self, label: &Label, mark: char, tone: Tone, text: &str, out: &mut String) {
        self.within(label, mark, tone, text, out);
        out.push('\n');
    }

    /// A row about what happens.
    pub fn note(&self, label: &Label, tone: Tone, text: &str, out: &mut String) {
        self.row(label, '|', tone, text, out);
    }

    /// A row about the end of a program.
    pub fn ended(&self, label: &Label, what: &str, outcome: Outcome, ms: u64, out: &mut String) {
        let tone = match outcome.is_good() {
            true => Tone::Dim,
            false => Tone::Caution,
        };
        let text = format!("[{what}{} after {}]", outcome.words(), duration(ms));
        self.note(label, tone, &text, out);
    }

    /// A row without its line end.
    pub fn within(&self, label: &Label, mark: char, tone: Tone, text: &str, out: &mut String) {
        self.push_label(label, mark, out);
        if !text.is_empty() {
            out.push(' ');
            push_styled(out, self.look.coloured, tone.style(), text);
        }
    }

    /// What stands before the text of a row.
    pub fn before(&self, label: &Label) -> String {
        let mut before = String::new();
        self.push_label(label, '|', &mut before);
        before.push(' ');
        before
    }

    /// How wide that is.
    pub fn before_columns(&self, label: &Label) -> usize {
        label.text.width().max(self.label_columns) + 3
    }

    /// Adds what stands before the text of a row, but for the blank between them.
    pub fn push_label(&self, label: &Label, mark: char, out: &mut String) {
        let colour = Color::Ansi(PALETTE[label.colour % COLOURS]);
        let style = Style::new().fg_color(Some(colour));
        push_styled(out, self.look.coloured, style, &label.text);
        let padding = self.label_columns.saturating_sub(label.text.width());
        out.extend(std::iter::repeat_n(' ', padding));
        out.push(' ');
        out.push(mark);
    }
}
