//! A turn that began before its observation: its prompt and its open tools are in `log`, once.

use super::*;

const ENDED: &str =
    r#"{"type":"tool_use","id":"t1","name":"Read","input":{"file_path":"plan.md"}}"#;
const OPEN: &str = r#"{"type":"tool_use","id":"t2","name":"Write","input":{"file_path":"notes.md","content":"x"}}"#;

fn result(at: Timestamp, id: &str) -> String {
    let content = format!(r#"[{{"type":"tool_result","tool_use_id":"{id}","content":"ok"}}]"#);
    let message = format!(r#""uuid":"r{id}","message":{{"role":"user","content":{content}}}"#);
    record(at, "user", &message)
}

/// Returns what `log` has of the agent's conversation.
fn logged(claude: &Claude) -> Vec<String> {
    let logged = text(&claude.run(&["log", "agent", "--json"]).stdout);
    let events = logged.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let event = &line["event"];
        let text = |field: &str| event[field].as_str().unwrap().to_owned();
        Some(match event["type"].as_str().unwrap() {
            "PromptSent" => text("prompt_summary"),
            "ToolCallStarted" => text("tool_name") + " begins",
            "ToolCallCompleted" => text("tool_name") + " ends",
            "ResponseCompleted" => text("response_summary"),
            "TurnCompleted" => "end".to_owned(),
            _ => return None,
        })
    });
    events.collect()
}

fn until_logged(claude: &Claude, expected: &[&str]) {
    wait_for("the log", CEILING, || {
        let logged = logged(claude);
        if logged.len() >= expected.len() {
            Ok(logged)
        } else {
            Err(logged)
        }
    });
    assert_eq!(logged(claude), expected);
}

#[test]
fn the_prompt_and_the_open_tools_of_a_turn_that_began_before_its_observation_are_logged_once() {
    let mut claude = Claude::new();
    claude.turn("before");
    claude.write(&prompted(now()));
    claude.write(&said(now(), ENDED, "tool_use"));
    claude.write(&result(now(), "t1"));
    claude.write(&said(now(), OPEN, "tool_use"));
    claude.is("waiting");
    claude.observe();
    let row = claude.row(|row| row["state"] == "waiting" && row["last_line"] == "Write notes.md");
    assert_eq!(row["turns"], json!(0), "{row}");
    let begun = ["go", "Write begins"];
    until_logged(&claude, &begun);
    // The next observer goes on with the same run.
    assert_code(&claude.run(&["stop"]), 0);
    claude.observe();
    claude.row(|row| row["state"] == "waiting" && row["last_line"] == "Write notes.md");
    claude.is("busy");
    claude.write(&result(now(), "t2"));
    until_logged(&claude, &["go", "Write begins", "Write ends"]);
    claude.write(&answered(now(), "It is written."));
    claude.is("idle");
    let row = claude.row(|row| row["turns"] == json!(1));
    assert_eq!(row["last_line"], "It is written.", "{row}");
    let all = ["go", "Write begins", "Write ends", "It is written.", "end"];
    until_logged(&claude, &all);
    // A turn that has ended before an observation is none of it.
    assert_code(&claude.run(&["stop"]), 0);
    claude.observe();
    claude.turn("after");
    claude.row(|row| row["turns"] == json!(2));
    let after = ["ask after", "answer after", "end"];
    until_logged(&claude, &[&all[..], &after[..]].concat());
    assert_code(&claude.run(&["stop"]), 0);
}
