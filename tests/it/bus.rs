//! The event bus through its public API: every event sent is received or counted, and no call hangs.

mod lanes;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use td_observe::bus::{RecvError, RecvTimeoutError, TryRecvError};
use td_observe::internals::bus::{LosslessLane, subscribe_lossless};
use td_observe::{
    BusOptions, Delivery, Emitted, Envelope, EventBus, EventKind, FakeClock, Filter,
    SubscribeOptions, Subscription, TdEvent,
};

/// Timeout for each step; a step that takes this long hangs.
const CEILING: Duration = Duration::from_secs(60);

/// Runs `body` in a thread, and panics when it hangs.
#[track_caller]
fn with_timeout<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let worker = thread::spawn(move || {
        let _ = done.send(body());
    });
    match result.recv_timeout(CEILING) {
        Ok(value) => {
            worker.join().unwrap();
            value
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(worker.join().unwrap_err())
        }
    }
}

fn small_bus(capacity: usize, lossless_bytes_max: usize) -> EventBus {
    EventBus::with_options(BusOptions {
        capacity,
        lossless_bytes_max,
        ..Default::default()
    })
    .unwrap()
}

/// Reads to the end; returns the numbers of received and missed events, and the envelopes.
fn read_all(mut subscription: Subscription) -> (u64, u64, Vec<Envelope>) {
    let (mut received, mut missed, mut envelopes) = (0, 0, Vec::new());
    for delivery in subscription.iter() {
        match delivery {
            Delivery::Event(event) => {
                received += event.n;
                envelopes.push(event.into_envelope());
            }
            Delivery::Lagged { missed: more } => {
                assert!(more > 0);
                missed += more;
            }
        }
    }
    (received, missed, envelopes)
}

fn read_lossless(mut lane: LosslessLane) -> Vec<Envelope> {
    let mut all = Vec::new();
    loop {
        match lane.recv_deadline(Some(Instant::now() + CEILING)) {
            Ok(batch) => all.extend(batch.iter().cloned()),
            Err(RecvTimeoutError::Closed) => return all,
            Err(RecvTimeoutError::Timeout) => panic!("hangs"),
        }
    }
}

/// Asserts that each execution's numbers are contiguous, gaps included; returns the last numbers and
/// how many events are missing.
#[track_caller]
fn check_ranges(envelopes: &[Envelope]) -> (HashMap<String, u64>, u64) {
    let (mut last, mut missing) = (HashMap::new(), 0);
    for envelope in envelopes {
        let last = last
            .entry(envelope.event.execution_id().to_owned())
            .or_insert(0);
        let first = match envelope.event {
            TdEvent::LogGap {
                first_seq,
                last_seq,
                ..
            } => {
                missing += last_seq - first_seq + 1;
                first_seq
            }
            _ => envelope.seq.unwrap(),
        };
        assert_eq!(first, *last + 1, "{envelope:?}");
        *last = envelope.seq.unwrap();
    }
    (last, missing)
}

#[test]
fn an_emitter_s_events_are_numbered_and_delivered_until_the_bus_closes() {
    let bus = Arc::new(EventBus::new(10_000));
    let mut events = bus.subscribe();
    let emitter = bus.emitter_for("execution-123");
    assert_eq!(
        emitter.prompt_sent(1, "Implement OAuth...", 1500),
        Emitted::Accepted
    );
    emitter.token_received(1, "I'll");
    bus.emit(TdEvent::iteration_started("other", 1));
    // The emitter assigns the event to its own execution.
    emitter.emit(TdEvent::iteration_started("other", 2));
    let got: Vec<_> = (0..4)
        .map(|_| {
            events
                .recv_timeout(CEILING)
                .unwrap()
                .into_envelope()
                .unwrap()
        })
        .map(|one| {
            (
                one.event.execution_id().to_owned(),
                one.seq,
                one.event.kind(),
            )
        })
        .collect();
    let expected = [
        ("execution-123".to_owned(), Some(1), EventKind::PromptSent),
        (
            "execution-123".to_owned(),
            Some(2),
            EventKind::TokenReceived,
        ),
        ("other".to_owned(), Some(1), EventKind::IterationStarted),
        (
            "execution-123".to_owned(),
            Some(3),
            EventKind::IterationStarted,
        ),
    ];
    assert_eq!(got, expected);
    assert_eq!(events.try_recv().unwrap_err(), TryRecvError::Empty);
    bus.close();
    bus.close();
    assert_eq!(events.recv().unwrap_err(), RecvError);
    assert_eq!(events.try_recv().unwrap_err(), TryRecvError::Closed);
    assert_eq!(emitter.iteration_started(3), Emitted::Closed);
    assert_eq!(
        emitter.emit_deadline(warning("x"), Instant::now() + CEILING),
        Emitted::Closed
    );
    assert_eq!(bus.subscribe().recv().unwrap_err(), RecvError);
    assert!(subscribe_lossless(&bus).unwrap_err().is_gone());
}

fn warning(context: &str) -> TdEvent {
    TdEvent::warning("x", context, "")
}

