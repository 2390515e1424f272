//! The turns of agents and models in a database.

use serde_json::{Value, json};

use super::database::{lines, open, rows, write_run};
use super::export;
use crate::cli::assert_code;

/// Exports a run with these events, and compares its turns: their first and last events, the agent, the prompt, the summary, what
/// ended them, and the tokens. The id of an event is its time in seconds.
#[track_caller]
fn assert_turns(events: &[Value], expected: &[&str]) {
    let data = tempfile::tempdir().unwrap();
    let log = lines("a@1", 1, events);
    write_run(data.path(), "a@1", "a", &[("events.jsonl", log)]);
    assert_code(&export(data.path(), &[]), 0);
    let sql = "SELECT first_event || '..' || last_event, coalesce(pane, agent_id, 'model'), prompt, summary, ended_by,
        input_tokens || '+' || output_tokens, substr(began, 18, 2), substr(ended, 18, 2) FROM turns";
    assert_eq!(rows(&open(data.path()), sql), expected);
}

fn prompt(pane: Option<&str>, text: &str) -> Value {
    json!({"type": "PromptSent", "iteration": 1, "prompt_summary": text, "pane": pane})
}

fn end(pane: &str, summary: &str) -> Value {
    json!({"type": "TurnCompleted", "marker": "", "summary": summary, "pane": pane})
}

fn response(pane: Option<&str>, summary: &str) -> Value {
    json!({"type": "ResponseCompleted", "iteration": 1, "response_summary": summary, "input_tokens": 10,
        "output_tokens": 2, "has_tool_calls": false, "pane": pane})
}

#[test]
fn turns_of_several_panes_are_apart() {
    assert_turns(
        &[
            prompt(Some("%1"), "a"),
            prompt(Some("%2"), "b"),
            end("%1", "done"),
            prompt(Some("%2"), "c"),
            end("%3", "early"),
            response(Some("%1"), "more"),
        ],
        &[
            "1..3|%1|a|done|TurnCompleted|0+0|01|03",
            "2..2|%2|b|-|-|0+0|02|-",
            "5..5|%3|-|early|TurnCompleted|0+0|-|05",
            "4..4|%2|c|-|-|0+0|04|-",
            "6..6|%1|-|more|-|10+2|06|-",
        ],
    );
}

#[test]
fn a_loop_has_a_turn_for_each_prompt() {
    let iteration =
        json!({"type": "IterationCompleted", "iteration": 1, "outcome": "ValidationPassed"});
    let completed = json!({"type": "LoopCompleted", "success": true, "total_iterations": 1});
    assert_turns(
        &[
            prompt(None, "a"),
            response(None, "one"),
            response(None, ""),
            iteration,
            completed,
        ],
        &["1..4|model|a|one|IterationCompleted|20+4|01|04"],
    );
}

#[test]
fn a_background_agent_has_one_turn() {
    let registered = json!({"type": "AgentRegistered", "agent_id": "a1", "output_file": "f"});
    let failed =
        json!({"type": "AgentFailed", "agent_id": "a1", "error": "broke", "evidence": "record"});
    assert_turns(
        &[registered, failed],
        &["1..2|a1|-|broke|AgentFailed|0+0|01|02"],
    );
}
