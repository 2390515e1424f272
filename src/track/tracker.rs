//! The tracker of one polled pane: numbers its lines and returns the changes of each capture (pure).

use std::borrow::Cow;
use std::time::Duration;

use unicode_width::UnicodeWidthStr;

use super::align::{Alignment, Facts, Footprint, LinePlace, align, place, place_open};
use super::book::{Book, Moved, Taken};
use super::capture::{Capture, ProcessExit, Row};
use super::change::{Change, GapReason, Loss};
use super::lines::{LogicalLine, group};
use crate::event::{Cursor, ScreenRow};

/// Follows one pane from capture to capture.
///
/// Lines are numbered in order. The cursor's line in the first capture is 1; lines above it have
/// numbers from 0 downwards. [`Change::Lines`] reports each line once, in order, when it has settled.
/// [`Change::Revised`] reports its text before that (a prompt) and after it (a repaint).
///
/// ```
/// use td_observe::internals::track::{Capture, Change, PaneNumbers, Row, Tracker};
/// let row = |text: &str| Row { text: text.into(), wrapped: false };
/// let numbers = PaneNumbers { width: 20, height: 3, history_limit: 100, ..PaneNumbers::default() };
/// let mut capture = Capture { numbers, ..Capture::default() };
/// capture.rows = vec![row("$ make"), row(""), row("")];
/// capture.cursor.y = 1;
/// let mut tracker = Tracker::baseline(&capture);
/// capture.rows = vec![row("$ make"), row("cc a.c"), row("")];
/// capture.cursor.y = 2;
/// assert_eq!(tracker.apply(&capture, false), Some(vec![]));
/// // It was unchanged for one tick: settled.
/// let line = Change::Lines { first_line: 1, chunk: "cc a.c\n".into() };
/// assert_eq!(tracker.apply(&capture, false), Some(vec![line]));
/// ```
#[derive(Clone, Debug)]
pub struct Tracker {
    pub(super) book: Book,
    old: Footprint,
    width: u32,
    pub(super) pid: u32,
    /// The limit of the history at the last capture, in rows.
    pub(super) history_limit: u32,
    pub(super) dead: Option<ProcessExit>,
    /// The reason why the position of the known lines is lost, if it is.
    pub(super) position_loss: Option<Loss>,
    bytes_before: Option<u64>,
    /// The last capture is a stream's, whose history may have been cleared without its knowledge.
    is_of_stream: bool,
    /// The time of the last capture.
    pub(super) at: Duration,
    /// The number of the first line of the last capture.
    pub(super) first: i64,
    /// The number of the pane's first line, as long as its history has not been trimmed or cleared.
    top: Option<i64>,
    /// The last capture differed from the one before.
    changed: bool,
    pub(super) screen: ScreenDiff,
}

/// The numbers of the lines after a change of width.
struct Reflowed {
    first: i64,
    /// Lines above this number are rows that tmux has kept from before, and have no numbers of their own.
    known_above: i64,
    is_certain: bool,
}

impl Tracker {
    /// Begins with an existing pane. Its content is the baseline, which is never reported.
    pub fn baseline(capture: &Capture) -> Self {
        let mut tracker = Self::empty(capture, 1);
        tracker.take_baseline(NormalScreen::of(capture).in_full(capture));
        tracker.note_top(capture, false);
        tracker
    }

    /// Begins with a new pane. All its content is new, from line 1 on.
    pub fn fresh(capture: &Capture) -> (Self, Vec<Change>) {
        let mut tracker = Self::empty(capture, 1);
        let (footprint, lines) = NormalScreen::of(capture).in_full(capture);
        let mut changes = Vec::new();
        if !capture.is_complete() {
            changes.push(tracker.book.gap(Loss::confirmed(GapReason::Truncated)));
        } else if capture.may_be_trimmed() {
            // The history may have been trimmed before the first capture.
            changes.push(tracker.book.gap(Loss::possible(GapReason::Ambiguous)));
        }
        tracker.take(lines, 1, Moved::Unknown, footprint);
        tracker.note_top(capture, false);
        tracker.book.settle(&mut changes, capture.dead.is_some());
        tracker.show_screen(capture, &mut changes);
        (tracker, changes)
    }

