//! An observer that is stopped (SIGSTOP) while a pane floods: the pane and the server are not affected,
//! and the printed lines follow later, or are counted.

use std::thread;
use std::time::Duration;

use super::flood::{Counted, Flood};
use super::observer::{Observer, Who};
use super::{mb, size, thousands};
use crate::common::drains::pid_of;
use crate::common::resources::peak_kb;
use crate::common::stats::median;
use crate::common::support::Stopped;
use crate::common::table::{Bar, Row, Table};

const LINES: u64 = 2_000_000;
const PAIRS: usize = 3;
/// More than the drain's buffer.
const LONG_LINES: u64 = 50_000_000;
const SERVER_BAR_KB: u64 = 50 * 1024;
const SETTLE: Duration = Duration::from_millis(300);

/// One flood.
struct Ran {
    pane_s: f64,
    server_kb: u64,
    /// The peaks of the observer and its drain.
    peaks_kb: Vec<u64>,
    counted: Counted,
}

pub fn run(table: &mut Table) {
    rows(table, size("TD_BENCH_STOPPED_LINES", LINES), PAIRS, false);
    if size("TD_BENCH_LONG", 0) > 0 {
        rows(table, LONG_LINES, 1, true);
    }
}

fn rows(table: &mut Table, lines: u64, pairs: usize, is_long: bool) {
    let (mut plain, mut stopped) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        if pair % 2 == 0 {
            plain.push(ran(lines, false));
            stopped.push(ran(lines, true));
        } else {
            stopped.push(ran(lines, true));
            plain.push(ran(lines, false));
        }
    }
    let pane_s = |ran: &[Ran]| median(ran.iter().map(|ran| ran.pane_s).collect());
    let server = |ran: &[Ran]| ran.iter().map(|ran| ran.server_kb).max().unwrap();
    let what = format!("`seq 1 {}` while the observer is stopped", thousands(lines));
    table.row(&Row {
        what: &format!("{what}: the pane's time"),
        ours: format!("{:.3} s", pane_s(&stopped)),
        instead: format!("unobserved: {:.3} s", pane_s(&plain)),
        ratio: Some(pane_s(&stopped) / pane_s(&plain)),
        bar: Bar::None,
    });
    let held = server(&stopped);
    let ours = stopped.iter().map(|ran| ran.peaks_kb.clone());
    let ours = ours.max_by_key(|peaks| peaks.iter().sum::<u64>()).unwrap();
    let each: Vec<String> = ours.iter().map(|kb| mb(*kb)).collect();
    table.row(&Row {
        what: &format!("{what}: the tmux server's memory at most"),
        ours: format!("{} (observer, drain: {})", mb(held), each.join(", ")),
        instead: format!("unobserved: {}", mb(server(&plain))),
        ratio: None,
        bar: Bar::Stated("< 50 MB", held < SERVER_BAR_KB),
    });
    let is_good = |counted: &Counted| {
        if is_long {
            counted.is_counted(lines)
        } else {
            counted.is_whole(lines)
        }
    };
    let good = stopped.iter().filter(|ran| is_good(&ran.counted)).count();
    let shown = stopped.iter().find(|ran| !is_good(&ran.counted));
    let shown = shown.unwrap_or(&stopped[0]).counted.shown();
    table.row(&Row {
        what: &format!("{what}: what is in the log after SIGCONT"),
        ours: format!("{good} of {pairs} times right: {shown}"),
        instead: String::new(),
        ratio: None,
        bar: Bar::Stated(
            if is_long {
                "all said or counted"
            } else {
                "all lines"
            },
            good == stopped.len(),
        ),
    });
}

fn ran(lines: u64, is_observed: bool) -> Ran {
    let flood = Flood::with_held_end(lines);
    let who = if is_observed {
        Who::Stream
    } else {
        Who::Nobody
    };
    let observer = Observer::start(who, &flood.server, 1);
    thread::sleep(SETTLE);
    let stopped = is_observed.then(|| Stopped::new(observer.pid()));
    flood.go();
    let pane_s = flood.took();
    drop(stopped);
    // While the drain has no room, output is only counted, including the end.
    observer.until_unchanged();
    flood.more();
    observer.until_end();
    Ran {
        pane_s,
        server_kb: peak_kb(pid_of(&flood.server)).unwrap(),
        peaks_kb: observer.peaks_kb(),
        counted: observer.stop_and_count(),
    }
}
