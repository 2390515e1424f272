//! Resyncs a stream with a capture, and switches from streaming to polling (pure).
//!
//! All bytes before the capture have been fed, so that no line is missing and the stream's lines are
//! right. The captured lines are numbered from the cursor's line upwards, as far as their texts equal
//! those of the stream. Lines above that are not reported: tmux rewraps rows when the width changes, and
//! drops or doubles some of them.

use std::time::Duration;

use super::agreement::SyncPoint;
use super::numbering::NumberedLines;
use super::numbering::{LineComparison, Placement, is_another_size};
use super::pieces::CapturedLines;
use super::tracker::{Difference, StreamTracker, is_blank};
use crate::track::align::Footprint;
use crate::track::book::{Line, Moved};
use crate::track::capture::{Capture, SavedScreen};
use crate::track::change::{Change, GapReason, Loss};
use crate::track::lines::LogicalLine;
use crate::track::tracker::Tracker;

impl StreamTracker {
    /// Continues from a new capture after a resize, a respawn, a drop, the end of the program, or a
    /// difference between stream and tmux. All bytes before the capture must have been fed, and the pane
    /// must be at rest; [`StreamTracker::is_behind`] detects most captures for which this does not hold.
    ///
    /// No line is reported twice or lost, because the stream has them all. Known lines whose text
    /// differs in the capture are revised, unknown lines among them are not reported, and lines below
    /// them are new.
    pub fn resync(&mut self, sync_point: &SyncPoint, now: Duration) -> Vec<Change> {
        let mut changes = self.settle(now, false);
        let continues = sync_point.capture.pid == self.tracker.pid && !self.has_gap;
        if let Some(hidden) = self.hidden_behind(&sync_point.capture) {
            self.tracker.remember(&sync_point.capture);
            let mut sync_point = sync_point.clone();
            sync_point.capture.saved = Some(hidden);
            let head = self.terminal.head();
            self.restart_with_head(&sync_point, head.as_ref(), continues);
        } else {
            self.apply_capture(&sync_point.capture, &mut changes);
            self.restart_at(sync_point, continues);
        }
        self.note(now, &changes);
        self.confirm(&sync_point.capture);
        self.tracker.show_screen(&sync_point.capture, &mut changes);
        changes
    }

    /// Returns the stream's normal screen, if the same full-screen program still hides it. It cannot
    /// have changed, and tmux cuts its rows at the pane's present width.
    fn hidden_behind(&self, capture: &Capture) -> Option<SavedScreen> {
        let continues = capture.alternate && capture.pid == self.tracker.pid && !self.has_gap;
        self.terminal.hidden().filter(|_| continues)
    }

    /// Switches to polling. The tracker continues from the stream's terminal, and its next capture finds
    /// the lines printed since the last byte.
    pub fn into_polling(mut self, now: Duration) -> (Tracker, Vec<Change>) {
        let changes = self.settle(now, false);
        self.tracker.continue_from(&self.capture());
        self.tracker.position_loss = self.has_gap.then_some(Loss::possible(GapReason::Dropped));
        (self.tracker, changes)
    }

    fn apply_capture(&mut self, capture: &Capture, changes: &mut Vec<Change>) {
        let difference = self.difference(capture);
        let (footprint, mut captured) = self.captured(capture);
        let from_bytes = captured.first.map(|first| NumberedLines {
            first,
            lines: captured.lines.clone(),
            is_sure: true,
        });
        let certainly = || self.numbered_certainly(capture, &captured, difference.as_ref());
        if let Some(numbered) = from_bytes.or_else(certainly) {
            let numbered = self.with_cut_line(numbered, captured.without_beginning(capture));
            self.repair(capture, numbered, footprint, changes);
            return;
        }
        let comparison = LineComparison::new(self, capture, &captured, &footprint);
        let mut placement = comparison.placement(difference.as_ref());
        let is_explained = self.is_explained(capture, difference.as_ref());
        if !is_explained
            && !placement.is_some_and(|placement| comparison.is_whole(placement))
            && let Some(numbered) = self.numbered_tentatively(capture, &captured)
        {
            let numbered = self.with_cut_line(numbered, captured.without_beginning(capture));
            self.repair(capture, numbered, footprint, changes);
            return;
        }
        let LineComparison {
            at_cursor,
            respawned,
            ..
        } = comparison;
        let (cursor_text, has_cursor_text) = (
            comparison.cursor_text().to_owned(),
            comparison.has_cursor_text(),
        );
        let restored = placement.and_then(|placement| comparison.restored(placement));
        if comparison.is_left_above(placement) {
            placement = Some(Placement::of_cursor(comparison.cursor_line(), at_cursor));
            // For the program, the line continues at the top of the screen.
            if !cursor_text.is_empty()
                && let Some(line) = captured.lines.get_mut(at_cursor as usize)
            {
                line.insert_beginning(&cursor_text);
            }
        } else if let (Some(restored), Some(line)) = (restored, captured.lines.first_mut()) {
            match placement.and_then(|placement| self.unmoved(placement)) {
                Some(known) => (line.start, line.rows) = (known.start, line.end() - known.start),
                None => line.insert_beginning(""),
            }
            line.text = restored;
        }

        let tracker = &mut self.tracker;
        if respawned && tracker.dead.is_none() {
            // The last output of the old program was erased, and may have been missed.
            changes.push(tracker.book.gap(Loss::possible(GapReason::Cleared)));
        }
        tracker.remember(capture);
        let placement = match placement {
            Some(placement) => placement,
            // Dropped lines were counted and later ones are known, so there is no other gap.
            None => {
                // The cursor is in another line now, so its former line is complete.
                let last = tracker.book.cursor_line;
                let next = last + i64::from(has_cursor_text);
                tracker.book.report(changes, next - 1);
                Placement::of_cursor(next, at_cursor)
            }
        };
        tracker.book.report(changes, placement.known_from - 1);
        tracker.take(captured.lines, placement.first, placement.moved, footprint);
        tracker.book.mark_known_above(placement.known_from);
        tracker.book.settle(changes, capture.dead.is_some());
        tracker.note_top(capture, false);
        (self.has_gap, self.respawn_pending) = (false, false);
    }

