//! Properties of pane output, on a model of tmux's grid.

mod cases {
    //! Tests of single programs on a model of tmux's grid.

    use super::*;
    use crate::event::{Cursor, GapEvidence};
    use crate::track::{Capture, PaneNumbers, Row};

    /// Between two captures, the last line was overwritten, another one printed and the pane made higher.
    /// The text of the first line has moved then, and must not align the captures.
    #[test]
    fn text_that_moved_while_the_pane_grew_does_not_align() {
        let limit = 10_000;
        let mut watch = Watch::new(Sim::new(4, 2, limit));
        watch.sim.print("aab\n");
        watch.poll();
        watch.sim.up(1);
        watch.sim.print("b\naab\n");
        watch.sim.set_height(3);
        watch.sim.print("\n");
        shows_the_pane(&mut watch, limit);
    }

    /// One capture has no more than so many rows: what is above them is lost, and said to be.
    #[test]
    fn lines_beyond_the_largest_capture_are_a_gap() {
        let gap = |change: &Change| match change {
            Change::Gap {
                reason, evidence, ..
            } => Some((*reason, *evidence)),
            _ => None,
        };
        let truncated = Some((GapReason::Truncated, GapEvidence::Confirmed));
        let mut sim = Sim::new(40, 5, 100_000);
        sim.print(&"line\n".repeat(50));
        let (_, changes) = Tracker::fresh(&sim.capture(20));
        assert_eq!(changes.first().and_then(gap), truncated);
        let (mut tracker, changes) = Tracker::fresh(&sim.capture(usize::MAX));
        assert!(!changes.iter().any(|change| gap(change).is_some()));
        sim.print(&"more\n".repeat(100));
        let shallow = sim.capture(20);
        assert_eq!(
            tracker.apply(&shallow, false),
            None,
            "a deeper capture is asked for"
        );
        let changes = tracker.apply(&shallow, true).unwrap();
        assert_eq!(changes.iter().find_map(gap), truncated);
    }

    /// What tmux 3.3a shows of one line without a history, row by row, as it is resized and goes on.
    #[test]
    fn a_long_line_without_a_history_is_reported_once() {
        let numbers = (0..128).map(|number| format!("{number:07}-")).collect();
        for line in ["x".repeat(1024), numbers] {
            let capture = |width: u32, height: u32, parts: &[std::ops::Range<usize>]| {
                let mut rows = vec![Row {
                    text: "ready".to_owned(),
                    wrapped: false,
                }];
                for part in parts {
                    let text = line[part.clone()].as_bytes().chunks(width as usize);
                    rows.extend(text.map(|row| Row {
                        text: String::from_utf8(row.to_vec()).unwrap(),
                        wrapped: true,
                    }));
                    rows.last_mut().unwrap().wrapped = false;
                }
                let used = rows.len();
                rows.resize(used.max(height as usize), Row::default());
                let history_size = rows.len() as u32 - height;
                let y = used as u32 - 1 - history_size;
                let numbers = PaneNumbers {
                    width,
                    height,
                    history_size,
                    ..PaneNumbers::default()
                };
                let mut capture = Capture {
                    numbers,
                    rows,
                    ..Capture::default()
                };
                capture.cursor = Cursor { x: 0, y };
                capture
            };
            let mut before = capture(80, 24, &[]);
            before.cursor.y = 1;
            let mut tracker = Tracker::baseline(&before);
            let mut changes = Vec::new();
            for capture in [
                capture(80, 24, std::slice::from_ref(&(0..172))),
                capture(23, 6, std::slice::from_ref(&(0..172))),
                // Where the rows of the screen were is not known, but its text is.
                capture(23, 6, std::slice::from_ref(&(0..258))),
                capture(26, 26, std::slice::from_ref(&(0..516))),
                // tmux has lost rows, and shows earlier ones.
                capture(81, 5, &[0..312, 494..602]),
                capture(81, 5, &[0..312, 494..688]),
                capture(44, 14, &[0..312, 494..688]),
                capture(44, 14, &[0..312, 494..774]),
            ] {
                changes.extend(tracker.apply(&capture, true).unwrap());
            }
            changes.extend(tracker.detach());
            let mut lines = std::collections::BTreeMap::new();
            for change in changes {
                match change {
                    Change::Lines { first_line, chunk } => {
                        let texts = chunk.lines().map(str::to_owned);
                        lines.extend((first_line..).zip(texts));
                    }
                    Change::Revised { line, text } => drop(lines.insert(line, text)),
                    Change::Gap { .. } | Change::Screen { .. } => {}
                }
            }
            let lines: Vec<(i64, &str)> = lines
                .iter()
                .map(|(at, text)| (*at, text.as_str()))
                .collect();
            let length = if line.starts_with('x') { 688 } else { 774 };
            assert_eq!(lines, [(1, &line[..length])]);
        }
    }

