//! The outcome of a wait, redacted and as the JSON of `wait --json` and of the API (pure).

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::config::{WaitCondition, WaitEnd, WaitMatch, WaitOutcome};
use crate::event::{AgentState, PaneId};
use crate::redact::Rules;

impl WaitOutcome {
    /// Redacts the text of the outcome. The last lines are redacted together, because a secret may span two.
    pub(crate) fn redact(&mut self, rules: &Rules) {
        let lines = self.lines_before.iter().chain(&self.last_lines);
        let lines: Vec<&str> = lines.map(String::as_str).collect();
        if let Cow::Owned(redacted) = rules.text(&lines.join("\n")) {
            let lines = redacted.split('\n').skip(self.lines_before.len());
            self.last_lines = lines.map(str::to_owned).collect();
        }
        if let WaitEnd::Matched(found) | WaitEnd::Stopped(found) = &mut self.end {
            for text in [&mut found.text, &mut found.pattern].into_iter().flatten() {
                *text = rules.text(text).into_owned();
            }
        }
    }

    /// Returns the outcome as JSON. `target` names its target where a command has several.
    pub(crate) fn to_json(&self, target: Option<&str>) -> Value {
        let (name, found) = match &self.end {
            WaitEnd::Matched(found) => ("found", found.to_json()),
            WaitEnd::Stopped(found) => ("stopped", found.to_json()),
            WaitEnd::Ended(why) => (
                "ended",
                Map::from_iter([("reason".to_owned(), json!(why.as_str()))]),
            ),
            WaitEnd::TimedOut => ("timed_out", Map::new()),
            WaitEnd::Lost => ("lost", Map::new()),
            WaitEnd::Interrupted => ("interrupted", Map::new()),
        };
        let mut all = Map::new();
        all.insert("outcome".to_owned(), json!(name));
        if let Some(target) = target {
            all.insert("target".to_owned(), json!(target));
        }
        all.extend(found);
        all.insert("ts".to_owned(), json!(self.ts.to_string()));
        let elapsed = u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX);
        all.insert("elapsed_ms".to_owned(), json!(elapsed));
        all.insert("lost_lines".to_owned(), json!(self.lost_lines));
        all.insert("last_lines".to_owned(), json!(self.last_lines));
        Value::Object(all)
    }
}

impl WaitMatch {
    /// Returns the match of an agent's state; its text is the agent's question, or the state.
    pub(crate) fn of_state(pane: &PaneId, state: AgentState, asks: &str) -> Self {
        let text = match asks {
            "" => state.as_str(),
            asks => asks,
        };
        Self {
            pane: Some(pane.clone()),
            text: Some(text.to_owned()),
            pattern: Some(state.as_str().to_owned()),
            ..Self::of(WaitCondition::State)
        }
    }

    /// Reads the match of an agent's state from the JSON of an outcome; `None` for any other outcome.
    pub(crate) fn state_of_json(outcome: &Value) -> Option<Self> {
        let text = |name: &str| outcome.get(name)?.as_str();
        if text("outcome") != Some("found") || text("condition") != Some("state") {
            return None;
        }
        let state = AgentState::from_name(text("state")?)?;
        let pane = PaneId::from(text("pane")?);
        Some(Self::of_state(&pane, state, text("text").unwrap_or("")))
    }

    fn to_json(&self) -> Map<String, Value> {
        let pattern = self.pattern.as_ref();
        let state = pattern.filter(|_| self.condition == WaitCondition::State);
        let mut map = Map::new();
        map.insert("condition".to_owned(), json!(self.condition.as_str()));
        for (name, value) in [
            ("pane", self.pane.as_ref().map(|pane| json!(pane.as_str()))),
            ("line", self.line.map(|line| json!(line))),
            ("text", self.text.as_ref().map(|text| json!(text))),
            ("state", state.map(|state| json!(state))),
            ("needle", pattern.map(|text| json!(text))),
            ("exit_status", self.exit_status.map(|status| json!(status))),
        ] {
            if let Some(value) = value {
                map.insert(name.to_owned(), value);
            }
        }
        map
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::timestamp::Timestamp;

    #[test]
    fn the_match_of_a_state_survives_json() {
        let pane = PaneId::from("%3");
        for asks in ["", "rm -rf build?"] {
            let found = WaitMatch::of_state(&pane, AgentState::Waiting, asks);
            let outcome = WaitOutcome {
                end: WaitEnd::Matched(found.clone()),
                ts: Timestamp::from_micros(0),
                elapsed: Duration::from_millis(7),
                lost_lines: false,
                last_lines: vec!["a".to_owned()],
                lines_before: Vec::new(),
            };
            let json = outcome.to_json(None);
            assert_eq!(
                (&json["state"], &json["elapsed_ms"]),
                (&"waiting".into(), &7.into())
            );
            assert_eq!(WaitMatch::state_of_json(&json), Some(found));
            let over = WaitOutcome {
                end: WaitEnd::TimedOut,
                ..outcome
            };
            assert_eq!(WaitMatch::state_of_json(&over.to_json(Some("a"))), None);
        }
        assert_eq!(WaitMatch::state_of_json(&json!([1])), None);
    }
}
