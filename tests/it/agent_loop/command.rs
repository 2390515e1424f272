//! Models that are commands: their input, the interpretation of their output, their ends.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};
use td_observe::agent::{AgentEvent, Format};
use td_observe::agent_loop::{Cancel, CommandClient, LlmClient, Request, StreamChunk, Usage};
use td_observe::event::OutputStream;
use td_observe::process::Command;

use super::{Asking, streamed, text_of, warnings_of};
use crate::recordings::recordings;
use crate::resources::is_zombie;
use crate::support::{CEILING, wait_for};

fn shell(line: &str) -> CommandClient {
    CommandClient::new(Command::shell(line).format(Format::Text))
}

#[track_caller]
fn complete(client: &mut CommandClient, prompt: &str) -> String {
    let response = client.complete(&Request::prompt(prompt), &Cancel::new());
    response.unwrap().text
}

/// Prints a text verbatim.
fn printing(output: &str, format: Format) -> CommandClient {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("output");
    fs::write(&path, output).unwrap();
    let command = Command::new("cat").arg(path).env("KEPT", directory.keep());
    CommandClient::new(command.format(format))
}

#[test]
fn the_prompt_is_passed_as_input_and_in_the_environment() {
    let line = "cat; printf %s \"|$TD_PROMPT|$MORE|${TD_PROMPT_FILE-none}\"";
    let command = Command::shell(line).format(Format::Text);
    let mut client = CommandClient::new(command.env("MORE", "x"));
    assert_eq!(
        complete(&mut client, "a é 'b'\n"),
        "a é 'b'\n|a é 'b'\n|x|none"
    );

    let request = Request::prompt("p").system("s").prompt_file("/some/file");
    let response = client.complete(&request, &Cancel::new()).unwrap();
    assert_eq!(response.text, "s\n\np|s\n\np|x|/some/file");
}

#[test]
fn a_prompt_too_long_for_a_variable_is_passed_as_input_only() {
    for (prompt, is_there) in [
        ("x".repeat(127 * 1024), true),
        ("x".repeat(127 * 1024 + 1), false),
        ("é".repeat(100 * 1024), false),
        ("a\0b".to_owned(), false),
    ] {
        let mut client = shell("wc -c; printf %s \"${TD_PROMPT-none}\" | wc -c");
        let answer = complete(&mut client, &prompt);
        let counts: Vec<usize> = answer
            .split_whitespace()
            .map(|n| n.parse().unwrap())
            .collect();
        let in_environment = if is_there { prompt.len() } else { 4 };
        assert_eq!(counts, [prompt.len(), in_environment]);
    }
}

#[test]
fn a_command_may_leave_ten_megabytes_of_input_unread() {
    let prompt = "line of a prompt\n".repeat(10 * 1024 * 1024 / 17);
    // A command that reads nothing, reads everything, reads more than one line, or closes its input and
    // continues.
    assert_eq!(complete(&mut shell("echo done"), &prompt), "done\n");
    assert_eq!(
        complete(&mut shell("read -r line; echo $line"), &prompt),
        "line of a prompt\n"
    );
    assert_eq!(
        complete(
            &mut shell("exec <&-; echo one; sleep 0.3; echo two"),
            &prompt
        ),
        "one\ntwo\n"
    );
    // A command that reads while it prints.
    let all = complete(&mut shell("exec cat"), &prompt);
    assert!(all == prompt, "{} bytes came back", all.len());
}

#[test]
fn text_is_forwarded_as_it_arrives_and_cut_characters_wait() {
    // The second half of a character follows once the first piece has arrived.
    let directory = tempfile::tempdir().unwrap();
    let go = directory.path().join("go");
    let script = format!(
        "printf 'one \\303'; while [ ! -e {go} ]; do sleep 0.01; done; printf '\\251 \\377'",
        go = go.display()
    );
    let asking = Asking::begin(shell(&script), Request::prompt(""));
    assert_eq!(asking.text(), "one ");
    fs::write(&go, "").unwrap();
    assert_eq!(asking.text(), "é \u{fffd}");
    let warning = asking.next();
    assert!(
        matches!(&warning, StreamChunk::Agent(AgentEvent::Warning { message, .. }) if message.contains("UTF-8")),
        "{warning:?}"
    );
    assert_eq!(asking.end().unwrap().text, "one é \u{fffd}");
}

#[test]
fn both_outputs_are_received_and_kept_apart() {
    let received: Arc<Mutex<[Vec<u8>; 2]>> = Arc::default();
    let sink = Arc::clone(&received);
    let mut client = shell("echo out; echo err >&2").on_output(move |stream, bytes| {
        let mut received = sink.lock().unwrap();
        received[usize::from(stream == OutputStream::Stderr)].extend_from_slice(bytes);
    });
    assert_eq!(complete(&mut client, ""), "out\n");
    assert_eq!(
        complete(&mut client, ""),
        "out\n",
        "it answers a second request"
    );
    assert_eq!(
        *received.lock().unwrap(),
        [b"out\nout\n".to_vec(), b"err\nerr\n".to_vec()]
    );
}

