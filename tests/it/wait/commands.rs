//! `td-observe wait` in scripts: text that is typed first, states of agents, several targets.

use std::process::Output;

use rustix::process::Signal;
use serde_json::Value;

use crate::cli::{Running, assert_code, on, program, text};
use crate::support::{CEILING, TmuxServer, wait_for};

/// Starts `td-observe wait` on a server.
#[track_caller]
fn start(server: &TmuxServer, args: &[&str]) -> Running {
    let socket = server.socket().display().to_string();
    let args = [&["wait"], args].concat();
    Running::start(program(&on(&socket, &args), server.directory()))
}

#[track_caller]
fn wait(server: &TmuxServer, args: &[&str]) -> Output {
    start(server, &[args, &["--timeout", "20s"]].concat()).end()
}

#[track_caller]
fn json(output: &Output) -> Vec<Value> {
    let lines = text(&output.stdout);
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A session with a shell at its prompt.
fn shell(server: &TmuxServer, name: &str) -> String {
    let pane = server.new_session(name, 80, 24, "PS1='$ ' exec sh");
    server.wait_for_text(&pane, "$");
    pane
}

#[test]
fn a_fast_answer_to_sent_text_is_found_and_its_echo_is_ignored() {
    let server = TmuxServer::new();
    shell(&server, "sh");
    for number in 0..25 {
        let line = format!(
            "echo answer-$(({number} + 1000)) # answer-{}",
            number + 1000
        );
        let wanted = format!("answer-{}", number + 1000);
        let output = wait(&server, &["sh", "--send", &line, "--text", &wanted]);
        assert_code(&output, 0);
        assert_eq!(text(&output.stdout), format!("{wanted}\n"));
        assert_eq!(text(&output.stderr), "");
    }
    // A prompt that no rule recognizes.
    let odd = server.new_session(
        "odd",
        80,
        24,
        "printf 'input here: '; read x; echo got $x; exec cat",
    );
    server.wait_for_text(&odd, "input here:");
    let output = wait(&server, &["odd", "--send", "say DONE", "--regex", "DONE"]);
    assert_eq!(text(&output.stdout), "got say DONE\n", "{output:?}");
}

#[test]
fn a_program_that_repeats_the_typed_text_is_found() {
    let server = TmuxServer::new();
    server.new_session("cat", 80, 24, "exec cat");
    let output = wait(
        &server,
        &["cat", "--send", "hello", "--text", "hello", "--json"],
    );
    assert_code(&output, 0);
    assert_eq!(json(&output)[0]["line"], 2, "{output:?}");
}

#[test]
fn odd_texts_are_typed_unchanged() {
    let server = TmuxServer::new();
    let pane = server.new_session(
        "raw",
        80,
        24,
        "stty -echo; echo ready; while IFS= read -r x; do printf '<%s>\\n' \"$x\"; done",
    );
    server.wait_for_text(&pane, "ready");
    for odd in [
        "-n",
        "a;",
        "Enter",
        "$HOME 'x' \"y\" `z` \\ é 漢 🦀",
        "  blanks  ",
    ] {
        let wanted = format!("<{odd}>");
        let output = wait(
            &server,
            &["raw", "--send", odd, "--text", &wanted, "--json"],
        );
        assert_code(&output, 0);
        assert_eq!(json(&output)[0]["text"], wanted.as_str());
    }
    let long = "x".repeat(4_000);
    let output = wait(&server, &["raw", "--send", &long, "--regex", "^<x{4000}>$"]);
    assert_code(&output, 0);
}

#[test]
fn without_enter_nothing_is_run() {
    let server = TmuxServer::new();
    let pane = shell(&server, "sh");
    let output = start(
        &server,
        &[
            "sh",
            "--send",
            "echo no-$((1 + 1))",
            "--no-enter",
            "--text",
            "no-2",
            "--timeout",
            "700ms",
        ],
    )
    .end();
    assert_code(&output, 124);
    assert!(server.screen(&pane).contains("echo no-$((1 + 1))"));
    server.tmux(&["send-keys", "-t", &pane, "Enter"]);
    server.wait_for_text(&pane, "no-2");
}

#[test]
fn text_is_typed_into_the_active_pane_of_a_session() {
    let server = TmuxServer::new();
    shell(&server, "sh");
    let second = server.tmux(&[
        "split-window",
        "-t",
        "=sh:",
        "-P",
        "-F",
        "#{pane_id}",
        "PS1='$ ' exec sh",
    ]);
    server.wait_for_text(&second, "$");
    let output = wait(
        &server,
        &[
            "sh",
            "--send",
            "echo in-$TMUX_PANE",
            "--text",
            &format!("in-{second}"),
        ],
    );
    assert_code(&output, 0);
    server.tmux(&["copy-mode", "-t", &second]);
    let refused = wait(&server, &["sh", "--send", "x", "--text", "y"]);
    assert_code(&refused, 2);
    assert!(text(&refused.stderr).contains("copy mode"), "{refused:?}");
}

#[test]
fn existing_text_causes_a_hint() {
    let server = TmuxServer::new();
    let pane = server.new_session("job", 80, 24, "echo BUILD SUCCESS; exec cat");
    server.wait_for_text(&pane, "SUCCESS");
    let args = ["job", "--text", "SUCCESS", "--timeout", "500ms"];
    let output = start(&server, &args).end();
    assert_code(&output, 124);
    let hints = text(&output.stderr);
    assert!(
        hints.starts_with("td-observe: hint: pane ") && hints.contains("BUILD SUCCESS"),
        "{hints}"
    );
    let quiet = start(&server, &[&args[..], &["-q"]].concat()).end();
    assert_eq!(text(&quiet.stderr), "");
    let other = start(&server, &["job", "--text", "FAILURE", "--timeout", "300ms"]).end();
    assert!(!text(&other.stderr).contains("hint"), "{other:?}");
}

#[test]
fn several_targets_require_any_or_all() {
    let server = TmuxServer::new();
    shell(&server, "a");
    shell(&server, "b");
    let refused = wait(&server, &["a", "b", "--text", "x"]);
    assert_code(&refused, 2);
    assert!(text(&refused.stderr).contains("--any"), "{refused:?}");
    let both = wait(&server, &["a", "b", "--any", "--all", "--text", "x"]);
    assert_code(&both, 2);
    let missing = wait(&server, &["a", "nowhere", "--all", "--text", "x"]);
    assert_code(&missing, 2);
    assert!(text(&missing.stderr).contains("nowhere"), "{missing:?}");
}

#[test]
fn any_ends_with_the_first_target_and_all_with_the_last() {
    let server = TmuxServer::new();
    for name in ["a", "b", "c"] {
        shell(&server, name);
    }
    let any = start(
        &server,
        &["a", "b", "c", "--any", "--text", "go!", "--timeout", "20s"],
    );
    let all = start(
        &server,
        &[
            "a",
            "b",
            "c",
            "--all",
            "--text",
            "go!",
            "--timeout",
            "20s",
            "--json",
        ],
    );
    // Both waits observe when a third one finds the text that they are sent.
    for name in ["b", "c", "a"] {
        let options = ["--send", "printf 'go%s\\n' !", "--text", "go!"];
        // Until both have begun, the text is not yet there: the first round may be too early for them.
        assert_code(&wait(&server, &[&[name], &options[..]].concat()), 0);
    }
    for name in ["b", "c", "a"] {
        server.tmux(&[
            "send-keys",
            "-t",
            &format!("={name}:"),
            "printf 'go%s\\n' !",
            "Enter",
        ]);
    }
    let any = any.end();
    assert_code(&any, 0);
    let shown = text(&any.stdout);
    assert!(
        shown.lines().count() == 1 && shown.contains(" | go!"),
        "{shown}"
    );
    let all = all.end();
    assert_code(&all, 0);
    let mut targets: Vec<String> = json(&all)
        .iter()
        .map(|line| line["target"].as_str().unwrap().to_owned())
        .collect();
    targets.sort();
    assert_eq!(targets, ["a", "b", "c"]);
}

#[test]
fn a_failed_target_ends_all_and_any_continues_without_it() {
    let server = TmuxServer::new();
    server.new_session("keeper", 80, 24, "exec cat");
    for name in ["a", "b"] {
        server.new_session(name, 80, 24, "read x; exit");
    }
    shell(&server, "c");
    let all = start(&server, &["a", "c", "--all", "--text", "x1"]);
    let any = start(&server, &["b", "c", "--any", "--text", "x2"]);
    let gone = start(&server, &["a", "b", "--any", "--text", "never"]);
    // They have begun when a wait that began later has its answer.
    for running in [&all, &any, &gone] {
        let tasks = format!("/proc/{}/task", running.child.id());
        wait_for("a thread for each target", CEILING, || {
            let tasks = std::fs::read_dir(&tasks).unwrap().flatten();
            let names = tasks.flat_map(|task| std::fs::read_to_string(task.path().join("comm")));
            let names: Vec<String> = names.collect();
            let waits = names.iter().filter(|name| name.trim() == "td-wait");
            (waits.count() == 2).then_some(()).ok_or(names)
        });
    }
    assert_code(
        &wait(
            &server,
            &["c", "--send", "echo be$((1))gun", "--text", "be1gun"],
        ),
        0,
    );
    for name in ["a", "b"] {
        server.tmux(&["send-keys", "-t", &format!("={name}:"), "Enter"]);
    }
    assert_code(&all.end(), 1);
    assert_code(&gone.end(), 1);
    server.tmux(&["send-keys", "-t", "=c:", "echo x$((1 + 1))", "Enter"]);
    assert_code(&any.end(), 0);
    let stopped = wait(
        &server,
        &[
            "c",
            "keeper",
            "--all",
            "--send",
            "echo err$((1))",
            "--text",
            "never",
            "--stop",
            "^err1",
        ],
    );
    assert_code(&stopped, 1);
    let late = start(
        &server,
        &[
            "c",
            "keeper",
            "--all",
            "--text",
            "never",
            "--timeout",
            "400ms",
        ],
    )
    .end();
    assert_code(&late, 124);
}

#[test]
fn a_signal_ends_several_waits() {
    let server = TmuxServer::new();
    shell(&server, "a");
    shell(&server, "b");
    server.tmux(&["set-hook", "-g", "after-capture-pane", "set -g @looked yes"]);
    let running = start(
        &server,
        &["a", "b", "--all", "--text", "never", "--state", "done"],
    );
    wait_for("a capture", CEILING, || {
        if server.tmux(&["show", "-gqv", "@looked"]).is_empty() {
            Err("none yet")
        } else {
            Ok(())
        }
    });
    running.signal(Signal::INT);
    assert_code(&running.end(), 130);
}

#[test]
fn a_wait_ends_with_the_state_of_an_agent() {
    let server = TmuxServer::new();
    let pane = crate::states::start(&server);
    // The current state counts, unless text is sent.
    let idle = wait(&server, &["agent", "--state", "idle", "--json"]);
    assert_code(&idle, 0);
    let found = &json(&idle)[0];
    assert_eq!(
        (&found["condition"], &found["state"]),
        (&"state".into(), &"idle".into()),
        "{found}"
    );
    assert_eq!(found["pane"], pane.as_str());
    let asks = wait(
        &server,
        &["agent", "--send", "waiting", "--state", "waiting,error"],
    );
    assert_code(&asks, 0);
    assert!(text(&asks.stdout).contains("rm -rf build"), "{asks:?}");
    // Only the id of its question answers it, and without an observer it has none.
    let refused = wait(
        &server,
        &["agent", "--send", "working", "--state", "working"],
    );
    assert_code(&refused, 2);
    assert!(
        text(&refused.stderr).contains("rm -rf build"),
        "{refused:?}"
    );
    crate::states::set_state(&server, &pane, "working");
    let working = wait(&server, &["agent", "--state", "working"]);
    assert_eq!(text(&working.stdout), "working\n", "{working:?}");
    let done = wait(
        &server,
        &[
            "agent", "--send", "done", "--state", "idle", "--state", "done",
        ],
    );
    assert_eq!(text(&done.stdout), "done\n", "{done:?}");
    // The pane's pipe is free again, so that an observer can stream it.
    assert_eq!(
        server.tmux(&["display-message", "-p", "-t", &pane, "#{pane_pipe}"]),
        "0"
    );
}

#[test]
fn an_answer_shorter_than_a_reported_state_is_found() {
    let server = TmuxServer::new();
    crate::states::start(&server);
    let output = wait(
        &server,
        &["agent", "--send", "flicker", "--state", "working"],
    );
    assert_code(&output, 0);
    crate::states::set_state(&server, "=agent:", "idle");
    let idle = wait(&server, &["agent", "--state", "idle"]);
    assert_code(&idle, 0);
    // The agent is idle before and after.
    let again = wait(&server, &["agent", "--send", "idle", "--state", "idle"]);
    assert_code(&again, 0);
}

#[test]
fn invalid_states_and_missing_targets_are_refused() {
    let server = TmuxServer::new();
    shell(&server, "a");
    let wrong = wait(&server, &["a", "--state", "wating"]);
    assert_code(&wrong, 2);
    let stderr = text(&wrong.stderr);
    assert!(
        stderr.contains("\"waiting\"") && stderr.contains("limited"),
        "{stderr}"
    );
    let missing = wait(&server, &["b", "--state", "idle"]);
    assert_code(&missing, 2);
    assert_code(&wait(&server, &["a", "--no-enter", "--text", "x"]), 2);
    assert_code(&wait(&server, &["a", "--send", "x"]), 2);
}
