//! Filters escape sequences in the output of programs: keeps colours, removes everything else (pure).
//!
//! Only SGR sequences (`ESC [ 1 ; 31 m`: colours, bold and the like) pass, and only if colours are enabled.
//! As on a terminal, a colour that is active at the end of a line stays active on the next line of its
//! stream; it never affects other streams.

use super::sanitize::{is_printable, push_sanitized_at};
use crate::escapes::Lexer;
use crate::event::Ink;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Resets the terminal to its default colours.
pub(super) const RESET: &str = "\x1b[0m";

fn is_reset(params: &str) -> bool {
    params.bytes().all(|byte| matches!(byte, b'0' | b';'))
}

// Prepares the lines of one stream for display (pure).

/// Paints the lines of one stream in their order, with bounded memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Painter {
    lexer: Lexer,
    active: Ink,
}

impl Painter {
    /// Appends a line, or the next part of a line, for display. Appends nothing for a line without visible
    /// text.
    pub fn push(&mut self, out: &mut String, text: &str, coloured: bool) {
        if self.active.is_plain() && self.lexer.is_in_text() && is_printable(text) {
            return out.push_str(text);
        }
        let start = out.len();
        let (mut is_empty, mut is_set) = (true, false);
        if coloured && !self.active.is_plain() {
            push_sgr(out, &self.active.sgr());
            is_set = true;
        }
        // Only tabs depend on the column.
        let has_tabs = text.contains('\t');
        let (mut column, mut rest) = (0, text);
        while !rest.is_empty() {
            let token = self.lexer.next(rest);
            if !token.text.is_empty() {
                let before = out.len();
                push_sanitized_at(out, token.text, column);
                is_empty = false;
                if has_tabs {
                    column += out[before..].width();
                }
            }
            if token.is_sgr && coloured {
                let params = self.lexer.params();
                push_sgr(out, params);
                is_set = !is_reset(params);
                self.active.apply(params);
            }
            rest = token.rest;
        }
        if is_empty {
            out.truncate(start);
        } else if is_set {
            out.push_str(RESET);
        }
    }

    /// Applies the colour changes of text that is not shown.
    pub fn absorb(&mut self, text: &str) {
        let mut rest = text;
        while !rest.is_empty() {
            let token = self.lexer.next(rest);
            if token.is_sgr {
                self.active.apply(self.lexer.params());
            }
            rest = token.rest;
        }
    }

    /// Ends the line, and drops an open sequence, so that it hides nothing beyond its line.
    pub fn end_line(&mut self) {
        self.lexer.reset();
    }
}

/// Appends the sequence of SGR parameters.
pub(super) fn push_sgr(out: &mut String, params: &str) {
    for part in ["\x1b[", params, "m"] {
        out.push_str(part);
    }
}

// Cuts, wraps and measures painted text, whose only escape sequences are SGR (pure).

/// A part of painted text.
enum Part<'t> {
    Sgr(&'t str),
    Char(char),
}

/// The parts of painted text, each with its position.
fn parts(painted: &str) -> impl Iterator<Item = (usize, Part<'_>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (start, rest) = (at, &painted[at..]);
        let part = match rest.chars().next()? {
            '\x1b' => {
                let end = rest.find('m').map_or(rest.len(), |end| end + 1);
                at += end;
                Part::Sgr(&rest[..end])
            }
            c => {
                at += c.len_utf8();
                Part::Char(c)
            }
        };
        Some((start, part))
    })
}

/// Returns the rows of a painted line on a terminal with this many columns.
pub(super) fn rows_of(painted: &str, columns: usize) -> usize {
    let widths = parts(painted).map(|(_, part)| match part {
        Part::Sgr(_) => 0,
        Part::Char(c) => c.width().unwrap_or(0),
    });
    widths.sum::<usize>().div_ceil(columns.max(1)).max(1)
}

/// Returns the start of a painted line that fits into `columns`.
pub(super) fn cut_painted(painted: &str, columns: usize) -> String {
    let (mut used, mut is_coloured) = (0, false);
    for (at, part) in parts(painted) {
        match part {
            Part::Sgr(_) => is_coloured = true,
            Part::Char(c) => used += c.width().unwrap_or(0),
        }
        if used > columns {
            return [&painted[..at], if is_coloured { RESET } else { "" }].concat();
        }
    }
    painted.to_owned()
}

