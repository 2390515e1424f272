//! Finds the coding agent that runs in a terminal: from the program of a pane down to its children.
//!
//! A wrapper (a shell, `npx`, `script`) may stand between. Of an agent found, its start, its directory
//! and those variables of its environment are read that tell where its files are; nothing else of the
//! environment is kept.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::kernel::{Stat, age, arguments, children, directory, stat};
use crate::agent::AgentProgram;

/// How many processes of a pane are looked at: a build below a shell may have thousands.
const PROCESSES_MAX: usize = 64;

/// More of an environment is not read.
const ENVIRONMENT_BYTES_MAX: usize = 1 << 20;

/// The variables that tell where agents have their files.
const PLACES: &[&str] = &[
    "HOME",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "QWEN_HOME",
    "QWEN_RUNTIME_DIR",
    "XDG_DATA_HOME",
    "COPILOT_HOME",
];

/// An agent that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunningAgent {
    pub program: AgentProgram,
    pub pid: u32,
    /// When it started, in ticks since the machine did: with the pid, the process's identity.
    pub started: u64,
    /// Where it was when it was found.
    pub directory: PathBuf,
    places: Vec<(&'static str, PathBuf)>,
}

impl RunningAgent {
    /// The agent in the foreground of the terminal that `pane_pid` was started in; `None` where there is
    /// none, its process is another user's, or this is no Linux.
    pub fn find(pane_pid: u32) -> Option<Self> {
        let mut queue = VecDeque::from([stat(pane_pid)?]);
        let mut looked_at = 0;
        while let Some(process) = queue.pop_front() {
            looked_at += 1;
            if looked_at > PROCESSES_MAX {
                return None;
            }
            if is_in_foreground(&process)
                && let Some(program) = program(process.pid)
            {
                return Some(Self::of(program, &process));
            }
            queue.extend(children(process.pid));
        }
        None
    }

    /// Whether the process is still there, and has its terminal to itself.
    pub fn is_in_front(&self) -> bool {
        let stat = stat(self.pid).filter(|stat| stat.started == self.started && !stat.is_zombie);
        stat.is_some_and(|stat| is_in_foreground(&stat))
    }

    /// How long ago it started.
    pub fn age(&self) -> Duration {
        stat(self.pid).map_or(Duration::ZERO, |stat| age(&stat))
    }

    /// What a variable of its environment names, where it names a place.
    pub fn place(&self, variable: &str) -> Option<&Path> {
        let mut places = self.places.iter();
        places
            .find(|(name, _)| *name == variable)
            .map(|(_, path)| path.as_path())
    }

    /// Its home directory.
    pub fn home(&self) -> Option<&Path> {
        self.place("HOME")
    }

    /// Its process, and those of the same agent below it: a launcher starts the agent as its child, and
    /// that one may be a launcher, too.
    pub fn processes(&self) -> Vec<u32> {
        let (mut pids, mut at) = (vec![self.pid], 0);
        while at < pids.len() && pids.len() < PROCESSES_MAX {
            let children = children(pids[at]).into_iter().map(|child| child.pid);
            pids.extend(children.filter(|child| program(*child).as_ref() == Some(&self.program)));
            at += 1;
        }
        pids
    }

    fn of(program: AgentProgram, process: &Stat) -> Self {
        Self {
            pid: process.pid,
            started: process.started,
            directory: directory(process.pid).unwrap_or_default().into(),
            places: places(&environment(process.pid)),
            program,
        }
    }
}

fn program(pid: u32) -> Option<AgentProgram> {
    let executable = fs::read_link(format!("/proc/{pid}/exe")).ok();
    AgentProgram::recognise(executable.as_deref(), &arguments(pid))
}

/// Whether a process has its terminal to itself: an agent that was suspended, or serves another one,
/// shows nothing.
fn is_in_foreground(process: &Stat) -> bool {
    process.foreground == Some(process.group)
}

fn environment(pid: u32) -> Vec<u8> {
    let mut bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    bytes.truncate(ENVIRONMENT_BYTES_MAX);
    bytes
}

fn places(environment: &[u8]) -> Vec<(&'static str, PathBuf)> {
    let variables = environment.split(|byte| *byte == 0);
    let named = variables.filter_map(|variable| {
        let at = memchr::memchr(b'=', variable)?;
        let name = PLACES
            .iter()
            .find(|name| name.as_bytes() == &variable[..at])?;
        let path = Path::new(std::str::from_utf8(&variable[at + 1..]).ok()?);
        path.is_absolute().then(|| (*name, path.to_owned()))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_environment_only_places_are_kept() {
        let environment = b"ANTHROPIC_API_KEY=secret\0HOME=/home/a\0CLAUDE_CONFIG_DIR=relative\0X\0CODEX_HOME=/c\0";
        assert_eq!(
            places(environment),
            [
                ("HOME", PathBuf::from("/home/a")),
                ("CODEX_HOME", PathBuf::from("/c"))
            ]
        );
        assert_eq!(places(b""), []);
    }

    #[test]
    fn this_process_is_no_agent() {
        assert_eq!(RunningAgent::find(std::process::id()), None);
        assert_eq!(RunningAgent::find(u32::MAX), None);
    }
}
