//! Tests recordings of sample events, of a real pane, and of hostile text.

use std::time::Duration;

use avt::ScreenKind;
use proptest::prelude::*;

use super::super::sanitize::tests::nasty;
use super::AsciicastOptions;
use super::player::*;
use crate::event::{Envelope, EventKind, TdEvent};
use crate::face::samples::*;
use crate::timestamp::Timestamp;

fn pane() -> AsciicastOptions {
    AsciicastOptions {
        pane: Some("%1".into()),
        ..AsciicastOptions::default()
    }
}

fn played(events: impl IntoIterator<Item = TdEvent>) -> Recorded {
    Recorded::of(pane(), &log(events)).0
}

#[test]
fn lines_progress_and_revisions_end_with_the_text() {
    for (events, expected) in [
        (vec![update(1, "a\nb\n")], vec!["a", "b"]),
        // A progress line, and its final text.
        (
            vec![
                revised(1, "10%"),
                revised(1, "50%"),
                update(1, "100%\nok\n"),
                revised(3, "$ "),
            ],
            vec!["100%", "ok", "$"],
        ),
        // A line that settles with its open text.
        (
            vec![revised(1, "abc"), update(1, "abc\n"), update(2, "d\n")],
            vec!["abc", "d"],
        ),
        // Changes of earlier lines, some of them unknown.
        (
            vec![
                update(1, "a\nb\nc\n"),
                revised(2, "B"),
                revised(-1, "old"),
                revised(0, ""),
            ],
            vec!["old", "a", "B", "c"],
        ),
        // Open lines further down.
        (
            vec![
                revised(1, "one"),
                revised(3, "three"),
                revised(3, ""),
                update(1, "1\n"),
            ],
            vec!["1"],
        ),
        (
            vec![revised(1, "one"), revised(3, "three"), update(1, "1\n2\n")],
            vec!["1", "2", "three"],
        ),
        // A line that is wider than the screen, and gets shorter.
        (
            vec![
                update(1, "abcdefghijklmnopqrstuvwxyz\nx\n"),
                revised(1, "short"),
            ],
            vec!["short", "x"],
        ),
        (
            vec![revised(1, "漢字漢字漢字漢字漢字"), update(1, "漢字\n")],
            vec!["漢字"],
        ),
        // A gap adds no text.
        (
            vec![
                update(1, "a\n"),
                gap(2, Some(3), "history_trimmed"),
                update(5, "e\n"),
            ],
            vec!["a", "e"],
        ),
    ] {
        let shown = format!("{events:?}");
        let recording = played([opened("%1", 10, 6)].into_iter().chain(events));
        assert_eq!(recording.text(), expected, "{shown}");
        assert_eq!(recording.screen(), expected, "{shown}");
    }
}

#[test]
fn the_header_has_the_size_of_the_pane_and_markers_describe_events() {
    let options = AsciicastOptions {
        title: Some("a\u{1b}[31m \u{9b}title".into()),
        ..pane()
    };
    let started = session_started("job", &["%1"]);
    let events = [
        started,
        opened("%2", 33, 11),
        opened("%1", 100, 30),
        resized(90, 20),
        gap(1, Some(1), "cleared"),
        update(1, "a\n"),
        closed(Some(3)),
    ];
    let (recording, _) = Recorded::of(options, &log(events));
    assert_eq!(
        (recording.header.term.cols, recording.header.term.rows),
        (100, 30)
    );
    assert_eq!(recording.header.timestamp, Some(1_700_000_000));
    assert_eq!(recording.header.title.as_deref(), Some("a^[[31m <9b>title"));
    assert_eq!(
        recording.all('m'),
        [
            "watching 1 pane",
            "pane %1 opened: sh, 100x30",
            "1 line lost (cleared)",
            "pane %1 exited, exit status 3"
        ]
    );
    assert_eq!(
        (recording.all('r'), recording.all('x')),
        (vec!["90x20"], vec!["3"])
    );
    assert_eq!(recording.duration_micros(), 6 * 100_003);
    // A log without events also gives a recording.
    let (recording, _) = Recorded::of(pane(), &[]);
    assert_eq!(
        (recording.header.term.cols, recording.header.term.rows),
        (80, 24)
    );
    assert_eq!(recording.events, []);
}

