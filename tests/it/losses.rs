//! Every event is delivered, logged or counted, and the engine's report names what its log lacks.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use td_observe::history::{DataDir, LogReader, Query, RunInfo};
use td_observe::process::Command;
use td_observe::{Builder, Delivery, Emitted, Engine, Report, Subscription, TdEvent};

#[cfg(all(feature = "cli", feature = "kernel"))]
use crate::cli::{Running, assert_code, program, text};
#[cfg(all(feature = "cli", feature = "kernel"))]
use crate::support::{CEILING, TmuxServer, wait_for};

/// The events of each round; `TD_EVENTS=1000000` is what a thorough check takes.
fn events_of_a_round() -> u64 {
    let events = std::env::var("TD_EVENTS").ok();
    events.map_or(10_000, |events| events.parse().unwrap())
}

/// Returns the received and the missed events, up to the end.
fn read(mut events: Subscription) -> (u64, u64) {
    let (mut received, mut missed) = (0, 0);
    for delivery in events.iter() {
        match delivery {
            Delivery::Event(envelope) => received += envelope.n,
            Delivery::Lagged { missed: more } => missed += more,
        }
    }
    (received, missed)
}

/// Returns the events in a run's log, and those that its gaps stand for.
#[track_caller]
fn logged(data: &Path, id: &str) -> (u64, u64) {
    let run = DataDir::new(data).run(&id.into());
    let (mut events, mut missing, mut next) = (0, 0, 1);
    for record in LogReader::open(&run, Query::all()).unwrap() {
        let seq = record.envelope.seq.unwrap();
        match record.envelope.event {
            TdEvent::LogOpened { .. } => continue,
            TdEvent::LogGap { first_seq, .. } => {
                assert_eq!(first_seq, next, "{id}");
                missing += seq - first_seq + 1;
            }
            _ => {
                assert_eq!(seq, next, "{id}");
                events += 1;
            }
        }
        next = seq + 1;
    }
    (events, missing)
}

/// Emits events in as many threads, as fast as they can; returns how many were refused.
fn emit(engine: &Engine, threads: u64, events: u64) -> u64 {
    emit_tokens(engine, threads, events, "a token of some words")
}

fn emit_tokens(engine: &Engine, threads: u64, events: u64, token: &str) -> u64 {
    let refused = Arc::new(AtomicU64::new(0));
    let emitters: Vec<_> = (0..threads)
        .map(|thread| engine.emitter_for(format!("e{thread}"), RunInfo::default()))
        .collect();
    let emitting: Vec<_> = emitters
        .into_iter()
        .map(|emitter| {
            let emitter = emitter.unwrap();
            let (refused, token) = (Arc::clone(&refused), token.to_owned());
            thread::spawn(move || {
                for number in 0..events / threads {
                    let emitted = match number % 4 {
                        0 => emitter.iteration_started(1),
                        _ => emitter.token_received(1, &token),
                    };
                    match emitted {
                        Emitted::Accepted => {}
                        Emitted::Refused => drop(refused.fetch_add(1, Ordering::Relaxed)),
                        Emitted::Closed => panic!("not closed yet"),
                    }
                }
            })
        })
        .collect();
    emitting
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    refused.load(Ordering::Relaxed)
}

#[test]
fn a_run_that_is_opened_again_at_once_has_its_log() {
    let data = tempfile::tempdir().unwrap();
    let mut engine = Builder::new().data_dir(data.path()).start().unwrap();
    for _ in 0..3 {
        let echo = Command::new("echo").arg("a line");
        let job = engine.execute_as("again", echo).unwrap();
        assert_eq!(job.wait().unwrap().code(), 0);
    }
    let report = engine.shutdown();
    assert!(report.is_clean(), "{report}");
    let (events, missing) = logged(data.path(), "again");
    assert_eq!(
        (events, missing),
        (9, 0),
        "start, line and end, three times"
    );
}

/// What is lost in the log, by its report.
fn lost(report: &Report) -> u64 {
    let lost = report.log.iter().flat_map(|log| &log.lost);
    lost.map(|run| run.events).sum()
}

