//! Waiting for the end of a command that was started, while what it prints is heard.

use std::process::ChildStdin;
use std::time::{Duration, Instant};

use super::command::{Command, Stdin};
use crate::child::{Attendance, Attended, Bounds, ChildListener, Group, Inlet, Outlet};
use crate::error::{Error, Result};
use crate::thread::Stop;

/// So long the outputs are read after the end of a command while nothing comes, when somebody
/// still holds them: `exec > >(tee build.log)` has its last lines written by another process.
const LINGER: Duration = Duration::from_millis(300);

/// A command that was started.
pub(super) struct Attending<'a> {
    pub command: &'a Command,
    pub began: Instant,
    pub group: &'a mut Group,
    pub inlet: Inlet<'a>,
    pub outlets: [Outlet; 2],
    /// When it is closed the group is asked to end, and killed after so long a time.
    pub stop: &'a Stop,
    pub stop_grace: Duration,
}

impl Attending<'_> {
    /// Waits for its end. When that is not possible its group is killed.
    pub fn run(self, listener: &mut impl ChildListener) -> Result<Attended> {
        let Self { command, group, .. } = self;
        let bounds = Bounds {
            deadline: command
                .timeout
                .and_then(|timeout| self.began.checked_add(timeout)),
            grace: command.grace,
            stop_grace: self.stop_grace,
            linger: LINGER,
        };
        let attended = Attendance {
            group: &mut *group,
            inlet: self.inlet,
            outlets: self.outlets,
            bounds,
            orders: &command.control.orders,
            stop: self.stop,
            clock: &command.clock,
        }
        .run(listener);
        attended.map_err(|cause| {
            group.kill_and_reap(&command.clock);
            Error::other(format!("cannot attend {}", command.name())).because(cause)
        })
    }
}

/// What is written to a command that was started with a pipe to read from.
pub(super) fn fed<'a>(pipe: Option<ChildStdin>, command: &'a Command) -> Result<Inlet<'a>> {
    match (pipe, &command.stdin) {
        (Some(pipe), Stdin::Bytes(bytes)) => Inlet::bytes(pipe, bytes).map_err(|cause| {
            Error::other(format!("cannot write to {}", command.name())).because(cause)
        }),
        _ => Ok(Inlet::None),
    }
}
