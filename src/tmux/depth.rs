//! The depth of a capture: the growth of the history plus a margin to find the position (pure).

use super::capture::depth_max;
use super::digest::CaptureDigest;
use super::state::PaneState;

/// The number of history rows in the first capture of a pane: the end of the baseline, enough to show a few
/// screens and to find the position in the history of an earlier run.
pub const BASELINE_ROWS: u32 = 200;

/// The number of rows by which a history may grow between the listing and the capture. A flood prints at most
/// about 3,000 rows per millisecond, and the two are a few milliseconds apart, or some tens on a busy
/// machine.
const GROWTH_MAX: u32 = 100_000;

/// The rows to capture in addition to the growth of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Margin {
    /// A number of rows.
    Rows(u32),
    /// The whole history, including its growth until the capture.
    All,
}

/// Returns the number of rows of the history to capture.
pub(super) fn depth(known: Option<&CaptureDigest>, now: &PaneState, margin: Margin) -> u32 {
    let all = now.history_size;
    let depth = match (margin, known) {
        // Includes output that is printed before the capture.
        (Margin::All, _) => {
            let room = now.history_limit.saturating_sub(all);
            return all
                .saturating_add(room.min(GROWTH_MAX))
                .min(depth_max(now.width));
        }
        (Margin::Rows(rows), None) => BASELINE_ROWS.max(rows),
        (Margin::Rows(rows), Some(known)) => match growth(known, now) {
            Some(growth) => growth.saturating_add(rows),
            None => all,
        },
    };
    depth.min(all).min(depth_max(now.width))
}

/// Returns the growth of the history; `None` if it is unknown. For a full history, returns the least possible
/// growth: the true growth may be larger by any multiple of the step in which tmux trims.
fn growth(known: &CaptureDigest, now: &PaneState) -> Option<u32> {
    let known = &known.numbers;
    // Another width wraps lines elsewhere, and another program may have cleared everything. With a lower
    // limit, tmux has dropped an unknown number of rows.
    if known.width != now.width || known.pid != now.pid || known.history_limit > now.history_limit {
        return None;
    }
    if let Some(growth) = now.history_size.checked_sub(known.history_size) {
        return Some(growth);
    }
    if now.may_be_trimmed() {
        // tmux has trimmed the history. The sizes are below 2^32, so their difference fits.
        let grown = i64::from(now.history_size) - i64::from(known.history_size);
        return u32::try_from(grown.rem_euclid(i64::from(now.trim_step()))).ok();
    }
    // The history was cleared.
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::state::tests::state;
    use super::*;
    use crate::track::PaneNumbers;

    fn at(history_size: u32) -> PaneState {
        PaneState {
            numbers: PaneNumbers {
                history_size,
                ..state(1, (1, "a"), (1, 0, "w"), 0).numbers
            },
            ..state(1, (1, "a"), (1, 0, "w"), 0)
        }
    }

    fn with(change: impl FnOnce(&mut PaneNumbers)) -> CaptureDigest {
        let mut digest = CaptureDigest::default();
        (digest.numbers.width, digest.numbers.pid) = (80, 1);
        change(&mut digest.numbers);
        digest
    }

    fn known_at(history_size: u32) -> CaptureDigest {
        with(|numbers| numbers.history_size = history_size)
    }

    #[test]
    fn the_depth_is_the_growth_and_a_margin() {
        let rows = Margin::Rows(50);
        for (before, now, want) in [
            (100, 100, 50),
            (100, 130, 80),
            (0, 20, 20),
            // The limit is 2000, trimmed by 200: the history may have been trimmed between 1801 and 2000
            // rows.
            (1990, 1810, 70),
            (2000, 1801, 51),
            (1990, 1800, 1800),
            (1990, 3, 3),
        ] {
            assert_eq!(
                depth(Some(&known_at(before)), &at(now), rows),
                want,
                "{before} {now}"
            );
        }
        assert_eq!(depth(None, &at(1000), rows), BASELINE_ROWS);
        assert_eq!(depth(None, &at(10), rows), 10);
        assert_eq!(depth(None, &at(1000), Margin::Rows(700)), 700);
        assert_eq!(depth(Some(&known_at(900)), &at(1000), Margin::All), 2000);
        let narrower = with(|numbers| (numbers.history_size, numbers.width) = (1000, 79));
        assert_eq!(depth(Some(&narrower), &at(1000), rows), 1000);
        let respawned = with(|numbers| (numbers.history_size, numbers.pid) = (1000, 2));
        assert_eq!(depth(Some(&respawned), &at(1000), rows), 1000);
    }

    proptest! {
        /// Models tmux's rule for the size of a history after `scrolled` rows in total.
        #[test]
        fn the_capture_covers_all_new_output(
            limit in 1_u32..3000, before in 0_u32..9000, more in 0_u32..300, margin in 0_u32..100,
        ) {
            let step = (limit / 10).max(1);
            let size = |scrolled: u32| if scrolled <= limit {
                scrolled
            } else {
                limit - step + 1 + (scrolled - limit - 1) % step
            };
            let more = more % step;
            let now = PaneState { numbers: PaneNumbers { history_limit: limit, ..at(size(before + more)).numbers }, ..at(size(before + more)) };
            let deep = depth(Some(&known_at(size(before))), &now, Margin::Rows(margin));
            prop_assert!(deep >= (more + margin).min(now.history_size), "{deep}");
        }

        #[test]
        fn the_depth_never_exceeds_the_history(before in 0_u32.., now in 0_u32.., margin in 0_u32..) {
            let now = at(now);
            let deep = depth(Some(&known_at(before)), &now, Margin::Rows(margin));
            prop_assert!(deep <= now.history_size && deep <= super::super::capture::CAPTURE_ROWS_MAX);
        }
    }
}
