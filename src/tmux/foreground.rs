//! The program in the foreground of a pane, read from the kernel. tmux would read the same files, but the
//! number of bytes that its server reads must measure the panes' output only.

use std::fs;

use crate::child::stat;

/// Returns the kernel's name (at most 15 bytes) of the program in the foreground of the terminal of a pane's
/// first process. `None` if it is unknown: the process has ended or belongs to another user, or the system is
/// not Linux.
pub(crate) fn foreground_program(pid: u32) -> Option<String> {
    let group = stat(pid)?.foreground?;
    let name = fs::read(format!("/proc/{group}/comm")).ok()?;
    let name = String::from_utf8_lossy(&name);
    Some(name.trim_end_matches('\n').to_owned())
}