    #[test]
    fn a_prompt_is_revised_and_then_settles_with_its_answer() {
        let mut watch = Watch::new(Sim::new(40, 5, 100));
        watch.sim.print("Name? ");
        watch.poll();
        watch.poll();
        assert_eq!(
            watch.changes,
            [Change::Revised {
                line: 1,
                text: "Name? ".into()
            }]
        );
        watch.sim.print("Ada\n");
        watch.poll();
        watch.poll();
        assert_eq!(
            watch.changes[1..],
            [Change::Lines {
                first_line: 1,
                chunk: "Name? Ada\n".into()
            }]
        );
    }

    #[test]
    fn progress_is_revised_and_settles_once() {
        let mut watch = Watch::new(Sim::new(40, 5, 100));
        for percent in [10, 50, 100] {
            watch.sim.print(&format!("\r{percent}%"));
            watch.poll();
        }
        watch.sim.print("\ndone\n");
        watch.poll();
        watch.poll();
        assert_eq!(segments(&watch.changes), [["100%", "done"]]);
    }

    #[test]
    fn a_lower_limit_drops_rows_and_repeats_none() {
        // Rows are printed before the limit changes, after it, or both, between two captures.
        for (before, after) in [(0, 0), (0, 3), (4, 0), (7, 25), (0, 130)] {
            let mut watch = Watch::new(Sim::new(40, 5, 1000));
            let mut printed = 0;
            let mut print = |watch: &mut Watch, count: usize| {
                for _ in 0..count {
                    printed += 1;
                    watch.sim.print(&format!("line {printed}\n"));
                }
            };
            print(&mut watch, 400);
            watch.poll();
            print(&mut watch, before);
            watch.sim.set_limit(200);
            print(&mut watch, after);
            watch.poll();
            watch.poll();
            let lines: Vec<String> = (1..=printed).map(|n| format!("line {n}")).collect();
            assert_eq!(segments(&watch.changes), [lines], "{before} {after}");
        }
    }

    /// Without a history, rows that a change of width has pushed off stay above the screen while those that
    /// scroll off later are lost. They do not follow the lines that were on the screen before.
    #[test]
    fn rows_above_the_screen_are_not_repeated_without_a_history() {
        let capture = |screen: [&str; 3]| {
            let rows = ["old one", "old two"].iter().chain(&screen);
            let rows = rows.map(|text| Row {
                text: (*text).into(),
                wrapped: false,
            });
            let numbers = PaneNumbers {
                width: 20,
                height: 3,
                history_size: 2,
                cursor: Cursor { x: 0, y: 2 },
                ..PaneNumbers::default()
            };
            Capture {
                numbers,
                rows: rows.collect(),
                ..Capture::default()
            }
        };
        let mut tracker = Tracker::baseline(&capture(["one", "two", ""]));
        let mut changes = Vec::new();
        for screen in [["five", "six", ""], ["six", "seven", ""]] {
            for _ in 0..2 {
                changes.extend(tracker.apply(&capture(screen), true).unwrap());
            }
        }
        assert_eq!(
            segments(&changes).concat(),
            ["five", "six", "seven"],
            "{changes:#?}"
        );
    }