/// Producers race with readers of all kinds, with hardly any room: all counts are exact.
#[test]
fn received_plus_missed_equals_sent() {
    with_timeout(|| {
        for round in 0..20 {
            let bus = Arc::new(small_bus(7, 4096));
            let all = bus.subscribe();
            let throttled = bus.subscribe_with(SubscribeOptions {
                throttle: Some(Duration::from_millis(1)),
                ..Default::default()
            });
            let selected = bus.subscribe_with(SubscribeOptions {
                filter: Filter::all().execution("p1").kind(EventKind::TokenReceived),
                capacity: Some(3),
                ..Default::default()
            });
            let unread = bus.subscribe();
            let lossless = subscribe_lossless(&bus).unwrap();
            let readers =
                [all, throttled, selected].map(|one| thread::spawn(move || read_all(one)));
            let log = thread::spawn(move || read_lossless(lossless));
            let refused = Arc::new(AtomicU64::new(0));
            let producers: Vec<_> = (0..4)
                .map(|who| {
                    let emitter = bus.emitter_for(format!("p{who}"));
                    let refused = Arc::clone(&refused);
                    thread::spawn(move || {
                        for number in 0..1000 {
                            let emitted = match number % 10 {
                                0 => emitter.iteration_started(number),
                                1 => emitter.emit_live(TdEvent::output_revised(
                                    "x",
                                    &"%1".into(),
                                    1,
                                    "y",
                                )),
                                _ => emitter.token_received(1, "x"),
                            };
                            match emitted {
                                Emitted::Accepted => {}
                                Emitted::Refused => {
                                    refused.fetch_add(1, Ordering::Relaxed);
                                }
                                Emitted::Closed => panic!("not closed yet"),
                            }
                        }
                    })
                })
                .collect();
            for producer in producers {
                producer.join().unwrap();
            }
            bus.close();
            let [all, throttled, selected] = readers.map(|one| one.join().unwrap());
            assert_eq!(all.0 + all.1, 4000, "round {round}");
            assert!(all.1 >= refused.load(Ordering::Relaxed));
            assert_eq!(throttled.0 + throttled.1, 4000, "round {round}");
            assert_eq!(selected.0 + selected.1, 800, "round {round}");
            assert!(
                selected
                    .2
                    .iter()
                    .all(|one| one.event.kind() == EventKind::TokenReceived)
            );
            let (received, missed, rest) = read_all(unread);
            assert_eq!(received + missed, 4000, "round {round}");
            assert!(rest.len() <= 7);
            // The lossless lane has a number for each of the 900 events that are not live only.
            let (last, _) = check_ranges(&log.join().unwrap());
            assert!(
                (0..4).all(|who| last[&format!("p{who}")] == 900),
                "{last:?}"
            );
        }
    });
}

/// An event that is accepted while the bus closes is still delivered.
#[test]
fn accepted_events_are_delivered_whenever_the_bus_closes() {
    with_timeout(|| {
        for _ in 0..200 {
            let bus = Arc::new(EventBus::new(1_000_000));
            let events = bus.subscribe();
            let lossless = subscribe_lossless(&bus).unwrap();
            let started = Arc::new(std::sync::Barrier::new(3));
            let producers = [0, 1].map(|_| {
                let (emitter, started) = (bus.emitter_for("a"), Arc::clone(&started));
                thread::spawn(move || {
                    started.wait();
                    let mut sent = 0;
                    loop {
                        match emitter.iteration_started(1) {
                            Emitted::Closed => return sent,
                            Emitted::Accepted | Emitted::Refused => sent += 1,
                        }
                    }
                })
            });
            started.wait();
            bus.close();
            let sent: u64 = producers.into_iter().map(|one| one.join().unwrap()).sum();
            let (received, missed, _) = read_all(events);
            assert_eq!(received + missed, sent);
            let (last, _) = check_ranges(&read_lossless(lossless));
            assert_eq!(last.get("a").copied().unwrap_or(0), sent);
        }
    });
}

#[test]
fn lagged_precedes_the_remaining_events() {
    let bus = EventBus::new(10);
    let mut unread = bus.subscribe();
    let emitter = bus.emitter_for("a");
    for number in 1..=1000 {
        emitter.iteration_started(number);
    }
    bus.shutdown().unwrap();
    let got: Vec<_> = unread.iter().collect();
    assert_eq!(got.len(), 11);
    assert!(
        matches!(got[0], Delivery::Lagged { missed: 990 }),
        "{:?}",
        got[0]
    );
    assert_eq!(got[1].envelope().unwrap().seq, Some(991));
}

