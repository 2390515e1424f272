//! The event bus compared with `tokio::sync::broadcast`.
//!
//! tokio is measured twice: with events by value, as in the seed's design (each receiver clones), and
//! behind an `Arc`. Both sides have the same producers, which wait for room in the same window, so that
//! nothing is lost. Rounds alternate; the table shows medians.

mod latency;

use latency::{idle, ours_latency, tokio_latency};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use td_observe::internals::bus::subscribe_lossless;
use td_observe::{Delivery, Emitted, EventBus, Subscription, TdEvent};
use tokio::sync::broadcast;

use crate::common::cpu::own_ms;
use crate::common::stats::{median, rounds};
use crate::common::table::{Bar, Row, Table};

const PRODUCERS: u64 = 4;
const SUBSCRIBERS: usize = 4;
/// The events sent in a round of the throughput test.
const EVENTS: u64 = 400_000;
/// The most events in transit: the text capacity of the inbox, and the capacity of each lane and channel.
const WINDOW: u64 = 4_096;
const CAPACITY: usize = 16_384;
const ROUNDS: usize = 5;

fn token(text: &str) -> TdEvent {
    TdEvent::token_received("bench", 1, text)
}

/// Keeps producers at most a window ahead of the slowest reader.
struct Window {
    sent: AtomicU64,
    read: Vec<Padded>,
}

#[repr(align(128))]
#[derive(Default)]
struct Padded(AtomicU64);

impl Window {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            sent: AtomicU64::new(0),
            read: (0..SUBSCRIBERS).map(|_| Padded::default()).collect(),
        })
    }

    /// Room for 64 more events.
    fn wait(&self) {
        let sent = self.sent.fetch_add(64, Ordering::Relaxed) + 64;
        while self
            .read
            .iter()
            .any(|read| read.0.load(Ordering::Relaxed) + WINDOW < sent)
        {
            thread::yield_now();
        }
    }
}

/// Returns the events per second through `send`, read by `readers`, each of which reports its progress.
fn throughput<S: FnMut() + Send + 'static>(
    window: &Arc<Window>,
    senders: Vec<S>,
    readers: Vec<thread::JoinHandle<()>>,
) -> f64 {
    let began = Instant::now();
    let senders: Vec<_> = senders
        .into_iter()
        .map(|mut send| {
            let window = Arc::clone(window);
            thread::spawn(move || {
                for _ in 0..EVENTS / PRODUCERS / 64 {
                    window.wait();
                    for _ in 0..64 {
                        send();
                    }
                }
            })
        })
        .collect();
    for thread in senders.into_iter().chain(readers) {
        thread.join().unwrap();
    }
    total() as f64 / began.elapsed().as_secs_f64()
}

fn total() -> u64 {
    EVENTS / PRODUCERS / 64 * 64 * PRODUCERS
}

fn read_until(window: &Window, who: usize, mut next: impl FnMut() -> u64) {
    let (mut read, mut reported) = (0, 0);
    while read < total() {
        read += next();
        if read - reported >= 64 || read == total() {
            window.read[who].0.store(read, Ordering::Relaxed);
            reported = read;
        }
    }
}

fn receive(subscription: &mut Subscription) -> u64 {
    match subscription.recv().unwrap() {
        Delivery::Event(event) => {
            std::hint::black_box(&event.event);
            event.n
        }
        Delivery::Lagged { missed } => panic!("{missed} lost"),
    }
}

fn ours_throughput() -> f64 {
    let bus = EventBus::new(CAPACITY);
    let window = Window::new();
    let readers = (0..SUBSCRIBERS)
        .map(|who| {
            let (mut events, window) = (bus.subscribe(), Arc::clone(&window));
            thread::spawn(move || read_until(&window, who, || receive(&mut events)))
        })
        .collect();
    let senders = (0..PRODUCERS)
        .map(|_| {
            let emitter = bus.emitter_for("bench");
            move || {
                emitter.token_received(1, "I'll do it");
            }
        })
        .collect();
    throughput(&window, senders, readers)
}

/// Four lossless lanes, and producers that wait for room with the bus's own method.
fn ours_kept_throughput() -> f64 {
    let bus = EventBus::new(CAPACITY);
    let readers: Vec<_> = (0..SUBSCRIBERS)
        .map(|_| {
            let mut lane = subscribe_lossless(&bus).unwrap();
            thread::spawn(move || {
                let mut read = 0;
                while let Ok(batch) = lane.recv_deadline(None) {
                    read += batch.len() as u64;
                }
                assert_eq!(read, total());
            })
        })
        .collect();
    let began = Instant::now();
    let senders: Vec<_> = (0..PRODUCERS)
        .map(|_| {
            let emitter = bus.emitter_for("bench");
            thread::spawn(move || {
                let deadline = Instant::now() + Duration::from_secs(60);
                for _ in 0..total() / PRODUCERS {
                    emitter.emit_deadline(token("I'll do it"), deadline);
                }
            })
        })
        .collect();
    for sender in senders {
        sender.join().unwrap();
    }
    bus.close();
    for reader in readers {
        reader.join().unwrap();
    }
    total() as f64 / began.elapsed().as_secs_f64()
}

fn tokio_throughput<T: Clone + Send + 'static>(make: fn(TdEvent) -> T) -> f64 {
    let (tx, _) = broadcast::channel::<T>(CAPACITY);
    let window = Window::new();
    let readers = (0..SUBSCRIBERS)
        .map(|who| {
            let (mut rx, window) = (tx.subscribe(), Arc::clone(&window));
            thread::spawn(move || {
                read_until(&window, who, || {
                    std::hint::black_box(rx.blocking_recv().unwrap());
                    1
                });
            })
        })
        .collect();
    let senders = (0..PRODUCERS)
        .map(|_| {
            let tx = tx.clone();
            let id = td_observe::ExecutionId::from("bench");
            move || {
                let event = TdEvent::token_received(id.clone(), 1, "I'll do it");
                let _ = tx.send(make(event));
            }
        })
        .collect();
    throughput(&window, senders, readers)
}

