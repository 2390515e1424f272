//! Claude Code: stream-json and transcripts.

use super::*;

const INIT: &str = r#"{"type":"system","subtype":"init","session_id":"s"}
"#;

#[test]
fn a_run_with_partial_messages_is_reported_once() {
    let text = INIT.to_owned()
        + r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1","usage":{"input_tokens":5,"output_tokens":1}}},"session_id":"s","parent_tool_use_id":null}
{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I "}},"session_id":"s"}
{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"read"}},"session_id":"s"}
{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"I read"}],"stop_reason":null,"usage":{"output_tokens":1}},"parent_tool_use_id":null,"session_id":"s"}
{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Read","input":{"path":"a"}}],"usage":{"output_tokens":1}},"parent_tool_use_id":null,"session_id":"s","timestamp":"2026-08-12T20:27:06.000Z"}
{"type":"user","message":{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result","content":"no \"type\":\"result\" here","is_error":true}]},"parent_tool_use_id":null,"session_id":"s","timestamp":"2026-08-12T20:27:06.250Z"}
{"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}},"session_id":"s"}
{"type":"stream_event","event":{"type":"message_stop"},"session_id":"s"}
{"type":"assistant","message":{"id":"m2","content":[{"type":"text","text":"done"}],"usage":{"input_tokens":6,"output_tokens":2}},"parent_tool_use_id":null,"session_id":"s"}
{"is_error":false,"subtype":"success","result":"done","type":"result","session_id":"s"}
{"type":"system","subtype":"task_summary","detail":null,"session_id":"s"}
"#;
    assert_eq!(
        events_of(Format::Auto, &text),
        [
            "token I ",
            "token read",
            r#"tool Read {"path":"a"}"#,
            r#"failed Read no "type":"result" here 250ms"#,
            "response 5/9 tools",
            "token done",
            "response 6/2",
            "turn result",
            "completed done",
        ]
    );
    assert_eq!(status_of(&text), StreamStatus::Done);
}

#[test]
fn a_success_with_an_error_in_it_is_a_failure() {
    let text = INIT.to_owned()
        + r#"{"type":"result","subtype":"success","is_error":true,"result":"Credit balance is too low","session_id":"s"}"#;
    assert_eq!(
        events_of(Format::Claude, &text),
        ["failed Credit balance is too low"]
    );
    let text = INIT.to_owned()
        + r#"{"type":"result","subtype":"error_max_turns","is_error":true,"errors":["too many"],"session_id":"s"}"#;
    assert_eq!(events_of(Format::Claude, &text), ["failed too many"]);
}

#[test]
fn runs_without_a_result_are_cut_off() {
    let text = [
        INIT,
        INIT,
        r#"{"type":"result","subtype":"success","is_error":false,"result":"x"}"#,
        "\n",
        INIT,
    ]
    .concat();
    assert_eq!(
        events_of(Format::Auto, &text),
        [
            "failed the run was cut off before its end",
            "turn result",
            "completed x",
            "failed the run was cut off before its end",
        ]
    );
}

