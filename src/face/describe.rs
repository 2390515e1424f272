//! Events in words: the one description that console, tree, recordings and text exports share (pure).
//!
//! Text that programs print is not described; the faces show it as it is.

mod phrases;

mod description;

mod agents;
mod executions;
mod loops;
mod sources;

pub(super) use agents::{agent_and_detail, agent_phrase, tool_result};
pub(super) use description::{Description, beginning};
pub(super) use phrases::{ExitOutcome, HUNG_UP, duration, lagged};

use crate::event::TdEvent;

/// Describes an event; `None` for text and for events that need no words. `is_verbose` adds the
/// evidence for an agent's state.
pub(super) fn describe(event: &TdEvent, is_verbose: bool) -> Option<Description> {
    agents::describe(event, is_verbose)
        .or_else(|| executions::describe(event))
        .or_else(|| loops::describe(event))
        .or_else(|| sources::describe(event))
}
