//! The tracker of one pane whose every byte is seen: the lines of polling, from a stream (pure).

use std::collections::VecDeque;
use std::time::Duration;

use super::agreement::Agreed;
use super::input::Input;
use super::scrolled::ScrolledOff;
use super::shell_marks::{Marks, ShellMark};
use super::styled::{Fresh, Styled};
use super::sync_point::SyncPoint;
use super::terminal::Terminal;
use crate::event::{GapEvidence, Styles};
use crate::track::align::Footprint;
use crate::track::book::{Moved, Taken};
use crate::track::change::{Change, GapReason};
use crate::track::lines::{Logical, group, used_rows};
use crate::track::normal::leave_out_notice;
use crate::track::reporting::Revises;
use crate::track::tracker::Tracker;

/// Bytes of lines that may wait for [`StreamTracker::changes`]: a few bytes can print a whole screen,
/// so that bytes alone bound nothing.
const WAITING_BYTES_MAX: usize = 1024 * 1024;

/// The interval at which lines that were just revised are compared again: faster than people read, and
/// progress at a thousand steps a second makes no thousand events.
pub(super) const REVISION_PERIOD: Duration = Duration::from_millis(50);

/// The interval at which a full-screen program's screen is reported.
pub(super) const SCREEN_PERIOD: Duration = Duration::from_millis(200);

/// The number of reported lines that are remembered, to find the position again.
pub(super) const RECENT_LINES: usize = 12;

/// So many lines more than those that are known are taken one by one; beyond, as a block.
const SINGLE_LINES: usize = 32;

/// Follows one pane, byte for byte.
///
/// It continues from a [`Tracker`], with its lines, numbers and rules: a line is reported once it
/// has scrolled off, or has been unchanged for [`Tracker::set_settle_period`] behind the cursor. Bytes
/// change only the terminal; [`StreamTracker::changes`] reports the result, so that it does
/// not matter where they were cut.
///
/// ```
/// use std::time::Duration;
/// use td_observe::track::{Capture, Change, PaneNumbers, Row, SyncPoint, StreamTracker, Tracker};
/// let rows = vec![Row::default(); 3];
/// let numbers = PaneNumbers { width: 20, height: 3, ..PaneNumbers::default() };
/// let capture = Capture { numbers, rows, ..Capture::default() };
/// let seam = SyncPoint { capture, ..SyncPoint::default() };
/// let mut pane = StreamTracker::new(Tracker::baseline(&seam.capture), &seam);
/// let bytes = b"cc a.c\r\n";
/// assert_eq!(pane.feed(bytes), bytes.len());
/// assert_eq!(pane.changes(Duration::ZERO), []);
/// // It was unchanged until the next call: settled.
/// let line = Change::Lines { first_line: 1, chunk: "cc a.c\n".into() };
/// assert_eq!(pane.changes(Duration::ZERO), [line]);
/// ```
#[derive(Debug)]
pub struct StreamTracker {
    pub(super) tracker: Tracker,
    pub(super) terminal: Terminal,
    pub(super) input: Input,
    pub(super) marks: Marks,
    /// Bytes have come that the book does not know of.
    pub(super) fed: bool,
    /// Lines may differ from their reported texts; the next revisions report them.
    revisions_pending: bool,
    /// Another program has begun, which no capture has shown yet.
    pub(super) respawn_pending: bool,
    /// The same for the alternate screen.
    pub(super) screen_fed: bool,
    /// Bytes were dropped, and no capture has been taken since.
    pub(super) has_gap: bool,
    /// The last reported lines, with their numbers.
    pub(super) recent: VecDeque<(i64, String)>,
    /// The changes reported since stream and tmux agreed.
    pub(super) agreed: Agreed,
    /// In which colours lines were written.
    styled: Styled,
    /// The time at which the book last got the positions of the lines.
    advanced_at: Duration,
    /// When lines were last revised.
    pub(super) revised_at: Option<Duration>,
    /// The time of the last report of a full-screen program's screen.
    pub(super) screen_at: Option<Duration>,
}

