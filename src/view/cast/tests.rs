//! A cast that is played ends at the recorded text, whatever happened on the way.

use std::collections::BTreeMap;
use std::time::Duration;

use avt::{ScreenKind, Terminal};
use proptest::prelude::*;

use super::CastOptions;
use super::play::*;
use crate::event::{Envelope, TdEvent};
use crate::stamp::Timestamp;
use crate::view::clean::push_clean;
use crate::view::clean::tests::nasty;

fn pane() -> CastOptions {
    CastOptions {
        pane: Some("%1".into()),
        ..CastOptions::default()
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
    let options = CastOptions {
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
    let limited = CastOptions {
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
    let (cast, _) = Played::of(CastOptions::default(), &log(events));
    assert_eq!((cast.header.term.cols, cast.header.term.rows), (120, 40));
    assert_eq!(
        cast.screen(),
        [
            "job | [watching 2 panes]",
            "job %1 | one",
            "job %2 | other",
            "job %1 | two",
            "job %1 | … lines may be missing (ambiguous)",
        ]
    );
    assert_eq!(
        cast.all('m'),
        ["watching job", "lines may be missing: ambiguous"]
    );
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
    let (cast, _) = Played::of(CastOptions::default(), &log);
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

/// What can happen to a pane.
#[derive(Clone, Debug)]
enum Step {
    /// New lines settle, unsettled ones among them perhaps as they are.
    Say(Vec<String>, bool),
    /// A line is shown before it settles, so far below the settled ones.
    Show(i64, String),
    /// A line reads differently, so far back.
    Revise(i64, String),
    /// A line of the baseline.
    Baseline(i64, String),
    Resize(u32, u32),
    Screen(Vec<(u32, String)>),
    Gap(Option<u64>),
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z]{0,12}",
        2 => "[a-z ]{10,70}",
        1 => "[漢字かな]{0,30}",
        1 => "[a-z漢]{5,40}",
        1 => nasty().prop_map(|text| text.replace('\n', "")),
    ]
}

fn steps(sizes: bool) -> impl Strategy<Value = Vec<Step>> {
    let resize = (2_u32..40, 1_u32..12).prop_map(|(width, height)| Step::Resize(width, height));
    let one = prop_oneof![
        6 => (prop::collection::vec(line(), 1..6), any::<bool>()).prop_map(|(lines, same)| Step::Say(lines, same)),
        4 => (0_i64..3, line()).prop_map(|(at, text)| Step::Show(at, text)),
        3 => (1_i64..8, line()).prop_map(|(back, text)| Step::Revise(back, text)),
        1 => (-5_i64..=0, line()).prop_map(|(number, text)| Step::Baseline(number, text)),
        (if sizes { 2 } else { 0 }) => resize,
        1 => prop::collection::vec((0_u32..12, line()), 0..5).prop_map(Step::Screen),
        1 => prop::option::of(1_u64..5).prop_map(Step::Gap),
    ];
    prop::collection::vec(one, 1..40)
}

/// What a pane reads, as the wire contract has it.
#[derive(Debug)]
struct Truth {
    lines: BTreeMap<i64, String>,
    next: i64,
    size: (u32, u32),
    has_wide: bool,
}

impl Truth {
    fn step(&mut self, step: &Step) -> TdEvent {
        match step {
            Step::Say(lines, same) => {
                let first = self.next;
                let mut chunk = String::new();
                for line in lines {
                    let shown = self
                        .lines
                        .get(&self.next)
                        .filter(|shown| *same && !shown.is_empty());
                    let line = shown.unwrap_or(line).clone();
                    chunk.push_str(&line);
                    chunk.push('\n');
                    self.set(self.next, line.trim_end_matches(' '));
                    self.next += 1;
                }
                update(first, &chunk)
            }
            Step::Show(below, text) => {
                let number = self.next + below;
                // As many as a screen has rows.
                let known = self.lines.last_key_value().map_or(0, |(last, _)| last + 1);
                let hole = self.next.max(known);
                if !text.is_empty() && number - hole < i64::from(self.size.1) {
                    let rows = (hole..number).map(|number| (number, String::new()));
                    self.lines.extend(rows);
                }
                self.set(number, text);
                let next = self.next;
                while self
                    .lines
                    .last_entry()
                    .is_some_and(|last| *last.key() >= next && last.get().is_empty())
                {
                    self.lines.pop_last();
                }
                revised(number, text)
            }
            Step::Revise(back, text) => {
                let number = (self.next - back).max(1).min(self.next - 1);
                if !text.is_empty() || self.lines.contains_key(&number) {
                    self.set(number, text.trim_end_matches(' '));
                }
                revised(number, text)
            }
            Step::Baseline(number, text) => {
                if !text.is_empty() || self.lines.contains_key(number) {
                    self.set(*number, text.trim_end_matches(' '));
                }
                revised(*number, text)
            }
            Step::Resize(width, height) => {
                self.size = (*width, *height);
                resized(*width, *height)
            }
            Step::Screen(rows) => {
                let rows: Vec<(u32, &str)> = rows
                    .iter()
                    .map(|(row, text)| (*row, text.as_str()))
                    .collect();
                screen(self.size.0, self.size.1, &rows)
            }
            Step::Gap(lost) => {
                let first = self.next;
                self.next += lost.unwrap_or(0) as i64;
                gap(first, *lost, "ambiguous")
            }
        }
    }

    fn set(&mut self, number: i64, text: &str) {
        self.has_wide |= !text.is_ascii();
        let mut clean = String::new();
        push_clean(&mut clean, text);
        self.lines.insert(number, clean);
    }

    /// A terminal on which all lines were printed once, as they read in the end.
    fn printed(&self) -> Terminal {
        let (width, height) = (self.size.0 as usize, self.size.1 as usize);
        let mut terminal = Terminal::with_scrollback(width, height, None).unwrap();
        for (number, line) in &self.lines {
            if *number > *self.lines.keys().next().unwrap_or(number) {
                terminal.feed("\r\n");
            }
            terminal.feed(line.as_str());
        }
        if self
            .lines
            .keys()
            .next_back()
            .is_some_and(|last| *last < self.next)
        {
            terminal.feed("\r\n");
        }
        terminal
    }
}

fn check(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut truth = Truth {
        lines: BTreeMap::new(),
        next: 1,
        size: (20, 8),
        has_wide: false,
    };
    let mut events = vec![opened("%1", 20, 8)];
    events.extend(steps.iter().map(|step| truth.step(step)));
    events.push(closed(None));
    let log = log(events);
    let (cast, unreached) = Played::of(pane(), &log);
    let printed = truth.printed();
    let to_cursor = |terminal: &Terminal| -> Vec<String> {
        let rows = terminal
            .screen()
            .visible_lines()
            .take(terminal.cursor().row + 1);
        rows.map(|line| line.text().trim_end().to_owned()).collect()
    };
    let above = printed.screen().all_lines().count() - printed.size().1;
    let mut rows: Vec<String> = printed
        .screen()
        .all_lines()
        .take(above)
        .map(|line| line.text().trim_end().to_owned())
        .collect();
    rows.extend(to_cursor(&printed));
    // The screen of a terminal with scrollback, and of one without.
    for scrollback in [None, Some(0)] {
        let terminal = cast.play(scrollback);
        prop_assert!(terminal.active_screen_kind() == ScreenKind::Primary);
        prop_assert_eq!(terminal.size(), printed.size());
        let shown = to_cursor(&terminal);
        prop_assert!(rows.ends_with(&shown), "{:#?}\nshown {:#?}", rows, shown);
        // Nothing is left below the text.
        let below = terminal.screen().visible_lines().skip(shown.len());
        prop_assert!(
            below
                .map(|line| line.text())
                .all(|row| row.trim_end().is_empty())
        );
    }
    let resizes = steps.iter().any(|step| matches!(step, Step::Resize(..)));
    if unreached == 0 && !(truth.has_wide && resizes) {
        prop_assert_eq!(cast.text(), trimmed(printed.screen().text()));
    }
    let duration = log[log.len() - 1].ts.micros() - log[0].ts.micros();
    prop_assert_eq!(cast.duration_micros(), duration as u64);
    let sizes = steps
        .iter()
        .filter(|step| matches!(step, Step::Resize(..)))
        .count();
    prop_assert!(cast.all('r').len() <= sizes);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn played_it_ends_at_the_recorded_text(steps in steps(false)) {
        check(&steps)?;
    }

    #[test]
    fn resized_it_ends_at_the_recorded_text(steps in steps(true)) {
        check(&steps)?;
    }
}
