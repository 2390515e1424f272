//! Rows as stored in a run's metadata, to restore them without reading the log (pure).

use serde::Deserialize;

use super::row::{ExecutionKind, Row, RowKey, RowState};
use crate::event::ExecutionId;
use crate::timestamp::Timestamp;

/// The serialized form of [`Row`].
#[derive(Debug, Deserialize)]
struct StoredRow {
    execution_id: ExecutionId,
    name: String,
    pane: Option<String>,
    /// Missing in rows of earlier versions.
    #[serde(default)]
    server: Option<String>,
    kind: String,
    agent: Option<String>,
    state: String,
    since: Timestamp,
    /// Missing in rows of earlier versions.
    #[serde(default)]
    seen: Option<Timestamp>,
    evidence: Option<String>,
    asks: Option<String>,
    exit_status: Option<i32>,
    last_line: String,
    last_output: Option<Timestamp>,
    turns: u64,
    gaps: u64,
    errors: u64,
}

impl Row {
    /// Parses a row from its JSON.
    ///
    /// # Errors
    /// If a field is missing, or has another type or an unknown kind.
    pub(crate) fn from_json(value: &serde_json::Value) -> serde_json::Result<Self> {
        let stored = StoredRow::deserialize(value)?;
        let kind = ExecutionKind::ALL
            .into_iter()
            .find(|kind| kind.as_str() == stored.kind)
            .ok_or_else(|| serde::de::Error::custom("the kind of the row is unknown"))?;
        let state = match stored.state.as_str() {
            "running" => RowState::Running,
            "quiet" => RowState::Quiet,
            "exited" => RowState::Exited,
            state => RowState::Agent(state.into()),
        };
        let key = RowKey {
            execution_id: stored.execution_id,
            part: stored.pane,
        };
        let mut row = Self::new(&key, stored.name, kind, stored.since);
        row.server = stored.server;
        row.agent = stored.agent;
        row.state = state;
        row.seen = stored.seen;
        row.evidence = stored.evidence.as_deref().map(Into::into);
        row.asks = stored.asks;
        row.exit_status = stored.exit_status;
        row.last_line = stored.last_line;
        row.last_output = stored.last_output;
        row.turns = stored.turns;
        row.gaps = stored.gaps;
        row.errors = stored.errors;
        Ok(row)
    }

    /// Returns the identity of the row.
    pub fn key(&self) -> RowKey {
        let part = match self.kind {
            // The name of a background agent's row is the agent's id.
            ExecutionKind::Agent => Some(self.name.clone()),
            _ => self.pane.as_ref().map(|pane| pane.as_str().to_owned()),
        };
        RowKey {
            execution_id: self.execution_id.clone(),
            part,
        }
    }
}
