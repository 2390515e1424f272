//! Code that prints or logs within a program is observed like a child process.

use std::io::Write;

use log::Log;
use td_observe::event::OutputStream;
use td_observe::process::{Command, LogBridge, OutputWriter};
use td_observe::{EventBus, EventEmitter, TdEvent};

/// Returns the events of an execution, without values that differ from run to run.
fn seen(work: impl FnOnce(&EventEmitter)) -> Vec<TdEvent> {
    let bus = EventBus::new(10_000);
    let mut events = bus.subscribe();
    work(&bus.emitter_for("x"));
    bus.close();
    let event = |delivery: td_observe::Delivery| {
        let mut event = delivery.into_envelope().unwrap().event;
        match &mut event {
            TdEvent::ExecutionStarted { command, cwd, .. } => {
                command.clear();
                assert!(cwd.starts_with('/'), "{cwd}");
                cwd.clear();
            }
            TdEvent::ExecutionCompleted { duration_ms, .. } => *duration_ms = 0,
            _ => {}
        }
        event
    };
    events.iter().map(event).collect()
}

fn texts<'a>(events: &'a [TdEvent]) -> Vec<(&'a str, &'a str)> {
    let text = |event: &'a TdEvent| match event {
        TdEvent::ExecutionOutput { stream, text, .. } => (stream.as_str(), text.as_str()),
        other => panic!("{other:?}"),
    };
    events.iter().map(text).collect()
}

#[test]
fn printing_makes_the_same_events_as_a_child() {
    let child = seen(|emitter| {
        let script =
            "echo first; sleep 0.05; echo problem >&2; sleep 0.05; printf 'no newline'; exit 7";
        Command::shell(script).observe(emitter).unwrap();
    });
    let here = seen(|emitter| {
        let work = emitter.begin("work");
        let (mut out, mut err) = (work.stdout(), work.stderr());
        writeln!(out, "first").unwrap();
        writeln!(err, "problem").unwrap();
        write!(out, "no newline").unwrap();
        drop((out, err));
        work.finish(7);
    });
    assert_eq!(child, here);
    assert_eq!(child.len(), 5);
}

fn written(write: impl FnOnce(&mut OutputWriter)) -> Vec<TdEvent> {
    seen(|emitter| write(&mut emitter.writer(OutputStream::Stdout)))
}

#[test]
fn a_whole_line_is_reported_at_once_and_an_open_line_on_flush() {
    let events = written(|out| {
        for part in ["Prog", "ress: ", "5%\n6%", "\n7"] {
            out.write_all(part.as_bytes()).unwrap();
        }
        out.flush().unwrap();
        out.flush().unwrap();
        out.write_all(b"%").unwrap();
    });
    let expected = ["Progress: 5%\n", "6%\n", "7", "%"].map(|text| ("stdout", text));
    assert_eq!(texts(&events), expected);
}

#[test]
fn progress_output_is_throttled() {
    let events = written(|out| {
        for percent in 0..=100_000 {
            write!(out, "\r{percent}").unwrap();
            out.flush().unwrap();
        }
        writeln!(out, "\rdone    ").unwrap();
    });
    let texts = texts(&events);
    assert!(texts.len() < 1000, "{}", texts.len());
    assert_eq!(texts.last(), Some(&("stdout", "\rdone    \n")));
}

#[test]
fn work_that_panics_has_failed() {
    let events = seen(|emitter| {
        let emitter = emitter.clone();
        let panicked = std::thread::spawn(move || {
            let _work = emitter.begin("work");
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
    });
    let Some(TdEvent::ExecutionCompleted { exit_code, .. }) = events.last() else {
        panic!("{events:?}");
    };
    assert_eq!(*exit_code, Some(101));
}

#[test]
fn log_records_become_lines_except_our_own() {
    let events = seen(|emitter| {
        let bridge = LogBridge::new(emitter.clone(), log::LevelFilter::Info);
        for (level, target, message) in [
            (log::Level::Info, "my_code", "half of it is done"),
            (log::Level::Debug, "my_code", "too much"),
            (log::Level::Error, "td_observe::bus", "round in circles"),
            (log::Level::Warn, "td_observed", "two\nlines"),
        ] {
            let mut record = log::Record::builder();
            record.level(level).target(target);
            bridge.log(&record.args(format_args!("{message}")).build());
        }
    });
    assert_eq!(
        texts(&events),
        [
            ("stderr", "INFO my_code: half of it is done\n"),
            ("stderr", "WARN td_observed: two\nlines\n"),
        ]
    );
}
