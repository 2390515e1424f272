//! Tests that hostile lines lose their escape sequences and keep their colours.

use proptest::prelude::*;

use unicode_width::UnicodeWidthChar;

use super::lexer::PARAMS_MAX;
use super::sgr::{ACTIVE_MAX, is_reset};
use super::*;
use crate::face::sanitize::tests::nasty;

/// Returns the painted lines of one stream.
fn painted(lines: &[&str], coloured: bool) -> Vec<String> {
    let mut painter = Painter::default();
    let one = |line: &&str| {
        let mut out = String::new();
        painter.push(&mut out, line, coloured);
        painter.end_line();
        out
    };
    lines.iter().map(one).collect()
}

/// Removes SGR, and checks that no other sequence remains.
fn without_sgr(painted: &str) -> String {
    let (mut text, mut rest) = (String::new(), painted);
    while let Some((before, after)) = rest.split_once("\x1b[") {
        let (params, after) = after.split_once('m').unwrap();
        let is_sgr = |c: char| c.is_ascii_digit() || ";:".contains(c);
        assert!(params.chars().all(is_sgr), "{painted:?}");
        text.push_str(before);
        rest = after;
    }
    text + rest
}

/// Generates lines of complete and broken sequences.
fn escaped() -> impl Strategy<Value = String> {
    let some = prop::sample::select(vec![
        "\x1b[31m",
        "\x1b[0m",
        "\x1b[m",
        "\x1b[1;38;5;9m",
        "\x1b[2J",
        "\x1b[31",
        "\x1b",
        "\x1b]0;t",
        "\x07",
        "\x1b\\",
        "\x1bPq",
        "\u{9b}32m",
        "\u{9d}",
        "\u{9c}",
        "\x1b(B",
        "\x1b(",
        ";4:3m",
        "m",
        "\t",
        "a",
        "漢",
        "\x1b[>4m",
        "\x1b[39m",
        "\x1b[22m",
        "\u{85}",
        "\x18",
        "\x1b[4;48;2;1;2;3m",
    ]);
    let one = prop_oneof![3 => some.prop_map(str::to_owned), 1 => nasty()];
    prop::collection::vec(one, 0..12).prop_map(|parts| parts.concat().replace(['\n', '\r'], ""))
}

#[test]
fn colours_pass_and_other_sequences_do_not() {
    for (line, coloured, plain) in [
        ("plain", "plain", "plain"),
        ("\x1b[31mred\x1b[0m.", "\x1b[31mred\x1b[0m.", "red."),
        ("\x1b[31mred", "\x1b[31mred\x1b[0m", "red"),
        ("\u{9b}1;4:3mbold", "\x1b[1;4:3mbold\x1b[0m", "bold"),
        // These sequences end with the letter of SGR, but are not SGR.
        ("\x1b[>4;2ma\x1b[?4mb\x1b[0 mc", "abc", "abc"),
        ("a\x1b[2J\x1b[1;1Hb\x1b[?25lc\x1b[Kd", "abcd", "abcd"),
        ("a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c", "abc", "abc"),
        (
            "a\x1bPq#0;\x1b\\b\x1b_x\u{9c}c\x1b^y\x1b\\d\x1bXz\x18e",
            "abcde",
            "abcde",
        ),
        ("a\u{9d}52;c;x\x07b\u{90}q\u{9c}c\u{84}d", "abcd", "abcd"),
        (
            "a\x1b(Bb\x1b=c\x1bMd\x1b#8e\x1bcf\x1b%Gg",
            "abcdefg",
            "abcdefg",
        ),
        // A broken sequence ends at the beginning of the next one.
        ("a\x1b[31\x1b[1mb", "a\x1b[1mb\x1b[0m", "ab"),
        ("a\x1b\x01b\x1b[3漢c", "a^Ab漢c", "a^Ab漢c"),
        ("a\x1b]0;never ended", "a", "a"),
        (
            "bell\x07 \u{202e}x\x7f",
            "bell^G <202e>x^?",
            "bell^G <202e>x^?",
        ),
        ("\x1b[1ma\tb", "\x1b[1ma       b\x1b[0m", "a       b"),
        ("a\x1b[1mb\tc", "a\x1b[1mb      c\x1b[0m", "ab      c"),
        // No visible text.
        ("\x1b[?25h\x1b[0m\x1b[31m", "", ""),
    ] {
        assert_eq!(painted(&[line], true), [coloured], "{line:?}");
        assert_eq!(painted(&[line], false), [plain], "{line:?}");
    }
    let long = format!("\x1b[{}mx", "1;".repeat(PARAMS_MAX));
    assert_eq!(painted(&[&long], true), ["x"]);
}

