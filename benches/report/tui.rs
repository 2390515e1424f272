//! The terminal UI through a pty: its first frame, a key while panes flood, its load at rest, memory.
//!
//! An emulator interprets the bytes, so that a frame counts when a user would see it.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command as Process, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use pty_process::blocking::{Command, Pty, open};
use td_observe::history::Rotation;

use crate::common::cpu::whole_ms;
use crate::common::mixed::write_run;
use crate::common::panes::server;
use crate::common::program::Program;
use crate::common::resources::Held;
use crate::common::stats::{median, percentile};
use crate::common::support::{CEILING, TmuxServer};
use crate::common::table::{Bar, Row, Table};

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");
const SIZE: (u16, u16) = (200, 50);
const PANES: usize = 100;
const HISTORY_BYTES: u64 = 1_000_000_000;
const STARTS: usize = 9;
const FLOODING: usize = 10;
const KEYS: usize = 150;
const KEY_RUNS: usize = 10;
/// A fast typist, not in step with the frames.
const KEY_PAUSE: Duration = Duration::from_millis(137);
const REST: Duration = Duration::from_secs(20);
/// Begins each frame: synchronized output.
const FRAME: &[u8] = b"\x1b[?2026h";

pub fn run(table: &mut Table) {
    start_rows(table);
    flood_rows(table);
    rest_row(table);
}

/// An observer in the background.
struct Observer {
    data: tempfile::TempDir,
}

impl Observer {
    fn of(data: tempfile::TempDir, server: &TmuxServer) -> Self {
        let observer = Self { data };
        let socket = server.socket().display().to_string();
        assert!(
            observer
                .command(&["start", "-S", &socket])
                .status()
                .unwrap()
                .success()
        );
        observer
    }

    fn start(server: &TmuxServer) -> Self {
        Self::of(tempfile::tempdir().unwrap(), server)
    }

    fn command(&self, args: &[&str]) -> Process {
        let mut command = Process::new(PROGRAM);
        command.args(args).env("TD_DATA_DIR", self.data.path());
        command.stdout(Stdio::null());
        for name in ["TMUX", "TMUX_PANE", "XDG_RUNTIME_DIR", "RUST_LOG"] {
            command.env_remove(name);
        }
        command
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        assert!(self.command(&["stop"]).status().unwrap().success());
    }
}

/// A program in a terminal.
struct InTerminal {
    child: std::process::Child,
    pty: Pty,
    /// Its output, with the time at which it arrived.
    output: Receiver<(Instant, Vec<u8>)>,
}

impl InTerminal {
    fn start(command: Command) -> Self {
        let (pty, end) = open().unwrap();
        pty.resize(pty_process::Size::new(SIZE.1, SIZE.0)).unwrap();
        let child = command.spawn(end).unwrap();
        let (send, output) = channel();
        let copy = rustix::io::dup(&pty).unwrap();
        let mut reading = fs::File::from(copy);
        thread::spawn(move || {
            let mut bytes = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = reading.read(&mut bytes) {
                let arrived = (Instant::now(), bytes[..count].to_vec());
                if send.send(arrived).is_err() {
                    return;
                }
            }
        });
        Self { child, pty, output }
    }
}

/// A program that only echoes the input: no other program answers earlier.
struct Echo(InTerminal);

impl Echo {
    fn start() -> Self {
        let script = "stty raw -echo; echo ready; exec cat";
        let echo = Self(InTerminal::start(Command::new("sh").args(["-c", script])));
        echo.0.output.recv_timeout(CEILING).unwrap();
        echo
    }

    /// Returns the milliseconds from a key to its echo.
    fn key_ms(&mut self) -> f64 {
        while self.0.output.try_recv().is_ok() {}
        let begun = Instant::now();
        self.0.pty.write_all(b"x").unwrap();
        let (at, _) = self.0.output.recv_timeout(CEILING).unwrap();
        (at - begun).as_secs_f64() * 1e3
    }

    fn end(mut self) {
        self.0.child.kill().unwrap();
        self.0.child.wait().unwrap();
    }
}

/// The UI in a terminal, and its screen.
struct Ui {
    terminal: InTerminal,
    screen: avt::Terminal,
    frames: Vec<Instant>,
}

