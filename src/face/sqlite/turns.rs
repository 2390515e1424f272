//! The turns of agents and models, from the events of a run (pure).

use crate::event::{Envelope, TdEvent};
use crate::timestamp::Timestamp;

/// A turn: what an agent or a model does for one prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    /// The id of its run.
    pub run: i64,
    pub pane: Option<String>,
    pub agent_id: Option<String>,
    /// The time of its prompt, or of the first event after the previous turn; `None` if only its end is known.
    pub began: Option<Timestamp>,
    /// The time and the type of the event that ended it.
    pub ended: Option<(Timestamp, &'static str)>,
    pub prompt: Option<String>,
    pub summary: Option<String>,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub tools: u64,
    pub failed_tools: u64,
    /// The ids of its first and its last event.
    pub first_event: i64,
    pub last_event: i64,
}

/// The open turns. There is at most one of each agent.
#[derive(Debug, Default)]
pub(super) struct Turns {
    open: Vec<Turn>,
}

impl Turns {
    /// Notes an event with its id and its run, and passes the turns that it ends to `take`.
    pub fn note(&mut self, envelope: &Envelope, run: i64, id: i64, take: &mut dyn FnMut(Turn)) {
        let event = &envelope.event;
        let Some(agent_id) = agent_of(event) else {
            return;
        };
        let pane = event.pane().map(|pane| pane.as_str());
        let is_same = |turn: &Turn| {
            turn.run == run && turn.pane.as_deref() == pane && turn.agent_id.as_deref() == agent_id
        };
        let mut known = self.open.iter().position(is_same);
        if begins(event) {
            known
                .take()
                .map(|at| self.open.remove(at))
                .into_iter()
                .for_each(&mut *take);
        }
        let ends = end_of(event);
        let at = match known {
            Some(at) => at,
            // An iteration without a prompt.
            None if ends.is_some() && !is_turn_end(event) => return,
            None => {
                self.open.push(Turn {
                    run,
                    pane: pane.map(str::to_owned),
                    agent_id: agent_id.map(str::to_owned),
                    began: ends.is_none().then_some(envelope.ts),
                    first_event: id,
                    ..Turn::default()
                });
                self.open.len() - 1
            }
        };
        if let Some(turn) = self.open.get_mut(at) {
            turn.note(event);
            turn.last_event = id;
            turn.ended = ends.map(|name| (envelope.ts, name));
        }
        if ends.is_some() {
            take(self.open.remove(at));
        }
    }

    /// Passes the turns that no event has ended.
    pub fn finish(&mut self, take: &mut dyn FnMut(Turn)) {
        self.open.drain(..).for_each(take);
    }
}

impl Turn {
    fn note(&mut self, event: &TdEvent) {
        match event {
            TdEvent::PromptSent { prompt_summary, .. } => {
                self.prompt = Some(prompt_summary.clone());
            }
            TdEvent::ResponseCompleted {
                response_summary,
                input_tokens,
                output_tokens,
                ..
            } => {
                self.input_tokens = self.input_tokens.saturating_add(*input_tokens);
                self.output_tokens = self.output_tokens.saturating_add(*output_tokens);
                self.conclude(response_summary);
            }
            TdEvent::ToolCallCompleted { success, .. } => {
                self.tools += 1;
                self.failed_tools += u64::from(!success);
            }
            TdEvent::TurnCompleted { summary, .. } => self.conclude(summary),
            TdEvent::AgentCompleted { result, .. } => self.conclude(result),
            TdEvent::AgentFailed { error, .. } => self.conclude(error),
            _ => {}
        }
    }

    /// Sets the summary, of which the last one counts.
    fn conclude(&mut self, summary: &str) {
        if !summary.is_empty() {
            self.summary = Some(summary.to_owned());
        }
    }
}

/// Returns the id of the agent whose turn an event is of, if it has one; `None` for an event of no turn.
fn agent_of(event: &TdEvent) -> Option<Option<&str>> {
    match event {
        TdEvent::PromptSent { .. }
        | TdEvent::TokenReceived { .. }
        | TdEvent::ResponseCompleted { .. }
        | TdEvent::ToolCallStarted { .. }
        | TdEvent::ToolCallCompleted { .. }
        | TdEvent::IterationCompleted { .. }
        | TdEvent::LoopCompleted { .. } => Some(None),
        TdEvent::TurnCompleted { .. }
        | TdEvent::AgentRegistered { .. }
        | TdEvent::AgentCompleted { .. }
        | TdEvent::AgentFailed { .. } => Some(id_of(event)),
        _ => None,
    }
}

/// Returns the id of the background agent that an event is of.
pub(super) fn id_of(event: &TdEvent) -> Option<&str> {
    match event {
        TdEvent::TurnCompleted { agent_id, .. } | TdEvent::AgentState { agent_id, .. } => {
            agent_id.as_ref().map(|id| id.as_str())
        }
        TdEvent::RowRenamed { agent_id, .. } | TdEvent::RowDismissed { agent_id, .. } => {
            agent_id.as_deref()
        }
        TdEvent::AgentRegistered { agent_id, .. }
        | TdEvent::AgentCompleted { agent_id, .. }
        | TdEvent::AgentFailed { agent_id, .. } => Some(agent_id),
        _ => None,
    }
}

/// Returns true if a turn begins with the event, and an earlier one is over.
fn begins(event: &TdEvent) -> bool {
    matches!(
        event,
        TdEvent::PromptSent { .. } | TdEvent::AgentRegistered { .. }
    )
}

/// Returns the type of an event that ends a turn.
fn end_of(event: &TdEvent) -> Option<&'static str> {
    Some(match event {
        TdEvent::TurnCompleted { .. } => "TurnCompleted",
        TdEvent::AgentCompleted { .. } => "AgentCompleted",
        TdEvent::AgentFailed { .. } => "AgentFailed",
        TdEvent::IterationCompleted { .. } => "IterationCompleted",
        TdEvent::LoopCompleted { .. } => "LoopCompleted",
        _ => return None,
    })
}

/// Returns true if the event is the end of a turn even where nothing of the turn is known.
fn is_turn_end(event: &TdEvent) -> bool {
    !matches!(
        event,
        TdEvent::IterationCompleted { .. } | TdEvent::LoopCompleted { .. }
    )
}
