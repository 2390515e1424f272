//! The file that stores what an agent's hooks report, and the state that it shows (pure).
//!
//! Each session has its own file. It holds the state of the agent itself, and the questions that are open: several
//! actors, which are the agent and its sub-agents, ask and work at the same time.

use super::decoration::is_spinner;
use super::{AgentState, KnownAgent, StateClaim, one_line};
use crate::event::Background;
use crate::timestamp::Timestamp;
use serde::{Deserialize, Serialize};

/// The reports of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HookFile {
    pub session_id: String,
    /// The name of the last event that showed the state of the agent itself.
    pub(super) event: String,
    /// The time of that event, in the format of event timestamps.
    pub(super) at: String,
    pub transcript_path: String,
    pub cwd: String,
    /// The state of the agent itself, without its questions.
    pub(super) state: String,
    /// The open questions, in the order in which they were asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) questions: Vec<HookQuestion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// The processes that ran the hook: its parent, the parent of that, and so on.
    pub ancestors: Vec<u32>,
    /// The namespace in which `ancestors` count, as `/proc/PID/ns/pid` names it.
    pub pid_namespace: String,
}

/// A question that an actor of a session has asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HookQuestion {
    /// The sub-agent that asks; `None` for the agent itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) actor: Option<String>,
    /// The tool that it asks for; `None` if the event does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) asks: Option<String>,
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

    /// Returns the state that the reports show: the agent waits while a question of any actor is open.
    pub fn claim(&self) -> Option<StateClaim> {
        let question = self.questions.first();
        let asks = question.and_then(|question| question.asks.as_deref());
        let tool = question.map(|question| question.tool.as_deref().unwrap_or("Notification"));
        Some(StateClaim {
            state: question.map_or(self.state()?, |_| AgentState::Waiting),
            is_confirmed: true,
            asks: asks.map(one_line),
            detail: one_line(tool.or(self.error.as_deref()).unwrap_or(&self.event)),
            turn: 0,
            background: Background::default(),
        })
    }

    /// Returns true if it is only known that the agent asks, and not what for.
    pub fn is_general(&self) -> bool {
        self.questions.first().is_some_and(HookQuestion::is_general)
    }

    pub(super) fn state(&self) -> Option<AgentState> {
        AgentState::from_name(&self.state)
    }
}

impl HookQuestion {
    /// Returns true if only a notification shows the question, without its tool.
    pub(super) fn is_general(&self) -> bool {
        self.tool.is_none()
    }
}

/// Returns true if `id` is a session id and a plain file name.
pub(crate) fn is_session(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    // The maximum length of a session id. Session ids are UUIDs.
    (1..=128).contains(&id.len()) && id.bytes().all(is_plain)
}

// Parses Claude Code's status file, `sessions/PID.json` (pure).
//
// Claude Code writes the file at each change of its status (measured on 2.1.330):
// `{"pid":…,"sessionId":"…","cwd":"…","procStart":"110437","version":"2.1.330","kind":"interactive",`
// `"status":"busy|idle|shell|waiting","waitingFor":"permission prompt","statusUpdatedAt":ms,…}`.
// `status` is absent while Claude Code starts.

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
    /// `interactive`, or `bg` for a session that a daemon runs in the background.
    kind: String,
    /// The id of a background session.
    pub job_id: Option<String>,
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

    /// Returns the id of a background session; `None` for another one.
    #[cfg(feature = "cli")]
    pub fn background_job(&self) -> Option<&str> {
        let id = self.job_id.as_deref().filter(|id| is_session(id));
        id.filter(|_| self.kind == "bg")
    }

    /// Returns the state; `None` while the agent starts, and for a status that this version does not know.
    pub fn state(&self) -> Option<AgentState> {
        match self.status.as_deref()? {
            "busy" => Some(AgentState::Working),
            // After a turn, while a shell runs in the background.
            "idle" | "shell" => Some(AgentState::Idle),
            // A menu that the user has opened, or a dialogue that is being drawn.
            "waiting" if self.waiting_for.as_deref() == Some("dialog open") => None,
            "waiting" => Some(AgentState::Waiting),
            _ => None,
        }
    }
}

// Parses what Claude Code keeps of a background session, `jobs/ID/state.json` (pure).
//
// Its daemon replaces the file at each change (measured on 2.1.332):
// `{"state":"working|done|failed|stopped|…","detail":"…","tempo":"active|idle|blocked","needs":"…","intent":"…",`
// `"name":"…","sessionId":"…",…}`. A process that waits for a session has no such file.

