//! Finds panes that run an observer. Two observers that show each other would never stop printing.

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use crate::event::PaneId;

/// The kernel's name of an observer process.
const OBSERVER: &str = "td-observe";

/// Finds the panes of a server in which an observer runs, even behind a shell, a pipe or a wrapper, where the
/// foreground program has another name. The environment of each process names the pane in which it was
/// started. `None` if the system does not list processes (all but Linux). Processes of other users are
/// skipped.
pub(crate) fn observer_panes(server_pid: u32) -> Option<HashSet<PaneId>> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let numbered =
        processes.filter(|entry| entry.file_name().as_bytes().iter().all(u8::is_ascii_digit));
    let mut panes = HashSet::new();
    for process in numbered {
        let name = fs::read_to_string(process.path().join("comm"));
        if name.is_ok_and(|name| name.trim_end() == OBSERVER)
            && let Ok(environment) = fs::read(process.path().join("environ"))
        {
            panes.extend(pane_of(&environment, server_pid));
        }
    }
    Some(panes)
}

/// Returns the pane that an environment names, if it belongs to the server.
fn pane_of(environment: &[u8], server_pid: u32) -> Option<PaneId> {
    let value = |name: &str| {
        let mut variables = environment.split(|&byte| byte == 0);
        let found = variables
            .find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        std::str::from_utf8(found?).ok()
    };
    // `socket,pid,session`; the path of the socket may contain commas.
    let mut fields = value("TMUX")?.rsplit(',').skip(1);
    let of_server = fields.next()?.parse() == Ok(server_pid);
    let pane = value("TMUX_PANE").filter(|pane| pane.starts_with('%'))?;
    of_server.then(|| pane.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_pane() {
        let environment = b"A=1\0TMUX=/tmp/a,b/default,42,0\0TMUX_PANE=%7\0";
        assert_eq!(pane_of(environment, 42), Some("%7".into()));
        assert_eq!(pane_of(environment, 43), None);
        assert_eq!(pane_of(b"TMUX_PANE=%7\0", 42), None);
        assert_eq!(pane_of(b"TMUX=,42,0\0TMUX_PANE=7\0", 42), None);
    }
}
