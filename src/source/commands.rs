//! The commands of a pane's shell: as it says when they begin and end (OSC 133), else as the kernel
//! shows its jobs. A command that the shell tells of is not told of as a job, too.

use std::time::{Duration, Instant};

use super::say::Out;
use crate::event::PaneId;
use crate::process::directory;
use crate::track::{Death, Mark};

/// What the kernel shows of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Job {
    /// It has lived for long enough to count.
    Started {
        pid: u32,
        command: String,
        cwd: String,
    },
    /// It has ended.
    Completed {
        pid: u32,
        end: Option<Death>,
        took: Duration,
    },
}

/// The command that is running, if one is.
#[derive(Debug, Default)]
pub(super) struct Commands {
    since: Option<Instant>,
}

impl Commands {
    /// Takes in what the shell of a pane said. `pid` is the shell's process.
    pub fn heard(&mut self, mark: Mark, pane: &PaneId, pid: u32, out: &Out<'_>) {
        match mark {
            Mark::Started { command } => {
                // A shell that says no end begins the next one.
                self.ended(None, pane, out);
                self.since = Some(out.now);
                // That of a command is its shell's, which waits for it.
                let cwd = directory(pid).unwrap_or_default();
                let pane = Some(pane.clone());
                out.emitter
                    .execution_started(&command.unwrap_or_default(), &cwd, pane, None);
            }
            Mark::Finished { exit_status } => self.ended(exit_status, pane, out),
            Mark::Prompt => self.ended(None, pane, out),
            Mark::Input => {}
        }
    }

    /// Whatever runs is over, as far as can be known.
    pub fn ended(&mut self, exit_status: Option<u8>, pane: &PaneId, out: &Out<'_>) {
        if let Some(since) = self.since.take() {
            let took = out.now.saturating_duration_since(since);
            let pane = Some(pane.clone());
            let exit_code = exit_status.map(i32::from);
            out.emitter
                .execution_completed(exit_code, None, millis(took), pane, None);
        }
    }

    /// Says what the kernel shows of a job; false where the shell has said that it began, and will say
    /// how it ended.
    pub fn job(&self, job: Job, pane: &PaneId, out: &Out<'_>) -> bool {
        let pane = Some(pane.clone());
        match job {
            Job::Started { .. } if self.since.is_some() => return false,
            Job::Started { pid, command, cwd } => {
                out.emitter
                    .execution_started(&command, &cwd, pane, Some(pid));
            }
            Job::Completed { pid, end, took } => {
                // As shells have it: 128 and the signal.
                let exit_code = end.and_then(Death::exit_status);
                let signal = end.and_then(|end| end.signal);
                out.emitter
                    .execution_completed(exit_code, signal, millis(took), pane, Some(pid));
            }
        }
        true
    }
}

fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}
