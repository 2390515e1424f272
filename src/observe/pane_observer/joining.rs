//! The search for the conversation of the agent in a pane (pure).

use std::time::Instant;

/// The state of reading the conversation of the agent in a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joining {
    /// There is no agent whose conversation could be read.
    None,
    /// It is not found yet; an agent that has not been given anything to do has none. Once it works, it
    /// is looked for until then.
    Searching(Option<Instant>),
    /// It is.
    Joined,
}
