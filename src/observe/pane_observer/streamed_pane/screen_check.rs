//! Schedules the comparison of a streamed pane with tmux's screen (pure).
//!
//! The bytes determine the lines, and a capture shows the screen. They can be compared only if it is
//! known which bytes preceded the capture. Therefore a mark is requested from the drain after the
//! capture. If no byte arrives between the request of the capture and the mark, the capture shows the
//! result of all bytes.

use std::time::{Duration, Instant};

use crate::track::{Capture, PaneNumbers, SyncPoint};

/// The quiet before an urgent check. Nearly every program pauses for this long, for example at a
/// prompt or between two frames of a spinner.
const URGENT_QUIET: Duration = Duration::from_millis(20);

/// The quiet before a routine check.
const ROUTINE_QUIET: Duration = Duration::from_millis(500);

/// The interval of checks of a pane that prints with pauses; its last output is followed by one, too.
/// A capture costs the server half a millisecond, and a difference is corrected within 5 s.
const ROUTINE_INTERVAL: Duration = Duration::from_secs(3);

/// The interval of checks of a pane that never pauses for [`ROUTINE_QUIET`].
const BUSY_INTERVAL: Duration = Duration::from_secs(10);

/// The delay of an urgent check or of a retry after bytes arrived during a check. It doubles with each
/// retry, up to the maximum.
const RETRY: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// Text that a capture shows below the text of the bytes is considered in transit until no bytes have
/// arrived for this long.
const IN_TRANSIT: Duration = Duration::from_secs(1);

/// The state of the comparison with tmux's screen.
#[derive(Debug)]
pub(super) struct ScreenCheck {
    /// The comparison in progress.
    current: Option<Comparison>,
    /// The time of the last bytes.
    fed_at: Instant,
    /// Bytes have arrived since the last comparison.
    is_unchecked: bool,
    checked_at: Instant,
    /// Bytes disturbed the last comparison: the next one comes sooner.
    is_retry: bool,
    retry_after: Duration,
    /// The screen is known to differ from the result of the bytes.
    is_urgent: bool,
    /// The listed numbers that caused the last check of a quiet pane.
    checked_numbers: Option<PaneNumbers>,
}

/// A comparison in progress.
#[derive(Debug, Default)]
struct Comparison {
    /// Bytes have arrived since the capture was requested.
    is_disturbed: bool,
    /// The capture, after whose arrival the mark is awaited.
    sync_point: Option<Box<SyncPoint>>,
}

impl ScreenCheck {
    /// Begins with a screen that has just been compared.
    pub fn new(now: Instant) -> Self {
        Self {
            current: None,
            fed_at: now,
            is_unchecked: false,
            checked_at: now,
            is_retry: false,
            retry_after: RETRY,
            is_urgent: false,
            checked_numbers: None,
        }
    }

    /// Notes that bytes have arrived.
    pub fn bytes_arrived(&mut self, now: Instant) {
        self.fed_at = now;
        self.is_unchecked = true;
        if let Some(comparison) = &mut self.current {
            comparison.is_disturbed = true;
        }
    }

    /// Requests a check as soon as possible.
    pub fn check_soon(&mut self) {
        self.is_urgent = true;
        self.retry_after = RETRY;
    }

    /// Returns when a check is due if no more bytes arrive; `None` while one is in progress.
    pub fn check_at(&self) -> Option<Instant> {
        if self.current.is_some() {
            return None;
        }
        if self.is_urgent {
            return Some((self.fed_at + URGENT_QUIET).max(self.checked_at + self.retry_after));
        }
        let interval = match self.is_retry {
            true => self.retry_after,
            false => ROUTINE_INTERVAL,
        };
        let quiet = (self.fed_at + ROUTINE_QUIET).max(self.checked_at + interval);
        let busy = (self.fed_at + URGENT_QUIET).max(self.checked_at + BUSY_INTERVAL);
        self.is_unchecked.then_some(quiet.min(busy))
    }

    /// Compares the listed numbers of a quiet pane with those of its bytes, and requests a check if
    /// they differ: `send-keys -R` and `clear-history` change a pane without any bytes.
    pub fn handle_listing(
        &mut self,
        listed: PaneNumbers,
        of_bytes: impl FnOnce() -> PaneNumbers,
        now: Instant,
    ) {
        let is_quiet = now.saturating_duration_since(self.fed_at) >= ROUTINE_QUIET;
        if !is_quiet || self.is_unchecked || self.checked_numbers == Some(listed) {
            return;
        }
        if listed != of_bytes() {
            // Each state causes one check only, so that an incurable difference does not repeat it.
            self.checked_numbers = Some(listed);
            self.is_unchecked = true;
        }
    }

    /// Notes that the capture is requested.
    pub fn requested(&mut self) {
        self.current = Some(Comparison::default());
    }

    /// Takes the capture, and returns true if a mark must be requested.
    pub fn handle_capture(&mut self, sync_point: SyncPoint, now: Instant) -> bool {
        match &mut self.current {
            Some(comparison) if !comparison.is_disturbed && comparison.sync_point.is_none() => {
                comparison.sync_point = Some(Box::new(sync_point));
                true
            }
            _ => {
                self.retry(now);
                false
            }
        }
    }

    /// Notes that the capture failed.
    pub fn capture_failed(&mut self, now: Instant) {
        if self
            .current
            .as_ref()
            .is_some_and(|current| current.sync_point.is_none())
        {
            self.retry(now);
        }
    }

    /// Takes the mark: all bytes from before it have arrived. Returns the capture if it shows the
    /// result of all bytes, and whether the check was urgent. `is_behind` states whether the bytes
    /// lack text that the capture shows.
    pub fn handle_mark(
        &mut self,
        is_behind: impl FnOnce(&Capture) -> bool,
        now: Instant,
    ) -> Option<(SyncPoint, bool)> {
        let Comparison {
            is_disturbed,
            sync_point,
        } = self.current.take()?;
        let sync_point = sync_point?;
        // tmux forwards its bytes after its reply, and nearly always before the reply is read here.
        let may_be_in_transit = now.saturating_duration_since(self.fed_at) < IN_TRANSIT;
        if is_disturbed || may_be_in_transit && is_behind(&sync_point.capture) {
            self.retry(now);
            return None;
        }
        self.checked_at = now;
        (self.is_unchecked, self.is_retry) = (false, false);
        self.retry_after = RETRY;
        Some((*sync_point, std::mem::take(&mut self.is_urgent)))
    }

    /// Cancels a comparison in progress.
    pub fn cancel(&mut self) {
        self.current = None;
    }

    fn retry(&mut self, now: Instant) {
        self.current = None;
        self.checked_at = now;
        self.is_retry = true;
        self.retry_after = (self.retry_after * 2).min(RETRY_MAX);
    }
}
