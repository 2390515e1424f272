//! The tracker of one pane: keeps its lines by number and says what each capture brings (pure).

use std::time::Duration;

use super::align::{Alignment, Facts, Footprint, align};
use super::book::{Book, Moved, Taken};
use super::capture::{Capture, ProcessExit};
use super::change::{Change, GapReason, Loss};
use super::lines::Logical;
use super::normal::Normal;
use super::reflow;
use super::screen::ScreenDiff;

/// Rows of history that a capture should hold beyond what is new, to recognise the place by.
const MARGIN_ROWS: u32 = 32;

/// The result of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrackerOutput {
    /// The changes, in order; often none.
    Changes(Vec<Change>),
    /// The capture does not reach back far enough: look again, at all that tmux has. Nothing changed.
    TooShallow,
}

/// Follows one pane from look to look.
///
/// Lines are numbered by their order: the line of the cursor in the first capture is 1, what stood
/// above it 0 and below. A line is reported once in [`Change::Lines`] when it has settled, in
/// order; what it reads before that (a prompt) or afterwards (a repaint) comes as
/// [`Change::Revised`].
///
/// ```
/// use td_observe::track::{Capture, Change, PaneNumbers, Row, Tracker, TrackerOutput};
/// let row = |text: &str| Row { text: text.into(), wrapped: false };
/// let numbers = PaneNumbers { width: 20, height: 3, history_limit: 100, ..PaneNumbers::default() };
/// let mut capture = Capture { numbers, ..Capture::default() };
/// capture.rows = vec![row("$ make"), row(""), row("")];
/// capture.cursor.y = 1;
/// let mut tracker = Tracker::baseline(&capture);
/// capture.rows = vec![row("$ make"), row("cc a.c"), row("")];
/// capture.cursor.y = 2;
/// assert_eq!(tracker.apply(&capture), TrackerOutput::Changes(vec![]));
/// // It stood for one tick: settled.
/// let line = Change::Lines { first_line: 1, chunk: "cc a.c\n".into() };
/// assert_eq!(tracker.apply(&capture), TrackerOutput::Changes(vec![line]));
/// ```
#[derive(Debug)]
pub struct Tracker {
    pub(super) book: Book,
    old: Footprint,
    width: u32,
    pub(super) pid: u32,
    /// Rows that the history could hold at the last capture.
    pub(super) history_limit: u32,
    pub(super) dead: Option<ProcessExit>,
    /// Where the lines stand is not known, and why.
    pub(super) position_loss: Option<Loss>,
    bytes_before: Option<u64>,
    /// When the last capture was taken.
    pub(super) at: Duration,
    /// The number of the first line of the last capture.
    pub(super) first: i64,
    /// The number of the first line that the pane has, where that is known for sure: nothing has
    /// been trimmed or cleared yet.
    top: Option<i64>,
    /// The last capture showed something new.
    changed: bool,
    pub(super) screen: ScreenDiff,
}

impl Tracker {
    /// Begins with a pane that has been there: what stands on its screen is known, not said.
    pub fn baseline(capture: &Capture) -> Self {
        let mut tracker = Self::empty(capture, 1);
        tracker.take_baseline(Normal::of(capture).in_full(capture));
        tracker.note_top(capture, false);
        tracker
    }

    /// Begins with a pane that has just appeared: all that it shows is new, from line 1 on.
    pub fn fresh(capture: &Capture) -> (Self, Vec<Change>) {
        let mut tracker = Self::empty(capture, 1);
        let (footprint, lines) = Normal::of(capture).in_full(capture);
        let mut changes = Vec::new();
        if !capture.is_complete() {
            changes.push(tracker.book.gap(Loss::confirmed(GapReason::Truncated)));
        } else if may_be_trimmed(capture) {
            // So much was printed before the first capture that the history may have been trimmed.
            changes.push(tracker.book.gap(Loss::possible(GapReason::Ambiguous)));
        }
        tracker.take(lines, 1, Moved::Unknown, footprint);
        tracker.note_top(capture, false);
        tracker.book.settle(&mut changes, capture.dead.is_some());
        tracker.show_screen(capture, &mut changes);
        (tracker, changes)
    }

    /// Takes lines for settled that read the same for this long, from one capture to another; without
    /// it, two captures in a row are enough.
    pub fn set_settle_period(&mut self, settle: Duration) {
        self.book.settle = settle;
    }

