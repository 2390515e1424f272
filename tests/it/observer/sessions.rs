//! The background sessions of Claude Code: rows without a pane.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command};

use serde_json::{Value, json};

use super::Home;
use crate::cli::{assert_code, text};
use crate::conversations::now;
use crate::support::{CEILING, wait_for};

const JOB: &str = "b6b81a5a";
const SESSION: &str = "b6b81a5a-3ce7-4948-9fe3-cbfaca37f07f";

/// A home with a session of Claude Code, whose process only sleeps.
struct Session {
    home: Home,
    process: Child,
    job: PathBuf,
}

impl Session {
    fn new() -> Self {
        let home = Home::new();
        home.server.new_session("keeper", 80, 24, "exec cat");
        let claude = home.directory().join(".claude");
        for directory in ["sessions", "jobs", "projects/-work"] {
            fs::create_dir_all(claude.join(directory)).unwrap();
        }
        let mut sleep = Command::new("sleep");
        let process = sleep.arg("1000").env("HOME", home.directory()).spawn();
        let process = process.unwrap();
        Self {
            job: claude.join("jobs").join(JOB),
            home,
            process,
        }
    }

    fn file(&self, path: &str) -> PathBuf {
        self.home.directory().join(".claude").join(path)
    }

    /// Writes the status file of a process as if it had started at this time.
    fn writes_status(&self, pid: u32, started: &str, status: &Value) {
        let mut whole = json!({
            "pid": pid, "sessionId": SESSION, "cwd": "/work", "procStart": started, "kind": "bg", "jobId": JOB,
        });
        let fields = status.as_object().unwrap().clone();
        whole.as_object_mut().unwrap().extend(fields);
        replace(&self.file(&format!("sessions/{pid}.json")), &whole);
    }

    fn is(&self, status: &Value) {
        let pid = self.process.id();
        self.writes_status(pid, &started(pid), status);
    }

    /// Writes the file of the job.
    fn job_is(&self, job: &Value) {
        fs::create_dir_all(&self.job).unwrap();
        let mut whole = json!({"sessionId": SESSION, "cwd": "/work"});
        let fields = job.as_object().unwrap().clone();
        whole.as_object_mut().unwrap().extend(fields);
        replace(&self.job.join("state.json"), &whole);
    }

    /// Waits until the lines of the table with this text are so many.
    #[track_caller]
    fn until_listed(&self, text_of_row: &str, count: usize) {
        wait_for(text_of_row, CEILING, || {
            let table = text(&self.home.run(&["status"]).stdout);
            let lines = table.lines().filter(|line| line.contains(text_of_row));
            if lines.count() == count {
                Ok(())
            } else {
                Err(table)
            }
        });
    }

    /// Appends a record to the transcript.
    fn writes(&self, mut record: Value) {
        let common = json!({"sessionId": SESSION, "timestamp": now().to_string(), "uuid": now().to_string()});
        let common = common.as_object().unwrap().clone();
        record.as_object_mut().unwrap().extend(common);
        let path = self.file(&format!("projects/-work/{SESSION}.jsonl"));
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        writeln!(file, "{record}").unwrap();
    }

    fn says(&self, content: Value, stop_reason: &str) {
        self.writes(json!({"type": "assistant", "message": {
            "id": now().to_string(), "role": "assistant", "model": "m", "content": [content],
            "stop_reason": stop_reason, "usage": {"input_tokens": 1, "output_tokens": 1},
        }}));
    }