    /// Sets how long a line must be unchanged, from one capture to another, before it settles.
    /// Defaults to zero: two captures in a row suffice.
    pub fn set_settle_period(&mut self, period: Duration) {
        self.book.settle_period = period;
    }

    /// Returns how long a line must be unchanged before it settles.
    pub fn settle_period(&self) -> Duration {
        self.book.settle_period
    }

    /// Returns true if lines wait for the settle period before they are reported.
    pub fn is_settling(&self) -> bool {
        self.book.is_waiting()
    }

    pub(super) fn empty(capture: &Capture, next: i64) -> Self {
        Self {
            book: Book::new(next),
            old: Footprint::default(),
            width: capture.width,
            pid: capture.pid,
            history_limit: capture.history_limit,
            dead: capture.dead,
            position_loss: None,
            bytes_before: capture.bytes_before,
            is_of_stream: false,
            at: capture.at,
            first: next,
            top: None,
            changed: false,
            screen: ScreenDiff::default(),
        }
    }

    /// Returns how many rows of history the next capture should hold above the new ones.
    pub fn margin(&self) -> u32 {
        // A line that reaches into the screen is captured from its beginning.
        // Rows of history that a capture should hold above the new ones, to align it with the last capture.
        let kept = self.old.history_rows.min(i64::from(32));
        u32::try_from(self.book.rows_above() + kept).unwrap_or(u32::MAX)
    }

    /// Returns the number of the next line to be reported.
    pub fn next_line(&self) -> i64 {
        self.book.next
    }

    /// Returns the number of the first line of the last capture.
    pub fn first_line(&self) -> i64 {
        self.first
    }

    /// Returns the lines on the screen and just above it in the last capture, reported or not.
    pub fn lines(&self) -> impl Iterator<Item = (i64, &str)> {
        self.book.lines()
    }

    /// Returns the last lines that continue the lines before them, oldest first: a stream reports a line of more
    /// than 64 KiB in pieces.
    pub(crate) fn pieces(&self) -> &[i64] {
        self.book.pieces()
    }

    /// Returns the number of the cursor's line.
    pub fn cursor_line(&self) -> i64 {
        self.book.cursor_line
    }

    /// Returns true if the last capture differed from the one before.
    pub fn had_changes(&self) -> bool {
        self.changed
    }

    /// Applies a capture; `is_full` states that no deeper one is possible, so that lines above it are lost.
    /// Returns the changes in order, often none; `None` if the capture does not reach back far enough, which
    /// changes nothing: the caller must capture the whole history.
    pub fn apply(&mut self, capture: &Capture, is_full: bool) -> Option<Vec<Change>> {
        // A full-screen program has started since the listing. The lines that it hides, including its
        // command, must be reported before its screen.
        if !is_full && capture.alternate && capture.saved.is_none() && !self.screen.is_shown() {
            return None;
        }
        let changes = self.apply_as(capture, is_full || capture.is_complete());
        // The deepest capture reaches back as far as tmux does.
        changes.or_else(|| is_full.then(Vec::new))
    }

