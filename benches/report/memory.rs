//! Memory under a flood that nobody reads, and the memory of a hundred watched panes.
//!
//! The bus's floods run in their own processes, so that memory left by one does not count for the other.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use td_observe::{EventBus, TdEvent};

use crate::common::panes::server;
use crate::common::program::Program;
use crate::common::resources::{Held, children_of, share_kb};
use crate::common::support::{CEILING, TmuxServer, wait_for};
use crate::common::table::{Bar, Row, Table};
use crate::common::ways::pipe_to_files;

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");
const HIDDEN: &str = "flood-without-a-reader";

/// Events of the bus's flood: the first tenth fills every bounded buffer.
const EVENTS: u64 = 2_000_000;
const PANES: usize = 100;
const FLOODING: usize = 4;
/// The unread lane first fills up to its 64 MiB, which takes as long as the machine needs. It counts as
/// full when memory has hardly risen for this number of seconds; the wait has a limit, too.
const FLAT_SECONDS: usize = 10;
const FLAT_PART: f64 = 0.03;
const FILLED_SECONDS_MAX: usize = 45;
const FLOODED: Duration = Duration::from_secs(10);

pub fn run(table: &mut Table) {
    bus_row(table);
    program_row(table);
    panes_rows(table);
}

/// Floods the bus and returns true if this process was started for it.
pub fn has_run() -> bool {
    let mut arguments = std::env::args().skip(1);
    let is_asked = arguments.next().is_some_and(|one| one == HIDDEN);
    if is_asked {
        let (before, after) = match arguments.next().as_deref() {
            Some("bus") => flood_bus(),
            _ => flood_channel(),
        };
        println!("{before} {after}");
    }
    is_asked
}

fn token() -> TdEvent {
    TdEvent::token_received("bench", 1, "I'll do it")
}

/// Returns the memory after a tenth of the events and after all of them.
fn flood(mut send: impl FnMut()) -> (u64, u64) {
    let mut before = 0;
    for number in 0..EVENTS {
        if number == EVENTS / 10 {
            before = Held::here().rss_kb;
        }
        send();
    }
    (before, Held::here().rss_kb)
}

fn flood_bus() -> (u64, u64) {
    let bus = EventBus::new(10_000);
    let _unread = bus.subscribe();
    flood(|| {
        bus.emit(token());
    })
}

fn flood_channel() -> (u64, u64) {
    let (send, _unread) = std::sync::mpsc::channel();
    flood(|| send.send(token()).unwrap())
}

fn bus_row(table: &mut Table) {
    let measured = |which: &str| -> (u64, u64) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.args([HIDDEN, which]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (before, after) = text.trim().split_once(' ').unwrap();
        (before.parse().unwrap(), after.parse().unwrap())
    };
    let (ours, theirs) = (measured("bus"), measured("channel"));
    table.row(&Row {
        what: "memory after 0.2 M and 2 M events, a subscriber that never reads",
        ours: format!("{} → {} MB", mb(ours.0), mb(ours.1)),
        instead: format!(
            "`std::sync::mpsc::channel`: {} → {} MB",
            mb(theirs.0),
            mb(theirs.1)
        ),
        ratio: Some(ours.1 as f64 / theirs.1 as f64),
        bar: flat(ours),
    });
}

fn flat((before, after): (u64, u64)) -> Bar<'static> {
    Bar::Stated("flat, by a tenth", after <= before + before / 10)
}

fn mb(kb: u64) -> String {
    match kb {
        0..20_480 => format!("{:.1}", kb as f64 / 1024.0),
        _ => format!("{}", kb / 1024),
    }
}

/// The program watching a server; nobody reads its output.
struct Observer(Child);