impl Ui {
    fn start(observer: &Observer) -> Self {
        let mut command = Command::new(PROGRAM).arg("tui");
        command = command.env("TD_DATA_DIR", observer.data.path());
        command = command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
        for name in [
            "TMUX",
            "TMUX_PANE",
            "XDG_RUNTIME_DIR",
            "RUST_LOG",
            "NO_COLOR",
        ] {
            command = command.env_remove(name);
        }
        Self {
            terminal: InTerminal::start(command),
            screen: avt::Terminal::new(usize::from(SIZE.0), usize::from(SIZE.1)).unwrap(),
            frames: Vec::new(),
        }
    }

    fn type_keys(&mut self, keys: &[u8]) {
        self.terminal.pty.write_all(keys).unwrap();
    }

    /// Reads output until the screen satisfies the predicate; returns the time.
    fn until(&mut self, is_met: impl Fn(&str) -> bool) -> Instant {
        let deadline = Instant::now() + CEILING;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let (at, bytes) = match self.terminal.output.recv_timeout(left) {
                Ok(output) => output,
                Err(error) => panic!("{error}: {}", self.text()),
            };
            self.take(at, &bytes);
            if is_met(&self.text()) {
                return at;
            }
        }
    }

    /// Reads output for some time.
    fn pass(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.terminal.output.recv_timeout(left) {
                Ok((at, bytes)) => self.take(at, &bytes),
                Err(RecvTimeoutError::Timeout) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn take(&mut self, at: Instant, bytes: &[u8]) {
        let count = bytes
            .windows(FRAME.len())
            .filter(|part| *part == FRAME)
            .count();
        self.frames.extend(std::iter::repeat_n(at, count));
        self.screen.feed(String::from_utf8_lossy(bytes).as_ref());
    }

    fn text(&self) -> String {
        let screen = self.screen.screen();
        let lines = (0..usize::from(SIZE.1)).filter_map(|row| screen.line(row));
        lines
            .map(|line| line.text())
            .collect::<Vec<String>>()
            .join("\n")
    }

    fn quit(mut self) {
        self.type_keys(b"q");
        assert!(self.terminal.child.wait().unwrap().success());
    }
}

fn start_rows(table: &mut Table) {
    let server = server(PANES, PANES / 2);
    let data = tempfile::tempdir().unwrap();
    write_run(data.path(), HISTORY_BYTES, Rotation::NEVER);
    let observer = Observer::of(data, &server);
    let (mut first, mut board) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let begun = Instant::now();
        let mut ui = Ui::start(&observer);
        let frame = ui.until(|text| text.contains("help"));
        let rows = ui.until(|text| text.contains("WORKING"));
        first.push((frame - begun).as_secs_f64() * 1e3);
        board.push((rows - begun).as_secs_f64() * 1e3);
        ui.quit();
    }
    let (first, board) = (median(first), median(board));
    table.row(&Row {
        what: "terminal UI beside an observer of 100 panes, 1 GB of history: first frame, board",
        ours: format!("{first:.0} ms, {board:.0} ms"),
        instead: String::new(),
        ratio: None,
        bar: Bar::Stated("≤ 100 ms", board <= 100.0),
    });
}

/// What one run measures, in ms, beside the same of a program that only echoes.
struct Keys {
    late: Vec<f64>,
    echoed: Vec<f64>,
}

impl Keys {
    /// Types keys into the UI and the other program by turns.
    fn typed(ui: &mut Ui) -> Self {
        let mut echo = Echo::start();
        run_at_real_time_priority();
        let (mut late, mut echoed) = (Vec::new(), Vec::new());
        for key in 0..KEYS {
            ui.pass(KEY_PAUSE);
            // Help opens and closes again.
            let begun = Instant::now();
            let is_help = key % 2 == 0;
            ui.type_keys(b"?");
            let shown = ui.until(|text| text.contains("type to search") == is_help);
            late.push((shown - begun).as_secs_f64() * 1e3);
            ui.pass(KEY_PAUSE);
            echoed.push(echo.key_ms());
        }
        echo.end();
        Self { late, echoed }
    }

    /// Returns the 99th percentiles.
    fn p99(&self) -> [f64; 2] {
        [&self.late, &self.echoed].map(|times| percentile(times, 0.99))
    }
}

