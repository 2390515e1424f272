//! Reports each change of an agent's state once, after the new state has persisted (pure).

use std::time::Duration;

use super::{AgentState, DetectedState};

/// The time that an idle screen must persist after a turn. opencode 1.18 shows an empty box for up
/// to 0.5 s before it draws the indicator of the next turn.
const IDLE_AFTER_DONE: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(crate) struct StateDebouncer {
    min_duration: Duration,
    reported: Option<DetectedState>,
    /// A state that differs from the reported one, and its start.
    pending: Option<(DetectedState, Duration)>,
}

impl StateDebouncer {
    /// Creates a debouncer that reports a state after `min_duration`.
    #[must_use]
    pub fn new(min_duration: Duration) -> Self {
        Self {
            min_duration,
            reported: None,
            pending: None,
        }
    }

    /// Processes the state of a capture; returns it once it has persisted and differs from the last
    /// report. A capture without a state only restarts the pending state.
    pub fn update(
        &mut self,
        detected: Option<DetectedState>,
        now: Duration,
    ) -> Option<DetectedState> {
        // Another dialogue is another state, if the screen shows its question.
        let is_same = |a: &DetectedState, b: &DetectedState| {
            let is_same_question = a.asks == b.asks || a.asks.is_none();
            a.agent == b.agent && a.state == b.state && is_same_question
        };
        let detected = match (detected, &self.reported) {
            (Some(detected), Some(reported)) if is_same(&detected, reported) => None,
            (detected, _) => detected,
        };
        let Some(detected) = detected else {
            self.pending = None;
            return None;
        };
        let since = match &self.pending {
            Some((pending, since)) if is_same(pending, &detected) => *since,
            Some(_) | None => now,
        };
        if now.saturating_sub(since) < self.duration_of(detected.state) {
            self.pending = Some((detected, since));
            return None;
        }
        self.pending = None;
        self.reported = Some(detected.clone());
        Some(detected)
    }

    /// Returns the time of the next required capture, so that a pending state is reported in time.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let (detected, since) = self.pending.as_ref()?;
        Some(since.saturating_add(self.duration_of(detected.state)))
    }

    /// Returns the time that a state must persist before it is reported.
    fn duration_of(&self, state: AgentState) -> Duration {
        let before = self.reported.as_ref().map(|reported| reported.state);
        match (before, state) {
            (Some(AgentState::Done), AgentState::Idle) => self.min_duration.max(IDLE_AFTER_DONE),
            _ => self.min_duration,
        }
    }

    /// Returns the last reported state.
    #[must_use]
    pub fn current(&self) -> Option<&DetectedState> {
        self.reported.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{AgentScreen, StateRules};
    use super::*;

    #[test]
    fn a_state_that_persists_is_reported_once() {
        let rules = StateRules::builtin();
        let question = || rules.detect(&AgentScreen::of(&["Continue? [y/n]:"]));
        let mut debouncer = StateDebouncer::new(Duration::from_secs(1));
        assert_eq!(debouncer.update(question(), Duration::from_secs(10)), None);
        assert!(
            debouncer
                .update(question(), Duration::from_secs(11))
                .is_some()
        );
        assert_eq!(debouncer.update(question(), Duration::from_secs(12)), None);
    }

    #[test]
    fn an_empty_box_after_a_turn_is_not_yet_idle() {
        let mut detected = StateRules::builtin()
            .detect(&AgentScreen::of(&["Continue? [y/n]:"]))
            .unwrap();
        let mut debouncer = StateDebouncer::new(Duration::from_millis(300));
        let mut reported = Vec::new();
        for (at, state) in [
            (0, AgentState::Done),
            (300, AgentState::Done),
            (400, AgentState::Idle),
            (900, AgentState::Idle),
            (1_000, AgentState::Working),
            (1_300, AgentState::Working),
            (1_400, AgentState::Idle),
            (1_700, AgentState::Idle),
        ] {
            detected.state = state;
            let change = debouncer.update(Some(detected.clone()), Duration::from_millis(at));
            reported.extend(change.map(|change| (at, change.state)));
        }
        let expected = [
            (300, AgentState::Done),
            (1_300, AgentState::Working),
            (1_700, AgentState::Idle),
        ];
        assert_eq!(reported, expected);
    }
}
