//! Splits captures into batches that are short enough for the server to stay responsive (pure).

use std::ops::Range;

use super::capture::CaptureSpec;

/// The longest time for which one batch may occupy the server: less than a person notices while typing, and
/// enough for many panes to share the cost of starting tmux (1 to 4 ms).
const BATCH_US_MAX: u64 = 10_000;

/// The fixed cost of a capture in the server: one command with formats (0.1 ms) and two captures (0.05 ms
/// each). Measured with tmux 3.3a and 100 sessions on a busy machine.
const PANE_US: u64 = 200;

/// The cost of a row of 80 columns, captured twice: measured as 1.1 µs on the same busy machine, and 0.7 µs
/// on an idle one.
const ROW_NS: u64 = 1000;

/// The fixed cost of a query, and the cost per session, each of which the server visits more than once.
/// Measured as 0.3 ms, 0.9 ms and 3.5 ms with 10, 100 and 400 sessions.
const QUERY_US: u64 = 300;
const SESSION_US: u64 = 8;

/// The cost of one pane's numbers, and of a screen of typical size.
const NUMBERS_US: u64 = 25;
const SCREEN_US: u64 = 40;

/// Returns the maximum number of screens in a probe that also queries the numbers of `panes` panes, and in a
/// probe that does not.
pub(super) fn screens_max(panes: usize) -> (usize, usize) {
    let panes = panes as u64;
    let query_us = QUERY_US + panes * SESSION_US;
    let fitting = |spent_us| BATCH_US_MAX.saturating_sub(spent_us) / SCREEN_US;
    let beside = fitting(query_us + panes * NUMBERS_US);
    // Each probe must make progress, whatever the number of sessions.
    (beside as usize, fitting(query_us).max(25) as usize)
}

/// The cost of a capture in the server, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct CaptureCost(u64);

impl CaptureCost {
    /// Estimates the cost for a pane with `height` rows.
    pub(super) fn of(spec: &CaptureSpec, height: u32) -> Self {
        let screen = u64::from(height) * if spec.saved { 2 } else { 1 };
        Self(PANE_US + (u64::from(spec.depth) + screen) * ROW_NS / 1000)
    }
}

/// Splits captures into batches of consecutive captures. A capture above the limit is a batch of its own.
pub(super) fn batches(costs: &[CaptureCost]) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut spent_us = 0;
    for (at, CaptureCost(us)) in costs.iter().enumerate() {
        match batches.last_mut() {
            Some(batch) if spent_us + us <= BATCH_US_MAX => {
                batch.end = at + 1;
                spent_us += us;
            }
            _ => {
                batches.push(at..at + 1);
                spent_us = *us;
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_hundred_small_captures_are_three_batches() {
        let spec = CaptureSpec {
            pane: "%1".into(),
            depth: 50,
            saved: false,
            resync: None,
        };
        assert_eq!(batches(&[CaptureCost::of(&spec, 24); 100]).len(), 3);
        let deep = CaptureSpec {
            depth: 100_000,
            ..spec.clone()
        };
        let costs = [
            CaptureCost::of(&spec, 24),
            CaptureCost::of(&deep, 24),
            CaptureCost::of(&spec, 24),
        ];
        assert_eq!(batches(&costs), [0..1, 1..2, 2..3]);
        assert!(batches(&[]).is_empty());
    }

    #[test]
    fn more_panes_leave_room_for_fewer_screens() {
        assert_eq!(screens_max(0), (242, 242));
        assert_eq!(screens_max(100), (160, 222));
        assert_eq!(screens_max(400), (0, 162));
        assert_eq!(screens_max(10_000), (0, 25));
    }

    proptest! {
        #[test]
        fn all_captures_are_in_a_batch_and_no_batch_is_long(costs in prop::collection::vec(0_u64..20_000, 0..200)) {
            let costs: Vec<CaptureCost> = costs.into_iter().map(CaptureCost).collect();
            let batches = batches(&costs);
            let all: Vec<usize> = batches.iter().cloned().flatten().collect();
            prop_assert_eq!(all, (0..costs.len()).collect::<Vec<_>>());
            for batch in batches {
                let us: u64 = costs[batch.clone()].iter().map(|cost| cost.0).sum();
                prop_assert!(us <= BATCH_US_MAX || batch.len() == 1);
            }
        }
    }
}
