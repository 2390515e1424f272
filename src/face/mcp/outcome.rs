//! The outcome of a wait, in fields for a model, and the progress until then.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crossbeam_channel::select_biased;
use serde_json::{Map, Value, json};

use super::context::Context;
use super::earlier::{LoggedLines, Printed};
use super::refusal::Refusal;
use super::result::Budget;
use super::short::short;
use crate::api::Observer;
use crate::board::Place;
use crate::event::{AgentState, PaneId};
use crate::face::sanitize::sanitized;
use crate::thread::Stop;
use crate::wait::{WaitCondition, WaitEnd, WaitOutcome};

/// The interval of progress: clients that hear of it do not give up.
pub(super) const PROGRESS: Duration = Duration::from_secs(2);

/// The longest line in a result, in characters.
pub(super) const LINE_CHARS_MAX: usize = 400;

/// Returns the refusal of a call that the client has cancelled, which it does not get.
pub(super) fn cancelled() -> Refusal {
    Refusal::new("the call was cancelled", "")
}

impl Context<'_> {
    /// Tells the client of progress until the wait is over.
    pub fn report_until(&self, is_over: &Stop, total: Option<u64>) {
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
    pub fn report_wait(&self, begun: Instant, total: Option<u64>) {
        let seconds = self
            .clock()
            .now()
            .saturating_duration_since(begun)
            .as_secs();
        let progress = (seconds, total.map(|total| total.div_ceil(1_000)));
        self.report(progress, &format!("waiting for {seconds} s"));
    }

    /// Returns what was printed during a wait, if the log has it.
    pub fn printed(&self, lines: &LoggedLines, outcome: &WaitOutcome) -> Option<Printed> {
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
    pub fn outcome(
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
