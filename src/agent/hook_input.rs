//! Parses the input of Claude Code's hooks and decides which part of it to store (pure).
//!
//! Only events that show a state are stored (hook types of 0.3.330, measured on Claude Code 2.1.330). The
//! file is small and redacted. No event reports that the user stopped the turn or allowed a tool.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::reports::{HookFile, HookQuestion, is_session};
use super::{AgentState, is_limit, one_line, permission_question};
use crate::redact::Rules;
use crate::text::first_bytes;
use crate::timestamp::Timestamp;

/// The maximum size of a tool's arguments; the question is at their beginning.
const ARGUMENTS_BYTES_MAX: usize = 16 * 1024;

/// The maximum size of the name of a tool or a sub-agent; real ones have up to about 60 bytes.
const NAME_BYTES_MAX: usize = 128;

/// The maximum number of open questions. A sub-agent that is killed leaves its own behind.
const QUESTIONS_MAX: usize = 32;

/// The standard input of the hook's command.
#[derive(Debug, Deserialize)]
pub(crate) struct HookInput<'a> {
    session_id: String,
    hook_event_name: String,
    transcript_path: Option<String>,
    cwd: Option<String>,
    /// Present in events of a sub-agent.
    agent_id: Option<String>,
    source: Option<String>,
    tool_name: Option<String>,
    #[serde(borrow)]
    tool_input: Option<&'a RawValue>,
    message: Option<String>,
    notification_type: Option<String>,
    /// After a failure, the text that the conversation shows instead of an answer.
    last_assistant_message: Option<String>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    error_details: Option<&'a RawValue>,
}

/// The effect of an event on the session's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HookChange {
    /// The event shows no new state.
    Nothing,
    Keep(Box<HookFile>),
    /// The session is over.
    Remove,
}