#[test]
fn a_failure_has_its_code_the_end_of_standard_error_and_the_partial_answer() {
    let script = "echo half; seq 1 2000 >&2; echo 'no key' >&2; exit 3";
    let (answer, chunks) = streamed(&mut shell(script), &Request::prompt(""));
    let error = answer.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("exit code 3") && text.ends_with("no key"),
        "{text}"
    );
    assert!(text.len() < 3_000, "{} bytes", text.len());
    assert_eq!(error.partial(), "half\n");
    assert_eq!(text_of(&chunks), "half\n");
    assert!(!error.is_limited() && !error.is_timeout() && !error.is_cancelled());

    let error = shell("kill -9 $$").complete(&Request::prompt(""), &Cancel::new());
    assert!(error.unwrap_err().to_string().contains("signal 9"));
    let error = CommandClient::new(Command::new("td-no-such-agent"))
        .complete(&Request::prompt(""), &Cancel::new());
    assert!(error.unwrap_err().is_missing_program());
    // Text beside an agent's records may explain why there are none.
    let command = Command::shell("echo 'Claude usage limit reached|1749924000'; exit 1");
    let error = CommandClient::new(command.format(Format::Claude))
        .complete(&Request::prompt(""), &Cancel::new());
    let error = error.unwrap_err();
    assert!(
        error.is_limited() && error.to_string().contains("reached|17"),
        "{error}"
    );
}

const TURN: &str = concat!(
    "note\n",
    "{\"type\":\"thread.started\"}\n{\"type\":\"turn.started\"}\n",
    "{\"type\":\"item.completed\",\"item\":{\"id\":\"h\",\"type\":\"agent_message\",\"text\":\"Looking.\"}}\n",
    "{\"type\":\"item.started\",\"item\":{\"id\":\"i\",\"type\":\"command_execution\",\"command\":\"ls\",\"status\":\"in_progress\"}}\n",
    "{\"type\":\"item.completed\",\"item\":{\"id\":\"i\",\"type\":\"command_execution\",\"command\":\"ls\",\"aggregated_output\":\"a\",\"exit_code\":0,\"status\":\"completed\"}}\n",
    "{\"type\":\"item.completed\",\"item\":{\"id\":\"j\",\"type\":\"agent_message\",\"text\":\"It has one file.\"}}\n",
);
const END: &str =
    "{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":7,\"output_tokens\":2}}\n";

#[test]
fn an_agent_reports_its_own_tools_and_its_text_is_the_answer() {
    for format in [Format::Codex, Format::Auto] {
        let mut client = printing(&[TURN, END, &TURN[5..], END].concat(), format);
        let (answer, chunks) = streamed(&mut client, &Request::prompt(""));
        let response = answer.unwrap();
        let text = "Looking.\n\nIt has one file.\n\nLooking.\n\nIt has one file.";
        let expected = match format {
            // Nothing shows yet that it is not plain text.
            Format::Auto => format!("note\n{text}"),
            _ => text.to_owned(),
        };
        assert_eq!(response.text, expected);
        let used = Usage {
            input_tokens: 14,
            output_tokens: 4,
        };
        assert_eq!(response.usage, used, "all turns count");
        assert!(response.tool_calls.is_empty());
        let tools = chunks.iter().filter(|chunk| {
            matches!(
                chunk,
                StreamChunk::Agent(AgentEvent::ToolCallCompleted { success: true, .. })
            )
        });
        assert_eq!(tools.count(), 2);
        assert!(
            matches!(chunks.last(), Some(StreamChunk::MessageDone { usage, .. }) if *usage == used)
        );
    }
}

#[test]
fn a_truncated_stream_is_an_error_with_its_partial_answer() {
    for format in [Format::Codex, Format::Auto] {
        let error = printing(TURN, format).complete(&Request::prompt(""), &Cancel::new());
        let error = error.unwrap_err();
        assert!(error.to_string().contains("cut off"), "{error}");
        assert!(error.partial().ends_with("It has one file."), "{error:?}");
    }
    let nothing = printing("just text\n", Format::Claude);
    let error = { nothing }
        .complete(&Request::prompt(""), &Cancel::new())
        .unwrap_err();
    assert!(
        error.to_string().contains("is its format claude?"),
        "{error}"
    );
    assert!(error.to_string().contains("just text"), "{error}");
    assert_eq!(
        complete(&mut printing("just text\n", Format::Auto), ""),
        "just text\n"
    );
}

#[test]
fn results_that_are_errors_are_errors() {
    let result = |is_error: bool, text: &str| {
        format!(
            "{{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\"}}\n{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":{is_error},\"session_id\":\"s\",\"result\":\"{text}\"}}\n"
        )
    };
    let ask = |output: &str| {
        let mut client = printing(output, Format::Claude);
        client.complete(&Request::prompt(""), &Cancel::new())
    };
    assert_eq!(ask(&result(false, "fine")).unwrap().text, "fine");
    let error = ask(&result(true, "Credit balance is too low")).unwrap_err();
    assert!(
        error.is_limited() && error.to_string().contains("Credit balance"),
        "{error}"
    );
    let error = ask(&result(true, "no such model")).unwrap_err();
    assert!(!error.is_limited(), "{error}");
}