    fn apply_as(&mut self, capture: &Capture, deepest: bool) -> Option<Vec<Change>> {
        let mut changes = Vec::new();
        self.at = capture.at;
        if capture.alternate && (capture.saved.is_none() || capture.width < self.width) {
            // The lines behind the full-screen program were not captured, or tmux cuts them at the
            // pane's present width. They are compared later.
            self.show_screen(capture, &mut changes);
            return Some(changes);
        }
        let is_respawned = capture.pid != self.pid;
        let is_rewrapped = capture.width != self.width && !capture.alternate;
        // A change of width moves rows between history and screen; afterwards only the screen continues.
        let connected = if is_rewrapped {
            Cow::Borrowed(capture)
        } else {
            capture.connected()
        };
        let normal = NormalScreen::of(&connected);
        let mut footprint = normal.footprint(&connected);
        footprint.deepest = deepest;
        self.changed = !footprint.shows_same_as(&self.old);
        let mut lines = normal.lines(&footprint);
        if !deepest && (self.position_loss.is_some() || is_respawned || is_rewrapped) {
            return None;
        }
        if let Some(loss) = self.position_loss {
            self.restart_baseline(capture, (footprint, lines), loss, &mut changes);
            return Some(changes);
        }
        let mut known_above = i64::MIN;
        let (first, moved) = if is_respawned {
            // tmux erased the screen for the new program. The last output of the old one may have been
            // missed, unless the last capture showed its end.
            let grown = (footprint.history_size - self.old.history_size).max(0);
            // Rows of the last capture that the old program scrolled off since then are known.
            let known_rows = if self.dead.is_some() {
                0
            } else {
                self.old.scrolled_into(&footprint, grown)
            };
            self.book.flush(&mut changes);
            let first = self.book.first_after_respawn(&lines, grown - known_rows);
            if self.dead.is_none() {
                changes.push(self.book.gap(Loss::possible(GapReason::Cleared)));
            }
            (first, Moved::Unknown)
        } else if is_rewrapped {
            let loss = Loss::possible(GapReason::Resized);
            let Some(reflowed) = self.after_reflow(&mut lines, capture) else {
                self.restart_baseline(capture, (footprint, lines), loss, &mut changes);
                return Some(changes);
            };
            if !reflowed.is_certain {
                self.book.flush(&mut changes);
                changes.push(self.book.gap(loss));
            }
            known_above = reflowed.known_above;
            (reflowed.first, Moved::Unknown)
        } else {
            let facts = Facts {
                trim_step: i64::from(capture.trim_step()),
                history_limit: i64::from(capture.history_limit),
                was_lowered: capture.history_limit < self.history_limit,
                was_streamed: self.is_of_stream,
                bytes: self.bytes_since(capture),
            };
            match align(&self.old, &footprint, &normal.rows, facts) {
                Alignment::NeedsDeeper => return None,
                Alignment::Scrolled(rows) => {
                    (self.book.first_number(&lines, rows), Moved::By(rows))
                }
                Alignment::AtLeast(rows) => {
                    self.book.flush(&mut changes);
                    changes.push(self.book.gap(Loss::possible(GapReason::Ambiguous)));
                    (self.book.first_number(&lines, rows), Moved::AtLeast(rows))
                }
                Alignment::Lost(loss) => (self.book.lose(loss, &mut changes), Moved::Unknown),
            }
        };
        self.remember(capture);
        // Lines above this capture were complete in the last one.
        self.book.report(&mut changes, first - 1);
        self.take(lines, first, moved, footprint);
        self.book.mark_known_above(known_above);
        self.note_top(capture, matches!(moved, Moved::By(_)));
        self.book.settle(&mut changes, capture.dead.is_some());
        self.show_screen(capture, &mut changes);
        Some(changes)
    }

    /// Records the numbers of a capture for comparison with the next one.
    pub(super) fn remember(&mut self, capture: &Capture) {
        self.position_loss = None;
        if !capture.alternate {
            self.width = capture.width;
        }
        self.pid = capture.pid;
        self.history_limit = capture.history_limit;
        self.dead = capture.dead;
        self.bytes_before = capture.bytes_before;
        self.is_of_stream = false;
    }

    /// Continues from this capture of a stream, whose lines are known already.
    pub(super) fn continue_from(&mut self, capture: &Capture) {
        self.remember(capture);
        self.is_of_stream = true;
        self.old = NormalScreen::of(capture).footprint(capture);
        self.top = None;
    }

    /// Reports the loss of the position. The lines of the capture may have been reported already, so
    /// they become the baseline.
    fn restart_baseline(
        &mut self,
        capture: &Capture,
        shown: (Footprint, Vec<LogicalLine>),
        loss: Loss,
        changes: &mut Vec<Change>,
    ) {
        self.book.lose(loss, changes);
        self.remember(capture);
        self.take_baseline(shown);
        self.note_top(capture, false);
    }

    /// Records the number of the pane's first line. `continues` states whether the position in the
    /// last capture is known.
    pub(super) fn note_top(&mut self, capture: &Capture, continues: bool) {
        self.top = if capture.alternate || capture.may_be_trimmed() {
            None
        } else if capture.is_complete() {
            Some(self.first)
        } else {
            self.top.filter(|_| continues)
        };
    }

    /// Settles lines that have been unchanged from the last capture until `at`, on the clock of
    /// [`Capture::at`]. `server_bytes` is the number of bytes that the server had read before `at`.
    pub fn unchanged(&mut self, at: Duration, server_bytes: Option<u64>) -> Vec<Change> {
        self.at = at;
        self.bytes_before = server_bytes.or(self.bytes_before);
        self.book.mark_unchanged(at);
        let mut changes = Vec::new();
        self.book.settle(&mut changes, self.dead.is_some());
        changes
    }

