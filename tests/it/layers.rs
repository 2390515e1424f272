//! The house rules, checked on the source: each room uses only the rooms above it, and restricted paths
//! occur only where the tables allow them.

mod cycles;
mod purity;
mod size;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use regex::Regex;

use super::source_text::Source;
pub use table::RUNTIMES;
use table::{IMPURE, LAYERS, ONLY_IN, PURE, STRANGERS, TOKENS_ONLY_IN};

/// Maps each public name at the crate's root to its room: `TdEvent` to `event`.
type Roots = BTreeMap<String, String>;

fn is_in(file: &str, places: &[&str]) -> bool {
    places.iter().any(|place| {
        if place.ends_with('/') {
            file.starts_with(place)
        } else {
            file == *place
        }
    })
}

fn layer(room: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == room)
}

/// Lists the rules that a file breaks: file, line, rule.
fn violations(source: &Source, roots: &Roots) -> Vec<String> {
    let file = source.file.as_str();
    let mut found = Vec::new();
    let mut report = |line: usize, rule: String| found.push(format!("{file}:{line}: {rule}"));
    if !source.text.starts_with("//! ") {
        report(1, "every file opens with `//!` and what it is for".into());
    }
    let room = source
        .module
        .first()
        .map(String::as_str)
        .unwrap_or_default();
    for path in source.paths() {
        let name = path.name();
        // The room of this crate that the path names.
        if let Some(used) = path.room(roots)
            && source.is_in_library()
            && used != room
        {
            match (layer(room), layer(&used)) {
                _ if room.is_empty() => {}
                (Some(own), Some(other)) if other < own => {}
                (_, None) => report(path.line, format!("`{name}` is no room that LAYERS knows")),
                _ => report(
                    path.line,
                    format!("`{room}` uses `{used}`, which is not above it ({name})"),
                ),
            }
            if STRANGERS.contains(&(room, &used)) {
                report(
                    path.line,
                    format!("`{room}` does not know `{used}` ({name})"),
                );
            }
        }
        if is_in(file, PURE) {
            for impure in IMPURE.iter().chain(&["Instant::now"]) {
                if path.contains(impure) {
                    report(
                        path.line,
                        format!("it is pure, and names `{impure}` ({name})"),
                    );
                }
            }
        }
        // The room `process` runs this crate's own commands.
        let is_ours = name.starts_with("crate::process::");
        for (names, places, rule) in ONLY_IN {
            if !is_ours && !is_in(file, places) && names.iter().any(|banned| path.contains(banned))
            {
                report(path.line, format!("{rule} ({name})"));
            }
        }
    }
    for (run, places, rule) in TOKENS_ONLY_IN {
        if !is_in(file, places) {
            for tokens in source.tokens.windows(run.len()) {
                if tokens
                    .iter()
                    .map(|token| token.text.as_str())
                    .eq(run.iter().copied())
                {
                    report(tokens[0].line, format!("{rule} ({})", run.concat()));
                }
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

fn read_all(dir: &Path, root: &Path, into: &mut Vec<Source>) {
    let mut entries: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            read_all(&path, root, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let file = path.strip_prefix(root).unwrap().to_str().unwrap();
            into.push(Source::parse(file, &fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Returns the files of `src` that are not only compiled for tests, and the names at the crate's root.
pub fn house() -> (Vec<Source>, Roots) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    read_all(&root.join("src"), root, &mut sources);
    let test_only: BTreeSet<Vec<String>> = sources
        .iter()
        .flat_map(|source| source.test_modules.clone())
        .collect();
    sources.retain(|source| !test_only.iter().any(|test| source.module.starts_with(test)));
    let library = sources
        .iter()
        .find(|source| source.file == "src/lib.rs")
        .unwrap();
    let roots = library.reexports();
    (sources, roots)
}

#[test]
fn the_house_keeps_its_rules() {
    let (sources, roots) = house();
    assert!(sources.len() > 30, "where is the source? {}", sources.len());
    let found: Vec<String> = sources
        .iter()
        .flat_map(|source| violations(source, &roots))
        .collect();
    assert!(
        found.is_empty(),
        "against the rules of the house:\n{}",
        found.join("\n")
    );
}

#[test]
fn the_map_has_the_order_of_the_layers() {
    let (sources, _) = house();
    let library = sources
        .iter()
        .find(|source| source.file == "src/lib.rs")
        .unwrap();
    let rooms = library.declared_modules();
    assert!(rooms.len() > 5, "{rooms:?}");
    for room in &rooms {
        assert!(
            layer(room).is_some(),
            "src/lib.rs has `mod {room}`, which LAYERS does not know"
        );
    }
    assert!(
        rooms.is_sorted_by_key(|room| layer(room)),
        "src/lib.rs, in reading order: {rooms:?}"
    );
}

#[test]
fn the_map_names_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let map = fs::read_to_string(root.join("README.md")).unwrap();
    let named = Regex::new(r"`([a-z_/]+\.rs)`").unwrap();
    let named: Vec<&str> = named
        .captures_iter(&map)
        .map(|found| found.get(1).unwrap().as_str())
        .collect();
    assert!(named.len() > 80, "{}", named.len());
    let missing: Vec<_> = named
        .iter()
        .filter(|file| !root.join(file).is_file())
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn each_rule_bites() {
    let roots = Roots::from([
        ("Engine".into(), "engine".into()),
        ("TdEvent".into(), "event".into()),
    ]);
    let cases = [
        (
            "src/history/writer.rs",
            "use crate::bus::LosslessLane;",
            "`history` does not know `bus`",
        ),
        (
            "src/bus/mod.rs",
            "use crate::{event::TdEvent, history::{DataDir}};",
            "`bus` uses `history`",
        ),
        (
            "src/bus/lossy_lane.rs",
            "fn f() { super::super::history::x(); }",
            "`bus` uses `history`",
        ),
        (
            "src/bus/lossy_lane.rs",
            "mod a { use super::super::super::history; }",
            "`bus` uses `history`",
        ),
        (
            "src/engine/mod.rs",
            "use super::face;",
            "`engine` uses `face`",
        ),
        (
            "src/engine/mod.rs",
            "fn f() -> crate::cli::Args {}",
            "`engine` uses `cli`",
        ),
        (
            "src/tmux/a.rs",
            "use crate::Engine;",
            "`tmux` uses `engine`",
        ),
        ("src/tmux/a.rs", "use crate::nowhere::X;", "is no room"),
        (
            "src/track/a.rs",
            "use std::{collections::HashMap, fs};",
            "it is pure",
        ),
        (
            "src/track/a.rs",
            "use std::io::{self, Read as _};",
            "it is pure",
        ),
        (
            "src/bus/throttle.rs",
            "use crossbeam_channel::Sender;",
            "it is pure",
        ),
        (
            "src/event/log_gap.rs",
            "fn f() { std::process::id(); }",
            "it is pure",
        ),
        (
            "src/history/line.rs",
            "fn f() { let t = std::time::Instant::now(); }",
            "it is pure",
        ),
        (
            "src/bus/lossy_lane.rs",
            "fn f() { Instant::now(); }",
            "only clock.rs",
        ),
        (
            "src/bus/lossy_lane.rs",
            "fn f() { then.elapsed(); }",
            "only clock.rs",
        ),
        (
            "src/bus/lossy_lane.rs",
            "use crossbeam_channel::{bounded, after};",
            "only clock.rs",
        ),
        (
            "src/bus/lossy_lane.rs",
            "use std::thread;",
            "only thread.rs",
        ),
        (
            "src/history/a.rs",
            "fn f() { println!(\"\"); }",
            "only face",
        ),
        (
            "src/history/a.rs",
            "fn f() { std::io::stderr().flush(); }",
            "only face",
        ),
        (
            "src/history/a.rs",
            "use std::process::{self, Command};",
            "start processes",
        ),
        (
            "src/history/a.rs",
            "fn f() { process::Command::new(\"x\"); }",
            "start processes",
        ),
        (
            "src/child.rs",
            "fn f() { crossbeam_channel::unbounded(); }",
            "bounded",
        ),
        ("src/child.rs", "use std::sync::mpsc::channel;", "bounded"),
        ("src/face/a.rs", "fn f() { unbounded(); }", "bounded"),
    ];
    for (file, code, rule) in cases {
        let found = violations(&Source::parse(file, &format!("//! X.\n{code}")), &roots);
        assert!(
            found
                .iter()
                .any(|line| line.starts_with(&format!("{file}:2: ")) && line.contains(rule)),
            "{code} in {file} should break \"{rule}\": {found:?}"
        );
    }
    let without = Source::parse("src/event/log_gap.rs", "// X.\nfn f() {}");
    assert_eq!(violations(&without, &roots).len(), 1);
}

#[test]
fn what_is_allowed_passes() {
    let cases = [
        (
            "src/history/a.rs",
            "use crate::event::TdEvent; use crate::history::line::header;",
        ),
        (
            "src/history/a.rs",
            "use super::line; fn f() { super::name::encode(); }",
        ),
        (
            "src/history/line.rs",
            "use std::io::Write; use std::borrow::Cow;",
        ),
        (
            "src/bus/lossy_lane.rs",
            "use crate::{TdEvent, event::Envelope};",
        ),
        (
            "src/bus/lossy_lane.rs",
            "/// `std::thread` and println!\nfn f() { let s = \"crate::history\"; }",
        ),
        (
            "src/bus/lossy_lane.rs",
            "#[cfg(test)] mod tests { use std::thread; use crate::history; }",
        ),
        (
            "src/bus/lossy_lane.rs",
            "#[cfg(all(test, unix))] use crate::history;\nfn f() {}",
        ),
        (
            "src/child.rs",
            "fn f(c: &mut Command) { c.stdout(Stdio::piped()); } use std::process::Command;",
        ),
        (
            "src/face/a.rs",
            "use crate::engine::Engine; fn f() { println!(); io::stdout(); }",
        ),
        (
            "src/main.rs",
            "use td_observe::Engine; fn main() { eprintln!(); }",
        ),
        (
            "src/clock.rs",
            "fn f() { Instant::now(); crossbeam_channel::at(x); }",
        ),
        (
            "src/tmux/a.rs",
            "fn f() { clock.now(); let process = Command { x: 1 }; }",
        ),
    ];
    let roots = Roots::from([("TdEvent".into(), "event".into())]);
    for (file, code) in cases {
        let found = violations(&Source::parse(file, &format!("//! X.\n{code}")), &roots);
        assert!(found.is_empty(), "{code}: {found:?}");
    }
    // Code after a test module counts again.
    let after = "//! X.\n#[cfg(test)]\nmod tests { fn f() {} }\nuse std::thread;";
    let found = violations(&Source::parse("src/event/log_gap.rs", after), &roots);
    assert!(
        found[0].starts_with("src/event/log_gap.rs:4: "),
        "{found:?}"
    );
}

#[test]
fn no_asynchronous_runtime_is_built_for_users() {
    let tree = |more: &[&str]| {
        Command::new(env!("CARGO"))
            .args([
                "tree",
                "--edges",
                "normal,build",
                "--prefix",
                "none",
                "--format",
                "{p}",
            ])
            .arg("--all-features")
            .args(more)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap()
    };
    let mut output = tree(&["--offline"]);
    if !output.status.success() {
        // A package of a feature that nobody has built here yet.
        output = tree(&[]);
    }
    assert!(
        output.status.success(),
        "cargo tree: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let packages = String::from_utf8(output.stdout).unwrap();
    assert!(packages.contains("serde_json "), "{packages}");
    for package in packages.lines() {
        let name = package.split(' ').next().unwrap_or_default();
        assert!(
            !RUNTIMES.contains(&name),
            "{package} is an asynchronous runtime:\n{packages}"
        );
    }
}
