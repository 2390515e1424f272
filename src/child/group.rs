//! A child and the process group that it leads: started, signalled, waited for, killed and reaped, its outputs
//! read without blocking.
//!
//! No other process gets the pid of a child before the child is reaped. The group therefore detects the
//! child's end without reaping it, and reaps it once no more signals are sent.

// Only the program starts processes in the background.
#![cfg_attr(not(feature = "cli"), allow(dead_code))]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, kill_process_group,
    test_kill_process_group, waitid,
};

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::thread::lock;

/// The time in which a killed child must become reapable. `SIGKILL` takes effect at once, except in an
/// uninterruptible wait for a device, which must not also block the observer.
pub(super) const REAP_GRACE: Duration = Duration::from_secs(1);

/// The interval at which the end of a child is polled where the system has no pidfd.
const EXIT_POLL: Duration = Duration::from_millis(10);

/// Kills a process group from any thread, while the group is known to exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct KillHandle(Arc<Mutex<Option<Pid>>>);

impl KillHandle {
    pub(crate) fn kill(&self) {
        if let Some(group) = *lock(&self.0) {
            // An error means that the group is gone, as intended.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// A running child and the process group that it leads. Dropping it before the child's end kills the
/// group and reaps the child.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    pub(crate) child: Child,
    /// Becomes readable when the child has ended. `None` where the system has no pidfd.
    exit: Option<OwnedFd>,
    status: Option<ExitStatus>,
    kill_handle: KillHandle,
}

impl ProcessGroup {
    /// Starts a child in its own group.
    ///
    /// # Errors
    /// `is_missing_program()` when the program does not exist.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        match command.process_group(0).spawn() {
            Ok(child) => Ok(Self::led_by(child)),
            Err(cause) => Err(cannot_start(
                command.get_program(),
                command.get_current_dir(),
                cause,
            )),
        }
    }

    /// Takes over a child that was started as the leader of its group.
    pub(crate) fn led_by(child: Child) -> Self {
        Self {
            exit: exit_descriptor(&child),
            child,
            status: None,
            kill_handle: KillHandle::default(),
        }
    }

    /// Connects `handle` with this group until the child is reaped and the group has no members.
    pub(crate) fn connect(&mut self, handle: &KillHandle) {
        self.kill_handle = handle.clone();
        *lock(&self.kill_handle.0) = Some(self.pid());
    }

    /// Takes the piped outputs of the child.
    ///
    /// # Errors
    /// The system's error when a pipe cannot be made non-blocking.
    pub(crate) fn outputs(&mut self) -> io::Result<[OutputReader; 2]> {
        let stdout = OutputReader::new(self.child.stdout.take())?;
        Ok([stdout, OutputReader::new(self.child.stderr.take())?])
    }

