//! When panes are looked at: on a grid, or sooner and later as they print, within a budget (pure).
//!
//! Polling adapts to what the server has read since the last round, which costs next to nothing to
//! ask: nothing, and there is nothing to look at; a little, and a fifth of a second may pass; so
//! much that a history may run over, and the next round comes as soon as may be. Where the system
//! does not tell what was read, the rounds go by what the last one brought.

use std::time::Duration;

use crate::error::{Error, Result};

/// How long what is printed slowly may wait for a round, and how long a screen that may have been
/// rewritten in place waits to be compared (`000…`: about 200 ms).
pub(super) const UNHURRIED: Duration = Duration::from_millis(200);

/// How long a server that reads nothing may be left unasked: what is printed then is noticed so
/// much later, and a flood does not fill a history within it.
const ASLEEP: Duration = Duration::from_millis(40);

/// Least and most bytes that make a round urgent. The smallest row is one byte, a usual one dozens:
/// at four a row, a history is still far from running over.
const URGENT_BYTES: std::ops::RangeInclusive<u64> = 1024..=8192;
const BYTES_A_ROW: u64 = 4;

/// Between two ticks of a grid it is seen so many times whether the server has read something.
const GLANCES: u32 = 4;

/// The shortest time between two of them.
const GLANCE_LEAST: Duration = Duration::from_millis(10);

/// How often it is seen, between the ticks of an interval, whether the server has read something.
pub(super) fn glance(interval: Duration) -> Duration {
    (interval / GLANCES).max(GLANCE_LEAST).min(interval)
}

/// The last rounds on grids that asked the server, as far as they decide when one may come before
/// its tick.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Early {
    /// When the last began, and the one before it.
    rounds: [Option<Duration>; 2],
}

impl Early {
    /// Notes a round that began then.
    pub fn round(&mut self, began: Duration) {
        self.rounds = [Some(began), self.rounds[0]];
    }

    /// When a look comes before its tick: where something was read after a silence, there is
    /// nothing to be gained by waiting. `asked` is when the server was last asked for anything, and
    /// what it had read before. However much is printed, rounds stay an interval apart; after a
    /// while without any, two may follow each other sooner.
    pub fn due(
        &self,
        interval: Duration,
        asked: Option<(Duration, u64)>,
        bytes: Option<u64>,
    ) -> Option<Duration> {
        let (asked, then) = asked?;
        if bytes? == then {
            return None;
        }
        let [last, before] = self.rounds;
        let apart = last.map_or(Duration::ZERO, |last| last + interval);
        let two_apart = before.map_or(Duration::ZERO, |before| before + interval * 2);
        Some(apart.min(two_apart).max(asked + glance(interval)))
    }
}

/// In what rhythm panes are looked at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rhythm {
    /// Once in an interval, on one grid for all; sooner where the server reads something after it
    /// has read nothing for as long.
    Fixed(Duration),
    /// As the panes print.
    Adaptive(Adaptive),
}

impl Default for Rhythm {
    fn default() -> Self {
        Self::Adaptive(Adaptive::default())
    }
}

impl Rhythm {
    /// # Errors
    /// `is_invalid()` for times and shares that no rhythm can have.
    pub(crate) fn check(&self) -> Result<()> {
        let shortest = match self {
            Self::Fixed(interval) => *interval,
            Self::Adaptive(adaptive) => adaptive.least,
        };
        if shortest.is_zero() {
            return Err(Error::invalid("the interval must be longer than nothing"));
        }
        match self {
            Self::Adaptive(Adaptive { least, most, .. }) if least > most => Err(Error::invalid(
                format!("the shortest interval, {least:?}, is longer than the longest, {most:?}"),
            )),
            Self::Adaptive(Adaptive { share, .. }) if !(*share > 0.0 && *share <= 1.0) => {
                Err(Error::invalid(format!(
                    "{share} is no share of the server's time: more than 0, at most 1"
                )))
            }
            _ => Ok(()),
        }
    }
}

/// How far polling may adapt.
///
/// ```
/// use std::time::Duration;
/// use td_observe::tmux::Adaptive;
/// let gentle = Adaptive { share: 0.05, ..Adaptive::default() };
/// assert_eq!((gentle.least, gentle.most), (Duration::from_millis(20), Duration::from_secs(1)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptive {
    /// The shortest time between two rounds of looks, while panes print a lot; 20 ms.
    pub least: Duration,
    /// The longest, while nothing is printed; 1 s.
    pub most: Duration,
    /// How much of the server's time the rounds may take, 0 to 1; 0.2. A round that took 4 ms is
    /// followed by at least 16 ms without one.
    pub share: f64,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            least: Duration::from_millis(20),
            most: Duration::from_secs(1),
            share: 0.2,
        }
    }
}