impl StreamTracker {
    /// Continues from a tracker that has just taken the capture of the sync point: [`Tracker::baseline`],
    /// [`Tracker::fresh`], [`Tracker::resume`] or [`Tracker::apply_deepest`].
    pub fn new(tracker: Tracker, sync_point: &SyncPoint) -> Self {
        let mut stream = Self {
            terminal: Terminal::new(1, 1, sync_point.version),
            input: Input::default(),
            marks: Marks::default(),
            fed: false,
            revisions_pending: false,
            respawn_pending: false,
            screen_fed: false,
            has_gap: false,
            recent: tracker
                .lines()
                .filter(|(number, _)| *number < tracker.next_line())
                .map(|(number, text)| (number, text.to_owned()))
                .collect(),
            agreed: Agreed::default(),
            styled: Styled::default(),
            advanced_at: tracker.at,
            revised_at: None,
            screen_at: None,
            tracker,
        };
        stream.restart_at(sync_point, false);
        stream.note_recent(&[]);
        stream.confirm(&sync_point.capture);
        stream
    }

    /// Puts the terminal into the state of a sync point whose capture the tracker has taken. Whether the
    /// program `goes_on`, all of whose bytes until there have come.
    pub(super) fn restart_at(&mut self, sync_point: &SyncPoint, continues: bool) {
        let head = self.tracker.book.reaching_in();
        let screen = &sync_point.capture.rows[sync_point.capture.history_rows()..];
        let head = head.filter(|_| !sync_point.capture.alternate);
        let head = head.map(|(text, rows, on_screen)| {
            let shown: String = screen
                .iter()
                .take(on_screen)
                .map(|row| &*row.text)
                .collect();
            (text.strip_suffix(&*shown).unwrap_or(text).to_owned(), rows)
        });
        let head = head.as_ref().map(|(text, rows)| (&**text, *rows));
        self.restart_with_head(sync_point, head, continues);
    }

    /// The same; `head` is of the line that reaches into the top row what has scrolled off, and how
    /// many rows that took.
    pub(super) fn restart_with_head(
        &mut self,
        sync_point: &SyncPoint,
        head: Option<(&str, u32)>,
        continues: bool,
    ) {
        let terminal = Terminal::from_sync_point(sync_point, head);
        let before = std::mem::replace(&mut self.terminal, terminal);
        if continues {
            self.terminal.inherit(&before);
        }
        self.marks.forget();
        if !(continues && self.input.agrees(&sync_point.pending)) {
            self.input = Input::default();
            self.input
                .advance_clock(self.tracker.at, &mut self.terminal);
            let full = |_: &Terminal, _: &Marks| false;
            // The beginning of a sequence prints nothing.
            self.input.feed(
                &sync_point.pending,
                &mut self.terminal,
                &mut self.marks,
                full,
            );
        }
        self.fed = false;
        self.screen_fed = false;
    }

    /// The bytes that are given next have come now, on the clock of [`StreamTracker::changes`]: tmux
    /// waits for the end of a title, for example, for some seconds only. Where this is never called, no time
    /// passes between bytes.
    pub fn advance_clock(&mut self, now: Duration) {
        self.input.advance_clock(now, &mut self.terminal);
    }

    /// Takes bytes, cut anywhere; how many. It is fewer than there are when much waits to be reported:
    /// then [`StreamTracker::changes`] must be asked (and [`StreamTracker::shell_marks`]) before
    /// the rest is given.
    #[must_use = "the bytes that were not taken must be given again"]
    pub fn feed(&mut self, bytes: &[u8]) -> usize {
        let full = |terminal: &Terminal, marks: &Marks| {
            terminal.grid.scrolled.bytes() >= WAITING_BYTES_MAX || marks.is_full()
        };
        let taken = self
            .input
            .feed(bytes, &mut self.terminal, &mut self.marks, full);
        self.fed |= taken > 0;
        self.screen_fed |= taken > 0;
        taken
    }

