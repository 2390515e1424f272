//! What a cast has, case by case, and what a recorded pane and hostile text make of it.

use std::time::Duration;

use avt::ScreenKind;
use proptest::prelude::*;

use super::AsciicastOptions;
use super::player::*;
use crate::event::{Envelope, EventKind, TdEvent};
use crate::face::clean::tests::nasty;
use crate::timestamp::Timestamp;

fn pane() -> AsciicastOptions {
    AsciicastOptions {
        pane: Some("%1".into()),
        ..AsciicastOptions::default()
    }
}

fn played(events: impl IntoIterator<Item = TdEvent>) -> Played {
    Played::of(pane(), &log(events)).0
}

#[test]
fn lines_progress_and_revisions_end_at_the_text() {
    for (events, expected) in [
        (vec![update(1, "a\nb\n")], vec!["a", "b"]),
        // Progress, and the line that it becomes.
        (
            vec![
                revised(1, "10%"),
                revised(1, "50%"),
                update(1, "100%\nok\n"),
                revised(3, "$ "),
            ],
            vec!["100%", "ok", "$"],
        ),
        // Settled as it was shown.
        (
            vec![revised(1, "abc"), update(1, "abc\n"), update(2, "d\n")],
            vec!["abc", "d"],
        ),
        // Earlier lines, some of which nobody knew of.
        (
            vec![
                update(1, "a\nb\nc\n"),
                revised(2, "B"),
                revised(-1, "old"),
                revised(0, ""),
            ],
            vec!["old", "a", "B", "c"],
        ),
        // Lines below the one that is to be said next.
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
        // A line that is longer than the screen is wide, and gets shorter.
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
        // A gap is no text.
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
        let cast = played([opened("%1", 10, 6)].into_iter().chain(events));
        assert_eq!(cast.text(), expected, "{shown}");
        assert_eq!(cast.screen(), expected, "{shown}");
    }
}

#[test]
fn the_header_has_the_size_of_the_pane_and_markers_tell_the_rest() {
    let options = AsciicastOptions {
        title: Some("a\u{1b}[31m \u{9b}title".into()),
        ..pane()
    };
    let started = TdEvent::SessionStarted {
        execution_id: "x".into(),
        session: "job".into(),
        panes: vec!["%1".into()],
    };
    let events = [
        started,
        opened("%2", 33, 11),
        opened("%1", 100, 30),
        resized(90, 20),
        gap(1, Some(1), "cleared"),
        update(1, "a\n"),
        closed(Some(3)),
    ];
    let (cast, _) = Played::of(options, &log(events));
    assert_eq!((cast.header.term.cols, cast.header.term.rows), (100, 30));
    assert_eq!(cast.header.timestamp, Some(1_700_000_000));
    assert_eq!(cast.header.title.as_deref(), Some("a^[[31m <9b>title"));
    assert_eq!(
        cast.all('m'),
        [
            "watching job",
            "%1 opened: sh",
            "1 line lost: cleared",
            "%1 exited: 3"
        ]
    );
    assert_eq!((cast.all('r'), cast.all('x')), (vec!["90x20"], vec!["3"]));
    assert_eq!(cast.duration_micros(), 6 * 100_003);
    // Nothing at all is a cast, too.
    let (cast, _) = Played::of(pane(), &[]);
    assert_eq!((cast.header.term.cols, cast.header.term.rows), (80, 24));
    assert_eq!(cast.events, []);
}

