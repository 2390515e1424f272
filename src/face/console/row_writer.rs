//! How the console writes a row: a label in its colour, a mark, text in its tone (pure).

use anstyle::{AnsiColor, Color, Style};
use unicode_width::UnicodeWidthStr;

use super::ConsoleOptions;
use crate::face::clean::{cut, push_clean};
use crate::face::session_labels::{COLOURS, Label};
use crate::face::sgr::{cut_painted, wrap_painted};
use crate::face::tone::{Tone, push_styled};
use crate::face::words::{Outcome, duration};

/// Labels are padded to the widest one so far, up to this: more would leave no room for lines.
const LABEL_COLUMNS_MAX: usize = 20;

/// What stands between a label and the rest of a line that is longer than the terminal.
const GOES_ON: char = '┆';

/// Less is no room for text: such a terminal wraps by itself.
const TEXT_COLUMNS_MIN: usize = 10;

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
    pub look: ConsoleOptions,
    /// Where there is a terminal: how many columns may be written to.
    pub columns: Option<usize>,
    label_columns: usize,
}

impl Rows {
    pub fn new(look: ConsoleOptions) -> Self {
        Self {
            look,
            columns: None,
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

    /// A row, or more where the terminal is not wide enough: each has the label, and its tone.
    pub fn row(&self, label: &Label, mark: char, tone: Tone, text: &str, out: &mut String) {
        let room = self.text_columns(label);
        if room.is_some_and(|room| text.len() > room) {
            let mut plain = String::new();
            push_clean(&mut plain, text);
            return self.wrapped(label, mark, tone, &plain, out);
        }
        self.within(label, mark, tone, text, out);
        out.push('\n');
    }

    fn wrapped(&self, label: &Label, mark: char, tone: Tone, plain: &str, out: &mut String) {
        let room = self.text_columns(label).unwrap_or(usize::MAX);
        let (mut rest, mut mark) = (plain, mark);
        loop {
            let mut row = cut(rest, room);
            if row.is_empty() {
                // A character that is wider than the room.
                row = rest;
            }
            self.within(label, mark, tone, row, out);
            out.push('\n');
            rest = &rest[row.len()..];
            if rest.is_empty() {
                return;
            }
            mark = GOES_ON;
        }
    }

    /// The same for text that is painted: its own colours end with it.
    pub fn painted(&self, label: &Label, mark: char, painted: &str, out: &mut String) {
        let room = self.text_columns(label).unwrap_or(usize::MAX);
        for (at, row) in wrap_painted(painted, room).iter().enumerate() {
            self.push_label(label, if at == 0 { mark } else { GOES_ON }, out);
            out.push(' ');
            out.push_str(row);
            out.push('\n');
        }
    }

    /// How many columns there are for text, where that matters.
    pub fn text_columns(&self, label: &Label) -> Option<usize> {
        let room = self.columns?.checked_sub(self.before_columns(label))?;
        (room >= TEXT_COLUMNS_MIN).then_some(room)
    }

    /// Puts the label before the rows of painted lines that are too long for the terminal; `out` ends
    /// with them, from `start` on, each behind `before`.
    pub fn wrap_painted(&self, label: &Label, before: &str, start: usize, out: &mut String) {
        let Some(room) = self.text_columns(label) else {
            return;
        };
        if out[start..]
            .lines()
            .all(|line| line.len() <= room + before.len())
        {
            return;
        }
        let mut goes_on = String::new();
        self.push_label(label, GOES_ON, &mut goes_on);
        goes_on.push(' ');
        let lines = out.split_off(start);
        for line in lines.lines() {
            let Some(text) = line.strip_prefix(before) else {
                out.push_str(line);
                out.push('\n');
                continue;
            };
            for (at, row) in wrap_painted(text, room).iter().enumerate() {
                out.push_str(if at == 0 { before } else { &goes_on });
                out.push_str(row);
                out.push('\n');
            }
        }
    }

    /// A row of so many columns at most, without its line end; none where not even the label fits.
    pub fn fitting(
        &self,
        label: &Label,
        mark: char,
        tone: Tone,
        text: &str,
        columns: usize,
    ) -> Option<String> {
        let room = columns.checked_sub(self.before_columns(label))?;
        let (mut plain, mut shown) = (String::new(), String::new());
        push_clean(&mut plain, text);
        self.within(label, mark, tone, cut(&plain, room), &mut shown);
        Some(shown)
    }

    /// The same for text that is painted.
    pub fn fitting_painted(&self, label: &Label, painted: &str, columns: usize) -> Option<String> {
        let room = columns.checked_sub(self.before_columns(label))?;
        let mut shown = self.before(label);
        shown.push_str(&cut_painted(painted, room));
        Some(shown)
    }

    /// A heading across the terminal.
    pub fn heading(&self, text: &str, columns: usize) -> String {
        let mut heading = text.to_owned();
        let used = heading.width();
        heading.extend(std::iter::repeat_n('─', columns.saturating_sub(used)));
        let mut shown = String::new();
        let heading = cut(&heading, columns);
        push_styled(&mut shown, self.look.coloured, Tone::Dim.style(), heading);
        shown
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
