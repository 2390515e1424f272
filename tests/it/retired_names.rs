//! Names that the glossary has replaced do not come back: neither as types nor as modules.

pub mod phrases;

use std::collections::BTreeSet;

use super::layers::house;
use super::source_text::Source;

/// Names in paragraphs: those that are no identifiers, and those that only name no type.
const NAMES: &str = include_str!("retired_names/names.txt");

/// Modules at the top level.
const MODULES: &[&str] = &["cast", "log", "ralph", "source", "stamp", "view"];

/// Returns the names of a paragraph.
fn names_of(paragraph: usize) -> BTreeSet<&'static str> {
    let lines = NAMES.split("\n\n").nth(paragraph).unwrap().lines();
    let names = lines.filter(|line| !line.starts_with('#'));
    names.flat_map(str::split_whitespace).collect()
}

/// Lists each use of a retired name: file, line, name.
fn retired(source: &Source) -> Vec<String> {
    let file = &source.file;
    let module = source.module.first().map(String::as_str);
    let (identifiers, types) = (names_of(0), names_of(1));
    let tokens = source.tokens.iter();
    let identifiers = tokens.filter(|token| identifiers.contains(token.text.as_str()));
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
    let (sources, _) = house();
    let found: Vec<String> = sources.iter().flat_map(retired).collect();
    assert!(found.is_empty(), "retired names:\n{}", found.join("\n"));
}

#[test]
fn a_retired_name_is_found() {
    for (file, code, name) in [
        ("src/child/a.rs", "struct Leash;", "Leash"),
        ("src/tmux/a.rs", "fn f(_: Wish) {}", "Wish"),
        ("src/ralph/a.rs", "fn f() {}", "module ralph"),
        ("src/tmux/a.rs", "enum Left {}", "Left"),
    ] {
        let found = retired(&Source::parse(file, &format!("//! X.\n{code}")));
        assert_eq!(found.len(), 1, "{file}: {found:?}");
        assert!(found[0].ends_with(name), "{found:?}");
    }
    let kept = Source::parse(
        "src/tmux/a.rs",
        "//! A leash, a Wish.\nfn view(left: Side::Left) {}",
    );
    assert_eq!(retired(&kept), [""; 0]);
}
