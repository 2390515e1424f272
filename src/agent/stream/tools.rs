//! Tracks open tool calls by id (pure).

use super::recent_ids::{RecentIds, hash};
use crate::timestamp::Timestamp;

/// The maximum number of open calls. The result of an older call is that of an unknown tool.
const OPEN_MAX: usize = 1_024;

/// The name of a tool whose start was not read.
pub(super) const UNKNOWN: &str = "unknown";

/// The time of a record: its arrival and its timestamp.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventTime {
    pub arrived: Timestamp,
    pub recorded: Option<Timestamp>,
}

impl EventTime {
    /// Returns the milliseconds until `later`: between the timestamps if both records have one, and
    /// otherwise between the arrivals. Records may be out of order, so the minimum is 0.
    fn millis_to(self, later: Self) -> u64 {
        let (from, to) = match (self.recorded, later.recorded) {
            (Some(from), Some(to)) => (from, to),
            _ => (self.arrived, later.arrived),
        };
        u64::try_from(to.micros().saturating_sub(from.micros()) / 1_000).unwrap_or(0)
    }
}

#[derive(Debug)]
struct OpenTool {
    id: u64,
    name: Box<str>,
    arguments: Box<str>,
    begun: EventTime,
    /// True for a tool of the agent itself, false for one of a sub-agent.
    is_own: bool,
    /// True if the turn in which the call started has ended.
    is_stale: bool,
}

/// The open calls, oldest first.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    open: Vec<OpenTool>,
    seen: RecentIds,
}

impl ToolCalls {
    /// Opens a call; returns true if it is new.
    pub fn open(
        &mut self,
        id: &str,
        (name, arguments): (&str, &str),
        begun: EventTime,
        is_own: bool,
    ) -> bool {
        if !self.seen.insert(id) {
            return false;
        }
        if self.open.len() >= OPEN_MAX {
            self.open.remove(0);
        }
        self.open.push(OpenTool {
            id: hash(id),
            name: name.into(),
            arguments: arguments.into(),
            begun,
            is_own,
            is_stale: false,
        });
        true
    }

    /// Closes a call; returns its name and its duration in milliseconds, or `None` if it was closed before.
    pub fn close(&mut self, id: &str, when: EventTime) -> Option<(String, u64)> {
        let hashed = hash(id);
        if let Some(at) = self.open.iter().rposition(|open| open.id == hashed) {
            let open = self.open.remove(at);
            return Some((open.name.into(), open.begun.millis_to(when)));
        }
        self.seen.insert(id).then(|| (UNKNOWN.to_owned(), 0))
    }

    /// Ends the agent's turn; returns its open tools once. They may still return a result.
    pub fn end_turn(&mut self) -> Vec<&str> {
        let open = self.open.iter_mut();
        open.filter_map(|open| {
            let is_new = open.is_own && !std::mem::replace(&mut open.is_stale, true);
            is_new.then_some(&*open.name)
        })
        .collect()
    }

    /// Returns the names of the open calls of the current turn.
    pub fn open_names(&self) -> impl Iterator<Item = &str> {
        let open = self.open.iter();
        open.filter(|open| !open.is_stale).map(|open| &*open.name)
    }

    /// Returns the names and arguments of the agent's own open calls of the current turn.
    pub fn own_open(&self) -> impl Iterator<Item = (&str, &str)> {
        let open = self.open.iter();
        let waiting = open.filter(|open| open.is_own && !open.is_stale);
        waiting.map(|open| (&*open.name, &*open.arguments))
    }

    /// Removes all calls, because another run may use the same ids.
    pub fn clear(&mut self) {
        self.open.clear();
        self.seen.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn when(arrived: i64, recorded: Option<i64>) -> EventTime {
        EventTime {
            arrived: Timestamp::from_micros(arrived * 1_000),
            recorded: recorded.map(|millis| Timestamp::from_micros(millis * 1_000)),
        }
    }

    #[test]
    fn durations_are_by_records_where_both_have_a_time() {
        for (begun, ended, millis) in [
            (when(10, None), when(25, None), 15),
            (when(10, Some(100)), when(25, Some(107)), 7),
            (when(10, Some(100)), when(25, None), 15),
            (when(10, Some(100)), when(25, Some(90)), 0),
        ] {
            let mut tools = ToolCalls::default();
            assert!(tools.open("a", ("Bash", ""), begun, true));
            assert!(!tools.open("a", ("Bash", ""), begun, true), "told twice");
            assert_eq!(tools.close("a", ended).unwrap().1, millis);
            assert!(tools.close("a", ended).is_none(), "answered twice");
        }
    }

    #[test]
    fn open_calls_are_bounded() {
        let mut tools = ToolCalls::default();
        for number in 0..=OPEN_MAX {
            tools.open(&number.to_string(), ("Bash", ""), when(0, None), true);
        }
        assert_eq!(tools.open_names().count(), OPEN_MAX);
        assert_eq!(tools.end_turn().len(), OPEN_MAX);
        assert_eq!(tools.end_turn().len(), 0, "said once");
        assert_eq!(tools.close("1", when(0, None)).unwrap().0, "Bash");
    }
}
