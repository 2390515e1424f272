//! The matches of the rules in real recordings, compared with a list in which each find is classified.
//!
//! The recordings are beside the repository. `TD_BLESS=1` rewrites the list (then classify its new
//! lines).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use td_observe::redact::Rules;

use crate::recordings::{files_below, recordings};

const LIST: &str = include_str!("redact_samples.txt");

/// Maps `file: kind × count` to its classification in the list.
fn listed() -> BTreeMap<String, String> {
    LIST.lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| match line.split_once('\t') {
            Some((find, class)) => (find.to_owned(), class.to_owned()),
            None => (line.to_owned(), String::new()),
        })
        .collect()
}

#[test]
fn all_finds_in_recordings_are_classified() {
    let Some(root) = recordings() else { return };
    let paths = files_below(&root);
    let rules = Rules::builtin();
    let mut found = BTreeMap::new();
    for path in &paths {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
        for line in fs::read(path).unwrap().split(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(line);
            let masked = rules.text(&line);
            // Count only the markers that this run has added.
            let markers = |text: &str| {
                let mut count: BTreeMap<String, u64> = BTreeMap::new();
                for part in text.split("[redacted:").skip(1) {
                    let kind = part.split(']').next().unwrap_or_default();
                    *count.entry(kind.to_owned()).or_default() += 1;
                }
                count
            };
            let before = markers(&line);
            for (kind, count) in markers(&masked) {
                let new = count - before.get(&kind).copied().unwrap_or(0).min(count);
                if new > 0 {
                    *kinds.entry(kind).or_default() += new;
                }
            }
        }
        for (kind, count) in kinds {
            found.insert(format!("{name}: {kind} × {count}"), String::new());
        }
    }
    let listed = listed();
    for (find, class) in &mut found {
        *class = listed.get(find).cloned().unwrap_or_default();
    }
    if std::env::var_os("TD_BLESS").is_some() {
        let comments = LIST.lines().filter(|line| line.starts_with('#'));
        let lines = found.iter().map(|(find, class)| format!("{find}\t{class}"));
        let text: Vec<String> = comments.map(str::to_owned).chain(lines).collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/redact_samples.txt");
        fs::write(path, text.join("\n") + "\n").unwrap();
        return;
    }
    let list =
        |table: &BTreeMap<String, String>| -> Vec<String> { table.keys().cloned().collect() };
    assert_eq!(
        list(&found),
        list(&listed),
        "found (left) is not what is listed (right)"
    );
    for (find, class) in &found {
        assert!(
            class.starts_with("true: ") || class.starts_with("false: "),
            "{find} is not classified: {class:?}"
        );
    }
}
