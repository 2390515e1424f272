//! Converts the actions of a pane's agent into events of the pane's run (pure).

use super::sub_agents::SubAgentEvent;
use crate::agent::{AgentEvent, Markers};
use crate::event::{ExecutionId, PaneId, TdEvent, TurnEvidence};
use crate::text::last_bytes;

/// The bytes at the end of an agent's answer that are searched for a marker.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// Converts the actions of one agent into events.
#[derive(Debug, Default)]
pub(in crate::observe) struct AgentEventConverter {
    /// The number of prompts since the observation began.
    turn: u32,
    /// The end of the agent's answer since the last prompt.
    answer: String,
    /// The failure that was reported since the last prompt: agents retry, and fail again.
    failure: Option<String>,
    /// True if the actions are read from a screen, not from a transcript.
    is_of_screen: bool,
}

impl AgentEventConverter {
    /// Creates a converter for actions that are read from a screen.
    pub fn for_screen() -> Self {
        Self {
            is_of_screen: true,
            ..Self::default()
        }
    }

    /// Returns the event of a pane's run; `None` for actions that only matter to readers of files, and
    /// for those that were reported before.
    pub fn convert(
        &mut self,
        event: AgentEvent,
        id: &ExecutionId,
        (agent, markers): (&str, Option<&Markers>),
        of: &PaneId,
    ) -> Option<TdEvent> {
        let event = match event {
            // Interactive agents continue after an error.
            AgentEvent::AgentFailed { error, .. } => {
                if self.failure.as_ref() == Some(&error) {
                    return None;
                }
                self.failure = Some(error.clone());
                return Some(TdEvent::Error {
                    execution_id: id.clone(),
                    context: agent.to_owned(),
                    message: error,
                });
            }
            AgentEvent::AgentCompleted { .. } => return None,
            AgentEvent::Warning { message, .. } => {
                log::debug!("{of}: {agent}: {message}");
                return None;
            }
            AgentEvent::PromptSent { .. } => {
                self.turn = self.turn.saturating_add(1);
                self.failure = None;
                self.answer.clear();
                event
            }
            AgentEvent::TokenReceived { ref token } => {
                self.answer.push_str(token);
                let surplus = self.answer.len() - last_bytes(&self.answer, ANSWER_BYTES_MAX).len();
                self.answer.drain(..surplus);
                event
            }
            // The user's marker takes precedence over the agent's name for the end.
            AgentEvent::TurnCompleted { marker, summary } => {
                let found = markers.and_then(|markers| markers.last_in(&self.answer));
                let marker = found.map_or(marker, str::to_owned);
                self.answer.clear();
                AgentEvent::TurnCompleted { marker, summary }
            }
            event => event,
        };
        let evidence = match self.is_of_screen {
            true => TurnEvidence::Screen,
            false => TurnEvidence::Transcript,
        };
        let event = event.into_event(id, agent, self.turn);
        Some(in_pane(event, of, evidence))
    }
}

/// Returns the event for a sub-agent's action.
pub(super) fn of_sub_agent(event: SubAgentEvent, id: &ExecutionId, of: &PaneId) -> TdEvent {
    match event {
        SubAgentEvent::Registered { id: agent_id, file } => TdEvent::AgentRegistered {
            execution_id: id.clone(),
            agent_id,
            output_file: file,
            pane: Some(of.clone()),
        },
        SubAgentEvent::Ended { id: agent_id, how } => in_pane(
            how.into_event(id, &agent_id, 0),
            of,
            TurnEvidence::Transcript,
        ),
    }
}

fn in_pane(mut event: TdEvent, of: &PaneId, by: TurnEvidence) -> TdEvent {
    match &mut event {
        TdEvent::TurnCompleted { pane, evidence, .. } => {
            *pane = Some(of.clone());
            *evidence = Some(by.into());
        }
        TdEvent::PromptSent { pane, .. }
        | TdEvent::TokenReceived { pane, .. }
        | TdEvent::ResponseCompleted { pane, .. }
        | TdEvent::ToolCallStarted { pane, .. }
        | TdEvent::ToolCallCompleted { pane, .. }
        | TdEvent::AgentCompleted { pane, .. }
        | TdEvent::AgentFailed { pane, .. } => *pane = Some(of.clone()),
        _ => {}
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(converter: &mut AgentEventConverter, event: AgentEvent) -> Option<TdEvent> {
        let markers = Markers::default();
        let id = ExecutionId::from("x");
        converter.convert(event, &id, ("claude", Some(&markers)), &"%1".into())
    }

    fn token(token: &str) -> AgentEvent {
        AgentEvent::TokenReceived {
            token: token.into(),
        }
    }

    fn turn() -> AgentEvent {
        AgentEvent::TurnCompleted {
            marker: "end_turn".into(),
            summary: String::new(),
        }
    }

    #[test]
    fn a_turn_has_the_marker_that_its_answer_has() {
        let mut converter = AgentEventConverter::default();
        convert(&mut converter, token("It is [Output Complete] soon."));
        let marker = |event| match event {
            Some(TdEvent::TurnCompleted { marker, .. }) => marker,
            other => panic!("{other:?}"),
        };
        assert_eq!(marker(convert(&mut converter, turn())), "end_turn");
        convert(&mut converter, token(&"long ".repeat(10_000)));
        convert(&mut converter, token("\n\n[Output Complete]\n"));
        assert_eq!(marker(convert(&mut converter, turn())), "[Output Complete]");
        assert_eq!(marker(convert(&mut converter, turn())), "end_turn", "once");
    }

    #[test]
    fn a_failure_that_is_repeated_is_reported_once() {
        let mut converter = AgentEventConverter::default();
        let failed = || AgentEvent::AgentFailed {
            error: "429".into(),
            evidence: String::new(),
        };
        assert!(convert(&mut converter, failed()).is_some());
        assert!(convert(&mut converter, failed()).is_none());
        let prompt = AgentEvent::PromptSent {
            prompt_summary: "again".into(),
            token_count: 0,
        };
        convert(&mut converter, prompt);
        assert!(convert(&mut converter, failed()).is_some());
    }
}
