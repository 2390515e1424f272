//! The recordings of a session's panes: bytes with times, and a screen after each gap.

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
    /// Panes whose recording has started.
    started: HashSet<PaneId>,
    /// Panes whose recording has a gap after which no screen has been drawn.
    interrupted: HashSet<PaneId>,
}

impl PaneRecordings {
    pub fn new(recorder: RunRecorder, clock: Clock) -> Self {
        Self {
            recorder,
            clock,
            started: HashSet::new(),
            interrupted: HashSet::new(),
        }
    }

    /// Draws the pane's screen; the bytes that follow continue from it.
    pub fn add_screen(&mut self, pane: &PaneId, sync_point: &SyncPoint) {
        let size = (sync_point.capture.width, sync_point.capture.height);
        let now = self.clock.wall();
        self.recorder
            .begin(pane, size, &draw_screen(sync_point), now);
        self.interrupted.remove(pane);
        self.started.insert(pane.clone());
    }

    /// Marks a break: the next bytes do not follow those in the recording.
    pub fn interrupt(&mut self, pane: &PaneId) {
        if self.started.contains(pane) && !self.needs_screen(pane) {
            self.add_drop(pane, DroppedBytes::default());
        }
    }

    pub fn add_bytes(&mut self, pane: &PaneId, bytes: &[u8]) {
        if !self.recorder.bytes(pane, bytes, self.clock.wall()) {
            self.interrupted.insert(pane.clone());
        }
    }

    /// Records that bytes are missing.
    pub fn add_drop(&mut self, pane: &PaneId, dropped: DroppedBytes) {
        let now = self.clock.wall();
        self.recorder
            .dropped(pane, dropped.bytes, dropped.line_ends, now);
        self.interrupted.insert(pane.clone());
    }

    pub fn add_resize(&self, pane: &PaneId, size: (u32, u32)) {
        self.recorder.resized(pane, size, self.clock.wall());
    }

    pub fn end(&mut self, pane: &PaneId, exit_status: Option<i32>) {
        self.started.remove(pane);
        self.interrupted.remove(pane);
        self.recorder.ended(pane, exit_status, self.clock.wall());
    }

    /// Returns true if the pane's screen must be drawn again.
    pub fn needs_screen(&self, pane: &PaneId) -> bool {
        self.interrupted.contains(pane)
    }
}
