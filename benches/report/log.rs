//! The log compared with the simple alternative: "serialise, write, flush", event by event.
//!
//! The reference writes the same lines: derived serde types, `serde_json::to_writer` into a
//! `BufWriter<File>`, a line feed, a flush.

mod latency;

use latency::latencies;

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::inotify;
use serde::Serialize;
use td_observe::history::{DataDir, RunInfo};
use td_observe::internals::history::{LogOptions, LogWriter, open_run};
use td_observe::redact::Rules;
use td_observe::{Builder, Clock, Emitted, Engine, Envelope, EventEmitter, TdEvent, Timestamp};

use crate::common::stats::{median, rounds};
use crate::common::table::{Bar, Row, Table};

const ID: &str = "bench@1768989600";
const TOKEN: &str = "I'll do it\n";
const EVENTS: u64 = 200_000;
const ROUNDS: usize = 5;

pub fn run(table: &mut Table) {
    for (producers, ours, redacted, channel, direct) in end_to_end() {
        let whom = if producers == 1 {
            "1 producer"
        } else {
            "4 producers"
        };
        for (ours, how) in [(ours, ""), (redacted, ", secrets taken out")] {
            for (theirs, instead) in [
                (direct, "each producer serialises, writes and flushes"),
                (channel, "a thread behind a channel does"),
            ] {
                table.row(&Row {
                    what: &format!("log, {whom} → the kernel{how}"),
                    ours: format!("{:.2} M events/s", ours / 1e6),
                    instead: format!("{instead}: {:.2} M events/s", theirs / 1e6),
                    ratio: Some(ours / theirs),
                    bar: if producers == 1 && !how.is_empty() {
                        Bar::Stated("≥ 2.00, ≥ 4 M/s", ours >= 2.0 * theirs && ours >= 4e6)
                    } else {
                        Bar::AtLeast(2.0)
                    },
                });
            }
        }
    }
    for (batch, ours, same, plain) in writer() {
        table.row(&Row {
            what: &format!("the log's writer alone, batches of {batch}"),
            ours: format!("{ours:.0} ns an event"),
            instead: format!(
                "serialise, write, flush: {plain:.0} ns ({same:.0} ns with {batch} a flush)"
            ),
            // As a speed, like the others.
            ratio: Some(plain / ours),
            bar: if batch == 1 {
                Bar::None
            } else {
                Bar::AtLeast(2.0)
            },
        });
    }
    for (rate, [ours, channel, direct]) in latencies() {
        table.row(&Row {
            what: &format!("log, emit → the kernel at {rate} events/s, p50 / p99"),
            ours: format!("{:.0} / {:.0} µs", ours[0], ours[1]),
            instead: format!(
                "direct: {:.0} / {:.0} µs; behind a channel: {:.0} / {:.0} µs",
                direct[0], direct[1], channel[0], channel[1]
            ),
            ratio: None,
            bar: Bar::Stated("p99 ≤ 5 ms", ours[1] <= 5000.0),
        });
    }
}

// The reference: the method of this project's seed, with the fields of our lines.

#[derive(Serialize)]
struct PlainLine {
    seq: u64,
    #[serde(serialize_with = "plain_stamp")]
    ts: i64,
    event: PlainEvent,
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum PlainEvent {
    TokenReceived {
        execution_id: String,
        iteration: u32,
        token: String,
    },
}

fn plain_stamp<S: serde::Serializer>(micros: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    let time = jiff::Timestamp::from_microsecond(*micros).unwrap();
    serializer.collect_str(&format_args!("{time:.6}"))
}

fn plain_event() -> PlainEvent {
    PlainEvent::TokenReceived {
        execution_id: ID.to_owned(),
        iteration: 1,
        token: TOKEN.to_owned(),
    }
}

/// Serialises, writes and flushes one event after the other.
struct Plain {
    file: BufWriter<File>,
    seq: u64,
}

impl Plain {
    fn create(path: &Path) -> Self {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        Self {
            file: BufWriter::new(file),
            seq: 0,
        }
    }

    fn write(&mut self, ts: i64, event: PlainEvent) {
        self.push(ts, event);
        self.file.flush().unwrap();
    }

