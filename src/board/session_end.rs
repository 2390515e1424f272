//! Ends the rows of a session, and tells which of them ended because their tmux server did.

use super::row::Row;
use super::state::RowState;
use crate::event::{EnumOrUnknown, SessionEndReason};
use crate::timestamp::Timestamp;

/// The most time between the end of a pane and that of its session, if both end with their server: the events follow
/// one another. A pane that ended earlier has ended by itself.
const WITHIN_MICROS: i64 = 1_000_000;

/// What becomes of a row whose observer has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes on, although nothing observes it.
    GoesOn,
    /// It has ended.
    #[cfg_attr(not(feature = "cli"), allow(dead_code))]
    Ended,
    /// It has ended with its tmux server.
    EndedWithServer,
}

impl Row {
    /// Ends or leaves the row, whose observer has ended; returns true if faces show a change.
    pub(super) fn lose_observer(
        &mut self,
        fate: Fate,
        exit_status: Option<i32>,
        is_cut_off: bool,
        at: Timestamp,
    ) -> bool {
        if self.has_ended() || self.is_agents_end() {
            return false;
        }
        let before = self.state.clone();
        if fate == Fate::GoesOn {
            self.leave(at);
        } else {
            // What was dismissed after the observer had ended is this end: faces have shown it.
            let known = self.last_observed.as_ref();
            let is_end_dismissed = self.dismissed && known.is_some_and(|known| !known.dismissed);
            self.end_with_observer(exit_status, is_cut_off, at);
            self.dismissed |= is_end_dismissed;
            self.server_gone = fate == Fate::EndedWithServer
                && self.pane.is_some()
                && self.state == RowState::Exited;
        }
        self.ended || self.state != before
    }

    /// Ends with the session.
    pub(super) fn end_with_session(
        &mut self,
        reason: &EnumOrUnknown<SessionEndReason>,
        exit_status: Option<i32>,
        at: Timestamp,
    ) {
        let exit_status = if self.has_ended() {
            self.exit_status
        } else {
            exit_status
        };
        self.end(exit_status, at);
        let has_just_ended = at.micros().saturating_sub(self.since.micros()) <= WITHIN_MICROS;
        self.server_gone = *reason == SessionEndReason::ServerGone
            && self.pane.is_some()
            && self.state == RowState::Exited
            && has_just_ended;
    }
}

#[cfg(test)]
mod tests {
    use crate::board::{Board, Row};
    use crate::event::{Envelope, PaneCloseReason, SessionEndReason, TdEvent};
    use crate::timestamp::Timestamp;

    #[test]
    fn only_what_ends_at_the_end_of_the_server_ends_with_it() {
        let mut board = Board::default();
        let mut apply = |seconds: i64, event| {
            let at = Timestamp::from_micros(seconds * 1_000_000);
            board.apply(&Envelope::new(None, at, event));
        };
        let closed = |pane: &str| TdEvent::PaneClosed {
            execution_id: "a".into(),
            pane: pane.into(),
            reason: PaneCloseReason::Closed.into(),
            exit_status: Some(129),
        };
        for (execution, pane) in [("a", "%1"), ("a", "%2"), ("a", "%3"), ("b", "%4")] {
            apply(
                0,
                TdEvent::PaneOpened {
                    execution_id: execution.into(),
                    pane: pane.into(),
                    width: 80,
                    height: 24,
                    command: "cat".into(),
                    is_new: None,
                },
            );
        }
        apply(5, closed("%1"));
        apply(60, closed("%2"));
        for (id, reason) in [
            ("a", SessionEndReason::ServerGone),
            ("b", SessionEndReason::Closed),
        ] {
            apply(
                60,
                TdEvent::SessionEnded {
                    execution_id: id.into(),
                    session: id.into(),
                    reason: reason.into(),
                    exit_status: Some(129),
                },
            );
        }
        let is_servers = |row: &Row| (row.pane.clone().unwrap().to_string(), row.server_gone);
        let mut rows: Vec<(String, bool)> = board.rows().map(is_servers).collect();
        rows.sort();
        let expected = [("%1", false), ("%2", true), ("%3", true), ("%4", false)];
        assert_eq!(rows, expected.map(|(pane, is)| (pane.to_owned(), is)));
        // Another face reads the same from JSON.
        for row in board.rows() {
            let json = serde_json::to_string(row).unwrap();
            let read: Row = serde_json::from_str(&json).unwrap();
            assert_eq!(read.server_gone, row.server_gone);
        }
    }
}
