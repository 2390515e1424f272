//! The program under test, with its own data directory and socket directory.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use td_observe::history::{DataDir, RunDirectory};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");

/// The execution id of the run that a part writes.
pub const RUN: &str = "faults";

/// The directories of one part.
pub struct Place {
    root: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("sockets")).unwrap();
        Self { root }
    }

    pub fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    /// Returns the `TMPDIR` of the program, which contains its sockets.
    pub fn sockets(&self) -> PathBuf {
        self.root.path().join("sockets")
    }

    pub fn run(&self) -> RunDirectory {
        DataDir::new(self.data()).run(&RUN.into())
    }

    /// Returns the program with these arguments; its output is not read.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command
            .args(arguments)
            .env("TD_DATA_DIR", self.data())
            .env("TMPDIR", self.sockets())
            .env_remove("TMUX")
            .env_remove("TMUX_PANE")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }
}

/// Sends a signal to a child that has not been reaped yet.
pub fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

pub fn kill(mut child: Child) {
    signal(&child, Signal::KILL);
    child.wait().unwrap();
}