#[test]
fn a_subscriber_that_is_dropped_or_panics_does_not_affect_others() {
    with_timeout(|| {
        let bus = Arc::new(EventBus::new(100_000));
        let steady = bus.subscribe();
        let mut leaving = bus.subscribe();
        let panicking = bus.subscribe_filtered(|_| panic!("on purpose"));
        let emitter = bus.emitter_for("a");
        let reader = thread::spawn(move || read_all(steady));
        let producer = thread::spawn(move || {
            for number in 0..20_000 {
                // Waits for room, so that every event is received below.
                let deadline = Instant::now() + CEILING;
                let event = TdEvent::iteration_started("a", number);
                assert_eq!(emitter.emit_deadline(event, deadline), Emitted::Accepted);
            }
        });
        leaving.recv().unwrap();
        drop(leaving);
        let panicked = thread::spawn(move || {
            let mut panicking = panicking;
            let _ = panicking.recv();
        });
        assert!(panicked.join().is_err());
        producer.join().unwrap();
        bus.close();
        let (received, missed, _) = reader.join().unwrap();
        assert_eq!((received, missed), (20_000, 0));
    });
}

#[test]
fn a_subscription_begins_at_its_creation() {
    let bus = EventBus::new(10_000);
    let emitter = bus.emitter_for("a");
    for number in 0..1000 {
        emitter.iteration_started(number);
    }
    let events = bus.subscribe();
    let lossless = subscribe_lossless(&bus).unwrap();
    emitter.iteration_started(1000);
    bus.close();
    let (received, missed, envelopes) = read_all(events);
    assert_eq!((received, missed, envelopes[0].seq), (1, 0, Some(1001)));
    let envelopes = read_lossless(lossless);
    assert_eq!((envelopes.len(), envelopes[0].seq), (1, Some(1001)));
}

#[test]
fn filters_and_closures_select_events() {
    let bus = EventBus::new(10_000);
    let by_closure = bus.subscribe_filtered(|e| e.execution_id() == "a");
    let by_data = bus.subscribe_with(SubscribeOptions {
        filter: Filter::all().kinds([EventKind::Warning, EventKind::Error]),
        ..Default::default()
    });
    let by_filter = bus.subscribe_with(SubscribeOptions {
        filter: Filter::all().kind(EventKind::Error),
        ..Default::default()
    });
    let nothing = bus.subscribe_with(SubscribeOptions {
        filter: Filter::all().kinds([]),
        ..Default::default()
    });
    let (a, b) = (bus.emitter_for("a"), bus.emitter_for("b"));
    for number in 0..100 {
        a.iteration_started(number);
        b.iteration_started(number);
        if number % 10 == 0 {
            b.warning("w", "w");
        }
    }
    a.error("e", "e");
    bus.close();
    let (received, missed, envelopes) = read_all(by_closure);
    assert_eq!((received, missed), (101, 0));
    assert!(envelopes.iter().all(|one| one.event.execution_id() == "a"));
    let (received, missed, envelopes) = read_all(by_data);
    assert_eq!((received, missed), (11, 0));
    assert_eq!(envelopes[10].event.kind(), EventKind::Error);
    assert_eq!(read_all(nothing).2, []);
    let (received, missed, envelopes) = read_all(by_filter);
    assert_eq!((received, missed), (1, 0));
    assert_eq!(envelopes[0].event.kind(), EventKind::Error);
}

#[test]
fn numbers_continue_where_a_log_ended() {
    let bus = EventBus::new(10_000);
    let events = bus.subscribe();
    bus.emitter_from("a", 42).iteration_started(1);
    // The first registration wins.
    bus.emitter_from("a", 7).iteration_started(2);
    bus.emitter_for("b").iteration_started(1);
    bus.emitter_from("b", 9).iteration_started(2);
    bus.close();
    let seqs: Vec<_> = read_all(events)
        .2
        .iter()
        .map(|one| one.seq.unwrap())
        .collect();
    assert_eq!(seqs, [42, 43, 1, 2]);
}

/// A burst that fits in memory is no loss: a lane drops its oldest events only, and nothing is refused, also
/// while the fan-out gets hardly any processor time.
#[test]
fn a_burst_below_the_memory_bound_is_neither_refused_nor_lost() {
    with_timeout(|| {
        for (threads, capacity) in [(1, 200_000), (4, 10_000), (16, 10)] {
            let bus = Arc::new(EventBus::new(capacity));
            let (unread, lossless) = (bus.subscribe(), subscribe_lossless(&bus).unwrap());
            let log = thread::spawn(move || read_lossless(lossless));
            let per_thread = 96_000 / threads;
            let producers: Vec<_> = (0..threads)
                .map(|who| {
                    let emitter = bus.emitter_for(format!("p{who}"));
                    thread::spawn(move || {
                        (0..per_thread).all(|number| {
                            let emitted = match number % 3 {
                                0 => emitter.iteration_started(number),
                                _ => emitter.token_received(1, "text"),
                            };
                            emitted == Emitted::Accepted
                        })
                    })
                })
                .collect();
            for producer in producers {
                assert!(producer.join().unwrap(), "{threads} threads: refused");
            }
            bus.close();
            let (received, missed, rest) = read_all(unread);
            assert_eq!(received, (capacity as u64).min(96_000));
            assert_eq!(received + missed, 96_000);
            assert_eq!(rest.len() as u64, received);
            let (last, missing) = check_ranges(&log.join().unwrap());
            assert_eq!((last.values().sum::<u64>(), missing), (96_000, 0));
        }
    });
}
