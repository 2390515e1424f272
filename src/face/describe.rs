//! Describes events in words for console, tree, terminal UI, recordings and text exports (pure).
//!
//! The output of programs is not described; the faces show it unchanged.

mod phrases;

mod description;

mod agents;
mod jobs;
mod sources;

pub(super) use agents::{agent_and_detail, agent_phrase, tool_result};
pub(super) use description::{Description, beginning};
pub(super) use phrases::{HUNG_UP, duration, end_in_words, lagged};

use crate::event::TdEvent;

/// Describes an event; returns `None` for text, and for events without a description. `is_verbose` adds the
/// evidence for an agent's state.
pub(super) fn describe(event: &TdEvent, is_verbose: bool) -> Option<Description> {
    agents::describe(event, is_verbose)
        .or_else(|| jobs::describe(event))
        .or_else(|| sources::describe(event))
}