    /// Returns the first line of a placement as the stream knows it, if its rows have not moved.
    fn unmoved(&self, placement: Placement) -> Option<&Line> {
        let known = self.tracker.book.line(placement.first);
        known.filter(|_| matches!(placement.moved, Moved::By(0)))
    }

    /// Numbers the lines of a capture that continues in the same pane, from the last agreement of
    /// stream and tmux or by their texts. Returns `None` if neither is certain.
    fn numbered_certainly(
        &self,
        capture: &Capture,
        lines: &CapturedLines,
        difference: Option<&Difference>,
    ) -> Option<NumberedLines> {
        let numbered = self.numbered(capture, lines);
        if numbered.as_ref().is_some_and(|numbered| numbered.is_sure) {
            return numbered;
        }
        let by_text = self.numbered_by_text(capture, lines);
        let by_text = by_text.filter(|by_text| by_text.is_sure && !is_another_size(difference));
        let surely = |numbered| NumberedLines {
            is_sure: true,
            ..numbered
        };
        let by_row = || numbered.filter(|_| self.is_explained(capture, difference));
        by_text.or_else(|| by_row().map(surely))
    }

    /// Numbers the lines after a change that no byte shows and that has several explanations.
    fn numbered_tentatively(
        &self,
        capture: &Capture,
        lines: &CapturedLines,
    ) -> Option<NumberedLines> {
        self.numbered_by_text(capture, lines)
            .or_else(|| self.numbered(capture, lines))
            .or_else(|| self.numbered_after_last(capture, lines.lines.clone()))
    }

    /// Returns true if a resize explains different rows, or all rows have kept their positions.
    fn is_explained(&self, capture: &Capture, difference: Option<&Difference>) -> bool {
        is_another_size(difference) || self.keeps_rows(capture, difference)
    }

    /// Puts the known line before the first one if the capture shows only its end, and that on the screen.
    /// Without it, its rows there would become a line of their own.
    fn with_cut_line(
        &self,
        mut numbered: NumberedLines,
        cut: Option<&LogicalLine>,
    ) -> NumberedLines {
        let above = numbered.first - 1;
        let known = self.tracker.book.line(above);
        let is_above = |line: &LogicalLine| {
            let mut below = numbered.lines.iter().take(1);
            line.end() > 0 && !is_blank(&line.text) && below.all(|next| next.start >= line.end())
        };
        let shown = cut.filter(|cut| is_above(cut));
        if let Some((known, shown)) = known.zip(shown)
            && (known.text.trim_end_matches(' ')).ends_with(shown.text.trim_end_matches(' '))
        {
            numbered.first = above;
            numbered.lines.insert(0, known.ending_at(shown.end()));
        }
        numbered
    }

    /// Replaces the reported lines by the lines of a capture with the same numbers.
    fn repair(
        &mut self,
        capture: &Capture,
        numbered: NumberedLines,
        footprint: Footprint,
        changes: &mut Vec<Change>,
    ) {
        let NumberedLines {
            first,
            lines,
            is_sure,
        } = numbered;
        let oldest_known = self.tracker.book.oldest_known();
        let misread = self.misread(first, &lines);
        let misread = misread.filter(|(number, _)| *number < oldest_known);
        let behind = self.reported_after(first + lines.len() as i64);
        let behind = behind.into_iter().map(|number| (number, ""));
        let revised = misread.chain(behind).map(|(line, text)| Change::Revised {
            line,
            text: text.to_owned(),
        });
        changes.extend(revised.collect::<Vec<_>>());
        let tracker = &mut self.tracker;
        tracker.remember(capture);
        tracker.book.report(changes, first - 1);
        if !is_sure {
            changes.push(tracker.book.gap(Loss::possible(GapReason::Cleared)));
        }
        tracker.take(lines, first, Moved::Unknown, footprint);
        tracker.book.settle(changes, capture.dead.is_some());
        tracker.note_top(capture, false);
        (self.has_gap, self.respawn_pending) = (false, false);
    }

    /// Returns the numbers of reported lines from this number on, where tmux has no lines. The book
    /// blanks those that directly follow its lines itself, so they are not included.
    fn reported_after(&self, number: i64) -> Vec<i64> {
        let book = &self.tracker.book;
        let is_blank = |text: &str| text.trim_end().is_empty();
        let older = self.agreed.lines();
        let older = older.filter(|(at, text)| *at < book.oldest_known() && !is_blank(text));
        let known = book.lines.iter();
        let known =
            known.filter(|line| number < book.oldest_known() && !is_blank(line.reported_text()));
        let all = older.map(|(at, _)| at).chain(known.map(|line| line.number));
        all.filter(|at| *at >= number).collect()
    }

    /// Returns true if rows have kept their positions in a capture, because size and history are
    /// unchanged.
    pub(super) fn keeps_rows(&self, capture: &Capture, difference: Option<&Difference>) -> bool {
        let history = self.terminal.grid.scrolled.history;
        let same_size = !is_another_size(difference);
        let same_history =
            (history.size, history.limit) == (capture.history_size, capture.history_limit);
        let respawned = capture.pid != self.tracker.pid && !self.respawn_pending;
        same_size && same_history && !capture.alternate && !respawned
    }
}
