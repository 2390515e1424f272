//! Ends and turns in the transcripts of agents.

use super::*;

/// A line of a transcript, with the fields that all lines have.
fn line(kind: &str, more: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"sessionId\":\"s\",\"version\":\"2.1.143\",{more}}}\n")
}

fn prompt(side: bool) -> String {
    line(
        "user",
        &format!("\"isSidechain\":{side},\"message\":{{\"content\":\"go\"}}"),
    )
}

fn answer(side: bool, stop: &str) -> String {
    let message = format!(
        "{{\"id\":\"m\",\"content\":[{{\"type\":\"text\",\"text\":\"yes\"}}],\"stop_reason\":{stop}}}"
    );
    line(
        "assistant",
        &format!("\"isSidechain\":{side},\"message\":{message}"),
    )
}

fn filler(side: bool, bytes: usize) -> String {
    let text = "x".repeat(2_000);
    let one = line(
        "user",
        &format!(
            "\"isSidechain\":{side},\"message\":{{\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":\"{text}\"}}]}}"
        ),
    );
    one.repeat(bytes / one.len() + 1)
}

/// Returns the verdict of the second of two reads, which are `seconds` apart.
#[track_caller]
fn judged(case: &mut Case, seconds: u64) -> Option<Verdict> {
    case.check(0);
    case.check(seconds).0.verdict
}

#[test]
fn an_emptied_file_has_no_end() {
    let mut case = Case::new();
    case.append([WORKS, DONE].concat());
    case.check(0);
    std::fs::write(case.path(), "").unwrap();
    case.warned("shorter");
    assert_eq!(case.check(1_000).0.verdict, None);
    case.append([WORKS, DONE].concat());
    let end = judged(&mut case, 5);
    assert_eq!(end, completed("All green.", "turn.completed"));
}

#[test]
fn a_task_from_far_before_the_end_is_found() {
    let launch = line(
        "user",
        "\"isSidechain\":false,\"message\":{\"content\":[]},\"toolUseResult\":{\"status\":\"async_launched\",\"agentId\":\"a1\"}",
    );
    let ended = line(
        "queue-operation",
        "\"content\":\"<task-notification>\\n<task-id>a1</task-id>\\n<status>killed</status>\"",
    );
    let end = answer(false, "\"end_turn\"");
    let filler = filler(false, 400_000);
    let begun = [prompt(false), launch, filler.clone()].concat();
    let mut case = Case::new();
    case.append([&*begun, &*end].concat());
    assert_eq!(judged(&mut case, 1_000), None, "its task still runs");
    let read = case.check(5).1;
    assert_eq!(read, 0, "it is searched once");
    case.append(&ended);
    assert_eq!(
        judged(&mut case, 5),
        completed("yes", "stop_reason end_turn")
    );
    let mut case = Case::new();
    case.append([&*begun, &*ended, &*filler, &*end].concat());
    assert_eq!(
        judged(&mut case, 5),
        completed("yes", "stop_reason end_turn")
    );
}

#[test]
fn unread_bytes_make_an_end_inferred() {
    let mut case = Case::new();
    case.append(prompt(false));
    let file = OpenOptions::new().write(true).open(case.path()).unwrap();
    file.set_len(20 * 1024 * 1024).unwrap();
    let end = answer(false, "\"end_turn\"");
    case.append(["\n", &*filler(false, 300_000), &*end].concat());
    assert_eq!(judged(&mut case, 5), None);
    let Some(Verdict::Completed { evidence, .. }) = case.check(10).0.verdict else {
        panic!("it has not ended");
    };
    assert!(evidence.starts_with("inferred: stop_reason end_turn; the first "));
}

#[test]
fn a_sub_agents_end_is_not_that_of_a_transcript_that_holds_it() {
    let end = answer(true, "\"end_turn\"");
    let beside = [filler(true, 400_000), end].concat();
    let mut case = Case::new();
    case.append([&*prompt(false), &*beside].concat());
    assert_eq!(judged(&mut case, 1_000), None);
    case.append([filler(false, 1), answer(false, "\"end_turn\"")].concat());
    assert!(judged(&mut case, 5).is_some());
    let mut case = Case::new();
    case.append([&*prompt(true), &*beside].concat());
    assert!(judged(&mut case, 5).is_some(), "its own file");
}

