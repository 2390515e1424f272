//! The event bus through its public API: every event sent is received or counted, and no call hangs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use td_observe::{
    BusOptions, Delivery, Emitted, Envelope, EventBus, EventKind, FakeClock, Filter, LosslessLane,
    RecvError, RecvTimeoutError, Styles, SubscribeOptions, Subscription, TdEvent, TryRecvError,
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

fn small_bus(capacity: usize, inbox_events: usize) -> EventBus {
    EventBus::with_options(BusOptions {
        capacity,
        inbox_events,
        ..Default::default()
    })
    .unwrap()
}

/// Reads to the end; returns the numbers of received and missed events, and the envelopes.
fn read_all(subscription: Subscription) -> (u64, u64, Vec<Envelope>) {
    let (mut received, mut missed, mut envelopes) = (0, 0, Vec::new());
    for delivery in subscription {
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
    bus.emit(TdEvent::IterationStarted {
        execution_id: "other".into(),
        iteration: 1,
    });
    // The emitter assigns the event to its own execution.
    emitter.emit(TdEvent::IterationStarted {
        execution_id: "other".into(),
        iteration: 2,
    });
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
    assert!(bus.subscribe_lossless().unwrap_err().is_gone());
}

fn warning(context: &str) -> TdEvent {
    TdEvent::Warning {
        execution_id: "x".into(),
        context: context.into(),
        message: String::new(),
    }
}

/// Producers race with readers of all kinds, with hardly any room: all counts are exact.
#[test]
fn received_plus_missed_equals_sent() {
    with_timeout(|| {
        for round in 0..20 {
            let bus = Arc::new(small_bus(7, 8));
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
            let lossless = bus.subscribe_lossless().unwrap();
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
                                1 => emitter.emit_live(TdEvent::OutputRevised {
                                    execution_id: "x".into(),
                                    pane: "%1".into(),
                                    line: 1,
                                    text: "y".into(),
                                    styles: Styles::default(),
                                }),
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
            let lossless = bus.subscribe_lossless().unwrap();
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
    let unread = bus.subscribe();
    let emitter = bus.emitter_for("a");
    for number in 1..=1000 {
        emitter.iteration_started(number);
    }
    bus.shutdown().unwrap();
    let got: Vec<_> = unread.into_iter().collect();
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
        let panicking = bus.subscribe_filtered(|_: &TdEvent| -> bool { panic!("on purpose") });
        let emitter = bus.emitter_for("a");
        let reader = thread::spawn(move || read_all(steady));
        let producer = thread::spawn(move || {
            for number in 0..20_000 {
                // Waits for room, so that every event is received below.
                let deadline = Instant::now() + CEILING;
                let event = TdEvent::IterationStarted {
                    execution_id: "a".into(),
                    iteration: number,
                };
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
    let lossless = bus.subscribe_lossless().unwrap();
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
    let by_closure = bus.subscribe_filtered(|event: &TdEvent| event.execution_id() == "a");
    let by_data = bus.subscribe_with(SubscribeOptions {
        filter: Filter::all().kinds([EventKind::Warning, EventKind::Error]),
        ..Default::default()
    });
    let by_filter = bus.subscribe_filtered(Filter::all().kind(EventKind::Error));
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

#[test]
fn live_events_have_no_number_and_do_not_reach_lossless_lanes() {
    let bus = EventBus::new(10_000);
    let events = bus.subscribe();
    let lossless = bus.subscribe_lossless().unwrap();
    let emitter = bus.emitter_for("a");
    emitter.iteration_started(1);
    emitter.emit_live(warning("live"));
    emitter.iteration_started(2);
    bus.close();
    let seqs: Vec<_> = read_all(events).2.iter().map(|one| one.seq).collect();
    assert_eq!(seqs, [Some(1), None, Some(2)]);
    assert_eq!(read_lossless(lossless).len(), 2);
}

/// A lossless lane that is not read during a flood of text receives all life-cycle events, and exact
/// gaps.
#[test]
fn an_unread_lossless_lane_gets_life_cycle_events_and_exact_gaps() {
    with_timeout(|| {
        let options = BusOptions {
            lossless_bytes_max: 1 << 20,
            capacity: 1 << 20,
            ..Default::default()
        };
        let bus = EventBus::with_options(options).unwrap();
        let (stalled, live) = (bus.subscribe_lossless().unwrap(), bus.subscribe());
        let (a, b) = (bus.emitter_for("a"), bus.emitter_for("b"));
        let line = "x".repeat(500);
        let (mut texts, mut full) = (0, false);
        let reader = thread::spawn(move || read_all(live));
        for number in 1..=10_000_u32 {
            for emitter in [&a, &b] {
                while emitter.token_received(1, &line) != Emitted::Accepted {
                    thread::yield_now();
                    texts += 1;
                }
                texts += 1;
            }
            if number % 100 == 0 {
                a.iteration_started(number);
            }
            full |= !a.has_room();
        }
        assert!(full, "the way to the log was never full");
        bus.close();
        let (received, missed, _) = reader.join().unwrap();
        assert_eq!(received + missed, texts + 100);
        let envelopes = read_lossless(stalled);
        let (last, missing) = check_ranges(&envelopes);
        assert_eq!(last["a"] + last["b"], texts + 100);
        let lifecycle = envelopes
            .iter()
            .filter(|one| one.event.kind() == EventKind::IterationStarted);
        assert_eq!(lifecycle.count(), 100);
        let gaps = envelopes
            .iter()
            .filter(|one| one.event.kind() == EventKind::LogGap)
            .count();
        assert!(
            missing > 10_000 && gaps < 300,
            "{missing} events in {gaps} gaps"
        );
        let bytes: usize = envelopes.iter().map(|one| one.event.memory_bytes()).sum();
        assert!(bytes <= 1 << 20);
    });
}

/// A lossless lane that is read again receives the gap as soon as there is room, without a further
/// event.
#[test]
fn a_lossless_lane_gets_its_gap_as_soon_as_there_is_room() {
    with_timeout(|| {
        let options = BusOptions {
            lossless_bytes_max: 1 << 18,
            ..Default::default()
        };
        let bus = EventBus::with_options(options).unwrap();
        let mut lane = bus.subscribe_lossless().unwrap();
        let emitter = bus.emitter_for("a");
        let line = "x".repeat(200);
        let mut sent = 0;
        while sent < 20_000 {
            emitter.token_received(1, &line);
            sent += 1;
        }
        let mut envelopes = Vec::new();
        while envelopes
            .last()
            .is_none_or(|last: &Envelope| last.seq != Some(sent))
        {
            match lane.recv_deadline(Some(Instant::now() + CEILING)) {
                Ok(batch) => envelopes.extend(batch.iter().cloned()),
                other => panic!("{other:?} after {} envelopes", envelopes.len()),
            }
        }
        let (_, missing) = check_ranges(&envelopes);
        assert!(missing > 0);
        assert!(emitter.has_room());
        assert_eq!(
            lane.recv_deadline(Some(Instant::now())).unwrap_err(),
            RecvTimeoutError::Timeout
        );
    });
}

/// Producers that wait for room lose no event, however little room there is.
#[test]
fn producers_that_wait_for_room_lose_nothing() {
    with_timeout(|| {
        let options = BusOptions {
            lossless_bytes_max: 1 << 16,
            inbox_events: 16,
            ..Default::default()
        };
        let bus = Arc::new(EventBus::with_options(options).unwrap());
        let lanes = [
            bus.subscribe_lossless().unwrap(),
            bus.subscribe_lossless().unwrap(),
        ];
        let readers = lanes.map(|lane| thread::spawn(move || read_lossless(lane)));
        let producers = [0, 1].map(|who| {
            let emitter = bus.emitter_for(format!("p{who}"));
            thread::spawn(move || {
                for _ in 0..5000 {
                    let event = TdEvent::ExecutionOutput {
                        execution_id: "x".into(),
                        stream: "stdout".into(),
                        text: "x".repeat(100),
                    };
                    let deadline = Instant::now() + CEILING;
                    assert_eq!(emitter.emit_deadline(event, deadline), Emitted::Accepted);
                }
            })
        });
        for producer in producers {
            producer.join().unwrap();
        }
        bus.close();
        for reader in readers {
            let envelopes = reader.join().unwrap();
            let (last, missing) = check_ranges(&envelopes);
            assert_eq!((last["p0"], last["p1"], missing), (5000, 5000, 0));
        }
    });
}

/// A producer that waits for room in vain drops its event at the deadline, and the drop is counted.
#[test]
fn waiting_for_room_ends_at_the_deadline() {
    with_timeout(|| {
        let options = BusOptions {
            lossless_bytes_max: 1 << 16,
            ..Default::default()
        };
        let bus = EventBus::with_options(options).unwrap();
        let stalled = bus.subscribe_lossless().unwrap();
        let emitter = bus.emitter_for("a");
        let mut sent = 0;
        while emitter.has_room() {
            emitter.token_received(1, "x");
            sent += 1;
        }
        for _ in 0..2000 {
            let event = TdEvent::TokenReceived {
                execution_id: "a".into(),
                iteration: 1,
                token: "y".into(),
                pane: None,
            };
            emitter.emit_deadline(event, Instant::now() + Duration::from_micros(10));
            sent += 1;
        }
        bus.close();
        let (last, missing) = check_ranges(&read_lossless(stalled));
        assert_eq!(last["a"], sent);
        assert!(missing > 0);
    });
}

/// The bus closes although no lane is read, and after lossless lanes were dropped.
#[test]
fn closing_does_not_wait_for_readers() {
    with_timeout(|| {
        let bus = EventBus::new(10);
        let _unread = bus.subscribe();
        let _unread_log = bus.subscribe_lossless().unwrap();
        drop(bus.subscribe_lossless().unwrap());
        let emitter = bus.emitter_for("a");
        for number in 0..100_000 {
            emitter.iteration_started(number);
        }
        bus.shutdown().unwrap();
        assert_eq!(emitter.iteration_started(0), Emitted::Closed);
    });
}

/// A throttle uses the bus's clock, and releases held text on an idle bus.
#[test]
fn a_throttled_subscription_gets_merged_text_in_time() {
    with_timeout(|| {
        let time = FakeClock::new();
        let options = BusOptions {
            clock: time.clock(),
            ..Default::default()
        };
        let bus = EventBus::with_options(options).unwrap();
        let mut events = bus.subscribe_with(SubscribeOptions {
            throttle: Some(Duration::from_millis(100)),
            ..Default::default()
        });
        let mut all = bus.subscribe();
        let emitter = bus.emitter_for("a");
        for token in ["I'll", " do", " it"] {
            emitter.token_received(1, token);
        }
        let first = events.recv().unwrap().into_envelope().unwrap();
        assert_eq!((first.seq, first.n), (Some(1), 1));
        for _ in 0..3 {
            all.recv().unwrap();
        }
        assert_eq!(events.try_recv().unwrap_err(), TryRecvError::Empty);
        time.advance(Duration::from_millis(100));
        let merged = events.recv().unwrap().into_envelope().unwrap();
        assert_eq!((merged.seq, merged.n), (Some(3), 2));
        emitter.token_received(1, " now");
        emitter.warning("c", "m");
        emitter.token_received(1, ".");
        bus.close();
        let (received, missed, rest) = read_all(events);
        assert_eq!((received, missed), (3, 0));
        assert_eq!(
            rest.iter().map(|one| one.seq.unwrap()).collect::<Vec<_>>(),
            [4, 5, 6]
        );
    });
}

#[test]
fn a_timeout_does_not_end_a_subscription() {
    let bus = EventBus::new(10);
    let mut events = bus.subscribe();
    let wait = Duration::from_millis(1);
    assert_eq!(
        events.recv_timeout(wait).unwrap_err(),
        RecvTimeoutError::Timeout
    );
    assert_eq!(
        events.recv_deadline(Instant::now() + wait).unwrap_err(),
        RecvTimeoutError::Timeout
    );
    bus.emitter_for("a").iteration_started(1);
    assert!(events.recv_timeout(Duration::MAX).is_ok());
}

/// An embedder's own events are numbered, delivered and written, and read back unchanged.
#[test]
fn custom_events_are_delivered_and_read_back() {
    use td_observe::serde_json::{self, json};
    let bus = EventBus::new(10);
    let events = bus.subscribe();
    let emitter = bus.emitter_for("a");
    let fields = json!({"position": 3, "names": ["x", "y"]});
    emitter.custom("BuildQueued", &fields).unwrap();
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    for (type_name, fields) in [
        ("Warning", json!({})),
        ("", json!({})),
        ("BuildQueued", json!(3)),
        ("BuildQueued", json!({"type": "x"})),
        ("BuildQueued", json!({"deep": deep})),
    ] {
        let error = emitter.custom(type_name, fields).unwrap_err();
        assert!(error.is_invalid_input(), "{error}");
    }
    bus.close();
    let (_, _, envelopes) = read_all(events);
    assert_eq!(envelopes.len(), 1);
    let line = serde_json::to_string(&envelopes[0]).unwrap();
    assert_eq!(
        serde_json::from_str::<Envelope>(&line).unwrap(),
        envelopes[0]
    );
    assert_eq!(envelopes[0].event.execution_id(), "a");
    let TdEvent::Unknown(event) = &envelopes[0].event else {
        panic!("{envelopes:?}");
    };
    assert_eq!(event.type_name(), "BuildQueued");
    assert_eq!(event.fields()["position"], 3);
}
