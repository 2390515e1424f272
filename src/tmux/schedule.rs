//! The schedule on which the gateway polls for a requester: fixed, or adapted to the output (pure).

use std::time::Duration;

use crate::error::{Error, Result};

/// The longest interval. Longer ones could overflow when they are added to a time.
const INTERVAL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// The schedule of a poller.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PollSchedule {
    /// One poll per interval, on a grid that all pollers share. A poll comes earlier if the server reads
    /// something after an interval without input.
    Fixed(Duration),
    /// Polls that follow the panes' output.
    Adaptive(AdaptivePolling),
}

impl Default for PollSchedule {
    fn default() -> Self {
        Self::Adaptive(AdaptivePolling::default())
    }
}

impl PollSchedule {
    /// Rejects a schedule that cannot be followed.
    ///
    /// # Errors
    /// `is_invalid_input()` for intervals of zero length, beyond a year or in the wrong order, and for a share
    /// outside 0 to 1.
    pub(crate) fn check(&self) -> Result<()> {
        let (shortest, longest) = match self {
            Self::Fixed(interval) => (*interval, *interval),
            Self::Adaptive(adaptive) => (adaptive.interval_min, adaptive.interval_max),
        };
        if shortest.is_zero() {
            return Err(Error::invalid("the interval must be longer than zero"));
        }
        if longest > INTERVAL_MAX {
            return Err(Error::invalid("the interval must be at most a year"));
        }
        let Self::Adaptive(AdaptivePolling {
            interval_min,
            interval_max,
            server_share,
        }) = self
        else {
            return Ok(());
        };
        if interval_min > interval_max {
            return Err(Error::invalid(format!(
                "the shortest interval, {interval_min:?}, is longer than the longest, \
                 {interval_max:?}"
            )));
        }
        if !(*server_share > 0.0 && *server_share <= 1.0) {
            return Err(Error::invalid(format!(
                "{server_share} is not a share of the server's time: it must be more than 0 and at \
                 most 1"
            )));
        }
        Ok(())
    }
}

/// The limits of adaptive polling.
///
/// ```
/// use std::time::Duration;
/// use td_observe::tmux::AdaptivePolling;
/// let gentle = AdaptivePolling { server_share: 0.05, ..AdaptivePolling::default() };
/// assert_eq!(gentle.interval_min, Duration::from_millis(20));
/// assert_eq!(gentle.interval_max, Duration::from_secs(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptivePolling {
    /// The shortest time between two polls, used while panes print a lot. Defaults to 20 ms.
    pub interval_min: Duration,
    /// The longest time between two polls, used while nothing is printed. Defaults to 1 s.
    pub interval_max: Duration,
    /// The share of the server's time that polls may take, from 0 to 1. Defaults to 0.2: after a poll of 4
    /// ms, at least 16 ms without a poll follow.
    pub server_share: f64,
}

impl Default for AdaptivePolling {
    fn default() -> Self {
        Self {
            interval_min: Duration::from_millis(20),
            interval_max: Duration::from_secs(1),
            server_share: 0.2,
        }
    }
}

impl AdaptivePolling {
    /// Limits the time between two polls to the minimum and maximum.
    pub(super) fn limit(&self, wait: Duration) -> Duration {
        wait.min(self.interval_max).max(self.interval_min)
    }

    /// Returns the minimum pause after a poll that took `duration`.
    pub(super) fn rest(&self, duration: Duration) -> Duration {
        // `check` rejects shares out of range. The nearest valid share keeps the arithmetic finite.
        let share = if self.server_share > 0.001 {
            self.server_share.min(1.0)
        } else {
            0.001
        };
        duration.mul_f64(1.0 / share - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_would_overflow_is_rejected() {
        let adaptive = AdaptivePolling {
            interval_max: Duration::MAX,
            ..AdaptivePolling::default()
        };
        for schedule in [
            PollSchedule::Adaptive(adaptive),
            PollSchedule::Fixed(Duration::MAX),
            PollSchedule::Fixed(Duration::ZERO),
        ] {
            assert!(schedule.check().unwrap_err().is_invalid_input());
        }
        assert!(PollSchedule::Fixed(INTERVAL_MAX).check().is_ok());
    }

    #[test]
    fn an_invalid_share_keeps_the_rest_finite() {
        for server_share in [f64::NAN, -1.0, 0.0, 7.0, f64::INFINITY] {
            let adaptive = AdaptivePolling {
                server_share,
                ..AdaptivePolling::default()
            };
            let rest = adaptive.rest(Duration::from_millis(2));
            assert!(rest <= Duration::from_secs(2), "{server_share} {rest:?}");
        }
    }
}
