//! The digest of a capture: if the pane may have changed since, and how deep the next one must be (pure).

use std::time::Duration;

use super::server::OUTPUT_BYTES_MAX;
use super::state::PaneState;
use crate::track::PaneNumbers;

/// The part of a capture that a poller remembers. It is passed with the next request, to avoid a capture that
/// would show the same content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureDigest {
    /// The pane's numbers.
    pub numbers: PaneNumbers,
    /// The last second in which something was printed in the window, as tmux reported it at the capture.
    pub(super) window_activity: i64,
    /// The title, in which agents show their states.
    pub(super) title: String,
    /// The last time at which the pane certainly had this content: the time of the capture or of a
    /// confirmation.
    pub(super) freshness: Freshness,
}

/// A time at which the content of a pane is certain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    /// The time since the start of the gateway.
    pub at: Duration,
    /// The second, since 1970, in which the server was queried. By the server's clock if known, because this
    /// process's clock may be set in between.
    pub second: i64,
    /// The number of bytes that the server had read just before.
    pub server_bytes: Option<u64>,
}

impl CaptureDigest {
    pub(super) fn new(state: &PaneState, freshness: Freshness) -> Self {
        let mut digest = Self {
            freshness,
            ..Self::default()
        };
        digest.describe(state);
        digest
    }

    /// Adopts the numbers of the state.
    pub(super) fn describe(&mut self, state: &PaneState) {
        self.numbers = state.numbers;
        self.window_activity = state.window_activity;
        self.title.clone_from(&state.title);
    }

    /// Returns true if no output can have followed the capture unnoticed. tmux dates activity in whole
    /// seconds, so output in the second of the capture may have come after it. One more second covers a clock
    /// that is being slewed.
    pub(crate) fn is_certain(&self) -> bool {
        self.window_activity.saturating_add(1) < self.freshness.second
    }

    /// Records that the pane still had this content at a later time, with its state in a listing from then.
    pub(crate) fn confirm(&mut self, now: &PaneState, freshness: Freshness) {
        self.window_activity = now.window_activity;
        self.freshness = freshness;
    }
}

/// The number of history rows in the first capture of a pane: the end of the baseline, enough to show a few
/// screens and to find the position in the history of an earlier run.
pub const BASELINE_ROWS: u32 = 200;

/// The maximum number of history rows in one capture. Such a capture takes the server about 70 ms, during
/// which it serves no other client.
pub const CAPTURE_ROWS_MAX: u32 = 100_000;

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
            // A flood prints at most about 3,000 rows per millisecond, and the capture follows the listing by a
            // few milliseconds, or some tens on a busy machine.
            return all
                .saturating_add(room.min(100_000))
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

/// Returns the depth at which the output for a pane of this width fits, unless its rows are full of combining
/// marks. Assumes two captures with three bytes for two columns.
fn depth_max(width: u32) -> u32 {
    let fitting = OUTPUT_BYTES_MAX / (3 * width.max(1) as usize + 2);
    CAPTURE_ROWS_MAX.min(u32::try_from(fitting).unwrap_or(u32::MAX))
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

    use crate::tmux::state::tests::state;
    use crate::track::PaneNumbers;

    use super::*;

    #[test]
    fn only_a_capture_after_the_last_activity_is_certain() {
        // Activity is in second 5.
        let now = state(1, (1, "a"), (1, 0, "w"), 0);
        for (second, is_certain) in [(5, false), (6, false), (7, true), (100, true)] {
            let freshness = Freshness {
                second,
                ..Freshness::default()
            };
            let digest = CaptureDigest::new(&now, freshness);
            assert_eq!(digest.is_certain(), is_certain, "{second}");
        }
    }

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
            prop_assert!(deep <= now.history_size && deep <= CAPTURE_ROWS_MAX);
        }
    }
}
