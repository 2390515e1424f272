//! Tests of the board: single events and the order of rows.

mod properties {
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
        let (mut state, mut status, mut began) = ("running", None, None);
        for envelope in own.iter() {
            match &envelope.event {
                TdEvent::PaneOpened { .. } => {
                    began = began.filter(|_| state != "exited").or(Some(envelope.ts));
                    (state, status) = ("unknown", None);
                }
                TdEvent::PaneClosed { exit_status, .. } => {
                    (state, status) = ("exited", *exit_status)
                }
                TdEvent::AgentState { state: new, .. } => state = new.as_str(),
                _ => {}
            }
        }
        // The events since the state was last entered: from the last event that changed the state.
        let state_after = |end: usize| {
            own[..end]
                .iter()
                .fold("running", |state, it| match &it.event {
                    TdEvent::PaneOpened { .. } => "unknown",
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
        let ended = entered.map_or(own[0].ts, |end| own[end - 1].ts);
        let is_long = began.is_some_and(|began| ended.micros() - began.micros() >= 10_000_000);
        let has_printed = own
            .iter()
            .any(|envelope| matches!(envelope.event, TdEvent::OutputUpdate { .. }));
        let attention = match state {
            "waiting" => "needs_you",
            "exited" if is_long && status == Some(3) && !is_seen => "needs_you",
            "done" | "exited" if !is_seen => "finished",
            "done" | "exited" => "quiet",
            "unknown" if !has_printed => "quiet",
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
            let shown = |board: &Board| serde_json::to_value(board.rows().collect::<Vec<&Row>>()).unwrap();
            prop_assert_eq!(shown(&restored), shown(&whole));
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
}

use super::*;
use crate::event::{
    AgentState, OutputStream, PaneViewer, SessionEndReason, StateEvidence, TdEvent,
};

const SECOND: i64 = 1_000_000;

fn at(seconds: i64, event: TdEvent) -> Envelope {
    Envelope::new(Some(1), Timestamp::from_micros(seconds * SECOND), event)
}

fn opened(id: &str, pane: &str, command: &str) -> TdEvent {
    opened_anew(Some(true), id, pane, command)
}

fn opened_anew(is_new: Option<bool>, id: &str, pane: &str, command: &str) -> TdEvent {
    TdEvent::PaneOpened {
        execution_id: id.into(),
        pane: pane.into(),
        width: 80,
        height: 24,
        command: command.into(),
        is_new,
    }
}

fn state(id: &str, pane: &str, state: AgentState, asks: Option<&str>) -> TdEvent {
    TdEvent::AgentState {
        execution_id: id.into(),
        agent_id: None,
        pane: Some(pane.into()),
        state: state.into(),
        evidence: StateEvidence::Confirmed.into(),
        agent: Some(Box::new("claude".into())),
        source: None,
        asks: asks.map(|asks| Box::new(asks.into())),
        detail: None,
        question_id: None,
        dialogue: None,
    }
}

fn output(id: &str, pane: &str, chunk: &str) -> TdEvent {
    TdEvent::OutputUpdate {
        execution_id: id.into(),
        pane: pane.into(),
        first_line: 1,
        chunk: chunk.into(),
        is_complete: false,
        reason: None,
        exit_status: None,
        styles: Default::default(),
        links: Default::default(),
    }
}

fn seen(id: &str, pane: &str) -> TdEvent {
    TdEvent::PaneSeen {
        execution_id: id.into(),
        pane: pane.into(),
        by: PaneViewer::Client.into(),
    }
}

fn board(events: &[Envelope]) -> Board {
    let mut board = Board::default();
    for event in events {
        board.apply(event);
    }
    board
}

fn places(board: &Board) -> Vec<(&str, &str)> {
    board
        .rows()
        .map(|row| (row.name.as_str(), row.attention().as_str()))
        .collect()
}

#[test]
fn rows_that_need_the_user_come_first_in_the_order_of_their_waiting() {
    let board = board(&[
        at(0, opened("busy@1", "%1", "make")),
        at(1, opened("late@1", "%2", "claude")),
        at(1, opened("early@1", "%3", "claude")),
        at(2, opened("done@1", "%4", "codex")),
        at(
            3,
            state("early@1", "%3", AgentState::Waiting, Some("rm -r build")),
        ),
        at(5, state("late@1", "%2", AgentState::Limited, None)),
        at(6, state("done@1", "%4", AgentState::Done, None)),
        at(9, output("busy@1", "%1", "cc main.c\n")),
    ]);
    assert_eq!(
        places(&board),
        [
            ("early@1", "needs_you"),
            ("late@1", "needs_you"),
            ("done@1", "finished"),
            ("busy@1", "working"),
        ]
    );
    assert_eq!(board.count(Attention::NeedsYou), 2);
    let first = board.rows().next().unwrap();
    assert_eq!(first.asks.as_deref(), Some("rm -r build"));
    assert_eq!(first.since, Timestamp::from_micros(3 * SECOND));
}

#[test]
fn a_pane_that_runs_a_shell_shows_shell_as_its_program() {
    for (command, program) in [
        ("-bash", "shell"),
        ("/usr/bin/mksh -l", "shell"),
        ("pwsh", "shell"),
        ("/usr/bin/make test", "make"),
    ] {
        let board = board(&[at(0, opened("a", "%1", command))]);
        let row = board.rows().next().unwrap();
        assert_eq!(row.agent.as_deref(), Some(program), "{command}");
    }
}

#[test]
fn a_program_whose_pane_is_kept_has_ended() {
    let mut end = output("a", "%1", "error: x\n");
    if let TdEvent::OutputUpdate {
        reason,
        exit_status,
        ..
    } = &mut end
    {
        (*reason, *exit_status) = (Some(crate::event::CompletionReason::Exit.into()), Some(4));
    }
    let board = board(&[at(0, opened("a", "%1", "make")), at(1, end)]);
    let row = board.rows().next().unwrap();
    assert_eq!((row.state.as_str(), row.exit_status), ("exited", Some(4)));
    assert_eq!(row.last_line, "error: x");
    assert_eq!(places(&board), [("a", "finished")]);
}

#[cfg(feature = "cli")]
#[test]
fn a_state_that_outlives_its_observer_has_lasted() {
    let waiting = |asks| state("a", "%1", AgentState::Waiting, Some(asks));
    let done = || state("b", "%2", AgentState::Done, None);
    for (asks, since) in [("rm -r build", 3), ("other", 20)] {
        let mut board = board(&[
            at(0, opened("a", "%1", "claude")),
            at(0, opened("b", "%2", "codex")),
            at(3, waiting("rm -r build")),
            at(4, done()),
            at(5, seen("b", "%2")),
        ]);
        for id in ["a", "b"] {
            board.end(
                &id.into(),
                None,
                false,
                Timestamp::from_micros(9 * SECOND),
                |_| Fate::GoesOn,
            );
        }
        for event in [
            opened("a", "%1", "claude"),
            opened("b", "%2", "codex"),
            waiting(asks),
            done(),
        ] {
            board.apply(&at(20, event));
        }
        assert_eq!(places(&board), [("a", "needs_you"), ("b", "quiet")]);
        let row = board.rows().next().unwrap();
        assert_eq!(row.since, Timestamp::from_micros(since * SECOND));
    }
}

#[cfg(feature = "cli")]
#[test]
fn a_state_reached_without_an_observer_is_unseen() {
    let done = || state("a", "%1", AgentState::Done, None);
    let mut board = board(&[
        at(0, opened("a", "%1", "claude")),
        at(4, done()),
        at(5, seen("a", "%1")),
    ]);
    board.end(
        &"a".into(),
        None,
        false,
        Timestamp::from_micros(9 * SECOND),
        |_| Fate::GoesOn,
    );
    for event in [
        opened("a", "%1", "claude"),
        TdEvent::PromptSent {
            execution_id: "a".into(),
            iteration: 1,
            prompt_summary: "go on".into(),
            token_count: None,
            pane: Some("%1".into()),
        },
        done(),
    ] {
        board.apply(&at(20, event));
    }
    assert_eq!(places(&board), [("a", "finished")]);
}

#[cfg(feature = "cli")]
fn goes_on(row: &Row, pane: &str) -> Fate {
    if row.pane.as_ref().is_some_and(|of| of == pane) {
        Fate::GoesOn
    } else {
        Fate::Ended
    }
}

#[cfg(feature = "cli")]
#[test]
fn a_failure_is_still_news_after_a_restart_unless_something_happened_meanwhile() {
    let shell = || {
        let mut idle = state("a", "%1", AgentState::Idle, None);
        if let TdEvent::AgentState { agent, .. } = &mut idle {
            *agent = Some(Box::new("shell".into()));
        }
        idle
    };
    let restarted = |meanwhile: &[TdEvent]| {
        let mut board = board(&[
            at(0, opened("a", "%1", "bash")),
            at(1, job("make")),
            at(1, output("a", "%1", "no rule\n")),
            at(20, job_over(2, 19_000)),
        ]);
        let thirty = Timestamp::from_micros(30 * SECOND);
        board.end(&"a".into(), None, false, thirty, |_| Fate::GoesOn);
        board.apply(&at(40, opened("a", "%1", "bash")));
        for event in meanwhile {
            board.apply(&at(40, event.clone()));
        }
        board.apply(&at(40, shell()));
        board.tick(Timestamp::from_micros(42 * SECOND));
        let row = board.rows().next().unwrap().clone();
        (row.state.as_str().to_owned(), row)
    };
    let (name, row) = restarted(&[]);
    assert_eq!((name.as_str(), row.exit_status), ("failed", Some(2)));
    assert_eq!(row.attention(), Attention::NeedsYou);
    assert_eq!(
        (row.agent.as_deref(), row.asks.as_deref()),
        (Some("make"), Some("make failed (2)"))
    );
    assert_eq!(row.last_line, "no rule");
    assert_eq!(row.since, Timestamp::from_micros(20 * SECOND));
    for meanwhile in [
        vec![output("a", "%1", "more\n")],
        vec![job("sleep"), job_over(0, 700)],
    ] {
        let (name, row) = restarted(&meanwhile);
        assert_eq!((name.as_str(), row.exit_status), ("idle", None));
    }
}

/// An agent's screen is reported as lines after a restart, since no observer keeps lines of it.
#[test]
fn the_screen_of_an_agent_is_no_news_after_a_restart() {
    let killed = || {
        let mut event = state("a", "%1", AgentState::Error, None);
        if let TdEvent::AgentState {
            source,
            detail,
            asks,
            ..
        } = &mut event
        {
            *source = Some(crate::agent::StateSource::Process.into());
            *detail = Some(Box::new("exit status 137".into()));
            *asks = Some(Box::new("claude killed (137)".into()));
        }
        event
    };
    for is_killed in [false, true] {
        let mut board = board(&[at(0, opened("a", "%1", "bash"))]);
        board.apply(&at(1, state("a", "%1", AgentState::Idle, None)));
        if is_killed {
            board.apply(&at(5, killed()));
        }
        let thirty = Timestamp::from_micros(30 * SECOND);
        board.end(&"a".into(), None, false, thirty, |_| Fate::GoesOn);
        let program = if is_killed { "bash" } else { "claude" };
        board.apply(&at(40, opened("a", "%1", program)));
        board.apply(&at(40, output("a", "%1", "? for shortcuts\n")));
        if !is_killed {
            board.apply(&at(40, state("a", "%1", AgentState::Idle, None)));
        }
        board.tick(Timestamp::from_micros(42 * SECOND));
        let row = board.rows().next().unwrap();
        let (state, since, line) = if is_killed {
            ("failed", 5, "claude killed (137)")
        } else {
            ("idle", 1, "")
        };
        assert_eq!(row.state.as_str(), state);
        assert_eq!(row.since, Timestamp::from_micros(since * SECOND));
        assert_eq!(row.last_line, line);
    }
}

#[cfg(feature = "cli")]
#[test]
fn what_goes_on_without_an_observer_is_not_observed_and_keeps_its_times() {
    let mut board = board(&[
        at(0, opened("a", "%1", "cat")),
        at(0, opened("a", "%2", "cat")),
        at(0, output("a", "%1", "x\n")),
    ]);
    board.tick(Timestamp::from_micros(2 * SECOND));
    let nine = Timestamp::from_micros(9 * SECOND);
    let is_first = |row: &Row| goes_on(row, "%1");
    assert!(board.end(&"a".into(), Some(3), true, nine, is_first));
    assert!(!board.end(&"a".into(), Some(3), true, nine, is_first));
    let states = |board: &Board| -> Vec<(String, i64)> {
        let ids = ["%1", "%2"].map(|pane| RowKey {
            execution_id: "a".into(),
            part: Some(pane.to_owned()),
        });
        let rows = ids.iter().filter_map(|key| board.row(key));
        rows.map(|row| (row.state.as_str().to_owned(), row.since.micros() / SECOND))
            .collect()
    };
    let left = [("not_observed".to_owned(), 9), ("exited".to_owned(), 9)];
    assert_eq!(states(&board), left);
    // It printed more before the next observer, which changes nothing: no agent is known in it.
    board.apply(&at(20, opened("a", "%1", "cat")));
    board.apply(&at(20, output("a", "%1", "more\n")));
    assert_eq!(states(&board)[0], ("unknown".to_owned(), 20));
    board.tick(Timestamp::from_micros(21 * SECOND));
    assert_eq!(states(&board)[0], ("running".to_owned(), 0));
}

#[cfg(feature = "cli")]
#[test]
fn what_ends_with_a_killed_writer_is_cut_off_and_a_failure_stays() {
    let mut board = board(&[
        at(0, opened("a", "%1", "bash")),
        at(0, opened("b", "%2", "cat")),
        at(0, opened("b", "%3", "cat")),
        at(0, job("make")),
        at(9, job_over(2, 9_000)),
    ]);
    let ten = Timestamp::from_micros(10 * SECOND);
    // The failure is as before, but it has ended: viewers hear of it, once.
    assert!(board.end(&"a".into(), None, true, ten, |_| Fate::Ended));
    assert!(!board.end(&"a".into(), None, true, ten, |_| Fate::Ended));
    let is_second = |row: &Row| goes_on(row, "%2");
    assert!(board.end(&"b".into(), None, true, ten, is_second));
    let shown = |board: &Board| {
        let rows = board.rows().map(|row| {
            let (state, pane) = (row.state.as_str().to_owned(), row.pane.clone());
            (pane.unwrap().to_string(), state, row.ended, row.cut_off)
        });
        rows.collect::<std::collections::BTreeSet<_>>()
    };
    let states = [
        ("%1", "failed", true, true),
        ("%2", "not_observed", false, false),
        ("%3", "exited", true, true),
    ];
    let states =
        states.map(|(pane, state, ended, cut)| (pane.to_owned(), state.to_owned(), ended, cut));
    assert_eq!(shown(&board), states.into());
    // An observer that finds it again knows better.
    board.apply(&at(20, opened("b", "%3", "cat")));
    assert!(
        !board
            .rows()
            .any(|row| row.pane.as_ref().is_some_and(|pane| pane == "%3") && row.cut_off)
    );
}

#[test]
fn a_pane_is_unknown_until_its_state_is_read() {
    let mut board = board(&[
        at(0, opened("a", "%1", "claude")),
        at(0, opened("a", "%2", "cat")),
        at(0, output("a", "%2", "x\n")),
    ]);
    assert!(board.rows().all(Row::is_unread));
    assert_eq!(places(&board), [("a", "working"), ("a", "quiet")]);
    assert!(board.tick(Timestamp::from_micros(SECOND - 1)).is_empty());
    board.apply(&at(0, state("a", "%1", AgentState::Idle, None)));
    board.apply(&at(0, opened("a", "%3", "codex")));
    assert_eq!(board.tick(Timestamp::from_micros(SECOND)).len(), 2);
    let mut names: Vec<&str> = board.rows().map(|row| row.state.as_str()).collect();
    names.sort_unstable();
    // Codex has not shown its screen.
    assert_eq!(names, ["idle", "running", "unknown"]);
    assert!(!board.rows().any(Row::is_unread));
}

#[test]
fn an_unknown_state_is_quiet_without_output_for_five_minutes() {
    let mut board = board(&[
        at(0, opened("a", "%1", "claude")),
        at(1, output("a", "%1", "x\n")),
        at(2, state("a", "%1", AgentState::Unknown, None)),
    ]);
    assert_eq!(places(&board), [("a", "working")]);
    assert!(board.tick(Timestamp::from_micros(300 * SECOND)).is_empty());
    assert_eq!(board.tick(Timestamp::from_micros(301 * SECOND)).len(), 1);
    assert_eq!(places(&board), [("a", "quiet")]);
    board.apply(&at(400, output("a", "%1", "y\n")));
    assert_eq!(places(&board), [("a", "working")]);
}

#[test]
fn a_seen_row_is_quiet_until_it_finishes_again() {
    let mut board = board(&[at(0, opened("a", "%1", "claude")), at(1, seen("a", "%1"))]);
    assert_eq!(places(&board), [("a", "quiet")]);
    for (event, attention) in [
        (state("a", "%1", AgentState::Done, None), "finished"),
        (seen("a", "%1"), "quiet"),
        (output("a", "%1", "tip\n"), "quiet"),
        (
            state("a", "%1", AgentState::Waiting, Some("x")),
            "needs_you",
        ),
        (seen("a", "%1"), "needs_you"),
        (state("a", "%1", AgentState::Done, None), "finished"),
        (seen("a", "%2"), "finished"),
    ] {
        board.apply(&at(2, event));
        assert_eq!(places(&board), [("a", attention)]);
    }
}

#[test]
fn a_second_dialogue_waits_from_its_own_beginning() {
    let board = board(&[
        at(1, state("a", "%1", AgentState::Waiting, Some("one"))),
        at(7, state("a", "%1", AgentState::Waiting, Some("two"))),
    ]);
    let row = board.rows().next().unwrap();
    assert_eq!(row.asks.as_deref(), Some("two"));
    assert_eq!(row.since, Timestamp::from_micros(7 * SECOND));
}

#[test]
fn a_pane_without_output_is_quiet_after_five_minutes() {
    let mut board = board(&[
        at(0, opened("a", "%1", "top")),
        at(10, output("a", "%1", "x\n")),
    ]);
    let tick = |board: &mut Board, seconds| {
        let changed = board.tick(Timestamp::from_micros(seconds * SECOND));
        (changed.len(), board.rows().next().unwrap().state.clone())
    };
    assert_eq!(tick(&mut board, 1), (1, RowState::Running));
    assert_eq!(tick(&mut board, 309), (0, RowState::Running));
    assert_eq!(tick(&mut board, 310), (1, RowState::Quiet));
    assert_eq!(tick(&mut board, 311), (0, RowState::Quiet));
    board.apply(&at(400, output("a", "%1", "y\n")));
    assert_eq!(tick(&mut board, 401), (0, RowState::Running));
}

#[test]
fn ends_have_a_status_and_a_detached_session_goes_on() {
    let ended = |reason: SessionEndReason| TdEvent::SessionEnded {
        execution_id: "a".into(),
        session: "a".into(),
        reason: reason.into(),
        exit_status: Some(101),
    };
    let start = [at(0, opened("a", "%1", "cargo"))];
    let mut closed = board(&start);
    closed.apply(&at(2, ended(SessionEndReason::Closed)));
    let row = closed.rows().next().unwrap();
    assert_eq!(
        (row.exit_status, row.attention()),
        (Some(101), Attention::Finished)
    );
    let mut detached = board(&start);
    detached.tick(Timestamp::from_micros(SECOND));
    assert_eq!(
        detached
            .apply(&at(2, ended(SessionEndReason::Detached)))
            .len(),
        0
    );
    assert_eq!(detached.rows().next().unwrap().state, RowState::Running);
}

#[test]
fn the_last_line_is_not_decoration() {
    let board = board(&[
        at(0, state("a", "%1", AgentState::Idle, None)),
        at(
            1,
            output("a", "%1", "I have changed two files.\n────────────\n\n"),
        ),
        at(2, output("a", "%1", "╭──────────────╮\n╰──● after 2.0 s\n")),
    ]);
    let row = board.rows().next().unwrap();
    assert_eq!(row.last_line, "I have changed two files.");
    assert_eq!(row.last_output, Some(Timestamp::from_micros(2 * SECOND)));
}

#[test]
fn the_texts_of_a_row_are_plain() {
    let mut coloured = state(
        "a",
        "%1",
        AgentState::Waiting,
        Some("\u{1b}[1mGo\u{1b}[0m on?"),
    );
    if let TdEvent::AgentState { agent, .. } = &mut coloured {
        *agent = Some(Box::new("\u{1b}[1mme".into()));
    }
    let text =
        "above\n\u{1b}[31mred\u{1b}[0m\u{7} text\tis\u{9b}1m plain\u{1b}]0;title\n\u{1b}[1m\n";
    let board = board(&[
        at(0, opened("a", "%1", "\u{1b}[1mtop")),
        at(1, coloured),
        at(2, output("a", "%1", text)),
        at(
            3,
            TdEvent::SessionRenamed {
                execution_id: "a".into(),
                from: "a".into(),
                to: "\u{1b}[1mbold".into(),
            },
        ),
    ]);
    let row = board.rows().next().unwrap();
    assert_eq!(row.last_line, "red text\tis plain");
    assert_eq!(row.asks.as_deref(), Some("Go on?"));
    assert_eq!(row.agent.as_deref(), Some("me"));
    assert_eq!(row.name, "bold");
}

#[test]
fn commands_loops_and_background_agents_have_rows() {
    let id = |id: &str| crate::event::ExecutionId::from(id);
    let board = board(&[
        at(
            0,
            TdEvent::ExecutionStarted {
                execution_id: id("make@1769000000-2"),
                command: "/usr/bin/make -j2\nsecond".into(),
                cwd: "/".into(),
                pane: None,
                pid: Some(7),
                cell: None,
                verification: None,
            },
        ),
        at(
            1,
            TdEvent::ExecutionOutput {
                execution_id: id("make@1769000000-2"),
                stream: OutputStream::Stdout.into(),
                text: "linking\n".into(),
            },
        ),
        at(
            2,
            TdEvent::ExecutionCompleted {
                execution_id: id("make@1769000000-2"),
                exit_code: None,
                signal: Some(9),
                duration_ms: 2000,
                pane: None,
                pid: Some(7),
                cell: None,
            },
        ),
        at(
            3,
            TdEvent::LoopStarted {
                execution_id: id("l"),
                loop_type: "ralph".into(),
                task_description: "Fix the tests".into(),
                phases: None,
            },
        ),
        at(
            4,
            TdEvent::AgentRegistered {
                execution_id: id("g"),
                agent_id: "a003".into(),
                output_file: "/tmp/a003.output".into(),
                pane: None,
            },
        ),
        at(
            5,
            TdEvent::AgentFailed {
                execution_id: id("g"),
                agent_id: "a003".into(),
                error: "overloaded".into(),
                evidence: crate::event::EndEvidence::default(),
                pane: None,
            },
        ),
    ]);
    let rows: Vec<_> = board
        .rows()
        .map(|row| {
            (
                row.kind.as_str(),
                row.name.as_str(),
                row.state.as_str(),
                row.exit_status,
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("agent", "a003", "error", None),
            ("command", "/usr/bin/make -j2", "exited", Some(137)),
            ("loop", "l", "running", None),
        ]
    );
    let json = serde_json::to_value(board.rows().nth(1).unwrap()).unwrap();
    assert_eq!(json["agent"], "make");
    assert_eq!(json["last_line"], "linking");
    assert_eq!(json["attention"], "finished");
}

/// A command that is ended because of its timeout has the status that its run and the exit code of `run` have.
#[test]
fn a_timeout_is_the_status_of_its_command() {
    let completed = |id: &str, exit_code, signal| TdEvent::ExecutionCompleted {
        execution_id: id.into(),
        exit_code,
        signal,
        duration_ms: 1,
        pane: None,
        pid: None,
        cell: None,
    };
    let started = |id: &str| TdEvent::execution_started(id, "sleep 4", "/");
    let late = |id: &str| TdEvent::error(id, "timeout", "sleep 4 did not end within 300ms");
    let events = [
        started("again"),
        late("again"),
        completed("again", None, Some(15)),
        started("again"),
        completed("again", None, Some(15)),
        started("clean"),
        late("clean"),
        completed("clean", Some(0), None),
        started("killed"),
        late("killed"),
        completed("killed", None, Some(9)),
    ];
    let board = board(&events.map(|event| at(1, event)));
    let mut statuses: Vec<_> = board
        .rows()
        .map(|row| (row.name.as_str(), row.exit_status, row.last_line.as_str()))
        .collect();
    statuses.sort();
    let words = "sleep 4 did not end within 300ms";
    let expected = [
        ("again", Some(143), words),
        ("clean", Some(124), words),
        ("killed", Some(124), words),
    ];
    assert_eq!(statuses, expected);
}

/// The agent of a command or of a loop has no row of its own, and the end of the execution is the row's end.
#[test]
fn a_command_and_a_loop_have_one_row_with_their_agent() {
    let started = |id: &str, command: &str| TdEvent::execution_started(id, command, "/");
    let completed = |id: &str| TdEvent::ExecutionCompleted {
        execution_id: id.into(),
        exit_code: Some(1),
        signal: None,
        duration_ms: 1,
        pane: None,
        pid: None,
        cell: None,
    };
    let failed = |id: &str, agent: &str| {
        TdEvent::agent_failed(
            id,
            agent,
            "rate limited",
            crate::event::EndEvidence::default(),
        )
    };
    let events = [
        started("claude@1769000000", "claude -p task"),
        failed("claude@1769000000", "claude"),
        completed("claude@1769000000"),
        started("nightly", "claude -p task"),
        failed("nightly", "claude"),
        TdEvent::loop_started("loop@1769000001", "ralph", "Fix the tests"),
        failed("loop@1769000001", "loop@1769000001"),
        // An error alone does not make a command of an execution with background agents.
        TdEvent::error("agents", "work", "odd"),
        failed("agents", "a003"),
    ];
    let mut board = Board::default();
    for (number, event) in (1..).zip(events) {
        let at = Timestamp::from_micros(number);
        board.apply(&Envelope::new(Some(1), at, event));
    }
    let mut rows: Vec<_> = board
        .rows()
        .map(|row| (row.name.as_str(), row.state.as_str()))
        .collect();
    rows.sort();
    let expected = [
        ("Fix the tests", "running"),
        ("a003", "error"),
        ("agents", "running"),
        ("claude -p task", "exited"),
        ("nightly", "running"),
    ];
    assert_eq!(rows, expected);
    let last = board.rows().find(|row| row.name == "nightly").unwrap();
    assert_eq!(last.last_line, "rate limited");
    // The end of the observer is not the end of an agent that has ended.
    board.end(
        &"agents".into(),
        None,
        true,
        Timestamp::from_micros(100),
        |_| Fate::GoesOn,
    );
    let agent = board.rows().find(|row| row.name == "a003").unwrap();
    assert_eq!(agent.state.as_str(), "error");
}

fn dismissed(id: &str, pane: &str, dismissed: bool) -> TdEvent {
    TdEvent::RowDismissed {
        execution_id: id.into(),
        pane: Some(pane.into()),
        agent_id: None,
        dismissed,
        by: PaneViewer::Face.into(),
    }
}

/// A history whose board was last stored before the end has the dismissal before the end.
#[test]
fn an_end_that_was_dismissed_stays_dismissed_when_it_is_read_again() {
    let detached = || TdEvent::SessionEnded {
        execution_id: "a".into(),
        session: "a".into(),
        reason: SessionEndReason::Detached.into(),
        exit_status: None,
    };
    let nine = Timestamp::from_micros(9 * SECOND);
    for (is_dismissed, attention) in [(true, Attention::Quiet), (false, Attention::Finished)] {
        let mut board = board(&[
            at(0, opened("a", "%1", "bash")),
            at(1, state("a", "%1", AgentState::Idle, None)),
            at(5, detached()),
        ]);
        if is_dismissed {
            board.apply(&at(8, dismissed("a", "%1", true)));
        }
        board.end(&"a".into(), None, false, nine, |_| Fate::EndedWithServer);
        let row = board.rows().next().unwrap();
        assert_eq!((row.state.as_str(), row.attention()), ("exited", attention));
    }
}

#[test]
fn a_dismissed_row_is_quiet_until_its_next_change() {
    let mut board = Board::default();
    let mut apply = {
        let mut micros = 0;
        move |board: &mut Board, event| {
            micros += 1;
            board.apply(&Envelope::new(None, Timestamp::from_micros(micros), event));
            let row = board.rows().next().unwrap();
            (row.attention(), row.dismissed)
        }
    };
    use Attention::{NeedsYou, Quiet};
    let asks = |question| state("a", "%1", AgentState::Waiting, Some(question));
    assert_eq!(apply(&mut board, asks("x")), (NeedsYou, false));
    assert_eq!(apply(&mut board, dismissed("a", "%1", true)), (Quiet, true));
    assert_eq!(apply(&mut board, asks("x")), (Quiet, true));
    assert_eq!(
        apply(&mut board, dismissed("a", "%1", false)),
        (NeedsYou, false)
    );
    assert_eq!(apply(&mut board, dismissed("a", "%1", true)), (Quiet, true));
    // Another question is a change.
    assert_eq!(apply(&mut board, asks("y")), (NeedsYou, false));
    assert_eq!(apply(&mut board, dismissed("a", "%1", true)), (Quiet, true));
    let failed = state("a", "%1", AgentState::Error, None);
    assert_eq!(apply(&mut board, failed), (NeedsYou, false));
    // A row that does not exist is not created.
    board.apply(&Envelope::new(
        None,
        Timestamp::from_micros(9),
        dismissed("b", "%1", true),
    ));
    assert_eq!(board.rows().count(), 1);
}

#[test]
fn a_dismissed_limit_returns_when_it_ends() {
    let mut board = Board::default();
    let words = Some("You've hit your limit · resets 3:53pm (UTC)");
    let noon: Timestamp = "2026-11-28T12:00:00Z".parse().unwrap();
    let limited = state("a", "%1", AgentState::Limited, words);
    board.apply(&Envelope::new(None, noon, limited));
    board.apply(&Envelope::new(None, noon, dismissed("a", "%1", true)));
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    assert!(board.tick(at("2026-11-28T15:52:59Z")).is_empty());
    assert_eq!(board.rows().next().unwrap().attention(), Attention::Quiet);
    assert_eq!(board.tick(at("2026-11-28T15:53:00Z")).len(), 1);
    assert_eq!(
        board.rows().next().unwrap().attention(),
        Attention::NeedsYou
    );
    // Once: the user may dismiss it again.
    board.apply(&Envelope::new(
        None,
        at("2026-11-28T16:00:00Z"),
        dismissed("a", "%1", true),
    ));
    assert!(board.tick(at("2026-11-29T16:00:00Z")).is_empty());
}

/// Its last lines may be read after its end, and the prompt below it is none of them.
#[test]
fn the_last_line_of_a_failed_job_is_its_own() {
    let mut board = Board::default();
    let line = |number: i64, text: &str| TdEvent::OutputUpdate {
        execution_id: "a".into(),
        pane: "%1".into(),
        first_line: number,
        chunk: text.into(),
        styles: Default::default(),
        is_complete: false,
        reason: None,
        exit_status: None,
        links: Default::default(),
    };
    let prompt = TdEvent::OutputRevised {
        execution_id: "a".into(),
        pane: "%1".into(),
        line: 9,
        text: "me@box:~$ ".into(),
        styles: Default::default(),
    };
    let completed = |duration_ms| TdEvent::ExecutionCompleted {
        execution_id: "a".into(),
        exit_code: Some(2),
        signal: None,
        duration_ms,
        pane: Some("%1".into()),
        pid: None,
        cell: None,
    };
    let started = TdEvent::ExecutionStarted {
        execution_id: "a".into(),
        command: "make".into(),
        pane: Some("%1".into()),
        pid: None,
        cell: None,
        cwd: String::new(),
        verification: None,
    };
    for duration_ms in [800, 20_000] {
        let mut last = |seconds, event| {
            board.apply(&at(seconds, event));
            board.rows().next().unwrap().last_line.clone()
        };
        last(0, opened("a", "%1", "bash"));
        last(1, started.clone());
        last(2, completed(duration_ms));
        assert_eq!(
            last(2, line(8, "make: *** [all] Error 2\n")),
            "make: *** [all] Error 2"
        );
        assert_eq!(last(2, prompt.clone()), "make: *** [all] Error 2");
        assert_eq!(last(60, line(9, "me@box:~$ \n")), "make: *** [all] Error 2");
    }
}

/// The first lines of a job are printed before the job is reported, half a second after its beginning.
#[test]
fn the_last_line_of_a_job_is_none_of_an_earlier_one() {
    let micros = |micros, event| Envelope::new(Some(1), Timestamp::from_micros(micros), event);
    let last = |board: &Board| board.rows().next().unwrap().last_line.clone();
    for (exit_code, state_of) in [(0, "idle"), (2, "failed")] {
        let mut board = board(&[
            at(0, opened("a", "%1", "bash")),
            at(1, shell(AgentState::Idle)),
            at(2, job("make")),
            at(3, output("a", "%1", "built in 3 s\n")),
            at(4, job_over(exit_code, 2_500)),
        ]);
        let row = board.rows().next().unwrap();
        assert_eq!(row.state.as_str(), state_of);
        assert_eq!(row.last_line, "built in 3 s");
        // A short job, which is not reported.
        board.apply(&at(10, output("a", "%1", "a.rs b.rs\n")));
        for (second, command, status) in [(20, "(bash)", 5), (30, "sleep 4", 0)] {
            board.apply(&at(second, job(command)));
            assert_eq!(last(&board), "", "{command}");
            board.apply(&at(second + 4, job_over(status, 4_500)));
            assert_eq!(last(&board), "", "{command}");
        }
        board.apply(&micros(40_000_000, output("a", "%1", "checking out\n")));
        board.apply(&micros(40_500_000, job("bash ci.sh")));
        assert_eq!(last(&board), "checking out");
        board.apply(&at(50, job_over(0, 9_000)));
        // The job goes on while no observer is there.
        board.apply(&at(60, job("make")));
        board.apply(&at(61, output("a", "%1", "cc a.c\n")));
        board.apply(&at(100, opened("a", "%1", "bash")));
        board.apply(&at(100, job("make")));
        assert_eq!(last(&board), "cc a.c");
    }
}

/// The prompt is drawn before the shell is known to be idle.
#[test]
fn a_prompt_and_what_a_shell_says_of_a_stopped_job_are_no_last_line() {
    let mut board = Board::default();
    board.apply(&at(0, opened("a", "%1", "bash")));
    for text in [
        "Deleted 312 files.",
        "me@box:~$ ",
        "^Z",
        "[1]+  Stopped                 sleep 300",
        "[1]  + 7181 suspended  vim",
        "[2] 7181",
    ] {
        let event = TdEvent::OutputRevised {
            execution_id: "a".into(),
            pane: "%1".into(),
            line: 3,
            text: text.into(),
            styles: Default::default(),
        };
        board.apply(&at(1, event));
    }
    assert_eq!(board.rows().next().unwrap().last_line, "Deleted 312 files.");
    for text in ["[1]+  Done  make", "[2/6] step", "[1] 12 tests"] {
        board.apply(&at(2, output("a", "%1", text)));
        assert_eq!(board.rows().next().unwrap().last_line, text);
    }
}

/// The command that started an agent is the shell's, and no word of the agent.
#[test]
fn the_command_and_the_first_screen_of_an_agent_are_not_its_last_line() {
    let of = |agent: &str, present: AgentState| {
        let mut event = state("a", "%1", present, None);
        if let TdEvent::AgentState { agent: name, .. } = &mut event {
            *name = Some(Box::new(agent.into()));
        }
        event
    };
    for job in [None, Some(job("claude"))] {
        for present in [AgentState::Idle, AgentState::Working] {
            let mut board = Board::default();
            let printed = output("a", "%1", "me@box:~$ clear; claude\n  esc to interrupt\n");
            let events = [
                opened("a", "%1", "bash"),
                of("shell", AgentState::Idle),
                printed,
            ];
            for event in events
                .into_iter()
                .chain(job.clone())
                .chain([of("claude", present)])
            {
                board.apply(&at(1, event));
            }
            assert_eq!(board.rows().next().unwrap().last_line, "");
        }
    }
}

#[test]
fn rows_that_wait_come_before_errors_and_limits() {
    let mut board = Board::default();
    let order = [
        AgentState::Suspended,
        AgentState::Limited,
        AgentState::Error,
        AgentState::Waiting,
        AgentState::Waiting,
    ];
    for (micros, agent) in (1..).zip(order) {
        let event = state(&micros.to_string(), "%1", agent, None);
        board.apply(&Envelope::new(None, Timestamp::from_micros(micros), event));
    }
    let ids: Vec<&str> = board.rows().map(|row| row.execution_id.as_str()).collect();
    assert_eq!(ids, ["4", "5", "3", "2", "1"]);
}

#[test]
fn the_last_line_of_an_agent_says_what_matters() {
    let pane = || Some("%1".into());
    let id = || "a".into();
    let tokens = |token: &str| TdEvent::TokenReceived {
        execution_id: id(),
        iteration: 1,
        token: token.into(),
        pane: pane(),
    };
    let tool = || TdEvent::ToolCallStarted {
        execution_id: id(),
        iteration: 1,
        tool_name: "Bash".into(),
        tool_args_summary: r#"{"command":"make test"}"#.into(),
        pane: pane(),
    };
    let prompt = || TdEvent::PromptSent {
        execution_id: id(),
        iteration: 1,
        prompt_summary: "fix the\ntest".into(),
        token_count: None,
        pane: pane(),
    };
    let turn = || TdEvent::TurnCompleted {
        execution_id: id(),
        marker: "end_turn".into(),
        summary: String::new(),
        agent_id: None,
        pane: pane(),
        evidence: None,
    };
    let response = || TdEvent::ResponseCompleted {
        execution_id: id(),
        iteration: 1,
        response_summary: "I fix it as".into(),
        input_tokens: 1,
        output_tokens: 1,
        has_tool_calls: false,
        pane: pane(),
    };
    let says = |text: &str| TdEvent::AgentActivity {
        execution_id: id(),
        pane: "%1".into(),
        text: text.into(),
    };
    let is = |state_of| state("a", "%1", state_of, None);
    let mut board = Board::default();
    for (micros, (event, expected)) in (1..).zip([
        // The prompt is nothing that the agent says.
        (prompt(), ""),
        (is(AgentState::Working), ""),
        (tokens("I look first. Then \x1b[1mI run"), "Then I run"),
        (tool(), "Bash make test"),
        (tokens("All 3 tests pass. "), "All 3 tests pass."),
        (tokens("Merge it.\n\n```sh\ngit merge\n```"), "Merge it."),
        (is(AgentState::Done), "All 3 tests pass."),
        (turn(), "All 3 tests pass."),
        // The next turn has begun, and its prompt is not read yet.
        (is(AgentState::Working), ""),
        (prompt(), ""),
        (says("I look at the"), "I look at the"),
        (tokens("I **look** at the files."), "I look at the files."),
        (tool(), "Bash make test"),
        (says("I look at the files."), "Bash make test"),
        (says("It is"), "It is"),
        (is(AgentState::Done), "I look at the files."),
        (says("an old screen"), "I look at the files."),
        (prompt(), ""),
        (tokens("I fix it as"), "I fix it as"),
        (response(), "I fix it as"),
        // The attempt after an error has no sentence in common with the first one.
        (tokens("I fix it at once."), "I fix it at once."),
        (prompt(), ""),
        (turn(), ""),
        (
            state("a", "%1", AgentState::Limited, Some("try again at 6:06 PM")),
            "try again at 6:06 PM",
        ),
    ]) {
        board.apply(&Envelope::new(None, Timestamp::from_micros(micros), event));
        let row = board.rows().next().unwrap();
        assert_eq!(row.last_line, expected);
    }
    // Another agent has said nothing yet.
    let mut other = is(AgentState::Idle);
    if let TdEvent::AgentState { agent, .. } = &mut other {
        *agent = Some(Box::new("codex".into()));
    }
    board.apply(&Envelope::new(None, Timestamp::from_micros(99), other));
    assert_eq!(board.rows().next().unwrap().last_line, "");
}

#[test]
fn a_turn_that_was_stopped_says_so() {
    use AgentState::{Done, Idle, Waiting, Working};
    let pane = || Some("%1".into());
    let id = || "a".into();
    let tokens = |token: &str| TdEvent::TokenReceived {
        execution_id: id(),
        iteration: 1,
        token: token.into(),
        pane: pane(),
    };
    let tool = |command: &str| TdEvent::ToolCallStarted {
        execution_id: id(),
        iteration: 1,
        tool_name: "Bash".into(),
        tool_args_summary: format!(r#"{{"command":"{command}"}}"#),
        pane: pane(),
    };
    let prompt = || TdEvent::PromptSent {
        execution_id: id(),
        iteration: 1,
        prompt_summary: "go".into(),
        token_count: None,
        pane: pane(),
    };
    let turn = || TdEvent::TurnCompleted {
        execution_id: id(),
        marker: "end_turn".into(),
        summary: "All is well.".into(),
        agent_id: None,
        pane: pane(),
        evidence: None,
    };
    let shows = |text: &str| TdEvent::AgentActivity {
        execution_id: id(),
        pane: "%1".into(),
        text: text.into(),
    };
    let is = |state_of| state("a", "%1", state_of, None);
    let asks = |question| state("a", "%1", Waiting, Some(question));
    let is_done = || {
        let mut event = is(Done);
        if let TdEvent::AgentState { evidence, .. } = &mut event {
            *evidence = StateEvidence::Inferred.into();
        }
        event
    };
    let by_file = || {
        let mut event = is(Idle);
        if let TdEvent::AgentState { source, .. } = &mut event {
            *source = Some(crate::event::StateSource::Transcript.into());
        }
        event
    };
    let cases: &[&[(TdEvent, &str)]] = &[
        &[
            (prompt(), ""),
            (is(Working), ""),
            (tool("make"), "Bash make"),
            (asks("make"), "Bash make"),
            (is(Idle), "refused: make"),
            // What the agent writes late.
            (tool("make"), "refused: make"),
            (tokens("Well"), "refused: make"),
            (prompt(), ""),
            (is(Working), ""),
            (tokens("I look. First"), "First"),
            // A screen shows an empty box for a moment.
            (is(Idle), "interrupted"),
            (is(Working), "First"),
            (tokens(" there are"), "First there are"),
            (by_file(), "interrupted"),
            // A menu is no part of the turn.
            (asks("Select model"), "Select model"),
            (is(Idle), ""),
        ],
        // The state of the next turn comes before its prompt, or after its first words.
        &[
            (prompt(), ""),
            (is(Working), ""),
            (tokens("I look."), "I look."),
            (by_file(), "interrupted"),
            (is(Working), ""),
            (prompt(), ""),
            (by_file(), "interrupted"),
            (prompt(), ""),
            (tokens("I run it."), ""),
            (is(Working), "I run it."),
        ],
        // Before the first turn.
        &[
            (asks("Do you trust it?"), "Do you trust it?"),
            (is(Idle), ""),
        ],
        // The agent is done before it has written its answer.
        &[
            (prompt(), ""),
            (is(Working), ""),
            (tokens("I will create a file."), "I will create a file."),
            (is_done(), "I will create a file."),
            (shows("All is well"), "All is well"),
            (tokens("\n\nIt is made. All is well."), "All is well."),
            (turn(), "It is made."),
            (shows("All"), "It is made."),
            (shows("Tips"), "It is made."),
        ],
        // Of two tools, the first asks, and then the other one.
        &[
            (prompt(), ""),
            (tool("make a"), "Bash make a"),
            (tool("make b"), "Bash make b"),
            (asks("make a"), "make a"),
            (asks("make b"), "make b"),
            (tool("make c"), "make b"),
            (is(Working), "make b"),
        ],
        // A command of the user, and a menu: no turn.
        &[
            (prompt(), ""),
            (is(Working), ""),
            (tokens("All is well."), "All is well."),
            (turn(), "All is well."),
            (is(Done), "All is well."),
            (is(Working), ""),
            (is(Idle), ""),
            (asks("Select model"), "Select model"),
            (is(Idle), ""),
        ],
        // An observer that begins later, and an agent that notes the interruption late.
        &[(by_file(), "interrupted")],
        &[
            (prompt(), ""),
            (is(Working), ""),
            (turn(), "All is well."),
            (is(Done), "All is well."),
            (by_file(), "interrupted"),
        ],
    ];
    for case in cases {
        let mut board = Board::default();
        for (second, (event, expected)) in (1..).zip(case.iter()) {
            board.apply(&at(second, event.clone()));
            let row = board.rows().next().unwrap();
            assert_eq!(row.last_line, *expected, "{second}: {event:?}");
        }
    }
}

#[test]
fn what_a_terminal_prints_of_its_own_is_no_last_line() {
    for (printed, expected) in [
        ("built\n^C\n", "built"),
        ("built\n[1] 7181\n", "built"),
        ("built\nexit\n", "built"),
        ("[1]+  Done  make\n", "[1]+  Done  make"),
        ("^Cmake: *** Interrupt\n", "^Cmake: *** Interrupt"),
    ] {
        let board = board(&[
            at(0, opened("a", "%1", "bash")),
            at(1, output("a", "%1", printed)),
        ]);
        assert_eq!(board.rows().next().unwrap().last_line, expected);
    }
}

#[test]
fn an_agent_that_starts_has_no_state_yet() {
    let began = |events: Vec<TdEvent>| {
        let mut board = Board::default();
        for (second, event) in (1..).zip(events) {
            board.apply(&at(second, event));
        }
        board.tick(Timestamp::from_micros(9 * SECOND));
        let row = board.rows().next().unwrap();
        let state = row.state.as_str().to_owned();
        (
            row.agent.clone().unwrap(),
            state,
            row.since.micros() / SECOND,
        )
    };
    let unknown = |since| ("claude".to_owned(), "unknown".to_owned(), since);
    let idle = shell(AgentState::Idle);
    let typed = began(vec![idle.clone(), job("claude --model x")]);
    assert_eq!(typed, unknown(2));
    // Its first screen is not read yet.
    let typed = began(vec![idle.clone(), job("claude"), found_anew()]);
    assert_eq!(typed, unknown(2));
    // By a script, and as the pane's own program.
    let by_script = began(vec![idle.clone(), job("npx claude"), found_anew()]);
    assert_eq!(by_script, unknown(3));
    let own = began(vec![opened("a", "%1", "node"), found_anew()]);
    assert_eq!(own.1, "unknown");
    let known = began(vec![state("a", "%1", AgentState::Done, None), found_anew()]);
    assert_eq!(known.1, "done");
    // It shows no screen at all.
    let over = began(vec![idle, job("claude"), job_over(0, 700)]);
    assert_eq!(over, ("shell".to_owned(), "idle".to_owned(), 3));
}

#[test]
fn an_agent_that_starts_has_said_nothing_though_its_predecessor_was_killed() {
    let prompt = TdEvent::PromptSent {
        execution_id: "a".into(),
        iteration: 1,
        prompt_summary: "go".into(),
        token_count: None,
        pane: Some("%1".into()),
    };
    let killed = || {
        let mut event = state("a", "%1", AgentState::Error, Some("claude killed (137)"));
        if let TdEvent::AgentState { source, detail, .. } = &mut event {
            *source = Some(crate::event::StateSource::Process.into());
            *detail = Some(Box::new("exit status 137".into()));
        }
        event
    };
    let is = |state_of| state("a", "%1", state_of, None);
    let in_turn = [
        opened("a", "%1", "bash"),
        found_anew(),
        prompt,
        is(AgentState::Working),
    ];
    let by_shell = [
        killed(),
        shell(AgentState::Idle),
        job("claude"),
        found_anew(),
    ];
    let closed = TdEvent::PaneClosed {
        execution_id: "a".into(),
        pane: "%1".into(),
        reason: crate::event::PaneCloseReason::Closed.into(),
        exit_status: Some(137),
    };
    let in_kept_pane = [
        killed(),
        closed,
        opened_anew(Some(false), "a", "%1", "claude"),
        found_anew(),
    ];
    // Its title shows work while it starts.
    let starts = [
        is(AgentState::Idle),
        is(AgentState::Working),
        is(AgentState::Idle),
    ];
    for again in [&by_shell[..], &in_kept_pane] {
        let events = in_turn.iter().chain(again).chain(&starts);
        let mut board = Board::default();
        for (second, event) in (1..).zip(events) {
            board.apply(&at(second, event.clone()));
        }
        let row = board.rows().next().unwrap();
        assert_eq!(
            (row.state.as_str(), row.last_line.as_str()),
            ("idle", ""),
            "{again:?}"
        );
    }
}

#[test]
fn a_row_has_what_its_agent_left_running_until_that_ends() {
    let running = |shells, agents| TdEvent::background_work("s", Some("%1".into()), shells, agents);
    let mut board = board(&[
        at(0, opened("s", "%1", "claude")),
        at(1, state("s", "%1", AgentState::Done, None)),
        at(2, running(1, 2)),
        at(3, seen("s", "%1")),
    ]);
    let of = |board: &Board| board.rows().next().unwrap().clone();
    let left = |board: &Board| {
        let left = of(board).background?;
        Some((left.shells, left.agents))
    };
    assert_eq!(left(&board), Some((1, 2)));
    board.apply(&at(4, running(1, 0)));
    assert_eq!(left(&board), Some((1, 0)));
    board.apply(&at(5, state("s", "%1", AgentState::Working, None)));
    assert_eq!(left(&board), Some((1, 0)), "the next turn ends nothing");
    board.apply(&at(6, state("s", "%1", AgentState::Done, None)));
    board.apply(&at(7, seen("s", "%1")));
    board.apply(&at(8, running(0, 0)));
    let row = of(&board);
    assert_eq!(row.background, None);
    // The state has not changed, so it has still been looked at.
    assert!(row.seen.is_some());
    // What is not observed any more is not known to run.
    board.apply(&at(9, running(1, 0)));
    board.apply(&at(10, opened("s", "%1", "claude")));
    assert_eq!(left(&board), None);
}

#[test]
fn rows_that_have_ended_leave_the_board_after_a_day() {
    let day = 24 * 3600;
    let closed = TdEvent::PaneClosed {
        execution_id: "a".into(),
        pane: "%1".into(),
        reason: crate::event::PaneCloseReason::Closed.into(),
        exit_status: Some(1),
    };
    let mut board = board(&[
        at(0, opened("a", "%1", "make")),
        at(0, state("b", "%2", AgentState::Done, None)),
        at(10, closed),
    ]);
    let tick = |board: &mut Board, seconds| {
        let removed = board.tick(Timestamp::from_micros(seconds * SECOND));
        (removed.len(), board.rows().count())
    };
    assert_eq!(tick(&mut board, day + 10), (0, 2));
    assert_eq!(tick(&mut board, day + 11), (1, 1));
    // A pane that goes on stays, also when its agent is done.
    assert_eq!(places(&board), [("b", "finished")]);
}

fn job(command: &str) -> TdEvent {
    TdEvent::ExecutionStarted {
        execution_id: "a".into(),
        command: command.into(),
        cwd: "/".into(),
        pane: Some("%1".into()),
        pid: None,
        cell: None,
        verification: None,
    }
}

fn job_over(exit_code: i32, duration_ms: u64) -> TdEvent {
    TdEvent::ExecutionCompleted {
        execution_id: "a".into(),
        exit_code: Some(exit_code),
        signal: None,
        duration_ms,
        pane: Some("%1".into()),
        pid: None,
        cell: None,
    }
}

fn shell(state_of: AgentState) -> TdEvent {
    let mut event = state("a", "%1", state_of, None);
    if let TdEvent::AgentState { agent, .. } = &mut event {
        *agent = Some(Box::new("shell".into()));
    }
    event
}

/// Applies the events, one a second, and returns the last row's state, attention, program and words.
fn after(events: Vec<TdEvent>) -> (String, Attention, String, Option<String>) {
    let mut board = Board::default();
    for (second, event) in (1..).zip(events) {
        board.apply(&at(second, event));
    }
    let row = board.rows().next().unwrap();
    let agent = row.agent.clone().unwrap_or_default();
    (
        row.state.as_str().to_owned(),
        row.attention(),
        agent,
        row.asks.clone(),
    )
}

#[test]
fn a_script_is_work_until_it_ends() {
    let idle = || shell(AgentState::Idle);
    let is = |events| {
        let (state, attention, ..) = after(events);
        (state, attention)
    };
    let before = vec![opened("a", "%1", "bash"), idle(), job("bash build.sh")];
    assert_eq!(is(before.clone()), ("running".into(), Attention::Working));
    for (command, name) in [
        ("bash build.sh", "build.sh"),
        ("bash -e ./ci/build.sh fast", "build.sh"),
        ("sh -c 'echo a; exit 2'", "shell"),
        ("bash -i", "shell"),
        ("make all", "make"),
    ] {
        let mut board = board(&[at(1, opened("a", "%1", "bash")), at(2, job(command))]);
        board.tick(at(5, idle()).ts);
        assert_eq!(board.rows().next().unwrap().agent.as_deref(), Some(name));
    }
    // What looks like a prompt is none.
    let looks_idle = [before.clone(), vec![idle()]].concat();
    assert_eq!(
        is(looks_idle.clone()),
        ("running".into(), Attention::Working)
    );
    let over = [looks_idle, vec![job_over(0, 5)]].concat();
    assert_eq!(is(over), ("idle".into(), Attention::Quiet));
    // In an interactive shell, the prompt is one.
    let interactive = vec![opened("a", "%1", "bash"), idle(), job("bash -i"), idle()];
    assert_eq!(is(interactive), ("idle".into(), Attention::Quiet));
}

#[test]
fn a_job_that_is_stopped_is_suspended_and_one_in_the_background_is_not_the_rows_program() {
    let mut board = board(&[
        at(1, opened("a", "%1", "bash")),
        at(2, shell(AgentState::Idle)),
    ]);
    let suspended = Attention::NeedsYou;
    for (second, event, agent, state, attention) in [
        (3, job("make"), "shell", "idle", Attention::Quiet),
        (
            4,
            shell(AgentState::Suspended),
            "make",
            "suspended",
            suspended,
        ),
        // It goes on, or another one begins beside it.
        (
            5,
            shell(AgentState::Working),
            "make",
            "working",
            Attention::Working,
        ),
        (6, job("cargo test"), "shell", "working", Attention::Working),
        (
            20,
            shell(AgentState::Working),
            "cargo",
            "working",
            Attention::Working,
        ),
        (
            21,
            job_over(0, 15_000),
            "shell",
            "working",
            Attention::Working,
        ),
        (
            22,
            shell(AgentState::Suspended),
            "make",
            "suspended",
            suspended,
        ),
        (
            23,
            shell(AgentState::Working),
            "shell",
            "working",
            Attention::Working,
        ),
        (24, job("vim"), "shell", "working", Attention::Working),
        (
            25,
            shell(AgentState::Suspended),
            "vim",
            "suspended",
            suspended,
        ),
        // It goes on in the background.
        (
            26,
            shell(AgentState::Idle),
            "shell",
            "idle",
            Attention::Quiet,
        ),
        (
            60,
            shell(AgentState::Idle),
            "shell",
            "idle",
            Attention::Quiet,
        ),
    ] {
        let event = at(second, event);
        board.tick(event.ts);
        board.apply(&event);
        board.tick(event.ts);
        let row = board.rows().next().unwrap();
        let shown = (
            row.agent.as_deref().unwrap(),
            row.state.as_str(),
            row.attention(),
        );
        assert_eq!(shown, (agent, state, attention), "{second}");
    }
}

#[test]
fn a_job_that_the_user_kills_at_the_prompt_is_no_failure() {
    let begin = || {
        vec![
            opened("a", "%1", "bash"),
            shell(AgentState::Idle),
            job("make"),
        ]
    };
    let is = |events: Vec<TdEvent>| {
        let (state, attention, ..) = after(events);
        (state, attention)
    };
    let killed = || job_over(143, 20_000);
    let suspended = || vec![shell(AgentState::Suspended)];
    let behind = || [suspended(), vec![shell(AgentState::Idle)]].concat();
    for prompts in [suspended(), behind()] {
        let end = vec![killed(), shell(AgentState::Idle)];
        let events = [begin(), prompts, end].concat();
        assert_eq!(is(events), ("idle".into(), Attention::Quiet));
    }
    // It was in the foreground: who has killed it is not known.
    let failed = ("failed".into(), Attention::NeedsYou);
    assert_eq!(is([begin(), vec![killed()]].concat()), failed);
    let again = vec![
        shell(AgentState::Suspended),
        shell(AgentState::Working),
        killed(),
    ];
    assert_eq!(is([begin(), again].concat()), failed);
    // The system has killed it, or it failed in the background.
    for status in [137, 2] {
        let stopped = vec![shell(AgentState::Suspended), job_over(status, 20_000)];
        assert_eq!(is([begin(), stopped].concat()), failed, "{status}");
    }
}

#[test]
fn a_row_does_not_change_its_program_with_each_command_of_a_loop() {
    let mut board = board(&[
        at(1, opened("a", "%1", "bash")),
        at(2, shell(AgentState::Idle)),
    ]);
    let agent = |board: &Board| board.rows().next().unwrap().agent.clone().unwrap();
    let mut seen = Vec::new();
    for second in (3..30).step_by(3) {
        for (after, event) in [
            (0, job("make")),
            (0, shell(AgentState::Working)),
            (1, job_over(0, 1_000)),
            (1, job("sleep 1")),
            (2, job_over(0, 1_000)),
        ] {
            board.apply(&at(second + after, event));
            board.tick(at(second + after, shell(AgentState::Idle)).ts);
            seen.push(agent(&board));
        }
    }
    assert!(seen.iter().all(|agent| agent == "shell"), "{seen:?}");
    // What fails has its name, however short it was, and the next job does not.
    for (second, event, name) in [
        (30, job("make"), "shell"),
        (31, job_over(2, 1_000), "make"),
        (32, job("python3 seg.py"), "shell"),
        (33, job_over(139, 1_000), "python3"),
        (34, job("ls"), "shell"),
        (35, job_over(0, 1_000), "shell"),
    ] {
        board.apply(&at(second, event));
        assert_eq!(agent(&board), name, "{second}");
    }
    // A longer job, which the screen shows as the work of a shell, is the program until it ends.
    board.apply(&at(40, job("make")));
    assert!(board.tick(at(42, job("make")).ts).is_empty());
    assert_eq!(board.tick(at(43, job("make")).ts).len(), 1);
    board.apply(&at(44, shell(AgentState::Working)));
    assert_eq!(agent(&board), "make");
    board.apply(&at(50, job_over(0, 10_000)));
    assert_eq!(agent(&board), "shell");
    // So is an agent, from its beginning.
    board.apply(&at(51, job("claude --continue")));
    assert_eq!(agent(&board), "claude");
    // The wrapper of an agent is not.
    board.apply(&at(60, job("start-agent")));
    board.apply(&at(61, state("a", "%1", AgentState::Working, None)));
    board.tick(at(70, job("make")).ts);
    assert_eq!(agent(&board), "claude");
}

#[test]
fn a_job_that_failed_is_news_until_one_succeeds() {
    use Attention::{Finished, NeedsYou, Quiet, Working};
    let idle = || shell(AgentState::Idle);
    let begin = || vec![opened("a", "%1", "bash"), idle(), job("make all")];
    let with = |more: Vec<TdEvent>| after([begin(), more].concat());
    let words = Some("make failed (2)".to_owned());
    let failed = |attention, words| ("failed".to_owned(), attention, "make".to_owned(), words);
    assert_eq!(
        with(vec![job_over(2, 10_000)]),
        failed(NeedsYou, words.clone())
    );
    assert_eq!(
        with(vec![job_over(2, 9_999), idle()]),
        failed(Finished, None)
    );
    assert_eq!(
        with(vec![job_over(2, 10_000), seen("a", "%1")]),
        failed(Quiet, words)
    );
    let next = |exit_code| {
        let all = with(vec![
            job_over(2, 10_000),
            idle(),
            job("ls"),
            job_over(exit_code, 3),
        ]);
        (all.0, all.1)
    };
    assert_eq!(next(0), ("idle".into(), Quiet));
    assert_eq!(next(1), ("failed".into(), Finished));
    let running = with(vec![job_over(2, 10_000), job("make all")]);
    assert_eq!((running.0.as_str(), running.1), ("running", Working));
    // The user's own interrupt is no failure.
    assert_eq!(with(vec![job_over(130, 60_000)]).0, "idle");
}

#[test]
fn a_pane_whose_own_program_failed_late_needs_the_user() {
    let closed = |exit_status| TdEvent::PaneClosed {
        execution_id: "a".into(),
        pane: "%1".into(),
        reason: crate::event::PaneCloseReason::Closed.into(),
        exit_status: Some(exit_status),
    };
    for (second, exit_status, expected) in [
        (20, 3, Attention::NeedsYou),
        (5, 3, Attention::Finished),
        (20, 0, Attention::Finished),
        (20, 129, Attention::Finished),
    ] {
        let mut board = Board::default();
        board.apply(&at(1, opened("a", "%1", "ci")));
        board.apply(&at(second, closed(exit_status)));
        assert_eq!(
            board.rows().next().unwrap().attention(),
            expected,
            "{exit_status}"
        );
    }
}

#[test]
fn a_pane_that_ended_within_two_seconds_and_is_not_known_to_have_failed_is_no_row() {
    let closed = |exit_status| TdEvent::PaneClosed {
        execution_id: "a".into(),
        pane: "%1".into(),
        reason: crate::event::PaneCloseReason::Closed.into(),
        exit_status,
    };
    let rows_after = |second, exit_status, more: Vec<TdEvent>| {
        let mut board = Board::default();
        board.apply(&at(1, opened("a", "%1", "true")));
        for event in more {
            board.apply(&at(1, event));
        }
        let changed = board.apply(&at(second, closed(exit_status)));
        assert_eq!(changed.len(), 1, "who follows the changes hears of it");
        // What arrives after the end brings no row back.
        board.apply(&at(second, job_over(0, 5)));
        let counted = Attention::ALL.map(|attention| board.count(attention));
        let rows = board.rows().count();
        assert_eq!(rows, counted.iter().sum::<usize>());
        assert_eq!(
            rows,
            changed.iter().filter_map(|key| board.row(key)).count()
        );
        rows
    };
    assert_eq!(rows_after(2, Some(0), Vec::new()), 0);
    assert_eq!(rows_after(3, Some(0), Vec::new()), 1, "it lived 2 s");
    assert_eq!(rows_after(2, Some(1), Vec::new()), 1, "it failed");
    assert_eq!(rows_after(2, Some(137), Vec::new()), 1, "it was killed");
    assert_eq!(rows_after(2, None, Vec::new()), 0, "nobody knows how");
    let killed = job_over(137, 5);
    let agent = opened("a", "%1", "claude");
    assert_eq!(
        rows_after(2, Some(0), vec![agent, killed]),
        1,
        "its agent was killed"
    );
    let agent = board(&[at(1, opened("a", "%1", "claude")), at(2, closed(None))]);
    assert_eq!(agent.rows().count(), 1, "it may have been killed");
    for is_new in [None, Some(false)] {
        let older = opened_anew(is_new, "a", "%1", "cat");
        let mut board = board(&[at(1, older)]);
        board.apply(&at(2, closed(Some(0))));
        assert_eq!(board.rows().count(), 1, "it was there before");
    }
    for (command, status, attention) in [
        ("claude", 137, Attention::NeedsYou),
        ("claude", 129, Attention::Finished),
        ("make", 137, Attention::Finished),
    ] {
        let mut board = board(&[at(1, opened("a", "%1", command))]);
        board.apply(&at(1, closed(Some(status))));
        let row = board.rows().next().unwrap();
        assert_eq!(row.attention(), attention, "{command} {status}");
        assert!(row.has_ended());
        assert_eq!(row.exit_status, Some(status));
    }
}

/// The agent whose conversation was found, which has no turn yet.
fn found_anew() -> TdEvent {
    TdEvent::ConversationFound {
        execution_id: "a".into(),
        pane: Some("%1".into()),
        agent: Some(Box::new("claude".into())),
        file: None,
        answer: None,
        turn_began: None,
        turn_ended: None,
        acted: None,
    }
}

/// A conversation that was found, with a turn that began at second 2 and ended or acted at second 3.
fn found(is_over: bool) -> TdEvent {
    let second = |second: i64| Some(Timestamp::from_micros(second * SECOND));
    TdEvent::ConversationFound {
        execution_id: "a".into(),
        pane: Some("%1".into()),
        agent: Some(Box::new("claude".into())),
        file: None,
        answer: Some(Box::new("I build it. It works.\n\nDone. Bye.".into())),
        turn_began: second(2),
        turn_ended: second(3).filter(|_| is_over),
        acted: second(3).filter(|_| !is_over),
    }
}

#[test]
fn a_state_from_before_the_observation_has_its_time_and_the_words_of_its_turn() {
    let is = |state_of| state("a", "%1", state_of, None);
    let asks = |question| state("a", "%1", AgentState::Waiting, Some(question));
    let says = || TdEvent::TokenReceived {
        execution_id: "a".into(),
        iteration: 1,
        token: "News.".into(),
        pane: Some("%1".into()),
    };
    use AgentState::{Done, Error, Idle, Suspended, Working};
    // The events begin 100 s after the epoch, 0.3 s apart; the expected time is that of the transcript, or the number
    // of the event that changed the state.
    for (events, expected, last) in [
        // Found before the state is known, and after it.
        (vec![found(true), is(Done)], Ok(3), "Done."),
        (vec![is(Idle), found(true)], Ok(3), "Done."),
        (vec![is(Idle), found(true), is(Done)], Ok(3), "Done."),
        (
            vec![found(true), is(Idle), is(Done), seen("a", "%1")],
            Ok(3),
            "Done.",
        ),
        (
            vec![found(true), state("a", "%1", Error, Some("No."))],
            Ok(3),
            "No.",
        ),
        (
            vec![state("a", "%1", Error, Some("No.")), found(true)],
            Ok(3),
            "No.",
        ),
        (vec![found(false), is(Working)], Ok(2), "Bye."),
        (vec![is(Working), found(false)], Ok(2), "Bye."),
        (vec![found(false), asks("rm x")], Ok(3), "rm x"),
        (
            vec![found(false), is(Working), asks(""), asks("rm x")],
            Ok(3),
            "rm x",
        ),
        // What the observer has seen itself.
        (vec![is(Working), found(true)], Err(1), ""),
        (vec![is(Working), found(true), is(Done)], Err(3), ""),
        (vec![found(true), is(Working), is(Done)], Err(3), "Done."),
        (
            vec![found(true), is(Idle), is(Suspended), is(Idle)],
            Err(4),
            "Done.",
        ),
        (vec![found(true), says(), is(Done)], Err(3), "News."),
        (vec![found(true), is(Done), shell(Idle)], Err(3), "Done."),
        (
            vec![found(true), is(Done), shell(Working), shell(Idle)],
            Err(4),
            "Done.",
        ),
        (
            vec![
                found(true),
                is(Done),
                shell(Idle),
                job("make"),
                job_over(0, 9),
                shell(Working),
                shell(Idle),
            ],
            Err(7),
            "",
        ),
        (
            vec![found(false), asks("rm x"), is(Idle), is(Idle), is(Working)],
            Err(5),
            "Bye.",
        ),
        // A question that comes later is a new one.
        (
            vec![
                found(false),
                is(Working),
                is(Working),
                is(Working),
                asks("rm x"),
            ],
            Err(5),
            "rm x",
        ),
        // It has opened anew.
        (
            vec![
                found(true),
                opened_anew(Some(false), "a", "%1", "claude"),
                is(Done),
            ],
            Err(3),
            "Done.",
        ),
    ] {
        let mut board = Board::default();
        let time = |number: i64| Timestamp::from_micros(100 * SECOND + number * SECOND * 3 / 10);
        board.apply(&Envelope::new(
            None,
            time(0),
            opened_anew(None, "a", "%1", "node"),
        ));
        for (number, event) in (1..).zip(&events) {
            board.apply(&Envelope::new(None, time(number), event.clone()));
        }
        let row = board.rows().next().unwrap();
        let expected = match expected {
            Ok(second) => Timestamp::from_micros(second * SECOND),
            Err(number) => time(number),
        };
        assert_eq!(
            (row.since, row.last_line.as_str()),
            (expected, last),
            "{events:?}"
        );
        assert_eq!(row.turns, 0);
    }
}

#[test]
fn what_an_observer_has_seen_of_a_turn_stays_over_a_restart_and_another_turn_is_new() {
    let is = |state_of| state("a", "%1", state_of, None);
    let ended = || TdEvent::SessionEnded {
        execution_id: "a".into(),
        session: "a".into(),
        reason: SessionEndReason::Detached.into(),
        exit_status: None,
    };
    let second = |second: i64| Timestamp::from_micros(second * SECOND);
    use AgentState::{Done, Idle};
    for (done, events, expected) in [
        (
            3,
            vec![found(true), is(Idle), is(Done)],
            (3, Attention::Quiet),
        ),
        (
            4,
            vec![found(true), is(Idle), is(Done)],
            (4, Attention::Quiet),
        ),
        (3, vec![is(Done), found(true)], (3, Attention::Quiet)),
        // The turn that ended at second 3 is another one.
        (1, vec![is(Done), found(true)], (3, Attention::Finished)),
    ] {
        let mut board = Board::default();
        for (second, event) in [
            (0, opened("a", "%1", "claude")),
            (done, output("a", "%1", "Before.\n")),
            (done, is(Done)),
            (done, seen("a", "%1")),
            (5, ended()),
            (6, opened_anew(Some(false), "a", "%1", "claude")),
        ] {
            board.apply(&at(second, event));
        }
        for event in &events {
            board.apply(&at(7, event.clone()));
        }
        let row = board.rows().next().unwrap();
        let expected = (second(expected.0), expected.1);
        assert_eq!((row.since, row.attention()), expected, "{events:?}");
        // The words that are known stay.
        let is_first = matches!(events[0], TdEvent::ConversationFound { .. });
        let last = if is_first { "Before." } else { "Done." };
        assert_eq!(row.last_line, last);
    }
    // The process of the pane has another name than its agent.
    let mut board = Board::default();
    for (second, event) in [
        (0, opened("a", "%1", "bash")),
        (2, found(true)),
        (3, is(Done)),
        (5, ended()),
        (6, opened_anew(Some(false), "a", "%1", "node")),
        (7, found(true)),
        (7, is(Done)),
    ] {
        board.apply(&at(second, event));
    }
    assert_eq!(board.rows().next().unwrap().last_line, "Done.");
    // The turn began at second 2, but the agent works again since second 4.
    let mut board = Board::default();
    for (second, event) in [
        (0, opened("a", "%1", "claude")),
        (4, is(AgentState::Working)),
        (5, ended()),
        (6, opened_anew(Some(false), "a", "%1", "claude")),
        (7, is(AgentState::Working)),
        (7, found(false)),
    ] {
        board.apply(&at(second, event));
    }
    assert_eq!(board.rows().next().unwrap().since, second(4));
}
