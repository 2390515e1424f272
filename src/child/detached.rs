//! A process that outlives its starter: this program in the background.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::group::{cannot_start, poll_for};
use crate::clock::Clock;
use crate::error::{Error, Result};

/// Maximum length of the line that a process prints when it is ready.
const LINE_BYTES_MAX: usize = 4096;

/// A program to start in the background.
#[derive(Debug)]
pub(crate) struct DetachedStart {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Variables to set in addition to the inherited ones.
    pub env: Vec<(OsString, OsString)>,
    /// The file that gets its standard error.
    pub log: PathBuf,
}

/// Starts a process without standard input, and returns the first line of its standard output, which the
/// process writes when it is ready. Returns an empty string if the process ends first or `time` is over.
/// The process continues to run.
///
/// # Errors
/// If the program cannot be started, or the log cannot be opened.
pub(crate) fn start_detached(
    start: &DetachedStart,
    time: Duration,
    clock: &Clock,
) -> Result<String> {
    let log =
        open_log(&start.log).map_err(|cause| Error::file("cannot open", &start.log, cause))?;
    let mut command = Command::new(&start.program);
    command
        .args(&start.args)
        .envs(start.env.iter().cloned())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    let mut child = command
        .spawn()
        .map_err(|cause| cannot_start(command.get_program(), None, cause))?;
    let Some(mut stdout) = child.stdout.take() else {
        return Ok(String::new());
    };
    let deadline = clock.now() + time;
    let mut line = Vec::new();
    let mut chunk = [0; 512];
    while !line.contains(&b'\n') && line.len() < LINE_BYTES_MAX {
        if !is_readable(&stdout, deadline, clock) {
            break;
        }
        match stdout.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => line.extend_from_slice(&chunk[..count]),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(Error::other("cannot read from the process").because(cause)),
        }
    }
    if line.is_empty() {
        // Reaps the process if it has ended. A process that hangs is left running.
        let _ = child.try_wait();
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// Opens a file for diagnostics, which only its owner reads.
pub(crate) fn open_log(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600).open(path)
}

fn is_readable(stdout: &impl std::os::fd::AsFd, deadline: Instant, clock: &Clock) -> bool {
    let left = deadline.saturating_duration_since(clock.now());
    let mut fds = [PollFd::new(stdout, PollFlags::IN)];
    poll_for(&mut fds, left).is_ok() && !fds[0].revents().is_empty()
}
