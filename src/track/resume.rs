//! Resumes a pane where an earlier observer stopped (pure).

use super::book::Moved;
use super::capture::Capture;
use super::change::{Change, GapReason, Loss};
use super::lines::LogicalLine;
use super::normal::NormalScreen;
use super::reflow;
use super::tracker::Tracker;

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
        if let Some(first) = reflow::place(&settled, &lines, |_| true) {
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
            let loss = match is_trimmed {
                true => Loss::confirmed(reason),
                false => Loss::possible(reason),
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
