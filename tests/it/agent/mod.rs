//! Real recordings of agents: events counted by the parser, and again by hand from their records.
//!
//! The recordings are beside the repository. The second count shares no code with the parser: it builds
//! whole JSON values.

mod counted;
pub mod labels;
#[cfg(feature = "cli")]
mod records;

use std::fs;
use std::path::{Path, PathBuf};

use td_observe::Timestamp;
use td_observe::agent::{AgentEvent, Format, StreamFormat, StreamParser, StreamStatus};

use crate::recordings::{labelled, recordings};

/// The directories with recordings of known formats.
const DIRECTORIES: &[&str] = &[
    "claude-code-subagents",
    "claude-code-transcripts",
    "claude-stream-json",
    "codex-exec-json",
    "codex-rollouts",
    "derived-corruptions",
    "gemini-sessions",
    "gemini-stream-json",
    "sse-payload-lines",
    "sse-raw",
];

/// The counted events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    tools: usize,
    answered: usize,
    failed_tools: usize,
    turns: usize,
    failures: usize,
    output_tokens: u64,
}

/// Returns the files of the known formats, without those that an observer wrote beside them.
pub fn files(root: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = DIRECTORIES
        .iter()
        .filter_map(|directory| fs::read_dir(root.join(directory)).ok())
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.to_string_lossy().ends_with(".growth-events.jsonl"))
        .collect();
    files.sort();
    files
}

/// Parses a recording; returns its events, and the status before the end of the stream was known.
fn parsed(bytes: &[u8], piece: usize) -> (Vec<AgentEvent>, StreamStatus, Option<StreamFormat>) {
    let mut parser = StreamParser::new(Format::Auto);
    let (now, mut events) = (Timestamp::from_micros(0), Vec::new());
    for piece in bytes.chunks(piece) {
        parser.push(piece, now, &mut events);
    }
    parser.flush_idle(now, &mut events);
    let status = parser.status();
    parser.finish(now, &mut events);
    (events, status, parser.format())
}

fn counts(events: &[AgentEvent]) -> Counts {
    let mut counts = Counts::default();
    for event in events {
        match event {
            AgentEvent::ToolCallStarted { .. } => counts.tools += 1,
            AgentEvent::ToolCallCompleted { success, .. } => {
                counts.answered += 1;
                counts.failed_tools += usize::from(!success);
            }
            AgentEvent::TurnCompleted { .. } => counts.turns += 1,
            AgentEvent::AgentFailed { .. } => counts.failures += 1,
            AgentEvent::ResponseCompleted { output_tokens, .. } => {
                counts.output_tokens += output_tokens;
            }
            _ => {}
        }
    }
    counts
}

#[test]
fn recordings_give_as_many_events_as_their_records() {
    let Some(root) = recordings() else { return };
    let files = files(&root);
    assert!(files.len() > 50, "where are they? {files:?}");
    let mut wrong = Vec::new();
    for path in &files {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        let bytes = fs::read(path).unwrap();
        let (events, status, format) = parsed(&bytes, usize::MAX);
        let found = counts(&events);
        let expected = counted::count(name, &bytes);
        eprintln!("{name}\t{format:?}\t{found:?}\t{status:?}");
        if found != expected {
            wrong.push(format!(
                "{name}:\n  parsed  {found:?}\n  counted {expected:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn recordings_are_the_same_in_pieces() {
    let Some(root) = recordings() else { return };
    for path in files(&root) {
        let bytes = fs::read(&path).unwrap();
        // `flush_idle` between pieces would see incomplete lines, so it plays no part here.
        let whole = parsed(&bytes, usize::MAX);
        for piece in [4_093, 65_536] {
            assert_eq!(parsed(&bytes, piece), whole, "{}", path.display());
        }
    }
}

#[test]
fn transcripts_have_their_labelled_status() {
    let Some(root) = recordings() else { return };
    let mut checked = 0;
    let mut wrong = Vec::new();
    for (file, label) in labelled(&root) {
        let Some(expected) = labels::status(&file, &label) else {
            continue;
        };
        let bytes = fs::read(root.join(&file)).unwrap();
        checked += 1;
        let (_, status, _) = parsed(&bytes, usize::MAX);
        if !expected.contains(&status) {
            wrong.push(format!("{file}: {label:?}: {status:?}, not {expected:?}"));
        }
    }
    assert!(checked > 40, "only {checked} of the labels are understood");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
