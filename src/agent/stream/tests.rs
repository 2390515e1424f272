//! Tests of the formats on small records.

mod claude {
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
}
mod codex {
    //! Codex: `exec --json` and rollouts.

    use super::*;

    #[test]
    fn a_thread_of_turns() {
        let text = r#"{"type": "thread.started", "thread_id": "x"}
{"type": "turn.started"}
{"type":"item.started","item":{"id":"i1","type":"command_execution","command":"ls","exit_code":null,"status":"in_progress"}}
{"type":"error","message":"Reconnecting... 1/5"}
{"type":"item.completed","item":{"id":"i1","type":"command_execution","command":"ls","aggregated_output":"{\"type\":\"turn.completed\"}","exit_code":1,"status":"failed"}}
{"type":"item.started","item":{"id":"i2","type":"command_execution","command":"sleep","exit_code":null,"status":"in_progress"}}
{"type":"item.completed","item":{"id":"i2","type":"command_execution","command":"sleep","aggregated_output":"","exit_code":null,"status":"completed"}}
{"type":"item.completed","item":{"id":"i3","type":"web_search","query":"rust"}}
{"type":"item.completed","item":{"id":"i4","type":"mcp_tool_call","server":"s","tool":"t","arguments":{"a":1},"status":"completed","result":{"content":[{"text":"r"}]}}}
{"type":"item.completed","item":{"id":"i5","type":"agent_message","text":"all done"}}
{"type":"turn.completed","usage":{"input_tokens":7,"cached_input_tokens":3,"output_tokens":2}}
{"type":"turn.started"}
{"type":"turn.failed","error":{"message":"limit"}}
{"type":"thread.started"}
{"type":"turn.started"}
{"type":"item.started","item":{"id":"i1","type":"file_change","changes":[],"status":"in_progress"}}
"#;
        assert_eq!(
            events_of(Format::Auto, text),
            [
                "tool command_execution ls",
                "! codex reports: Reconnecting... 1/5",
                r#"failed command_execution {"type":"turn.completed"} 0ms"#,
                "tool command_execution sleep",
                "failed command_execution abandoned: no exit code 0ms",
                "tool web_search rust",
                "ok web_search rust 0ms",
                r#"tool s.t {"a":1}"#,
                "ok s.t  0ms",
                "token all done",
                "response 7/2 tools",
                "turn turn.completed",
                "completed all done",
                "failed limit",
                "tool file_change []",
                "failed the run was cut off before its end",
            ]
        );
    }

    #[test]
    fn commands_of_the_user_are_no_turns() {
        let text = r#"{"type":"event_msg","payload":{"type":"task_started","turn_id":"a"}}
{"type":"compacted","payload":{"message":"m"}}
{"type":"event_msg","payload":{"type":"task_complete","turn_id":"a","last_agent_message":null}}
{"type":"event_msg","payload":{"type":"task_started","turn_id":"b"}}
{"type":"response_item","payload":{"type":"message","id":"m1","role":"user","content":[{"type":"input_text","text":"<user_shell_command>\n<command>\necho hello\n</command>\n<result>\nExit code: 0\nDuration: 0.1 seconds\nOutput:\nhello\n\n</result>\n</user_shell_command>"}]}}
{"type":"event_msg","payload":{"type":"task_complete","turn_id":"b","last_agent_message":null}}
"#;
        let events = events_of(Format::Codex, text);
        assert_eq!(events[0], "tool user shell echo hello");
        assert!(events[1].starts_with("ok user shell Exit code: 0") && events[1].contains("hello"));
        assert!(
            !events.iter().any(|event| event.starts_with("turn")),
            "{events:?}"
        );
        // A prompt makes it a turn, even without an answer.
        let prompt = r#"{"type":"event_msg","payload":{"type":"user_message","message":"go"}}"#;
        let asked = text.replace(
            r#"{"type":"compacted""#,
            &format!("{prompt}\n{{\"type\":\"compacted\""),
        );
        let events = events_of(Format::Codex, &asked);
        assert_eq!(events[..2], ["prompt go", "turn task_complete"]);
    }

    #[test]
    fn an_error_without_the_end_of_its_turn() {
        let text = r#"{"type":"turn.started"}
{"type":"error","message":"gone"}"#;
        assert_eq!(
            events_of(Format::Codex, text),
            ["! codex reports: gone", "failed gone"]
        );
    }