/// A run with a background sub-agent, as Claude Code 2.1.330 prints it.
#[test]
fn a_run_with_a_background_sub_agent_is_one_run() {
    let tasks = |tasks: &str| {
        format!(
            r#"{{"type":"system","subtype":"background_tasks_changed","tasks":[{tasks}],"session_id":"s"}}"#
        ) + "\n"
    };
    let message = |id: &str, text: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"{id}","content":[{{"type":"text","text":"{text}"}}],"usage":{{"input_tokens":5,"output_tokens":1}}}},"parent_tool_use_id":null,"session_id":"s"}}"#
        ) + "\n"
    };
    let result = |text: &str| {
        format!(
            r#"{{"is_error":false,"subtype":"success","stop_reason":"end_turn","result":"{text}","type":"result","session_id":"s"}}"#
        ) + "\n"
    };
    let begun = tasks(r#"{"task_id":"a1","task_type":"local_agent"}"#);
    let first = [INIT, &message("m1", "I wait."), &begun].concat();
    let woken = [
        first.as_str(),
        &tasks(""),
        INIT,
        &message("m2", "It has reported."),
    ]
    .concat();
    let events = [
        "token I wait.",
        "response 5/1",
        "token It has reported.",
        "response 5/1",
        "turn end_turn",
        "turn end_turn",
        "completed It has reported.",
    ];
    let whole = [&woken, &result("I wait."), &result("It has reported.")];
    let whole = whole.map(String::as_str).concat();
    assert_eq!(events_of(Format::Auto, &whole), events);
    assert_eq!(status_of(&whole), StreamStatus::Done);
    let ends = |text: &str| {
        let mut events = events_of(Format::Auto, text);
        events.retain(|event| event.starts_with("completed") || event.starts_with("failed"));
        events
    };
    let cut = "failed the run was cut off before its end";
    assert_eq!(ends(&woken), [cut]);
    // Both turns share one result, so the end of the stream ends the run.
    let once = [woken.as_str(), &result("It has reported.")].concat();
    assert_eq!(ends(&once), ["completed It has reported."]);
    // Without the end of a task, or in another session, this is another run.
    let again = [first.as_str(), INIT].concat();
    assert_eq!(ends(&again), [cut, cut]);
    let other = INIT.replace(r#""s""#, r#""t""#);
    let other = [first.as_str(), &tasks(""), &other].concat();
    assert_eq!(ends(&other), [cut, cut]);
}

#[test]
fn usage_of_a_run_is_that_of_its_result() {
    let message = |id: &str| {
        format!(
            r#"{{"type":"assistant","message":{{"id":"{id}","content":[{{"type":"text","text":"x"}}],"usage":{{"input_tokens":5,"output_tokens":1}}}},"parent_tool_use_id":null,"session_id":"s"}}"#
        ) + "\n"
    };
    let result = |usage: &str| {
        format!(
            r#"{{"is_error":false,"subtype":"success","result":"x","usage":{usage},"type":"result","session_id":"s"}}"#
        ) + "\n"
    };
    let responses = |parts: &[&str]| {
        let mut events = events_of(Format::Claude, &parts.concat());
        events.retain(|event| event.starts_with("response"));
        events
    };
    let (one, two) = (message("m1"), message("m2"));
    let taken = result(r#"{"input_tokens":10,"output_tokens":90}"#);
    assert_eq!(
        responses(&[INIT, &one, &two, &taken]),
        ["response 5/1", "response 5/89"]
    );
    // A run without its messages.
    assert_eq!(responses(&[INIT, &taken]), ["response 10/90"]);
    // Results of version 1 count only the last message; usage that was already reported is kept.
    let less = result(r#"{"input_tokens":0,"output_tokens":1}"#);
    assert_eq!(
        responses(&[INIT, &one, &two, &less]),
        ["response 5/1", "response 5/1"]
    );
    // The counts of another run start from zero.
    assert_eq!(
        responses(&[INIT, &one, &taken, INIT, &two, &taken]),
        ["response 10/90", "response 10/90"]
    );
}

#[test]
fn sub_agent_text_is_not_the_agents_answer() {
    let text = INIT.to_owned()
        + r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Agent","input":{}}]},"parent_tool_use_id":null,"session_id":"s"}
{"type":"user","message":{"content":"look"},"parent_tool_use_id":"t1","session_id":"s"}
{"type":"assistant","message":{"id":"m2","content":[{"type":"text","text":"looking"},{"type":"tool_use","id":"t2","name":"Bash","input":{}}],"stop_reason":"end_turn"},"parent_tool_use_id":"t1","session_id":"s"}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"seen"}]}]},"parent_tool_use_id":null,"session_id":"s"}
{"type":"user","message":{"content":"again"},"isReplay":true,"session_id":"s"}
{"type":"system","subtype":"api_retry","attempt":1,"max_retries":3,"retry_delay_ms":9,"error_status":529,"session_id":"s"}
"#;
    assert_eq!(
        events_of(Format::Auto, &text),
        [
            "tool Agent {}",
            "tool Bash {}",
            "ok Agent seen 0ms",
            "! the API request is retried: attempt 1 of 3, in 9 ms, after status 529",
            "response 0/0 tools",
            "response 0/0 tools",
            "failed the run was cut off before its end",
        ]
    );
}

