//! `watch` beside an observer says and does the same as without one.

use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

use rustix::process::Signal;

use super::{Home, request};
use crate::cli::{Running, assert_code, text};
use crate::support::{CEILING, wait_for};

/// Returns `watch` with these arguments, for the server of the home.
fn watch(home: &Home, args: &[&str]) -> Running {
    let socket = home.server.socket().display().to_string();
    Running::start(home.command(&[&["watch", "-S", &socket], args].concat()))
}

/// Returns the lines on standard error, sorted.
fn complaints(output: &Output) -> Vec<String> {
    let text = text(&output.stderr);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_missing_target_is_reported_once_and_awaited() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    home.server
        .tmux(&["rename-window", "-t", "=build:0", "editor"]);
    for is_observed in [false, true] {
        if is_observed {
            home.start();
        }
        let targets = ["build", "build:editor", "biuld", "build:77", "unlike"];
        let mut shown = watch(&home, &targets);
        shown.wait_for("build | [watching 1 pane]");
        home.server.new_session("unlike", 80, 24, "exec cat");
        shown.wait_for("unlike | [watching 1 pane]");
        shown.signal(Signal::INT);
        let output = shown.end();
        assert_code(&output, 0);
        let expected = [
            "td-observe: \"unlike\" does not exist yet: waiting for it",
            "td-observe: the target \"biuld\" does not exist; did you mean \"build\"? there are: build",
            "td-observe: the target \"build:77\" does not exist; did you mean \"build:0\"? there are: \
             build:0, build:0.0",
        ];
        assert_eq!(complaints(&output), expected, "{is_observed}");
        home.server.tmux(&["kill-session", "-t", "=unlike"]);
    }
}

#[test]
fn a_missing_server_is_reported_beside_an_observer() {
    let home = Home::new();
    home.start();
    let mut shown = watch(&home, &["build"]);
    wait_for_streams(&home, 1);
    shown.wait_for_complaint(": waiting for it");
    home.server.new_session("build", 80, 24, "exec cat");
    shown.wait_for("build | [watching 1 pane]");
    shown.signal(Signal::INT);
    let output = shown.end();
    assert_code(&output, 0);
    let printed = complaints(&output);
    let is_expected = |line: &String| {
        line.starts_with("td-observe: no tmux server is running at ")
            && line.ends_with(": waiting for it")
    };
    assert!(
        printed.len() == 1 && printed.iter().all(is_expected),
        "{printed:?}"
    );
}

#[test]
fn what_a_missing_window_prints_at_once_is_shown_beside_an_observer() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    home.start();
    for number in 0..5 {
        let window = format!("new{number}");
        let socket = home.server.socket().display().to_string();
        let mut command = home.command(&["watch", "-S", &socket, &format!("build:{window}")]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut shown = command.spawn().unwrap();
        let mut reported = String::new();
        let mut stderr = BufReader::new(shown.stderr.take().unwrap());
        stderr.read_line(&mut reported).unwrap();
        assert!(reported.contains("does not exist"), "{reported}");
        let script = format!("echo first of {window}; exec cat");
        home.server
            .tmux(&["new-window", "-d", "-t", "=build:", "-n", &window, &script]);
        let mut lines = BufReader::new(shown.stdout.take().unwrap()).lines();
        let text = format!("first of {window}");
        assert!(lines.any(|line| line.unwrap().ends_with(&text)));
        shown.kill().unwrap();
        shown.wait().unwrap();
    }
}

#[test]
fn an_impossible_target_is_refused_with_and_without_an_observer() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    let refused = || {
        ["=build", "%x", ":1"].map(|target| {
            let output = watch(&home, &[target]).end();
            assert_code(&output, 2);
            assert_eq!(text(&output.stdout), "", "{target}");
            complaints(&output)
        })
    };
    let alone = refused();
    assert!(alone[0][0].contains("write \"build\""), "{alone:?}");
    assert!(alone.iter().all(|lines| lines.len() == 1), "{alone:?}");
    let pid = home.start();
    assert_eq!(refused(), alone);
    assert_eq!(home.pid(), pid);
}

