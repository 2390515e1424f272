//! Waits on real panes: new lines match, the baseline does not, and every wait ends.

mod begun;
#[cfg(feature = "cli")]
mod commands;
mod race;
#[cfg(feature = "cli")]
mod streams;

use std::time::Duration;

use td_observe::tmux::Target;
use td_observe::wait::{Pattern, Wait, WaitEnd, WaitMatch, WaitOutcome, Waiter};

use rustix::process::Signal;
use td_observe::agent::Markers;

use crate::cli::{Running, assert_code, on, program, text};
use crate::support::{CEILING, TmuxServer, wait_for};

/// Long enough for many captures, and short enough for a test.
const SHORT: Duration = Duration::from_millis(500);

fn at(target: &str) -> Wait {
    Wait::at(Target::parse(target).unwrap()).timeout(CEILING)
}

fn pattern(text: &str) -> Pattern {
    Pattern::text(text).unwrap()
}

fn waited(server: &TmuxServer, wait: &Wait) -> WaitOutcome {
    let waiter = Waiter::new(server.server()).unwrap();
    waiter.wait(wait).unwrap()
}

#[track_caller]
fn found(waited: &WaitOutcome) -> &WaitMatch {
    match &waited.end {
        WaitEnd::Matched(found) => found,
        other => panic!("{other:?}: {waited:?}"),
    }
}

/// Prints a numbered line ten times per second.
const TICKS: &str = "i=0; while :; do i=$((i+1)); echo NEEDLE $i; sleep 0.1; done";

#[test]
fn existing_lines_match_only_on_request() {
    let server = TmuxServer::new();
    let pane = server.new_session("job-1", 40, 8, "echo NEEDLE; exec cat");
    server.wait_for_text(&pane, "NEEDLE");
    let stale = waited(
        &server,
        &at("job-1").pattern(pattern("NEEDLE")).timeout(SHORT),
    );
    assert_eq!(stale.end, WaitEnd::TimedOut, "{stale:?}");
    assert_eq!(stale.last_lines.first().map(String::as_str), Some("NEEDLE"));
    let wait = at("job-1").pattern(pattern("NEEDLE")).include_existing();
    assert_eq!(
        found(&waited(&server, &wait)).text.as_deref(),
        Some("NEEDLE")
    );
}

#[test]
fn new_lines_match() {
    let server = TmuxServer::new();
    let pane = server.new_session("job-1", 40, 8, TICKS);
    server.wait_for_text(&pane, "NEEDLE 3");
    let number = |text: &str| -> u32 { text.rsplit(' ').next().unwrap().parse().unwrap() };
    let screen = server.screen(&pane);
    let before = screen.lines().rev().find(|line| line.contains("NEEDLE"));
    let before = number(before.unwrap().trim_end());
    let wait = at("job-1").pattern(Pattern::regex(r"^NEEDLE \d+$").unwrap());
    let waited = waited(&server, &wait);
    let found = found(&waited);
    assert!(number(found.text.as_deref().unwrap()) > before, "{found:?}");
    assert!(
        found.line.unwrap() > 0 && found.condition.as_str() == "text",
        "{found:?}"
    );
    assert_eq!(
        found.pane.as_ref().map(|pane| pane.as_str()),
        Some(pane.as_str())
    );
}

#[test]
fn a_pattern_matches_across_wrapped_rows() {
    let server = TmuxServer::new();
    let line = "while :; do echo 0123456789012345NEEDLE6789; sleep 0.1; done";
    server.new_session("job-1", 20, 8, line);
    assert!(found(&waited(&server, &at("job-1").pattern(pattern("NEEDLE")))).line > Some(0));
}

#[test]
fn a_flood_is_matched_or_reported_as_lost() {
    let server = TmuxServer::new();
    let flood = "while :; do seq 1 30000; echo NEEDLE; seq 1 3000; sleep 0.3; done";
    server.new_session("job-1", 80, 24, flood);
    let wait = at("job-1").pattern(pattern("NEEDLE")).timeout(SHORT * 6);
    let waited = waited(&server, &wait);
    let is_honest = matches!(waited.end, WaitEnd::Matched(_) | WaitEnd::Lost);
    assert!(is_honest, "{waited:?}");
}

#[test]
fn a_stop_pattern_ends_the_wait() {
    let server = TmuxServer::new();
    let script = "while :; do echo error: 7; sleep 0.1; done";
    server.new_session("job-1", 40, 8, script);
    let wait = at("job-1").pattern(pattern("NEEDLE"));
    let waited = waited(&server, &wait.stop(Pattern::regex("^error").unwrap()));
    assert!(matches!(&waited.end, WaitEnd::Stopped(_)), "{waited:?}");
}

