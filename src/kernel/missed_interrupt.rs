//! Notices an interrupt that came after a request and before the kernel began to run its code (pure).

use std::time::{Duration, Instant};

/// The time in which an interrupt that was not missed ends the code, or raises an exception in it.
const MISSED_AFTER: Duration = Duration::from_millis(300);

/// The interrupts of one request.
#[derive(Debug)]
pub(super) struct MissedInterrupt {
    /// The number of interrupts before the request.
    before: u64,
    /// The time at which the code is interrupted again.
    again: Option<Instant>,
}

impl MissedInterrupt {
    pub fn new(before: u64) -> Self {
        Self {
            before,
            again: None,
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.again
    }

    /// Returns true, once, if the code is to be interrupted again.
    pub fn is_due(&mut self, now: Instant) -> bool {
        self.again.take_if(|again| now >= *again).is_some()
    }

    /// Returns true, once, if the code will have to be interrupted again: that may be done now.
    pub fn take(&mut self) -> bool {
        self.again.take().is_some()
    }

    /// Takes the type of a message of the request; `interrupts` is their number by now.
    pub fn note(&mut self, msg_type: &str, interrupts: u64, now: Instant) {
        match msg_type {
            // A kernel that runs nothing ignores an interrupt.
            "execute_input" if interrupts > self.before => self.again = Some(now + MISSED_AFTER),
            // It was not missed.
            "error" | "execute_reply" => self.again = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_came_before_the_code_is_missed() {
        let now = Instant::now();
        for (interrupts, then, is_due) in [
            (3, "stream", false),
            (4, "stream", true),
            (4, "error", false),
            (4, "execute_reply", false),
        ] {
            let mut missed = MissedInterrupt::new(3);
            missed.note("status", interrupts, now);
            missed.note("execute_input", interrupts, now);
            missed.note(then, interrupts, now);
            assert!(!missed.is_due(now));
            assert_eq!(missed.is_due(now + MISSED_AFTER), is_due, "{then}");
            assert!(!missed.is_due(now + MISSED_AFTER) && missed.deadline().is_none());
            missed.note("execute_input", interrupts, now);
            assert_eq!(missed.take(), interrupts > 3);
            assert!(!missed.take() && !missed.is_due(now + MISSED_AFTER));
        }
    }
}
