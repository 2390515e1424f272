//! Reports each change of an agent's state once, after it has persisted (pure).

use std::time::Duration;

use super::DetectedState;

/// Debounces the state of one pane.
///
/// ```
/// use std::time::Duration;
/// use td_observe::agent::{AgentScreen, StateRules, StateDebouncer};
/// let rules = StateRules::builtin();
/// let question = || rules.detect(&AgentScreen::of(&["Continue? [y/n]:"]));
/// let mut debouncer = StateDebouncer::new(Duration::from_secs(1));
/// assert_eq!(debouncer.update(question(), Duration::from_secs(10)), None);
/// assert!(debouncer.update(question(), Duration::from_secs(11)).is_some());
/// assert_eq!(debouncer.update(question(), Duration::from_secs(12)), None);
/// ```
#[derive(Clone, Debug)]
pub struct StateDebouncer {
    min_duration: Duration,
    reported: Option<DetectedState>,
    /// A differing state, and its start.
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

    /// Takes the state of a capture; returns a change that has persisted. A capture without a state
    /// changes nothing, but a pending state starts over.
    pub fn update(
        &mut self,
        detected: Option<DetectedState>,
        now: Duration,
    ) -> Option<DetectedState> {
        // A second dialogue is another state, as far as the screen shows its question.
        let is_same = |one: &DetectedState, two: &DetectedState| {
            let is_same_question = one.asks == two.asks || one.asks.is_none();
            one.agent == two.agent && one.state == two.state && is_same_question
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
        if now.saturating_sub(since) < self.min_duration {
            self.pending = Some((detected, since));
            return None;
        }
        self.pending = None;
        self.reported = Some(detected.clone());
        Some(detected)
    }

    /// Returns the time at which the next capture is due, so that a pending state is reported in
    /// time.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let (_, since) = self.pending.as_ref()?;
        Some(since.saturating_add(self.min_duration))
    }

    /// Returns the last reported state.
    #[must_use]
    pub fn current(&self) -> Option<&DetectedState> {
        self.reported.as_ref()
    }
}
