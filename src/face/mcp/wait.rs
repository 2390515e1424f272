//! Waits for what others run.
//!
//! Each pane's wait runs in the observer, which streams it, and here on a thread `td-mcp-wait`; the first that is over
//! ends the others.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, select_biased};
use serde_json::{Map, Value, json};

use super::arguments::{Texts, WaitFor};
use super::context::Context;
use super::cursor::{Cursor, Cursors};
use super::earlier::{Line, LoggedLines};
use super::history::refused;
use super::outcome::{LINE_CHARS_MAX, PROGRESS, cancelled};
use super::panes::Found;
use super::redacted::{self, Patterns};
use super::refusal::Refusal;
use super::result::ToolResult;
use super::short::short;
use super::tools::TIMEOUT_MS;
use crate::api::Observer;
use crate::board::Row;
use crate::event::{AgentState, PaneId};
use crate::thread::{Handle, spawn, stop_pair};
use crate::tmux::Target;
use crate::wait::{WaitEnd, WaitOutcome, WaitSpec};

/// The interval at which the log is searched for lines that were printed before the wait.
const SEARCH: Duration = Duration::from_millis(150);

/// The most panes of one wait.
const PANES_MAX: usize = 32;

/// The longest wait: a day.
const TIMEOUT_MS_MAX: u64 = 86_400_000;

/// The states in which a turn has ended, or its agent asks.
const TURN_ENDS: [AgentState; 5] = [
    AgentState::Waiting,
    AgentState::Idle,
    AgentState::Done,
    AgentState::Error,
    AgentState::Limited,
];

/// The conditions of a wait, as the observer takes them, without the target.
pub(super) fn conditions(arguments: &mut WaitFor) -> Value {
    let texts = |texts: &mut Option<Texts>| texts.take().map_or_else(Vec::new, Texts::into_vec);
    let mut states = texts(&mut arguments.state);
    if arguments.turn {
        let ends = TURN_ENDS.iter().map(|state| state.as_str().to_owned());
        states.extend(ends);
    }
    let timeout = arguments
        .timeout_ms
        .unwrap_or(TIMEOUT_MS)
        .min(TIMEOUT_MS_MAX);
    json!({
        "text": texts(&mut arguments.text),
        "regex": texts(&mut arguments.regex),
        "stop": texts(&mut arguments.stop),
        "state": states,
        "turn": arguments.turn,
        "exit": arguments.exit,
        "idle_ms": arguments.idle_ms,
        "channel": arguments.channel,
        "timeout_ms": timeout,
        "include_existing": arguments.include_existing,
    })
}

/// Checks the conditions of a wait as the observer will.
pub(super) fn check(conditions: &Value, target: &str) -> Result<(), Refusal> {
    let invalid = |why: String| {
        let advice = "see the tool's input schema, and call it again";
        Refusal::of_arguments(why, advice)
    };
    let mut body = conditions.clone();
    body["target"] = json!(target);
    let spec: WaitSpec =
        serde_json::from_value(body).map_err(|error| invalid(error.to_string()))?;
    if let Some(name) = spec
        .state
        .iter()
        .find(|name| AgentState::from_name(name).is_none())
    {
        let names = AgentState::ALL.map(AgentState::as_str).join(", ");
        return Err(invalid(format!("there is no state {name:?}, but {names}")));
    }
    // Only the conditions are checked here.
    let target = Target::parse(target).or_else(|_| Target::parse("%0"));
    let wait = target.and_then(|target| spec.wait(target, ""));
    wait.map(drop).map_err(|error| invalid(error.to_string()))
}

/// A wait on one target.
struct TargetWait {
    server: PathBuf,
    target: String,
    /// The pane, if the target has only one.
    pane: Option<PaneId>,
}

impl TargetWait {
    /// Returns the waits for what a client names.
    fn of(found: Found) -> Vec<Self> {
        match found.target {
            Some((server, target)) => {
                let mut panes = found.rows.into_iter().map(|row| row.pane);
                let first = panes.next().flatten();
                vec![Self {
                    server,
                    target,
                    pane: first.filter(|_| panes.next().is_none()),
                }]
            }
            None => {
                let live = found.rows.iter().filter(|row| !row.has_ended());
                let places = live.filter_map(|row| row.place().or_else(|| row.in_pane.clone()));
                let waits = places.map(|place| Self {
                    server: place.server.into(),
                    target: place.pane.as_str().to_owned(),
                    pane: Some(place.pane),
                });
                waits.collect()
            }
        }
    }
}

