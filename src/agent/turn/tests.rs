//! Turns in settled lines and on screens, and text that does not end a turn.

use proptest::prelude::*;

use super::*;
use crate::event::GapEvidence;

const MARKER: &str = markers::DEFAULT_MARKER;

/// A detector whose clock advances by 0.1 s per capture.
struct Scenario {
    detector: TurnDetector,
    at: Duration,
    next: i64,
}

impl Scenario {
    fn new() -> Self {
        Self {
            detector: TurnDetector::new(Markers::default()),
            at: Duration::ZERO,
            next: 1,
        }
    }

    fn capture(&mut self, changes: &[Change], disturbed: bool) -> usize {
        self.at += Duration::from_millis(100);
        let context = ChangeContext {
            at: self.at,
            redraw_cause: match disturbed {
                true => RedrawCause::Wiped {
                    first_line: self.next,
                },
                false => RedrawCause::None,
            },
            alternate: changes
                .iter()
                .any(|change| matches!(change, Change::Screen { .. })),
        };
        self.detector.update(changes, context).len()
    }

    fn chunk(&mut self, lines: &str) -> Change {
        let chunk = Change::Lines {
            first_line: self.next,
            chunk: lines.to_owned(),
        };
        self.next += lines.lines().count() as i64;
        chunk
    }

    fn prints(&mut self, lines: &str) -> usize {
        let chunk = self.chunk(lines);
        self.capture(&[chunk], false)
    }

    fn revises(&mut self, lines: &[(i64, &str)]) -> usize {
        let revised: Vec<Change> = lines
            .iter()
            .map(|(line, text)| Change::Revised {
                line: *line,
                text: (*text).to_owned(),
            })
            .collect();
        self.capture(&revised, false)
    }

    fn draws(&mut self, rows: &[&str]) -> usize {
        let rows = (0..).zip(rows).map(|(row, text)| ScreenRow {
            row,
            text: (*text).to_owned(),
        });
        let screen = Change::Screen {
            width: 40,
            height: 8,
            cursor: crate::event::Cursor::default(),
            rows: rows.collect(),
        };
        self.capture(&[screen], false)
    }
}

const TURN: &str = "> say [Output Complete] when done\n⏺ It is done.\n[Output Complete]\n";

#[test]
fn a_marker_alone_on_its_line_ends_a_turn() {
    for line in [
        "[Output Complete]",
        "  [Output Complete]  ",
        "⏺ [Output Complete]",
        "│ [Output Complete]      │",
        "│ ● [Output Complete]",
    ] {
        assert_eq!(
            Scenario::new().prints(&format!("answer\n{line}\n")),
            1,
            "{line}"
        );
    }
    for line in [
        "> [Output Complete]",
        "❯ [Output Complete]",
        "$ echo '[Output Complete]'",
        "say [Output Complete]",
        "[Output Complete].",
        "\"[Output Complete]\"",
        "[output complete]",
        "- [Output Complete]",
    ] {
        assert_eq!(
            Scenario::new().prints(&format!("answer\n{line}\n")),
            0,
            "{line}"
        );
    }
}

#[test]
fn each_question_has_one_turn_even_if_all_are_alike() {
    let mut seen = Scenario::new();
    assert_eq!(seen.prints(&TURN.repeat(3)), 3);
    assert_eq!(seen.prints(TURN), 1);
    assert_eq!(seen.prints("⏺ more of it\n"), 0);
    let typed = "> first, and then\n\n  [Output Complete]\n\n";
    assert_eq!(seen.prints(typed), 0);
    assert_eq!(seen.prints("⏺ So it is.\n  [Output Complete]\n"), 1);
}

