//! What another host's observer answers, as functions of bytes, for the fuzz target.

use serde_json::Value;

use super::name::HostName;
use super::rewrite::Rewriter;
use crate::board::Row;
use crate::event::Envelope;

/// The names in a row, an event or the summary of a run, as the board of many hosts has them.
#[derive(Debug, Default)]
pub struct RemoteNames {
    /// Ids of executions.
    pub ids: Vec<String>,
    /// Paths and sockets.
    pub paths: Vec<String>,
    /// Hosts.
    pub hosts: Vec<String>,
}

/// Returns the names in a line of JSON; `None` if it is none of these, or cannot be on the board.
pub(crate) fn names(host: &HostName, line: &[u8]) -> Option<RemoteNames> {
    let of = Rewriter(Some(host.clone()));
    let mut names = RemoteNames::default();
    if let Ok(mut row) = serde_json::from_slice::<Row>(line) {
        if !of.row(&mut row) {
            return None;
        }
        names.ids.push(row.execution_id.to_string());
        names.paths.extend(row.server);
        names.paths.extend(row.file);
        names.paths.extend(row.in_pane.map(|place| place.server));
        names.hosts.extend(row.host);
    } else if let Ok(mut envelope) = serde_json::from_slice::<Envelope>(line) {
        of.envelope(&mut envelope);
        names.ids.push(envelope.event.execution_id().to_string());
    } else {
        let mut summary: Value = serde_json::from_slice(line).ok()?;
        summary.as_object()?;
        of.summary(&mut summary);
        let text = |name: &str| summary.get(name).and_then(Value::as_str).map(str::to_owned);
        names.ids.extend(text("execution_id"));
        names.paths.extend(text("path"));
    }
    Some(names)
}
