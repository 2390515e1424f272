//! Panes in which td-observe itself runs: only what would show itself is left out, and only while it would.

use std::time::Duration;

use super::Home;
use crate::cli::{PROGRAM, assert_code, text};
use crate::states::AGENT;
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

/// A shell in the session `own`, observed, and its pane.
fn observed_shell() -> (Home, String) {
    let home = Home::new();
    let pane = shell(&home, "own");
    home.start();
    wait_for_kinds(&home, &["pane"]);
    (home, pane)
}

#[test]
fn a_command_that_runs_in_a_pane_and_the_pane_are_one_row_and_the_pane_is_still_found() {
    let (home, pane) = observed_shell();
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
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_command_that_fails_in_a_pane_is_one_row_until_a_job_succeeds() {
    let (home, _) = observed_shell();
    let one_row = |is_met: &dyn Fn(&serde_json::Value) -> bool| {
        wait_for("one row", CEILING, || {
            let rows = home.rows();
            let is_one = rows.len() == 1 && rows[0]["kind"] == "pane" && is_met(&rows[0]);
            is_one.then_some(()).ok_or(rows)
        });
    };
    let says_failure = |row: &serde_json::Value| {
        (&row["state"], &row["exit_status"]) == (&"failed".into(), &3.into())
            && (&row["agent"], &row["last_line"]) == (&"shell".into(), &"broken".into())
            && row["attention"] == "finished"
    };
    // Jobs of less than half a second are not reported.
    for time in ["0", "1.5"] {
        let line = format!("td-observe run sh -c 'sleep {time}; echo bro\"ken\"; exit 3'");
        typed(&home, "own", &line);
        one_row(&says_failure);
        // The rest of what td-observe has shown comes within a second.
        typed(&home, "own", "# later");
        wait_for_kept(&home, "own", "# later");
        one_row(&says_failure);
        assert_code(&home.run(&["stop"]), 0);
        home.start();
        one_row(&says_failure);
        assert_code(&home.run(&["status", "--ack", "own"]), 0);
        one_row(&|row| row["state"] == "failed" && row["attention"] == "quiet");
        typed(&home, "own", "sleep 1");
        one_row(&|row| row["state"] == "idle");
    }
    assert_code(&home.run(&["stop"]), 0);
    home.start();
    one_row(&|row| row["state"] == "running");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_command_that_is_the_program_of_a_pane_is_one_row_when_it_has_ended() {
    let home = Home::new();
    home.server.new_session("idle", 80, 24, "exec cat");
    home.start();
    wait_for_kinds(&home, &["pane"]);
    let mut panes = vec!["pane"];
    for (name, status) in [("failed", 3), ("well", 0)] {
        panes.push("pane");
        let pane = shell(&home, name);
        wait_for_kinds(&home, &panes);
        // A pane that ends well before 2 s have passed is no row.
        let job = format!("echo be\"gun\"; read x; sleep 2; echo en\"ded\"; exit {status}");
        typed(
            &home,
            name,
            &format!("exec td-observe run --stdin sh -c '{job}'"),
        );
        home.server.wait_for_text(&pane, "begun");
        wait_for("the command", CEILING, || {
            let rows = home.rows();
            let mut kinds = rows.iter().map(|row| &row["kind"]);
            kinds
                .any(|kind| kind == "command")
                .then_some(())
                .ok_or(rows)
        });
        typed(&home, name, "go");
        wait_for("one row", CEILING, || {
            let rows = home.rows();
            let own = rows.iter().find(|row| row["name"] == name);
            let is_told = |own: &serde_json::Value| {
                own["exit_status"] == status && own["last_line"] == "ended"
            };
            let is_one = rows.len() == panes.len() && own.is_some_and(is_told);
            is_one.then_some(()).ok_or(rows)
        });
    }
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_command_and_its_pane_that_ended_without_an_observer_are_one_row() {
    let home = Home::new();
    let keeper = home.server.new_session("own", 80, 24, "exec cat");
    home.start();
    let data = format!("TD_DATA_DIR={}", home.data().display());
    let window = [
        "new-window",
        "-d",
        "-t",
        "=own:",
        "-PF",
        "#{pane_id}",
        "-e",
        &data,
    ];
    let gate = home.directory().join("gate");
    let script = format!(
        "mkfifo {0}; echo begun; read x < {0}; echo ended; exit 3",
        gate.display()
    );
    let program = env!("CARGO_BIN_EXE_td-observe");
    let command = [program, "run", "sh", "-c", &script];
    let pane = home.server.tmux(&[&window[..], &command].concat());
    home.server.wait_for_text(&pane, "begun");
    wait_for("the command in its pane", CEILING, || {
        let rows = home.rows();
        let is_there = |row: &serde_json::Value| row["in_pane"]["pane"] == pane.as_str();
        rows.iter().any(is_there).then_some(()).ok_or(rows)
    });
    let log = ["log", "own", "--json", "--type", "PaneOpened"];
    wait_for("the pane in the log", CEILING, || {
        let log = String::from_utf8_lossy(&home.run(&log).stdout).into_owned();
        log.contains(&pane).then_some(()).ok_or(log)
    });
    assert_code(&home.run(&["stop"]), 0);
    std::fs::write(&gate, "go\n").unwrap();
    wait_for("the end of the pane", CEILING, || {
        let panes = home.server.tmux(&["list-panes", "-a", "-F", "#{pane_id}"]);
        (panes == keeper).then_some(()).ok_or(panes)
    });
    let is_one = || {
        let rows = home.rows();
        let ended = rows.iter().filter(|row| row["pane"] != keeper.as_str());
        let ended: Vec<_> = ended
            .map(|row| (&row["exit_status"], &row["last_line"]))
            .collect();
        let is_one = ended == [(&3.into(), &"ended".into())];
        is_one.then_some(()).ok_or(rows)
    };
    wait_for("one row without an observer", CEILING, is_one);
    home.start();
    wait_for("one row", CEILING, is_one);
    home.wait_for_row("own", |row| row["state"] == "running");
    wait_for("one row", CEILING, is_one);
    // A pane that has closed just before its observation begins has an end, too.
    wait_for("the end of the pane in the log", CEILING, || {
        let log = home
            .run(&["log", "own", "--json", "--type", "PaneClosed"])
            .stdout;
        let log = String::from_utf8_lossy(&log).into_owned();
        log.contains(&pane).then_some(()).ok_or(log)
    });
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn what_a_pane_runs_again_is_one_row_with_the_last_result() {
    let (home, _) = observed_shell();
    let line = "for i in 1 2 3; do td-observe run --quiet sh -c 'echo turn'; done; td-observe run --quiet echo o\"ther\"";
    typed(&home, "own", line);
    wait_for("a row for each command", CEILING, || {
        let rows = home.rows();
        let ended = rows.iter().filter(|row| row["ended"] == true);
        let mut names: Vec<&str> = ended.filter_map(|row| row["name"].as_str()).collect();
        names.sort_unstable();
        (names == ["echo other", "sh -c 'echo turn'"])
            .then_some(())
            .ok_or(rows)
    });
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_command_in_the_background_or_in_a_script_or_of_another_terminal_does_not_stand_for_its_pane() {
    let (home, _) = observed_shell();
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
fn a_wait_takes_the_names_of_the_board_for_what_runs_in_a_pane() {
    let (home, pane) = observed_shell();
    let command = "td-observe run --execution-id build --stdin sh -c 'echo be\"gun\"; cat'";
    typed(&home, "own", command);
    home.server.wait_for_text(&pane, "begun");
    let rows = wait_for_kinds(&home, &["command"]);
    assert_eq!(rows[0]["name"], "build", "{rows:?}");
    let socket = home.server.socket().display().to_string();
    for name in ["build", "own"] {
        let wait = ["-S", &socket, "wait", name, "--json", "--include-existing"];
        let outcome = home.run(&[&wait[..], &["--text", "begun"]].concat());
        assert_code(&outcome, 0);
        let outcome: serde_json::Value = serde_json::from_slice(&outcome.stdout).unwrap();
        assert_eq!(outcome["pane"], pane.as_str(), "{outcome}");
    }
    let unknown = home.run(&["-S", &socket, "wait", "builds", "--text", "x"]);
    assert_code(&unknown, 2);
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_command_that_is_suspended_says_so_and_its_pane_is_a_shell_again() {
    let (home, pane) = observed_shell();
    typed(
        &home,
        "own",
        "td-observe run sh -c 'echo be\"gun\"; sleep 600'",
    );
    home.server.wait_for_text(&pane, "begun");
    wait_for_kinds(&home, &["command"]);
    let suspend = || {
        home.server.tmux(&["send-keys", "-t", "=own:", "C-z"]);
        wait_for("a suspended command", CEILING, || {
            let rows = wait_for_kinds(&home, &["command", "pane"]);
            let is_told = rows[0]["state"] == "suspended" && rows[0]["attention"] == "needs_you";
            is_told.then_some(()).ok_or(rows)
        });
    };
    suspend();
    typed(&home, "own", "fg");
    let rows = wait_for_kinds(&home, &["command"]);
    assert_eq!(rows[0]["state"], "running", "{rows:?}");
    // Without an observer, and for the next one.
    suspend();
    assert_code(&home.run(&["stop"]), 0);
    let suspended = home
        .rows()
        .into_iter()
        .filter(|row| row["state"] == "suspended");
    assert_eq!(suspended.count(), 1);
    home.start();
    let rows = wait_for_kinds(&home, &["command", "pane"]);
    assert_eq!(rows[0]["state"], "suspended", "{rows:?}");
    typed(&home, "own", "fg");
    wait_for_kinds(&home, &["command"]);
    home.server.tmux(&["send-keys", "-t", "=own:", "C-c", ""]);
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn an_agent_in_a_command_is_the_row_of_its_pane_and_can_be_asked() {
    let (home, pane) = observed_shell();
    let script = home.server.directory().join("agent.sh");
    std::fs::write(&script, AGENT).unwrap();
    let line = format!(
        "td-observe run --pty --stdin bash -c 'exec -a claude bash {}'",
        script.display()
    );
    typed(&home, "own", &line);
    home.server.wait_for_text(&pane, "(0)");
    let the_row = |state: &str| {
        wait_for(state, CEILING, || {
            let rows = home.rows();
            let is_it = rows.len() == 1
                && rows[0]["pane"] == pane.as_str()
                && rows[0]["agent"] == "claude"
                && rows[0]["state"] == state
                // The process is found, not only its screen.
                && rows[0]["evidence"] == "confirmed";
            is_it.then(|| rows[0].clone()).ok_or(rows)
        })
    };
    the_row("idle");
    typed(&home, "own", "working");
    the_row("working");
    typed(&home, "own", "waiting");
    let row = the_row("waiting");
    assert_eq!(row["asks"], "rm -rf build", "{row}");
    // The agent is found by the name of the command, too.
    let board = home.run(&["status", "--json", "own"]);
    assert_code(&board, 0);
    let command = format!("bash -c 'exec -a claude bash {}'", script.display());
    for name in ["own", &command] {
        let asked = home.run(&["ask", name, "go on"]);
        assert_code(&asked, 2);
        let why = text(&asked.stderr);
        assert!(why.contains("waits for an answer to"), "{why}");
    }
    typed(&home, "own", "1");
    the_row("done");
    home.server.tmux(&["send-keys", "-t", "=own:", "C-d", ""]);
    wait_for("the shell", CEILING, || {
        let rows = home.rows();
        let own = rows.iter().find(|row| row["pane"] == pane.as_str());
        let is_shell = own.is_some_and(|own| own["agent"] == "shell");
        is_shell.then_some(()).ok_or(rows)
    });
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_loop_that_runs_in_a_pane_and_the_pane_are_one_row() {
    let (home, pane) = observed_shell();
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
