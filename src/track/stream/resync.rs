//! A stream taken up anew at a look of tmux, and looks that go on where it ended (pure).
//!
//! All bytes before the look have been fed, so that no line is missing: the stream's lines are
//! right, and the look's are put beside them. Where a line of the look stands is told by the cursor's,
//! and up from there by their texts, as far as those agree. What stands above that is tmux's affair:
//! it makes rows anew when the width changes, and drops or doubles some of them. It is known then,
//! not said.

use std::time::Duration;

use super::agreed::Numbered;
use super::difference::Difference;
use super::sync_point::SyncPoint;
use super::tracker::StreamTracker;
use crate::event::Cursor;
use crate::track::align::Footprint;
use crate::track::book::Moved;
use crate::track::capture::{Capture, SavedScreen};
use crate::track::change::{Change, GapReason, Loss};
use crate::track::lines::Logical;
use crate::track::normal::Normal;
use crate::track::reflow;
use crate::track::tracker::Tracker;

impl StreamTracker {
    /// Goes on from a new look, taken while no bytes came and after all before it had been fed: after
    /// a resize, a respawn, a drop, the end of the program, or where stream and tmux have parted.
    /// Whether that is so [`StreamTracker::is_behind`] can tell, mostly.
    ///
    /// No line is said twice and none is lost: the stream has them all. What the look shows of them
    /// otherwise is revised, what stands there and is none of them is known, not said; only what
    /// tmux shows below them is new.
    pub fn resync(&mut self, seam: &SyncPoint, now: Duration) -> Vec<Change> {
        let mut changes = Vec::new();
        self.tracker.at = now;
        let goes_on = seam.capture.pid == self.tracker.pid && !self.is_holed;
        if let Some(hidden) = self.hidden_behind(&seam.capture) {
            self.advance(&mut changes);
            self.tracker.book.settle(&mut changes, false);
            self.tracker.seen(&seam.capture);
            let mut seam = seam.clone();
            seam.capture.saved = Some(hidden);
            let open = self.terminal.grid.scrolled.open();
            let head = open.map(|(text, rows)| (text.to_owned(), rows as u32));
            let head = head.as_ref().map(|(text, rows)| (&**text, *rows));
            self.seat(&seam, head, goes_on);
        } else {
            self.look_at(&seam.capture, &mut changes);
            self.sit(seam, goes_on);
        }
        self.note(now, &changes);
        self.confirm(&seam.capture);
        self.tracker.show_screen(&seam.capture, &mut changes);
        changes
    }

    /// The normal screen, if a full-screen program goes on hiding it: nothing changes there, and
    /// the stream has all of it. tmux shows of its rows only as much as the pane is wide now.
    fn hidden_behind(&self, capture: &Capture) -> Option<SavedScreen> {
        let goes_on = capture.alternate && capture.pid == self.tracker.pid && !self.is_holed;
        self.terminal.hidden().filter(|_| goes_on)
    }

    /// Goes over to polling: the tracker goes on as if its last look had shown what the stream
    /// knows. Its next look finds what was printed since the last byte.
    pub fn into_polling(mut self, now: Duration) -> (Tracker, Vec<Change>) {
        let mut changes = Vec::new();
        self.tracker.at = now;
        self.advance(&mut changes);
        self.tracker.book.settle(&mut changes, false);
        self.tracker.has_looked(&self.capture());
        self.tracker.adrift = self.is_holed.then_some(Loss::possible(GapReason::Dropped));
        (self.tracker, changes)
    }

    fn look_at(&mut self, capture: &Capture, changes: &mut Vec<Change>) {
        let parted = self.difference(capture);
        self.advance(changes);
        self.tracker.book.settle(changes, false);
        let (footprint, mut lines) = Normal::of(capture).in_full(capture);
        if let Some(numbered) = self.numbered_again(capture, &lines, parted.as_ref()) {
            self.repair(capture, numbered, footprint, changes);
            return;
        }
        let beside = Beside::new(self, capture, &lines, &footprint);
        let mut place = beside.place(parted.as_ref());
        let is_explained = self.is_explained(capture, parted.as_ref());
        if !is_explained
            && !place.is_some_and(|place| beside.is_whole(place))
            && let Some(numbered) = self.numbered_perhaps(capture, &lines)
        {
            self.repair(capture, numbered, footprint, changes);
            return;
        }
        let Beside {
            at_cursor,
            respawned,
            ..
        } = beside;
        let (begun, is_begun) = (beside.begun().to_owned(), beside.is_begun());
        if beside.is_left_above(place) {
            place = Some(Place::of_cursor(beside.cursor_line(), at_cursor));
            // The line goes on at the top of the screen, for the program.
            if !begun.is_empty()
                && let Some(line) = lines.get_mut(at_cursor as usize)
            {
                line.text.insert_str(0, &begun);
                (line.start, line.rows) = (line.start - 1, line.rows + 1);
            }
        }

        let tracker = &mut self.tracker;
        if respawned && tracker.dead.is_none() {
            // What the old program had last on the screen was erased, perhaps unseen.
            changes.push(tracker.book.gap(Loss::possible(GapReason::Cleared)));
        }
        tracker.seen(capture);
        let place = match place {
            Some(place) => place,
            // What was dropped has a count, and what came since is known: nothing else is missing.
            None => {
                // The line of the cursor is another one, and begun: it is as complete as it will be.
                let last = tracker.book.cursor_line();
                let next = last + i64::from(is_begun);
                tracker.book.say(changes, next - 1);
                Place::of_cursor(next, at_cursor)
            }
        };
        tracker.book.say(changes, place.known_from - 1);
        tracker.take(lines, place.first, place.moved, footprint);
        tracker.book.is_known_above(place.known_from);
        tracker.book.settle(changes, capture.dead.is_some());
        tracker.note_top(capture, false);
        (self.is_holed, self.begun_anew) = (false, false);
    }
}

