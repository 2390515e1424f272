//! Polling beside the loops that people write: CPU for a hundred panes at 200 ms.
//!
//! A private server with a hundred one-pane sessions is watched in turn by the engine, by a loop
//! that runs one tmux process for each pane and tick (`display-message ; capture-pane`), and by a
//! loop with two processes a pane and tick, as `wait_for_text` in the report of its race has it.
//! What counts is CPU time: the watcher's own, its children's, and what the server takes beyond
//! what it takes unwatched. The loops do not keep their pace; what they would take for all looks is
//! said, and what they took as they ran.

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
/// Our cost is small, and the kernel reports that of children in steps of 10 ms: it is measured longest.
const OURS: Duration = Duration::from_secs(8);
const THEIRS: Duration = Duration::from_secs(5);
const UNWATCHED: Duration = Duration::from_secs(4);

/// Which loop stands beside us.
#[derive(Clone, Copy)]
enum Loop {
    OneProcess,
    TwoProcesses,
}

/// The section.
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
            let (cost, pace) = (of(|theirs| theirs.cost), of(|theirs| theirs.pace));
            let full = of(|theirs| theirs.cost / theirs.pace);
            table.row(&Row {
                what: &format!("polling {PANES} panes at 200 ms, {what}"),
                ours: format!("{ours:.0} ms CPU a second"),
                instead: format!(
                    "{name}: {full:.0} ms at full pace ({cost:.0} ms, 1/{:.1}, at {:.0} % of the pace, as it ran)",
                    cost / ours,
                    pace * 100.0
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

/// Milliseconds of CPU a second in one round.
struct Taken {
    ours: f64,
    theirs: [Theirs; 2],
}

struct Theirs {
    cost: f64,
    /// Looks taken, of those that it should take.
    pace: f64,
}

impl Taken {
    fn side_by_side(server: &TmuxServer) -> Self {
        let pid = server.pid().as_raw_nonzero().get() as u32;
        let unwatched = spent(pid, || thread::sleep(UNWATCHED)).server;
        let extra = |spent: Spent| spent.watcher + (spent.server - unwatched).max(0.0);
        let watch = Watch::new(server.server()).interval(INTERVAL).poll();
        let (engine, events) = watched(watch, PANES);
        // Nobody reads on: what a reader costs is the bus's figure.
        drop(events);
        // The beginning, with each pane's first look, is no tick like the others.
        thread::sleep(Duration::from_secs(1));
        let ours = extra(spent(pid, || thread::sleep(OURS)));
        engine.shutdown();
        let theirs = [Loop::OneProcess, Loop::TwoProcesses].map(|which| {
            let mut pace = 0.0;
            let cost = extra(spent(pid, || pace = which.run(&server.socket())));
            Theirs { cost, pace }
        });
        Self { ours, theirs }
    }
}

impl Loop {
    /// Looks at all panes in each tick. Where a round takes longer than the interval, the next
    /// begins at once. Returns how much of its pace it kept.
    fn run(self, socket: &Path) -> f64 {
        let (began, mut looks) = (Instant::now(), 0);
        'all: loop {
            let tick = Instant::now();
            for pane in 0..PANES {
                if began.elapsed() >= THEIRS {
                    break 'all;
                }
                self.look(socket, pane);
                looks += 1;
            }
            thread::sleep(INTERVAL.saturating_sub(tick.elapsed()));
        }
        let wanted = began.elapsed().as_secs_f64() / INTERVAL.as_secs_f64() * PANES as f64;
        f64::from(looks) / wanted
    }

    fn look(self, socket: &Path, pane: usize) {
        let target = format!("=s{pane}:");
        let state = "#{history_size} #{cursor_y} #{pane_height} #{pane_pid} #{pane_dead}";
        let look = ["display-message", "-p", "-t", &target, state];
        let capture = ["capture-pane", "-p", "-J", "-S", "-50", "-t", &target];
        match self {
            Self::OneProcess => tmux(socket, &[&look[..], &[";"], &capture[..]].concat()),
            Self::TwoProcesses => {
                tmux(socket, &look);
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
