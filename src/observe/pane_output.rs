//! The output of a pane: its changes as events, and whether they may wait for room in the log.

use std::collections::HashMap;
use std::time::Instant;

use crate::bus::BlockingEmitter;
use crate::bus::EventEmitter;
use crate::event::{CompletionReason, PaneId, Styles, TdEvent, TurnEvidence};
use crate::observe::resume_point::ResumePoint;

/// The context of warnings about a pane's pipe, which imply no lost output: faces may hide them.
pub(crate) const PIPE_CONTEXT: &str = "pipe";

/// The emitter of a pane, and the resume point that it updates.
pub(super) struct PaneOutput<'a> {
    pub emitter: &'a EventEmitter,
    pub resume_point: &'a mut ResumePoint,
    /// For events that may wait until the log has room.
    pub blocking: Option<&'a mut BlockingEmitter>,
    pub now: Instant,
}

/// The outputs of a session's panes.
pub(super) struct PaneOutputs {
    pub emitter: EventEmitter,
    pub resume_points: HashMap<PaneId, ResumePoint>,
    pub blocking: BlockingEmitter,
}

impl PaneOutputs {
    /// Creates the outputs. `resume_points` are those of an earlier observer.
    pub fn new(emitter: EventEmitter, resume_points: HashMap<PaneId, ResumePoint>) -> Self {
        Self {
            blocking: BlockingEmitter::new(emitter.clone()),
            emitter,
            resume_points,
        }
    }

    /// Returns the output of a pane; its events wait for room in the log if `may_wait`.
    pub fn of(&mut self, pane: &PaneId, may_wait: bool, now: Instant) -> PaneOutput<'_> {
        PaneOutput {
            emitter: &self.emitter,
            resume_point: self.resume_points.entry(pane.clone()).or_default(),
            blocking: may_wait.then_some(&mut self.blocking),
            now,
        }
    }
}

impl PaneOutput<'_> {
    /// Emits that a pane's output is complete up to here: a turn of its agent, or all of its program.
    pub fn complete(
        &mut self,
        pane: &PaneId,
        (line, chunk): (i64, &str),
        styles: Styles,
        why: Completion,
    ) {
        let (reason, exit_status) = match why {
            Completion::Turn => (CompletionReason::Turn, None),
            Completion::Inferred => (CompletionReason::Inferred, None),
            Completion::Exit(status) => (CompletionReason::Exit, status),
        };
        self.emitter.emit(TdEvent::OutputUpdate {
            execution_id: self.emitter.execution_id().clone(),
            pane: pane.clone(),
            first_line: line,
            chunk: chunk.to_owned(),
            is_complete: true,
            reason: Some(reason.into()),
            exit_status,
            styles,
        });
    }

    /// Emits the end of a turn of the agent in a pane.
    pub fn turn_completed(
        &self,
        pane: &PaneId,
        marker: &str,
        summary: &str,
        evidence: Option<TurnEvidence>,
    ) {
        self.emitter.emit(TdEvent::TurnCompleted {
            execution_id: self.emitter.execution_id().clone(),
            marker: marker.to_owned(),
            summary: summary.to_owned(),
            pane: Some(pane.clone()),
            evidence: evidence.map(Into::into),
            agent_id: None,
        });
    }
}

/// The reason why output is complete.
#[derive(Clone, Copy)]
pub(super) enum Completion {
    /// An agent's turn has ended.
    Turn,
    /// A turn has ended, as inferred from silence.
    Inferred,
    /// The program has ended, with this status if it is known.
    Exit(Option<i32>),
}