    /// Returns what has come to light until now, a point in time on any clock that never goes back.
    /// Lines that have scrolled off are reported at once, the others when they have been unchanged long
    /// enough; see [`StreamTracker::deadline`].
    pub fn changes(&mut self, now: Duration) -> Vec<Change> {
        let mut changes = Vec::new();
        self.tracker.at = now;
        // A line that is about to scroll off is reported with its last text.
        let scrolls = !self.terminal.grid.scrolled.is_empty();
        if self.fed {
            self.advance(&mut changes);
            (self.fed, self.revisions_pending) = (false, true);
        } else {
            self.tracker.book.mark_unchanged(now);
        }
        let revises = match (scrolls, self.is_throttled(now)) {
            (_, false) => Revises::All,
            (true, true) => Revises::Settled,
            (false, true) => Revises::Nothing,
        };
        self.tracker.book.settle_with(&mut changes, revises);
        self.revisions_pending &= revises != Revises::All;
        self.show_screen(now, &mut changes);
        self.note(now, &changes);
        changes
    }

    /// When to ask for changes again although no bytes have come; `None` when there is nothing to
    /// wait for.
    pub fn deadline(&self) -> Option<Duration> {
        let revisions = self
            .revised_at
            .filter(|_| self.revisions_pending)
            .map(|at| at + REVISION_PERIOD);
        let settled = (!self.fed && self.tracker.book.is_waiting())
            .then(|| self.advanced_at + self.tracker.book.settle);
        let screen = self
            .screen_at
            .filter(|_| self.screen_fed && self.terminal.saved.is_some())
            .map(|at| at + SCREEN_PERIOD);
        [revisions, settled, screen].into_iter().flatten().min()
    }

    /// Returns the shell's messages about its commands since the last call, in order.
    pub fn shell_marks(&mut self) -> Vec<ShellMark> {
        self.marks.take()
    }

    /// Reports a gap for dropped bytes, which had `line_ends` line ends. The screen is unknown from
    /// now on: a [`StreamTracker::resync`] should follow when the pane is at rest.
    pub fn bytes_dropped(&mut self, line_ends: u64, now: Duration) -> Vec<Change> {
        let mut changes = Vec::new();
        self.tracker.at = now;
        self.advance(&mut changes);
        self.tracker.book.settle(&mut changes, false);
        // The line of the cursor was ended by the first line end that is lost: it counts as lost.
        self.tracker.book.flush(&mut changes);
        changes.push(Change::Gap {
            first_line: self.tracker.book.next(),
            lost_lines: Some(line_ends),
            reason: GapReason::Dropped,
            evidence: GapEvidence::Confirmed,
        });
        self.has_gap = true;
        self.input = Input::default();
        self.marks.forget();
        if line_ends > 0 {
            self.tracker.book.skip(line_ends);
            self.terminal.forget();
            self.fed = false;
        }
        self.note(now, &changes);
        changes
    }

    /// Another program begins in the pane, the end of the one before being known: tmux has erased the
    /// screen and gone to its top, which no byte shows.
    pub fn respawned(&mut self, now: Duration) -> Vec<Change> {
        let mut changes = Vec::new();
        self.tracker.at = now;
        self.advance(&mut changes);
        self.tracker.book.settle(&mut changes, true);
        self.tracker.book.discard_lines();
        self.tracker.book.skip(0);
        self.terminal.forget();
        self.input = Input::default();
        self.marks.forget();
        self.tracker.dead = None;
        (self.fed, self.respawn_pending) = (false, true);
        self.note(now, &changes);
        changes
    }

    /// The pane is gone: what was seen of it last is final.
    pub fn end(&mut self, now: Duration) -> Vec<Change> {
        let mut changes = Vec::new();
        self.tracker.at = now;
        self.advance(&mut changes);
        self.tracker.book.settle(&mut changes, true);
        self.note(now, &changes);
        changes
    }

