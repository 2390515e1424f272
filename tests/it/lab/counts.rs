//! The number of events of each kind in a scene.

use td_observe::{Envelope, TdEvent};

use super::scenes::{ANSWER, Counts};

/// Counts these events by kind.
pub fn count(events: &[Envelope]) -> Counts {
    let mut counts = Counts::default();
    let (mut results, mut ended) = (0, 0);
    for envelope in events {
        match &envelope.event {
            TdEvent::TokenReceived { token, .. } if token.starts_with(ANSWER) => {
                counts.answers += 1;
            }
            TdEvent::ToolCallStarted { .. } => counts.tools += 1,
            TdEvent::ToolCallCompleted { .. } => results += 1,
            TdEvent::TurnCompleted { .. } => counts.turns += 1,
            TdEvent::AgentRegistered { .. } => counts.sub_agents += 1,
            TdEvent::AgentCompleted { .. } => ended += 1,
            _ => {}
        }
    }
    // A tool is complete with its result, a sub-agent with its end.
    counts.tools = counts.tools.min(results);
    counts.sub_agents = counts.sub_agents.min(ended);
    counts
}
