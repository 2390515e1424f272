//! The operating system's view of processes that other programs started: the foreground of a terminal, and
//! how a process ended.

mod epoll;
mod pidfd;
mod procfs;

mod exits;
mod terminals;

pub(crate) use crate::child::{Stat, stat};
pub(crate) use exits::{ExitWatch, ProcessWatcher, WatchedProcess};
pub(crate) use procfs::{age, arguments, children, directory, standard_output};
pub(crate) use terminals::TerminalWatch;
