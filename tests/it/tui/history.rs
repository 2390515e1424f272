//! The UI beside a running observer, with events recorded before both started.

use std::fs;

use super::{Stage, view_of};
use crate::cli::assert_code;

#[test]
fn a_late_start_shows_what_was_recorded() {
    let mut stage = Stage::new();
    let home = &stage.home;
    let job = home.server.new_session("job", 80, 24, "exec cat");
    let script = "seq -f 'out %g' 1 40; echo 'went wrong' >&2; exit 3";
    let args = [
        "run",
        "-q",
        "--execution-id",
        "build@1",
        "--",
        "sh",
        "-c",
        script,
    ];
    assert_code(&home.run(&args), 3);
    home.start();
    home.server
        .tmux(&["send-keys", "-t", &job, "early", "Enter"]);
    home.wait_for_row("job", |row| row["last_line"] == "early");

    stage.start((120, 30), "");
    stage.shows("2 rows");
    let server = &stage.home.server;
    stage.until("the finished run first", |screen| {
        screen.contains("FINISHED 1") && screen.contains("WORKING 1")
    });
    stage.types("g");
    stage.until("its output", |screen| {
        let view = view_of(screen);
        view.starts_with("output sh -c ") && view.contains("out 40")
    });
    stage.types("l");
    stage.until("its logs", |screen| {
        let view = view_of(screen);
        view.starts_with("logs sh -c ") && view.contains("went wrong")
    });
    // Earlier and current lines, each once: typed and printed.
    stage.types("oG");
    stage.until("the line before", |screen| {
        let view = view_of(screen);
        view.contains("output job") && view.contains("early")
    });
    server.tmux(&["send-keys", "-t", &job, "late", "Enter"]);
    let both = stage.until("the line after", |screen| {
        view_of(screen).matches("late").count() == 2
    });
    let view = view_of(&both);
    let lines: Vec<&str> = view.lines().skip(1).map(str::trim).collect();
    let end = lines.iter().position(|line| line.is_empty());
    let lines = &lines[..end.unwrap_or(lines.len())];
    let (since, lines) = lines.split_first().unwrap();
    assert!(since.starts_with("observed since "), "{both}");
    assert_eq!(lines, ["early", "early", "late", "late"], "{both}");

    // The observer continues.
    let observer = stage.home.pid();
    stage.types("q");
    stage.ended(0);
    assert_eq!(stage.home.pid(), observer);
    assert_eq!(stage.home.rows().len(), 2);
    assert_code(&stage.home.run(&["stop"]), 0);
    stage.left_nothing();
}

#[test]
fn a_run_that_has_left_the_board_is_shown() {
    let mut stage = Stage::new();
    let home = &stage.home;
    home.server.new_session("job", 80, 24, "exec cat");
    let script = "echo what it said; exit 3";
    let run = ["run", "-q", "--execution-id", "nightly@1"];
    let command = ["--", "sh", "-c", script];
    assert_code(&home.run(&[&run[..], &command].concat()), 3);
    // A date long ago.
    let directory = home.data().join("runs").join("nightly@1");
    for entry in fs::read_dir(&directory).unwrap().flatten() {
        if let Ok(text) = fs::read_to_string(entry.path()) {
            let year = &text[text.find("\"20").unwrap_or(0)..];
            let year = year.get(1..5).unwrap_or_default().to_owned();
            let text = text.replace(&format!("\"{year}-"), "\"2024-");
            fs::write(entry.path(), text).unwrap();
        }
    }
    stage.start((120, 30), "");
    let screen = stage.until("the group of older runs", |screen| {
        screen.contains("OLDER 1") && screen.contains("output job %0")
    });
    let is_shown = |line: &str| line.contains("x sh ") && line.contains("failed 3");
    assert!(screen.lines().any(is_shown), "{screen}");
    assert!(screen.starts_with("1 row "), "{screen}");
    stage.types(":open sh");
    stage.keys(&["Tab", "Enter"]);
    stage.until("its output", |screen| {
        let view = view_of(screen);
        view.starts_with("output sh ") && view.contains("what it said")
    });
    stage.types("g:open nightly");
    stage.keys(&["Enter"]);
    stage.types("/^what it");
    stage.keys(&["Enter"]);
    stage.shows("/^what it 1 of 1");
    stage.types("q");
    stage.ended(0);
    stage.left_nothing();
}
