//! Commands, loops and agents of other processes: on the board and in the stream of a running observer.

use std::io::Write;
use std::process::{ChildStdin, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::{Home, request};
use crate::cli::{Running, assert_code, text};
use crate::support::{CEILING, wait_for};

/// The longest time until a change is on the board, on a busy machine; the measured time is printed.
const SOON: Duration = Duration::from_secs(5);

impl Home {
    /// Starts the program with an open input.
    pub fn start_with_input(&self, args: &[&str]) -> (Running, ChildStdin) {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        let mut running = Running::start(command);
        let input = running.child.stdin.take().unwrap();
        (running, input)
    }

    /// Returns the rows of the observer, read directly from its socket.
    fn board(&self) -> Vec<Value> {
        let answer = request(&self.socket(), "GET /api/v1/board HTTP/1.1\r\n\r\n");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }

    /// Waits until the row of a run satisfies the predicate; returns it and the time that it took.
    #[track_caller]
    pub fn wait_for_run(&self, id: &str, is_met: impl Fn(&Value) -> bool) -> (Value, Duration) {
        let began = Instant::now();
        let row = wait_for(id, CEILING, || {
            let rows = self.board();
            let mut found = rows.iter().filter(|row| row["execution_id"] == id);
            let row = found.next().cloned();
            assert!(found.next().is_none(), "{rows:#?}");
            row.filter(&is_met).ok_or(rows)
        });
        (row, began.elapsed())
    }
}

#[test]
fn commands_of_other_processes_appear_change_and_end() {
    let home = Home::new();
    home.start();
    let mut late = Vec::new();
    for (id, code) in [("good", 0), ("bad", 7)] {
        let script = format!("echo begun-{id}; read go; echo more-{id}; read end; exit {code}");
        let args = [
            "run",
            "--stdin",
            "--execution-id",
            id,
            "--",
            "sh",
            "-c",
            &script,
        ];
        let (mut run, mut input) = home.start_with_input(&args);
        run.wait_for(&format!("begun-{id}"));
        let (row, took) = home.wait_for_run(id, |row| row["state"] == "running");
        late.push(took);
        assert_eq!(
            (&row["kind"], &row["pane"]),
            (&"command".into(), &Value::Null)
        );
        input.write_all(b"\n").unwrap();
        run.wait_for(&format!("more-{id}"));
        let (_, took) = home.wait_for_run(id, |row| row["last_line"] == format!("more-{id}"));
        late.push(took);
        input.write_all(b"\n").unwrap();
        assert_code(&run.end(), code);
        let (row, took) = home.wait_for_run(id, |row| row["state"] == "exited");
        late.push(took);
        assert_eq!(row["exit_status"], code);
        assert_eq!(row["attention"], "finished");
    }
    eprintln!("on the board after {late:?}");
    assert!(late.iter().all(|late| *late < SOON), "{late:?}");
    // A command that ends before the observer polls.
    assert_code(&home.run(&["run", "--execution-id", "short", "true"]), 0);
    home.wait_for_run("short", |row| row["exit_status"] == 0);
    // A command that runs again under its name continues its row.
    let again = [
        "run",
        "--execution-id",
        "bad",
        "--",
        "sh",
        "-c",
        "echo again; exit 3",
    ];
    assert_code(&home.run(&again), 3);
    home.wait_for_run("bad", |row| {
        row["exit_status"] == 3 && row["last_line"] == "again"
    });
    // The observer writes none of these events, and a restarted one shows the same rows.
    assert_code(&home.run(&["stop"]), 0);
    home.start();
    home.wait_for_run("bad", |row| row["exit_status"] == 3);
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_killed_command_ends_and_an_earlier_one_continues() {
    let home = Home::new();
    let script = "echo begun; while read line; do echo got $line; done";
    let args = [
        "run",
        "--stdin",
        "--execution-id",
        "victim",
        "--",
        "sh",
        "-c",
        script,
    ];
    let (mut run, mut input) = home.start_with_input(&args);
    run.wait_for("begun");
    home.start();
    home.wait_for_run("victim", |row| row["state"] == "running");
    input.write_all(b"one\n").unwrap();
    home.wait_for_run("victim", |row| row["last_line"] == "got one");
    run.signal(Signal::KILL);
    let (row, took) = home.wait_for_run("victim", |row| row["state"] == "exited");
    eprintln!("its end was on the board after {took:?}");
    assert!(took < SOON, "{took:?}");
    assert_eq!(row["exit_status"], Value::Null);
    assert_eq!(row["cut_off"], true);
    let shown = text(&home.run(&["status"]).stdout);
    assert!(shown.contains("cut off"), "{shown}");
    drop(input);
    drop(run.end());
    let runs = text(&home.run(&["runs", "--json"]).stdout);
    assert!(runs.contains("\"state\":\"cut off\""), "{runs}");
    assert_code(&home.run(&["stop"]), 0);
    // All faces have the same word, also without an observer.
    let shown = text(&home.run(&["status"]).stdout);
    assert!(shown.contains("cut off"), "{shown}");
}

#[test]
fn each_event_of_another_process_is_streamed_once() {
    let home = Home::new();
    home.start();
    let until_stopped = ["events?since=1h", "events"].map(|path| {
        let head = format!("GET /api/v1/{path} HTTP/1.1\r\n\r\n");
        let socket = home.socket();
        std::thread::spawn(move || request(&socket, &head))
    });
    let script = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo line-$i; done";
    let args = ["run", "--execution-id", "flood", "--", "sh", "-c", script];
    let run = Running::start(home.command(&args));
    // A stream that begins in the middle of the history.
    home.wait_for_run("flood", |_| true);
    let head = "GET /api/v1/events?since=1h&execution=flood HTTP/1.1\r\n\r\n".to_owned();
    let socket = home.socket();
    let late = std::thread::spawn(move || request(&socket, &head));
    assert_code(&run.end(), 0);
    home.wait_for_run("flood", |row| row["exit_status"] == 0);
    assert_code(&home.run(&["stop"]), 0);
    let [all, live] = until_stopped.map(|stream| stream.join().unwrap());
    for (name, answer) in [("all", all), ("live", live), ("late", late.join().unwrap())] {
        let lines = answer
            .lines()
            .filter_map(|line| line.strip_prefix("data: "));
        let events = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
        let of_flood: Vec<u64> = events
            .filter(|envelope| envelope["event"]["execution_id"] == "flood")
            .filter_map(|envelope| envelope["seq"].as_u64().filter(|seq| *seq > 0))
            .collect();
        let expected: Vec<u64> = (1..=*of_flood.last().expect(name)).collect();
        assert_eq!(of_flood, expected, "{name}");
        assert!(answer.contains("line-3000"), "{name}");
        assert!(answer.contains("ExecutionCompleted"), "{name}");
    }
}

#[test]
fn loops_and_agents_of_other_processes_are_on_the_board() {
    let home = Home::new();
    home.start();
    let loops = home.run(&[
        "loop",
        "--agent",
        "echo done",
        "--check",
        "true",
        "--task",
        "tidy up",
        "--max-iterations",
        "2",
        "--execution-id",
        "tidy",
    ]);
    assert_code(&loops, 0);
    let (row, _) = home.wait_for_run("tidy", |row| row["exit_status"] == 0);
    assert_eq!(
        (&row["kind"], &row["name"]),
        (&"loop".into(), &"tidy".into())
    );
    let file = home.data().join("agent.log");
    std::fs::write(&file, "half done\n").unwrap();
    let agents = Running::start(home.command(&["agents", &file.display().to_string()]));
    wait_for("the agent", CEILING, || {
        let rows = home.board();
        let is_there = rows
            .iter()
            .any(|row| row["kind"] == "agent" && row["state"] != "exited");
        is_there.then_some(()).ok_or(rows)
    });
    agents.signal(Signal::INT);
    drop(agents.end());
    wait_for("the end of the agent's observer", CEILING, || {
        let rows = home.board();
        let mut agents = rows.iter().filter(|row| row["kind"] == "agent");
        agents
            .all(|row| row["state"] == "not_observed")
            .then_some(())
            .ok_or(rows)
    });
    assert_code(&home.run(&["stop"]), 0);
}

/// An observer that follows runs, one that begins when they have ended, and the histories alone have the same rows,
/// one for each run.
#[test]
fn the_rows_of_runs_are_the_same_with_and_without_an_observer() {
    let home = Home::new();
    let agent = home.data().join("agent.jsonl");
    home.start();
    let result =
        r#"{"type":"result","subtype":"error","is_error":true,"result":"bad","session_id":"x"}"#;
    std::fs::write(&agent, format!("{result}\n")).unwrap();
    let failing = format!("cat {}; exit 1", agent.display());
    let ran = ["run", "--as", "claude", "--", "sh", "-c", &failing];
    assert_code(&home.run(&ran), 1);
    let named = ["run", "-q", "--execution-id", "named", "--as", "claude"];
    let named = [&named[..], &["--", "sh", "-c", &failing]].concat();
    assert_code(&home.run(&named), 1);
    let looped = [
        "loop",
        "--execution-id",
        "tidy",
        "--as",
        "claude",
        "--agent",
        &failing,
    ];
    let looped = [
        &looped[..],
        &["--check", "false", "--task", "x", "--max-iterations", "1"],
    ];
    assert_code(&home.run(&looped.concat()), 1);
    let agents = ["agents", "--execution-id", "background", "--poll", "100ms"];
    let agents = [&agents[..], &[agent.to_str().unwrap()]].concat();
    assert_code(&home.run(&agents), 1);
    let mut killed = Running::start(home.command(&["run", "--execution-id", "killed", "cat"]));
    killed.signal(Signal::KILL);
    drop(killed.child.wait());
    let all = ["named", "tidy", "background"];
    for id in all {
        home.wait_for_run(id, |row| {
            row["state"] == "exited" || row["state"] == "error"
        });
    }
    let rows = |board: Vec<Value>| {
        let mut rows: Vec<_> = board
            .into_iter()
            .filter(|row| row["execution_id"] != "killed")
            .collect();
        rows.sort_by_key(|row| row["name"].to_string());
        rows
    };
    let followed = rows(home.board());
    assert_code(&home.run(&["stop"]), 0);
    let status = |args: &[&str]| -> Vec<Value> {
        let output = home.run(&[&["status", "--json"], args].concat());
        let lines = text(&output.stdout)
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>();
        lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let kept = rows(status(&[]));
    home.start();
    let restarted = rows(home.board());
    assert_code(&home.run(&["stop"]), 0);
    assert_eq!(followed, kept);
    assert_eq!(restarted, kept);
    let shown: Vec<_> = kept
        .iter()
        .map(|row| {
            (
                row["name"].as_str().unwrap(),
                row["state"].as_str().unwrap(),
                &row["exit_status"],
            )
        })
        .collect();
    let command = format!("sh -c '{failing}'");
    let one = Value::from(1);
    let expected = [
        ("agent", "error", &Value::Null),
        ("named", "exited", &one),
        (command.as_str(), "exited", &one),
        ("tidy", "exited", &one),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn sessions_under_observation_belong_to_the_observer() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    let socket = home.server.socket().display().to_string();
    // With hooks, a watch observes by itself and holds the lock.
    let mut watch = Running::start(home.command(&["watch", "-S", &socket, "--on-end", "true"]));
    watch.wait_for("build");
    home.start();
    home.server
        .tmux(&["send-keys", "-t", "build", "hello", "Enter"]);
    watch.wait_for("hello");
    watch.signal(Signal::INT);
    assert_code(&watch.end(), 0);
    home.server
        .tmux(&["send-keys", "-t", "build", "later", "Enter"]);
    home.wait_for_row("build", |row| {
        row["last_line"] == "later" && row["state"] == "running"
    });
    assert_eq!(home.board().len(), 1);
    assert_code(&home.run(&["stop"]), 0);
}
