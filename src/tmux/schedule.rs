//! The schedule on which the gateway polls for a requester: on a grid, or adapted to the output (pure).

use std::time::Duration;

use crate::error::{Error, Result};

/// The longest interval. Longer ones could overflow when they are added to a time.
const INTERVAL_MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// The schedule of a poller.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PollSchedule {
    /// One poll per interval, on a grid that all pollers share.
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
    /// The share of the server's time that polls may take, from 0 to 1. Defaults to 0.2: after polls that took the
    /// server 4 ms, at least 16 ms without a poll follow.
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

/// The longest wait of slow output for a round. People notice delays of more than about 200 ms.
const UNHURRIED: Duration = Duration::from_millis(200);

/// The longest time between two checks of a server that reads nothing. It bounds the delay of new output, and
/// a flood does not fill a history within it.
const IDLE_CHECK: Duration = Duration::from_millis(40);

/// The adaptive rounds of one server, within a budget.
///
/// They follow the number of bytes that the server has read since the last round, which costs next to
/// nothing to query. Without new bytes, no round is due. With a few, a round may wait 200 ms. If the
/// number is large enough to overflow a history, the next round comes as soon as possible. If the system
/// does not report the number, the results of the last rounds determine the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AdaptiveRounds {
    last: Round,
    /// The number of further bytes that makes the next round urgent.
    urgent_bytes: u64,
    /// The longest wait for the next round, given the results of the last rounds.
    wait: Duration,
}

/// One round of polls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    pub began: Duration,
    pub ended: Duration,
    /// The server's time that it took.
    pub server_time: Duration,
    /// The number of bytes that the server had read before it.
    pub server_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundResult {
    /// True if a pane has changed.
    pub has_news: bool,
    /// True if a pane's history grew by an eighth of its limit or more.
    pub is_flood: bool,
    /// The smallest history limit of all panes, in rows.
    pub history_limit_min: u32,
}

impl AdaptiveRounds {
    /// Records a round.
    pub fn record(&mut self, round: Round, result: RoundResult) {
        self.last = round;
        self.wait = match result {
            RoundResult { is_flood: true, .. } => Duration::ZERO,
            RoundResult { has_news: true, .. } => UNHURRIED,
            _ => (self.wait * 2).clamp(UNHURRIED, INTERVAL_MAX),
        };
        // The smallest row takes one byte, and a typical one dozens; at four bytes per row, a history is still
        // far from overflowing.
        self.urgent_bytes = (u64::from(result.history_limit_min) * 4).clamp(1024, 8192);
    }

    /// Returns when the next round is due, given the number of bytes that the server has read by now. At
    /// `recheck`, a pane must be captured again.
    pub fn due(
        &self,
        polling: &AdaptivePolling,
        server_bytes: Option<u64>,
        recheck: Option<Duration>,
    ) -> Duration {
        let rested = self.last.ended + polling.rest(self.last.server_time);
        let after = |wait| self.last.began + polling.limit(wait);
        let due = match (self.last.server_bytes, server_bytes) {
            _ if self.is_idle(server_bytes) => {
                // The last listing still holds, so the round costs the server nothing.
                let latest = after(polling.interval_max);
                return recheck.map_or(latest, |at| at.min(latest));
            }
            (Some(then), Some(now)) if now.saturating_sub(then) >= self.urgent_bytes => {
                after(Duration::ZERO)
            }
            (Some(_), Some(_)) => after(self.wait.min(UNHURRIED)),
            // The server may have ended, which is checked at once.
            (Some(_), None) => after(Duration::ZERO),
            (None, _) => {
                let recheck = recheck.map_or(Duration::MAX, |at| at.max(after(UNHURRIED)));
                after(self.wait).min(recheck)
            }
        };
        due.max(rested)
    }

    /// Returns true if the server is known to have read nothing since the last round.
    pub fn is_idle(&self, server_bytes: Option<u64>) -> bool {
        self.last.server_bytes.is_some() && self.last.server_bytes == server_bytes
    }

    /// Returns when to check again if a round is due, because further input may make it due earlier.
    pub fn next_check(
        &self,
        polling: &AdaptivePolling,
        server_bytes: Option<u64>,
        (now, due): (Duration, Duration),
    ) -> Duration {
        match self.last.server_bytes {
            Some(_) if self.is_idle(server_bytes) => due.min(now + polling.limit(IDLE_CHECK)),
            Some(_) => due.min(now + polling.interval_min),
            None => due,
        }
    }
}