    /// Without a history, tmux shows rows of before above the rest of an open line after a change of width.
    #[test]
    fn an_open_line_continues_below_older_rows_without_a_history() {
        let line: String = (0..40).map(|number| format!("{number:04}-")).collect();
        let capture = |width: usize, height: usize, bytes: usize, older: usize| {
            let all = line.as_bytes()[..bytes].chunks(width);
            let row = |text: &str, wrapped| Row {
                text: text.into(),
                wrapped,
            };
            let own = height - older;
            let rest = all.clone().skip(all.len() - own).enumerate();
            let rest = rest.map(|(at, text)| row(str::from_utf8(text).unwrap(), at + 1 < own));
            let above = if older == 0 && height > 3 { 2 } else { 0 };
            let old = ["older row one", "older row two"].map(|text| row(text, false));
            let kept = old.len() - older - above;
            let mut capture = Capture {
                rows: old.into_iter().skip(kept).chain(rest).collect(),
                ..Capture::default()
            };
            let numbers = &mut capture.numbers;
            (numbers.width, numbers.height) = (width as u32, height as u32);
            numbers.history_size = above as u32;
            numbers.cursor = Cursor {
                x: (bytes - 1) as u32 % width as u32 + 1,
                y: height as u32 - 1,
            };
            (capture.bytes_before, capture.bytes_after) = (Some(bytes as u64), Some(bytes as u64));
            capture
        };
        for older in [0_usize, 2] {
            let mut tracker = Tracker::baseline(&capture(40, 3, 120, 0));
            let mut changes = Vec::new();
            for (bytes, older) in [(125, older), (145, older.saturating_sub(1)), (165, 0)] {
                for _ in 0..2 {
                    let capture = capture(20, 5, bytes, older);
                    changes.extend(tracker.apply(&capture, true).unwrap());
                }
            }
            changes.retain(|change| !matches!(change, Change::Gap { .. }));
            let revised = [125, 145, 165].map(|bytes| Change::Revised {
                line: 1,
                text: line[..bytes].into(),
            });
            assert_eq!(changes, revised, "with {older} older rows on the screen");
        }
    }

    #[test]
    fn numbers_continue_after_a_clear() {
        let mut watch = Watch::new(Sim::new(40, 5, 100));
        watch.sim.print("a\nb\nc\n$ ");
        watch.poll();
        watch.poll();
        watch.sim.clear_all();
        watch.sim.print("d\n");
        watch.poll();
        watch.poll();
        assert!(
            watch.changes.contains(&Change::Gap {
                first_line: 5,
                lost_lines: None,
                reason: GapReason::Cleared,
                evidence: GapEvidence::Possible,
            }),
            "{:#?}",
            watch.changes
        );
        assert_eq!(
            watch.changes.last(),
            Some(&Change::Lines {
                first_line: 5,
                chunk: "d\n".into()
            })
        );
    }

    /// Rows of wrapped lines are equal, and a full history hides how far it scrolled. The numbers in the
    /// text still determine the position.
    #[test]
    fn wrapped_lines_in_a_full_history_leave_no_gap() {
        for (width, per_capture) in [(20, 20), (20, 5), (100, 100), (7, 3)] {
            let mut watch = Watch::new(Sim::new(width, 5, 200));
            let mut printed = Vec::new();
            for capture in 0..40 {
                for line in 0..per_capture {
                    printed.push(format!(
                        "{} {}",
                        capture * per_capture + line,
                        "a".repeat(79)
                    ));
                    watch.sim.print(printed.last().unwrap());
                    watch.sim.print("\n");
                }
                watch.poll();
            }
            let changes = watch.end();
            assert_eq!(
                segments(&changes),
                [printed],
                "{width} columns, {per_capture} lines a capture"
            );
            assert!(nothing_settled_is_revised(&changes));
        }
    }

    /// A pane prints between the listing and the capture, which then begins within a line.
    #[test]
    fn a_line_captured_in_part_keeps_its_number_when_captured_whole() {
        let mut sim = Sim::new(2, 2, 100);
        sim.print("line 1.\nline 2.\nline 3.\n");
        let mut tracker = Tracker::baseline(&sim.capture(sim.history_size() - 1));
        sim.print("line 4.\n");
        let mut changes = tracker.apply(&sim.capture(usize::MAX), true).unwrap();
        changes.extend(tracker.unchanged(Duration::ZERO, None));
        let reported = Change::Lines {
            first_line: 1,
            chunk: "line 4.\n".into(),
        };
        assert!(changes.contains(&reported), "{changes:#?}");
    }

