//! The observers of a flood: the built program, `cat` and `tail`, or none.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use td_observe::history::{LogReader, Query, RunDirectory};

use super::flood::{Counted, END, until_end};
use crate::common::cpu::whole_ms;
use crate::common::drains::{pid_of, until_followed};
use crate::common::resources::{children_of, peak_kb};
use crate::common::support::{CEILING, TmuxServer, wait_for, within};
use crate::common::ways::pipe_to_files;

const PROGRAM: &str = env!("CARGO_BIN_EXE_td-observe");
/// The length of a log's tail to search: more than the text that follows the last line.
const TAIL_BYTES: u64 = 1 << 16;
/// The longest time until all printed lines have been read.
const READ_WITHIN: Duration = Duration::from_secs(120);
/// A log that has not grown for this time is complete.
const UNCHANGED: Duration = Duration::from_secs(1);

/// The kind of an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    Nobody,
    /// `td-observe watch --source stream`.
    Stream,
    /// `td-observe watch`.
    Poll,
    /// `pipe-pane 'cat >> file'` and `tail -F file > /dev/null`.
    Tail,
}

/// An observer of the panes of a server.
pub struct Observer {
    who: Who,
    child: Option<Child>,
    /// Its other processes.
    helpers: Vec<u32>,
    data: PathBuf,
    files: Vec<String>,
}

impl Observer {
    /// Starts to watch the panes of this many sessions; returns once all of them are watched.
    pub fn start(who: Who, server: &TmuxServer, sessions: usize) -> Self {
        let data = server.directory().join("data");
        let (mut child, mut helpers, mut files) = (None, Vec::new(), Vec::new());
        match who {
            Who::Nobody => {}
            Who::Tail => {
                let pid = pid_of(server);
                let before = children_of(pid);
                files = pipe_to_files(server);
                helpers = children_of(pid);
                helpers.retain(|pid| !before.contains(pid));
                let mut tail = Command::new("tail");
                tail.args(["-q", "-n", "+1", "-F"]).args(&files);
                child = Some(spawn(&mut tail));
            }
            Who::Stream | Who::Poll => {
                let mut command = Command::new(PROGRAM);
                command.args(["watch", "-q", "--source"]);
                command.arg(if who == Who::Stream { "stream" } else { "poll" });
                command.arg("-S").arg(server.socket());
                command.arg("--data-dir").arg(&data);
                command.env_remove("TMUX").env_remove("RUST_LOG");
                child = Some(spawn(&mut command));
                wait_for("the runs", CEILING, || {
                    let runs = fs::read_dir(data.join("runs")).map_or(0, Iterator::count);
                    if runs == sessions { Ok(()) } else { Err(runs) }
                });
                if who == Who::Stream {
                    helpers = until_followed(server, sessions);
                }
            }
        }
        Self {
            who,
            child,
            helpers,
            data,
            files,
        }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(self.child.as_ref().unwrap())
    }

    pub fn all(&self) -> Vec<u32> {
        let child = self.child.as_ref().map(Child::id);
        child.into_iter().chain(self.helpers.clone()).collect()
    }

    /// Returns the processor time of all of its processes, in ms.
    pub fn cpu_ms(&self) -> f64 {
        self.all().into_iter().map(whole_ms).sum()
    }

    /// Returns the peak memory of each process.
    pub fn peaks_kb(&self) -> Vec<u64> {
        self.all().into_iter().filter_map(peak_kb).collect()
    }

    /// Waits until the flood's last line is stored; returns false if it never is.
    pub fn until_end(&self) -> bool {
        let Some(tail) = &self.child else {
            return true;
        };
        let has_all = || match self.who {
            Who::Tail => {
                let file = &self.files[0];
                ends_with(file.as_ref(), END)
                    && has_read(tail.id(), fs::metadata(file).unwrap().len())
            }
            _ => ends_with(&self.run().events_path(), END),
        };
        until_end("what is kept of the flood", READ_WITHIN, has_all)
    }

    /// Waits until the log no longer grows.
    pub fn until_unchanged(&self) {
        let len = || fs::metadata(self.run().events_path()).map_or(0, |file| file.len());
        let mut last = None;
        while self.child.is_some() && last != Some(len()) {
            last = Some(len());
            thread::sleep(UNCHANGED);
        }
    }

    fn run(&self) -> RunDirectory {
        let mut runs = fs::read_dir(self.data.join("runs")).unwrap();
        RunDirectory::at(&runs.next().unwrap().unwrap().path()).unwrap()
    }

    /// Stops the observer cleanly, and counts the stored lines of a flood.
    pub fn stop_and_count(mut self) -> Counted {
        self.stop();
        let mut counted = Counted::default();
        match self.who {
            Who::Nobody => {}
            Who::Tail => {
                let kept = fs::read_to_string(&self.files[0]).unwrap();
                // The file begins with a line of ours.
                kept.lines().skip(1).for_each(|line| counted.line(line));
            }
            Who::Stream | Who::Poll => {
                let mut log = LogReader::open(&self.run(), Query::all()).unwrap();
                (&mut log).for_each(|record| counted.take(&record.envelope));
                let report = log.report();
                if report.invalid + report.torn > 0 || !report.problems.is_empty() {
                    eprintln!("FAILED: the log: {report:?}");
                    counted.wrong += 1;
                }
            }
        }
        counted
    }

    fn stop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        if self.who == Who::Tail {
            child.kill().unwrap();
            child.wait().unwrap();
            return;
        }
        // The process may have ended by itself, which is a failure, too.
        let _ = kill_process(Pid::from_child(&child), Signal::INT);
        let ended = within(CEILING, || child.try_wait().unwrap().ok_or(()));
        if !ended.is_ok_and(|status| status.success()) {
            eprintln!("FAILED: the observer ended so: {ended:?}");
            let _ = child.kill();
            child.wait().unwrap();
        }
        let gone = within(CEILING, || {
            let left = self.helpers.iter().filter(|pid| peak_kb(**pid).is_some());
            match left.count() {
                0 => Ok(()),
                left => Err(left),
            }
        });
        if let Err(left) = gone {
            eprintln!("FAILED: {left} drains are left");
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().unwrap()
}

/// Returns true if a text is at the end of a file, or shortly before it.
fn ends_with(path: &std::path::Path, text: &str) -> bool {
    // The file does not exist for a short time when the log rotates.
    let Ok(mut file) = File::open(path) else {
        return false;
    };
    let len = file.metadata().unwrap().len();
    file.seek(SeekFrom::Start(len.saturating_sub(TAIL_BYTES)))
        .unwrap();
    let mut end = Vec::new();
    file.read_to_end(&mut end).unwrap();
    memchr::memmem::find(&end, text.as_bytes()).is_some()
}

/// Returns true if a process has read this number of bytes.
fn has_read(pid: u32, bytes: u64) -> bool {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.is_some_and(|read| read.parse::<u64>().unwrap() >= bytes)
}
