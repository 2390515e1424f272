//! The states of agents that end a wait: events in, a match out (pure).

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::config::WaitMatch;
use crate::event::{AgentState, PaneId, TdEvent};
use crate::process::runs_script;

/// The silence after which the present state of an agent counts again. An agent may answer a sent text so
/// fast that no change of its state is observed.
const SETTLED: Duration = Duration::from_secs(5);

/// Matches the states of panes.
#[derive(Debug)]
pub(crate) struct StateMatcher {
    wanted: Vec<AgentState>,
    /// The panes whose shells run scripts: what looks like a prompt in them is none.
    scripts: HashSet<PaneId>,
    /// The last state of each pane, and its question.
    states: HashMap<PaneId, (AgentState, String)>,
    /// A text was sent: only later events count.
    is_sent: bool,
    /// The time of the last output after the text was sent.
    shown_at: Option<Instant>,
}

impl StateMatcher {
    /// Creates a matcher that knows no pane.
    pub fn new(wanted: Vec<AgentState>) -> Self {
        Self {
            wanted,
            scripts: HashSet::new(),
            states: HashMap::new(),
            is_sent: false,
            shown_at: None,
        }
    }

    /// Records that a text is sent now.
    pub fn sent(&mut self) {
        self.is_sent = true;
    }

    /// Records the state of a pane; `None` if it has none.
    pub fn note_state(&mut self, pane: &PaneId, state: Option<AgentState>, asks: &str) {
        match state {
            Some(state) => self.states.insert(pane.clone(), (state, asks.to_owned())),
            None => self.states.remove(pane),
        };
    }

    /// Returns true if an event may change the state of a pane.
    pub fn concerns(event: &TdEvent) -> bool {
        matches!(
            event,
            TdEvent::AgentState { .. }
                | TdEvent::ExecutionStarted { .. }
                | TdEvent::ExecutionCompleted { .. }
        )
    }

