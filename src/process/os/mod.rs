//! Queries of the operating system about processes of other programs: the foreground of a terminal, and the
//! exit of a process.

mod pidfd;
mod procfs;

mod exits;
mod terminals;

pub(crate) use crate::child::{Stat, stat};
pub(crate) use exits::{ExitWatch, ProcessWatcher, WatchedProcess};
#[cfg(feature = "cli")]
pub(crate) use procfs::ancestors;
#[cfg(feature = "mcp")]
pub(crate) use procfs::variable;
pub(crate) use procfs::{age, arguments, children, directory, name, standard_output};
pub(crate) use terminals::TerminalWatch;
