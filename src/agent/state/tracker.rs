//! Tells each change of an agent's state once, when it has stood for a while (pure).

use std::time::Duration;

use super::Judged;

/// Follows the state of one pane.
///
/// ```
/// use std::time::Duration;
/// use td_observe::agent::{Screen, StateRules, StateTracker};
/// let rules = StateRules::builtin();
/// let question = || rules.judge(&Screen::of(&["Go on? [y/n]:"]));
/// let mut tracker = StateTracker::new(Duration::from_secs(1));
/// assert_eq!(tracker.look(question(), Duration::from_secs(10)), None);
/// assert!(tracker.look(question(), Duration::from_secs(11)).is_some());
/// assert_eq!(tracker.look(question(), Duration::from_secs(12)), None);
/// ```
#[derive(Clone, Debug)]
pub struct StateTracker {
    stands: Duration,
    told: Option<Judged>,
    /// Another state, and since when.
    pending: Option<(Judged, Duration)>,
}

impl StateTracker {
    /// A state counts when it has stood for so long.
    #[must_use]
    pub fn new(stands: Duration) -> Self {
        Self {
            stands,
            told: None,
            pending: None,
        }
    }

    /// Takes in what a look said; a change, when it counts. A look that says nothing changes
    /// nothing, but what was about to count begins anew.
    pub fn look(&mut self, judged: Option<Judged>, now: Duration) -> Option<Judged> {
        // A second dialogue is another state, as far as it shows what it asks.
        let is_same = |one: &Judged, two: &Judged| {
            let asks_same = one.asks == two.asks || one.asks.is_none();
            one.agent == two.agent && one.state == two.state && asks_same
        };
        let judged = match (judged, &self.told) {
            (Some(judged), Some(told)) if is_same(&judged, told) => None,
            (judged, _) => judged,
        };
        let Some(judged) = judged else {
            self.pending = None;
            return None;
        };
        let since = match &self.pending {
            Some((pending, since)) if is_same(pending, &judged) => *since,
            Some(_) | None => now,
        };
        if now.saturating_sub(since) < self.stands {
            self.pending = Some((judged, since));
            return None;
        }
        self.pending = None;
        self.told = Some(judged.clone());
        Some(judged)
    }

    /// When a look should come, so that what is about to count is told in time.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let (_, since) = self.pending.as_ref()?;
        Some(since.saturating_add(self.stands))
    }

    /// What was told last.
    #[must_use]
    pub fn current(&self) -> Option<&Judged> {
        self.told.as_ref()
    }
}
