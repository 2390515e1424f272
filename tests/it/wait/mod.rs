//! Waiter on real panes: what is new is found, what stood there is not, and every wait ends.

mod begun;
mod race;

use std::time::Duration;

use td_observe::tmux::Target;
use td_observe::wait::{Pattern, Wait, WaitEnd, WaitMatch, WaitOutcome, Waiter};

use rustix::process::Signal;
use td_observe::agent::Markers;

use crate::cli::{Running, assert_code, on, program, text};
use crate::support::{CEILING, TmuxServer, wait_for};

/// Long enough for many looks, and for a test that waits it out.
const MOMENT: Duration = Duration::from_millis(500);

fn at(target: &str) -> Wait {
    Wait::at(Target::parse(target).unwrap()).timeout(CEILING)
}

fn pattern(text: &str) -> Pattern {
    Pattern::text(text).unwrap()
}

fn waited(server: &TmuxServer, wait: &Wait) -> WaitOutcome {
    let waits = Waiter::new(server.server()).unwrap();
    waits.wait(wait).unwrap()
}

#[track_caller]
fn found(waited: &WaitOutcome) -> &WaitMatch {
    match &waited.end {
        WaitEnd::Matched(found) => found,
        other => panic!("{other:?}: {waited:?}"),
    }
}

/// Prints a numbered line ten times a second, for ever.
const TICKS: &str = "i=0; while :; do i=$((i+1)); echo NEEDLE $i; sleep 0.1; done";

