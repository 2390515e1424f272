//! What the kernel knows: a tmux server's counters, a pane's foreground program, the panes of observers.
//!
//! Only Linux has them; see proc_pid_io(5), and "scheduler statistics" in the kernel's documentation. The
//! files stay open, because the counters of an idle server are read many times per second.

use std::collections::HashSet;
use std::fs;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use crate::child::stat;
use crate::event::PaneId;

/// The CPU time of a process in nanoseconds, and the number of times that it was scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuTime {
    nanos: u64,
    slices: u64,
}

#[cfg(test)]
impl CpuTime {
    pub fn of(nanos: u64, slices: u64) -> Self {
        Self { nanos, slices }
    }
}

/// The counters of one process. They are `None` once it has ended, even if another process then has its id.
#[derive(Debug, Default)]
pub(super) struct Counters {
    io: Option<File>,
    schedstat: Option<File>,
}

impl Counters {
    pub fn of(pid: u32) -> Self {
        let open = |name| File::open(format!("/proc/{pid}/{name}")).ok();
        Self {
            io: open("io"),
            schedstat: open("schedstat"),
        }
    }

    /// Returns the number of bytes that the process has read. For a tmux server, these are the bytes that its
    /// panes wrote and the names of programs. The kernel reveals the number only for the user's own
    /// processes.
    pub fn bytes(&self) -> Option<u64> {
        read(self.io.as_ref()?, |text| {
            let read = text.lines().find_map(|line| line.strip_prefix("rchar: "));
            read?.parse().ok()
        })
    }

    /// Returns the CPU time of the process.
    pub fn cpu_time(&self) -> Option<CpuTime> {
        read(self.schedstat.as_ref()?, parse_schedstat)
    }
}

/// Returns the number of bytes that a process has read; see [`Counters::bytes`].
pub(crate) fn bytes_read_by(pid: u32) -> Option<u64> {
    Counters::of(pid).bytes()
}

fn read<T>(file: &File, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    // These files have about 150 bytes.
    let mut text = [0; 512];
    let end = file.read_at(&mut text, 0).ok()?;
    parse(std::str::from_utf8(&text[..end]).ok()?)
}

/// Parses CPU time, waiting time and number of time slices, which are all 0 if the kernel does not count.
fn parse_schedstat(schedstat: &str) -> Option<CpuTime> {
    let mut fields = schedstat.split_ascii_whitespace();
    let cpu_time = CpuTime {
        nanos: fields.next()?.parse().ok()?,
        slices: fields.nth(1)?.parse().ok()?,
    };
    (cpu_time.slices > 0).then_some(cpu_time)
}

/// Returns the kernel's name (at most 15 bytes) of the program in the foreground of the terminal of a pane's
/// first process. `None` if it is unknown: the process has ended or belongs to another user, or the system is
/// not Linux.
pub(crate) fn foreground_program(pid: u32) -> Option<String> {
    let group = stat(pid)?.foreground?;
    let name = fs::read(format!("/proc/{group}/comm")).ok()?;
    let name = String::from_utf8_lossy(&name);
    Some(name.trim_end_matches('\n').to_owned())
}

/// The name of this program, by which the kernel names observers and drains.
pub(crate) const PROGRAM: &str = "td-observe";

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
        if name.is_ok_and(|name| name.trim_end() == PROGRAM)
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
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_runs_differs_from_one_that_waits() {
        if !cfg!(target_os = "linux") {
            return;
        }
        let mut cat = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut to, mut from) = (cat.stdin.take().unwrap(), cat.stdout.take().unwrap());
        let counters = Counters::of(cat.id());
        let mut echo = |byte: u8| {
            to.write_all(&[byte]).unwrap();
            let mut echoed = [0];
            from.read_exact(&mut echoed).unwrap();
        };
        echo(b'a');
        let (bytes, cpu_time) = (counters.bytes().unwrap(), counters.cpu_time().unwrap());
        echo(b'b');
        assert_eq!(counters.bytes(), Some(bytes + 1));
        assert_ne!(counters.cpu_time(), Some(cpu_time));
        drop(to);
        cat.wait().unwrap();
        assert_eq!(
            (counters.bytes(), counters.cpu_time()),
            (None, None),
            "gone"
        );
        assert_eq!(bytes_read_by(cat.id()), None);
    }

    #[test]
    fn a_kernel_that_does_not_count_has_no_cpu_time() {
        let cpu_time = |nanos, slices| Some(CpuTime { nanos, slices });
        assert_eq!(parse_schedstat("1200 34 5\n"), cpu_time(1200, 5));
        assert_eq!(parse_schedstat("0 0 0\n"), None);
        assert_eq!(parse_schedstat("12"), None);
        assert_eq!(parse_schedstat(""), None);
    }

    #[test]
    fn the_environment_names_the_pane() {
        let environment = b"A=1\0TMUX=/tmp/a,b/default,42,0\0TMUX_PANE=%7\0";
        assert_eq!(pane_of(environment, 42), Some("%7".into()));
        assert_eq!(pane_of(environment, 43), None);
        assert_eq!(pane_of(b"TMUX_PANE=%7\0", 42), None);
        assert_eq!(pane_of(b"TMUX=,42,0\0TMUX_PANE=7\0", 42), None);
    }
}
