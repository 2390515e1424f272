//! A child and the process group that it leads: started, signalled, waited for, killed and reaped.
//!
//! No other process gets the pid of a child before the child is reaped. The group therefore detects the
//! child's end without reaping it, and reaps it once no more signals are sent.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, test_kill_process_group,
    waitid,
};

use super::output::OutputReader;
use super::procfs::{Stat, processes};
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
    child: Child,
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

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
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
        let hint = match program == "tmux" {
            true => "install tmux 3.3 or newer (apt install tmux, brew install tmux)",
            false => "install it, or add its directory to PATH",
        };
        return Error::missing(format!("the program {name} was not found: {hint}")).because(cause);
    }
    let error = Error::other(format!("cannot start {name} in")).because(cause);
    error.at(directory.unwrap_or(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

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
