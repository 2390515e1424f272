//! Exports: text and a recording that equal the pane's output.

use std::fs;

use serde::Deserialize;
use td_observe::tmux::Target;

use super::{assert_wrong_usage, record};
use crate::cli::{assert_code, run, text};
use crate::observed::{Observed, Replay};
use crate::support::TmuxServer;

/// The actions of the pane in a recorded scene.
const SCENE: &str = include_str!("../../../src/face/asciicast/recorded/program.sh");

/// The first line of an asciicast v3, parsed strictly.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    version: u8,
    term: Term,
    #[serde(rename = "timestamp")]
    _timestamp: Option<u64>,
    title: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Term {
    cols: usize,
    rows: usize,
}

/// A recording that was playback to its end.
struct Playback {
    header: Header,
    terminal: avt::Terminal,
    seconds: f64,
}

#[track_caller]
fn playback(cast: &[u8]) -> Playback {
    let cast = std::str::from_utf8(cast).unwrap();
    let mut lines = cast.lines();
    let header: Header = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(header.version, 3);
    let Term { cols, rows } = header.term;
    let mut terminal = avt::Terminal::with_scrollback(cols, rows, None).unwrap();
    let mut seconds = 0.0;
    for line in lines {
        let (interval, code, data): (f64, String, String) = serde_json::from_str(line).unwrap();
        assert!(interval >= 0.0, "{line}");
        seconds += interval;
        match code.as_str() {
            "o" => terminal.feed(data.as_str()),
            "r" => {
                let (cols, rows) = data.split_once('x').unwrap();
                terminal.resize(cols.parse().unwrap(), rows.parse().unwrap());
            }
            "m" | "x" => {}
            _ => panic!("{line}"),
        }
    }
    Playback {
        header,
        terminal,
        seconds,
    }
}

fn trimmed(text: &str) -> Vec<String> {
    let lines = text.trim_end().lines();
    lines.map(|line| line.trim_end().to_owned()).collect()
}

#[test]
fn a_played_recording_ends_with_the_real_lines() {
    let server = TmuxServer::new();
    let path = server.directory().join("program.sh");
    fs::write(&path, SCENE).unwrap();
    let pane = server.new_session("rec", 80, 24, &format!("exec sh {}", path.display()));
    server.wait_for_text(&pane, "ready");
    let mut observed =
        Observed::start(&server, |watch| watch.target(Target::parse("rec").unwrap()));
    observed.until_started(1);
    server.tmux(&["wait-for", "-S", "go"]);
    server.tmux(&["wait-for", "done"]);
    let joined = server.joined(&pane, &["-S", "-"]);
    let joined = trimmed(&joined);
    let shows: Vec<&str> = joined.iter().map(String::as_str).collect();
    observed.until_replayed(&pane, &shows, "the scene");
    observed.stop();
    let data = server.directory().join("data");

    let cast = run(&["export", "rec", "--format", "cast"], &data);
    assert_code(&cast, 0);
    assert!(cast.stderr.is_empty(), "{}", text(&cast.stderr));
    let playback = playback(&cast.stdout);
    assert_eq!(playback.header.title.as_deref(), Some("rec"));
    assert_eq!(
        (playback.header.term.cols, playback.header.term.rows),
        (80, 24)
    );
    // The scene takes about seven seconds.
    assert!(
        playback.seconds > 5.0 && playback.seconds < 30.0,
        "{}",
        playback.seconds
    );
    // The first line existed before the observation began.
    let lines = trimmed(&playback.terminal.screen().text().join("\n"));
    assert_eq!(lines, joined[1..]);

    let exported = run(&["export", "rec", "--format", "text"], &data);
    assert_code(&exported, 0);
    assert_eq!(trimmed(&text(&exported.stdout)), joined[1..]);
    // By the id of the run into a file, and the only pane by its name.
    let file = data.join("rec.cast");
    let file_name = file.to_str().unwrap();
    let args = [
        "export", "rec", "--format", "cast", "--pane", &pane, "-o", file_name,
    ];
    assert_code(&run(&args, &data), 0);
    assert_eq!(fs::read(&file).unwrap(), cast.stdout);
    assert_wrong_usage(
        &run(
            &["export", "rec", "--format", "cast", "--pane", "%99"],
            &data,
        ),
        &pane,
    );
}

#[test]
fn text_export_equals_the_printed_text() {
    let server = TmuxServer::new();
    let numbers = "tmux wait-for go; seq -f 'a line that is longer than the pane is wide, number %.0f.' 1 3000; \
                   echo 'the end'; exec cat";
    let pane = server.new_session("job", 40, 10, numbers);
    server.tmux(&["set-option", "-g", "history-limit", "50000"]);
    let mut observed = Observed::session(&server, "job");
    observed.until_started(1);
    server.tmux(&["wait-for", "-S", "go"]);
    observed.until_line("the end");
    observed.stop();
    let Replay {
        gaps, confirmed, ..
    } = observed.replay(&pane);
    let data = server.directory().join("data");
    let exported = run(&["export", "job", "--format", "text"], &data);
    assert_code(&exported, 0);
    let mut printed: Vec<String> = (1..=3000)
        .map(|n| format!("a line that is longer than the pane is wide, number {n}."))
        .collect();
    printed.push("the end".to_owned());
    let exported = text(&exported.stdout);
    let exported: Vec<&str> = exported.lines().collect();
    // The session keeps 2000 rows: a gap represents the lines that are certainly lost.
    if gaps.is_empty() {
        assert_eq!(exported, printed);
    } else {
        let lines = exported
            .iter()
            .filter(|line| printed.iter().any(|other| other == *line));
        assert_eq!(exported.len(), lines.count() + confirmed, "{gaps:?}");
    }
}

#[test]
fn wrong_usage_is_a_one_line_error() {
    let temp = tempfile::tempdir().unwrap();
    record(temp.path(), "job", &[(0, "a"), (1000, "b")]);
    for (args, expected) in [
        (&["export", "nobody", "--format", "text"][..], "nobody"),
        (&["export", "job"], "--format"),
        (&["export", "job", "--format", "gif"], "gif"),
        (
            &["export", "job", "--format", "cast", "--cast-version", "1"],
            "2, 3",
        ),
        (
            &["export", "job", "--format", "text", "--cast-version", "2"],
            "--format cast",
        ),
        (&["export", "job", "--format", "text", "--pane", "%7"], "%1"),
        (
            &["export", "job", "--format", "text", "-o", "/nowhere/at/all"],
            "/nowhere",
        ),
    ] {
        assert_wrong_usage(&run(args, temp.path()), expected);
    }
    let output = run(&["export", "job", "--format", "text"], temp.path());
    assert_eq!(text(&output.stdout), "a\nb\n");
}
