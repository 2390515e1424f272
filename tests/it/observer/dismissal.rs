//! Rows that the user dismisses: by the API and by `status --ack`, until their next change.

use serde_json::json;

use super::{Home, post};
use crate::cli::{assert_code, text};

/// Returns the path of a row's dismissal.
fn path(row: &serde_json::Value) -> String {
    let id = row["id"].as_str().unwrap();
    let id = id.replace('%', "%25").replace(' ', "%20");
    format!("/api/v1/rows/{id}/dismiss")
}

#[test]
fn rows_are_dismissed_by_the_api_and_the_program_and_a_restart_remembers_it() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    home.server
        .new_session("short", 80, 24, "read line; exit 3");
    home.start();
    let row = home.wait_for_row("build", |row| row["attention"] == "working");
    let (status, answer) = post(&home.socket(), &path(&row), r#"{"dismissed":true}"#);
    assert_eq!((status, &answer["dismissed"]), (200, &json!(true)));
    home.wait_for_row("build", |row| {
        row["dismissed"] == true && row["attention"] == "quiet"
    });
    let (status, _) = post(&home.socket(), &path(&row), r#"{"dismissed":false}"#);
    assert_eq!(status, 200);
    home.wait_for_row("build", |row| row["attention"] == "working");
    for (id, body, expected) in [
        ("nothing", r#"{"dismissed":true}"#, 404),
        ("nothing", "{}", 400),
        ("nothing", r#"{"dismissed":true,"more":1}"#, 400),
    ] {
        let path = format!("/api/v1/rows/{id}/dismiss");
        assert_eq!(post(&home.socket(), &path, body).0, expected, "{body}");
    }
    // An execution that has ended can be dismissed, too.
    home.server
        .tmux(&["send-keys", "-t", "short", "x", "Enter"]);
    home.wait_for_row("short", |row| row["exit_status"] == 3);
    assert_code(
        &home.run(&["status", "--ack", "short", "--ack", "build"]),
        0,
    );
    let is_dismissed = |row: &serde_json::Value| row["dismissed"] == true;
    home.wait_for_row("short", is_dismissed);
    home.wait_for_row("build", is_dismissed);
    let missing = home.run(&["status", "--ack", "biuld"]);
    assert_code(&missing, 2);
    assert!(text(&missing.stderr).contains("build"), "{missing:?}");
    assert_code(&home.run(&["stop"]), 0);
    assert_code(&home.run(&["status", "--ack", "build"]), 3);
    home.start();
    let row = home.wait_for_row("short", is_dismissed);
    assert_eq!(
        (&row["exit_status"], &row["attention"]),
        (&json!(3), &json!("quiet"))
    );
    let runs = text(&home.run(&["runs"]).stdout);
    assert!(!runs.contains("cut off"), "{runs}");
}