/// The lines of a transcript, shortened: a version, a prompt, and the lines after it.
fn transcript(version: &str, lines: &str) -> String {
    let prompt = format!(
        r#"{{"type":"user","isSidechain":false,"message":{{"role":"user","content":"go"}},"sessionId":"s","version":"{version}"}}"#
    );
    let lines = lines.replace(
        "VERSION",
        &format!(r#""isSidechain":false,"sessionId":"s","version":"{version}""#),
    );
    format!("{prompt}\n{lines}")
}

/// An answer with one text block.
fn answer(stop: &str) -> String {
    format!(
        r#"{{"type":"assistant",VERSION,"message":{{"id":"m1","model":"x","content":[{{"type":"text","text":"yes"}}],"stop_reason":{stop}}}}}"#
    ) + "\n"
}

const DURATION: &str = r#"{"type":"system","subtype":"turn_duration",VERSION}
"#;
const TOOL: &str = r#"{"type":"assistant",VERSION,"message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{}}],"stop_reason":"tool_use"}}
"#;
const INTERRUPTION: &str = r#"{"type":"user",VERSION,"message":{"content":[{"type":"text","text":"[Request interrupted by user for tool use]"}]}}
"#;
const API_ERROR: &str = r#"{"type":"assistant",VERSION,"isApiErrorMessage":true,"error":"rate_limit","message":{"id":"e","model":"<synthetic>","content":[{"type":"text","text":"API Error"}],"stop_reason":"stop_sequence"}}
"#;
const THOUGHT: &str = r#"{"type":"assistant",VERSION,"message":{"id":"m1","content":[{"type":"thinking","thinking":""}],"stop_reason":"end_turn"}}
"#;
const LEFTOVERS: &str = r#"{"type":"user",VERSION,"isMeta":true,"message":{"content":"caveat"}}
{"type":"user",VERSION,"message":{"content":"<command-name>/exit</command-name>"}}
{"type":"user",VERSION,"message":{"content":"<local-command-stdout>Bye!</local-command-stdout>"}}
{"type":"last-prompt","lastPrompt":"\"stop_reason\":\"end_turn\"","sessionId":"s"}
"#;

#[test]
fn the_status_after_a_transcript() {
    let end = answer(r#""end_turn""#);
    let open = answer("null");
    let text_of_tool = answer(r#""tool_use""#);
    for (version, lines, expected) in [
        ("2.1.143", vec![], StreamStatus::Working),
        ("2.1.143", vec![THOUGHT], StreamStatus::Working),
        ("2.1.143", vec![THOUGHT, &end], StreamStatus::Done),
        (
            "2.1.143",
            vec![&end, DURATION, LEFTOVERS],
            StreamStatus::Done,
        ),
        ("2.1.143", vec![&text_of_tool], StreamStatus::Working),
        ("2.1.143", vec![TOOL], StreamStatus::Working),
        ("2.1.143", vec![&open], StreamStatus::Working),
        ("2.1.143", vec![&open, DURATION], StreamStatus::Done),
        ("2.1.12", vec![&open], StreamStatus::MaybeDone),
        ("2.1.12", vec![&open, DURATION], StreamStatus::Done),
        (
            "2.1.143",
            vec![TOOL, INTERRUPTION, LEFTOVERS],
            StreamStatus::Interrupted,
        ),
        ("2.1.143", vec![API_ERROR, DURATION], StreamStatus::Failed),
    ] {
        let text = transcript(version, &lines.concat());
        assert_eq!(status_of(&text), expected, "{text}");
        assert_eq!(
            status_of(text.trim_end()),
            expected,
            "without the last newline"
        );
    }
}

#[test]
fn background_tasks_keep_an_agent_unfinished() {
    let launch = r#"{"type":"user",VERSION,"message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]},"toolUseResult":{"status":"async_launched","agentId":"a1"}}
"#;
    let notified = r#"{"type":"queue-operation","operation":"enqueue","content":"<task-notification>\n<task-id>a1</task-id>\n<status>STATUS</status>\n</task-notification>","sessionId":"s"}
{"type":"user",VERSION,"origin":{"kind":"task-notification"},"message":{"content":"<task-notification>\n<task-id>a1</task-id>\n<status>STATUS</status>\n</task-notification>"}}
"#;
    let begun = [TOOL, launch, &answer(r#""end_turn""#).replace("m1", "m2")].concat();
    let status_after = |more: &str| status_of(&transcript("2.1.156", &[&begun, more].concat()));
    assert_eq!(status_after(""), StreamStatus::Background { tasks: 1 });
    assert_eq!(
        status_after(&notified.replace("STATUS", "killed")),
        StreamStatus::Done
    );
    assert_eq!(
        status_after(&notified.replace("STATUS", "completed")),
        StreamStatus::Working
    );
    // The parser starts in the middle, where only the number of tasks is known.
    let counted = DURATION.replace("VERSION", r#""pendingBackgroundAgentCount":2,VERSION"#);
    let middle = transcript("2.1.156", &[&answer(r#""end_turn""#), &*counted].concat());
    assert_eq!(status_of(&middle), StreamStatus::Background { tasks: 2 });
}

#[test]
fn a_transcript_from_its_middle_and_a_sub_agents() {
    let tail = transcript("2.1.143", &answer(r#""end_turn""#));
    let tail = tail.split_once('\n').unwrap().1;
    assert_eq!(status_of(tail), StreamStatus::Done);
    let side = |text: &str| {
        text.replace(
            r#""isSidechain":false"#,
            r#""isSidechain":true,"agentId":"a""#,
        )
    };
    let own = side(&transcript("2.1.143", &answer(r#""end_turn""#)));
    assert_eq!(
        events_of(Format::Auto, &own),
        [
            "prompt go",
            "token yes",
            "response 0/0",
            "turn end_turn",
            "completed yes"
        ]
    );
    // The end of a sub-agent in a main transcript is not the end of the agent.
    let main =
        transcript("1.0.98", TOOL) + &own.replace(r#","agentId":"a""#, "").replace("m1", "m9");
    assert_eq!(status_of(&main), StreamStatus::Working);
}

#[test]
fn turns_are_counted_once() {
    let text = transcript(
        "2.1.143",
        &[
            &*answer(r#""end_turn""#),
            &answer(r#""end_turn""#),
            DURATION,
            TOOL.replace("m1", "m2").as_str(),
            INTERRUPTION,
        ]
        .concat(),
    );
    let events = events_of(Format::Claude, &text);
    let turns = events
        .iter()
        .filter(|event| event.starts_with("turn"))
        .count();
    assert_eq!(turns, 1, "{events:?}");
    assert_eq!(events.last().unwrap(), "failed interrupted");
}