    fn push(&mut self, ts: i64, event: PlainEvent) {
        self.seq += 1;
        let line = PlainLine {
            seq: self.seq,
            ts,
            event,
        };
        serde_json::to_writer(&mut self.file, &line).unwrap();
        self.file.write_all(b"\n").unwrap();
    }
}

fn micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_micros() as i64
}

/// Returns the length of each file with this number of events, without a header.
fn lengths(events: u64) -> Vec<u64> {
    let line = |seq| {
        let event = TdEvent::token_received(ID, 1, TOKEN);
        let envelope = Envelope::new(Some(seq), Timestamp::from_micros(micros()), event);
        serde_json::to_string(&envelope).unwrap().len() as u64 + 1
    };
    // Only the digits of the number differ.
    let (one, mut sum) = (line(1) - 1, 0);
    let lengths = (1..=events).map(|seq| {
        sum += one + u64::from(seq.ilog10()) + 1;
        sum
    });
    lengths.collect()
}

fn len(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.size())
}

// Figure 1: the writer alone, ns an event.

fn our_writer(batch: usize) -> f64 {
    let temp = tempfile::tempdir().unwrap();
    let clock = Clock::system();
    let run = DataDir::new(temp.path()).run(&ID.into());
    let mut log = LogWriter::start(LogOptions::default(), clock.clone()).unwrap();
    let open = open_run(&run, RunInfo::default(), clock.wall()).unwrap();
    log.attach(open, clock.now());
    let header = len(&run.events_path());
    let id = td_observe::ExecutionId::from(ID);
    let events: Vec<_> = (1..=EVENTS)
        .map(|seq| {
            let event = TdEvent::token_received(id.clone(), 1, TOKEN);
            Envelope::new(Some(seq), clock.wall(), event)
        })
        .collect();
    let began = Instant::now();
    for batch in events.chunks(batch) {
        let now = clock.now();
        log.append(batch, now);
        log.tick(now);
    }
    let spent = began.elapsed();
    let written = len(&run.events_path()) - header;
    assert_eq!(written, *lengths(EVENTS).last().unwrap());
    let _ = log.finish(clock.now());
    spent.as_nanos() as f64 / EVENTS as f64
}

/// Measures the plain loop; `batch` events per flush, 1 for the reference.
fn plain_writer(batch: usize) -> f64 {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("events.jsonl");
    let mut plain = Plain::create(&path);
    let events: Vec<_> = (0..EVENTS).map(|_| (micros(), plain_event())).collect();
    let began = Instant::now();
    for (number, (ts, event)) in events.into_iter().enumerate() {
        plain.push(ts, event);
        if (number + 1).is_multiple_of(batch) {
            plain.file.flush().unwrap();
        }
    }
    plain.file.flush().unwrap();
    let spent = began.elapsed();
    assert_eq!(len(&path), *lengths(EVENTS).last().unwrap());
    spent.as_nanos() as f64 / EVENTS as f64
}

/// For batches of 1, 16 and 256: ours, and the plain loop with as many events per flush; then the
/// reference, which is the plain loop with one.
fn writer() -> [(usize, f64, f64, f64); 3] {
    [1, 16, 256].map(|batch| {
        let [ours, same, plain] = rounds(
            ROUNDS,
            [&|| our_writer(batch), &|| plain_writer(batch), &|| {
                plain_writer(1)
            }],
        );
        (batch, ours, same, plain)
    })
}

// Figure 2: from producers to the kernel, events a second.

/// An engine with a log and one run.
struct Ours {
    engine: Engine,
    emitter: EventEmitter,
    path: PathBuf,
    header: u64,
    _temp: tempfile::TempDir,
}

impl Ours {
    fn start(redact: Rules) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let engine = Builder::new()
            .data_dir(temp.path())
            .redact(redact)
            .start()
            .unwrap();
        let emitter = engine.emitter_for(ID, RunInfo::default()).unwrap();
        let path = DataDir::new(temp.path()).run(&ID.into()).events_path();
        // One event makes the log's thread read its commands and write the header.
        emitter.iteration_started(1);
        wait_for(|| fs::read_to_string(&path).is_ok_and(|text| text.lines().count() == 2));
        Self {
            engine,
            emitter,
            header: len(&path),
            path,
            _temp: temp,
        }
    }

    fn end(self) {
        let report = self.engine.shutdown();
        assert!(report.log.unwrap().lost.is_empty());
    }
}