fn flood_rows(table: &mut Table) {
    let server = TmuxServer::new();
    for pane in 0..FLOODING {
        server.new_session(&format!("s{pane}"), 120, 40, &Program::Flood.command());
    }
    let observer = Observer::start(&server);
    let mut ui = Ui::start(&observer);
    ui.until(|text| text.contains("xxxx"));
    ui.pass(Duration::from_secs(2));
    let runs: Vec<Keys> = (0..KEY_RUNS).map(|_| Keys::typed(&mut ui)).collect();
    let held = Held::by(ui.terminal.child.id()).unwrap();
    let frames = most_in_a_second(&ui.frames);
    ui.quit();
    let p99s: Vec<[f64; 2]> = runs.iter().map(Keys::p99).collect();
    for [ours, theirs] in &p99s {
        eprintln!("  key to frame p99 {ours:.1} ms, echo {theirs:.1} ms");
    }
    let all =
        |of: fn(&Keys) -> &Vec<f64>| -> Vec<f64> { runs.iter().flat_map(of).copied().collect() };
    let (late, echoed) = (all(|keys| &keys.late), all(|keys| &keys.echoed));
    let p99 = |at: usize| largest(&p99s.iter().map(|both| both[at]).collect::<Vec<f64>>());
    let shown = |times: &[f64], p99: f64| {
        let median = median(times.to_vec());
        format!("{median:.1}, {p99:.1}, {:.1} ms", largest(times))
    };
    let met = p99s.iter().filter(|[ours, theirs]| ours <= theirs).count();
    table.row(&Row {
        what: "terminal UI while 10 panes flood: key to frame, median, latest p99 of ten runs, latest",
        ours: shown(&late, p99(0)),
        instead: format!(
            "a program that only echoes: {}; its p99 is no earlier in {met} of {KEY_RUNS} runs",
            shown(&echoed, p99(1))
        ),
        ratio: None,
        bar: Bar::Stated(
            "p99 ≤ 33 ms and no later in each run, all ≤ 200 ms",
            met == KEY_RUNS && p99(0) <= 33.0 && largest(&late) <= 200.0,
        ),
    });
    table.row(&Row {
        what: "terminal UI while 10 panes flood: frames in a second, at most; memory",
        ours: format!("{frames}, {} MB", held.rss_kb / 1024),
        instead: String::new(),
        ratio: None,
        bar: Bar::Stated("≤ 30, ≤ 64 MB", frames <= 30 && held.rss_kb <= 64 * 1024),
    });
}

fn largest(times: &[f64]) -> f64 {
    times.iter().copied().fold(0.0, f64::max)
}

/// Sets the threads of this program to real-time priority, so that they add nothing to the measured
/// times. The programs that they start are not affected.
fn run_at_real_time_priority() {
    let mut command = Process::new("chrt");
    command.args(["--reset-on-fork", "--fifo", "--all-tasks", "--pid", "1"]);
    let changed = command.arg(std::process::id().to_string()).status();
    if !changed.is_ok_and(|status| status.success()) {
        println!("the waits of the measuring program itself are included: chrt is not allowed");
    }
}

fn most_in_a_second(frames: &[Instant]) -> usize {
    let second = Duration::from_secs(1);
    let counts = (0..frames.len()).map(|from| {
        let within = frames[from..]
            .iter()
            .take_while(|at| **at - frames[from] < second);
        within.count()
    });
    counts.max().unwrap_or(0)
}

fn rest_row(table: &mut Table) {
    let server = server(PANES, 0);
    let observer = Observer::start(&server);
    let mut ui = Ui::start(&observer);
    ui.until(|text| text.contains("100 rows"));
    ui.pass(Duration::from_secs(3));
    let before = whole_ms(ui.terminal.child.id());
    ui.pass(REST);
    let share = (whole_ms(ui.terminal.child.id()) - before) / REST.as_secs_f64() / 10.0;
    ui.quit();
    table.row(&Row {
        what: "terminal UI, 100 panes at rest: share of a core",
        ours: format!("{share:.2} %"),
        instead: String::new(),
        ratio: None,
        bar: Bar::Stated("≤ 1 %", share <= 1.0),
    });
}
