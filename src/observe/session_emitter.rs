//! Emits the output of the pane observers of a session.

use std::collections::HashMap;
use std::time::Instant;

use crate::bus::{BlockingEmitter, EventEmitter};
use crate::event::PaneId;
use crate::observe::command_events::CommandEvent;
use crate::observe::conversation::Conversations;
use crate::observe::pane_output::{PaneEmission, PaneOutput};
use crate::observe::resume_point::ResumePoint;

/// The emitter of a session's panes, with the points from which they resume.
pub(super) struct SessionEmitter {
    pub events: EventEmitter,
    pub resume_points: HashMap<PaneId, ResumePoint>,
    blocking: BlockingEmitter,
    conversations: Conversations,
}

impl SessionEmitter {
    /// Creates an emitter; `resume_points` come from the history of an earlier observer.
    pub fn new(
        events: EventEmitter,
        resume_points: HashMap<PaneId, ResumePoint>,
        conversations: Conversations,
    ) -> Self {
        Self {
            blocking: BlockingEmitter::new(events.clone()),
            events,
            resume_points,
            conversations,
        }
    }

    /// Emits what has become of a job in a pane.
    pub fn emit_job(&self, pane: &PaneId, job: CommandEvent) {
        self.events
            .emit(job.into_event(self.events.execution_id(), pane));
    }

    /// Calls `step` and emits its output; lines wait for room in the log if they `may_wait`.
    pub fn collect<T>(
        &mut self,
        pane: &PaneId,
        may_wait: bool,
        now: Instant,
        step: impl FnOnce(&mut PaneOutput<'_>) -> T,
    ) -> T {
        let mut pending = PendingEmissions {
            emissions: Vec::new(),
            pane,
            events: &self.events,
            blocking: may_wait.then_some(&mut self.blocking),
            conversations: &self.conversations,
        };
        step(&mut PaneOutput {
            execution_id: self.events.execution_id(),
            emissions: &mut pending.emissions,
            resume_point: self.resume_points.entry(pane.clone()).or_default(),
            now,
        })
    }
}

/// Output that is emitted when it is dropped: also after a panic, because the resume point has it already.
struct PendingEmissions<'a> {
    emissions: Vec<PaneEmission>,
    pane: &'a PaneId,
    events: &'a EventEmitter,
    blocking: Option<&'a mut BlockingEmitter>,
    conversations: &'a Conversations,
}

impl Drop for PendingEmissions<'_> {
    fn drop(&mut self) {
        for emission in self.emissions.drain(..) {
            // A closed bus means that the engine is at its end: no subscriber is left.
            match (emission, &mut self.blocking) {
                (PaneEmission::Lines(event), Some(blocking)) => blocking.emit(event),
                (PaneEmission::Event(event) | PaneEmission::Lines(event), _) => {
                    let _ = self.events.emit(event);
                }
                (PaneEmission::Live(event), _) => {
                    let _ = self.events.emit_live(event);
                }
                (PaneEmission::TurnOver, _) => self.conversations.turn_over(self.pane),
            }
        }
    }
}
