//! A running loop of another process in the UI.

use std::fs;

use super::{Stage, view_of};
use crate::cli::{Running, assert_code};

const AGENT: &str = "echo I think; echo it is fixed";

/// Fails once and passes then, each time after the test has seen its lines.
const CHECK: &str = "echo the check; echo not yet >&2
until test -e checked; do sleep 0.05; done
test -e failed || { touch failed; exit 1; }
until test -e done; do sleep 0.05; done
";

#[test]
fn a_loop_is_shown_as_it_happens() {
    let mut stage = Stage::new();
    let home = &stage.home;
    home.server.new_session("job", 80, 24, "exec cat");
    stage.start((140, 40), "");
    stage.shows("output job");

    let home = &stage.home;
    let (checked, done) = (
        home.directory().join("checked"),
        home.directory().join("done"),
    );
    fs::write(home.directory().join("check.sh"), CHECK).unwrap();
    let args = [
        "loop",
        "-q",
        "--task",
        "Mend it",
        "--agent",
        "sh agent.sh",
        "--check",
        "sh check.sh",
    ];
    let mut command = home.command(&args);
    fs::write(home.directory().join("agent.sh"), AGENT).unwrap();
    command.current_dir(home.directory());
    let looping = Running::start(command);
    stage.shows("Mend it");
    // A new row is the first of its group.
    stage.types("g");
    stage.types("o");
    stage.until("the answer, during the check", |screen| {
        let view = view_of(screen);
        [
            "output Mend it",
            "[phase] 1 of 1",
            "[iteration] 1 begins",
            "it is fixed",
        ]
        .iter()
        .all(|text| view.contains(text))
    });
    stage.types("l");
    stage.until("lines of the check, before it has ended", |screen| {
        let view = view_of(screen);
        view.contains("the check") && view.contains("[stderr] not yet") && !view.contains("FAILED")
    });
    fs::write(&checked, "").unwrap();
    stage.until("the next iteration", |screen| {
        view_of(screen).contains("[iteration] 2 begins")
    });
    fs::write(&done, "").unwrap();
    stage.until("the end", |screen| {
        view_of(screen).contains("[loop] SUCCEEDED") && screen.contains("FINISHED 1")
    });
    assert_code(&looping.end(), 0);
    // Each line once, including those read from the log.
    stage.types("o");
    let screen = stage.until("all of it", |screen| {
        view_of(screen).contains("[loop] SUCCEEDED")
    });
    for once in [
        "[iteration] 1 begins",
        "[iteration] 2 begins",
        "[loop] Mend it",
    ] {
        assert_eq!(
            view_of(&screen).matches(once).count(),
            1,
            "{once}: {screen}"
        );
    }
    stage.types("q");
    stage.ended(0);
    stage.left_nothing();
}

/// Writes a part of a sentence, a tool's call and its result, each after the test has seen the one before.
const PARTS: &str = r#"event() { printf '{"type":"stream_event","session_id":"s","event":%s}\n' "$1"; }
until_seen() { until test -e "$1"; do sleep 0.05; done; }
text() { event '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"'"$1"'"}}'; }
echo '{"type":"system","subtype":"init","session_id":"s"}'
event '{"type":"message_start","message":{"id":"m"}}'
event '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'
text 'I look at '
until_seen part
text 'the files.'
until_seen sentence
echo '{"type":"assistant","session_id":"s","message":{"id":"m","content":[{"type":"text","text":"I look at the files."},{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls src"}}]}}'
until_seen tool
echo '{"type":"user","session_id":"s","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"main.rs"}]}}'
until_seen result
echo '{"type":"result","subtype":"success","is_error":false,"result":"Done.","session_id":"s"}'
"#;

/// The view shows a sentence while it is being written, and a tool before it has ended.
#[test]
fn parts_of_lines_and_tools_are_shown_as_they_happen() {
    let mut stage = Stage::new();
    stage.home.server.new_session("job", 80, 24, "exec cat");
    stage.start((140, 40), "");
    stage.shows("output job");
    let home = &stage.home;
    let directory = home.directory().to_owned();
    let seen = |name: &str| fs::write(directory.join(name), "").unwrap();
    fs::write(directory.join("agent.sh"), PARTS).unwrap();
    let mut command = home.command(&["run", "-q", "--as", "claude", "--", "sh", "agent.sh"]);
    command.current_dir(&directory);
    let running = Running::start(command);
    stage.shows("sh agent.sh");
    stage.types("go");
    stage.until("a part of the sentence", |screen| {
        let view = view_of(screen);
        view.contains("I look at") && !view.contains("the files.")
    });
    seen("part");
    stage.until("the sentence once", |screen| {
        view_of(screen).matches("I look at the files.").count() == 1
    });
    seen("sentence");
    stage.until("the tool before its end", |screen| {
        let view = view_of(screen);
        view.contains("Bash") && view.contains("ls src") && !view.contains("main.rs")
    });
    seen("tool");
    stage.until("the tool's result", |screen| {
        view_of(screen).contains("main.rs")
    });
    seen("result");
    assert_code(&running.end(), 0);
    stage.types("q");
    stage.ended(0);
}

/// A run whose writer was killed has the word of `runs`.
#[test]
fn a_killed_run_is_cut_off() {
    let mut stage = Stage::new();
    stage.home.start();
    let home = &stage.home;
    let args = ["run", "--stdin", "--execution-id", "victim", "--", "cat"];
    let (mut killed, input) = home.start_with_input(&args);
    home.wait_for_run("victim", |row| row["state"] == "running");
    killed.signal(rustix::process::Signal::KILL);
    drop(killed.child.wait());
    drop(input);
    home.wait_for_run("victim", |row| row["state"] == "exited");
    stage.start((140, 40), "");
    stage.shows("cut off");
    stage.types("q");
    stage.ended(0);
}
