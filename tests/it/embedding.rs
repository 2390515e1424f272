//! The example in the library's documentation, on a real pane.

#[path = "embed.rs"]
mod example;

use td_observe::channel::select;
use td_observe::history::DataDir;
use td_observe::tmux::Target;
use td_observe::{Builder, Clock, EventKind, Subscription, TdEvent, Watch};

use crate::observed::logs;
use crate::support::{CEILING, TmuxServer, wait_for};

#[test]
fn the_documented_example_watches_a_real_pane() {
    let server = TmuxServer::new();
    let program = "tmux wait-for go; echo one; echo two; exec cat";
    server.new_session("job-1", 40, 5, program);
    server.new_session("job-10", 40, 5, "tmux wait-for go; echo ten; exec cat");
    let data = server.directory().join("data");
    std::thread::scope(|scope| {
        let watching =
            scope.spawn(|| example::watch_session(server.server(), "job-1", &data, "two").unwrap());
        // The watch has begun when the log contains the session's start, which follows the baseline.
        crate::support::wait_for("the session's start", crate::support::CEILING, || {
            let log = std::fs::read_dir(data.join("runs"))
                .ok()
                .and_then(|mut runs| runs.next());
            let path = log.ok_or("no run")?.unwrap().path().join("events.jsonl");
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if text.contains("SessionStarted") {
                Ok(())
            } else {
                Err("not started")
            }
        });
        server.tmux(&["wait-for", "-S", "go"]);
        // Each signal wakes all waiting programs; the second session may have come later.
        assert_eq!(watching.join().unwrap(), "one\ntwo\n");
    });
    let logs = logs(&data);
    assert_eq!(logs.len(), 1, "job-10 has no run: {:?}", logs.keys());
}

/// Two watches of one engine share no pane: each line arrives once, in one run. The second watch takes over when
/// the first one ends.
#[test]
fn a_target_that_is_watched_twice_is_reported_once() {
    let server = TmuxServer::new();
    let pane = server.new_session("twice", 40, 9, "exec cat");
    let data = server.directory().join("data");
    let mut engine = Builder::new().data_dir(&data).start().unwrap();
    let mut events = engine.subscribe();
    let watch = || Watch::new(server.server());
    let first = engine
        .watch(watch().target(Target::parse("twice").unwrap()))
        .unwrap();
    // Returns the events up to the one that is `what`, or in which the text has arrived as often as that.
    let mut until = |what: &str, mut times: usize| {
        let mut seen = Vec::new();
        loop {
            let next = events.recv_timeout(CEILING).unwrap().into_envelope();
            let Some(envelope) = next else { continue };
            let is_it = match &envelope.event {
                TdEvent::OutputUpdate { chunk, .. } => {
                    times = times.saturating_sub(chunk.matches(what).count());
                    times == 0
                }
                event => Some(event.kind()) == EventKind::from_name(what),
            };
            seen.push(envelope.event);
            if is_it {
                return seen;
            }
        }
    };
    until("SessionStarted", 1);
    let all = engine.watch(watch()).unwrap();
    let same = engine
        .watch(watch().target(Target::parse(&pane).unwrap()))
        .unwrap();
    // The others have listed the sessions when they observe a new one, which the first does not watch.
    server.new_session("new", 40, 9, "exec cat");
    until("SessionStarted", 1);
    let mut count = 0;
    for line in ["one", "two", "three"] {
        server.tmux(&["send-keys", "-t", "=twice:", line, "Enter"]);
        // The terminal's echo and cat's output.
        count += until(line, 2).len();
    }
    assert!(count <= 12, "{count} events");
    first.stop();
    until("SessionStarted", 1);
    server.tmux(&["send-keys", "-t", "=twice:", "four", "Enter"]);
    until("four", 2);
    drop((all, same));
    engine.shutdown();
    let logs = logs(&data);
    let runs: Vec<&String> = logs.keys().filter(|run| run.starts_with("twice")).collect();
    assert_eq!(runs.len(), 1, "{runs:?}");
    let chunks = logs[runs[0]]
        .iter()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::OutputUpdate { chunk, .. } => Some(chunk.as_str()),
            _ => None,
        });
    let numbers = logs[runs[0]]
        .iter()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::OutputUpdate { first_line, .. } => Some(*first_line),
            _ => None,
        });
    assert!(numbers.is_sorted(), "lines keep being counted");
    let texts = "one\none\ntwo\ntwo\nthree\nthree\nfour\nfour\n";
    assert_eq!(chunks.collect::<String>(), texts);
}

