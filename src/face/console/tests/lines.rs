//! Tests the lines of events.

use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::event::{GapEvidence, PaneId};
use crate::face::sanitize::tests::nasty;

fn turn(evidence: Option<&str>) -> TdEvent {
    TdEvent::TurnCompleted {
        execution_id: "x".into(),
        marker: "END".into(),
        summary: "It is done.".into(),
        pane: Some("%1".into()),
        evidence: evidence.map(Into::into),
        agent_id: None,
    }
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
            vec![gap(1, Some(12), "history_trimmed")],
            "job | [watching 1 pane]\njob | … 12 lines lost (history_trimmed)\n",
        ),
        (
            vec![gap(1, None, "history_trimmed")],
            "job | [watching 1 pane]\njob | … lines lost (history_trimmed)\n",
        ),
        (
            vec![drawn(), drawn(), update(1, "a\n"), drawn()],
            "job | [watching 1 pane]\njob | a\njob | [full-screen program]\n",
        ),
        // A changed line is held until it stays unchanged; this one vanishes earlier.
        (
            vec![
                revised(1, "50%"),
                update(1, "100%\n"),
                revised(1, "done"),
                revised(1, ""),
            ],
            "job | [watching 1 pane]\njob | 100%\n",
        ),
        (
            vec![update(1, "a\n"), turn(None), turn(Some("inferred"))],
            "job | [watching 1 pane]\njob | a\njob | [turn completed]\njob | [turn completed (inferred)]\n",
        ),
        // A session that ends with an unanswered prompt.
        (
            vec![
                update(1, "a\n"),
                revised(2, "Deploy? "),
                session_ended("job"),
            ],
            "job | [watching 1 pane]\njob | a\njob | Deploy? \njob | [ended: the session was closed]\n",
        ),
    ] {
        let events = [session_started("job", &["%1"])].into_iter().chain(events);
        assert_eq!(shown(events), expected);
    }
}

#[test]
fn executions_have_their_lines() {
    for (events, expected) in [
        (
            vec![
                started("make\ntest"),
                output("stdout", "first\n\n"),
                output("stderr", "problem\n"),
                completed(Some(7), None),
            ],
            "make@17 | [command] make^Jtest\nmake@17 | first\nmake@17 |\nmake@17 | [stderr] problem\nmake@17 | [execution_status] FAILURE: exit code 7 after 1.5 s\n",
        ),
        // An open line is held until its end, or the end of its execution.
        (
            vec![
                output("stdout", "10%\r"),
                output("log", "x\n"),
                output("stdout", "50%"),
                completed(None, Some(9)),
            ],
            "make@17 | [log] x\nmake@17 | 50%\nmake@17 | [execution_status] FAILURE: signal 9 (KILL) after 1.5 s\n",
        ),
        (
            vec![check("no", true), checked(1, 30)],
            "make@17 | [stderr] no\nmake@17 | [validation] FAILED: exit code 1 after 0.03 s\n",
        ),
    ] {
        assert_eq!(shown(events), expected);
    }
    let mut console = coloured();
    let line = show(&mut console, output("stdout", "\u{1b}[32mgreen\u{1b}[2J\n"));
    assert!(
        line.ends_with("make@17\u{1b}[0m | \u{1b}[32mgreen\u{1b}[0m\n"),
        "{line:?}"
    );
}

#[test]
fn the_open_line_of_an_execution_is_live_below_the_panes() {
    let mut console = Console::default();
    show(&mut console, session_started("job", &["%1"]));
    show(&mut console, revised(1, "10%"));
    show(&mut console, output("stderr", "a long open line"));
    assert_eq!(
        live(&console, 80).unwrap(),
        "make@17 | [stderr] a long open line"
    );
    assert_eq!(live(&console, 20).unwrap(), "make@17 | [stderr] a");
    assert_eq!(live(&console, 9).unwrap(), "job | 10%");
    show(&mut console, revised(1, "20%"));
    assert_eq!(
        console.live((80, 24), 0),
        ["job | 20%", "make@17 | [stderr] a long open line"]
    );
    show(&mut console, update(1, "all\n"));
    assert_eq!(
        live(&console, 80).unwrap(),
        "make@17 | [stderr] a long open line"
    );
    let mut out = String::new();
    console.lagged(2, &mut out);
    assert_eq!(
        out,
        "make@17 | [stderr] a long open line\n… 2 events were not shown: reading was too slow\n"
    );
    assert_eq!(live(&console, 80), None);
}

#[test]
fn a_possible_gap_is_shown_only_when_verbose() {
    let possible = || TdEvent::OutputGap {
        execution_id: "x".into(),
        pane: "%1".into(),
        first_line: 7,
        lost_lines: None,
        reason: "ambiguous".into(),
        evidence: GapEvidence::Possible.into(),
    };
    assert_eq!(shown([possible()]), "");
    let mut console = verbose();
    assert_eq!(
        show(&mut console, possible()),
        "x | … lines may be missing (ambiguous)\n"
    );
}

fn played(events: impl IntoIterator<Item = (i64, TdEvent)>) -> String {
    play(Console::default(), events)
}

