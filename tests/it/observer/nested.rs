//! Panes in which a tmux client shows other panes: such a pane is a view of them, and no second agent.

use serde_json::Value;

use super::Home;
use crate::cli::{assert_code, text};
use crate::states;
use crate::support::TmuxServer;

/// Opens a session with a shell.
/// Types a command line that attaches a client to the session of the agent.
fn attach(home: &Home, pane: &str, inner: &TmuxServer, form: (&str, &str)) {
    let (before, after) = form;
    let attach = format!(
        "{before}env -u TMUX tmux -S {} attach -t =agent{after}",
        inner.socket().display()
    );
    home.server.types(pane, &attach);
    home.server.wait_for_text(pane, "2. No, and tell Claude");
}

fn waiting(home: &Home) -> Vec<String> {
    let rows = home.rows().into_iter();
    let rows = rows.filter(|row| row["state"] == "waiting");
    rows.map(|row| row["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Returns the states of agents in the history of a session, each with its agent.
fn states_of(home: &Home, session: &str) -> Vec<(String, String)> {
    let log = home.run(&["log", session, "--type", "AgentState", "--json"]);
    assert_code(&log, 0);
    let lines = text(&log.stdout);
    let events = lines.lines().map(|line| {
        let envelope: Value = serde_json::from_str(line).unwrap();
        let part = |name: &str| envelope["event"][name].as_str().unwrap().to_owned();
        (part("agent"), part("state"))
    });
    events.collect()
}

fn is_view(row: &Value) -> bool {
    row["agent"] == "tmux"
        && row["state"] == "idle"
        && row["attention"] == "quiet"
        && row["last_line"] == "a view of agent"
}

#[test]
fn a_pane_that_shows_another_observed_pane_is_no_second_agent() {
    let home = Home::new();
    let inner = TmuxServer::new();
    let agent = states::start(&inner);
    states::set_state(&inner, &agent, "waiting");
    inner.wait_for_text(&agent, "2. No, and tell Claude");
    let pane = home.server.shell("outer");
    home.start_with(&["-S", &inner.socket().display().to_string()]);
    home.wait_for_row("agent", |row| row["state"] == "waiting");
    home.wait_for_row("outer", |row| row["state"] == "idle");

    // The client leads the job, or a script runs it.
    for form in [("", ""), ("sh -c '", "; true'")] {
        attach(&home, &pane, &inner, form);
        home.wait_for_row("outer", is_view);
        assert_eq!(waiting(&home), ["agent"]);
        let asked = home.run(&["ask", "outer", "fix it"]);
        assert_code(&asked, 2);
        let error = text(&asked.stderr);
        assert!(error.contains("a view of agent"), "{error}");
        // What happens there happens once.
        states::set_state(&inner, &agent, "working");
        home.wait_for_row("agent", |row| row["state"] == "working");
        states::set_state(&inner, &agent, "waiting");
        home.wait_for_row("agent", |row| row["state"] == "waiting");
        assert_eq!(waiting(&home), ["agent"]);
        home.wait_for_row("outer", is_view);
        inner.tmux(&["detach-client", "-s", "=agent"]);
        home.wait_for_row("outer", |row| {
            row["agent"] == "shell" && row["state"] == "idle"
        });
    }
    let states = states_of(&home, "outer");
    let is_own = |(agent, _): &(String, String)| ["shell", "tmux"].contains(&agent.as_str());
    assert!(states.iter().all(is_own), "{states:?}");
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_pane_that_shows_a_pane_of_its_own_server_is_no_second_agent() {
    for source in ["auto", "poll"] {
        let home = Home::new();
        let agent = states::start(&home.server);
        states::set_state(&home.server, &agent, "waiting");
        let pane = home.server.shell("outer");
        attach(&home, &pane, &home.server, ("", ""));
        // The client was there before the observer.
        home.start_with(&["--source", source]);
        home.wait_for_row("agent", |row| row["state"] == "waiting");
        home.wait_for_row("outer", is_view);
        assert_eq!(waiting(&home), ["agent"]);
        let states = states_of(&home, "outer");
        assert_eq!(states, [("tmux".to_owned(), "idle".to_owned())]);
        assert_code(&home.run(&["stop"]), 0);
    }
}

#[test]
fn a_pane_that_shows_a_pane_which_nothing_observes_is_its_agent() {
    let home = Home::new();
    let inner = TmuxServer::new();
    let agent = states::start(&inner);
    states::set_state(&inner, &agent, "waiting");
    let pane = home.server.shell("outer");
    home.start();
    home.wait_for_row("outer", |row| row["state"] == "idle");
    attach(&home, &pane, &inner, ("", ""));
    let row = home.wait_for_row("outer", |row| row["state"] == "waiting");
    assert_eq!(row["agent"], "claude", "{row}");
    assert_code(&home.run(&["stop"]), 0);
}
