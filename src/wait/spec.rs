//! A wait as a user writes it: options of the command line, or the JSON of the API (pure).

use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::config::{TargetEnd, Wait, WaitCondition, WaitEnd, WaitMatch, WaitOutcome};
use super::matcher::Pattern;
use crate::agent::Markers;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::redact::Rules;
use crate::tmux::Target;

/// Maximum number of texts in a JSON list: a compiled pattern may take megabytes.
const TEXTS_MAX: usize = 32;

/// The target and the conditions of a wait.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WaitSpec {
    pub target: String,
    #[serde(deserialize_with = "one_or_several")]
    pub text: Vec<String>,
    #[serde(deserialize_with = "one_or_several")]
    pub regex: Vec<String>,
    #[serde(deserialize_with = "one_or_several")]
    pub stop: Vec<String>,
    /// The names of agent states, which the caller observes.
    #[serde(deserialize_with = "one_or_several")]
    pub state: Vec<String>,
    pub turn: bool,
    #[serde(deserialize_with = "one_or_several")]
    pub marker: Vec<String>,
    pub exit: bool,
    #[serde(rename = "idle_ms", deserialize_with = "milliseconds")]
    pub idle: Option<Duration>,
    pub channel: Option<String>,
    #[serde(rename = "timeout_ms", deserialize_with = "milliseconds")]
    pub timeout: Option<Duration>,
    #[serde(rename = "interval_ms", deserialize_with = "milliseconds")]
    pub interval: Option<Duration>,
    pub include_existing: bool,
    /// The text that the caller types.
    pub send: Option<String>,
    pub enter: Option<bool>,
    /// The id of the question that `send` answers.
    pub answers: Option<String>,
    /// The text that a client of the API types itself.
    pub sent: Option<String>,
}

impl WaitSpec {
    /// Returns the wait for a target, without the states. Error messages put `prefix` before option names.
    ///
    /// # Errors
    /// `is_invalid_input()` with the name of the option that is wrong.
    pub fn wait(&self, target: Target, prefix: &str) -> Result<Wait> {
        let of =
            |name: &str, why: &dyn fmt::Display| Error::invalid(format!("{prefix}{name}: {why}"));
        let mut wait = Wait::at(target);
        for text in &self.text {
            wait = wait.pattern(Pattern::text(text).map_err(|error| of("text", &error))?);
        }
        for regex in &self.regex {
            wait = wait.pattern(Pattern::regex(regex).map_err(|error| of("regex", &error))?);
        }
        for regex in &self.stop {
            wait = wait.stop(Pattern::regex(regex).map_err(|error| of("stop", &error))?);
        }
        if self.turn {
            wait = wait.turn(match self.marker.as_slice() {
                [] => Markers::default(),
                markers => Markers::new(markers).map_err(|error| of("marker", &error))?,
            });
        } else if !self.marker.is_empty() {
            return Err(of("marker", &format_args!("it belongs to {prefix}turn")));
        }
        if self.exit {
            wait = wait.exit();
        }
        if let Some(idle) = self.idle {
            wait = wait.idle(idle);
        }
        if let Some(channel) = &self.channel {
            if channel.is_empty() {
                return Err(of("channel", &"the name is empty"));
            }
            if channel.contains('\0') {
                return Err(of("channel", &"the name has a zero byte"));
            }
            wait = wait.channel(channel);
        }
        if let Some(timeout) = self.timeout {
            wait = wait.timeout(timeout);
        }
        if let Some(interval) = self.interval {
            wait = wait.interval(interval);
        }
        match self.send.as_ref().or(self.sent.as_ref()) {
            Some(_) if self.include_existing => {
                return Err(of(
                    "send",
                    &format_args!("leave out {prefix}include_existing"),
                ));
            }
            Some(text) => wait = wait.sends(text),
            None if self.enter.is_some() => {
                return Err(of("enter", &format_args!("it belongs to {prefix}send")));
            }
            None if self.include_existing => wait = wait.include_existing(),
            None => {}
        }
        if self.answers.is_some() && self.send.is_none() {
            return Err(of("answers", &format_args!("it belongs to {prefix}send")));
        }
        if !wait.has_condition() && self.state.is_empty() {
            return Err(Error::invalid(format!(
                "nothing is waited for: give {prefix}text, {prefix}regex, {prefix}state, {prefix}turn, {prefix}exit, {prefix}{} or {prefix}channel",
                if prefix.is_empty() { "idle_ms" } else { "idle" }
            )));
        }
        Ok(wait)
    }
}

fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let milliseconds = Option::<u64>::deserialize(deserializer)?;
    Ok(milliseconds.map(Duration::from_millis))
}