impl Observer {
    fn start(server: &TmuxServer, more: &[&str]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["watch", "--interval", "200ms", "-S"]);
        command.arg(server.socket()).args(more);
        command.arg("--data-dir").arg(server.directory());
        command.env_remove("TMUX").env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Self(command.spawn().unwrap())
    }

    fn held(&self) -> Held {
        Held::by(self.0.id()).unwrap()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        // At its end it may wait for a reader.
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn flooding() -> TmuxServer {
    let server = TmuxServer::new();
    for pane in 0..FLOODING {
        server.new_session(&format!("s{pane}"), 220, 50, &Program::Flood.command());
    }
    server
}

/// Returns the memory once it has stopped rising.
fn filled(observer: &Observer) -> u64 {
    let mut samples: Vec<u64> = Vec::new();
    loop {
        thread::sleep(Duration::from_secs(1));
        let now = observer.held().rss_kb;
        samples.push(now);
        let before = samples.iter().rev().nth(FLAT_SECONDS);
        let is_flat = before.is_some_and(|&was| now as f64 <= was as f64 * (1.0 + FLAT_PART));
        if is_flat || samples.len() >= FILLED_SECONDS_MAX {
            return now;
        }
    }
}

fn program_row(table: &mut Table) {
    let ours = {
        let server = flooding();
        let observer = Observer::start(&server, &["--json"]);
        let before = filled(&observer);
        thread::sleep(FLOODED);
        (before, observer.held().rss_kb)
    };
    // The same panes piped to a program that does not read: the server buffers everything. For a short
    // time, because there is no bound.
    let theirs = {
        let server = flooding();
        let pid = server.pid().as_raw_nonzero().get() as u32;
        let held = || Held::by(pid).unwrap().rss_kb;
        for pane in 0..FLOODING {
            server.tmux(&["pipe-pane", "-t", &format!("=s{pane}:"), "exec sleep 60"]);
        }
        let before = held();
        thread::sleep(Duration::from_secs(5));
        (before, held())
    };
    table.row(&Row {
        what: "memory while 4 panes flood, output never read, log kept: when it stands, and 10 s later",
        ours: format!("{} → {} MB", mb(ours.0), mb(ours.1)),
        instead: format!(
            "`pipe-pane` to somebody who does not read: the server, after 0 s and 5 s: {} → {} MB",
            mb(theirs.0),
            mb(theirs.1)
        ),
        ratio: None,
        bar: flat(ours),
    });
}

fn panes_rows(table: &mut Table) {
    let server = server(PANES, PANES / 2);
    let observer = Observer::start(&server, &["-q"]);
    // All runs are open, and some ticks have passed.
    let runs = server.directory().join("runs");
    wait_for("the runs", CEILING, || {
        let open = std::fs::read_dir(&runs).map_or(0, Iterator::count);
        if open == PANES { Ok(()) } else { Err(open) }
    });
    thread::sleep(Duration::from_secs(3));
    let held = observer.held();
    let ours = share_kb(observer.0.id()).unwrap();
    drop(observer);
    let files = pipe_to_files(&server);
    let mut tail = Command::new("tail")
        .args(["-q", "-F"])
        .args(&files)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_secs(2));
    let all = [pipes_of(&server), vec![tail.id()]].concat();
    let theirs: u64 = all.iter().filter_map(|pid| share_kb(*pid)).sum();
    tail.kill().unwrap();
    tail.wait().unwrap();
    table.row(&Row {
        what: "100 panes watched with a log: memory",
        ours: format!("{} MB ({} MB resident)", mb(ours), mb(held.rss_kb)),
        instead: format!(
            "`pipe-pane` to files, one `tail -F`: {} MB in {} processes",
            mb(theirs),
            all.len()
        ),
        ratio: Some(ours as f64 / theirs as f64),
        bar: Bar::None,
    });
    table.row(&Row {
        what: "100 panes watched with a log: threads, descriptors",
        ours: format!("{}, {}", held.threads, held.descriptors),
        instead: String::new(),
        ratio: None,
        bar: Bar::None,
    });
}

/// Returns the processes to which the server's panes are piped: its children that are no pane's program.
fn pipes_of(server: &TmuxServer) -> Vec<u32> {
    let programs = server.tmux(&["list-panes", "-a", "-F", "#{pane_pid}"]);
    let programs: Vec<u32> = programs.lines().map(|pid| pid.parse().unwrap()).collect();
    let mut pipes = children_of(server.pid().as_raw_nonzero().get() as u32);
    pipes.retain(|pid| !programs.contains(pid));
    pipes
}
