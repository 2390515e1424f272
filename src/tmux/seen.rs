//! What a poller remembers of its last look, and whether the pane can have changed since (pure).

use super::capture::PaneView;
use super::listing::PaneState;
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
    /// The second, since 1970, in which the look began: by the server's clock where it tells, since
    /// ours may be set to another time between two looks.
    pub second: i64,
    /// Bytes that the server had read just before the look.
    pub bytes_before: Option<u64>,
}

impl Seen {
    /// Remembers a look that began in `second` by our clock.
    pub fn of(view: &PaneView, second: i64) -> Self {
        let PaneView { state, look } = view;
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
            second: state.second.unwrap_or(second),
            bytes_before: look.bytes_before,
        }
    }

    /// Whether the pane surely shows what it showed. `server_bytes` is what the server has read,
    /// asked before `now` was listed.
    pub fn is_still(&self, now: &PaneState, server_bytes: Option<u64>) -> bool {
        let same = self.width == now.width
            && self.height == now.height
            && self.history_size == now.history_size
            && self.history_limit == now.history_limit
            && self.cursor == now.cursor
            && self.alternate == now.alternate
            && self.dead == now.dead
            && self.pid == now.pid
            && self.window_activity == now.window_activity;
        // Activity has whole seconds: what was printed in the second of the look may have come
        // after it. One more second covers a clock that is being slewed.
        let quiet = now.window_activity.saturating_add(1) < self.second;
        let nothing_read = self.bytes_before.is_some() && self.bytes_before == server_bytes;
        same && (quiet || nothing_read)
    }
}

#[cfg(test)]
mod tests {
    use super::super::listing::tests::state;
    use super::*;

    #[test]
    fn only_what_cannot_have_changed_is_still() {
        // Activity is in second 5.
        let now = state(1, (1, "a"), (1, 0, "w"), 0);
        let view = PaneView {
            state: now.clone(),
            ..PaneView::default()
        };
        assert!(Seen::of(&view, 7).is_still(&now, None));
        assert!(!Seen::of(&view, 6).is_still(&now, None), "too near");
        let fresh = Seen {
            bytes_before: Some(10),
            ..Seen::of(&view, 5)
        };
        assert!(fresh.is_still(&now, Some(10)), "the server read nothing");
        assert!(!fresh.is_still(&now, Some(11)));
        assert!(!fresh.is_still(&now, None));
        assert!(
            !Seen {
                bytes_before: None,
                ..fresh
            }
            .is_still(&now, None)
        );
        let told = PaneState {
            second: Some(6),
            ..now.clone()
        };
        let told = PaneView {
            state: told,
            ..PaneView::default()
        };
        let by_server = Seen::of(&told, 3600);
        assert!(!by_server.is_still(&now, None), "our clock is ahead");
        let seen = Seen::of(&view, 100);
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
            // A clock that was set back: activity lies far before the look and is new.
            PaneState {
                window_activity: 3,
                ..now.clone()
            },
        ] {
            assert!(!seen.is_still(&changed, None), "{changed:?}");
        }
    }
}
