//! The events of a loop while it runs: phases, tokens, tools, checks.

use super::*;
use crate::process::pane::Typed;
use crate::recordings::recordings;
use crate::support::{CEILING, wait_for};

#[test]
fn a_task_is_divided_into_phases() {
    let place = Place::new();
    let spec = place.write(
        "spec.md",
        "# Add OAuth\nCheck: `test -e $TD_NOTHING one`\n## First\nThe storage.\n\
         ## Second\nCheck: `test -e two`\n",
    );
    let agent = "cat > prompt; grep -q 'Phase 2' prompt && touch two || touch one";
    let (output, events) = place.events(&["--spec", &spec, "--agent", agent]);
    assert_code(&output, 0);
    assert_eq!(ended(&events), (true, 2));
    let phases: Vec<(usize, &str, usize)> = events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::PhaseStarted {
                phase_index,
                phase_name,
                total_phases,
                ..
            } => Some((*phase_index, phase_name.as_str(), *total_phases)),
            _ => None,
        })
        .collect();
    assert_eq!(phases, [(0, "First", 2), (1, "Second", 2)]);
    let ahead = events.iter().find_map(|envelope| match &envelope.event {
        TdEvent::LoopStarted { phases, .. } => Some(phases.clone().unwrap()),
        _ => None,
    });
    assert_eq!(ahead.unwrap(), ["First", "Second"]);
    assert!(place.file(1, "prompt.txt").contains("The storage."));
}

/// What is ahead is visible before it begins: in the loop's own output and in the status of each moment.
#[test]
fn the_phases_ahead_are_shown() {
    let place = Place::new();
    let text_of_spec = "# Add OAuth\n## Storage\nCheck: `true`\n## Routes\nCheck: `true`\n## Docs\nCheck: `true`\n";
    let spec = place.write("spec.md", text_of_spec);
    let agent = "cat > p; n=$(ls | grep -c begun); touch begun-$n; while ! test -e go-$n; do sleep 0.01; done";
    let command = place.command(&["--spec", &spec, "--agent", agent]);
    let mut running = Running::start(command);
    running.wait_for("[loop] Add OAuth (Storage → Routes → Docs)");
    for (number, ahead) in [
        &["Storage", "Routes", "Docs"][..],
        &["Routes", "Docs"],
        &["Docs"],
    ]
    .into_iter()
    .enumerate()
    {
        running.wait_for(&format!("[phase] {} of 3", number + 1));
        wait_for("the row", CEILING, || {
            let status = crate::cli::run(&["status", "--json"], &place.data());
            let row: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
            if row["phases"] == serde_json::json!(ahead) {
                Ok(())
            } else {
                Err(row)
            }
        });
        let status = crate::cli::run(&["status"], &place.data());
        let shown = text(&status.stdout);
        assert!(shown.contains(&ahead.join(" → ")), "{shown}");
        fs::write(place.work().join(format!("go-{number}")), "").unwrap();
    }
    assert_code(&running.end(), 0);
    let status = crate::cli::run(&["status", "--json"], &place.data());
    let row: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(row["phases"], serde_json::json!([]));
}

/// Claude Code writes whole messages unless it is asked for parts: the option is named to whoever waits for words.
#[test]
fn the_option_that_streams_words_is_named() {
    let init = r#"{"type":"system","subtype":"init","session_id":"s"}"#;
    let part = r#"{"type":"stream_event","session_id":"s","event":{"type":"message_start","message":{"id":"m"}}}"#;
    let whole = r#"{"type":"assistant","session_id":"s","message":{"id":"m","content":[{"type":"text","text":"Done."}]}}"#;
    let result = r#"{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s"}"#;
    let place = Place::new();
    let agent = format!(
        "cat {}",
        place.write("records", &[init, whole, result, ""].join("\n"))
    );
    let output = place.run(&args(&agent, "true", &["--as", "claude"]));
    assert_code(&output, 0);
    assert_eq!(text(&output.stderr), "", "a pipe has no use for it");
    let mut typed = Typed::new(120, 30);
    let records = typed.data.path().join("records");
    fs::write(&records, [init, whole, result, ""].join("\n")).unwrap();
    let parts = typed.data.path().join("parts");
    fs::write(&parts, [init, part, whole, result, ""].join("\n")).unwrap();
    for (command, is_named) in [
        ("run --as claude cat records", true),
        (
            "loop --task x --check true --as claude --agent 'cat records'",
            true,
        ),
        (
            "loop --task x --check true --as claude --agent 'cat parts'",
            false,
        ),
        (
            "loop --json --task x --check true --as claude --agent 'cat records'",
            false,
        ),
    ] {
        typed.line(&format!("clear; td-observe {command}; echo code=$?"));
        typed.shows("code=0");
        let screen = typed.screen();
        assert_eq!(
            screen.contains("with --include-partial-messages"),
            is_named,
            "{screen}"
        );
        typed.is_at_the_prompt();
    }
}