#[test]
fn idle_and_exit_conditions_are_met() {
    let server = TmuxServer::new();
    server.new_session("quiet", 40, 8, "exec cat");
    server.new_session("short", 40, 8, "sleep 3; echo over");
    server.new_session("other", 40, 8, "exec cat");
    let idle = waited(&server, &at("quiet").idle(SHORT));
    assert_eq!(found(&idle).condition.as_str(), "idle");
    assert!(idle.elapsed >= SHORT);
    assert_eq!(
        found(&waited(&server, &at("short").exit()))
            .condition
            .as_str(),
        "exit"
    );
    let gone = std::thread::scope(|scope| {
        let waiter = Waiter::new(server.server()).unwrap();
        let waiting = scope.spawn(move || waiter.wait(&at("other").pattern(pattern("NEEDLE"))));
        server.kill();
        waiting.join().unwrap()
    });
    match gone {
        Ok(gone) => assert!(matches!(gone.end, WaitEnd::Ended(_)), "{gone:?}"),
        // The server was gone before the wait, or it had no sessions left.
        Err(error) => assert!(error.is_gone() || error.is_invalid_input(), "{error:?}"),
    }
}

#[test]
fn a_channel_loses_no_signal() {
    let server = TmuxServer::new();
    server.new_session("job-1", 40, 8, "exec cat");
    // The signal precedes the wait.
    server.tmux(&["wait-for", "-S", "done"]);
    let waited = waited(&server, &at("job-1").channel("done"));
    assert_eq!(found(&waited).condition.as_str(), "channel");
}

#[test]
fn many_simultaneous_waits_are_independent() {
    let server = TmuxServer::new();
    server.new_session("job-1", 40, 8, TICKS);
    server.new_session("job-10", 40, 8, "exec cat");
    let waiter = Waiter::new(server.server()).unwrap();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..50)
            .map(|n| {
                let waiter = &waiter;
                scope.spawn(move || match n % 2 {
                    0 => waiter.wait(&at("job-1").pattern(pattern("NEEDLE"))),
                    _ => waiter.wait(&at("job-10").pattern(pattern("NEEDLE")).timeout(SHORT)),
                })
            })
            .collect();
        for (n, waiting) in all.into_iter().enumerate() {
            let waited = waiting.join().unwrap().unwrap();
            match n % 2 {
                0 => assert_eq!(found(&waited).condition.as_str(), "text"),
                _ => assert_eq!(waited.end, WaitEnd::TimedOut),
            }
        }
    });
}

#[test]
fn a_missing_target_is_an_error_at_once() {
    let server = TmuxServer::new();
    server.new_session("job-10", 40, 8, "exec cat");
    let waiter = Waiter::new(server.server()).unwrap();
    let error = waiter.wait(&at("job-1").pattern(pattern("x"))).unwrap_err();
    assert!(error.is_invalid_input(), "{error:?}");
    let error = waiter.wait(&at("job-10")).unwrap_err();
    assert!(error.is_invalid_input(), "{error:?}");
}

#[test]
fn the_end_of_the_server_does_not_signal_a_channel() {
    for _ in 0..8 {
        let server = TmuxServer::new();
        server.new_session("job-1", 40, 8, "exec cat");
        let waiter = Waiter::new(server.server()).unwrap();
        let started = waiter.start(&at("job-1").channel("-done")).unwrap();
        server.tmux(&["kill-server"]);
        let waited = started.finish().unwrap();
        assert!(matches!(waited.end, WaitEnd::Ended(_)), "{waited:?}");
    }
}

#[test]
fn an_interrupted_wait_has_no_match() {
    let server = TmuxServer::new();
    server.new_session("job-1", 40, 8, "exec cat");
    server.tmux(&[
        "set-hook",
        "-g",
        "after-capture-pane",
        "set -g @captured yes",
    ]);
    let socket = server.socket();
    let args = ["wait", "job-1", "--text", "never", "--json"];
    let args = on(socket.to_str().unwrap(), &args);
    let wait = Running::start(program(&args, server.directory()));
    // Signals are caught before the first capture.
    wait_for("a capture", CEILING, || {
        match server.tmux(&["show", "-gqv", "@captured"]) {
            value if value.is_empty() => Err("none yet"),
            _ => Ok(()),
        }
    });
    wait.signal(Signal::INT);
    let output = wait.end();
    assert_code(&output, 130);
    assert_eq!(text(&output.stdout), "{\"outcome\":\"interrupted\"}\n");
}

#[test]
fn an_existing_turn_matches_on_request() {
    let server = TmuxServer::new();
    let pane = server.new_session(
        "job-1",
        40,
        8,
        "echo It is.; echo '[Output Complete]'; exec cat",
    );
    server.wait_for_text(&pane, "Complete]");
    let wait = at("job-1").turn(Markers::default()).include_existing();
    assert_eq!(
        found(&waited(&server, &wait)).text.as_deref(),
        Some("It is.")
    );
}

#[test]
fn moved_lines_do_not_match() {
    let server = TmuxServer::new();
    let moves =
        "echo STALE; read -r go; printf '\\033[H\\033[3L'; sleep 0.3; echo; echo moved; exec cat";
    let pane = server.new_session("job-1", 40, 12, moves);
    server.wait_for_text(&pane, "STALE");
    let waiter = Waiter::new(server.server()).unwrap();
    let wait = at("job-1").pattern(pattern("STALE")).stop(pattern("moved"));
    let started = waiter.start(&wait).unwrap();
    server.tmux(&["send-keys", "-t", &pane, "Enter"]);
    let waited = started.finish().unwrap();
    assert!(matches!(waited.end, WaitEnd::Stopped(_)), "{waited:?}");
}
