//! The law of pane output, on a model of tmux's grid.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::sim::Sim;
use super::{Change, GapReason, Outcome, Tracker};

/// Looks as the gateway does: as deep as the history grew, and deeper when that is asked for.
struct Watch {
    sim: Sim,
    tracker: Tracker,
    seen_history: usize,
    changes: Vec<Change>,
    deeper: usize,
}

impl Watch {
    fn new(sim: Sim) -> Self {
        let (tracker, changes) = Tracker::fresh(&sim.look(usize::MAX));
        Self {
            seen_history: sim.history_size(),
            sim,
            tracker,
            changes,
            deeper: 0,
        }
    }

    fn look(&mut self) {
        let now = self.sim.history_size();
        let step = (self.sim.limit / 10).max(1);
        let grown = match now.checked_sub(self.seen_history) {
            Some(grown) => grown,
            None if now + step > self.sim.limit => (now + step - self.seen_history % step) % step,
            None => now,
        };
        self.seen_history = now;
        let depth = grown + self.tracker.margin() as usize;
        match self.tracker.look(&self.sim.look(depth)) {
            Outcome::Changes(changes) => self.changes.extend(changes),
            Outcome::Deeper => {
                self.deeper += 1;
                match self.tracker.look(&self.sim.look(usize::MAX)) {
                    Outcome::Changes(changes) => self.changes.extend(changes),
                    Outcome::Deeper => panic!("a complete look is never too short"),
                }
            }
        }
    }

    fn end(mut self) -> Vec<Change> {
        self.look();
        self.changes.extend(self.tracker.end());
        self.changes
    }