    #[test]
    fn lines_scrolled_off_before_a_respawn_are_not_repeated() {
        let mut sim = Sim::new(40, 5, 100);
        let (mut tracker, mut changes) = Tracker::fresh(&sim.capture(usize::MAX));
        sim.print("a\nb\nc\nd\n");
        let Some(more) = tracker.apply(&sim.capture(usize::MAX), false) else {
            panic!("complete")
        };
        changes.extend(more);
        // Not captured, and then erased with the screen, except for rows pushed into the history.
        sim.print("e\nf\n");
        sim.up(9);
        sim.erase_below();
        sim.print("new\n");
        let mut capture = sim.capture(usize::MAX);
        capture.pid += 1;
        for _ in 0..2 {
            changes.extend(tracker.apply(&capture, true).unwrap());
        }
        assert_eq!(segments(&changes), [vec!["a", "b", "c", "d"], vec!["new"]]);
    }

    /// Prints equal lines before and after changes of the width. Returns the numbers of gaps and of lines.
    fn resized_among_equals(limit: usize) -> (usize, usize) {
        let mut watch = Watch::new(Sim::new(40, 10, limit));
        for width in [60, 30, 80] {
            for _ in 0..20 {
                watch.sim.print("same\nsame\nsame\n");
                watch.poll();
            }
            watch.sim.width = width;
            watch.sim.print("same\n");
            watch.poll();
        }
        let changes = watch.end();
        let segments = segments(&changes);
        (segments.len() - 1, segments.concat().len())
    }

    #[test]
    fn equal_lines_are_counted_from_the_first_when_the_width_changes() {
        assert_eq!(resized_among_equals(2000), (0, 183));
    }

    #[test]
    fn equal_lines_without_a_unique_place_are_not_reported_twice() {
        let (gaps, reported) = resized_among_equals(40);
        assert!(
            gaps >= 3 && reported <= 183,
            "{gaps} gaps, {reported} lines"
        );
    }

    #[test]
    fn an_empty_pane_changes_its_width_without_a_gap() {
        let mut watch = Watch::new(Sim::new(40, 10, 100));
        for width in [60, 30] {
            watch.sim.width = width;
            watch.poll();
        }
        watch.sim.print("one\n");
        watch.poll();
        let reported = Change::Lines {
            first_line: 1,
            chunk: "one\n".into(),
        };
        assert_eq!(watch.end(), [reported]);
    }

    /// tmux moves the cursor of a dead pane, and its history is full. Without new output, nothing is
    /// reported.
    #[test]
    fn a_pane_that_is_dead_at_the_first_capture_is_reported_once() {
        for has_notice in [false, true] {
            let mut sim = Sim::new(40, 10, 100);
            for line in 0..300 {
                sim.print(&format!("line {line}\n"));
            }
            sim.die(has_notice);
            let mut watch = Watch::new(sim);
            let reported = segments(&watch.changes);
            assert_eq!(reported.last().unwrap().last().unwrap(), "line 299");
            let first = watch.changes.len();
            watch.poll();
            watch.poll();
            assert_eq!(watch.end()[first..], [], "notice: {has_notice}");
        }
    }
}

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::sim::Sim;
use super::{Change, GapReason, Tracker};

/// Captures a pane as the gateway does: as deep as the history grew, and deeper if that is too shallow.
struct Watch {
    sim: Sim,
    tracker: Tracker,
    seen_history: usize,
    changes: Vec<Change>,
    deeper: usize,
}

impl Watch {
    fn new(sim: Sim) -> Self {
        let (tracker, changes) = Tracker::fresh(&sim.capture(usize::MAX));
        Self {
            seen_history: sim.history_size(),
            sim,
            tracker,
            changes,
            deeper: 0,
        }
    }

    fn poll(&mut self) {
        let now = self.sim.history_size();
        let step = (self.sim.limit / 10).max(1);
        let grown = match now.checked_sub(self.seen_history) {
            Some(grown) => grown,
            None if now + step > self.sim.limit => (now + step - self.seen_history % step) % step,
            None => now,
        };
        self.seen_history = now;
        let depth = grown + self.tracker.margin() as usize;
        match self.tracker.apply(&self.sim.capture(depth), false) {
            Some(changes) => self.changes.extend(changes),
            None => {
                self.deeper += 1;
                match self.tracker.apply(&self.sim.capture(usize::MAX), false) {
                    Some(changes) => self.changes.extend(changes),
                    None => panic!("a complete capture is never too shallow"),
                }
            }
        }
    }