    #[track_caller]
    fn row(&self, is_met: impl Fn(&Value) -> bool) -> Value {
        self.home.wait_for_row(JOB, is_met)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Replaces a file at once, so that nobody reads a half.
fn replace(path: &std::path::Path, content: &Value) {
    let new = path.with_extension("new");
    fs::write(&new, content.to_string()).unwrap();
    fs::rename(new, path).unwrap();
}

/// Returns when a process started, in clock ticks since boot.
fn started(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(") ").next().unwrap();
    after_name.split(' ').nth(19).unwrap().to_owned()
}

#[test]
fn a_background_session_has_a_row_without_a_pane() {
    let mut session = Session::new();
    session.home.start();
    // A process that waits for a session has no job.
    session.is(&json!({"status": "idle"}));
    // The file of an earlier process with the pid of another.
    session.writes_status(std::process::id(), "1", &json!({"status": "busy"}));
    session
        .job_is(&json!({"state": "working", "tempo": "active", "intent": "SCN: fix\nthe tests"}));
    session.is(&json!({"status": "busy"}));
    let row = session.row(|row| row["state"] == "working");
    let shown =
        |row: &Value| [&row["kind"], &row["agent"], &row["label"], &row["pane"]].map(Value::clone);
    assert_eq!(
        shown(&row),
        [
            json!("agent"),
            json!("claude"),
            json!("SCN: fix the tests"),
            Value::Null
        ]
    );
    assert_eq!(session.home.rows().len(), 2, "{:?}", session.home.rows());

    session
        .writes(json!({"type": "user", "message": {"role": "user", "content": "fix the tests"}}));
    session.says(
        json!({"type": "text", "text": "I look around."}),
        "tool_use",
    );
    let tool = json!({"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make deploy"}});
    session.says(tool, "tool_use");
    session.is(&json!({"status": "waiting", "waitingFor": "permission prompt"}));
    let row = session.row(|row| row["state"] == "waiting");
    assert_eq!(
        (&row["asks"], &row["attention"]),
        (&json!("make deploy"), &json!("needs_you"))
    );
    assert_code(&session.home.run(&["status", "--check", "-q"]), 4);
    let file = session.file(&format!("projects/-work/{SESSION}.jsonl"));
    assert_eq!(row["file"], json!(fs::canonicalize(file).unwrap()));

    let result = json!({"type": "tool_result", "tool_use_id": "t1", "content": "ok"});
    session.is(&json!({"status": "busy"}));
    session.writes(json!({"type": "user", "message": {"role": "user", "content": [result]}}));
    session.says(
        json!({"type": "text", "text": "All tests pass now."}),
        "end_turn",
    );
    let name =
        json!({"state": "working", "tempo": "idle", "intent": "fix", "name": "the tests of api"});
    session.job_is(&name);
    session.is(&json!({"status": "idle"}));
    let row = session.row(|row| row["state"] == "done" && row["label"] == "the tests of api");
    assert_eq!(
        (&row["last_line"], &row["turns"]),
        (&json!("All tests pass now."), &json!(1))
    );
    let table = text(&session.home.run(&["status"]).stdout);
    assert!(table.contains("the tests of api"), "{table}");

    // While it is attached in a pane, the row is the pane's.
    let home = session.home.directory();
    fs::write(home.join("attach"), "read wait").unwrap();
    let attach = format!(
        "cd '{0}' && HOME='{0}' exec bash -c 'exec -a claude bash attach {JOB}'",
        home.display()
    );
    session.home.server.new_session("attached", 80, 24, &attach);
    let attached = session
        .home
        .wait_for_row("attached", |row| !row["file"].is_null());
    assert_eq!(attached["file"], row["file"]);
    session.until_listed("the tests of api", 0);
    let server = &session.home.server;
    server.tmux(&["kill-session", "-t", "attached"]);
    session.until_listed("the tests of api", 1);

    // What the daemon finds that the session needs.
    let needs =
        json!({"state": "blocked", "tempo": "blocked", "needs": "Which branch?", "intent": "fix"});
    session.job_is(&needs);
    let row = session.row(|row| row["state"] == "waiting");
    assert_eq!(row["asks"], "Which branch?");

    let log = text(&session.home.run(&["log", &format!("claude-{JOB}")]).stdout);
    let parts = [
        "fix the tests",
        "I look around.",
        "[tool] Bash: ",
        "All tests pass now.",
    ];
    let places = parts.map(|part| (log.matches(part).count(), log.find(part)));
    assert!(
        places.iter().all(|(count, _)| *count == 1) && places.is_sorted(),
        "{places:?} {log}"
    );

    session.job_is(
        &json!({"state": "done", "tempo": "idle", "detail": "It is on main.", "intent": "fix"}),
    );
    session.process.kill().unwrap();
    session.process.wait().unwrap();
    let row = session.row(|row| row["last_line"] == "It is on main.");
    assert_eq!(row["state"], "done");
    wait_for("the end of the run", CEILING, || {
        let runs = text(&session.home.run(&["runs", "--json"]).stdout);
        let run = runs
            .lines()
            .find(|run| run.contains(JOB))
            .map(str::to_owned);
        run.filter(|run| run.contains(r#""state":"completed""#))
            .ok_or(runs)
    });
}

#[test]
fn a_background_session_that_is_removed_or_goes_on_under_another_observer_is_one_row() {
    let session = Session::new();
    session.job_is(&json!({"state": "working", "tempo": "idle", "intent": "look"}));
    session.writes(json!({"type": "user", "message": {"role": "user", "content": "look"}}));
    session.says(json!({"type": "text", "text": "It is good."}), "end_turn");
    session.is(&json!({"status": "idle"}));
    session.home.start();
    let row = session.row(|row| row["state"] == "done");
    assert_eq!(row["last_line"], "It is good.");
    assert_code(&session.home.run(&["stop"]), 0);
    session.row(|row| row["state"] == "not_observed");
    session.writes(json!({"type": "user", "message": {"role": "user", "content": "and now"}}));
    session.home.start();
    session.writes(json!({"type": "user", "message": {"role": "user", "content": "again"}}));
    session.is(&json!({"status": "busy"}));
    session.row(|row| row["state"] == "working");
    assert_eq!(session.home.rows().len(), 2, "{:?}", session.home.rows());
    let log = wait_for("the prompt", CEILING, || {
        let log = text(&session.home.run(&["log", &format!("claude-{JOB}")]).stdout);
        if log.contains("again") {
            Ok(log)
        } else {
            Err(log)
        }
    });
    assert_eq!(
        (log.matches("and now").count(), log.matches("again").count()),
        (1, 1),
        "{log}"
    );
    fs::remove_dir_all(&session.job).unwrap();
    session.row(|row| row["state"] == "done");
}
