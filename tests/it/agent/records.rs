//! What conversations record, read from real recordings: each token once, in pieces of any size, and of any span.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use td_observe::Timestamp;
use td_observe::agent::AgentEvent;
use td_observe::internals::records::{Fact, read};

use crate::recordings::{files_below, recordings};

const ALL: (i64, i64) = (i64::MIN, i64::MAX);

fn facts(path: &Path, agent: Option<&str>, (since, until): (i64, i64)) -> Vec<Fact> {
    let span = (Timestamp::from_micros(since), Timestamp::from_micros(until));
    let mut found = Vec::new();
    read(path, agent, span, &mut |fact| found.push(fact)).unwrap();
    found
}

fn tokens(facts: &[Fact]) -> (u64, u64) {
    let counts = facts.iter().filter_map(|fact| match &fact.event {
        Ok(AgentEvent::ResponseCompleted {
            input_tokens,
            output_tokens,
            ..
        }) => Some((*input_tokens, *output_tokens)),
        _ => None,
    });
    counts.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
}

/// Returns the records of a file that are one JSON object on a line.
fn lines(path: &Path) -> Option<Vec<Value>> {
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).ok()).collect()
}

fn count(usage: &Value, name: &str) -> u64 {
    usage[name].as_u64().unwrap_or(0)
}

#[test]
fn each_message_of_a_transcript_counts_once() {
    let Some(root) = recordings() else { return };
    let mut compared = 0;
    for path in files_below(&root.join("claude-code-transcripts")) {
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            continue;
        }
        let Some(records) = lines(&path) else {
            // Broken lines: what is left of them is tested elsewhere.
            continue;
        };
        // The last usage of each message.
        let mut usage: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for record in records
            .iter()
            .filter(|record| record["type"] == "assistant")
        {
            let message = &record["message"];
            if message["model"] == "<synthetic>" || !message["usage"].is_object() {
                continue;
            }
            let counts = &message["usage"];
            let id = message["id"].as_str().unwrap_or_default().to_owned();
            usage.insert(
                id,
                (
                    count(counts, "input_tokens"),
                    count(counts, "output_tokens"),
                ),
            );
        }
        let expected = usage
            .values()
            .fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
        let found = tokens(&facts(&path, Some("claude"), ALL));
        assert_eq!(found, expected, "{}", path.display());
        compared += usize::from(expected != (0, 0));
    }
    assert!(compared > 10, "{compared} transcripts with tokens");
}

#[test]
fn the_tokens_of_a_rollout_are_its_total() {
    let Some(root) = recordings() else { return };
    let mut compared = 0;
    for path in files_below(&root.join("codex-rollouts")) {
        let Some(records) = lines(&path) else {
            continue;
        };
        let mut totals = records.iter().filter_map(|record| {
            let total = &record["payload"]["info"]["total_token_usage"];
            total.is_object().then_some(total)
        });
        let Some(total) = totals.next_back() else {
            continue;
        };
        let expected = (count(total, "input_tokens"), count(total, "output_tokens"));
        let found = tokens(&facts(&path, Some("codex"), ALL));
        assert_eq!(found, expected, "{}", path.display());
        compared += 1;
    }
    assert!(compared > 2, "{compared} rollouts with tokens");
}

#[test]
fn two_spans_give_what_the_whole_gives() {
    let Some(root) = recordings() else { return };
    let directories = [
        ("claude-code-transcripts", Some("claude")),
        ("codex-rollouts", Some("codex")),
        ("gemini-sessions", Some("gemini")),
        ("claude-stream-json", None),
        ("codex-exec-json", None),
    ];
    for (directory, agent) in directories {
        for path in files_below(&root.join(directory)) {
            let whole = facts(&path, agent, ALL);
            let mut times: Vec<i64> = whole
                .iter()
                .filter_map(|of| of.at)
                .map(Timestamp::micros)
                .collect();
            times.sort_unstable();
            let Some(middle) = times.get(times.len() / 2) else {
                continue;
            };
            let before = facts(&path, agent, (ALL.0, middle - 1));
            let after = facts(&path, agent, (*middle, ALL.1));
            let undated = whole.iter().filter(|of| of.at.is_none()).count();
            let name = path.display();
            assert_eq!(before.len() + after.len(), whole.len() + undated, "{name}");
            assert!(!after.is_empty(), "{name}");
        }
    }
}
