//! What the kernel counts of a tmux server: the bytes that it has read, and how long it has run.
//!
//! Only Linux tells; see proc_pid_io(5), and "scheduler statistics" in the kernel's documentation.
//! The files stay open, because they are read many times a second for as long as a server rests.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// A file of the kernel, which has some 150 bytes.
const FILE_BYTES_MAX: usize = 512;

/// How long a process has run in its life, in nanoseconds, and how often it was given a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    time: u64,
    turns: u64,
}

#[cfg(test)]
impl Run {
    pub fn of(time: u64, turns: u64) -> Self {
        Self { time, turns }
    }
}

/// The counters of one process. Of one that has ended they are `None`, also when its number is
/// another one's by then.
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

    /// How many bytes it has read. Of a tmux server these are, but for the names of programs, the
    /// bytes that its panes wrote. The kernel tells that of one's own processes only.
    pub fn bytes(&self) -> Option<u64> {
        read(self.io.as_ref()?, |text| {
            let read = text.lines().find_map(|line| line.strip_prefix("rchar: "));
            read?.parse().ok()
        })
    }

    /// How long it has run.
    pub fn run(&self) -> Option<Run> {
        read(self.schedstat.as_ref()?, parse_run)
    }
}

/// How many bytes a process has read in its life; see [`Counters::bytes`].
pub(crate) fn bytes_read_by(pid: u32) -> Option<u64> {
    Counters::of(pid).bytes()
}

fn read<T>(file: &File, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
    let mut text = [0; FILE_BYTES_MAX];
    let end = file.read_at(&mut text, 0).ok()?;
    parse(std::str::from_utf8(&text[..end]).ok()?)
}

/// Time on a processor, time waiting for one, and turns; all 0 where the kernel does not count.
fn parse_run(schedstat: &str) -> Option<Run> {
    let mut fields = schedstat.split_ascii_whitespace();
    let run = Run {
        time: fields.next()?.parse().ok()?,
        turns: fields.nth(1)?.parse().ok()?,
    };
    (run.turns > 0).then_some(run)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_does_something_is_told_from_one_that_waits() {
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
        let mut says = |byte: u8| {
            to.write_all(&[byte]).unwrap();
            let mut said = [0];
            from.read_exact(&mut said).unwrap();
        };
        says(b'a');
        let (bytes, run) = (counters.bytes().unwrap(), counters.run().unwrap());
        says(b'b');
        assert_eq!(counters.bytes(), Some(bytes + 1));
        assert_ne!(counters.run(), Some(run));
        drop(to);
        cat.wait().unwrap();
        assert_eq!((counters.bytes(), counters.run()), (None, None), "gone");
        assert_eq!(bytes_read_by(cat.id()), None);
    }

    #[test]
    fn a_kernel_that_does_not_count_tells_nothing() {
        let run = |time, turns| Some(Run { time, turns });
        assert_eq!(parse_run("1200 34 5\n"), run(1200, 5));
        assert_eq!(parse_run("0 0 0\n"), None);
        assert_eq!(parse_run("12"), None);
        assert_eq!(parse_run(""), None);
    }
}
