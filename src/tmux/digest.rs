//! The digest of a capture, and the decision if the pane may have changed since (pure).

use std::sync::Arc;
use std::time::Duration;

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
    /// The rows of the screen, as tmux wrote them.
    pub(super) screen: Arc<str>,
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

/// The result of comparing a digest with a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// The pane has the same content.
    Unchanged,
    /// The pane may have been rewritten in place.
    Uncertain,
    /// The pane has other content.
    Changed,
}

impl CaptureDigest {
    pub(super) fn new(state: &PaneState, screen: Arc<str>, freshness: Freshness) -> Self {
        let mut digest = Self {
            screen,
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

    /// Compares the digest with a listing, before which the server had read `server_bytes`.
    pub(super) fn compare(&self, now: &PaneState, server_bytes: Option<u64>) -> Comparison {
        let active = self.window_activity != now.window_activity;
        match self.numbers == now.numbers && self.title == now.title {
            false => Comparison::Changed,
            true if self.nothing_read(server_bytes) || self.was_quiet() && !active => {
                Comparison::Unchanged
            }
            true => Comparison::Uncertain,
        }
    }

    /// Returns true if a listing with the same numbers proves that the pane is unchanged.
    pub(super) fn is_conclusive(&self, server_bytes: Option<u64>) -> bool {
        self.nothing_read(server_bytes) || self.was_quiet()
    }

    /// Returns true if no output can have followed the capture unnoticed. tmux dates activity in whole
    /// seconds, so output in the second of the capture may have come after it. One more second covers a clock
    /// that is being slewed.
    fn was_quiet(&self) -> bool {
        self.window_activity.saturating_add(1) < self.freshness.second
    }

    pub(super) fn nothing_read(&self, server_bytes: Option<u64>) -> bool {
        self.freshness.server_bytes.is_some() && self.freshness.server_bytes == server_bytes
    }

    /// Records that the pane still had this content at a later time, with its state in a listing from then.
    pub(crate) fn confirm(&mut self, now: &PaneState, freshness: Freshness) {
        self.window_activity = now.window_activity;
        self.freshness = freshness;
    }

    /// Returns true if an equal screen proves that nothing was printed, given an equal listing. A full
    /// history may have been trimmed by exactly its growth while identical lines scrolled through the screen.
    pub(super) fn is_proved_by_screen(&self, server_bytes: Option<u64>) -> bool {
        let step = self.numbers.trim_step();
        let may_trim = self.numbers.history_size >= self.numbers.history_limit.saturating_sub(step);
        let read = match (self.freshness.server_bytes, server_bytes) {
            (Some(then), Some(now)) => now.saturating_sub(then),
            _ => u64::MAX,
        };
        // Each row takes at least one byte.
        !may_trim || read < u64::from(step)
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::state;
    use super::*;
    use crate::event::Cursor;
    use crate::track::ProcessExit;

    fn digest(state: &PaneState, freshness: Freshness) -> CaptureDigest {
        CaptureDigest::new(state, Arc::default(), freshness)
    }

    fn in_second(second: i64) -> Freshness {
        Freshness {
            second,
            ..Freshness::default()
        }
    }

    #[test]
    fn only_a_pane_that_cannot_have_changed_is_unchanged() {
        // Activity is in second 5.
        let now = state(1, (1, "a"), (1, 0, "w"), 0);
        let compare = |freshness, bytes| digest(&now, freshness).compare(&now, bytes);
        assert_eq!(compare(in_second(7), None), Comparison::Unchanged);
        assert_eq!(
            compare(in_second(6), None),
            Comparison::Uncertain,
            "too recent"
        );
        let counted = Freshness {
            server_bytes: Some(10),
            ..in_second(5)
        };
        assert_eq!(
            compare(counted, Some(10)),
            Comparison::Unchanged,
            "nothing read"
        );
        assert_eq!(compare(counted, Some(11)), Comparison::Uncertain);
        assert_eq!(compare(counted, None), Comparison::Uncertain);
        assert_eq!(compare(in_second(5), None), Comparison::Uncertain);
        let digest = digest(&now, in_second(100));
        // Another second of activity, including an earlier one after a clock was set back.
        for window_activity in [3, 6] {
            let active = PaneState {
                window_activity,
                ..now.clone()
            };
            assert_eq!(digest.compare(&active, None), Comparison::Uncertain);
        }
        for changed in [
            PaneState {
                numbers: PaneNumbers {
                    width: 1,
                    ..now.clone().numbers
                },
                ..now.clone()
            },
            PaneState {
                numbers: PaneNumbers {
                    height: 1,
                    ..now.clone().numbers
                },
                ..now.clone()
            },
            PaneState {
                numbers: PaneNumbers {
                    history_size: 1,
                    ..now.clone().numbers
                },
                ..now.clone()
            },
            PaneState {
                numbers: PaneNumbers {
                    cursor: Cursor { x: 1, y: 0 },
                    ..now.clone().numbers
                },
                ..now.clone()
            },
            PaneState {
                numbers: PaneNumbers {
                    alternate: true,
                    ..now.clone().numbers
                },
                ..now.clone()
            },
            PaneState {
                numbers: PaneNumbers {
                    dead: Some(ProcessExit::default()),
                    ..now.clone().numbers
                },
                ..now.clone()
            },
            PaneState {
                numbers: PaneNumbers {
                    pid: 2,
                    ..now.clone().numbers
                },
                ..now.clone()
            },
        ] {
            assert_eq!(
                digest.compare(&changed, None),
                Comparison::Changed,
                "{changed:?}"
            );
        }
    }

    #[test]
    fn a_full_history_may_have_scrolled_under_an_equal_screen() {
        let at = |history_size, server_bytes| {
            let state = PaneState {
                numbers: PaneNumbers {
                    history_size,
                    ..state(1, (1, "a"), (1, 0, "w"), 0).numbers
                },
                ..state(1, (1, "a"), (1, 0, "w"), 0)
            };
            let freshness = Freshness {
                server_bytes,
                ..Freshness::default()
            };
            digest(&state, freshness)
        };
        // The limit is 2000, trimmed by 200.
        assert!(at(1799, None).is_proved_by_screen(None));
        assert!(!at(1800, None).is_proved_by_screen(None));
        assert!(at(1900, Some(100)).is_proved_by_screen(Some(299)));
        assert!(!at(1900, Some(100)).is_proved_by_screen(Some(300)));
    }
}
