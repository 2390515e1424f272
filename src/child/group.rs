//! A child and the process group that it leads: started, signalled, waited for, killed and reaped.
//!
//! While the child is not reaped its number is nobody else's. So its end is looked for without
//! reaping it, and it is reaped when nothing is sent to the group any more.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};

use crate::clock::Clock;
use crate::error::{Error, Result};

/// How long a killed child may take to be reaped. `SIGKILL` takes effect at once, except in an
/// uninterruptible wait for a device, which must not take the observer with it.
pub(super) const REAP_GRACE: Duration = Duration::from_secs(1);

/// How often the end of a child is looked for where the system has no descriptor for it.
const EXIT_POLL: Duration = Duration::from_millis(10);

/// Whom to kill when the program must end at once, from any thread: the group that holds it, if one
/// does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leash(Arc<Mutex<Option<Pid>>>);

impl Leash {
    /// Kills the group.
    pub(crate) fn kill(&self) {
        if let Some(group) = *self.held() {
            // It may be gone already; that is what was wanted.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<Pid>> {
        // It is set in one step: a panic elsewhere leaves nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running child and the process group that it leads. Dropped before its end was seen, the group
/// is killed and the child reaped.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    /// Becomes readable when the child has ended; not every system has such a thing.
    pub(super) exit: Option<OwnedFd>,
    ended: Option<ExitStatus>,
    leash: Leash,
}

impl Group {
    /// Starts a child in a group of its own.
    ///
    /// # Errors
    /// `is_missing_program()` when there is no such program.
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

    /// The group of a child that was started as its leader.
    pub(crate) fn led_by(child: Child) -> Self {
        Self {
            exit: exit_descriptor(&child),
            child,
            ended: None,
            leash: Leash::default(),
        }
    }

    /// Lets somebody else kill the group, until the child is reaped and nobody is left in it.
    pub(crate) fn hand_over(&mut self, leash: &Leash) {
        self.leash = leash.clone();
        *self.leash.held() = self.pid();
    }

    /// The child, for its pipes.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The number of the child and of its group.
    pub(crate) fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Sends a signal to the whole group, unless the child has been reaped: then its number may
    /// be another's.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            self.send(signal);
        }
    }