/// Each watch has a handle that ends it alone.
/// What is printed between two watches of a session, however short, is reported by the second.
#[test]
fn a_session_is_watched_again_at_once() {
    let server = TmuxServer::new();
    let pane = server.new_session("work", 40, 5, "cat");
    let data = server.directory().join("data");
    let mut engine = Builder::new().data_dir(&data).start().unwrap();
    let mut events = engine.subscribe();
    let mut last_line = 0;
    let mut until_line = |line: &str| loop {
        let next = events.recv_timeout(CEILING).unwrap().into_envelope();
        let Some(envelope) = next else { continue };
        match &envelope.event {
            TdEvent::OutputUpdate {
                chunk, first_line, ..
            } if chunk.contains(line) => {
                // Numbers never begin again within a run.
                assert!(*first_line > last_line || last_line == 0, "{envelope:?}");
                last_line = *first_line;
                break;
            }
            TdEvent::Warning { message, .. } => panic!("{message}"),
            TdEvent::OutputGap { .. } => panic!("{envelope:?}"),
            _ => {}
        }
    };
    let types = |line: &str| {
        server.tmux(&["send-keys", "-t", &pane, line, "Enter"]);
        server.wait_for_text(&pane, &format!("{line}\n{line}"));
    };
    types("before");
    let watch = || {
        let target = Target::parse("work").unwrap();
        Watch::new(server.server()).target(target).poll()
    };
    let mut handle = engine.watch(watch().baseline_lines(5)).unwrap();
    until_line("before");
    for line in ["one", "two", "three"] {
        handle.stop();
        types(line);
        handle = engine.watch(watch()).unwrap();
        until_line(line);
    }
    let report = engine.shutdown();
    assert!(report.is_clean(), "{report}");
    let runs = DataDir::new(&data)
        .runs(Clock::system().wall())
        .unwrap()
        .runs;
    assert_eq!(runs.len(), 1);
}

#[test]
fn a_watch_is_stopped_alone() {
    let server = TmuxServer::new();
    for name in ["first", "second"] {
        server.new_session(name, 40, 5, "cat");
    }
    let data = server.directory().join("data");
    let mut engine = Builder::new().data_dir(&data).start().unwrap();
    let mut events = engine.subscribe();
    let watch = |name: &str| Watch::new(server.server()).target(Target::parse(name).unwrap());
    let first = engine.watch(watch("first")).unwrap();
    let second = engine.watch(watch("second")).unwrap();
    let until = |events: &mut Subscription, is_it: &dyn Fn(&TdEvent) -> bool| loop {
        let next = events.recv_timeout(CEILING).unwrap().into_envelope();
        if next.is_some_and(|envelope| is_it(&envelope.event)) {
            return;
        }
    };
    for _ in 0..2 {
        until(&mut events, &|event| {
            matches!(event, TdEvent::PaneOpened { .. })
        });
    }
    first.stop();
    let state = |name: &str| {
        let runs = DataDir::new(&data)
            .runs(Clock::system().wall())
            .unwrap()
            .runs;
        let run = runs.into_iter().find(|run| run.label == name).unwrap();
        run.state.as_str().to_owned()
    };
    assert_eq!(state("second"), "running");
    wait_for("the end of its run", CEILING, || match &*state("first") {
        "detached" => Ok(()),
        other => Err(other.to_owned()),
    });
    for name in ["first", "second"] {
        server.tmux(&["send-keys", "-t", name, &format!("to {name}"), "Enter"]);
    }
    until(&mut events, &|event| match event {
        TdEvent::OutputUpdate { chunk, .. } => {
            assert!(!chunk.contains("to first"), "{chunk}");
            chunk.contains("to second")
        }
        _ => false,
    });
    // The second ends by itself.
    server.tmux(&["kill-session", "-t", "second"]);
    let ceiling = Clock::system().after(CEILING);
    select! {
        recv(second.done()) -> end => assert!(end.is_err()),
        recv(ceiling) -> _ => panic!("it does not end"),
    }
    // The first is watched again, in its run.
    let again = engine.watch(watch("first")).unwrap();
    until(&mut events, &|event| {
        matches!(event, TdEvent::PaneOpened { .. })
    });
    assert_eq!(state("first"), "running");
    drop(again);
    assert!(engine.shutdown().panicked.is_empty());
}
