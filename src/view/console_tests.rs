//! What the console shows for what happened.

use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::event::GapEvidence;
use crate::stamp::Timestamp;
use crate::view::clean::tests::nasty;
use crate::view::samples::{completed, output};

fn started(session: &str, panes: &[&str]) -> TdEvent {
    TdEvent::SessionStarted {
        execution_id: "x".into(),
        session: session.into(),
        panes: panes.iter().map(|pane| PaneId::from(*pane)).collect(),
    }
}

fn ended(session: &str) -> TdEvent {
    TdEvent::SessionEnded {
        execution_id: "x".into(),
        session: session.into(),
        reason: "closed".into(),
        exit_status: None,
    }
}

fn update(first_line: i64, chunk: &str) -> TdEvent {
    TdEvent::OutputUpdate {
        execution_id: "x".into(),
        pane: "%1".into(),
        first_line,
        chunk: chunk.into(),
        is_complete: false,
        reason: None,
        exit_status: None,
    }
}

fn revised(line: i64, text: &str) -> TdEvent {
    TdEvent::OutputRevised {
        execution_id: "x".into(),
        pane: "%1".into(),
        line,
        text: text.into(),
    }
}

fn gap(lost_lines: Option<u64>) -> TdEvent {
    TdEvent::OutputGap {
        execution_id: "x".into(),
        pane: "%1".into(),
        first_line: 1,
        lost_lines,
        reason: "history_trimmed".into(),
        evidence: GapEvidence::Confirmed,
    }
}

fn turn(evidence: Option<&str>) -> TdEvent {
    TdEvent::TurnCompleted {
        execution_id: "x".into(),
        marker: "END".into(),
        summary: "It is done.".into(),
        pane: Some("%1".into()),
        evidence: evidence.map(str::to_owned),
    }
}

fn screen() -> TdEvent {
    TdEvent::ScreenUpdate {
        execution_id: "x".into(),
        pane: "%1".into(),
        width: 80,
        height: 24,
        cursor: Default::default(),
        rows: Vec::new(),
    }
}

fn show(console: &mut Console, event: TdEvent) -> String {
    let mut out = String::new();
    console.event(
        &Envelope::new(Some(1), Timestamp::default(), event),
        &mut out,
    );
    out
}

fn shown(events: impl IntoIterator<Item = TdEvent>) -> String {
    let mut console = Console::default();
    events
        .into_iter()
        .map(|event| show(&mut console, event))
        .collect()
}

#[test]
fn each_event_has_its_line() {
    for (events, expected) in [
        (
            vec![update(1, "a\n\nb\n")],
            "job | [watching 1 pane]\njob | a\njob |\njob | b\n",
        ),
        (
            vec![gap(Some(12))],
            "job | [watching 1 pane]\njob | … 12 lines lost (history_trimmed)\n",
        ),
        (
            vec![gap(None)],
            "job | [watching 1 pane]\njob | … lines may be missing (history_trimmed)\n",
        ),
        (
            vec![screen(), screen(), update(1, "a\n"), screen()],
            "job | [watching 1 pane]\njob | [full-screen program]\njob | a\njob | [full-screen program]\n",
        ),
        // A settled line that changes is marked; one that is not settled waits.
        (
            vec![
                revised(1, "50%"),
                update(1, "100%\n"),
                revised(1, "done"),
                revised(1, ""),
            ],
            "job | [watching 1 pane]\njob | 100%\njob ~ done\n",
        ),
        (
            vec![update(1, "a\n"), turn(None), turn(Some("inferred"))],
            "job | [watching 1 pane]\njob | a\njob | [turn completed]\njob | [turn completed (inferred)]\n",
        ),
        // An unanswered prompt is what a session ends with.
        (
            vec![update(1, "a\n"), revised(2, "Deploy? "), ended("job")],
            "job | [watching 1 pane]\njob | a\njob | Deploy? \njob | [ended: closed]\n",
        ),
    ] {
        let events = [started("job", &["%1"])].into_iter().chain(events);
        assert_eq!(shown(events), expected);
    }
}

#[test]
fn executions_have_their_lines() {
    let started = || TdEvent::ExecutionStarted {
        execution_id: "make@17".into(),
        command: "make\ntest".into(),
        cwd: "/".into(),
        pane: None,
        pid: None,
    };
    let check = |line: &str| TdEvent::ValidationOutput {
        execution_id: "make@17".into(),
        iteration: 1,
        line: line.into(),
        is_stderr: true,
    };
    let checked = || TdEvent::ValidationCompleted {
        execution_id: "make@17".into(),
        iteration: 1,
        exit_code: 1,
        duration_ms: 30,
    };
    for (events, expected) in [
        (
            vec![
                started(),
                output("stdout", "first\n\n"),
                output("stderr", "problem\n"),
                completed(Some(7), None),
            ],
            "make@17 | [running: make^Jtest]\nmake@17 | first\nmake@17 |\nmake@17 | [stderr] problem\nmake@17 | [exit code 7 after 1.5 s]\n",
        ),
        // An open line waits for its end, or for the execution's.
        (
            vec![
                output("stdout", "10%\r"),
                output("log", "x\n"),
                output("stdout", "50%"),
                completed(None, Some(9)),
            ],
            "make@17 | [log] x\nmake@17 | 50%\nmake@17 | [signal 9 (KILL) after 1.5 s]\n",
        ),
        (
            vec![check("no"), checked()],
            "make@17 | [stderr] no\nmake@17 | [check: exit code 1 after 0.03 s]\n",
        ),
    ] {
        assert_eq!(shown(events), expected);
    }
    let mut console = Console::new(Look {
        coloured: true,
        ..Look::default()
    });
    let line = show(&mut console, output("stdout", "\u{1b}[32mgreen\u{1b}[2J\n"));
    assert!(
        line.ends_with("make@17\u{1b}[0m | \u{1b}[32mgreen\u{1b}[0m\n"),
        "{line:?}"
    );
}

