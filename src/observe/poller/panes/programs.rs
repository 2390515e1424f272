//! Turns what the kernel reports about the programs of a session's panes into events.

use std::time::Instant;

use crossbeam_channel::Receiver;

use super::SessionPanes;

impl SessionPanes {
    /// Returns the channel that signals ended processes.
    pub fn exits(&self) -> &Receiver<()> {
        self.programs.exit_signal()
    }

    /// Handles that processes have ended.
    pub fn handle_exits(&mut self, now: Instant) {
        for (id, death) in self.programs.handle_exits(now) {
            let leaving = self.leaving.get_mut(&id).map(|(pane, _)| pane);
            let Some(pane) = self.panes.get_mut(&id).or(leaving) else {
                continue;
            };
            self.emitter.collect(&id, self.pipes.is_some(), now, |out| {
                pane.program_ended(death, out);
            });
        }
        self.emit_jobs(now);
        self.emit_leaving(now);
    }

    /// Emits the events of jobs that are due.
    pub(super) fn emit_jobs(&mut self, now: Instant) {
        for (id, job) in self.programs.handle_timeout(now) {
            if self.panes.contains_key(&id) || self.leaving.contains_key(&id) {
                self.emitter.emit_job(&id, job);
            }
        }
    }
}
