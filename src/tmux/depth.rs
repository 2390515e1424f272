//! How deep a look must go: what the history has grown by, and a margin to recognise the place (pure).

use super::capture::depth_max;
use super::seen::Seen;
use super::state::PaneState;

/// How much of the history the first look at a pane takes: the last lines of the baseline, enough
/// for a few screens to show and to find the place in a log of an earlier run.
pub const BASELINE_ROWS: u32 = 200;

/// By how many rows a history may grow between the listing and the look: a flood prints some
/// 3,000 rows a millisecond at most, and the two are a few milliseconds apart, on a busy machine some
/// tens.
const GROWTH_MAX: u32 = 100_000;

/// How many rows more than the growth of the history a look takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Margin {
    /// So many.
    Rows(u32),
    /// All that there is, and what comes until the look is taken.
    All,
}

/// How many rows of the history to take.
pub(super) fn depth(seen: Option<&Seen>, now: &PaneState, margin: Margin) -> u32 {
    let all = now.history_size;
    let depth = match (margin, seen) {
        // What is printed until the look is taken is wanted, too.
        (Margin::All, _) => {
            let room = now.history_limit.saturating_sub(all);
            return all
                .saturating_add(room.min(GROWTH_MAX))
                .min(depth_max(now.width));
        }
        (Margin::Rows(rows), None) => BASELINE_ROWS.max(rows),
        (Margin::Rows(rows), Some(seen)) => match growth(seen, now) {
            Some(growth) => growth.saturating_add(rows),
            None => all,
        },
    };
    depth.min(all).min(depth_max(now.width))
}

/// By how much the history has grown; `None` when that cannot be told. In a full history it is the
/// least that it can be: any multiple of the step in which tmux trims may be missing in it.
fn growth(seen: &Seen, now: &PaneState) -> Option<u32> {
    // Another width breaks the lines elsewhere; another program may have cleared everything.
    // With a lower limit, rows were dropped that no arithmetic counts.
    if seen.width != now.width || seen.pid != now.pid || seen.history_limit > now.history_limit {
        return None;
    }
    if let Some(growth) = now.history_size.checked_sub(seen.history_size) {
        return Some(growth);
    }
    let step = (now.history_limit / 10).max(1);
    if now.history_size > now.history_limit.saturating_sub(step) {
        // It was trimmed. The sizes are below 2^32, so their difference fits.
        let grown = i64::from(now.history_size) - i64::from(seen.history_size);
        return u32::try_from(grown.rem_euclid(i64::from(step))).ok();
    }
    // It was cleared.
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::state::tests::state;
    use super::*;

    fn at(history_size: u32) -> PaneState {
        PaneState {
            history_size,
            ..state(1, (1, "a"), (1, 0, "w"), 0)
        }
    }

    fn seen_at(history_size: u32) -> Seen {
        Seen {
            width: 80,
            pid: 1,
            history_size,
            ..Seen::default()
        }
    }

    #[test]
    fn the_growth_and_a_margin() {
        let rows = Margin::Rows(50);
        for (before, now, want) in [
            (100, 100, 50),
            (100, 130, 80),
            (0, 20, 20),
            // The limit is 2000, trimmed by 200: between 1801 and 2000 it may have been trimmed.
            (1990, 1810, 70),
            (2000, 1801, 51),
            (1990, 1800, 1800),
            (1990, 3, 3),
        ] {
            assert_eq!(
                depth(Some(&seen_at(before)), &at(now), rows),
                want,
                "{before} {now}"
            );
        }
        assert_eq!(depth(None, &at(1000), rows), BASELINE_ROWS);
        assert_eq!(depth(None, &at(10), rows), 10);
        assert_eq!(depth(None, &at(1000), Margin::Rows(700)), 700);
        assert_eq!(depth(Some(&seen_at(900)), &at(1000), Margin::All), 2000);
        let narrower = Seen {
            width: 79,
            ..seen_at(1000)
        };
        assert_eq!(depth(Some(&narrower), &at(1000), rows), 1000);
        let respawned = Seen {
            pid: 2,
            ..seen_at(1000)
        };
        assert_eq!(depth(Some(&respawned), &at(1000), rows), 1000);
    }

    proptest! {
        /// tmux's rule for the size of a history after `scrolled` rows in all.
        #[test]
        fn what_was_printed_is_within_the_look(
            limit in 1_u32..3000, before in 0_u32..9000, more in 0_u32..300, margin in 0_u32..100,
        ) {
            let step = (limit / 10).max(1);
            let size = |scrolled: u32| if scrolled <= limit {
                scrolled
            } else {
                limit - step + 1 + (scrolled - limit - 1) % step
            };
            let more = more % step;
            let now = PaneState { history_limit: limit, ..at(size(before + more)) };
            let deep = depth(Some(&seen_at(size(before))), &now, Margin::Rows(margin));
            prop_assert!(deep >= (more + margin).min(now.history_size), "{deep}");
        }

        #[test]
        fn it_is_never_more_than_there_is(before in 0_u32.., now in 0_u32.., margin in 0_u32..) {
            let now = at(now);
            let deep = depth(Some(&seen_at(before)), &now, Margin::Rows(margin));
            prop_assert!(deep <= now.history_size && deep <= super::super::capture::MAX_ROWS);
        }
    }
}
