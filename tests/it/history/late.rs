//! Late and slow readers that need everything: `Reader::of_run` continues from the log to live events.

use std::path::Path;
use std::thread;
use std::time::Duration;

use td_observe::feed::{Next, Reader};
use td_observe::history::{DataDir, Rotation, RunInfo};
use td_observe::process::Command;
use td_observe::{Builder, Delivery, Engine, Envelope, EventEmitter, TdEvent};

use super::{accounted, paths, read};
use crate::support::CEILING;

const SMALL: Rotation = Rotation {
    bytes_max: 32 * 1024,
    age_max: None,
};

fn engine(data: &Path, capacity: usize) -> Engine {
    let builder = Builder::new().data_dir(data).rotation(SMALL);
    builder.capacity(capacity).start().unwrap()
}

fn emitter(engine: &Engine, id: &str) -> EventEmitter {
    engine.emitter_for(id, RunInfo::default()).unwrap()
}

fn emit(emitter: &EventEmitter, tokens: std::ops::Range<u32>) {
    for number in tokens {
        emitter.token_received(number, &format!("the token {number}"));
    }
}

/// Returns all events to the end, none of which may be missing.
#[track_caller]
fn all(reader: &mut Reader) -> Vec<Envelope> {
    let take = |next: Next| match next {
        Next::Event(envelope) => envelope.into_envelope(),
        other => panic!("{other:?}"),
    };
    to_the_end(reader).into_iter().map(take).collect()
}

/// Returns all items to the end.
fn to_the_end(reader: &mut Reader) -> Vec<Next> {
    let next = || match reader.next(None) {
        Next::End => None,
        next => Some(next),
    };
    std::iter::from_fn(next).collect()
}

/// Returns the next items.
#[track_caller]
fn some(reader: &mut Reader, count: usize) -> Vec<Next> {
    let next = |_| match reader.next_within(CEILING) {
        next @ (Next::Timeout | Next::End) => panic!("{next:?}"),
        next => next,
    };
    (0..count).map(next).collect()
}

#[track_caller]
fn seqs(items: &[Next]) -> Vec<u64> {
    let seq = |next: &Next| match next {
        Next::Event(envelope) => envelope.seq.unwrap(),
        other => panic!("{other:?}"),
    };
    items.iter().map(seq).collect()
}

/// Returns the number of an event; of a gap, which even here a full bus may leave, the first.
fn first_number(envelope: &Envelope) -> u64 {
    match envelope.event {
        TdEvent::LogGap { first_seq, .. } => first_seq,
        _ => envelope.seq.unwrap(),
    }
}

#[test]
fn a_late_reader_gets_every_number_once() {
    const EACH: u32 = 15_000;
    let temp = tempfile::tempdir().unwrap();
    let engine = engine(temp.path(), 10_000);
    let (job, other) = (emitter(&engine, "job"), emitter(&engine, "other"));
    let mut readers = Vec::new();
    let mut events = engine.subscribe();
    thread::scope(|scope| {
        let floods =
            [&job, &job, &job, &other].map(|source| scope.spawn(move || emit(source, 0..EACH)));
        // Each reader joins while the previous one reaches the live stream.
        for join in 0..6_u64 {
            let wanted = join * 5_000;
            // Or when the floods are over: on a busy machine most readers may be refused.
            while floods.iter().any(|flood| !flood.is_finished())
                && events
                    .recv_timeout(Duration::from_millis(10))
                    .ok()
                    .and_then(Delivery::into_envelope)
                    .is_none_or(|envelope| envelope.seq.is_none_or(|seq| seq < wanted))
            {
            }
            let mut reader = Reader::of_run(&engine, "job", 1);
            readers.push((1, thread::spawn(move || all(&mut reader))));
        }
    });
    let mut late = Reader::of_run(&engine, "job", 40_000);
    readers.push((40_000, thread::spawn(move || all(&mut late))));
    let report = engine.shutdown();
    assert!(report.panicked.is_empty(), "{report:?}");
    let kept = read(&DataDir::new(temp.path()).run(&"job".into()));
    assert_eq!(accounted(&kept, 1), u64::from(3 * EACH) + 1);
    for (from, reader) in readers {
        let events = reader.join().unwrap();
        // A gap that begins before the requested number is delivered, too.
        let first = first_number(&events[0]);
        let begins = first..=events[0].seq.unwrap();
        assert!(begins.contains(&from), "{begins:?} for {from}");
        assert_eq!(accounted(&events, first), u64::from(3 * EACH) + 1);
        assert!(
            events
                .iter()
                .all(|envelope| envelope.event.execution_id() == "job")
        );
    }
}

#[test]
fn a_slow_reader_gets_dropped_events_from_the_log() {
    let temp = tempfile::tempdir().unwrap();
    let engine = engine(temp.path(), 16);
    let job = emitter(&engine, "job");
    let mut reader = Reader::of_run(&engine, "job", 1);
    let mut seen = Vec::new();
    // Always more than the lane holds, and always fewer events are read than arrive.
    for round in 0..100 {
        emit(&job, round * 50..round * 50 + 50);
        seen.extend(seqs(&some(&mut reader, 10)));
    }
    assert_eq!(seen, (1..=1000).collect::<Vec<u64>>());
    engine.shutdown();
    // The rest still arrives after the end.
    let rest = all(&mut reader);
    assert_eq!(accounted(&rest, 1001), 5001);
    assert!(matches!(reader.next(None), Next::End));
}

