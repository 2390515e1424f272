//! Resync of a stream with a capture, and the change from streaming to polling (pure).
//!
//! All bytes before the capture have been fed, so that no line is missing: the stream's lines are
//! right, and those of the capture are put beside them. The number of a captured line follows from the cursor's,
//! and up from there by their texts, as far as those agree. Everything above that is tmux's own:
//! it makes rows anew when the width changes, and drops or doubles some of them. It is known then,
//! not reported.

use std::time::Duration;

use super::agreed::Numbered;
use super::difference::Difference;
use super::placement::{LineComparison, Placement, is_another_size};
use super::sync_point::SyncPoint;
use super::tracker::StreamTracker;
use crate::track::align::Footprint;
use crate::track::book::Moved;
use crate::track::capture::{Capture, SavedScreen};
use crate::track::change::{Change, GapReason, Loss};
use crate::track::lines::Logical;
use crate::track::normal::Normal;
use crate::track::tracker::Tracker;

impl StreamTracker {
    /// Continues from a new capture, taken while no bytes came and after all before it had been fed: after
    /// a resize, a respawn, a drop, the end of the program, or where stream and tmux have parted.
    /// [`StreamTracker::is_behind`] detects most captures for which this does not hold.
    ///
    /// No line is reported twice and none is lost: the stream has them all. Lines that differ in the
    /// capture are revised; other lines in it are known, not reported; only what
    /// tmux shows below them is new.
    pub fn resync(&mut self, sync_point: &SyncPoint, now: Duration) -> Vec<Change> {
        let mut changes = Vec::new();
        self.tracker.at = now;
        let continues = sync_point.capture.pid == self.tracker.pid && !self.has_gap;
        if let Some(hidden) = self.hidden_behind(&sync_point.capture) {
            self.advance(&mut changes);
            self.tracker.book.settle(&mut changes, false);
            self.tracker.remember(&sync_point.capture);
            let mut sync_point = sync_point.clone();
            sync_point.capture.saved = Some(hidden);
            let open = self.terminal.grid.scrolled.open();
            let head = open.map(|(text, rows)| (text.to_owned(), rows as u32));
            let head = head.as_ref().map(|(text, rows)| (&**text, *rows));
            self.restart_with_head(&sync_point, head, continues);
        } else {
            self.apply_capture(&sync_point.capture, &mut changes);
            self.restart_at(sync_point, continues);
        }
        self.note(now, &changes);
        self.confirm(&sync_point.capture);
        self.tracker.show_screen(&sync_point.capture, &mut changes);
        changes
    }

    /// The normal screen, if a full-screen program continues hiding it: nothing changes there, and
    /// the stream has all of it. tmux shows of its rows only as much as the pane is wide now.
    fn hidden_behind(&self, capture: &Capture) -> Option<SavedScreen> {
        let continues = capture.alternate && capture.pid == self.tracker.pid && !self.has_gap;
        self.terminal.hidden().filter(|_| continues)
    }

    /// Switches to polling: the tracker continues as if its last capture had shown what the stream
    /// knows. Its next capture finds what was printed since the last byte.
    pub fn into_polling(mut self, now: Duration) -> (Tracker, Vec<Change>) {
        let mut changes = Vec::new();
        self.tracker.at = now;
        self.advance(&mut changes);
        self.tracker.book.settle(&mut changes, false);
        self.tracker.continue_from(&self.capture());
        self.tracker.position_loss = self.has_gap.then_some(Loss::possible(GapReason::Dropped));
        (self.tracker, changes)
    }

