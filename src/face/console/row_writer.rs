//! Writes the console's rows: a label in its colour, a mark, and text in its tone (pure).

use anstyle::{AnsiColor, Color, Style};
use unicode_width::UnicodeWidthStr;

use crate::face::ansi::{cut_painted, wrap_painted};
use crate::face::local_time::RowTime;
use crate::face::session_labels::{COLOURS, Label};
use crate::face::tone::{Tone, push_styled};
use crate::track::cut;

/// The widest padding of labels, in columns: labels are padded to the widest one so far, but lines need room.
const LABEL_COLUMNS_MAX: usize = 20;

/// The mark between the label and the continuation of a line that is wider than the terminal.
const CONTINUES: char = '┆';

/// The minimum number of columns for text; with fewer, the terminal wraps the text.
const TEXT_COLUMNS_MIN: usize = 10;

/// The colours of labels: not red, which marks errors, and not black or white, which are backgrounds.
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

/// The appearance of the console.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConsoleOptions {
    pub coloured: bool,
    /// Pads labels to equal width for people; output for programs has no padding.
    pub aligned: bool,
    /// Shows the opening and closing of panes, the decoration of agents' screens, and possible gaps.
    pub verbose: bool,
    /// Shows the rows of screen snapshots.
    pub shows_snapshots: bool,
    /// Begins each row with the local time of its event.
    pub has_timestamps: bool,
}

/// Writes rows, with labels of equal width if the options request it.
#[derive(Debug, Default)]
pub(super) struct RowWriter {
    pub options: ConsoleOptions,
    /// The columns of the terminal; `None` without one.
    pub columns: Option<usize>,
    label_columns: usize,
    pub time: RowTime,
}

impl RowWriter {
    pub fn new(options: ConsoleOptions) -> Self {
        Self {
            options,
            time: RowTime::new(options.has_timestamps),
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

    /// Appends a row, or several on a narrow terminal, each with the label and the tone.
    pub fn row(&self, label: &Label, mark: char, tone: Tone, text: &str, out: &mut String) {
        self.painted(label, mark, &self.styled(tone, text), out);
    }

    /// Appends the rows of painted text.
    pub fn painted(&self, label: &Label, mark: char, painted: &str, out: &mut String) {
        let room = self.text_columns(label).unwrap_or(usize::MAX);
        // A line has at most as many columns as bytes.
        let rows = match painted.len() <= room {
            true => vec![painted.to_owned()],
            false => wrap_painted(painted, room),
        };
        for (at, row) in rows.iter().enumerate() {
            self.push_label(label, if at == 0 { mark } else { CONTINUES }, out);
            if !row.is_empty() {
                out.push(' ');
                out.push_str(row);
            }
            out.push('\n');
        }
    }

    /// Returns text for display in a tone.
    pub fn styled(&self, tone: Tone, text: &str) -> String {
        let mut styled = String::new();
        push_styled(&mut styled, self.options.coloured, tone.style(), text);
        styled
    }

    /// Returns the columns for text; `None` if text is not wrapped.
    pub fn text_columns(&self, label: &Label) -> Option<usize> {
        let room = self.columns?.checked_sub(self.prefix_columns(label))?;
        (room >= TEXT_COLUMNS_MIN).then_some(room)
    }

    /// Wraps the painted lines in `out` from `start` on, each of which begins with `prefix`, and adds the
    /// label to the new rows.
    pub fn wrap_painted(&self, label: &Label, prefix: &str, start: usize, out: &mut String) {
        let Some(room) = self.text_columns(label) else {
            return;
        };
        if out[start..]
            .lines()
            .all(|line| line.len() <= room + prefix.len())
        {
            return;
        }
        let mut continued = String::new();
        self.push_label(label, CONTINUES, &mut continued);
        continued.push(' ');
        let lines = out.split_off(start);
        for line in lines.lines() {
            let Some(text) = line.strip_prefix(prefix) else {
                out.push_str(line);
                out.push('\n');
                continue;
            };
            for (at, row) in wrap_painted(text, room).iter().enumerate() {
                out.push_str(if at == 0 { prefix } else { &continued });
                out.push_str(row);
                out.push('\n');
            }
        }
    }

    /// Returns a row of painted text cut to `columns`, without its line end; `None` if the label does not
    /// fit.
    pub fn fitting(
        &self,
        label: &Label,
        mark: char,
        painted: &str,
        columns: usize,
    ) -> Option<String> {
        let room = columns.checked_sub(self.prefix_columns(label))?;
        let mut shown = String::new();
        self.push_label(label, mark, &mut shown);
        shown.push(' ');
        shown.push_str(&cut_painted(painted, room));
        Some(shown)
    }

    /// Returns a heading across the terminal.
    pub fn heading(&self, text: &str, columns: usize) -> String {
        let rule = "─".repeat(columns.saturating_sub(text.width()));
        let heading = [text, rule.as_str()].concat();
        self.styled(Tone::Dim, cut(&heading, columns))
    }

    /// Returns the label and the mark before the text of a row.
    pub fn prefix(&self, label: &Label) -> String {
        let mut prefix = String::new();
        self.push_label(label, '|', &mut prefix);
        prefix.push(' ');
        prefix
    }

    /// Returns the columns before the text of a row.
    pub fn prefix_columns(&self, label: &Label) -> usize {
        // The time has one column for each byte.
        self.time.text.len() + label.text.width().max(self.label_columns) + 3
    }

    /// Appends the label and the mark, without the blank after them.
    pub fn push_label(&self, label: &Label, mark: char, out: &mut String) {
        out.push_str(&self.time.text);
        let colour = Color::Ansi(PALETTE[label.colour % COLOURS]);
        let style = Style::new().fg_color(Some(colour));
        push_styled(out, self.options.coloured, style, &label.text);
        let padding = self.label_columns.saturating_sub(label.text.width());
        out.extend(std::iter::repeat_n(' ', padding));
        out.push(' ');
        out.push(mark);
    }
}
