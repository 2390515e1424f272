//! Finds the coding agent in a terminal: searches from the program of a pane down to its children.
//!
//! A wrapper (a shell, `npx`, `script`) may come first. For an agent, the search reads its start time, its
//! directory and the environment variables that locate its files. It discards the rest of the environment.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::foreground::Front;
use super::os::{Stat, age, arguments, children, directory, stat};
use super::shell::is_shell;
use crate::agent::{AgentProgram, ShownSessions, program_name};

/// The most processes of a pane that are searched: a build below a shell may have thousands.
const PROCESSES_MAX: usize = 64;

/// The most open files of an agent that are searched: its limit is usually 1,024.
const FILES_MAX: usize = 4_096;

/// The variables that locate the files of agents.
const DIRECTORY_VARIABLES: &[&str] = &[
    "HOME",
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "GEMINI_CLI_HOME",
    "QWEN_RUNTIME_DIR",
    "COPILOT_HOME",
    "KIMI_SHARE_DIR",
    "VIBE_HOME",
    "CLINE_DATA_DIR",
    "CONTINUE_GLOBAL_DIR",
];

/// The relation of an agent to its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It runs in the foreground.
    Foreground,
    /// It is stopped, or its shell reads commands while it lives.
    Suspended,
    /// It lives, and another program is in the foreground.
    Hidden,
    /// Its process has ended.
    Gone,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunningAgent {
    pub program: AgentProgram,
    /// The sessions that it shows; `None` if it has one of its own.
    pub shows: Option<ShownSessions>,
    pub pid: u32,
    /// The start time in clock ticks since boot. Together with the pid it identifies the process.
    pub started: u64,
    /// The working directory at the time of the search.
    pub directory: PathBuf,
    directories: Vec<(&'static str, PathBuf)>,
}

impl RunningAgent {
    /// Finds the agent in the foreground of the terminal of `pane_pid`, else one that is stopped. Returns `None`
    /// without an agent, for a process of another user, and on other systems than Linux.
    pub fn find(pane_pid: u32) -> Option<Self> {
        let mut queue = VecDeque::from([stat(pane_pid)?]);
        let (mut searched, mut suspended) = (0, None);
        while let Some(process) = queue.pop_front() {
            searched += 1;
            if searched > PROCESSES_MAX {
                break;
            }
            let is_visible = is_in_foreground(&process);
            if (is_visible || process.is_stopped && suspended.is_none())
                && let Some(program) = program(process.pid)
            {
                let agent = Self::of(program, &process);
                if is_visible {
                    return Some(agent);
                }
                suspended = Some(agent);
            }
            queue.extend(children(process.pid));
        }
        suspended
    }

    /// Returns what runs in the foreground of the terminal of `pane_pid` as this agent, whose files are not known:
    /// it may be a wrapper, or the way to another host. Returns `None` at the prompt of a shell.
    pub fn in_front(pane_pid: u32, program: AgentProgram) -> Option<Self> {
        let front = Front::of(pane_pid).filter(|front| !front.is_shell)?;
        let process = stat(front.group)?;
        Some(Self {
            program,
            pid: process.pid,
            started: process.started,
            directory: PathBuf::new(),
            directories: Vec::new(),
            shows: None,
        })
    }

    /// Returns the agent that this process is; `None` if the process has ended.
    #[cfg(feature = "cli")]
    pub fn at(pid: u32, program: AgentProgram) -> Option<Self> {
        let process = stat(pid).filter(|stat| !stat.is_zombie)?;
        Some(Self::of(program, &process))
    }

    /// Returns the agent's relation to the terminal of `pane_pid`.
    pub fn presence(&self, pane_pid: u32) -> Presence {
        let stat = stat(self.pid).filter(|stat| stat.started == self.started && !stat.is_zombie);
        match stat {
            None => Presence::Gone,
            Some(stat) if stat.is_stopped => Presence::Suspended,
            Some(stat) if is_in_foreground(&stat) => Presence::Foreground,
            Some(_) if Front::of(pane_pid).is_some_and(|front| front.is_shell) => {
                Presence::Suspended
            }
            Some(_) => Presence::Hidden,
        }
    }

    /// Returns the time since its start.
    pub fn age(&self) -> Duration {
        stat(self.pid).map_or(Duration::ZERO, |stat| age(&stat))
    }

    /// Returns the absolute path in a variable of its environment.
    pub fn variable_path(&self, variable: &str) -> Option<&Path> {
        let mut directories = self.directories.iter();
        directories
            .find(|(name, _)| *name == variable)
            .map(|(_, path)| path.as_path())
    }

    pub fn home(&self) -> Option<&Path> {
        self.variable_path("HOME")
    }

    /// Returns the process and its descendants that are the same agent, because a launcher starts the agent
    /// as its child, possibly through another launcher.
    pub fn processes(&self) -> Vec<u32> {
        let (mut pids, mut at) = (vec![self.pid], 0);
        while at < pids.len() && pids.len() < PROCESSES_MAX {
            let children = children(pids[at]).into_iter().map(|child| child.pid);
            pids.extend(children.filter(|child| program(*child).as_ref() == Some(&self.program)));
            at += 1;
        }
        pids
    }

    /// Returns the files that its processes have open.
    pub fn open_files(&self) -> Vec<PathBuf> {
        let of = |pid| {
            fs::read_dir(format!("/proc/{pid}/fd"))
                .into_iter()
                .flatten()
        };
        let open = self.processes().into_iter().flat_map(of).flatten();
        open.take(FILES_MAX)
            .filter_map(|file| fs::read_link(file.path()).ok())
            .collect()
    }

    fn of(program: AgentProgram, process: &Stat) -> Self {
        Self {
            shows: program.shown_sessions(&arguments(process.pid)),
            pid: process.pid,
            started: process.started,
            directory: directory(process.pid).unwrap_or_default().into(),
            directories: directories(
                &fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default(),
            ),
            program,
        }
    }
}

fn program(pid: u32) -> Option<AgentProgram> {
    let executable = fs::read_link(format!("/proc/{pid}/exe")).ok();
    let arguments = arguments(pid);
    let (first, rest) = arguments.split_first()?;
    if is_shell(program_name(first)) {
        // A script with the name of an agent that keeps files only starts that one, perhaps with other directories.
        let script = AgentProgram::recognise(None, rest);
        return script.filter(|program| program.known().is_none());
    }
    AgentProgram::recognise(executable.as_deref(), &arguments)
}

/// Returns true for a process in the foreground of its terminal. A suspended agent, or one that serves
/// another agent, is not visible there.
fn is_in_foreground(process: &Stat) -> bool {
    process.foreground == Some(process.group)
}

fn directories(environment: &[u8]) -> Vec<(&'static str, PathBuf)> {
    let variables = environment.split(|byte| *byte == 0);
    let named = variables.filter_map(|variable| {
        let at = memchr::memchr(b'=', variable)?;
        let name = DIRECTORY_VARIABLES
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
    fn only_absolute_directories_of_the_environment_are_kept() {
        let environment = b"ANTHROPIC_API_KEY=secret\0HOME=/home/a\0CLAUDE_CONFIG_DIR=relative\0X\0CODEX_HOME=/c\0";
        assert_eq!(
            directories(environment),
            [
                ("HOME", PathBuf::from("/home/a")),
                ("CODEX_HOME", PathBuf::from("/c"))
            ]
        );
        assert_eq!(directories(b""), []);
    }

    #[test]
    fn this_process_is_not_an_agent() {
        assert_eq!(RunningAgent::find(std::process::id()), None);
        assert_eq!(RunningAgent::find(u32::MAX), None);
    }
}
