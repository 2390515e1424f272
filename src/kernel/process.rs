//! The process of a kernel that this program starts: its command, its environment, its end.
//!
//! A kernel must not outlive its starter. On Linux, the system kills it when the thread that started it ends,
//! whatever ends it (`setpriv --pdeathsig`, of util-linux); Python's kernel also notices by itself that its
//! parent is gone (`JPY_PARENT_PID`).

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use rustix::event::PollFd;
use rustix::process::Signal;

use super::kernelspec::KernelSpec;
use crate::child::{KillHandle, OutputReader, ProcessGroup};
use crate::error::Result;

/// The last bytes of a kernel's own output that are kept, for the message about its end.
const TAIL_BYTES: usize = 4096;

/// The size of one read.
const READ_BYTES: usize = 16 * 1024;

/// The start of a kernel, now and after its end.
#[derive(Clone, Debug)]
pub(super) struct KernelStart {
    pub spec: KernelSpec,
    pub connection_file: PathBuf,
    /// Kills the kernel from another thread.
    pub kill_handle: KillHandle,
}

/// A running kernel.
#[derive(Debug)]
pub(super) struct KernelProcess {
    group: ProcessGroup,
    outputs: [OutputReader; 2],
    /// The end of its standard error, for example an import that failed.
    tail: Vec<u8>,
}

impl KernelProcess {
    pub fn start(start: &KernelStart) -> Result<Self> {
        let argv = start.spec.command(&start.connection_file);
        let path = env::var_os("PATH");
        // A program that is missing is reported as such, and not by the guard.
        let guarded = match argv.first().is_some_and(|of| is_there(of, path.as_deref())) {
            true => guard(path.as_deref()),
            false => Vec::new(),
        };
        let mut words = guarded.into_iter().chain(argv);
        // A specification has at least one word.
        let mut command = Command::new(words.next().unwrap_or_default());
        command
            .args(words)
            .envs(
                start
                    .spec
                    .env
                    .iter()
                    .map(|(name, value)| (name, expanded(value))),
            )
            .env("JPY_PARENT_PID", std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut group = ProcessGroup::start(&mut command)?;
        group.connect(&start.kill_handle);
        let child = group.child();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let outputs = || Ok([OutputReader::new(stdout)?, OutputReader::new(stderr)?]);
        let outputs = outputs().map_err(|cause: io::Error| {
            crate::error::Error::other("cannot read the output of the kernel").because(cause)
        })?;
        Ok(Self {
            group,
            outputs,
            tail: Vec::new(),
        })
    }

    /// Returns what is ready when the process has something to report.
    pub fn waits_for(&self) -> impl Iterator<Item = PollFd<'_>> {
        let outputs = self.outputs.iter().filter_map(OutputReader::waits_for);
        self.group.exit_fd().into_iter().chain(outputs)
    }

    /// Reads what the process prints itself, so that it is not blocked.
    pub fn read(&mut self) {
        let mut buffer = [0; READ_BYTES];
        let tail = &mut self.tail;
        for output in &mut self.outputs {
            let read = output.read(&mut buffer, READ_BYTES, |bytes| {
                tail.extend_from_slice(bytes);
                let surplus = tail.len().saturating_sub(TAIL_BYTES);
                tail.drain(..surplus);
            });
            if let Err(cause) = read {
                log::debug!("cannot read the output of the kernel: {cause}");
            }
        }
    }

    /// Returns its status when it has ended.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.group.try_wait()
    }

    /// Forgets what it has printed so far: its remarks at the start say nothing about its end.
    pub fn forget_output(&mut self) {
        self.tail.clear();
    }

    /// Returns the last line that it printed itself.
    pub fn last_words(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.tail);
        let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
        Some(line.trim().chars().take(200).collect())
    }

    pub fn signal(&self, signal: Signal) {
        self.group.signal(signal);
    }

    /// Kills what is left of the group and reaps the kernel.
    pub fn kill(mut self) {
        self.group.signal(Signal::KILL);
        // Its members that ended with it are no concern; dropping the group reaps it.
        let _ = self.group.try_wait();
    }
}

/// Returns the words before a command that let the system end it with its parent thread, where they exist.
fn guard(path: Option<&OsStr>) -> Vec<OsString> {
    match cfg!(target_os = "linux") && is_there(OsStr::new("setpriv"), path) {
        true => ["setpriv", "--pdeathsig", "KILL", "--"]
            .map(OsString::from)
            .to_vec(),
        false => Vec::new(),
    }
}

/// Returns true if a program exists: at its path, or in a directory of `PATH`.
fn is_there(program: &OsStr, path: Option<&OsStr>) -> bool {
    let mut directories = path.into_iter().flat_map(env::split_paths);
    let mut in_path = || directories.any(|directory| directory.join(program).is_file());
    match program.as_encoded_bytes().contains(&b'/') {
        true => Path::new(program).is_file(),
        false => in_path(),
    }
}

/// Replaces `${NAME}` by the variable's value, as Jupyter does in the environment of a specification.
fn expanded(value: &str) -> OsString {
    let mut rest = value;
    let mut out = OsString::new();
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            break;
        };
        out.push(before);
        match env::var_os(name) {
            Some(value) => out.push(value),
            None => out.push(format!("${{{name}}}")),
        }
        rest = after;
    }
    out.push(rest);
    out
}

/// Returns the words for the end of a kernel.
pub(super) fn end_in_words(status: ExitStatus, last_words: Option<String>) -> String {
    let mut text = format!("the kernel has ended ({status})");
    if let Some(words) = last_words {
        text.push_str(": ");
        text.push_str(&words);
    }
    text
}

/// Removes a connection file that was written for a kernel.
pub(super) fn remove_connection_file(path: &Path) {
    if let Err(cause) = std::fs::remove_file(path)
        // The kernel may have removed it.
        && cause.kind() != io::ErrorKind::NotFound
    {
        log::warn!("cannot remove {path:?}: {cause}");
    }
}
