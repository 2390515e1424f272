//! Decides whether and when a pane's pipe may be opened: the user's own pipe wins (pure).
//!
//! A pane has one pipe. Many users bind `pipe-pane -o` to a key: while our pipe is open, that closes
//! it and opens nothing. So a pipe that another program has closed or taken is left alone for a
//! while, in which the pane is polled.

use std::time::{Duration, Instant};

/// Time for which the pipe is left to the user after another program has closed ours or its own: time
/// enough to press the key a second time.
pub(super) const USERS_TURN: Duration = Duration::from_secs(60);

/// A pipe that could not be opened is tried again after this time; one whose drain does not come,
/// after twice the time with each try, up to the minute.
const RETRY: Duration = Duration::from_secs(5);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Interval in which the listing is asked whether another program's pipe is closed: tmux does not
/// report it.
const RECHECK: Duration = Duration::from_secs(5);

/// For so long after a drain was lost, tmux may not have noticed, and an open pipe is still ours.
const NOTICED: Duration = Duration::from_secs(1);
const RETRY_LOST: Duration = Duration::from_millis(200);

/// For so long after another program's pipe was found closed, an answer from before its opening may have
/// said so: on a busy machine, answers about several panes take seconds.
const STALE: Duration = Duration::from_secs(5);

/// A message to the user about a pane's pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PipeNews {
    /// Another program has it, and we had not.
    Taken,
    /// Another program has closed ours.
    Closed,
    /// Another program has replaced ours.
    Replaced,
    /// Another program's pipe is closed.
    Free,
}

impl PipeNews {
    pub fn sentence(self, pane: &str) -> String {
        let seconds = USERS_TURN.as_secs();
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

/// The state of a pane's pipe while it is not ours.
#[derive(Debug)]
pub(super) struct Piping {
    /// Another program has it.
    is_foreign: bool,
    /// Ours was closed in order, and the next capture tells why.
    was_closed: bool,
    /// When the drain was lost.
    lost_at: Option<Instant>,
    /// When another program's pipe was last found closed.
    freed_at: Option<Instant>,
    /// Before that no pipe is opened, and no other program's looked for.
    not_before: Option<Instant>,
    /// Time for which to wait when the next drain does not come.
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
    /// Returns whether a pipe may be opened now.
    pub fn may_open(&self, now: Instant) -> bool {
        !self.is_foreign && !self.was_closed && self.is_time(now)
    }

    /// Returns whether the listing is to be asked if another program still has the pipe.
    pub fn needs_recheck(&self, now: Instant) -> bool {
        self.is_foreign && self.is_time(now)
    }

    fn is_time(&self, now: Instant) -> bool {
        self.not_before.is_none_or(|at| at <= now)
    }

    /// When the answers above change, if nothing comes.
    pub fn deadline(&self) -> Option<Instant> {
        self.not_before
    }

    /// The deadline has passed: what was waited for is asked for with the captures that follow.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.not_before = self.not_before.filter(|at| *at > now);
    }

    /// Leaves the pipe alone before this time.
    pub fn wait_until(&mut self, at: Instant) {
        self.not_before = Some(at);
    }

    /// Ours is open.
    pub fn opened(&mut self) {
        (self.is_foreign, self.was_closed) = (false, false);
        (self.lost_at, self.not_before) = (None, None);
    }

    /// And its drain is there.
    pub fn drain_connected(&mut self) {
        self.wait = RETRY;
    }

    /// The drain does not come. Whether that is the first time since one came.
    pub fn drain_timed_out(&mut self, now: Instant) -> bool {
        let is_first = self.wait == RETRY;
        self.lost_at = Some(now);
        self.not_before = Some(now + self.wait);
        self.wait = (self.wait * 2).min(RETRY_MAX);
        is_first
    }

    /// Ours could not be opened.
    pub fn cannot_open(&mut self, now: Instant) {
        self.not_before = Some(now + RETRY);
    }

    /// Ours has ended: tmux closed it, or else its drain is lost.
    pub fn ended(&mut self, in_order: bool, now: Instant) {
        self.was_closed = in_order;
        self.lost_at = (!in_order).then_some(now);
    }

    /// Ours was to be opened, and a pipe was there.
    pub fn opening_refused(&mut self, now: Instant) -> Option<PipeNews> {
        if self.lost_at.is_some_and(|at| now < at + NOTICED) {
            self.not_before = Some(now + RETRY_LOST);
            return None;
        }
        self.note_foreign(now).then_some(PipeNews::Taken)
    }

    /// A capture that was asked for after ours had ended: whether there is a pipe now, and whether
    /// the pane's program continues.
    pub fn captured(&mut self, piped: bool, continues: bool, now: Instant) -> Option<PipeNews> {
        if !std::mem::take(&mut self.was_closed) {
            return None;
        }
        match (piped, continues) {
            // tmux closed it with the program: that is not the user's doing.
            (_, false) => None,
            (true, true) => self.note_foreign(now).then_some(PipeNews::Replaced),
            (false, true) => {
                self.not_before = Some(now + USERS_TURN);
                Some(PipeNews::Closed)
            }
        }
    }

    /// Returns whether there is a pipe that is not ours.
    pub fn listed(&mut self, piped: bool, now: Instant) -> Option<PipeNews> {
        if self.was_closed {
            return None;
        }
        if piped {
            let may_be_ours = self.lost_at.is_some_and(|at| now < at + NOTICED);
            let was_theirs = self.freed_at.is_some_and(|at| now < at + STALE);
            let is_new = !may_be_ours && self.note_foreign(now) && !was_theirs;
            return is_new.then_some(PipeNews::Taken);
        }
        if !std::mem::take(&mut self.is_foreign) {
            return None;
        }
        self.not_before = Some(now + USERS_TURN);
        let is_again = self.freed_at.is_some_and(|at| now < at + STALE);
        self.freed_at = Some(now);
        (!is_again).then_some(PipeNews::Free)
    }

    /// Another program has it. Whether that is new.
    fn note_foreign(&mut self, now: Instant) -> bool {
        self.not_before = Some(now + RECHECK);
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
        // The second press, and the third.
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
        assert_eq!(piping.listed(true, now), None, "the capture tells");
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
        assert!(piping.may_open(now + RETRY_LOST) && !piping.may_open(now));
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
