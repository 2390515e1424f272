//! Transcripts that grow as they grew when they were recorded, watched by a registry.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;
use td_observe::{TdEvent, Timestamp};

use super::Agents;
use crate::recordings::recordings;

/// Returns the transcript's sizes and their times, in microseconds since its first byte.
fn growth(log: &str, session: &str, bytes: usize) -> Vec<(i64, usize)> {
    let mut sizes: Vec<(i64, usize)> = Vec::new();
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let size = event["file_size"].as_u64().map(|size| size as usize);
        let (Some(size), true) = (size, event["session_id"] == session) else {
            continue;
        };
        let ts: Timestamp = event["ts"].as_str().unwrap().parse().unwrap();
        if size <= bytes && sizes.last().is_none_or(|(_, last)| *last < size) {
            sizes.push((ts.micros(), size));
        }
    }
    let first = sizes.first().map_or(0, |(at, _)| *at);
    for (at, _) in &mut sizes {
        *at -= first;
    }
    sizes
}

/// Returns the offset at which the first turn is over, according to the agent's own records.
fn first_end(text: &str) -> usize {
    let mut end = 0;
    let mut tasks = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        let record: Value = serde_json::from_str(line).unwrap_or_default();
        if record["toolUseResult"]["status"] == "async_launched" {
            tasks += 1;
        }
        let content = record["content"].as_str().unwrap_or_default();
        if record["type"] == "queue-operation" && content.contains("<task-notification>") {
            tasks -= 1;
        }
        let has_text = |content: &Value| {
            let blocks = content.as_array().into_iter().flatten();
            blocks.into_iter().any(|block| block["type"] == "text")
        };
        let message = &record["message"];
        let is_answer = record["type"] == "assistant"
            && matches!(
                message["stop_reason"].as_str(),
                Some("end_turn" | "stop_sequence")
            )
            && has_text(&message["content"]);
        let kind = record["payload"]["type"].as_str().unwrap_or_default();
        let is_end = is_answer || kind == "task_complete";
        if is_end && tasks <= 0 {
            return end;
        }
    }
    end
}

/// Returns the transcript's own session: the one that it names, or the first. Others belong to
/// sub-agents.
fn session_of(log: &str, text: &str) -> String {
    let ids = log.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        event.get("file_size")?;
        event["session_id"].as_str().map(str::to_owned)
    });
    let ids: Vec<String> = ids.collect();
    let own = ids.iter().find(|id| text.contains(id.as_str()));
    own.or(ids.first()).cloned().unwrap_or_default()
}

#[test]
fn no_turn_is_completed_early_and_every_turn_in_the_end() {
    let Some(root) = recordings() else { return };
    let mut replayed = 0;
    for directory in ["claude-code-transcripts", "codex-rollouts"] {
        for entry in fs::read_dir(root.join(directory)).unwrap() {
            let log = entry.unwrap().path();
            let name = log.to_str().unwrap();
            if let Some(stem) = name.strip_suffix(".growth-events.jsonl") {
                replayed += 1;
                replay(&log, Path::new(&format!("{stem}.jsonl")));
            }
        }
    }
    assert!(replayed >= 6, "only {replayed} have a pace");
}

#[track_caller]
fn replay(log: &Path, transcript: &Path) {
    let shown = transcript.display();
    let text = fs::read_to_string(transcript).unwrap();
    let log = fs::read_to_string(log).unwrap();
    let session = session_of(&log, &text);
    let mut sizes = growth(&log, &session, text.len());
    assert!(sizes.len() > 2, "{shown}: {session}: {sizes:?}");
    let last_at = sizes.last().unwrap().0;
    sizes.push((last_at + 1, text.len()));
    let end = first_end(&text);
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("agent.jsonl");
    let mut agents = Agents::new();
    agents.registry.register("a", &path).unwrap();
    let mut file = File::create(&path).unwrap();
    let began = agents.clock.clock().wall().micros();
    let (mut written, mut completed_at, mut turns) = (0, None, 0);
    let mut sizes = sizes.into_iter().peekable();
    // One tick per second: more chances to be too early than with the program's 5 s.
    for second in 0..(last_at / 1_000_000 + 60) {
        while let Some((at, size)) = sizes.next_if(|(at, _)| *at <= second * 1_000_000) {
            file.write_all(&text.as_bytes()[written..size]).unwrap();
            written = size;
            let micros = u64::try_from(began + at).unwrap();
            let modified = UNIX_EPOCH + Duration::from_micros(micros);
            file.set_modified(modified).unwrap();
        }
        agents.registry.poll_now();
        agents.clock.advance(Duration::from_secs(1));
        for event in agents.take_events() {
            match event {
                TdEvent::AgentCompleted { .. } | TdEvent::AgentFailed { .. } => {
                    assert_eq!(completed_at, None, "{shown}: twice");
                    assert!(written >= end, "{shown}: at {written} of {end}: {event:?}");
                    eprintln!("{shown}: {second} s, {written} bytes: {event:?}");
                    completed_at = Some(second);
                }
                TdEvent::TurnCompleted { .. } => turns += 1,
                TdEvent::Error { .. } if completed_at.is_some() => {}
                TdEvent::AgentRegistered { .. } | TdEvent::RowRenamed { .. } => {}
                other => panic!("{shown}: {other:?}"),
            }
        }
    }
    assert!(completed_at.is_some(), "{shown}: it has no end");
    eprintln!("{shown}: {turns} turns");
}
