//! Makes text safe to display: control characters become visible, and lines are cut to a width (pure).

use std::fmt::Write;

use crate::track::cut;
use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The distance of tab stops on terminals.
const TAB_COLUMNS: usize = 8;

/// Appends `text` in a form that is safe on one line: tabs become blanks, and other control characters are
/// shown as in `less` (`^[`, `<9b>`), as are invisible characters that hide or disguise text.
pub(super) fn push_sanitized(out: &mut String, text: &str) {
    push_sanitized_at(out, text, 0);
}

/// Returns `text` as [`push_sanitized`] appends it.
pub(crate) fn sanitized(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    push_sanitized(&mut out, text);
    out
}

/// Like [`push_sanitized`], for text that begins at `column` of its line. Tabs depend on it.
pub(super) fn push_sanitized_at(out: &mut String, text: &str, column: usize) {
    if is_printable(text) || !text.contains(is_unsafe) {
        return out.push_str(text);
    }
    // `column` is the width up to the byte `counted`: measuring from the start for each tab would be
    // quadratic.
    let (mut column, mut counted) = (column, out.len());
    for c in text.chars() {
        match c {
            '\t' => {
                column += out[counted..].width();
                let blanks = TAB_COLUMNS - column % TAB_COLUMNS;
                out.extend(std::iter::repeat_n(' ', blanks));
                column += blanks;
                counted = out.len();
            }
            c if !is_unsafe(c) => out.push(c),
            '\0'..='\x1f' | '\x7f' => {
                out.push('^');
                // The letter of the key combination, as in `^C`.
                out.push(char::from(c as u8 ^ 0x40));
            }
            c => {
                // Writing to a string does not fail.
                let _ = write!(out, "<{:x}>", u32::from(c));
            }
        }
    }
}

/// Returns `text` as one safe line: line ends become blanks.
pub(crate) fn one_line(text: &str) -> String {
    sanitized(&text.trim_end().replace(['\n', '\r'], " "))
}

/// Returns true if the text is printable ASCII, as most text is. Checks all bytes without an early
/// return, so that the compiler vectorizes the loop.
pub(super) fn is_printable(text: &str) -> bool {
    text.bytes()
        .fold(true, |all, byte| all & (byte.wrapping_sub(b' ') < 0x5f))
}

/// Returns text cut to `columns`, with an ellipsis if it is cut.
pub(crate) fn with_ellipsis(text: &str, columns: usize) -> String {
    let width: usize = text.chars().map(|c| c.width().unwrap_or(0)).sum();
    match columns.checked_sub(1) {
        _ if width <= columns => text.to_owned(),
        None => String::new(),
        Some(room) => cut(text, room).to_owned() + "…",
    }
}

/// Returns true for control characters, and for invisible characters that reorder a line, separate lines or
/// hide text: Unicode's default-ignorable characters (`DerivedCoreProperties.txt`), except the two variation
/// selectors of emoji.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // Soft hyphen, grapheme joiner, Arabic letter mark.
            '\u{ad}' | '\u{34f}' | '\u{61c}'
            // Hangul and Khmer fillers, Mongolian variation selectors.
            | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            // Zero width, joiners, marks of direction.
            | '\u{200b}'..='\u{200f}'
            // Separators of lines and paragraphs, embeddings and overrides of direction.
            | '\u{2028}'..='\u{202e}'
            // Word joiner, invisible operators, isolates.
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            // Shorthand and musical formatting.
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            // Tags and supplementary variation selectors, which can carry any text.
            | '\u{e0000}'..='\u{e0fff}'
        )
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Generates text with many dangerous characters.
    pub(in crate::face) fn nasty() -> impl Strategy<Value = String> {
        let one = prop_oneof![
            4 => any::<char>(),
            2 => (0_u32..0xa0).prop_map(|code| char::from_u32(code).unwrap()),
            1 => Just('\u{202e}'),
            1 => (0xe0000_u32..0xe0200).prop_map(|code| char::from_u32(code).unwrap()),
            1 => Just('漢'),
        ];
        prop::collection::vec(one, 0..40).prop_map(|chars| chars.into_iter().collect())
    }

    proptest! {
        #[test]
        fn no_unsafe_character_remains(text in nasty()) {
            let mut out = String::new();
            push_sanitized(&mut out, &text);
            prop_assert!(!out.contains(is_unsafe), "{out:?}");
            prop_assert!(!one_line(&text).contains(is_unsafe));
        }

        #[test]
        fn cut_text_fits(text in nasty(), columns in 0_usize..30) {
            let mut sanitized = String::new();
            push_sanitized(&mut sanitized, &text);
            let short = cut(&sanitized, columns);
            let used: usize = short.chars().map(|c| c.width().unwrap_or(0)).sum();
            prop_assert!(used <= columns && sanitized.starts_with(short));
        }
    }

    #[test]
    fn controls_are_shown_as_less_shows_them() {
        for (text, shown) in [
            ("plain, ünï, 漢字", "plain, ünï, 漢字"),
            ("a\tb", "a       b"),
            ("12345678\tb", "12345678        b"),
            ("漢\tb\t\tc", "漢      b               c"),
            ("\u{1b}[31mred\u{7f}", "^[[31mred^?"),
            ("a\u{9b}31m", "a<9b>31m"),
            ("\u{202e}txt.exe", "<202e>txt.exe"),
            ("a\u{2028}b\u{2029}c", "a<2028>b<2029>c"),
            ("\u{61c}x\u{2066}y", "<61c>x<2066>y"),
            // "hi" in tag characters, which can hide a prompt from a reader.
            ("ok\u{e0068}\u{e0069}", "ok<e0068><e0069>"),
            ("a\u{e0100}b\u{fe01}", "a<e0100>b<fe01>"),
            ("heart \u{2764}\u{fe0f}", "heart \u{2764}\u{fe0f}"),
            ("\r", "^M"),
        ] {
            let mut out = String::new();
            push_sanitized(&mut out, text);
            assert_eq!(out, shown, "{text:?}");
        }
        assert_eq!(one_line("a\nb\n"), "a b");
        assert_eq!(cut("漢字x", 3), "漢");
    }
}

// Defines tones of text, and writes text in a tone (pure).

/// The emphasis of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    /// A person's prompt to an agent.
    Prompt,
    Dim,
    Good,
    Caution,
    Alarm,
}

impl Tone {
    pub fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Prompt => Style::new().bold(),
            Self::Dim => Style::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Caution => AnsiColor::Yellow.on_default(),
            Self::Alarm => AnsiColor::Red.on_default().bold(),
        }
    }
}

/// Appends sanitized text in a style.
pub(super) fn push_styled(out: &mut String, coloured: bool, style: Style, text: &str) {
    if coloured && style != Style::new() {
        // Writing to a string does not fail.
        let _ = write!(out, "{style}");
        push_sanitized(out, text);
        let _ = write!(out, "{style:#}");
    } else {
        push_sanitized(out, text);
    }
}
