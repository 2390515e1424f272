//! The screen of the stream, and the first place where a capture differs (pure).

use super::tracker::StreamTracker;
use crate::event::Cursor;
use crate::track::capture::{Capture, PaneNumbers};
use crate::track::lines::Logical;
use crate::track::normal::Normal;

/// The first difference between a capture and the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The pane's size.
    Size,
    /// Only one of the two shows the alternate screen.
    Screen,
    /// The text of a row, counted from the top.
    Row {
        /// Which.
        row: u32,
        /// The stream's text, without blanks at the end.
        stream: String,
        /// The text in the capture, without blanks at the end.
        tmux: String,
    },
    /// Where a line is broken: only one of the two continues after this row.
    Wrap {
        /// Which, counted from the top.
        row: u32,
    },
    /// Number of rows have scrolled off.
    History {
        /// Rows in the history by the stream.
        stream: u32,
        /// Rows in tmux's.
        tmux: u32,
    },
    Cursor {
        stream: Cursor,
        tmux: Cursor,
    },
}

impl StreamTracker {
    /// Returns what the pane shows by its bytes: its screen without the history, and the normal screen
    /// behind the alternate one. Its time is that of the last changes.
    pub fn capture(&self) -> Capture {
        let terminal = &self.terminal;
        let history = terminal.grid.scrolled.history;
        Capture {
            numbers: PaneNumbers {
                // A screen is smaller than that.
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

    /// Returns the rows in the history, the cursor, and whether the alternate screen is shown, as the
    /// bytes have left them. The other numbers are zero.
    pub fn position(&self) -> PaneNumbers {
        let terminal = &self.terminal;
        PaneNumbers {
            history_size: terminal.grid.scrolled.history.size,
            cursor: terminal.cursor(),
            alternate: terminal.saved.is_some(),
            ..PaneNumbers::default()
        }
    }

    /// Returns true if a capture shows another text than the bytes in the line of the cursor, or in
    /// the one above it. The capture may then be later than the last byte fed, and a resync would
    /// report those lines twice when their bytes arrive. The caller captures again. If the difference
    /// stays although no byte arrives, stream and tmux differ: [`StreamTracker::resync`]. Lines with
    /// equal texts hide a later capture.
    pub fn is_behind(&self, capture: &Capture) -> bool {
        let tracker = &self.tracker;
        if self.has_gap || capture.dead.is_some() || capture.pid != tracker.pid || capture.alternate
        {
            return false;
        }
        let ends = |lines: &[Logical], cursor_row: i64| -> Vec<String> {
            let until = lines.iter().rposition(|line| line.start <= cursor_row);
            let last = lines
                .iter()
                .take(until.map_or(0, |at| at + 1))
                .rev()
                .take(2);
            // The capture has only the end of a line that begins above it.
            last.map(|line| line.text.trim_end_matches(' ').to_owned())
                .collect()
        };
        let (lines, footprint) = self.lines();
        let stream = ends(&lines, footprint.cursor_row);
        let (footprint, lines) = Normal::of(capture).in_full(capture);
        let tmux = ends(&lines, footprint.cursor_row);
        let mut pairs = stream.iter().zip(&tmux);
        pairs.any(|(stream, tmux)| {
            !stream.ends_with(&**tmux) || tmux.is_empty() != stream.is_empty()
        })
    }

    /// Returns where a capture differs from the stream. It must have been taken while the pane was at
    /// rest and all its bytes had been fed. tmux is right then: [`StreamTracker::resync`].
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
            // Between empty rows a capture does not show it.
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
        // Where the pane became narrower, tmux may leave the cursor beyond it, to the same effect.
        let tmux = Cursor {
            x: capture.cursor.x.min(capture.width),
            ..capture.cursor
        };
        let stream = terminal.cursor();
        (capture.dead.is_none() && stream != tmux).then_some(Difference::Cursor { stream, tmux })
    }
}
