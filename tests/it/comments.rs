//! The comments of Rust source, in blocks, without code and strings.

/// Comments of one kind on adjacent lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentBlock {
    pub kind: CommentKind,
    /// The number of the first line, from 1.
    pub line: usize,
    /// The text of each line, without the marker.
    pub lines: Vec<String>,
}

/// The kind of a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentKind {
    Plain,
    /// `///` or `//!`.
    Doc,
}

/// Returns the blocks of comments of a source.
pub fn comments(source: &str) -> Vec<CommentBlock> {
    let mut blocks: Vec<CommentBlock> = Vec::new();
    let mut rest = source;
    while !rest.is_empty() {
        let len = token_len(rest);
        let (token, after) = rest.split_at(len);
        let line = 1 + source[..source.len() - rest.len()].matches('\n').count();
        rest = after;
        let (kind, text) = if let Some(text) = doc_text(token) {
            (CommentKind::Doc, text)
        } else if let Some(text) = token.strip_prefix("//") {
            (CommentKind::Plain, text)
        } else if let Some(text) = token.strip_prefix("/*") {
            (CommentKind::Plain, text.trim_end_matches("*/"))
        } else {
            continue;
        };
        let lines = text.lines().map(str::to_owned);
        match blocks.last_mut() {
            Some(last) if last.kind == kind && last.line + last.lines.len() == line => {
                last.lines.extend(lines);
            }
            _ => blocks.push(CommentBlock {
                kind,
                line,
                lines: lines.collect(),
            }),
        }
    }
    blocks
}

/// Returns the text of a doc comment. Four slashes make a plain comment.
fn doc_text(token: &str) -> Option<&str> {
    let is_plain = token.starts_with("////");
    let text = token.strip_prefix("///").or(token.strip_prefix("//!"))?;
    (!is_plain).then_some(text)
}

/// Returns the length of the comment, string, character or other character that begins the source.
fn token_len(source: &str) -> usize {
    let until = |end: &str, from: usize| {
        let found = source[from..].find(end);
        found.map_or(source.len(), |at| from + at + end.len())
    };
    let first = source.chars().next().map_or(1, char::len_utf8);
    if source.starts_with("//") {
        return source.find('\n').unwrap_or(source.len());
    }
    if source.starts_with("/*") {
        return until("*/", 2);
    }
    let raw = source.strip_prefix('b').unwrap_or(source);
    if let Some(raw) = raw.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let from = source.len() - raw.len() + hashes + 1;
            return until(&format!("\"{}", "#".repeat(hashes)), from);
        }
    }
    if source.starts_with('"') {
        return quoted_len(source, '"');
    }
    // A lifetime has no closing quote after its first character.
    if let Some(quoted) = source.strip_prefix('\'') {
        let mut chars = quoted.chars();
        let is_escape = chars.next() == Some('\\');
        if is_escape || chars.next() == Some('\'') {
            return quoted_len(source, '\'');
        }
    }
    // Words are read whole, so that the `r` of `for"` begins no string.
    let word = source.find(|c: char| !c.is_alphanumeric() && c != '_');
    word.filter(|len| *len > 0).unwrap_or(first)
}

/// Returns the length of a literal that begins with its quote.
fn quoted_len(source: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in source.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    source.len()
}

#[test]
fn comments_are_read_and_strings_are_not() {
    let source = concat!(
        "//! One\n//! two.\n\nfn f<'a>() { // plain\n",
        "    let s = \"// no \\\" // no\"; let c = '\"'; let q = '\\''; // yes\n",
        "    let r = br#\"\n// no \"// no\"#;\n    /* a\n b */\n",
        "    ////// ruler\n    /// doc\n    // other\n}\n",
    );
    let found: Vec<_> = comments(source)
        .into_iter()
        .map(|block| (block.kind, block.line, block.lines.join("|")))
        .collect();
    let expected = [
        (CommentKind::Doc, 1, " One| two."),
        (CommentKind::Plain, 4, " plain| yes"),
        (CommentKind::Plain, 8, " a| b |//// ruler"),
        (CommentKind::Doc, 11, " doc"),
        (CommentKind::Plain, 12, " other"),
    ];
    let expected = expected.map(|(kind, line, text)| (kind, line, text.to_owned()));
    assert_eq!(found, expected);
}