impl Adaptive {
    fn within(&self, wait: Duration) -> Duration {
        wait.min(self.most).max(self.least)
    }

    /// How long the server is left alone after a round that took so long.
    fn rest(&self, took: Duration) -> Duration {
        // A share that means nothing has been refused; what else comes is taken for the nearest.
        let share = if self.share > 0.001 {
            self.share.min(1.0)
        } else {
            0.001
        };
        took.mul_f64(1.0 / share - 1.0)
    }
}

/// The rounds of one server, as far as they decide when the next one is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tempo {
    /// When the last round began, how long it took, and when it ended.
    began: Duration,
    took: Duration,
    ended: Duration,
    /// What the server had read before it.
    bytes: Option<u64>,
    /// How many more bytes make the next one urgent.
    urgent_bytes: u64,
    /// What the last rounds brought: how long the next may wait.
    wait: Duration,
}

/// What a round brought.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Brought {
    /// A pane showed something new.
    pub news: bool,
    /// A pane's history grew by an eighth and more of what it holds.
    pub flood: bool,
    /// The smallest history of all panes, in rows.
    pub least_history: u32,
}

impl Tempo {
    /// Notes a round.
    pub fn round(
        &mut self,
        began: Duration,
        ended: Duration,
        bytes: Option<u64>,
        brought: Brought,
    ) {
        self.wait = match brought {
            Brought { flood: true, .. } => Duration::ZERO,
            Brought { news: true, .. } => UNHURRIED,
            _ => (self.wait * 2).clamp(UNHURRIED, Duration::from_secs(3600)),
        };
        (self.began, self.ended, self.bytes) = (began, ended, bytes);
        self.took = ended.saturating_sub(began);
        let bytes = u64::from(brought.least_history) * BYTES_A_ROW;
        self.urgent_bytes = bytes.clamp(*URGENT_BYTES.start(), *URGENT_BYTES.end());
    }

    /// When the next round is due, as far as is known: the server has read `bytes` by now.
    /// `recheck` is when a screen has to be compared, or a line settles.
    pub fn due(
        &self,
        rhythm: &Adaptive,
        bytes: Option<u64>,
        recheck: Option<Duration>,
    ) -> Duration {
        let rested = self.ended + rhythm.rest(self.took);
        let after = |wait| self.began + rhythm.within(wait);
        let due = match (self.bytes, bytes) {
            _ if self.is_idle(bytes) => {
                // Without a listing nothing is asked of the server: this costs nothing.
                return recheck.map_or(after(rhythm.most), |at| at.min(after(rhythm.most)));
            }
            (Some(then), Some(now)) if now.saturating_sub(then) >= self.urgent_bytes => {
                after(Duration::ZERO)
            }
            (Some(_), Some(_)) => after(self.wait.min(UNHURRIED)),
            // The server is gone, which is worth a question.
            (Some(_), None) => after(Duration::ZERO),
            (None, _) => {
                let recheck = recheck.map_or(Duration::MAX, |at| at.max(after(UNHURRIED)));
                after(self.wait).min(recheck)
            }
        };
        due.max(rested)
    }

    /// Whether the server is known to have read nothing since the last round.
    pub fn is_idle(&self, bytes: Option<u64>) -> bool {
        self.bytes.is_some() && self.bytes == bytes
    }

