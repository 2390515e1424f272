//! Tests lines that are held without a terminal.

use std::mem::take;

use super::*;

/// Renders events without a terminal.
fn piped(events: impl IntoIterator<Item = (i64, TdEvent)>) -> String {
    play(
        Console::default().holding(),
        [(0, opened("%1", 80, 8))].into_iter().chain(events),
    )
}

#[test]
fn a_pipe_gets_a_display_once_in_its_final_state() {
    for (events, expected) in [
        // Lines after the display are held until it stays unchanged.
        (
            vec![
                (0, update(1, "title\na 0\nb 0\n")),
                (100, revised(2, "a 1")),
                (200, revised(3, "b 2")),
                (300, revised(2, "a 3")),
                (310, update(4, "done\n")),
                (2000, update(5, "more\n")),
            ],
            "x | title\nx | a 3\nx | b 2\nx | done\nx | more\n",
        ),
        // The display grows, changes rarely, and removes a row at its end.
        (
            vec![
                (0, update(1, "a 0\nb\n")),
                (150, revised(1, "a 1")),
                (700, update(3, "c 0\n")),
                (850, revised(3, "c 1")),
                (2000, revised(1, "a 2")),
                (2100, revised(1, "all")),
                (2100, revised(3, "")),
            ],
            "x | all\nx | b\n",
        ),
        // An intermediate state outlasts the hold; the final one is printed again, before the next line.
        (
            vec![
                (0, update(1, "a 0\nb 0\n")),
                (1000, revised(1, "a 1")),
                (1900, revised(2, "b 2")),
                (2000, update(3, "done\n")),
                (9000, update(4, "more\n")),
            ],
            "x | a 0\nx | b 0\nx ~ a 1\nx ~ b 2\nx | done\nx | more\n",
        ),
        // Lines that scroll off the screen are not held, and neither are lines before a gap.
        (
            vec![
                (0, update(1, "a 0\n")),
                (100, revised(1, "a 1")),
                (100, update(2, "2\n3\n4\n")),
                (110, gap(5, Some(2), "dropped")),
                (120, update(7, "7\n8\n")),
            ],
            "x | a 1\nx | 2\nx | 3\nx | 4\nx | … 2 lines lost (dropped)\nx | 7\nx | 8\n",
        ),
        // A printed line that is erased later stays.
        (
            vec![
                (0, update(1, "a\n\nb\n")),
                (100, revised(1, "")),
                (100, revised(3, "")),
            ],
            "x | a\nx |\nx | b\n",
        ),
    ] {
        assert_eq!(piped(events), expected);
    }
}

#[test]
fn lines_that_may_be_rewritten_are_held_on_a_pipe() {
    let mut console = Console::default().holding();
    let mut out = String::new();
    let event = |ms: i64, event| envelope(ms * 1000, event);
    console.event(&event(0, opened("%1", 80, 4)), &mut out);
    console.event(&event(0, update(1, "1\n2\n3\n4\n5\n6\n")), &mut out);
    // The cursor is in the last of four rows.
    assert_eq!(take(&mut out), "x | 1\nx | 2\nx | 3\n");
    assert_eq!(console.deadline(0), Some(250_000));
    console.release_due(249_999, &mut out);
    assert_eq!(out, "");
    console.release_due(250_000, &mut out);
    assert_eq!(take(&mut out), "x | 4\nx | 5\nx | 6\n");
    assert_eq!(console.deadline(250_000), None);
    // A message above a constantly changing display is not held forever.
    console.event(&event(1000, update(7, "a\nb\n")), &mut out);
    console.event(&event(1100, revised(7, "message")), &mut out);
    for ms in (1100..9000).step_by(100) {
        console.event(&event(ms, revised(8, &format!("at {ms}"))), &mut out);
    }
    assert_eq!(take(&mut out), "x | message\n");
    console.release_due(8_900_000 + 1_500_000, &mut out);
    assert_eq!(out, "x | at 8900\n");
}
