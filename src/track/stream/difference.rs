//! Compares the stream's screen with captures (pure).

use super::tracker::StreamTracker;
use crate::event::Cursor;
use crate::track::capture::{Capture, PaneNumbers};
use crate::track::lines::LogicalLine;
use crate::track::normal::NormalScreen;

/// The first difference between a capture and the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The pane's size.
    Size,
    /// Only one of the two shows the alternate screen.
    Screen,
    /// The text of a row, counted from the top.
    Row {
        /// The row's index.
        row: u32,
        /// The stream's text, without blanks at the end.
        stream: String,
        /// The text in the capture, without blanks at the end.
        tmux: String,
    },
    /// The wrap of a row: in only one of the two, the line continues after it.
    Wrap {
        /// The row's index, counted from the top.
        row: u32,
    },
    /// The size of the history, in rows.
    History {
        /// The stream's size.
        stream: u32,
        /// The size in tmux.
        tmux: u32,
    },
    /// The position of the cursor.
    Cursor { stream: Cursor, tmux: Cursor },
}

impl StreamTracker {
    /// Returns a capture of the stream's terminal: the screen without the history, and the normal
    /// screen behind the alternate one. Its time is that of the last changes.
    pub fn capture(&self) -> Capture {
        let terminal = &self.terminal;
        let history = terminal.grid.scrolled.history;
        Capture {
            numbers: PaneNumbers {
                // A screen has fewer than 2^32 columns and rows.
                width: terminal.width() as u32,
                height: terminal.height() as u32,
                history_size: history.size,
                history_limit: history.limit,
                cursor: terminal.cursor(),
                alternate: terminal.saved.is_some(),
                dead: self.tracker.dead,
                pid: self.tracker.pid,
            },
            rows: terminal.shown(),
            saved: terminal.hidden(),
            at: self.tracker.at,
            bytes_before: None,
            bytes_after: None,
        }
    }

    /// Returns the stream's size of the history, cursor, and whether the alternate screen is shown. The
    /// other numbers are zero.
    pub fn position(&self) -> PaneNumbers {
        let terminal = &self.terminal;
        PaneNumbers {
            history_size: terminal.grid.scrolled.history.size,
            cursor: terminal.cursor(),
            alternate: terminal.saved.is_some(),
            ..PaneNumbers::default()
        }
    }

    /// Returns true if a capture differs from the stream in the text of the cursor's line or of the one
    /// above it. The capture may then be later than the last byte fed, and a resync would report those
    /// lines twice when their bytes arrive. The caller should capture again. If the difference remains
    /// although no byte arrives, stream and tmux differ, and a [`StreamTracker::resync`] is due. Lines
    /// with equal texts can hide a later capture.
    pub fn is_behind(&self, capture: &Capture) -> bool {
        let tracker = &self.tracker;
        if self.has_gap || capture.dead.is_some() || capture.pid != tracker.pid || capture.alternate
        {
            return false;
        }
        let ends = |lines: &[LogicalLine], cursor_row: i64| -> Vec<String> {
            let until = lines.iter().rposition(|line| line.start <= cursor_row);
            let last = lines
                .iter()
                .take(until.map_or(0, |at| at + 1))
                .rev()
                .take(2);
            // A capture has only the end of a line that begins above it, so ends are compared.
            last.map(|line| line.text.trim_end_matches(' ').to_owned())
                .collect()
        };
        let (lines, footprint) = self.lines();
        let stream = ends(&lines, footprint.cursor_row);
        let (footprint, lines) = NormalScreen::of(capture).in_full(capture);
        let tmux = ends(&lines, footprint.cursor_row);
        let mut pairs = stream.iter().zip(&tmux);
        pairs.any(|(stream, tmux)| {
            !stream.ends_with(&**tmux) || tmux.is_empty() != stream.is_empty()
        })
    }

    /// Returns the first difference between a capture and the stream. All bytes before the capture must
    /// have been fed, and the pane must be at rest. tmux is right then, and a [`StreamTracker::resync`]
    /// is due.
    pub fn difference(&self, capture: &Capture) -> Option<Difference> {
        let terminal = &self.terminal;
        if (terminal.width(), terminal.height())
            != (capture.width as usize, capture.height as usize)
        {
            return Some(Difference::Size);
        }
        if terminal.saved.is_some() != capture.alternate {
            return Some(Difference::Screen);
        }
        let stream = terminal.shown();
        let tmux = &capture.rows[capture.history_rows()..];
        for (row, (stream, tmux)) in (0..).zip(stream.iter().zip(tmux)) {
            let texts = [stream, tmux].map(|row| row.text.trim_end_matches(' '));
            if texts[0] != texts[1] {
                let [stream, tmux] = texts.map(str::to_owned);
                return Some(Difference::Row { row, stream, tmux });
            }
        }
        let last = tmux.len().saturating_sub(1);
        for (row, pair) in (0..).zip(stream.iter().zip(tmux).take(last)) {
            // A capture does not show wraps between empty rows.
            let is_visible = !tmux[row as usize + 1].text.is_empty() && !pair.1.text.is_empty();
            if is_visible && pair.0.wrapped != pair.1.wrapped {
                return Some(Difference::Wrap { row });
            }
        }
        let history = terminal.grid.scrolled.history.size;
        if !capture.alternate && history != capture.history_size {
            return Some(Difference::History {
                stream: history,
                tmux: capture.history_size,
            });
        }
        // When the pane becomes narrower, tmux may leave the cursor beyond its edge, to the same effect.
        let tmux = Cursor {
            x: capture.cursor.x.min(capture.width),
            ..capture.cursor
        };
        let stream = terminal.cursor();
        (capture.dead.is_none() && stream != tmux).then_some(Difference::Cursor { stream, tmux })
    }
}
