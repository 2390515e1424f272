//! Tests of the board: single events and the order of rows.

mod properties;

use super::*;
use crate::event::{
    AgentState, OutputStream, PaneViewer, SessionEndReason, StateEvidence, TdEvent,
};

const SECOND: i64 = 1_000_000;

fn at(seconds: i64, event: TdEvent) -> Envelope {
    Envelope::new(Some(1), Timestamp::from_micros(seconds * SECOND), event)
}

fn opened(id: &str, pane: &str, command: &str) -> TdEvent {
    TdEvent::PaneOpened {
        execution_id: id.into(),
        pane: pane.into(),
        width: 80,
        height: 24,
        command: command.into(),
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
            board.end(&id.into(), None, Timestamp::from_micros(9 * SECOND));
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
    board.end(&"a".into(), None, Timestamp::from_micros(9 * SECOND));
    for event in [
        opened("a", "%1", "claude"),
        output("a", "%1", "more\n"),
        done(),
    ] {
        board.apply(&at(20, event));
    }
    assert_eq!(places(&board), [("a", "finished")]);
}

#[test]
fn a_seen_row_is_quiet_until_it_finishes_again() {
    let mut board = board(&[at(0, opened("a", "%1", "claude")), at(1, seen("a", "%1"))]);
    assert_eq!(places(&board), [("a", "working")]);
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
        at(2, output("a", "%1", "╭──────────────╮\n")),
    ]);
    let row = board.rows().next().unwrap();
    assert_eq!(row.last_line, "I have changed two files.");
    assert_eq!(row.last_output, Some(Timestamp::from_micros(2 * SECOND)));
}

#[test]
fn commands_loops_and_background_agents_have_rows() {
    let id = |id: &str| crate::event::ExecutionId::from(id);
    let board = board(&[
        at(
            0,
            TdEvent::ExecutionStarted {
                execution_id: id("c"),
                command: "/usr/bin/make -j2\nsecond".into(),
                cwd: "/".into(),
                pane: None,
                pid: Some(7),
                cell: None,
            },
        ),
        at(
            1,
            TdEvent::ExecutionOutput {
                execution_id: id("c"),
                stream: OutputStream::Stdout.into(),
                text: "linking\n".into(),
            },
        ),
        at(
            2,
            TdEvent::ExecutionCompleted {
                execution_id: id("c"),
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
            ("loop", "Fix the tests", "running", None),
        ]
    );
    let json = serde_json::to_value(board.rows().nth(1).unwrap()).unwrap();
    assert_eq!(json["agent"], "make");
    assert_eq!(json["last_line"], "linking");
    assert_eq!(json["attention"], "finished");
}
