//! The commands of a pane's shell, where it says when they begin and end (OSC 133).

use std::time::Instant;

use super::say::Out;
use crate::event::PaneId;
use crate::track::Mark;

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
                let cwd = directory_of(pid).unwrap_or_default();
                let pane = Some(pane.clone());
                out.emitter
                    .execution_started(&command.unwrap_or_default(), &cwd, pane);
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
            let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            let pane = Some(pane.clone());
            out.emitter
                .execution_completed(exit_status.map(i32::from), None, millis, pane);
        }
    }
}

/// The directory in which a process is: that of a command, as long as its shell waits for it. Linux
/// tells.
fn directory_of(pid: u32) -> Option<String> {
    let directory = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    Some(directory.to_string_lossy().into_owned())
}