/// Reads a text, or a list of texts.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a text or a list of texts")]
    enum Texts {
        One(String),
        Several(Vec<String>),
    }
    match Texts::deserialize(deserializer)? {
        Texts::One(text) => Ok(vec![text]),
        Texts::Several(texts) if texts.len() <= TEXTS_MAX => Ok(texts),
        Texts::Several(texts) => Err(D::Error::custom(format_args!(
            "there are {} texts: give at most {TEXTS_MAX}",
            texts.len()
        ))),
    }
}

impl WaitOutcome {
    /// Redacts the text of the outcome. Lines are redacted together, because a secret may span two.
    pub(crate) fn redact(&mut self, rules: &Rules) {
        let lines = self.lines_before.iter().chain(&self.last_lines);
        let lines: Vec<String> = lines.cloned().collect();
        let redacted = redacted(&lines, rules);
        if let WaitEnd::Matched(found) | WaitEnd::Stopped(found) = &mut self.end {
            if let Some(text) = found.text.take() {
                // Of several lines with this text, one that has a part of a secret decides.
                let mut same = lines.iter().zip(&redacted);
                let hidden = same.find(|(line, redacted)| **line == text && line != redacted);
                found.text = Some(if let Some((_, redacted)) = hidden {
                    redacted.clone()
                } else {
                    let mut lines = std::mem::take(&mut found.lines_before);
                    let before = lines.len();
                    lines.push(text);
                    self::redacted(&lines, rules)[before..].join("\n")
                });
            }
            if let Some(pattern) = &mut found.pattern {
                *pattern = rules.text(pattern).into_owned();
            }
        }
        let before = self.lines_before.len();
        self.last_lines = redacted.into_iter().skip(before).collect();
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

    /// Reads an outcome as [`WaitOutcome::to_json`] writes it; `None` if it is none.
    pub(crate) fn from_json(outcome: &Value) -> Option<Self> {
        let text = |name: &str| outcome.get(name)?.as_str();
        let end = match text("outcome")? {
            "found" => WaitEnd::Matched(WaitMatch::from_json(outcome)?),
            "stopped" => WaitEnd::Stopped(WaitMatch::from_json(outcome)?),
            "ended" => WaitEnd::Ended(TargetEnd::from_words(text("reason")?)?),
            "timed_out" => WaitEnd::TimedOut,
            "lost" => WaitEnd::Lost,
            _ => return None,
        };
        let lines = outcome.get("last_lines")?.as_array()?.iter();
        let lines = lines.map(|line| line.as_str().map(str::to_owned));
        Some(Self {
            end,
            ts: text("ts")?.parse().ok()?,
            elapsed: Duration::from_millis(outcome.get("elapsed_ms")?.as_u64()?),
            lost_lines: outcome.get("lost_lines")?.as_bool()?,
            last_lines: lines.collect::<Option<_>>()?,
            lines_before: Vec::new(),
        })
    }
}

/// Redacts lines together.
fn redacted(lines: &[String], rules: &Rules) -> Vec<String> {
    if lines.is_empty() {
        return Vec::new();
    }
    let redacted = rules.text(&lines.join("\n")).into_owned();
    redacted.split('\n').map(str::to_owned).collect()
}

impl WaitMatch {
    fn from_json(outcome: &Value) -> Option<Self> {
        let text = |name: &str| Some(outcome.get(name)?.as_str()?.to_owned());
        let condition = text("condition")?;
        let status = outcome.get("exit_status").and_then(Value::as_i64);
        Some(Self {
            pane: text("pane").map(PaneId::from),
            line: outcome.get("line").and_then(Value::as_i64),
            text: text("text"),
            pattern: text("needle"),
            exit_status: status.and_then(|status| i32::try_from(status).ok()),
            answer: text("answer"),
            ..Self::of(WaitCondition::from_name(&condition)?)
        })
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
            ("answer", self.answer.as_ref().map(|answer| json!(answer))),
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

    use proptest::prelude::*;

    use crate::event::AgentState;

    use crate::timestamp::Timestamp;

    use super::*;

    fn read(json: &str) -> Result<Wait, String> {
        let spec: WaitSpec = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let target = Target::parse(&spec.target).map_err(|error| error.to_string())?;
        spec.wait(target, "").map_err(|error| error.to_string())
    }

    #[test]
    fn each_condition_is_read() {
        for condition in [
            r#""text":"a""#,
            r#""text":["a","b"],"stop":["^c"]"#,
            r#""regex":["^a+$"],"timeout_ms":10,"include_existing":true"#,
            r#""state":["done"]"#,
            r#""turn":true,"marker":["[over]"]"#,
            r#""exit":true"#,
            r#""idle_ms":5000,"timeout_ms":null"#,
            r#""channel":"x""#,
            r#""send":"make","enter":false,"text":"a""#,
        ] {
            let read = read(&format!(r#"{{"target":"a",{condition}}}"#));
            assert!(read.is_ok(), "{condition}: {read:?}");
        }
    }

    #[test]
    fn a_part_of_a_secret_in_the_line_that_matched_is_redacted() {
        let key = ["gh", "p_", "R7kQ2mZx9LpW4vTn8YcB3dFs6HjG1aUe5oKi"].concat();
        let (head, tail) = key.split_at(20);
        let mut outcome = WaitOutcome {
            end: WaitEnd::Matched(WaitMatch {
                text: Some(tail.to_owned()),
                ..WaitMatch::of(WaitCondition::Text)
            }),
            ts: Timestamp::default(),
            elapsed: Duration::ZERO,
            lost_lines: false,
            last_lines: vec![tail.to_owned(), "$ ".to_owned()],
            lines_before: vec!["begin".to_owned(), format!("the key: {head}")],
        };
        outcome.redact(&Rules::builtin());
        let json = outcome.to_json(None).to_string();
        assert!(!json.contains(tail), "{json}");
        assert_eq!(outcome.last_lines[1], "$ ");
        // A flood has followed the line.
        let (last, before) = (vec!["flood".to_owned()], vec![format!("the key: {head}")]);
        outcome.end = WaitEnd::Stopped(WaitMatch {
            text: Some(tail.to_owned()),
            lines_before: before,
            ..WaitMatch::of(WaitCondition::Text)
        });
        (outcome.last_lines, outcome.lines_before) = (last, Vec::new());
        outcome.redact(&Rules::builtin());
        let json = outcome.to_json(None).to_string();
        assert!(!json.contains(tail), "{json}");
    }

    #[test]
    fn errors_name_the_wrong_option() {
        for (json, why) in [
            (r#"{"target":"a"}"#, "nothing is waited for"),
            (r#"{"text":"a"}"#, "target is empty"),
            (r#"{"target":"a","texts":["a"]}"#, "`texts`"),
            (r#"{"target":"a","text":7}"#, "a text or a list"),
            (r#"{"target":"a","regex":["("]}"#, "regex: "),
            (r#"{"target":"a","exit":true,"stop":["("]}"#, "stop: "),
            (r#"{"target":"a","exit":true,"idle_ms":-1}"#, "-1"),
            (
                r#"{"target":"a","exit":true,"enter":true}"#,
                "belongs to send",
            ),
            (
                r#"{"target":"a","exit":true,"marker":"x"}"#,
                "belongs to turn",
            ),
            (
                r#"{"target":"a","text":"x","send":"y","include_existing":true}"#,
                "leave out",
            ),
        ] {
            let error = read(json).unwrap_err();
            assert!(
                error.contains(why) && !error.contains('\n'),
                "{json}: {error}"
            );
        }
        let many = format!(
            r#"{{"target":"a","text":[{}"a"]}}"#,
            r#""a","#.repeat(TEXTS_MAX)
        );
        assert!(read(&many).unwrap_err().contains("at most"));
    }

    proptest! {
        #[test]
        fn any_json_is_read_or_refused(text in "[\\[\\]{}\":,a-z0-9_ -]{0,60}") {
            let _ = read(&text);
        }
    }

    #[test]
    fn an_outcome_survives_json() {
        let pane = PaneId::from("%3");
        let line = WaitMatch {
            pane: Some(pane.clone()),
            line: Some(-2),
            text: Some("a b".to_owned()),
            pattern: Some("\"b\"".to_owned()),
            ..WaitMatch::of(WaitCondition::Text)
        };
        let exit = WaitMatch {
            exit_status: Some(3),
            ..WaitMatch::of(WaitCondition::Exit)
        };
        for end in [
            WaitEnd::Matched(WaitMatch::of_state(&pane, AgentState::Waiting, "")),
            WaitEnd::Matched(WaitMatch::of_state(
                &pane,
                AgentState::Waiting,
                "rm -rf build?",
            )),
            WaitEnd::Matched(exit),
            WaitEnd::Stopped(line),
            WaitEnd::Ended(TargetEnd::SessionGone),
            WaitEnd::TimedOut,
            WaitEnd::Lost,
        ] {
            let outcome = WaitOutcome {
                end,
                ts: Timestamp::from_micros(0),
                elapsed: Duration::from_millis(7),
                lost_lines: true,
                last_lines: vec!["a".to_owned()],
                lines_before: Vec::new(),
            };
            let json = outcome.to_json(Some("a"));
            assert_eq!(json["elapsed_ms"], 7);
            assert_eq!(WaitOutcome::from_json(&json), Some(outcome));
        }
        for other in [
            json!([1]),
            json!({"status": 404}),
            json!({"outcome": "interrupted"}),
        ] {
            assert_eq!(WaitOutcome::from_json(&other), None);
        }
    }
}