    /// The observer stops and the pane continues: all lines are reported, the line of the cursor in its
    /// present state.
    pub fn detach(&mut self, now: Duration) -> Vec<Change> {
        let mut changes = Vec::new();
        self.tracker.at = now;
        self.advance(&mut changes);
        self.tracker.book.settle(&mut changes, false);
        changes.extend(self.tracker.detach());
        changes
    }

    /// Returns the colours of lines that [`StreamTracker::changes`], or another method that returns
    /// changes, has just returned: lines from this number on, each ended by `\n`, or one without its end.
    /// Lines with another text are plain, and so are those that were there when observation
    /// began, until they are written again.
    pub fn styles(&self, first_line: i64, text: &str) -> Styles {
        self.styled.styles(first_line, text)
    }

    /// The tracker within: numbers, lines and so on.
    pub fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// Sets the time for which a line must be unchanged to be settled.
    pub fn set_settle_period(&mut self, settle: Duration) {
        self.tracker.set_settle_period(settle);
    }

    /// The lines of the normal screen in use, that of the cursor among them, with the beginning of
    /// the first one, which may have scrolled off.
    pub(super) fn lines(&self) -> (Vec<Logical>, Footprint) {
        let (mut rows, mut cursor_row) = self.terminal.normal();
        if self.tracker.dead.is_some() {
            // As in captures: tmux has moved the cursor.
            leave_out_notice(&mut rows);
            cursor_row = 0;
        }
        rows.truncate(used_rows(&rows, cursor_row));
        let mut lines = group(&rows, 0);
        if let (Some((head, head_rows)), Some(first)) =
            (self.terminal.grid.scrolled.open(), lines.first_mut())
        {
            first.text.insert_str(0, head);
            first.start -= head_rows;
            first.rows += head_rows;
        }
        let footprint = Footprint {
            height: self.terminal.height() as i64,
            cursor_row: cursor_row as i64,
            ..Footprint::default()
        };
        (lines, footprint)
    }

    /// Passes the positions of the lines to the book, with the lines that have scrolled off since.
    pub(super) fn advance(&mut self, changes: &mut Vec<Change>) {
        self.advanced_at = self.tracker.at;
        let ScrolledOff {
            text,
            rows,
            count,
            inked,
        } = self.terminal.grid.scrolled.take();
        let (screen, footprint) = self.lines();
        let fresh = Fresh::of(&text, &inked, &screen, &self.terminal);
        let taken = Taken {
            at: self.tracker.at,
            width: self.terminal.width() as u32,
        };
        let open = screen.first().map_or(0, |line| line.start);
        let mut start = open - rows.iter().map(|rows| i64::from(*rows)).sum::<i64>();
        let book = &mut self.tracker.book;
        let first = book.number_at(start + count);
        let known = usize::try_from(book.last_number() - first + 1).unwrap_or(0);
        let block = rows.len() > known + SINGLE_LINES;
        let single = if block { known } else { rows.len() };
        let mut lines = Vec::with_capacity(single + screen.len());
        let mut at = 0;
        for rows in &rows[..single] {
            let end =
                memchr::memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |end| at + end);
            let rows = i64::from(*rows);
            lines.push(Logical {
                start,
                rows,
                text: text[at..end].to_owned(),
            });
            start += rows;
            at = (end + 1).min(text.len());
        }
        book.report(changes, first - 1);
        self.tracker.first = first;
        let number = |at: usize| first + at as i64;
        if !block {
            self.styled.take(fresh, number, number(single));
            lines.extend(screen);
            book.take(lines, first, Moved::By(count), &footprint, taken);
            return;
        }
        // Lines that came and went since the last call are final as they are.
        if !lines.is_empty() {
            book.take(lines, first, Moved::By(count), &footprint, taken);
            book.settle(changes, false);
        }
        let passed = book.next();
        book.pass(text, at, (rows.len() - single) as i64, changes);
        let number = |at: usize| match at.checked_sub(single) {
            Some(behind) => passed + behind as i64,
            None => number(at),
        };
        let first = book.next();
        self.styled.take(fresh, number, first);
        self.tracker.first = first;
        book.take(screen, first, Moved::Unknown, &footprint, taken);
    }
}