#[test]
fn an_agent_that_hangs_after_its_end_still_answers() {
    let end = [TURN, END].concat();
    let script = "printf %s \"$0\"; exec sleep 1000";
    let command = Command::new("sh").args(["-c", script, &end]);
    let mut client =
        CommandClient::new(command.format(Format::Codex)).exit_timeout(Duration::from_millis(50));
    let (answer, chunks) = streamed(&mut client, &Request::prompt(""));
    assert!(answer.unwrap().text.ends_with("one file."));
    let warnings = warnings_of(&chunks);
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains("did not exit within")),
        "{warnings:?}"
    );
}

/// Returns true if a process is gone, or waits for another process to reap it.
fn is_gone(pid: Pid) -> bool {
    test_kill_process(pid).is_err() || is_zombie(pid.as_raw_nonzero().get() as u32)
}

#[track_caller]
fn pid(text: &str) -> Pid {
    Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}

#[test]
fn a_timeout_ends_the_whole_process_group() {
    let script = "trap '' TERM; sleep 1000 & echo $!; wait; sleep 1000";
    let command = Command::shell(script)
        .format(Format::Text)
        .timeout(Duration::from_millis(500))
        .grace(Duration::from_millis(100));
    let mut client = CommandClient::new(command);
    let began = Instant::now();
    let error = client
        .complete(&Request::prompt(""), &Cancel::new())
        .unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(error.to_string().contains("within 500ms"), "{error}");
    assert!(began.elapsed() < CEILING);
    let grandchild = pid(error.partial());
    wait_for("the end of the group", CEILING, || {
        is_gone(grandchild).then_some(()).ok_or("it lives")
    });
}

#[test]
fn a_cancel_ends_a_command_at_once() {
    // The command waits; ignores TERM and has a child; prints without end while nobody reads; has a
    // grandchild in another session that holds its output.
    for script in [
        "echo $$; exec sleep 1000",
        "trap '' TERM; sleep 1000 & echo $!; wait; sleep 1000",
        "echo $$; exec yes",
        "echo $$; setsid sleep 3 & exec sleep 1000",
    ] {
        let asking = Asking::begin(shell(script), Request::prompt("x".repeat(1 << 20)));
        let first = asking.text();
        let process = pid(first.lines().next().unwrap());
        let error = asking.cancelled();
        assert!(error.partial().starts_with(&first), "{error:?}");
        wait_for("its end", CEILING, || {
            is_gone(process).then_some(()).ok_or("it lives")
        });
    }
    let cancel = Cancel::new();
    cancel.cancel();
    let error = shell("exit 3")
        .complete(&Request::prompt(""), &cancel)
        .unwrap_err();
    assert!(error.is_cancelled(), "{error:?}");
}

#[test]
fn a_grandchild_that_holds_the_output_is_not_awaited() {
    let began = Instant::now();
    assert_eq!(
        complete(&mut shell("setsid sleep 15 & echo done"), ""),
        "done\n"
    );
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_caller_that_reads_no_chunks_delays_a_command_until_its_timeout_only() {
    let (full, _kept) = crossbeam_channel::bounded(0);
    let command = Command::shell("echo one; echo two").format(Format::Text);
    let mut client = CommandClient::new(command.timeout(Duration::from_millis(200)));
    let answer = client.stream(&Request::prompt(""), &full, &Cancel::new());
    // Its text has arrived, whether it ended by itself in time or not.
    let text = answer.map_or_else(|error| error.partial().to_owned(), |response| response.text);
    assert_eq!(text, "one\ntwo\n");
}

#[test]
fn real_recordings_of_agents_are_read() {
    let Some(root) = recordings() else {
        return;
    };
    let mut read = 0;
    for (directory, format) in [
        ("claude-stream-json", Format::Claude),
        ("codex-exec-json", Format::Codex),
        ("gemini-stream-json", Format::Gemini),
    ] {
        for file in crate::recordings::files_below(&root.join(directory)) {
            for format in [format, Format::Auto] {
                let mut client = CommandClient::new(Command::new("cat").arg(&file).format(format));
                let (answer, chunks) = streamed(&mut client, &Request::prompt(""));
                let failed = chunks.iter().rev().find_map(|chunk| match chunk {
                    StreamChunk::Agent(AgentEvent::AgentFailed { .. }) => Some(true),
                    StreamChunk::Agent(AgentEvent::AgentCompleted { .. }) => Some(false),
                    _ => None,
                });
                if let Some(failed) = failed {
                    assert_eq!(answer.is_err(), failed, "{}: {answer:?}", file.display());
                }
                read += 1;
            }
        }
    }
    assert!(read > 10, "{read} recordings");
}
