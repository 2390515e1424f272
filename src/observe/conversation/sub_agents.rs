//! The sub-agents of an agent in a pane: each has a transcript of its own, which shows its end.
//!
//! Claude Code 2.1.330 writes them to `SESSION/subagents/agent-ID.jsonl`, beside `SESSION.jsonl`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::places::modified;
use super::transcript::Transcript;
use crate::agent::{AgentEvent, StreamFormat, StreamStatus};
use crate::timestamp::Timestamp;

/// The most sub-agents that are followed at once; others follow when some of these have ended.
const FOLLOWED_MAX: usize = 64;

/// The most files of a directory that are examined.
const FILES_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct SubAgents {
    /// Transcripts by id; `None` for a sub-agent that has ended.
    known: HashMap<String, Option<Transcript>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum SubAgentEvent {
    /// A sub-agent was started, with this output file.
    Registered { id: String, file: String },
    /// A sub-agent has ended: [`AgentEvent::AgentCompleted`] or [`AgentEvent::AgentFailed`].
    Ended { id: String, how: AgentEvent },
}

impl SubAgents {
    /// Finds new sub-agents beside a conversation's file. Those from before `since` are not reported.
    pub fn find(&mut self, conversation: &Path, since: Timestamp, events: &mut Vec<SubAgentEvent>) {
        let directory = conversation.with_extension("").join("subagents");
        let Ok(entries) = fs::read_dir(directory) else {
            return;
        };
        for path in entries.take(FILES_MAX).flatten().map(|entry| entry.path()) {
            let id = path.file_name().and_then(|name| name.to_str());
            let Some(id) = id.and_then(id_of) else {
                continue;
            };
            if self.known.contains_key(id) || self.followed() >= FOLLOWED_MAX {
                continue;
            }
            let (id, file) = (id.to_owned(), path.display().to_string());
            let is_old = modified(&path).is_none_or(|at| at < since);
            if is_old {
                self.known.insert(id, None);
                continue;
            }
            // The records may be older than the file's last change, but all of them are new.
            let transcript =
                Transcript::new(path, StreamFormat::ClaudeTranscript, Timestamp::default());
            self.known.insert(id.clone(), Some(transcript));
            events.push(SubAgentEvent::Registered { id, file });
        }
    }

    /// Reads the new records of all sub-agents.
    pub fn read(&mut self, now: Timestamp, events: &mut Vec<SubAgentEvent>) {
        for (id, known) in &mut self.known {
            let Some(transcript) = known else { continue };
            let mut own_events = Vec::new();
            if transcript.read(now, &mut own_events).is_err() {
                continue;
            }
            if !matches!(
                transcript.status(),
                StreamStatus::Done | StreamStatus::Failed | StreamStatus::Interrupted
            ) {
                continue;
            }
            transcript.finish(now, &mut own_events);
            let end = own_events.into_iter().rev().find(|event| {
                matches!(
                    event,
                    AgentEvent::AgentCompleted { .. } | AgentEvent::AgentFailed { .. }
                )
            });
            *known = None;
            events.extend(end.map(|how| SubAgentEvent::Ended {
                id: id.clone(),
                how,
            }));
        }
    }

    /// Returns the names and arguments of the sub-agents' tools that wait for their results.
    pub fn open_tools(&self) -> impl Iterator<Item = (&str, &str)> {
        let followed = self.known.values().flatten();
        followed.flat_map(Transcript::open_tools)
    }

    fn followed(&self) -> usize {
        self.known.values().flatten().count()
    }
}

/// Returns the id of the sub-agent whose transcript has this name.
fn id_of(name: &str) -> Option<&str> {
    let id = name.strip_prefix("agent-")?.strip_suffix(".jsonl")?;
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMPT: &str = r#"{"type":"user","isSidechain":true,"agentId":"a1","message":{"role":"user","content":"look"},"timestamp":"2026-11-23T22:43:03.002Z"}"#;
    const CALL: &str = r#"{"type":"assistant","isSidechain":true,"agentId":"a1","version":"2.1.330","message":{"id":"m1","role":"assistant","stop_reason":"tool_use","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"ls"}}]},"timestamp":"2026-11-23T22:43:03.905Z"}"#;
    const RESULT: &str = r#"{"type":"user","isSidechain":true,"agentId":"a1","message":{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result","content":"a"}]},"timestamp":"2026-11-23T22:43:07.971Z"}"#;
    const ANSWER: &str = r#"{"type":"assistant","isSidechain":true,"agentId":"a1","version":"2.1.330","message":{"id":"m2","role":"assistant","stop_reason":"end_turn","content":[{"type":"text","text":"There are files."}]},"timestamp":"2026-11-23T22:43:10.013Z"}"#;

    #[test]
    fn a_sub_agent_is_registered_and_ends_once() {
        let home = tempfile::tempdir().unwrap();
        let conversation = home.path().join("S.jsonl");
        let directory = home.path().join("S/subagents");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("agent-a1.meta.json"), "{}").unwrap();
        let file = directory.join("agent-a1.jsonl");
        fs::write(&file, format!("{PROMPT}\n{CALL}\n")).unwrap();

        let (mut agents, mut events) = (SubAgents::default(), Vec::new());
        let (since, now) = (Timestamp::default(), Timestamp::from_micros(1));
        agents.find(&conversation, since, &mut events);
        agents.read(now, &mut events);
        let registered = SubAgentEvent::Registered {
            id: "a1".into(),
            file: file.display().to_string(),
        };
        assert_eq!(events, [registered]);
        let open: Vec<_> = agents.open_tools().collect();
        assert_eq!(open, [("Bash", r#"{"command":"ls"}"#)]);

        fs::write(&file, format!("{PROMPT}\n{CALL}\n{RESULT}\n{ANSWER}\n")).unwrap();
        events.clear();
        agents.read(now, &mut events);
        agents.find(&conversation, since, &mut events);
        agents.read(now, &mut events);
        assert!(
            matches!(
                &events[..],
                [SubAgentEvent::Ended { id, how: AgentEvent::AgentCompleted { result, .. } }]
                    if id == "a1" && result == "There are files."
            ),
            "{events:?}"
        );
    }

    #[test]
    fn a_sub_agent_that_was_there_before_is_not_reported() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("S/subagents");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("agent-a1.jsonl"), format!("{PROMPT}\n")).unwrap();
        let (mut agents, mut events) = (SubAgents::default(), Vec::new());
        let later = Timestamp::from_micros(i64::MAX);
        agents.find(&home.path().join("S.jsonl"), later, &mut events);
        agents.read(later, &mut events);
        assert_eq!(events, []);
    }
}