#[test]
fn a_full_screen_program_is_reported_once_after_its_command_line() {
    for (events, expected) in [
        // The command line settles while the program draws.
        (
            vec![
                (0, revised(1, "$ vi")),
                (100, drawn()),
                (200, update(1, "$ vim x\n")),
                (300, drawn()),
                (400, drawn()),
            ],
            "x | $ vim x\nx | [full-screen program]\n",
        ),
        // The command line settles too late, and is not printed twice.
        (
            vec![
                (0, update(1, "above\n")),
                (10, revised(2, "$ less x")),
                (100, drawn()),
                (900, drawn()),
                (950, update(2, "$ less x\n")),
                (999, drawn()),
            ],
            "x | above\nx | $ less x\nx | [full-screen program]\n",
        ),
        // The program ends earlier, and another one starts.
        (
            vec![
                (0, revised(1, "$ top")),
                (100, drawn()),
                (200, revised(2, "$ ")),
                (300, update(1, "$ top\n")),
                (310, revised(2, "$ vi")),
                (400, drawn()),
                (9000, drawn()),
            ],
            "x | $ top\nx | [full-screen program]\nx | $ vi\nx | [full-screen program]\n",
        ),
        // Everything in one chunk.
        (
            vec![
                (0, revised(3, "$ git log")),
                (100, drawn()),
                (200, update(1, "a\nb\n$ git log\n$ ls\nc\n")),
            ],
            "x | a\nx | b\nx | $ git log\nx | [full-screen program]\nx | $ ls\nx | c\n",
        ),
    ] {
        assert_eq!(played(events), expected);
    }
}

#[test]
fn a_changed_line_is_printed_again_once_it_stays_unchanged() {
    for (events, expected) in [
        // Intermediate states and revisions without a change are omitted.
        (
            vec![
                (0, update(1, "a: 0%\nb\n")),
                (100, revised(1, "a: 10%")),
                (200, revised(1, "a: 90%")),
                (300, revised(1, "a: done")),
                (1300, revised(1, "a: done")),
                (4000, update(3, "c\n")),
                (4100, revised(1, "a: done")),
                (4200, revised(2, "b")),
                (9000, update(4, "d\n")),
            ],
            "x | a: 0%\nx | b\nx ~ a: done\nx | c\nx | d\n",
        ),
        // A reverted change is not printed.
        (
            vec![
                (0, update(1, "a\n")),
                (10, revised(1, "b")),
                (20, revised(1, "a")),
            ],
            "x | a\n",
        ),
        // At the end, the last states and the open lines are printed, with the blank lines between them.
        (
            vec![
                (0, update(1, "a\n")),
                (10, revised(1, "b")),
                (20, revised(2, "Which?")),
                (20, revised(3, "")),
                (20, revised(4, "  1. this")),
                (20, revised(5, "")),
            ],
            "x | a\nx ~ b\nx | Which?\nx |\nx |   1. this\n",
        ),
    ] {
        assert_eq!(played(events), expected);
    }
}

#[test]
fn labels_name_the_pane_in_a_session_of_several() {
    let events = [session_started("job", &["%1", "%2"]), update(1, "a\n")];
    assert_eq!(shown(events), "job | [watching 2 panes]\njob %1 | a\n");
}

proptest! {
    /// Names and lines add no control characters, except line ends.
    #[test]
    fn no_control_character_reaches_the_terminal(name in nasty(), pane in nasty(), text in nasty()) {
        let pane = PaneId::from(pane);
        let id = crate::event::ExecutionId::from(name.as_str());
        let mut console = Console::new(ConsoleOptions { verbose: true, ..ConsoleOptions::default() });
        let events = [
            TdEvent::SessionStarted { execution_id: id.clone(), session: name.clone(), panes: vec![pane.clone(), "%9".into()] },
            TdEvent::PaneOpened { execution_id: id.clone(), pane: pane.clone(), width: 1, height: 1, command: text.clone() },
            TdEvent::OutputUpdate {
                execution_id: id.clone(), pane: pane.clone(), first_line: 1, chunk: text.clone(),
                is_complete: true, reason: Some(text.as_str().into()), exit_status: Some(3),
                styles: Default::default(),
            },
            TdEvent::Warning { execution_id: id.clone(), context: text.clone(), message: text.clone() },
            TdEvent::ExecutionStarted { execution_id: id.clone(), command: text.clone(), cwd: text.clone(), pane: None, pid: None, cell: None },
            TdEvent::ExecutionOutput { execution_id: id.clone(), stream: text.as_str().into(), text: text.clone() },
            TdEvent::ValidationOutput { execution_id: id.clone(), iteration: 1, line: text.clone(), is_stderr: true },
            TdEvent::OutputRevised { execution_id: id.clone(), pane: pane.clone(), line: 99, text: text.clone(), styles: Default::default() },
        ];
        let mut out = String::new();
        for event in events {
            out.push_str(&show(&mut console, event));
        }
        let live = live(&console, 40).unwrap_or_default();
        out.push_str(&show(&mut console, TdEvent::SessionEnded {
            execution_id: id, session: name, reason: text.as_str().into(), exit_status: None,
        }));
        prop_assert!(!live.contains(char::is_control), "{:?}", live);
        prop_assert!(!out.contains(|c: char| c.is_control() && c != '\n'), "{:?}", out);
        prop_assert!(live.width() <= 40);
    }
}
