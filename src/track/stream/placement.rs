//! The place of a capture's lines beside those of the stream (pure).

use super::difference::Difference;
use super::tracker::StreamTracker;
use crate::event::Cursor;
use crate::track::align::Footprint;
use crate::track::book::Moved;
use crate::track::capture::Capture;
use crate::track::lines::Logical;
use crate::track::reflow;

/// The position of the lines of a capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    /// The number of the first.
    pub first: i64,
    /// The number of the first that is surely the one that is known by it.
    pub known_from: i64,
    pub moved: Moved,
}

impl Placement {
    /// The line of the cursor has this number, and nothing is known of those above.
    pub fn of_cursor(number: i64, at_cursor: i64) -> Self {
        Self {
            first: number - at_cursor,
            known_from: number,
            moved: Moved::Unknown,
        }
    }
}

/// The lines of a capture beside those of the stream.
pub(super) struct LineComparison<'a> {
    stream: &'a StreamTracker,
    capture: &'a Capture,
    lines: &'a [Logical],
    /// The stream's lines, in order.
    known: Vec<(i64, &'a str)>,
    /// The line of the capture that contains the cursor.
    pub at_cursor: i64,
    /// Another program runs in the pane: tmux has erased the screen and gone to its top, which no
    /// byte shows. The first line of the new program follows the unfinished one of the old.
    pub respawned: bool,
}

/// The comparison of a captured line with the known line of the same number.
pub(super) enum Fit {
    Same,
    Different,
    /// None is known by that number.
    Unknown,
}

impl<'a> LineComparison<'a> {
    pub fn new(
        stream: &'a StreamTracker,
        capture: &'a Capture,
        lines: &'a [Logical],
        footprint: &Footprint,
    ) -> Self {
        let book = &stream.tracker.book;
        let oldest = book.lines().next().map_or(i64::MAX, |(number, _)| number);
        let older = stream.recent.iter().filter(|(number, _)| *number < oldest);
        let older = older.map(|(number, text)| (*number, text.as_str()));
        let at_cursor = match capture.dead {
            // tmux hides where it was: behind all that was printed.
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
        self.stream.tracker.book.cursor_line()
    }

    /// Returns the text of the stream's line of the cursor.
    pub fn begun(&self) -> &'a str {
        self.text(self.cursor_line()).unwrap_or_default()
    }

    pub fn is_begun(&self) -> bool {
        !self.begun().trim_end().is_empty()
    }

    fn text(&self, number: i64) -> Option<&'a str> {
        let at = self.known.binary_search_by_key(&number, |line| line.0);
        at.ok().map(|at| self.known[at].1)
    }

    /// Returns the position of the lines: unchanged, at the stream's line of the cursor, by the size of
    /// the history, or at the only position where the last known lines fit.
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
            // Behind the last line, whether that has an end or not; if that is the last one known.
            (false, true) => {
                fits_at_cursor(cursor_line + i64::from(self.is_begun())).filter(|at| at.1)
            }
            // Where tmux has moved the cursor itself, it proves nothing.
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
        // Found otherwise, the line of the cursor continues in what tmux wrote itself.
        let fits = |first: i64| {
            let (place, is_proved) = self.fits(first, cursor_line - 1)?;
            let goes_back = is_alive && first + self.at_cursor < cursor_line;
            (is_proved && !goes_back).then_some(place)
        };
        by_history()
            .and_then(fits)
            .or_else(|| by_text().and_then(fits))
    }

    /// Returns whether tmux has left the line of the cursor in the history and gone to the top of
    /// the screen: it does so where rows that it makes anew push the cursor off the screen.
    pub fn is_left_above(&self, place: Option<Placement>) -> bool {
        let at_top = self.capture.cursor == Cursor::default() && self.capture.dead.is_none();
        place.is_some_and(|place| {
            let mut below = self.cursor_line() + 1 - place.first..=self.at_cursor;
            at_top && !below.is_empty() && below.all(|at| self.is_blank(at))
        })
    }

    /// Returns the position if the lines of the capture can be numbered from `first` on, that is, if
    /// from the one numbered `last` upwards they equal the known ones; and whether there are such lines.
    fn fits(&self, first: i64, last: i64) -> Option<(Placement, bool)> {
        let last = (last - first).min(self.lines.len() as i64 - 1);
        let mut known_from = first + last.max(0);
        let mut is_proved = false;
        for at in (0..=last).rev() {
            match self.fit(first, at) {
                Fit::Unknown => break,
                Fit::Same => is_proved |= !self.is_blank(at),
                // Here the new program began.
                Fit::Different if self.respawned && self.ends_known(first + at, at) => {
                    (known_from, is_proved) = (first + at, true);
                    break;
                }
                Fit::Different if !is_proved => return None,
                // A line between two that are the same ones is the same one, whatever it reads.
                Fit::Different => {
                    let above = at - 1;
                    let is_between =
                        !self.is_blank(above) && matches!(self.fit(first, above), Fit::Same);
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

    /// Returns whether all lines that are known read the same there.
    pub fn is_whole(&self, place: Placement) -> bool {
        let last = (self.cursor_line() - place.first).min(self.lines.len() as i64 - 1);
        let mut is_proved = self
            .known
            .iter()
            .all(|(_, text)| text.trim_end().is_empty());
        for at in 0..=last {
            match self.fit(place.first, at) {
                Fit::Unknown => {}
                Fit::Same => is_proved |= !self.is_blank(at),
                Fit::Different => return false,
            }
        }
        is_proved
    }

    fn fit(&self, first: i64, at: i64) -> Fit {
        let (Some(known), Some(line)) = (self.text(first + at), self.line(at)) else {
            return Fit::Unknown;
        };
        if known.trim_end() == line.trim_end() {
            Fit::Same
        } else {
            Fit::Different
        }
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