#[test]
fn what_stood_there_does_not_match_unless_it_is_wanted() {
    let server = TmuxServer::new();
    let pane = server.new_session("job-1", 40, 8, "echo NEEDLE; exec cat");
    server.wait_for_text(&pane, "NEEDLE");
    let stale = waited(
        &server,
        &at("job-1").pattern(pattern("NEEDLE")).timeout(MOMENT),
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
fn what_comes_is_found() {
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
fn a_needle_across_wrapped_rows_is_found() {
    let server = TmuxServer::new();
    let line = "while :; do echo 0123456789012345NEEDLE6789; sleep 0.1; done";
    server.new_session("job-1", 20, 8, line);
    assert!(found(&waited(&server, &at("job-1").pattern(pattern("NEEDLE")))).line > Some(0));
}

#[test]
fn a_flood_is_searched_or_said_to_have_been_lost() {
    let server = TmuxServer::new();
    let flood = "while :; do seq 1 30000; echo NEEDLE; seq 1 3000; sleep 0.3; done";
    server.new_session("job-1", 80, 24, flood);
    let wait = at("job-1").pattern(pattern("NEEDLE")).timeout(MOMENT * 6);
    let waited = waited(&server, &wait);
    let is_honest = matches!(waited.end, WaitEnd::Matched(_) | WaitEnd::Lost);
    assert!(is_honest, "{waited:?}");
}

#[test]
fn a_stop_comes_first() {
    let server = TmuxServer::new();
    let script = "while :; do echo error: 7; sleep 0.1; done";
    server.new_session("job-1", 40, 8, script);
    let wait = at("job-1").pattern(pattern("NEEDLE"));
    let waited = waited(&server, &wait.stop(Pattern::regex("^error").unwrap()));
    assert!(matches!(&waited.end, WaitEnd::Stopped(_)), "{waited:?}");
}

#[test]
fn silence_and_ends_are_waited_for() {
    let server = TmuxServer::new();
    server.new_session("quiet", 40, 8, "exec cat");
    server.new_session("short", 40, 8, "sleep 3; echo over");
    server.new_session("other", 40, 8, "exec cat");
    let idle = waited(&server, &at("quiet").idle(MOMENT));
    assert_eq!(found(&idle).condition.as_str(), "idle");
    assert!(idle.elapsed >= MOMENT);
    assert_eq!(
        found(&waited(&server, &at("short").exit()))
            .condition
            .as_str(),
        "exit"
    );
    let gone = std::thread::scope(|scope| {
        let waits = Waiter::new(server.server()).unwrap();
        let waiting = scope.spawn(move || waits.wait(&at("other").pattern(pattern("NEEDLE"))));
        server.kill();
        waiting.join().unwrap()
    });
    match gone {
        Ok(gone) => assert!(matches!(gone.end, WaitEnd::Ended(_)), "{gone:?}"),
        // It was gone before anybody waited, or there still was a server, without sessions.
        Err(error) => assert!(error.is_gone() || error.is_invalid_input(), "{error:?}"),
    }
}

#[test]
fn a_channel_loses_no_signal() {
    let server = TmuxServer::new();
    server.new_session("job-1", 40, 8, "exec cat");
    // Before anybody waits.
    server.tmux(&["wait-for", "-S", "done"]);
    let waited = waited(&server, &at("job-1").channel("done"));
    assert_eq!(found(&waited).condition.as_str(), "channel");
}

#[test]
fn many_wait_at_once_and_none_disturbs_another() {
    let server = TmuxServer::new();
    server.new_session("job-1", 40, 8, TICKS);
    server.new_session("job-10", 40, 8, "exec cat");
    let waits = Waiter::new(server.server()).unwrap();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..50)
            .map(|n| {
                let waits = &waits;
                scope.spawn(move || match n % 2 {
                    0 => waits.wait(&at("job-1").pattern(pattern("NEEDLE"))),
                    _ => waits.wait(&at("job-10").pattern(pattern("NEEDLE")).timeout(MOMENT)),
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
fn what_is_not_there_is_an_error_at_once() {
    let server = TmuxServer::new();
    server.new_session("job-10", 40, 8, "exec cat");
    let waits = Waiter::new(server.server()).unwrap();
    let error = waits.wait(&at("job-1").pattern(pattern("x"))).unwrap_err();
    assert!(error.is_invalid_input(), "{error:?}");
    let error = waits.wait(&at("job-10")).unwrap_err();
    assert!(error.is_invalid_input(), "{error:?}");
}

#[test]
fn a_channel_is_not_signalled_by_the_end_of_its_server() {
    for _ in 0..8 {
        let server = TmuxServer::new();
        server.new_session("job-1", 40, 8, "exec cat");
        let waits = Waiter::new(server.server()).unwrap();
        let begun = waits.begin(&at("job-1").channel("-done")).unwrap();
        server.tmux(&["kill-server"]);
        let waited = begun.finish().unwrap();
        assert!(matches!(waited.end, WaitEnd::Ended(_)), "{waited:?}");
    }
}

#[test]
fn a_wait_that_is_interrupted_has_found_nothing() {
    let server = TmuxServer::new();
    server.new_session("job-1", 40, 8, "exec cat");
    server.tmux(&["set-hook", "-g", "after-capture-pane", "set -g @looked yes"]);
    let socket = server.socket();
    let args = ["wait", "job-1", "--text", "never", "--json"];
    let args = on(socket.to_str().unwrap(), &args);
    let wait = Running::start(program(&args, server.directory()));
    // Signals are caught before it looks for the first time.
    wait_for("a look", CEILING, || {
        match server.tmux(&["show", "-gqv", "@looked"]) {
            looked if looked.is_empty() => Err("none yet"),
            _ => Ok(()),
        }
    });
    wait.signal(Signal::INT);
    let output = wait.end();
    assert_code(&output, 130);
    assert_eq!(text(&output.stdout), "{\"outcome\":\"interrupted\"}\n");
}

#[test]
fn a_turn_that_stood_there_counts_where_that_is_wanted() {
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
fn what_is_moved_on_the_screen_is_not_new() {
    let server = TmuxServer::new();
    let moves =
        "echo STALE; read -r go; printf '\\033[H\\033[3L'; sleep 0.3; echo; echo moved; exec cat";
    let pane = server.new_session("job-1", 40, 12, moves);
    server.wait_for_text(&pane, "STALE");
    let waits = Waiter::new(server.server()).unwrap();
    let wait = at("job-1").pattern(pattern("STALE")).stop(pattern("moved"));
    let begun = waits.begin(&wait).unwrap();
    server.tmux(&["send-keys", "-t", &pane, "Enter"]);
    let waited = begun.finish().unwrap();
    assert!(matches!(waited.end, WaitEnd::Stopped(_)), "{waited:?}");
}