/// Returns the lengths of a file whose first event has the number 2.
fn lengths_from_2(events: u64) -> Vec<u64> {
    let all = lengths(events + 1);
    all[1..].iter().map(|length| length - all[0]).collect()
}

fn wait_for(mut is_met: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_met() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never comes");
        thread::sleep(Duration::from_micros(100));
    }
}

/// Returns the events per second from the first call of a producer until the file contains all of them.
fn throughput(path: &Path, expected: u64, producers: Vec<Box<dyn FnOnce() + Send>>) -> f64 {
    let began = Instant::now();
    let producers: Vec<_> = producers.into_iter().map(thread::spawn).collect();
    for producer in producers {
        producer.join().unwrap();
    }
    wait_for(|| len(path) >= expected);
    let spent = began.elapsed();
    assert_eq!(len(path), expected, "something is missing, or twice");
    EVENTS as f64 / spent.as_secs_f64()
}

fn our_throughput(producers: u64, redact: Rules) -> f64 {
    let ours = Ours::start(redact);
    let expected = ours.header + lengths_from_2(EVENTS).last().unwrap();
    let producers = (0..producers).map(|_| {
        let emitter = ours.emitter.clone();
        let produce: Box<dyn FnOnce() + Send> = Box::new(move || {
            let deadline = Instant::now() + Duration::from_secs(60);
            for _ in 0..EVENTS / producers {
                let event = TdEvent::token_received(emitter.execution_id().clone(), 1, TOKEN);
                assert_eq!(emitter.emit_deadline(event, deadline), Emitted::Accepted);
            }
        });
        produce
    });
    let rate = throughput(&ours.path, expected, producers.collect());
    ours.end();
    rate
}

/// A thread behind a channel of the same capacity as ours that writes event by event.
fn channel_throughput(producers: u64) -> f64 {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("events.jsonl");
    let (send, writer) = plain_thread(&path);
    let make = (0..producers).map(|_| {
        let send = send.clone();
        let produce: Box<dyn FnOnce() + Send> = Box::new(move || {
            for _ in 0..EVENTS / producers {
                send.send((micros(), plain_event())).unwrap();
            }
        });
        produce
    });
    let rate = throughput(&path, *lengths(EVENTS).last().unwrap(), make.collect());
    drop(send);
    writer.join().unwrap();
    rate
}

type PlainSender = crossbeam_channel::Sender<(i64, PlainEvent)>;

fn plain_thread(path: &Path) -> (PlainSender, thread::JoinHandle<()>) {
    let (send, receive) = crossbeam_channel::bounded(8 * 1024);
    let mut plain = Plain::create(path);
    let writer = thread::spawn(move || {
        for (ts, event) in receive {
            plain.write(ts, event);
        }
    });
    (send, writer)
}

/// Producers that write directly, one after the other.
fn direct_throughput(producers: u64) -> f64 {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("events.jsonl");
    let plain = Arc::new(Mutex::new(Plain::create(&path)));
    let make = (0..producers).map(|_| {
        let plain = Arc::clone(&plain);
        let produce: Box<dyn FnOnce() + Send> = Box::new(move || {
            for _ in 0..EVENTS / producers {
                let event = (micros(), plain_event());
                plain.lock().unwrap().write(event.0, event.1);
            }
        });
        produce
    });
    throughput(&path, *lengths(EVENTS).last().unwrap(), make.collect())
}

/// For 1 and 4 producers: ours, ours with redaction, a thread behind a channel, direct writing; events
/// per second.
fn end_to_end() -> [(u64, f64, f64, f64, f64); 2] {
    [1, 4].map(|producers| {
        let [ours, redacted, channel, direct] = rounds(
            ROUNDS,
            [
                &|| our_throughput(producers, Rules::none()),
                &|| our_throughput(producers, Rules::builtin()),
                &|| channel_throughput(producers),
                &|| direct_throughput(producers),
            ],
        );
        (producers, ours, redacted, channel, direct)
    })
}

// Figure 3: from the emit to the kernel, µs.
