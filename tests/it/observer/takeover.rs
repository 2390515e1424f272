//! Runs that pass from one process to the observer: their numbers continue, and none is used twice.

use rustix::process::Signal;
use serde_json::Value;

use super::Home;
use crate::cli::{Running, assert_code};
use crate::support::{CEILING, wait_for};

/// Returns all events of the only run.
fn events(home: &Home) -> Vec<Value> {
    let runs = home.data().join("runs").read_dir().unwrap();
    let run = runs.map(|run| run.unwrap().path()).next().unwrap();
    let text = std::fs::read_to_string(run.join("events.jsonl")).unwrap();
    // The last line may be incomplete.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines = whole.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

/// Checks that each number occurs once from the first to the last, as an event or in a gap.
#[track_caller]
fn assert_contiguous(events: &[Value]) {
    let mut next = 1;
    for event in events {
        let fields = &event["event"];
        if fields["type"] == "LogOpened" {
            assert_eq!(fields["first_seq"], next, "{events:#?}");
            continue;
        }
        let seq = event["seq"].as_u64().unwrap();
        if fields["type"] == "LogGap" {
            assert_eq!(fields["first_seq"], next, "{events:#?}");
            next = fields["last_seq"].as_u64().unwrap() + 1;
            continue;
        }
        assert_eq!(seq, next, "{events:#?}");
        next += 1;
    }
}

fn taken_over(lines_before: u32) {
    let home = Home::new();
    let program = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.05; done";
    home.server.new_session("build", 80, 24, program);
    let socket = home.server.socket().display().to_string();
    // With hooks, a watch observes by itself.
    let mut watch = Running::start(home.command(&["watch", "-S", &socket, "--on-end", "true"]));
    watch.wait_for(&format!("line {lines_before}"));
    home.start();
    let pid = u64::from(home.pid());
    // Events that the observer sees meanwhile are in the log of the other process.
    for _ in 0..5 {
        let before = home.rows();
        wait_for("a line that the observer sees", CEILING, || {
            let rows = home.rows();
            (rows != before).then_some(()).ok_or(rows)
        });
    }
    watch.signal(Signal::KILL);
    wait_for("events in the log of the observer", CEILING, || {
        let events = events(&home);
        let is_its = |event: &Value| event["event"]["pid"] == pid;
        let after = events.iter().skip_while(|event| !is_its(event)).count();
        (after > 5).then_some(()).ok_or(events)
    });
    assert_code(&home.run(&["stop"]), 0);
    assert_contiguous(&events(&home));
}

#[test]
fn numbers_continue_after_fewer_events_of_the_other_process() {
    taken_over(1);
}

#[test]
fn numbers_continue_after_more_events_of_the_other_process() {
    taken_over(40);
}
