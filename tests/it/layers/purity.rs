//! No pure file reaches a clock, a file or a process by way of another module.
//!
//! A file is impure if it names such a thing, or calls a function of an impure file. A pure file may use the types
//! of an impure one, whose values it is given, but must not name its functions: neither `module::function` nor
//! `Type::function`. Methods called on a value are not seen.

use std::collections::BTreeSet;

use super::cycles::{File, House};
use super::table::{IMPURE, PURE, PURE_FUNCTIONS};
use super::{house, is_in};
use crate::source_text::{NamedPath, Source};

/// Returns true if a path ends in the name of a function.
fn is_call(path: &NamedPath) -> bool {
    let last = path.segments.last().map_or("", String::as_str);
    let is_function = last.starts_with(|c: char| c.is_ascii_lowercase());
    let only_computes = PURE_FUNCTIONS
        .iter()
        .any(|name| path.name().ends_with(name));
    is_function && path.segments.len() > 1 && !only_computes
}

/// Lists the calls from pure files into impure ones.
fn impure_calls(sources: &[Source]) -> Vec<String> {
    let house = House::new(sources);
    let is_pure = |file: &File<'_>| is_in(&file.source.file, PURE);
    let names_impure = |file: &File<'_>| {
        let mut names = IMPURE.iter().chain(&["Instant::now"]);
        names.any(|name| file.paths.iter().any(|path| path.contains(name)))
    };
    let files: Vec<&File<'_>> = house.files.values().collect();
    let calls = |file: &File<'_>| -> Vec<(usize, String, &str)> {
        let calls = file.paths.iter().filter(|path| is_call(path));
        let calls = calls.filter_map(|path| {
            let target = &house.files[house.named(file, path)?].source.file;
            Some((path.line, path.name(), target.as_str()))
        });
        calls.collect()
    };
    let (pure, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| is_pure(file));
    let (impure, mut others): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|file| names_impure(file));
    let mut impure: BTreeSet<&str> = impure
        .iter()
        .map(|file| file.source.file.as_str())
        .collect();
    loop {
        let reaches = |file: &&File<'_>| calls(file).iter().any(|call| impure.contains(call.2));
        let (more, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(reaches);
        others = rest;
        if more.is_empty() {
            break;
        }
        impure.extend(more.iter().map(|file| file.source.file.as_str()));
    }
    let mut found = Vec::new();
    for file in pure {
        let own = &file.source.file;
        let calls = calls(file).into_iter();
        let calls = calls.filter(|(_, _, target)| impure.contains(target));
        found.extend(
            calls.map(|(line, name, target)| format!("{own}:{line}: {name} is of {target}")),
        );
    }
    found
}

#[test]
fn no_pure_file_calls_an_impure_one() {
    let (sources, _) = house();
    let found = impure_calls(&sources);
    assert!(
        found.is_empty(),
        "{} calls:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn an_impure_call_is_found_through_another_file() {
    let files = [
        (
            "src/text.rs",
            "use crate::m::{Shown, one};\nfn f(_: Shown) { one(); Shown::two() }",
        ),
        ("src/m/mod.rs", "mod a; mod b; pub use a::{Shown, one};"),
        (
            "src/m/a.rs",
            "use super::b; pub struct Shown;\npub fn one() { b::three() }",
        ),
        ("src/m/b.rs", "use std::fs;\npub fn three() {}"),
    ];
    let sources: Vec<Source> = files
        .iter()
        .map(|(file, text)| Source::parse(file, text))
        .collect();
    let found = impure_calls(&sources);
    assert_eq!(
        found,
        [
            "src/text.rs:1: crate::m::one is of src/m/a.rs",
            "src/text.rs:2: Shown::two is of src/m/a.rs"
        ]
    );
}
