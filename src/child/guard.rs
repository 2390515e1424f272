//! A process that ends the children of a program that was killed, so that nothing of it goes on.
//!
//! It reads from a pipe which children it is to end. When the pipe is closed, because the program has ended in whatever
//! way, it kills those that are left.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Mutex;

use rustix::process::{Pid, Signal, kill_process_group};

use super::group::{ProcessGroup, stat};
use crate::error::{Error, Result};
use crate::thread::lock;

/// The guard of this program's children. It ends with the program.
#[derive(Debug)]
pub(crate) struct Guard {
    pipe: Mutex<ChildStdin>,
    /// Killed when it is dropped, after the children that it guards.
    _process: ProcessGroup,
}

impl Guard {
    /// Starts the guard: this program with an argument that makes it call [`guard`].
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(argument: &OsStr) -> Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg(argument)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut process = ProcessGroup::start(&mut command)?;
        let pipe = process.child.stdin.take();
        let pipe = pipe.ok_or_else(|| Error::other("the guard has no pipe"))?;
        Ok(Self {
            pipe: Mutex::new(pipe),
            _process: process,
        })
    }

    /// Guards a child that leads its group.
    pub fn watch(&self, child: &ProcessGroup) {
        let pid = child.pid().as_raw_pid();
        let started = stat(pid.unsigned_abs()).map_or(0, |stat| stat.started);
        self.say(&format!("+ {pid} {started}\n"));
    }

    /// Has a directory removed at the end, in which the children left what they share.
    pub fn remove_at_end(&self, directory: &Path) {
        self.say(&format!("~ {}\n", directory.display()));
    }

    /// Forgets a child, whose pid may become another process's.
    pub fn forget(&self, child: &ProcessGroup) {
        self.say(&format!("- {}\n", child.pid().as_raw_pid()));
    }

    fn say(&self, line: &str) {
        if let Err(cause) = lock(&self.pipe).write_all(line.as_bytes()) {
            log::warn!("the guard of the connections is gone: {cause}");
        }
    }
}

/// Reads which children are to be ended, and ends them at the end of the input.
pub(crate) fn guard(input: impl BufRead) {
    let left = left(input);
    for (pid, started) in left.children {
        let is_same = stat(pid.unsigned_abs()).is_some_and(|stat| stat.started == started);
        if let Some(group) = Pid::from_raw(pid).filter(|_| is_same) {
            // An error means that it is gone.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
    if let Some(directory) = left.directory {
        // Usually the program has removed it.
        let _ = fs::remove_dir_all(directory);
    }
}

/// What is left at the end of the input.
#[derive(Debug, Default, PartialEq, Eq)]
struct Left {
    /// The children, with their start times.
    children: BTreeMap<i32, u64>,
    directory: Option<PathBuf>,
}

fn left(input: impl BufRead) -> Left {
    let mut left = Left::default();
    let known = &mut left.children;
    for line in input.lines().map_while(io::Result::ok) {
        if let Some(directory) = line.strip_prefix("~ ") {
            left.directory = Some(directory.into());
        }
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["+", pid, started] => {
                if let (Ok(pid), Ok(started)) = (pid.parse(), started.parse()) {
                    known.insert(pid, started);
                }
            }
            ["-", pid] => {
                if let Ok(pid) = pid.parse() {
                    known.remove(&pid);
                }
            }
            _ => {}
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_forgotten_is_ended() {
        let said = "+ 7 100\n~ /tmp/a b\n+ 8 200\n- 7\nnonsense\n+ 9\n+ x 1\n";
        let expected = Left {
            children: BTreeMap::from([(8, 200)]),
            directory: Some("/tmp/a b".into()),
        };
        assert_eq!(left(said.as_bytes()), expected);
    }

    #[test]
    fn another_process_with_the_pid_of_a_child_is_left_alone() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let child = ProcessGroup::start(&mut command).unwrap();
        let pid = child.pid().as_raw_pid();
        let started = stat(pid.unsigned_abs()).unwrap().started;
        guard(format!("+ {pid} {}\n", started + 1).as_bytes());
        assert!(!child.has_ended().unwrap());
        guard(format!("+ {pid} {started}\n").as_bytes());
        let clock = crate::clock::Clock::system();
        let mut child = child;
        let deadline = clock.now() + std::time::Duration::from_secs(10);
        assert!(child.wait_deadline(deadline, &clock).unwrap().is_some());
    }
}
