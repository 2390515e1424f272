//! The stream compared with a look of tmux, and taken up anew where they part (pure).

use super::seam::Seam;
use super::tracker::StreamTracker;
use crate::event::Cursor;
use crate::track::align::Footprint;
use crate::track::book::Moved;
use crate::track::change::{Change, GapReason};
use crate::track::lines::Logical;
use crate::track::look::Look;
use crate::track::normal::Normal;
use crate::track::reflow;
use crate::track::tracker::Tracker;

/// What a look of tmux shows otherwise than the stream has it; the first such thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The pane's size.
    Size,
    /// Whether the alternate screen is shown.
    Screen,
    /// The text of a row, counted from the top.
    Row {
        /// Which.
        row: u32,
        /// What the stream has, without blanks at the end.
        stream: String,
        /// What tmux shows, the same way.
        tmux: String,
    },
    /// Where a line is broken: only one of the two goes on after this row.
    Wrap {
        /// Which, counted from the top.
        row: u32,
    },
    /// How many rows have scrolled off.
    History {
        /// Rows in the history by the stream.
        stream: u32,
        /// Rows in tmux's.
        tmux: u32,
    },
    /// Where the cursor is.
    Cursor {
        /// By the stream.
        stream: Cursor,
        /// By tmux.
        tmux: Cursor,
    },
}

impl StreamTracker {
    /// Where a look shows something else than the stream does. It must have been taken while the pane
    /// was at rest, when all its bytes had been fed. tmux is right then: [`StreamTracker::reseat`].
    pub fn difference(&self, look: &Look) -> Option<Difference> {
        let terminal = &self.terminal;
        if (terminal.width(), terminal.height()) != (look.width as usize, look.height as usize) {
            return Some(Difference::Size);
        }
        if terminal.saved.is_some() != look.alternate {
            return Some(Difference::Screen);
        }
        let stream = terminal.shown();
        let tmux = &look.rows[look.history_rows()..];
        for (row, (stream, tmux)) in (0..).zip(stream.iter().zip(tmux)) {
            let texts = [stream, tmux].map(|row| row.text.trim_end_matches(' '));
            if texts[0] != texts[1] {
                let [stream, tmux] = texts.map(str::to_owned);
                return Some(Difference::Row { row, stream, tmux });
            }
        }
        let last = tmux.len().saturating_sub(1);
        for (row, pair) in (0..).zip(stream.iter().zip(tmux).take(last)) {
            // Among empty rows a look cannot tell.
            let tells = !tmux[row as usize + 1].text.is_empty() && !pair.1.text.is_empty();
            if tells && pair.0.wrapped != pair.1.wrapped {
                return Some(Difference::Wrap { row });
            }
        }
        let history = terminal.grid.scrolled.history.size;
        if !look.alternate && history != look.history_size {
            return Some(Difference::History {
                stream: history,
                tmux: look.history_size,
            });
        }
        let (stream, tmux) = (terminal.cursor(), look.cursor);
        (look.dead.is_none() && stream != tmux).then_some(Difference::Cursor { stream, tmux })
    }

    /// Goes on from a new seam, after all bytes before it were fed: after a resize, or where stream
    /// and tmux have parted. Lines keep their numbers and are not said again; what the seam shows
    /// after the last known line is new. Where the place of the known lines cannot be found there is
    /// a gap with this reason, and what stands there is known, not said.
    pub fn reseat(
        &mut self,
        seam: &Seam,
        reason: GapReason,
        now: std::time::Duration,
    ) -> Vec<Change> {
        let mut changes = self.look_at(&seam.look, reason, now);
        self.sit(seam);
        self.note(now, &changes);
        self.show_seam(seam, &mut changes);
        changes
    }

