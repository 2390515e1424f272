//! The program from outside: its output, its exit codes, and the files that it leaves.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use td_observe::internals::track::TmuxVersion;

use crate::support::{CEILING, TmuxServer, wait_for};

/// The lines of an output that are checked against the schema; a flood has more of the same.
const CHECKED_MAX: usize = 5_000;

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");

pub fn program(args: &[&str], data: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(args)
        .env("TD_DATA_DIR", data)
        // Without the configuration of whoever runs the tests.
        .env("XDG_CONFIG_HOME", data.join("no-configuration"))
        .stdin(Stdio::null());
    for name in ["TMUX", "TMUX_PANE", "TD_CONFIG", "RUST_LOG", "NO_COLOR"] {
        command.env_remove(name);
    }
    command
}

/// Runs the program to its end, within the ceiling.
#[track_caller]
pub fn run(args: &[&str], data: &Path) -> Output {
    Running::start(program(args, data)).end()
}

/// A running program whose output is read line by line.
/// Checks a line against the schema of events, if it is an envelope.
#[track_caller]
fn check_envelope(line: &str) {
    let Ok(value) = serde_json::from_str::<Value>(line) else {
        return;
    };
    // Events of programs that embed this one have types of their own.
    let kind = value["event"]["type"].as_str().unwrap_or_default();
    let is_ours = td_observe::EventKind::from_name(kind).is_some() || kind == "StreamOpened";
    // A single program's `seq` is a number, too: envelopes have a time and an event.
    if is_ours && value["ts"].is_string() {
        let checked = crate::schema::check(&value);
        checked.unwrap_or_else(|why| panic!("not in the schema: {why}: {line}"));
    }
}

pub struct Running {
    pub child: Child,
    pub lines: Receiver<String>,
    seen: Vec<String>,
    complaints: Arc<Mutex<Vec<u8>>>,
    stderr: JoinHandle<()>,
}

impl Running {
    #[track_caller]
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let _ = send.send(line.unwrap());
            }
        });
        let mut pipe = child.stderr.take().unwrap();
        let complaints = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&complaints);
        let stderr = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = pipe.read(&mut bytes) {
                all.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self {
            child,
            lines,
            seen: Vec::new(),
            complaints,
            stderr,
        }
    }

    /// Waits for a line that holds the text.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        self.wait_for_all(&[text]);
    }

    /// Returns what was printed on standard error so far.
    pub fn complaints(&self) -> String {
        text(&self.complaints.lock().unwrap())
    }

    /// Waits for a text on standard error.
    #[track_caller]
    pub fn wait_for_complaint(&self, text: &str) {
        wait_for(text, CEILING, || {
            let printed = self.complaints();
            printed.contains(text).then_some(()).ok_or(printed)
        });
    }

    /// Waits until the printed lines satisfy the predicate.
    #[track_caller]
    pub fn until(&mut self, what: &str, is_enough: impl Fn(&[String]) -> bool) {
        while !is_enough(&self.seen) {
            match self.lines.recv_timeout(CEILING) {
                Ok(line) => self.seen.push(line),
                Err(error) => panic!("no {what} ({error}); seen: {:#?}", self.seen),
            }
        }
    }

    /// Waits for a line that holds all of these texts.
    #[track_caller]
    pub fn wait_for_all(&mut self, texts: &[&str]) {
        let has_all = |line: &String| texts.iter().all(|text| line.contains(text));
        let mut checked = 0;
        while !self.seen[checked..].iter().any(has_all) {
            checked = self.seen.len();
            match self.lines.recv_timeout(CEILING) {
                Ok(line) => self.seen.push(line),
                Err(error) => {
                    let shown = &self.seen[checked.saturating_sub(50)..];
                    panic!("no {texts:?} ({error}); the last seen: {shown:#?}")
                }
            }
        }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    #[track_caller]
    pub fn end(mut self) -> Output {
        let child = &mut self.child;
        let status = wait_for("the program's end", CEILING, || {
            child.try_wait().unwrap().ok_or("it still runs")
        });
        self.seen.extend(self.lines.iter());
        // Streams of this version; a log may have been written by another version.
        if self
            .seen
            .first()
            .is_some_and(|line| line.contains("\"StreamOpened\""))
        {
            let lines = self.seen.iter().take(CHECKED_MAX);
            lines.for_each(|line| check_envelope(line));
        }
        let stdout = self
            .seen
            .iter()
            .flat_map(|line| [line, "\n"].concat().into_bytes())
            .collect();
        Output {
            status,
            stdout,
            stderr: {
                self.stderr.join().unwrap();
                std::mem::take(&mut self.complaints.lock().unwrap())
            },
        }
    }
}