#[test]
fn the_open_line_of_an_execution_is_live_until_a_pane_has_one() {
    let mut console = Console::default();
    show(&mut console, started("job", &["%1"]));
    show(&mut console, revised(1, "10%"));
    show(&mut console, output("stderr", "a long open line"));
    assert_eq!(
        console.live(80).unwrap(),
        "make@17 | [stderr] a long open line"
    );
    assert_eq!(console.live(20).unwrap(), "make@17 | [stderr] a");
    assert_eq!(console.live(9), None);
    show(&mut console, revised(1, "20%"));
    assert_eq!(console.live(80).unwrap(), "job | 20%");
    show(&mut console, update(1, "all\n"));
    assert_eq!(
        console.live(80).unwrap(),
        "make@17 | [stderr] a long open line"
    );
    let mut out = String::new();
    console.lagged(2, &mut out);
    assert_eq!(
        out,
        "make@17 | [stderr] a long open line\n… 2 events were not shown: reading was too slow\n"
    );
    assert_eq!(console.live(80), None);
}

#[test]
fn panes_are_named_where_there_are_several() {
    let events = [started("job", &["%1", "%2"]), update(1, "a\n")];
    assert_eq!(shown(events), "job | [watching 2 panes]\njob %1 | a\n");
}

#[test]
fn the_live_line_is_the_last_one_that_is_not_settled() {
    let mut console = Console::new(Look {
        aligned: true,
        ..Look::default()
    });
    show(&mut console, started("job", &["%1"]));
    assert_eq!(console.live(80), None);
    show(&mut console, revised(1, "10%"));
    show(&mut console, revised(1, "[####      ] 40%"));
    assert_eq!(console.live(80).unwrap(), "job | [####      ] 40%");
    assert_eq!(console.live(10).unwrap(), "job | [###");
    assert_eq!(console.live(3), None);
    show(&mut console, update(1, "all\n"));
    assert_eq!(console.live(80), None);
}

#[test]
fn colours_are_of_the_session_and_end_with_it() {
    let mut console = Console::new(Look {
        coloured: true,
        ..Look::default()
    });
    show(&mut console, started("job", &["%1"]));
    let line = show(&mut console, update(1, "a\n"));
    assert!(
        line.starts_with("\u{1b}[") && line.ends_with("job\u{1b}[0m | a\n"),
        "{line:?}"
    );
    assert_eq!(line, show(&mut console, update(2, "a\n")));
}

proptest! {
    /// Whatever names and lines hold, no control character but the line end comes out.
    #[test]
    fn nothing_reaches_the_terminal(name in nasty(), pane in nasty(), text in nasty()) {
        let pane = PaneId::from(pane);
        let id = crate::event::ExecutionId::from(name.as_str());
        let mut console = Console::new(Look { verbose: true, ..Look::default() });
        let events = [
            TdEvent::SessionStarted { execution_id: id.clone(), session: name.clone(), panes: vec![pane.clone(), "%9".into()] },
            TdEvent::PaneOpened { execution_id: id.clone(), pane: pane.clone(), width: 1, height: 1, command: text.clone() },
            TdEvent::OutputUpdate {
                execution_id: id.clone(), pane: pane.clone(), first_line: 1, chunk: text.clone(),
                is_complete: true, reason: Some(text.clone()), exit_status: Some(3),
            },
            TdEvent::Warning { execution_id: id.clone(), context: text.clone(), message: text.clone() },
            TdEvent::ExecutionStarted { execution_id: id.clone(), command: text.clone(), cwd: text.clone() , pane: None, pid: None},
            TdEvent::ExecutionOutput { execution_id: id.clone(), stream: text.clone(), text: text.clone() },
            TdEvent::ValidationOutput { execution_id: id.clone(), iteration: 1, line: text.clone(), is_stderr: true },
            TdEvent::OutputRevised { execution_id: id.clone(), pane: pane.clone(), line: 99, text: text.clone() },
        ];
        let mut out = String::new();
        for event in events {
            out.push_str(&show(&mut console, event));
        }
        let live = console.live(40).unwrap_or_default();
        out.push_str(&show(&mut console, TdEvent::SessionEnded {
            execution_id: id, session: name, reason: text, exit_status: None,
        }));
        prop_assert!(!live.contains(char::is_control), "{:?}", live);
        prop_assert!(!out.contains(|c: char| c.is_control() && c != '\n'), "{:?}", out);
        prop_assert!(live.width() <= 40);
    }
}
