//! What starts: the program itself, its board, and an observer of a hundred sessions with their histories.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::commands::seconds;
use crate::common::panes::server;
use crate::common::stats::{median, rounds};
use crate::common::support::{CEILING, TmuxServer, wait_for};
use crate::common::table::{Bar, Row, Table};

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");
const ROUNDS: usize = 30;
const SESSIONS: usize = 100;
/// Lines that each session has printed before the observer restarts.
const LINES: u64 = 20_000;
const RESTARTS: usize = 7;

pub fn run(table: &mut Table) {
    program_rows(table);
    observer_rows(table);
}

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args);
    command
}

/// Returns the median in ms of a command, and of `true`, alternately.
fn against_true(command: &dyn Fn() -> Command) -> (f64, f64) {
    let [ours, theirs] = rounds(
        ROUNDS,
        [&|| seconds(command()), &|| seconds(Command::new("true"))],
    );
    (ours * 1e3, theirs * 1e3)
}

fn program_rows(table: &mut Table) {
    for (args, bar_ms) in [("--version", 3.0), ("--help", 10.0)] {
        let (ours, theirs) = against_true(&|| program(&[args]));
        table.row(&Row {
            what: &format!("`td-observe {args}`"),
            ours: format!("{ours:.1} ms"),
            instead: format!("`true`: {theirs:.1} ms"),
            ratio: None,
            bar: Bar::Stated(&format!("≤ {bar_ms:.0} ms"), ours <= bar_ms),
        });
    }
}

/// An observer in the background, with its own data directory.
struct Observer<'a> {
    server: &'a TmuxServer,
    place: tempfile::TempDir,
}

impl Observer<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = program(args);
        command
            .env("TD_DATA_DIR", self.place.path().join("data"))
            .env("HOME", self.place.path())
            .env("XDG_RUNTIME_DIR", self.place.path())
            .env_remove("TMUX");
        command
    }

    fn start(&self) {
        let socket = self.server.socket().display().to_string();
        let mut command = self.command(&["start", "-S", &socket]);
        assert!(command.stdout(Stdio::null()).status().unwrap().success());
    }

    fn stop(&self) {
        let mut command = self.command(&["stop"]);
        assert!(command.stdout(Stdio::null()).status().unwrap().success());
    }

    /// Returns the number of rows whose state is known.
    fn rows(&self) -> usize {
        let output = self.command(&["status", "--json"]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines()
            .filter(|line| !line.contains("\"state\":\"unknown\""))
            .count()
    }

    fn until_known(&self) {
        wait_for("all rows", CEILING * 3, || match self.rows() {
            rows if rows >= SESSIONS => Ok(()),
            rows => Err(rows),
        });
    }
}

impl Drop for Observer<'_> {
    fn drop(&mut self) {
        let _ = self.command(&["stop"]).output();
    }
}

fn observer_rows(table: &mut Table) {
    let server = server(SESSIONS, 0);
    let observer = Observer {
        server: &server,
        place: tempfile::tempdir().unwrap(),
    };
    observer.start();
    observer.until_known();
    for pane in server
        .tmux(&["list-panes", "-a", "-F", "#{pane_id}"])
        .lines()
    {
        // A row that has ended needs no work after a restart.
        let print = format!("seq 1 {LINES}; exec cat");
        server.tmux(&["respawn-pane", "-k", "-t", pane, &print]);
    }
    let data = observer.place.path().join("data");
    wait_for("the histories", CEILING * 6, || {
        let bytes = bytes_of(&data);
        // Each line takes more than six bytes in its log.
        if bytes > SESSIONS as u64 * LINES * 6 {
            Ok(())
        } else {
            Err(bytes)
        }
    });
    let [board, plain] = rounds(
        ROUNDS,
        [&|| seconds(observer.command(&["status"])), &|| {
            seconds(server_list(&server))
        }],
    );
    table.row(&Row {
        what: &format!("`status` with {SESSIONS} rows"),
        ours: format!("{:.1} ms", board * 1e3),
        instead: format!("`tmux list-panes -a`: {:.1} ms", plain * 1e3),
        ratio: None,
        bar: Bar::Stated("≤ 20 ms", board <= 0.020),
    });
    let (mut until_ready, mut until_board) = (Vec::new(), Vec::new());
    for _ in 0..RESTARTS {
        observer.stop();
        let began = Instant::now();
        observer.start();
        until_ready.push(began.elapsed().as_secs_f64() * 1e3);
        while observer.rows() < SESSIONS && began.elapsed() < Duration::from_secs(20) {}
        until_board.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let (ready, all) = (median(until_ready), median(until_board));
    table.row(&Row {
        what: &format!(
            "a restart with {SESSIONS} sessions and {} MB of their histories: until it observes, until all rows are known",
            bytes_of(&data) / 1_000_000
        ),
        ours: format!("{ready:.0} ms, {all:.0} ms"),
        instead: String::new(),
        ratio: None,
        bar: Bar::Stated("≤ 300 ms", ready <= 300.0),
    });
}

fn server_list(server: &TmuxServer) -> Command {
    let mut command = Command::new("tmux");
    command
        .arg("-S")
        .arg(server.socket())
        .args(["list-panes", "-a"]);
    command
}

fn bytes_of(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => bytes_of(&entry.path()),
            _ => entry.metadata().map_or(0, |metadata| metadata.len()),
        })
        .sum()
}
