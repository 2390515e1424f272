//! `watch --lines`: the last lines of the first screens are shown and stored.

use serde_json::Value;

use crate::cli::{Running, after_opening, assert_code, on, program, run, text};
use crate::support::TmuxServer;

#[test]
fn the_last_lines_before_the_observation_are_stored_once() {
    for source in ["poll", "stream"] {
        let server = TmuxServer::new();
        let data = server.directory().join("data");
        let pane = server.new_session("job", 80, 24, "seq 1 9; exec cat");
        server.wait_for_text(&pane, "9");
        let socket = server.socket().display().to_string();
        let watch = |more: &[&str]| {
            let args = [
                &["watch", "job", "--source", source, "--execution-id", "it"],
                more,
            ]
            .concat();
            Running::start(program(&on(&socket, &args), &data))
        };
        let end = |running: Running| {
            running.signal(rustix::process::Signal::INT);
            let output = running.end();
            assert_code(&output, 0);
            output
        };
        let mut first = watch(&["--lines", "3", "--json"]);
        first.wait_for("OutputUpdate");
        server.tmux(&["send-keys", "-t", &pane, "new", "Enter"]);
        first.wait_for("new");
        let lines: Vec<Value> = text(after_opening(&end(first).stdout))
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let update = lines
            .iter()
            .find(|line| line["event"]["type"] == "OutputUpdate")
            .unwrap();
        assert_eq!(update["event"]["chunk"], "7\n8\n9\n", "{source}");
        assert_eq!(update["event"]["first_line"], -2, "{source}");
        // The console shows them once, and they are not stored again.
        let mut second = watch(&["--lines", "3"]);
        second.wait_for("new");
        server.tmux(&["send-keys", "-t", &pane, "more", "Enter"]);
        second.wait_for("more");
        let shown = text(&end(second).stdout);
        assert!(shown.matches("| new").count() <= 2, "{source}: {shown}");
        let logged = text(&run(&["log", "it"], &data).stdout);
        for line in ["| 7\n", "| 8\n", "| 9\n"] {
            assert_eq!(logged.matches(line).count(), 1, "{source}: {logged}");
        }
        assert!(!logged.contains("| 6\n"), "{source}: {logged}");
        let exported = text(&run(&["export", "it", "--format", "text"], &data).stdout);
        assert!(exported.starts_with("7\n8\n9\n"), "{source}: {exported}");
    }
}

#[test]
fn the_console_shows_each_line_once() {
    let server = TmuxServer::new();
    let data = server.directory().join("data");
    let pane = server.new_session("job", 80, 24, "seq 1 9; exec cat");
    server.wait_for_text(&pane, "9");
    let socket = server.socket().display().to_string();
    let args = on(&socket, &["watch", "job", "--lines", "3"]);
    let mut running = Running::start(program(&args, &data));
    running.wait_for("watching");
    server.tmux(&["send-keys", "-t", &pane, "new", "Enter"]);
    running.wait_for("new");
    running.signal(rustix::process::Signal::INT);
    let shown = text(&running.end().stdout);
    for line in ["| 8\n", "| 9\n"] {
        assert_eq!(shown.matches(line).count(), 1, "{shown}");
    }
    let logged = text(&run(&["log", "job"], &data).stdout);
    assert_eq!(logged.matches("| 9\n").count(), 1, "{logged}");
}