/// The maximum size of a job's file; real ones have about 2 KB.
#[cfg(feature = "cli")]
pub(crate) const JOB_BYTES_MAX: u64 = 1024 * 1024;

/// What a session says that has not been given a prompt.
#[cfg(feature = "cli")]
const NEEDS_PROMPT: &str = "send a prompt to start";

/// The content of a background session's file.
#[cfg(feature = "cli")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct JobFile {
    state: String,
    detail: Option<String>,
    tempo: Option<String>,
    needs: Option<String>,
    /// The prompt, and as it is shown if it is shown otherwise.
    intent: Option<String>,
    display_intent: Option<String>,
    /// The name that the user or Claude Code has given it.
    name: Option<String>,
}

#[cfg(feature = "cli")]
impl JobFile {
    /// Parses a file; returns `None` for other content.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let file: Self = serde_json::from_slice(bytes).ok()?;
        (!file.state.is_empty()).then_some(file)
    }

    /// Returns its name, else its prompt, in one line; `None` if it has neither yet.
    pub fn name(&self) -> Option<String> {
        let names = [&self.name, &self.display_intent, &self.intent];
        let names = names.into_iter().flatten();
        let mut names = names.map(|name| one_line(name));
        names.find(|name| !name.is_empty())
    }

    /// Returns the last words of the session, or how it has ended.
    pub fn detail(&self) -> String {
        super::summary::result(self.detail.as_deref().unwrap_or_default())
    }

    /// Returns what the session needs from the user, in one line.
    pub fn needs(&self) -> Option<String> {
        let needs = self.needs.as_deref()?;
        let is_blocked = self.tempo.as_deref() == Some("blocked") && !self.has_ended();
        let needs = one_line(needs);
        Some(needs).filter(|needs| is_blocked && !needs.is_empty() && needs != NEEDS_PROMPT)
    }

    /// Returns true if the daemon has recorded the end of the session.
    pub fn has_ended(&self) -> bool {
        matches!(&*self.state, "done" | "failed" | "stopped")
    }

    /// Returns true if the session has failed.
    pub fn has_failed(&self) -> bool {
        self.state == "failed"
    }
}

// Reads an agent's state from its pane's title (pure).
//
// Measured in November 2026:
//
// - Gemini CLI 0.61 writes `✦  Working… (DIR)`, `◇  Ready (DIR)` and `✋  Action Required (DIR)`.
// - Codex 0.169 shows a braille spinner before its directory while it works, and
//   `[ ! ] Action Required | DIR`, alternating with `[ . ]`, while it waits.
// - Qwen Code 0.24 writes `◐` while it works and `✳` while it waits, before `Qwen - DIR`.
// - Claude Code's title does not change.

/// Returns the state that a title shows; `None` for any other title.
pub(crate) fn state_of_title(agent: KnownAgent, title: &str) -> Option<AgentState> {
    let title = title.trim();
    let first = title.chars().next()?;
    let (asks, works, rests) = match agent {
        KnownAgent::Gemini => (first == '✋', first == '✦' || first == '⏲', first == '◇'),
        KnownAgent::Codex => {
            let asks = title.starts_with("[ ! ]") || title.starts_with("[ . ]");
            (asks, is_spinner(first), true)
        }
        KnownAgent::Qwen => {
            let marked = title.contains("Qwen - ");
            let is_mark = |marks: &[char]| marked && marks.contains(&first);
            (
                is_mark(&['✳', '✋']),
                is_mark(&['◐', '◓', '◑', '◒']),
                title.starts_with("Qwen - "),
            )
        }
        // Without a mark, it does not say whether the turn has ended or failed.
        KnownAgent::Vibe => (title.starts_with("? "), title.starts_with(">> "), false),
        _ => return None,
    };
    match () {
        () if asks => Some(AgentState::Waiting),
        () if works => Some(AgentState::Working),
        () if rests => Some(AgentState::Idle),
        () => None,
    }
}

