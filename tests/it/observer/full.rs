//! An observer whose history cannot be written, because its disk is full.

use std::fs;

use super::{Home, request};
use crate::cli::{assert_code, text};
use crate::support::{CEILING, wait_for};
use crate::writer::SmallDisk;

#[test]
fn a_history_that_cannot_be_written_is_reported_and_a_session_has_one_row() {
    let home = Home::new();
    let Some(_disk) = SmallDisk::mount(&home.data(), "size=1m") else {
        return;
    };
    home.server.new_session("early", 80, 24, "exec cat");
    home.start();
    let healthz = || request(&home.socket(), "GET /healthz HTTP/1.1\r\n\r\n");
    let health = healthz();
    assert!(health.contains("\"status\":\"ok\""), "{health}");
    let filler = home.data().join("filler");
    // The disk takes less than this.
    fs::write(&filler, vec![0; 1 << 20]).unwrap_err();
    home.server.new_session("late", 80, 24, "exec cat");
    wait_for("the report", CEILING, || {
        let status = home.run(&["status"]);
        assert_code(&status, 0);
        let stderr = text(&status.stderr);
        let is_reported = stderr.contains("the history cannot be written: late@")
            && stderr.contains("No space left");
        let is_there = text(&status.stdout).contains("\nlate ");
        (is_reported && is_there).then_some(()).ok_or(status)
    });
    let health = healthz();
    assert!(health.contains("\"status\":\"degraded\""), "{health}");
    assert!(health.contains("No space left"), "{health}");
    assert_eq!(home.rows().len(), 2);
    let stop = home.run(&["stop"]);
    assert_code(&stop, 0);
    let stderr = text(&stop.stderr);
    assert!(stderr.contains("late@"), "{stderr}");
    assert!(stderr.contains("could not be written"), "{stderr}");
    fs::remove_file(&filler).unwrap();
    home.start();
    home.wait_for_row("late", |row| row["state"] == "running");
    assert_eq!(home.rows().len(), 2, "{:#?}", home.rows());
    assert_code(&home.run(&["stop"]), 0);
}

#[test]
fn a_second_start_says_which_options_the_running_observer_does_not_take() {
    let home = Home::new();
    home.server.new_session("build", 80, 24, "exec cat");
    let pid = home.start_with(&["--keep-runs", "7"]);
    for (options, others) in [
        (&["--keep-runs", "7"][..], None),
        (
            &["--keep-runs", "8", "--source", "poll"],
            Some("--keep-runs, --source"),
        ),
        (&["--agents", "/tmp"], Some("--agents")),
    ] {
        let again = home.run(&[&["start"], options].concat());
        assert_code(&again, 0);
        assert!(
            text(&again.stdout).contains(&format!("pid {pid}")),
            "{again:?}"
        );
        let stderr = text(&again.stderr);
        match others {
            None => assert_eq!(stderr, ""),
            Some(others) => assert!(stderr.contains(&format!("take {others}:")), "{stderr}"),
        }
    }
    assert_code(&home.run(&["stop"]), 0);
}
