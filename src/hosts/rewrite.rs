//! Tells what one host has from what others have: its name stands before ids, paths and sockets (pure).

use serde_json::Value;

use super::name::HostName;
use crate::board::{ExecutionKind, Place, Row};
use crate::event::{Envelope, ExecutionId};

/// The separator between a host and a path on it.
const SEPARATOR: char = ':';

/// Adds the name of a host to what its observer says, and removes it from what is asked of that observer. The observer of
/// this host has no name, so that nothing is added.
#[derive(Clone, Debug)]
pub(super) struct Rewriter(pub Option<HostName>);

impl Rewriter {
    /// Returns the id that an execution has beside those of other hosts.
    pub fn id(&self, id: &str) -> ExecutionId {
        match &self.0 {
            Some(host) => host.id(id),
            None => id.into(),
        }
    }

    /// Returns the id that the host knows; `None` if it belongs to another one.
    pub fn own_id<'a>(&self, id: &'a str) -> Option<&'a str> {
        match &self.0 {
            Some(host) => host.strip(id),
            None => Some(id),
        }
    }

    /// Returns the path as others see it.
    pub fn path(&self, path: &str) -> String {
        match &self.0 {
            Some(host) => format!("{host}{SEPARATOR}{path}"),
            None => path.to_owned(),
        }
    }

    /// Returns the path that the host knows; `None` if it belongs to another one.
    pub fn own_path<'a>(&self, path: &'a str) -> Option<&'a str> {
        match &self.0 {
            Some(host) => path.strip_prefix(host.as_str())?.strip_prefix(SEPARATOR),
            None => path.starts_with('/').then_some(path),
        }
    }

    /// Names the host in a row. Returns false for a row that the board cannot have: a host knows no other ones.
    pub fn row(&self, row: &mut Row) -> bool {
        let Some(host) = &self.0 else {
            return true;
        };
        row.execution_id = self.id(&row.execution_id);
        row.host = Some(host.as_str().to_owned());
        row.server = row.server.take().map(|path| self.path(&path));
        row.file = row.file.take().map(|path| self.path(&path));
        row.in_pane = row.in_pane.take().map(|place| Place {
            server: self.path(&place.server),
            ..place
        });
        row.kind != ExecutionKind::Host
    }

    /// Names the host in an event.
    pub fn envelope(&self, envelope: &mut Envelope) {
        if self.0.is_some() {
            let id = self.id(envelope.event.execution_id());
            envelope.event.set_execution_id(&id);
        }
    }

    /// Names the host in the summary of a run.
    pub fn summary(&self, summary: &mut Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        if let Some(id) = summary.get("execution_id").and_then(text) {
            summary["execution_id"] = self.id(&id).as_str().into();
        }
        if let Some(path) = summary.get("path").and_then(text) {
            summary["path"] = self.path(&path).into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::RowKey;
    use crate::timestamp::Timestamp;

    #[test]
    fn what_is_added_is_removed() {
        let of = Rewriter(Some("web".parse().unwrap()));
        assert_eq!(of.path("/tmp/a:b"), "web:/tmp/a:b");
        assert_eq!(of.own_path("web:/tmp/a:b"), Some("/tmp/a:b"));
        assert_eq!(of.own_path("/tmp/a"), None);
        assert_eq!(of.own_path("webs:/tmp/a"), None);
        assert_eq!(of.own_id(&of.id("a@1")), Some("a@1"));
        let here = Rewriter(None);
        assert_eq!(here.path("/tmp/a"), "/tmp/a");
        assert_eq!(here.own_path("/tmp/a"), Some("/tmp/a"));
        assert_eq!(here.own_path("web:/tmp/a"), None);
        assert_eq!(here.own_id("a"), Some("a"));
    }

    #[test]
    fn a_row_names_its_host_everywhere() {
        let of = Rewriter(Some("web".parse().unwrap()));
        let key = RowKey {
            execution_id: "a".into(),
            part: Some("%1".to_owned()),
        };
        let mut row = Row::new(
            &key,
            "a".to_owned(),
            ExecutionKind::Pane,
            Timestamp::default(),
        );
        row.server = Some("/s".to_owned());
        row.file = Some("/f".to_owned());
        assert!(of.row(&mut row));
        assert_eq!(row.key().to_string(), "web/a:%1");
        assert_eq!(row.host.as_deref(), Some("web"));
        assert_eq!(row.server.as_deref(), Some("web:/s"));
        assert_eq!(row.file.as_deref(), Some("web:/f"));
        row.kind = ExecutionKind::Host;
        assert!(!of.row(&mut row));
    }
}
