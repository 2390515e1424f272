//! Who has requested a wait, and what it hears before the outcome.

use std::io;

/// Who has requested a wait.
pub(super) trait WaitClient: Sync {
    /// Takes what happens before the outcome. An error cancels the wait.
    fn report(&self, report: WaitReport) -> io::Result<()>;

    /// Returns true if nobody awaits the outcome any more.
    fn is_gone(&self) -> bool;
}

/// What happens during a wait, before its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitReport {
    /// Everything that is printed from now on counts.
    Begun,
    /// Lines were lost, perhaps with a match.
    LostLines,
    /// The wait continues.
    Alive,
}