    fn end(mut self) -> Vec<Change> {
        self.poll();
        self.changes.extend(self.tracker.end());
        self.changes
    }

    /// Ends the program and captures the dead pane several times, each with or without tmux's notice.
    fn end_dead(mut self, notices: &[bool]) -> Vec<Change> {
        for &has_notice in notices {
            self.sim.die(has_notice);
            self.poll();
        }
        self.end()
    }

    /// Returns the lines of a reader of the events, by number, and the number at the last gap.
    fn replay(&self) -> (BTreeMap<i64, String>, i64) {
        let mut lines = BTreeMap::new();
        let mut cleared = i64::MIN;
        for change in &self.changes {
            match change {
                Change::Lines { first_line, chunk } => {
                    lines.extend((*first_line..).zip(chunk.lines().map(str::to_owned)));
                }
                Change::Revised { line, text } => {
                    lines.insert(*line, text.clone());
                }
                Change::Gap { first_line, .. } => cleared = *first_line,
                Change::Screen { .. } => {}
            }
        }
        (lines, cleared)
    }
}

/// Returns the lines between gaps, and asserts that numbers increase.
fn segments(changes: &[Change]) -> Vec<Vec<String>> {
    let mut segments = vec![vec![]];
    let mut next = i64::MIN;
    for change in changes {
        match change {
            Change::Lines { first_line, chunk } => {
                assert!(*first_line >= next, "numbers continue: {changes:#?}");
                assert!(chunk.ends_with('\n'), "{chunk:?}");
                let before = segments.last_mut().unwrap();
                before.extend(chunk.lines().map(str::to_owned));
                next = first_line + chunk.lines().count() as i64;
            }
            Change::Gap { first_line, .. } => {
                assert!(*first_line >= next, "numbers continue: {changes:#?}");
                next = *first_line;
                segments.push(vec![]);
            }
            Change::Revised { .. } | Change::Screen { .. } => {}
        }
    }
    segments
}

/// Returns true if no settled line is revised, as for a program that only prints lines. After an
/// ambiguous gap, the numbers of lines are uncertain.
fn nothing_settled_is_revised(changes: &[Change]) -> bool {
    let mut next = i64::MIN;
    let ambiguous = |change: &&Change| {
        matches!(
            change,
            Change::Gap {
                reason: GapReason::Ambiguous,
                ..
            }
        )
    };
    changes
        .iter()
        .take_while(|change| !ambiguous(change))
        .all(|change| match change {
            Change::Lines { first_line, chunk } => {
                next = first_line + chunk.matches('\n').count() as i64;
                true
            }
            Change::Revised { line, .. } => *line >= next,
            Change::Gap { .. } | Change::Screen { .. } => true,
        })
}

/// Returns true if the printed lines contain the segments in order. The first line after a gap may be
/// the rest of a wrapped one.
fn printed_in_order(reported: &[Vec<String>], printed: &[String], at_start: bool) -> bool {
    let Some((segment, rest)) = reported.split_first() else {
        return true;
    };
    let fits = |segment: &[String]| {
        let last = if at_start {
            0
        } else {
            printed.len().saturating_sub(segment.len())
        };
        let place = (0..=last).find(|&place| printed[place..].starts_with(segment));
        place.is_some_and(|at| printed_in_order(rest, &printed[at + segment.len()..], false))
    };
    fits(segment) || !at_start && segment.get(1..).is_some_and(fits)
}

