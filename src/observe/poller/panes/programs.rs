//! What the kernel shows of the programs in a session's panes becomes events of theirs.

use std::time::Instant;

use crossbeam_channel::Receiver;

use super::Roster;
use crate::event::PaneId;
use crate::observe::command_events::CommandEvent;
use crate::observe::say::Out;

impl Roster {
    /// Gets a message when processes have ended.
    pub fn exits(&self) -> &Receiver<()> {
        self.programs.exit_signal()
    }

    /// Processes have ended.
    pub fn exited(&mut self, now: Instant) {
        for (id, death) in self.programs.handle_exits(now) {
            let leaving = self.leaving.get_mut(&id).map(|(pane, _)| pane);
            let Some(pane) = self.panes.get_mut(&id).or(leaving) else {
                continue;
            };
            let recall = self.outfit.recalls.entry(id).or_default();
            pane.program_ended(
                death,
                &mut Out {
                    emitter: &self.outfit.emitter,
                    recall,
                    patient: self.pipes.is_some().then_some(&mut self.patient),
                    now,
                },
            );
        }
        self.say_jobs(now);
        self.say_leaving(now);
    }

    /// Says what has become of the panes' jobs.
    pub(super) fn say_jobs(&mut self, now: Instant) {
        for (id, job) in self.programs.handle_timeout(now) {
            self.say_job(&id, job);
        }
    }

    fn say_job(&self, id: &PaneId, job: CommandEvent) {
        if !self.panes.contains_key(id) && !self.leaving.contains_key(id) {
            return;
        }
        let emitter = &self.outfit.emitter;
        emitter.emit(job.into_event(emitter.execution_id(), id));
    }
}
