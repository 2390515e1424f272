//! Hours of work in one: a hundred panes, agents, loops, faces and another host, and no fault at all.
//!
//! `cargo bench --bench soak` lets 95 panes print numbered lines and five draw like agents at work, while loops run, logs
//! rotate and old runs are pruned, a terminal UI, two other faces and the page are attached, and another host is
//! read over ssh. `TD_SECONDS` (defaults to 120) is the length. Each line must be in the log once, in order and without a
//! gap, the last ones as the panes show them; memory, threads and descriptors must be flat, and nothing may be left.
//! `-- lines` streams `TD_LINES` (defaults to 10,000,000) lines of one pane instead, and finds each in the log. Violations
//! are printed, and the exit code is 1.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]

#[path = "../common/mod.rs"]
mod common;
use common::{resources, support};

// Random faults have their parts in these modules, too.
#[allow(dead_code)]
mod model;
mod printer;
#[path = "../../tests/it/hosts/sshd.rs"]
#[allow(dead_code)]
mod sshd;
mod watcher;
#[allow(dead_code)]
mod world;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::fake_agent;
use resources::Held;
use rustix::process::{Pid, Signal, kill_process};
use support::{CEILING, TmuxServer, wait_for};
use td_observe::TdEvent;
use td_observe::history::{LogReader, Query, RunDirectory};
use watcher::Watcher;
use world::{Plan, World};

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");

/// 19 sessions of five panes print, some eight lines a second on average: in an hour as many as a hundred panes with a line
/// a second print in eight.
const WORK: Plan = Plan {
    servers: 1,
    sessions: 19,
    panes: 5,
    rates: &[2, 10, 20],
    options: &[
        "--rotate-size",
        "2MiB",
        "--keep-runs",
        "60",
        "--keep-size",
        "none",
    ],
};

const AGENTS: usize = 5;

/// The other host prints less.
const FAR: Plan = Plan {
    servers: 1,
    sessions: 2,
    panes: 2,
    rates: &[10],
    options: &["--keep-size", "none"],
};

const LOOPS: usize = 3;

const SAMPLE: Duration = Duration::from_secs(5);

/// The fluctuation between samples: connections, rotations and pruning.
const THREADS: usize = 8;
const DESCRIPTORS: usize = 30;
/// Memory in addition to a tenth that an allocator may keep.
const RSS_KB: u64 = 8 * 1024;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Nothing depends on the exact time.
pub fn pause(time: Duration) {
    let _ = support::within(time, || Err::<(), ()>(()));
}

