//! Separates the output of `capture-pane -e` into text and styles (pure).

use unicode_width::UnicodeWidthStr;

use super::super::lines::next_stop;
use super::ink::Inks;
use super::styled::style;
use crate::escapes::Lexer;
use crate::event::{Ink, Styles};

/// Separates rows of `width` columns with SGR into texts, without plain blanks at their ends, and styles.
/// The style at the end of a row continues in the next row.
pub fn sgr_rows(captured: &str, width: usize) -> (Vec<String>, Styles) {
    let (mut lexer, mut ink, mut draws_lines) = (Lexer::default(), Ink::default(), false);
    let (mut rows, mut styles) = (Vec::new(), Vec::new());
    for (number, line) in (0_u32..).zip(captured.lines()) {
        let (mut text, mut inks, mut chars) = (String::new(), Inks::default(), 0);
        let mut rest = line;
        while !rest.is_empty() {
            let token = lexer.next(rest);
            for c in token.text.chars() {
                let (before, mut count) = (chars, 1);
                match c {
                    // tmux 3.6 and newer keeps tabs.
                    '\t' => {
                        let column = text.width();
                        count = next_stop(column, width) - column;
                        text.extend(std::iter::repeat_n(' ', count));
                    }
                    // tmux writes line-drawing characters between SO and SI.
                    '\x0e' | '\x0f' => {
                        draws_lines = c == '\x0e';
                        continue;
                    }
                    c if c.is_control() => continue,
                    c if draws_lines => text.push(line_drawing(c)),
                    c => text.push(c),
                }
                chars += count;
                inks.set(before, chars, ink);
            }
            if token.is_sgr {
                ink.apply(lexer.params());
            }
            rest = token.rest;
        }
        // A styled blank is visible, for example in a bar.
        let styled = inks.0.last().map_or(0, |run| run.to);
        let blank = text.chars().rev().take_while(|c| *c == ' ').count();
        let shown = styled.max(chars - blank);
        text.truncate(text.len() - (chars - shown));
        styles.extend(inks.0.iter().filter_map(|run| style(number, run)));
        rows.push(text);
    }
    (rows, Styles::new(styles))
}

/// Returns the character of the special graphics set (VT100) that a terminal draws for a letter.
fn line_drawing(letter: char) -> char {
    let drawn = "♦▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£⋅";
    ('`'..='~')
        .zip(drawn.chars())
        .find(|(from, _)| *from == letter)
        .map_or(letter, |(_, to)| to)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read(captured: &str) -> (Vec<String>, Value) {
        let (rows, styles) = sgr_rows(captured, 24);
        (rows, json!(styles))
    }

    #[test]
    fn text_and_styles_are_separated() {
        let (rows, styles) = read("a \x1b[1;31mr漢d\x1b[0m b  \n\n\x1b[32mgo\n on\x1b[39m.  \n");
        assert_eq!(rows, ["a r漢d b", "", "go", " on."]);
        let expected = json!([[0, 2, 5, "1;31"], [2, 0, 2, "32"], [3, 0, 3, "32"]]);
        assert_eq!(styles, expected);
    }

    #[test]
    fn bars_links_and_drawing_are_read() {
        let (rows, styles) = read(
            "\x1b[44mbar   \x1b[0m  \n\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n\x0eqx\x0fq\n",
        );
        assert_eq!(rows, ["bar   ", "link", "─│q"]);
        assert_eq!(styles, json!([[0, 0, 6, "44"]]));
    }

    #[test]
    fn tabs_become_blanks_up_to_the_next_stop() {
        let (rows, styles) = read("a\tb\t\x1b[31mc\td\x1b[m\te\n漢\tx\t\n");
        assert_eq!(rows, ["a       b       c      de", "漢      x"]);
        assert_eq!(styles, json!([[0, 16, 24, "31"]]));
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(\\PC|\x1b\\[[0-9;:]{0,9}m|\x1b|\n|\t|\x0e| ){0,60}") {
            let (rows, styles) = sgr_rows(&text, 24);
            for style in styles.as_slice() {
                let row = rows.get(style.line as usize).unwrap();
                prop_assert!(style.from < style.to && style.to as usize <= row.chars().count());
                prop_assert!(style.is_valid());
            }
            prop_assert!(rows.iter().all(|row| !row.contains('\x1b')));
        }
    }
}