/// Wraps a painted line into rows of at most `columns`; each row repeats the active colours.
pub(super) fn wrap_painted(painted: &str, columns: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let (mut row, mut used) = (String::new(), 0);
    // The sequences since the last reset.
    let mut active = String::new();
    for (_, part) in parts(painted) {
        let c = match part {
            Part::Char(c) => c,
            Part::Sgr(sequence) => {
                row.push_str(sequence);
                match sequence {
                    "\x1b[m" | RESET => active.clear(),
                    _ => active.push_str(sequence),
                }
                continue;
            }
        };
        let width = c.width().unwrap_or(0);
        if used + width > columns && used > 0 {
            if !active.is_empty() {
                row.push_str(RESET);
            }
            rows.push(std::mem::replace(&mut row, active.clone()));
            used = 0;
        }
        used += width;
        row.push(c);
    }
    // A row without visible text is dropped, unless it is the only one.
    if used > 0 || rows.is_empty() {
        rows.push(row);
    } else if let Some(last) = rows.last_mut() {
        last.push_str(&row);
    }
    rows
}

/// Returns the end of painted text that fits into `columns`. Text that is cut loses its colours.
pub(super) fn end_of_painted(painted: &str, columns: usize) -> String {
    let plain: String = parts(painted)
        .filter_map(|(_, part)| match part {
            Part::Sgr(_) => None,
            Part::Char(c) => Some(c),
        })
        .collect();
    if plain.width() <= columns {
        return painted.to_owned();
    }
    // The ellipsis takes the first column.
    let mut used = 1;
    let mut start = plain.len();
    for (at, c) in plain.char_indices().rev() {
        used += c.width().unwrap_or(0);
        if used > columns {
            break;
        }
        start = at;
    }
    match columns {
        0 => String::new(),
        _ => format!("…{}", &plain[start..]),
    }
}

#[cfg(test)]
mod tests {
    //! Tests that hostile lines lose their escape sequences and keep their colours.

    use super::*;
    use crate::face::sanitize::tests::nasty;
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthChar;

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
        let long = format!("\x1b[{}mx", "1;".repeat(64));
        assert_eq!(painted(&[&long], true), ["x"]);
    }

    #[test]
    fn a_colour_stays_active_until_it_ends() {
        for (line, next) in [
            ("\x1b[31mred", "\x1b[31mx\x1b[0m"),
            ("\x1b[31mred\x1b[m", "x"),
            ("\x1b[31mred\x1b[39m", "x"),
            ("\x1b[1;31mred\x1b[22m", "\x1b[31mx\x1b[0m"),
            ("\x1b[1;2m\x1b[31m\x1b[32mx\x1b[1m", "\x1b[1;2;32mx\x1b[0m"),
            (
                "\x1b[38;5;0mx\x1b[48;2;0;0;0m",
                "\x1b[30;48;2;0;0;0mx\x1b[0m",
            ),
            (
                "\x1b[4:3;38:2::1:2:3mx\x1b[4:0m",
                "\x1b[38;2;1;2;3mx\x1b[0m",
            ),
            ("\x1b[31;0;7mx", "\x1b[7mx\x1b[0m"),
            // Broken or unknown, as tmux reads it.
            (
                "\x1b[38;9mx\x1b[38m\x1b[48;2;1m\x1b[66;999999m",
                "\x1b[1;9mx\x1b[0m",
            ),
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
                let short = cut_painted(coloured, columns);
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
            }
        }

        /// A terminal shows each character in the colours set by its program.
        #[test]
        fn each_character_keeps_the_colour_of_its_program(
            lines in prop::collection::vec(prop::collection::vec(prop::sample::select(vec![
                // Bold and faint exclude each other in avt, but not in tmux, so they do here.
                "\x1b[31m", "\x1b[0m", "\x1b[m", "\x1b[22;1;38;5;9m", "\x1b[39m", "\x1b[22m", "\x1b[4;48;2;1;2;3m",
                "\x1b[22;2m", "\x1b[24m", "\x1b[7m", "\x1b[27;49m", "\x1b[3m", "\x1b[23m", "\x1b[91;102m", "a", "b",
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
}
