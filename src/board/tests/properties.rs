//! Tests of the board on any events: a comparison with a naive fold, restored rows, and reported changes.

use proptest::prelude::*;

use super::*;
use crate::event::{GapEvidence, GapReason, PaneId};

/// One of the events that change a row's state or counts.
fn any_event() -> impl Strategy<Value = TdEvent> {
    let id = prop_oneof![Just("a"), Just("b"), Just("b2")];
    let pane = prop_oneof![Just("%1"), Just("%10")];
    (id, pane, 0..10_u8).prop_map(|(id, pane, kind)| match kind {
        0 => opened(id, pane, "claude"),
        1 => state(id, pane, AgentState::Working, None),
        2 => state(id, pane, AgentState::Waiting, Some("x")),
        3 => state(id, pane, AgentState::Done, None),
        4 => output(id, pane, "text\n"),
        5 => TdEvent::PaneClosed {
            execution_id: id.into(),
            pane: pane.into(),
            reason: crate::event::PaneCloseReason::Closed.into(),
            exit_status: Some(3),
        },
        6 => TdEvent::OutputGap {
            execution_id: id.into(),
            pane: pane.into(),
            first_line: 1,
            lost_lines: None,
            reason: GapReason::Dropped.into(),
            evidence: GapEvidence::Confirmed.into(),
        },
        7 => seen(id, pane),
        8 => TdEvent::SessionRenamed {
            execution_id: id.into(),
            from: id.into(),
            to: format!("{id}-new"),
        },
        _ => TdEvent::Warning {
            execution_id: id.into(),
            context: "c".into(),
            message: "m".into(),
        },
    })
}

/// Computes the facts about one pane from a scan of all its events.
fn naive(
    events: &[Envelope],
    id: &str,
    pane: &PaneId,
) -> Option<(String, u64, Option<i32>, &'static str)> {
    let of_pane = |envelope: &&Envelope| {
        envelope.event.execution_id() == id && envelope.event.pane() == Some(pane)
    };
    let own: Vec<&Envelope> = events.iter().filter(of_pane).collect();
    // A view does not create a row.
    let is_view = |it: &Envelope| matches!(it.event, TdEvent::PaneSeen { .. });
    let first = own.iter().position(|envelope| !is_view(envelope))?;
    let own = &own[first..];
    let gaps = own
        .iter()
        .filter(|envelope| matches!(envelope.event, TdEvent::OutputGap { .. }))
        .count();
    let (mut state, mut status) = ("running", None);
    for envelope in own.iter() {
        match &envelope.event {
            TdEvent::PaneOpened { .. } => (state, status) = ("running", None),
            TdEvent::PaneClosed { exit_status, .. } => (state, status) = ("exited", *exit_status),
            TdEvent::AgentState { state: new, .. } => state = new.as_str(),
            _ => {}
        }
    }
    // The events since the state was last entered: from the last event that changed the state.
    let state_after = |end: usize| {
        own[..end]
            .iter()
            .fold("running", |state, it| match &it.event {
                TdEvent::PaneOpened { .. } => "running",
                TdEvent::PaneClosed { .. } => "exited",
                TdEvent::AgentState { state, .. } => state.as_str(),
                _ => state,
            })
    };
    let entered = (1..=own.len())
        .rev()
        .find(|&end| state_after(end - 1) != state);
    let is_seen = own[entered.unwrap_or(0)..]
        .iter()
        .any(|envelope| is_view(envelope));
    let attention = match state {
        "waiting" => "needs_you",
        "done" | "exited" if !is_seen => "finished",
        "done" | "exited" => "quiet",
        _ => "working",
    };
    Some((state.to_owned(), gaps as u64, status, attention))
}

#[cfg(feature = "cli")]
proptest! {
    #[test]
    fn restored_rows_continue_as_the_board_would(
        events in prop::collection::vec((any_event(), 0..100_i64), 0..60), split in 0_usize..60,
    ) {
        let mut events: Vec<Envelope> = events.into_iter().map(|(event, s)| at(s, event)).collect();
        events.sort_by_key(|envelope| envelope.ts);
        let (before, after) = events.split_at(split.min(events.len()));
        let mut restored = Board::new(StateRules::builtin());
        for row in board(before).rows() {
            restored.restore(serde_json::from_value(serde_json::to_value(row).unwrap()).unwrap());
        }
        // A run without rows has no summary, so its log is read from the beginning.
        let stored: BTreeSet<ExecutionId> = restored.rows().map(|row| row.execution_id.clone()).collect();
        let is_stored = |envelope: &&Envelope| stored.contains(envelope.event.execution_id());
        for envelope in before.iter().filter(|envelope| !is_stored(envelope)).chain(after) {
            restored.apply(envelope);
        }
        let whole = board(&events);
        let rows: Vec<&Row> = whole.rows().collect();
        prop_assert_eq!(restored.rows().collect::<Vec<&Row>>(), rows);
    }
}

proptest! {
    #[test]
    fn the_board_is_what_a_scan_of_all_events_finds(
        events in prop::collection::vec((any_event(), 0..100_i64), 0..60),
    ) {
        let mut events: Vec<Envelope> = events.into_iter().map(|(event, s)| at(s, event)).collect();
        events.sort_by_key(|envelope| envelope.ts);
        let board = board(&events);
        let mut count = 0;
        for id in ["a", "b", "b2"] {
            for pane in ["%1", "%10"].map(PaneId::from) {
                let key = RowKey { execution_id: id.into(), part: Some(pane.to_string()) };
                let row = board.row(&key);
                let found = row.map(|row| {
                    (row.state.as_str().to_owned(), row.gaps, row.exit_status, row.attention().as_str())
                });
                prop_assert_eq!(&found, &naive(&events, id, &pane), "{} {}", id, pane);
                count += usize::from(found.is_some());
                if let Some(row) = row {
                    let renamed = events.iter().any(|envelope| matches!(&envelope.event,
                        TdEvent::SessionRenamed { execution_id, .. } if execution_id == id));
                    let expected = if renamed { format!("{id}-new") } else { id.to_owned() };
                    prop_assert_eq!(&row.name, &expected);
                }
            }
        }
        // A warning does not create a row.
        prop_assert_eq!(board.rows().count(), count);
        let ranks: Vec<_> = board.rows().map(Row::attention).collect();
        prop_assert!(ranks.is_sorted());
    }

    #[test]
    fn changes_name_the_rows_that_differ(
        events in prop::collection::vec((any_event(), 0..100_i64), 0..40),
    ) {
        let mut board = Board::default();
        for (event, seconds) in events {
            let before: Vec<Row> = board.rows().cloned().collect();
            let changed = board.apply(&at(seconds, event));
            for row in board.rows() {
                let key = RowKey {
                    execution_id: row.execution_id.clone(),
                    part: row.pane.as_ref().map(ToString::to_string),
                };
                prop_assert_eq!(!before.contains(row), changed.contains(&key), "{:?}", row);
            }
        }
    }
}
