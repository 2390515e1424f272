//! The operating system's view of processes that other programs started: the foreground of a terminal, and
//! how a process ended.

mod epoll;
mod pidfd;
mod procfs;

mod exits;
mod terminals;

pub(crate) use exits::{ExitWatch, ProcessWatcher, WatchedProcess};
pub(crate) use procfs::{Stat, age, arguments, children, directory, standard_output, stat};
pub(crate) use terminals::TerminalWatch;
