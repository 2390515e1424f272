//! Names that the glossary has replaced do not come back: neither as identifiers nor as modules.

pub mod phrases;

use std::collections::BTreeSet;

use super::source_text::Source;
use phrases::{SOURCES, files_below};

/// Names in paragraphs: those that no identifier has, those that no type has, and words that no identifier
/// contains.
const NAMES: &str = include_str!("retired_names/names.txt");

/// Retired modules at the top level of `src`.
const MODULES: &[&str] = &["cast", "log", "ralph", "source", "stamp", "view"];

/// Types of other crates, whose variants have their own names.
const FOREIGN: &[&str] = &["HirKind"];

/// Returns the names of a paragraph.
fn names_of(paragraph: usize) -> BTreeSet<&'static str> {
    let lines = NAMES.split("\n\n").nth(paragraph).unwrap().lines();
    let names = lines.filter(|line| !line.starts_with('#'));
    names.flat_map(str::split_whitespace).collect()
}

/// Returns the words of an identifier, in lower case: of `looked_at` and of `LookedAt`, `looked` and `at`.
fn words_of(identifier: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in identifier.chars() {
        if letter == '_' || letter.is_uppercase() {
            words.push(String::new());
        }
        if letter != '_' {
            words.last_mut().unwrap().extend(letter.to_lowercase());
        }
    }
    words
}

/// Lists each use of a retired name: file, line, name.
fn retired(source: &Source) -> Vec<String> {
    let file = &source.file;
    let module = source.module.first().map(String::as_str);
    let (identifiers, types, parts) = (names_of(0), names_of(1), names_of(2));
    let has_part = |name: &str| {
        words_of(name)
            .iter()
            .any(|word| parts.contains(word.as_str()))
    };
    let is_foreign = |at: usize| {
        let before = at.checked_sub(2).map(|at| source.tokens[at].text.as_str());
        before.is_some_and(|name| FOREIGN.contains(&name))
    };
    let tokens = source.tokens.iter().enumerate();
    let tokens = tokens
        .filter(|(at, _)| !is_foreign(*at))
        .map(|(_, token)| token);
    let identifiers = tokens.filter(|token| {
        let name = token.text.as_str();
        identifiers.contains(name) || has_part(name) || has_part(&name.to_lowercase())
    });
    let pairs = source.tokens.windows(2);
    let types = pairs.filter_map(|pair| {
        let is_type = matches!(
            &*pair[0].text,
            "struct" | "enum" | "trait" | "type" | "union"
        );
        (is_type && types.contains(&*pair[1].text)).then_some(&pair[1])
    });
    let names = identifiers.chain(types);
    let names = names.map(|token| format!("{file}:{}: {}", token.line, token.text));
    let module = module.filter(|module| MODULES.contains(module));
    names
        .chain(module.map(|module| format!("{file}: module {module}")))
        .collect()
}

#[test]
fn retired_names_are_not_used() {
    let files = files_below(SOURCES, "rs");
    for place in SOURCES.iter().chain(&["tests/fuzz"]) {
        assert!(files.iter().any(|(file, _)| file.starts_with(place)));
    }
    let sources = files
        .iter()
        .map(|(file, text)| Source::parse_with_test_code(file, text));
    let found: Vec<String> = sources.flat_map(|source| retired(&source)).collect();
    assert!(
        found.is_empty(),
        "{} retired names:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn a_retired_name_is_found() {
    for (file, code, name) in [
        ("src/child/a.rs", "struct Leash;", "Leash"),
        ("src/tmux/a.rs", "fn f(_: Wish) {}", "Wish"),
        ("src/ralph/a.rs", "fn f() {}", "module ralph"),
        ("src/tmux/a.rs", "enum Left {}", "Left"),
        ("src/tmux/a.rs", "fn f(looked_at: u8) {}", "looked_at"),
        ("src/tmux/a.rs", "const LAST_LOOK: u8 = 1;", "LAST_LOOK"),
        ("src/tmux/a.rs", "type A = IsTold;", "IsTold"),
        (
            "src/tmux/a.rs",
            "#[cfg(test)] mod tests { fn f(look: u8) {} }",
            "look",
        ),
        ("tests/it/a.rs", "#[test] fn any_look() {}", "any_look"),
        ("tests/fuzz/bodies/a.rs", "fn f() { seam(); }", "seam"),
        ("benches/a.rs", "enum A { Paced }", "Paced"),
    ] {
        let text = format!("//! X.\n{code}");
        let found = retired(&Source::parse_with_test_code(file, &text));
        assert_eq!(found.len(), 1, "{file}: {found:?}");
        assert!(found[0].ends_with(name), "{found:?}");
    }
    let kept = Source::parse_with_test_code(
        "src/tmux/a.rs",
        "//! A leash, a Wish.\nfn view(left: Side::Left) { lookup() }",
    );
    assert_eq!(retired(&kept), [""; 0]);
}