    /// What the pane shows by its bytes.
    pub fn look(&self) -> Look {
        let terminal = &self.terminal;
        let history = terminal.grid.scrolled.history;
        Look {
            width: terminal.width() as u32,
            height: terminal.height() as u32,
            history_size: history.size,
            history_limit: history.limit,
            cursor: terminal.cursor(),
            alternate: terminal.saved.is_some(),
            rows: terminal.shown(),
            at: self.tracker.at,
            ..Look::default()
        }
    }

    /// Goes over to looks.
    pub fn into_looks(mut self, now: std::time::Duration) -> (Tracker, Vec<Change>) {
        let look = self.look();
        let changes = self.look_at(&look, GapReason::Ambiguous, now);
        (self.tracker, changes)
    }

    /// Goes over to polling with a look that was taken after the last byte.
    pub fn into_tracker(
        mut self,
        look: &Look,
        reason: GapReason,
        now: std::time::Duration,
    ) -> (Tracker, Vec<Change>) {
        let changes = self.look_at(look, reason, now);
        (self.tracker, changes)
    }

    fn show_seam(&mut self, seam: &Seam, changes: &mut Vec<Change>) {
        self.tracker.show_screen(&seam.look, changes);
    }

    fn look_at(&mut self, look: &Look, reason: GapReason, now: std::time::Duration) -> Vec<Change> {
        let mut changes = Vec::new();
        self.tracker.at = now;
        let parted = self.difference(look);
        self.advance(&mut changes);
        self.tracker.book.settle(&mut changes, false);
        let (footprint, lines) = Normal::of(look).in_full(look);
        let stays = self.stays(look, parted.as_ref());
        let first = if stays {
            let first = self.tracker.book.first_number(&lines, 0);
            Some((first, Moved::By(0)))
        } else {
            self.place(&lines, &footprint)
                .map(|first| (first, Moved::Anew))
        };
        self.tracker.seen(look);
        if let Some((first, moved)) = first {
            self.tracker.book.say(&mut changes, first - 1);
            self.tracker.take(lines, first, moved, footprint);
            self.tracker.book.settle(&mut changes, look.dead.is_some());
        } else {
            self.tracker.book.lose(reason, &mut changes);
            self.tracker.stand_on((footprint, lines));
        }
        self.tracker.note_top(look, false);
        changes
    }

    /// Whether each row stands where it stood, whatever it reads.
    fn stays(&self, look: &Look, parted: Option<&Difference>) -> bool {
        let same_screen = !matches!(parted, Some(Difference::Size | Difference::Screen));
        let history = self.terminal.grid.scrolled.history;
        same_screen
            && !look.alternate
            && (history.size, history.limit) == (look.history_size, look.history_limit)
    }

    /// The number of the first of these lines, by the cursor's if the known lines are where they
    /// should be then, else by the only place that they fit.
    fn place(&self, lines: &[Logical], footprint: &Footprint) -> Option<i64> {
        let book = &self.tracker.book;
        let above = book.above_cursor();
        let oldest = above.first().map_or(book.cursor_line(), |line| line.0);
        let mut known: Vec<(i64, &str)> = self
            .recent
            .iter()
            .filter(|(number, _)| *number < oldest)
            .map(|(number, text)| (*number, text.as_str()))
            .collect();
        known.extend(above);
        let at_cursor = lines
            .iter()
            .rposition(|line| line.start <= footprint.cursor_row)
            .unwrap_or(0);
        let first = book.cursor_line() - at_cursor as i64;
        let mut seen = known
            .iter()
            .rev()
            .map_while(|(number, text)| {
                let at = usize::try_from(number - first).ok()?;
                Some((*text, lines.get(at)?))
            })
            .peekable();
        let nothing_above = at_cursor == 0 && known.is_empty();
        let fits = seen.peek().is_some()
            && seen
                .all(|(text, line)| text.trim_end_matches(' ') == line.text.trim_end_matches(' '));
        if fits || nothing_above {
            return Some(first);
        }
        reflow::place(&known, lines, |_| true)
    }
}
