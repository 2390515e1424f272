//! Panes that change their window or session, and windows that are in two sessions: one owner at a time.

use td_observe::{Envelope, TdEvent};

use super::{Counted, Counting, of_run, runs_of};
use crate::observed::{Observed, Replay, shown};
use crate::support::TmuxServer;

/// Checks that a program's lines stand once in the runs of these sessions taken one after the
/// other, or that a gap says where some are missing; gives how many are in each run.
#[track_caller]
fn once_over(observed: &Observed, names: &[&str], pane: &str, program: &Counting) -> Vec<u64> {
    let (mut counts, mut next) = (Vec::new(), None);
    for name in names {
        let runs = runs_of(&observed.seen, name);
        assert_eq!(runs.len(), 1, "{name}: {runs:?}");
        let run = of_run(&observed.seen, &runs[0]);
        let replay = Replay::of(&run, pane);
        let Counted { said, .. } = Counted::of(&replay, &["the end"]);
        counts.push(said.end - said.start);
        if said.is_empty() {
            continue;
        }
        if let Some(expected) = next {
            assert!(
                said.start >= expected,
                "twice from {} on: {}",
                said.start,
                shown(&run)
            );
            let first = replay.gaps.first().is_some_and(|gap| gap.3 == 0);
            assert!(
                said.start == expected || first,
                "{expected}..{} are missing silently: {}",
                said.start,
                shown(&run)
            );
        }
        next = Some(said.end);
    }
    assert_eq!(
        next,
        Some(program.printed() + 1),
        "{}",
        shown(&observed.seen)
    );
    counts
}

/// Lets the program print some lines and waits until they were said.
#[track_caller]
fn more(observed: &mut Observed, program: &Counting) {
    let printed = program.until_more(15);
    observed.until_line(&format!("line {printed}."));
}

#[test]
fn moved_between_windows_of_its_session_it_is_the_same_pane() {
    let server = TmuxServer::new();
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("home", 60, 12, &program.command());
    let other = server.tmux(&[
        "new-window",
        "-d",
        "-t",
        "=home:",
        "-P",
        "-F",
        "#{pane_id}",
        "exec cat",
    ]);
    let mut observed = Observed::all(&server);
    observed.until_started(1);
    more(&mut observed, &program);
    server.tmux(&["join-pane", "-d", "-s", &pane, "-t", &other]);
    more(&mut observed, &program);
    server.tmux(&["break-pane", "-d", "-s", &pane]);
    more(&mut observed, &program);
    server.tmux(&["move-pane", "-d", "-h", "-s", &pane, "-t", &other]);
    more(&mut observed, &program);
    server.tmux(&["swap-pane", "-d", "-s", &pane, "-t", &other]);
    more(&mut observed, &program);
    program.end();
    observed.until_line("the end");
    observed.stop();
    let replay = observed.replay(&pane);
    assert_eq!(Counted::of(&replay, &["the end"]).holes, []);
    once_over(&observed, &["home"], &pane, &program);
    let opened = observed.seen.iter().filter(
        |envelope| matches!(&envelope.event, TdEvent::PaneOpened { pane: of, .. } if *of == *pane),
    );
    assert_eq!(opened.count(), 1, "{}", shown(&observed.seen));
}

#[test]
fn moved_to_another_session_it_is_said_there_from_where_it_was() {
    let server = TmuxServer::new();
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("from", 60, 12, &program.command());
    server.tmux(&["split-window", "-d", "-t", &pane, "exec cat"]);
    let target = server.new_session("to", 60, 12, "exec cat");
    let mut observed = Observed::all(&server);
    observed.until_started(2);
    more(&mut observed, &program);
    server.tmux(&["move-pane", "-d", "-s", &pane, "-t", &target]);
    more(&mut observed, &program);
    program.end();
    observed.until_line("the end");
    observed.stop();
    let counts = once_over(&observed, &["from", "to"], &pane, &program);
    assert!(counts.iter().all(|count| *count > 5), "{counts:?}");
}

#[test]
fn linked_into_a_later_session_it_stays_with_the_first() {
    let server = TmuxServer::new();
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("first", 60, 12, &program.command());
    server.new_session("second", 60, 12, "exec cat");
    let mut observed = Observed::all(&server);
    observed.until_started(2);
    more(&mut observed, &program);
    server.tmux(&["link-window", "-d", "-s", "=first:0", "-t", "=second:7"]);
    more(&mut observed, &program);
    server.tmux(&["unlink-window", "-t", "=second:7"]);
    more(&mut observed, &program);
    program.end();
    observed.until_line("the end");
    observed.stop();
    let counts = once_over(&observed, &["first", "second"], &pane, &program);
    assert_eq!(counts[1], 0);
    assert_eq!(observed.replay(&pane).gaps, []);
}

#[test]
fn linked_from_the_beginning_it_is_said_once() {
    let server = TmuxServer::new();
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("first", 60, 12, &program.command());
    server.new_session("second", 60, 12, "exec cat");
    server.tmux(&["link-window", "-d", "-s", "=first:0", "-t", "=second:7"]);
    // A session of the same group shows the same windows, too.
    server.tmux(&["new-session", "-d", "-s", "third", "-t", "=first"]);
    let mut observed = Observed::all(&server);
    observed.until_started(2);
    more(&mut observed, &program);
    program.end();
    observed.until_line("the end");
    observed.stop();
    let counts = once_over(&observed, &["first", "second"], &pane, &program);
    assert_eq!(counts[1], 0);
    let of_it = |envelope: &&Envelope| envelope.event.pane().is_some_and(|of| *of == *pane);
    let said = observed.seen.iter().filter(of_it);
    let said: Vec<&str> = said.map(|envelope| envelope.event.execution_id()).collect();
    assert!(said.iter().all(|id| id.starts_with("first@")), "{said:?}");
}

#[test]
fn linked_into_an_earlier_session_it_goes_on_there() {
    let server = TmuxServer::new();
    server.new_session("first", 60, 12, "exec cat");
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("second", 60, 12, &program.command());
    let mut observed = Observed::all(&server);
    observed.until_started(2);
    more(&mut observed, &program);
    server.tmux(&["link-window", "-d", "-s", "=second:0", "-t", "=first:7"]);
    more(&mut observed, &program);
    program.end();
    observed.until_line("the end");
    observed.stop();
    once_over(&observed, &["second", "first"], &pane, &program);
}

#[test]
fn it_outlives_its_owner_in_the_session_that_it_is_linked_into() {
    let server = TmuxServer::new();
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("first", 60, 12, &program.command());
    server.new_session("second", 60, 12, "exec cat");
    server.tmux(&["link-window", "-d", "-s", "=first:0", "-t", "=second:7"]);
    let mut observed = Observed::all(&server);
    observed.until_started(2);
    more(&mut observed, &program);
    server.tmux(&["kill-session", "-t", "=first"]);
    more(&mut observed, &program);
    program.end();
    observed.until_line("the end");
    observed.stop();
    once_over(&observed, &["first", "second"], &pane, &program);
}
