//! A pane that is polled: which capture it needs next, and the changes that captures show (pure).
//!
//! The pane observer and `wait` drive the same object.

use std::time::Duration;

use crate::tmux::{
    CaptureDigest, CaptureRequest, Freshness, Margin, PaneCapture, PaneRequest, PaneState,
};
use crate::track::{Capture, Change, Tracker, TrackerOutput};

/// A tracker, and what is known of the last capture.
#[derive(Debug)]
pub(crate) struct PolledPane {
    tracker: Tracker,
    /// Describes the last capture; `None` where a comparison with it does not show what has changed.
    digest: Option<CaptureDigest>,
    /// The time of the last capture, on the captures' clock.
    captured_at: Duration,
    /// The time for which a line must be unchanged to settle.
    settle: Duration,
    /// The last capture was too short.
    needs_full_capture: bool,
}

impl PolledPane {
    /// Creates a pane from the tracker of its first capture.
    pub fn new(mut tracker: Tracker, first: &mut PaneCapture, settle: Duration) -> Self {
        tracker.set_settle_period(settle);
        Self {
            tracker,
            digest: Some(std::mem::take(&mut first.digest)),
            captured_at: first.capture.at,
            settle,
            needs_full_capture: false,
        }
    }

    /// Resumes polling where a stream ended: the growth of the history since is unknown.
    pub fn after_stream(mut tracker: Tracker, settle: Duration) -> Self {
        tracker.set_settle_period(settle);
        Self {
            tracker,
            digest: None,
            captured_at: Duration::ZERO,
            settle,
            needs_full_capture: false,
        }
    }

    pub fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    pub fn tracker_mut(&mut self) -> &mut Tracker {
        &mut self.tracker
    }

    pub fn into_tracker(self) -> Tracker {
        self.tracker
    }

    /// Returns true if the last capture was too short.
    pub fn needs_full_capture(&self) -> bool {
        self.needs_full_capture
    }

    /// Returns true if the next capture must have the whole history.
    pub fn requests_all(&self) -> bool {
        self.needs_full_capture || self.digest.is_none()
    }

    /// Returns the capture with which an equal pane needs no new one.
    pub fn known(&self) -> Option<CaptureDigest> {
        // A capture that was too short is taken again even if nothing has changed.
        self.digest.clone().filter(|_| !self.needs_full_capture)
    }

    /// Returns the request for the next capture. With `awaits_settling`, the gateway also replies when
    /// unchanged lines have settled; a resting pane is captured only when the listing shows a change.
    pub fn request(&self, awaits_settling: bool, is_resting: bool) -> PaneRequest {
        let awaits_settling = awaits_settling && self.tracker.is_settling();
        PaneRequest::Capture(CaptureRequest {
            known: self.known(),
            margin: match self.requests_all() {
                true => Margin::All,
                false => Margin::Rows(self.tracker.margin()),
            },
            settles_at: awaits_settling.then_some(self.captured_at + self.settle),
            is_resting,
        })
    }

    /// Takes a capture; `is_full` states that no longer one is possible. Returns its changes, or `None` if
    /// it is too short.
    pub fn handle_capture(
        &mut self,
        capture: &Capture,
        digest: CaptureDigest,
        is_full: bool,
    ) -> Option<Vec<Change>> {
        let output = match is_full {
            true => TrackerOutput::Changes(self.tracker.apply_deepest(capture)),
            false => self.tracker.apply(capture),
        };
        let TrackerOutput::Changes(changes) = output else {
            self.needs_full_capture = true;
            return None;
        };
        // A full-screen program started after the listing: the screen behind it was not captured.
        self.needs_full_capture = capture.alternate && capture.saved.is_none() && !is_full;
        self.captured_at = capture.at;
        self.digest = Some(digest);
        Some(changes)
    }

    /// Takes a time at which the pane was unchanged since the last capture. Returns the lines that have
    /// settled.
    pub fn handle_unchanged(&mut self, state: &PaneState, freshness: Freshness) -> Vec<Change> {
        if let Some(digest) = &mut self.digest {
            digest.confirm(state, freshness);
        }
        self.tracker.unchanged(freshness.at, freshness.server_bytes)
    }

    /// Returns true if the last capture was taken at or before this time, on the captures' clock.
    pub fn was_captured_by(&self, at: Duration) -> bool {
        self.captured_at <= at
    }
}