#[test]
fn a_full_screen_program_returns_to_the_primary_screen() {
    let begin = [opened("%1", 10, 4), update(1, "a\n"), revised(2, "$ vi")];
    let vi = [
        screen(
            10,
            4,
            &[(0, "hello"), (1, "world"), (3, "-- 漢字漢字漢字 --")],
        ),
        screen(10, 4, &[(1, "there")]),
    ];
    let recording = played(begin.iter().chain(&vi).cloned());
    assert_eq!(recording.screen(), ["hello", "there", "", "-- 漢字漢"]);
    let terminal = recording.play(Some(0));
    assert!(terminal.active_screen_kind() == ScreenKind::Alternate);
    assert_eq!((terminal.cursor().col, terminal.cursor().row), (1, 0));
    // An earlier line settles while the program runs; its next update has only changed rows.
    let settled = [update(2, "$ vi\n"), screen(10, 4, &[(0, "")])];
    let recording = played(begin.iter().chain(&vi).chain(&settled).cloned());
    assert_eq!(recording.screen(), ["", "there", "", "-- 漢字漢"]);
    // The pane is resized while the program runs.
    let sized = [
        resized(12, 5),
        screen(12, 5, &[(4, "last")]),
        revised(2, "$ ls"),
    ];
    let recording = played(begin.iter().chain(&vi).chain(&sized[..2]).cloned());
    assert_eq!(recording.screen(), ["", "", "", "", "last"]);
    let recording = played(begin.iter().chain(&vi).chain(&sized).cloned());
    assert_eq!(recording.all('r'), ["12x5"]);
    assert_eq!(
        (recording.text(), recording.screen()),
        (
            vec!["a".into(), "$ ls".into()],
            vec!["a".into(), "$ ls".into()]
        )
    );
    // Another program.
    let other = [
        revised(2, "$ top"),
        screen(10, 4, &[(0, "top"), (1, "there")]),
    ];
    let recording = played(begin.iter().chain(&vi).chain(&other).cloned());
    assert_eq!(recording.screen(), ["top", "there"]);
    assert_eq!(
        recording.play(None).primary_screen().text()[..2],
        ["a", "$ top"]
    );
}

#[test]
fn changes_to_lines_that_scrolled_off_are_counted() {
    let chunk: String = (1..=5).map(|n| format!("{n}\n")).collect();
    let events = [
        opened("%1", 10, 4),
        update(1, &chunk),
        revised(1, "one"),
        revised(4, "four"),
    ];
    let (recording, unreached) = Recorded::of(pane(), &log(events));
    assert_eq!(unreached, 1);
    assert_eq!(recording.text(), ["1", "2", "3", "four", "5"]);
    assert_eq!(recording.screen(), ["3", "four", "5"]);
}

#[test]
fn intervals_match_the_log() {
    let at = |seconds: f64, event| {
        let ts = Timestamp::from_micros((seconds * 1e6) as i64);
        Envelope::new(None, ts, event)
    };
    let envelopes = [
        at(10.0, opened("%1", 10, 4)),
        at(10.000001, update(1, "a\n")),
        at(70.0, update(2, "b\n")),
        // The clock goes back, then advances.
        at(20.0, update(3, "c\n")),
        at(20.5, update(4, "d\n")),
        at(21.0, opened("%2", 10, 4)),
    ];
    let (recording, _) = Recorded::of(pane(), &envelopes);
    let times = |recording: &Recorded| -> Vec<u64> {
        let drawn = recording.events.iter().filter(|(_, code, _)| *code == 'o');
        drawn.map(|(interval, ..)| *interval).collect()
    };
    assert_eq!(times(&recording), [1, 59_999_999, 0, 500_000, 500_000]);
    let limited = AsciicastOptions {
        idle_limit: Some(Duration::from_secs(2)),
        ..pane()
    };
    let (recording, _) = Recorded::of(limited, &envelopes);
    assert_eq!(times(&recording), [1, 2_000_000, 0, 500_000, 500_000]);
}

