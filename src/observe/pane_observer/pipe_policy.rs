//! Decides whether and when a pane's pipe may be opened: the user's own pipe wins (pure).
//!
//! A pane has one pipe. Many users bind `pipe-pane -o` to a key: while our pipe is open, that closes
//! it and opens nothing. So a pipe that another program has closed or taken is left alone for a while,
//! and the pane is polled meanwhile.

use std::time::{Duration, Instant};

/// The time for which the pipe is left to the user after another program has closed ours or its own:
/// enough to press the key a second time. Also the longest delay before another try.
pub(super) const USER_PERIOD: Duration = Duration::from_secs(60);

/// The delay before another try after a pipe could not be opened. It doubles after each drain that
/// does not connect, up to [`USER_PERIOD`]. Also the interval of checks for another program's pipe, whose end
/// tmux does not report.
const RETRY: Duration = Duration::from_secs(5);

/// The time after the loss of a drain for which tmux may still show its pipe as open.
const NOTICE_PERIOD: Duration = Duration::from_secs(1);
const LOST_RETRY: Duration = Duration::from_millis(200);

/// The time after another program's pipe was found closed for which that may be outdated: the reply
/// may precede the pipe's opening. On a busy machine, replies about several panes take seconds.
const STALE_PERIOD: Duration = Duration::from_secs(5);

/// A message to the user about a pane's pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PipeNews {
    /// Another program opened a pipe before we did.
    Taken,
    /// Another program closed ours.
    Closed,
    /// Another program replaced ours.
    Replaced,
    /// Another program's pipe has closed.
    Free,
}

impl PipeNews {
    pub fn sentence(self, pane: &str) -> String {
        let seconds = USER_PERIOD.as_secs();
        match self {
            Self::Taken => format!(
                "pane {pane} is piped by another program (tmux pipe-pane): polling it instead"
            ),
            Self::Closed => format!(
                "another program closed our pipe of pane {pane}: polling it, and leaving its pipe \
                 alone for {seconds} s"
            ),
            Self::Replaced => {
                format!("another program replaced our pipe of pane {pane}: polling it instead")
            }
            Self::Free => format!(
                "another program's pipe of pane {pane} has closed: streaming it again in {seconds} s"
            ),
        }
    }
}

/// The state of a pane's pipe while we do not have it.
#[derive(Debug)]
pub(super) struct Piping {
    /// Another program has a pipe open.
    is_foreign: bool,
    /// tmux closed our pipe; the next capture shows why.
    was_closed: bool,
    /// When the drain was lost.
    lost_at: Option<Instant>,
    /// When another program's pipe was last found closed.
    freed_at: Option<Instant>,
    /// The time before which no pipe is opened, and none of another program is checked.
    not_before: Option<Instant>,
    /// The delay after the next drain that does not connect.
    wait: Duration,
}

impl Default for Piping {
    fn default() -> Self {
        Self {
            is_foreign: false,
            was_closed: false,
            lost_at: None,
            freed_at: None,
            not_before: None,
            wait: RETRY,
        }
    }
}

impl Piping {
    /// Returns true if a pipe may be opened now.
    pub fn may_open(&self, now: Instant) -> bool {
        !self.is_foreign && !self.was_closed && self.is_due(now)
    }

    /// Returns true if a pipe may be opened within [`NOTICE_PERIOD`].
    pub fn opens_soon(&self, now: Instant) -> bool {
        self.may_open(now + NOTICE_PERIOD)
    }

    /// Returns true if the listing must be checked for another program's pipe.
    pub fn needs_recheck(&self, now: Instant) -> bool {
        self.is_foreign && self.is_due(now)
    }

