//! The rows of the board, by their keys.

use std::collections::BTreeMap;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::row::{Row, RowKey};
#[cfg(feature = "cli")]
use super::state::ExecutionKind;
use crate::agent::StateRules;
use crate::event::ExecutionId;
use crate::timestamp::Timestamp;

/// The most rows, more than the panes of an observer. Beyond this, the oldest ended rows are removed.
const ROWS_MAX: usize = 10_000;

/// The time after which a row that has ended leaves the board.
pub(crate) const ENDED_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

impl Row {
    /// Names the host with which the execution's id begins, also in the path of the transcript, which is not of this host.
    pub(super) fn name_host(&mut self) {
        let id = self.execution_id.clone();
        let Some((host, own)) = id.split_once('/') else {
            return;
        };
        if self.host.is_none() {
            self.host = Some(host.to_owned());
            if self.name == *id {
                self.name = own.to_owned();
            }
        }
        if let Some(file) = self.file.as_mut().filter(|file| file.starts_with('/')) {
            file.insert_str(0, &format!("{host}:"));
        }
    }
}

#[cfg(feature = "tui")]
impl Row {
    /// Returns true for a pane, and for what runs in the foreground of one: a face can go there.
    pub(crate) fn is_in_pane(&self) -> bool {
        self.pane.is_some() || self.in_pane.is_some()
    }
}

#[derive(Debug)]
pub(super) struct Rows {
    pub map: BTreeMap<RowKey, Row>,
    /// The names of executions whose rows may appear later.
    pub names: FxHashMap<ExecutionId, String>,
    /// The sockets of the tmux servers of executions.
    pub servers: FxHashMap<ExecutionId, String>,
    /// The rules that recognize the decoration of agents' screens.
    pub rules: StateRules,
    /// True if the ids of executions begin with the names of their hosts.
    pub have_hosts: bool,
}

impl Rows {
    pub fn new(rules: StateRules) -> Self {
        Self {
            map: BTreeMap::new(),
            names: FxHashMap::default(),
            servers: FxHashMap::default(),
            rules,
            have_hosts: false,
        }
    }

    /// Returns the rows of an execution.
    pub fn of(&mut self, id: &ExecutionId) -> impl Iterator<Item = (&RowKey, &mut Row)> {
        let from = RowKey {
            execution_id: id.clone(),
            part: None,
        };
        let id = id.clone();
        let rows = self.map.range_mut(from..);
        rows.take_while(move |(key, _)| key.execution_id == id)
    }

    /// Adds a stored row.
    #[cfg(feature = "cli")]
    pub fn restore(&mut self, mut row: Row) {
        // Other states are quiet for other reasons.
        row.is_silent &= row.is_unknown();
        if row.kind != ExecutionKind::Agent {
            let names = &mut self.names;
            names.insert(row.execution_id.clone(), row.name.clone());
        }
        self.map.insert(row.key(), row);
    }

    /// Removes the rows that ended first until the limit is met.
    pub fn remove_oldest_ended(&mut self) {
        while self.map.len() > ROWS_MAX {
            let ended = self.map.iter().filter(|(_, row)| row.has_ended());
            let first = ended.min_by_key(|(_, row)| row.since);
            let Some(key) = first.map(|(key, _)| key.clone()) else {
                return;
            };
            self.remove(&key);
        }
    }

    /// Removes the rows that ended more than a day ago; returns their keys.
    pub fn remove_old(&mut self, now: Timestamp) -> Vec<RowKey> {
        let age_max = i64::try_from(ENDED_AGE_MAX.as_micros()).unwrap_or(i64::MAX);
        let is_old = |row: &Row| {
            let age = now.micros().saturating_sub(row.since.micros());
            (row.has_ended() || row.is_agents_end()) && age > age_max
        };
        let old = self.map.iter().filter(|(_, row)| is_old(row));
        let old: Vec<RowKey> = old.map(|(key, _)| key.clone()).collect();
        old.iter().for_each(|key| self.remove(key));
        old
    }

    fn remove(&mut self, key: &RowKey) {
        self.map.remove(key);
        if self.of(&key.execution_id).next().is_none() {
            self.names.remove(&key.execution_id);
            self.servers.remove(&key.execution_id);
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::timestamp::Timestamp;

    #[test]
    fn the_name_and_the_server_of_an_execution_are_removed_with_its_last_row() {
        let mut rows = Rows::new(StateRules::builtin());
        for (number, at) in (0..=ROWS_MAX).zip(0..) {
            let id = ExecutionId::from(format!("make@{number}"));
            let key = RowKey {
                execution_id: id.clone(),
                part: None,
            };
            let at = Timestamp::from_micros(at);
            let mut row = Row::new(&key, "make".to_owned(), ExecutionKind::Command, at);
            row.end(Some(0), at);
            rows.map.insert(key, row);
            rows.names.insert(id.clone(), "make".to_owned());
            rows.servers.insert(id, "/tmp/tmux".to_owned());
        }
        rows.remove_oldest_ended();
        assert_eq!(rows.map.len(), ROWS_MAX);
        assert_eq!(rows.names.len(), ROWS_MAX);
        assert_eq!(rows.servers.len(), ROWS_MAX);
        assert!(!rows.names.contains_key(&ExecutionId::from("make@0")));
    }
}
