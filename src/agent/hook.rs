//! The file that stores the last event of an agent's hooks, and the state that the event shows (pure).
//!
//! Each session has its own file, which holds the last event that shows a state.

use serde::{Deserialize, Serialize};

use super::{AgentState, StateClaim, one_line};
use crate::timestamp::Timestamp;

/// The maximum length of a session id. Session ids are UUIDs.
const SESSION_BYTES_MAX: usize = 128;

/// The last event of a session that shows a state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HookFile {
    pub session_id: String,
    /// The name of the event.
    pub(super) event: String,
    /// The time of the event, in the format of event timestamps.
    pub(super) at: String,
    pub transcript_path: String,
    pub cwd: String,
    pub(super) state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asks: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

impl HookFile {
    /// Parses a stored file; returns `None` for other content.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let file: Self = serde_json::from_slice(bytes).ok()?;
        (is_session(&file.session_id) && file.state().is_some()).then_some(file)
    }

    pub fn at(&self) -> Option<Timestamp> {
        self.at.parse().ok()
    }

    /// Returns the state that the event shows.
    pub fn claim(&self) -> Option<StateClaim> {
        Some(StateClaim {
            state: self.state()?,
            is_confirmed: true,
            asks: self.asks.as_deref().map(one_line),
            detail: one_line(self.error.as_deref().unwrap_or(&self.event)),
            turn: 0,
        })
    }

    /// Returns true if the event only shows that the agent asks, without the question.
    pub fn is_general(&self) -> bool {
        self.event == "Notification"
    }

    pub(super) fn state(&self) -> Option<AgentState> {
        AgentState::from_name(&self.state)
    }
}

/// Returns true if `id` is a session id and a plain file name.
pub(crate) fn is_session(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=SESSION_BYTES_MAX).contains(&id.len()) && id.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn kept_files_are_read_and_other_files_are_not() {
        let text = r#"{"session_id":"s","event":"Stop","at":"2026-11-23T19:00:00.000000Z","state":"done","new":1}"#;
        let file = HookFile::read(text.as_bytes()).unwrap();
        assert_eq!(file.claim().unwrap().state, AgentState::Done);
        assert_eq!(file.at(), "2026-11-23T19:00:00Z".parse().ok());
        for wrong in [
            "",
            "[]",
            "{}",
            &text[1..],
            &text.replace("done", "dreaming"),
            &text.replace(r#""s""#, r#""../s""#),
        ] {
            assert_eq!(HookFile::read(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = HookFile::read(&bytes);
        }
    }
}
