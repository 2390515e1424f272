//! Tests of single programs on a model of tmux's grid.

use super::*;
use crate::event::GapEvidence;

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
