//! The drains of a tmux server while its panes are streamed.

use std::fs;

use td_observe::tmux::DrainProgram;

use super::resources::children_of;
use super::support::{CEILING, TmuxServer, wait_for};

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");

/// Returns the program as the drain of an engine in this process.
pub fn drain() -> DrainProgram {
    DrainProgram::at(PROGRAM)
}

/// Returns the id of the server's process.
pub fn pid_of(server: &TmuxServer) -> u32 {
    server.pid().as_raw_nonzero().get().cast_unsigned()
}

/// Returns the drains of the server with this id.
pub fn drains(server: u32) -> Vec<u32> {
    let is_drain = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).nth(1) == Some(b"drain")
    };
    children_of(server).into_iter().filter(is_drain).collect()
}

/// Waits until this many panes of the server are streamed.
pub fn until_followed(server: &TmuxServer, panes: usize) -> Vec<u32> {
    let pid = pid_of(server);
    wait_for("the drains", CEILING, || {
        let drains = drains(pid);
        if drains.len() == panes {
            Ok(drains)
        } else {
            Err(drains.len())
        }
    })
}
