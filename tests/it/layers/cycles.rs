//! No file depends on a file that depends on it, within each top-level module.
//!
//! A file depends on another of the same top-level module when a path in it, in a `use` or in code,
//! leads to an item that the other file defines. Three rules apply:
//!
//! - A name that a file only re-exports counts as an item of the file that defines it, however many
//!   `mod.rs` lie between.
//! - A re-export does not make its file dependent. A `mod.rs` that declares its
//!   children and re-exports their names therefore depends on nothing; one whose own code names a
//!   child's items depends on that child, and its children may not depend on it.
//! - Code that is compiled for tests only does not count, and neither do visibilities.

use std::collections::{BTreeMap, BTreeSet};

use super::house;
use crate::source_text::{NamedPath, PathSite, Source};

/// Steps from re-export to re-export that are followed.
const REEXPORTS_MAX: usize = 8;

/// A path from the crate's root.
pub(super) type ModulePath = Vec<String>;

/// The dependencies of each file, with the line of one of their uses.
type Graph<'a> = BTreeMap<&'a str, BTreeMap<&'a str, usize>>;

/// A file, and the names that it uses.
pub(super) struct File<'a> {
    pub source: &'a Source,
    pub paths: Vec<NamedPath>,
    /// Names that `use` brings into scope, with their absolute paths.
    imports: BTreeMap<String, ModulePath>,
    /// Modules whose names are all in scope.
    globs: Vec<ModulePath>,
    /// Words outside of `use`.
    words: BTreeSet<&'a str>,
}

pub(super) struct House<'a> {
    pub files: BTreeMap<ModulePath, File<'a>>,
}

impl<'a> File<'a> {
    fn new(source: &'a Source, modules: &BTreeSet<&[String]>) -> Self {
        let paths = source.paths();
        let mut imports = BTreeMap::new();
        let mut globs = Vec::new();
        for path in paths.iter().filter(|path| path.site != PathSite::Code) {
            let below = path.below_module();
            let is_child = (1..=below.len())
                .any(|end| end > source.module.len() && modules.contains(&below[..end]));
            let Some(mut target) = path.absolute().or_else(|| is_child.then_some(below)) else {
                continue;
            };
            match target.last().map(String::as_str) {
                Some("*") => {
                    target.pop();
                    globs.push(target);
                }
                Some("self") => {
                    target.pop();
                    imports.extend(path.imported_name().map(|name| (name.to_owned(), target)));
                }
                _ => imports.extend(path.imported_name().map(|name| (name.to_owned(), target))),
            }
        }
        Self {
            source,
            imports,
            globs,
            words: source.words_outside_use(),
            paths,
        }
    }

    fn defines(&self, name: &str) -> bool {
        const KEYWORDS: &[&str] = &[
            "struct", "enum", "trait", "type", "fn", "const", "static", "mod", "union", "!",
        ];
        let mut pairs = self.source.tokens.windows(2);
        pairs.any(|pair| pair[1].text == name && KEYWORDS.contains(&&*pair[0].text))
    }
}

impl<'a> House<'a> {
    pub fn new(sources: &'a [Source]) -> Self {
        let inner = || sources.iter().filter(|source| !source.module.is_empty());
        let modules = inner().map(|source| &source.module[..]).collect();
        let files = inner().map(|source| (source.module.clone(), File::new(source, &modules)));
        Self {
            files: files.collect(),
        }
    }

    /// Returns the module of the file that defines the item of an absolute path.
    fn definition(&self, path: &[String], reexports: usize) -> Option<&ModulePath> {
        let ends = (1..=path.len()).rev();
        let (module, file) = ends
            .map(|end| &path[..end])
            .find_map(|module| self.files.get_key_value(module))?;
        let Some(name) = path.get(module.len()) else {
            return Some(module);
        };
        if reexports == 0 || file.defines(name) {
            return Some(module);
        }
        if let Some(target) = file.imports.get(name) {
            let rest = &path[module.len() + 1..];
            return self.definition(&[target, rest].concat(), reexports - 1);
        }
        let globs = file.globs.iter().filter(|glob| *glob != module);
        let mut found = globs.filter_map(|glob| {
            let rest = &path[module.len()..];
            let found = self.definition(&[glob, rest].concat(), reexports - 1)?;
            self.files[found].defines(name).then_some(found)
        });
        Some(found.next().unwrap_or(module))
    }

    /// Returns the module on which a path of a file depends, if it is one of the same top-level
    /// module.
    fn target(&self, file: &File<'_>, path: &NamedPath) -> Option<&ModulePath> {
        if path.site == PathSite::Reexport
            && !path
                .imported_name()
                .is_some_and(|name| file.words.contains(name))
        {
            return None;
        }
        let target = self.named(file, path)?;
        (target.first() == file.source.module.first()).then_some(target)
    }

    /// Returns the module of the file that defines the item which a path of a file names.
    pub fn named(&self, file: &File<'_>, path: &NamedPath) -> Option<&ModulePath> {
        let first = path.segments.first()?;
        let absolute = match (path.absolute(), file.imports.get(first)) {
            (Some(absolute), _) => absolute,
            (None, Some(import)) => [import, &path.segments[1..]].concat(),
            (None, None) => path.below_module(),
        };
        self.definition(&absolute, REEXPORTS_MAX)
    }

