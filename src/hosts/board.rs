//! The board of all hosts: the rows of each, or one row for a host that is not read.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::problem::Problem;
use super::rewrite::Rewriter;
use crate::board::{ExecutionKind, Row, RowKey, RowState, in_order};
use crate::clock::Clock;
use crate::thread::lock;
use crate::timestamp::Timestamp;

/// The most rows of a host: more than any board has, and few enough that a hostile one exhausts nothing.
const ROWS_MAX: usize = 10_000;

/// What is known of a host.
#[derive(Debug)]
pub(super) struct HostState {
    rewriter: Rewriter,
    pub status: Status,
    rows: Vec<Row>,
    /// The observer's version.
    pub version: String,
    /// How far the host's clock is ahead, in microseconds.
    pub clock: Option<i64>,
    /// What its observer cannot do.
    pub problems: Vec<String>,
    /// Its observer lets clients type.
    pub allows_input: bool,
    /// How far its runs are copied.
    pub copied: Copied,
    /// The user knows that it is not read.
    is_dismissed: bool,
}

/// How far the runs of a host are copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Copied {
    #[default]
    Nothing,
    /// Their list is there.
    Listed,
    /// The events are there that the list told of.
    Level,
}

/// The connection to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Connecting(Timestamp),
    Connected,
    Unreachable(Timestamp, Problem),
}

impl HostState {
    /// Returns the name of the host for people.
    pub fn name(&self) -> &str {
        self.rewriter
            .0
            .as_ref()
            .map_or("local", |name| name.as_str())
    }

    /// Returns the rows that stand for the host.
    fn shown(&self) -> Vec<Row> {
        let (state, since, words) = match &self.status {
            Status::Connected => return self.rows.clone(),
            Status::Connecting(since) => (RowState::Connecting, *since, String::new()),
            Status::Unreachable(since, why) => (RowState::Unreachable, *since, why.to_string()),
        };
        let key = RowKey {
            // No execution of the host has this id.
            execution_id: format!("{}/", self.name()).into(),
            part: None,
        };
        let mut row = Row::new(&key, self.name().to_owned(), ExecutionKind::Host, since);
        row.host = self.rewriter.0.as_ref().map(ToString::to_string);
        (row.state, row.last_line, row.dismissed) = (state, words, self.is_dismissed);
        vec![row]
    }
}

/// The board of all hosts.
#[derive(Debug)]
pub(super) struct HostBoard {
    state: Mutex<State>,
    changed: Condvar,
    clock: Clock,
}

#[derive(Debug)]
struct State {
    hosts: Vec<HostState>,
    /// Incremented with each change.
    version: u64,
    is_over: bool,
}

