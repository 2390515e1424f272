//! Panes in which td-observe itself runs: only what would show itself is left out, and only while it would.

use std::time::Duration;

use super::Home;
use crate::cli::{PROGRAM, assert_code, text};
use crate::support::{CEILING, wait_for, within};

/// Opens a session with a shell that finds the program and this home.
fn shell(home: &Home, name: &str) -> String {
    let mut line = "exec env".to_owned();
    for (name, value) in home.command(&[]).get_envs() {
        if let Some(value) = value {
            line.push_str(&format!(" {}='{}'", name.display(), value.display()));
        }
    }
    let program = std::path::Path::new(PROGRAM).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    line.push_str(&format!(" PATH='{path}' PS1='> ' bash --norc --noprofile"));
    let pane = home.server.new_session(name, 120, 40, &line);
    home.server.wait_for_text(&pane, ">");
    pane
}

/// Types a line into a session.
fn typed(home: &Home, name: &str, line: &str) {
    let target = format!("={name}:");
    home.server
        .tmux(&["send-keys", "-t", &target, line, "Enter"]);
}

/// Returns the lines that the history has of a session.
fn kept(home: &Home, name: &str) -> Vec<String> {
    let log = home.run(&["log", name]);
    assert_code(&log, 0);
    text(&log.stdout).lines().map(str::to_owned).collect()
}

/// Waits until the history of a session has a line with this end.
#[track_caller]
fn wait_for_kept(home: &Home, name: &str, end: &str) {
    wait_for(end, CEILING, || {
        let lines = kept(home, name);
        let found = lines.iter().any(|line| line.ends_with(end));
        found.then_some(()).ok_or(lines)
    });
}

#[test]
fn the_pane_that_starts_the_observer_is_on_its_board() {
    let home = Home::new();
    let pane = shell(&home, "own");
    typed(&home, "own", "td-observe start");
    home.server.wait_for_text(&pane, "observing: pid");
    let rows = home.rows();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["pane"], pane.as_str(), "{rows:?}");
    typed(&home, "own", "echo mine");
    wait_for_kept(&home, "own", "| mine");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_client_that_shows_nothing_of_its_pane_leaves_it_observed() {
    let home = Home::new();
    shell(&home, "own");
    home.server.new_session("job", 80, 24, "exec cat");
    home.start();
    for (number, client) in [
        "td-observe wait job --exit --timeout 60s >/dev/null 2>&1 &",
        "td-observe watch --json >/dev/null &",
        "td-observe watch &",
        "td-observe watch >\"$TD_DATA_DIR/shown\"",
        "td-observe wait job --exit --timeout 60s",
    ]
    .into_iter()
    .enumerate()
    {
        // Longer than the interval of searches for such panes.
        let line = format!("(sleep 1.2; printf 'a%s\\n' b{number}) & {client}");
        typed(&home, "own", &line);
        wait_for_kept(&home, "own", &format!("ab{number}"));
        home.server
            .tmux(&["send-keys", "-t", "=own:", "C-c", "Enter"]);
        typed(&home, "own", "kill %% 2>/dev/null; wait");
    }
    // Each line of the log begins with the name of the session. A watch names its own session once.
    let lines = kept(&home, "own");
    let echoed = lines
        .iter()
        .filter(|line| line.matches("own | ").count() > 1);
    let echoed: Vec<&String> = echoed.collect();
    assert!(echoed.len() <= 1, "{echoed:?}");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_pane_is_left_out_while_a_watch_is_in_its_foreground() {
    let home = Home::new();
    let pane = shell(&home, "own");
    home.server.new_session("job", 80, 24, "exec cat");
    home.start();
    for (number, watch) in [
        "td-observe watch",
        "td-observe watch | cat",
        "td-observe status --watch",
    ]
    .into_iter()
    .enumerate()
    {
        typed(&home, "own", watch);
        let mut count = 0;
        wait_for("a pane that is left out", CEILING, || {
            count += 1;
            let tick = format!("tick{number}.{count}.");
            typed(&home, "job", &tick);
            let next = format!("next{number}.{count}.");
            typed(&home, "job", &next);
            wait_for_kept(&home, "job", &format!("| {next}"));
            // The first ones may come before the command shows anything.
            let is_shown = within(Duration::from_secs(1), || {
                let is_shown = home.server.screen(&pane).contains(&next);
                is_shown.then_some(()).ok_or(())
            });
            let lines = kept(&home, "own");
            let is_kept = |line: &String| line.contains(&tick) || line.contains(&next);
            let is_left_out = is_shown.is_ok() && !lines.iter().any(is_kept);
            is_left_out
                .then_some(())
                .ok_or((lines, home.server.screen(&pane)))
        });
        home.server.tmux(&["send-keys", "-t", "=own:", "C-z"]);
        home.server.wait_for_text(&pane, "Stopped");
        let line = format!("stopped{number}");
        typed(&home, "own", &format!("echo {line}"));
        wait_for_kept(&home, "own", &format!("| {line}"));
        typed(&home, "own", "kill %%; fg; clear");
        typed(&home, "own", &format!("echo ended{number}"));
        wait_for_kept(&home, "own", &format!("| ended{number}"));
    }
    assert_code(&home.run(&["stop"]), 0);
}