/// Measures the cost of one emit to the emitting thread, in ns: bursts of 64 with pauses, 4 readers.
fn emit_cost(mut send: impl FnMut(), burst: u64) -> f64 {
    let (mut spent, mut sent) = (Duration::ZERO, 0);
    while sent < 20_000 {
        let began = Instant::now();
        for _ in 0..burst {
            send();
        }
        spent += began.elapsed();
        sent += burst;
        // All threads block again, as between two ticks of a poller.
        thread::sleep(Duration::from_micros(burst.min(10) * 50));
    }
    spent.as_nanos() as f64 / sent as f64
}

fn ours_emit(burst: u64) -> f64 {
    let bus = EventBus::new(CAPACITY);
    let readers: Vec<_> = (0..SUBSCRIBERS)
        .map(|_| {
            let mut events = bus.subscribe();
            thread::spawn(move || events.iter().count())
        })
        .collect();
    let emitter = bus.emitter_for("bench");
    let cost = emit_cost(
        || {
            emitter.token_received(1, "I'll do it");
        },
        burst,
    );
    bus.close();
    readers
        .into_iter()
        .for_each(|reader| assert!(reader.join().unwrap() > 0));
    cost
}

fn tokio_emit<T: Clone + Send + 'static>(make: fn(TdEvent) -> T, burst: u64) -> f64 {
    let (tx, _) = broadcast::channel::<T>(CAPACITY);
    let readers: Vec<_> = (0..SUBSCRIBERS)
        .map(|_| {
            let mut rx = tx.subscribe();
            thread::spawn(move || while rx.blocking_recv().is_ok() {})
        })
        .collect();
    let id = td_observe::ExecutionId::from("bench");
    let cost = emit_cost(
        || {
            let event = TdEvent::token_received(id.clone(), 1, "I'll do it");
            let _ = tx.send(make(event));
        },
        burst,
    );
    drop(tx);
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
    cost
}

pub fn run(table: &mut Table) {
    throughput_rows(table);
    emit_rows(table);
    latency_rows(table);
    let idle = idle();
    table.row(&Row {
        what: "bus at rest, 4 subscribers and a log, CPU in 10 s",
        ours: format!("{idle:.1} ms"),
        instead: String::new(),
        ratio: None,
        bar: Bar::Stated("≤ 1 ms", idle <= 1.0),
    });
}

fn throughput_rows(table: &mut Table) {
    let [td, kept, value, arc] = rounds(
        ROUNDS,
        [
            &ours_throughput,
            &ours_kept_throughput,
            &|| tokio_throughput::<TdEvent>(|event| event),
            &|| tokio_throughput::<Arc<TdEvent>>(Arc::new),
        ],
    );
    for (what, ours, bar) in [
        ("bus, 4 producers → 4 subscribers, nothing lost", td, 2.5),
        (
            "bus, 4 producers → 4 lossless lanes (the log's kind)",
            kept,
            1.2,
        ),
    ] {
        table.row(&Row {
            what,
            ours: format!("{:.2} M events/s", ours / 1e6),
            instead: format!(
                "`tokio::sync::broadcast`: {:.2} M events/s ({:.2} M behind an `Arc`)",
                value / 1e6,
                arc / 1e6
            ),
            ratio: Some(ours / value),
            bar: Bar::AtLeast(bar),
        });
    }
}

fn emit_rows(table: &mut Table) {
    for (what, burst) in [
        ("an `emit` when everybody sleeps", 1),
        ("an `emit` in bursts of 64", 64),
    ] {
        let [td, value, arc] = rounds(
            3,
            [
                &|| ours_emit(burst),
                &|| tokio_emit::<TdEvent>(|event| event, burst),
                &|| tokio_emit::<Arc<TdEvent>>(Arc::new, burst),
            ],
        );
        table.row(&Row {
            what,
            ours: format!("{:.2} µs", td / 1e3),
            instead: format!(
                "tokio's `send`: {:.2} µs ({:.2} µs behind an `Arc`)",
                value / 1e3,
                arc / 1e3
            ),
            ratio: Some(td / value),
            bar: if burst == 1 {
                Bar::AtMost(0.5)
            } else {
                Bar::Stated("≤ 0.50, ≤ 150 ns", td <= value / 2.0 && td <= 150.0)
            },
        });
    }
}

fn latency_rows(table: &mut Table) {
    let (mut td, mut by_tokio) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        td.push(ours_latency());
        by_tokio.push(tokio_latency());
    }
    let p50 = |all: &[(f64, f64)]| median(all.iter().map(|receive| receive.0).collect());
    let p99 = |all: &[(f64, f64)]| median(all.iter().map(|receive| receive.1).collect());
    for (what, ours, theirs) in [
        (
            "bus, latency p50 at 10,000 events/s",
            p50(&td),
            p50(&by_tokio),
        ),
        (
            "bus, latency p99 at 10,000 events/s",
            p99(&td),
            p99(&by_tokio),
        ),
    ] {
        table.row(&Row {
            what,
            ours: format!("{ours:.0} µs"),
            instead: format!("tokio: {theirs:.0} µs"),
            ratio: Some(ours / theirs),
            bar: Bar::AtMost(1.0),
        });
    }
}
