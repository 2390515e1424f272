//! A streamed pane: feeds its bytes to a tracker, and checks the result against tmux's screen (pure).

use std::time::{Duration, Instant};

use crate::tmux::{DroppedBytes, PipeToken};
use crate::track::{
    Capture, Change, PaneNumbers, ShellMark, StreamTracker, SyncPoint, TerminalNotice, Tracker,
};

/// A drain connects within this time.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The poller grants a late drain this extension once.
const CONNECT_EXTENSION: Duration = Duration::from_millis(500);

/// The extension if the poller itself notices the timeout late: the whole process was stopped, and has
/// much to catch up with.
const CONNECT_EXTENSION_STALLED: Duration = Duration::from_secs(10);

/// The time for which a line must be unchanged to settle if captures are irregular, or after a reported line
/// of a stream was rewritten, as by programs that draw below their output: shorter than people notice, and
/// longer than most programs take to rewrite what they have just written. Other lines of streams settle at
/// once.
pub(super) const SETTLE: Duration = Duration::from_millis(100);

/// The longer settle period applies until no reported line has been rewritten for this long.
const REDRAW_MEMORY: Duration = Duration::from_secs(3);

/// The bytes of a pane's terminal that tmux sees; what else the kernel holds, tmux does not wait for when the pane's
/// program ends. Of 100 programs that print 130 KB and end at once, 1 to 4 lose their last 1 to 13 KB (3.3a to 3.8,
/// with any program at the pipe); of 400 that print 2 KB, none.
const TERMINAL_BYTES: usize = 4096;

/// The time in which a program that still prints fills its terminal, also on a busy machine.
const FILL_TIME: Duration = Duration::from_millis(100);

/// The prefix of a shell's marks (OSC 133).
const SHELL_MARK: &[u8] = b"\x1b]133;";

/// A pane whose bytes arrive through a pipe.
#[derive(Debug)]
pub(in crate::observe) struct StreamedPane {
    pub tracker: StreamTracker,
    pub token: PipeToken,
    /// The origin of the captures' clock.
    epoch: Instant,
    pipe: PipeState,
    pub check: ScreenCheck,
    /// The end of the longer settle period, while it applies.
    redraws_until: Option<Instant>,
    flood: Flood,
}

/// The bytes of the present [`FILL_TIME`] and of the one before it.
#[derive(Clone, Copy, Debug)]
struct Flood {
    began: Instant,
    bytes: usize,
    before: usize,
}

impl Flood {
    fn new(now: Instant) -> Self {
        Self {
            began: now,
            bytes: 0,
            before: 0,
        }
    }

