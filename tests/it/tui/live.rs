//! A running loop of another process in the UI.

use std::fs;

use super::{Stage, view_of};
use crate::cli::{Running, assert_code};

const AGENT: &str = "echo I think; echo it is fixed";

/// Fails once and passes then, each time after the test has seen its lines.
const CHECK: &str = "echo the check; echo not yet >&2
until test -e checked; do sleep 0.05; done
test -e failed || { touch failed; exit 1; }
until test -e done; do sleep 0.05; done
";

#[test]
fn a_loop_is_shown_as_it_happens() {
    let mut stage = Stage::new();
    let home = &stage.home;
    home.server.new_session("job", 80, 24, "exec cat");
    stage.start((140, 40), "");
    stage.shows("output job");

    let home = &stage.home;
    let (checked, done) = (
        home.directory().join("checked"),
        home.directory().join("done"),
    );
    fs::write(home.directory().join("check.sh"), CHECK).unwrap();
    let args = [
        "loop",
        "-q",
        "--task",
        "Mend it",
        "--agent",
        "sh agent.sh",
        "--check",
        "sh check.sh",
    ];
    let mut command = home.command(&args);
    fs::write(home.directory().join("agent.sh"), AGENT).unwrap();
    command.current_dir(home.directory());
    let looping = Running::start(command);
    stage.shows("Mend it");
    // A new row is the first of its group.
    stage.types("g");
    stage.types("o");
    stage.until("the answer, during the check", |screen| {
        let view = view_of(screen);
        [
            "output Mend it",
            "[phase] 1 of 1",
            "[iteration] 1 begins",
            "it is fixed",
        ]
        .iter()
        .all(|text| view.contains(text))
    });
    stage.types("l");
    stage.until("lines of the check, before it has ended", |screen| {
        let view = view_of(screen);
        view.contains("the check") && view.contains("[stderr] not yet") && !view.contains("FAILED")
    });
    fs::write(&checked, "").unwrap();
    stage.until("the next iteration", |screen| {
        view_of(screen).contains("[iteration] 2 begins")
    });
    fs::write(&done, "").unwrap();
    stage.until("the end", |screen| {
        view_of(screen).contains("[loop] SUCCEEDED") && screen.contains("FINISHED 1")
    });
    assert_code(&looping.end(), 0);
    // Each line once, including those read from the log.
    stage.types("o");
    let screen = stage.until("all of it", |screen| {
        view_of(screen).contains("[loop] SUCCEEDED")
    });
    for once in [
        "[iteration] 1 begins",
        "[iteration] 2 begins",
        "[loop] Mend it",
    ] {
        assert_eq!(
            view_of(&screen).matches(once).count(),
            1,
            "{once}: {screen}"
        );
    }
    stage.types("q");
    stage.ended(0);
    stage.left_nothing();
}
