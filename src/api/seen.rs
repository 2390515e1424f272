//! The numbers that a client has read: another observer may repeat events (pure).

use std::collections::HashMap;

use crate::timestamp::Timestamp;

/// The most runs that are remembered: repeated events are seconds old, and no observer has as many open
/// runs.
const RUNS_MAX: usize = 1024;

/// The last number and time of each of the runs that were read last.
#[derive(Debug, Default)]
pub(super) struct SeenNumbers(HashMap<String, (u64, Timestamp)>);

impl SeenNumbers {
    /// Notes an event; returns false if it was read before.
    pub fn is_new(&mut self, run: &str, seq: u64, ts: Timestamp) -> bool {
        match self.0.get_mut(run) {
            // A lower number at a later time follows a crash, after which numbers are assigned again.
            Some((last, at)) if seq <= *last && ts <= *at => return false,
            Some(seen) => *seen = (seq, ts),
            None => {
                if self.0.len() >= RUNS_MAX {
                    self.forget_half();
                }
                self.0.insert(run.to_owned(), (seq, ts));
            }
        }
        true
    }

    /// Removes the half that was read longest ago, which is cheaper than a search for the oldest each time.
    fn forget_half(&mut self) {
        let mut times: Vec<Timestamp> = self.0.values().map(|(_, ts)| *ts).collect();
        let middle = times.len() / 2;
        let middle = *times.select_nth_unstable(middle).1;
        self.0.retain(|_, (_, ts)| *ts > middle);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_number_of_runs_is_bounded_and_the_last_ones_are_known() {
        let mut seen = SeenNumbers::default();
        for run in 0..10 * RUNS_MAX {
            let ts = Timestamp::from_micros(run as i64);
            assert!(seen.is_new(&run.to_string(), 1, ts));
            assert!(!seen.is_new(&run.to_string(), 1, ts));
            assert!(seen.0.len() <= RUNS_MAX);
            let recent = run.saturating_sub(RUNS_MAX / 4);
            let ts = Timestamp::from_micros(recent as i64);
            assert!(!seen.is_new(&recent.to_string(), 1, ts), "{run}");
        }
    }

    proptest! {
        #[test]
        fn times_that_are_equal_are_bounded_as_well(micros in prop::collection::vec(0_i64..3, 0..3000)) {
            let mut seen = SeenNumbers::default();
            for (run, micros) in micros.into_iter().enumerate() {
                seen.is_new(&run.to_string(), 1, Timestamp::from_micros(micros));
                prop_assert!(seen.0.len() <= RUNS_MAX);
            }
        }
    }
}
