//! The rows of a tmux server that has ended are one row, which can be opened.

use serde_json::Value;

use super::Home;
use crate::cli::{assert_code, text};
use crate::support::{CEILING, TmuxServer, wait_for};
use crate::tui::Stage;

#[test]
fn the_rows_of_a_server_that_has_ended_are_one_that_can_be_opened() {
    let mut stage = Stage::new();
    let tmux = |args: &[&str]| stage.home.server.tmux(args);
    stage.home.server.new_session("keep", 80, 24, "exec cat");
    for name in ["api", "web", "docs", "logs"] {
        stage.home.server.new_session(name, 80, 24, "exec cat");
    }
    tmux(&["split-window", "-t", "=web:", "exec cat"]);
    stage.home.start();
    let running = |row: &Value| row["state"] == "running";
    for name in ["keep", "api", "docs", "logs", "web"] {
        stage.home.wait_for_row(name, running);
    }
    // This one ends by itself, before the server.
    tmux(&["kill-session", "-t", "=keep:"]);
    let ended = |row: &Value| row["ended"] == true;
    stage.home.wait_for_row("keep", ended);
    tmux(&["kill-server"]);
    let socket = stage.home.server.socket().display().to_string();
    let server = format!("server {}", socket.rsplit('/').next().unwrap());
    let words = format!("{server} ended, 5 panes");
    for is_observed in [true, false] {
        let table = wait_for("the row of the server", CEILING, || {
            let table = text(&stage.home.run(&["status"]).stdout);
            table.contains(&words).then_some(table.clone()).ok_or(table)
        });
        let lines: Vec<&str> = table.lines().collect();
        // The header, the row of the server, that of `keep`, and the counts.
        assert_eq!(lines.len(), 4, "{table}");
        assert!(
            lines[1..3].iter().any(|line| line.starts_with("keep ")),
            "{table}"
        );
        assert!(lines[3].contains("6 finished"), "{table}");
        // Each row is there for programs, with `--all`, and by its name or that of the server.
        let json = text(&stage.home.run(&["status", "--json"]).stdout);
        let rows: Vec<Value> = (json.lines())
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let gone = rows.iter().filter(|row| row["server_gone"] == true);
        assert_eq!((rows.len(), gone.count()), (6, 5), "{json}");
        for (args, count) in [
            (&["status", "--all"][..], 6),
            (&["status", &server], 5),
            (&["status", "api"], 1),
        ] {
            let status = stage.home.run(args);
            assert_code(&status, 0);
            let table = text(&status.stdout);
            assert!(!table.contains(&words), "{table}");
            assert_eq!(table.lines().count(), count + 2, "{table}");
        }
        if is_observed {
            stage.run((120, 30), "", "tui");
            let screen = stage.shows(&words);
            assert!(screen.contains("2 rows"), "{screen}");
            stage.types(&format!(":open {server}"));
            stage.keys(&["Enter"]);
            stage.shows(&format!("output {words}"));
            // Back on the board.
            stage.keys(&["Tab", "Enter"]);
            let screen = stage.shows("6 rows");
            for name in ["api", "web", "docs", "logs", "keep"] {
                assert!(screen.contains(&format!(" {name}")), "{name}: {screen}");
            }
            stage.types("q");
            stage.shows("code=0");
            assert_code(&stage.home.run(&["stop"]), 0);
        }
    }
}

#[test]
fn a_server_that_ends_unobserved_is_one_row_as_well() {
    let home = Home::new();
    let kept = TmuxServer::new();
    kept.new_session("kept", 80, 24, "exec cat");
    for name in ["keep", "api", "web", "docs"] {
        home.server.new_session(name, 80, 24, "exec cat");
    }
    let kept_socket = kept.socket().display().to_string();
    let running = |row: &Value| row["state"] == "running";
    let start = || home.start_with(&["-S", &kept_socket]);
    start();
    for name in ["kept", "keep", "api", "docs", "web"] {
        home.wait_for_row(name, running);
    }
    // This one ends by itself, before the server.
    home.server.tmux(&["kill-session", "-t", "=keep:"]);
    home.wait_for_row("keep", |row| row["ended"] == true);
    assert_code(&home.run(&["stop"]), 0);
    home.server.tmux(&["kill-server"]);
    let socket = home.server.socket().display().to_string();
    let words = format!(
        "server {} ended, 3 panes",
        socket.rsplit('/').next().unwrap()
    );
    let folded = || {
        let table = text(&home.run(&["status"]).stdout);
        assert!(table.contains(&words), "{table}");
        // The header, the row of the server, those of `keep` and `kept`, and the counts.
        assert_eq!(table.lines().count(), 5, "{table}");
    };
    // Also while nothing observes, and with a later server at the socket.
    folded();
    start();
    home.wait_for_row("kept", running);
    folded();
    home.server.new_session("later", 80, 24, "exec cat");
    home.wait_for_row("later", running);
    home.server.tmux(&["kill-session", "-t", "=later:"]);
    assert_code(&home.run(&["stop"]), 0);
}
