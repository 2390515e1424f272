//! Waits through the observer: over its API, and from the command line beside it.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Output;
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Home, Reply, post, signal};
use crate::cli::{Running, assert_code, text};
use crate::support::{CEILING, wait_for};

fn wait(home: &Home, body: &Value) -> Reply {
    post(&home.socket(), "/api/v1/wait", &body.to_string())
}

/// Returns the names of the threads of a process.
fn threads(pid: u32) -> Vec<String> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let names = tasks
        .flatten()
        .map(|task| fs::read_to_string(task.path().join("comm")));
    names.flatten().map(|name| name.trim().to_owned()).collect()
}

#[track_caller]
pub fn wait_for_thread(pid: u32, name: &str, is_there: bool) {
    wait_for(name, CEILING, || {
        let threads = threads(pid);
        let found = threads.iter().any(|of| of == name);
        (found == is_there).then_some(()).ok_or(threads)
    });
}

#[test]
fn a_wait_ends_with_its_text_or_its_timeout() {
    let home = Home::new();
    let pane = home.server.new_session("sh", 60, 10, "PS1='$ ' exec sh");
    home.server.wait_for_text(&pane, "$");
    home.start_with(&["--allow-input"]);
    // Text typed after the wait has begun is never missed.
    for number in 0..5 {
        let wanted = format!("answer-{}", number + 10);
        let line = format!("echo answer-$(({number} + 10))");
        let (status, outcome) = wait(
            &home,
            &json!({"target": "sh", "send": line, "text": [wanted], "timeout_ms": 20_000}),
        );
        assert_eq!(status, 200, "{outcome}");
        assert_eq!(
            (
                &outcome["outcome"],
                &outcome["condition"],
                &outcome["text"],
                &outcome["pane"]
            ),
            (
                &json!("found"),
                &json!("text"),
                &json!(wanted),
                &json!(pane)
            )
        );
        assert!(
            outcome["elapsed_ms"].is_u64() && outcome["ts"].is_string(),
            "{outcome}"
        );
    }
    let (status, late) = wait(
        &home,
        &json!({"target": pane, "text": "never", "timeout_ms": 300}),
    );
    assert_eq!((status, &late["outcome"]), (200, &json!("timed_out")));
    assert_eq!(
        late["last_lines"].as_array().unwrap().last().unwrap(),
        "$ ",
        "{late}"
    );
    let existing = json!({"target": "sh", "regex": "^answer-1[34]$", "include_existing": true});
    assert_eq!(wait(&home, &existing).1["outcome"], "found");
    let stopped =
        json!({"target": "sh", "send": "echo err$((1))", "text": "never", "stop": "^err1"});
    assert_eq!(wait(&home, &stopped).1["outcome"], "stopped");
    let idle = json!({"target": "sh", "idle_ms": 200});
    assert_eq!(wait(&home, &idle).1["condition"], "idle");
    // A secret is redacted in the found line and in the last lines.
    let key = ["gh", "p_", "R7kQ2mZx9LpW4vTn8YcB3dFs6HjG1aUe5oKi"].concat();
    let secret =
        json!({"target": "sh", "send": format!("echo is {key} now"), "regex": "^is .* now"});
    let (_, found) = wait(&home, &secret);
    assert_eq!(found["outcome"], "found");
    assert!(!found.to_string().contains(&key), "{found}");
    home.server.tmux(&["copy-mode", "-t", &pane]);
    let refused = wait(&home, &json!({"target": "sh", "send": "x", "text": "y"}));
    assert_eq!(refused.0, 409, "{refused:?}");
    home.server
        .tmux(&["send-keys", "-t", &pane, "-X", "cancel"]);
    let end = json!({"target": "sh", "send": "exit", "exit": true});
    assert_eq!(wait(&home, &end).1["condition"], "exit");
}