/// Returns the first tick after a time, on the grid of multiples of `interval`.
pub(super) fn next_tick(after: Duration, interval: Duration) -> Duration {
    // A zero interval would never advance.
    let interval_ns = interval.as_nanos().max(1);
    let left_ns = interval_ns - after.as_nanos() % interval_ns;
    // 64 bits of nanoseconds cover 584 years.
    after + Duration::from_nanos(u64::try_from(left_ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Returns the rounds after one from 1000 to 1002 ms, before which 10,000 bytes had been read.
    fn after(result: RoundResult) -> AdaptiveRounds {
        let mut rounds = AdaptiveRounds::default();
        rounds.record(round(ms(1000), ms(1002), Some(10_000)), result);
        rounds
    }

    /// Returns a round all of whose time is the server's.
    fn round(began: Duration, ended: Duration, server_bytes: Option<u64>) -> Round {
        Round {
            began,
            ended,
            server_time: ended - began,
            server_bytes,
        }
    }

    #[test]
    fn a_server_that_waits_for_a_processor_is_polled_as_often_as_another() {
        let mut rounds = AdaptiveRounds::default();
        let starved = Round {
            server_time: ms(10),
            ..round(ms(1000), ms(9000), Some(0))
        };
        rounds.record(starved, RoundResult::default());
        let due = rounds.due(&AdaptivePolling::default(), Some(100_000), None);
        assert_eq!(due, ms(9040));
    }

    #[test]
    fn more_output_means_an_earlier_round() {
        let polling = AdaptivePolling::default();
        let rounds = after(RoundResult {
            has_news: true,
            history_limit_min: 2000,
            ..RoundResult::default()
        });
        assert_eq!(
            rounds.due(&polling, Some(10_000), None),
            ms(2000),
            "nothing"
        );
        assert_eq!(
            rounds.due(&polling, Some(10_001), None),
            ms(1200),
            "a little"
        );
        assert_eq!(rounds.due(&polling, Some(17_999), None), ms(1200));
        assert_eq!(rounds.due(&polling, Some(18_000), None), ms(1020), "a lot");
        let small = after(RoundResult::default());
        assert_eq!(
            small.due(&polling, Some(11_024), None),
            ms(1020),
            "a small history"
        );
        let flood = after(RoundResult {
            is_flood: true,
            ..RoundResult::default()
        });
        assert_eq!(
            flood.due(&polling, Some(10_001), None),
            ms(1020),
            "a flood continues"
        );
    }

    #[test]
    fn a_recheck_of_an_idle_server_is_not_delayed() {
        let rounds = after(RoundResult::default());
        let due = rounds.due(&AdaptivePolling::default(), Some(10_000), Some(ms(1100)));
        assert_eq!(due, ms(1100));
    }

    #[test]
    fn an_idle_server_is_checked_less_often_and_a_gone_one_at_once() {
        let polling = AdaptivePolling::default();
        let rounds = after(RoundResult::default());
        let again = |bytes| rounds.next_check(&polling, bytes, (ms(1500), ms(2000)));
        assert_eq!(again(Some(10_000)), ms(1540));
        assert_eq!(again(Some(10_001)), ms(1520));
        assert_eq!(rounds.due(&polling, None, None), ms(1020), "gone");
    }

    #[test]
    fn without_a_byte_count_quiet_rounds_come_later_and_later() {
        let polling = AdaptivePolling::default();
        let mut rounds = AdaptiveRounds::default();
        let mut now = ms(0);
        let mut waits = Vec::new();
        for has_news in [true, false, false, false, false, true] {
            rounds.record(
                round(now, now, None),
                RoundResult {
                    has_news,
                    ..RoundResult::default()
                },
            );
            let due = rounds.due(&polling, None, None);
            waits.push((due - now).as_millis());
            now = due;
        }
        assert_eq!(waits, [200, 400, 800, 1000, 1000, 200]);
    }

    proptest! {
        /// The server always gets its share of time without polls.
        #[test]
        fn the_budget_holds(
            took in 0_u64..2000,
            read in 0_u64..20_000,
            server_share in 0.01_f64..1.0,
            is_flood: bool,
        ) {
            let polling = AdaptivePolling { server_share, ..AdaptivePolling::default() };
            let mut rounds = AdaptiveRounds::default();
            let ended = ms(1000 + took);
            rounds.record(round(ms(1000), ended, Some(0)), RoundResult { is_flood, ..RoundResult::default() });
            let due = rounds.due(&polling, Some(read + 1), Some(ms(1000)));
            let all = (due - ms(1000)).as_secs_f64();
            prop_assert!(ms(took).as_secs_f64() <= server_share * all + 1e-6);
            prop_assert!(due >= ms(1020));
        }
    }

    proptest! {
        #[test]
        fn a_tick_is_on_the_grid_and_at_most_one_interval_ahead(after in 0_u64..1 << 50, interval in 1_u64..1 << 40) {
            let (after, interval) = (Duration::from_nanos(after), Duration::from_nanos(interval));
            let tick = next_tick(after, interval);
            prop_assert!(tick > after && tick - after <= interval);
            prop_assert_eq!(tick.as_nanos() % interval.as_nanos(), 0);
        }
    }

    #[test]
    fn ticks_are_multiples_of_the_interval() {
        let ms = Duration::from_millis;
        assert_eq!(next_tick(ms(450), ms(200)), ms(600));
        assert_eq!(next_tick(ms(600), ms(200)), ms(800));
        assert!(next_tick(ms(1), Duration::ZERO) > ms(1));
    }
}
