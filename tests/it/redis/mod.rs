//! Many hosts by way of Redis: what is shipped, and the replica that faces read.

mod faces;
mod kills;
mod log;
mod server;
mod ships;
mod troubles;

use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use self::server::Redis;
use crate::cli::{Running, assert_code, program, text};
use crate::support::{CEILING, wait_for};

/// Starts a shipper of a data directory.
fn shipper(data: &Path, address: &str, more: &[&str]) -> Running {
    shipper_of("web", data, address, more)
}

fn shipper_of(host: &str, data: &Path, address: &str, more: &[&str]) -> Running {
    let args = [&["ship", "--to", address, "--host-name", host], more].concat();
    Running::start(program(&args, data))
}

/// Returns the data directory of the copies that faces with this data directory read.
fn copies(data: &Path) -> PathBuf {
    let found = std::fs::read_dir(data.join("from")).unwrap();
    found.map(|entry| entry.unwrap().path()).last().unwrap()
}

fn pid(running: &Running) -> Pid {
    Pid::from_child(&running.child)
}

/// Kills a program; returns what it has reported.
fn kill(mut running: Running) -> String {
    kill_process(pid(&running), Signal::KILL).unwrap();
    running.child.wait().unwrap();
    running.complaints()
}

/// Interrupts a program; returns what it has reported.
#[track_caller]
fn interrupt(running: Running) -> String {
    kill_process(pid(&running), Signal::INT).unwrap();
    let output = running.end();
    assert_code(&output, 0);
    text(&output.stderr)
}

/// Waits until the last entry of a stream has this number.
#[track_caller]
fn wait_for_number(redis: &Redis, stream: &str, number: u64) {
    wait_for("the last event", CEILING, || {
        let last = redis.raw(&["XREVRANGE", stream, "+", "-", "COUNT", "1"]);
        let is_there = last.contains(&format!("-{number}\r\n"));
        is_there.then_some(()).ok_or(last)
    });
}