    fn take(&mut self, bytes: usize, now: Instant) {
        let age = now.saturating_duration_since(self.began);
        if age >= FILL_TIME {
            let before = if age < 2 * FILL_TIME { self.bytes } else { 0 };
            (self.began, self.bytes, self.before) = (now, 0, before);
        }
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Returns true if the pane prints faster than tmux may read.
    fn is_on(mut self, now: Instant) -> bool {
        self.take(0, now);
        self.bytes.saturating_add(self.before) >= TERMINAL_BYTES
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PipeState {
    /// The drain has not connected yet.
    Connecting {
        until: Instant,
        /// The extension is granted: the poller itself may have been stopped, and the drain's
        /// connection may wait in its queue.
        is_extended: bool,
    },
    Open,
    /// The pipe has ended, and all its bytes have been fed.
    Ended {
        /// The pane printed when its pipe ended.
        in_flood: bool,
    },
    /// The pipe has ended, and the bytes in it are lost.
    Lost,
}

/// The results of bytes.
#[derive(Default)]
pub(in crate::observe) struct Fed {
    /// The changes to emit one after the other.
    pub changes: Vec<Vec<Change>>,
    pub marks: Vec<ShellMark>,
    pub notices: Vec<TerminalNotice>,
}

/// The result of a comparison with tmux's screen.
#[derive(Debug, Default)]
pub(in crate::observe) struct CheckResult {
    pub changes: Vec<Change>,
    /// The capture, if it shows the result of all bytes.
    pub sync_point: Option<SyncPoint>,
    /// The screen was reported or found to differ, and the tracker is resynced to the capture.
    pub differed: bool,
}

impl StreamedPane {
    /// Resumes with the bytes that follow a sync point, whose capture the tracker has already applied.
    pub fn new(
        tracker: Tracker,
        sync_point: &SyncPoint,
        token: PipeToken,
        (epoch, now): (Instant, Instant),
    ) -> Self {
        let mut tracker = StreamTracker::new(tracker, sync_point);
        tracker.set_settle_period(Duration::ZERO);
        Self {
            tracker,
            token,
            epoch,
            pipe: PipeState::Connecting {
                until: now + CONNECT_TIMEOUT,
                is_extended: false,
            },
            check: ScreenCheck::new(now),
            redraws_until: None,
            flood: Flood::new(now),
        }
    }

    /// Returns true if no more bytes can arrive through this pipe.
    pub fn is_over(&self) -> bool {
        matches!(self.pipe, PipeState::Ended { .. } | PipeState::Lost)
    }

    /// Returns true if the pipe has ended, and tmux has passed on all that a pane which is gone has printed.
    pub fn is_complete(&self) -> bool {
        self.pipe == PipeState::Ended { in_flood: false }
    }

    /// Returns true if the drain has not connected yet, so that no bytes have arrived.
    pub fn is_connecting(&self) -> bool {
        matches!(self.pipe, PipeState::Connecting { .. })
    }

    /// Notes that the drain has connected.
    pub fn drain_connected(&mut self) {
        if matches!(self.pipe, PipeState::Connecting { .. }) {
            self.pipe = PipeState::Open;
        }
    }

    /// Notes the end of the pipe; `in_order` if all its bytes have been fed.
    pub fn pipe_ended(&mut self, in_order: bool, now: Instant) {
        self.pipe = if in_order {
            let in_flood = self.flood.is_on(now);
            PipeState::Ended { in_flood }
        } else {
            PipeState::Lost
        };
        self.check.cancel();
    }

    /// Takes bytes.
    pub fn feed(&mut self, bytes: &[u8], now: Instant) -> Fed {
        self.check.bytes_arrived(now);
        self.flood.take(bytes.len(), now);
        if self.redraws_until.is_some_and(|until| until <= now) {
            self.redraws_until = None;
            self.tracker.set_settle_period(Duration::ZERO);
        }
        let at = self.elapsed(now);
        self.tracker.advance_clock(at);
        let mut fed = Fed::default();
        for mut part in split_at_marks(bytes) {
            if part.starts_with(SHELL_MARK) {
                // The lines before the mark settle before it.
                fed.changes.push(self.changes(now));
            }
            while !part.is_empty() {
                let taken = self.tracker.feed(part);
                part = &part[taken..];
                fed.marks.extend(self.tracker.shell_marks());
                fed.notices.extend(self.tracker.notices());
                fed.changes.push(self.changes(now));
            }
        }
        // The last lines settle at once, unless the longer settle period applies.
        fed.changes.push(self.changes(now));
        fed
    }

    /// Returns the changes up to now, and extends the settle period if they rewrite a reported line.
    fn changes(&mut self, now: Instant) -> Vec<Change> {
        let changes = self.tracker.changes(self.elapsed(now));
        let next = self.tracker.tracker.next_line();
        let is_redraw =
            |change: &Change| matches!(change, Change::Revised { line, .. } if *line < next);
        if changes.iter().any(is_redraw) {
            if self.redraws_until.is_none() {
                self.tracker.set_settle_period(SETTLE);
            }
            self.redraws_until = Some(now + REDRAW_MEMORY);
        }
        changes
    }

    /// Notes that another program has begun in the pane, after the end of its predecessor.
    pub fn begin_program(&mut self, now: Instant) -> Vec<Change> {
        self.tracker.respawned(self.elapsed(now))
    }

    /// Notes that bytes are missing here.
    pub fn bytes_dropped(&mut self, dropped: DroppedBytes, now: Instant) -> Vec<Change> {
        self.check.bytes_arrived(now);
        self.check.check_soon();
        let at = self.elapsed(now);
        self.tracker.bytes_dropped(dropped.line_ends, at)
    }

    /// Returns when [`StreamedPane::handle_timeout`] is due if no bytes arrive.
    pub fn deadline(&self) -> Option<Instant> {
        let settles = self.tracker.deadline().map(|at| self.epoch + at);
        let connects = match self.pipe {
            PipeState::Connecting { until, .. } => Some(until),
            _ => None,
        };
        [settles, connects].into_iter().flatten().min()
    }

    /// Returns the changes that have settled by now, and gives up a drain that has not connected.
    pub fn handle_timeout(&mut self, now: Instant) -> Vec<Change> {
        match self.pipe {
            PipeState::Connecting {
                until,
                is_extended: true,
            } if until <= now => self.pipe_ended(false, now),
            PipeState::Connecting { until, .. } if until <= now => {
                let was_stalled = now.saturating_duration_since(until) > CONNECT_EXTENSION;
                let extension = if was_stalled {
                    CONNECT_EXTENSION_STALLED
                } else {
                    CONNECT_EXTENSION
                };
                self.pipe = PipeState::Connecting {
                    until: now + extension,
                    is_extended: true,
                };
            }
            _ => {}
        }
        let at = self.elapsed(now);
        if self.tracker.deadline().is_some_and(|due| due <= at) {
            self.changes(now)
        } else {
            Vec::new()
        }
    }

    /// Returns true if a check is due.
    pub fn needs_check(&self, now: Instant) -> bool {
        self.check_at().is_some_and(|at| at <= now)
    }

    /// Returns when a check is due if no bytes arrive.
    pub fn check_at(&self) -> Option<Instant> {
        let check = self.check.check_at();
        check.filter(|_| self.pipe == PipeState::Open)
    }

    /// Takes the listed numbers of the pane. If the pane is quiet and they differ from those of its
    /// bytes, a check becomes due.
    pub fn handle_listing(&mut self, listed: PaneNumbers, now: Instant) {
        let of_bytes = || self.tracker.position();
        let PaneNumbers {
            history_size,
            cursor,
            alternate,
            ..
        } = listed;
        let listed = PaneNumbers {
            history_size,
            cursor,
            alternate,
            ..PaneNumbers::default()
        };
        self.check.handle_listing(listed, of_bytes, now);
    }

    /// Takes the drain's mark: all bytes from before it have been fed. Compares the screen.
    pub fn handle_mark(&mut self, now: Instant) -> CheckResult {
        // tmux captures within a synchronized update, too.
        let is_behind =
            |capture: &Capture| self.tracker.is_updating() || self.tracker.is_behind(capture);
        let Some((sync_point, was_urgent)) = self.check.handle_mark(is_behind, now) else {
            return CheckResult::default();
        };
        let capture = &sync_point.capture;
        let difference = self.tracker.difference(capture);
        let differed =
            was_urgent || difference.is_some() || self.tracker.differs_above_screen(capture);
        let changes = if differed {
            if let Some(difference) = difference {
                log::debug!("the bytes of a pane differ from its screen: {difference:?}");
            }
            let at = self.elapsed(now);
            self.tracker.resync(&sync_point, at)
        } else {
            self.tracker.confirm(capture);
            Vec::new()
        };
        CheckResult {
            changes,
            sync_point: Some(sync_point),
            differed,
        }
    }

    /// Ends the pane: its last bytes are final.
    pub fn end(&mut self, now: Instant) -> Vec<Change> {
        self.tracker.end(self.elapsed(now))
    }

    /// Returns all changes, without waiting for lines to settle.
    pub fn settle_now(&mut self, now: Instant) -> Vec<Change> {
        self.tracker.settle_now(self.elapsed(now))
    }

    /// Ends the observation of a pane that continues.
    pub fn detach(&mut self, now: Instant) -> Vec<Change> {
        self.tracker.detach(self.elapsed(now))
    }

    /// Switches to polling.
    pub fn into_polled(self, now: Instant) -> (Tracker, Vec<Change>) {
        let at = self.elapsed(now);
        self.tracker.into_polling(at)
    }

    fn elapsed(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.epoch)
    }
}

/// Splits bytes before each mark of a shell.
fn split_at_marks(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let marks = memchr::memmem::find_iter(bytes, SHELL_MARK);
    let mut from = 0;
    let ends = marks.chain([bytes.len()]);
    ends.map(move |end| {
        let part = &bytes[from..end];
        from = end;
        part
    })
}

/// The quiet before an urgent check, and the delay of one or of a retry after bytes arrived during a check.
/// Nearly every program pauses for this long, for example at a prompt or between two frames of a spinner. The
/// delay doubles with each retry, up to the maximum.
const URGENT_QUIET: Duration = Duration::from_millis(20);

/// The quiet before a routine check.
const ROUTINE_QUIET: Duration = Duration::from_millis(500);

/// The interval of checks of a pane that prints with pauses; its last output is followed by one, too.
/// A capture costs the server half a millisecond, and a difference is corrected within 5 s.
const ROUTINE_INTERVAL: Duration = Duration::from_secs(3);

/// The interval of checks of a pane that never pauses for [`ROUTINE_QUIET`].
const BUSY_INTERVAL: Duration = Duration::from_secs(10);

/// Text that a capture shows below the text of the bytes is considered in transit until no bytes have
/// arrived for this long. Also the longest delay of a retry.
const IN_TRANSIT: Duration = Duration::from_secs(1);

/// The state of the comparison with tmux's screen.
#[derive(Debug)]
pub(in crate::observe) struct ScreenCheck {
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
            retry_after: URGENT_QUIET,
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
        self.retry_after = URGENT_QUIET;
    }

    /// Returns when a check is due if no more bytes arrive; `None` while one is in progress.
    pub fn check_at(&self) -> Option<Instant> {
        if self.current.is_some() {
            return None;
        }
        if self.is_urgent {
            return Some((self.fed_at + URGENT_QUIET).max(self.checked_at + self.retry_after));
        }
        let interval = if self.is_retry {
            self.retry_after
        } else {
            ROUTINE_INTERVAL
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
        self.retry_after = URGENT_QUIET;
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
        self.retry_after = (self.retry_after * 2).min(IN_TRANSIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_split_before_shell_marks() {
        let parts: Vec<&[u8]> = split_at_marks(b"a\x1b]133;A\x07b\x1b]133;C\x07").collect();
        assert_eq!(parts, [&b"a"[..], b"\x1b]133;A\x07b", b"\x1b]133;C\x07"]);
        assert_eq!(split_at_marks(b"").collect::<Vec<_>>(), [b""]);
    }
}