#[test]
fn baseline_turns_and_redrawn_turns_are_not_reported() {
    let mut seen = Scenario::new();
    let lines = [(-1, "⏺ It is done."), (0, MARKER), (1, "> ")];
    seen.detector.set_baseline(lines, 1);
    assert_eq!(seen.prints("> \n"), 0);
    let again = seen.chunk("⏺ It is done.\n[Output Complete]\n");
    assert_eq!(seen.capture(&[again], true), 0);
    assert_eq!(seen.prints("> next\n⏺ It is done.\n[Output Complete]\n"), 1);
}

#[test]
fn a_repaint_does_not_end_a_turn_and_the_next_turn_is_reported() {
    let mut seen = Scenario::new();
    assert_eq!(seen.prints(TURN), 1);
    assert_eq!(
        seen.prints("> and more?\n⏺ A second answer.\n[Output Complete]\n"),
        1
    );
    // All lines are wiped and redrawn with other line breaks.
    let gap = Change::Gap {
        first_line: seen.next,
        lost_lines: None,
        reason: GapReason::Cleared,
        evidence: GapEvidence::Possible,
    };
    let first = seen.chunk("> say [Output Complete]\n  when done\n⏺ It is\n  done.\n");
    assert_eq!(seen.capture(&[gap, first], false), 0);
    let rest = "[Output Complete]\n> and\n  more?\n⏺ A second answer.\n[Output Complete]\n";
    assert_eq!(seen.prints(rest), 0);
    assert_eq!(
        seen.prints("> and more?\n⏺ A second answer.\n[Output Complete]\n"),
        1
    );
}

#[test]
fn a_moved_marker_is_not_a_turn_but_a_later_one_in_its_place_is() {
    let mut seen = Scenario::new();
    assert_eq!(seen.prints("a header\n⏺ Done.\n[Output Complete]\n\n"), 1);
    let moved = [(2, "one more"), (3, "⏺ Done."), (4, MARKER)];
    assert_eq!(seen.revises(&moved), 0);
    // The lines are wiped in one capture and shown again in the next.
    assert_eq!(seen.revises(&[(3, ""), (4, "")]), 0);
    assert_eq!(seen.revises(&[(3, "⏺ Done."), (4, MARKER)]), 0);
    // A status line repeats the marker much later.
    assert_eq!(seen.revises(&[(4, "working")]), 0);
    seen.at += REWRITE;
    assert_eq!(seen.revises(&[(4, MARKER)]), 1);
    assert_eq!(seen.revises(&[(4, "⏺ [Output Complete]")]), 0);
}

#[test]
fn open_lines_do_not_count() {
    let mut seen = Scenario::new();
    assert_eq!(seen.revises(&[(1, MARKER)]), 0);
    assert_eq!(seen.prints("[Output Complete]\n"), 1);
}

#[test]
fn a_full_screen_program_has_turns_too() {
    let mut seen = Scenario::new();
    assert_eq!(seen.draws(&["title", "", "", "", "", "", "", "input"]), 0);
    assert_eq!(seen.draws(&["title", "> ask", "answer one", MARKER]), 1);
    assert_eq!(
        seen.draws(&["title", "> ask", "answer one", MARKER, "> more"]),
        0
    );
    // The screen scrolls down and back.
    let more = ["answer one", MARKER, "> more", "answer two", MARKER];
    assert_eq!(seen.draws(&more), 1);
    assert_eq!(
        seen.draws(&["title", "> ask", "answer one", MARKER, "> more"]),
        0
    );
    assert_eq!(seen.draws(&more), 0);
    assert_eq!(seen.capture(&[], false), 0, "left");
    assert_eq!(
        seen.draws(&more),
        0,
        "what it shows when it comes was there"
    );
}

