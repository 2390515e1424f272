//! The schema describes the rows of a real board and the events behind them.

use std::path::Path;

use serde_json::Value;

use super::{Home, request};
use crate::cli::{assert_code, run, text};
use crate::schema::{check, check_board, check_row};
use crate::states;

/// Returns the rows that `status --json` prints of all runs of a data directory.
pub fn real_rows(data: &Path) -> Vec<Value> {
    let status = run(&["status", "--json"], data);
    assert_code(&status, 0);
    let lines = text(&status.stdout);
    let rows = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let rows: Vec<Value> = rows.collect();
    assert!(rows.len() > 3, "{rows:?}");
    rows
}

#[test]
fn the_schema_covers_a_real_board_and_its_events() {
    let home = Home::new();
    let agent = states::start(&home.server);
    home.server.new_session("ends", 80, 24, "exec sh");
    home.start();
    states::set_state(&home.server, &agent, "waiting");
    home.server
        .tmux(&["send-keys", "-t", "ends", "exit 3", "Enter"]);
    home.wait_for_row("agent", |row| row["state"] == "waiting");
    home.wait_for_row("ends", |row| row["exit_status"] == 3);
    for row in home.rows() {
        check_row(&row).unwrap_or_else(|why| panic!("{why}: {row}"));
    }
    let body = |path: &str| {
        let answer = request(
            &home.socket(),
            &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"),
        );
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str::<Value>(body).unwrap()
    };
    let board = body("/api/v1/board");
    assert_eq!(board.as_array().unwrap().len(), 2);
    check_board(&board).unwrap();
    assert_eq!(body("/api/v1/schema"), td_observe::board::json_schema());
    let printed = home.run(&["schema"]);
    assert_code(&printed, 0);
    assert_eq!(
        serde_json::from_slice::<Value>(&printed.stdout).unwrap(),
        td_observe::board::json_schema()
    );
    assert_code(&home.run(&["stop"]), 0);
    let log = home.run(&["log", "--json"]);
    let events = text(&log.stdout);
    for line in events.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        check(&line).unwrap_or_else(|why| panic!("{why}: {line}"));
    }
    assert!(events.lines().count() > 5, "{events}");
}