impl<'a> HookInput<'a> {
    /// Parses the input of a hook; returns `None` for other content.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let input: Self = serde_json::from_slice(bytes).ok()?;
        is_session(&input.session_id).then_some(input)
    }

    /// Returns the session id, which is a plain file name.
    pub fn session_id(&self) -> &str {
        &self.session_id
    }

    /// Returns the effect of this event, which happens now. `before` is the session's current file.
    pub fn change(&self, before: Option<&HookFile>, now: Timestamp, rules: &Rules) -> HookChange {
        let mut file = before.cloned().unwrap_or_default();
        let is_own = self.agent_id.is_none();
        let own = match self.hook_event_name.as_str() {
            "SessionEnd" if is_own => return HookChange::Remove,
            // Compaction continues the conversation in its previous state.
            "SessionStart" if is_own && self.source.as_deref() != Some("compact") => {
                Own::Begins(AgentState::Idle)
            }
            "UserPromptSubmit" if is_own => Own::Begins(AgentState::Working),
            "PreToolUse" => Own::Works,
            "PostToolUse" | "PostToolUseFailure" => {
                self.answer(&mut file.questions, rules);
                Own::Works
            }
            "PermissionRequest" => {
                self.ask(&mut file.questions, rules);
                Own::Works
            }
            "Notification" => match (self.notification(), file.state()) {
                (Some(AgentState::Waiting), _) => {
                    self.ask(&mut file.questions, rules);
                    Own::Works
                }
                // Other events show the end of a turn more precisely, but none reports that the user
                // stopped it.
                (Some(AgentState::Idle), None | Some(AgentState::Working)) => {
                    Own::Begins(AgentState::Idle)
                }
                _ => return HookChange::Nothing,
            },
            "Stop" => Own::Ends(AgentState::Done, None),
            "SubagentStop" if !is_own => Own::Ends(AgentState::Done, None),
            "StopFailure" => self.failure(rules),
            _ => return HookChange::Nothing,
        };
        match own {
            Own::Begins(_) => file.questions.clear(),
            Own::Ends(..) => file
                .questions
                .retain(|question| question.actor != self.actor()),
            Own::Works => {}
        }
        let (state, error) = match own {
            // The agent itself has not ended with its sub-agent.
            _ if !is_own => (AgentState::Working, None),
            Own::Begins(state) => (state, None),
            Own::Works => (AgentState::Working, None),
            Own::Ends(state, error) => (state, error),
        };
        // A sub-agent may work when the agent's turn has ended. Hooks of one agent run concurrently, so the file may
        // already hold a later event.
        let is_later = file.at().is_none_or(|at| at <= now);
        if is_own && is_later || before.is_none() {
            file.session_id.clone_from(&self.session_id);
            file.event.clone_from(&self.hook_event_name);
            file.at = now.to_string();
            file.transcript_path = path(self.transcript_path.as_deref(), rules);
            file.cwd = path(self.cwd.as_deref(), rules);
            state.as_str().clone_into(&mut file.state);
            file.error = error;
        }
        if before == Some(&file) {
            return HookChange::Nothing;
        }
        HookChange::Keep(Box::new(file))
    }

    /// Returns the sub-agent of this event; `None` for the agent itself.
    fn actor(&self) -> Option<String> {
        let id = self.agent_id.as_deref();
        id.map(|id| first_bytes(id, NAME_BYTES_MAX).to_owned())
    }

    /// Adds the question of this event.
    fn ask(&self, questions: &mut Vec<HookQuestion>, rules: &Rules) {
        let question = if self.hook_event_name == "Notification" {
            let message = self.message.as_deref();
            HookQuestion {
                actor: self.actor(),
                tool: None,
                asks: message.map(|message| redacted(message, rules)),
            }
        } else {
            self.question_of_tool(rules)
        };
        // A notification follows the request that has more details.
        if question.is_general() && !questions.is_empty() {
            return;
        }
        questions.retain(|before| !before.is_general() && *before != question);
        questions.push(question);
        let excess = questions.len().saturating_sub(QUESTIONS_MAX);
        questions.drain(..excess);
    }

    /// Removes the question that this end of a tool answers, or else the general one of its actor.
    fn answer(&self, questions: &mut Vec<HookQuestion>, rules: &Rules) {
        let ended = self.question_of_tool(rules);
        let answered = questions.iter().position(|question| {
            let is_its = question.tool == ended.tool || question.is_general();
            let is_same =
                self.tool_input.is_none() || question.is_general() || question.asks == ended.asks;
            question.actor == ended.actor && is_its && is_same
        });
        if let Some(answered) = answered {
            questions.remove(answered);
        }
    }

    fn question_of_tool(&self, rules: &Rules) -> HookQuestion {
        let tool = self.tool_name.as_deref().unwrap_or_default();
        HookQuestion {
            actor: self.actor(),
            tool: Some(redacted(first_bytes(tool, NAME_BYTES_MAX), rules)),
            asks: self.asks_of_tool(rules).filter(|asks| !asks.is_empty()),
        }
    }

    /// Returns how a turn ends that has failed.
    fn failure(&self, rules: &Rules) -> Own {
        let raw = |value: Option<&'a RawValue>| value.map_or("", RawValue::get);
        let texts = [
            self.last_assistant_message.as_deref().unwrap_or_default(),
            raw(self.error_details).trim_matches('"'),
            raw(self.error).trim_matches('"'),
        ];
        let is_limited = texts.iter().any(|text| is_limit(text));
        let text = texts.iter().find(|text| !matches!(**text, "" | "null"));
        let error = redacted(text.copied().unwrap_or_default(), rules);
        let state = if is_limited {
            AgentState::Limited
        } else {
            AgentState::Error
        };
        Own::Ends(state, Some(error).filter(|error| !error.is_empty()))
    }

    fn asks_of_tool(&self, rules: &Rules) -> Option<String> {
        let arguments = self.tool_input.map_or("", RawValue::get);
        // Redact before truncating, because no rule recognises half a secret.
        let arguments = rules.text(first_bytes(arguments, ARGUMENTS_BYTES_MAX));
        let tool = self.tool_name.as_deref().unwrap_or_default();
        permission_question(
            &rules.text(first_bytes(tool, ARGUMENTS_BYTES_MAX)),
            &arguments,
        )
    }

    /// Returns the state that a notification shows. New values of `notification_type` may appear,
    /// and older versions omit it.
    fn notification(&self) -> Option<AgentState> {
        let message = self.message.as_deref().unwrap_or_default();
        match self.notification_type.as_deref() {
            Some("permission_prompt" | "agent_needs_input" | "elicitation_dialog") => {
                Some(AgentState::Waiting)
            }
            Some("idle_prompt") => Some(AgentState::Idle),
            Some(_) => None,
            None if message.contains("permission") => Some(AgentState::Waiting),
            None if message.contains("waiting for your input") => Some(AgentState::Idle),
            None => None,
        }
    }
}

/// What an event says of its actor.
#[derive(Debug)]
enum Own {
    /// A session, a prompt or a rest begins: nobody asks anything any more.
    Begins(AgentState),
    /// The actor works, and what is asked stays open.
    Works,
    /// The actor's turn ends, and so do its questions; with the words of a failure.
    Ends(AgentState, Option<String>),
}

fn redacted(text: &str, rules: &Rules) -> String {
    one_line(&rules.text(first_bytes(text, ARGUMENTS_BYTES_MAX)))
}

