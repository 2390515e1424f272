//! Resuming a pane where an earlier observer of it stopped (pure).

use super::book::Moved;
use super::capture::Capture;
use super::change::{Change, GapReason, Loss};
use super::lines::Logical;
use super::normal::Normal;
use super::reflow;
use super::tracker::{Tracker, may_be_trimmed};

impl Tracker {
    /// Continues where an earlier observer of the same pane stopped. `known` are the last lines that
    /// it said, with their numbers in order, and `next` the number of the first that it did not.
    /// Where their place in the pane is not the only possible one, a gap is reported and what stands
    /// there now is known, not said.
    pub fn resume(capture: &Capture, known: &[(i64, String)], next: i64) -> (Self, Vec<Change>) {
        let mut tracker = Self::empty(capture, next);
        let (footprint, lines) = Normal::of(capture).in_full(capture);
        let settled: Vec<(i64, &str)> = known
            .iter()
            .filter(|(number, _)| *number < next)
            .map(|(number, text)| (*number, text.as_str()))
            .collect();
        let mut changes = Vec::new();
        if let Some(first) = reflow::place(&settled, &lines, |_| true) {
            tracker.take(lines, first, Moved::Unknown, footprint);
            tracker.book.mark_reported(known);
            tracker.book.settle(&mut changes, capture.dead.is_some());
        } else {
            let gone = settled.iter().rev().take(1).any(|(_, last)| {
                let same = |line: &Logical| line.text.trim_end() == last.trim_end();
                !lines.iter().any(same)
            });
            // What was known last has been trimmed: lines behind it may have gone the same way.
            let is_trimmed = may_be_trimmed(capture) && gone;
            let reason = GapReason::ObserverAbsent;
            let loss = match is_trimmed {
                true => Loss::confirmed(reason),
                false => Loss::possible(reason),
            };
            changes.push(tracker.book.gap(loss));
            if is_trimmed {
                // tmux has dropped what was known: all that is there now came after it.
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
