//! Writes the console's rows: a label in its colour, a mark, text in its tone (pure).

use anstyle::{AnsiColor, Color, Style};
use unicode_width::UnicodeWidthStr;

use super::options::ConsoleOptions;
use crate::face::ansi::{cut_painted, wrap_painted};
use crate::face::clean::{cut, push_clean};
use crate::face::session_labels::{COLOURS, Label};
use crate::face::tone::{Tone, push_styled};

/// Labels are padded to the widest one so far, up to this width, which leaves room for lines.
const LABEL_COLUMNS_MAX: usize = 20;

/// The mark between the label and the continuation of a line that is wider than the terminal.
const CONTINUES: char = '┆';

/// With fewer columns for text, wrapping is left to the terminal.
const TEXT_COLUMNS_MIN: usize = 10;

/// Without red, which marks errors, and without black and white, which are backgrounds.
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

/// Writes rows, with labels of equal width if the options ask for it.
#[derive(Debug, Default)]
pub(super) struct RowWriter {
    pub options: ConsoleOptions,
    /// The columns of the terminal; `None` without one.
    pub columns: Option<usize>,
    label_columns: usize,
}

impl RowWriter {
    pub fn new(options: ConsoleOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    /// Widens the column of labels for a label that is used from now on.
    pub fn make_room(&mut self, label: &Label) {
        if self.options.aligned {
            let columns = label.text.width().min(LABEL_COLUMNS_MAX);
            self.label_columns = self.label_columns.max(columns);
        }
    }

    /// Adds a row, or several on a narrow terminal, each with the label and the tone.
    pub fn row(&self, label: &Label, mark: char, tone: Tone, text: &str, out: &mut String) {
        let room = self.text_columns(label);
        if room.is_some_and(|room| text.len() > room) {
            let mut plain = String::new();
            push_clean(&mut plain, text);
            return self.wrapped(label, mark, tone, &plain, out);
        }
        self.push_row(label, mark, tone, text, out);
        out.push('\n');
    }

    fn wrapped(&self, label: &Label, mark: char, tone: Tone, plain: &str, out: &mut String) {
        let room = self.text_columns(label).unwrap_or(usize::MAX);
        let (mut rest, mut mark) = (plain, mark);
        loop {
            let mut row = cut(rest, room);
            if row.is_empty() {
                // The first character is wider than the terminal.
                row = rest;
            }
            self.push_row(label, mark, tone, row, out);
            out.push('\n');
            rest = &rest[row.len()..];
            if rest.is_empty() {
                return;
            }
            mark = CONTINUES;
        }
    }

    /// Adds the rows of painted text.
    pub fn painted(&self, label: &Label, mark: char, painted: &str, out: &mut String) {
        let room = self.text_columns(label).unwrap_or(usize::MAX);
        for (at, row) in wrap_painted(painted, room).iter().enumerate() {
            self.push_label(label, if at == 0 { mark } else { CONTINUES }, out);
            out.push(' ');
            out.push_str(row);
            out.push('\n');
        }
    }

    /// The columns for text; `None` when text is not wrapped.
    pub fn text_columns(&self, label: &Label) -> Option<usize> {
        let room = self.columns?.checked_sub(self.before_columns(label))?;
        (room >= TEXT_COLUMNS_MIN).then_some(room)
    }

    /// Wraps the painted lines that `out` has from `start` on, each after `before`, and adds the label to
    /// the new rows.
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
        let mut continued = String::new();
        self.push_label(label, CONTINUES, &mut continued);
        continued.push(' ');
        let lines = out.split_off(start);
        for line in lines.lines() {
            let Some(text) = line.strip_prefix(before) else {
                out.push_str(line);
                out.push('\n');
                continue;
            };
            for (at, row) in wrap_painted(text, room).iter().enumerate() {
                out.push_str(if at == 0 { before } else { &continued });
                out.push_str(row);
                out.push('\n');
            }
        }
    }

    /// A row cut to `columns`, without its line end; `None` when the label does not fit.
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
        self.push_row(label, mark, tone, cut(&plain, room), &mut shown);
        Some(shown)
    }

    /// Like [`RowWriter::fitting`], for painted text.
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
        push_styled(
            &mut shown,
            self.options.coloured,
            Tone::Dim.style(),
            heading,
        );
        shown
    }

    /// Adds a row without its line end.
    fn push_row(&self, label: &Label, mark: char, tone: Tone, text: &str, out: &mut String) {
        self.push_label(label, mark, out);
        if !text.is_empty() {
            out.push(' ');
            push_styled(out, self.options.coloured, tone.style(), text);
        }
    }

    /// The label and the mark before the text of a row.
    pub fn before(&self, label: &Label) -> String {
        let mut before = String::new();
        self.push_label(label, '|', &mut before);
        before.push(' ');
        before
    }

    /// The columns before the text of a row.
    pub fn before_columns(&self, label: &Label) -> usize {
        label.text.width().max(self.label_columns) + 3
    }

    /// Adds the label and the mark, without the blank after it.
    pub fn push_label(&self, label: &Label, mark: char, out: &mut String) {
        let colour = Color::Ansi(PALETTE[label.colour % COLOURS]);
        let style = Style::new().fg_color(Some(colour));
        push_styled(out, self.options.coloured, style, &label.text);
        let padding = self.label_columns.saturating_sub(label.text.width());
        out.extend(std::iter::repeat_n(' ', padding));
        out.push(' ');
        out.push(mark);
    }
}
