//! Panes that are recorded: their bytes with the time, and their screens where bytes are missing.

use std::collections::HashSet;

use crate::clock::Clock;
use crate::event::PaneId;
use crate::recording::{RunRecorder, draw_screen};
use crate::tmux::DroppedBytes;
use crate::track::SyncPoint;

/// The recordings of a session's panes.
pub(super) struct PaneRecordings {
    recorder: RunRecorder,
    clock: Clock,
    /// Panes that have a tape.
    begun: HashSet<PaneId>,
    /// Panes whose tape has a hole, and whose screen has not been drawn since.
    torn: HashSet<PaneId>,
}

impl PaneRecordings {
    pub fn new(recorder: RunRecorder, clock: Clock) -> Self {
        Self {
            recorder,
            clock,
            begun: HashSet::new(),
            torn: HashSet::new(),
        }
    }

    /// Draws what a pane shows: bytes follow from there.
    pub fn add_screen(&mut self, pane: &PaneId, sync_point: &SyncPoint) {
        let size = (sync_point.capture.width, sync_point.capture.height);
        let now = self.clock.wall();
        self.recorder
            .begin(pane, size, &draw_screen(sync_point), now);
        self.torn.remove(pane);
        self.begun.insert(pane.clone());
    }

    /// Marks a break: the next bytes do not follow those in the recording.
    pub fn interrupt(&mut self, pane: &PaneId) {
        if self.begun.contains(pane) && !self.needs_screen(pane) {
            self.add_drop(pane, DroppedBytes::default());
        }
    }

    pub fn add_bytes(&mut self, pane: &PaneId, bytes: &[u8]) {
        if !self.recorder.bytes(pane, bytes, self.clock.wall()) {
            self.torn.insert(pane.clone());
        }
    }

    /// Bytes never came.
    pub fn add_drop(&mut self, pane: &PaneId, dropped: DroppedBytes) {
        let now = self.clock.wall();
        self.recorder
            .dropped(pane, dropped.bytes, dropped.line_ends, now);
        self.torn.insert(pane.clone());
    }

    pub fn add_resize(&self, pane: &PaneId, size: (u32, u32)) {
        self.recorder.resized(pane, size, self.clock.wall());
    }

    pub fn end(&mut self, pane: &PaneId, exit_status: Option<i32>) {
        self.begun.remove(pane);
        self.torn.remove(pane);
        self.recorder.ended(pane, exit_status, self.clock.wall());
    }

    /// Returns whether a pane's screen is to be drawn anew.
    pub fn needs_screen(&self, pane: &PaneId) -> bool {
        self.torn.contains(pane)
    }
}
