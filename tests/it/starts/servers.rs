//! Agents in more than one tmux server: nested ones, those of agents' teams, and grouped sessions.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::agent;
use crate::cli::{assert_code, text};
use crate::observer::Home;
use crate::states;
use crate::support::{CEILING, TmuxServer, wait_for};

/// The status lines of the inner server are no part of the agent's screen, whatever they look like.
#[test]
fn the_status_lines_of_a_nested_tmux_say_nothing() {
    let home = Home::new();
    let looks = [
        "set -g status on",
        "set -g status-left 'my own | '",
        "set -g status 2",
        "set -g status-position top",
        "set -g status off",
    ];
    let inner: Vec<TmuxServer> = looks.iter().map(|_| TmuxServer::new()).collect();
    let names: Vec<String> = (1..=looks.len()).map(|one| format!("outer{one}")).collect();
    for ((server, look), name) in inner.iter().zip(looks).zip(&names) {
        states::start(server);
        server.script(&format!("{look}\n"));
        let socket = server.socket().display().to_string();
        let attach = format!("exec env -u TMUX tmux -S {socket} attach -t =agent");
        home.server.new_session(name, 80, 24, &attach);
    }
    home.start();
    for state in ["working", "waiting", "done", "idle"] {
        for (server, name) in inner.iter().zip(&names) {
            states::set_state(server, "=agent:", state);
            let is_shown = |row: &Value| row["agent"] == "claude" && row["state"] == state;
            let row = home.wait_for_row(name, is_shown);
            if state == "waiting" {
                let dialogue = &row["dialogue"];
                let shown = "Bash command\n\n  rm -rf build\n\nDo you want to proceed?";
                assert_eq!(dialogue["text"], shown, "{row}");
                let choices = dialogue["choices"].as_array();
                assert_eq!(choices.map(Vec::len), Some(2), "{row}");
            }
        }
    }
}

/// A tmux server with a name that agents give, in the directory of the sockets of a test. It ends with the test.
struct Team<'a>(&'a Home, &'static str);

impl Team<'_> {
    fn tmux(&self, args: &[&str]) {
        let mut tmux = Command::new("tmux");
        tmux.env("TMUX_TMPDIR", self.0.server.directory())
            .args(["-L", self.1, "-f", "/dev/null"])
            .args(args)
            .stderr(Stdio::null());
        // At the end of a test, there may be no server.
        let _ = tmux.status().unwrap();
    }
}

impl Drop for Team<'_> {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn the_servers_of_agents_teams_are_named() {
    let home = Home::new();
    home.server.new_session("work", 80, 24, "exec cat");
    let team = Team(&home, "claude-swarm-7");
    team.tmux(&["new-session", "-d", "-s", "swarm", "exec cat"]);
    let sentence = "a tmux server of an agent's team is not observed: claude-swarm-7;";
    let names_it = |args: &[&str]| {
        let output = home.run(args);
        assert_code(&output, 0);
        text(&output.stderr).contains(sentence)
    };
    let socket = home.server.socket().display().to_string();
    assert!(names_it(&["start", "-S", &socket]));
    assert!(names_it(&["status"]) && names_it(&["status", "--json"]));
    // The file of a server that has ended may remain.
    team.tmux(&["kill-server"]);
    // The server ends after its client.
    let ended = || (!names_it(&["status"])).then_some(()).ok_or("it is named");
    wait_for("the end of the server", CEILING, ended);
    assert_code(&home.run(&["stop"]), 0);
    team.tmux(&["new-session", "-d", "-s", "swarm", "exec cat"]);
    assert!(!names_it(&["start", "-S", &socket, "-L", "claude-swarm-7"]));
    home.wait_for_row("swarm", |row| row["agent"] == "cat");
    assert_code(&home.run(&["stop"]), 0);
}

/// The sessions of a group share their windows, so one of them is observed.
#[test]
fn a_grouped_session_is_named_by_the_attached_one() {
    let home = Home::new();
    let claude = agent(&home, "claude");
    let command = format!("exec bash -c '{claude}'");
    home.server.new_session("base", 80, 24, &command);
    let tmux = |args: &[&str]| home.server.tmux(args);
    tmux(&["new-session", "-d", "-t", "base", "-s", "other"]);
    let viewer = TmuxServer::new();
    let attach = |session: &str| {
        let socket = home.server.socket().display().to_string();
        let command = format!("exec env -u TMUX tmux -S {socket} attach -t ={session}");
        viewer.new_session(session, 80, 24, &command);
        viewer.wait_for_text(&format!("={session}:"), "(0)");
    };
    home.start();
    home.wait_for_row("base", |row| row["agent"] == "claude");
    attach("other");
    let row = home.wait_for_row("other", |row| row["agent"] == "claude");
    assert_eq!(home.rows().len(), 1, "{row}");
    attach("base");
    home.wait_for_row("base", |row| row["agent"] == "claude");
    tmux(&["detach-client", "-s", "=base"]);
    home.wait_for_row("other", |row| row["agent"] == "claude");
    tmux(&["kill-session", "-t", "=other"]);
    home.wait_for_row("base", |row| row["agent"] == "claude");
    assert_code(&home.run(&["stop"]), 0);
}
