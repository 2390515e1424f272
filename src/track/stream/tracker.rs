//! The tracker of one streamed pane, which receives all its bytes (pure).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::super::align::Footprint;
use super::super::book::{Moved, Revisions, Taken};
use super::super::capture::{Capture, PaneNumbers};
use super::super::change::{Change, GapReason};
use super::super::lines::{LogicalLine, fills_row, group, used_rows};
use super::super::throttle::LIVE_PERIOD;
use super::super::tracker::{NormalScreen, Tracker, leave_out_notice};
use super::agreement::{Agreement, SyncPoint};
use super::grid::{Head, ScrolledOff};
use super::input::Input;
use super::marks::{Marks, ShellMark, TerminalNotice};
use super::styled::{Fresh, Styled};
use super::terminal::Terminal;
use crate::event::{Cursor, GapEvidence, Links, Styles, line_ends_in};

/// The most bytes of lines that wait for [`StreamTracker::changes`]. Input does not bound them, because
/// a few bytes can print a whole screen.
const WAITING_BYTES_MAX: usize = 1024 * 1024;

/// The interval between revisions: faster than people read, and progress at a thousand steps a second
/// does not make a thousand events.
const REVISION_PERIOD: Duration = Duration::from_millis(50);

/// The number of reported lines that are kept for a resync.
const RECENT_LINES: usize = 12;

/// Follows one pane by its bytes.
///
/// It continues from a [`Tracker`], with its lines, numbers and rules: a line settles when it has
/// scrolled off, or when the cursor has left it and it has been unchanged for the settle period
/// ([`StreamTracker::set_settle_period`]). Bytes change only the terminal, and
/// [`StreamTracker::changes`] reports the result, so that chunks may end anywhere.
///
/// ```
/// use std::time::Duration;
/// use td_observe::internals::track::{Capture, Change, PaneNumbers, Row, SyncPoint, StreamTracker, Tracker};
/// let rows = vec![Row::default(); 3];
/// let numbers = PaneNumbers { width: 20, height: 3, ..PaneNumbers::default() };
/// let capture = Capture { numbers, rows, ..Capture::default() };
/// let sync_point = SyncPoint { capture, ..SyncPoint::default() };
/// let mut pane = StreamTracker::new(Tracker::baseline(&sync_point.capture), &sync_point);
/// let bytes = b"cc a.c\r\n";
/// assert_eq!(pane.feed(bytes), bytes.len());
/// assert_eq!(pane.changes(Duration::ZERO), []);
/// // It was unchanged until the next call: settled.
/// let line = Change::Lines { first_line: 1, chunk: "cc a.c\n".into() };
/// assert_eq!(pane.changes(Duration::ZERO), [line]);
/// ```
#[derive(Debug)]
pub struct StreamTracker {
    /// The inner tracker, which has the known lines and their numbers.
    pub tracker: Tracker,
    pub(super) terminal: Terminal,
    pub(super) input: Input,
    pub(super) marks: Marks,
    /// Bytes have arrived since the book was last updated.
    pub(super) fed: bool,
    /// Bytes have arrived since the alternate screen was last reported.
    screen_fed: bool,
    /// Lines may differ from their reported texts; the next revisions report them.
    revisions_pending: bool,
    /// Another program has begun, and no capture has been applied since.
    pub(super) respawn_pending: bool,
    /// Bytes were dropped, and no capture has been applied since.
    pub(super) has_gap: bool,
    /// The last reported lines, with their numbers.
    pub(super) recent: VecDeque<(i64, String)>,
    /// The last agreement of stream and tmux, and the changes reported since.
    pub(super) agreed: Agreement,
    /// The styles of the known lines.
    styled: Styled,
    /// The time of the last update of the book.
    advanced_at: Duration,
    /// The time of the last revision.
    revised_at: Option<Duration>,
    /// The time of the last report of a full-screen program's screen.
    screen_at: Option<Duration>,
}

