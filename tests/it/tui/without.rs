//! Starts without arguments, without a terminal that can show the UI, and without a board that it can read.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::Stage;
use crate::cli::{assert_code, text};

#[test]
fn without_arguments_on_a_terminal_the_program_shows_the_ui() {
    let mut stage = Stage::new();
    // Without an option, the variable names the server.
    let socket = stage.home.server.socket();
    stage.home.server.new_session("job", 80, 24, "exec cat");
    stage.run((120, 30), &format!("TMUX={},1,0", socket.display()), "");
    stage.shows("output job %0");
    stage.types("q");
    stage.ended(0);
    stage.left_nothing();
}

#[test]
fn without_a_terminal_there_is_one_line() {
    let usage = String::from_utf8(Stage::new().home.run(&[]).stderr).unwrap();
    assert_eq!(usage.lines().count(), 1, "{usage}");
    let refused = "td-observe: tui: standard input and output are no terminal";
    for (environment, line, expected) in [
        ("TERM=dumb", "td-observe", usage.trim()),
        ("", "td-observe | cat", usage.trim()),
        ("TERM=dumb", "td-observe tui", refused),
        ("", "td-observe tui | cat", refused),
    ] {
        let mut stage = Stage::new();
        let script = format!(
            "cd $HOME; bash -c 'exec 2> complaints; set -o pipefail; {line}'; echo code=$?; echo over; exec cat"
        );
        fs::write(stage.home.directory().join("script.sh"), script).unwrap();
        stage.run((120, 30), environment, "");
        let screen = stage.shows("over");
        let is_help = screen.contains("Exit codes:") && !line.contains(" tui");
        assert!(
            screen.ends_with("code=2\nover") && (is_help || line.contains(" tui")),
            "{screen}"
        );
        let complaints = fs::read_to_string(stage.home.directory().join("complaints")).unwrap();
        assert_eq!(complaints.lines().count(), 1, "{line}: {complaints}");
        assert!(complaints.starts_with(expected), "{line}: {complaints}");
        stage.left_nothing();
    }
}

/// Announces an observer whose answer to each request is an empty object. The returned lock keeps it running.
fn start_unreadable_observer(data: &Path) -> fs::File {
    fs::create_dir_all(data).unwrap();
    let mut private = fs::OpenOptions::new();
    private.write(true).create_new(true).mode(0o600);
    let lock = private.open(data.join("observer.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let socket = data.join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            // The request ends with an empty line, or with its client.
            let is_head =
                |line: &std::io::Result<String>| line.as_ref().is_ok_and(|line| !line.is_empty());
            lines.take_while(is_head).for_each(drop);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        }
    });
    let known = serde_json::json!({
        "pid": 0, "socket": socket, "data_dir": data, "servers": [], "version": "0",
        "started": "2026-11-27T00:00:00.000000Z",
    });
    let mut announcement = private.open(data.join("observer.json")).unwrap();
    announcement
        .write_all(known.to_string().as_bytes())
        .unwrap();
    lock
}

#[test]
fn a_board_that_cannot_be_read_is_reported_with_its_cause() {
    let mut stage = Stage::new();
    let lock = start_unreadable_observer(&stage.home.data());
    let why = "the observer's board cannot be read: invalid type: map, expected a sequence";
    let status = stage.home.run(&["status"]);
    assert_code(&status, 0);
    let complaint = text(&status.stderr);
    assert!(complaint.contains(why), "{complaint}");
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    stage.start((160, 30), "");
    stage.shows(why);
    stage.types("q");
    stage.ended(0);
    drop(lock);
}
