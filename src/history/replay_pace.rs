//! Computes when each event of a log is due in a replay (pure).

use std::time::Duration;

use crate::timestamp::Timestamp;

/// Converts the times of recorded events to due times in a replay. Call [`due`](Self::due) for each event in
/// order.
///
/// ```
/// use std::time::Duration;
/// use td_observe::Timestamp;
/// use td_observe::history::ReplayPace;
/// let mut pace = ReplayPace::new().speed(2.0).idle_limit(Duration::from_secs(1));
/// let at = |second: i64| Timestamp::from_micros(second * 1_000_000);
/// assert_eq!(pace.due(at(100)), Duration::ZERO);
/// assert_eq!(pace.due(at(101)), Duration::from_millis(500));
/// // An hour of silence is a second, at twice the speed.
/// assert_eq!(pace.due(at(3700)), Duration::from_secs(1));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ReplayPace {
    speed: f64,
    idle_max: Option<Duration>,
    last: Option<Timestamp>,
    due: Duration,
}

impl Default for ReplayPace {
    fn default() -> Self {
        Self::new()
    }
}

impl ReplayPace {
    /// Returns a replay at the original speed, without a limit for pauses.
    pub fn new() -> Self {
        Self {
            speed: 1.0,
            idle_max: None,
            last: None,
            due: Duration::ZERO,
        }
    }

    /// Sets the speed as a factor. Ignores a value that is not a positive number.
    pub fn speed(mut self, speed: f64) -> Self {
        if speed > 0.0 {
            self.speed = speed;
        }
        self
    }

    /// Limits each pause, measured in recorded time.
    pub fn idle_limit(mut self, idle_max: Duration) -> Self {
        self.idle_max = Some(idle_max);
        self
    }

    /// Returns when an event of this time is due, measured from the start of the replay. If the clock was set
    /// back, the event is due at once, and time continues from there.
    pub fn due(&mut self, ts: Timestamp) -> Duration {
        if let Some(last) = self.last.replace(ts) {
            let micros = ts.micros().saturating_sub(last.micros());
            let waited = Duration::from_micros(u64::try_from(micros).unwrap_or(0));
            let waited = self.idle_max.map_or(waited, |max| waited.min(max));
            // Centuries, or a speed near zero, saturate.
            let waited = Duration::try_from_secs_f64(waited.as_secs_f64() / self.speed);
            self.due = self.due.saturating_add(waited.unwrap_or(Duration::MAX));
        }
        self.due
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Due times never decrease, follow the speed, and respect the limit for pauses.
        #[test]
        fn due_times_increase_and_respect_the_limit(
            times in proptest::collection::vec(any::<i64>(), 0..20),
            speed in prop_oneof![Just(1.0), 1e-300..1e300_f64, Just(f64::INFINITY), Just(f64::NAN)],
            idle_ms in proptest::option::of(0..1000_u64),
        ) {
            let mut pace = ReplayPace::new().speed(speed);
            if let Some(ms) = idle_ms {
                pace = pace.idle_limit(Duration::from_millis(ms));
            }
            let mut last = Duration::ZERO;
            for ts in times {
                let due = pace.due(Timestamp::from_micros(ts));
                prop_assert!(due >= last);
                if let (Some(ms), true) = (idle_ms, speed == 1.0) {
                    prop_assert!(due - last <= Duration::from_millis(ms));
                }
                last = due;
            }
        }
    }

    #[test]
    fn a_clock_that_was_set_back_costs_no_time() {
        let mut pace = ReplayPace::new();
        let at = |second: i64| Timestamp::from_micros(second * 1_000_000);
        let due: Vec<u64> = [100, 101, 50, 52]
            .map(|second| pace.due(at(second)).as_secs())
            .into();
        assert_eq!(due, [0, 1, 1, 3]);
    }
}