impl StreamTracker {
    /// The lines of a look that goes on in the same pane, with their numbers: from where stream and
    /// tmux agreed last, or by their texts. `None` where neither tells them for sure.
    fn numbered_again(
        &self,
        capture: &Capture,
        lines: &[Logical],
        parted: Option<&Difference>,
    ) -> Option<Numbered> {
        let numbered = self.numbered(capture, lines.to_vec());
        if numbered.as_ref().is_some_and(|numbered| numbered.is_sure) {
            return numbered;
        }
        let by_text = self.numbered_by_text(capture, lines.to_vec());
        let by_text = by_text.filter(|by_text| by_text.is_sure && !is_another_size(parted));
        let surely = |numbered| Numbered {
            is_sure: true,
            ..numbered
        };
        let by_row = || numbered.filter(|_| self.is_explained(capture, parted));
        by_text.or_else(|| by_row().map(surely))
    }

    /// The same where something has come between that no byte tells, and more than one story fits.
    fn numbered_perhaps(&self, capture: &Capture, lines: &[Logical]) -> Option<Numbered> {
        self.numbered_by_text(capture, lines.to_vec())
            .or_else(|| self.numbered(capture, lines.to_vec()))
            .or_else(|| self.numbered_anew(capture, lines.to_vec()))
    }

    /// Whether it is known why a look shows other rows: another size, or none but in their places.
    fn is_explained(&self, capture: &Capture, parted: Option<&Difference>) -> bool {
        is_another_size(parted) || self.stands_still(capture, parted)
    }

    /// Puts the lines of a look in the place of those that were said with their numbers.
    fn repair(
        &mut self,
        capture: &Capture,
        numbered: Numbered,
        footprint: Footprint,
        changes: &mut Vec<Change>,
    ) {
        let Numbered {
            first,
            lines,
            is_sure,
        } = numbered;
        let oldest_known = self.tracker.book.oldest_known();
        let misread = self.misread(first, &lines);
        let misread = misread.filter(|(number, _)| *number < oldest_known);
        let behind = self.said_behind(first + lines.len() as i64);
        let behind = behind.into_iter().map(|number| (number, ""));
        let revised = misread.chain(behind).map(|(line, text)| Change::Revised {
            line,
            text: text.to_owned(),
        });
        changes.extend(revised.collect::<Vec<_>>());
        let tracker = &mut self.tracker;
        tracker.seen(capture);
        tracker.book.say(changes, first - 1);
        if !is_sure {
            changes.push(tracker.book.gap(Loss::possible(GapReason::Cleared)));
        }
        tracker.take(lines, first, Moved::Anew, footprint);
        tracker.book.settle(changes, capture.dead.is_some());
        tracker.note_top(capture, false);
        (self.is_holed, self.begun_anew) = (false, false);
    }

    /// The numbers of what was said from this number on, where tmux has no lines: of those that the
    /// book does not blank out itself, since they do not follow the lines that it takes.
    fn said_behind(&self, number: i64) -> Vec<i64> {
        let book = &self.tracker.book;
        let is_blank = |text: &str| text.trim_end().is_empty();
        let older = self.agreed.lines();
        let older = older.filter(|(at, text)| *at < book.oldest_known() && !is_blank(text));
        let known = book.lines_with_rows();
        let known =
            known.filter(|line| number < book.oldest_known() && !is_blank(line.said_text()));
        let all = older.map(|(at, _)| at).chain(known.map(|line| line.number));
        all.filter(|at| *at >= number).collect()
    }

    /// Whether a look shows rows where they stood: it has the same size, and the same history.
    fn stands_still(&self, capture: &Capture, parted: Option<&Difference>) -> bool {
        let history = self.terminal.grid.scrolled.history;
        let same_size = !is_another_size(parted);
        let same_history =
            (history.size, history.limit) == (capture.history_size, capture.history_limit);
        let respawned = capture.pid != self.tracker.pid && !self.begun_anew;
        same_size && same_history && !capture.alternate && !respawned
    }
}

/// Whether a look shows another screen, or one of another size.
fn is_another_size(parted: Option<&Difference>) -> bool {
    matches!(parted, Some(Difference::Size | Difference::Screen))
}

