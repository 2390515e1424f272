//! What the kernel knows: a tmux server's counters, a pane's foreground program, panes that show themselves.
//!
//! Only Linux has them; see proc_pid_io(5), and "scheduler statistics" in the kernel's documentation. The
//! files stay open, because the counters of an idle server are read many times per second.

use std::collections::HashSet;
use std::fs;
use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::child::stat;
use crate::event::PaneId;

/// The CPU time of a process in nanoseconds, and the number of times that it was scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CpuTime {
    nanos: u64,
    slices: u64,
}

impl CpuTime {
    /// Returns the CPU time since an earlier reading.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.nanos.saturating_sub(earlier.nanos))
    }

    #[cfg(test)]
    pub fn of(nanos: u64, slices: u64) -> Self {
        Self { nanos, slices }
    }
}

/// The counters of one process. They are `None` once it has ended, even if another process then has its id.
#[derive(Debug, Default)]
pub(super) struct Counters {
    io: Option<File>,
    schedstat: Option<File>,
    stat: Option<File>,
}

impl Counters {
    pub fn of(pid: u32) -> Self {
        let open = |name| File::open(format!("/proc/{pid}/{name}")).ok();
        Self {
            io: open("io"),
            schedstat: open("schedstat"),
            stat: open("stat"),
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

    /// Returns true if the process runs or waits for a processor, so that its CPU time will grow.
    pub fn is_running(&self) -> bool {
        let state = |file| {
            read(file, |text| {
                Some(text.rsplit_once(") ")?.1.starts_with('R'))
            })
        };
        self.stat.as_ref().and_then(state).unwrap_or(false)
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

/// Returns the directory of the program in the foreground of the terminal of a pane's first process, else that
/// process's own. `None` if it is unknown.
pub(crate) fn foreground_directory(pid: u32) -> Option<PathBuf> {
    let directory = |pid: u32| fs::read_link(format!("/proc/{pid}/cwd")).ok();
    let foreground = stat(pid)?.foreground.and_then(directory);
    foreground.or_else(|| directory(pid))
}

/// Returns the socket of the tmux server and the pane that this process has the foreground of, if it was started there
/// as a job of its own. A pane is not its agent's tool's, nor that of what runs in the background, in a script, or in a
/// terminal within the pane.
pub(crate) fn pane_in_front() -> Option<(String, String)> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (server, pane) = (variable("TMUX")?, variable("TMUX_PANE")?);
    // `socket,pid,session`; the path of the socket may contain commas.
    let mut parts = server.rsplitn(3, ',').skip(1);
    let (server_pid, socket) = (parts.next()?.parse::<u32>().ok()?, parts.next()?);
    let own = stat(std::process::id())?;
    let leads = own.group == own.pid && own.foreground == Some(own.pid);
    let mut first = stat(own.pid).filter(|_| leads)?;
    while first.parent != server_pid {
        first = stat(first.parent)?;
    }
    (first.terminal == own.terminal).then(|| (socket.to_owned(), pane))
}

/// The name of this program, by which the kernel names observers and drains.
pub(crate) const PROGRAM: &str = "td-observe";

/// Finds the panes that would show themselves: `td-observe` is in the foreground of the pane's terminal, perhaps
/// behind a pipe or a wrapper, and prints events or the board as they change. A client that waits, or any in the
/// background, shows nothing of its pane. `None` if the system does not list processes (all but Linux).
pub(crate) fn self_showing(panes: impl Iterator<Item = (PaneId, u32)>) -> Option<HashSet<PaneId>> {
    let names = fs::read_dir("/proc")
        .ok()?
        .flatten()
        .map(|entry| entry.file_name());
    let pids = names.filter_map(|name| name.to_str()?.parse().ok());
    let mut terminals = Vec::new();
    for pid in pids.filter(|pid| is_face(*pid)) {
        terminals.extend(terminals_behind(pid));
    }
    if terminals.is_empty() {
        return Some(HashSet::new());
    }
    let is_shown = |pid: u32| stat(pid).is_some_and(|stat| terminals.contains(&stat.terminal));
    let shown = panes.filter(|(_, pid)| is_shown(*pid));
    Some(shown.map(|(pane, _)| pane).collect())
}

/// Returns true for a `td-observe` whose output goes on while something is observed.
fn is_face(pid: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    if !name.is_ok_and(|name| name.trim_end() == PROGRAM) {
        return false;
    }
    let arguments = fs::read(format!("/proc/{pid}/cmdline"));
    if !arguments.is_ok_and(|arguments| is_face_by(&arguments)) {
        return false;
    }
    // Output that a file or another program takes does not reach the terminal; a pipe may lead there. That of
    // another user's process is unknown.
    let output = format!("/proc/{pid}/fd/1");
    let is_null = fs::read_link(&output).is_ok_and(|path| path == Path::new("/dev/null"));
    let kind = fs::metadata(&output).map(|output| output.file_type());
    !is_null && !kind.is_ok_and(|kind| kind.is_file() || kind.is_socket())
}

/// Returns true if these arguments, each ended by a zero byte, show events or the board as they change.
fn is_face_by(arguments: &[u8]) -> bool {
    let arguments = arguments.strip_suffix(b"\0").unwrap_or(arguments);
    let mut words = arguments.split(|&byte| byte == 0).skip(1);
    while let Some(word) = words.next() {
        match word {
            // The options before a subcommand that have a value.
            b"-L" | b"-S" | b"--data-dir" | b"--color" => drop(words.next()),
            b"watch" | b"tui" => return true,
            b"status" => return words.any(|word| word == b"--watch"),
            b"log" => {
                return words.any(|word| word == b"--follow" || matches!(word, [b'-', b'f', ..]));
            }
            _ if word.starts_with(b"-") => {}
            _ => return false,
        }
    }
    // Without a subcommand, the terminal UI.
    true
}

/// Returns the terminals in whose foreground a process is: its own, and those of ancestors such as `script`, which
/// run it in a terminal that they show.
pub(crate) fn terminals_behind(pid: u32) -> Vec<i32> {
    let mut terminals = Vec::new();
    let mut next = stat(pid);
    while let Some(process) = next.filter(|process| process.terminal != 0) {
        if !terminals.contains(&process.terminal) {
            if process.foreground != Some(process.group) {
                break;
            }
            terminals.push(process.terminal);
        }
        next = stat(process.parent);
    }
    terminals
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
    fn a_process_runs_or_sleeps() {
        let start = |script: &str| {
            let mut command = std::process::Command::new("sh");
            command
                .args(["-c", script])
                .stdin(std::process::Stdio::piped());
            command.spawn().unwrap()
        };
        let [mut busy, mut asleep] = [start("while :; do :; done"), start("read line")];
        let is_running = |child: &std::process::Child| Counters::of(child.id()).is_running();
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while !is_running(&busy) || is_running(&asleep) {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
        for child in [&mut busy, &mut asleep] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(!is_running(&busy), "it has ended");
    }

    #[test]
    fn only_what_goes_on_printing_is_a_face() {
        let is_face = |line: &str| is_face_by(format!("{}\0", line.replace(' ', "\0")).as_bytes());
        for line in [
            "td-observe",
            "td-observe -v",
            "td-observe -L status watch work",
            "td-observe --data-dir /x --json watch",
            "td-observe tui",
            "td-observe status --watch",
            "td-observe log work -f",
        ] {
            assert!(is_face(line), "{line}");
        }
        for line in [
            "td-observe start",
            "td-observe -S watch wait work --exit",
            "td-observe status work",
            "td-observe log --for",
            "td-observe run watch date",
            "td-observe drain a b",
        ] {
            assert!(!is_face(line), "{line}");
        }
    }
}