#[test]
fn several_panes_are_shown_as_the_console_shows_them() {
    let other = update_of(
        "%2",
        1,
        "other
",
        Vec::new(),
    );
    let started = session_started("job", &["%1", "%2"]);
    let events = [
        started,
        update(1, "one\n"),
        other,
        update(2, "two\n"),
        gap(3, None, "ambiguous"),
    ];
    let (recording, _) = Recorded::of(AsciicastOptions::default(), &log(events));
    assert_eq!(
        (recording.header.term.cols, recording.header.term.rows),
        (120, 40)
    );
    assert_eq!(
        recording.screen(),
        [
            "job | [watching 2 panes]",
            "job %1 | one",
            "job %2 | other",
            "job %1 | two",
            "job %1 | … lines lost (ambiguous)",
        ]
    );
    assert_eq!(
        recording.all('m'),
        ["watching 2 panes", "lines lost (ambiguous)"]
    );
}

#[test]
fn text_outside_of_panes_is_unchanged() {
    // A log of a version without sequence numbers.
    let lines = r#"{"ts":"2026-01-21T10:00:00Z","event":{"type":"IterationStarted","execution_id":"a","iteration":1}}
{"ts":"2026-01-21T10:00:01Z","event":{"type":"TokenReceived","execution_id":"a","iteration":1,"token":"he"}}
{"ts":"2026-01-21T10:00:01Z","event":{"type":"TokenReceived","execution_id":"a","iteration":1,"token":"llo"}}
{"ts":"2026-01-21T10:00:03Z","event":{"type":"ValidationOutput","execution_id":"a","iteration":1,"line":"FAILED","is_stderr":true}}
{"ts":"2026-01-21T10:00:04Z","event":{"type":"IterationCompleted","execution_id":"a","iteration":1,"outcome":{"ValidationFailed":{"exit_code":1}}}}
{"ts":"2026-01-21T10:00:05Z","event":{"type":"ExecutionOutput","execution_id":"a","stream":"stdout","text":"x\r\ny"}}
{"ts":"2026-01-21T10:00:06Z","event":{"type":"ExecutionCompleted","execution_id":"a","signal":9,"duration_ms":1}}"#;
    let log: Vec<Envelope> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (recording, _) = Recorded::of(AsciicastOptions::default(), &log);
    assert_eq!(
        (recording.header.term.cols, recording.header.term.rows),
        (80, 24)
    );
    assert_eq!(recording.screen(), ["hello", "FAILED", "x", "y"]);
    assert_eq!(
        recording.all('m'),
        [
            "iteration 1 begins",
            "iteration 1: not done: the check failed with exit code 1",
            "execution_status FAILURE: signal 9 (KILL) after 0.00 s"
        ]
    );
    assert_eq!(
        (recording.all('x'), recording.duration_micros()),
        (vec!["137"], 6_000_000)
    );
}

#[test]
fn an_open_line_is_shown_while_it_changes() {
    let wide = "x".repeat(100);
    let events = [
        output("stdout", "Compi"),
        output("stdout", "ling\n10%"),
        output("stdout", "\r50%"),
        output("stderr", "oh\n"),
        output("stdout", "\r\u{1b}[1m100%\n"),
        output("stdout", &wide),
    ];
    let (recording, _) = Recorded::of(AsciicastOptions::default(), &log(events.clone()));
    assert_eq!(
        recording.all('o'),
        [
            "Compi",
            "ling\r\n10%",
            "\r\u{1b}[K50%",
            "\r\u{1b}[Koh\r\n50%",
            "\r\u{1b}[K100%\r\n",
            &wide[..79],
            // The end.
            &format!("{}\r\n", &wide[79..]),
        ]
    );
    assert_eq!(recording.text(), ["Compiling", "oh", "100%", &wide]);
    let (recording, _) = Recorded::of(AsciicastOptions::default(), &log(events[..3].to_vec()));
    assert_eq!(recording.screen(), ["Compiling", "50%"]);
}

