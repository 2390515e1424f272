//! Polling compared with common shell loops: CPU for a hundred panes at 200 ms.
//!
//! A private server with a hundred one-pane sessions is watched in turn by the engine, by a loop that
//! runs one tmux process for each pane and tick (`display-message ; capture-pane`), and by a loop with
//! two processes for each pane and tick, as in `wait_for_text` in the report of its race. The cost is CPU
//! time: of the watcher, of its children, and of the server beyond its unwatched load. The loops do not
//! keep their rate; the row gives their cost for all captures and the measured cost.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use td_observe::Watch;

use crate::common::cpu::{Spent, spent};
use crate::common::panes::{INTERVAL, server, watched};
use crate::common::stats::median;
use crate::common::support::TmuxServer;
use crate::common::table::{Bar, Row, Table};

const PANES: usize = 100;
const ROUNDS: usize = 3;
/// Our cost is small, and the kernel reports that of children in steps of 10 ms: it is measured for the
/// longest time.
const OURS: Duration = Duration::from_secs(8);
const THEIRS: Duration = Duration::from_secs(5);
const UNWATCHED: Duration = Duration::from_secs(4);

/// The loop to compare with.
#[derive(Clone, Copy)]
enum Loop {
    OneProcess,
    TwoProcesses,
}

pub fn run(table: &mut Table) {
    for (what, printing, bar) in [
        ("half of them print a line a second", PANES / 2, 1.0 / 8.0),
        ("idle", 0, 1.0 / 20.0),
    ] {
        let server = server(PANES, printing);
        let taken: Vec<Taken> = (0..ROUNDS).map(|_| Taken::side_by_side(&server)).collect();
        let ours = median(taken.iter().map(|taken| taken.ours).collect());
        for (name, which) in [
            ("one process a pane and tick", 0),
            ("two processes a pane and tick", 1),
        ] {
            let of = |value: fn(&Theirs) -> f64| {
                median(
                    taken
                        .iter()
                        .map(|taken| value(&taken.theirs[which]))
                        .collect(),
                )
            };
            let (cost, rate) = (of(|theirs| theirs.cost), of(|theirs| theirs.rate));
            let full = of(|theirs| theirs.cost / theirs.rate);
            table.row(&Row {
                what: &format!("polling {PANES} panes at 200 ms, {what}"),
                ours: format!("{ours:.0} ms CPU a second"),
                instead: format!(
                    "{name}: {full:.0} ms at full pace ({cost:.0} ms, 1/{:.1}, at {:.0} % of the pace, as it ran)",
                    cost / ours,
                    rate * 100.0
                ),
                ratio: Some(ours / full),
                bar: if which == 0 {
                    Bar::AtMost(bar)
                } else {
                    Bar::None
                },
            });
        }
    }
}

/// Milliseconds of CPU per second in one round.
struct Taken {
    ours: f64,
    theirs: [Theirs; 2],
}

struct Theirs {
    cost: f64,
    /// The fraction of the due captures that were taken.
    rate: f64,
}

impl Taken {
    fn side_by_side(server: &TmuxServer) -> Self {
        let pid = server.pid().as_raw_nonzero().get() as u32;
        let unwatched = spent(pid, || thread::sleep(UNWATCHED)).server;
        let extra = |spent: Spent| spent.watcher + (spent.server - unwatched).max(0.0);
        let watch = Watch::new(server.server()).interval(INTERVAL).poll();
        let (engine, events) = watched(watch, PANES);
        // Nobody reads further: the cost of a reader is a figure of the bus.
        drop(events);
        // The start, with each pane's first capture, costs more than later ticks.
        thread::sleep(Duration::from_secs(1));
        let ours = extra(spent(pid, || thread::sleep(OURS)));
        engine.shutdown();
        let theirs = [Loop::OneProcess, Loop::TwoProcesses].map(|which| {
            let mut rate = 0.0;
            let cost = extra(spent(pid, || rate = which.run(&server.socket())));
            Theirs { cost, rate }
        });
        Self { ours, theirs }
    }
}

impl Loop {
    /// Captures all panes in each tick. If a round takes longer than the interval, the next begins at
    /// once. Returns the fraction of the captures that were taken.
    fn run(self, socket: &Path) -> f64 {
        let (began, mut captures) = (Instant::now(), 0);
        'all: loop {
            let tick = Instant::now();
            for pane in 0..PANES {
                if began.elapsed() >= THEIRS {
                    break 'all;
                }
                self.capture(socket, pane);
                captures += 1;
            }
            thread::sleep(INTERVAL.saturating_sub(tick.elapsed()));
        }
        let wanted = began.elapsed().as_secs_f64() / INTERVAL.as_secs_f64() * PANES as f64;
        f64::from(captures) / wanted
    }

    fn capture(self, socket: &Path, pane: usize) {
        let target = format!("=s{pane}:");
        let state = "#{history_size} #{cursor_y} #{pane_height} #{pane_pid} #{pane_dead}";
        let numbers = ["display-message", "-p", "-t", &target, state];
        let capture = ["capture-pane", "-p", "-J", "-S", "-50", "-t", &target];
        match self {
            Self::OneProcess => tmux(socket, &[&numbers[..], &[";"], &capture[..]].concat()),
            Self::TwoProcesses => {
                tmux(socket, &numbers);
                tmux(socket, &capture);
            }
        }
    }
}

fn tmux(socket: &Path, args: &[&str]) {
    let mut command = Command::new("tmux");
    command.args(["-u", "-N", "-S"]).arg(socket).args(args);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
}
