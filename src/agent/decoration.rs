//! Strips the decoration that agents' screens draw around a line: bullets, box edges, prompts and
//! indents (pure).

/// Box edges and quote bars, drawn at either end of a line.
const EDGES: &[char] = &['│', '┃', '║', '|', '▌', '▎', '▏', '╎', '┆', '┊'];

/// Bullets that begin an answer or a part of one.
const BULLETS: &[char] = &['⏺', '●', '•', '✦', '◆', '■', '▪', '⎿'];

/// Prompts before typed input, which may span several lines.
const INPUTS: &[char] = &['>', '❯', '›', '»'];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BareLine<'a> {
    /// The number of characters before the text, including box edges.
    pub indent: usize,
    pub kind: LineKind,
    pub text: &'a str,
}

/// The kind of a line, as its beginning shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// Blank, apart from box edges.
    Blank,
    /// The upper or lower side of a box, or a horizontal line.
    Rule,
    /// Typed input.
    Input,
    /// The first line of an answer.
    Bullet,
    Text,
}

/// Splits a line into its text and its decoration.
pub(super) fn bare_line(line: &str) -> BareLine<'_> {
    let is_around = |c: char| c.is_whitespace() || EDGES.contains(&c);
    let inner = line.trim_matches(is_around);
    let indent = line.chars().take_while(|c| is_around(*c)).count();
    let mut chars = inner.chars();
    let first = chars.next();
    let rest = chars.as_str();
    let is_apart = rest.is_empty() || rest.starts_with(char::is_whitespace);
    let (kind, text) = match first {
        None => (LineKind::Blank, ""),
        Some(_) if is_frame(inner) || is_titled(inner) => (LineKind::Rule, inner),
        Some(c) if is_apart && INPUTS.contains(&c) => (LineKind::Input, inner),
        Some(c) if is_apart && BULLETS.contains(&c) => (LineKind::Bullet, rest.trim_start()),
        Some(_) => (LineKind::Text, inner),
    };
    BareLine { indent, kind, text }
}

/// Returns true if a text consists of box-drawing characters and blanks.
pub(super) fn is_frame(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || is_box_drawing(c))
}

/// Returns true if a text is a horizontal line, or the side of a box, with a title: `── input ──────────`.
fn is_titled(text: &str) -> bool {
    // The minimum length of the longer end of the line. Lists and trees have a few of these characters.
    const LINE_CHARS_MIN: usize = 10;
    let is_line = |c: &char| *c == '─' || *c == '╌';
    let (first, last) = (text.chars().next(), text.chars().next_back());
    let before = text.chars().skip(1).take_while(is_line).count();
    let after = text.chars().rev().skip(1).take_while(is_line).count();
    [first, last].iter().all(|c| c.is_some_and(is_box_drawing))
        && before.max(after) >= LINE_CHARS_MIN
}

/// Returns true if a character is a box-drawing or block character; kilo's name is drawn with sixths of blocks, too.
pub(super) fn is_box_drawing(c: char) -> bool {
    matches!(c, '\u{2500}'..='\u{259f}' | '\u{1fb00}'..='\u{1fbaf}')
}

/// Returns true if a character is a frame of a braille spinner.
pub(super) fn is_spinner(c: char) -> bool {
    ('\u{2801}'..='\u{28ff}').contains(&c)
}

/// Returns the number of leading spaces of a row.
pub(super) fn indent(row: &str) -> usize {
    row.len() - row.trim_start_matches(' ').len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoration_is_stripped_from_a_line() {
        for (line, indent, kind, text) in [
            ("[Output Complete]", 0, LineKind::Text, "[Output Complete]"),
            (
                "  [Output Complete]  ",
                2,
                LineKind::Text,
                "[Output Complete]",
            ),
            (
                "⏺ [Output Complete]",
                0,
                LineKind::Bullet,
                "[Output Complete]",
            ),
            ("│ DONE    │", 2, LineKind::Text, "DONE"),
            ("┃ ● DONE", 2, LineKind::Bullet, "DONE"),
            ("| DONE |", 2, LineKind::Text, "DONE"),
            ("> say DONE", 0, LineKind::Input, "> say DONE"),
            ("│ ❯ say DONE │", 2, LineKind::Input, "❯ say DONE"),
            (">DONE", 0, LineKind::Text, ">DONE"),
            ("•DONE", 0, LineKind::Text, "•DONE"),
            ("╭─────╮", 0, LineKind::Rule, "╭─────╮"),
            ("│     │", 6, LineKind::Blank, ""),
            (
                "── input ────────────",
                0,
                LineKind::Rule,
                "── input ────────────",
            ),
            (
                "──────────── ask ─",
                0,
                LineKind::Rule,
                "──────────── ask ─",
            ),
            ("── DONE ──", 0, LineKind::Text, "── DONE ──"),
            ("──────────── DONE", 0, LineKind::Text, "──────────── DONE"),
            ("", 0, LineKind::Blank, ""),
            ("---", 0, LineKind::Text, "---"),
            ("\u{a0}DONE\u{a0}", 1, LineKind::Text, "DONE"),
        ] {
            let expected = BareLine { indent, kind, text };
            let bare_line = bare_line(line);
            match kind {
                LineKind::Blank => assert_eq!(bare_line.kind, kind, "{line:?}"),
                _ => assert_eq!(bare_line, expected, "{line:?}"),
            }
        }
    }
}