#[test]
fn a_scrolling_full_screen_program_reports_each_turn_at_once() {
    let mut seen = Scenario::new();
    let mut text: Vec<String> = (0..20).map(|n| format!("old {n}")).collect();
    let filler = "x".repeat(120);
    fn bottom(text: &[String]) -> Vec<&str> {
        text[text.len() - 8..].iter().map(String::as_str).collect()
    }
    assert_eq!(seen.draws(&bottom(&text)), 0);
    for turn in 0..9 {
        for line in [
            format!("> question {turn}"),
            format!("answer {turn} {filler}"),
        ] {
            text.push(line);
            assert_eq!(seen.draws(&bottom(&text)), 0);
        }
        text.push(MARKER.to_owned());
        assert_eq!(seen.draws(&bottom(&text)), 1, "turn {turn}");
        assert_eq!(seen.draws(&bottom(&text[..text.len() - 4])), 0, "back");
        assert_eq!(seen.draws(&bottom(&text)), 0, "and there again");
    }
}

#[test]
fn a_resize_does_not_hide_a_turn_with_the_same_ending() {
    let mut seen = Scenario::new();
    let filler = "y".repeat(120);
    for turn in 0..4 {
        let chunk = seen.chunk(&format!("turn {turn} {filler}\n[Output Complete]\n"));
        assert_eq!(seen.capture(&[chunk], true), 1);
    }
}

#[test]
fn markers_are_lines() {
    assert!(Markers::new([" DONE "]).unwrap().find("  DONE").is_some());
    assert!(Markers::new(["● over"]).unwrap().find("● over").is_some());
    for markers in [&[][..], &[""], &["a", " "], &["a\nb"]] {
        assert!(Markers::new(markers).unwrap_err().is_invalid_input());
    }
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(MARKER.to_owned()),
        Just(format!("⏺ {MARKER}")),
        Just(format!("> {MARKER}")),
        Just(String::new()),
        "[│> ⏺a-c]{0,8}",
        "\\PC{0,20}",
    ]
}

proptest! {
    /// The same turns end, however the settled lines are split into captures.
    #[test]
    fn turns_do_not_depend_on_the_captures(
        lines in prop::collection::vec(line(), 0..60),
        cuts in prop::collection::vec(any::<bool>(), 60),
    ) {
        let text = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let mut at_once = Scenario::new();
        let all = at_once.prints(&text(&lines));
        let mut bit_by_bit = Scenario::new();
        let (mut sum, mut from) = (0, 0);
        for end in 1..=lines.len() {
            if cuts[end - 1] || end == lines.len() {
                sum += bit_by_bit.prints(&text(&lines[from..end]));
                from = end;
            }
        }
        prop_assert_eq!(sum, all);
    }

    /// For any changes, the detector does not panic, and no capture has more turns than lines.
    #[test]
    fn any_changes_are_accepted(
        captures in prop::collection::vec((any::<bool>(), prop::collection::vec((any::<u8>(), -9..40i64, line()), 0..8)), 0..30),
    ) {
        let mut seen = Scenario::new();
        for (disturbed, capture) in captures {
            let changes: Vec<Change> = capture.into_iter().map(|(kind, line, text)| match kind % 4 {
                0 => Change::Lines { first_line: line, chunk: format!("{text}\n") },
                1 => Change::Revised { line, text },
                2 => Change::Screen {
                    width: 9, height: 7, cursor: crate::event::Cursor::default(),
                    rows: vec![ScreenRow { row: line.unsigned_abs() as u32, text }],
                },
                _ => Change::Gap { first_line: line, lost_lines: None, reason: GapReason::Cleared, evidence: GapEvidence::Possible },
            }).collect();
            let count = changes.len();
            prop_assert!(seen.capture(&changes, disturbed) <= count * 40);
        }
    }
}

#[test]
fn a_marker_on_a_line_of_its_own_ends_a_turn() {
    let mut detector = TurnDetector::new(Markers::default());
    let chunk = "> then say [Output Complete]\n⏺ It is done.\n\n⏺ [Output Complete]\n".to_owned();
    let turns = detector.update(
        &[Change::Lines {
            first_line: 1,
            chunk,
        }],
        ChangeContext::default(),
    );
    assert_eq!(turns[0].line, Some(4));
    assert_eq!(turns[0].summary, "It is done.");
}
