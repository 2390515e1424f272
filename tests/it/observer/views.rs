//! Panes that are viewed through attached clients: a finished pane needs no attention there.

use serde_json::Value;

use super::{Home, request};
use crate::cli::{assert_code, text};
use crate::states;
use crate::support::{CEILING, TmuxServer, wait_for};

/// A client of a server, in a terminal that another server provides.
struct Client<'a> {
    server: &'a TmuxServer,
    terminal: TmuxServer,
}

impl<'a> Client<'a> {
    fn attach(server: &'a TmuxServer, session: &str) -> Self {
        let terminal = TmuxServer::new();
        let socket = server.socket();
        let command = format!(
            "exec env -u TMUX tmux -S {} attach -t ={session}",
            socket.display()
        );
        terminal.new_session("client", 80, 24, &command);
        let client = Self { server, terminal };
        client.wait_for(session);
        client
    }

    fn switch_to(&self, session: &str) {
        let client = self.server.tmux(&["list-clients", "-F", "#{client_name}"]);
        let target = format!("={session}");
        let args = ["switch-client", "-c", client.trim(), "-t", &target];
        self.server.tmux(&args);
        self.touch();
        self.wait_for(session);
    }

    /// Presses a key that tmux itself takes, in a later second than that of the attach: tmux counts in seconds.
    fn touch(&self) {
        wait_for("a key", CEILING, || {
            let keys = ["send-keys", "-t", "client", "C-b", "F11"];
            self.terminal.tmux(&keys);
            let times = "#{e|>:#{client_activity},#{client_created}}";
            let is_touched = self.server.tmux(&["list-clients", "-F", times]);
            (is_touched.trim() == "1").then_some(()).ok_or(is_touched)
        });
    }

    fn wait_for(&self, session: &str) {
        wait_for("the client's session", CEILING, || {
            let clients = self.server.tmux(&["list-clients", "-F", "#{session_name}"]);
            (clients.trim() == session).then_some(()).ok_or(clients)
        });
    }
}

/// Returns the recorded views of a session's panes.
fn views(home: &Home, session: &str) -> Vec<Value> {
    let log = home.run(&["log", "--type", "PaneSeen", "--json"]);
    assert_code(&log, 0);
    let lines = text(&log.stdout);
    let events = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let events = events.map(|envelope| envelope["event"].clone());
    let of_session = |event: &Value| {
        let id = event["execution_id"].as_str().unwrap();
        id.starts_with(&format!("{session}@"))
    };
    events
        .filter(|event| event["type"] == "PaneSeen" && of_session(event))
        .collect()
}

/// Ends a turn of the agent that nobody looks at.
fn finish(home: &Home, agent: &str) {
    states::set_state(&home.server, agent, "working");
    home.wait_for_row("agent", |row| row["state"] == "working");
    states::set_state(&home.server, agent, "done");
    home.wait_for_row("agent", |row| {
        row["state"] == "done" && row["attention"] == "finished"
    });
}

#[test]
fn a_pane_shown_by_a_client_needs_no_attention_when_it_has_finished() {
    let home = Home::new();
    let server = &home.server;
    let agent = states::start(server);
    server.new_session("other", 80, 24, "exec cat");
    server.tmux(&["new-session", "-d", "-t", "=agent", "-s", "grouped"]);
    home.start();
    let row_is = |state: &str, attention: &str| {
        home.wait_for_row("agent", |row| {
            row["state"] == state && row["attention"] == attention
        })
    };
    let finish = |attention: &str| {
        states::set_state(server, &agent, "working");
        row_is("working", "working");
        states::set_state(server, &agent, "done");
        row_is("done", attention)
    };
    finish("finished");

    // Another session is viewed.
    let client = Client::attach(server, "other");
    wait_for("a view of the other session", CEILING, || {
        let views = views(&home, "other");
        (!views.is_empty()).then_some(()).ok_or(views)
    });
    assert_eq!(row_is("done", "finished")["seen"], Value::Null);

    client.switch_to("agent");
    assert!(row_is("done", "quiet")["seen"].is_string());
    assert_eq!(
        views(&home, "agent"),
        [
            serde_json::json!({"type": "PaneSeen", "execution_id": views(&home, "agent")[0]["execution_id"],
            "pane": agent, "by": "client"})
        ]
    );
    // Work that ends in view of the user counts as seen at once; other news within a minute.
    finish("quiet");
    assert_eq!(views(&home, "agent").len(), 2);

    client.switch_to("other");
    finish("finished");
    // A session of the same group has the same windows, and names them while it is attached.
    client.switch_to("grouped");
    let row_is = |state: &str| {
        home.wait_for_row("grouped", |row| {
            row["state"] == state && row["attention"] == "quiet"
        })
    };
    row_is("done");
    assert_eq!(views(&home, "agent").len(), 3);

    // The history still contains the views.
    assert_code(&home.run(&["stop"]), 0);
    row_is("not_observed");
    home.start();
    row_is("done");
}

#[test]
fn who_attaches_a_client_has_seen_what_it_shows_then_and_nothing_later() {
    let home = Home::new();
    let server = &home.server;
    let agent = states::start(server);
    home.start();
    finish(&home, &agent);
    let client = Client::attach(server, "agent");
    home.wait_for_row("agent", |row| row["attention"] == "quiet");

    // Nobody is looking any more.
    let attached = server.tmux(&["display-message", "-p", "%s"]);
    let attached: i64 = attached.trim().parse().unwrap();
    wait_for("six seconds", CEILING, || {
        let second = server.tmux(&["display-message", "-p", "%s"]);
        let second: i64 = second.trim().parse().unwrap();
        (second - attached >= 6).then_some(()).ok_or(second)
    });
    finish(&home, &agent);
    client.touch();
    home.wait_for_row("agent", |row| row["attention"] == "quiet");
}

#[test]
fn a_pane_shown_by_a_face_counts_as_seen() {
    let home = Home::new();
    let agent = states::start(&home.server);
    home.start();
    let screen = |method: &str, query: &str| {
        let path = format!("/api/v1/panes/{}/screen{query}", agent.replace('%', "%25"));
        let answer = request(&home.socket(), &format!("{method} {path} HTTP/1.1\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    };
    finish(&home, &agent);
    // A request without a body shows nothing.
    screen("HEAD", "?viewed=true");
    // A script is no person.
    screen("GET", "");
    assert_eq!(views(&home, "agent"), Vec::<Value>::new());
    screen("GET", "?viewed=true");
    let row = home.wait_for_row("agent", |row| row["attention"] == "quiet");
    let expected = serde_json::json!({"type": "PaneSeen", "execution_id": row["execution_id"],
        "pane": agent, "by": "face"});
    assert_eq!(views(&home, "agent"), [expected]);
    // The screen is still the same.
    screen("GET", "?viewed=true");
    assert_eq!(views(&home, "agent").len(), 1);
    // Work that has ended since counts as seen at once.
    finish(&home, &agent);
    screen("GET", "?viewed=true");
    home.wait_for_row("agent", |row| row["attention"] == "quiet");
    assert_eq!(views(&home, "agent").len(), 2);

    // Without an agent's process, the screen is still recorded.
    let log = home.run(&["log", "--type", "ScreenSnapshot", "--json"]);
    assert_code(&log, 0);
    let snapshots = text(&log.stdout);
    assert!(snapshots.contains("Baked for 1m 2s"), "{snapshots}");
}
