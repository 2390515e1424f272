//! The observer in the background: start, stop, status, its API, and its restarts.

mod api;
mod dismissal;
mod faces;
mod failures;
mod full;
mod jobs;
mod lives;
mod log_file;
mod names;
mod nested;
mod others;
mod panes;
mod reported;
mod says;
mod schema;
mod selves;
#[cfg(feature = "tui")]
mod server_end;
mod sessions;
mod takeover;
mod unobserved;
mod views;
pub mod waits;
mod watching;
mod ws;

pub use schema::real_rows;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cli::{Running, assert_code, program, text};
use crate::support::{CEILING, TmuxServer, wait_for};

/// A home directory for one observer. Dropping it ends the observer.
pub struct Home {
    directory: tempfile::TempDir,
    pub server: TmuxServer,
}

impl Home {
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            server: TmuxServer::new(),
        }
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Returns the program with these arguments, in this home.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = program(args, &self.data());
        command
            .env("HOME", self.directory.path())
            .env("XDG_RUNTIME_DIR", self.directory.path().join("run"))
            .env("TMUX_TMPDIR", self.server.directory());
        command
    }

    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Output {
        Running::start(self.command(args)).end()
    }

    #[track_caller]
    pub fn start(&self) -> u32 {
        self.start_with(&[])
    }

    /// Starts the observer with more options.
    #[track_caller]
    pub fn start_with(&self, options: &[&str]) -> u32 {
        let socket = self.server.socket().display().to_string();
        let args = [&["start", "-S", &socket], options].concat();
        assert_code(&self.run(&args), 0);
        self.pid()
    }

    #[track_caller]
    pub fn pid(&self) -> u32 {
        let known = self.announcement();
        u32::try_from(known["pid"].as_u64().unwrap()).unwrap()
    }

    #[track_caller]
    pub fn announcement(&self) -> Value {
        let path = self.data().join("observer.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    pub fn socket(&self) -> PathBuf {
        self.announcement()["socket"].as_str().unwrap().into()
    }

    #[track_caller]
    pub fn rows(&self) -> Vec<Value> {
        let status = self.run(&["status", "--json"]);
        assert_code(&status, 0);
        let lines = text(&status.stdout);
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Waits until the row of a session satisfies the predicate.
    #[track_caller]
    pub fn wait_for_row(&self, name: &str, is_met: impl Fn(&Value) -> bool) -> Value {
        wait_for(name, CEILING, || {
            let rows = self.rows();
            let found = rows.iter().find(|row| row["name"] == name && is_met(row));
            found.cloned().ok_or(rows)
        })
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let Ok(text) = std::fs::read(self.data().join("observer.json")) else {
            return;
        };
        let known: Value = serde_json::from_slice(&text).unwrap_or_default();
        let pid = known["pid"]
            .as_i64()
            .and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        if let Some(pid) = pid {
            // The process may have ended.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Requests a path at a socket; returns the whole answer.
#[track_caller]
pub fn request(socket: &Path, head: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(CEILING)).unwrap();
    // A server that refuses a request closes before it has read all of it.
    let _ = stream.write_all(head.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    text(&answer)
}

/// The status of an answer and its JSON.
pub type Reply = (u16, Value);

/// Sends a request; returns the status and the JSON of the answer.
#[track_caller]
pub fn reply(socket: &Path, head: &str) -> Reply {
    let answer = request(socket, head);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let json = serde_json::from_str(body);
    (status.expect(&answer), json.expect(&answer))
}

#[track_caller]
pub fn post(socket: &Path, path: &str, body: &str) -> Reply {
    let length = body.len();
    reply(
        socket,
        &format!("POST {path} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}"),
    )
}

#[test]
fn the_observer_starts_shows_its_status_and_stops() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    home.server.new_session("other", 80, 24, "exec cat");
    home.start();
    // `start` returns once the observer observes.
    let rows = home.rows();
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(names.contains(&"build") && names.contains(&"other"));
    home.server
        .tmux(&["send-keys", "-t", "build", "hello", "Enter"]);
    home.wait_for_row("build", |row| row["last_line"] == "hello");

    for name in ["build", "other"] {
        home.wait_for_row(name, |row| row["state"] == "running");
    }
    let table = home.run(&["status"]);
    assert_code(&table, 0);
    assert!(text(&table.stdout).contains("2 working"), "{table:?}");
    assert!(table.stderr.is_empty(), "{table:?}");
    let line = home.run(&["status", "--format", "{needs_you} of {total}"]);
    assert_eq!(text(&line.stdout), "0 of 2\n");
    assert_code(&home.run(&["status", "--check"]), 0);
    let unknown = home.run(&["status", "--format", "{all}"]);
    assert_code(&unknown, 2);
    let other = home.run(&["status", "--json", "other"]);
    assert_eq!(text(&other.stdout).lines().count(), 1);
    let meant = home.run(&["status", "buil"]);
    assert_code(&meant, 2);
    assert!(text(&meant.stderr).contains("build"), "{meant:?}");

    let pid = home.pid();
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    // Its memory stays small.
    assert!(text(&environment).contains("MALLOC_ARENA_MAX="));

    // A second start succeeds without an effect.
    assert_code(&home.run(&["start"]), 0);
    assert_eq!(home.pid(), pid);

    let stopped = home.run(&["stop"]);
    assert_code(&stopped, 0);
    assert!(text(&stopped.stdout).contains(&pid.to_string()));
    assert!(!home.data().join("observer.json").exists());
    let runs = text(&home.run(&["runs", "--json"]).stdout);
    assert_eq!(runs.lines().count(), 2, "{runs}");
    assert_eq!(runs.matches("\"state\":\"detached\"").count(), 2, "{runs}");
    // Without an observer, the status comes from the history.
    let status = home.run(&["status", "--json"]);
    assert_code(&status, 0);
    assert!(
        text(&status.stdout).contains("\"last_line\":\"hello\""),
        "{status:?}"
    );
    assert!(
        text(&status.stderr).contains("no observer runs"),
        "{status:?}"
    );
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_session_that_needs_the_user_is_first_and_sets_the_exit_code() {
    let home = Home::new();
    for name in ["a", "b", "c"] {
        home.server.new_session(name, 80, 24, "exec cat");
    }
    // The screen of an agent that asks, in a pane that no rule takes for a shell.
    let asks = "printf 'Do you want to proceed?\\n❯ 1. Yes\\n  2. No, and tell Claude what to do differently (esc)\\n'; exec sleep 1000";
    home.server.new_session("z-asks", 80, 24, asks);
    home.start();
    home.wait_for_row("z-asks", |row| row["attention"] == "needs_you");
    assert_eq!(home.rows()[0]["name"], "z-asks");
    assert_code(&home.run(&["status", "--check", "-q"]), 4);
    assert_code(&home.run(&["status", "--check", "-q", "a"]), 0);
    let table = text(&home.run(&["status", "--color", "always"]).stdout);
    let first = table.lines().nth(1).unwrap();
    assert!(
        first.contains("z-asks") && first.contains("\x1b["),
        "{table}"
    );
}

#[test]
fn changes_are_on_the_board_within_half_a_second() {
    let home = Home::new();
    for name in ["one", "two", "three", "four", "five"] {
        home.server.new_session(name, 80, 24, "exec cat");
    }
    // The server must outlive the sessions.
    home.server.new_session("keeper", 80, 24, "exec cat");
    home.start();
    let socket = home.socket();
    let late: Vec<Duration> = ["one", "two", "three", "four", "five"]
        .into_iter()
        .map(|name| {
            home.server.tmux(&["send-keys", "-t", name, "C-d"]);
            let began = std::time::Instant::now();
            wait_for(name, CEILING, || {
                let answer = request(&socket, "GET /api/v1/board HTTP/1.1\r\n\r\n");
                let (_, body) = answer.split_once("\r\n\r\n").unwrap();
                let rows: Vec<Value> = serde_json::from_str(body).unwrap();
                let has_ended = |row: &Value| row["name"] == name && row["state"] == "exited";
                rows.iter().any(has_ended).then_some(()).ok_or(rows)
            });
            began.elapsed()
        })
        .collect();
    // The ceiling allows for a busy machine; the measured times are printed.
    eprintln!("on the board after {late:?}");
    assert!(
        late.iter().all(|late| *late < Duration::from_secs(5)),
        "{late:?}"
    );
}
