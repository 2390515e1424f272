//! Waits: for what others run, and for what follows a text that is typed.
//!
//! Each pane's wait runs in the observer, which streams it, and here on a thread `td-mcp-wait`; the first that is over
//! ends the others. An agent's turn is followed in its events, as `td-observe ask` follows it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded, select_biased};
use serde_json::{Map, Value, json};

use super::arguments::{SendAndWait, Texts, WaitFor};
use super::context::Context;
use super::cursor::Cursor;
use super::earlier::{Line, LineSearch, Lines, Printed};
use super::history::refused;
use super::panes::Found;
use super::read;
use super::refusal::Refusal;
use super::result::{Budget, ToolResult};
use super::send::Typed;
use super::short::short;
use super::tools::TIMEOUT_MS;
use crate::agent::AgentProgram;
use crate::api::{Input, Observer};
use crate::board::{Place, Row, RowState};
use crate::error::Error;
use crate::event::{AgentState, PaneId};
use crate::face::sanitize::sanitized;
use crate::feed::Next;
use crate::thread::{Handle, Stop, lock, run_beside, spawn, stop_pair};
use crate::tmux::Target;
use crate::wait::{FollowedTurn, TurnEnd, WaitCondition, WaitEnd, WaitOutcome, WaitSpec};

/// The interval of progress: clients that hear of it do not give up.
const PROGRESS: Duration = Duration::from_secs(2);

/// The interval at which the log is searched for lines that were printed before the wait.
const SEARCH: Duration = Duration::from_millis(150);

/// The interval at which a turn checks whether it is cancelled.
const CHECK: Duration = Duration::from_millis(100);

/// The most panes of one wait.
const PANES_MAX: usize = 32;

/// The longest line in a result, in characters.
const LINE_CHARS_MAX: usize = 400;

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
fn conditions(arguments: &mut WaitFor) -> Value {
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
fn check(conditions: &Value, target: &str) -> Result<(), Refusal> {
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
}

impl TargetWait {
    /// Returns the waits for what a client names.
    fn of(found: Found) -> Vec<Self> {
        match found.target {
            Some((server, target)) => vec![Self { server, target }],
            None => {
                let live = found.rows.iter().filter(|row| !row.has_ended());
                let places = live.filter_map(|row| row.place().or_else(|| row.in_pane.clone()));
                let waits = places.map(|place| Self {
                    server: place.server.into(),
                    target: place.pane.as_str().to_owned(),
                });
                waits.collect()
            }
        }
    }
}

/// The server and the outcome of a target's wait; `None` if it was cancelled.
type Outcome = (PathBuf, Result<Option<WaitOutcome>, String>);

/// What ends a wait.
enum First {
    /// A line that was printed between the cursor and the wait.
    Earlier(Line),
    Outcome(PathBuf, WaitOutcome),
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
    let cursor = arguments.cursor.as_deref().map(str::parse::<Cursor>);
    let cursor = cursor.transpose().map_err(|error| refused(&error))?;
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
    let lines = lines_of(context, &rows, (&conditions, cursor))?;
    let waiting = Waiting {
        context,
        observer: &observer,
        conditions: &conditions,
        total: conditions["timeout_ms"].as_u64(),
        lines,
        names_one: (waits.len() == 1 && rows.len() == 1)
            .then(|| rows[0].pane.clone())
            .flatten(),
    };
    let mut fields = waiting.fields(waits)?;
    if names.is_empty() {
        // A channel has no pane.
        fields.remove("output");
    }
    Ok(ToolResult::new(fields))
}

/// Returns the lines that count, of the row that the cursor belongs to, or of the only one.
fn lines_of(
    context: &Context<'_>,
    rows: &[Row],
    (conditions, cursor): (&Value, Option<Cursor>),
) -> Result<Option<Lines>, Refusal> {
    let is_meant = |row: &&Row| match cursor {
        Some(cursor) => cursor.position_in(&row.execution_id).is_ok(),
        None => rows.len() == 1,
    };
    let Some(row) = rows.iter().find(is_meant) else {
        let advice = "give the cursor of one of these panes, or none";
        return match cursor {
            Some(_) => Err(Refusal::of_arguments(
                "the cursor belongs to another pane",
                advice,
            )),
            None => Ok(None),
        };
    };
    let lines = Lines::new(&context.server.data, row, (conditions, cursor));
    lines.map_err(|error| refused(&error))
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
    }))
}