impl StreamTracker {
    /// Continues from a tracker that has just applied the capture of the sync point with
    /// [`Tracker::baseline`], [`Tracker::fresh`], [`Tracker::resume`] or [`Tracker::apply`].
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
            agreed: Agreement::default(),
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

    /// Sets the terminal to a sync point whose capture the tracker has applied. `continues` states
    /// whether the same program runs and all its bytes up to the sync point have arrived.
    pub(super) fn restart_at(&mut self, sync_point: &SyncPoint, continues: bool) {
        let head = self.head_at(&sync_point.capture);
        self.restart_with_head(sync_point, head.as_ref(), continues);
    }

    /// Sets the terminal to a sync point. `head` is what the rows of the topmost line do not show.
    pub(super) fn restart_with_head(
        &mut self,
        sync_point: &SyncPoint,
        head: Option<&Head>,
        continues: bool,
    ) {
        let terminal = Terminal::from_sync_point(sync_point, head);
        let before = std::mem::replace(&mut self.terminal, terminal);
        if continues {
            self.terminal.inherit(before);
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

    /// Sets the time of the next bytes, on the clock of [`StreamTracker::changes`]. tmux waits only some
    /// seconds for the end of a title, for example. Without calls, no time passes between bytes.
    pub fn advance_clock(&mut self, now: Duration) {
        self.input.advance_clock(now, &mut self.terminal);
    }

    /// Takes bytes, cut anywhere, and returns how many. When too much waits to be reported, it does not
    /// take all of them; the caller must then call [`StreamTracker::changes`] and
    /// [`StreamTracker::shell_marks`] before it feeds the rest.
    #[must_use = "bytes that were not taken must be fed again"]
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

    /// Returns the changes until `now`, on any monotonic clock. Lines that have scrolled off are
    /// reported at once, others when they have settled; see [`StreamTracker::deadline`].
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
        let revisions = match (scrolls, self.is_throttled(now)) {
            (_, false) => Revisions::All,
            (true, true) => Revisions::Settled,
            (false, true) => Revisions::None,
        };
        self.tracker
            .book
            .settle_with(&mut changes, false, revisions);
        self.revisions_pending &= revisions != Revisions::All;
        self.show_screen(now, &mut changes);
        self.note(now, &changes);
        changes
    }

    /// Returns when [`StreamTracker::changes`] must be called even if no bytes arrive. `None` if nothing
    /// is pending.
    pub fn deadline(&self) -> Option<Duration> {
        let revisions = self
            .revised_at
            .filter(|_| self.revisions_pending)
            .map(|at| at + REVISION_PERIOD);
        let settled = (!self.fed && self.tracker.book.is_waiting())
            .then(|| self.advanced_at + self.tracker.book.settle_period);
        let shown_next = match self.terminal.update_end() {
            Some(end) if self.is_updating() => Some(end),
            _ => self.screen_at.map(|at| at + LIVE_PERIOD),
        };
        let screen = shown_next.filter(|_| self.screen_fed && self.terminal.saved.is_some());
        [revisions, settled, screen].into_iter().flatten().min()
    }

    /// Returns the shell's marks since the last call, in order.
    pub fn shell_marks(&mut self) -> Vec<ShellMark> {
        std::mem::take(&mut self.marks.waiting)
    }

    /// Returns the program's other messages to its terminal since the last call, in order. They are to be
    /// taken with the marks.
    pub(crate) fn notices(&mut self) -> Vec<TerminalNotice> {
        std::mem::take(&mut self.marks.notices)
    }

    /// Reports a gap for dropped bytes, which had `line_ends` line ends. The content of the screen is
    /// unknown then: a [`StreamTracker::resync`] should follow when the pane is at rest.
    pub fn bytes_dropped(&mut self, line_ends: u64, now: Duration) -> Vec<Change> {
        let mut changes = self.settle(now, false);
        // The first lost line end ended the cursor's line, so that line counts as lost.
        self.tracker.book.flush(&mut changes);
        changes.push(Change::Gap {
            first_line: self.tracker.book.next,
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

    /// Reports the lines of a program whose end is known, because another one begins in the pane. No
    /// byte shows that tmux has erased the screen and moved the cursor to its top.
    pub fn respawned(&mut self, now: Duration) -> Vec<Change> {
        let changes = self.settle(now, true);
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

    /// Reports all remaining lines, because the pane is gone.
    pub fn end(&mut self, now: Duration) -> Vec<Change> {
        let changes = self.settle(now, true);
        self.note(now, &changes);
        changes
    }

    /// Reports all lines above the cursor's as settled, and the cursor's line as it is, because the
    /// observer stops while the pane continues.
    pub fn detach(&mut self, now: Duration) -> Vec<Change> {
        self.settle_now(now)
    }

    /// Reports all lines above the cursor's as settled, and the cursor's line as it is.
    pub fn settle_now(&mut self, now: Duration) -> Vec<Change> {
        let mut changes = self.settle(now, false);
        changes.extend(self.tracker.settle_now());
        (self.fed, self.revisions_pending) = (false, false);
        self.note(now, &changes);
        changes
    }

    /// Returns the styles and links of lines that [`StreamTracker::changes`], or another method that returns
    /// changes, has just returned: lines from this number on, each ended by `\n`, or one line without
    /// its end. Lines with another text are plain, and so are lines of the baseline until they are
    /// written again.
    pub fn styles(&self, first_line: i64, text: &str) -> (Styles, Links) {
        self.styled.styles(first_line, text)
    }

    /// Sets how long a line must be unchanged before it settles; see [`Tracker::set_settle_period`].
    pub fn set_settle_period(&mut self, settle: Duration) {
        self.tracker.set_settle_period(settle);
    }

    /// Returns the lines of the normal screen in use, including the cursor's. The first one includes
    /// its beginning, which may have scrolled off.
    pub(super) fn lines(&self) -> (Vec<LogicalLine>, Footprint) {
        let (mut rows, mut cursor_row) = self.terminal.normal();
        if self.tracker.dead.is_some() {
            // As in captures, tmux has moved the cursor.
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

    /// Updates the book, and returns the lines that have settled, or `all` lines, and all revisions.
    pub(super) fn settle(&mut self, now: Duration, all: bool) -> Vec<Change> {
        let mut changes = Vec::new();
        self.tracker.at = now;
        self.advance(&mut changes);
        self.tracker.book.settle(&mut changes, all);
        changes
    }

    /// Updates the book: the lines that have scrolled off since the last update, and the screen.
    pub(super) fn advance(&mut self, changes: &mut Vec<Change>) {
        self.advanced_at = self.tracker.at;
        let ScrolledOff {
            text,
            rows,
            count,
            inked,
            cuts,
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
        // The book receives a few new lines one by one. More are reported as a block.
        let block = rows.len() > known + 32;
        let single = if block { known } else { rows.len() };
        let mut lines = Vec::with_capacity(single + screen.len());
        let mut at = 0;
        for rows in &rows[..single] {
            let end =
                memchr::memchr(b'\n', &text.as_bytes()[at..]).map_or(text.len(), |end| at + end);
            let rows = i64::from(*rows);
            lines.push(LogicalLine {
                start,
                rows,
                head: 0,
                text: text[at..end].to_owned(),
            });
            start += rows;
            at = (end + 1).min(text.len());
        }
        book.report(changes, first - 1);
        self.tracker.first = first;
        let number = |at: usize| first + at as i64;
        if !block {
            book.note_pieces(cuts.iter().map(|at| number(*at) + 1));
            self.styled.take(fresh, number, number(single));
            lines.extend(screen);
            book.take(lines, first, Moved::By(count), &footprint, taken);
            return;
        }
        // Lines that were printed and have scrolled off since the last update are final.
        if !lines.is_empty() {
            book.take(lines, first, Moved::By(count), &footprint, taken);
            book.settle(changes, false);
        }
        let passed = book.next;
        book.report_passed(text, at, (rows.len() - single) as i64, changes);
        let number = |at: usize| match at.checked_sub(single) {
            Some(behind) => passed + behind as i64,
            None => number(at),
        };
        book.note_pieces(cuts.iter().map(|at| number(*at) + 1));
        let first = book.next;
        self.styled.take(fresh, number, first);
        self.tracker.first = first;
        book.take(screen, first, Moved::Unknown, &footprint, taken);
    }
}

// Compares the stream's screen with captures (pure).

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
            is_updating: self.is_updating(),
            at: self.tracker.at,
            bytes_before: None,
            bytes_after: None,
        }
    }

    /// Returns a capture of the last complete screen: within a synchronized update, the one before it.
    pub fn complete_capture(&self) -> Capture {
        let mut capture = self.capture();
        if self.is_updating() {
            let (rows, cursor, is_alternate) = self.terminal.complete_screen(self.tracker.at);
            (capture.rows, capture.cursor) = (rows, cursor);
            if capture.alternate != is_alternate {
                (capture.alternate, capture.saved) = (is_alternate, None);
            }
        }
        capture
    }

    /// Returns true within a synchronized update, in which the screen is a mixture of two.
    pub fn is_updating(&self) -> bool {
        self.terminal.is_updating(self.tracker.at)
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
        let ends = |lines: &[LogicalLine], cursor_row: i64| -> Vec<(bool, String)> {
            let until = lines.iter().rposition(|line| line.start <= cursor_row);
            let last = lines
                .iter()
                .take(until.map_or(0, |at| at + 1))
                .rev()
                .take(2);
            let is_piece = |line: &LogicalLine| {
                let book = &tracker.book;
                book.last_piece() == Some(book.number_at(line.start))
            };
            // A capture has only the end of a line that begins above it, so ends are compared.
            last.map(|line| (is_piece(line), line.text.trim_end_matches(' ').to_owned()))
                .collect()
        };
        let (lines, footprint) = self.lines();
        let stream = ends(&lines, footprint.cursor_row);
        let (footprint, lines) = NormalScreen::of(capture).in_full(capture);
        let tmux = ends(&lines, footprint.cursor_row);
        let mut pairs = stream.iter().zip(&tmux);
        pairs.any(|((is_piece, stream), (_, tmux))| {
            let is_joined = *is_piece && tmux.ends_with(&**stream);
            !(stream.ends_with(&**tmux) || is_joined) || tmux.is_empty() != stream.is_empty()
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

// Joins captured lines that tmux has broken in two, or of which it has only the end (pure).

/// Joins broken lines from a line of this number upwards, and returns the number of the first line.
///
/// When a full-screen program begins, tmux breaks a line of the normal screen whose beginning has
/// scrolled off. Both parts are one line, as it was printed and reported.
pub(super) fn join_up(
    lines: &mut Vec<LogicalLine>,
    at: usize,
    number: i64,
    known: &BTreeMap<i64, &str>,
    width: u32,
) -> i64 {
    let (mut at, mut number) = (at, number);
    loop {
        let text = known.get(&number).copied();
        if at > 0 && text.is_some_and(|text| is_broken(lines, at - 1, text, width)) {
            join(lines, at - 1);
            at -= 1;
        }
        if at == 0 {
            return number;
        }
        (at, number) = (at - 1, number - 1);
    }
}

/// Joins broken lines from the first line downwards, which has the number `first`.
pub(super) fn join_down(
    lines: &mut Vec<LogicalLine>,
    first: i64,
    known: &BTreeMap<i64, &str>,
    width: u32,
) {
    let mut at = 0;
    while at < lines.len() {
        let text = known.get(&(first + at as i64)).copied();
        if text.is_some_and(|text| is_broken(lines, at, text, width)) {
            join(lines, at);
        }
        at += 1;
    }
}

/// Completes the first line if the history was cleared and tmux has only the end of it. `reported` are
/// its possible texts. The dropped rows count as one.
pub(super) fn mend_cut(lines: &mut [LogicalLine], capture: &Capture, reported: &[&str]) {
    let (Some(line), true) = (lines.first_mut(), capture.is_complete()) else {
        return;
    };
    let text = line.text.trim_end_matches(' ');
    if text.is_empty() {
        return;
    }
    let begin = reported.iter().find_map(|reported| {
        let begin = reported.trim_end_matches(' ').strip_suffix(text)?;
        // Rows that scrolled off before a resize had another width.
        let is_long = begin.len() > capture.width as usize;
        (!begin.is_empty() && (is_long || fills_row(begin, capture.width))).then_some(begin)
    });
    if let Some(begin) = begin {
        line.insert_beginning(begin);
    }
}

/// Returns true if a line and the next one are one reported line, broken at the end of a full row. A
/// line that ends elsewhere is a line of its own, for example after `send-keys -R`.
fn is_broken(lines: &[LogicalLine], at: usize, reported: &str, width: u32) -> bool {
    let (Some(line), Some(next)) = (lines.get(at), lines.get(at + 1)) else {
        return false;
    };
    if !fills_row(&line.text, width) {
        return false;
    }
    let rest = reported.strip_prefix(&*line.text);
    !is_blank(&line.text)
        && !is_blank(&next.text)
        && rest.is_some_and(|rest| has_text(rest, &next.text))
}

fn join(lines: &mut Vec<LogicalLine>, at: usize) {
    let next = lines.remove(at + 1);
    lines[at].text.push_str(&next.text);
    lines[at].rows += next.rows;
}

pub(super) fn is_blank(line: &str) -> bool {
    line.trim_end_matches(' ').is_empty()
}

/// Returns true if a line has this text, apart from blanks at its end.
pub(super) fn has_text(line: &str, reported: &str) -> bool {
    line.trim_end_matches(' ') == reported.trim_end_matches(' ')
}

// Records what a stream has reported: the last lines, the times of revisions and screens (pure).

impl StreamTracker {
    /// Returns true if the last revision was less than [`REVISION_PERIOD`] ago.
    pub(super) fn is_throttled(&self, now: Duration) -> bool {
        self.revised_at
            .is_some_and(|at| now.saturating_sub(at) < REVISION_PERIOD)
    }

    pub(super) fn show_screen(&mut self, now: Duration, changes: &mut Vec<Change>) {
        if self.terminal.saved.is_none() {
            self.tracker.screen.leave();
            self.screen_at = None;
            return;
        }
        let is_due = self
            .screen_at
            .is_none_or(|at| now.saturating_sub(at) >= LIVE_PERIOD);
        if !self.screen_fed || !is_due {
            return;
        }
        let (rows, cursor, is_alternate) = self.terminal.complete_screen(now);
        // Within a synchronized update, the screen is due again.
        self.screen_fed = self.terminal.is_updating(now);
        if !is_alternate {
            return;
        }
        let (width, height) = (self.terminal.width() as u32, self.terminal.height() as u32);
        if let Some(change) = self.tracker.screen.update(width, height, cursor, &rows) {
            changes.push(change);
            self.screen_at = Some(now);
        }
    }

    /// Records reported changes.
    pub(super) fn note(&mut self, now: Duration, changes: &[Change]) {
        if changes
            .iter()
            .any(|change| matches!(change, Change::Revised { .. }))
        {
            self.revised_at = Some(now);
        }
        self.agreed.note(changes);
        self.note_recent(changes);
    }

    fn note_recent(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Lines { first_line, chunk } => {
                    let last = chunk.lines().rev().take(RECENT_LINES).collect::<Vec<_>>();
                    let first = first_line + line_ends_in(chunk) - last.len() as i64;
                    let last = last.into_iter().rev().map(str::to_owned);
                    self.recent.extend((first..).zip(last));
                }
                Change::Revised { line, text } => {
                    for (_, before) in self.recent.iter_mut().filter(|(number, _)| number == line) {
                        before.clone_from(text);
                    }
                }
                Change::Gap { .. } | Change::Screen { .. } => {}
            }
        }
        let surplus = self.recent.len().saturating_sub(RECENT_LINES);
        self.recent.drain(..surplus);
    }
}
