//! An observer that is stopped, as by a laptop's lid or a debugger, and continues.

use std::path::Path;

use rustix::process::{Signal, kill_process};
use td_observe::Envelope;

use super::watcher::Watcher;
use super::{Counted, Counting, of_run, runs_of};
use crate::observed::{Replay, logs, shown};
use crate::support::{CEILING, Stopped, TmuxServer, wait_for};

/// The one run of a session, as it was shown and as it was kept.
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

/// Ends a session's program and checks that every line of it is there, once.
#[track_caller]
fn ends_whole(mut watch: Watcher, program: &Counting, data: &Path, (name, pane): (&str, &str)) {
    program.end();
    watch.until_line(name, "the end");
    let seen = watch.stop();
    let run = run(&seen, data, name);
    let counted = Counted::of(&Replay::of(&run, pane), &["the end"]);
    assert_eq!(counted.holes, [], "{}", shown(&run));
    assert_eq!(counted.said.end, program.printed() + 1);
}

#[test]
fn stopped_and_continued_again_and_again_it_loses_nothing_of_a_moderate_pane() {
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
fn stopped_under_a_flood_it_announces_what_it_could_not_see() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    // A flood of which a part comes before, most while it is stopped, and a part afterwards.
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
    assert_eq!(counted.said.end, 95_001);
    assert!(
        !counted.holes.is_empty(),
        "2000 lines are all that tmux keeps"
    );
    // The text on the screen when it continued is reported.
    assert!(
        counted.holes.iter().all(|hole| hole.end <= 94_000),
        "{:?}",
        counted.holes
    );
}

#[test]
fn stopped_in_the_middle_of_a_question_it_goes_on_with_the_answer() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("asked", 60, 12, &program.command());
    let mut watch = Watcher::start(&server, data.path(), &["--interval", "50ms"]);
    watch.until_started("asked", 1);
    let printed = program.until_more(1);
    watch.until_line("asked", &format!("line {printed}."));
    {
        // The server does not answer, so that a question is on its way for sure.
        let hung = Stopped::new(server.pid());
        // A child whose answer came just before the server was stopped may end meanwhile: then the
        // next one is asked for.
        let _stopped = loop {
            watch.until_child();
            let stopped = Stopped::new(watch.pid());
            if watch.children().len() == 1 {
                break stopped;
            }
        };
        drop(hung);
        program.until_more(20);
        // Its answer has come long ago, and nobody has taken it.
        assert_eq!(watch.children().len(), 1);
    }
    ends_whole(watch, &program, data.path(), ("asked", &pane));
}

#[test]
fn a_question_that_somebody_kills_is_asked_again() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("killed", 60, 12, &program.command());
    let mut watch = Watcher::start(&server, data.path(), &["--interval", "50ms"]);
    watch.until_started("killed", 1);
    for _ in 0..5 {
        {
            let _hung = Stopped::new(server.pid());
            // One that had its answer right before may be gone when it is to be killed.
            wait_for("a question that can be killed", CEILING, || {
                kill_process(watch.until_child(), Signal::KILL)
            });
        }
        let printed = program.until_more(5);
        watch.until_line("killed", &format!("line {printed}."));
    }
    ends_whole(watch, &program, data.path(), ("killed", &pane));
}
