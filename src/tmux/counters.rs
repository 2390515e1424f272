//! The kernel's counters for a tmux server: the bytes that it has read, and its CPU time.
//!
//! Only Linux has them; see proc_pid_io(5), and "scheduler statistics" in the kernel's documentation. The
//! files stay open, because the counters of an idle server are read many times per second.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The size of the buffer for one of these files, which have about 150 bytes.
const FILE_BYTES_MAX: usize = 512;

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
    let mut text = [0; FILE_BYTES_MAX];
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
}