    #[test]
    fn a_rollout_reports_each_message_once() {
        let text = r#"{"timestamp":"2026-05-16T20:57:12.000Z","type":"session_meta","payload":{"id":"x"}}
{"timestamp":"2026-05-16T20:57:12.000Z","type":"event_msg","payload":{"type":"task_started","turn_id":"a"}}
{"timestamp":"2026-05-16T20:57:12.000Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}}
{"timestamp":"2026-05-16T20:57:12.000Z","type":"event_msg","payload":{"type":"user_message","message":"go"}}
{"timestamp":"2026-05-16T20:57:13.000Z","type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{\"command\":\"ls\"}","call_id":"c1"}}
{"timestamp":"2026-05-16T20:57:13.500Z","type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"Exit code: 2\nWall time: 0.5 seconds\nOutput:\nno"}}
{"timestamp":"2026-05-16T20:57:14.000Z","type":"event_msg","payload":{"type":"agent_message","message":"ok"}}
{"timestamp":"2026-05-16T20:57:14.000Z","type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}}
{"timestamp":"2026-05-16T20:57:14.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":9},"last_token_usage":{"input_tokens":8,"output_tokens":1}}}}
{"timestamp":"2026-05-16T20:57:14.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"total_tokens":9},"last_token_usage":{"input_tokens":8,"output_tokens":1}}}}
{"timestamp":"2026-05-16T20:57:14.000Z","type":"event_msg","payload":{"type":"task_complete","turn_id":"a","last_agent_message":"ok"}}
"#;
        let events = [
            "prompt go",
            r#"tool shell {"command":"ls"}"#,
            "failed shell Exit code: 2\nWall time: 0.5 seconds\nOutput:\nno 500ms",
            "token ok",
            "response 8/1 tools",
            "turn task_complete",
            "completed ok",
        ];
        assert_eq!(events_of(Format::Auto, text), events);
        // Newer versions record items instead.
        let items = text
        .replace(r#""type":"user_message","message":"go""#, r#""type":"item_completed","item":{"type":"UserMessage","content":[{"type":"text","text":"go"}]}"#)
        .replace(r#""type":"agent_message","message":"ok""#, r#""type":"item_completed","item":{"type":"AgentMessage","content":[{"type":"Text","text":"ok"}]}"#);
        assert_eq!(events_of(Format::Codex, &items), events);
    }

    #[test]
    fn failed_turns_of_a_rollout() {
        let begun = r#"{"type":"event_msg","payload":{"type":"task_started","turn_id":"a"}}
"#;
        let aborted = r#"{"type":"event_msg","payload":{"type":"turn_aborted","reason":"interrupted"}}
"#;
        let failed = r#"{"type":"event_msg","payload":{"type":"error","message":"no"}}
{"type":"event_msg","payload":{"type":"task_complete","last_agent_message":null}}
"#;
        let with_error = r#"{"type":"event_msg","payload":{"type":"task_complete","last_agent_message":null,"error":{"message":"unexpected status 401"}}}
"#;
        let call = r#"{"type":"response_item","payload":{"type":"custom_tool_call","status":"completed","call_id":"c","name":"apply_patch","input":"p"}}
"#;
        assert_eq!(status_of(begun), StreamStatus::Working);
        assert_eq!(status_of(&[begun, call].concat()), StreamStatus::Working);
        assert_eq!(
            status_of(&[begun, aborted].concat()),
            StreamStatus::Interrupted
        );
        assert_eq!(status_of(&[begun, failed].concat()), StreamStatus::Failed);
        assert_eq!(
            status_of(&[begun, with_error].concat()),
            StreamStatus::Failed
        );
        assert_eq!(
            events_of(Format::Codex, &[begun, with_error].concat()),
            ["failed unexpected status 401"]
        );
        // An error of one turn does not affect the next turn.
        assert_eq!(
            status_of(&[begun, with_error, begun].concat()),
            StreamStatus::Working
        );
        assert_eq!(
            events_of(
                Format::Codex,
                &[begun, &begun.replace("\"a\"", "\"b\"")].concat()
            ),
            ["failed the run was cut off before its end"; 2]
        );
    }

    #[test]
    fn an_old_rollout_has_no_envelope() {
        let text = r#"{"id":"x","timestamp":"2025-05-16T20:57:12.000Z","instructions":null}
{"record_type":"state"}
{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"}]}
{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}
{"type":"function_call","name":"shell","arguments":"{}","call_id":"c1"}
{"type":"function_call_output","call_id":"c1","output":"{\"output\":\"x\",\"metadata\":{\"exit_code\":0}}"}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}
"#;
        assert_eq!(status_of(text), StreamStatus::MaybeDone);
        assert_eq!(
            events_of(Format::Auto, text),
            [
                "prompt go",
                "tool shell {}",
                "ok shell x 0ms",
                "token ok",
                "response 0/0 tools",
                "turn inferred: the stream ended after an answer",
                "completed ok",
            ]
        );
    }
}
mod copilot {
    //! Copilot CLI: session files.

    use super::*;

    fn events_and_status(lines: &[&str]) -> (Vec<String>, StreamStatus) {
        let mut parser = StreamParser::of(StreamFormat::CopilotSession);
        let (now, mut events) = (Timestamp::from_micros(0), Vec::new());
        for line in lines {
            parser.push(format!("{line}\n").as_bytes(), now, &mut events);
        }
        (events.iter().map(short).collect(), parser.status())
    }

    const PROMPT: &str = r#"{"type":"user.message","data":{"content":"do it","transformedContent":"<x>do it"},"timestamp":"2026-11-23T23:08:38.000Z"}"#;
    const START: &str = r#"{"type":"assistant.turn_start","data":{"turnId":"0"}}"#;
    const CALLS: &str = r#"{"type":"assistant.message","data":{"content":"I will.","toolRequests":[{"toolCallId":"c1","name":"bash"}]}}"#;
    const TOOL: &str = r#"{"type":"tool.execution_start","data":{"toolCallId":"c1","toolName":"bash","arguments":{"command":"ls"}},"timestamp":"2026-11-23T23:08:39.000Z"}"#;
    const RESULT: &str = r#"{"type":"tool.execution_complete","data":{"toolCallId":"c1","success":true,"result":{"content":"README.md"}},"timestamp":"2026-11-23T23:08:39.500Z"}"#;
    const USAGE: &str =
        r#"{"type":"session.usage_record","data":{"usage":{"inputTokens":7,"outputTokens":2}}}"#;
    const ANSWER: &str =
        r#"{"type":"assistant.message","data":{"content":"Done.","toolRequests":[]}}"#;
    const END: &str = r#"{"type":"assistant.turn_end","data":{"turnId":"0"}}"#;
    const ERROR: &str = r#"{"type":"session.error","data":{"errorType":"authentication","message":"Authentication failed"}}"#;

    #[test]
    fn the_round_without_tools_ends_the_turn() {
        let lines = [
            PROMPT, START, CALLS, TOOL, RESULT, END, START, USAGE, ANSWER, END,
        ];
        let (events, status) = events_and_status(&lines);
        assert_eq!(
            events,
            [
                "prompt do it",
                "token I will.",
                "response 0/0 tools",
                r#"tool bash {"command":"ls"}"#,
                "ok bash README.md 500ms",
                "token Done.",
                "response 7/2",
                "turn assistant.turn_end",
            ]
        );
        assert_eq!(status, StreamStatus::Done);
        assert_eq!(events_and_status(&lines[..6]).1, StreamStatus::Working);
    }

    #[test]
    fn all_usage_of_a_session_is_counted() {
        // A sub-agent's message is not the agent's.
        let of_sub_agent =
            r#"{"type":"assistant.message","data":{"content":"I look.","parentToolCallId":"c1"}}"#;
        let lines = [
            PROMPT,
            START,
            USAGE,
            of_sub_agent,
            USAGE,
            ANSWER,
            END,
            USAGE,
        ];
        let (mut parser, mut events) = (StreamParser::of(StreamFormat::CopilotSession), Vec::new());
        let now = crate::timestamp::Timestamp::default();
        parser.push(lines.join("\n").as_bytes(), now, &mut events);
        parser.finish(now, &mut events);
        let responses = events.iter().map(short);
        let responses: Vec<_> = responses
            .filter(|event| event.starts_with("response"))
            .collect();
        assert_eq!(responses, ["response 14/4", "response 7/2"]);
    }

    #[test]
    fn a_round_without_a_message_has_failed() {
        let (events, status) = events_and_status(&[PROMPT, START, END, ERROR]);
        assert_eq!(events, ["prompt do it", "failed Authentication failed"]);
        assert_eq!(status, StreamStatus::Failed);
    }
}
mod cuts {
    //! Any bytes, cut anywhere, give the same events in bounded memory and without a panic.

    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Records of all formats, which random bytes would never contain.
    const RECORDS: &[&str] = &[
        r#"{"type":"system","subtype":"init","session_id":"s"}"#,
        r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m","type":"message"}},"session_id":"s"}"#,
        r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"text":"é\ud83d"}},"session_id":"s"}"#,
        r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"t","name":"n","input":{}}]},"session_id":"s"}"#,
        r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]},"session_id":"s"}"#,
        r#"{"is_error":false,"subtype":"success","result":"x","type":"result"}"#,
        r#"{"type":"user","isSidechain":false,"message":{"content":"p"},"sessionId":"s","version":"2.1.12"}"#,
        r#"{"type":"assistant","isSidechain":false,"message":{"id":"m","content":[{"type":"text","text":"a"}],"stop_reason":null},"sessionId":"s"}"#,
        r#"{"type":"assistant","isSidechain":true,"message":{"id":"n","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn"},"sessionId":"s"}"#,
        r#"{"type":"system","subtype":"turn_duration","pendingBackgroundAgentCount":2,"sessionId":"s"}"#,
        r#"{"type":"thread.started"}"#,
        r#"{"type":"turn.started"}"#,
        r#"{"type":"item.started","item":{"id":"i","type":"command_execution","command":"ls"}}"#,
        r#"{"type":"item.completed","item":{"id":"i","type":"command_execution","exit_code":-1,"status":"failed"}}"#,
        r#"{"type":"turn.completed","usage":{"input_tokens":18446744073709551615,"output_tokens":-1}}"#,
        r#"{"timestamp":"2026-05-16T20:57:12.5Z","type":"event_msg","payload":{"type":"task_started","turn_id":"a"}}"#,
        r#"{"timestamp":1e300,"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":{"success":false,"content":[]}}}"#,
        r#"{"type":"init","timestamp":"x","session_id":"s","model":"m"}"#,
        r#"{"type":"tool_use","tool_id":"t","tool_name":"n","parameters":[1,{"a":null}]}"#,
        r#"{"sessionId":"s","projectHash":"h"}"#,
        r#"{"type":"metadata","protocol_version":"1.10"}"#,
        r#"{"timestamp":-1e9,"message":{"type":"TurnBegin","payload":{"user_input":"p"}}}"#,
        r#"{"message":{"type":"StepBegin","payload":{"n":1}}}"#,
        r#"{"message":{"type":"ToolCall","payload":{"id":"t","function":{"name":"n","arguments":{}}}}}"#,
        r#"{"message":{"type":"StatusUpdate","payload":{"token_usage":{"output":-1}}}}"#,
        r#"{"message":{"type":"TurnEnd","payload":{}}}"#,
        r#"{"recovery_journal_record_version":1,"payload":{"delta":[{"op":"append_entry","entry":{"type":"effect","id":"t"}}]},"type":"projection_delta"}"#,
        r#"{"payload":{"delta":[{"op":"set_envelope","state":{"latestTurn":{"id":"a","status":"completed"}}},1]},"type":"projection_delta"}"#,
        r#"{"id":"2","type":"gemini","content":"x","toolCalls":[{"id":"t","status":"success"}]}"#,
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\"}}\r\n",
        "data: {\"type\":\"message_stop\"}\r",
        "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n",
        "data: [DONE]\n",
        "data: {\"type\":\"response.created\",\n data: x\ndata: \"response\":{}}\n",
        "not json",
        "\0\0\0",
        "[1,2]",
        "{",
        "",
    ];

    fn events(
        format: Format,
        pieces: &[&[u8]],
        bytes_max: usize,
    ) -> (Vec<AgentEvent>, StreamStatus) {
        let mut parser = StreamParser::with_record_bytes_max(format, bytes_max);
        let (now, mut events) = (Timestamp::from_micros(5), Vec::new());
        for piece in pieces {
            parser.push(piece, now, &mut events);
        }
        parser.finish(now, &mut events);
        (events, parser.status())
    }

    fn stream() -> impl Strategy<Value = Vec<u8>> {
        let ends = select(vec!["\n", "\r\n", "", "\n\n"]);
        let hurt = (any::<prop::sample::Index>(), any::<u8>(), 0..4u8);
        let records = proptest::collection::vec((select(RECORDS), ends), 0..12);
        (records, proptest::collection::vec(hurt, 0..3)).prop_map(|(records, hurts)| {
            let mut bytes: Vec<u8> = records
                .into_iter()
                .flat_map(|(record, end)| [record, end])
                .flat_map(str::bytes)
                .collect();
            for (at, byte, how) in hurts {
                let at = at.index(bytes.len().max(1)).min(bytes.len());
                match how {
                    0 if at < bytes.len() => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    2 => drop(bytes.drain(at..(at + usize::from(byte)).min(bytes.len()))),
                    _ => {}
                }
            }
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn cuts_do_not_matter(
            bytes in stream(),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
            format in select(Format::ALL),
            bytes_max in select(vec![20, 90, 10_000]),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            prop_assert_eq!(
                events(format, &pieces, bytes_max),
                events(format, &[&bytes], bytes_max)
            );
        }

        #[test]
        fn single_bytes_give_the_same_events(bytes in stream(), format in select(Format::ALL)) {
            let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(
                events(format, &pieces, 10_000),
                events(format, &[&bytes], 10_000)
            );
        }

        #[test]
        fn any_bytes_are_accepted(bytes in any::<Vec<u8>>(), format in select(Format::ALL)) {
            events(format, &[&bytes], 100);
        }
    }

    #[test]
    fn an_oversized_record_is_reported_and_the_next_is_read() {
        let begun = r#"{"type":"turn.started"}"#;
        let long = format!(
            r#"{{"type":"item.completed","item":{{"text":"{}"}}}}"#,
            "x".repeat(200)
        );
        let text = format!("{begun}\n{long}\n{begun}\n");
        let (events, _) = events(Format::Codex, &[text.as_bytes()], 100);
        let events: Vec<String> = events.iter().map(short).collect();
        assert_eq!(
            events[0],
            format!("! a record is too long: {} bytes skipped", long.len())
        );
        assert_eq!(events.len(), 3, "{events:?}");
    }
}
mod gemini {
    //! Gemini CLI: stream-json and session files. Also JSON of an unknown agent.

    use super::*;

    #[test]
    fn a_run() {
        let text = r#"{"type":"init","timestamp":"2026-11-21T21:12:29.000Z","session_id":"s","model":"m"}
{"type":"message","timestamp":"2026-11-21T21:12:29.000Z","role":"user","content":"go"}
{"type":"message","timestamp":"2026-11-21T21:12:29.000Z","role":"assistant","content":"one ","delta":true}
{"type":"message","timestamp":"2026-11-21T21:12:29.000Z","role":"assistant","content":"two","delta":true}
{"type":"message","timestamp":"2026-11-21T21:12:29.000Z","role":"assistant","content":"one two"}
{"type":"tool_use","timestamp":"2026-11-21T21:12:29.000Z","tool_name":"ls","tool_id":"t","parameters":{}}
{"type":"tool_result","timestamp":"2026-11-21T21:12:29.063Z","tool_id":"t","status":"error","error":{"message":"no"}}
{"type":"result","timestamp":"2026-11-21T21:12:30.000Z","status":"success","stats":{"input_tokens":7,"output_tokens":2}}
{"type":"init","timestamp":"2026-11-21T21:12:31.000Z","session_id":"s","model":"m"}
{"type":"result","timestamp":"2026-11-21T21:12:32.000Z","status":"error","error":{"message":"quota"}}
{"type":"init","timestamp":"2026-11-21T21:12:31.000Z","session_id":"s","model":"m"}
"#;
        assert_eq!(
            events_of(Format::Auto, text),
            [
                "prompt go",
                "token one ",
                "token two",
                "tool ls {}",
                "failed ls no 63ms",
                "response 7/2 tools",
                "turn result",
                "completed one two",
                "failed quota",
                "failed the run was cut off before its end",
            ]
        );
    }

    #[test]
    fn a_session_with_rewritten_messages() {
        let text = r#"{"sessionId":"s","projectHash":"h","startTime":"2026-06-11T21:05:11.000Z","kind":"main"}
{"$set":{"messages":[{"id":"0","type":"user","content":[{"text":"<session_context>\nThis is the Gemini CLI."}]}]}}
{"id":"1","timestamp":"2026-06-11T21:05:24.000Z","type":"user","content":[{"text":"go"}]}
{"id":"2","timestamp":"2026-06-11T21:05:29.000Z","type":"gemini","content":"I run it","tokens":{"input":7,"output":1}}
{"id":"2","timestamp":"2026-06-11T21:05:29.000Z","type":"gemini","content":"I run it.","toolCalls":[{"id":"t","name":"ls","args":{},"status":"success","timestamp":"2026-06-11T21:05:29.500Z","result":[{"functionResponse":{"response":{"output":"x"}}}]}],"tokens":{"input":7,"output":2}}
{"id":"3","timestamp":"2026-06-11T21:05:29.000Z","type":"user","content":[{"functionResponse":{"id":"t"}}]}
{"id":"4","timestamp":"2026-06-11T21:05:31.000Z","type":"gemini","content":"done","tokens":{"input":8,"output":1}}
{"$set":{"lastUpdated":"2026-06-11T21:05:31.000Z"}}
"#;
        assert_eq!(status_of(text), StreamStatus::MaybeDone);
        assert_eq!(
            events_of(Format::Auto, text),
            [
                "prompt go",
                "token I run it",
                "token .",
                "tool ls {}",
                "ok ls x 500ms",
                "response 7/2 tools",
                "token done",
                "response 8/1",
                "turn inferred: the stream ended after an answer",
                "completed done",
            ]
        );
        let failed = r#"{"id":"5","type":"error","content":"[API Error]","timestamp":"2026-06-11T21:05:31.000Z"}"#;
        assert_eq!(status_of(&[text, failed].concat()), StreamStatus::Failed);
        // Gemini's records after an error change nothing.
        let after_error = r#"
{"$set":{"lastUpdated":"2026-06-11T21:05:31.000Z"}}
{"id":"6","type":"info","content":"This request failed. Press F12 for diagnostics","timestamp":"2026-06-11T21:05:31.000Z"}
"#;
        let with_hint = [text, failed, after_error].concat();
        assert_eq!(status_of(&with_hint), StreamStatus::Failed);
        let events = events_of(Format::Gemini, &with_hint);
        assert_eq!(
            events.last().map(String::as_str),
            Some("failed [API Error]")
        );
        let cancelled = r#"{"id":"7","type":"info","content":"Request cancelled.","timestamp":"2026-06-11T21:05:31.000Z"}
"#;
        assert_eq!(
            status_of(&[text, cancelled].concat()),
            StreamStatus::Interrupted
        );
        // The tools that were cancelled follow, and their results.
        let result = r#"{"id":"10","type":"gemini","content":"","toolCalls":[{"id":"u","name":"ls","args":{},"status":"cancelled"}],"timestamp":"2026-06-11T21:05:31.000Z"}
{"id":"9","type":"user","content":[{"functionResponse":{"id":"t","name":"ls","response":{"output":"x"}}}],"timestamp":"2026-06-11T21:05:31.000Z"}
"#;
        assert_eq!(
            status_of(&[text, cancelled, result].concat()),
            StreamStatus::Interrupted
        );
        let again = r#"{"id":"8","type":"user","content":[{"text":"once more"}],"timestamp":"2026-06-11T21:05:32.000Z"}
"#;
        assert_eq!(
            status_of(&[text, cancelled, again].concat()),
            StreamStatus::Working
        );
    }

    #[test]
    fn json_of_an_unknown_agent() {
        let text = r#"{"what":"\"type\":\"result\""}
{"message":{"content":"hi","stop_reason":"end_turn"}}
{"type":"result","result":"ok"}
{"type":"result","error":{"message":"no"}}
"#;
        assert_eq!(
            events_of(Format::Auto, text),
            ["turn end_turn", "turn result", "completed ok", "failed no"]
        );
        assert!(events_of(Format::Auto, "{\"a\":1}\n").is_empty());
        assert!(events_of(Format::Auto, "plain text\n{\"a\":1}\nmore\n").is_empty());
        assert!(events_of(Format::Text, text).is_empty());
    }

    #[test]
    fn messages_of_a_snapshot_are_reported_once() {
        let text = r#"{"sessionId":"s","projectHash":"h","startTime":"2026-11-24T03:06:14.000Z","kind":"main"}
{"$set":{"messages":[{"id":"1","type":"user","content":[{"text":"go"}]},{"id":"2","type":"gemini","content":"I list","toolCalls":[{"id":"t","name":"ls","args":{},"status":"success","result":[{"functionResponse":{"response":{"output":"x"}}}]}]}]}}
{"$set":{"messages":[{"id":"1","type":"user","content":[{"text":"go"}]},{"id":"2","type":"gemini","content":"I list them."},{"id":"3","type":"gemini","content":"Two."}]}}
{"$set":{"messages":[{"id":"7","type":"user","content":[{"text":"go"}]},{"id":"8","type":"gemini","content":"rewritten"},{"id":"3","type":"gemini","content":"Two."},{"id":"9","type":"user","content":[{"text":"more"}]}]}}
{"$set":{"messages":[{"id":"17","type":"user","content":[{"text":"go"}]},{"id":"18","type":"user","content":[{"text":"more"}]}]}}
{"id":"10","type":"gemini","content":"Yes."}
"#;
        assert_eq!(
            events_of(Format::Gemini, text),
            [
                "prompt go",
                "token I list",
                "tool ls {}",
                "ok ls x 0ms",
                "token  them.",
                "response 0/0 tools",
                "token Two.",
                "response 0/0",
                "turn inferred: the next prompt",
                "prompt more",
                "token Yes.",
                "response 0/0",
                "turn inferred: the stream ended after an answer",
                "completed Yes.",
            ]
        );
    }

    #[test]
    fn messages_rewritten_after_an_interruption_are_not_reported_again() {
        let text = r#"{"sessionId":"s","projectHash":"h","startTime":"2026-11-24T03:06:14.000Z","kind":"main"}
{"id":"1","timestamp":"2026-11-24T03:06:16.000Z","type":"user","content":[{"text":"go"}]}
{"id":"2","timestamp":"2026-11-24T03:06:16.000Z","type":"info","content":"Request cancelled."}
{"id":"3","timestamp":"2026-11-24T03:06:25.000Z","type":"user","content":[{"text":"<session_context>\nThis is the Gemini CLI."}]}
{"$set":{"lastUpdated":"2026-11-24T03:06:25.000Z"}}
{"id":"4","timestamp":"2026-11-24T03:06:25.000Z","type":"gemini","content":[{"text":"Done before."}]}
{"$set":{"messages":[{"id":"3","type":"user","content":[{"text":"<session_context>"}]}]}}
{"id":"5","timestamp":"2026-11-24T03:06:31.000Z","type":"user","content":[{"text":"again"}]}
{"id":"6","timestamp":"2026-11-24T03:06:32.000Z","type":"gemini","content":"Now.","tokens":{"input":7,"output":2}}
{"id":"7","timestamp":"2026-11-24T03:06:33.000Z","type":"user","content":[{"text":"more"}]}
"#;
        let events = events_of(Format::Auto, text);
        let prompts = ["prompt go", "prompt again", "token Now."];
        let is_reported = |prompt: &&str| events.iter().any(|event| event == prompt);
        assert!(prompts.iter().all(is_reported), "{events:?}");
        let is_old =
            |event: &String| event.contains("Done before") || event.contains("session_context");
        assert!(!events.iter().any(is_old), "{events:?}");
    }
}
mod opencode {
    //! opencode: `run --format json`.

    use super::*;

    const START: &str = r#"{"type":"step_start","timestamp":1767445000100,"sessionID":"ses_1","part":{"id":"p1","sessionID":"ses_1","messageID":"m1","type":"step-start","snapshot":"f3"}}
"#;
    const TOOL: &str = r#"{"type":"tool_use","timestamp":1767445000450,"sessionID":"ses_1","part":{"type":"tool","callID":"c1","tool":"bash","state":{"status":"completed","input":{"command":"ls"},"output":"{\"type\":\"step_finish\"}","time":{"start":1767445000200,"end":1767445000350}}}}
"#;
    const TEXT: &str = r#"{"type":"text","timestamp":1767445001100,"sessionID":"ses_1","part":{"type":"text","text":"Found it."}}
"#;
    const ERROR: &str = r#"{"type":"error","timestamp":1767445002000,"sessionID":"ses_1","error":{"name":"APIError","data":{"message":"Rate limit exceeded","statusCode":429}}}
"#;

    /// Returns the record that ends a step with this reason and these token counts.
    fn finish(reason: &str, input: u64, output: u64) -> String {
        format!(
            r#"{{"type":"step_finish","timestamp":1767445001250,"sessionID":"ses_1","part":{{"type":"step-finish","reason":"{reason}","cost":0.01,"tokens":{{"input":{input},"output":{output},"reasoning":0}}}}}}"#
        ) + "\n"
    }

    #[test]
    fn a_run_of_two_steps() {
        let failing = TOOL
            .replace("c1", "c2")
            .replace("completed", "error")
            .replace(
                r#""output":"{\"type\":\"step_finish\"}""#,
                r#""error":"no""#,
            );
        let text = [
            START,
            TOOL,
            &failing,
            &finish("tool-calls", 7, 2),
            START,
            TEXT,
            &finish("stop", 9, 3),
        ]
        .concat();
        let events = [
            r#"tool bash {"command":"ls"}"#,
            r#"ok bash {"type":"step_finish"} 150ms"#,
            r#"tool bash {"command":"ls"}"#,
            "failed bash no 150ms",
            "response 7/2 tools",
            "token Found it.",
            "response 9/3",
            "turn stop",
            "completed Found it.",
        ];
        assert_eq!(events_of(Format::Auto, &text), events);
        assert_eq!(events_of(Format::Opencode, &text), events);
        assert_eq!(status_of(&text), StreamStatus::Done);
    }

    #[test]
    fn a_step_ends_for_its_reason() {
        for (lines, status) in [
            (vec![START], StreamStatus::Working),
            (vec![START, TOOL], StreamStatus::Working),
            (
                vec![START, TOOL, &finish("tool-calls", 1, 1)],
                StreamStatus::Working,
            ),
            // Another step follows, although the provider reports `stop`.
            (
                vec![START, TOOL, &finish("stop", 1, 1)],
                StreamStatus::Working,
            ),
            (
                vec![START, TOOL, TEXT, &finish("stop", 1, 1)],
                StreamStatus::Done,
            ),
            (
                vec![START, TEXT, &finish("length", 1, 1)],
                StreamStatus::Failed,
            ),
            (vec![START, &finish("unknown", 0, 0)], StreamStatus::Failed),
            (
                vec![START, TEXT, &finish("unknown", 1, 1)],
                StreamStatus::MaybeDone,
            ),
            (vec![START, ERROR], StreamStatus::Failed),
            (vec![ERROR], StreamStatus::Failed),
        ] {
            assert_eq!(status_of(&lines.concat()), status, "{lines:?}");
        }
        let aborted = ERROR.replace("APIError", "MessageAbortedError");
        assert_eq!(
            status_of(&[START, &aborted].concat()),
            StreamStatus::Interrupted
        );
    }

    #[test]
    fn a_run_ends_once() {
        let stopped = [START, TEXT, &finish("stop", 1, 1)].concat();
        let ends = |text: &str| {
            let mut events = events_of(Format::Auto, text);
            events.retain(|event| event.starts_with("completed") || event.starts_with("failed"));
            events
        };
        assert_eq!(
            ends(&[stopped.as_str(), ERROR].concat()),
            ["failed Rate limit exceeded"]
        );
        assert_eq!(
            ends(&[START, TEXT].concat()),
            ["failed the run was cut off before its end"]
        );
        // Several runs in one file.
        let other = START.replace("ses_1", "ses_2");
        assert_eq!(
            ends(&[stopped.as_str(), other.as_str()].concat()),
            [
                "completed Found it.",
                "failed the run was cut off before its end"
            ]
        );
        assert_eq!(
            ends(&[START, &stopped.replace("ses_1", "ses_2")].concat()),
            [
                "failed the run was cut off before its end",
                "completed Found it."
            ]
        );
    }
}
mod pending {
    //! Records that may follow the end of a turn: hooks, goals, wake-ups, the next prompt, the
    //! remainder of a record.

    use std::time::Duration;

    use super::*;
    use crate::agent::stream::event::FollowUp;

    const LINE: &str =
        r#""isSidechain":false,"sessionId":"s","version":"2.1.143","entrypoint":"cli""#;

    /// Returns lines of a transcript with their common fields.
    fn lines(lines: &[&str]) -> String {
        let lines = lines.iter().map(|line| line.replace("LINE", LINE) + "\n");
        lines.collect()
    }

    fn parser(format: Format, text: &str) -> StreamParser {
        let mut parser = StreamParser::new(format);
        let (now, mut events) = (Timestamp::from_micros(0), Vec::new());
        parser.push(text.as_bytes(), now, &mut events);
        parser.flush_idle(now, &mut events);
        parser
    }

    const PROMPT: &str = r#"{"type":"user",LINE,"message":{"content":"go"}}"#;
    const END: &str = r#"{"type":"assistant",LINE,"timestamp":"2026-05-18T20:53:01Z","message":{"id":"m1","content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn"}}"#;
    const FEEDBACK: &str = r#"{"type":"user",LINE,"isMeta":true,"message":{"content":"Stop hook feedback:\n[all tests]: not yet"}}"#;
    const SUMMARY: &str =
        r#"{"type":"system",LINE,"subtype":"stop_hook_summary","preventedContinuation":false}"#;
    const DURATION: &str = r#"{"type":"system",LINE,"subtype":"turn_duration"}"#;
    const GOAL_SET: &str = r#"{"type":"attachment",LINE,"attachment":{"type":"goal_status","met":false,"sentinel":true}}"#;
    const GOAL_UNMET: &str =
        r#"{"type":"attachment",LINE,"attachment":{"type":"goal_status","met":false}}"#;
    const GOAL_MET: &str = r#"{"type":"attachment",LINE,"attachment":{"type":"goal_status","met":true,"sentinel":true}}"#;
    const WAKE_UP: &str = r#"{"type":"user",LINE,"timestamp":"2026-05-18T20:52:59Z","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]},"toolUseResult":{"scheduledFor":1779137640000,"clampedDelaySeconds":60}}"#;
    const INTERRUPTION: &str = r#"{"type":"user",LINE,"message":{"content":[{"type":"text","text":"[Request interrupted by user]"}]}}"#;
    const LAST_PROMPT: &str = r#"{"type":"last-prompt","lastPrompt":"go","sessionId":"s"}"#;
    const SNAPSHOT: &str = r#"{"type":"file-history-snapshot","messageId":"x"}"#;

    #[test]
    fn records_after_a_turn_may_make_the_agent_continue() {
        use FollowUp::{Confirmation, Goal, Nothing, Prompt};
        use StreamStatus::{Done, Interrupted, Working};
        let wake = FollowUp::Wake(Duration::from_secs(61));
        let wakes = StreamStatus::Background { tasks: 1 };
        let side = END.replace("LINE", r#""isSidechain":true,"entrypoint":"cli""#);
        let sdk = END.replace("LINE", &LINE.replace("cli", "sdk-cli"));
        for (records, status, expected) in [
            (&[PROMPT, END][..], Done, Confirmation),
            (&[PROMPT, END, SUMMARY], Done, Nothing),
            (&[PROMPT, END, DURATION], Done, Nothing),
            (&[PROMPT, &sdk], Done, Nothing),
            (&[side.as_str()], Done, Nothing),
            (&[PROMPT, END, FEEDBACK], Working, Nothing),
            (&[PROMPT, END, FEEDBACK, SUMMARY], Working, Nothing),
            (&[PROMPT, END, SUMMARY, FEEDBACK], Working, Nothing),
            (
                &[PROMPT, END, FEEDBACK, SUMMARY, END, SUMMARY],
                Done,
                Nothing,
            ),
            (&[GOAL_SET, PROMPT, END], Done, Goal),
            (&[GOAL_SET, PROMPT, END, GOAL_UNMET], Working, Nothing),
            (
                &[GOAL_SET, PROMPT, END, GOAL_UNMET, SUMMARY],
                Working,
                Nothing,
            ),
            (&[GOAL_SET, PROMPT, END, GOAL_MET], Done, Confirmation),
            (&[GOAL_SET, PROMPT, END, GOAL_MET, SUMMARY], Done, Nothing),
            (&[PROMPT, WAKE_UP, END, DURATION], wakes, wake),
            (&[PROMPT, WAKE_UP, END, GOAL_MET, DURATION], Done, Nothing),
            (&[PROMPT, INTERRUPTION], Interrupted, Prompt),
            (&[PROMPT, INTERRUPTION, SNAPSHOT], Interrupted, Prompt),
            (
                &[PROMPT, INTERRUPTION, LAST_PROMPT],
                Interrupted,
                Confirmation,
            ),
            (&[PROMPT, INTERRUPTION, PROMPT], Working, Nothing),
        ] {
            let text = lines(records);
            let parser = parser(Format::Claude, &text);
            let found = (parser.status(), parser.follow_up());
            assert_eq!(found, (status, expected), "{text}");
        }
    }

    #[test]
    fn a_quoted_hook_message_does_not_count() {
        let quoted = FEEDBACK.replace("Stop hook", "He wrote: Stop hook");
        let text = lines(&[PROMPT, END, SUMMARY, &quoted]);
        assert_eq!(status_of(&text), StreamStatus::Done);
        let events = events_of(Format::Claude, &lines(&[PROMPT, END, FEEDBACK]));
        assert!(!events.contains(&"prompt Stop hook feedback".to_owned()));
        assert_eq!(
            events.last().unwrap(),
            "failed the run was cut off before its end"
        );
    }

    #[test]
    fn a_stopped_turn_is_reported_in_order() {
        let text = lines(&[PROMPT, INTERRUPTION, PROMPT, END]);
        let reports_a_stop = |format, text: &str| {
            let events = events_of(format, text);
            events
                .iter()
                .any(|event| event.starts_with("! the turn was stopped: "))
        };
        assert!(reports_a_stop(Format::Claude, &text));
        let stream = text.replace("\"sessionId\"", "\"session_id\"");
        assert!(reports_a_stop(Format::Claude, &stream));
        let rollout = r#"{"type":"event_msg","payload":{"type":"task_started","turn_id":"a"}}
{"type":"event_msg","payload":{"type":"turn_aborted","turn_id":"a","reason":"interrupted"}}
"#;
        assert!(reports_a_stop(Format::Codex, rollout));
        assert_eq!(parser(Format::Codex, rollout).follow_up(), FollowUp::Prompt);
    }

    #[test]
    fn tasks_that_began_before_the_middle_are_known() {
        let launch = r#"{"type":"user",LINE,"message":{"content":[]},"toolUseResult":{"status":"async_launched","agentId":"a1"}}"#;
        let ended = r#"{"type":"queue-operation","content":"<task-notification>\n<task-id>a1</task-id>\n<status>completed</status>\n</task-notification>","sessionId":"s"}"#;
        let mut parser = parser(Format::Claude, &lines(&[PROMPT, END, SUMMARY]));
        assert_eq!(parser.status(), StreamStatus::Done);
        parser.read_earlier(lines(&[launch]).as_bytes());
        assert_eq!(parser.status(), StreamStatus::Background { tasks: 1 });
        parser.read_earlier(lines(&[launch, ended]).as_bytes());
        assert_eq!(parser.status(), StreamStatus::Done);
        assert_eq!(parser.evidence(), "stop_reason end_turn");
    }

    #[test]
    fn records_of_another_format_are_counted() {
        let text = r#"{"type":"thread.started"}
{"type":"turn.started"}
{"type":"turn.completed","usage":{}}
{"type":"newer.codex"}
{"type":"user","message":{"content":"go"},"session_id":"s"}
{"type":"result","subtype":"success","is_error":false,"session_id":"s"}
"#;
        let events = events_of(Format::Auto, text);
        let found = "! 2 records of another format (claude stream-json) were ignored";
        assert!(events.contains(&found.to_owned()), "{events:?}");
        // The fields distinguish record types that both formats have.
        let claude = lines(&[r#"{"type":"system","subtype":"init","session_id":"s"}"#]);
        let gemini =
            r#"{"type":"result","timestamp":"2026-05-18T20:52:59Z","status":"success","stats":{}}"#;
        assert_eq!(status_of(&(claude + gemini)), StreamStatus::Working);
    }

    #[test]
    fn only_an_explicit_false_is_a_success() {
        let result = |is_error: &str| {
            let text = format!(
                "{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}}\n{{\"type\":\"result\",\"subtype\":\"success\",{is_error}\"result\":\"r\"}}\n"
            );
            let parser = parser(Format::Claude, &text);
            (parser.status(), parser.evidence().to_owned())
        };
        for (is_error, status, shown) in [
            (
                "\"is_error\":false,",
                StreamStatus::Done,
                ", is_error false",
            ),
            ("\"is_error\":1,", StreamStatus::Failed, ", is_error 1"),
            (
                "\"is_error\":\"true\",",
                StreamStatus::Failed,
                ", is_error \"true\"",
            ),
            ("", StreamStatus::Done, ", without is_error"),
        ] {
            let (found, evidence) = result(is_error);
            assert_eq!(found, status, "{is_error}");
            assert_eq!(evidence, format!("result: subtype success{shown}"));
        }
        assert_eq!(
            events_of(
                Format::Json,
                "{\"type\":\"result\",\"is_error\":1,\"result\":\"r\"}\n"
            ),
            ["failed r"]
        );
    }

    #[test]
    fn a_stream_of_events_settles_without_its_last_lines() {
        let message =
            r#"{"type":"message_start","message":{"id":"m","type":"message","usage":{}}}"#;
        let stop = r#"{"type":"message_stop"}"#;
        for (end, is_open) in [
            ("", false),
            ("\n", false),
            ("\n\n", false),
            ("\ndata: {\"ty", true),
        ] {
            for name in ["data: ", "data:", ""] {
                let text = format!("data: {message}\n\n{name}{stop}{end}");
                let parser = parser(Format::Sse, &text);
                if !is_open {
                    assert_eq!(parser.status(), StreamStatus::Done, "{text:?}");
                }
                assert_eq!(parser.is_open(), is_open, "{text:?}");
            }
        }
        let chunk = |more: &str| {
            format!("data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",{more}}}\n\n")
        };
        let text = chunk(r#""choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]"#);
        assert_eq!(
            status_of(&text),
            StreamStatus::MaybeDone,
            "an error may come"
        );
        assert_eq!(
            status_of(&(text.clone() + "data: [DONE]")),
            StreamStatus::Done
        );
        let half = text + "data: [DO";
        assert!(parser(Format::Sse, &half).is_open());
        let response = "data: {\"type\":\"response.created\",\"response\":{}}\n\ndata: {\"type\":\"response.completed\",\"response\":{}}\n";
        assert_eq!(status_of(response), StreamStatus::Done);
    }

    #[test]
    fn a_server_error_in_place_of_a_stream() {
        assert_eq!(
            events_of(
                Format::Sse,
                r#"{"error":{"type":"invalid_request_error","message":"no such model"}}"#
            ),
            ["failed invalid_request_error: no such model"]
        );
        // The usage counts although the answer failed.
        let text = ": WAIT\n\ndata: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: {\"id\":\"c\",\"error\":{\"message\":\"limit\"},\"choices\":[],\"usage\":{\"prompt_tokens\":43,\"completion_tokens\":10}}\n\ndata: [DONE]\n\n";
        assert_eq!(
            events_of(Format::Auto, text),
            ["token Hi", "response 43/10", "failed limit"]
        );
    }
}
mod qwen {
    //! Qwen Code: session files, as 0.24 writes them.

    use super::*;
    use crate::agent::StreamFormat;

    const PROMPT: &str = r#"{"timestamp":"2026-11-23T22:46:30.419Z","type":"user","message":{"role":"user","parts":[{"text":"do it"}]}}
"#;
    const RESPONSE: &str = r#"{"timestamp":"2026-11-23T22:46:31.621Z","type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":"qwen-code.api_response"}}}
"#;
    const CALL: &str = r#"{"timestamp":"2026-11-23T22:46:31.622Z","type":"assistant","message":{"role":"model","parts":[{"text":"I do."},{"functionCall":{"id":"c1","name":"run_shell_command","args":{"command":"ls"}}}]},"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":50}}
"#;
    const RESULT: &str = r#"{"timestamp":"2026-11-23T22:46:33.161Z","type":"tool_result","message":{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"run_shell_command","response":{"output":"a"}}}]},"toolCallResult":{"callId":"c1","status":"success"}}
"#;
    const ANSWER: &str = r#"{"timestamp":"2026-11-23T22:46:36.325Z","type":"assistant","message":{"role":"model","parts":[{"text":"It is."}]},"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":50}}
"#;

    fn parser(text: &str) -> (StreamParser, Vec<AgentEvent>) {
        let (mut parser, mut events) = (StreamParser::of(StreamFormat::QwenSession), Vec::new());
        parser.push(text.as_bytes(), Timestamp::default(), &mut events);
        (parser, events)
    }

    fn turns(events: &[AgentEvent]) -> usize {
        let is_turn = |event: &&AgentEvent| matches!(event, AgentEvent::TurnCompleted { .. });
        events.iter().filter(is_turn).count()
    }

    #[test]
    fn a_late_answer_ends_its_turn_on_arrival() {
        let (mut parser, mut events) = parser(&[PROMPT, RESPONSE, CALL, RESULT, RESPONSE].concat());
        assert_eq!(parser.status(), StreamStatus::MaybeDone);
        parser.end_turn(Timestamp::default(), &mut events);
        assert_eq!(turns(&events), 0, "the answer stands before the end");
        events.clear();
        parser.push(ANSWER.as_bytes(), Timestamp::default(), &mut events);
        assert!(
            matches!(events.last(), Some(AgentEvent::TurnCompleted { summary, .. }) if summary == "It is."),
            "{events:?}"
        );
        parser.end_turn(Timestamp::default(), &mut events);
        assert_eq!(turns(&events), 1);
        assert_eq!(parser.status(), StreamStatus::Done);
    }

    #[test]
    fn an_answer_without_the_response_of_the_api_was_stopped() {
        let stopped = ANSWER.replace(
            r#","usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":50}"#,
            "",
        );
        let first = [PROMPT, RESPONSE, ANSWER, PROMPT].concat();
        let (stopped_parser, _) = parser(&(first.clone() + &stopped));
        assert_eq!(stopped_parser.status(), StreamStatus::Interrupted);
        // Providers that do not count tokens still answer.
        let (answered, _) = parser(&(first + RESPONSE + &stopped));
        assert_eq!(answered.status(), StreamStatus::MaybeDone);
        // Without recorded responses, a stop is not detected.
        let (unknown, _) = parser(&(PROMPT.to_owned() + &stopped));
        assert_eq!(unknown.status(), StreamStatus::MaybeDone);
    }

    #[test]
    fn requests_for_other_purposes_are_not_of_the_turn() {
        let of = |id: &str| {
            RESPONSE.replace(
                r#"qwen-code.api_response""#,
                &format!(r#"qwen-code.api_response","prompt_id":"{id}""#),
            )
        };
        let memory = of("5e61-9a#managed-auto-memory-extractor-c552ac0c#0");
        let (read, _) = parser(&(PROMPT.to_owned() + &memory));
        assert_eq!(read.status(), StreamStatus::Working);
        let failed = memory.replace("api_response", "api_error");
        let (read, events) = parser(&(PROMPT.to_owned() + &failed));
        assert_eq!(read.status(), StreamStatus::Working);
        let is_failure = |event: &AgentEvent| matches!(event, AgentEvent::AgentFailed { .. });
        assert!(!events.iter().any(is_failure), "{events:?}");
        let (read, _) = parser(&(PROMPT.to_owned() + &of("5e61-9a########4")));
        assert_eq!(read.status(), StreamStatus::MaybeDone);
    }

    #[test]
    fn a_turn_that_is_over_before_its_answer_is_written_ends_with_the_answer() {
        let (mut parser, mut events) = parser(&[PROMPT, RESPONSE, CALL, RESULT].concat());
        parser.end_turn(Timestamp::default(), &mut events);
        assert_eq!(turns(&events), 0, "the answer stands before the end");
        parser.push(
            [RESPONSE, ANSWER].concat().as_bytes(),
            Timestamp::default(),
            &mut events,
        );
        assert_eq!(turns(&events), 1);
        assert_eq!(parser.status(), StreamStatus::Done);
        // The next turn is another one.
        events.clear();
        parser.push(
            [PROMPT, RESPONSE, ANSWER].concat().as_bytes(),
            Timestamp::default(),
            &mut events,
        );
        assert_eq!(turns(&events), 0, "nothing shows its end yet");
    }
}
mod sse {
    //! The APIs' own streams.

    use super::*;

    #[test]
    fn a_message_of_anthropic() {
        let text = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"usage\":{\"input_tokens\":10,\"output_tokens\":1}}}   \n\n\
        event: ping\ndata: {\"type\": \"ping\"}\n\n\
        data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hel\"}  }\r\n\r\n\
        data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"ls\",\"input\":{}}}\r\r\
        data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\"}}\n\n\
        data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":\"}}\n\n\
        data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"1}\"}}\n\n\
        data: {\"type\":\"content_block_stop\",\"index\":1 }\n\n\
        data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"REASON\"},\"usage\":{\"output_tokens\":4}}\n\n\
        data: {\"type\":\"message_stop\"   }\n\n";
        let mut expected = vec!["token Hel", r#"tool ls {"a":1}"#, "response 10/4 tools"];
        let tools = text.replace("REASON", "tool_use");
        assert_eq!(events_of(Format::Auto, &tools), expected);
        expected.extend(["turn max_tokens", "! the answer is incomplete: max_tokens"]);
        assert_eq!(
            events_of(Format::Sse, &text.replace("REASON", "max_tokens")),
            expected
        );
        // Cut off before its end, or failed with an error after HTTP 200.
        let cut = tools
            .split("data: {\"type\":\"message_stop\"")
            .next()
            .unwrap();
        let cut_off = "failed the run was cut off before its end";
        assert_eq!(events_of(Format::Auto, cut).last().unwrap(), cut_off);
        let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
        let failed = events_of(Format::Auto, &[cut, error].concat());
        assert_eq!(
            failed.last().unwrap(),
            "failed overloaded_error: Overloaded"
        );
        // Payloads without fields.
        let payloads: String = tools
            .split(['\n', '\r'])
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|payload| format!("{payload}\n"))
            .collect();
        assert_eq!(
            events_of(Format::Auto, &payloads),
            events_of(Format::Auto, &tools)
        );
    }

    #[test]
    fn a_chat_completion() {
        let chunk = |more: &str| {
            format!("data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",{more}}}\n\n")
        };
        let text = chunk(
            r#""choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]"#,
        ) + ": OPENROUTER PROCESSING\n\n"
            + &chunk(r#""choices":[{"index":0,"delta":{"content":"Hi"}}]"#);
        let finished =
            text.clone() + &chunk(r#""choices":[{"index":0,"delta":{},"finish_reason":"stop"}]"#);
        let usage = chunk(r#""choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2}"#);
        let done = "data: [DONE]\n\n";
        assert_eq!(
            events_of(Format::Auto, &[&finished, &*usage, done].concat()),
            ["token Hi", "response 7/2", "turn stop"]
        );
        assert_eq!(
            events_of(Format::Auto, &finished),
            [
                "token Hi",
                "! the stream ended without [DONE]",
                "response 0/0",
                "turn stop"
            ]
        );
        assert_eq!(
            events_of(Format::Auto, &[&text, done].concat()),
            ["token Hi", "failed the run was cut off before its end"]
        );
        let error = chunk(
            r#""error":{"code":400,"message":"Token limit reached"},"choices":[{"index":0,"finish_reason":null}]"#,
        );
        assert_eq!(
            events_of(Format::Auto, &[&finished, &*error, done].concat()),
            ["token Hi", "failed Token limit reached"]
        );
        let tools = chunk(
            r#""choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"t","function":{"name":"ls","arguments":""}}]}}]"#,
        ) + &chunk(
            r#""choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]}}]"#,
        ) + &chunk(
            r#""choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]"#,
        );
        assert_eq!(
            events_of(Format::Auto, &[&tools, done].concat()),
            ["tool ls {}", "response 0/0 tools"]
        );
    }

    #[test]
    fn a_response() {
        let event = |more: &str| format!("event: x\ndata: {{{more}}}\n\n");
        let begun = event(r#""type":"response.created","response":{"id":"r"},"sequence_number":0"#)
            + &event(
                r#""type":"response.output_item.added","item":{"id":"w","type":"web_search_call","status":"in_progress"}"#,
            )
            + &event(
                r#""type":"response.output_item.done","item":{"id":"w","type":"web_search_call","status":"completed","action":{"query":"q"}}"#,
            )
            + &event(r#""type":"response.output_text.delta","delta":"Hi""#)
            + &event(r#""type":"response.output_text.done","text":"Hi""#);
        let usage = r#""usage":{"input_tokens":7,"output_tokens":2}"#;
        let completed = event(&format!(
            r#""type":"response.completed","response":{{"id":"r",{usage}}}"#
        ));
        assert_eq!(
            events_of(Format::Auto, &[&begun, &*completed].concat()),
            [
                "tool web_search_call ",
                "ok web_search_call  0ms",
                "token Hi",
                "response 7/2 tools",
                "turn response.completed",
            ]
        );
        let call = event(
            r#""type":"response.output_item.done","item":{"call_id":"c","type":"function_call","name":"ls","arguments":"{}"}"#,
        );
        let waits = events_of(Format::Auto, &[&begun, &*call, &completed].concat());
        assert_eq!(waits.last().unwrap(), "response 7/2 tools");
        let failed = event(r#""type":"response.failed","response":{"error":{"message":"no"}}"#);
        let failed = events_of(Format::Auto, &[&begun, &*failed].concat());
        assert_eq!(failed.last().unwrap(), "failed no");
        let cut = events_of(Format::Auto, &begun);
        assert_eq!(
            cut.last().unwrap(),
            "failed the run was cut off before its end"
        );
        let short = event(
            r#""type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}"#,
        );
        let short = events_of(Format::Auto, &[&begun, &*short].concat());
        assert_eq!(
            short.last().unwrap(),
            "! the answer is incomplete: max_output_tokens"
        );
    }
}

use super::{AgentEvent, Format, StreamFormat, StreamParser, StreamStatus};
use crate::timestamp::Timestamp;

/// Returns the events of a stream, one short line for each event.
fn events_of(format: Format, text: &str) -> Vec<String> {
    let mut parser = StreamParser::new(format);
    let (now, mut events) = (Timestamp::from_micros(0), Vec::new());
    parser.push(text.as_bytes(), now, &mut events);
    parser.finish(now, &mut events);
    events.iter().map(short).collect()
}

/// Returns the agent's status after the last bytes.
fn status_of(text: &str) -> StreamStatus {
    let mut parser = StreamParser::new(Format::Auto);
    let (now, mut events) = (Timestamp::from_micros(0), Vec::new());
    parser.push(text.as_bytes(), now, &mut events);
    parser.flush_idle(now, &mut events);
    parser.status()
}

fn short(event: &AgentEvent) -> String {
    match event {
        AgentEvent::PromptSent { prompt_summary, .. } => format!("prompt {prompt_summary}"),
        AgentEvent::TokenReceived { token } => format!("token {token}"),
        AgentEvent::ResponseCompleted {
            input_tokens,
            output_tokens,
            has_tool_calls,
            ..
        } => {
            let tools = if *has_tool_calls { " tools" } else { "" };
            format!("response {input_tokens}/{output_tokens}{tools}")
        }
        AgentEvent::ToolCallStarted {
            tool_name,
            tool_args_summary,
        } => format!("tool {tool_name} {tool_args_summary}"),
        AgentEvent::ToolCallCompleted {
            tool_name,
            success,
            result_summary,
            duration_ms,
        } => {
            let how = if *success { "ok" } else { "failed" };
            format!("{how} {tool_name} {result_summary} {duration_ms}ms")
        }
        AgentEvent::TurnCompleted { marker, .. } => format!("turn {marker}"),
        AgentEvent::AgentCompleted { result, .. } => format!("completed {result}"),
        AgentEvent::AgentFailed { error, .. } => format!("failed {error}"),
        AgentEvent::Warning { message, .. } => format!("! {message}"),
    }
}
mod kimi {
    //! Kimi: session files.

    use super::*;

    fn events_and_status(lines: &[&str]) -> (Vec<String>, StreamStatus) {
        let mut parser = StreamParser::of(StreamFormat::KimiSession);
        let (now, mut events) = (Timestamp::from_micros(0), Vec::new());
        for line in lines {
            parser.push(format!("{line}\n").as_bytes(), now, &mut events);
        }
        (events.iter().map(short).collect(), parser.status())
    }

    const HEAD: &str = r#"{"type":"metadata","protocol_version":"1.10"}"#;
    const PROMPT: &str = r#"{"timestamp":1764403200.25,"message":{"type":"TurnBegin","payload":{"user_input":[{"type":"text","text":"look"}]}}}"#;
    const STEP: &str =
        r#"{"timestamp":1764403200.3,"message":{"type":"StepBegin","payload":{"n":1}}}"#;
    const THINKS: &str = r#"{"timestamp":1764403200.4,"message":{"type":"ContentPart","payload":{"type":"think","think":"hm"}}}"#;
    const TEXT: &str = r#"{"timestamp":1764403200.5,"message":{"type":"ContentPart","payload":{"type":"text","text":"I look."}}}"#;
    const TOOL: &str = r#"{"timestamp":1764403201.0,"message":{"type":"ToolCall","payload":{"type":"function","id":"c1","function":{"name":"Shell","arguments":"{\"command\":\"ls\"}"}}}}"#;
    const USAGE: &str = r#"{"timestamp":1764403201.1,"message":{"type":"StatusUpdate","payload":{"token_usage":{"input_other":7,"output":2}}}}"#;
    const RESULT: &str = r#"{"timestamp":1764403201.5,"message":{"type":"ToolResult","payload":{"tool_call_id":"c1","return_value":{"is_error":false,"output":"README.md\n","message":"ok"}}}}"#;
    const REFUSED: &str = r#"{"timestamp":1764403201.5,"message":{"type":"ToolResult","payload":{"tool_call_id":"c1","return_value":{"is_error":true,"output":"","message":"rejected by the user"}}}}"#;
    const END: &str = r#"{"timestamp":1764403202.0,"message":{"type":"TurnEnd","payload":{}}}"#;
    const RETRY: &str = r#"{"timestamp":1764403201.0,"message":{"type":"StepRetry","payload":{"n":1,"status_code":429}}}"#;
    const BROKEN: &str =
        r#"{"timestamp":1764403201.0,"message":{"type":"StepInterrupted","payload":{}}}"#;

    #[test]
    fn the_step_without_tools_completes_the_turn() {
        let lines = [
            HEAD, PROMPT, STEP, THINKS, TEXT, TOOL, USAGE, RESULT, STEP, TEXT, USAGE, END,
        ];
        let (events, status) = events_and_status(&lines);
        assert_eq!(
            events,
            [
                "prompt look",
                "token I look.",
                r#"tool Shell {"command":"ls"}"#,
                "response 7/2 tools",
                "ok Shell README.md 500ms",
                "token I look.",
                "response 7/2",
                "turn TurnEnd",
            ]
        );
        assert_eq!(status, StreamStatus::Done);
        assert_eq!(events_and_status(&lines[..11]).1, StreamStatus::Working);
        let text = lines[..4].join("\n");
        let mut parser = StreamParser::new(Format::Auto);
        parser.push(text.as_bytes(), Timestamp::default(), &mut Vec::new());
        assert_eq!(parser.format(), Some(StreamFormat::KimiSession));
    }

    #[test]
    fn a_turn_that_failed_or_was_stopped_does_not_complete() {
        use StreamStatus::{Done, Failed, Interrupted};
        let after: [(&[&str], _, _); 6] = [
            (
                &[STEP, RETRY, BROKEN, END],
                Failed,
                "failed the model's API has failed with status 429",
            ),
            (
                &[STEP, TEXT, BROKEN, END],
                Failed,
                "failed a step of the agent has failed",
            ),
            (
                &[STEP, TEXT, END],
                Interrupted,
                "! the turn was stopped: TurnEnd without an answer",
            ),
            (
                &[STEP, TOOL, USAGE, END],
                Interrupted,
                "! the turn was stopped: TurnEnd without an answer",
            ),
            (
                &[STEP, TOOL, USAGE, REFUSED, END],
                Interrupted,
                "! the turn was stopped: TurnEnd without an answer",
            ),
            // `/compact`
            (&[END], Done, "prompt look"),
        ];
        for (lines, expected, last) in after {
            let (events, status) = events_and_status(&[&[PROMPT], lines].concat());
            assert_eq!(
                (status, events.last().map(String::as_str)),
                (expected, Some(last)),
                "{lines:?}"
            );
            assert!(
                !events.iter().any(|event| event.starts_with("turn")),
                "{events:?}"
            );
        }
    }

    #[test]
    fn tools_of_a_sub_agent_are_reported_and_its_words_are_not() {
        let of_sub_agent = |line: &str| {
            let (_, message) = line.split_once("\"message\":").unwrap();
            let event = message.strip_suffix('}').unwrap();
            format!(
                r#"{{"timestamp":1764403201,"message":{{"type":"SubagentEvent","payload":{{"event":{event}}}}}}}"#
            )
        };
        let lines = [TEXT, TOOL, RESULT, BROKEN, END].map(of_sub_agent);
        let lines: Vec<&str> = [PROMPT, STEP]
            .into_iter()
            .chain(lines.iter().map(String::as_str))
            .collect();
        let (events, status) = events_and_status(&lines);
        assert_eq!(
            events,
            [
                "prompt look",
                r#"tool Shell {"command":"ls"}"#,
                "ok Shell README.md 0ms"
            ]
        );
        assert_eq!(status, StreamStatus::Working);
    }
}
mod vibe {
    //! Vibe: session journals.

    use super::*;

    fn entry(op: &str, entry: &str) -> String {
        format!(
            r#"{{"payload":{{"delta":[{{"entry":{entry},"op":"{op}"}}]}},"recovery_journal_record_version":1,"type":"projection_delta"}}"#
        )
    }

    fn envelope(turn: &str, tokens: u32) -> String {
        format!(
            r#"{{"payload":{{"delta":[{{"op":"set_envelope","state":{{"latestTurn":{turn},"session":{{"tokenUsage":{{"inputTokens":{tokens},"outputTokens":2}}}}}}}}]}},"recovery_journal_record_version":1,"type":"projection_delta"}}"#
        )
    }

    fn events_and_status(lines: &[String]) -> (Vec<String>, StreamStatus) {
        let mut parser = StreamParser::of(StreamFormat::VibeJournal);
        let (now, mut events) = (Timestamp::from_micros(0), Vec::new());
        for line in lines {
            parser.push(format!("{line}\n").as_bytes(), now, &mut events);
        }
        (events.iter().map(short).collect(), parser.status())
    }

    const PROMPT: &str = r#"{"content":[{"text":"look","type":"text"}],"id":"u1","role":"user","type":"message","updatedAt":1764403200000}"#;
    const WORDS: &str = r#"{"content":[{"text":"I look.","type":"text"}],"id":"a1","role":"assistant","type":"message","updatedAt":1764403201000}"#;
    const BEGUN: &str = r#"{"createdAt":1764403201000,"detail":{"input":{"command":"ls"},"toolName":"bash"},"generationStatus":"in_progress","id":"e1","state":{"status":"running"},"type":"effect","updatedAt":1764403201000}"#;
    const ENDED: &str = r#"{"createdAt":1764403201000,"detail":{"input":{"command":"ls"},"toolName":"bash"},"generationStatus":"completed","id":"e1","state":{"output":{"structured_content":{"stdout":"README.md"}},"status":"completed"},"type":"effect","updatedAt":1764403201500}"#;
    const REFUSED: &str = r#"{"createdAt":1764403201000,"detail":{"input":{"command":"ls"},"toolName":"bash"},"generationStatus":"completed","id":"e1","state":{"error":{"message":"denied"},"status":"failed"},"type":"effect","updatedAt":1764403201500}"#;
    const GOES_ON: &str = r#"{"id":"t1","status":"in_progress"}"#;

    #[test]
    fn the_envelope_ends_the_turn_once() {
        let end = envelope(r#"{"id":"t1","status":"completed"}"#, 16);
        let lines = [
            envelope(r#"{"id":"t0","status":"completed"}"#, 0),
            entry("append_entry", PROMPT),
            envelope(GOES_ON, 0),
            entry("append_entry", WORDS),
            envelope(GOES_ON, 7),
            entry("append_entry", BEGUN),
            r#"{"payload":{"action_id":"x"},"recovery_journal_record_version":1,"type":"action_intent"}"#.to_owned(),
            entry("replace_entry", ENDED),
            entry("append_entry", &WORDS.replace("a1", "a2")),
            end.clone(),
            // The next file begins with a copy.
            end,
        ];
        let (events, status) = events_and_status(&lines);
        assert_eq!(
            events,
            [
                "prompt look",
                "token I look.",
                "response 7/0 tools",
                r#"tool bash {"command":"ls"}"#,
                "ok bash README.md 500ms",
                "token I look.",
                "response 9/0",
                "turn the turn is completed",
            ]
        );
        assert_eq!(status, StreamStatus::Done);
        let mut parser = StreamParser::new(Format::Auto);
        parser.push(
            format!("{}\n", lines[0]).as_bytes(),
            Timestamp::default(),
            &mut Vec::new(),
        );
        assert_eq!(parser.format(), Some(StreamFormat::VibeJournal));
    }

    #[test]
    fn a_turn_that_failed_or_was_stopped_does_not_complete() {
        let failed = r#"{"error":{"message":"Invalid API key"},"id":"t1","status":"failed"}"#;
        let stopped = r#"{"id":"t1","reason":"client interrupt","status":"interrupted"}"#;
        for (end, expected, last) in [
            (failed, StreamStatus::Failed, "failed Invalid API key"),
            (
                stopped,
                StreamStatus::Interrupted,
                "! the turn was stopped: client interrupt",
            ),
        ] {
            let lines = [
                entry("append_entry", PROMPT),
                envelope(GOES_ON, 0),
                envelope(end, 0),
            ];
            let (events, status) = events_and_status(&lines);
            assert_eq!(
                (status, events.last().map(String::as_str)),
                (expected, Some(last))
            );
        }
        let lines = [
            entry("append_entry", BEGUN),
            entry("replace_entry", REFUSED),
        ];
        assert_eq!(events_and_status(&lines).0[1], "failed bash denied 500ms");
    }

    #[test]
    fn records_have_the_time_of_what_they_change() {
        let at = crate::agent::record_time(entry("append_entry", WORDS).as_bytes());
        assert_eq!(at, Some(Timestamp::from_micros(1_764_403_201_000_000)));
        assert_eq!(
            crate::agent::record_time(br#"{"payload":{"delta":[1,{}]}}"#),
            None
        );
    }
}
mod documents {
    //! Cline and Continue CLI: session files that are written anew with each message.

    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Reads versions of a document; returns the events of each.
    fn versions(format: StreamFormat, versions: &[&str]) -> (Vec<Vec<String>>, StreamStatus) {
        let mut parser = StreamParser::of(format);
        let each = versions.iter().map(|version| {
            let mut events = Vec::new();
            parser.push(version.as_bytes(), Timestamp::default(), &mut events);
            events.iter().map(short).collect()
        });
        (each.collect(), parser.status())
    }

    fn cline(messages: &[&str]) -> String {
        format!(r#"{{"version":1,"messages":[{}]}}"#, messages.join(","))
    }

    fn cn(messages: &[&str]) -> String {
        format!("{{\n  \"history\": [{}]\n}}", messages.join(","))
    }

    const PROMPT: &str = r#"{"id":"u1","role":"user","content":[{"type":"text","text":"<user_input mode=\"act\">look</user_input>"}],"ts":1764403200000}"#;
    const CALL: &str = r#"{"id":"m1","role":"assistant","content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"c1","name":"run_commands","input":{"commands":["ls"]}}],"ts":1764403201000,"metrics":{"inputTokens":7,"outputTokens":2}}"#;
    const RESULT: &str = r#"{"id":"m2","role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"query":"ls","result":"README.md","success":true}]}],"ts":1764403201500}"#;
    const ANSWER: &str = r#"{"id":"m3","role":"assistant","content":[{"type":"text","text":"All is well."}],"ts":1764403202000}"#;
    const ERROR: &str = r#"{"id":"e1","role":"assistant","content":[{"type":"text","text":"invalid x-api-key"}],"ts":1764403202000,"metadata":{"displayOnly":true,"displayRole":"error"}}"#;

    #[test]
    fn each_message_of_cline_is_reported_once() {
        let steps = [
            cline(&[PROMPT]),
            cline(&[PROMPT])[..40].to_owned(),
            cline(&[PROMPT, CALL]),
            cline(&[PROMPT, CALL, RESULT]),
            cline(&[PROMPT, CALL, RESULT, ANSWER]),
            String::new(),
            cline(&[PROMPT, CALL, RESULT, ANSWER]),
        ];
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let (events, status) = versions(StreamFormat::ClineSession, &steps);
        let nothing: [&str; 0] = [];
        assert_eq!(events[0], ["prompt look"]);
        assert_eq!(events[1], nothing);
        assert_eq!(
            events[2],
            [
                "token I look.",
                "response 7/2 tools",
                r#"tool run_commands {"commands":["ls"]}"#
            ]
        );
        assert_eq!(events[3], ["ok run_commands README.md 500ms"]);
        assert_eq!(events[4], ["token All is well.", "response 0/0"]);
        assert_eq!((&events[5], &events[6]), (&vec![], &vec![]));
        assert_eq!(status, StreamStatus::MaybeDone);
        // All at once.
        let (all, _) = versions(StreamFormat::ClineSession, &steps[6..]);
        assert_eq!(all.concat(), events.concat());
    }

    #[test]
    fn an_error_of_cline_is_no_answer() {
        let (events, status) = versions(StreamFormat::ClineSession, &[&cline(&[PROMPT, ERROR])]);
        assert_eq!(events[0], ["prompt look", "failed invalid x-api-key"]);
        assert_eq!(status, StreamStatus::Failed);
    }

    #[test]
    fn what_a_summary_replaces_is_not_reported_again() {
        let summary = r#"{"id":"s1","role":"user","content":"In short: nothing."}"#;
        let next = PROMPT.replace("u1", "u2").replace("look", "more");
        let steps = [
            cline(&[PROMPT, CALL, RESULT, ANSWER]),
            cline(&[summary, RESULT, ANSWER, &next]),
            // The last prompt is given again, with other words.
            cline(&[summary, RESULT, ANSWER, &PROMPT.replace("u1", "u3")]),
        ];
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let (events, _) = versions(StreamFormat::ClineSession, &steps);
        let ends = "turn inferred: the next prompt";
        assert_eq!(
            events[1],
            [ends, "prompt In short: nothing.", "prompt more"]
        );
        assert_eq!(events[2], ["prompt look"]);
    }

    const ASKED: &str = r#"{"message":{"role":"user","content":"look"}}"#;
    const CALLED: &str = r#"{"message":{"role":"assistant","content":"I look.","toolCalls":[{"id":"c1"}],"usage":{"prompt_tokens":7,"completion_tokens":2}},"toolCallStates":[{"toolCallId":"c1","toolCall":{"function":{"name":"Bash","arguments":"{\"command\":\"ls\"}"}},"status":"calling"}]}"#;
    const ANSWERED: &str = r#"{"message":{"role":"assistant","content":"All is well."}}"#;

    #[test]
    fn each_message_of_cn_is_reported_once() {
        let done = CALLED.replace(
            r#""calling""#,
            r#""done","output":[{"content":"README.md"}]"#,
        );
        let steps = [
            cn(&[]),
            cn(&[ASKED, CALLED]),
            cn(&[ASKED, &done]),
            cn(&[ASKED, &done, ANSWERED]),
            // The same words again.
            cn(&[ASKED, &done, ANSWERED, ASKED]),
            cn(&[ASKED, &done, ANSWERED, ASKED, ANSWERED]),
        ];
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let (events, status) = versions(StreamFormat::CnSession, &steps);
        let call = r#"tool Bash {"command":"ls"}"#;
        assert_eq!(
            events[1],
            ["prompt look", "token I look.", "response 7/2 tools", call]
        );
        assert_eq!(events[2], ["ok Bash README.md 0ms"]);
        assert_eq!(events[3], ["token All is well.", "response 0/0"]);
        assert_eq!(events[4], ["turn inferred: the next prompt", "prompt look"]);
        assert_eq!(events[5], ["token All is well.", "response 0/0"]);
        assert_eq!(status, StreamStatus::MaybeDone);
    }

    #[test]
    fn a_tool_of_cn_that_is_refused_stops_the_turn() {
        let refused = CALLED.replace(
            r#""calling""#,
            r#""canceled","output":[{"content":"denied"}]"#,
        );
        let steps = [cn(&[ASKED, CALLED]), cn(&[ASKED, &refused])];
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let (events, status) = versions(StreamFormat::CnSession, &steps);
        assert_eq!(
            events[1],
            [
                "failed Bash denied 0ms",
                "! the turn was stopped: a human refused a tool"
            ]
        );
        assert_eq!(status, StreamStatus::Interrupted);
    }

    proptest! {
        #[test]
        fn any_versions_are_accepted_and_a_repeated_one_adds_nothing(
            messages in proptest::collection::vec(
                select(vec![PROMPT, CALL, RESULT, ANSWER, ERROR, ASKED, CALLED, ANSWERED, "1", "{}", "[]"]),
                0..8,
            ),
            cut in any::<prop::sample::Index>(),
            bytes in any::<Vec<u8>>(),
            is_cline in any::<bool>(),
        ) {
            let (format, document) = if is_cline {
                (StreamFormat::ClineSession, cline(&messages))
            } else {
                (StreamFormat::CnSession, cn(&messages))
            };
            let part = &document.as_bytes()[..cut.index(document.len())];
            let mut parser = StreamParser::of(format);
            let mut counts = Vec::new();
            for version in [part, document.as_bytes(), &bytes, document.as_bytes(), part] {
                let mut events = Vec::new();
                parser.push(version, Timestamp::default(), &mut events);
                counts.push(events.len());
            }
            prop_assert_eq!([counts[0], counts[3], counts[4]], [0; 3]);
        }
    }
}

/// What records state beside events, and the records' times.
#[cfg(feature = "cli")]
mod records {
    use super::super::note::RecordNote;
    use super::super::*;
    use super::short;
    use crate::timestamp::Timestamp;

    /// Reads the whole of a stream; returns the events and notes of its records, in their order.
    fn records(mut parser: StreamParser, pieces: &[&str]) -> Vec<String> {
        parser.keep_notes();
        let mut found = Vec::new();
        let mut take = |content: RecordContent| {
            let mut facts: Vec<String> = content.events.iter().map(short).collect();
            for (at, (before, note)) in content.notes.iter().enumerate() {
                let note = match note {
                    RecordNote::Cost { dollars } => format!("${dollars:.4}"),
                    RecordNote::MoreTokens {
                        cached_input,
                        thoughts,
                    } => format!("+{cached_input}/{thoughts}"),
                    RecordNote::Summary { text } => format!("= {text}"),
                };
                facts.insert(before + at, note);
            }
            found.extend(facts.into_iter().filter(|fact| !fact.starts_with("token ")));
        };
        for piece in pieces {
            parser.read_records(piece.as_bytes(), Timestamp::default(), &mut take);
        }
        parser.finish_records(Timestamp::default(), &mut take);
        found
    }

    fn notes(format: StreamFormat, text: &str) -> Vec<String> {
        let facts = records(StreamParser::of(format), &[text]).into_iter();
        facts
            .filter(|fact| fact.starts_with(['$', '+', '=']))
            .collect()
    }

    #[test]
    fn the_cost_of_a_run_is_what_its_total_has_grown_by() {
        let result = |session: &str, dollars: f64| {
            format!(
                "{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"session_id\":\"{session}\",\"total_cost_usd\":{dollars}}}\n"
            )
        };
        let text = [
            result("a", 0.5),
            result("a", 0.75),
            // Nothing was used.
            result("a", 0.75),
            result("b", 0.25),
            // Another process began anew.
            result("b", 0.125),
            result("b", -1.0),
        ]
        .concat();
        let costs = notes(StreamFormat::ClaudeStream, &text);
        assert_eq!(costs, ["$0.5000", "$0.2500", "$0.2500", "$0.1250"]);
        let text = r#"{"type":"cost-state","sessionId":"s","totalCostUSD":0.5}
{"type":"cost-state","sessionId":"s","totalCostUSD":0.75}
"#;
        let costs = notes(StreamFormat::ClaudeTranscript, text);
        assert_eq!(costs, ["$0.5000", "$0.2500"]);
    }

    #[test]
    fn tokens_of_a_cache_are_noted_once_for_each_message() {
        let usage = r#""usage":{"input_tokens":5,"output_tokens":1,"cache_read_input_tokens":70,"cache_creation_input_tokens":30}"#;
        let line = |id: &str, text: &str| {
            format!(
                r#"{{"type":"assistant","uuid":"u{id}","isSidechain":false,"message":{{"id":"{id}","content":[{{"type":"text","text":"{text}"}}],"stop_reason":"tool_use",{usage}}}}}"#
            ) + "\n"
        };
        let text = [line("m", "a"), line("m", "b"), line("n", "c")].concat();
        let facts = records(StreamParser::of(StreamFormat::ClaudeTranscript), &[&text]);
        let expected = ["response 5/1", "+100/0", "response 5/1", "+100/0"];
        assert_eq!(facts, expected);
        // The result of a run states them, too.
        let begun = r#"{"type":"system","subtype":"init","session_id":"s"}"#;
        let message = format!(
            r#"{{"type":"assistant","session_id":"s","parent_tool_use_id":null,"message":{{"id":"m","content":[],{usage}}}}}"#
        );
        let result = |cached: u32| {
            format!(
                r#"{{"type":"result","subtype":"success","is_error":false,"session_id":"s","usage":{{"input_tokens":5,"output_tokens":9,"cache_read_input_tokens":{cached}}}}}"#
            )
        };
        for (cached, expected) in [(100, "+100/0"), (0, "+100/0"), (130, "+130/0")] {
            let text = format!("{begun}\n{message}\n{}\n", result(cached));
            assert_eq!(notes(StreamFormat::ClaudeStream, &text), [expected]);
        }
    }

    #[test]
    fn an_agent_s_own_summaries_of_the_session_are_noted() {
        let text = r#"{"type":"summary","summary":"Of another session","leafUuid":"u9"}
{"type":"user","uuid":"u1","isSidechain":false,"message":{"content":"hi"},"sessionId":"s"}
{"type":"system","subtype":"away_summary","content":"I fixed the parser.","uuid":"u2","sessionId":"s"}
{"type":"summary","summary":"Of this one","leafUuid":"u2"}
"#;
        let summaries = notes(StreamFormat::ClaudeTranscript, text);
        assert_eq!(summaries, ["= I fixed the parser.", "= Of this one"]);
        let text = r#"{"sessionId":"s","projectHash":"p"}
{"$set":{"summary":"Fix the parser"}}
{"$set":{"lastUpdated":"2026-06-11T21:05:29.000Z"}}
"#;
        let summaries = notes(StreamFormat::GeminiSession, text);
        assert_eq!(summaries, ["= Fix the parser"]);
    }

    #[test]
    fn what_other_agents_state() {
        let step = r#"{"type":"step_finish","sessionID":"s","part":{"reason":"stop","cost":0.0123,"tokens":{"total":1000,"input":500,"output":100,"reasoning":60,"cache":{"read":300,"write":40}}}}"#;
        let cases: [(StreamFormat, &str, &[&str]); 9] = [
            (StreamFormat::OpenCodeRun, step, &["+340/60", "$0.0123"]),
            (
                StreamFormat::KimiSession,
                r#"{"message":{"type":"StatusUpdate","payload":{"token_usage":{"input_other":7,"output":2,"input_cache_read":90,"input_cache_creation":4}}}}"#,
                &["+94/0"],
            ),
            (
                StreamFormat::GeminiSession,
                r#"{"id":"2","type":"gemini","content":"I do.","tokens":{"input":100,"output":20,"cached":50,"thoughts":30,"tool":0,"total":150}}"#,
                &["+0/30"],
            ),
            (
                StreamFormat::QwenSession,
                r#"{"type":"assistant","message":{"parts":[]},"usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":50,"thoughtsTokenCount":20,"totalTokenCount":150}}"#,
                &[],
            ),
            (
                StreamFormat::AiderHistory,
                "\nDone.\n\n> Tokens: 4.4k sent, 210 received. Cost: $0.0067 message, $0.02 session.  \n",
                &["$0.0067"],
            ),
            (
                StreamFormat::AiderHistory,
                "\nDone.\n\n> Tokens: 4.4k sent, 1k cache write, 2k cache hit, 210 received.  \n> Cost: $1.50 message, $1.52 session.  \n",
                &["$1.5000"],
            ),
            (
                StreamFormat::AiderHistory,
                "\nIt says\nCost: $3.00 message\n\n> Add Cost: $2.00 message to the chat?  \n",
                &[],
            ),
            (
                StreamFormat::ClineSession,
                r#"{"messages":[{"id":"1","role":"assistant","content":"Yes.","metrics":{"inputTokens":7,"outputTokens":2,"cost":0.25}}]}"#,
                &["$0.2500"],
            ),
            (
                StreamFormat::CnSession,
                r#"{"sessionId":"s","history":[],"usage":{"totalCost":0.5,"promptTokens":7}}"#,
                &["$0.5000"],
            ),
        ];
        for (format, text, expected) in cases {
            assert_eq!(notes(format, text), expected, "{text}");
        }
    }

    #[test]
    fn a_conversation_that_goes_on_has_no_end() {
        let text = r#"{"timestamp":"2026-11-23T22:46:31Z","provenance":"p","sessionId":"s","type":"user","message":{"parts":[{"text":"go"}]}}
{"timestamp":"2026-11-23T22:46:32Z","type":"assistant","message":{"parts":[{"text":"I do."},{"functionCall":{"id":"c1","name":"Bash","args":{}}}]}}"#;
        let prompted = ["prompt go", "tool Bash {}", "response 0/0 tools"];
        let facts = records(StreamParser::of(StreamFormat::QwenSession), &[text]);
        assert_eq!(facts, prompted);
        // An answer ends the turn.
        let answer = r#"{"type":"assistant","message":{"parts":[{"text":"Done."}]}}"#;
        let facts = records(StreamParser::of(StreamFormat::QwenSession), &[answer]);
        assert!(
            facts.last().is_some_and(|last| last.starts_with("turn ")),
            "{facts:?}"
        );
    }

    mod pieces {
        use super::super::super::*;
        use super::records;
        use proptest::prelude::*;

        const AIDER: &str = "# aider chat started at 2026-11-30 03:58:18\n\n#### one  \n#### two  \n\nI do.\nDone.\n\n\
            > Tokens: 1k sent, 9 received. Cost: $0.5 message, $1 session.  \n#### three";
        const CODEX: &str = "{\"type\":\"thread.started\",\"thread_id\":\"x\"}\n{\"type\":\"turn.started\"}\nWarning: no stdin\n\
            {\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"Ja, größer\"}}{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":7}}\n{\"type\":\"turn.st";
        const CLAUDE: &str = "{\"type\":\"assistant\",\"isSidechain\":false,\"sessionId\":\"s\",\"message\":{\"id\":\"m\",\"content\":\"a\",\"usage\":{\"input_tokens\":5,\"cache_read_input_tokens\":7}}}\n\
            {\"type\":\"system\",\"subtype\":\"away_summary\",\"content\":\"I did it.\",\"sessionId\":\"s\"}\n{\"type\":\"user\",\"isSidechain\":false,\"sessionId\":\"s\",\"message\":{\"content\":\"go\"}}";

        proptest! {
            #[test]
            fn cuts_do_not_matter(cuts in proptest::collection::vec(1..60usize, 0..30)) {
                for (format, text) in [
                    (Some(StreamFormat::AiderHistory), AIDER),
                    (None, CODEX),
                    (None, CLAUDE),
                ] {
                    let parser = || match format {
                        Some(format) => StreamParser::of(format),
                        None => StreamParser::new(Format::Auto),
                    };
                    let (mut pieces, mut rest) = (Vec::new(), text);
                    for cut in &cuts {
                        let at = (0..=(*cut).min(rest.len())).rev();
                        let at = at.into_iter().find(|at| rest.is_char_boundary(*at)).unwrap();
                        let (piece, more) = rest.split_at(at);
                        pieces.push(piece);
                        rest = more;
                    }
                    pieces.push(rest);
                    let whole = records(parser(), &[text]);
                    prop_assert!(whole.len() > 2, "{whole:?}");
                    prop_assert_eq!(records(parser(), &pieces), whole);
                }
            }
        }
    }
}