/// Returns a path to keep; empty if it is longer than a path can be.
fn path(path: Option<&str>, rules: &Rules) -> String {
    let path = path.filter(|path| path.len() <= 4096);
    rules.text(path.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the stored file after these events, which are one second apart.
    fn after(events: &[&str]) -> Option<HookFile> {
        let mut kept = None;
        for (second, event) in (1..).zip(events) {
            let text = format!(
                r#"{{"session_id":"s-1","transcript_path":"/p/s-1.jsonl","cwd":"/w","hook_event_name":{event}}}"#
            );
            let input = HookInput::read(text.as_bytes()).unwrap();
            let now = Timestamp::from_micros(second * 1_000_000);
            match input.change(kept.as_ref(), now, &Rules::builtin()) {
                HookChange::Nothing => {}
                HookChange::Keep(file) => {
                    let bytes = serde_json::to_vec(&file).unwrap();
                    kept = HookFile::read(&bytes);
                    assert_eq!(kept.as_ref(), Some(&*file));
                }
                HookChange::Remove => kept = None,
            }
        }
        kept
    }

    const PROMPT: &str = r#""UserPromptSubmit","prompt":"go""#;
    const TOOL: &str = r#""PreToolUse","tool_name":"Bash","tool_input":{"command":"make"}"#;
    const ASKED: &str = r#""PermissionRequest","tool_name":"Bash","tool_input":{"command":"touch a","description":"x"}"#;
    const NEEDS: &str = r#""Notification","message":"Claude needs your permission to use Bash","notification_type":"permission_prompt""#;
    const RESTS: &str = r#""Notification","message":"Claude is waiting for your input","notification_type":"idle_prompt""#;
    const ENDED: &str =
        r#""PostToolUse","tool_name":"Bash","tool_input":{"command":"touch a","description":"x"}"#;
    const SUB_TOOL: &str =
        r#""PreToolUse","agent_id":"a1","tool_name":"Read","tool_input":{"file_path":"x"}"#;
    const SUB_ASKED: &str = r#""PermissionRequest","agent_id":"a1","tool_name":"Bash","tool_input":{"command":"touch b"}"#;
    const SUB_ENDED: &str =
        r#""PostToolUse","agent_id":"a1","tool_name":"Bash","tool_input":{"command":"touch b"}"#;
    const SUB_STOP: &str = r#""Stop","agent_id":"a1","stop_hook_active":false"#;
    const STOP: &str = r#""Stop","stop_hook_active":false"#;

    #[test]
    fn events_carry_the_state_and_the_question() {
        for (events, state, asks) in [
            (&[r#""SessionStart","source":"startup""#][..], "idle", None),
            (&[PROMPT], "working", None),
            (&[PROMPT, TOOL, ASKED], "waiting", Some("touch a")),
            (&[PROMPT, TOOL, ASKED, NEEDS], "waiting", Some("touch a")),
            (
                &[PROMPT, TOOL, NEEDS],
                "waiting",
                Some("Claude needs your permission to use Bash"),
            ),
            (
                &[PROMPT, ASKED, r#""PostToolUse","tool_name":"Bash""#],
                "working",
                None,
            ),
            (&[PROMPT, STOP], "done", None),
            (&[PROMPT, STOP, RESTS], "done", None),
            (&[PROMPT, RESTS], "idle", None),
            (
                &[PROMPT, STOP, r#""PreToolUse","agent_id":"a1""#],
                "done",
                None,
            ),
            (
                &[PROMPT, r#""SessionStart","source":"compact""#],
                "working",
                None,
            ),
            (
                &[PROMPT, r#""Notification","message":"hello""#],
                "working",
                None,
            ),
            (
                &[
                    PROMPT,
                    r#""Notification","message":"Claude needs your permission to use Bash""#,
                ],
                "waiting",
                Some("Claude needs your permission to use Bash"),
            ),
            (
                &[
                    PROMPT,
                    r#""StopFailure","error":"unknown","error_details":null"#,
                ],
                "error",
                None,
            ),
            (
                &[PROMPT, r#""StopFailure","error":"rate_limit""#],
                "limited",
                None,
            ),
            (&[PROMPT, r#""SomethingNew","error":7"#], "working", None),
            // What sub-agents and parallel tools do answers no question, and ends no turn.
            (&[PROMPT, ASKED, SUB_TOOL], "waiting", Some("touch a")),
            (&[PROMPT, ASKED, TOOL], "waiting", Some("touch a")),
            (
                &[
                    PROMPT,
                    ASKED,
                    r#""PostToolUse","tool_name":"Read","tool_input":{"file_path":"y"}"#,
                ],
                "waiting",
                Some("touch a"),
            ),
            (
                &[
                    PROMPT,
                    ASKED,
                    r#""PostToolUse","tool_name":"Bash","tool_input":{"command":"touch b"}"#,
                ],
                "waiting",
                Some("touch a"),
            ),
            (
                &[
                    PROMPT,
                    ASKED,
                    r#""PostToolUse","agent_id":"a1","tool_name":"Bash""#,
                ],
                "waiting",
                Some("touch a"),
            ),
            (&[PROMPT, ASKED, SUB_STOP], "waiting", Some("touch a")),
            (&[PROMPT, SUB_STOP], "working", None),
            (&[SUB_STOP], "working", None),
            (&[PROMPT, r#""SubagentStop""#], "working", None),
            // The question of a sub-agent stands until it is answered or the sub-agent ends, also after the turn.
            (&[PROMPT, STOP, SUB_ASKED], "waiting", Some("touch b")),
            (&[PROMPT, STOP, SUB_ASKED, SUB_ENDED], "done", None),
            (&[PROMPT, STOP, SUB_ASKED, SUB_STOP], "done", None),
            (&[PROMPT, SUB_ASKED, STOP], "waiting", Some("touch b")),
            (&[PROMPT, SUB_ASKED, PROMPT], "working", None),
            // Several are answered one by one.
            (&[PROMPT, ASKED, SUB_ASKED], "waiting", Some("touch a")),
            (
                &[PROMPT, ASKED, SUB_ASKED, NEEDS, ENDED],
                "waiting",
                Some("touch b"),
            ),
            (
                &[PROMPT, ASKED, SUB_ASKED, ENDED, SUB_ENDED],
                "working",
                None,
            ),
        ] {
            let kept = after(events).unwrap();
            let claim = kept.claim().unwrap();
            assert_eq!(
                (claim.state.as_str(), claim.asks.as_deref()),
                (state, asks),
                "{events:?}"
            );
            assert_eq!((kept.cwd.as_str(), kept.session_id.as_str()), ("/w", "s-1"));
        }
        assert_eq!(after(&[PROMPT, r#""SessionEnd","reason":"clear""#]), None);
    }

    #[test]
    fn a_later_event_is_kept() {
        let later = after(&[PROMPT, STOP]).unwrap();
        let text = r#"{"session_id":"s-1","hook_event_name":"PreToolUse"}"#;
        let input = HookInput::read(text.as_bytes()).unwrap();
        let before = Timestamp::from_micros(1);
        let change = input.change(Some(&later), before, &Rules::builtin());
        assert_eq!(change, HookChange::Nothing);
    }

    #[test]
    fn no_secret_is_kept() {
        let key = "ghp_0123456789abcdefghij0123456789abcdef";
        for padding in [0, 150, 190, ARGUMENTS_BYTES_MAX - 40] {
            let padding = "x ".repeat(padding / 2);
            let request = format!(
                r#""PermissionRequest","tool_name":"Bash","tool_input":{{"command":"{padding}curl -H {key}"}}"#
            );
            let kept = serde_json::to_string(&after(&[&request])).unwrap();
            assert!(!kept.contains(&key[..12]), "{kept}");
        }
    }

    #[test]
    fn an_id_must_be_a_plain_file_name() {
        for id in ["", "../x", "a/b", ".", "a.json", &"x".repeat(200)] {
            let text = format!(r#"{{"session_id":"{id}","hook_event_name":"Stop"}}"#);
            assert!(HookInput::read(text.as_bytes()).is_none(), "{id}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = HookInput::read(&bytes);
        }

        #[test]
        fn any_input_gives_a_small_file(
            event in prop::sample::select(vec!["Notification", "PermissionRequest", "StopFailure", "Stop"]),
            words in ".{0,3000}",
        ) {
            let words = serde_json::to_string(&words).unwrap();
            let text = format!(
                r#"{{"session_id":"s","hook_event_name":"{event}","message":{words},"tool_name":{words},"tool_input":{words},"error":{words},"notification_type":"permission_prompt","cwd":{words}}}"#
            );
            let input = HookInput::read(text.as_bytes()).unwrap();
            match input.change(None, Timestamp::from_micros(0), &Rules::builtin()) {
                HookChange::Keep(file) => {
                    let bytes = serde_json::to_vec(&file).unwrap();
                    prop_assert!(bytes.len() < 32 * 1024);
                    prop_assert_eq!(HookFile::read(&bytes), Some(*file));
                }
                change => prop_assert!(false, "{:?}", change),
            }
        }
    }
}
