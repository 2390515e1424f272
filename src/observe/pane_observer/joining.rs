//! The search for the conversation of the agent in a pane (pure).

use std::time::Instant;

/// The state of reading the conversation of the agent in a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Joining {
    /// No agent runs whose conversation could be read.
    None,
    /// The conversation is not found yet. An agent without a prompt has none; once the agent works,
    /// the search ends at this time.
    Searching(Option<Instant>),
    /// The conversation is found.
    Joined,
}