#[test]
fn a_full_screen_program_has_its_screen_and_gives_the_old_one_back() {
    let begin = [opened("%1", 10, 4), update(1, "a\n"), revised(2, "$ vi")];
    let vi = [
        screen(
            10,
            4,
            &[(0, "hello"), (1, "world"), (3, "-- 漢字漢字漢字 --")],
        ),
        screen(10, 4, &[(1, "there")]),
    ];
    let cast = played(begin.iter().chain(&vi).cloned());
    assert_eq!(cast.screen(), ["hello", "there", "", "-- 漢字漢"]);
    let terminal = cast.play(Some(0));
    assert!(terminal.active_screen_kind() == ScreenKind::Alternate);
    assert_eq!((terminal.cursor().col, terminal.cursor().row), (1, 0));
    // The line before it settles while it runs, and then only what changed is said.
    let settled = [update(2, "$ vi\n"), screen(10, 4, &[(0, "")])];
    let cast = played(begin.iter().chain(&vi).chain(&settled).cloned());
    assert_eq!(cast.screen(), ["", "there", "", "-- 漢字漢"]);
    // Its size, and the pane's while it runs.
    let sized = [
        resized(12, 5),
        screen(12, 5, &[(4, "last")]),
        revised(2, "$ ls"),
    ];
    let cast = played(begin.iter().chain(&vi).chain(&sized[..2]).cloned());
    assert_eq!(cast.screen(), ["", "", "", "", "last"]);
    let cast = played(begin.iter().chain(&vi).chain(&sized).cloned());
    assert_eq!(cast.all('r'), ["12x5"]);
    assert_eq!(
        (cast.text(), cast.screen()),
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
    let cast = played(begin.iter().chain(&vi).chain(&other).cloned());
    assert_eq!(cast.screen(), ["top", "there"]);
    assert_eq!(cast.play(None).primary_screen().text()[..2], ["a", "$ top"]);
}

#[test]
fn what_has_scrolled_off_is_counted_and_stays() {
    let chunk: String = (1..=5).map(|n| format!("{n}\n")).collect();
    let events = [
        opened("%1", 10, 4),
        update(1, &chunk),
        revised(1, "one"),
        revised(4, "four"),
    ];
    let (cast, unreached) = Played::of(pane(), &log(events));
    assert_eq!(unreached, 1);
    assert_eq!(cast.text(), ["1", "2", "3", "four", "5"]);
    assert_eq!(cast.screen(), ["3", "four", "5"]);
}

#[test]
fn times_are_the_recorded_ones() {
    let at = |seconds: f64, event| {
        let ts = Timestamp::from_micros((seconds * 1e6) as i64);
        Envelope::new(None, ts, event)
    };
    let envelopes = [
        at(10.0, opened("%1", 10, 4)),
        at(10.000001, update(1, "a\n")),
        at(70.0, update(2, "b\n")),
        // The clock is set back, and goes on.
        at(20.0, update(3, "c\n")),
        at(20.5, update(4, "d\n")),
        at(21.0, opened("%2", 10, 4)),
    ];
    let (cast, _) = Played::of(pane(), &envelopes);
    let times = |cast: &Played| -> Vec<u64> {
        let drawn = cast.events.iter().filter(|(_, code, _)| *code == 'o');
        drawn.map(|(interval, ..)| *interval).collect()
    };
    assert_eq!(times(&cast), [1, 59_999_999, 0, 500_000, 500_000]);
    let limited = AsciicastOptions {
        idle_limit: Some(Duration::from_secs(2)),
        ..pane()
    };
    let (cast, _) = Played::of(limited, &envelopes);
    assert_eq!(times(&cast), [1, 2_000_000, 0, 500_000, 500_000]);
}

#[test]
fn several_panes_are_shown_as_the_console_shows_them() {
    let other = TdEvent::OutputUpdate {
        execution_id: "x".into(),
        pane: "%2".into(),
        first_line: 1,
        chunk: "other\n".into(),
        is_complete: false,
        reason: None,
        exit_status: None,
        styles: Default::default(),
    };
    let started = TdEvent::SessionStarted {
        execution_id: "x".into(),
        session: "job".into(),
        panes: vec!["%1".into(), "%2".into()],
    };
    let events = [
        started,
        update(1, "one\n"),
        other,
        update(2, "two\n"),
        gap(3, None, "ambiguous"),
    ];
    let (cast, _) = Played::of(AsciicastOptions::default(), &log(events));
    assert_eq!((cast.header.term.cols, cast.header.term.rows), (120, 40));
    assert_eq!(
        cast.screen(),
        [
            "job | [watching 2 panes]",
            "job %1 | one",
            "job %2 | other",
            "job %1 | two",
            "job %1 | … lines lost (ambiguous)",
        ]
    );
    assert_eq!(cast.all('m'), ["watching job", "lines lost: ambiguous"]);
}

#[test]
fn what_has_no_pane_is_shown_as_it_came() {
    // A log as it was before numbers.
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
    let (cast, _) = Played::of(AsciicastOptions::default(), &log);
    assert_eq!((cast.header.term.cols, cast.header.term.rows), (80, 24));
    assert_eq!(cast.screen(), ["hello", "FAILED", "x", "y"]);
    assert_eq!(
        cast.all('m'),
        [
            "iteration 1",
            "iteration 1: check failed: 1",
            "execution completed"
        ]
    );
    assert_eq!(
        (cast.all('x'), cast.duration_micros()),
        (vec!["137"], 6_000_000)
    );
}

#[test]
fn a_line_that_is_open_is_shown_as_it_changes() {
    let output = |stream: &str, text: &str| TdEvent::ExecutionOutput {
        execution_id: "a".into(),
        stream: stream.into(),
        text: text.into(),
    };
    let wide = "x".repeat(100);
    let events = [
        output("stdout", "Compi"),
        output("stdout", "ling\n10%"),
        output("stdout", "\r50%"),
        output("stderr", "oh\n"),
        output("stdout", "\r\u{1b}[1m100%\n"),
        output("stdout", &wide),
    ];
    let (cast, _) = Played::of(AsciicastOptions::default(), &log(events.clone()));
    assert_eq!(
        cast.all('o'),
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
    assert_eq!(cast.text(), ["Compiling", "oh", "100%", &wide]);
    let (cast, _) = Played::of(AsciicastOptions::default(), &log(events[..3].to_vec()));
    assert_eq!(cast.screen(), ["Compiling", "50%"]);
}

/// A real pane on tmux 3.3a: `recorded/program.sh` in a session of 80x24 on a server of its own,
/// watched with `--interval 100ms`; then `capture-pane -p -J -S -` and `capture-pane -p`.
#[test]
fn a_recorded_pane_ends_as_tmux_showed_it() {
    let log = include_str!("recorded/pane.jsonl").lines();
    let log: Vec<Envelope> = log
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let options = AsciicastOptions {
        pane: Some("%0".into()),
        ..AsciicastOptions::default()
    };
    let (cast, unreached) = Played::of(options, &log);
    assert_eq!(unreached, 0);
    // The first line stood there before.
    let joined = trimmed(
        include_str!("recorded/joined.txt")
            .lines()
            .skip(1)
            .map(str::to_owned),
    );
    assert_eq!(cast.text(), joined);
    let screen = trimmed(
        include_str!("recorded/screen.txt")
            .lines()
            .map(str::to_owned),
    );
    assert_eq!(cast.screen(), screen);
    assert_eq!(cast.all('r'), ["50x12", "100x30"]);
    let duration = log[log.len() - 1].ts.micros() - log[1].ts.micros();
    assert_eq!(cast.duration_micros(), duration as u64);
    // While the full-screen program ran.
    let until = log
        .iter()
        .position(|e| e.event.kind() == EventKind::ScreenUpdate)
        .unwrap();
    let (cast, _) = Played::of(
        AsciicastOptions {
            pane: Some("%0".into()),
            ..AsciicastOptions::default()
        },
        &log[..until + 2],
    );
    assert_eq!(cast.screen(), ["full screen", "second", "third"]);
}

/// What is left of a cast's output when our own sequences are taken out.
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
    /// Whatever names and lines hold, all that orders the terminal is ours.
    #[test]
    fn hostile_text_orders_nothing(text in nasty(), name in nasty(), number in any::<i64>(), size in any::<(u32, u32)>()) {
        let started = TdEvent::SessionStarted { execution_id: "x".into(), session: name.clone(), panes: vec!["%1".into(), "%2".into()] };
        let output = TdEvent::ExecutionOutput { execution_id: "x".into(), stream: text.clone(), text: text.clone() };
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
            let (cast, _) = Played::of(AsciicastOptions { pane, title, ..AsciicastOptions::default() }, &log(events.clone()));
            for data in cast.all('o') {
                // A line end, and the beginning of a row that is written anew.
                let text = text_only(&data.replace("\r\u{1b}[K", "")).replace("\r\n", "");
                prop_assert!(!text.contains(char::is_control), "{:?}", data);
            }
            for data in cast.all('m') {
                prop_assert!(!data.contains(char::is_control), "{:?}", data);
            }
        }
    }
}