    /// Returns the pid of the child, which is also the ID of its group.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends a signal to the whole group. After the child is reaped, the ID belongs to the group only
    /// while the group has members.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.status.is_none() || self.has_members() {
            // An error means that the group is gone.
            let _ = kill_process_group(self.pid(), signal);
        }
    }

    /// Sends a signal to the child alone, as `kill PID` does.
    pub(super) fn signal_child(&self, signal: Signal) {
        if self.status.is_none() {
            // An error means that the child is gone.
            let _ = kill_process(self.pid(), signal);
        }
    }

    /// Returns true while the group has a member that is not a zombie. Where no process reaps orphans, as
    /// in many containers, zombies remain forever.
    pub(crate) fn has_members(&self) -> bool {
        let is_living = |process: Stat| process.group == self.child.id() && !process.is_zombie;
        test_kill_process_group(self.pid()).is_ok()
            // Without /proc, all members count.
            && processes().is_none_or(|mut processes| processes.any(is_living))
    }

    /// Returns true if the child has ended, reaped or not.
    pub(crate) fn has_ended(&self) -> io::Result<bool> {
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        Ok(self.status.is_some() || self.wait_id(ended)?.is_some())
    }

    /// Returns the signal that has stopped the child since the last call: `TSTP` for Ctrl-Z.
    pub(crate) fn take_stop_signal(&self) -> io::Result<Option<i32>> {
        if self.status.is_some() {
            return Ok(None);
        }
        match self.wait_id(WaitIdOptions::STOPPED) {
            // The child has just ended.
            Err(Errno::CHILD) => Ok(None),
            status => Ok(status?.and_then(|status| status.stopping_signal())),
        }
    }

    fn wait_id(&self, options: WaitIdOptions) -> rustix::io::Result<Option<WaitIdStatus>> {
        let options = options | WaitIdOptions::NOHANG;
        rustix::io::retry_on_intr(|| waitid(WaitId::Pid(self.pid()), options))
    }

    /// Reaps the child if it has ended, and returns its status.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        // The lock prevents a kill while the ID becomes free.
        let mut group = lock(&self.kill_handle.0);
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        // The ID remains in use while the group has members.
        if self.status.is_some() && group.is_some() && !self.has_members() {
            *group = None;
        }
        drop(group);
        Ok(self.status)
    }

    /// Waits for the child's end until a deadline, and reaps it.
    pub(super) fn wait_deadline(
        &mut self,
        deadline: Instant,
        clock: &Clock,
    ) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(Some(status));
            }
            let remaining = deadline.saturating_duration_since(clock.now());
            if remaining.is_zero() {
                return Ok(None);
            }
            poll_for(self.exit_fd().as_mut_slice(), self.cap_wait(remaining))?;
        }
    }

    fn kill_and_reap(&mut self) {
        let clock = Clock::system();
        self.signal(Signal::KILL);
        match self.wait_deadline(clock.now() + REAP_GRACE, &clock) {
            Ok(Some(_)) => {}
            Ok(None) => log::warn!("process {} does not die", self.child.id()),
            Err(error) => log::warn!("cannot reap process {}: {error}", self.child.id()),
        }
    }

    /// Returns the descriptor that becomes readable at the child's end.
    pub(crate) fn exit_fd(&self) -> Option<PollFd<'_>> {
        let exit = self.exit.as_ref()?;
        Some(PollFd::new(exit, PollFlags::IN))
    }

    /// Shortens a wait so that the child's end is also noticed without a pidfd.
    pub(super) fn cap_wait(&self, wait: Duration) -> Duration {
        match self.exit {
            Some(_) => wait,
            None => wait.min(EXIT_POLL),
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.kill_and_reap();
        }
        // Members that the child left behind are not killed.
        *lock(&self.kill_handle.0) = None;
    }
}

