//! The end of a session, derived from the ends of its panes' programs (pure).

use crate::track::ProcessExit;

/// The signal that tmux sends to the program of a pane that it kills.
const HUP: i32 = 1;

/// The ends of the programs of a session.
///
/// Its status is that of the first program that failed; if none did, that of the last to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SessionOutcome {
    failed: Option<i32>,
    last: Option<i32>,
}

impl SessionOutcome {
    /// Takes the end of a program. Neither an interactive shell, which exits with the status of its
    /// last command, nor a program that was hung up with its pane has failed.
    pub fn program_ended(&mut self, death: Option<ProcessExit>, is_interactive: bool) {
        let status = death.and_then(ProcessExit::exit_status);
        self.last = status;
        let is_hung_up = status == Some(128 + HUP);
        if !is_interactive && !is_hung_up {
            self.failed = self.failed.or(status.filter(|status| *status != 0));
        }
    }

    /// Returns the session's exit status, if it is known.
    pub fn status(self) -> Option<i32> {
        self.failed.or(self.last)
    }

    /// Returns true if one of its programs failed.
    pub fn has_failed(self) -> bool {
        self.failed.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(status: i32) -> Option<ProcessExit> {
        let status = Some(status);
        let signal = None;
        Some(ProcessExit { status, signal })
    }

    fn killed(signal: i32) -> Option<ProcessExit> {
        let (status, signal) = (None, Some(signal));
        Some(ProcessExit { status, signal })
    }

    fn outcome(ends: &[(Option<ProcessExit>, bool)]) -> (Option<i32>, bool) {
        let mut outcome = SessionOutcome::default();
        for &(death, is_interactive) in ends {
            outcome.program_ended(death, is_interactive);
        }
        (outcome.status(), outcome.has_failed())
    }

    #[test]
    fn a_job_that_fails_fails_its_session() {
        assert_eq!(outcome(&[]), (None, false));
        assert_eq!(outcome(&[(exit(0), false)]), (Some(0), false));
        assert_eq!(outcome(&[(exit(101), false)]), (Some(101), true));
        assert_eq!(outcome(&[(killed(9), false)]), (Some(137), true));
        assert_eq!(outcome(&[(None, false)]), (None, false));
    }

    #[test]
    fn shells_and_hung_up_programs_have_a_status_and_do_not_fail() {
        assert_eq!(outcome(&[(exit(3), true)]), (Some(3), false));
        assert_eq!(outcome(&[(killed(HUP), false)]), (Some(129), false));
        assert_eq!(outcome(&[(exit(129), false)]), (Some(129), false));
        assert_eq!(outcome(&[(killed(HUP), true)]), (Some(129), false));
    }

    #[test]
    fn the_first_failure_counts_else_the_last_end() {
        let mixed = [
            (exit(0), false),
            (exit(2), false),
            (exit(3), false),
            (exit(0), true),
        ];
        assert_eq!(outcome(&mixed), (Some(2), true));
        assert_eq!(
            outcome(&[(exit(1), true), (exit(0), false)]),
            (Some(0), false)
        );
        assert_eq!(outcome(&[(exit(0), false), (None, true)]), (None, false));
    }
}