    /// Reports all remaining lines, because the pane is gone.
    pub fn end(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        self.book.settle(&mut changes, true);
        changes
    }

    /// Reports all lines above the cursor's as settled, and the cursor's line as it is, because the
    /// observer stops while the pane continues.
    pub fn detach(&mut self) -> Vec<Change> {
        self.settle_now()
    }

    /// Reports all lines above the cursor's as settled, and the cursor's line as it is, without waiting for
    /// the settle period.
    pub fn settle_now(&mut self) -> Vec<Change> {
        let period = std::mem::take(&mut self.book.settle_period);
        let changes = self.unchanged(self.at, None);
        self.book.settle_period = period;
        changes
    }

    /// Returns the most bytes that can have been written since the last capture.
    fn bytes_since(&self, capture: &Capture) -> Option<u64> {
        // The notice that tmux writes into a dead pane adds up to two rows.
        let notice = if capture.dead.is_some() { 2 } else { 0 };
        Some(capture.bytes_after?.saturating_sub(self.bytes_before?) + notice)
    }

    /// Takes the lines as the baseline. The cursor's line gets the next number.
    fn take_baseline(&mut self, (footprint, lines): (Footprint, Vec<LogicalLine>)) {
        let at_cursor = lines
            .iter()
            .rposition(|line| line.start <= footprint.cursor_row);
        let first = self.book.next - at_cursor.unwrap_or(0) as i64;
        self.take(lines, first, Moved::Unknown, footprint);
        // None of them is reported.
        self.book.mark_known_above(i64::MAX);
    }

    pub(super) fn take(
        &mut self,
        lines: Vec<LogicalLine>,
        first: i64,
        moved: Moved,
        mut footprint: Footprint,
    ) {
        let (at, width) = (self.at, self.width);
        self.first = first;
        self.book
            .take(lines, first, moved, &footprint, Taken { at, width });
        footprint.prune();
        self.old = footprint;
    }

    /// Numbers the lines after a change of width. Restores the beginning of the first line or of the open one,
    /// if it is known and tmux no longer has it.
    fn after_reflow(&self, lines: &mut [LogicalLine], capture: &Capture) -> Option<Reflowed> {
        // Without a history, tmux loses rows at a resize, and shows earlier ones in their place and above.
        let is_mixed = capture.history_limit == 0;
        let first = self.first_after_reflow(lines, capture);
        let damaged = first.filter(|first| is_mixed && !self.shows_open_line(lines, *first));
        let in_order = |first: i64| {
            let known = self.book.line(first).zip(lines.first());
            let (cut, is_certain) = known.map_or((0, true), |(known, line)| {
                known.cut_in(&line.text, first < self.book.cursor_line)
            });
            let place = LinePlace {
                at: 0,
                cut,
                is_certain,
            };
            (first, place)
        };
        let by_text = || {
            let open = self.book.open_line()?;
            let place = place_open(&open.text, lines, is_mixed)?;
            Some((open.number - place.at as i64, place))
        };
        // Rows above the screen would be reported out of order, or again.
        let at_top = || damaged.filter(|_| capture.history_size == 0).map(in_order);
        let (first, place) = match first {
            Some(first) if damaged.is_none() => in_order(first),
            _ => by_text().or_else(at_top)?,
        };
        let number = first + place.at as i64;
        if let (Some(known), Some(line)) = (self.book.line(number), lines.get_mut(place.at))
            && place.cut > 0
        {
            line.insert_beginning(&known.text[..place.cut]);
        }
        let is_below_others = is_mixed && place.at > 0;
        Some(Reflowed {
            first,
            known_above: if is_below_others { number } else { i64::MIN },
            is_certain: place.is_certain && damaged.is_none() && !is_below_others,
        })
    }

