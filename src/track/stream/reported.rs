//! Records what a stream has reported: the last lines, the times of revisions and screens (pure).

use std::time::Duration;

use super::tracker::{RECENT_LINES, REVISION_PERIOD, SCREEN_PERIOD, StreamTracker};
use crate::event::line_ends_in;
use crate::track::capture::Row;
use crate::track::change::Change;

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
            .is_none_or(|at| now.saturating_sub(at) >= SCREEN_PERIOD);
        if !self.screen_fed || !is_due {
            return;
        }
        self.screen_fed = false;
        let rows: Vec<Row> = self.terminal.shown();
        let (width, height) = (self.terminal.width() as u32, self.terminal.height() as u32);
        let cursor = self.terminal.cursor();
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

    pub(super) fn note_recent(&mut self, changes: &[Change]) {
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
