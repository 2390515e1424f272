//! Tests of the styles of lines through all movements of text.

use proptest::prelude::*;

use super::*;
use crate::event::Styles;

/// Line, from, to, parameters.
type Plain = (u32, u32, u32, String);

/// Returns the lines and revisions that bytes cause, with their styles.
fn reported(pane: &mut Pane, bytes: &str) -> Vec<(i64, String, Vec<Plain>)> {
    let before = pane.changes.len();
    pane.feed(bytes.as_bytes());
    pane.settle();
    let mut reported = Vec::new();
    for change in &pane.changes[before..] {
        let (first, text) = match change {
            Change::Lines { first_line, chunk } => (*first_line, chunk),
            Change::Revised { line, text } => (*line, text),
            Change::Screen { .. } | Change::Gap { .. } => continue,
        };
        let styles = plain(&pane.stream.styles(first, text));
        reported.push((first, text.clone(), styles));
    }
    reported
}

fn plain(styles: &Styles) -> Vec<Plain> {
    let styles = styles.as_slice().iter();
    styles
        .map(|style| (style.line, style.from, style.to, style.sgr.clone()))
        .collect()
}

/// Asserts the final text and runs of the first line in a pane of nine columns.
#[track_caller]
fn first_line(bytes: &str, text: &str, runs: &[(u32, u32, &str)]) {
    let mut pane = Pane::new(9, 4);
    let reported = reported(&mut pane, bytes);
    let (_, read, styles) = reported.into_iter().rfind(|(line, ..)| *line == 1).unwrap();
    let read = read.lines().next().unwrap_or_default().trim_end();
    assert_eq!(read, text, "{bytes:?}");
    let styles: Vec<_> = styles.iter().filter(|style| style.0 == 0).collect();
    let styles: Vec<_> = styles
        .iter()
        .map(|style| (style.1, style.2, &*style.3))
        .collect();
    assert_eq!(styles, runs, "{bytes:?}");
}

#[test]
fn a_line_is_reported_with_its_colours() {
    let mut pane = Pane::new(20, 4);
    let reported = reported(
        &mut pane,
        "\x1b[31mred\x1b[0m plain\r\n\x1b[1;44mall\x1b[m\r\nnone\r\n",
    );
    let styles = vec![(0, 0, 3, "31".into()), (1, 0, 3, "1;44".into())];
    assert_eq!(reported, [(1, "red plain\nall\nnone\n".into(), styles)]);
}

#[test]
fn colours_move_with_their_text() {
    first_line("ab\x1b[31mcd\x1b[mef\r\n", "abcdef", &[(2, 4, "31")]);
    // Overwritten in another colour and in none.
    first_line(
        "\x1b[31mabcdef\x1b[32m\x1b[3GX\x1b[m\x1b[5GY\r\n",
        "abXdYf",
        &[(0, 2, "31"), (2, 3, "32"), (3, 4, "31"), (5, 6, "31")],
    );
    // Inserted, deleted, erased.
    first_line(
        "\x1b[31mabcd\x1b[m\x1b[2G\x1b[2@\r\n",
        "a  bcd",
        &[(0, 1, "31"), (3, 6, "31")],
    );
    first_line(
        "\x1b[31mabcd\x1b[mef\x1b[2G\x1b[2P\r\n",
        "adef",
        &[(0, 2, "31")],
    );
    first_line(
        "\x1b[31mabcd\x1b[m\x1b[2G\x1b[2X\r\n",
        "a  d",
        &[(0, 1, "31"), (3, 4, "31")],
    );
    first_line(
        "\x1b[31mabcd\x1b[m\x1b[3G\x1b[K!\r\n",
        "ab!",
        &[(0, 2, "31")],
    );
    first_line(
        "\x1b[31mabcd\x1b[m\x1b[4h\x1b[1Gx\x1b[4l\r\n",
        "xabcd",
        &[(1, 5, "31")],
    );
    // Characters count, not columns.
    first_line(
        "漢\x1b[31m字e\u{301}\x1b[mx\r\n",
        "漢字e\u{301}x",
        &[(1, 4, "31")],
    );
    // Wrapped, on the screen and scrolled off.
    first_line(
        "1234567\x1b[31m890\x1b[m12\r\n",
        "123456789012",
        &[(7, 10, "31")],
    );
    first_line(
        "1234567\x1b[31m890\x1b[m12\r\n\n\n\n\n",
        "123456789012",
        &[(7, 10, "31")],
    );
    // A line is inserted above it and deleted again.
    first_line(
        "\x1b[31mab\x1b[m\r\nc\x1b[H\x1b[L\x1b[M\x1b[3H",
        "ab",
        &[(0, 2, "31")],
    );
    // Saved by ESC 7.
    first_line(
        "\x1b[31ma\x1b7\x1b[32mb\x1b8c\x1b[m\r\n",
        "ac",
        &[(0, 2, "31")],
    );
    // The alternate screen has its own style.
    first_line(
        "\x1b[31ma\x1b[?1049h\x1b[44mx\x1b[?1049lb\x1b[m\r\n",
        "ab",
        &[(0, 2, "31")],
    );
}

