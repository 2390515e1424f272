//! What a poller remembers of its last look, and whether the pane can have changed since (pure).

use std::sync::Arc;
use std::time::Duration;

use super::capture::PaneView;
use super::state::PaneState;
use crate::event::Cursor;
use crate::track::Death;

/// What is remembered of a look; given back with the next wish, it saves looks that would show
/// the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Rows in the history.
    pub history_size: u32,
    /// Rows that the history may hold.
    pub history_limit: u32,
    /// The cursor.
    pub cursor: Cursor,
    /// Whether the alternate screen was shown.
    pub alternate: bool,
    /// Whether and how the program had ended.
    pub dead: Option<Death>,
    /// The program's process.
    pub pid: u32,
    /// The last second in which something was printed in the window, as tmux knew it then.
    pub window_activity: i64,
    /// The title: agents tell their states there.
    pub title: String,
    /// The rows of the screen, as tmux wrote them.
    pub(super) screen: Arc<str>,
    /// When the pane showed this for certain last: at the look, or when that was proved again.
    pub(super) proof: Proof,
}

/// A moment for which it is certain what a pane showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proof {
    /// Since the gateway began.
    pub at: Duration,
    /// The second, since 1970, in which it was asked: by the server's clock where it tells, since
    /// ours may be set to another time in between.
    pub second: i64,
    /// Bytes that the server had read just before.
    pub bytes: Option<u64>,
}

/// What a listing tells of a pane that was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It shows what it showed.
    Still,
    /// It may have been rewritten in place.
    Unsure,
    /// It shows something else.
    Changed,
}

impl Seen {
    /// Remembers a look.
    pub fn of(view: &PaneView, proof: Proof) -> Self {
        let state = &view.state;
        Self {
            width: state.width,
            height: state.height,
            history_size: state.history_size,
            history_limit: state.history_limit,
            cursor: state.cursor,
            alternate: state.alternate,
            dead: state.dead,
            pid: state.pid,
            window_activity: state.window_activity,
            title: state.title.clone(),
            screen: Arc::clone(&view.screen),
            proof,
        }
    }

    /// What a listing tells, before which the server had read `server_bytes`.
    pub(super) fn standing(&self, now: &PaneState, server_bytes: Option<u64>) -> Standing {
        let same = self.width == now.width
            && self.height == now.height
            && self.history_size == now.history_size
            && self.history_limit == now.history_limit
            && self.cursor == now.cursor
            && self.alternate == now.alternate
            && self.dead == now.dead
            && self.pid == now.pid
            && self.title == now.title;
        let active = self.window_activity != now.window_activity;
        match same {
            false => Standing::Changed,
            true if self.nothing_read(server_bytes) || self.was_quiet() && !active => {
                Standing::Still
            }
            true => Standing::Unsure,
        }
    }

    /// Whether a listing that has the same numbers is all that it takes to be sure.
    pub(super) fn is_final(&self, server_bytes: Option<u64>) -> bool {
        self.nothing_read(server_bytes) || self.was_quiet()
    }

    /// Activity has whole seconds: what was printed in the second of the look may have come after
    /// it. One more second covers a clock that is being slewed.
    fn was_quiet(&self) -> bool {
        self.window_activity.saturating_add(1) < self.proof.second
    }

    pub(super) fn nothing_read(&self, server_bytes: Option<u64>) -> bool {
        self.proof.bytes.is_some() && self.proof.bytes == server_bytes
    }

    /// Notes that the pane still showed this at a later moment, as a listing of then had it.
    pub(crate) fn renew(&mut self, now: &PaneState, proof: Proof) {
        self.window_activity = now.window_activity;
        self.proof = proof;
    }

    /// Whether a screen that reads the same proves that nothing was printed, given that the
    /// listing is the same. A full history may have been trimmed by as much as it grew, while
    /// lines that all read the same went through the screen.
    pub(super) fn is_proved_by_screen(&self, server_bytes: Option<u64>) -> bool {
        let step = (self.history_limit / 10).max(1);
        let may_trim = self.history_size >= self.history_limit.saturating_sub(step);
        let read = match (self.proof.bytes, server_bytes) {
            (Some(then), Some(now)) => now.saturating_sub(then),
            _ => u64::MAX,
        };
        // Each row takes a byte at least.
        !may_trim || read < u64::from(step)
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::state;
    use super::*;

    fn seen(state: &PaneState, proof: Proof) -> Seen {
        let view = PaneView {
            state: state.clone(),
            ..PaneView::default()
        };
        Seen::of(&view, proof)
    }

    fn in_second(second: i64) -> Proof {
        Proof {
            second,
            ..Proof::default()
        }
    }

    #[test]
    fn only_what_cannot_have_changed_is_still() {
        // Activity is in second 5.
        let now = state(1, (1, "a"), (1, 0, "w"), 0);
        let standing = |proof, bytes| seen(&now, proof).standing(&now, bytes);
        assert_eq!(standing(in_second(7), None), Standing::Still);
        assert_eq!(standing(in_second(6), None), Standing::Unsure, "too near");
        let counted = Proof {
            bytes: Some(10),
            ..in_second(5)
        };
        assert_eq!(standing(counted, Some(10)), Standing::Still, "nothing read");
        assert_eq!(standing(counted, Some(11)), Standing::Unsure);
        assert_eq!(standing(counted, None), Standing::Unsure);
        assert_eq!(standing(in_second(5), None), Standing::Unsure);
        let seen = seen(&now, in_second(100));
        // Another second of activity, also an earlier one after a clock was set back.
        for window_activity in [3, 6] {
            let active = PaneState {
                window_activity,
                ..now.clone()
            };
            assert_eq!(seen.standing(&active, None), Standing::Unsure);
        }
        for changed in [
            PaneState {
                width: 1,
                ..now.clone()
            },
            PaneState {
                height: 1,
                ..now.clone()
            },
            PaneState {
                history_size: 1,
                ..now.clone()
            },
            PaneState {
                cursor: Cursor { x: 1, y: 0 },
                ..now.clone()
            },
            PaneState {
                alternate: true,
                ..now.clone()
            },
            PaneState {
                dead: Some(Death::default()),
                ..now.clone()
            },
            PaneState {
                pid: 2,
                ..now.clone()
            },
        ] {
            assert_eq!(
                seen.standing(&changed, None),
                Standing::Changed,
                "{changed:?}"
            );
        }
    }

    #[test]
    fn a_full_history_may_have_moved_under_the_same_screen() {
        let at = |history_size, bytes| {
            let state = PaneState {
                history_size,
                ..state(1, (1, "a"), (1, 0, "w"), 0)
            };
            let proof = Proof {
                bytes,
                ..Proof::default()
            };
            seen(&state, proof)
        };
        // The limit is 2000, trimmed by 200.
        assert!(at(1799, None).is_proved_by_screen(None));
        assert!(!at(1800, None).is_proved_by_screen(None));
        assert!(at(1900, Some(100)).is_proved_by_screen(Some(299)));
        assert!(!at(1900, Some(100)).is_proved_by_screen(Some(300)));
    }
}
