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

/// Waits until the board lists rows of these kinds, in any order; returns them in this order.
#[track_caller]
fn wait_for_kinds(home: &Home, expected: &[&str]) -> Vec<serde_json::Value> {
    wait_for("the kinds of the rows", CEILING, || {
        let mut rows = home.rows();
        rows.retain(|row| row["ended"] == false || row["kind"] == "pane");
        rows.sort_by_key(|row| row["kind"].to_string());
        let kinds: Vec<&str> = rows.iter().filter_map(|row| row["kind"].as_str()).collect();
        (kinds == expected).then(|| rows.clone()).ok_or(rows)
    })
}

#[test]
fn a_command_that_runs_in_a_pane_and_the_pane_are_one_row_and_the_pane_is_still_found() {
    let home = Home::new();
    let pane = shell(&home, "own");
    home.start();
    wait_for_kinds(&home, &["pane"]);
    typed(
        &home,
        "own",
        "td-observe run --stdin sh -c 'echo be\"gun\"; read x; exit 3'",
    );
    home.server.wait_for_text(&pane, "begun");
    let rows = wait_for_kinds(&home, &["command"]);
    assert_eq!(rows[0]["in_pane"]["pane"], pane.as_str(), "{rows:?}");
    assert!(rows[0]["pane"].is_null(), "{rows:?}");
    let format = home.run(&["status", "--format", "{total}"]);
    assert_eq!(text(&format.stdout), "1\n");
    for target in ["own", &pane] {
        let own = home.run(&["status", "--json", target]);
        assert_code(&own, 0);
        let row: serde_json::Value = serde_json::from_slice(&own.stdout).unwrap();
        assert_eq!(row["kind"], "pane", "{row}");
    }
    // Another observer knows it, too.
    assert_code(&home.run(&["stop"]), 0);
    home.start();
    wait_for_kinds(&home, &["command"]);
    // What looks for the pane finds it: the text goes to what runs there.
    let sent = home.run(&[
        "wait",
        "own",
        "--text",
        "exit code 3",
        "--send",
        "go",
        "--timeout",
        "10s",
    ]);
    assert_code(&sent, 0);
    wait_for_kinds(&home, &["pane"]);
    let rows = home.rows();
    let command = rows.iter().find(|row| row["kind"] == "command").unwrap();
    assert_eq!(command["exit_status"], 3, "{rows:?}");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_command_in_the_background_or_in_a_script_or_of_another_terminal_does_not_stand_for_its_pane() {
    let home = Home::new();
    shell(&home, "own");
    home.start();
    wait_for_kinds(&home, &["pane"]);
    for (line, end) in [
        ("td-observe run sleep 600 &", "kill %%; wait"),
        ("sh -c 'td-observe run sleep 600; :'", "C-c"),
        ("true | td-observe run sleep 600", "C-c"),
        ("script -qc 'td-observe run sleep 600' /dev/null", "C-c"),
    ] {
        typed(&home, "own", line);
        let rows = wait_for_kinds(&home, &["command", "pane"]);
        assert!(rows[0]["in_pane"].is_null(), "{line}: {rows:?}");
        let enter = if end == "C-c" { "" } else { "Enter" };
        home.server.tmux(&["send-keys", "-t", "=own:", end, enter]);
        wait_for_kinds(&home, &["pane"]);
    }
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_loop_that_runs_in_a_pane_and_the_pane_are_one_row() {
    let home = Home::new();
    let pane = shell(&home, "own");
    home.start();
    wait_for_kinds(&home, &["pane"]);
    let line = "td-observe loop --task 'Fix it' --agent 'tail -f /dev/null' --check true";
    typed(&home, "own", line);
    let rows = wait_for_kinds(&home, &["loop"]);
    assert_eq!(rows[0]["in_pane"]["pane"], pane.as_str(), "{rows:?}");
    assert_eq!(rows[0]["name"], "Fix it", "{rows:?}");
    assert_code(&home.run(&["status", "--ack", "own"]), 0);
    home.server.tmux(&["send-keys", "-t", "=own:", "C-c", ""]);
    wait_for_kinds(&home, &["pane"]);
    assert_code(&home.run(&["stop"]), 0);
}
