//! Phrases that are not plain English do not come back: neither in comments nor in texts for users.

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::comments::{CommentKind, comments};

/// The patterns; the file describes its format.
const PATTERNS: &str = include_str!("phrases.txt");

/// Directories with Rust source; `tests` contains the fuzz crate.
pub const SOURCES: &[&str] = &["src", "tests", "benches"];

/// Places of texts for users.
const TEXTS: &[&str] = &["src/guide", "README.md", "CHANGELOG.md"];

struct Phrases {
    anywhere: Vec<Regex>,
    /// For the beginnings of doc comments.
    beginnings: Vec<Regex>,
}

impl Phrases {
    fn read() -> Self {
        let lines = || PATTERNS.lines().filter(|line| !line.starts_with('#'));
        let regex = |before: &str, pattern: &str| {
            let pattern = pattern.replace(' ', r"\s+");
            Regex::new(&format!("(?i){before}{pattern}")).unwrap()
        };
        let beginnings = lines().filter_map(|line| line.strip_prefix("doc "));
        let anywhere = lines().filter(|line| !line.starts_with("doc "));
        Self {
            anywhere: anywhere.map(|pattern| regex("", pattern)).collect(),
            beginnings: beginnings.map(|pattern| regex(r"^\s*", pattern)).collect(),
        }
    }

    /// Lists the phrases of a text that begins at a line.
    fn in_text(&self, file: &str, line: usize, text: &str, is_doc: bool) -> Vec<String> {
        let beginnings = self.beginnings.iter().filter(|_| is_doc);
        let matches = self.anywhere.iter().chain(beginnings);
        let matches = matches.flat_map(|regex| regex.find_iter(text));
        let describe = |found: regex::Match<'_>| {
            let line = line + text[..found.start()].matches('\n').count();
            format!("{file}:{line}: {:?}", found.as_str().trim())
        };
        matches.map(describe).collect()
    }

    fn in_source(&self, file: &str, source: &str) -> Vec<String> {
        let blocks = comments(source).into_iter();
        let found = blocks.flat_map(|block| {
            let is_doc = block.kind == CommentKind::Doc;
            self.in_text(file, block.line, &block.lines.join("\n"), is_doc)
        });
        found.collect()
    }

    /// Lists the phrases of Markdown, outside of code.
    fn in_markdown(&self, file: &str, markdown: &str) -> Vec<String> {
        let mut is_code = false;
        let prose = markdown.lines().map(|line| {
            is_code ^= line.trim_start().starts_with("```");
            if is_code { "" } else { line }
        });
        let prose: Vec<&str> = prose.collect();
        self.in_text(file, 1, &prose.join("\n"), false)
    }
}

/// Lists the files below a path, with the path from the package's root.
fn files(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap();
        entries.for_each(|entry| files(&entry.unwrap().path(), found));
    } else {
        found.push(path.to_owned());
    }
}

pub fn files_below(places: &[&str], extension: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for place in places {
        files(&root.join(place), &mut found);
    }
    found.retain(|path| path.extension().is_some_and(|it| it == extension));
    found.sort();
    let name = |path: &Path| {
        path.strip_prefix(root)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned()
    };
    let read = |path: PathBuf| (name(&path), fs::read_to_string(&path).unwrap());
    found.into_iter().map(read).collect()
}

#[test]
fn retired_phrases_are_not_used() {
    let phrases = Phrases::read();
    let sources = files_below(SOURCES, "rs").into_iter();
    let found = sources.flat_map(|(file, text)| phrases.in_source(&file, &text));
    let texts = files_below(TEXTS, "md").into_iter();
    let texts = texts.flat_map(|(file, text)| phrases.in_markdown(&file, &text));
    let found: Vec<String> = found.chain(texts).collect();
    assert!(
        found.is_empty(),
        "{} retired phrases:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn a_retired_phrase_is_found() {
    let phrases = Phrases::read();
    for comment in [
        "/// What a line reads.",
        "//! Whether it is there.",
        "    /// How many there are.",
        "// The caller is told.",
        "x(); // It is\n// told once.",
        "/* Whoever asks waits. */",
        "/// Sends it to somebody else.",
        "// 200 ms, unless told otherwise.",
        "// It reads what else comes.",
        "/// At most so many of them.",
        "/// The program goes on.",
        "// A clock that stands still.",
        "/// See `001…`.",
        "//! The first byte says how.",
        "// Not even what tmux would say.",
        "/// A reader that looks at it.",
        "// The format that is asked for.",
        "// For as long as one likes.",
    ] {
        let found = phrases.in_source("a.rs", &format!("{comment}\nfn f() {{}}\n"));
        assert!(!found.is_empty(), "{comment}");
        assert!(found[0].starts_with("a.rs:1: "), "{found:?}");
    }
    let found = phrases.in_markdown("a.md", "One.\n\nIt goes\non.\n```\nis told\n```\n");
    assert_eq!(found, ["a.md:3: \"goes\\non\""]);
}

#[test]
fn plain_english_is_no_retired_phrase() {
    let source = "//! The view of a log, with what is left.\n\
        /// Returns what a caller needs, and whether it is there.\n\
        // The rest tells nothing, somehow.\n\
        fn f() { let s = \"whoever is told\"; } // goes only once\n";
    assert_eq!(Phrases::read().in_source("a.rs", source), [""; 0]);
}