/// Where the lines of a look stand.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The number of the first.
    first: i64,
    /// The number of the first that is surely the one that is known by it.
    known_from: i64,
    moved: Moved,
}

impl Place {
    /// The line of the cursor has this number, and nothing is known of those above.
    fn of_cursor(number: i64, at_cursor: i64) -> Self {
        Self {
            first: number - at_cursor,
            known_from: number,
            moved: Moved::Anew,
        }
    }
}

/// The lines of a look beside those of the stream.
struct Beside<'a> {
    stream: &'a StreamTracker,
    capture: &'a Capture,
    lines: &'a [Logical],
    /// The stream's lines, in order.
    known: Vec<(i64, &'a str)>,
    /// Which line of the look the cursor is in.
    at_cursor: i64,
    /// Another program runs in the pane: tmux has erased the screen and gone to its top, which no
    /// byte tells. The first line of the new program stands behind the unfinished one of the old.
    respawned: bool,
}

/// How a line of the look reads beside the one that is known by its number.
enum Fit {
    Same,
    Otherwise,
    /// None is known by that number.
    Unknown,
}

impl<'a> Beside<'a> {
    fn new(
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
            respawned: capture.pid != stream.tracker.pid && !stream.begun_anew,
        }
    }

    fn cursor_line(&self) -> i64 {
        self.stream.tracker.book.cursor_line()
    }

    /// What stands in the stream's line of the cursor.
    fn begun(&self) -> &'a str {
        self.text(self.cursor_line()).unwrap_or_default()
    }

    fn is_begun(&self) -> bool {
        !self.begun().trim_end().is_empty()
    }

    fn text(&self, number: i64) -> Option<&'a str> {
        let at = self.known.binary_search_by_key(&number, |line| line.0);
        at.ok().map(|at| self.known[at].1)
    }

    /// Where the lines stand: where they stood, at the stream's line of the cursor, by the size of
    /// the history, at the only place where the last known lines fit.
    fn place(&self, parted: Option<&Difference>) -> Option<Place> {
        let book = &self.stream.tracker.book;
        let history = self.stream.terminal.grid.scrolled.history;
        if self.stream.stands_still(self.capture, parted) {
            let first = book.first_number(self.lines, 0);
            return Some(Place {
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
            // Where tmux has moved the cursor itself, it tells nothing.
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
        // Found otherwise, the line of the cursor goes on in what tmux wrote itself.
        let fits = |first: i64| {
            let (place, tells) = self.fits(first, cursor_line - 1)?;
            let goes_back = is_alive && first + self.at_cursor < cursor_line;
            (tells && !goes_back).then_some(place)
        };
        by_history()
            .and_then(fits)
            .or_else(|| by_text().and_then(fits))
    }

    /// Whether tmux has left the line of the cursor in the history and gone to the top of the screen:
    /// it does so where rows that it makes anew push the cursor off the screen.
    fn is_left_above(&self, place: Option<Place>) -> bool {
        let at_top = self.capture.cursor == Cursor::default() && self.capture.dead.is_none();
        place.is_some_and(|place| {
            let mut below = self.cursor_line() + 1 - place.first..=self.at_cursor;
            at_top && !below.is_empty() && below.all(|at| self.is_blank(at))
        })
    }

    /// The place if the lines of the look can be numbered from `first` on, that is, if from the one
    /// numbered `last` upwards they read as the known ones do; and whether there are such lines.
    fn fits(&self, first: i64, last: i64) -> Option<(Place, bool)> {
        let last = (last - first).min(self.lines.len() as i64 - 1);
        let mut known_from = first + last.max(0);
        let mut tells = false;
        for at in (0..=last).rev() {
            match self.fit(first, at) {
                Fit::Unknown => break,
                Fit::Same => tells |= !self.is_blank(at),
                // Here the new program began.
                Fit::Otherwise if self.respawned && self.ends_known(first + at, at) => {
                    (known_from, tells) = (first + at, true);
                    break;
                }
                Fit::Otherwise if !tells => return None,
                // A line between two that are the same ones is the same one, whatever it reads.
                Fit::Otherwise => {
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
        let place = Place {
            first,
            known_from,
            moved: Moved::Anew,
        };
        Some((place, tells))
    }

    /// Whether all lines that are known read the same there.
    fn is_whole(&self, place: Place) -> bool {
        let last = (self.cursor_line() - place.first).min(self.lines.len() as i64 - 1);
        let mut tells = self
            .known
            .iter()
            .all(|(_, text)| text.trim_end().is_empty());
        for at in 0..=last {
            match self.fit(place.first, at) {
                Fit::Unknown => {}
                Fit::Same => tells |= !self.is_blank(at),
                Fit::Otherwise => return false,
            }
        }
        tells
    }

    fn fit(&self, first: i64, at: i64) -> Fit {
        let (Some(known), Some(line)) = (self.text(first + at), self.line(at)) else {
            return Fit::Unknown;
        };
        if known.trim_end() == line.trim_end() {
            Fit::Same
        } else {
            Fit::Otherwise
        }
    }

    /// Whether a line of the look is the end of the known one.
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
