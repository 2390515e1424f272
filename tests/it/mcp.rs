//! `td-observe mcp` from outside: what official clients and clients of any kind get from it.

pub mod client;
mod clients;
mod ends;
mod listed;
mod malformed;
mod many_waits;
mod observers;
pub mod official;
mod skill;
mod typing;
mod waits;

use std::fs;
use std::time::Duration;

use crate::observer::Home;
use crate::support::{CEILING, wait_for, within};

/// Lists the processes that have this home's data directory in their environment, but not its observer.
fn processes(home: &Home) -> Vec<String> {
    let own = format!("TD_DATA_DIR={}", home.data().display());
    let observer = home.data().join("observer.json").exists();
    let observer = observer.then(|| home.pid().to_string());
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let entries = entries.filter(|entry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable == own.as_bytes())
    });
    let entries =
        entries.filter(|entry| Some(entry.file_name().into_string().unwrap()) != observer);
    entries
        .map(|entry| {
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            format!("{:?}: {command}", entry.file_name())
        })
        .collect()
}

/// Waits until so many waits for a channel of tmux have begun, each of which has a process of its own.
#[track_caller]
fn wait_for_channels(home: &Home, count: usize) {
    channels(home, count).unwrap_or_else(|left| panic!("not {count}, but {left:#?}"));
}

/// Like `wait_for_channels`, but returns the processes that there are instead.
fn channels(home: &Home, count: usize) -> Result<(), Vec<String>> {
    within(CEILING, || {
        let mut left = processes(home);
        left.retain(|process| process.contains(" wait-for "));
        if left.len() == count {
            Ok(())
        } else {
            Err(left)
        }
    })
}

#[track_caller]
fn assert_no_server_is_left(home: &Home) {
    assert_none_is_left_within(home, CEILING);
}

/// Waits until no process of a home is left but its observer, and no pane of its tmux server has a pipe to one of them.
#[track_caller]
fn assert_none_is_left_within(home: &Home, ceiling: Duration) {
    wait_for("the end of all processes", ceiling, || {
        let left = processes(home);
        if left.is_empty() { Ok(()) } else { Err(left) }
    });
    // An observer that goes on keeps its pipes.
    if home.data().join("observer.json").exists() {
        return;
    }
    wait_for("the end of all pipes", ceiling, || {
        let pipes = home
            .server
            .tmux(&["list-panes", "-a", "-F", "#{pane_pipe}"]);
        if pipes.contains('1') {
            Err(pipes)
        } else {
            Ok(())
        }
    });
}