    /// Returns whether lines wait to be reported until they have stood for long enough.
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
            at: capture.at,
            first: next,
            top: None,
            changed: false,
            screen: ScreenDiff::default(),
        }
    }

    /// Returns how many rows of history the next capture should hold beyond those that have come since.
    pub fn margin(&self) -> u32 {
        // A line that reaches into the screen is looked at from its beginning.
        let kept = self.old.history_rows.min(i64::from(MARGIN_ROWS));
        u32::try_from(self.book.rows_above() + kept).unwrap_or(u32::MAX)
    }

    /// The number of the next line to be reported.
    pub fn next_line(&self) -> i64 {
        self.book.next()
    }

    /// The number of the first line of the last capture.
    pub fn first_line(&self) -> i64 {
        self.first
    }

    /// The lines that stand on the screen, or just above it, as the last capture had them, reported
    /// or not.
    pub fn lines(&self) -> impl Iterator<Item = (i64, &str)> {
        self.book.lines()
    }

    /// The number of the line that the cursor is in.
    pub fn cursor_line(&self) -> i64 {
        self.book.cursor_line()
    }

    /// Returns whether the last capture showed anything that the one before did not.
    pub fn had_changes(&self) -> bool {
        self.changed
    }

    /// Takes a capture in.
    pub fn apply(&mut self, capture: &Capture) -> TrackerOutput {
        // A full-screen program has come since the listing: the lines that it hides, its command
        // among them, are reported before its screen.
        if capture.alternate && capture.saved.is_none() && !self.screen.is_shown() {
            return TrackerOutput::TooShallow;
        }
        self.apply_as(capture, capture.is_complete())
    }

    /// Takes a capture in that is as deep as looks can be: what it does not reach is lost.
    pub fn apply_deepest(&mut self, capture: &Capture) -> Vec<Change> {
        match self.apply_as(capture, true) {
            TrackerOutput::Changes(changes) => changes,
            // Not to be had from the deepest capture.
            TrackerOutput::TooShallow => Vec::new(),
        }
    }

    fn apply_as(&mut self, capture: &Capture, deepest: bool) -> TrackerOutput {
        let mut changes = Vec::new();
        self.at = capture.at;
        if capture.alternate && (capture.saved.is_none() || capture.width < self.width) {
            // The lines behind the full-screen program were not looked at, or tmux shows only as
            // much of them as the pane is wide now: they wait.
            self.show_screen(capture, &mut changes);
            return TrackerOutput::Changes(changes);
        }
        let normal = Normal::of(capture);
        let mut footprint = normal.footprint(capture);
        footprint.deepest = deepest;
        self.changed = !footprint.shows_same_as(&self.old);
        let lines = normal.lines(&footprint);
        if let Some(loss) = self.position_loss {
            if !deepest {
                return TrackerOutput::TooShallow;
            }
            self.restart_baseline(capture, (footprint, lines), loss, &mut changes);
            return TrackerOutput::Changes(changes);
        }
        let respawned = capture.pid != self.pid;
        let (first, moved) = if respawned {
            // A new program in the pane: tmux has erased the screen, what was last printed on it
            // may not have been seen, unless the program had been seen to be over.
            if !deepest {
                return TrackerOutput::TooShallow;
            }
            let grown = (footprint.history_size - self.old.history_size).max(0);
            // The old program may have continued until then: what it scrolled off had been seen.
            let seen = if self.dead.is_some() {
                0
            } else {
                self.old.scrolled_into(&footprint, grown)
            };
            self.book.flush(&mut changes);
            let first = self.book.first_after_respawn(&lines, grown - seen);
            if self.dead.is_none() {
                changes.push(self.book.gap(Loss::possible(GapReason::Cleared)));
            }
            (first, Moved::Unknown)
        } else if capture.width != self.width && !capture.alternate {
            match self.after_reflow(&lines, capture, deepest) {
                Ok(first) => (first, Moved::Unknown),
                Err(None) => return TrackerOutput::TooShallow,
                Err(Some(loss)) => {
                    self.restart_baseline(capture, (footprint, lines), loss, &mut changes);
                    return TrackerOutput::Changes(changes);
                }
            }
        } else {
            let facts = Facts {
                trim_step: i64::from(capture.trim_step()),
                history_limit: i64::from(capture.history_limit),
                was_lowered: capture.history_limit < self.history_limit,
                bytes: self.bytes_since(capture),
            };
            match align(&self.old, &footprint, &normal.rows, facts) {
                Alignment::NeedsDeeper => return TrackerOutput::TooShallow,
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
        // What the capture no longer holds was complete when it was seen.
        self.book.report(&mut changes, first - 1);
        self.take(lines, first, moved, footprint);
        self.note_top(capture, matches!(moved, Moved::By(_)));
        self.book.settle(&mut changes, capture.dead.is_some());
        self.show_screen(capture, &mut changes);
        TrackerOutput::Changes(changes)
    }

    /// Notes what of a capture the next one is compared with.
    pub(super) fn remember(&mut self, capture: &Capture) {
        self.position_loss = None;
        if !capture.alternate {
            self.width = capture.width;
        }
        self.pid = capture.pid;
        self.history_limit = capture.history_limit;
        self.dead = capture.dead;
        self.bytes_before = capture.bytes_before;
    }

    /// Continues as if the last capture had been this one, whose lines are known already.
    pub(super) fn continue_from(&mut self, capture: &Capture) {
        self.remember(capture);
        self.old = Normal::of(capture).footprint(capture);
        self.top = None;
    }

    /// Where the known lines stand is lost. What stands there may have been reported already: it is
    /// known now, not said.
    fn restart_baseline(
        &mut self,
        capture: &Capture,
        shown: (Footprint, Vec<Logical>),
        loss: Loss,
        changes: &mut Vec<Change>,
    ) {
        self.book.lose(loss, changes);
        self.remember(capture);
        self.take_baseline(shown);
        self.note_top(capture, false);
    }

    /// Notes the number of the pane's first line; `goes_on` if the capture continues where the one
    /// before ended.
    pub(super) fn note_top(&mut self, capture: &Capture, continues: bool) {
        self.top = if capture.alternate || may_be_trimmed(capture) {
            None
        } else if capture.is_complete() {
            Some(self.first)
        } else {
            self.top.filter(|_| continues)
        };
    }

    /// At this time, on the clock of [`Capture::at`], nothing had changed since the last capture: what
    /// stood there has settled. `server_bytes` is what the server had read before.
    pub fn unchanged(&mut self, at: Duration, server_bytes: Option<u64>) -> Vec<Change> {
        self.at = at;
        self.bytes_before = server_bytes.or(self.bytes_before);
        self.book.mark_unchanged(at);
        let mut changes = Vec::new();
        self.book.settle(&mut changes, self.dead.is_some());
        changes
    }

    /// The pane is gone: what was seen of it last is final.
    pub fn end(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        self.book.settle(&mut changes, true);
        changes
    }

    /// The observer stops and the pane continues: all but the line of the cursor is reported, and that
    /// one as it stands.
    pub fn detach(&mut self) -> Vec<Change> {
        self.book.settle = Duration::ZERO;
        self.unchanged(self.at, None)
    }

    /// Returns the most bytes that can have been written since the last capture.
    fn bytes_since(&self, capture: &Capture) -> Option<u64> {
        // tmux itself goes to another row, and to one more, for its notice in a dead pane.
        let notice = if capture.dead.is_some() { 2 } else { 0 };
        Some(capture.bytes_after?.saturating_sub(self.bytes_before?) + notice)
    }

    /// Takes the lines as known, not reported: the line of the cursor takes the next number.
    pub(super) fn take_baseline(&mut self, (footprint, lines): (Footprint, Vec<Logical>)) {
        let at_cursor = lines
            .iter()
            .rposition(|line| line.start <= footprint.cursor_row);
        let first = self.book.next() - at_cursor.unwrap_or(0) as i64;
        self.take(lines, first, Moved::Unknown, footprint);
        self.book.mark_baseline();
    }

    pub(super) fn take(
        &mut self,
        lines: Vec<Logical>,
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

    /// The number of the first line after the width changed: rows have been made anew, lines stand.
    fn after_reflow(
        &self,
        lines: &[Logical],
        capture: &Capture,
        deepest: bool,
    ) -> Result<i64, Option<Loss>> {
        if !deepest {
            return Err(None);
        }
        let known = self.book.above_cursor();
        // As long as tmux has all lines, they are counted from the first.
        if let Some(top) = self
            .top
            .filter(|_| capture.is_complete() && !may_be_trimmed(capture))
            && known.iter().all(|(number, text)| {
                let at = usize::try_from(number - top).ok();
                let line = at.and_then(|at| lines.get(at));
                line.is_some_and(|line| line.text.trim_end() == text.trim_end())
            })
        {
            return Ok(top);
        }
        let bytes = self.bytes_since(capture);
        let printable = |new_lines: &[Logical]| {
            let least: usize = new_lines
                .iter()
                .map(|line| line.text.trim_end().len())
                .sum();
            bytes.is_none_or(|bytes| least as u64 <= bytes)
        };
        reflow::place(&known, lines, |after: usize| {
            // Beyond the line that the cursor was in, all was printed since.
            lines.get(after + 1..).is_none_or(&printable)
        })
        .ok_or(Some(Loss::possible(GapReason::Resized)))
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

/// Returns whether tmux may have dropped rows of the history already.
pub(super) fn may_be_trimmed(capture: &Capture) -> bool {
    capture.history_size > capture.history_limit.saturating_sub(capture.trim_step())
}