fn main() -> ExitCode {
    if printer::has_run() || common::program::has_run() {
        return ExitCode::SUCCESS;
    }
    // `cargo bench` and `cargo test --benches` both run this; only the former has enough time.
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    model::assert_it_finds_faults();
    let is_clean = if std::env::args().any(|argument| argument == "lines") {
        streamed_lines(number("TD_LINES", 10_000_000))
    } else {
        work(Duration::from_secs(number("TD_SECONDS", 120)))
    };
    if is_clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Everything at once.
fn work(time: Duration) -> bool {
    let mut world = World::new(WORK);
    let far = World::new(FAR);
    for agent in 0..AGENTS {
        let home = world.path(&format!("agent-{agent}"));
        fs::create_dir(&home).unwrap();
        let command = fake_agent::command(&home);
        let args = [
            "new-session",
            "-d",
            "-x",
            "120",
            "-y",
            "40",
            "-s",
            &format!("agent{agent}"),
            &command,
        ];
        world.tmux(0, &args).unwrap();
    }
    let faces = Faces::attach(&world, &far);
    let mut loops = Loops::default();
    let (began, mut samples) = (Instant::now(), Vec::new());
    while began.elapsed() < time {
        loops.go_on(&world);
        let held = world.held();
        samples.extend(held);
        if samples.len() % 12 == 0 {
            eprintln!(
                "{} s, {held:?}, {} loops",
                began.elapsed().as_secs(),
                loops.ended
            );
        }
        world.check_observer();
        pause(SAMPLE);
    }
    let loops_ended = loops.end();
    world.note(rising(&samples));
    world.note(faces.end());
    let mut far = far.end();
    let mut verdict = world.end();
    verdict.refuse_gaps();
    far.refuse_gaps();
    println!(
        "{} s, {loops_ended} loops, {} samples",
        time.as_secs(),
        samples.len()
    );
    for held in [samples.get(samples.len() / 4), samples.last()] {
        println!("{held:?}");
    }
    println!("{verdict}the other host: {far}");
    verdict.faults.is_empty() && far.faults.is_empty()
}

/// Lists what the last quarter has more of than the second: in the first one, caches and histories grow.
fn rising(samples: &[Held]) -> Vec<String> {
    let quarter = samples.len() / 4;
    if quarter == 0 {
        return vec!["too short to tell what rises".to_owned()];
    }
    let most = |of: &[Held]| {
        let most = |value: fn(&Held) -> u64| of.iter().map(value).max().unwrap_or(0);
        [
            most(|held| held.rss_kb),
            most(|held| held.threads as u64),
            most(|held| held.descriptors as u64),
        ]
    };
    let (before, after) = (
        most(&samples[quarter..2 * quarter]),
        most(&samples[3 * quarter..]),
    );
    let allowed = [
        before[0] + before[0] / 10 + RSS_KB,
        before[1] + THREADS as u64,
        before[2] + DESCRIPTORS as u64,
    ];
    let named = ["memory (kB)", "threads", "descriptors"].iter().zip(before);
    let values = named.zip(after.into_iter().zip(allowed));
    let risen = values.filter(|(_, (after, allowed))| after > allowed);
    risen
        .map(|((what, before), (after, _))| format!("{what}: {before} became {after}"))
        .collect()
}

/// What is attached meanwhile.
struct Faces {
    watchers: Vec<Watcher>,
    terminal: TmuxServer,
    pane: String,
    page: Child,
    page_bytes: Arc<AtomicU64>,
    _sshd: sshd::Sshd,
    _ssh: tempfile::TempDir,
}

impl Faces {
    fn attach(world: &World, far: &World) -> Self {
        let ssh = tempfile::tempdir().unwrap();
        let (server, config) = reach(ssh.path(), far);
        let mut both = world.command(&[
            "status", "--watch", "--json", "--host", "local", "--host", "far",
        ]);
        both.env("TD_SSH_COMMAND", format!("ssh -F {}", config.display()));
        let watchers = vec![
            Watcher::start(world.command(&["watch", "--json", "--no-log"])),
            Watcher::start(both),
        ];
        let terminal = TmuxServer::new();
        let ui = format!(
            "exec env -u TMUX -u TMUX_PANE TERM=screen-256color TD_DATA_DIR='{}' XDG_RUNTIME_DIR='{}' HOME='{}' '{PROGRAM}' tui",
            world.data().display(),
            world.path("run").display(),
            world.path("home").display(),
        );
        let pane = terminal.new_session("ui", 140, 50, &ui);
        terminal.wait_for_text(&pane, "agent0");
        let (page, page_bytes) = read_page(world);
        Self {
            watchers,
            terminal,
            pane,
            page,
            page_bytes,
            _sshd: server,
            _ssh: ssh,
        }
    }

    /// Ends all faces; returns what was wrong with them.
    fn end(mut self) -> Vec<String> {
        let mut faults: Vec<String> = self.watchers.drain(..).flat_map(Watcher::cut).collect();
        let screen = self.terminal.screen(&self.pane);
        if !screen.contains("agent0") {
            faults.push(format!("the terminal UI shows:\n{screen}"));
        }
        if self.page_bytes.load(Ordering::Relaxed) == 0 {
            faults.push("the page's stream had nothing".to_owned());
        }
        kill_process(Pid::from_child(&self.page), Signal::TERM).unwrap();
        let ended = wait_for("the end of serve", CEILING, || {
            self.page.try_wait().unwrap().ok_or("it still runs")
        });
        if !ended.success() {
            faults.push(format!("serve: {ended}"));
        }
        faults
    }
}

/// Starts an sshd by which the other world is reached as `far`; returns the configuration of its clients, too.
fn reach(directory: &std::path::Path, far: &World) -> (sshd::Sshd, std::path::PathBuf) {
    let key = sshd::keys(directory, "client");
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let bin = directory.join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(PROGRAM, bin.join("td-observe")).unwrap();
    let lines = format!(
        "ListenAddress 127.0.0.1\nPort {port}\nSetEnv PATH={}:{} HOME={} TD_DATA_DIR={} XDG_RUNTIME_DIR={}\n",
        bin.display(),
        std::env::var("PATH").unwrap(),
        far.path("home").display(),
        far.data().display(),
        far.path("run").display(),
    );
    let server = sshd::Sshd::start(directory, &key, &lines, None);
    let section = format!("Host far\n  HostName 127.0.0.1\n  Port {port}\n  HostKeyAlias far\n");
    let known = sshd::known_host("far", directory);
    let config = sshd::write_client_config(directory, &section, &known, &key);
    (server, config)
}

/// Serves the page, and reads its stream of events as a browser does.
fn read_page(world: &World) -> (Child, Arc<AtomicU64>) {
    let mut command = world.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let link = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| {
            let (address, token) = line.split_once("/#token=")?;
            let (_, address) = address.split_once("http://")?;
            Some((address.to_owned(), token.trim().to_owned()))
        })
        .unwrap();
    let bytes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&bytes);
    std::thread::spawn(move || {
        let (address, token) = link;
        let mut stream = TcpStream::connect(&address).unwrap();
        let request = format!(
            "GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nAccept: text/event-stream\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut buffer = [0; 64 * 1024];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            counted.fetch_add(read as u64, Ordering::Relaxed);
        }
        // What it prints otherwise is read, so that it never waits.
        lines.for_each(drop);
    });
    (child, bytes)
}