    /// What a reader of the events has, by number, and where the last erasure was.
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

/// Lines between gaps; numbers are checked on the way.
fn segments(changes: &[Change]) -> Vec<Vec<String>> {
    let mut segments = vec![vec![]];
    let mut next = i64::MIN;
    for change in changes {
        match change {
            Change::Lines { first_line, chunk } => {
                assert!(*first_line >= next, "numbers go on: {changes:#?}");
                assert!(chunk.ends_with('\n'), "{chunk:?}");
                let before = segments.last_mut().unwrap();
                before.extend(chunk.lines().map(str::to_owned));
                next = first_line + chunk.lines().count() as i64;
            }
            Change::Gap { first_line, .. } => {
                assert!(*first_line >= next, "numbers go on: {changes:#?}");
                next = *first_line;
                segments.push(vec![]);
            }
            Change::Revised { .. } | Change::Screen { .. } => {}
        }
    }
    segments
}

/// A program that only prints lines rewrites none that has settled. After an ambiguous gap it is
/// not known which line is which.
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

/// Whether the segments stand in what was printed, one after the other. The first line after a hole
/// can be the rest of a wrapped one.
fn printed_in_order(said: &[Vec<String>], printed: &[String], at_start: bool) -> bool {
    let Some((segment, rest)) = said.split_first() else {
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

/// Replaying what was said gives what the pane shows.
#[track_caller]
fn shows_the_pane(watch: &mut Watch, limit: usize) {
    watch.look();
    watch.look();
    let still = watch.tracker.still(Duration::ZERO, None);
    watch.changes.extend(still);
    let (mut replay, cleared) = watch.replay();
    if let (Some((&first, _)), Some((&last, _))) =
        (replay.first_key_value(), replay.last_key_value())
    {
        // A number that was passed over is a blank line.
        for number in first.min(1)..last {
            replay.entry(number).or_default();
        }
    }
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
        // Of the oldest line the pane may have lost the beginning.
        let same = shown == replayed
            || at == 0 && (replayed.ends_with(shown) || shown.ends_with(replayed));
        assert!(
            same,
            "{:?} for {:?} in {:#?}",
            replayed, shown, watch.changes
        );
    }
}

/// The last line was written over, another one printed, and the pane made higher between two looks:
/// the text of the first stands elsewhere by then, and is no place to go by.
#[test]
fn text_that_moved_while_the_pane_grew_is_no_place() {
    let limit = 10_000;
    let mut watch = Watch::new(Sim::new(4, 2, limit));
    watch.sim.print("aab\n");
    watch.look();
    watch.sim.up(1);
    watch.sim.print("b\naab\n");
    watch.sim.set_height(3);
    watch.sim.print("\n");
    shows_the_pane(&mut watch, limit);
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// As long as the history never filled, everything arrives exactly once, whatever it reads.
    #[test]
    fn every_line_once(width in 1_usize..20, height in 1_usize..8, bursts in bursts(), bytes: bool) {
        let mut sim = Sim::new(width, height, 100_000);
        sim.tells_bytes = bytes;
        let mut watch = Watch::new(sim);
        for burst in &bursts {
            for line in burst {
                watch.sim.print(line);
                watch.sim.print("\n");
            }
            watch.look();
        }
        prop_assert_eq!(watch.deeper, 0);
        // A character wider than the pane never appears.
        let shown = |line: &String| line.chars().filter(|c| width > 1 || c.is_ascii()).collect::<String>();
        let mut printed: Vec<String> = bursts.iter().flatten().map(shown).collect();
        // What is blank at the end cannot be told from an unused screen.
        let mut said = segments(&watch.end());
        prop_assert_eq!(said.len(), 1);
        let mut said = said.pop().unwrap();
        while printed.last().is_some_and(String::is_empty) { printed.pop(); }
        while said.last().is_some_and(String::is_empty) { said.pop(); }
        prop_assert_eq!(said, printed);
    }

    /// With lines that differ, a hole is always announced, and nothing else is.
    #[test]
    fn every_hole_announced(
        width in 8_usize..20, height in 2_usize..8, limit in 0_usize..60,
        bursts in prop::collection::vec(0_usize..120, 0..12), bytes: bool,
    ) {
        let mut sim = Sim::new(width, height, limit);
        sim.tells_bytes = bytes;
        let mut watch = Watch::new(sim);
        let mut count = 0;
        for burst in &bursts {
            for _ in 0..*burst {
                count += 1;
                watch.sim.print(&format!("n{count}\n"));
            }
            watch.look();
        }
        let changes = watch.end();
        prop_assert!(nothing_settled_is_revised(&changes), "{:#?}", changes);
        let mut last = 0;
        let mut gap = false;
        for (at, segment) in segments(&changes).iter().enumerate() {
            gap |= at > 0;
            for line in segment {
                let number: i32 = line[1..].parse().unwrap();
                if gap {
                    // An ambiguous gap may turn out to be none; the others never do, but for the
                    // case that exactly all that was known had gone.
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

    /// With lines that repeat, what is said between two gaps was printed so.
    #[test]
    fn never_twice_never_invented(
        width in 3_usize..20, height in 2_usize..8, limit in 0_usize..60, bursts in bursts(), bytes: bool,
    ) {
        let mut sim = Sim::new(width, height, limit);
        sim.tells_bytes = bytes;
        let mut watch = Watch::new(sim);
        for burst in &bursts {
            for line in burst {
                watch.sim.print(line);
                watch.sim.print("\n");
            }
            watch.look();
        }
        let printed: Vec<String> = bursts.concat();
        let changes = watch.end();
        prop_assert!(nothing_settled_is_revised(&changes), "{:#?}", changes);
        let said = segments(&changes);
        prop_assert!(printed_in_order(&said, &printed, true), "{:#?}\nprinted {:?}", changes, printed);
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
                _ => watch.look(),
            }
        }
        shows_the_pane(&mut watch, limit);
    }
}

#[test]
fn a_prompt_is_shown_and_then_said_with_its_answer() {
    let mut watch = Watch::new(Sim::new(40, 5, 100));
    watch.sim.print("Name? ");
    watch.look();
    watch.look();
    assert_eq!(
        watch.changes,
        [Change::Revised {
            line: 1,
            text: "Name? ".into()
        }]
    );
    watch.sim.print("Ada\n");
    watch.look();
    watch.look();
    assert_eq!(
        watch.changes[1..],
        [Change::Lines {
            first_line: 1,
            chunk: "Name? Ada\n".into()
        }]
    );
}

#[test]
fn progress_is_revised_and_said_once() {
    let mut watch = Watch::new(Sim::new(40, 5, 100));
    for percent in [10, 50, 100] {
        watch.sim.print(&format!("\r{percent}%"));
        watch.look();
    }
    watch.sim.print("\ndone\n");
    watch.look();
    watch.look();
    assert_eq!(segments(&watch.changes), [["100%", "done"]]);
}

#[test]
fn clear_goes_on_counting() {
    let mut watch = Watch::new(Sim::new(40, 5, 100));
    watch.sim.print("a\nb\nc\n$ ");
    watch.look();
    watch.look();
    watch.sim.clear_all();
    watch.sim.print("d\n");
    watch.look();
    watch.look();
    assert!(
        watch.changes.contains(&Change::Gap {
            first_line: 5,
            lost_lines: None,
            reason: GapReason::Cleared
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

/// Rows of a wrapped line look alike, and a full history hides how far it scrolled: the numbers in
/// the text tell the place all the same.
#[test]
fn wrapped_lines_in_a_full_history_leave_no_gap() {
    for (width, per_look) in [(20, 20), (20, 5), (100, 100), (7, 3)] {
        let mut watch = Watch::new(Sim::new(width, 5, 200));
        let mut printed = Vec::new();
        for look in 0..40 {
            for line in 0..per_look {
                printed.push(format!("{} {}", look * per_look + line, "a".repeat(79)));
                watch.sim.print(printed.last().unwrap());
                watch.sim.print("\n");
            }
            watch.look();
        }
        let changes = watch.end();
        assert_eq!(
            segments(&changes),
            [printed],
            "{width} columns, {per_look} lines a look"
        );
        assert!(nothing_settled_is_revised(&changes));
    }
}

/// A pane prints between the question how deep to look and the look: that begins in a line.
#[test]
fn a_line_of_which_the_end_was_seen_is_the_same_when_all_of_it_is_seen() {
    let mut sim = Sim::new(2, 2, 100);
    sim.print("line 1.\nline 2.\nline 3.\n");
    let mut tracker = Tracker::baseline(&sim.look(sim.history_size() - 1));
    sim.print("line 4.\n");
    let mut changes = tracker.deepest_look(&sim.look(usize::MAX));
    changes.extend(tracker.still(Duration::ZERO, None));
    let said = Change::Lines {
        first_line: 1,
        chunk: "line 4.\n".into(),
    };
    assert!(changes.contains(&said), "{changes:#?}");
}

#[test]
fn what_a_program_scrolled_off_before_another_took_its_place_is_not_said_again() {
    let mut sim = Sim::new(40, 5, 100);
    let (mut tracker, mut changes) = Tracker::fresh(&sim.look(usize::MAX));
    sim.print("a\nb\nc\nd\n");
    let Outcome::Changes(more) = tracker.look(&sim.look(usize::MAX)) else {
        panic!("complete")
    };
    changes.extend(more);
    // Unseen, and then erased with the screen, but for what it pushed into the history.
    sim.print("e\nf\n");
    sim.up(9);
    sim.erase_below();
    sim.print("new\n");
    let mut look = sim.look(usize::MAX);
    look.pid += 1;
    for _ in 0..2 {
        changes.extend(tracker.deepest_look(&look));
    }
    assert_eq!(segments(&changes), [vec!["a", "b", "c", "d"], vec!["new"]]);
}

/// Prints lines that all read the same, before and after the width changes.
fn resized_among_equals(limit: usize) -> (usize, usize) {
    let mut watch = Watch::new(Sim::new(40, 10, limit));
    for width in [60, 30, 80] {
        for _ in 0..20 {
            watch.sim.print("same\nsame\nsame\n");
            watch.look();
        }
        watch.sim.width = width;
        watch.sim.print("same\n");
        watch.look();
    }
    let changes = watch.end();
    let segments = segments(&changes);
    (segments.len() - 1, segments.concat().len())
}

#[test]
fn lines_that_read_the_same_are_counted_from_the_first_when_the_width_changes() {
    assert_eq!(resized_among_equals(2000), (0, 183));
}

#[test]
fn where_their_place_is_lost_they_are_not_said_twice() {
    let (gaps, said) = resized_among_equals(40);
    assert!(gaps >= 3 && said <= 183, "{gaps} gaps, {said} lines");
}

#[test]
fn an_empty_pane_changes_its_width_without_a_gap() {
    let mut watch = Watch::new(Sim::new(40, 10, 100));
    for width in [60, 30] {
        watch.sim.width = width;
        watch.look();
    }
    watch.sim.print("one\n");
    watch.look();
    let said = Change::Lines {
        first_line: 1,
        chunk: "one\n".into(),
    };
    assert_eq!(watch.end(), [said]);
}
