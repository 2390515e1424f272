//! What a terminal has in its foreground: the group of processes that a shell has put there, found from
//! the program that the terminal was opened for.

use std::time::Instant;

use super::jobs::ForegroundGroup;
use super::kernel::{Stat, age, arguments, children, standard_output, stat};
use super::shell::{is_interactive_shell, subshell_name};

/// So deep shells are looked for within shells.
const DEPTH_MAX: usize = 8;

/// What the kernel shows of a file that is a pipe.
const PIPE: &str = "pipe:";

/// A process, as people know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Program {
    /// What was called, as one would type it.
    pub command: String,
    /// It is a shell that reads what is typed.
    pub is_interactive: bool,
}

impl Program {
    /// What a process runs; `None` where it has ended.
    pub fn of(pid: u32) -> Option<Self> {
        let arguments = arguments(pid);
        (!arguments.is_empty()).then(|| Self {
            command: joined(&arguments),
            is_interactive: is_interactive_shell(&arguments),
        })
    }

    /// What a shell has started; a part of the shell itself where it runs no other program.
    pub fn of_job(pid: u32) -> Option<Self> {
        let arguments = arguments(pid);
        let own = stat(pid)?;
        let is_part_of_shell = own.arguments != 0
            && stat(own.parent).is_some_and(|parent| parent.arguments == own.arguments);
        match is_part_of_shell {
            true => Some(Self {
                command: subshell_name(&arguments),
                is_interactive: false,
            }),
            false => Self::of(pid),
        }
    }
}

fn joined(arguments: &[String]) -> String {
    let words = arguments.iter().map(String::as_str);
    // What cannot be quoted has a NUL in it, and arguments have none.
    shlex::try_join(words).unwrap_or_else(|_| arguments.join(" "))
}

/// What the terminal of a program has in its foreground.
pub(crate) fn foreground(program: &Stat, now: Instant) -> ForegroundGroup {
    match program.foreground {
        Some(group) if group == program.group => ForegroundGroup::Shell,
        Some(group) => of_shell(program, group, now, 0).unwrap_or(ForegroundGroup::Unknown),
        None => ForegroundGroup::Unknown,
    }
}

/// The group, if a shell has started it, or one within that shell has.
fn of_shell(shell: &Stat, group: u32, now: Instant, depth: usize) -> Option<ForegroundGroup> {
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
    if depth == DEPTH_MAX {
        return None;
    }
    let inner = children.iter().filter(|child| {
        let is_wrapped = child.group == shell.group;
        child.session == shell.session
            && (is_wrapped || is_interactive_shell(&arguments(child.pid)))
    });
    inner
        .filter_map(|shell| of_shell(shell, group, now, depth + 1))
        .next()
}

/// Whether nothing comes behind this process in its pipeline, as far as can be seen: what it prints goes
/// to no other process, or to one of its own.
fn is_last_of_pipeline(member: &Stat) -> bool {
    let Some(pipe) = standard_output(member.pid).filter(|file| file.starts_with(PIPE)) else {
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
    fn a_command_is_shown_as_it_would_be_typed() {
        let arguments = ["sh", "-c", "echo a b; exit 3"].map(String::from);
        assert_eq!(joined(&arguments), "sh -c 'echo a b; exit 3'");
        assert_eq!(joined(&["make".to_owned(), "-j".to_owned()]), "make -j");
    }

    #[test]
    fn a_process_is_known_by_its_arguments() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let own = Program::of(std::process::id()).unwrap();
        assert!(!own.is_interactive && !own.command.is_empty());
        assert_eq!(Program::of(u32::MAX), None);
    }
}