    /// Returns the modules whose items a file names after a `use` of all names of another file.
    fn targets_of_globs(&self, file: &'a File<'a>) -> impl Iterator<Item = &ModulePath> {
        let globs = file.globs.iter();
        let names = globs.flat_map(|glob| file.words.iter().map(move |word| (glob, *word)));
        names.filter_map(|(glob, name)| {
            let globbed = self.files.get(glob)?;
            let below = [&glob[..], &[name.to_owned()]].concat();
            let is_known = globbed.imports.contains_key(name) || self.files.contains_key(&below);
            let target = self.definition(&below, REEXPORTS_MAX)?;
            (is_known && target.first() == file.source.module.first()).then_some(target)
        })
    }

    fn graph(&self) -> Graph<'_> {
        let mut graph = Graph::new();
        for file in self.files.values() {
            let edges = graph.entry(&*file.source.file).or_default();
            let named = file.paths.iter().filter_map(|path| {
                let target = self.target(file, path)?;
                Some((target, path.line))
            });
            let targets = named.chain(self.targets_of_globs(file).map(|target| (target, 1)));
            for (target, line) in targets.filter(|(target, _)| **target != file.source.module) {
                let target = &self.files[target];
                edges.entry(&*target.source.file).or_insert(line);
            }
        }
        graph
    }
}

/// Returns the shortest way from a file back to it, as a line `a:1 -> b:2 -> a`.
fn cycle_through<'a>(graph: &Graph<'a>, start: &'a str) -> Option<Vec<&'a str>> {
    let mut before: BTreeMap<&str, &str> = BTreeMap::new();
    let mut reached = vec![start];
    let mut at = 0;
    while let Some(&file) = reached.get(at) {
        at += 1;
        for &next in graph[file].keys() {
            if next == start {
                let mut cycle = vec![start, file];
                let mut back = file;
                while back != start {
                    back = before[back];
                    cycle.push(back);
                }
                if file == start {
                    cycle.pop();
                }
                cycle.reverse();
                return Some(cycle);
            }
            if !before.contains_key(next) {
                before.insert(next, file);
                reached.push(next);
            }
        }
    }
    None
}

/// Returns all cycles, each once, in words.
fn cycles(sources: &[Source]) -> Vec<String> {
    let house = House::new(sources);
    let graph = house.graph();
    let mut known: BTreeSet<Vec<&str>> = BTreeSet::new();
    let mut found = Vec::new();
    for &start in graph.keys() {
        let Some(cycle) = cycle_through(&graph, start) else {
            continue;
        };
        let mut files = cycle.clone();
        files.pop();
        files.sort_unstable();
        if known.insert(files) {
            let steps = cycle.windows(2).map(|step| {
                let line = graph[step[0]][step[1]];
                format!("{}:{line} -> ", step[0])
            });
            found.push(steps.collect::<String>() + start);
        }
    }
    found
}

#[test]
fn files_of_a_module_have_no_cycles() {
    let (sources, _) = house();
    let found = cycles(&sources);
    assert!(
        found.is_empty(),
        "{} cycles between files:\n{}",
        found.len(),
        found.join("\n")
    );
}

/// Returns the cycles of files that are given with their code.
fn cycles_of(files: &[(&str, &str)]) -> Vec<String> {
    let parse = |(file, code): &(&str, &str)| Source::parse(file, code);
    let sources: Vec<Source> = files.iter().map(parse).collect();
    cycles(&sources)
}

#[test]
fn a_cycle_is_found() {
    let ways = [
        ("use super::b::B;", "use crate::m::a::A;"),
        ("fn f() -> super::b::B {}", "fn g(_: super::a::A) {}"),
        ("use super::B;", "use super::a::A;"),
        (
            "use super::*; fn f(_: b::B) {}",
            "mod inner { use super::super::A as Other; }",
        ),
        (
            "use super::{self as parent, b}; fn f() { b::g() }",
            "fn g() { super::a::A::new() }",
        ),
    ];
    for (a, b) in ways {
        let found = cycles_of(&[
            (
                "src/m/mod.rs",
                "mod a; mod b; pub use a::A; pub(crate) use b::{B, g};",
            ),
            ("src/m/a.rs", &format!("{a}\npub struct A;")),
            ("src/m/b.rs", &format!("{b}\npub struct B;")),
        ]);
        assert_eq!(
            found,
            ["src/m/a.rs:1 -> src/m/b.rs:1 -> src/m/a.rs"],
            "{a} {b}"
        );
    }
    let found = cycles_of(&[
        ("src/m.rs", "mod a;\npub use a::A;\nstruct M(A);"),
        ("src/m/a.rs", "use super::M;\npub struct A;"),
    ]);
    assert_eq!(
        found,
        ["src/m.rs:2 -> src/m/a.rs:1 -> src/m.rs"],
        "its own code names A"
    );
    let found = cycles_of(&[
        ("src/m/a.rs", "use super::b::B; struct A;"),
        ("src/m/b.rs", "use super::c::C; struct B;"),
        ("src/m/c.rs", "use super::a::A; struct C;"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn no_cycle_is_found_where_none_is() {
    let found = cycles_of(&[
        (
            "src/m/mod.rs",
            "mod a; mod b; pub use a::A; pub(in crate::m) use b::B;",
        ),
        (
            "src/m/a.rs",
            "use super::B;\n#[cfg(test)]\nmod tests { use super::*; }\npub struct A;",
        ),
        (
            "src/m/b.rs",
            "//! [`super::A`]\nuse crate::other::A; #[cfg(test)] use super::A; pub(in crate::m) struct B;",
        ),
        ("src/other/mod.rs", "use crate::m::B; pub struct A;"),
    ]);
    assert_eq!(found, [""; 0]);
}
