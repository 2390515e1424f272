//! The rows of the board, by their keys.

use std::collections::BTreeMap;
#[cfg(feature = "cli")]
use std::collections::HashSet;
use std::time::Duration;

use rustc_hash::FxHashMap;

#[cfg(feature = "cli")]
use super::place::Place;
#[cfg(feature = "cli")]
use super::row::{Attention, ExecutionKind};
use super::row::{Row, RowKey};
use crate::agent::StateRules;
use crate::event::ExecutionId;
use crate::timestamp::Timestamp;

/// The most rows, more than the panes of an observer. Beyond this, the oldest ended rows are removed.
const ROWS_MAX: usize = 10_000;

/// The time after which a row that has ended leaves the board.
pub(crate) const ENDED_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Returns the rows that a face lists: while a command or a loop runs in the foreground of a pane, its row stands for
/// the pane's, unless that needs the user, has finished or is kept. Who looks for a pane looks among all rows.
#[cfg(feature = "cli")]
pub(crate) fn listed(mut rows: Vec<Row>, is_kept: impl Fn(&Row) -> bool) -> Vec<Row> {
    let running = rows.iter().filter(|row| !row.has_ended());
    let taken: HashSet<Place> = running.filter_map(|row| row.in_pane.clone()).collect();
    rows.retain(|row| {
        let is_calm = matches!(row.attention(), Attention::Working | Attention::Quiet);
        let (Some(server), Some(pane)) = (&row.server, &row.pane) else {
            return true;
        };
        let place = Place {
            server: server.clone(),
            pane: pane.clone(),
        };
        let is_one = row.kind != ExecutionKind::Pane || !taken.contains(&place);
        is_one || !is_calm || row.has_ended() || row.is_unread() || is_kept(row)
    });
    rows
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
}

impl Rows {
    pub fn new(rules: StateRules) -> Self {
        Self {
            map: BTreeMap::new(),
            names: FxHashMap::default(),
            servers: FxHashMap::default(),
            rules,
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

    #[cfg(feature = "cli")]
    #[test]
    fn a_command_in_the_foreground_of_a_pane_stands_for_it_unless_the_pane_has_news() {
        use crate::board::RowState;
        use crate::event::AgentState;

        let at = Timestamp::from_micros(1);
        let place = |server: &str| Place {
            server: server.to_owned(),
            pane: "%1".into(),
        };
        let names = |pane_state: RowState, has_ended: bool, server: &str, is_kept: bool| {
            let key = |id: &str, part: Option<&str>| RowKey {
                execution_id: id.into(),
                part: part.map(str::to_owned),
            };
            let name = "work".to_owned();
            let mut pane = Row::new(&key("work", Some("%1")), name, ExecutionKind::Pane, at);
            pane.server = Some("/tmp/s".to_owned());
            pane.state = pane_state;
            let mut command = Row::new(
                &key("make", None),
                "make".to_owned(),
                ExecutionKind::Command,
                at,
            );
            command.in_pane = Some(place(server));
            assert_eq!((command.key().part, &command.pane), (None, &None));
            if has_ended {
                command.end(Some(3), at);
            }
            let rows = listed(vec![pane, command], |row| is_kept && row.name == "work");
            let names: Vec<String> = rows.into_iter().map(|row| row.name).collect();
            names.join(" ")
        };
        let agent = |state: AgentState| RowState::Agent(state.into());
        for (state, shown) in [
            (RowState::Running, "make"),
            (RowState::Quiet, "make"),
            (agent(AgentState::Working), "make"),
            (agent(AgentState::Idle), "make"),
            (agent(AgentState::Waiting), "work make"),
            (agent(AgentState::Error), "work make"),
            (agent(AgentState::Limited), "work make"),
            (agent(AgentState::Done), "work make"),
            (agent(AgentState::Unknown), "work make"),
            (RowState::Failed, "work make"),
            (RowState::Exited, "work make"),
        ] {
            assert_eq!(names(state.clone(), false, "/tmp/s", false), shown);
            assert_eq!(names(state.clone(), true, "/tmp/s", false), "work make");
            assert_eq!(names(state.clone(), false, "/tmp/t", false), "work make");
            assert_eq!(names(state, false, "/tmp/s", true), "work make");
        }
    }

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
