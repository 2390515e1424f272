//! The output of a pane observer: events and notices as values, in their order (pure).

use std::time::Instant;

use crate::event::{CompletionReason, ExecutionId, Links, PaneId, Styles, TdEvent, TurnEvidence};

/// The context of warnings about a pane's pipe. Nothing is missing because of them, so faces show them
/// only with more detail.
pub(crate) const PIPE_CONTEXT: &str = "pipe";

/// One output.
#[derive(Debug)]
pub(in crate::observe) enum PaneEmission {
    /// An event that is emitted at once.
    Event(TdEvent),
    /// Lines, or a gap between them: they may wait until the log has room.
    Lines(TdEvent),
    /// An event for live subscribers only.
    Live(TdEvent),
    /// An event that no subscriber gets, because the conversation of the pane's agent is reported in its
    /// place.
    Hidden(TdEvent),
    /// Something other than its transcript shows that the turn of the pane's agent is over.
    TurnOver,
}

/// Collects the output of one pane.
pub(in crate::observe) struct PaneOutput<'a> {
    pub execution_id: &'a ExecutionId,
    pub emissions: Vec<PaneEmission>,
    pub now: Instant,
}

/// The reason why output is complete.
#[derive(Clone, Copy)]
pub(in crate::observe) enum Completion {
    /// An agent's turn has ended.
    Turn,
    /// An agent's turn seems to have ended, because the pane is silent.
    Inferred,
    /// The program has ended, with this status if it is known.
    Exit(Option<i32>),
}

impl<'a> PaneOutput<'a> {
    /// Begins a step without any output.
    pub fn new(execution_id: &'a ExecutionId, now: Instant) -> Self {
        Self {
            execution_id,
            emissions: Vec::new(),
            now,
        }
    }

    /// Adds an event.
    pub fn emit(&mut self, event: TdEvent) {
        self.emissions.push(PaneEmission::Event(event));
    }

    /// Adds a notice for the reader of the pane's conversation.
    pub fn notify_turn_over(&mut self) {
        self.emissions.push(PaneEmission::TurnOver);
    }

    /// Adds a warning.
    pub fn warn(&mut self, context: &str, message: String) {
        self.emit(TdEvent::Warning {
            execution_id: self.execution_id.clone(),
            context: context.to_owned(),
            message,
        });
    }

    /// Adds the end of a pane's output so far: an agent's turn, or a program's life.
    pub fn complete(
        &mut self,
        pane: &PaneId,
        (first_line, chunk): (i64, &str),
        (styles, links): (Styles, Links),
        completion: Completion,
    ) {
        let (reason, exit_status) = match completion {
            Completion::Turn => (CompletionReason::Turn, None),
            Completion::Inferred => (CompletionReason::Inferred, None),
            Completion::Exit(status) => (CompletionReason::Exit, status),
        };
        self.emit(TdEvent::OutputUpdate {
            execution_id: self.execution_id.clone(),
            pane: pane.clone(),
            first_line,
            chunk: chunk.to_owned(),
            is_complete: true,
            reason: Some(reason.into()),
            exit_status,
            styles,
            links,
        });
    }

    /// Adds the end of a turn of the pane's agent.
    pub fn turn_completed(
        &mut self,
        pane: &PaneId,
        marker: &str,
        summary: &str,
        evidence: Option<TurnEvidence>,
    ) {
        self.emit(TdEvent::TurnCompleted {
            execution_id: self.execution_id.clone(),
            marker: marker.to_owned(),
            summary: summary.to_owned(),
            pane: Some(pane.clone()),
            evidence: evidence.map(Into::into),
            agent_id: None,
        });
    }
}