#[test]
fn a_line_that_is_written_again_has_its_new_colours() {
    let mut pane = Pane::new(20, 4);
    reported(&mut pane, "\x1b[31mone\x1b[m\r\ntwo\r\n");
    let revised = reported(&mut pane, "\x1b[2A\x1b[32mONE\x1b[m\x1b[2B");
    assert_eq!(revised, [(1, "ONE".into(), vec![(0, 0, 3, "32".into())])]);
    // The old text has no styles any more.
    assert!(pane.stream.styles(1, "one\n").is_empty());
    assert!(pane.stream.styles(2, "ONE\n").is_empty());
    let revised = reported(&mut pane, "\x1b[2A\rtwo\x1b[2B");
    assert_eq!(revised, [(1, "two".into(), vec![])]);
}

#[test]
fn a_flood_keeps_the_colours_of_its_lines_within_bounds() {
    let mut pane = Pane::new(20, 4);
    let bytes: String = (0..900)
        .map(|n| format!("{n} \x1b[3{}mx\x1b[m\r\n", n % 8))
        .collect();
    let reported = reported(&mut pane, &bytes);
    let mut count = 0;
    for (first, text, styles) in reported {
        for (line, from, to, sgr) in styles {
            let number = first + i64::from(line) - 1;
            let digits = number.to_string().len() as u32;
            assert_eq!((from, to), (digits + 1, digits + 2));
            assert_eq!(sgr, format!("3{}", number % 8), "{number} of {text:?}");
            count += 1;
        }
    }
    assert_eq!(count, 900);
}

#[test]
fn a_coloured_line_without_an_end_does_not_block_input() {
    let mut pane = Pane::new(20, 4);
    let bytes: String = (0..200_000).map(|n| format!("\x1b[3{}mx", n % 8)).collect();
    pane.feed(bytes.as_bytes());
    pane.settle();
    let text: usize = pane.lines().iter().map(String::len).sum();
    assert_eq!(text, 200_000);
}

/// Programs that print in colours and move text.
fn program() -> impl Strategy<Value = Vec<String>> {
    let part = prop_oneof![
        4 => "[a-z ]{1,12}",
        2 => Just("\r\n".to_owned()),
        1 => Just("漢e\u{301}".to_owned()),
        3 => (0_u8..9).prop_map(|n| format!("\x1b[{}m", if n == 8 { 0 } else { 30 + n })),
        1 => (1_u8..12, prop::sample::select(vec!["@", "P", "X", "L", "M", "S", "T", "A", "B", "C", "D", "G", "K", "J", "d"]))
            .prop_map(|(n, last)| format!("\x1b[{}{last}", if last == "K" || last == "J" { n % 3 } else { n })),
        1 => prop::sample::select(vec!["\x1b7", "\x1b8", "\x1b[4h", "\x1b[4l", "\x1b[2;3r", "\x1b[r", "\x1bM", "\t", "\x08", "\r"]).prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 0..60)
}

proptest! {
    /// Colours do not change texts and numbers, and runs do not overlap or exceed their lines.
    #[test]
    fn colours_change_no_text(program in program()) {
        let is_colour = |part: &String| part.starts_with("\x1b[") && part.ends_with('m');
        let mut styled = Pane::new(9, 4);
        let with = reported(&mut styled, &program.concat());
        let mut bare = Pane::new(9, 4);
        // A sequence without an effect replaces each colour.
        let program: String = program.iter().map(|part| if is_colour(part) { "\x1b[22m" } else { part }).collect();
        let without = reported(&mut bare, &program);
        let texts = |reported: &[(i64, String, Vec<_>)]| -> Vec<_> {
            reported.iter().map(|(line, text, _)| (*line, text.clone())).collect()
        };
        prop_assert!(without.iter().all(|(.., styles)| styles.is_empty()));
        prop_assert_eq!(texts(&with), texts(&without));
        for (_, text, styles) in &with {
            let lines: Vec<&str> = text.split('\n').collect();
            let mut last = (0, 0);
            for (line, from, to, sgr) in styles {
                prop_assert!(from < to && (last.0 < *line || last.1 <= *from), "{:?}", styles);
                prop_assert!(*to as usize <= lines[*line as usize].chars().count(), "{:?} {:?}", text, styles);
                prop_assert!(!sgr.is_empty());
                last = (*line, *to);
            }
        }
    }
}
