//! Compares a capture's lines with those of the stream to number them (pure).

use super::difference::Difference;
use super::tracker::StreamTracker;
use crate::event::Cursor;
use crate::track::align::Footprint;
use crate::track::book::Moved;
use crate::track::capture::Capture;
use crate::track::lines::LogicalLine;
use crate::track::reflow;

/// The numbers of the lines of a capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    /// The number of the first line.
    pub first: i64,
    /// The number of the first line that is certainly the known one of that number.
    pub known_from: i64,
    pub moved: Moved,
}

impl Placement {
    /// Gives the cursor's line this number. Lines above it are unknown.
    pub fn of_cursor(number: i64, at_cursor: i64) -> Self {
        Self {
            first: number - at_cursor,
            known_from: number,
            moved: Moved::Unknown,
        }
    }
}

/// The lines of a capture and those of the stream.
pub(super) struct LineComparison<'a> {
    stream: &'a StreamTracker,
    capture: &'a Capture,
    lines: &'a [LogicalLine],
    /// The stream's lines, in order.
    known: Vec<(i64, &'a str)>,
    /// The index of the capture's line that contains the cursor.
    pub at_cursor: i64,
    /// Another program runs in the pane. No byte shows that tmux has erased the screen and moved the
    /// cursor to its top, so that in the stream the first line of the new program continues the last
    /// one of the old.
    pub respawned: bool,
}

impl<'a> LineComparison<'a> {
    pub fn new(
        stream: &'a StreamTracker,
        capture: &'a Capture,
        lines: &'a [LogicalLine],
        footprint: &Footprint,
    ) -> Self {
        let book = &stream.tracker.book;
        let oldest = book.oldest_known();
        let older = stream.recent.iter().filter(|(number, _)| *number < oldest);
        let older = older.map(|(number, text)| (*number, text.as_str()));
        let at_cursor = match capture.dead {
            // tmux has moved the cursor, which was below the last text.
            Some(_) => lines
                .iter()
                .rposition(|line| !line.text.trim_end().is_empty())
                .map(|last| last + 1),
            None => lines
                .iter()
                .rposition(|line| line.start <= footprint.cursor_row),
        };
        Self {
            stream,
            capture,
            lines,
            known: older.chain(book.lines()).collect(),
            at_cursor: at_cursor.unwrap_or(0) as i64,
            respawned: capture.pid != stream.tracker.pid && !stream.respawn_pending,
        }
    }

    pub fn cursor_line(&self) -> i64 {
        self.stream.tracker.book.cursor_line
    }

