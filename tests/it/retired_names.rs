//! Names that the glossary has replaced do not come back: neither as types nor as modules.

use std::collections::BTreeSet;

use super::layers::house;
use super::source_text::Source;

/// Types, by the words of `retired_names.txt`.
const TYPES: &str = include_str!("retired_names.txt");

/// Modules.
const MODULES: &[&str] = &["cast", "ralph", "source", "stamp", "view"];

/// Lists each use of a retired name: file, line, name.
fn retired(source: &Source) -> Vec<String> {
    let types: BTreeSet<&str> = TYPES.split_whitespace().collect();
    let file = &source.file;
    let names = source.tokens.iter().filter_map(|token| {
        let is_retired = types.contains(token.text.as_str());
        is_retired.then(|| format!("{file}:{}: {}", token.line, token.text))
    });
    let module = source.module.first().map(String::as_str);
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
    ] {
        let found = retired(&Source::parse(file, &format!("//! X.\n{code}")));
        assert_eq!(found.len(), 1, "{file}: {found:?}");
        assert!(found[0].ends_with(name), "{found:?}");
    }
    let kept = Source::parse("src/tmux/a.rs", "//! A leash, a Wish.\nfn view() {}");
    assert_eq!(retired(&kept), [""; 0]);
}