#[test]
fn a_record_that_is_being_written_is_waited_for() {
    let text = prompt(false).replace("2.1.143", "2.1.12")
        + &answer(false, "null").replace("2.1.143", "2.1.12");
    let mut case = Case::new();
    case.append(&text);
    case.append("{\"type\":\"assis");
    assert_eq!(judged(&mut case, 30), None);
    assert!(case.check(30).0.verdict.is_some());
    let mut case = Case::new();
    case.append(&text);
    assert!(judged(&mut case, 10).is_some());
}

#[test]
fn a_human_who_stopped_an_agent_is_waited_for() {
    let stopped = line(
        "user",
        "\"isSidechain\":false,\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"[Request interrupted by user]\"}]}",
    );
    let mut case = Case::new();
    case.append([prompt(false), stopped].concat());
    assert_eq!(judged(&mut case, 29), None);
    case.append([prompt(false), answer(false, "\"end_turn\"")].concat());
    assert_eq!(
        judged(&mut case, 5),
        completed("yes", "stop_reason end_turn")
    );
}

#[test]
fn a_stream_of_events_ends_without_its_last_lines() {
    let mut case = Case::new();
    case.append("data: {\"type\":\"response.created\",\"response\":{}}\n\ndata: {\"type\":\"response.completed\",\"response\":{}}");
    assert!(judged(&mut case, 5).is_some());
}

#[test]
fn a_result_is_no_record() {
    let mut case = Case::new();
    case.append("{\"type\":\"init\",\"session_id\":\"x\",\"model\":\"g\"}\n{\"type\":\"result\",\"timestamp\":\"2026-01-01T00:00:00Z\",\"status\":\"success\"}\n");
    assert_eq!(
        judged(&mut case, 5),
        completed("", "result: status success")
    );
    let mut case = Case::new();
    case.append([0; 10_000]);
    let Some(Verdict::Completed { result, .. }) = judged(&mut case, 10) else {
        panic!("it has not ended");
    };
    assert_eq!(result, "");
}

#[test]
fn a_file_that_was_compressed_is_no_longer_waited_for() {
    let mut case = Case::new();
    case.append(WORKS);
    case.check(0);
    let mut name = case.path().into_os_string();
    name.push(".zst");
    std::fs::rename(case.path(), name).unwrap();
    case.warned("was compressed to");
    assert!(case.check(5).0.verdict.is_some());
}

/// A transcript of Codex: its turns, each with its times.
fn rollout(minute: u32, answer: &str) -> String {
    let record = |second: u32, payload: String| {
        format!(
            "{{\"timestamp\":\"2026-11-23T19:{minute:02}:{second:02}.000Z\",\"type\":\"event_msg\",\"payload\":{payload}}}\n"
        )
    };
    let prompt = r#"{"type":"user_message","message":"go on"}"#;
    let done =
        format!(r#"{{"type":"task_complete","turn_id":"t","last_agent_message":"{answer}"}}"#);
    [
        record(0, r#"{"type":"task_started","turn_id":"t"}"#.to_owned()),
        record(1, prompt.to_owned()),
        record(2, done),
    ]
    .concat()
}

fn summaries(check: &Check) -> Vec<&str> {
    let turns = check.turns.iter().map(|turn| match turn {
        TurnEnd::Completed { summary, .. } => summary.as_str(),
        TurnEnd::Failed { error } => error.as_str(),
    });
    turns.collect()
}

#[test]
fn each_turn_of_a_session_is_reported_once() {
    let mut case = Case::new();
    let since: Timestamp = "2026-11-23T19:10:00Z".parse().unwrap();
    case.file = OutputFile::new(case.path(), since);
    case.append([rollout(1, "one"), rollout(2, "two")].concat());
    let (check, _) = case.check(5);
    assert_eq!(summaries(&check), [""; 0], "they ended before");
    let (check, _) = case.check(5);
    assert!(check.verdict.is_some(), "{check:?}");
    assert_eq!(summaries(&check), ["two"], "the end of the agent is one");
    case.append([rollout(11, "three"), rollout(12, "four")].concat());
    assert_eq!(summaries(&case.check(5).0), ["three", "four"]);
    assert!(case.check(5).0.turns.is_empty());
    assert!(case.file.is_interactive());
    // A conversation that began after `since` is reported completely.
    case.file = OutputFile::new(case.path(), since);
    assert_eq!(summaries(&case.check(5).0), ["three", "four"]);
    assert!(case.check(5).0.turns.is_empty());
}

#[test]
fn a_stream_has_an_end_and_no_turns() {
    let mut case = Case::new();
    case.append([WORKS, DONE].concat());
    case.check(5);
    let (check, _) = case.check(5);
    assert!(check.verdict.is_some() && check.turns.is_empty());
    assert!(!case.file.is_interactive());
}
