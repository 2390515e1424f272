//! Where a pane's changes go: the events that are made of them, and how long they may wait.

use std::time::Instant;

use crate::bus::EventEmitter;
use crate::event::{CompletionReason, PaneId, Styles, TdEvent, TurnEvidence};
use crate::observe::resume_point::ResumePoint;
use crate::process::BlockingEmitter;
use crate::track::{Change, Throttled};

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

impl PaneOutput<'_> {
    /// Reports a change of a pane, whose text has these styles.
    pub fn change(&mut self, pane: &PaneId, paced: Throttled, styles: Styles) {
        let (change, keep) = match paced {
            Throttled::Logged(change) => (change, true),
            Throttled::Live(change) => (change, false),
        };
        let (execution_id, pane) = (self.emitter.execution_id().clone(), pane.clone());
        let event = match change {
            Change::Lines { first_line, chunk } => TdEvent::OutputUpdate {
                execution_id,
                pane,
                first_line,
                chunk,
                is_complete: false,
                reason: None,
                exit_status: None,
                styles,
            },
            Change::Revised { line, text } => TdEvent::OutputRevised {
                execution_id,
                pane,
                line,
                text,
                styles,
            },
            Change::Screen {
                width,
                height,
                cursor,
                rows,
            } => TdEvent::ScreenUpdate {
                execution_id,
                pane,
                width,
                height,
                cursor,
                rows,
            },
            Change::Gap {
                first_line,
                lost_lines,
                reason,
                evidence,
            } => TdEvent::OutputGap {
                execution_id,
                pane,
                first_line,
                lost_lines,
                reason: reason.into(),
                evidence: evidence.into(),
            },
        };
        // A closed bus means that the engine is at its end: no subscriber is left.
        match (&mut self.blocking, keep) {
            (Some(blocking), true) => blocking.emit(event),
            (None, true) => drop(self.emitter.emit(event)),
            (_, false) => drop(self.emitter.emit_live(event)),
        }
    }

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