    /// Returns the number of the first line after a change of width. tmux has rewrapped the rows, so
    /// lines are compared instead.
    fn first_after_reflow(&self, lines: &[LogicalLine], capture: &Capture) -> Option<i64> {
        let known = self.book.above_cursor();
        // As long as tmux has all lines, the first one keeps its number.
        if let Some(top) = self
            .top
            .filter(|_| capture.is_complete() && !self.may_be_trimmed(lines, capture))
            && known.iter().all(|(number, text)| {
                let at = usize::try_from(number - top).ok();
                let line = at.and_then(|at| lines.get(at));
                line.is_some_and(|line| line.text.trim_end() == text.trim_end())
            })
        {
            return Some(top);
        }
        let bytes = self.bytes_since(capture);
        let printable = |new_lines: &[LogicalLine]| {
            let least: usize = new_lines
                .iter()
                .map(|line| line.text.trim_end().len())
                .sum();
            bytes.is_none_or(|bytes| least as u64 <= bytes)
        };
        place(&known, lines, |after: usize| {
            // All text below the former line of the cursor was printed since the last capture.
            lines.get(after + 1..).is_none_or(&printable)
        })
    }

    /// Returns true if the open line is still there, perhaps with more text.
    fn shows_open_line(&self, lines: &[LogicalLine], first: i64) -> bool {
        let Some(open) = self.book.open_line() else {
            return true;
        };
        let line = usize::try_from(open.number - first);
        let line = line.ok().and_then(|at| lines.get(at));
        line.is_some_and(|line| line.text.starts_with(open.text.trim_end()))
    }

    /// Returns true if tmux may have trimmed the history, perhaps before it rewrapped the rows.
    fn may_be_trimmed(&self, lines: &[LogicalLine], capture: &Capture) -> bool {
        let width = self.width.max(1) as usize;
        let rows_before: usize = (lines.iter())
            .map(|line| line.text.width().div_ceil(width).max(1))
            .sum();
        let room = capture.history_limit.saturating_sub(capture.trim_step());
        capture.may_be_trimmed() || rows_before as i64 >= self.old.height + i64::from(room)
    }

    pub(super) fn show_screen(&mut self, capture: &Capture, changes: &mut Vec<Change>) {
        if capture.alternate {
            let screen = &capture.rows[capture.history_rows()..];
            changes.extend(self.screen.update(
                capture.width,
                capture.height,
                capture.cursor,
                screen,
            ));
        } else {
            self.screen.leave();
        }
    }
}

// The lines of a capture's normal screen, even if a full-screen program hides it (pure).

/// The normal screen of a capture, with the rows of the history.
pub(super) struct NormalScreen<'a> {
    pub rows: Cow<'a, [Row]>,
    height: usize,
    cursor_row: u32,
}

impl<'a> NormalScreen<'a> {
    pub fn of(capture: &'a Capture) -> Self {
        match &capture.saved {
            Some(saved) if capture.alternate => {
                let mut rows = capture.rows[..capture.history_rows()].to_vec();
                rows.extend_from_slice(&saved.rows);
                Self {
                    rows: rows.into(),
                    height: saved.rows.len(),
                    cursor_row: saved.cursor.y,
                }
            }
            _ => {
                let mut rows = Cow::Borrowed(&capture.rows[..]);
                if capture.dead.is_some() && rows.last().is_some_and(is_death_notice) {
                    leave_out_notice(rows.to_mut());
                }
                Self {
                    height: (capture.height as usize).min(rows.len()),
                    rows,
                    // tmux moves the cursor of a dead pane, so only the text counts.
                    cursor_row: if capture.dead.is_some() {
                        0
                    } else {
                        capture.cursor.y
                    },
                }
            }
        }
    }

    pub fn footprint(&self, capture: &Capture) -> Footprint {
        Footprint::new(
            &self.rows,
            self.height,
            capture.history_size,
            self.cursor_row,
        )
    }

    /// Returns the footprint and the lines.
    pub fn in_full(&self, capture: &Capture) -> (Footprint, Vec<LogicalLine>) {
        let footprint = self.footprint(capture);
        let lines = self.lines(&footprint);
        (footprint, lines)
    }

    /// Returns the lines in use.
    pub fn lines(&self, footprint: &Footprint) -> Vec<LogicalLine> {
        let unused = (footprint.height - footprint.used).max(0) as usize;
        group(
            &self.rows[..self.rows.len() - unused],
            -footprint.history_rows,
        )
    }
}