    /// Records the state in an event, and returns its pane if the event has both.
    pub fn note<'a>(&mut self, event: &'a TdEvent) -> Option<&'a PaneId> {
        match event {
            TdEvent::ExecutionStarted {
                pane: Some(pane),
                command,
                ..
            } if runs_script(command) => {
                self.scripts.insert(pane.clone());
            }
            TdEvent::ExecutionCompleted {
                pane: Some(pane), ..
            } => {
                // A script that began before the wait has hidden the prompt of its shell.
                let was_hidden = !self.states.contains_key(pane);
                if was_hidden {
                    self.note_state(pane, Some(AgentState::Idle), "");
                }
                if self.scripts.remove(pane) || was_hidden {
                    return Some(pane);
                }
            }
            _ => {}
        }
        let TdEvent::AgentState {
            pane: Some(pane),
            state,
            asks,
            agent,
            ..
        } = event
        else {
            return None;
        };
        let is_agents = agent.as_deref().is_some_and(|agent| agent != "shell");
        if is_agents || *state == AgentState::Suspended {
            // The script runs an agent, whose prompt is one, or is stopped, and the next prompt is the shell's.
            self.scripts.remove(pane);
        }
        let asks = asks.as_deref().map_or("", String::as_str);
        self.note_state(pane, state.known(), asks);
        Some(pane)
    }

    /// Handles an event, and returns a match.
    pub fn handle(&mut self, event: &TdEvent, now: Instant) -> Option<WaitMatch> {
        if let Some(pane) = self.note(event) {
            return self.met_in(pane);
        }
        if !self.is_sent {
            return None;
        }
        match event {
            // The turn ended before a change of the state was observed.
            TdEvent::TurnCompleted {
                pane: Some(pane), ..
            } => self.met_in(pane),
            TdEvent::OutputUpdate { .. }
            | TdEvent::OutputRevised { .. }
            | TdEvent::ScreenUpdate { .. }
            | TdEvent::TokenReceived { .. } => {
                self.shown_at = Some(now);
                None
            }
            _ => None,
        }
    }

    /// Returns the time at which the caller must call [`StateMatcher::settled`].
    pub fn settles_at(&self) -> Option<Instant> {
        self.shown_at.map(|at| at + SETTLED)
    }

    /// Handles the silence after output, and returns a match.
    pub fn settled(&mut self) -> Option<WaitMatch> {
        self.shown_at = None;
        self.met()
    }

    /// Returns a match if any pane is in a wanted state.
    pub fn met(&self) -> Option<WaitMatch> {
        self.states.keys().find_map(|pane| self.met_in(pane))
    }

    fn met_in(&self, pane: &PaneId) -> Option<WaitMatch> {
        let (state, asks) = self.states.get(pane)?;
        let is_script = *state == AgentState::Idle && self.scripts.contains(pane);
        let is_wanted = self.wanted.contains(state) && !is_script;
        is_wanted.then(|| WaitMatch::of_state(pane, *state, asks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> TdEvent {
        TdEvent::TokenReceived {
            execution_id: "a".into(),
            iteration: 0,
            token: "x".into(),
            pane: Some("%1".into()),
        }
    }

    #[test]
    fn the_end_of_a_script_that_began_before_the_wait_shows_the_prompt() {
        let pane = PaneId::from("%1");
        let mut matcher = StateMatcher::new(vec![AgentState::Idle]);
        // The board has no state of an agent while a script runs.
        matcher.note_state(&pane, None, "");
        assert_eq!(matcher.met(), None);
        let end = TdEvent::ExecutionCompleted {
            execution_id: "a".into(),
            exit_code: Some(0),
            signal: None,
            duration_ms: 4_000,
            pane: Some(pane.clone()),
            pid: None,
            cell: None,
        };
        let found = matcher.handle(&end, Instant::now()).unwrap();
        assert_eq!(found.pane, Some(pane));
    }

    #[test]
    fn a_script_that_is_stopped_hides_the_prompt_of_its_shell_no_longer() {
        let mut matcher = StateMatcher::new(vec![AgentState::Idle]);
        let shell = |state: AgentState| {
            let state = serde_json::json!({"type": "AgentState", "execution_id": "a", "pane": "%1",
                "agent": "shell", "state": state.as_str(), "evidence": "inferred"});
            serde_json::from_value::<TdEvent>(state).unwrap()
        };
        let script = serde_json::json!({"type": "ExecutionStarted", "execution_id": "a",
            "command": "bash build.sh", "cwd": "/", "pane": "%1"});
        let script: TdEvent = serde_json::from_value(script).unwrap();
        let now = Instant::now();
        for event in [
            script,
            shell(AgentState::Idle),
            shell(AgentState::Suspended),
        ] {
            assert_eq!(matcher.handle(&event, now), None, "{event:?}");
        }
        // It goes on in the background, or another job has run beside it.
        assert!(matcher.handle(&shell(AgentState::Idle), now).is_some());
    }

    #[test]
    fn after_a_text_the_same_state_counts_when_it_has_settled() {
        let (pane, now) = (PaneId::from("%1"), Instant::now());
        let mut matcher = StateMatcher::new(vec![AgentState::Idle]);
        matcher.note_state(&pane, Some(AgentState::Idle), "");
        assert!(matcher.met().is_some());
        assert_eq!(matcher.handle(&output(), now), None);
        assert_eq!(matcher.settles_at(), None, "no text was sent");
        matcher.sent();
        assert_eq!(matcher.handle(&output(), now), None);
        assert_eq!(matcher.settles_at(), Some(now + SETTLED));
        let found = matcher.settled().unwrap();
        assert_eq!(
            (found.pane, found.pattern.as_deref()),
            (Some(pane), Some("idle"))
        );
        assert_eq!(matcher.settles_at(), None);
        matcher.note_state(&"%1".into(), None, "");
        assert_eq!(matcher.met(), None);
    }
}
