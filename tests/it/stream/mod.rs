//! Panes that are streamed, on real tmux: nothing is lost at any speed, and nothing is harmed.

mod colours;
mod floods;
mod links;
mod long_lines;
mod many;
mod marks;
mod pipes;
mod recordings;
mod resizes;
mod screens;
mod stopped;
mod toggles;

use std::fs;

use rustix::process::Pid;
use td_observe::Watch;
use td_observe::tmux::DrainProgram;

use crate::observed::Observed;
use crate::resources::children_of;
use crate::support::{CEILING, TmuxServer, wait_for};

/// Returns the tested program as the drain of an engine in this process.
pub fn drain() -> DrainProgram {
    DrainProgram::at(env!("CARGO_BIN_EXE_td-observe"))
}

/// Returns an engine that streams all panes of a server.
#[track_caller]
fn streamed(server: &TmuxServer) -> Observed {
    Observed::start(server, by_bytes)
}

pub fn by_bytes(watch: Watch) -> Watch {
    watch.stream(drain())
}

/// Returns the drains of a server, in the order of their start.
fn drains(server: &TmuxServer) -> Vec<Pid> {
    let pid = server.pid().as_raw_nonzero().get().cast_unsigned();
    let is_drain = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"drain")
    };
    let mut drains: Vec<u32> = children_of(pid).into_iter().filter(is_drain).collect();
    drains.sort_unstable();
    let pids = drains.into_iter();
    pids.filter_map(|pid| Pid::from_raw(pid.cast_signed()))
        .collect()
}

/// Waits until the server has no drain and none of its panes is piped.
#[track_caller]
fn wait_until_drains_are_gone(server: &TmuxServer) {
    wait_for("the end of the drains and their pipes", CEILING, || {
        let (drains, piped) = (drains(server), piped(server));
        if drains.is_empty() && !piped.contains('1') {
            Ok(())
        } else {
            Err((drains, piped))
        }
    });
}

/// Returns `1` for each pane of the server that is piped, else `0`, one per line.
fn piped(server: &TmuxServer) -> String {
    server.tmux(&["list-panes", "-a", "-F", "#{pane_pipe}"])
}

/// Waits until this many panes of the server are streamed.
#[track_caller]
fn wait_until_streamed(server: &TmuxServer, panes: usize) -> Vec<Pid> {
    wait_for("drains", CEILING, || {
        let drains = drains(server);
        if drains.len() == panes {
            Ok(drains)
        } else {
            Err(drains)
        }
    })
}
