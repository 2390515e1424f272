//! A tmux server that hangs for longer than a request may take, dies, and comes back.

use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use td_observe::Envelope;

use super::watcher::Watcher;
use super::{Counted, Counting, end_of, of_run, runs_of, warnings};
use crate::observed::{Replay, logs, shown};
use crate::resources::processes_with;
use crate::support::{CEILING, Stopped, TmuxServer, wait_for};

/// The time that the server is stopped: the 5 s of one request, and a part of the next.
const SILENCE: Duration = Duration::from_secs(9);

/// The promised time to notice a server's end and its return.
const SOON: Duration = Duration::from_secs(2);

const NAMES: [&str; 2] = ["one", "two"];

#[test]
fn nine_silent_seconds_cost_one_process_and_two_warnings_and_a_new_server_is_found() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let programs = NAMES.map(|name| Counting::new(&server, name, "0.05"));
    let panes: Vec<String> = NAMES
        .iter()
        .zip(&programs)
        .map(|(name, program)| server.new_session(name, 60, 10, &program.command()))
        .collect();
    let mut watch = Watcher::start(&server, data.path(), &[]);
    for (name, program) in NAMES.iter().zip(&programs) {
        watch.until_started(name, 1);
        let printed = program.until_more(1);
        watch.until_line(name, &format!("line {printed}."));
    }

    let pid = server.pid();
    {
        let _stopped = Stopped::new(pid);
        let began = Instant::now();
        let mut most = 0;
        wait_for("the silence to pass", CEILING, || {
            most = most.max(watch.children().len());
            if began.elapsed() >= SILENCE {
                Ok(())
            } else {
                Err(most)
            }
        });
        assert_eq!(most, 1, "processes at a time");
    }
    for (name, program) in NAMES.iter().zip(&programs) {
        let printed = program.until_more(20);
        watch.until_line(name, &format!("line {printed}."));
    }
    for name in NAMES {
        let run = of_run(&watch.seen, &runs_of(&watch.seen, name)[0]);
        assert_eq!(warnings(&run), 2, "{name}:\n{}", shown(&run));
    }

    let killed = Instant::now();
    server.will_be_killed();
    kill_process(pid, Signal::KILL).unwrap();
    let ended = |seen: &[Envelope], name: &str| {
        let run = of_run(seen, &runs_of(seen, name)[0]);
        run.last()
            .is_some_and(|last| last.event.type_name() == "SessionEnded")
    };
    watch.until("the end of both", |seen| {
        NAMES.iter().all(|name| ended(seen, name))
    });
    let took = killed.elapsed();
    assert!(took < SOON, "the end was reported after {took:?}");

    let again = NAMES.map(|name| Counting::new(&server, &format!("{name} again"), "0.05"));
    for (name, program) in NAMES.iter().zip(&again) {
        server.new_session(name, 60, 10, &program.command());
    }
    let returned = Instant::now();
    for name in NAMES {
        watch.until_started(name, 2);
    }
    let took = returned.elapsed();
    assert!(took < SOON, "the new server was found after {took:?}");
    for (name, program) in NAMES.iter().zip(&again) {
        program.until_more(5);
        program.end();
        watch.until_line(name, "the end");
    }
    let seen = watch.stop();

    for ((name, pane), program) in NAMES.iter().zip(&panes).zip(&again) {
        let runs = runs_of(&seen, name);
        assert_eq!(runs.len(), 2, "{runs:?}");
        assert_ne!(runs[0], runs[1], "a run of its own");
        let first = of_run(&seen, &runs[0]);
        assert_eq!(end_of(&first), "server_gone");
        assert_eq!(warnings(&first), 2, "{}", shown(&first));
        let counted = Counted::of(&Replay::of(&first, pane), &[]);
        assert_eq!(counted.missing, [], "{}", shown(&first));
        let second = of_run(&seen, &runs[1]);
        assert_eq!(warnings(&second), 0, "{}", shown(&second));
        let counted = Counted::of(&Replay::of(&second, pane), &["the end"]);
        assert_eq!(
            (counted.settled, counted.missing),
            (1..program.printed() + 1, vec![])
        );
    }
    // Every shown line is in the log, each run in its directory.
    let kept = logs(data.path());
    assert_eq!(kept.len(), 4, "{:?}", kept.keys());
    for (_, log) in kept {
        let run = of_run(&seen, log[0].event.execution_id());
        let numbered: Vec<_> = run
            .into_iter()
            .filter(|envelope| envelope.seq.is_some())
            .collect();
        assert_eq!(numbered, log[1..]);
    }
}

#[test]
fn an_interrupt_before_a_hung_server_has_replied_ends_it_cleanly_without_leftover_processes() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    server.new_session("silent", 60, 10, "exec cat");
    let _stopped = Stopped::new(server.pid());
    let watch = Watcher::start(&server, data.path(), &[]);
    // The first request.
    watch.until_child();
    watch.stop();
    let socket = server.socket().display().to_string();
    let questions = processes_with(&socket).into_iter();
    let left: Vec<_> = questions
        .filter(|(_, line)| line.contains(" -N "))
        .collect();
    assert_eq!(left, []);
}