    /// When to see again whether a round is due, which it may be earlier than `due` if the server
    /// reads on.
    pub fn look_again(
        &self,
        rhythm: &Adaptive,
        bytes: Option<u64>,
        (now, due): (Duration, Duration),
    ) -> Duration {
        match self.bytes {
            Some(_) if self.is_idle(bytes) => due.min(now + rhythm.within(ASLEEP)),
            Some(_) => due.min(now + rhythm.least),
            None => due,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// After a round from 1000 to 1002 ms, before which 10,000 bytes had been read.
    fn after(brought: Brought) -> Tempo {
        let mut tempo = Tempo::default();
        tempo.round(ms(1000), ms(1002), Some(10_000), brought);
        tempo
    }

    #[test]
    fn the_more_is_printed_the_sooner() {
        let rhythm = Adaptive::default();
        let tempo = after(Brought {
            news: true,
            least_history: 2000,
            ..Brought::default()
        });
        assert_eq!(tempo.due(&rhythm, Some(10_000), None), ms(2000), "nothing");
        assert_eq!(tempo.due(&rhythm, Some(10_001), None), ms(1200), "a little");
        assert_eq!(tempo.due(&rhythm, Some(17_999), None), ms(1200));
        assert_eq!(tempo.due(&rhythm, Some(18_000), None), ms(1020), "a lot");
        let small = after(Brought::default());
        assert_eq!(
            small.due(&rhythm, Some(11_024), None),
            ms(1020),
            "a small history"
        );
        let flood = after(Brought {
            flood: true,
            ..Brought::default()
        });
        assert_eq!(
            flood.due(&rhythm, Some(10_001), None),
            ms(1020),
            "a flood goes on"
        );
    }

    #[test]
    fn what_is_free_is_done_when_it_is_due() {
        let tempo = after(Brought::default());
        let due = tempo.due(&Adaptive::default(), Some(10_000), Some(ms(1100)));
        assert_eq!(due, ms(1100));
    }

    #[test]
    fn a_server_that_sleeps_is_asked_less_and_one_that_is_gone_at_once() {
        let rhythm = Adaptive::default();
        let tempo = after(Brought::default());
        let again = |bytes| tempo.look_again(&rhythm, bytes, (ms(1500), ms(2000)));
        assert_eq!(again(Some(10_000)), ms(1540));
        assert_eq!(again(Some(10_001)), ms(1520));
        assert_eq!(tempo.due(&rhythm, None, None), ms(1020), "gone");
    }

    #[test]
    fn without_a_count_of_bytes_quiet_rounds_come_later_and_later() {
        let rhythm = Adaptive::default();
        let mut tempo = Tempo::default();
        let mut now = ms(0);
        let mut waits = Vec::new();
        for news in [true, false, false, false, false, true] {
            tempo.round(
                now,
                now,
                None,
                Brought {
                    news,
                    ..Brought::default()
                },
            );
            let due = tempo.due(&rhythm, None, None);
            waits.push((due - now).as_millis());
            now = due;
        }
        assert_eq!(waits, [200, 400, 800, 1000, 1000, 200]);
    }

    proptest! {
        /// Whatever happens, the server is left alone for its share of the time.
        #[test]
        fn the_budget_holds(
            took in 0_u64..2000,
            read in 0_u64..20_000,
            share in 0.01_f64..1.0,
            flood: bool,
        ) {
            let rhythm = Adaptive { share, ..Adaptive::default() };
            let mut tempo = Tempo::default();
            let ended = ms(1000 + took);
            tempo.round(ms(1000), ended, Some(0), Brought { flood, ..Brought::default() });
            let due = tempo.due(&rhythm, Some(read + 1), Some(ms(1000)));
            let all = (due - ms(1000)).as_secs_f64();
            prop_assert!(ms(took).as_secs_f64() <= share * all + 1e-6);
            prop_assert!(due >= ms(1020));
        }
    }

    #[test]
    fn a_silence_ends_before_the_tick_and_rounds_stay_apart() {
        let (interval, asked) = (ms(40), Some((ms(200), 7)));
        let mut early = Early::default();
        for (round, due) in [
            (None, 210),
            (Some(80), 210),
            (Some(200), 210),
            (Some(210), 250),
        ] {
            if let Some(round) = round {
                early.round(ms(round));
            }
            assert_eq!(
                early.due(interval, asked, Some(8)),
                Some(ms(due)),
                "{round:?}"
            );
        }
        assert_eq!(
            early.due(interval, asked, Some(7)),
            None,
            "nothing was read"
        );
        assert_eq!(early.due(interval, asked, None), None);
        assert_eq!(early.due(interval, None, Some(8)), None);
        // While much is printed, the grid stays as it is.
        early.round(ms(240));
        early.round(ms(280));
        let due = early.due(interval, Some((ms(280), 8)), Some(9));
        assert_eq!(due, Some(ms(320)));
        for (interval, often) in [(50, 12), (200, 50), (20, 10), (4, 4)] {
            assert_eq!(glance(ms(interval)).as_millis(), often);
        }
    }

    #[test]
    fn a_share_that_means_nothing_does_no_harm() {
        for share in [f64::NAN, -1.0, 0.0, 7.0, f64::INFINITY] {
            let rhythm = Adaptive {
                share,
                ..Adaptive::default()
            };
            let rest = rhythm.rest(ms(2));
            assert!(rest <= ms(2000), "{share} {rest:?}");
        }
    }
}