#[test]
fn a_colour_stays_active_until_it_ends() {
    for (line, next) in [
        ("\x1b[31mred", "\x1b[31mx\x1b[0m"),
        ("\x1b[31mred\x1b[m", "x"),
        ("\x1b[31mred\x1b[39m", "x"),
        ("\x1b[1;31mred\x1b[22m", "\x1b[31mx\x1b[0m"),
        ("\x1b[1;2m\x1b[31m\x1b[32mx\x1b[1m", "\x1b[2;32;1mx\x1b[0m"),
        (
            "\x1b[38;5;0mx\x1b[48;2;0;0;0m",
            "\x1b[38;5;0;48;2;0;0;0mx\x1b[0m",
        ),
        (
            "\x1b[4:3;38:2::1:2:3mx\x1b[4:0m",
            "\x1b[38:2::1:2:3mx\x1b[0m",
        ),
        ("\x1b[31;0;7mx", "\x1b[7mx\x1b[0m"),
        // Broken or unknown.
        ("\x1b[38;9mx\x1b[38m\x1b[48;2;1m\x1b[66;999999m", "x"),
        ("\x1b[31mx\x1b]0;", "\x1b[31mx\x1b[0m"),
    ] {
        assert_eq!(painted(&[line, "x"], true)[1], next, "{line:?}");
        assert_eq!(painted(&[line, "", "x"], true)[1..], ["", next], "{line:?}");
    }
    let mut painter = Painter::default();
    painter.absorb("\x1b[31m10%");
    let mut out = String::new();
    painter.push(&mut out, "50%", true);
    assert_eq!(out, "\x1b[31m50%\x1b[0m");
}

#[test]
fn a_cut_line_fits_and_ends_its_colours() {
    for (columns, expected) in [
        (9, "a\x1b[1m漢b\x1b[0mc"),
        (4, "a\x1b[1m漢b\x1b[0m\x1b[0m"),
        (2, "a\x1b[1m\x1b[0m"),
        (0, ""),
    ] {
        assert_eq!(cut_painted("a\x1b[1m漢b\x1b[0mc", columns), expected);
    }
}

proptest! {
    #[test]
    fn only_sgr_remains(lines in prop::collection::vec(escaped(), 1..4), columns in 0_usize..20) {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let plain = painted(&lines, false);
        for (coloured, plain) in painted(&lines, true).iter().zip(&plain) {
            prop_assert_eq!(&without_sgr(coloured), plain);
            prop_assert!(!plain.contains(char::is_control) && !plain.contains('\u{202e}'), "{:?}", plain);
            // Colours are reset at the end of the line.
            let last = coloured.rsplit_once("\x1b[").map(|(_, last)| last.split_once('m').unwrap().0);
            prop_assert!(last.is_none_or(is_reset), "{:?}", coloured);
            let short = cut_painted(coloured, columns).into_owned();
            prop_assert!(plain.starts_with(&without_sgr(&short)));
            let used: usize = without_sgr(&short).chars().map(|c| c.width().unwrap_or(0)).sum();
            prop_assert!(used <= columns);
        }
    }

    /// Without tabs, whose width depends on the beginning of each part.
    #[test]
    fn a_line_in_parts_reads_like_the_whole_line(line in escaped(), cut in any::<prop::sample::Index>()) {
        let line = line.replace('\t', " ");
        let mut at = cut.index(line.len() + 1);
        while !line.is_char_boundary(at) {
            at -= 1;
        }
        for coloured in [false, true] {
            let (mut painter, mut parts) = (Painter::default(), String::new());
            painter.push(&mut parts, &line[..at], coloured);
            painter.push(&mut parts, &line[at..], coloured);
            prop_assert_eq!(without_sgr(&parts), without_sgr(&painted(&[&line], coloured)[0]));
            prop_assert!(painter.attributes() <= ACTIVE_MAX);
        }
    }

    /// A terminal shows each character in the colours set by its program.
    #[test]
    fn each_character_keeps_the_colour_of_its_program(
        lines in prop::collection::vec(prop::collection::vec(prop::sample::select(vec![
            "\x1b[31m", "\x1b[0m", "\x1b[m", "\x1b[1;38;5;9m", "\x1b[39m", "\x1b[22m", "\x1b[4;48;2;1;2;3m",
            "\x1b[2m", "\x1b[24m", "\x1b[7m", "\x1b[27;49m", "\x1b[3m", "\x1b[23m", "\x1b[91;102m", "a", "b",
        ]), 0..8), 1..6),
    ) {
        let lines: Vec<String> = lines.iter().map(|parts| parts.concat()).collect();
        let shown = painted(&lines.iter().map(String::as_str).collect::<Vec<_>>(), true);
        let cells = |lines: &[String]| {
            let mut terminal = avt::Terminal::new(20, 10).unwrap();
            terminal.feed(lines.join("\r\n").as_str());
            let rows = terminal.screen().visible_lines();
            rows.map(|row| format!("{:?}", row.cells())).collect::<Vec<_>>()
        };
        prop_assert_eq!(cells(&shown), cells(&lines));
    }
}

#[test]
fn the_end_of_a_long_line_is_shown() {
    for (columns, expected) in [(0, ""), (1, "…"), (2, "…c"), (4, "…漢c")] {
        assert_eq!(end_of_painted("\x1b[1ma\x1b[0mb漢c", columns), expected);
    }
    let whole = "\x1b[1ma\x1b[0mb漢c";
    assert_eq!(end_of_painted(whole, 5), whole);
}