/// Recorded from a real pane on tmux 3.3a: `recorded/program.sh` in a session of 80x24 on its own server,
/// observed with `--interval 100ms`; then `capture-pane -p -J -S -` and `capture-pane -p`.
#[test]
fn a_recorded_pane_ends_with_the_screen_of_tmux() {
    let log = include_str!("recorded/pane.jsonl").lines();
    let log: Vec<Envelope> = log
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let options = AsciicastOptions {
        pane: Some("%0".into()),
        ..AsciicastOptions::default()
    };
    let (recording, unreached) = Recorded::of(options, &log);
    assert_eq!(unreached, 0);
    // The first line is the baseline.
    let joined = trimmed(
        include_str!("recorded/joined.txt")
            .lines()
            .skip(1)
            .map(str::to_owned),
    );
    assert_eq!(recording.text(), joined);
    let screen = trimmed(
        include_str!("recorded/screen.txt")
            .lines()
            .map(str::to_owned),
    );
    assert_eq!(recording.screen(), screen);
    assert_eq!(recording.all('r'), ["50x12", "100x30"]);
    let duration = log[log.len() - 1].ts.micros() - log[1].ts.micros();
    assert_eq!(recording.duration_micros(), duration as u64);
    // While the full-screen program runs.
    let until = log
        .iter()
        .position(|e| e.event.kind() == EventKind::ScreenUpdate)
        .unwrap();
    let (recording, _) = Recorded::of(
        AsciicastOptions {
            pane: Some("%0".into()),
            ..AsciicastOptions::default()
        },
        &log[..until + 2],
    );
    assert_eq!(recording.screen(), ["full screen", "second", "third"]);
}

/// Removes the sequences of this module from a recording's output.
fn text_only(mut data: &str) -> String {
    let mut text = String::new();
    while let Some(at) = data.find('\u{1b}') {
        text.push_str(&data[..at]);
        data = &data[at + 1..];
        let end = data.find(|c: char| c.is_ascii_alphabetic()).unwrap();
        let sequence = &data[..=end];
        let moves = sequence
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix('H'));
        let is_ours = matches!(sequence, "[J" | "[K" | "[2J" | "[?1049h" | "[?1049l")
            || moves.is_some_and(|at| at.chars().all(|c| c.is_ascii_digit() || c == ';'));
        assert!(is_ours, "{sequence:?}");
        data = &data[end + 1..];
    }
    text + data
}

proptest! {
    /// Names and lines add no sequences to a recording.
    #[test]
    fn hostile_text_adds_no_sequence(text in nasty(), name in nasty(), number in any::<i64>(), size in any::<(u32, u32)>()) {
        let started = TdEvent::SessionStarted { execution_id: "x".into(), session: name.clone(), panes: vec!["%1".into(), "%2".into()] };
        let output = TdEvent::ExecutionOutput { execution_id: "x".into(), stream: text.as_str().into(), text: text.clone() };
        let warning = TdEvent::Warning { execution_id: "x".into(), context: text.clone(), message: text.clone() };
        let events = [
            started, output, warning, opened("%1", 20, 5), update(1, &text), revised(2, &text), revised(1, &name),
            screen(20, 5, &[(0, &text), (4, &name)]), gap(9, Some(u64::MAX), &text), revised(0, &name),
            revised(number, &text), update(number, &format!("{text}\n{name}\n")), gap(number, Some(7), &text),
            resized(size.0 % 300, size.1 % 300), screen(size.0, size.1 % 2000, &[(size.0, &text), (size.1, &text)]),
            revised(i64::MAX, &text), update(i64::MAX, "a\nb\n"), update(i64::MIN, &text), closed(Some(-1)),
        ];
        for pane in [Some("%1".into()), None] {
            let title = Some(text.clone());
            let (recording, _) = Recorded::of(AsciicastOptions { pane, title, ..AsciicastOptions::default() }, &log(events.clone()));
            for data in recording.all('o') {
                // Without line ends, and without the start of a rewritten row.
                let text = text_only(&data.replace("\r\u{1b}[K", "")).replace("\r\n", "");
                prop_assert!(!text.contains(char::is_control), "{:?}", data);
            }
            for data in recording.all('m') {
                prop_assert!(!data.contains(char::is_control), "{:?}", data);
            }
        }
    }
}