    fn send(&self, signal: Signal) {
        if let Some(pid) = self.pid() {
            // The group may be gone already; that is what was wanted.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Kills those whom a child left behind that has just been reaped. While there are any, the
    /// group's number is theirs.
    pub(crate) fn kill_rest(&self) {
        self.send(Signal::KILL);
    }

    /// Whether anybody is in the group who lives; a child that has not been reaped counts.
    pub(crate) fn is_populated(&self) -> bool {
        self.pid()
            .is_some_and(|pid| test_kill_process_group(pid).is_ok() && has_living(pid))
    }

    /// Whether the child has ended, and waits for being reaped or has been.
    pub(crate) fn has_ended(&self) -> io::Result<bool> {
        if self.ended.is_some() {
            return Ok(true);
        }
        Ok(self
            .looked_for(WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?
            .is_some())
    }

    /// The signal that has stopped the child since the last call, if one has: `TSTP` for Ctrl-Z.
    pub(crate) fn take_stopped(&self) -> io::Result<Option<i32>> {
        if self.ended.is_some() {
            return Ok(None);
        }
        match self.looked_for(WaitIdOptions::STOPPED) {
            // It has ended a moment ago, and there is nobody who could be stopped.
            Err(error) if error.raw_os_error() == Some(Errno::CHILD.raw_os_error()) => Ok(None),
            status => Ok(status?.and_then(|status| status.stopping_signal())),
        }
    }

    fn looked_for(&self, what: WaitIdOptions) -> io::Result<Option<rustix::process::WaitIdStatus>> {
        let Some(pid) = self.pid() else {
            return Ok(None);
        };
        loop {
            match waitid(WaitId::Pid(pid), what | WaitIdOptions::NOHANG) {
                Err(Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    /// How the child ended, if it has; reaps it.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        // Whoever kills waits until it is known whether the number is free.
        let mut held = self.leash.held();
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        // While somebody is left in the group, the number is theirs.
        if self.ended.is_some() && held.is_some() && !self.is_populated() {
            *held = None;
        }
        drop(held);
        Ok(self.ended)
    }

    /// Waits for the child's end until a deadline.
    pub(crate) fn wait_deadline(
        &mut self,
        deadline: Instant,
        clock: &Clock,
    ) -> io::Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(Some(status));
            }
            let left = deadline.saturating_duration_since(clock.now());
            if left.is_zero() {
                return Ok(None);
            }
            let mut waited: Vec<PollFd<'_>> = self
                .exit
                .iter()
                .map(|exit| PollFd::new(exit, PollFlags::IN))
                .collect();
            poll_for(&mut waited, self.nap(left))?;
        }
    }

    /// Kills the whole group and reaps the child.
    pub(crate) fn kill_and_reap(&mut self, clock: &Clock) {
        self.signal(Signal::KILL);
        match self.wait_deadline(clock.now() + REAP_GRACE, clock) {
            Ok(Some(_)) => {}
            Ok(None) => log::warn!("process {} does not die", self.child.id()),
            Err(error) => log::warn!("cannot reap process {}: {error}", self.child.id()),
        }
    }

    /// How long one wait may take so that the child's end is noticed.
    pub(super) fn nap(&self, left: Duration) -> Duration {
        if self.exit.is_some() {
            left
        } else {
            left.min(EXIT_POLL)
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill_and_reap(&Clock::system());
        }
        // Whoever is left in the group is left in peace.
        *self.leash.held() = None;
    }
}

/// What is waited for at the same time.
pub(super) struct Waited<'a>(Vec<PollFd<'a>>);

impl<'a> Waited<'a> {
    pub(super) fn new() -> Self {
        // Two outlets, an inlet and the child's end.
        Self(Vec::with_capacity(4))
    }

    /// Adds one; its place.
    pub(super) fn add(&mut self, source: BorrowedFd<'a>, flags: PollFlags) -> usize {
        self.0.push(PollFd::from_borrowed_fd(source, flags));
        self.0.len() - 1
    }

    pub(super) fn fds(&mut self) -> &mut [PollFd<'a>] {
        &mut self.0
    }

    /// Whether something has come for it.
    pub(super) fn is_ready(&self, at: usize) -> bool {
        self.0.get(at).is_some_and(|one| !one.revents().is_empty())
    }
}

/// Waits until one of them is ready or the time is over; a signal ends it early.
pub(super) fn poll_for(waited: &mut [PollFd<'_>], wait: Duration) -> io::Result<()> {
    // The timeout always fits: it is at most a few minutes.
    let timeout = Timespec::try_from(wait).map_err(|_| ErrorKind::InvalidInput)?;
    match poll(waited, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(target_os = "linux")]
fn exit_descriptor(child: &Child) -> Option<OwnedFd> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw)?;
    // Kernels before 5.3 have none; then the end is polled for.
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn exit_descriptor(_: &Child) -> Option<OwnedFd> {
    None
}

/// Why a program could not be started there.
pub(crate) fn cannot_start(program: &OsStr, directory: Option<&Path>, cause: io::Error) -> Error {
    // A missing directory looks the same as a missing program.
    let directory_is_there = directory.is_none_or(Path::is_dir);
    let name = program.to_string_lossy();
    if cause.kind() == ErrorKind::NotFound && directory_is_there {
        let hint = what_to_install(program);
        return Error::missing(format!("the program {name} is not there: {hint}")).because(cause);
    }
    let error = Error::other(format!("cannot start {name} in")).because(cause);
    error.at(directory.unwrap_or(Path::new(".")))
}

/// Whether a group that has members has one that is not only waiting for being reaped. Where there
/// is nobody who reaps orphans, as in many containers, they stay for ever.
fn has_living(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        // Where the system does not tell, all count.
        return true;
    };
    let group = group.as_raw_nonzero().to_string();
    processes.flatten().any(|process| {
        let is_process = process
            .file_name()
            .as_bytes()
            .iter()
            .all(u8::is_ascii_digit);
        let status = is_process.then(|| std::fs::read_to_string(process.path().join("stat")));
        // The program's name stands in brackets and may be anything; state, parent and group follow.
        let Some(Ok(status)) = status else {
            return false;
        };
        let mut fields = status.rsplit(") ").next().unwrap_or_default().split(' ');
        let state = fields.next();
        fields.nth(1) == Some(group.as_str()) && !matches!(state, Some("Z" | "X"))
    })
}

fn what_to_install(program: &OsStr) -> String {
    if program == "tmux" {
        "install tmux 3.3 or newer (apt install tmux, brew install tmux)".to_owned()
    } else {
        "install it, or put its directory into PATH".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_child_that_has_just_ended_is_not_stopped() {
        let mut command = Command::new("true");
        let mut group = Group::start(command.stdin(Stdio::null())).unwrap();
        let clock = Clock::system();
        let ceiling = clock.now() + Duration::from_secs(10);
        while !group.has_ended().unwrap() {
            assert!(clock.now() < ceiling, "it does not end");
            poll_for(&mut [], Duration::from_millis(1)).unwrap();
        }
        // Its end has been seen, and it waits for being reaped.
        assert_eq!(group.take_stopped().unwrap(), None);
        assert!(group.try_wait().unwrap().unwrap().success());
    }

    #[test]
    fn a_killed_group_leaves_nobody() {
        let mut command = Command::new("sh");
        command
            .args(["-c", "sleep 1000 & wait"])
            .stdin(Stdio::null());
        let mut group = Group::start(&mut command).unwrap();
        let leader = Pid::from_raw(i32::try_from(group.child().id()).unwrap()).unwrap();
        let clock = Clock::system();
        group.kill_and_reap(&clock);
        // An orphan is reaped by init a moment later; until then it counts as a member.
        let ceiling = clock.now() + Duration::from_secs(10);
        while rustix::process::test_kill_process_group(leader).is_ok() {
            assert!(
                clock.now() < ceiling,
                "somebody is left in the group {leader:?}"
            );
            poll_for(&mut [], Duration::from_millis(1)).unwrap();
        }
    }
}
