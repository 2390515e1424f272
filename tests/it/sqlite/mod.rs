//! Histories as a database: `export --format sqlite`.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::cli::{assert_code, run, text};

#[cfg(feature = "sqlite")]
mod database;
#[cfg(feature = "sqlite")]
mod interrupted;
#[cfg(all(feature = "sqlite", feature = "report"))]
mod report;
#[cfg(feature = "sqlite")]
mod turns;

/// Exports runs to `history.db` in the directory.
fn export(data: &Path, args: &[&str]) -> Output {
    let file = data.join("history.db");
    let all = [
        &["export", "--format", "sqlite", "-o", file.to_str().unwrap()],
        args,
    ];
    run(&all.concat(), data)
}

#[track_caller]
fn assert_refused(output: &Output, expected: &str) {
    assert_code(output, 2);
    let stderr = text(&output.stderr);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains(expected), "{stderr}");
}

#[cfg(not(feature = "sqlite"))]
#[test]
fn a_program_without_it_says_how_to_get_it() {
    let data = tempfile::tempdir().unwrap();
    let refused = export(data.path(), &[]);
    assert_refused(&refused, "cargo install --path . --features sqlite");
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0);
}

#[test]
fn wrong_usage_is_explained() {
    let data = tempfile::tempdir().unwrap();
    for (args, expected) in [
        (&["--format", "sqlite"][..], "-o FILE"),
        (
            &["--format", "sqlite", "-o", "x", "--pane", "%1"],
            "--pane is not for --format sqlite",
        ),
        (
            &["--format", "sqlite", "-o", "x", "--idle-limit", "1s"],
            "--idle-limit is not for",
        ),
        (
            &["--format", "sqlite", "-o", "x", "--from-log"],
            "--from-log is not for",
        ),
        (
            &["--format", "sqlite", "-o", "x", "--cast-version", "2"],
            "--cast-version is for --format cast",
        ),
        (
            &["a", "--format", "text", "--since", "1h"],
            "--since is for --format sqlite",
        ),
        (
            &["a", "--format", "md", "--until", "1h"],
            "--until is for --format sqlite",
        ),
        (
            &["a", "b", "--format", "text"],
            "only --format sqlite takes several runs",
        ),
        (&["--format", "text"], "give the run to export"),
    ] {
        let refused = run(&[&["export"], args].concat(), data.path());
        assert_refused(&refused, expected);
    }
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0);
}
