//! Detects an interrupt that a kernel missed because it arrived after the request, but before the code began
//! (pure).

use std::time::{Duration, Instant};

/// The time after which an interrupt counts as missed, unless it has ended the code or raised an exception by
/// then.
const RETRY_DELAY: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(super) struct MissedInterrupt {
    /// The number of interrupts before the request.
    before: u64,
    /// The time at which the interrupt is repeated.
    retry_at: Option<Instant>,
}

impl MissedInterrupt {
    pub fn new(before: u64) -> Self {
        Self {
            before,
            retry_at: None,
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Returns true, once, when the interrupt must be repeated.
    pub fn is_due(&mut self, now: Instant) -> bool {
        self.retry_at.take_if(|retry_at| now >= *retry_at).is_some()
    }

    /// Returns true, once, if a repeated interrupt is pending. The caller repeats it now.
    pub fn take_pending(&mut self) -> bool {
        self.retry_at.take().is_some()
    }

    /// Handles a message of the request; `interrupts` is the number of interrupts so far.
    pub fn note(&mut self, msg_type: &str, interrupts: u64, now: Instant) {
        match msg_type {
            // A kernel ignores interrupts while it runs no code.
            "execute_input" if interrupts > self.before => self.retry_at = Some(now + RETRY_DELAY),
            // The interrupt was not missed.
            "error" | "execute_reply" => self.retry_at = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_interrupts_before_the_code_are_missed() {
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
            assert_eq!(missed.is_due(now + RETRY_DELAY), is_due, "{then}");
            assert!(!missed.is_due(now + RETRY_DELAY) && missed.deadline().is_none());
            missed.note("execute_input", interrupts, now);
            assert_eq!(missed.take_pending(), interrupts > 3);
            assert!(!missed.take_pending() && !missed.is_due(now + RETRY_DELAY));
        }
    }
}