    /// Returns the text of the stream's cursor line.
    pub fn cursor_text(&self) -> &'a str {
        self.text(self.cursor_line()).unwrap_or_default()
    }

    pub fn has_cursor_text(&self) -> bool {
        !self.cursor_text().trim_end().is_empty()
    }

    fn text(&self, number: i64) -> Option<&'a str> {
        let at = self.known.binary_search_by_key(&number, |line| line.0);
        at.ok().map(|at| self.known[at].1)
    }

    /// Numbers the lines: unchanged, from the stream's cursor line, by the size of the history, or by
    /// the only position that matches the last known lines.
    pub fn placement(&self, difference: Option<&Difference>) -> Option<Placement> {
        let book = &self.stream.tracker.book;
        let history = self.stream.terminal.grid.scrolled.history;
        if self.stream.keeps_rows(self.capture, difference) {
            let first = book.first_number(self.lines, 0);
            return Some(Placement {
                first,
                known_from: first,
                moved: Moved::By(0),
            });
        }
        let cursor_line = self.cursor_line();
        let is_alive = self.capture.dead.is_none();
        let fits_at_cursor = |number| self.fits(number - self.at_cursor, cursor_line);
        let at_cursor = match (is_alive, self.respawned) {
            (true, _) => fits_at_cursor(cursor_line),
            // Below the last line, if that is the last known one, even if it has no end.
            (false, true) => {
                fits_at_cursor(cursor_line + i64::from(self.has_cursor_text())).filter(|at| at.1)
            }
            // tmux has moved the cursor itself, which proves nothing.
            (false, false) => None,
        };
        if let Some((place, _)) = at_cursor {
            return Some(place);
        }
        if self.respawned {
            return None;
        }
        let by_history = || {
            let grown = i64::from(self.capture.history_size) - i64::from(history.size);
            let same_width = self.capture.width as usize == self.stream.terminal.width();
            same_width.then(|| book.first_number(self.lines, grown))
        };
        let by_text = || {
            let above = self.known.iter().copied();
            let above: Vec<_> = above.filter(|line| line.0 < cursor_line).collect();
            reflow::place(&above, self.lines, |_| true)
        };
        // Without the cursor, its line may end with text that tmux wrote itself.
        let fits = |first: i64| {
            let (place, is_proved) = self.fits(first, cursor_line - 1)?;
            let goes_back = is_alive && first + self.at_cursor < cursor_line;
            (is_proved && !goes_back).then_some(place)
        };
        by_history()
            .and_then(fits)
            .or_else(|| by_text().and_then(fits))
    }

    /// Returns true if tmux has left the cursor's line in the history and moved the cursor to the top
    /// of the screen, as it does when rewrapped rows push the cursor off the screen.
    pub fn is_left_above(&self, place: Option<Placement>) -> bool {
        let at_top = self.capture.cursor == Cursor::default() && self.capture.dead.is_none();
        place.is_some_and(|place| {
            let mut below = self.cursor_line() + 1 - place.first..=self.at_cursor;
            at_top && !below.is_empty() && below.all(|at| self.is_blank(at))
        })
    }

    /// Numbers the lines from `first` on, if they equal the known ones from number `last` upwards. Also
    /// returns true if any such line is not blank.
    fn fits(&self, first: i64, last: i64) -> Option<(Placement, bool)> {
        let last = (last - first).min(self.lines.len() as i64 - 1);
        let mut known_from = first + last.max(0);
        let mut is_proved = false;
        for at in (0..=last).rev() {
            match self.is_same(first, at) {
                None => break,
                Some(true) => is_proved |= !self.is_blank(at),
                // The new program began here.
                Some(false) if self.respawned && self.ends_known(first + at, at) => {
                    (known_from, is_proved) = (first + at, true);
                    break;
                }
                Some(false) if !is_proved => return None,
                // A line between two equal lines is the known one, even if its text differs.
                Some(false) => {
                    let above = at - 1;
                    let is_between =
                        !self.is_blank(above) && self.is_same(first, above) == Some(true);
                    if self.respawned || !is_between {
                        break;
                    }
                }
            }
            known_from = first + at;
        }
        let place = Placement {
            first,
            known_from,
            moved: Moved::Unknown,
        };
        Some((place, is_proved))
    }

    /// Returns true if all known lines are equal there.
    pub fn is_whole(&self, place: Placement) -> bool {
        let last = (self.cursor_line() - place.first).min(self.lines.len() as i64 - 1);
        let mut is_proved = self
            .known
            .iter()
            .all(|(_, text)| text.trim_end().is_empty());
        for at in 0..=last {
            match self.is_same(place.first, at) {
                None => {}
                Some(true) => is_proved |= !self.is_blank(at),
                Some(false) => return false,
            }
        }
        is_proved
    }

    /// Compares a captured line with the known one. Returns `None` if either is missing.
    fn is_same(&self, first: i64, at: i64) -> Option<bool> {
        Some(self.text(first + at)?.trim_end() == self.line(at)?.trim_end())
    }

    /// Returns true if a line of the capture is the end of the known one.
    fn ends_known(&self, number: i64, at: i64) -> bool {
        let line = self.line(at).unwrap_or_default().trim_end();
        let known = self.text(number).unwrap_or_default().trim_end();
        !line.is_empty() && known.ends_with(line)
    }

    fn is_blank(&self, at: i64) -> bool {
        self.line(at).is_none_or(|line| line.trim_end().is_empty())
    }

    fn line(&self, at: i64) -> Option<&'a str> {
        let line = self.lines.get(usize::try_from(at).ok()?)?;
        Some(&line.text)
    }
}

/// Returns true if a capture shows another screen, or one of another size.
pub(super) fn is_another_size(difference: Option<&Difference>) -> bool {
    matches!(difference, Some(Difference::Size | Difference::Screen))
}
