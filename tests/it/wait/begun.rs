//! What was there when a wait began, and what came until its very end.

use std::io::Write;
use std::time::Duration;

use td_observe::wait::{WaitEnd, WaitOutcome, Waiter};

use super::{MOMENT, at, found, pattern};
use crate::support::{CEILING, TmuxServer};

/// A pane of which nothing is seen but at the beginning and the end of a wait.
const SELDOM: Duration = CEILING;

/// Begins, prints something on the pane, and finishes.
fn waited_while_printing(
    server: &TmuxServer,
    wait: &td_observe::wait::Wait,
    text: &str,
) -> WaitOutcome {
    let waits = Waiter::new(server.server()).unwrap();
    let begun = waits.begin(wait).unwrap();
    server.terminal("job-1").write_all(text.as_bytes()).unwrap();
    server.wait_for_text("job-1", text.trim());
    begun.finish().unwrap()
}

#[test]
fn what_is_printed_until_the_time_is_up_is_found() {
    let server = TmuxServer::new();
    server.new_session("job-1", 40, 8, "exec cat");
    let wait = at("job-1").pattern(pattern("NEEDLE")).interval(SELDOM);
    let timed = wait.clone().timeout(MOMENT);
    let waited = waited_while_printing(&server, &timed, "a NEEDLE\n");
    assert_eq!(found(&waited).line, Some(1));
    assert!(waited.elapsed < SELDOM, "{waited:?}");
    // Silence does not come before what was printed before it.
    let idle = waited_while_printing(&server, &wait.idle(MOMENT), "another NEEDLE\n");
    assert_eq!(found(&idle).condition.as_str(), "text");
}

#[test]
fn what_a_pane_printed_just_before_its_end_may_be_lost() {
    let server = TmuxServer::new();
    server.new_session("job-0", 40, 8, "exec cat");
    server.new_session("job-1", 40, 8, "exec cat");
    let waits = Waiter::new(server.server()).unwrap();
    let begun = waits
        .begin(&at("job-1").pattern(pattern("NEEDLE")))
        .unwrap();
    server.terminal("job-1").write_all(b"NEEDLE\n").unwrap();
    server.wait_for_text("job-1", "NEEDLE");
    server.tmux(&["kill-session", "-t", "=job-1"]);
    let waited = begun.finish().unwrap();
    assert!(matches!(waited.end, WaitEnd::Ended(_)), "{waited:?}");
    assert!(waited.lost_lines, "{waited:?}");
}

#[test]
fn what_a_full_screen_program_showed_does_not_match() {
    let server = TmuxServer::new();
    let script = r"printf '\033[?1049hNEEDLE\n'; exec cat";
    server.new_session("job-1", 40, 8, script);
    server.wait_for_text("job-1", "NEEDLE");
    let wait = at("job-1").pattern(pattern("NEEDLE")).timeout(MOMENT);
    let waited = waited_while_printing(&server, &wait, "something else");
    assert_eq!(waited.end, WaitEnd::TimedOut, "{waited:?}");
}

#[test]
fn what_a_wider_pane_shows_of_its_past_does_not_match() {
    let server = TmuxServer::new();
    let line = "x".repeat(30);
    let script = format!("echo NEEDLE; for i in $(seq 150); do echo {line} $i; done; exec cat");
    server.new_session("job-1", 20, 8, &script);
    server.wait_for_text("job-1", " 150");
    let waits = Waiter::new(server.server()).unwrap();
    let wait = at("job-1").pattern(pattern("NEEDLE")).timeout(MOMENT);
    let begun = waits.begin(&wait).unwrap();
    server.tmux(&["resize-window", "-t", "=job-1:", "-x", "80"]);
    let waited = begun.finish().unwrap();
    assert_eq!(waited.end, WaitEnd::TimedOut, "{waited:?}");
}
