//! How looks are cut into batches, so that the server is never busy with one of them for long (pure).

use std::ops::Range;

use super::capture::Shot;

/// How long one batch may keep the server from everybody else: below what a person notices while
/// typing, and long enough that the cost of starting tmux, 1 to 4 ms, is shared by many panes.
const BATCH_US_MAX: u64 = 10_000;

/// What a look costs the server, whatever its size: one command with formats, 0.1 ms, and two
/// captures, 0.05 ms each. Measured on tmux 3.3a with 100 sessions on a busy machine.
const PANE_US: u64 = 200;

/// What a row of 80 columns costs, captured twice: measured as 1.1 µs on the same busy machine,
/// 0.7 on an idle one.
const ROW_NS: u64 = 1000;

/// What a question costs the server, whatever is asked, and what each session adds, which it walks
/// more than once: measured as 0.3 ms, 0.9 ms and 3.5 ms with 10, 100 and 400 sessions.
const QUESTION_US: u64 = 300;
const SESSION_US: u64 = 8;

/// What the numbers of a pane cost, and a screen of usual size.
const NUMBERS_US: u64 = 25;
const SCREEN_US: u64 = 40;

/// How many screens a probe of so many panes may capture beside their numbers, and how many one
/// that lists none.
pub(super) fn screens_max(panes: usize) -> (usize, usize) {
    let panes = panes as u64;
    let question_us = QUESTION_US + panes * SESSION_US;
    let fitting = |spent_us| BATCH_US_MAX.saturating_sub(spent_us) / SCREEN_US;
    let beside = fitting(question_us + panes * NUMBERS_US);
    // However many sessions there are, each probe has to get on.
    (beside as usize, fitting(question_us).max(25) as usize)
}

/// A look, as far as its cost goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost(u64);

impl Cost {
    /// Of a look at a pane that is so high.
    pub(super) fn of(shot: &Shot, height: u32) -> Self {
        let screen = u64::from(height) * if shot.saved { 2 } else { 1 };
        Self(PANE_US + (u64::from(shot.depth) + screen) * ROW_NS / 1000)
    }
}

/// The batches: ranges that follow each other. A look that costs more than a batch may gets one of
/// its own.
pub(super) fn cut(costs: &[Cost]) -> Vec<Range<usize>> {
    let mut batches: Vec<Range<usize>> = Vec::new();
    let mut spent_us = 0;
    for (at, Cost(us)) in costs.iter().enumerate() {
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
    fn a_hundred_small_looks_are_three_batches() {
        let shot = Shot {
            pane: "%1".into(),
            depth: 50,
            saved: false,
            seam: None,
        };
        assert_eq!(cut(&[Cost::of(&shot, 24); 100]).len(), 3);
        let deep = Shot {
            depth: 100_000,
            ..shot.clone()
        };
        let costs = [
            Cost::of(&shot, 24),
            Cost::of(&deep, 24),
            Cost::of(&shot, 24),
        ];
        assert_eq!(cut(&costs), [0..1, 1..2, 2..3]);
        assert!(cut(&[]).is_empty());
    }

    #[test]
    fn the_more_panes_the_fewer_screens_at_once() {
        assert_eq!(screens_max(0), (242, 242));
        assert_eq!(screens_max(100), (160, 222));
        assert_eq!(screens_max(400), (0, 162));
        assert_eq!(screens_max(10_000), (0, 25));
    }

    proptest! {
        #[test]
        fn nothing_is_left_out_and_no_batch_is_long(costs in prop::collection::vec(0_u64..20_000, 0..200)) {
            let costs: Vec<Cost> = costs.into_iter().map(Cost).collect();
            let batches = cut(&costs);
            let all: Vec<usize> = batches.iter().cloned().flatten().collect();
            prop_assert_eq!(all, (0..costs.len()).collect::<Vec<_>>());
            for batch in batches {
                let us: u64 = costs[batch.clone()].iter().map(|cost| cost.0).sum();
                prop_assert!(us <= BATCH_US_MAX || batch.len() == 1);
            }
        }
    }
}