/// The server, the pane, if it is one, and the outcome of a target's wait; `None` if it was cancelled.
type Outcome = (Waited, Result<Option<WaitOutcome>, String>);

/// What was waited for.
struct Waited {
    server: PathBuf,
    pane: Option<PaneId>,
}

/// What ends a wait.
enum First {
    /// A line that was printed between the cursor and the wait.
    Earlier(Line, Option<PaneId>),
    Outcome(Waited, WaitOutcome),
}

/// Waits for what happens in one of several panes.
pub(super) fn wait_for(
    context: &Context<'_>,
    mut arguments: WaitFor,
) -> Result<ToolResult, Refusal> {
    let given = [arguments.pane.take(), arguments.panes.take()];
    let names = given.into_iter().flatten().flat_map(Texts::into_vec);
    let names: Vec<String> = names.collect();
    let conditions = conditions(&mut arguments);
    if names.len() > PANES_MAX {
        let reason = format!("there are {} panes: give at most {PANES_MAX}", names.len());
        return Err(Refusal::of_arguments(reason, "wait for a session instead"));
    }
    check(&conditions, names.first().map_or("%0", |name| name))?;
    let cursors = arguments.cursor.as_deref().map(str::parse::<Cursors>);
    let cursors = cursors.transpose().map_err(|error| refused(&error))?;
    let observer = context.observer()?;
    let (mut waits, mut rows) = (Vec::new(), Vec::new());
    for name in &names {
        let found = context.find(&observer, name)?;
        rows.extend(found.rows.iter().filter(|row| !row.has_ended()).cloned());
        waits.extend(TargetWait::of(found));
    }
    if names.is_empty() {
        waits.extend(any_target(context, &observer, &arguments)?);
    }
    if waits.is_empty() {
        return Err(Refusal::of_arguments(
            format!("{names:?} is no pane that runs"),
            "read_output shows what it printed",
        ));
    }
    let patterns = Patterns::of(&conditions).map_err(|error| refused(&error))?;
    let lines = lines_of(context, &rows, (&patterns, &cursors.unwrap_or_default()))?;
    let waiting = Waiting {
        context,
        observer: &observer,
        conditions: &conditions,
        total: conditions["timeout_ms"].as_u64(),
        patterns,
        lines,
    };
    let mut fields = waiting.fields(waits)?;
    if names.is_empty() {
        // A channel has no pane.
        fields.remove("output");
    }
    Ok(ToolResult::new(fields))
}

/// Returns the lines that count, of each row.
fn lines_of(
    context: &Context<'_>,
    rows: &[Row],
    (patterns, cursors): (&Patterns, &Cursors),
) -> Result<Vec<LoggedLines>, Refusal> {
    let is_known = |row: &Row| cursors.of_run(&row.execution_id).is_some();
    if !cursors.is_empty() && !rows.iter().any(is_known) {
        let advice = "give the cursor of one of these panes, or none";
        let reason = "the cursor belongs to another pane";
        return Err(Refusal::of_arguments(reason, advice));
    }
    let lines = rows.iter().map(|row| {
        let cursor = cursors.of_run(&row.execution_id);
        LoggedLines::new(&context.server.data, row, (patterns, cursor))
    });
    let lines = lines.collect::<crate::error::Result<Vec<_>>>();
    let lines = lines.map_err(|error| refused(&error))?;
    Ok(lines.into_iter().flatten().collect())
}

/// Returns the target of a wait for a channel, which belongs to a server and to no pane: the client's own pane lives as
/// long as the client.
fn any_target(
    context: &Context<'_>,
    observer: &Observer,
    arguments: &WaitFor,
) -> Result<Option<TargetWait>, Refusal> {
    if arguments.channel.is_none() {
        let advice = "give pane or panes, as list_panes shows them";
        return Err(Refusal::of_arguments("no pane is given", advice));
    }
    let rows = context.rows(observer)?;
    let live = rows
        .iter()
        .filter(|row| !row.has_ended())
        .filter_map(Row::place);
    let place = context
        .server
        .own
        .clone()
        .or_else(|| live.into_iter().next());
    Ok(place.map(|place| TargetWait {
        server: place.server.into(),
        target: place.pane.as_str().to_owned(),
        // The channel is no pane's.
        pane: None,
    }))
}