#[test]
fn without_a_log_missing_events_are_counted() {
    let engine = Builder::new().capacity(16).start().unwrap();
    let job = emitter(&engine, "job");
    let mut early = Reader::of_run(&engine, "job", 1);
    emit(&job, 0..1000);
    // The bus has ended, so every event has arrived.
    let mut late = Reader::of_run(&engine, "job", 1);
    emit(&job, 1000..1010);
    engine.shutdown();
    for (reader, missed, count) in [(&mut early, 994, 16), (&mut late, 1000, 10)] {
        let deliveries = to_the_end(reader);
        let first = match deliveries.first() {
            Some(Next::Missed(missed)) => *missed,
            other => panic!("{other:?}"),
        };
        assert_eq!(first, missed);
        let seqs = seqs(&deliveries[1..]);
        assert_eq!(seqs, (1011 - count..=1010).collect::<Vec<u64>>());
    }
}

#[test]
fn events_removed_from_the_log_are_counted_as_missing() {
    let temp = tempfile::tempdir().unwrap();
    let first = engine(temp.path(), 16);
    let job = emitter(&first, "job");
    for round in 0..20 {
        emit(&job, round * 100..round * 100 + 100);
        // All events are written before more arrive, so that there are several writes.
        some(
            &mut Reader::of_run(&first, "job", u64::from(round) * 100 + 1),
            100,
        );
    }
    first.shutdown();
    let run = DataDir::new(temp.path()).run(&"job".into());
    let files = paths(run.path());
    assert!(files.len() > 4, "{files:?}");
    let removed = files.len() / 2;
    std::fs::remove_file(&files[removed]).unwrap();
    let left = read(&run);
    let second = engine(temp.path(), 16);
    let mut reader = Reader::of_run(&second, "job", 1);
    emit(&emitter(&second, "job"), 0..1);
    second.shutdown();
    let (mut missing, mut next) = (Vec::new(), 1);
    for item in to_the_end(&mut reader) {
        match item {
            Next::Missed(missed) => {
                missing.push(missed);
                next += missed;
            }
            Next::Event(envelope) => {
                assert_eq!(envelope.seq, Some(next));
                next += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(next, 2002);
    assert_eq!(missing, [2000 - left.len() as u64]);
}

#[test]
fn a_damaged_number_is_one_missing_event() {
    for damaged in ["950", "40", "17", "9007199254740993"] {
        let temp = tempfile::tempdir().unwrap();
        let first = engine(temp.path(), 16);
        emit(&emitter(&first, "job"), 0..60);
        first.shutdown();
        let newest = DataDir::new(temp.path()).run(&"job".into()).events_path();
        let text = std::fs::read_to_string(&newest).unwrap();
        let seq = |number: &str| format!("{{\"seq\":{number},\"ts\"");
        std::fs::write(&newest, text.replace(&seq("30"), &seq(damaged))).unwrap();
        let second = engine(temp.path(), 16);
        let mut reader = Reader::of_run(&second, "job", 1);
        emit(&emitter(&second, "job"), 0..1);
        second.shutdown();
        let (missed, events): (Vec<Next>, Vec<Next>) = to_the_end(&mut reader)
            .into_iter()
            .partition(|next| matches!(next, Next::Missed(_)));
        assert!(
            matches!(missed[..], [Next::Missed(1)]),
            "{damaged}: {missed:?}"
        );
        let expected: Vec<u64> = (1..=61).filter(|seq| *seq != 30).collect();
        assert_eq!(seqs(&events), expected, "{damaged}");
    }
}

#[test]
fn after_a_restart_a_reader_begins_with_the_first_event() {
    let temp = tempfile::tempdir().unwrap();
    let first = engine(temp.path(), 16);
    emit(&emitter(&first, "job"), 0..300);
    first.shutdown();
    let second = engine(temp.path(), 16);
    // Before the run is resumed, and afterwards.
    let mut before = Reader::of_run(&second, "job", 1);
    let job = emitter(&second, "job");
    let mut after = Reader::of_run(&second, "job", 1);
    let mut middle = Reader::of_run(&second, "job", 290);
    assert_eq!(
        seqs(&some(&mut middle, 11)),
        (290..=300).collect::<Vec<u64>>()
    );
    emit(&job, 300..400);
    assert_eq!(
        seqs(&some(&mut middle, 100)),
        (301..=400).collect::<Vec<u64>>()
    );
    for reader in [&mut before, &mut after] {
        assert_eq!(seqs(&some(reader, 400)), (1..=400).collect::<Vec<u64>>());
    }
    second.shutdown();
    for reader in [&mut before, &mut after, &mut middle] {
        assert!(matches!(reader.next(None), Next::End));
    }
}

#[test]
fn an_observer_without_a_log_ignores_the_log_of_another() {
    let temp = tempfile::tempdir().unwrap();
    let (first, mut second) = (engine(temp.path(), 16), engine(temp.path(), 16));
    emit(&emitter(&first, "job"), 0..100);
    some(&mut Reader::of_run(&first, "job", 1), 100);
    let mut started = second.subscribe();
    let sleep = Command::new("sleep").arg("60");
    let _job = second.execute_as("job", sleep).unwrap();
    let is_start = |envelope: &Envelope| matches!(envelope.event, TdEvent::ExecutionStarted { .. });
    while !started
        .recv_timeout(CEILING)
        .unwrap()
        .envelope()
        .is_some_and(is_start)
    {}
    let job = second.bus().emitter_for("job");
    // Number 1 is the warning that the run has no log here, and number 2 the start.
    emit(&job, 0..48);
    let mut reader = Reader::of_run(&second, "job", 1);
    emit(&job, 48..51);
    match reader.next_within(CEILING) {
        Next::Missed(missed) => assert_eq!(missed, 50),
        other => panic!("{other:?}"),
    }
    assert_eq!(seqs(&some(&mut reader, 3)), [51, 52, 53]);
    second.shutdown();
    first.shutdown();
}
