//! `td-observe wait --host`: the observer of the target's host waits, and answers when the condition holds.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::args::TypedWait;
use crate::api::{SILENCE, WaitLine, WaitReport, get_board, percent_encoded, post_lines};
use crate::board::Row;
use crate::cli::failure::Failure;
use crate::cli::observer;
use crate::cli::options::Options;
use crate::cli::status::selected;
use crate::clock::Clock;
use crate::face::one_line;
use crate::thread::{Stop, is_stopped, park};
use crate::wait::{WaitEnd, WaitOutcome};

/// The time without a sign of the host's observer after which the wait begins anew: longer than the time in which a
/// silent host is found.
const PATIENCE: Duration = SILENCE.saturating_mul(6);

/// The pause before another attempt to reach the host.
const PAUSE: Duration = Duration::from_millis(300);

/// The wait for a target on one of several hosts.
pub(super) struct HostWait {
    /// The socket at which the hosts are read as one.
    api: PathBuf,
    /// The target, as it was typed.
    name: String,
    /// The socket of the tmux server there, with its host.
    server: String,
    conditions: Value,
    deadline: Option<Instant>,
    begun: Instant,
    clock: Clock,
}

impl HostWait {
    /// Returns the waits for all targets.
    ///
    /// # Errors
    /// If a target is no row, or not in a pane that is observed; if an option has no meaning on another host.
    pub fn of(options: &Options, typed: &TypedWait, clock: &Clock) -> Result<Vec<Self>, Failure> {
        for (option, is_given) in [
            ("--states", !typed.rules.is_empty()),
            ("--no-redact", typed.secrets.no_redact),
        ] {
            if is_given {
                return Err(usage!(
                    "{option}: the observer of the host reads and redacts by its own rules: leave out {option} or --host"
                ));
            }
        }
        let known = observer::running(&options.home()?)?;
        let api = known
            .ok_or_else(|| failure!("the hosts are not read"))?
            .socket;
        let board = get_board(&api, None, Duration::ZERO)?;
        let rows = board.map(|(rows, _)| rows).unwrap_or_default();
        let begun = clock.now();
        let waits = typed.targets.iter().map(|target| {
            let (server, place) = place_of(rows.clone(), target)?;
            let mut conditions = typed.conditions([
                ("state", Some(json!(typed.state))),
                ("channel", typed.channel.as_ref().map(|name| json!(name))),
                ("send", typed.send.as_ref().map(|text| json!(text))),
                ("enter", typed.send.as_ref().map(|_| json!(!typed.no_enter))),
                ("answers", typed.answers.as_ref().map(|id| json!(id))),
            ]);
            conditions["target"] = json!(place);
            Ok(Self {
                api: api.clone(),
                name: one_line(target),
                server,
                conditions,
                deadline: typed.timeout.and_then(|time| begun.checked_add(time)),
                begun,
                clock: clock.clone(),
            })
        });
        waits.collect()
    }

