//! Parses Claude Code's status file, `sessions/PID.json` (pure).
//!
//! Claude Code writes the file at each change of its status (measured on 2.1.330):
//! `{"pid":…,"sessionId":"…","cwd":"…","procStart":"110437","version":"2.1.330","kind":"interactive",`
//! `"status":"busy|idle|waiting","waitingFor":"permission prompt","statusUpdatedAt":ms,…}`.
//! `status` is absent while Claude Code starts.

use serde::Deserialize;

use super::AgentState;

/// The maximum size of a status file; real files have about 700 bytes.
pub(crate) const STATUS_BYTES_MAX: u64 = 64 * 1024;

/// The content of an agent's status file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct StatusFile {
    /// The process that wrote the file.
    pub pid: u32,
    /// The start time of that process in ticks since boot (field 22 of `/proc/PID/stat`), which
    /// distinguishes it from an earlier process with the same pid.
    pub proc_start: Option<String>,
    /// The id of the conversation, which changes with `/clear` and `/resume`.
    pub session_id: String,
    /// The directory in which the agent was started.
    pub cwd: String,
    status: Option<String>,
    /// The kind of an open dialogue: `permission prompt`, `input needed`.
    pub waiting_for: Option<String>,
    /// The time of the last status change, in milliseconds since the Unix epoch.
    pub status_updated_at: Option<i64>,
}

impl StatusFile {
    /// Parses a status file; returns `None` for a partly written file or other content.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let file: Self = serde_json::from_slice(bytes).ok()?;
        (file.pid != 0 && !file.session_id.is_empty()).then_some(file)
    }

    /// Returns true if the file was written by the process `pid` that started at `started`.
    pub fn is_of(&self, pid: u32, started: u64) -> bool {
        let start = self.proc_start.as_deref();
        self.pid == pid && start.is_none_or(|start| start.parse() == Ok(started))
    }

    /// Returns the state; `None` while the agent starts, and for a status that this version does not know.
    pub fn state(&self) -> Option<AgentState> {
        match self.status.as_deref()? {
            "busy" => Some(AgentState::Working),
            "idle" => Some(AgentState::Idle),
            // A menu that the user has opened, or a dialogue that is being drawn.
            "waiting" if self.waiting_for.as_deref() == Some("dialog open") => None,
            "waiting" => Some(AgentState::Waiting),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REAL: &str = r#"{"pid":23879,"sessionId":"e954dad4-4f06","cwd":"/tmp/work","startedAt":1795461000708,
        "procStart":"110437","version":"2.1.330","peerFeatures":["notify_idle"],"kind":"interactive",
        "asksForConvertedSkills":null,"tmux":"a:@0.%0","name":"work-89","status":"waiting",
        "updatedAt":1795461016531,"statusUpdatedAt":1795461016531,"waitingFor":"permission prompt"}"#;

    #[test]
    fn a_status_file_has_session_and_status() {
        let file = StatusFile::read(REAL.as_bytes()).unwrap();
        assert_eq!(file.session_id, "e954dad4-4f06");
        assert_eq!(file.state(), Some(AgentState::Waiting));
        assert_eq!(file.waiting_for.as_deref(), Some("permission prompt"));
        assert!(file.is_of(23879, 110_437));
        assert!(!file.is_of(23879, 110_438), "a pid that was used again");
        assert!(!file.is_of(1, 110_437));
    }

    #[test]
    fn partial_or_unknown_files_have_no_state() {
        assert_eq!(StatusFile::read(&REAL.as_bytes()[..200]), None);
        assert_eq!(StatusFile::read(b"{}"), None);
        assert_eq!(StatusFile::read(b"[1]"), None);
        let starting = REAL.replace(r#""status":"waiting","#, "");
        assert_eq!(StatusFile::read(starting.as_bytes()).unwrap().state(), None);
        let newer = REAL.replace("\"waiting\"", "\"dreaming\"");
        assert_eq!(StatusFile::read(newer.as_bytes()).unwrap().state(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = StatusFile::read(&bytes);
        }
    }
}