/// Asserts that the reported lines are those that the pane shows.
#[track_caller]
fn shows_the_pane(watch: &mut Watch, limit: usize) {
    watch.poll();
    watch.poll();
    let still = watch.tracker.unchanged(Duration::ZERO, None);
    watch.changes.extend(still);
    let (replay, cleared) = watch.replay();
    let shown = watch.sim.text();
    // From the last line that has text upwards, to the last gap.
    let mut shown: Vec<&str> = shown.iter().map(String::as_str).collect();
    while shown.last().is_some_and(|line| line.is_empty()) {
        shown.pop();
    }
    let mut replayed: Vec<&str> = replay
        .range(cleared..)
        .map(|(_, text)| text.trim_end())
        .collect();
    while replayed.last().is_some_and(|line| line.is_empty()) {
        replayed.pop();
    }
    let same = shown.len().min(replayed.len());
    if cleared == i64::MIN && watch.sim.history_size() < limit.saturating_sub(limit / 10) {
        assert!(
            replayed.len() >= shown.len(),
            "{:#?}\n{:?}\n{:?}",
            watch.changes,
            shown,
            replayed
        );
    }
    let (shown, replayed) = (
        &shown[shown.len() - same..],
        &replayed[replayed.len() - same..],
    );
    for (at, (shown, replayed)) in shown.iter().zip(replayed).enumerate() {
        // The pane may have lost the beginning of its oldest line.
        let same = shown == replayed
            || at == 0 && (replayed.ends_with(shown) || shown.ends_with(replayed));
        assert!(
            same,
            "{:?} for {:?} in {:#?}",
            replayed, shown, watch.changes
        );
    }
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-c]{0,3}",
        2 => "[a-z漢字]{1,12}",
        1 => Just(String::new()),
        1 => "[x-z]{15,70}",
    ]
}

fn bursts() -> impl Strategy<Value = Vec<Vec<String>>> {
    prop::collection::vec(prop::collection::vec(line(), 0..30), 0..12)
}