    fn apply_capture(&mut self, capture: &Capture, changes: &mut Vec<Change>) {
        let difference = self.difference(capture);
        self.advance(changes);
        self.tracker.book.settle(changes, false);
        let (footprint, mut lines) = Normal::of(capture).in_full(capture);
        if let Some(numbered) = self.numbered_certainly(capture, &lines, difference.as_ref()) {
            self.repair(capture, numbered, footprint, changes);
            return;
        }
        let comparison = LineComparison::new(self, capture, &lines, &footprint);
        let mut placement = comparison.placement(difference.as_ref());
        let is_explained = self.is_explained(capture, difference.as_ref());
        if !is_explained
            && !placement.is_some_and(|placement| comparison.is_whole(placement))
            && let Some(numbered) = self.numbered_tentatively(capture, &lines)
        {
            self.repair(capture, numbered, footprint, changes);
            return;
        }
        let LineComparison {
            at_cursor,
            respawned,
            ..
        } = comparison;
        let (begun, is_begun) = (comparison.begun().to_owned(), comparison.is_begun());
        if comparison.is_left_above(placement) {
            placement = Some(Placement::of_cursor(comparison.cursor_line(), at_cursor));
            // The line continues at the top of the screen, for the program.
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
        tracker.remember(capture);
        let placement = match placement {
            Some(placement) => placement,
            // What was dropped has a count, and what came since is known: nothing else is missing.
            None => {
                // The line of the cursor is another one, and begun: it is as complete as it will be.
                let last = tracker.book.cursor_line();
                let next = last + i64::from(is_begun);
                tracker.book.report(changes, next - 1);
                Placement::of_cursor(next, at_cursor)
            }
        };
        tracker.book.report(changes, placement.known_from - 1);
        tracker.take(lines, placement.first, placement.moved, footprint);
        tracker.book.mark_known_above(placement.known_from);
        tracker.book.settle(changes, capture.dead.is_some());
        tracker.note_top(capture, false);
        (self.has_gap, self.respawn_pending) = (false, false);
    }
}

impl StreamTracker {
    /// The lines of a capture that continues in the same pane, with their numbers: from the last
    /// agreement of stream and tmux, or by their texts. `None` where neither is certain.
    fn numbered_certainly(
        &self,
        capture: &Capture,
        lines: &[Logical],
        difference: Option<&Difference>,
    ) -> Option<Numbered> {
        let numbered = self.numbered(capture, lines.to_vec());
        if numbered.as_ref().is_some_and(|numbered| numbered.is_sure) {
            return numbered;
        }
        let by_text = self.numbered_by_text(capture, lines.to_vec());
        let by_text = by_text.filter(|by_text| by_text.is_sure && !is_another_size(difference));
        let surely = |numbered| Numbered {
            is_sure: true,
            ..numbered
        };
        let by_row = || numbered.filter(|_| self.is_explained(capture, difference));
        by_text.or_else(|| by_row().map(surely))
    }

    /// The same where a change that no byte shows came between, and several explanations fit.
    fn numbered_tentatively(&self, capture: &Capture, lines: &[Logical]) -> Option<Numbered> {
        self.numbered_by_text(capture, lines.to_vec())
            .or_else(|| self.numbered(capture, lines.to_vec()))
            .or_else(|| self.numbered_after_last(capture, lines.to_vec()))
    }

    /// Returns true if it is known why a capture shows other rows: another size, or none but in their
    /// places.
    fn is_explained(&self, capture: &Capture, difference: Option<&Difference>) -> bool {
        is_another_size(difference) || self.keeps_rows(capture, difference)
    }

    /// Replaces the reported lines by the lines of a capture with the same numbers.
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

    /// The numbers of lines reported from this number on, where tmux has no lines: of those that the
    /// book does not blank out itself, since they do not follow the lines that it takes.
    fn reported_after(&self, number: i64) -> Vec<i64> {
        let book = &self.tracker.book;
        let is_blank = |text: &str| text.trim_end().is_empty();
        let older = self.agreed.lines();
        let older = older.filter(|(at, text)| *at < book.oldest_known() && !is_blank(text));
        let known = book.lines_with_rows();
        let known =
            known.filter(|line| number < book.oldest_known() && !is_blank(line.reported_text()));
        let all = older.map(|(at, _)| at).chain(known.map(|line| line.number));
        all.filter(|at| *at >= number).collect()
    }

    /// Returns true if rows have kept their positions in a capture: it has the same size and history.
    pub(super) fn keeps_rows(&self, capture: &Capture, difference: Option<&Difference>) -> bool {
        let history = self.terminal.grid.scrolled.history;
        let same_size = !is_another_size(difference);
        let same_history =
            (history.size, history.limit) == (capture.history_size, capture.history_limit);
        let respawned = capture.pid != self.tracker.pid && !self.respawn_pending;
        same_size && same_history && !capture.alternate && !respawned
    }
}