/// Each piece is reported before the agent continues, because the agent waits for a file that the test
/// then writes.
#[test]
fn tokens_and_lines_of_the_check_are_reported_as_they_arrive() {
    let place = Place::new();
    let wait = "while ! test -e $1; do sleep 0.01; done";
    let step = place.write("step.sh", wait);
    let agent = format!("printf one-; sh {step} a; printf two-; sh {step} b; echo three");
    let check = format!("echo first line; sh {step} c; echo second");
    let args = [
        "--json", "--task", "x", "--as", "text", "--agent", &agent, "--check", &check,
    ];
    let mut running = Running::start(place.command(&args));
    for (text, file) in [("one-", "a"), ("two-", "b"), ("first line", "c")] {
        running.wait_for(text);
        fs::write(place.work().join(file), "").unwrap();
    }
    assert_code(&running.end(), 0);
}

#[test]
fn tools_of_an_agent_are_reported_with_their_iteration() {
    let Some(data) = recordings() else { return };
    let name = "claude-stream-json";
    let recorded = crate::recordings::files_below(&data.join(name));
    let with_tools = recorded.iter().find(|path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.contains("\"tool_use\"") && text.contains("\"subtype\":\"success\"")
    });
    let path = with_tools.unwrap_or_else(|| panic!("no recording with tools in {name}"));
    let place = Place::new();
    let agent = format!("cat '{}'", path.display());
    let (output, events) = place.events(&args(
        &agent,
        "true",
        &["--as", "claude", "--max-iterations", "1"],
    ));
    assert_code(&output, 0);
    let tools: Vec<u32> = events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::ToolCallStarted { iteration, .. }
            | TdEvent::ToolCallCompleted { iteration, .. } => Some(*iteration),
            _ => None,
        })
        .collect();
    assert!(!tools.is_empty() && tools.iter().all(|iteration| *iteration == 1));
    let tokens = |envelope: &Envelope| match &envelope.event {
        TdEvent::ResponseCompleted { output_tokens, .. } => Some(*output_tokens),
        _ => None,
    };
    assert!(events.iter().filter_map(tokens).sum::<u64>() > 0);
    assert!(place.file(1, "response.txt").contains("[tool "));
    assert_kept(&events, &place.directory());
}

#[test]
fn the_prompt_is_in_the_environment_and_in_a_file() {
    let place = Place::new();
    let agent = "cat > a; printf %s \"$TD_PROMPT\" > b; cat \"$TD_PROMPT_FILE\" > c; cat a";
    let (output, _) = place.events(&[
        "--task",
        "Über \"quotes\" and 'others'",
        "--agent",
        agent,
        "--check",
        "cmp a b && cmp a c",
    ]);
    assert_code(&output, 0);
    assert_eq!(
        place.file(1, "prompt.txt"),
        fs::read_to_string(place.work().join("a")).unwrap()
    );
    // The task is also passed as standard input on request.
    let place = Place::new();
    let mut command = place.command(&[
        "--task",
        "-",
        "--agent",
        "cat > d",
        "--check",
        "grep -q X d",
    ]);
    let task = place.write("task.txt", "Find X");
    command.stdin(fs::File::open(task).unwrap());
    assert_code(&Running::start(command).end(), 0);
}

/// Output of an unknown format is shown and stored as printed.
#[test]
fn records_of_an_unknown_format_are_the_answer() {
    let place = Place::new();
    let line = r#"{"type":"text","part":{"text":"I fixed it"}}"#;
    let path = place.write("line", &format!("{line}\n"));
    let (output, events) = place.events(&args(&format!("cat {path}"), "true", &[]));
    assert_code(&output, 0);
    let tokens: String = events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::TokenReceived { token, .. } => Some(token.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(tokens, format!("{line}\n"));
    assert_eq!(place.file(1, "response.txt"), tokens);
}

#[test]
fn the_only_phase_of_a_spec_is_reported() {
    let place = Place::new();
    let spec = place.write(
        "spec.md",
        "\u{feff}# Shop\n\n## Login\n\nThe LOGIN page.\n\nCheck: `true`\n",
    );
    assert_code(&place.run(&["--spec", &spec, "--agent", "cat > p"]), 0);
    let prompt = place.file(1, "prompt.txt");
    assert!(
        prompt.contains("# Phase 1 of 1: Login\n\nThe LOGIN page."),
        "{prompt}"
    );
    // The name is now taken.
    assert_usage(&place.run(&["--spec", &spec, "--agent", "true"]), "already");
}