/// For each capture of the dead pane, whether it contains tmux's notice. An empty slice means that the
/// program lives on.
fn deaths() -> impl Strategy<Value = &'static [bool]> {
    prop::sample::select(vec![&[][..], &[false, false], &[false, true], &[true]])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// As long as the history never filled, every line is reported exactly once.
    #[test]
    fn every_line_once(width in 1_usize..20, height in 1_usize..8, bursts in bursts(), bytes: bool) {
        let mut sim = Sim::new(width, height, 100_000);
        sim.reports_bytes = bytes;
        let mut watch = Watch::new(sim);
        for burst in &bursts {
            for line in burst {
                watch.sim.print(line);
                watch.sim.print("\n");
            }
            watch.poll();
        }
        prop_assert_eq!(watch.deeper, 0);
        // A character wider than the pane never appears.
        let shown = |line: &String| line.chars().filter(|c| width > 1 || c.is_ascii()).collect::<String>();
        let mut printed: Vec<String> = bursts.iter().flatten().map(shown).collect();
        // Blank lines at the end equal an unused screen.
        let mut reported = segments(&watch.end());
        prop_assert_eq!(reported.len(), 1);
        let mut reported = reported.pop().unwrap();
        while printed.last().is_some_and(String::is_empty) { printed.pop(); }
        while reported.last().is_some_and(String::is_empty) { reported.pop(); }
        prop_assert_eq!(reported, printed);
    }

    /// With different lines, every gap is reported, and no others.
    #[test]
    fn every_gap_is_reported(
        width in 8_usize..20, height in 2_usize..8, limit in 0_usize..60,
        bursts in prop::collection::vec(0_usize..120, 0..12), bytes: bool, notices in deaths(),
    ) {
        let mut sim = Sim::new(width, height, limit);
        sim.reports_bytes = bytes;
        let mut watch = Watch::new(sim);
        let mut count = 0;
        for burst in &bursts {
            for _ in 0..*burst {
                count += 1;
                watch.sim.print(&format!("n{count}\n"));
            }
            watch.poll();
        }
        let changes = watch.end_dead(notices);
        prop_assert!(nothing_settled_is_revised(&changes), "{:#?}", changes);
        let mut last = 0;
        let mut gap = false;
        for (at, segment) in segments(&changes).iter().enumerate() {
            gap |= at > 0;
            // tmux scrolls to write its notice, which may add a blank row.
            for line in segment.iter().filter(|line| !line.is_empty()) {
                let number: i32 = line[1..].parse().unwrap();
                if gap {
                    // An ambiguous gap may be none. Others are real, unless exactly the known rows
                    // have been trimmed.
                    prop_assert!(number > last);
                } else {
                    prop_assert_eq!(number, last + 1, "{:#?}", changes);
                }
                gap = false;
                last = number;
            }
        }
        prop_assert!(last == count || gap, "the last line is {} of {}: {:#?}", last, count, changes);
    }

    /// With repeated lines, those reported between two gaps were printed in this order.
    #[test]
    fn nothing_is_repeated_or_invented(
        width in 3_usize..20, height in 2_usize..8, limit in 0_usize..60, bursts in bursts(), bytes: bool,
        notices in deaths(),
    ) {
        let mut sim = Sim::new(width, height, limit);
        sim.reports_bytes = bytes;
        let mut watch = Watch::new(sim);
        for burst in &bursts {
            for line in burst {
                watch.sim.print(line);
                watch.sim.print("\n");
            }
            watch.poll();
        }
        let printed: Vec<String> = bursts.concat();
        let changes = watch.end_dead(notices);
        prop_assert!(nothing_settled_is_revised(&changes), "{:#?}", changes);
        let reported = segments(&changes);
        prop_assert!(printed_in_order(&reported, &printed, true), "{:#?}\nprinted {:?}", changes, printed);
    }

    /// A line without an end grows while the width changes, and tmux trims its beginning. Each number in it
    /// is reported at most once and in order, and exactly once if there is no gap.
    #[test]
    fn an_open_line_is_reported_once_beside_resizes(
        height in 2_usize..8, limit in prop_oneof![Just(10_000_usize), 10_usize..60],
        steps in prop::collection::vec((0_usize..8, 4_usize..60), 1..60), has_end: bool,
    ) {
        let mut watch = Watch::new(Sim::new(20, height, limit));
        watch.sim.print("ready\n");
        let mut printed = String::new();
        for (action, count) in &steps {
            match action {
                0..=3 => {
                    let from = printed.len() / 6;
                    let part: String = (from..from + count).map(|n| format!("{n:05}-")).collect();
                    watch.sim.print(&part);
                    printed.push_str(&part);
                }
                4 => {
                    watch.sim.set_width(*count);
                    watch.poll();
                }
                _ => watch.poll(),
            }
        }
        if has_end {
            watch.sim.print("\nthe end\n");
        }
        watch.poll();
        watch.poll();
        let (lines, _) = watch.replay();
        let has_gap = watch.changes.iter().any(|change| matches!(change, Change::Gap { .. }));
        let mut last = None;
        for line in lines.values() {
            // A few characters may be there twice where a gap stands.
            let twice = if has_gap { 2 } else { 0 };
            for number in line.split('-').skip(twice).filter(|number| number.len() == 5) {
                let number: Option<usize> = number.parse().ok();
                prop_assert!(number > last || number.is_none(), "{:?} {:?}: {:#?}", number, last, watch.changes);
                last = number.or(last);
            }
        }
        if !has_gap {
            let text: String = lines.values().map(String::as_str).collect();
            let text = text.trim_start_matches("ready").trim_end_matches("the end");
            prop_assert_eq!(text, printed, "{:#?}", watch.changes);
        }
    }

    /// For any program, replaying the events gives what the pane shows.
    #[test]
    fn replay_shows_the_pane(
        width in 4_usize..20, height in 2_usize..8, limit in prop_oneof![Just(10_000_usize), 0_usize..40],
        actions in prop::collection::vec((0_usize..14, line(), 1_usize..5), 0..60),
    ) {
        let mut watch = Watch::new(Sim::new(width, height, limit));
        for (action, text, count) in &actions {
            let sim = &mut watch.sim;
            match action {
                0..=3 => { sim.print(text); sim.print("\n"); }
                4 => sim.print(text),
                5 => { sim.print("\r"); sim.print(text); }
                6 => sim.up(*count),
                7 => sim.down(*count),
                8 => sim.erase_line(),
                9 => sim.erase_below(),
                10 if *count == 1 => sim.clear(),
                10 if *count == 2 => sim.clear_all(),
                10 if *count == 3 => sim.clear_history(),
                11 if *count == 1 => sim.set_height(2 + text.len() % 6),
                _ => watch.poll(),
            }
        }
        shows_the_pane(&mut watch, limit);
    }
}