#[test]
fn a_burst_is_delivered_logged_or_counted_exactly() {
    let events = events_of_a_round();
    // 64 MiB hold this many of the test's events in any case.
    let fits = events <= 200_000;
    for (threads, capacity, is_logged, is_read) in [1, 4, 16]
        .into_iter()
        .flat_map(|threads| [10, 10_000, 200_000].map(|capacity| (threads, capacity)))
        .flat_map(|(threads, capacity)| [true, false].map(|log| (threads, capacity, log)))
        .flat_map(|(threads, capacity, log)| {
            [true, false].map(|read| (threads, capacity, log, read))
        })
    {
        let what = format!("{threads} threads, {capacity}, log {is_logged}, read {is_read}");
        let data = tempfile::tempdir().unwrap();
        let builder = Builder::new().capacity(capacity);
        let engine = if is_logged {
            builder.data_dir(data.path())
        } else {
            builder
        };
        let engine = engine.start().unwrap();
        let subscription = engine.subscribe();
        let reading = is_read.then(|| {
            let subscription = engine.subscribe();
            thread::spawn(move || read(subscription))
        });
        let refused = emit(&engine, threads, events);
        let report = engine.shutdown();
        assert!(!fits || refused == 0, "{what}: {refused} refused");
        let (received, missed) = read(subscription);
        assert_eq!(received + missed, events / threads * threads, "{what}");
        assert!(received <= capacity as u64 && missed >= refused, "{what}");
        if let Some(reading) = reading {
            let (received, missed) = reading.join().unwrap();
            assert_eq!(received + missed, events / threads * threads, "{what}");
        }
        assert_eq!(report.is_clean(), lost(&report) == 0, "{what}: {report}");
        assert!(!fits || report.is_clean(), "{what}: {report}");
        if is_logged {
            let mut missing = 0;
            for thread in 0..threads {
                let (kept, gone) = logged(data.path(), &format!("e{thread}"));
                assert_eq!(kept + gone, events / threads, "{what}");
                missing += gone;
            }
            assert_eq!(missing, lost(&report), "{what}");
            assert!(missing >= refused, "{what}");
        }
    }
}

/// Set in a process that runs only the test of memory, so that its memory is the test's: the threads and the lanes'
/// capacity.
const ALONE: &str = "TD_TEST_LOSSES_ALONE";

/// Returns a line of this process's memory, in bytes.
fn memory(line: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let value = status.lines().find_map(|of| of.strip_prefix(line)).unwrap();
    let kib = value.trim_start_matches(':').trim().trim_end_matches(" kB");
    1024 * kib.parse::<usize>().unwrap()
}

/// Returns the mean size of the events that [`emit_tokens`] sends.
fn mean_event(token: &str) -> usize {
    let events = [
        TdEvent::iteration_started("e0", 1),
        TdEvent::token_received("e0", 1, token),
        TdEvent::token_received("e0", 1, token),
        TdEvent::token_received("e0", 1, token),
    ];
    let bytes: usize = events.iter().map(TdEvent::memory_bytes).sum();
    bytes / events.len() + size_of::<td_observe::Envelope>() - size_of::<TdEvent>()
}

/// A process takes the 64 MiB of the path to the log, its full lanes, and 32 MB. Long tokens fill them soon. The pages of
/// the program's file are not counted: the test's program has many.
#[test]
fn the_memory_of_a_burst_is_bounded() {
    let Ok(round) = std::env::var(ALONE) else {
        for round in [
            "1 1000 100",
            "4 1000 100",
            "16 10 100",
            "4 5000 100",
            "4 10 1",
        ] {
            let data = tempfile::tempdir().unwrap();
            let mut command = std::process::Command::new(std::env::current_exe().unwrap());
            let name = "losses::the_memory_of_a_burst_is_bounded";
            let child = command.args(["--exact", name, "--nocapture"]);
            let child = child.env(ALONE, round).current_dir(data.path());
            let output = child.output().unwrap();
            let shown = String::from_utf8_lossy(&output.stderr);
            let is_over = shown.contains(" bytes; ") && output.status.success();
            assert!(is_over, "{round}: {output:#?}");
            eprint!("{shown}");
        }
        return;
    };
    let numbers = round.split(' ').map(|number| number.parse().unwrap());
    let [threads, capacity, words]: [usize; 3] = numbers.collect::<Vec<_>>().try_into().unwrap();
    let builder = Builder::new().capacity(capacity).data_dir("data");
    let engine = builder.start().unwrap();
    let (unread, mut subscription) = (engine.subscribe(), engine.subscribe());
    let token = "a token of some words ".repeat(words);
    let path = 64 * 1024 * 1024;
    let events = events_of_a_round().max((2 * path / mean_event(&token)) as u64);
    let refused = emit_tokens(&engine, threads as u64, events, &token);
    // The unread lane is full after so many events.
    let mut received = 0;
    while received < capacity as u64 {
        if let Delivery::Event(envelope) = subscription.recv().unwrap() {
            received += envelope.n;
        }
    }
    // A peak holds no more file pages than there are now.
    let peak = memory("VmHWM") - memory("RssFile");
    let most = path + 2 * capacity * mean_event(&token) + 32_000_000;
    eprintln!("{round}: {peak} of {most} bytes; {refused} of {events} events refused");
    assert!(peak <= most, "{round}: {peak} of {most} bytes");
    drop(unread);
    // In a debug build it takes long to write everything to the log.
    std::process::exit(0);
}

