//! A child and the process group that it leads: started, signalled, waited for, killed and reaped.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::clock::Clock;
use crate::error::{Error, Result};

/// How long a killed child may take to be reaped. `SIGKILL` takes effect at once, except in an
/// uninterruptible wait for a device, which must not take the observer with it.
const REAP_GRACE: Duration = Duration::from_secs(1);

/// How often the end of a child is looked for where the system has no descriptor for it.
const EXIT_POLL: Duration = Duration::from_millis(10);

/// A running child and the process group that it leads. Dropped before its end was seen, the group
/// is killed and the child reaped.
#[derive(Debug)]
pub(crate) struct Group {
    child: Child,
    /// Becomes readable when the child has ended; not every system has such a thing.
    pub(super) exit: Option<OwnedFd>,
    ended: Option<ExitStatus>,
}

impl Group {
    /// Starts a child in a group of its own.
    ///
    /// # Errors
    /// `is_missing_program()` when there is no such program.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let child = command
            .process_group(0)
            .spawn()
            .map_err(|cause| cannot_start(command, cause))?;
        let exit = exit_descriptor(&child);
        Ok(Self {
            child,
            exit,
            ended: None,
        })
    }

    /// The child, for its pipes.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends a signal to the whole group, unless the child has been reaped: then its number may
    /// be another's.
    pub(crate) fn signal(&self, signal: Signal) {
        if self.ended.is_none()
            && let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
        {
            // The group may be gone already; that is what was wanted.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// How the child ended, if it has; reaps it.
    pub(crate) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
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
    }
}

/// Waits until one of them is ready or the time is over; a signal ends it early.
pub(super) fn poll_for(waited: &mut [PollFd<'_>], wait: Duration) -> io::Result<()> {
    // The timeout always fits: it is at most a few minutes.
    let timeout = Timespec::try_from(wait).map_err(|_| ErrorKind::InvalidInput)?;
    match poll(waited, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
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

fn cannot_start(command: &Command, cause: io::Error) -> Error {
    let program = command.get_program().to_string_lossy().into_owned();
    // A missing directory looks the same as a missing program.
    let directory_is_there = command
        .get_current_dir()
        .is_none_or(|directory| directory.is_dir());
    if cause.kind() == ErrorKind::NotFound && directory_is_there {
        let hint = what_to_install(command.get_program());
        return Error::missing(format!("the program {program} is not there: {hint}"))
            .because(cause);
    }
    let error = Error::other(format!("cannot start {program} in")).because(cause);
    error.at(command
        .get_current_dir()
        .map_or_else(|| PathBuf::from("."), PathBuf::from))
}

fn what_to_install(program: &OsStr) -> String {
    if program == "tmux" {
        "install tmux 3.2 or newer (apt install tmux, brew install tmux)".to_owned()
    } else {
        "install it, or put its directory into PATH".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

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
