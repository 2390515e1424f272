//! Where a pane's changes go: the events that are made of them, and how long they may wait.

use std::collections::HashMap;
use std::time::Instant;

use crate::bus::BlockingEmitter;
use crate::bus::EventEmitter;
use crate::event::{CompletionReason, PaneId, Styles, TdEvent, TurnEvidence};
use crate::observe::resume_point::ResumePoint;

/// The context of warnings about a pane's pipe. Nothing is missing because of them: faces show them
/// when they are asked for more detail.
pub(crate) const PIPE_CONTEXT: &str = "pipe";

/// Where a pane's events go, and what of them is remembered.
pub(super) struct PaneOutput<'a> {
    pub emitter: &'a EventEmitter,
    pub resume_point: &'a mut ResumePoint,
    /// For what may wait until the log has room.
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
    /// `resume_points` are where an earlier observer was.
    pub fn new(emitter: EventEmitter, resume_points: HashMap<PaneId, ResumePoint>) -> Self {
        Self {
            blocking: BlockingEmitter::new(emitter.clone()),
            emitter,
            resume_points,
        }
    }

    /// Returns the output of a pane, which waits for room in the log if it `may_wait`.
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
    /// Reports that a pane's output up to here is complete: an agent's turn, or a program's life.
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

/// Why output is complete.
#[derive(Clone, Copy)]
pub(super) enum Completion {
    /// An agent's turn has ended.
    Turn,
    /// The same, as far as silence tells.
    Inferred,
    /// The program has ended, with this status where it is known.
    Exit(Option<i32>),
}
