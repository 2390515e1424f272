//! Jobs of shells on the board: a script is work, and a failure is news.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::Home;
use crate::cli::{Running, assert_code};
use crate::support::{CEILING, wait_for};

/// A home whose observer has a shell at its prompt, and the shell's pane.
fn observed_shell() -> (Home, String) {
    let home = Home::new();
    let pane = home.server.shell("sh");
    home.start();
    home.wait_for_row("sh", |row| row["state"] == "idle");
    (home, pane)
}

#[test]
fn a_script_is_work_and_its_failure_is_news() {
    let (home, pane) = observed_shell();

    home.server
        .types("sh", "sh -c 'echo building; read x; echo broken; exit 2'");
    home.server.wait_for_text(&pane, "\nbuilding");
    home.wait_for_row("sh", |row| row["attention"] == "working");
    let socket = home.server.socket().display().to_string();
    let wait = [
        "-S",
        &socket,
        "wait",
        "sh",
        "--state",
        "idle",
        "--timeout",
        "1s",
    ];
    assert_code(&home.run(&wait), 124);
    // A wait that begins while the script runs ends with it.
    let mut stream = UnixStream::connect(home.socket()).unwrap();
    stream.set_read_timeout(Some(CEILING)).unwrap();
    let body = r#"{"target":"sh","state":["idle"],"timeout_ms":20000}"#;
    let length = body.len();
    let head =
        format!("POST /api/v1/wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n");
    write!(stream, "{head}Accept: application/x-ndjson\r\n\r\n{body}").unwrap();
    let mut answer = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(answer.any(|line| line.contains("begun")));
    home.server.types("sh", "go on");
    let outcome = answer.find(|line| line.contains("outcome"));
    assert!(
        outcome.as_ref().is_some_and(|line| line.contains("idle")),
        "{outcome:?}"
    );
    // The end of a job may be known before its last line.
    let row = home.wait_for_row("sh", |row| {
        row["state"] == "failed" && row["last_line"] == "broken"
    });
    assert_eq!(row["exit_status"], 2);
    assert_eq!(row["attention"], "finished", "it was short");
    // The shell is at its prompt.
    assert_code(&home.run(&wait), 0);

    home.server.types("sh", "sleep 1");
    home.wait_for_row("sh", |row| {
        row["state"] == "idle" && row["attention"] == "quiet"
    });
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_job_after_one_that_has_failed_is_working() {
    let (home, _) = observed_shell();
    home.server.types("sh", "sh -c 'sleep 1; exit 3'");
    home.wait_for_row("sh", |row| row["state"] == "failed");
    home.server.types("sh", "sleep 1000");
    let row = home.wait_for_row("sh", |row| row["agent"] == "sleep");
    assert_eq!(row["state"], "working", "{row}");
    assert_eq!(
        (&row["evidence"], &row["source"]),
        (&"inferred".into(), &"screen".into())
    );
    // A wait for the prompt ends with the job.
    let socket = home.server.socket().display().to_string();
    let wait = ["-S", &socket, "wait", "sh", "--state", "idle"];
    let waiting = Running::start(home.command(&wait));
    super::waits::wait_for_thread(home.pid(), "td-api-wait", true);
    home.server.tmux(&["send-keys", "-t", "sh", "C-c"]);
    assert_code(&waiting.end(), 0);
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_job_that_is_stopped_is_suspended_until_it_goes_on_or_ends() {
    let (home, pane) = observed_shell();
    home.server.types("sh", "sleep 1000");
    home.wait_for_row("sh", |row| row["agent"] == "sleep");
    let suspended = || {
        let row = home.wait_for_row("sh", |row| row["state"] == "suspended");
        assert_eq!(
            (&row["agent"], &row["attention"]),
            (&"sleep".into(), &"needs_you".into())
        );
        let last = row["last_line"].as_str().unwrap();
        assert!(!last.contains("Stopped") && last != "^Z", "{row}");
    };
    let stop = || {
        home.server.tmux(&["send-keys", "-t", "sh", "C-z"]);
        suspended();
    };
    stop();
    // Beside it, another job is the shell's.
    home.server.types("sh", "sh -c 'echo other; read x'");
    home.wait_for_row("sh", |row| {
        row["attention"] == "working" && row["last_line"] == "other"
    });
    home.server.types("sh", "");
    // Its user goes on working there: a wait for the prompt ends.
    let row = home.wait_for_row("sh", |row| row["state"] == "idle");
    assert_eq!(row["agent"], "shell", "{row}");
    home.server.types("sh", "fg");
    home.wait_for_row("sh", |row| row["state"] == "working");
    stop();
    let ended = row["job_ended"].clone();
    home.server.types("sh", "bg; clear");
    let row = home.wait_for_row("sh", |row| row["state"] == "idle");
    assert_eq!(
        (&row["agent"], &row["attention"]),
        (&"shell".into(), &"quiet".into())
    );
    home.server.types("sh", "fg");
    home.server.wait_for_text(&pane, "sleep 1000");
    stop();
    // The user has ended it himself.
    home.server.types("sh", "kill %1");
    home.wait_for_row("sh", |row| row["state"] != "suspended");
    let row = home.wait_for_row("sh", |row| row["job_ended"] != ended);
    assert_eq!(row["state"], "idle", "{row}");
    assert_code(&home.run(&["stop"]), 0);
}

/// Draws a dialogue of an agent, and waits.
const DIALOGUE: &str = "printf 'Do you want to proceed?\\n❯ 1. Yes\\n  2. No, and tell Claude what to do differently (esc)\\n'; read x";

#[test]
fn a_script_that_asks_and_is_stopped_is_suspended_until_it_goes_on_or_ends() {
    let home = Home::new();
    let shell = "PS1='> ' exec bash --norc --noprofile";
    let pane = home.server.new_session("sh", 100, 24, shell);
    home.server.wait_for_text(&pane, ">");
    home.start();
    for (name, asks) in [
        ("dialogue", DIALOGUE),
        ("question", "read -p 'Proceed? [y/N] ' x"),
    ] {
        let script = home.directory().join(name);
        std::fs::write(&script, asks).unwrap();
        home.server
            .types("sh", &format!("clear; sh {}", script.display()));
        home.wait_for_row("sh", |row| row["state"] == "waiting");
        home.server.tmux(&["send-keys", "-t", "sh", "C-z"]);
        let is_suspended = |row: &Value| row["state"] == "suspended" && row["asks"].is_null();
        let row = home.wait_for_row("sh", is_suspended);
        assert_eq!(row["attention"], "needs_you", "{row}");
        // It is still so beside another job.
        home.server.types("sh", "clear; echo other");
        home.server.wait_for_text(&pane, "other\n>");
        home.server.types("sh", "fg");
        home.wait_for_row("sh", |row| row["state"] != "suspended");
        home.server.tmux(&["send-keys", "-t", "sh", "C-z"]);
        home.wait_for_row("sh", is_suspended);
        home.server.types("sh", "kill %1");
        home.wait_for_row("sh", |row| {
            row["state"] == "idle" || row["state"] == "failed"
        });
    }
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn an_agent_has_its_name_although_its_screen_shows_no_state() {
    let home = Home::new();
    let agent = "exec bash -c 'exec -a opencode cat'";
    home.server.new_session("agent", 80, 24, agent);
    home.start();
    let row = home.wait_for_row("agent", |row| row["agent"] == "opencode");
    assert_eq!(row["evidence"], Value::Null, "{row}");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn short_panes_that_end_well_are_no_rows() {
    let home = Home::new();
    home.server.new_session("keeper", 80, 24, "exec cat");
    home.start();
    home.wait_for_row("keeper", |row| row["state"] == "running");
    for _ in 0..10 {
        (home.server).tmux(&["new-window", "-d", "-t", "keeper", "sleep 0.3"]);
    }
    // One that failed is a row, however short it lived. It ends once it is observed: of one that ends before, nobody
    // knows that it failed.
    let failing = "echo fails; read x; exit 3";
    let failing = (home.server).tmux(&[
        "new-window",
        "-d",
        "-t",
        "keeper",
        "-PF",
        "#{pane_id}",
        failing,
    ]);
    let row_is = |pane: &str, is_met: &dyn Fn(&Value) -> bool| {
        wait_for("the row", CEILING, || {
            let rows = home.rows();
            let mut own = rows.iter().filter(|row| row["pane"] == pane);
            own.any(is_met).then_some(()).ok_or(rows)
        });
    };
    row_is(failing.trim(), &|row| row["last_line"] == "fails");
    home.server.types(failing.trim(), "");
    row_is(failing.trim(), &|row| row["exit_status"] == 3);
    wait_for("the rows", CEILING, || {
        let rows = home.rows();
        (rows.len() == 2).then_some(()).ok_or(rows)
    });
    // So is an agent that was killed, and it needs the user.
    let agent = crate::states::claude(&home.server);
    let made = (home.server).tmux(&[
        "new-window",
        "-d",
        "-t",
        "keeper",
        "-P",
        "-F",
        "#{pane_id} #{pane_pid}",
        &agent,
    ]);
    let (pane, pid) = made.trim().split_once(' ').unwrap();
    row_is(pane, &|row| row["agent"] == "claude");
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    row_is(pane, &|row| {
        let is_failed = row["state"] == "failed" && row["ended"] == true;
        is_failed && row["attention"] == "needs_you" && row["asks"] == "claude killed (137)"
    });
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_loop_of_short_commands_is_a_shell_and_a_longer_job_is_its_row_s_program() {
    let (home, _) = observed_shell();
    home.server.types(
        "sh",
        "while true; do sh -c 'sleep 0.8; echo made'; sleep 0.8; done",
    );
    let mut programs = Vec::new();
    wait_for("three jobs of the loop", CEILING, || {
        let row = home.wait_for_row("sh", |_| true);
        programs.push(row["agent"].clone());
        let log = home.run(&["log", "--type", "ExecutionStarted", "--json"]);
        let log = String::from_utf8(log.stdout).unwrap();
        if log.lines().count() >= 3 {
            Ok(())
        } else {
            Err(log)
        }
    });
    assert!(programs.iter().all(|name| name == "shell"), "{programs:?}");
    home.server.tmux(&["send-keys", "-t", "sh", "C-c"]);
    home.wait_for_row("sh", |row| row["state"] == "idle");
    home.server.types("sh", "sleep 1000");
    home.wait_for_row("sh", |row| row["agent"] == "sleep");
    home.server.tmux(&["send-keys", "-t", "sh", "C-c"]);
    home.wait_for_row("sh", |row| row["agent"] == "shell");
    assert_code(&home.run(&["stop"]), 0);
}

/// Writes a script; returns the command that runs it.
fn script(home: &Home, name: &str, text: &str) -> String {
    let path = home.directory().join(name);
    std::fs::write(&path, text).unwrap();
    format!("sh {}", path.display())
}

#[test]
fn a_pager_waits_for_its_reader() {
    let (home, _) = observed_shell();
    // Its first page ends with the name of the file.
    let pager = home.directory().join("less");
    std::os::unix::fs::symlink("/bin/cat", &pager).unwrap();
    home.server.types("sh", &pager.display().to_string());
    let row = home.wait_for_row("sh", |row| row["agent"] == "less");
    assert_eq!(
        (&row["state"], &row["last_line"]),
        (&"waiting".into(), &"".into())
    );
    home.server.tmux(&["send-keys", "-t", "sh", "C-d"]);
    home.wait_for_row("sh", |row| row["state"] == "idle");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_job_that_fails_has_its_own_name() {
    let (home, pane) = observed_shell();
    for (name, status) in [("first.sh", 3), ("second.sh", 4), ("third.sh", 5)] {
        let text = format!("echo {name} asks; read x; exit {status}");
        home.server.types("sh", &script(&home, name, &text));
        home.server.wait_for_text(&pane, &format!("\n{name} asks"));
        let row = home.wait_for_row("sh", |row| row["attention"] == "working");
        assert_eq!(row["agent"], "shell", "it is not named yet");
        home.server.types("sh", "go on");
        let row = home.wait_for_row("sh", |row| row["state"] == "failed");
        assert_eq!(
            (&row["agent"], &row["exit_status"]),
            (&name.into(), &status.into())
        );
    }
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn another_agent_ends_the_news_of_one_that_was_killed() {
    let (home, _) = observed_shell();
    let file = home.directory().join("pid");
    let line = format!(
        "(echo $BASHPID > {}; exec -a claude sleep 1000)",
        file.display()
    );
    home.server.types("sh", &line);
    home.wait_for_row("sh", |row| row["agent"] == "claude");
    let pid = std::fs::read_to_string(&file).unwrap();
    super::signal(pid.trim().parse().unwrap(), Signal::KILL);
    let row = home.wait_for_row("sh", |row| row["state"] == "failed");
    assert_eq!(row["last_line"], "claude killed (137)");
    home.server.types("sh", &line);
    let row = home.wait_for_row("sh", |row| row["state"] != "failed");
    assert_eq!(row["last_line"], "");
    let row = home.wait_for_row("sh", |row| row["agent"] == "claude");
    assert_eq!(row["last_line"], "");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn the_last_line_is_neither_what_was_typed_nor_a_frame() {
    let (home, pane) = observed_shell();
    home.server.types("sh", "echo hello");
    home.wait_for_row("sh", |row| row["last_line"] == "hello");
    home.server.types("sh", "cat");
    home.wait_for_row("sh", |row| row["agent"] == "cat");
    home.server.tmux(&["send-keys", "-t", "sh", "C-d"]);
    home.wait_for_row("sh", |row| row["agent"] == "shell");
    let (data, program) = (home.data(), env!("CARGO_BIN_EXE_td-observe"));
    let run = format!(
        "clear; TD_DATA_DIR={} {program} run echo built",
        data.display()
    );
    home.server.types("sh", &run);
    home.server.wait_for_text(&pane, "● after");
    wait_for("the line of the job", CEILING, || {
        let rows = home.rows();
        let is_built = |row: &Value| row["pane"] == pane && row["last_line"] == "built";
        let is_met = |row: &Value| is_built(row) && row["state"] == "idle";
        rows.iter().any(is_met).then_some(()).ok_or(rows)
    });
    home.server.types("sh", "false");
    home.server.wait_for_text(&pane, "$ false\n$");
    let row = home.wait_for_row("sh", |row| row["state"] == "idle");
    assert_eq!(row["last_line"], "built");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn the_first_line_of_a_job_counts_and_no_line_of_an_earlier_one() {
    for source in ["stream", "poll"] {
        let home = Home::new();
        let pane = home.server.shell("sh");
        home.start_with(&["--source", source]);
        home.wait_for_row("sh", |row| row["state"] == "idle");
        let prints = script(&home, "prints.sh", "echo checking out; read x");
        let is_silent = script(&home, "silent.sh", "read x");
        let fails = script(&home, "fails.sh", "read x; exit 5");
        let run = format!(
            "TD_DATA_DIR={} {} run sh -c 'echo broken; exit 2'",
            home.data().display(),
            env!("CARGO_BIN_EXE_td-observe")
        );
        let types = |line: &str, name: &str| {
            home.server.types("sh", line);
            let row = home.wait_for_row("sh", |row| row["agent"] == name);
            row["last_line"].as_str().unwrap_or_default().to_owned()
        };
        home.server.types("sh", &run);
        wait_for("the failure of the run", CEILING, || {
            let rows = home.rows();
            let is_failed = |row: &Value| row["pane"] == pane && row["state"] == "failed";
            let is_said = |row: &Value| is_failed(row) && row["last_line"] == "broken";
            rows.iter().any(is_said).then_some(()).ok_or(rows)
        });
        assert_eq!(types(&prints, "prints.sh"), "checking out", "{source}");
        home.server.types("sh", "");
        home.wait_for_row("sh", |row| row["state"] == "idle");
        assert_eq!(types(&is_silent, "silent.sh"), "", "{source}");
        home.server.types("sh", "");
        home.wait_for_row("sh", |row| row["state"] == "idle");
        assert_eq!(types(&fails, "fails.sh"), "", "{source}");
        home.server.types("sh", "");
        let row = home.wait_for_row("sh", |row| row["state"] == "failed");
        assert_eq!(row["last_line"], "", "{source}");
        assert_code(&home.run(&["stop"]), 0);
    }
}
