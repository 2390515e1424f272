//! The heartbeat of a kernel: when to send it, and when its answer is late (pure).

use std::time::{Duration, Instant};

use crate::error::Error;

/// The pause between two heartbeats.
const EVERY: Duration = Duration::from_secs(1);

/// The time after which a kernel that does not answer a heartbeat counts as dead. Kernels answer in a
/// separate thread, even while they run code.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// The heartbeat of one connection. The next one is sent only after the last one was answered.
#[derive(Debug, Default)]
pub(super) struct Beat {
    /// The time of the next heartbeat.
    next_at: Option<Instant>,
    /// The time of the heartbeat that was not answered yet.
    sent_at: Option<Instant>,
    is_silent: bool,
}

impl Beat {
    /// Returns true if a heartbeat is due, and records it as sent.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.sent_at.is_none() && self.next_at.is_none_or(|at| now >= at);
        if is_due {
            self.sent_at = Some(now);
            self.next_at = Some(now + EVERY);
        }
        is_due
    }

    /// Records an answer. Returns true if the kernel was silent before.
    pub fn answered(&mut self) -> bool {
        self.sent_at = None;
        std::mem::take(&mut self.is_silent)
    }

    /// Returns true the first time it is called after an answer is late.
    pub fn is_late(&mut self, now: Instant) -> bool {
        let is_late = !self.is_silent && self.sent_at.is_some_and(|at| now >= at + ANSWER_WITHIN);
        self.is_silent |= is_late;
        is_late
    }

    /// Returns the time at which a heartbeat is due or an answer is late; `None` while the kernel is silent.
    pub fn deadline(&self) -> Option<Instant> {
        match self.sent_at {
            Some(_) if self.is_silent => None,
            Some(sent_at) => Some(sent_at + ANSWER_WITHIN),
            None => self.next_at,
        }
    }
}

/// Returns the error for a kernel that does not answer its heartbeat.
pub(super) fn silent() -> Error {
    Error::gone("the kernel has not answered its heartbeat for 3 s: it is stopped or dead")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Heartbeats are at least one second apart, each waits for the answer to the one before, and each
        /// silence is reported once, three seconds after the heartbeat, if the caller polls at every
        /// deadline.
        #[test]
        fn beats_and_silences(answers in prop::collection::vec(0_u64..8_000, 1..20)) {
            let mut now = Instant::now();
            let mut beat = Beat::default();
            prop_assert_eq!(beat.deadline(), None);
            for wait in answers {
                prop_assert!(beat.is_due(now));
                prop_assert!(!beat.is_due(now + Duration::from_secs(60)), "one at a time");
                let (sent, answered) = (now, now + Duration::from_millis(wait));
                let late = sent + Duration::from_secs(3);
                prop_assert_eq!(beat.deadline(), Some(late));
                prop_assert!(!beat.is_late(late - Duration::from_millis(1)));
                let is_silent = answered >= late;
                if is_silent {
                    prop_assert!(beat.is_late(late));
                    prop_assert!(!beat.is_late(answered), "reported once");
                    prop_assert_eq!(beat.deadline(), None);
                }
                prop_assert_eq!(beat.answered(), is_silent);
                let next = sent + Duration::from_secs(1);
                prop_assert_eq!(beat.deadline(), Some(next));
                prop_assert!(answered >= next || !beat.is_due(answered));
                now = answered.max(next);
            }
        }
    }
}
