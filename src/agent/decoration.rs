//! What agents' screens put around a line: bullets, box edges, prompts and indents (pure).

/// Edges of boxes and of quotes, at either end of a line.
const EDGES: &[char] = &['│', '┃', '║', '|', '▌', '▎', '▏', '╎', '┆', '┊'];

/// What begins an answer, or a piece of one.
const BULLETS: &[char] = &['⏺', '●', '•', '✦', '◆', '■', '▪', '⎿'];

/// What stands before something that a person has typed, and goes on over several lines.
const INPUTS: &[char] = &['>', '❯', '›', '»'];

/// A line, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BareLine<'a> {
    /// How many characters stand before its text, edges of boxes included.
    pub indent: usize,
    pub kind: LineKind,
    /// Without what stands around it.
    pub text: &'a str,
}

/// What a line is, by how it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// Nothing, but perhaps the edges of a box.
    Blank,
    /// The upper or lower side of a box, or a line across.
    Rule,
    /// Somebody typed this.
    Input,
    /// An answer begins.
    Bullet,
    Text,
}

/// Takes a line apart.
pub(super) fn bare_line(line: &str) -> BareLine<'_> {
    let inner = line
        .trim_end_matches(|c: char| c.is_whitespace() || EDGES.contains(&c))
        .trim_start_matches(|c: char| c.is_whitespace() || EDGES.contains(&c));
    let before = line.len() - line.trim_start_matches(is_around).len();
    let indent = line[..before].chars().count();
    let Some(first) = inner.chars().next() else {
        return BareLine {
            indent,
            kind: LineKind::Blank,
            text: "",
        };
    };
    if inner.chars().all(|c| is_side(c) || c.is_whitespace()) && !inner.is_ascii() {
        return BareLine {
            indent,
            kind: LineKind::Rule,
            text: inner,
        };
    }
    let rest = &inner[first.len_utf8()..];
    let is_apart = rest.is_empty() || rest.starts_with(char::is_whitespace);
    let kind = match first {
        c if is_apart && INPUTS.contains(&c) => LineKind::Input,
        c if is_apart && BULLETS.contains(&c) => LineKind::Bullet,
        _ => LineKind::Text,
    };
    let text = match kind {
        LineKind::Bullet => rest.trim_start(),
        _ => inner,
    };
    BareLine { indent, kind, text }
}

fn is_around(c: char) -> bool {
    c.is_whitespace() || EDGES.contains(&c)
}

/// Box drawing, without the edges at the sides.
fn is_side(c: char) -> bool {
    ('\u{2500}'..='\u{259f}').contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_told_from_what_stands_around_it() {
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
