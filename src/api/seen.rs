//! The event numbers that a client has read, to skip events that another observer repeats (pure).

use std::collections::HashMap;

use crate::timestamp::Timestamp;

/// The most runs that are tracked. Repeated events are seconds old, and an observer has fewer open runs.
const RUNS_MAX: usize = 1024;

/// The last number and time of each tracked run.
#[derive(Debug, Default)]
pub(super) struct SeenNumbers(HashMap<String, (u64, Timestamp)>);

impl SeenNumbers {
    /// Records an event; returns false if it was read before.
    pub fn is_new(&mut self, run: &str, seq: u64, ts: Timestamp) -> bool {
        match self.0.get_mut(run) {
            // A lower number at a later time is new: after a crash, numbers are assigned again.
            Some((last, at)) if seq <= *last && ts <= *at => return false,
            Some(seen) => *seen = (seq, ts),
            None => {
                if self.0.len() >= RUNS_MAX {
                    self.evict_older_half();
                }
                self.0.insert(run.to_owned(), (seq, ts));
            }
        }
        true
    }

    /// Removes the half of the runs that was read longest ago. Removing single runs would need a search each
    /// time.
    fn evict_older_half(&mut self) {
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