/// A wait that is about to begin.
struct Waiting<'a> {
    context: &'a Context<'a>,
    observer: &'a Observer,
    conditions: &'a Value,
    /// The longest time, in milliseconds.
    total: Option<u64>,
    patterns: Patterns,
    /// The lines of each pane.
    lines: Vec<LoggedLines>,
}

/// The threads of a wait.
struct Threads(Vec<Handle<()>>);

impl Drop for Threads {
    fn drop(&mut self) {
        self.0.drain(..).for_each(Handle::join_logged);
    }
}

impl Waiting<'_> {
    /// Waits, and returns the fields of the result.
    fn fields(&self, waits: Vec<TargetWait>) -> Result<Map<String, Value>, Refusal> {
        let begun = self.context.clock().now();
        let (waited, outcome) = match self.first_of(waits)? {
            First::Earlier(line, pane) => {
                return Ok(self.earlier_fields(&line, pane.as_ref(), begun));
            }
            First::Outcome(waited, outcome) => (waited, outcome),
        };
        let is_match = matches!(outcome.end, WaitEnd::Matched(_) | WaitEnd::Stopped(_));
        let is_over = || self.context.is_cancelled();
        let pane = outcome.pane().cloned().or(waited.pane);
        let lines = self.lines_in(pane.as_ref());
        let matched = lines.filter(|_| is_match && outcome.has_line());
        let matched = matched.and_then(|lines| lines.after_match(self.context.clock(), &is_over));
        // The line that has matched is in the log by now.
        let printed = lines.and_then(|lines| self.context.printed(lines, &outcome));
        let last = matched.or_else(|| Some(printed.as_ref()?.cursor));
        let cursors = self.cursors((lines, last), is_match);
        let has_one = is_match || self.lines.len() <= 1;
        let outcome = (waited.server, outcome);
        let mut fields = self.context.outcome(self.observer, outcome, printed);
        if let Some(pane) = pane.filter(|_| has_one) {
            fields.insert("pane".to_owned(), json!(pane.as_str()));
        }
        if !cursors.is_empty() {
            fields.insert("cursor".to_owned(), json!(cursors.to_string()));
        }
        Ok(fields)
    }

    /// Returns the lines of a pane, or of the only one.
    fn lines_in(&self, pane: Option<&PaneId>) -> Option<&LoggedLines> {
        match &self.lines[..] {
            [only] => Some(only),
            all => all
                .iter()
                .find(|lines| pane.is_some() && lines.pane() == pane),
        }
    }

    /// Returns the places from which the next wait continues: in the pane that has ended this one, and in the others where
    /// they were, if they may have matched as well.
    fn cursors(
        &self,
        (last, at): (Option<&LoggedLines>, Option<Cursor>),
        is_match: bool,
    ) -> Cursors {
        let mut cursors = Cursors::default();
        for lines in &self.lines {
            let is_last = last.is_some_and(|last| std::ptr::eq(last, lines));
            let cursor = match at.filter(|_| is_last) {
                Some(at) => Some(at),
                None if is_match && !is_last => Some(lines.begin()),
                None => lines.end(),
            };
            if let Some(cursor) = cursor {
                cursors.add(cursor);
            }
        }
        cursors
    }

    /// Returns the result for a line that was printed before the wait.
    fn earlier_fields(
        &self,
        line: &Line,
        pane: Option<&PaneId>,
        begun: Instant,
    ) -> Map<String, Value> {
        let elapsed = self.context.clock().now().saturating_duration_since(begun);
        let elapsed = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let outcome = if line.is_stop { "stopped" } else { "found" };
        let text = short(&line.text, LINE_CHARS_MAX);
        let cursors = self.cursors((self.lines_in(pane), Some(line.cursor)), true);
        let mut fields = Map::from_iter([
            ("outcome".to_owned(), json!(outcome)),
            ("condition".to_owned(), json!("text")),
            ("output".to_owned(), json!(&text)),
            ("line".to_owned(), json!(text)),
            ("elapsed_ms".to_owned(), json!(elapsed)),
            ("cursor".to_owned(), json!(cursors.to_string())),
        ]);
        if let Some(pane) = pane {
            fields.insert("pane".to_owned(), json!(pane.as_str()));
        }
        fields
    }

    /// Returns the first outcome with a match, or else the one that says most.
    fn first_of(&self, waits: Vec<TargetWait>) -> Result<First, Refusal> {
        let count = waits.len();
        let (sender, outcomes) = bounded::<Outcome>(count);
        // Dropped in the opposite order: the waits are stopped before their threads are joined.
        let mut threads = Threads(Vec::new());
        let (_running, stop) = stop_pair();
        for wait in waits {
            let mut body = self.conditions.clone();
            body["target"] = json!(wait.target);
            let (observer, sender) = (self.observer.clone(), sender.clone());
            let (stop, clock) = (stop.clone(), self.context.clock().clone());
            let patterns = self.patterns.clone();
            let thread = spawn("td-mcp-wait", move || {
                let what = (&*wait.server, &body);
                let outcome =
                    redacted::wait(&observer, what, (&patterns, &|| true), (&stop, &clock));
                let waited = Waited {
                    server: wait.server,
                    pane: wait.pane,
                };
                // The call may be over.
                let _ = sender.send((waited, outcome));
            });
            threads.0.push(thread.map_err(|error| {
                Refusal::new(error.to_string(), "wait for fewer panes, and call again")
            })?);
        }
        drop(sender);
        self.until_over(&outcomes)
    }

    fn until_over(&self, outcomes: &Receiver<Outcome>) -> Result<First, Refusal> {
        let clock = self.context.clock();
        let begun = clock.now();
        let mut report_at = begun + PROGRESS;
        let mut best = None;
        let mut failed = None;
        let is_over = || self.context.is_cancelled();
        let lines = self.lines.iter().filter(|lines| lines.has_cursor());
        let searches = lines.filter_map(|lines| Some((lines.pane(), lines.search(&is_over)?)));
        let mut searches: Vec<_> = searches.collect();
        loop {
            for (pane, search) in &mut searches {
                if let Some(line) = search.next() {
                    return Ok(First::Earlier(line, pane.cloned()));
                }
            }
            if report_at <= clock.now() {
                report_at += PROGRESS;
                self.context.report_wait(begun, self.total);
            }
            // What was printed just before the wait may be in the log a moment later.
            let due = if searches.is_empty() {
                report_at
            } else {
                report_at.min(clock.now() + SEARCH)
            };
            let outcome = select_biased! {
                recv(self.context.stop) -> _ => return Err(cancelled()),
                recv(outcomes) -> outcome => outcome,
                recv(clock.at(due)) -> _ => continue,
            };
            match outcome {
                Ok((waited, Ok(Some(outcome)))) => match outcome.end {
                    WaitEnd::Matched(_) | WaitEnd::Stopped(_) => {
                        return Ok(First::Outcome(waited, outcome));
                    }
                    _ => best = Some(better(best, (waited, outcome))),
                },
                Ok((_, Ok(None))) => {}
                Ok((_, Err(why))) => failed = Some(why),
                Err(_) => break,
            }
        }
        match (best, failed) {
            (Some((waited, outcome)), _) => Ok(First::Outcome(waited, outcome)),
            (None, Some(why)) => Err(Refusal::new(
                why,
                "call again, or list_panes for what has changed",
            )),
            (None, None) if self.context.is_cancelled() => Err(cancelled()),
            (None, None) => Err(Refusal::new("the observer has ended", "call again")),
        }
    }
}

/// Returns the outcome that says more: what was lost, then what may still come.
fn better(
    best: Option<(Waited, WaitOutcome)>,
    other: (Waited, WaitOutcome),
) -> (Waited, WaitOutcome) {
    let rank = |(_, outcome): &(Waited, WaitOutcome)| match outcome.end {
        WaitEnd::Lost => 2,
        WaitEnd::TimedOut => 1,
        _ => 0,
    };
    match best {
        Some(best) if rank(&best) >= rank(&other) => best,
        _ => other,
    }
}
