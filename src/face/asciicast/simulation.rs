//! Simulates a pane: a recording ends with the recorded text, regardless of earlier changes.

use std::collections::BTreeMap;

use avt::{ScreenKind, Terminal};
use proptest::prelude::*;

use super::super::sanitize::tests::nasty;
use super::AsciicastOptions;
use super::player::*;
use super::wrapping::open_line;
use crate::event::TdEvent;
use crate::face::samples::*;
use crate::face::sanitize::sanitized;

/// A change of a pane.
#[derive(Clone, Debug)]
enum Step {
    /// New lines settle; true keeps the text of open lines among them.
    Settle(Vec<String>, bool),
    /// A line is shown before it settles, this far below the settled ones.
    Show(i64, String),
    /// A settled line changes, this far back.
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
        1 => "[a-z]{0,45} {0,45}",
        1 => "[漢字かな]{0,30}",
        1 => "[a-z漢]{5,40}",
        1 => nasty().prop_map(|text| text.replace('\n', "")),
    ]
}

fn steps(sizes: bool) -> impl Strategy<Value = Vec<Step>> {
    let resize = (2_u32..40, 1_u32..12).prop_map(|(width, height)| Step::Resize(width, height));
    let one = prop_oneof![
        6 => (prop::collection::vec(line(), 1..6), any::<bool>()).prop_map(|(lines, same)| Step::Settle(lines, same)),
        4 => (0_i64..3, line()).prop_map(|(at, text)| Step::Show(at, text)),
        3 => (1_i64..8, line()).prop_map(|(back, text)| Step::Revise(back, text)),
        1 => (-5_i64..=0, line()).prop_map(|(number, text)| Step::Baseline(number, text)),
        (if sizes { 2 } else { 0 }) => resize,
        1 => prop::collection::vec((0_u32..12, line()), 0..5).prop_map(Step::Screen),
        1 => prop::option::of(1_u64..5).prop_map(Step::Gap),
    ];
    prop::collection::vec(one, 1..40)
}

/// The lines of a pane, as the wire contract defines them.
#[derive(Debug)]
struct ExpectedPane {
    lines: BTreeMap<i64, String>,
    next: i64,
    size: (u32, u32),
    has_wide: bool,
}

impl ExpectedPane {
    fn step(&mut self, step: &Step) -> TdEvent {
        match step {
            Step::Settle(lines, same) => {
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
            Step::Show(below, shown) => {
                let number = self.next + below;
                let mut text = sanitized(shown);
                text.truncate(open_line(&text, self.size.0 as usize).len());
                // At most as many rows as the screen has.
                let known = self.lines.last_key_value().map_or(0, |(last, _)| last + 1);
                let first_missing = self.next.max(known);
                if !text.is_empty() && number - first_missing < i64::from(self.size.1) {
                    let rows = (first_missing..number).map(|number| (number, String::new()));
                    self.lines.extend(rows);
                }
                self.set(number, &text);
                let next = self.next;
                while self
                    .lines
                    .last_entry()
                    .is_some_and(|last| *last.key() >= next && last.get().is_empty())
                {
                    self.lines.pop_last();
                }
                revised(number, shown)
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
                for line in self.lines.values_mut().filter(|_| *width != self.size.0) {
                    line.truncate(line.trim_end_matches(' ').len());
                }
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
        self.lines.insert(number, sanitized(text));
    }

    /// A terminal on which all lines are printed once, with their final text.
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
    let mut expected = ExpectedPane {
        lines: BTreeMap::new(),
        next: 1,
        size: (20, 8),
        has_wide: false,
    };
    let mut events = vec![opened("%1", 20, 8)];
    events.extend(steps.iter().map(|step| expected.step(step)));
    events.push(closed(None));
    let log = log(events);
    let options = AsciicastOptions {
        pane: Some("%1".into()),
        ..AsciicastOptions::default()
    };
    let (recording, unreached) = Recorded::of(options, &log);
    let printed = expected.printed();
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
        let terminal = recording.play(scrollback);
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
    if unreached == 0 && !(expected.has_wide && resizes) {
        prop_assert_eq!(recording.text(), trimmed(printed.screen().text()));
    }
    let duration = log[log.len() - 1].ts.micros() - log[0].ts.micros();
    prop_assert_eq!(recording.duration_micros(), duration as u64);
    let sizes = steps
        .iter()
        .filter(|step| matches!(step, Step::Resize(..)))
        .count();
    prop_assert!(recording.all('r').len() <= sizes);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_played_recording_ends_with_the_recorded_text(steps in steps(false)) {
        check(&steps)?;
    }

    #[test]
    fn a_resized_recording_ends_with_the_recorded_text(steps in steps(true)) {
        check(&steps)?;
    }
}