#[test]
fn an_option_without_effect_beside_an_observer_is_refused() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    let pid = home.start();
    let file = home.directory().display().to_string();
    for option in [
        &["--interval", "1s"][..],
        &["--budget", "10%"],
        &["--source", "poll"],
        &["--raw"],
        &["--mode", "ai"],
        &["--states", &file],
        &["--no-states"],
        &["--execution-id", "all"],
        &["--include-self"],
        &["--no-conversation"],
        &["--screen"],
        &["--lines", "3"],
        &["--sync", "always"],
        &["--rotate-size", "1MiB"],
        &["--rotate-age", "2d"],
        &["--keep-size", "1GiB"],
        &["--keep-age", "1d"],
        &["--keep-runs", "3"],
        &["--redact", &file],
        &["--redact-env", "NAME"],
        &["--redact-env-file", &file],
        &["--no-redact"],
    ] {
        let output = watch(&home, &[option, &["build"]].concat()).end();
        assert_code(&output, 2);
        let printed = complaints(&output);
        let expected = format!(
            "an observer (pid {pid}) observes this server, so {} has no effect here",
            option[0]
        );
        assert!(
            printed.len() == 1 && printed[0].contains(&expected),
            "{printed:?}"
        );
        assert_eq!(text(&output.stdout), "", "{option:?}");
    }
}

#[test]
fn the_start_of_a_session_is_shown_once_however_many_observers_it_had() {
    let home = Home::new();
    home.server.new_session("first", 80, 24, "exec cat");
    let rename = |from: &str, to: &str| {
        home.server
            .tmux(&["rename-session", "-t", &format!("={from}"), to]);
        home.wait_for_row(to, |_| true);
    };
    for _ in 0..2 {
        home.start();
        assert_code(&home.run(&["stop"]), 0);
    }
    home.start();
    rename("first", "second");
    assert_code(&home.run(&["stop"]), 0);
    home.start();
    let mut shown = watch(&home, &["second"]);
    shown.wait_for("watching");
    home.server
        .tmux(&["send-keys", "-t", "=second:", "hello", "Enter"]);
    shown.wait_for("second | hello");
    shown.signal(Signal::INT);
    let output = shown.end();
    assert_code(&output, 0);
    let lines = text(&output.stdout);
    assert_eq!(
        lines.lines().next(),
        Some("second | [watching 1 pane]"),
        "{lines}"
    );
    assert_eq!(lines.matches('[').count(), 1, "{lines}");
    assert!(output.stderr.is_empty(), "{output:?}");

    // Only the present name is a target. The name of the session of a later window is known.
    rename("second", "third");
    home.server.new_session("keeper", 80, 24, "exec cat");
    home.wait_for_row("keeper", |_| true);
    let window = ["new-window", "-dP", "-F", "#{pane_id}", "-t", "=third:4"];
    let pane = home.server.tmux(&[&window[..], &["exec cat"]].concat());
    home.wait_for_row("third", |row| row["pane"] == pane);
    let mut former = watch(&home, &["second", "keeper"]);
    former.wait_for("keeper | [watching 1 pane]");
    let mut window = watch(&home, &["third:4"]);
    window.wait_for("third | [was called second]");
    home.server
        .tmux(&["send-keys", "-t", "=third:4", "of the window", "Enter"]);
    window.wait_for_all(&["third", " | of the window"]);
    home.server.new_session("second", 80, 24, "exec cat");
    former.wait_for("second | [watching 1 pane]");
    for shown in [&former, &window] {
        shown.signal(Signal::INT);
    }
    let (former, window) = (former.end(), window.end());
    let missing = "td-observe: \"second\" does not exist yet: waiting for it";
    assert_eq!(complaints(&former), [missing]);
    assert!(!text(&former.stdout).contains("third"), "{former:?}");
    assert!(window.stderr.is_empty(), "{window:?}");
}

#[test]
fn a_quiet_watch_ends_with_its_target() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    home.server.new_session("keeper", 80, 24, "exec cat");
    home.start();
    let quiet = watch(&home, &["-q", "build"]);
    let interrupted = watch(&home, &["-q", "keeper"]);
    wait_for_streams(&home, 2);
    home.server.tmux(&["kill-session", "-t", "=build"]);
    let output = quiet.end();
    assert_code(&output, 0);
    assert!(
        output.stdout.is_empty() && output.stderr.is_empty(),
        "{output:?}"
    );
    interrupted.signal(Signal::INT);
    assert_code(&interrupted.end(), 0);
}

/// Waits until the observer serves this number of streams.
#[track_caller]
fn wait_for_streams(home: &Home, count: usize) {
    let socket = home.socket();
    wait_for("streams", CEILING, || {
        let metrics = request(&socket, "GET /metrics HTTP/1.1\r\n\r\n");
        let streams = metrics.matches("stream_lag_events{").count();
        (streams == count).then_some(()).ok_or(metrics)
    });
}
