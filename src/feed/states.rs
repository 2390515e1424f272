//! The states of a run's rows over time: its board, with the times in which nothing observed them (pure).

use std::collections::BTreeSet;

use crate::board::bands::{Band, Timelines};
use crate::board::{Board, Fate, RowKey};
use crate::event::{Envelope, ExecutionId, SessionEndReason, TdEvent};
use crate::timestamp::Timestamp;

/// What an event has changed.
#[derive(Debug, Default)]
#[cfg_attr(not(feature = "report"), allow(dead_code))]
pub(crate) struct Changes {
    pub rows: BTreeSet<RowKey>,
    /// The time since which nothing observes the rows that have not ended.
    pub lost_at: Option<Timestamp>,
}

/// A fold over the events of one run, and over the headers of its files.
#[derive(Debug, Default)]
pub(crate) struct RunStates {
    pub board: Board,
    pub timelines: Timelines,
    /// The host and the process that write the log.
    writer: Option<(String, u32)>,
    /// The panes that have just come under observation.
    unread: BTreeSet<RowKey>,
}

impl RunStates {
    /// Applies the next event; returns what it changed. `last_before` returns the time of the last
    /// event before a number: another process that goes on with the log does not say when the one before it ended.
    pub fn apply(
        &mut self,
        envelope: &Envelope,
        last_before: &mut dyn FnMut(u64) -> Option<Timestamp>,
    ) -> Changes {
        let at = envelope.ts;
        let mut lost_at = None;
        let is_header = matches!(envelope.event, TdEvent::LogOpened { .. });
        match &envelope.event {
            TdEvent::LogOpened {
                host,
                pid,
                first_seq,
                ..
            } => {
                let writer = Some((host.clone(), *pid));
                let before = std::mem::replace(&mut self.writer, writer);
                if before.is_some() && before != self.writer {
                    let ended = last_before(*first_seq).unwrap_or(at).min(at);
                    lost_at = Some(ended);
                    self.leave(ended);
                }
            }
            // The board keeps the last state for the next observer.
            TdEvent::SessionEnded { reason, .. } if *reason == SessionEndReason::Detached => {
                self.settle(at);
                lost_at = Some(at);
            }
            _ => self.settle(at),
        }
        if let Some(at) = lost_at {
            self.lose_observer(at);
        }
        if is_header {
            let rows = BTreeSet::new();
            return Changes { rows, lost_at };
        }
        let rows = self.board.apply(envelope);
        for key in &rows {
            let Some(row) = self.board.row(key) else {
                continue;
            };
            self.timelines.entry(key.clone()).or_default().note(row, at);
            if row.is_unread() {
                self.unread.insert(key.clone());
            } else {
                self.unread.remove(key);
            }
        }
        Changes { rows, lost_at }
    }

    /// Gives the panes their states that show none until a time.
    pub fn settle(&mut self, now: Timestamp) {
        let unread = std::mem::take(&mut self.unread);
        for key in unread {
            let has_changed = self.board.settle(&key, now);
            match self.board.row(&key) {
                Some(row) if has_changed => {
                    let timeline = self.timelines.entry(key).or_default();
                    timeline.note(row, row.since);
                }
                Some(row) if row.is_unread() => {
                    self.unread.insert(key);
                }
                _ => {}
            }
        }
    }

    /// Ends the observation of all rows as the next observer does, which finds their states again.
    fn leave(&mut self, at: Timestamp) {
        self.settle(at);
        let ids: BTreeSet<ExecutionId> = self
            .board
            .rows()
            .map(|row| row.execution_id.clone())
            .collect();
        self.board.forget_volatile();
        for id in ids {
            self.board.end(&id, None, false, at, |_| Fate::GoesOn);
        }
    }

    /// Records that nothing observes the rows from a time on.
    fn lose_observer(&mut self, at: Timestamp) {
        for timeline in self.timelines.values_mut() {
            if timeline.last().is_some_and(|(_, band)| band != Band::Ended) {
                timeline.push(at, Band::NotObserved);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{AgentState, StateEvidence};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_micros(second * 1_000_000)
    }

    fn header(pid: u32, first_seq: u64) -> TdEvent {
        TdEvent::LogOpened {
            execution_id: "a".into(),
            schema: 1,
            version: "1".into(),
            host: "h".into(),
            pid,
            first_seq,
        }
    }

    fn opened() -> TdEvent {
        TdEvent::pane_opened("a", &"%1".into(), 80, 24, "make")
    }

    fn state(state: AgentState) -> TdEvent {
        let evidence = StateEvidence::Confirmed;
        let mut event = TdEvent::agent_state("a", None, Some("%1".into()), state, evidence);
        if let TdEvent::AgentState { agent, .. } = &mut event {
            *agent = Some(Box::new("claude".to_owned()));
        }
        event
    }

    fn bands(events: Vec<(i64, TdEvent)>) -> Vec<(Timestamp, Band)> {
        let mut states = RunStates::default();
        for (second, event) in events {
            let envelope = Envelope::new(None, at(second), event);
            states.apply(&envelope, &mut |_| Some(at(42)));
        }
        let timeline = states.timelines.into_values().next().unwrap();
        timeline.within(at(0), at(1000))
    }

    #[test]
    fn nothing_observes_between_two_writers() {
        let events = vec![
            (0, header(1, 1)),
            (1, opened()),
            (2, state(AgentState::Working)),
            (30, header(1, 9)),
            (60, header(2, 12)),
            (61, opened()),
            (62, state(AgentState::Waiting)),
        ];
        let expected = [
            (at(1), Band::Running),
            (at(2), Band::Working),
            (at(42), Band::NotObserved),
            (at(61), Band::Running),
            (at(62), Band::Waiting),
        ];
        assert_eq!(bands(events), expected);
    }

    #[test]
    fn nothing_observes_after_a_detachment() {
        let ended = TdEvent::session_ended("a", "a", SessionEndReason::Detached, None);
        let events = vec![(1, opened()), (2, state(AgentState::Working)), (5, ended)];
        let bands = bands(events);
        assert_eq!(bands.last(), Some(&(at(5), Band::NotObserved)));
    }

    #[test]
    fn a_pane_that_shows_no_state_runs_since_it_is_observed() {
        let later = TdEvent::warning("a", "x", "y");
        assert_eq!(
            bands(vec![(1, opened()), (9, later)]),
            [(at(1), Band::Running)]
        );
    }
}
