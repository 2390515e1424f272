//! The foreground process group of a terminal, found from the program that the terminal was opened for.

use std::time::Instant;

use super::os::{Stat, age, arguments, children, name, standard_output, stat};
use super::pane_jobs::ForegroundGroup;
use super::shell::{is_interactive_shell, is_shell, subshell_name};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Program {
    /// The command line as it would be typed.
    pub command: String,
    /// True for a shell that reads typed input.
    pub is_interactive: bool,
}

impl Program {
    /// Returns the program of a process; `None` if it has ended.
    pub fn of(pid: u32) -> Option<Self> {
        let arguments = arguments(pid);
        (!arguments.is_empty()).then(|| Self {
            command: joined(&arguments),
            is_interactive: is_interactive_shell(&arguments),
        })
    }

    /// Returns the program of a job's process, which may be a fork of the shell itself.
    pub fn of_job(pid: u32) -> Option<Self> {
        let arguments = arguments(pid);
        let own = stat(pid)?;
        let is_fork_of_shell = own.arguments != 0
            && stat(own.parent).is_some_and(|parent| parent.arguments == own.arguments);
        if is_fork_of_shell {
            Some(Self {
                command: subshell_name(&arguments),
                is_interactive: false,
            })
        } else {
            Self::of(pid)
        }
    }
}

/// The process group in the foreground of a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Front {
    pub group: u32,
    /// The kernel's name (at most 15 bytes) of the program that leads the group.
    pub name: String,
    /// True for a shell that reads typed input: nothing that it has run is in the foreground.
    pub is_shell: bool,
    /// The groups of the jobs of such a shell that are stopped. What `td-observe` itself runs there is left out: it has a
    /// row of its own, which says so.
    pub stopped: Vec<u32>,
    /// True for a client of a tmux server, perhaps of one that is not observed, or for a script that runs one.
    pub is_tmux_client: bool,
    /// The kernel's number of the terminal.
    pub terminal: i32,
    /// The name of the session that is shown there instead, by a client of an observed tmux server.
    pub view: Option<String>,
}

impl Front {
    /// Returns the foreground of the terminal of a pane's first process. `None` if it is unknown: the process or
    /// the program in the foreground has ended or belongs to another user, or the system is not Linux.
    pub fn of(pid: u32) -> Option<Self> {
        let own = stat(pid)?;
        let group = own.foreground?;
        if stat(group)?.is_zombie {
            return None;
        }
        let name = name(group)?;
        let is_reader = is_interactive_shell(&arguments(group));
        let jobs = if is_reader {
            children(group)
        } else {
            Vec::new()
        };
        let is_own = |job: &Stat| self::name(job.pid).as_deref() == Some(env!("CARGO_PKG_NAME"));
        let stopped = jobs
            .into_iter()
            .filter(|job| job.is_stopped && !is_own(job));
        let is_tmux_client = is_tmux(&name) || is_shell(&name) && !is_reader && runs_tmux(group);
        Some(Self {
            group,
            name,
            is_shell: is_reader,
            stopped: stopped.map(|job| job.group).collect(),
            is_tmux_client,
            terminal: own.terminal,
            view: None,
        })
    }
}

fn is_tmux(name: &str) -> bool {
    // A client has the second name once it has connected.
    matches!(name, "tmux" | "tmux: client")
}

/// Returns true if the process that leads a group is a script that runs a tmux client.
fn runs_tmux(group: u32) -> bool {
    let children = children(group).into_iter();
    let mut members = children.filter(|child| child.group == group);
    members.any(|member| name(member.pid).is_some_and(|name| is_tmux(&name)))
}

fn joined(arguments: &[String]) -> String {
    let words = arguments.iter().map(String::as_str);
    // Only a word with a NUL cannot be quoted, and arguments have none.
    shlex::try_join(words).unwrap_or_else(|_| arguments.join(" "))
}

/// Returns the foreground of a program's terminal.
pub(crate) fn foreground(program: &Stat, now: Instant) -> ForegroundGroup {
    match program.foreground {
        Some(group) if group == program.group => ForegroundGroup::Shell,
        Some(group) => find_group(program, group, now, 0).unwrap_or(ForegroundGroup::Unknown),
        None => ForegroundGroup::Unknown,
    }
}

/// Finds a group among the children of a shell and of its inner shells.
fn find_group(shell: &Stat, group: u32, now: Instant, depth: usize) -> Option<ForegroundGroup> {
    let children = children(shell.pid);
    let members: Vec<&Stat> = children
        .iter()
        .filter(|child| child.group == group)
        .collect();
    if let (Some(first), Some(last)) = (members.first(), members.last()) {
        return Some(ForegroundGroup::Group {
            group,
            since: now.checked_sub(age(first)).unwrap_or(now),
            is_whole: is_last_of_pipeline(last),
            members: members.iter().map(|member| member.pid).collect(),
        });
    }
    // Shells within shells.
    if depth == 8 {
        return None;
    }
    let mut inner = children.iter().filter(|child| {
        let is_wrapped = child.group == shell.group;
        child.session == shell.session
            && (is_wrapped || is_interactive_shell(&arguments(child.pid)))
    });
    inner.find_map(|shell| find_group(shell, group, now, depth + 1))
}

/// Returns true if a process appears to be the last of its pipeline: its output goes to no other process, or
/// to one of its own children.
fn is_last_of_pipeline(member: &Stat) -> bool {
    let Some(pipe) = standard_output(member.pid).filter(|file| file.starts_with("pipe:")) else {
        return true;
    };
    let reads = |child: &Stat| {
        std::fs::read_link(format!("/proc/{}/fd/0", child.pid))
            .is_ok_and(|file| file.to_string_lossy() == pipe)
    };
    children(member.pid).iter().any(reads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_quoted_as_it_would_be_typed() {
        let arguments = ["sh", "-c", "echo a b; exit 3"].map(String::from);
        assert_eq!(joined(&arguments), "sh -c 'echo a b; exit 3'");
        assert_eq!(joined(&["make".to_owned(), "-j".to_owned()]), "make -j");
    }

    #[test]
    fn a_process_is_identified_by_its_arguments() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let own = Program::of(std::process::id()).unwrap();
        assert!(!own.is_interactive && !own.command.is_empty());
        assert_eq!(Program::of(u32::MAX), None);
    }
}