/// Waits until a descriptor is ready or the time is over; a signal ends the wait early.
pub(super) fn poll_for(fds: &mut [PollFd<'_>], wait: Duration) -> io::Result<()> {
    // The timeout always fits: it is at most a few minutes.
    let timeout = Timespec::try_from(wait).map_err(|_| ErrorKind::InvalidInput)?;
    match poll(fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(target_os = "linux")]
fn exit_descriptor(child: &Child) -> Option<OwnedFd> {
    // Kernels before 5.3 have no pidfd; the end is then polled.
    rustix::process::pidfd_open(Pid::from_child(child), rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn exit_descriptor(_: &Child) -> Option<OwnedFd> {
    None
}

/// Returns the error for a program that could not be started in `directory`.
pub(crate) fn cannot_start(program: &OsStr, directory: Option<&Path>, cause: io::Error) -> Error {
    // The system reports a missing directory like a missing program.
    let has_directory = directory.is_none_or(Path::is_dir);
    let name = program.to_string_lossy();
    if cause.kind() == ErrorKind::NotFound && has_directory {
        let path = directory.unwrap_or(Path::new("")).join(program);
        let text = if name.contains('/') && path.exists() {
            // The system reports a missing interpreter like a missing program.
            format!(
                "the program {name} was not started: the interpreter in its first line is probably missing"
            )
        } else if program == "tmux" {
            let hint = "install tmux 3.3 or newer (apt install tmux, brew install tmux)";
            format!("the program {name} was not found: {hint}")
        } else {
            let hint = "install it, or add its directory to PATH";
            format!("the program {name} was not found: {hint}")
        };
        return Error::missing(text).because(cause);
    }
    let error = Error::other(format!("cannot start {name} in")).because(cause);
    error.at(directory.unwrap_or(Path::new(".")))
}

/// The reading end of a pipe or of a terminal.
#[derive(Debug)]
pub(crate) struct OutputReader {
    /// `None` once the output has ended.
    source: Option<OwnedFd>,
    /// The source is a terminal whose other side no process has open. Another process of its session
    /// may open it again.
    is_hung_up: bool,
}

impl OutputReader {
    /// Takes over a reading end; `None` is an output that has ended.
    ///
    /// # Errors
    /// The system's error when the source cannot be made non-blocking.
    pub(crate) fn new(source: Option<impl Into<OwnedFd>>) -> io::Result<Self> {
        let source = source.map(Into::into);
        if let Some(source) = &source {
            rustix::io::ioctl_fionbio(source, true)?;
        }
        Ok(Self {
            source,
            is_hung_up: false,
        })
    }

    /// Asks the system for a larger pipe, so that writer and reader alternate less often. A refusal is
    /// ignored: the pipe works with its usual size.
    pub(crate) fn enlarge_pipe(&self, bytes: usize) {
        #[cfg(target_os = "linux")]
        if let Some(source) = &self.source {
            let _ = rustix::pipe::fcntl_setpipe_size(source, bytes);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = bytes;
    }

    /// Returns the descriptor to wait for. A hung-up terminal has none: it is always ready, so it is
    /// read once per round instead.
    pub(crate) fn waits_for(&self) -> Option<PollFd<'_>> {
        let source = self.source.as_ref().filter(|_| !self.is_hung_up)?;
        Some(PollFd::from_borrowed_fd(source.as_fd(), PollFlags::IN))
    }

    /// Returns true if no process holds the other end and everything has been read.
    pub(crate) fn has_ended(&self) -> bool {
        self.source.is_none() || self.is_hung_up
    }

    /// Closes the reading end: the next write of the child fails, and signals `SIGPIPE`.
    pub(super) fn close(&mut self) {
        self.source = None;
    }

    /// Reads what is available and passes it to `handle`; returns the number of bytes. Stops soon after
    /// `bytes_max`, because the writer may never pause.
    pub(crate) fn read(
        &mut self,
        buffer: &mut [u8],
        bytes_max: usize,
        mut handle: impl FnMut(&[u8]),
    ) -> io::Result<usize> {
        let mut total = 0;
        while total < bytes_max
            && let Some(source) = &self.source
        {
            let result = rustix::io::read(source, &mut *buffer);
            self.is_hung_up = result == Err(Errno::IO);
            match result {
                Ok(0) => self.source = None,
                Ok(count) => {
                    handle(&buffer[..count]);
                    total += count;
                    // A pipe returns everything that it holds, so it is empty now.
                    if count < buffer.len() {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::IO) => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(total)
    }
}

/// The status of a process, see proc_pid_stat(5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub pid: u32,
    pub is_zombie: bool,
    /// Stopped by a signal, such as that of Ctrl-Z.
    pub is_stopped: bool,
    pub parent: u32,
    pub group: u32,
    pub session: u32,
    /// The device number of its terminal; 0 without one.
    pub terminal: i32,
    /// The foreground group of its terminal. `None` without a terminal.
    pub foreground: Option<u32>,
    /// The start time in clock ticks since boot. Together with the pid it identifies the process.
    pub started: u64,
    /// The address of its arguments, which a fork shares and another program does not. 0 for a process of
    /// another user.
    pub arguments: u64,
    /// The status that wait(2) returns for a zombie; 0 for a process of another user.
    exit_code: i32,
}

impl Stat {
    /// Returns the status that wait(2) returns for a process that has ended and is not reaped; `None` if the
    /// process runs or belongs to another user.
    pub(crate) fn zombie_status(&self) -> Option<i32> {
        let owner = fs::metadata(format!("/proc/{}", self.pid)).ok()?.uid();
        let own = rustix::process::geteuid();
        // Users other than the owner read the status 0, which would mean success.
        let is_readable = own.is_root() || own.as_raw() == owner;
        (self.is_zombie && is_readable).then_some(self.exit_code)
    }
}

/// Reads the status of a process; `None` when it is gone, or outside of Linux.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    parse_stat(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses a line of `stat`. Its second field is a name in parentheses, which may contain any character.
fn parse_stat(pid: u32, text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    // The manual counts from 1, and the third field is the first one here.
    let field = |number: usize| fields.get(number - 3).copied();
    Some(Stat {
        pid,
        is_zombie: matches!(field(3)?, "Z" | "X"),
        is_stopped: field(3)? == "T",
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        terminal: field(7)?.parse().ok()?,
        foreground: field(8)?.parse().ok(),
        started: field(22)?.parse().ok()?,
        arguments: field(48)?.parse().ok()?,
        exit_code: field(52)?.parse().ok()?,
    })
}

/// Reads the status of all processes; `None` without `/proc`.
pub(crate) fn processes() -> Option<impl Iterator<Item = Stat>> {
    let entries = fs::read_dir("/proc").ok()?;
    let names = entries.flatten().map(|entry| entry.file_name());
    Some(names.filter_map(|name| stat(name.to_str()?.parse().ok()?)))
}

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
    // Maximum length of the line that a process prints when it is ready.
    while !line.contains(&b'\n') && line.len() < 4096 {
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

#[cfg(test)]
mod tests {
    mod group {
        use std::process::Stdio;

        use super::super::*;

        #[test]
        fn a_child_that_has_just_ended_has_no_stop_signal() {
            let mut command = Command::new("true");
            let mut group = ProcessGroup::start(command.stdin(Stdio::null())).unwrap();
            let clock = Clock::system();
            let ceiling = clock.now() + Duration::from_secs(10);
            while !group.has_ended().unwrap() {
                assert!(clock.now() < ceiling, "the child does not end");
                poll_for(&mut [], Duration::from_millis(1)).unwrap();
            }
            // It is a zombie that has not been reaped.
            assert_eq!(group.take_stop_signal().unwrap(), None);
            assert!(group.try_wait().unwrap().unwrap().success());
        }

        #[test]
        fn a_killed_group_has_no_members() {
            let mut command = Command::new("sh");
            command
                .args(["-c", "sleep 1000 & wait"])
                .stdin(Stdio::null());
            let mut group = ProcessGroup::start(&mut command).unwrap();
            let leader = group.pid();
            let clock = Clock::system();
            group.kill_and_reap();
            // Init reaps an orphan shortly afterwards; until then the orphan counts as a member.
            let ceiling = clock.now() + Duration::from_secs(10);
            while rustix::process::test_kill_process_group(leader).is_ok() {
                assert!(
                    clock.now() < ceiling,
                    "the group {leader:?} still has members"
                );
                poll_for(&mut [], Duration::from_millis(1)).unwrap();
            }
        }
    }

    mod procfs {
        use std::process::Command;
        use std::thread;
        use std::time::{Duration, Instant};

        use super::super::*;

        #[test]
        fn the_name_of_a_process_may_resemble_other_fields() {
            let rest = "0 ".repeat(13);
            let stat = format!(
                "7 (a) S 1) Z 5 6 7 34816 4242 {rest} 99 {} 4096 0 0 0 512",
                "0 ".repeat(25)
            );
            let stat = parse_stat(7, &stat).unwrap();
            assert_eq!((stat.parent, stat.group, stat.session), (5, 6, 7));
            assert_eq!((stat.foreground, stat.started), (Some(4242), 99));
            assert_eq!((stat.arguments, stat.exit_code), (4096, 512));
            assert!(stat.is_zombie);
            assert_eq!(parse_stat(7, "7 (a) S 1 2"), None);
            assert_eq!(parse_stat(7, ""), None);
        }

        /// Runs a script and returns the status of its zombie, before it is reaped.
        fn zombie_status_of(script: &str) -> i32 {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let status = || stat(child.id()).and_then(|stat| stat.zombie_status());
            let deadline = Instant::now() + Duration::from_secs(20);
            let code = loop {
                match status() {
                    None if Instant::now() < deadline => thread::yield_now(),
                    code => break code,
                }
            };
            child.wait().unwrap();
            assert_eq!(stat(child.id()), None, "it is reaped");
            code.unwrap()
        }

        #[test]
        fn a_zombie_has_a_status() {
            if !cfg!(target_os = "linux") {
                return;
            }
            let own = stat(std::process::id()).unwrap();
            assert_eq!(own.zombie_status(), None, "it runs");
            assert_eq!(zombie_status_of("exit 3"), 3 << 8);
            assert_eq!(zombie_status_of("exit 0"), 0);
            assert_eq!(zombie_status_of("kill -9 $$"), 9);
        }
    }
}