/// Returns the stream without its first line, which names the version.
#[track_caller]
pub fn after_opening(stdout: &[u8]) -> &[u8] {
    let end = stdout.iter().position(|byte| *byte == b'\n');
    let end = end.unwrap_or_else(|| panic!("no line: {}", text(stdout))) + 1;
    let first: Value = serde_json::from_slice(&stdout[..end]).unwrap();
    let opened = serde_json::json!({"type": "StreamOpened", "schema": 1, "version": env!("CARGO_PKG_VERSION")});
    assert_eq!((&first["seq"], &first["event"]), (&Value::Null, &opened));
    assert!(first["ts"].is_string(), "{first}");
    &stdout[end..]
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
pub fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{output:#?}");
}

/// Returns the exit code with which a command refuses what was typed.
pub fn refused(args: &[&str]) -> i32 {
    if args[0] == "run" { 125 } else { 2 }
}

/// Returns arguments that select the test's server, followed by `more`.
pub fn on<'a>(socket: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    more.iter().copied().chain(["-S", socket]).collect()
}

/// A pane's program that prints each line that is typed.
pub const ECHO: &str = "stty -echo; echo ready; while read line; do printf '%b\\n' \"$line\"; done";

#[test]
fn wrong_usage_is_one_line_and_exit_code_2() {
    let data = tempfile::tempdir().unwrap();
    for args in [
        &["wacth"][..],
        &["watch", "--interval", "0ms"],
        &["watch", "--interval=-5s"],
        &["watch", "--nonsense"],
        &["watch", "--mode", "robot"],
        &["watch", "--source", "pipe"],
        &["watch", ""],
        &["watch", "--execution-id", ""],
        &["-L", "a", "watch", "-S", "b"],
        &["demo", "-L", "a"],
        &["watch", "--data-dir", "/dev/null/x"],
    ] {
        let output = run(args, data.path());
        assert_code(&output, 2);
        assert_eq!(text(&output.stdout), "", "{args:?}");
        assert_eq!(
            text(&output.stderr).matches('\n').count(),
            1,
            "{args:?}: {output:#?}"
        );
    }
    // Without arguments and without a terminal, the help precedes the line.
    let alone = run(&[], data.path());
    assert_code(&alone, 2);
    assert_eq!(text(&alone.stderr).matches('\n').count(), 1, "{alone:#?}");
    assert!(
        text(&alone.stdout).contains("Usage: td-observe"),
        "{alone:#?}"
    );
    let unwritable = run(&["watch", "--data-dir", "/dev/null/x"], data.path());
    assert!(
        text(&unwritable.stderr).contains("/dev/null/x"),
        "{unwritable:#?}"
    );
    let mut without_tmux = program(&["watch"], data.path());
    without_tmux.env("PATH", "/nonexistent");
    assert_code(&Running::start(without_tmux).end(), 127);
    for args in [["--help"], ["--version"]] {
        let output = run(&args, data.path());
        assert_code(&output, 0);
        assert!(
            output.stderr.is_empty() && !output.stdout.is_empty(),
            "{output:#?}"
        );
    }
}

