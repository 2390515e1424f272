//! The server beside observers that begin and end.

use std::io::Write;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::client::Client;
use crate::cli::assert_code;
use crate::observer::Home;

#[test]
fn tools_work_on_while_observers_come_and_go() {
    let home = Home::new();
    home.server.new_session("keep", 80, 20, "exec cat");
    let pane = home.server.new_session("job", 80, 20, "exec cat");
    let mut terminal = home.server.terminal(&pane);
    let mut client = Client::connected(&home, &[]);
    let first = client.tool("read_output", json!({"pane": "job"}));
    let mut cursor = first["cursor"].clone();
    // Each line is read once, whoever has observed it.
    let mut read = String::new();
    for round in 0..4 {
        match round {
            1 => drop(home.start()),
            2 => {
                let pid = i32::try_from(home.pid()).unwrap();
                kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
            }
            3 => {
                home.start();
                assert_code(&home.run(&["stop"]), 0);
            }
            _ => {}
        }
        // The next observer has found the pane once it tells what it prints.
        client.tool("list_panes", json!({"pane": "job"}));
        let line = format!("line of round {round}");
        terminal
            .write_all(format!("{line}\r\n").as_bytes())
            .unwrap();
        let wait = json!({"pane": "job", "text": line, "cursor": cursor, "timeout_ms": 9_000});
        let found = client.tool("wait_for", wait);
        assert_eq!(found["outcome"], "found", "{round}: {found}");
        let output = client.tool("read_output", json!({"pane": "job", "cursor": cursor}));
        read += output["output"].as_str().unwrap();
        read.push('\n');
        cursor = output["cursor"].clone();
    }
    for round in 0..4 {
        let count = read.matches(&format!("line of round {round}")).count();
        assert_eq!(count, 1, "{read}");
    }
    assert_code(&client.end(), 0);
}

#[test]
fn a_wait_outlives_the_private_observer_that_another_replaces() {
    let home = Home::new();
    home.server.new_session("keep", 80, 20, "exec cat");
    let pane = home.server.new_session("job", 80, 20, "exec cat");
    let mut terminal = home.server.terminal(&pane);
    let mut client = Client::connected(&home, &[]);
    let cursor = client.tool("read_output", json!({"pane": "job"}))["cursor"].clone();
    let wait = json!({"pane": "job", "text": "over", "cursor": cursor, "timeout_ms": 9_000});
    let call = client.call("wait_for", wait.clone());
    home.start();
    // The server changes to the new observer.
    client.tool("list_panes", json!({}));
    terminal.write_all(b"it is over\r\n").unwrap();
    let result = client.result(call);
    let content = &result["structuredContent"];
    // It may have to be asked anew, and misses nothing then.
    if result["isError"] == true {
        assert!(
            content["advice"].as_str().unwrap().contains("call again"),
            "{result}"
        );
        assert_eq!(client.tool("wait_for", wait)["outcome"], "found");
    } else {
        assert_eq!(content["outcome"], "found", "{result}");
    }
    assert_code(&client.end(), 0);
}

#[test]
fn two_servers_without_an_observer_see_the_same_panes() {
    let home = Home::new();
    home.server.new_session("keep", 80, 20, "exec cat");
    let pane = home.server.new_session("job", 80, 20, "exec cat");
    let mut terminal = home.server.terminal(&pane);
    let mut clients = [0, 1].map(|_| Client::connected(&home, &[]));
    for (number, client) in (0..).zip(&mut clients) {
        let rows = client.tool("list_panes", json!({}));
        assert_eq!(rows["total"], 2, "{rows}");
        let cursor = client.tool("read_output", json!({"pane": "job"}))["cursor"].clone();
        let line = format!("for client {number}");
        terminal
            .write_all(format!("{line}\r\n").as_bytes())
            .unwrap();
        let wait = json!({"pane": "job", "text": line, "cursor": cursor, "timeout_ms": 9_000});
        let found = client.tool("wait_for", wait);
        assert_eq!(found["outcome"], "found", "{number}: {found}");
        let output = client.tool("read_output", json!({"pane": "job", "cursor": cursor}));
        assert_eq!(
            output["output"].as_str().unwrap().matches(&line).count(),
            1,
            "{output}"
        );
    }
}
