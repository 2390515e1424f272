//! Failures and ends that a restart of the observer finds again.

use rustix::process::Signal;
use serde_json::Value;

use super::{Home, lives, signal};
use crate::cli::assert_code;

fn is_failed(row: &Value) -> bool {
    row["state"] == "failed"
}

#[test]
fn a_failure_is_news_after_a_restart_until_a_job_succeeds() {
    let home = Home::new();
    home.server.shell("sh");
    home.server.shell("agent");
    let mut pid = home.start();
    for name in ["sh", "agent"] {
        home.wait_for_row(name, |row| row["state"] == "idle");
    }
    home.server
        .types("sh", "sh -c 'echo broken; sleep 0.7; exit 2'");
    let file = home.directory().join("pid");
    let kept = file.display();
    home.server.types(
        "agent",
        &format!("(echo $BASHPID > {kept}; exec -a claude sleep 1000)"),
    );
    let failed = home.wait_for_row("sh", is_failed);
    home.wait_for_row("agent", |row| row["agent"] == "claude");
    let agent = std::fs::read_to_string(file).unwrap();
    signal(agent.trim().parse().unwrap(), Signal::KILL);
    let killed = home.wait_for_row("agent", is_failed);
    assert_eq!(
        (&failed["exit_status"], &killed["exit_status"]),
        (&2.into(), &137.into())
    );
    let shown = |row: &Value| {
        let fields = [
            "exit_status",
            "last_line",
            "attention",
            "since",
            "agent",
            "asks",
        ];
        fields.map(|field| row[field].clone())
    };
    for is_killed in [false, true] {
        if is_killed {
            signal(pid, Signal::KILL);
            lives::wait_for_end(&home);
        } else {
            assert_code(&home.run(&["stop"]), 0);
        }
        pid = home.start();
        for (name, before) in [("sh", &failed), ("agent", &killed)] {
            let row = home.wait_for_row(name, is_failed);
            assert_eq!(shown(&row), shown(before), "{name} after a restart");
        }
    }
    home.server.types("sh", "sleep 0.7");
    home.wait_for_row("sh", |row| row["state"] == "idle");
    assert_code(&home.run(&["stop"]), 0);
    home.start();
    home.wait_for_row("sh", |row| row["state"] == "idle");
    // What is dismissed stays so.
    home.wait_for_row("agent", is_failed);
    assert_code(&home.run(&["status", "--ack", "agent"]), 0);
    assert_code(&home.run(&["stop"]), 0);
    home.start();
    home.wait_for_row("agent", |row| is_failed(row) && row["attention"] == "quiet");
    assert_code(&home.run(&["stop"]), 0);
}

/// tmux keeps the pane of a program that has ended.
#[test]
fn the_failure_of_a_panes_own_program_is_news_after_a_restart() {
    let home = Home::new();
    home.server.new_session("keeper", 80, 24, "exec cat");
    home.server
        .tmux(&["set-option", "-g", "remain-on-exit", "on"]);
    home.start();
    home.server
        .new_session("ci", 80, 24, "echo broken; sleep 10.2; exit 3");
    let agent = crate::states::claude(&home.server);
    let agent = home.server.new_session("agent", 80, 24, &agent);
    home.wait_for_row("agent", |row| row["agent"] == "claude");
    let format = ["display-message", "-p", "-t", &agent, "#{pane_pid}"];
    let pid = home.server.tmux(&format).trim().parse().unwrap();
    signal(pid, Signal::KILL);
    let ended = |row: &Value| row["ended"] == true;
    let before = ["ci", "agent"].map(|name| home.wait_for_row(name, ended));
    assert_eq!(before[0]["exit_status"], 3);
    assert_eq!(before[1]["exit_status"], 137);
    for row in &before {
        assert_eq!(row["attention"], "needs_you");
    }
    for _ in 0..2 {
        assert_code(&home.run(&["stop"]), 0);
        home.start();
        for row in &before {
            let again = home.wait_for_row(row["name"].as_str().unwrap(), ended);
            for field in [
                "state",
                "exit_status",
                "attention",
                "since",
                "agent",
                "last_line",
                "asks",
            ] {
                assert_eq!(again[field], row[field], "{field} {row:#}");
            }
        }
    }
    assert_code(&home.run(&["stop"]), 0);
}