/// A wait that is about to begin.
struct Waiting<'a> {
    context: &'a Context<'a>,
    observer: &'a Observer,
    conditions: &'a Value,
    /// The longest time, in milliseconds.
    total: Option<u64>,
    /// The lines that were printed before the wait, and count.
    lines: Option<Lines>,
    /// The pane, if there is only one.
    names_one: Option<PaneId>,
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
        let (server, outcome) = match self.first_of(waits)? {
            First::Earlier(line) => return Ok(self.earlier_fields(&line, begun)),
            First::Outcome(server, outcome) => (server, outcome),
        };
        let is_match = matches!(outcome.end, WaitEnd::Matched(_) | WaitEnd::Stopped(_));
        let is_over = || self.context.is_cancelled();
        let lines = self.lines.as_ref();
        let matched = lines.filter(|_| is_match && outcome.has_line());
        let matched = matched.and_then(|lines| lines.after_match(self.context.clock(), &is_over));
        // The line that has matched is in the log by now.
        let printed = lines.and_then(|lines| self.context.printed(lines, &outcome));
        let cursor = match (matched, &printed) {
            (Some(cursor), _) => Some(cursor),
            (None, Some(printed)) => Some(printed.cursor),
            (None, None) => lines.and_then(Lines::end),
        };
        let outcome = (server, outcome);
        let mut fields = self.context.outcome(self.observer, outcome, printed);
        if let Some(pane) = self
            .names_one
            .as_ref()
            .filter(|_| !fields.contains_key("pane"))
        {
            fields.insert("pane".to_owned(), json!(pane.as_str()));
        }
        if let Some(cursor) = cursor {
            fields.insert("cursor".to_owned(), json!(cursor));
        }
        Ok(fields)
    }

    /// Returns the result for a line that was printed before the wait.
    fn earlier_fields(&self, line: &Line, begun: Instant) -> Map<String, Value> {
        let elapsed = self.context.clock().now().saturating_duration_since(begun);
        let elapsed = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let outcome = if line.is_stop { "stopped" } else { "found" };
        let text = short(&line.text, LINE_CHARS_MAX);
        let mut fields = Map::from_iter([
            ("outcome".to_owned(), json!(outcome)),
            ("condition".to_owned(), json!("text")),
            ("output".to_owned(), json!(&text)),
            ("line".to_owned(), json!(text)),
            ("elapsed_ms".to_owned(), json!(elapsed)),
            ("cursor".to_owned(), json!(line.cursor)),
        ]);
        if let Some(pane) = self.lines.as_ref().and_then(Lines::pane) {
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
            let thread = spawn("td-mcp-wait", move || {
                let outcome = observer.wait(&wait.server, &body, &|| true, (&stop, &clock));
                // The call may be over.
                let _ = sender.send((wait.server, outcome));
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
        let lines = self.lines.as_ref().filter(|lines| lines.has_cursor());
        let mut search = lines.and_then(|lines| lines.search(&is_over));
        loop {
            if let Some(line) = search.as_mut().and_then(LineSearch::next) {
                return Ok(First::Earlier(line));
            }
            if report_at <= clock.now() {
                report_at += PROGRESS;
                self.context.report_wait(begun, self.total);
            }
            // What was printed just before the wait may be in the log a moment later.
            let due = match search {
                Some(_) => report_at.min(clock.now() + SEARCH),
                None => report_at,
            };
            let outcome = select_biased! {
                recv(self.context.stop) -> _ => return Err(cancelled()),
                recv(outcomes) -> outcome => outcome,
                recv(clock.at(due)) -> _ => continue,
            };
            match outcome {
                Ok((server, Ok(Some(outcome)))) => match outcome.end {
                    WaitEnd::Matched(_) | WaitEnd::Stopped(_) => {
                        return Ok(First::Outcome(server, outcome));
                    }
                    _ => best = Some(better(best, (server, outcome))),
                },
                Ok((_, Ok(None))) => {}
                Ok((_, Err(why))) => failed = Some(why),
                Err(_) => break,
            }
        }
        match (best, failed) {
            (Some((server, outcome)), _) => Ok(First::Outcome(server, outcome)),
            (None, Some(why)) => Err(Refusal::new(
                why,
                "call again, or list_panes for what has changed",
            )),
            (None, None) if self.context.is_cancelled() => Err(cancelled()),
            (None, None) => Err(Refusal::new("the observer has ended", "call again")),
        }
    }
}

fn cancelled() -> Refusal {
    Refusal::new("the call was cancelled", "")
}

/// Returns the outcome that says more: what was lost, then what may still come.
fn better(
    best: Option<(PathBuf, WaitOutcome)>,
    other: (PathBuf, WaitOutcome),
) -> (PathBuf, WaitOutcome) {
    let rank = |(_, outcome): &(PathBuf, WaitOutcome)| match outcome.end {
        WaitEnd::Lost => 2,
        WaitEnd::TimedOut => 1,
        _ => 0,
    };
    match best {
        Some(best) if rank(&best) >= rank(&other) => best,
        _ => other,
    }
}

impl Context<'_> {
    /// Tells the client of progress until the wait is over.
    fn report_until(&self, is_over: &Stop, total: Option<u64>) {
        let begun = self.clock().now();
        loop {
            select_biased! {
                recv(is_over) -> _ => return,
                recv(self.clock().after(PROGRESS)) -> _ => {}
            }
            self.report_wait(begun, total);
        }
    }

    /// Tells the client that a wait goes on. Its longest time is in milliseconds.
    fn report_wait(&self, begun: Instant, total: Option<u64>) {
        let seconds = self
            .clock()
            .now()
            .saturating_duration_since(begun)
            .as_secs();
        let progress = (seconds, total.map(|total| total.div_ceil(1_000)));
        self.report(progress, &format!("waiting for {seconds} s"));
    }

    /// Returns what was printed during a wait, if the log has it.
    fn printed(&self, lines: &Lines, outcome: &WaitOutcome) -> Option<Printed> {
        let is_over = || self.is_cancelled();
        let has_ended = match &outcome.end {
            WaitEnd::Ended(_) => true,
            WaitEnd::Matched(found) => found.condition == WaitCondition::Exit,
            _ => false,
        };
        if has_ended {
            lines.last_output(self.clock(), &is_over)
        } else {
            lines.output(&is_over)
        }
    }

    /// Returns the fields of an outcome in a pane of the tmux server at a socket, with what was printed during the wait, if
    /// that is known.
    fn outcome(
        &self,
        observer: &Observer,
        (server, outcome): (PathBuf, WaitOutcome),
        printed: Option<Printed>,
    ) -> Map<String, Value> {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
        let (name, found, advice) = match &outcome.end {
            WaitEnd::Matched(found) => ("found", Some(found), None),
            WaitEnd::Stopped(found) => ("stopped", Some(found), None),
            WaitEnd::Ended(why) => {
                put("condition", json!(why.as_str()));
                let advice = "nothing more can match; read_output shows what was printed";
                ("ended", None, Some(advice))
            }
            WaitEnd::TimedOut => {
                let advice =
                    "nothing matched yet; call wait_for again with this cursor, or read_output";
                ("timed_out", None, Some(advice))
            }
            WaitEnd::Lost => {
                let advice =
                    "lines were lost, perhaps with a match; read_output shows what there is";
                ("lost", None, Some(advice))
            }
            WaitEnd::Interrupted => ("timed_out", None, None),
        };
        put("outcome", json!(name));
        let mut advice = advice;
        if let Some(found) = found {
            put("condition", json!(found.condition.as_str()));
            if let Some(pane) = &found.pane {
                put("pane", json!(pane.as_str()));
            }
            // The question says more than its line.
            let text = found.text.as_ref().filter(|_| found.state().is_none());
            if let Some(text) = text {
                put("line", json!(short(text, LINE_CHARS_MAX)));
            }
            if let Some(status) = found.exit_status {
                put("exit_status", json!(status));
            }
            if let Some(answer) = &found.answer {
                put("answer", json!(answer));
            }
            if let Some(state) = found.state() {
                put("state", json!(state));
                if state == AgentState::Waiting.as_str()
                    && let Some(pane) = &found.pane
                    && let Some(question) = self.question(observer, &place_of(&server, pane))
                {
                    put("question", question);
                    advice = Some("answer with answers set to the question's id");
                }
            }
        }
        if outcome.lost_lines {
            put("may_have_missed", json!(true));
        }
        let elapsed = u64::try_from(outcome.elapsed.as_millis()).unwrap_or(u64::MAX);
        put("elapsed_ms", json!(elapsed));
        if let Some(advice) = advice {
            put("advice", json!(advice));
        }
        let mut budget = Budget::new(false);
        // The rest of the result has its room first.
        budget.take(&Value::Object(fields.clone()));
        let is_line = outcome.has_line();
        // What a full-screen program shows is in no log.
        let printed = printed.filter(|printed| !printed.text.is_empty() || !is_line);
        let (text, is_cut) = printed.map_or_else(
            || {
                let lines = outcome.last_lines.iter().map(|line| sanitized(line));
                (lines.collect::<Vec<_>>().join("\n"), false)
            },
            |printed| (printed.text, printed.is_cut),
        );
        let output = budget.fit_end(&text);
        if is_cut || output.len() < text.len() {
            fields.insert("output_is_cut".to_owned(), json!(true));
        }
        fields.insert("output".to_owned(), json!(output));
        fields
    }
}

fn place_of(server: &Path, pane: &PaneId) -> Place {
    Place {
        server: server.to_string_lossy().into_owned(),
        pane: pane.clone(),
    }
}

/// Types a text, and waits for what follows.
pub(super) fn send_and_wait(
    context: &Context<'_>,
    arguments: SendAndWait,
) -> Result<ToolResult, Refusal> {
    let typed = Typed {
        text: Some(&arguments.text),
        keys: None,
        enter: arguments.enter,
        answers: arguments.answers.as_deref(),
    };
    let input = typed.input()?;
    let mut wanted = WaitFor {
        text: arguments.contains,
        regex: arguments.regex,
        state: arguments.state,
        turn: arguments.turn,
        idle_ms: arguments.idle_ms,
        timeout_ms: arguments.timeout_ms,
        ..WaitFor::default()
    };
    let mut conditions = conditions(&mut wanted);
    conditions["sent"] = json!(arguments.text);
    check(&conditions, "%0")?;
    let observer = context.observer()?;
    let (row, place) = context.pane_to_type(&observer, &arguments.pane)?;
    let lines = Lines::new(&context.server.data, &row, (&conditions, None));
    let lines = lines.map_err(|error| refused(&error))?;
    let sending = Sending {
        lines: lines.as_ref(),
        context,
        observer: &observer,
        place: &place,
        input: &input,
        conditions: &conditions,
    };
    let mut fields = if arguments.turn && is_agent(&row) {
        sending.turn(&row)?
    } else {
        sending.wait()?
    };
    fields.insert("typed".to_owned(), json!(true));
    fields.insert("pane".to_owned(), json!(place.pane.as_str()));
    if let Ok(cursor) = read::end(&context.server.data, &row) {
        fields.insert("cursor".to_owned(), json!(cursor));
    }
    Ok(ToolResult::new(fields))
}

/// Returns true for a row of an agent, whose turns are followed in its events.
fn is_agent(row: &Row) -> bool {
    let is_named = row.agent.as_deref().is_some_and(AgentProgram::is_name);
    is_named && matches!(row.state, RowState::Agent(_))
}

/// A text that is about to be typed, and awaited.
struct Sending<'a> {
    context: &'a Context<'a>,
    observer: &'a Observer,
    place: &'a Place,
    input: &'a Input<'a>,
    conditions: &'a Value,
    /// The lines after the text.
    lines: Option<&'a Lines>,
}

