//! A polled pane, for the pane observer and for `wait`: its tracker, and the capture that it needs next (pure).

use std::time::Duration;

use crate::tmux::{
    CaptureDigest, CaptureRequest, Freshness, Margin, PaneCapture, PaneRequest, PaneState,
};
use crate::track::{Capture, Change, Tracker};

/// A pane that is polled.
#[derive(Debug)]
pub(crate) struct PolledPane {
    pub tracker: Tracker,
    /// Describes the last capture; `None` where a comparison with it does not show what has changed.
    digest: Option<CaptureDigest>,
    /// The time of the last capture, on the captures' clock.
    pub captured_at: Duration,
    /// The last capture was too short.
    pub needs_full_capture: bool,
    /// The time of the first of the last captures that were not applied, because they were mixtures.
    updating_since: Option<Duration>,
}

/// The time for which captures within synchronized updates are not applied: as long as tmux keeps one from its
/// clients.
const UPDATE_PERIOD: Duration = Duration::from_secs(1);

impl PolledPane {
    /// Begins with a tracker that has applied the first capture of a pane.
    pub fn new(tracker: Tracker, first: &mut PaneCapture) -> Self {
        Self {
            digest: Some(std::mem::take(&mut first.digest)),
            captured_at: first.capture.at,
            ..Self::after_stream(tracker)
        }
    }

    /// Begins where a stream ended: the growth of the history since is unknown.
    pub fn after_stream(tracker: Tracker) -> Self {
        Self {
            tracker,
            digest: None,
            captured_at: Duration::ZERO,
            needs_full_capture: false,
            updating_since: None,
        }
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
    /// unchanged lines of the tracker have settled; a resting pane is captured only when the listing shows a
    /// change.
    pub fn request(&self, awaits_settling: bool, is_resting: bool) -> PaneRequest {
        let known = self.known();
        let settle_period = self.tracker.settle_period();
        let again_after = if awaits_settling && self.tracker.is_settling() {
            Some(settle_period)
        } else {
            // The pane may have been rewritten in place since.
            let is_certain = known.as_ref().is_none_or(CaptureDigest::is_certain);
            (!is_certain && !is_resting).then_some(settle_period * 2)
        };
        PaneRequest::Capture(CaptureRequest {
            known,
            margin: if self.requests_all() {
                Margin::All
            } else {
                Margin::Rows(self.tracker.margin())
            },
            again_at: again_after.map(|after| self.captured_at + after),
            is_resting,
        })
    }

    /// Applies a capture; `is_full` states that no longer one is possible. Returns the changes, or `None` if
    /// the capture is too short, or within a synchronized update: its screen is the one before or after it.
    pub fn apply(
        &mut self,
        capture: &Capture,
        digest: CaptureDigest,
        is_full: bool,
    ) -> Option<Vec<Change>> {
        if capture.is_updating {
            let since = *self.updating_since.get_or_insert(capture.at);
            if capture.at < since + UPDATE_PERIOD {
                return None;
            }
        }
        self.updating_since = None;
        let changes = self.tracker.apply(capture, is_full);
        if changes.is_some() {
            // A full-screen program started after the listing: the screen behind it was not captured.
            self.needs_full_capture = capture.alternate && capture.saved.is_none() && !is_full;
            (self.captured_at, self.digest) = (capture.at, Some(digest));
        } else {
            self.needs_full_capture = true;
        }
        changes
    }

    /// Takes a time at which the pane was unchanged since the last capture.
    pub fn unchanged(&mut self, state: &PaneState, freshness: Freshness) -> Vec<Change> {
        if let Some(digest) = &mut self.digest {
            digest.confirm(state, freshness);
        }
        self.tracker.unchanged(freshness.at, freshness.server_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::{PaneNumbers, Row};

    #[test]
    fn a_capture_within_an_update_is_applied_after_a_second() {
        let capture = |ms, text: &str, is_updating| Capture {
            numbers: PaneNumbers {
                width: 20,
                height: 1,
                alternate: true,
                ..PaneNumbers::default()
            },
            rows: vec![Row {
                text: text.to_owned(),
                wrapped: false,
            }],
            is_updating,
            at: Duration::from_millis(ms),
            ..Capture::default()
        };
        let mut pane = PolledPane::after_stream(Tracker::baseline(&capture(0, "none", false)));
        let mut screens = Vec::new();
        for (ms, text, is_updating) in [
            (0, "one", false),
            (100, "mixed", true),
            (1099, "mixed", true),
            // Between two updates: the second begins anew.
            (1100, "two", false),
            (1200, "mixed", true),
            (2199, "mixed", true),
            (2200, "left open", true),
            (2300, "mixed", true),
        ] {
            let capture = capture(ms, text, is_updating);
            let changes = pane.apply(&capture, CaptureDigest::default(), true);
            let shown = changes
                .into_iter()
                .flatten()
                .filter_map(|change| match change {
                    Change::Screen { .. } => Some(text),
                    _ => None,
                });
            screens.extend(shown);
        }
        assert_eq!(screens, ["one", "two", "left open"]);
    }
}
