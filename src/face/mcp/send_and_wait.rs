//! Types a text, and waits for what follows. An agent's turn is followed in its events, as `td-observe ask` follows it.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::arguments::{SendAndWait, WaitFor};
use super::context::Context;
use super::earlier::LoggedLines;
use super::history::refused;
use super::outcome::{LINE_CHARS_MAX, PROGRESS, cancelled};
use super::read;
use super::redacted::{self, Patterns};
use super::refusal::Refusal;
use super::result::{Budget, ToolResult};
use super::send::Typed;
use super::short::short;
use super::tools::TIMEOUT_MS;
use super::wait::{check, conditions};
use crate::agent::AgentProgram;
use crate::api::{Input, Observer};
use crate::board::{Place, Row, RowState};
use crate::error::Error;
use crate::event::AgentState;
use crate::face::sanitize::sanitized;
use crate::feed::Next;
use crate::thread::{lock, run_beside, stop_pair};
use crate::wait::{FollowedTurn, TurnEnd};

/// The interval at which a turn checks whether it is cancelled.
const CHECK: Duration = Duration::from_millis(100);

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
    let patterns = Patterns::of(&conditions).map_err(|error| refused(&error))?;
    let lines = LoggedLines::new(&context.server.data, &row, (&patterns, None));
    let lines = lines.map_err(|error| refused(&error))?;
    let sending = Sending {
        lines: lines.as_ref(),
        patterns: &patterns,
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
    patterns: &'a Patterns,
    /// The lines after the text.
    lines: Option<&'a LoggedLines>,
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
        // `None` until something is typed.
        let sent = Mutex::new(None);
        let begun = || {
            let typed = self.context.send(self.observer, self.place, self.input);
            let is_typed = typed.is_ok();
            *lock(&sent) = Some(typed);
            is_typed
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
            let what = (&*server, &body);
            redacted::wait(
                self.observer,
                what,
                (self.patterns, &begun),
                (self.context.stop, clock),
            )
        });
        let sent = lock(&sent).take();
        let has_typed = matches!(sent, Some(Ok(_)));
        let failure = |why: String| {
            let advice = if has_typed {
                "the text was typed; read_output shows what followed"
            } else {
                "nothing was typed; call again"
            };
            Refusal::new(why, advice).with_typed(Some(has_typed))
        };
        let (_, waited) = waited.map_err(|error| failure(error.to_string()))?;
        let outcome = waited.map_err(|panicked| failure(panicked.to_string()))?;
        if let Some(Err(error)) = sent {
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
            Ok(None) => Err(failure("the observer has ended".to_owned())),
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
    Refusal::new("the observer has ended", advice).with_typed(Some(true))
}