/// Blanks the notice that tmux wrote into a dead pane.
pub(super) fn leave_out_notice(rows: &mut [Row]) {
    if let Some(notice) = rows.last_mut().filter(|row| is_death_notice(row)) {
        *notice = Row::default();
    }
}

/// Returns true if a row is the notice that tmux writes at the bottom of a dead pane.
fn is_death_notice(row: &Row) -> bool {
    row.text.starts_with("Pane is dead")
}

// The changed rows on the alternate screen of a full-screen program (pure).

/// The last reported screen.
#[derive(Clone, Debug, Default)]
pub(super) struct ScreenDiff {
    /// `None` while no full-screen program runs.
    shown: Option<Shown>,
}

#[derive(Clone, Debug)]
struct Shown {
    width: u32,
    height: u32,
    cursor: Cursor,
    rows: Vec<String>,
}

impl ScreenDiff {
    /// Returns the change of the screen, if any. A new screen, or one of a new size, is compared with
    /// a blank one: rows that the change does not contain are empty.
    pub fn update(
        &mut self,
        width: u32,
        height: u32,
        cursor: Cursor,
        rows: &[Row],
    ) -> Option<Change> {
        let same_size = self
            .shown
            .as_ref()
            .is_some_and(|shown| (shown.width, shown.height) == (width, height));
        if !same_size {
            let blank = vec![String::new(); rows.len()];
            self.shown = Some(Shown {
                width,
                height,
                cursor,
                rows: blank,
            });
        }
        let shown = self.shown.as_mut()?;
        let mut changed = Vec::new();
        for ((row, old), new) in (0..).zip(&mut shown.rows).zip(rows) {
            let text = new.text.trim_end_matches(' ');
            if old != text {
                text.clone_into(old);
                changed.push(ScreenRow {
                    row,
                    text: text.to_owned(),
                });
            }
        }
        let moved = std::mem::replace(&mut shown.cursor, cursor) != cursor;
        (!same_size || moved || !changed.is_empty()).then_some(Change::Screen {
            width,
            height,
            cursor,
            rows: changed,
        })
    }

    /// Returns true if a full-screen program runs.
    pub fn is_shown(&self) -> bool {
        self.shown.is_some()
    }

    /// Forgets the screen, because the full-screen program has ended.
    pub fn leave(&mut self) {
        self.shown = None;
    }
}

// Resumes a pane where an earlier observer stopped (pure).

impl Tracker {
    /// Continues where an earlier observer of the same pane stopped. `known` contains the last lines
    /// that it reported, in order of their numbers; `next` is the number of the next line. If these
    /// lines do not match exactly one place in the pane, a gap is reported and the pane's content is
    /// the baseline.
    pub fn resume(capture: &Capture, known: &[(i64, String)], next: i64) -> (Self, Vec<Change>) {
        let mut tracker = Self::empty(capture, next);
        let (footprint, lines) = NormalScreen::of(capture).in_full(capture);
        let settled: Vec<(i64, &str)> = known
            .iter()
            .filter(|(number, _)| *number < next)
            .map(|(number, text)| (*number, text.as_str()))
            .collect();
        let mut changes = Vec::new();
        if let Some(first) = place(&settled, &lines, |_| true) {
            tracker.take(lines, first, Moved::Unknown, footprint);
            tracker.book.mark_reported(known);
            tracker.book.settle(&mut changes, capture.dead.is_some());
        } else {
            let gone = settled.iter().rev().take(1).any(|(_, last)| {
                let same = |line: &LogicalLine| line.text.trim_end() == last.trim_end();
                !lines.iter().any(same)
            });
            // The last known line has been trimmed, perhaps with lines after it.
            let is_trimmed = capture.may_be_trimmed() && gone;
            let reason = GapReason::ObserverAbsent;
            let loss = if is_trimmed {
                Loss::confirmed(reason)
            } else {
                Loss::possible(reason)
            };
            changes.push(tracker.book.gap(loss));
            if is_trimmed {
                // All lines in the pane follow the known ones.
                tracker.take(lines, next, Moved::Unknown, footprint);
                tracker.book.settle(&mut changes, capture.dead.is_some());
            } else {
                tracker.take_baseline((footprint, lines));
            }
        }
        tracker.note_top(capture, false);
        tracker.show_screen(capture, &mut changes);
        (tracker, changes)
    }
}