impl Sending<'_> {
    fn refused(&self, error: &Error) -> Refusal {
        let refused = (error, self.input.answers);
        self.context
            .refused_input(self.observer, self.place, refused)
    }

    /// Types, and waits in the observer.
    fn wait(&self) -> Result<Map<String, Value>, Refusal> {
        let mut body = self.conditions.clone();
        body["target"] = json!(self.place.pane.as_str());
        let failed = Mutex::new(None);
        let begun = || match self.context.send(self.observer, self.place, self.input) {
            Ok(_) => true,
            Err(error) => {
                *lock(&failed) = Some(error);
                false
            }
        };
        let server = PathBuf::from(&self.place.server);
        let clock = self.context.clock();
        let (over, is_over) = stop_pair();
        let report = || {
            self.context
                .report_until(&is_over, self.conditions["timeout_ms"].as_u64())
        };
        let waited = run_beside("td-mcp-progress", report, || {
            let _over = over;
            self.observer
                .wait(&server, &body, &begun, (self.context.stop, clock))
        });
        let failure = |why: String| {
            let advice =
                "it is not known whether the text was typed: look at the pane with read_output";
            Refusal::new(why, advice)
        };
        let (_, waited) = waited.map_err(|error| failure(error.to_string()))?;
        let outcome = waited.map_err(|panicked| failure(panicked.to_string()))?;
        if let Some(error) = lock(&failed).take() {
            return Err(self.refused(&error));
        }
        match outcome {
            Ok(Some(outcome)) => {
                let printed = self.lines.and_then(|lines| {
                    if outcome.has_line() {
                        let is_over = || self.context.is_cancelled();
                        lines.after_match(self.context.clock(), &is_over);
                    }
                    self.context.printed(lines, &outcome)
                });
                let outcome = (server, outcome);
                Ok(self.context.outcome(self.observer, outcome, printed))
            }
            Ok(None) => Err(cancelled()),
            Err(why) => Err(failure(why)),
        }
    }

    /// Prompts an agent, or answers it, and follows its turn.
    fn turn(&self, row: &Row) -> Result<Map<String, Value>, Refusal> {
        let (context, clock) = (self.context, self.context.clock());
        let unreadable = |why: String| Refusal::new(why, "nothing was typed; call again");
        let mut events = self
            .observer
            .events_of(&row.execution_id, None, clock)
            .map_err(|error| unreadable(error.to_string()))?;
        // The stream must have begun before the text is typed.
        if let Err(unavailable) = events.next(clock.now()) {
            return Err(unreadable(format!(
                "the observer does not answer: {unavailable:?}"
            )));
        }
        let (begun, since) = (clock.now(), clock.wall());
        let total = self.conditions["timeout_ms"].as_u64().unwrap_or(TIMEOUT_MS);
        let deadline = begun + Duration::from_millis(total);
        let sent = context.send(self.observer, self.place, self.input);
        sent.map_err(|error| self.refused(&error))?;
        let answers = self.input.answers.map(str::to_owned);
        let mut turn = FollowedTurn::begin(self.place.pane.clone(), since, answers);
        let mut report_at = begun + PROGRESS;
        loop {
            let now = clock.now();
            if context.is_cancelled() {
                return Err(cancelled());
            }
            let end = turn.end(now).cloned();
            if end.is_some() || deadline <= now {
                return Ok(self.turn_fields(&turn, end, now.saturating_duration_since(begun)));
            }
            if report_at <= now {
                report_at = now + PROGRESS;
                context.report_wait(begun, Some(total));
            }
            let next = turn.deadline().into_iter().chain([deadline]);
            match events.next(next.fold(now + CHECK, Instant::min)) {
                Ok(Next::Event(event)) => turn.note(&event, clock.now()),
                Ok(Next::Missed(_) | Next::Timeout) => {}
                Ok(Next::End) => return Err(ended()),
                Err(unavailable) => {
                    log::info!("{unavailable:?}");
                    return Err(ended());
                }
            }
        }
    }

    /// Returns the present state of the agent.
    fn state(&self) -> Option<String> {
        let rows = self.context.rows(self.observer).ok()?;
        let row = rows
            .iter()
            .find(|row| row.place().as_ref() == Some(self.place))?;
        Some(row.state.as_str().to_owned())
    }

    fn turn_fields(
        &self,
        turn: &FollowedTurn,
        end: Option<TurnEnd>,
        elapsed: Duration,
    ) -> Map<String, Value> {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
        let elapsed = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        put("elapsed_ms", json!(elapsed));
        put(
            "outcome",
            json!(if end.is_some() { "found" } else { "timed_out" }),
        );
        let advice = match end {
            Some(TurnEnd::Answered) => {
                put("condition", json!("turn"));
                if let Some(state) = self.state() {
                    put("state", json!(state));
                }
                (turn.answer().is_empty()).then_some("its answer was not read: see read_output")
            }
            Some(TurnEnd::Asks(_)) => {
                put("condition", json!("state"));
                put("state", json!(AgentState::Waiting.as_str()));
                if let Some(question) = self.context.question(self.observer, self.place) {
                    put("question", question);
                }
                Some("it asks: answer with answers set to the question's id")
            }
            Some(TurnEnd::Failed(reason)) => {
                put("condition", json!("state"));
                put("state", json!(AgentState::Error.as_str()));
                put("line", json!(short(&reason, LINE_CHARS_MAX)));
                Some("its turn has failed: list_panes has its state now")
            }
            None => Some("it works on: wait_for with turn waits for the rest"),
        };
        if let Some(advice) = advice {
            put("advice", json!(advice));
        }
        let mut budget = Budget::new(false);
        budget.take(&Value::Object(fields.clone()));
        let answer = budget.fit_end(&sanitized(turn.answer()));
        fields.insert("answer".to_owned(), json!(answer));
        fields
    }
}

fn ended() -> Refusal {
    let advice = "the text was typed; call list_panes for what it has led to";
    Refusal::new("the observer has ended", advice)
}