    /// Waits. A connection that breaks is made again; what was printed meanwhile may be missed, and the outcome says so.
    pub fn run(mut self, stop: &Stop) -> Result<Option<WaitOutcome>, Failure> {
        let mut has_lost = false;
        loop {
            let left = self
                .deadline
                .map(|deadline| deadline.saturating_duration_since(self.clock.now()));
            if let Some(left) = left {
                self.conditions["timeout_ms"] = json!(left.as_millis());
            }
            let (mut answer, has_begun) = (None, Cell::new(false));
            let path = format!("/api/v1/wait?socket={}", percent_encoded(&self.server));
            let asked = post_lines(
                (&self.api, &path),
                &self.conditions,
                (PATIENCE, &self.clock),
                || is_stopped(stop),
                |line| match WaitLine::parse(line).filter(|_| !is_absence(line)) {
                    Some(WaitLine::Outcome(outcome)) => answer = Some(Ok(*outcome)),
                    Some(WaitLine::Refusal(why)) => answer = Some(Err(why)),
                    Some(WaitLine::Report(WaitReport::Begun)) => has_begun.set(true),
                    _ => {}
                },
            );
            match (answer, asked) {
                _ if is_stopped(stop) => return Ok(None),
                (Some(Ok(outcome)), _) => return Ok(Some(self.outcome(outcome, has_lost))),
                (Some(Err(why)), Ok(())) => {
                    return Err(usage!("{}: {}", self.name, one_line(&why)));
                }
                (_, asked) => log::info!("the wait on the host is broken: {asked:?}"),
            }
            if left.is_some_and(|left| left.is_zero()) {
                let outcome = WaitOutcome {
                    end: WaitEnd::TimedOut,
                    ts: self.clock.wall(),
                    elapsed: Duration::ZERO,
                    lost_lines: true,
                    last_lines: Vec::new(),
                    lines_before: Vec::new(),
                };
                return Ok(Some(self.outcome(outcome, true)));
            }
            if has_begun.get() {
                has_lost = true;
                // It is typed already.
                if let Some(conditions) = self.conditions.as_object_mut() {
                    conditions.remove("send");
                    conditions.remove("answers");
                }
            }
            park(Some(PAUSE));
        }
    }

    fn outcome(&self, mut outcome: WaitOutcome, has_lost: bool) -> WaitOutcome {
        outcome.elapsed = self.clock.now().saturating_duration_since(self.begun);
        if has_lost {
            outcome.lost_lines = true;
            if outcome.end == WaitEnd::TimedOut {
                outcome.end = WaitEnd::Lost;
            }
        }
        outcome
    }
}

/// Returns true if an answer says that the host is not read at present.
fn is_absence(line: &[u8]) -> bool {
    let problem: Option<Value> = serde_json::from_slice(line).ok();
    problem.is_some_and(|problem| problem["status"] == 503)
}

/// Returns the tmux server, and the pane or the session there, of the row that a target names.
fn place_of(rows: Vec<Row>, target: &str) -> Result<(String, String), Failure> {
    let all = rows.clone();
    let rows = match selected(rows, &[target.to_owned()]) {
        Ok(selected) => selected.rows,
        // A window or a pane by its number, which tmux there knows.
        Err(failure) => return part_of(&all, target).ok_or(failure),
    };
    let shown = one_line(target);
    if let Some(host) = rows
        .iter()
        .find(|row| row.pane.is_none() && row.in_pane.is_none())
    {
        return Err(match host.last_line.as_str() {
            "" => usage!("{shown:?} is in no pane: there is nothing to wait for"),
            why => failure!("{shown:?} cannot be waited for: {}", one_line(why)),
        });
    }
    let live = rows.iter().filter(|row| !row.has_ended());
    let places = live.filter_map(|row| row.place().or_else(|| row.in_pane.clone()));
    let mut places: Vec<_> = places.collect();
    places.dedup();
    let executions: Vec<_> = rows.iter().map(|row| &row.execution_id).collect();
    match &places[..] {
        [] => Err(usage!("{shown:?} has ended: there is nothing to wait for")),
        [place] => Ok((place.server.clone(), place.pane.to_string())),
        // All panes of one session.
        [place, ..] if executions.iter().all(|id| **id == *executions[0]) => {
            Ok((place.server.clone(), rows[0].name.clone()))
        }
        _ => Err(usage!(
            "{shown:?} names {} panes on several hosts or in several sessions: give one, as in HOST/NAME",
            places.len()
        )),
    }
}

/// Returns the only tmux server of the host that a target names, and the part of a session there.
fn part_of(rows: &[Row], target: &str) -> Option<(String, String)> {
    let (host, part) = target.split_once('/')?;
    let (session, _) = part.split_once(':')?;
    let of_session = |row: &&Row| row.host.as_deref() == Some(host) && row.name == session;
    let servers = rows.iter().filter(of_session);
    let mut servers: Vec<&String> = servers.filter_map(|row| row.server.as_ref()).collect();
    servers.dedup();
    match servers[..] {
        [server] => Some((server.clone(), part.to_owned())),
        _ => None,
    }
}
