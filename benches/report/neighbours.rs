//! The cost of 400 watched panes, and its effect on the server's other clients.
//!
//! Another client requests a word from the server repeatedly, while the panes are watched and while they
//! are not, in turn. A batch of captures delays the server's replies, so batches are kept short.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use td_observe::Watch;

use crate::common::cpu::spent;
use crate::common::panes::{INTERVAL, server, watched};
use crate::common::stats::{median, percentile};
use crate::common::support::TmuxServer;
use crate::common::table::{Bar, Row, Table};

const PANES: usize = 400;
const ROUNDS: usize = 3;
const WHILE: Duration = Duration::from_secs(4);
const ASKED_EVERY: Duration = Duration::from_millis(5);
/// The additional time that another client may wait because of the observer.
const BAR_MS: f64 = 10.0;

pub fn run(table: &mut Table) {
    let server = server(PANES, PANES / 2);
    let pid = server.pid().as_raw_nonzero().get() as u32;
    let (mut cost, mut unwatched, mut while_watched) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        unwatched.extend(waits(&server));
        let before = spent(pid, || thread::sleep(WHILE)).server;
        let watch = Watch::new(server.server()).interval(INTERVAL).poll();
        let (engine, events) = watched(watch, PANES);
        drop(events);
        thread::sleep(Duration::from_secs(1));
        let taken = spent(pid, || thread::sleep(WHILE));
        cost.push((taken.watcher, (taken.server - before).max(0.0)));
        while_watched.extend(waits(&server));
        engine.shutdown();
    }
    let per_hundred = |part: fn(&(f64, f64)) -> &f64| {
        median(cost.iter().map(|cost| *part(cost)).collect()) / (PANES as f64 / 100.0)
    };
    table.row(&Row {
        what: "polling 400 panes at 200 ms, half of them print a line a second, for each 100",
        ours: format!(
            "{:.0} ms CPU a second, and {:.0} ms of the server's",
            per_hundred(|(watcher, _)| watcher),
            per_hundred(|(_, server)| server)
        ),
        instead: String::new(),
        ratio: None,
        bar: Bar::None,
    });
    let at = |part| {
        (
            percentile(&while_watched, part),
            percentile(&unwatched, part),
        )
    };
    for (what, (ours, theirs), is_judged) in [
        ("p50", at(0.5), false),
        ("p99", at(0.99), true),
        ("longest", at(1.0), false),
    ] {
        table.row(&Row {
            what: &format!("another client's `display-message` meanwhile, {what}"),
            ours: format!("{ours:.1} ms"),
            instead: format!("unwatched: {theirs:.1} ms"),
            ratio: Some(ours / theirs),
            bar: if is_judged {
                Bar::Stated("≤ 10 ms longer", ours - theirs <= BAR_MS)
            } else {
                Bar::None
            },
        });
    }
}

/// Returns the time that another client waited for each reply, in ms.
fn waits(server: &TmuxServer) -> Vec<f64> {
    let (began, mut waits) = (Instant::now(), Vec::new());
    while began.elapsed() < WHILE {
        let asked = Instant::now();
        let mut command = Command::new("tmux");
        command.args(["-u", "-N", "-S"]).arg(server.socket());
        command.args(["display-message", "-p", "x"]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        waits.push(asked.elapsed().as_secs_f64() * 1e3);
        assert_eq!(output.stdout, b"x\n");
        thread::sleep(ASKED_EVERY);
    }
    waits
}