/// Returns what an agent's title says about its work: without spinners, the agent's name, and states, which others
/// show. `None` if nothing is left.
pub(crate) fn work_in_title<'a>(agent: &str, title: &'a str) -> Option<&'a str> {
    // Codex blinks between `[ ! ]` and `[ . ]`; a path may begin with a dot.
    let title = title.strip_prefix("[ . ]").unwrap_or(title);
    let title = title.trim_start_matches(|c: char| !c.is_alphanumeric() && !"(~/.".contains(c));
    let mut work = title.trim();
    // `Action Required | DIR`, `OC | SUMMARY`, `Kilo CLI | SUMMARY`, `Qwen - DIR`, `Working… (DIR)`
    for mark in ["Action Required | ", "OC | ", "Kilo CLI | ", "Qwen - "] {
        work = work.strip_prefix(mark).unwrap_or(work);
    }
    for state in ["Working…", "Ready", "Action Required"] {
        let rest = work.strip_prefix(state).map(str::trim);
        let directory = rest.and_then(|rest| rest.strip_prefix('(')?.strip_suffix(')'));
        work = directory.unwrap_or(work);
    }
    let is_own_name = |text: &str| {
        let text = text.to_lowercase();
        text == agent || text == format!("{agent} code") || text == format!("{agent} cli")
    };
    Some(work.trim()).filter(|work| !work.is_empty() && !is_own_name(work))
}

#[cfg(test)]
mod tests {
    mod hook {

        use super::super::*;
        use proptest::prelude::*;

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

    mod status_file {

        use super::super::*;
        use proptest::prelude::*;

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

    mod title {

        use super::super::*;
        use proptest::prelude::*;

        #[test]
        fn titles_of_real_agents_show_their_states() {
            use AgentState::{Idle, Waiting, Working};
            use KnownAgent::{Claude, Codex, Gemini, Qwen, Vibe};
            for (agent, title, expected) in [
                (Gemini, "✦  Working… (work)       ", Some(Working)),
                (Gemini, "◇  Ready (work)   ", Some(Idle)),
                (Gemini, "✋  Action Required (work)", Some(Waiting)),
                (Gemini, "vm", None),
                (Codex, "⠙ work", Some(Working)),
                (Codex, "work", Some(Idle)),
                (Codex, "[ ! ] Action Required | work", Some(Waiting)),
                (Codex, "[ . ] Action Required | work", Some(Waiting)),
                (Qwen, "◐\u{fe0e} Qwen - work", Some(Working)),
                (Qwen, "✳\u{fe0e} Qwen - work", Some(Waiting)),
                (Qwen, "Qwen - work", Some(Idle)),
                (Qwen, "vm", None),
                (Vibe, ">> Vibe", Some(Working)),
                (Vibe, "? Tidy up the parser", Some(Waiting)),
                (Vibe, "Tidy up the parser", None),
                (Claude, "✳ Claude Code", None),
                (Codex, "", None),
            ] {
                assert_eq!(state_of_title(agent, title), expected, "{title}");
            }
        }

        #[test]
        fn titles_name_the_work_of_their_agents() {
            for (agent, title, work) in [
                ("claude", "✳ Claude Code", None),
                ("claude", "⠐ Fix the login (2)", Some("Fix the login (2)")),
                ("gemini", "✦  Working… (work)       ", Some("work")),
                ("gemini", "✋  Action Required (work)", Some("work")),
                ("codex", "⠙ work", Some("work")),
                ("codex", "[ ! ] Action Required | work", Some("work")),
                (
                    "codex",
                    "[ . ] Action Required | list it | work",
                    Some("list it | work"),
                ),
                ("codex", "./work", Some("./work")),
                ("qwen", "◐\u{fe0e} Qwen - work", Some("work")),
                ("opencode", "OC | Parser of dates", Some("Parser of dates")),
                ("opencode", "OpenCode", None),
                (
                    "kilo",
                    "Kilo CLI | Parser of dates",
                    Some("Parser of dates"),
                ),
                ("kilo", "Kilo CLI", None),
                ("vibe", ">> Tidy up", Some("Tidy up")),
                ("vibe", ">> Vibe", None),
                ("codex", "⠙", None),
                ("goose", "", None),
            ] {
                assert_eq!(work_in_title(agent, title), work, "{title}");
            }
        }

        proptest! {
            #[test]
            fn any_title_is_accepted(title in ".{0,40}") {
                for agent in KnownAgent::all() {
                    let _ = state_of_title(agent, &title);
                    let _ = work_in_title(agent.name(), &title);
                }
            }
        }
    }
}
