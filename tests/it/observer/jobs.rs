//! Jobs of shells on the board: a script is work, and a failure is news.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use super::Home;
use crate::cli::assert_code;
use crate::support::CEILING;

fn types(home: &Home, text: &str) {
    home.server
        .tmux(&["send-keys", "-t", "sh", "-l", "--", text]);
    home.server.tmux(&["send-keys", "-t", "sh", "Enter"]);
}

#[test]
fn a_script_is_work_and_its_failure_is_news() {
    let home = Home::new();
    let pane = home
        .server
        .new_session("sh", 80, 24, "PS1='$ ' exec bash --norc");
    home.server.wait_for_text(&pane, "$");
    home.start();
    home.wait_for_row("sh", |row| row["state"] == "idle");

    types(&home, "sh -c 'echo building; read x; echo broken; exit 2'");
    home.server.wait_for_text(&pane, "\nbuilding");
    home.wait_for_row("sh", |row| row["attention"] == "working");
    let socket = home.server.socket().display().to_string();
    let wait = [
        "-S",
        &socket,
        "wait",
        "sh",
        "--state",
        "idle",
        "--timeout",
        "1s",
    ];
    assert_code(&home.run(&wait), 124);
    // A wait that begins while the script runs ends with it.
    let mut stream = UnixStream::connect(home.socket()).unwrap();
    stream.set_read_timeout(Some(CEILING)).unwrap();
    let body = r#"{"target":"sh","state":["idle"],"timeout_ms":20000}"#;
    let length = body.len();
    let head =
        format!("POST /api/v1/wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n");
    write!(stream, "{head}Accept: application/x-ndjson\r\n\r\n{body}").unwrap();
    let mut answer = BufReader::new(stream).lines().map(Result::unwrap);
    assert!(answer.any(|line| line.contains("begun")));
    types(&home, "go on");
    let outcome = answer.find(|line| line.contains("outcome"));
    assert!(
        outcome.as_ref().is_some_and(|line| line.contains("idle")),
        "{outcome:?}"
    );
    let row = home.wait_for_row("sh", |row| row["state"] == "failed");
    assert_eq!(
        (&row["exit_status"], &row["last_line"]),
        (&2.into(), &"broken".into())
    );
    assert_eq!(row["attention"], "finished", "it was short");
    // The shell is at its prompt.
    assert_code(&home.run(&wait), 0);

    types(&home, "sleep 1");
    home.wait_for_row("sh", |row| {
        row["state"] == "idle" && row["attention"] == "quiet"
    });
    assert_code(&home.run(&["stop"]), 0);
}