/// Loops that run side by side, again and again.
#[derive(Default)]
struct Loops {
    running: Vec<Child>,
    ended: u64,
}

impl Loops {
    fn go_on(&mut self, world: &World) {
        self.running
            .retain_mut(|child| match child.try_wait().unwrap() {
                None => true,
                Some(status) => {
                    // Two iterations whose check fails use up the loop.
                    assert_eq!(status.code(), Some(1), "a loop");
                    self.ended += 1;
                    false
                }
            });
        while self.running.len() < LOOPS {
            let args = [
                "loop",
                "--task",
                "Work",
                "--agent",
                "for i in $(seq 1 200); do echo working on $i; sleep 0.05; done",
                "--as",
                "text",
                "--check",
                "exit 3",
                "--max-iterations",
                "2",
            ];
            self.running.push(world.command(&args).spawn().unwrap());
        }
    }

    fn end(mut self) -> u64 {
        for child in &mut self.running {
            let _ = kill_process(Pid::from_child(child), Signal::INT);
            child.wait().unwrap();
        }
        self.ended
    }
}

/// Streams lines of one pane as fast as they are read, and finds each in the log.
fn streamed_lines(count: u64) -> bool {
    let (server, place) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let pane = server.new_session(
        "job",
        80,
        24,
        &format!("printf 'ready\\n'; tmux wait-for go; seq 1 {count}; exec cat"),
    );
    server.wait_for_text(&pane, "ready");
    let mut watch = Command::new(PROGRAM)
        .args(["watch", "job", "--execution-id", "soak", "-q", "-S"])
        .arg(server.socket())
        .env("TD_DATA_DIR", place.path())
        .env_remove("TMUX")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the pipe", CEILING, || {
        let piped = server.tmux(&["display-message", "-p", "-t", &pane, "#{pane_pipe}"]);
        if piped == "1" { Ok(()) } else { Err(piped) }
    });
    let began = Instant::now();
    server.tmux(&["wait-for", "-S", "go"]);
    let peak = std::cell::Cell::new(0);
    wait_for("the last line", Duration::from_secs(3600), || {
        let held = Held::by(watch.id()).map_or(0, |held| held.rss_kb);
        peak.set(peak.get().max(held));
        pause(Duration::from_millis(500));
        let shown = server.tmux(&["capture-pane", "-p", "-t", &pane]);
        let is_there = shown.lines().any(|line| line == count.to_string());
        if is_there {
            Ok(())
        } else {
            Err(shown.lines().last().unwrap_or_default().to_owned())
        }
    });
    let printed = began.elapsed();
    let run = RunDirectory::at(&place.path().join("runs/soak")).unwrap();
    let last = format!("\\n{count}\\n");
    wait_for("the last line in the log", Duration::from_secs(600), || {
        let tail = fs::read_to_string(run.events_path()).unwrap_or_default();
        let is_there = tail.lines().rev().take(20).any(|line| line.contains(&last));
        pause(Duration::from_millis(200));
        is_there.then_some(()).ok_or("it is not there")
    });
    kill_process(Pid::from_child(&watch), Signal::INT).unwrap();
    let ended = watch.wait().unwrap();
    let (mut next, mut gaps, mut wrong) = (1, 0, 0);
    for record in LogReader::open(&run, Query::all()).unwrap() {
        match record.envelope.event {
            TdEvent::OutputUpdate { chunk, .. } => {
                for line in chunk.lines() {
                    let Ok(number) = line.parse::<u64>() else {
                        continue;
                    };
                    wrong += u64::from(number != next);
                    next = number + 1;
                }
            }
            TdEvent::OutputGap { .. } | TdEvent::LogGap { .. } => gaps += 1,
            _ => {}
        }
    }
    println!(
        "{count} lines in {:.1} s, up to {next} in the log, {wrong} out of order, {gaps} gaps, {} kB at most, {ended}",
        printed.as_secs_f64(),
        peak.get()
    );
    next == count + 1 && wrong == 0 && gaps == 0 && ended.success()
}
