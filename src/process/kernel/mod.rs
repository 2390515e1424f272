//! What the kernel tells of processes that others started: what runs in the foreground, how it ended.

mod exits;
mod pidfd;
mod procfs;
mod ready;
mod terminals;

pub(crate) use exits::{ExitWatch, ProcessWatcher, WatchedProcess};
pub(crate) use procfs::{Stat, age, arguments, children, directory, standard_output, stat};
pub(crate) use terminals::TerminalWatch;
