//! Polling beside one tmux process per pane and tick, in one run: `cargo bench --bench polling`.
//!
//! A private server with a hundred one-pane sessions is watched twice at 200 ms: by the engine, and
//! by a loop that runs `tmux display-message ; capture-pane` once for each pane, as the two-process
//! loops that people write do at best. What counts is CPU time: the watcher's own, its children's,
//! and what the server takes beyond what it takes unwatched. `TD_PANES` and `TD_SECONDS` change
//! the size.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use td_observe::tmux::Server;
use td_observe::{Builder, Watch};

const INTERVAL: Duration = Duration::from_millis(200);

/// A server of our own, which ends with the benchmark.
struct Private {
    directory: tempfile::TempDir,
}

impl Private {
    fn start(panes: usize, printing: usize) -> Self {
        let private = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        for pane in 0..panes {
            let program = if pane < printing {
                "while sleep 1; do echo \"some line that a job prints $((i=i+1))\"; done"
            } else {
                "exec cat"
            };
            let name = format!("s{pane}");
            let args = [
                "new-session",
                "-d",
                "-x",
                "80",
                "-y",
                "24",
                "-s",
                &name,
                program,
            ];
            assert!(private.tmux(&args).status.success());
        }
        private
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn tmux(&self, args: &[&str]) -> Output {
        tmux(&self.socket(), args)
    }

    fn pid(&self) -> u32 {
        let answer = self.tmux(&["display-message", "-p", "#{pid}"]).stdout;
        String::from_utf8(answer).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn tmux(socket: &Path, args: &[&str]) -> Output {
    let mut command = Command::new("tmux");
    command
        .args(["-u", "-f", "/dev/null", "-S"])
        .arg(socket)
        .args(args);
    command.stdin(Stdio::null()).output().unwrap()
}

/// CPU time of a process, in clock ticks of 10 ms, its ended children's included.
fn cpu_ticks(stat: &str) -> u64 {
    let stat = std::fs::read_to_string(stat).unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    // Fields 14 to 17 of proc(5): utime, stime, cutime, cstime.
    fields[11..15]
        .iter()
        .map(|field| field.parse::<u64>().unwrap())
        .sum()
}

/// CPU of a process alone, without its children.
fn own_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    fields[11..13]
        .iter()
        .map(|field| field.parse::<u64>().unwrap())
        .sum()
}

/// Milliseconds of CPU a second: ours with our children's, and the server's.
fn measured(server: u32, seconds: u64, work: impl FnOnce(Duration)) -> (f64, f64) {
    let (ours, theirs) = (cpu_ticks("/proc/self/stat"), own_ticks(server));
    work(Duration::from_secs(seconds));
    let per_second = |ticks: u64| ticks as f64 * 10.0 / seconds as f64;
    (
        per_second(cpu_ticks("/proc/self/stat") - ours),
        per_second(own_ticks(server) - theirs),
    )
}

fn engine(socket: &Path, time: Duration) {
    let mut engine = Builder::new().start().unwrap();
    engine
        .watch(Watch::new(Server::socket(socket)).interval(INTERVAL))
        .unwrap();
    thread::sleep(time);
    engine.shutdown();
}

/// One process for each pane and tick. Where a round takes longer than the interval, the next
/// begins at once.
fn naive(socket: &Path, panes: usize, time: Duration) -> u64 {
    let begin = Instant::now();
    let mut rounds = 0;
    while begin.elapsed() < time {
        let tick = Instant::now();
        for pane in 0..panes {
            let target = format!("=s{pane}:");
            let state = "#{history_size} #{cursor_x} #{cursor_y}";
            let look = ["display-message", "-p", "-t", &target, state, ";"];
            let capture = ["capture-pane", "-p", "-J", "-S", "-50", "-t", &target];
            tmux(socket, &[&look[..], &capture[..]].concat());
            if begin.elapsed() >= time {
                return rounds;
            }
        }
        rounds += 1;
        thread::sleep(INTERVAL.saturating_sub(tick.elapsed()));
    }
    rounds
}

fn main() {
    let number = |name, or| {
        std::env::var(name)
            .ok()
            .and_then(|n| n.parse().ok())
            .unwrap_or(or)
    };
    let (panes, seconds) = (number("TD_PANES", 100), number("TD_SECONDS", 10) as u64);
    println!(
        "{panes} panes at 200 ms, {seconds} s each; CPU in ms a second (ours + server's extra)"
    );
    for (what, printing) in [("half print a line a second", panes / 2), ("idle", 0)] {
        let private = Private::start(panes, printing);
        let (socket, server) = (private.socket(), private.pid());
        let (_, base) = measured(server, seconds, thread::sleep);
        let (ours, theirs) = measured(server, seconds, |time| engine(&socket, time));
        let mut rounds = 0;
        let (naive_ours, naive_theirs) =
            measured(server, seconds, |time| rounds = naive(&socket, panes, time));
        let td = ours + (theirs - base).max(0.0);
        let other = naive_ours + (naive_theirs - base).max(0.0);
        // The naive loop is too slow for its interval: what it would take at full pace.
        let wanted = seconds as f64 / INTERVAL.as_secs_f64();
        let full = other * wanted / (rounds as f64).max(1.0);
        println!(
            "| {what} | td-observe {td:.0} ({ours:.0} + {:.0}) | one process a pane and tick {other:.0} \
             at {rounds} of {wanted:.0} rounds, {full:.0} at full pace | 1/{:.1} as it ran, 1/{:.1} at full pace |",
            (theirs - base).max(0.0),
            other / td.max(0.1),
            full / td.max(0.1),
        );
    }
}
