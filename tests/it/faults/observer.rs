//! An observer that is stopped, as by a laptop's lid or a debugger, and continues.

use std::path::Path;

use rustix::process::{Signal, kill_process};
use td_observe::Envelope;

use super::watcher::Watcher;
use super::{Counted, Counting, of_run, runs_of};
use crate::observed::{Replay, logs, shown};
use crate::support::{CEILING, Stopped, TmuxServer, wait_for};

/// Returns the only run of a session, after checking that the log equals the shown events.
#[track_caller]
fn run(seen: &[Envelope], data: &Path, name: &str) -> Vec<Envelope> {
    let runs = runs_of(seen, name);
    assert_eq!(runs.len(), 1, "{runs:?}");
    let shown = of_run(seen, &runs[0]);
    let numbered = shown.iter().filter(|envelope| envelope.seq.is_some());
    let kept = logs(data).remove(&runs[0]).unwrap();
    assert_eq!(numbered.cloned().collect::<Vec<_>>(), kept[1..]);
    shown
}

/// Ends a session's program and checks that every line is reported once.
#[track_caller]
fn ends_whole(mut watch: Watcher, program: &Counting, data: &Path, (name, pane): (&str, &str)) {
    program.end();
    watch.until_line(name, "the end");
    let seen = watch.stop();
    let run = run(&seen, data, name);
    let counted = Counted::of(&Replay::of(&run, pane), &["the end"]);
    assert_eq!(counted.missing, [], "{}", shown(&run));
    assert_eq!(counted.settled.end, program.printed() + 1);
}

#[test]
fn an_observer_that_is_stopped_repeatedly_loses_nothing_of_a_moderate_pane() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("moderate", 60, 12, &program.command());
    let mut watch = Watcher::start(&server, data.path(), &["--interval", "50ms"]);
    watch.until_started("moderate", 1);
    for _ in 0..5 {
        {
            let _stopped = Stopped::new(watch.pid());
            program.until_more(40);
        }
        let printed = program.until_more(3);
        watch.until_line("moderate", &format!("line {printed}."));
    }
    ends_whole(watch, &program, data.path(), ("moderate", &pane));
}

#[test]
fn an_observer_stopped_during_a_flood_reports_a_gap() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    // Part of the flood comes before the stop, most of it during the stop, and a part afterwards.
    let program = "tmux wait-for go; seq -f 'line %g.' 1 3000; tmux wait-for -S some; tmux wait-for more; \
         seq -f 'line %g.' 3001 90000; tmux wait-for -S most; tmux wait-for rest; \
         seq -f 'line %g.' 90001 95000; echo the end; exec cat";
    let pane = server.new_session("flood", 60, 12, program);
    let mut watch = Watcher::start(
        &server,
        data.path(),
        &["--source", "poll", "--interval", "50ms"],
    );
    watch.until_started("flood", 1);
    server.tmux(&["wait-for", "-S", "go"]);
    server.tmux(&["wait-for", "some"]);
    watch.until_line("flood", "line 3000.");
    {
        let _stopped = Stopped::new(watch.pid());
        server.tmux(&["wait-for", "-S", "more"]);
        server.tmux(&["wait-for", "most"]);
    }
    server.tmux(&["wait-for", "-S", "rest"]);
    watch.until_line("flood", "the end");
    let seen = watch.stop();
    let run = run(&seen, data.path(), "flood");
    let counted = Counted::of(&Replay::of(&run, &pane), &["the end"]);
    assert_eq!(counted.settled.end, 95_001);
    assert!(
        !counted.missing.is_empty(),
        "2000 lines are all that tmux keeps"
    );
    // The text on the screen at the time of the continuation is reported.
    assert!(
        counted.missing.iter().all(|missing| missing.end <= 94_000),
        "{:?}",
        counted.missing
    );
}

#[test]
fn an_observer_stopped_during_a_request_continues_with_the_reply() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("asked", 60, 12, &program.command());
    let mut watch = Watcher::start(&server, data.path(), &["--interval", "50ms"]);
    watch.until_started("asked", 1);
    let printed = program.until_more(1);
    watch.until_line("asked", &format!("line {printed}."));
    {
        // The server does not reply, so a request is certainly pending.
        let hung = Stopped::new(server.pid());
        // A child that had its reply before the server stopped may end meanwhile: then take the next one.
        let _stopped = loop {
            watch.until_child();
            let stopped = Stopped::new(watch.pid());
            if watch.children().len() == 1 {
                break stopped;
            }
        };
        drop(hung);
        program.until_more(20);
        // The reply arrived long ago, and nobody has read it.
        assert_eq!(watch.children().len(), 1);
    }
    ends_whole(watch, &program, data.path(), ("asked", &pane));
}

#[test]
fn a_request_whose_process_is_killed_is_repeated() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("killed", 60, 12, &program.command());
    let mut watch = Watcher::start(&server, data.path(), &["--interval", "50ms"]);
    watch.until_started("killed", 1);
    for _ in 0..5 {
        {
            let _hung = Stopped::new(server.pid());
            // A child that just received its reply may end before it is killed.
            wait_for("a question that can be killed", CEILING, || {
                kill_process(watch.until_child(), Signal::KILL)
            });
        }
        let printed = program.until_more(5);
        watch.until_line("killed", &format!("line {printed}."));
    }
    ends_whole(watch, &program, data.path(), ("killed", &pane));
}