    fn is_due(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|at| at <= now)
    }

    /// Returns when the results of the methods above change if nothing happens.
    pub fn deadline(&self) -> Option<Instant> {
        self.not_before
    }

    /// Clears a deadline that has passed; the next captures act on it.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.not_before = self.not_before.filter(|at| *at > now);
    }

    /// Leaves the pipe alone before this time.
    pub fn wait_until(&mut self, at: Instant) {
        self.not_before = Some(at);
    }

    /// Notes that our pipe is open.
    pub fn opened(&mut self) {
        (self.is_foreign, self.was_closed) = (false, false);
        (self.lost_at, self.not_before) = (None, None);
    }

    /// Notes that its drain has connected.
    pub fn drain_connected(&mut self) {
        self.wait = RETRY;
    }

    /// Notes that the drain did not connect. Returns true if that is the first time since one did.
    pub fn drain_timed_out(&mut self, now: Instant) -> bool {
        let is_first = self.wait == RETRY;
        self.lost_at = Some(now);
        self.not_before = Some(now + self.wait);
        self.wait = (self.wait * 2).min(USER_PERIOD);
        is_first
    }

    /// Notes that our pipe could not be opened.
    pub fn cannot_open(&mut self, now: Instant) {
        self.not_before = Some(now + RETRY);
    }

    /// Notes the end of our pipe: tmux closed it in order, or the drain is lost.
    pub fn ended(&mut self, in_order: bool, now: Instant) {
        self.was_closed = in_order;
        self.lost_at = (!in_order).then_some(now);
    }

    /// Notes that we have closed our pipe, because the pane has moved to another session, which opens its own.
    pub fn released(&mut self, now: Instant) {
        self.was_closed = false;
        // tmux may still show it.
        self.lost_at = Some(now);
    }

    /// Notes that our pipe was not opened because another one exists.
    pub fn opening_refused(&mut self, now: Instant) -> Option<PipeNews> {
        if self.lost_at.is_some_and(|at| now < at + NOTICE_PERIOD) {
            self.not_before = Some(now + LOST_RETRY);
            return None;
        }
        self.note_foreign(now).then_some(PipeNews::Taken)
    }

    /// Takes the first capture after the end of our pipe: whether a pipe exists, and whether the
    /// pane's program continues.
    pub fn captured(&mut self, piped: bool, continues: bool, now: Instant) -> Option<PipeNews> {
        if !std::mem::take(&mut self.was_closed) {
            return None;
        }
        match (piped, continues) {
            // tmux closed the pipe with the program, not the user.
            (_, false) => None,
            (true, true) => self.note_foreign(now).then_some(PipeNews::Replaced),
            (false, true) => {
                self.not_before = Some(now + USER_PERIOD);
                Some(PipeNews::Closed)
            }
        }
    }

    /// Takes from a listing whether a pipe exists, while ours is not open.
    pub fn listed(&mut self, piped: bool, now: Instant) -> Option<PipeNews> {
        if self.was_closed {
            return None;
        }
        if piped {
            let may_be_ours = self.lost_at.is_some_and(|at| now < at + NOTICE_PERIOD);
            let was_theirs = self.freed_at.is_some_and(|at| now < at + STALE_PERIOD);
            let is_new = !may_be_ours && self.note_foreign(now) && !was_theirs;
            return is_new.then_some(PipeNews::Taken);
        }
        if !std::mem::take(&mut self.is_foreign) {
            return None;
        }
        self.not_before = Some(now + USER_PERIOD);
        let is_again = self.freed_at.is_some_and(|at| now < at + STALE_PERIOD);
        self.freed_at = Some(now);
        (!is_again).then_some(PipeNews::Free)
    }

    /// Notes that another program has the pipe. Returns true if that is new.
    fn note_foreign(&mut self, now: Instant) -> bool {
        self.not_before = Some(now + RETRY);
        !std::mem::replace(&mut self.is_foreign, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_second_press_of_a_toggle_finds_the_pipe_free() {
        let (mut piping, now) = (Piping::default(), Instant::now());
        assert!(piping.may_open(now));
        piping.opened();
        piping.ended(true, now);
        assert!(!piping.may_open(now), "before it is known why");
        assert_eq!(piping.captured(false, true, now), Some(PipeNews::Closed));
        assert!(!piping.may_open(now + 59 * SECOND));
        assert!(piping.may_open(now + 60 * SECOND));
        // The second press of the key, and the third.
        let pressed = now + 2 * SECOND;
        assert_eq!(piping.listed(true, pressed), Some(PipeNews::Taken));
        let closed = now + 50 * SECOND;
        assert_eq!(piping.listed(false, closed), Some(PipeNews::Free));
        assert!(!piping.may_open(closed + 59 * SECOND));
        assert!(piping.may_open(closed + 60 * SECOND));
    }

    #[test]
    fn another_programs_pipe_is_waited_for_and_then_left_free_for_a_minute() {
        let (mut piping, now) = (Piping::default(), Instant::now());
        assert_eq!(piping.opening_refused(now), Some(PipeNews::Taken));
        assert_eq!(piping.opening_refused(now), None, "once");
        assert!(!piping.may_open(now + 600 * SECOND));
        assert!(piping.needs_recheck(now + 5 * SECOND));
        assert_eq!(piping.listed(true, now + 5 * SECOND), None);
        assert!(!piping.needs_recheck(now + 6 * SECOND));
        let freed = now + 10 * SECOND;
        assert_eq!(piping.listed(false, freed), Some(PipeNews::Free));
        assert_eq!(piping.listed(false, freed), None);
        assert!(!piping.may_open(freed + 59 * SECOND));
        assert!(piping.may_open(freed + 60 * SECOND));
    }

    #[test]
    fn a_pipe_that_replaces_ours_is_another_programs() {
        let (mut piping, now) = (Piping::default(), Instant::now());
        piping.opened();
        piping.ended(true, now);
        assert_eq!(piping.listed(true, now), None, "the capture decides");
        assert_eq!(piping.captured(true, true, now), Some(PipeNews::Replaced));
        assert_eq!(piping.listed(false, now), Some(PipeNews::Free));
    }

    #[test]
    fn a_pipe_that_ends_with_its_program_is_opened_again_at_once() {
        let (mut piping, now) = (Piping::default(), Instant::now());
        piping.opened();
        piping.ended(true, now);
        assert_eq!(piping.captured(false, false, now), None);
        assert!(piping.may_open(now));
    }

    #[test]
    fn a_lost_drain_is_replaced_as_soon_as_tmux_has_noticed() {
        let (mut piping, now) = (Piping::default(), Instant::now());
        piping.opened();
        piping.ended(false, now);
        assert!(piping.may_open(now));
        assert_eq!(piping.opening_refused(now), None);
        assert!(piping.may_open(now + LOST_RETRY) && !piping.may_open(now));
        assert_eq!(piping.opening_refused(now + SECOND), Some(PipeNews::Taken));
    }

    #[test]
    fn drains_that_do_not_come_are_tried_less_and_less() {
        let (mut piping, now) = (Piping::default(), Instant::now());
        assert!(piping.drain_timed_out(now));
        assert!(!piping.drain_timed_out(now));
        assert_eq!(piping.deadline(), Some(now + 10 * SECOND));
        piping.drain_connected();
        assert!(piping.drain_timed_out(now));
    }
}