#[test]
fn a_name_is_exact_and_the_watch_ends_with_it() {
    let (tmux, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    tmux.new_session("job-10", 80, 24, ECHO);
    tmux.new_session("job-1", 80, 24, ECHO);
    let socket = tmux.socket().display().to_string();
    let mut watch = Running::start(program(&on(&socket, &["watch", "job-1"]), data.path()));
    watch.wait_for("watching");
    tmux.tmux(&["send-keys", "-t", "=job-10:", "of ten", "Enter"]);
    // A line of terminal commands: an escape sequence and, in UTF-8, a C1 control.
    tmux.tmux(&[
        "send-keys",
        "-t",
        "=job-1:",
        "of one\\0302\\0233 31m",
        "Enter",
    ]);
    watch.wait_for("of one");
    tmux.tmux(&["kill-session", "-t", "=job-1"]);
    let output = watch.end();
    assert_code(&output, 0);
    let shown = text(&output.stdout);
    assert!(
        !shown.contains("job-10") && !shown.contains("of ten"),
        "{shown}"
    );
    assert!(
        !shown.contains(|c: char| c.is_control() && c != '\n'),
        "{shown:?}"
    );
    assert!(shown.contains("[ended: the session was closed]"), "{shown}");
}

#[test]
fn one_signal_ends_cleanly_with_a_complete_log() {
    let (tmux, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    tmux.new_session(
        "job",
        80,
        24,
        "i=0; while :; do i=$((i+1)); echo line $i; done",
    );
    let socket = tmux.socket().display().to_string();
    let args = on(&socket, &["watch", "--json", "--interval", "50ms"]);
    let mut watch = Running::start(program(&args, data.path()));
    watch.wait_for("OutputUpdate");
    watch.signal(Signal::INT);
    let output = watch.end();
    assert_code(&output, 0);
    let printed = envelopes(&text(&output.stdout));
    let last = printed.last().unwrap();
    assert_eq!(last["event"]["type"], "SessionEnded", "{last}");
    let run = std::fs::read_dir(data.path().join("runs"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let log = std::fs::read_to_string(run.path().join("events.jsonl")).unwrap();
    let kept = envelopes(&log);
    let numbers: Vec<u64> = kept
        .iter()
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(kept.last(), Some(last));
}

/// Checks that the program ends silently when nobody reads its output.
#[track_caller]
pub fn ends_quietly_unread(mut command: Command) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    wait_for("the program's end", CEILING, || {
        child.try_wait().unwrap().ok_or("it still runs")
    });
    let output = child.wait_with_output().unwrap();
    assert_code(&output, 0);
    assert_eq!(text(&output.stderr), "", "{command:?}");
}

#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    let (tmux, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    tmux.new_session("job", 80, 24, "while sleep 0.05; do date +%s%N; done");
    let socket = tmux.socket().display().to_string();
    ends_quietly_unread(program(&on(&socket, &["watch"]), data.path()));
}

#[test]
fn the_program_does_not_watch_its_own_pane() {
    let (tmux, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    tmux.new_session("job", 80, 24, ECHO);
    let path = data.path().display();
    // Under another name, because a pane that runs td-observe is not watched.
    std::os::unix::fs::symlink(PROGRAM, data.path().join("looker")).unwrap();
    let command = format!("TD_DATA_DIR={path} exec {path}/looker watch --execution-id all");
    let own = tmux.new_session("own", 80, 24, &command);
    let log = data.path().join("runs/all/events.jsonl");
    wait_for("the start in the log", CEILING, || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        if log.contains("SessionStarted") {
            Ok(())
        } else {
            Err(log)
        }
    });
    tmux.tmux(&["send-keys", "-t", "=job:", "seen here", "Enter"]);
    tmux.wait_for_text(&own, "job | seen here");
    let kept = std::fs::read_to_string(&log).unwrap();
    assert!(!kept.contains(&format!("\"pane\":\"{own}\"")), "{kept}");
}

#[test]
fn a_demo_leaves_nothing_behind() {
    let (data, place) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir_in("/tmp").unwrap(),
    );
    let mut command = program(&["demo", "--seconds", "3", "--color", "never"], data.path());
    command.env("TMPDIR", place.path());
    let demo = Running::start(command);
    let pid = demo.child.id();
    let output = demo.end();
    assert_code(&output, 0);
    let shown = text(&output.stdout);
    for session in ["build | ", "progress | ", "agent | "] {
        assert!(shown.contains(session), "{output:#?}");
    }
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0);
    let name = format!("td-demo-{pid}");
    let of_demo = |directory: &Path| {
        std::fs::read(directory.join("cmdline")).is_ok_and(|line| text(&line).contains(&name))
    };
    wait_for("the end of the server", CEILING, || {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let left: Vec<_> = processes
            .map(|entry| entry.path())
            .filter(|at| of_demo(at))
            .collect();
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
}

#[track_caller]
fn envelopes(lines: &str) -> Vec<Value> {
    let read = |line: &str| {
        serde_json::from_str::<td_observe::Envelope>(line)
            .unwrap_or_else(|error| panic!("{error}: {line}"));
        serde_json::from_str(line).unwrap()
    };
    lines.lines().map(read).collect()
}

#[test]
fn an_impossible_target_is_refused_and_a_possible_one_is_awaited() {
    let server = TmuxServer::new();
    server.new_session("a", 40, 5, "exec cat");
    server.new_session("%there", 40, 5, "exec cat");
    let socket = server.socket();
    let socket = socket.to_str().unwrap();
    let temp = tempfile::tempdir().unwrap();
    let keeps_dots = server.version() >= TmuxVersion::new(3, 7);
    for (target, expected) in [
        ("%x", "write it as %7"),
        ("=w", "write \"w\""),
        (":1", "session:window"),
        ("", "the target is empty"),
        ("my.app", "write \"my_app\""),
    ] {
        if target == "my.app" && keeps_dots {
            continue;
        }
        for what in [&["watch"][..], &["wait", "--exit"]] {
            let args = [&["-S", socket], what, &[target]].concat();
            let output = run(&args, temp.path());
            assert_code(&output, 2);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(stderr.matches('\n').count(), 1, "{stderr}");
            assert!(stderr.contains(expected), "{args:?}: {stderr}");
            assert!(output.stdout.is_empty(), "{output:?}");
        }
    }
    let made = std::fs::read_dir(temp.path()).unwrap().count();
    assert_eq!(made, 0, "nothing has been started");
    // A session with an odd name is found by it, and a window can still be called `b:c`.
    let args = ["-S", socket, "watch", "--json", "a:b:c", "%there"];
    let mut running = Running::start(program(&args, temp.path()));
    running.wait_for("\"session\":\"%there\"");
    server.tmux(&["rename-window", "-t", "=a:", "b:c"]);
    running.wait_for("\"session\":\"a\"");
    running.signal(Signal::INT);
    assert_code(&running.end(), 0);
}

/// A session whose name is the id of a window is neither watched by that name nor mistaken for the window.
#[test]
fn a_session_with_the_name_of_an_id_is_refused() {
    let server = TmuxServer::new();
    let other = server.new_session("other", 40, 9, "exec cat");
    let window = server.tmux(&["display-message", "-p", "-t", &other, "#{window_id}"]);
    let named = server.new_session("x", 40, 9, "exec cat");
    server.tmux(&["rename-session", "-t", "=x", window.trim()]);
    let id = server.tmux(&["display-message", "-p", "-t", &named, "#{session_id}"]);
    let socket = server.socket();
    let socket = socket.to_str().unwrap();
    for command in [
        &["watch", "--no-log"][..],
        &["wait", "--exit", "--timeout", "1s"],
    ] {
        let args = [&["-S", socket], command, &[window.trim()]].concat();
        let output = run(&args, server.directory());
        assert_code(&output, 2);
        let error = text(&output.stderr);
        assert!(
            error.contains(id.trim()) && error.lines().count() == 1,
            "{error}"
        );
    }
}
