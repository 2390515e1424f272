//! The content of panes at the start of a wait, and output until its end.

use std::io::Write;
use std::time::Duration;

use td_observe::wait::{WaitEnd, WaitOutcome, Waiter};

use super::{SHORT, at, found, pattern, waited};
use crate::support::{CEILING, TmuxServer, within};

/// A poll interval that is longer than any wait: captures are taken at its start and its end only.
const SELDOM: Duration = CEILING;

/// Starts a wait, prints on the pane, and finishes the wait.
fn waited_while_printing(
    server: &TmuxServer,
    wait: &td_observe::wait::Wait,
    text: &str,
) -> WaitOutcome {
    let waiter = Waiter::new(server.server()).unwrap();
    let started = waiter.start(wait).unwrap();
    server.terminal("job-1").write_all(text.as_bytes()).unwrap();
    server.wait_for_text("job-1", text.trim());
    started.finish().unwrap()
}

#[test]
fn output_until_the_timeout_matches() {
    let server = TmuxServer::new();
    server.new_session("job-1", 40, 8, "exec cat");
    let wait = at("job-1").pattern(pattern("NEEDLE")).interval(SELDOM);
    let timed = wait.clone().timeout(SHORT);
    let waited = waited_while_printing(&server, &timed, "a NEEDLE\n");
    assert_eq!(found(&waited).line, Some(1));
    assert!(waited.elapsed < SELDOM, "{waited:?}");
    // Output before a silence matches first.
    let idle = waited_while_printing(&server, &wait.idle(SHORT), "another NEEDLE\n");
    assert_eq!(found(&idle).condition.as_str(), "text");
}

#[test]
fn the_last_output_of_a_closed_pane_may_be_lost() {
    let server = TmuxServer::new();
    server.new_session("job-0", 40, 8, "exec cat");
    server.new_session("job-1", 40, 8, "exec cat");
    let waiter = Waiter::new(server.server()).unwrap();
    let started = waiter
        .start(&at("job-1").pattern(pattern("NEEDLE")))
        .unwrap();
    server.terminal("job-1").write_all(b"NEEDLE\n").unwrap();
    server.wait_for_text("job-1", "NEEDLE");
    server.tmux(&["kill-session", "-t", "=job-1"]);
    let waited = started.finish().unwrap();
    assert!(matches!(waited.end, WaitEnd::Ended(_)), "{waited:?}");
    assert!(waited.lost_lines, "{waited:?}");
}

#[test]
fn the_baseline_of_a_full_screen_program_does_not_match() {
    let server = TmuxServer::new();
    let script = r"printf '\033[?1049hNEEDLE\n'; exec cat";
    server.new_session("job-1", 40, 8, script);
    server.wait_for_text("job-1", "NEEDLE");
    let wait = at("job-1").pattern(pattern("NEEDLE")).timeout(SHORT);
    let waited = waited_while_printing(&server, &wait, "something else");
    assert_eq!(waited.end, WaitEnd::TimedOut, "{waited:?}");
}

#[test]
fn old_lines_of_a_widened_pane_do_not_match() {
    let server = TmuxServer::new();
    let line = "x".repeat(30);
    let script = format!("echo NEEDLE; for i in $(seq 150); do echo {line} $i; done; exec cat");
    server.new_session("job-1", 20, 8, &script);
    server.wait_for_text("job-1", " 150");
    let waiter = Waiter::new(server.server()).unwrap();
    let wait = at("job-1").pattern(pattern("NEEDLE")).timeout(SHORT);
    let started = waiter.start(&wait).unwrap();
    server.tmux(&["resize-window", "-t", "=job-1:", "-x", "80"]);
    let waited = started.finish().unwrap();
    assert_eq!(waited.end, WaitEnd::TimedOut, "{waited:?}");
}

#[test]
fn a_failure_in_any_pane_is_the_exit_status_of_the_target() {
    let server = TmuxServer::new();
    server.new_session("keeper", 40, 8, "exec cat");
    server.tmux(&["set-option", "-g", "remain-on-exit", "on"]);
    server.new_session("job-1", 80, 40, "exit 0");
    let ends = ["exit 0", "exit 0", "exit 3", "exit 0", "exit 0"];
    for end in &ends[1..] {
        server.tmux(&["split-window", "-t", "=job-1:", end]);
    }
    for (pane, end) in ends.iter().enumerate() {
        let target = format!("=job-1:.{pane}");
        let status = || {
            let format = "#{pane_dead_status}";
            let status = server.tmux(&["display-message", "-p", "-t", &target, format]);
            if status.trim().is_empty() {
                Err(())
            } else {
                Ok(())
            }
        };
        // tmux 3.3a misses some of the ends that come together.
        while within(Duration::from_secs(2), status).is_err() {
            server.tmux(&["respawn-pane", "-k", "-t", &target, end]);
        }
    }
    let waited = waited(&server, &at("job-1").exit());
    assert_eq!(found(&waited).exit_status, Some(3));
}

#[test]
fn the_exit_status_of_a_program_is_known_when_its_pane_closes_with_it() {
    if !crate::ends::kernel_reports_ends() {
        return;
    }
    let server = TmuxServer::new();
    server.new_session("keeper", 40, 8, "exec cat");
    for (name, end, expected) in [
        ("fails", "exit 4", 4),
        ("works", "exit 0", 0),
        ("killed", "kill -KILL $$", 137),
    ] {
        server.new_session(name, 40, 8, &format!("read x; {end}"));
        let waiter = Waiter::new(server.server()).unwrap();
        let started = waiter.start(&at(name).exit()).unwrap();
        server.tmux(&["send-keys", "-t", &format!("={name}:"), "Enter"]);
        let waited = started.finish().unwrap();
        assert_eq!(found(&waited).exit_status, Some(expected), "{name}");
    }
}