#[test]
fn a_report_names_the_events_that_the_path_to_the_log_did_not_hold() {
    let data = tempfile::tempdir().unwrap();
    let engine = Builder::new().data_dir(data.path()).start().unwrap();
    let emitter = engine.emitter_for("burst", RunInfo::default()).unwrap();
    let text = "x".repeat(1024 * 1024);
    let refused = (0..400).filter(|_| emitter.token_received(1, &text) == Emitted::Refused);
    let refused = refused.count() as u64;
    let report = engine.shutdown();
    let (kept, missing) = logged(data.path(), "burst");
    assert_eq!(kept + missing, 400);
    assert!(refused > 0 && missing >= refused, "{refused} {missing}");
    assert_eq!(lost(&report), missing);
    assert!(!report.is_clean());
    let line = report.to_string();
    assert!(line.contains("of burst are not in the log"), "{line}");
    assert!(!line.contains('\n'), "{line}");
}

#[test]
fn a_run_that_another_engine_writes_is_named() {
    let data = tempfile::tempdir().unwrap();
    let start = || Builder::new().data_dir(data.path()).start().unwrap();
    let (first, mut second) = (start(), start());
    let emitter = first.emitter_for("held", RunInfo::default()).unwrap();
    // An emitter says at once that its events would be in no log.
    let error = second.emitter_for("held", RunInfo::default()).unwrap_err();
    assert!(error.is_locked(), "{error:?}");
    // A source observes without a log, and the report has its events.
    let mut events = second.subscribe();
    let job = second.execute_as("held", Command::new("echo").arg("a line"));
    assert_eq!(job.unwrap().wait().unwrap().code(), 0);
    let again = second.emitter_for("held", RunInfo::default());
    let report = second.shutdown();
    let emitted = events
        .iter()
        .filter(|one| matches!(one, Delivery::Event(_)));
    let log = report.log.as_ref().unwrap();
    let [unlogged] = &log.unlogged[..] else {
        panic!("{report}")
    };
    assert_eq!(unlogged.events, emitted.count() as u64);
    assert_eq!((&*unlogged.execution_id, unlogged.first_seq), ("held", 1));
    assert!(log.lost.is_empty() && !report.is_clean(), "{report}");
    let pid = std::process::id().to_string();
    assert!(report.to_string().contains(&pid), "{report}");
    // The job has ended, or it holds the execution without a log: an error in both cases.
    assert!(again.is_err());
    emitter.iteration_started(1);
    assert!(first.shutdown().is_clean());
}

/// A run that another process writes stays its own: whatever is observed under its name is named as a loss, once
/// at the start and with the numbers in the last line.
#[cfg(all(feature = "cli", feature = "kernel"))]
#[test]
fn each_command_names_in_its_last_line_what_its_log_lacks() {
    let data = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = data.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let result = r#"{"type":"result","subtype":"success","is_error":false,"session_id":"s"}"#;
    let records = write("a.jsonl", &format!("{result}\n"));
    let server = TmuxServer::new();
    server.new_session("short", 80, 24, "read go");
    let socket = server.socket().display().to_string();
    let owner = ["run", "--execution-id", "taken", "--stdin", "--", "cat"];
    let mut owner = program(&owner, data.path());
    owner.stdin(std::process::Stdio::piped());
    let mut owner = Running::start(owner);
    let held = owner.child.stdin.take();
    wait_for("its run", CEILING, || {
        let run = DataDir::new(data.path()).run(&"taken".into());
        if run.is_written().unwrap_or(false) {
            Ok(())
        } else {
            Err(())
        }
    });
    let watch = ["-S", &socket, "watch", "short"];
    let mut commands = vec![
        vec!["run", "echo", "one"],
        vec!["run", "--json", "echo", "one"],
        vec!["loop", "--task", "x", "--agent", "true", "--check", "true"],
        vec!["agents", &records],
        watch.to_vec(),
    ];
    let home = crate::kernel::python().map(crate::kernel::KernelHome::new);
    if let Some(home) = &home {
        commands.push(vec!["kernel", "--kernel", &home.spec, "-c", "print('one')"]);
    }
    for words in commands {
        let subcommand = words
            .iter()
            .position(|word| !word.starts_with(['-', '/']))
            .unwrap();
        let (before, after) = words.split_at(subcommand + 1);
        let args = [before, &["--execution-id", "taken"], after].concat();
        let mut running = Running::start(program(&args, data.path()));
        if words.contains(&"watch") {
            running.wait_for("watching 1 pane");
            server.tmux(&["send-keys", "-t", "=short:", "Enter"]);
        }
        let output = running.end();
        assert_code(&output, 0);
        let reported = text(&output.stderr);
        let last = reported.lines().last().unwrap_or_default();
        assert!(
            last.starts_with("td-observe: events 1 to "),
            "{words:?}: {reported}"
        );
        assert!(
            last.contains(" of taken are not in the log"),
            "{words:?}: {reported}"
        );
        let lines = reported
            .lines()
            .filter(|line| line.contains("writing this run"));
        assert_eq!(lines.count(), 2, "{words:?}: {reported}");
    }
    drop(held);
    assert_code(&owner.end(), 0);
}