#[test]
fn invalid_waits_are_refused_with_one_line() {
    let home = Home::new();
    home.server.new_session("build", 40, 5, "exec cat");
    home.start();
    for (body, status, why) in [
        (r#"{"target":"build"}"#, 400, "nothing is waited for"),
        (r#"{"target":"build","text":"a","more":1}"#, 400, "more"),
        (r#"{"text":"a"}"#, 400, "target"),
        (r#"{"target":"build","regex":"("}"#, 400, "regex"),
        (r#"{"target":"build","state":["wating"]}"#, 400, "waiting"),
        (
            r#"{"target":"build","exit":true,"timeout_ms":-1}"#,
            400,
            "-1",
        ),
        (r#"{"target":"nowhere","exit":true}"#, 404, "nowhere"),
        ("[1]", 400, "JSON object"),
        ("{\"target\":", 400, "EOF"),
        ("\u{1b}", 400, "JSON object"),
    ] {
        let (answered, problem) = post(&home.socket(), "/api/v1/wait", body);
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            answered == status && detail.contains(why),
            "{body}: {problem}"
        );
        assert!(!detail.contains('\n'), "{problem}");
    }
    let deep = "[".repeat(60_000);
    let body = format!(r#"{{"target":"build","text":{deep}"#);
    assert_eq!(post(&home.socket(), "/api/v1/wait", &body).0, 400);
    let long = format!(r#"{{"target":"build","text":"{}"}}"#, "x".repeat(70_000));
    assert_eq!(post(&home.socket(), "/api/v1/wait", &long).0, 413);
}

#[test]
fn states_are_reported_by_the_observer() {
    let home = Home::new();
    let pane = crate::states::start(&home.server);
    home.server.new_session("other", 40, 5, "exec cat");
    home.start_with(&["--allow-input"]);
    home.wait_for_row("agent", |row| row["state"] == "idle");
    let state = |states: Value| json!({"target": "agent", "state": states, "timeout_ms": 30_000});
    // The current state of the agent counts.
    let (_, idle) = wait(&home, &state(json!(["idle"])));
    assert_eq!(
        (
            &idle["outcome"],
            &idle["condition"],
            &idle["state"],
            &idle["pane"]
        ),
        (
            &json!("found"),
            &json!("state"),
            &json!("idle"),
            &json!(pane)
        ),
        "{idle}"
    );
    // A later state counts, too, but not that of another pane.
    let api = home.socket();
    let body = state(json!(["waiting", "error"])).to_string();
    let waiting = thread::spawn(move || post(&api, "/api/v1/wait", &body));
    wait_for_thread(home.pid(), "td-api-wait", true);
    let other = json!({"target": "other", "state": ["idle", "waiting"], "timeout_ms": 1500});
    assert_eq!(wait(&home, &other).1["outcome"], "timed_out");
    crate::states::set_state(&home.server, &pane, "waiting");
    let (_, asks) = waiting.join().unwrap();
    assert_eq!(asks["state"], "waiting", "{asks}");
    assert!(
        asks["text"].as_str().unwrap().contains("rm -rf build"),
        "{asks}"
    );
    // After sending a text, only later states count.
    let mut sends = state(json!(["waiting", "done"]));
    sends["send"] = json!("1");
    sends["enter"] = json!(true);
    let row = home.wait_for_row("agent", |row| row["question_id"].is_string());
    sends["answers"] = row["question_id"].clone();
    assert_eq!(wait(&home, &sends).1["state"], "done");
}

#[test]
fn a_wait_ends_with_its_client_and_with_the_observer() {
    let home = Home::new();
    home.server.new_session("build", 40, 5, "exec cat");
    home.start();
    let body = r#"{"target":"build","text":"never"}"#;
    let head = format!(
        "POST /api/v1/wait HTTP/1.1\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut client = UnixStream::connect(home.socket()).unwrap();
    client.write_all((head + body).as_bytes()).unwrap();
    wait_for_thread(home.pid(), "td-api-wait", true);
    drop(client);
    wait_for_thread(home.pid(), "td-api-wait", false);
    let api = home.socket();
    let waiting = thread::spawn(move || post(&api, "/api/v1/wait", body));
    wait_for_thread(home.pid(), "td-api-wait", true);
    assert_code(&home.run(&["stop"]), 0);
    assert_eq!(waiting.join().unwrap().0, 503);
    let log = fs::read_to_string(home.data().join("observer.log")).unwrap();
    assert!(!log.contains("holds its connection"), "{log}");
}

/// Returns the output without the times.
fn printed(output: &Output) -> (Option<i32>, String, String) {
    let lines = text(&output.stdout);
    let lines = lines
        .lines()
        .map(|line| match serde_json::from_str::<Value>(line) {
            Ok(mut outcome) => {
                outcome["ts"] = Value::Null;
                outcome["elapsed_ms"] = Value::Null;
                outcome.to_string()
            }
            Err(_) => line.to_owned(),
        });
    (output.status.code(), lines.collect(), text(&output.stderr))
}

#[test]
fn wait_prints_the_same_with_and_without_an_observer() {
    let home = Home::new();
    let pane = crate::states::start(&home.server);
    crate::states::set_state(&home.server, &pane, "waiting");
    let socket = home.server.socket().display().to_string();
    let run = |args: &[&str]| home.run(&[&["wait", "-S", &socket], args].concat());
    let waits: [&[&str]; 8] = [
        &["agent", "--state", "waiting", "--json"],
        &["agent", "--state", "waiting", "--timeout", "20s"],
        &["agent", "--state", "done", "--timeout", "1500ms", "--json"],
        &["agent", "--text", "Bash command", "--timeout", "300ms"],
        &["agent", "--state", "done", "--idle", "400ms", "--json"],
        &["agent", "--state", "wating"],
        &["agnet", "--state", "waiting"],
        &["agent", "agent:0", "--all", "--state", "waiting", "-q"],
    ];
    let direct: Vec<_> = waits.iter().map(|args| printed(&run(args))).collect();
    let codes: Vec<_> = direct.iter().map(|(code, ..)| code.unwrap()).collect();
    assert_eq!(codes, [0, 0, 124, 124, 0, 2, 2, 0], "{direct:?}");
    home.start();
    home.wait_for_row("agent", |row| row["state"] == "waiting");
    for (args, direct) in waits.iter().zip(&direct) {
        assert_eq!(printed(&run(args)), *direct, "{args:?}");
    }
}

#[test]
fn wait_uses_the_observer_and_outlives_it() {
    let home = Home::new();
    let pane = crate::states::start(&home.server);
    let observer = home.start();
    home.wait_for_row("agent", |row| row["state"] == "idle");
    let socket = home.server.socket().display().to_string();
    let args = ["wait", "-S", &socket, "agent", "--state", "done"];
    let start = || {
        let running = Running::start(home.command(&args));
        wait_for_thread(running.child.id(), "td-wait-ask", true);
        running
    };
    // The wait observes nothing itself, and Ctrl-C ends it.
    let interrupted = start();
    wait_for_thread(observer, "td-api-wait", true);
    assert!(!threads(interrupted.child.id()).contains(&"td-coordinator".to_owned()));
    interrupted.signal(Signal::INT);
    let output = interrupted.end();
    assert_code(&output, 130);
    assert_eq!(text(&output.stderr), "");
    wait_for_thread(observer, "td-api-wait", false);
    let orphan = start();
    wait_for_thread(observer, "td-api-wait", true);
    signal(observer, Signal::KILL);
    wait_for_thread(orphan.child.id(), "td-coordinator", true);
    crate::states::set_state(&home.server, &pane, "done");
    let output = orphan.end();
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout), "done\n", "{output:?}");
}