impl HostBoard {
    pub fn new(rewriters: impl Iterator<Item = Rewriter>, clock: &Clock) -> Self {
        let now = clock.wall();
        let hosts = rewriters.map(|rewriter| HostState {
            rewriter,
            status: Status::Connecting(now),
            rows: Vec::new(),
            version: String::new(),
            clock: None,
            problems: Vec::new(),
            allows_input: false,
            copied: Copied::Nothing,
            is_dismissed: false,
        });
        Self {
            state: Mutex::new(State {
                hosts: hosts.collect(),
                version: 1,
                is_over: false,
            }),
            changed: Condvar::new(),
            clock: clock.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Changes what is known of a host.
    pub fn update(&self, host: usize, change: impl FnOnce(&mut HostState)) {
        let mut state = self.lock();
        if let Some(of) = state.hosts.get_mut(host) {
            change(of);
        }
        state.version += 1;
        drop(state);
        self.changed.notify_all();
    }

    /// Notes what no row shows.
    pub fn note(&self, host: usize, change: impl FnOnce(&mut HostState)) {
        if let Some(of) = self.lock().hosts.get_mut(host) {
            change(of);
        }
        self.changed.notify_all();
    }

    /// Replaces the rows of a host that is read.
    pub fn set_rows(&self, host: usize, rows: Vec<Row>) {
        self.update(host, |of| {
            let rows = rows.into_iter().take(ROWS_MAX);
            of.rows = rows
                .filter_map(|mut row| of.rewriter.row(&mut row).then_some(row))
                .collect();
            of.status = Status::Connected;
            of.is_dismissed = false;
        });
    }

    /// Records that a host is not read. It keeps the time since which it is not, and its last words.
    pub fn set_unreachable(&self, host: usize, why: Problem) {
        let now = self.clock.wall();
        let is_known = {
            let state = self.lock();
            let status = state.hosts.get(host).map(|of| &of.status);
            matches!(status, Some(Status::Unreachable(_, known)) if *known == why)
        };
        if is_known {
            return;
        }
        self.update(host, |of| {
            let since = match &of.status {
                Status::Unreachable(since, _) => *since,
                _ => now,
            };
            of.rows.clear();
            of.status = Status::Unreachable(since, why);
        });
    }

    /// Returns the hosts that are not read, and why.
    pub fn unread(&self) -> Vec<(String, String)> {
        self.with(|hosts| {
            let unread = hosts.iter().filter_map(|of| match &of.status {
                Status::Unreachable(_, why) => Some((of.name().to_owned(), why.to_string())),
                Status::Connecting(_) => Some((
                    of.name().to_owned(),
                    "it is still being connected".to_owned(),
                )),
                Status::Connected => None,
            });
            unread.collect()
        })
    }

    /// Dismisses the row of a host that is not read, until it is, or brings it back; returns false if the host has none.
    pub fn dismiss(&self, id: &str, is_dismissed: bool) -> bool {
        let place = self.with(|hosts| {
            let is_it =
                |of: &HostState| of.status != Status::Connected && id == format!("{}/", of.name());
            hosts.iter().position(is_it)
        });
        if let Some(host) = place {
            self.update(host, |of| of.is_dismissed = is_dismissed);
        }
        place.is_some()
    }

    /// Wakes those who wait, for good.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Calls `look` with what is known of all hosts.
    pub fn with<T>(&self, look: impl FnOnce(&[HostState]) -> T) -> T {
        look(&self.lock().hosts)
    }

    /// Returns the rows and their version once it differs from a known one; `None` at the deadline.
    pub fn after(&self, known: Option<u64>, deadline: Instant) -> Option<(Vec<Row>, u64)> {
        let mut state = self.lock();
        while known == Some(state.version) {
            if state.is_over {
                return None;
            }
            state = self.wait(state, deadline)?;
        }
        let mut rows: Vec<Row> = state.hosts.iter().flat_map(HostState::shown).collect();
        in_order(&mut rows);
        Some((rows, state.version))
    }

    /// Waits until each host is not to be read, or is read and copied so far, or the deadline.
    pub fn wait_until_known(&self, copied: Copied, deadline: Instant) {
        let is_known = |of: &HostState| match of.status {
            Status::Connecting(_) => false,
            Status::Connected => of.copied >= copied,
            Status::Unreachable(..) => true,
        };
        let mut state = self.lock();
        while !state.is_over && !state.hosts.iter().all(is_known) {
            match self.wait(state, deadline) {
                Some(woken) => state = woken,
                None => return,
            }
        }
    }

    fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        deadline: Instant,
    ) -> Option<MutexGuard<'a, State>> {
        let left = deadline.saturating_duration_since(self.clock.now());
        if left < Duration::from_micros(1) {
            return None;
        }
        let woken = self.changed.wait_timeout(state, left);
        Some(woken.unwrap_or_else(PoisonError::into_inner).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_row_until_it_is_read_and_whenever_it_is_not() {
        let clock = Clock::system();
        let hosts = [None, Some("web".parse().unwrap())];
        let board = HostBoard::new(hosts.into_iter().map(Rewriter), &clock);
        let shown = |known| {
            let (rows, version) = board.after(known, clock.now()).unwrap();
            let rows: Vec<String> = rows
                .iter()
                .map(|row| format!("{} {} {}", row.key(), row.state.as_str(), row.attention()))
                .collect();
            (rows, version)
        };
        let (rows, version) = shown(None);
        assert_eq!(
            rows,
            ["local/ connecting working", "web/ connecting working"]
        );
        assert!(board.after(Some(version), clock.now()).is_none());
        let key = RowKey {
            execution_id: "a@1".into(),
            part: None,
        };
        let row = Row::new(
            &key,
            "a".to_owned(),
            ExecutionKind::Command,
            Timestamp::default(),
        );
        board.set_rows(0, vec![row.clone()]);
        board.set_rows(1, vec![row]);
        let (rows, version) = shown(Some(version));
        assert_eq!(rows, ["a@1 running working", "web/a@1 running working"]);
        board.set_unreachable(1, Problem::silent("web"));
        let (rows, version) = shown(Some(version));
        assert_eq!(rows, ["web/ unreachable needs_you", "a@1 running working"]);
        board.set_unreachable(1, Problem::silent("web"));
        assert!(board.after(Some(version), clock.now()).is_none());
    }
}
