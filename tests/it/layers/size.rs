//! The size of the house: lines of code, files and named constants of each room.
//!
//! `cargo test --test it -- layers::size --nocapture` prints the table.
//!
//! - A line of code has a token outside of comments and test code: attributes, braces and the lines of a
//!   literal count.
//! - A file counts if it is below `src`, those with tests only included.
//! - A constant is a named `const` or `static`, or a `Duration` of a literal outside of one.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::path::Path;

use crate::source_text::Source;

/// The maximum number of lines of a file of `src` before its tests.
const FILE_LINES_MAX: usize = 800;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    code: usize,
    files: usize,
    constants: usize,
    durations: usize,
}

impl Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |sum, size| Self {
            code: sum.code + size.code,
            files: sum.files + size.files,
            constants: sum.constants + size.constants,
            durations: sum.durations + size.durations,
        })
    }
}

/// Returns the sizes of a file without its test code.
fn size(source: &Source) -> Size {
    let tokens: Vec<&str> = source.tokens.iter().map(|token| &*token.text).collect();
    let mut size = Size {
        code: source.code_lines.len(),
        files: 1,
        ..Size::default()
    };
    // The start of the statement or item that a token belongs to.
    let mut start = 0;
    for at in 0..tokens.len() {
        match tokens[at..] {
            [";" | "{" | "}", ..] => start = at + 1,
            ["const" | "static", name, ":", ..] if name != "_" && !is_parameter(&tokens[..at]) => {
                size.constants += 1;
                size.durations += usize::from(tokens.get(at + 3) == Some(&"Duration"));
            }
            ["Duration", "::", unit, "(", "\"\"", ")", ..]
                if unit.starts_with("from_")
                    && !tokens[start..at]
                        .iter()
                        .any(|token| matches!(*token, "const" | "static")) =>
            {
                size.constants += 1;
                size.durations += 1;
            }
            _ => {}
        }
    }
    size
}

/// Returns true if a `const` after these tokens is a parameter: `<const N: usize>`.
fn is_parameter(before: &[&str]) -> bool {
    matches!(before.last(), Some(&"<" | &","))
}

/// Returns the room of a file: the directory or file below `src`.
fn room(file: &str) -> &str {
    let inner = file.strip_prefix("src/").unwrap_or(file);
    inner.split(['/', '.']).next().unwrap_or(inner)
}

fn rooms() -> BTreeMap<String, Size> {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    super::read_all(&root.join("src"), root, &mut files);
    let (house, _) = super::house();
    let mut rooms: BTreeMap<String, Size> = BTreeMap::new();
    for source in &files {
        rooms.entry(room(&source.file).into()).or_default().files += 1;
    }
    for source in &house {
        let room = rooms.get_mut(room(&source.file)).unwrap();
        let files = room.files;
        *room = [*room, size(source)].into_iter().sum();
        room.files = files;
    }
    rooms
}

#[test]
fn the_house_has_this_size() {
    let rooms = rooms();
    let all: Size = rooms.values().copied().sum();
    eprintln!(
        "{:<14}{:>8}{:>8}{:>11}{:>11}",
        "room", "code", "files", "constants", "durations"
    );
    for (room, size) in rooms.iter().chain([(&"all".to_owned(), &all)]) {
        eprintln!(
            "{room:<14}{:>8}{:>8}{:>11}{:>11}",
            size.code, size.files, size.constants, size.durations
        );
    }
    assert!(all.code > 10_000 && all.files > 100, "{all:?}");
}

#[test]
fn no_file_is_too_long() {
    let (house, _) = super::house();
    let lines = house.iter().map(|source| {
        let code = source.text.split("#[cfg(test)]\nmod tests {").next();
        (&source.file, code.unwrap_or_default().lines().count())
    });
    let long: Vec<_> = lines.filter(|(_, count)| *count > FILE_LINES_MAX).collect();
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn only_code_and_named_constants_count() {
    let text = r#"//! A module.

/// A constant.
pub const ONE: usize = 1;
const TIME: Duration =
    Duration::from_secs(2);
const _: () = assert!(true);

/* a comment */ struct S<const N: usize>;

/// Text.
#[doc = "written"]
const fn f() {
    // A comment.
    g(Duration::from_millis(5), "two
lines");
}

#[cfg(test)]
mod tests {
    const NOT: usize = 2;
}
"#;
    let found = size(&Source::parse("src/bus/a.rs", text));
    let expected = Size {
        code: 10,
        files: 1,
        constants: 3,
        durations: 2,
    };
    assert_eq!(found, expected);
}
