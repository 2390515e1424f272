//! Parses the input of Claude Code's hooks and decides which part of it to store (pure).
//!
//! Only events that show a state are stored (hook types of 0.3.330, measured on Claude Code 2.1.330). The
//! file is small and redacted. No event reports that the user stopped the turn or allowed a tool.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::reports::{HookFile, is_session};
use super::{AgentState, is_limit, one_line, permission_question};
use crate::redact::Rules;
use crate::text::first_bytes;
use crate::timestamp::Timestamp;

/// The maximum size of a tool's arguments; the question is at their beginning.
const ARGUMENTS_BYTES_MAX: usize = 16 * 1024;

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
        use AgentState::{Done, Error, Idle, Limited, Waiting, Working};
        let before_state = before.and_then(HookFile::state);
        // Hooks of one agent run concurrently, so the file may already hold a later event.
        if before.and_then(HookFile::at).is_some_and(|at| at > now) {
            return HookChange::Nothing;
        }
        let redacted = |text: &str| one_line(&rules.text(first_bytes(text, ARGUMENTS_BYTES_MAX)));
        let mut error = None;
        let (state, asks) = match self.hook_event_name.as_str() {
            "SessionEnd" => return HookChange::Remove,
            // Compaction continues the conversation in its previous state.
            "SessionStart" if self.source.as_deref() == Some("compact") => {
                return HookChange::Nothing;
            }
            "SessionStart" => (Idle, None),
            "UserPromptSubmit" | "PreToolUse" | "PostToolUse" | "PostToolUseFailure" => {
                // A sub-agent may work after the turn. If the state was `waiting`, the question was
                // answered.
                if self.agent_id.is_some() && before_state != Some(Waiting) {
                    return HookChange::Nothing;
                }
                (Working, None)
            }
            "PermissionRequest" => (Waiting, self.asks_of_tool(rules)),
            "Notification" => match self.notification() {
                // The preceding permission request has more details.
                Some(Waiting) if before.is_some_and(|file| file.event == "PermissionRequest") => {
                    return HookChange::Nothing;
                }
                Some(Waiting) => (Waiting, self.message.as_deref().map(redacted)),
                // Other events show the end of a turn more precisely, but none reports that the
                // user stopped it.
                Some(Idle) if matches!(before_state, Some(Working | Waiting) | None) => {
                    (Idle, None)
                }
                _ => return HookChange::Nothing,
            },
            "Stop" => (Done, None),
            "StopFailure" => {
                let raw = |value: Option<&'a RawValue>| value.map_or("", RawValue::get);
                let texts = [
                    self.last_assistant_message.as_deref().unwrap_or_default(),
                    raw(self.error_details).trim_matches('"'),
                    raw(self.error).trim_matches('"'),
                ];
                let limited = texts.iter().any(|text| is_limit(text));
                let text = texts.iter().find(|text| !matches!(**text, "" | "null"));
                let text = text.copied().unwrap_or_default();
                error = Some(redacted(text)).filter(|text| !text.is_empty());
                (if limited { Limited } else { Error }, None)
            }
            _ => return HookChange::Nothing,
        };
        let path = |path: &Option<String>| {
            let path = path.as_deref().unwrap_or_default();
            // The maximum length of a path.
            if path.len() > 4096 {
                String::new()
            } else {
                rules.text(path).into_owned()
            }
        };
        HookChange::Keep(Box::new(HookFile {
            session_id: self.session_id.clone(),
            event: self.hook_event_name.clone(),
            at: now.to_string(),
            transcript_path: path(&self.transcript_path),
            cwd: path(&self.cwd),
            state: state.as_str().to_owned(),
            asks: asks.filter(|asks| !asks.is_empty()),
            error,
        }))
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
