//! Panes at rest: what an observer, its drains and the tmux server use of a core, and the memory for each pane.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::common::cpu::{children_of_ms, other_ms};
use crate::common::drains::{drains, pid_of};
use crate::common::panes::server;
use crate::common::resources::share_kb;
use crate::common::support::{CEILING, TmuxServer, wait_for};
use crate::common::table::{Bar, Row, Table};

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");

/// The time that is measured, and the pause before it, in which new panes are read.
const RESTS: Duration = Duration::from_secs(30);
const SETTLE: Duration = Duration::from_secs(25);

pub fn run(table: &mut Table) {
    for (panes, bar) in [(100, 0.3), (1000, 3.0)] {
        row(table, panes, bar);
    }
}

fn row(table: &mut Table, panes: usize, bar: f64) {
    let server = server(panes, 0);
    thread::sleep(Duration::from_secs(2));
    let alone = used(&server, None);
    let place = tempfile::tempdir().unwrap();
    let mut child = watch(&server, place.path());
    let server_pid = pid_of(&server);
    wait_for("all drains", CEILING * 6, || {
        match drains(pid_of(&server)).len() {
            count if count >= panes => Ok(()),
            count => Err(count),
        }
    });
    thread::sleep(SETTLE);
    let observed = used(&server, Some(child.id()));
    let readers = drains(pid_of(&server));
    let processes = std::iter::once(child.id()).chain(readers);
    let memory: u64 = processes.filter_map(share_kb).sum();
    let memory = memory as f64 / 1024.0 / panes as f64;
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap();
    let more = (observed - alone).max(0.0);
    table.row(&Row {
        what: &format!("{panes} panes at rest, streamed: share of a core, of observer, drains and server; memory for each"),
        ours: format!("{more:.2} %; {memory:.2} MB"),
        instead: format!("the tmux server ({server_pid}), unobserved: {alone:.2} %"),
        ratio: None,
        bar: Bar::Stated(&format!("≤ {bar} %, ≤ 1.2 MB"), more <= bar && memory <= 1.2),
    });
}

fn watch(server: &TmuxServer, data: &std::path::Path) -> Child {
    Command::new(PROGRAM)
        .args(["watch", "-S"])
        .arg(server.socket())
        .env("TD_DATA_DIR", data)
        .env_remove("TMUX")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Returns the percent of a core that the server, the observer and the drains use while nothing happens.
fn used(server: &TmuxServer, observer: Option<u32>) -> f64 {
    let mut processes = vec![pid_of(server)];
    if let Some(observer) = observer {
        processes.extend(drains(pid_of(server)));
        processes.push(observer);
    }
    let now = || -> f64 {
        let own = processes.iter().map(|pid| other_ms(*pid)).sum::<f64>();
        own + observer.map_or(0.0, children_of_ms)
    };
    let before = now();
    thread::sleep(RESTS);
    (now() - before) / RESTS.as_secs_f64() / 10.0
}
