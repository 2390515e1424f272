//! The next capture of a polled pane: how deep it must be, and when a pane needs none (pure).
//!
//! The pane observer and `wait` use it beside their trackers.

use std::time::Duration;

use crate::tmux::{
    CaptureDigest, CaptureRequest, Freshness, Margin, PaneCapture, PaneRequest, PaneState,
};
use crate::track::{Capture, Tracker};

/// The state of the last capture of a pane, which determines the next one.
#[derive(Debug)]
pub(crate) struct NextCapture {
    /// Describes the last capture; `None` where a comparison with it does not show what has changed.
    digest: Option<CaptureDigest>,
    /// The time of the last capture, on the captures' clock.
    captured_at: Duration,
    /// The last capture was too short.
    must_be_full: bool,
}

impl NextCapture {
    /// Begins with the first capture of a pane.
    pub fn after(first: &mut PaneCapture) -> Self {
        Self {
            digest: Some(std::mem::take(&mut first.digest)),
            captured_at: first.capture.at,
            must_be_full: false,
        }
    }

    /// Begins where a stream ended: the growth of the history since is unknown.
    pub fn after_stream() -> Self {
        Self {
            digest: None,
            captured_at: Duration::ZERO,
            must_be_full: false,
        }
    }

    /// Returns true if the last capture was too short.
    pub fn must_be_full(&self) -> bool {
        self.must_be_full
    }

    /// Returns true if the next capture must have the whole history.
    pub fn requests_all(&self) -> bool {
        self.must_be_full || self.digest.is_none()
    }

    /// Returns the capture with which an equal pane needs no new one.
    pub fn known(&self) -> Option<CaptureDigest> {
        // A capture that was too short is taken again even if nothing has changed.
        self.digest.clone().filter(|_| !self.must_be_full)
    }

    /// Returns the request for the next capture. With `awaits_settling`, the gateway also replies when
    /// unchanged lines of the tracker have settled; a resting pane is captured only when the listing shows a
    /// change.
    pub fn request(
        &self,
        tracker: &Tracker,
        awaits_settling: bool,
        is_resting: bool,
    ) -> PaneRequest {
        let awaits_settling = awaits_settling && tracker.is_settling();
        PaneRequest::Capture(CaptureRequest {
            known: self.known(),
            margin: if self.requests_all() {
                Margin::All
            } else {
                Margin::Rows(tracker.margin())
            },
            again_at: awaits_settling.then(|| self.captured_at + tracker.settle_period()),
            is_resting,
        })
    }

    /// Notes a capture; `is_full` states that no longer one is possible, `is_tracked` that it was long enough
    /// for the tracker.
    pub fn note_capture(
        &mut self,
        capture: &Capture,
        digest: CaptureDigest,
        is_full: bool,
        is_tracked: bool,
    ) {
        if !is_tracked {
            self.must_be_full = true;
            return;
        }
        // A full-screen program started after the listing: the screen behind it was not captured.
        self.must_be_full = capture.alternate && capture.saved.is_none() && !is_full;
        self.captured_at = capture.at;
        self.digest = Some(digest);
    }

    /// Notes that the pane was unchanged since the last capture.
    pub fn note_unchanged(&mut self, state: &PaneState, freshness: Freshness) {
        if let Some(digest) = &mut self.digest {
            digest.confirm(state, freshness);
        }
    }

    /// Returns true if the last capture was taken at or before this time, on the captures' clock.
    pub fn was_captured_by(&self, at: Duration) -> bool {
        self.captured_at <= at
    }
}
