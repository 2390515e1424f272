//! The row that an event is about (pure).

use super::fold::key;
use super::row::{Row, RowKey};
use super::rows::Rows;
use super::state::ExecutionKind;
use crate::event::TdEvent;

/// Returns the row that an event is about, by the same rules as its changes are applied.
pub(super) fn owner(rows: &Rows, event: &TdEvent) -> Option<RowKey> {
    let id = event.execution()?;
    if let Some(pane) = event.pane() {
        return Some(key(id, Some(pane.as_str())));
    }
    let own = key(id, None);
    let is_started = |row: &Row| row.kind != ExecutionKind::Command || row.agent.is_some();
    let agent = match event {
        TdEvent::AgentState { agent_id, .. } | TdEvent::TurnCompleted { agent_id, .. } => {
            agent_id.as_deref().map(String::as_str)
        }
        TdEvent::AgentRegistered { agent_id, .. }
        | TdEvent::AgentCompleted { agent_id, .. }
        | TdEvent::AgentFailed { agent_id, .. } => Some(agent_id.as_str()),
        _ => None,
    };
    if let Some(agent) = agent {
        let is_own = rows.map.get(&own).is_some_and(is_started);
        return Some(if is_own { own } else { key(id, Some(agent)) });
    }
    let mut of = rows.map.range(own.clone()..);
    let mut of = of.by_ref().take_while(|(key, _)| key.execution_id == *id);
    match (of.next(), of.next()) {
        (Some((first, _)), _) if matches!(event, TdEvent::Error { .. }) => Some(first.clone()),
        (Some((first, row)), None) if row.kind == ExecutionKind::Agent => Some(first.clone()),
        _ => Some(own),
    }
}
