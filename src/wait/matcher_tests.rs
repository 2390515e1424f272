//! New lines match; the baseline, moved lines and echoes do not.

use super::*;

fn patterns() -> Patterns {
    Patterns {
        wanted: vec![Pattern::text("DONE").unwrap()],
        stops: vec![Pattern::regex("^error").unwrap()],
    }
}

fn lines_of<'a>(changes: &'a [Change], visible: &[(i64, &'a str)]) -> PaneLines<'a> {
    PaneLines {
        changes,
        visible: visible.to_vec(),
        cursor: visible.last().copied().unwrap_or_default(),
        numbering: Numbering::Continued,
        after_gap: None,
    }
}

fn lines(first_line: i64, chunk: &str) -> Change {
    Change::Lines {
        first_line,
        chunk: chunk.to_owned(),
    }
}

fn found(matcher: &mut Matcher, changes: &[Change], visible: &[(i64, &str)]) -> Option<i64> {
    matcher
        .update(&lines_of(changes, visible))
        .and_then(|line_match| line_match.line)
}

#[test]
fn the_baseline_never_matches() {
    let before = [(-1, "DONE"), (0, "DONE again"), (1, "almost DONE ")];
    let mut matcher = Matcher::with_baseline(patterns(), &before, (1, "almost DONE "));
    assert_eq!(found(&mut matcher, &[], &before), None);
    // Redrawn one row lower, then continued.
    let drawn = [(-1, "x"), (0, "DONE"), (1, "DONE again")];
    assert_eq!(found(&mut matcher, &[], &drawn), None);
    assert_eq!(found(&mut matcher, &[], &[(1, "almost DONE yes")]), None);
    let line_match = found(&mut matcher, &[], &[(1, "almost DONE and DONE")]);
    assert_eq!(line_match, Some(1));
    assert_eq!(found(&mut matcher, &[], &[(2, "DONE")]), Some(2));
    assert_eq!(found(&mut matcher, &[lines(7, "DONE\n")], &[]), Some(7));
}

#[test]
fn typed_text_does_not_match_where_it_is_echoed() {
    let before = [(1, "[x] ")];
    let begun = |sent: &str| {
        let matcher = Matcher::with_baseline(patterns(), &before, before[0]);
        matcher.sends(&[sent.to_owned()])
    };
    for (sent, line, text, is_match) in [
        ("echo DONE", 1, "[x] echo DONE", false),
        ("echo DONE", 4, "user> echo DONE", false),
        ("echo DONE", 2, "DONE", true),
        ("echo DONE", 1, "[x] DONE", true),
        ("DONE", 1, "[x] DONE", false),
        ("ONE", 1, "[x] DONE", true),
    ] {
        let mut matcher = begun(sent);
        let seen = found(&mut matcher, &[], &[(line, text)]).is_some();
        assert_eq!(seen, is_match, "{sent:?} {text:?}");
    }
    // After the echo, the text matches in an answer, unless only a prompt precedes it.
    let mut matcher = begun("say DONE");
    let echo = (1, "[x] say DONE");
    assert_eq!(found(&mut matcher, &[], &[echo]), None);
    assert_eq!(found(&mut matcher, &[], &[echo, (2, "❯ say DONE")]), None);
    assert_eq!(
        found(&mut matcher, &[], &[echo, (3, "got say DONE")]),
        Some(3)
    );
    // A program that repeats its input.
    let mut matcher = begun("DONE");
    assert_eq!(
        found(&mut matcher, &[], &[(1, "[x] DONE"), (2, "DONE")]),
        Some(2)
    );
}

#[test]
fn lines_before_the_baseline_are_not_new() {
    let before = [(-1, "one"), (0, "two"), (1, "")];
    let mut matcher = Matcher::with_baseline(patterns(), &before, (1, ""));
    // A wider pane shows more of its history.
    let wider = [(-2, "DONE"), (-1, "one"), (0, "two"), (1, "")];
    assert_eq!(found(&mut matcher, &[], &wider), None);
}

#[test]
fn text_that_is_redrawn_above_the_cursor_is_not_new() {
    let before = [(-1, "DONE"), (0, ""), (1, "")];
    let mut matcher = Matcher::with_baseline(patterns(), &before, (1, ""));
    let drawn = [(-1, ""), (0, "DONE"), (1, "")];
    assert_eq!(found(&mut matcher, &[], &drawn), None);
    // At the cursor, text is printed.
    assert_eq!(found(&mut matcher, &[], &[(1, "DONE")]), Some(1));
}

#[test]
fn the_baseline_is_not_new_under_new_numbers() {
    let before = [(0, "DONE"), (1, "")];
    for (numbering, new) in [(Numbering::Restarted, Some(8)), (Numbering::Lost, None)] {
        let mut matcher = Matcher::with_baseline(patterns(), &before, (1, ""));
        let visible = [(6, "DONE"), (8, "DONE at last"), (9, "")];
        let mut later = lines_of(&[], &visible);
        later.numbering = numbering;
        assert_eq!(
            matcher
                .update(&later)
                .and_then(|line_match| line_match.line),
            new,
            "{numbering:?}"
        );
        assert_eq!(found(&mut matcher, &[], &[(6, "DONE"), (9, "")]), None);
        assert_eq!(found(&mut matcher, &[], &[(9, "DONE")]), Some(9));
    }
}

#[test]
fn the_line_after_a_gap_may_lack_its_beginning() {
    let mut matcher = Matcher::with_baseline(patterns(), &[(1, "")], (1, ""));
    let changes = [lines(50, "error: but only at the end\nx\n")];
    let mut after_gap = lines_of(&changes, &[(50, "error"), (51, "x")]);
    after_gap.after_gap = Some(50);
    assert_eq!(matcher.update(&after_gap), None);
    assert_eq!(found(&mut matcher, &[], &[(50, "error"), (52, "")]), None);
    let line_match = found(&mut matcher, &[], &[(52, "error: at its beginning")]);
    assert_eq!(line_match, Some(52));
}

#[test]
fn the_baseline_of_a_full_screen_program_is_not_new() {
    let mut matcher = Matcher::with_baseline(patterns(), &[], (1, ""));
    matcher.add_baseline_screen(["DONE", "~"].into_iter());
    let row = |row, text: &str| ScreenRow {
        row,
        text: text.to_owned(),
    };
    assert_eq!(matcher.match_screen(&[row(0, "DONE"), row(1, "~")]), None);
    let line_match = matcher.match_screen(&[row(1, "DONE again")]);
    assert_eq!(line_match.and_then(|line_match| line_match.line), Some(1));
}

#[test]
fn a_moved_line_is_not_new_and_a_second_one_is() {
    let before = [(-1, "DONE"), (0, "x"), (1, "$ ")];
    let mut matcher = Matcher::with_baseline(patterns(), &before, (1, "$ "));
    let moved = [(-1, ""), (0, ""), (1, "$ z"), (2, "DONE"), (3, "x")];
    assert_eq!(found(&mut matcher, &[], &moved), None);
    assert_eq!(found(&mut matcher, &[], &moved), None, "nor later");
    let twin = [
        (-1, ""),
        (0, ""),
        (1, "$ z"),
        (2, "DONE"),
        (3, "x"),
        (4, "DONE"),
    ];
    assert_eq!(found(&mut matcher, &[], &twin), Some(4));
}

#[test]
fn the_first_line_counts_and_the_wanted_pattern_within_a_line() {
    let mut matcher = Matcher::new(patterns());
    let line_match = matcher.update(&lines_of(&[lines(3, "x\nerror: y\nDONE\n")], &[]));
    assert!(
        line_match.is_some_and(
            |line_match| line_match.kind == MatchKind::Stop && line_match.line == Some(4)
        )
    );
    let line_match = matcher.update(&lines_of(&[], &[(9, "error DONE")]));
    assert!(line_match.is_some_and(|line_match| line_match.kind == MatchKind::Wanted));
}

#[test]
fn an_echo_does_not_match() {
    let mut matcher = Matcher::with_baseline(patterns(), &[(1, "$ ")], (1, "$ "));
    let typed = [(1, "$ echo DONE")];
    assert_eq!(found(&mut matcher, &[], &typed), None);
    let run = [(1, "$ echo DONE"), (2, "DONE"), (3, "$ ")];
    assert_eq!(found(&mut matcher, &[], &run), Some(2));
}

#[test]
fn the_last_lines_are_kept() {
    let mut matcher = Matcher::new(patterns());
    let all: String = (1..=30).map(|n| format!("{n}\n")).collect();
    matcher.update(&lines_of(
        &[lines(1, &all)],
        &[(30, "30"), (31, "open"), (32, "")],
    ));
    let last = matcher.last_lines();
    assert_eq!(last.before.len(), 11);
    let last = last.lines;
    assert_eq!(last.len(), 20);
    assert_eq!(last.first().map(String::as_str), Some("12"));
    assert_eq!(last.last().map(String::as_str), Some("open"));
}
