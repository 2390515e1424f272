//! Lossless and throttled lanes: room, gaps, deadlines and ends.

use super::*;
use td_observe::channel::select;

#[test]
fn live_events_have_no_number_and_do_not_reach_lossless_lanes() {
    let bus = EventBus::new(10_000);
    let events = bus.subscribe();
    let lossless = subscribe_lossless(&bus).unwrap();
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
        let (stalled, live) = (subscribe_lossless(&bus).unwrap(), bus.subscribe());
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
        let mut lane = subscribe_lossless(&bus).unwrap();
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
            lossless_bytes_max: 1 << 14,
            ..Default::default()
        };
        let bus = Arc::new(EventBus::with_options(options).unwrap());
        let lanes = [
            subscribe_lossless(&bus).unwrap(),
            subscribe_lossless(&bus).unwrap(),
        ];
        let readers = lanes.map(|lane| thread::spawn(move || read_lossless(lane)));
        let producers = [0, 1].map(|who| {
            let emitter = bus.emitter_for(format!("p{who}"));
            thread::spawn(move || {
                for _ in 0..5000 {
                    let event = TdEvent::execution_output("x", "stdout", &"x".repeat(100));
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
        let stalled = subscribe_lossless(&bus).unwrap();
        let emitter = bus.emitter_for("a");
        let mut sent = 0;
        while emitter.has_room() {
            emitter.token_received(1, "x");
            sent += 1;
        }
        for _ in 0..2000 {
            let event = TdEvent::token_received("a", 1, "y");
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
        let _unread_log = subscribe_lossless(&bus).unwrap();
        drop(subscribe_lossless(&bus).unwrap());
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
    // Also on a clock that a test advances by hand.
    with_timeout(move || {
        let options = BusOptions {
            clock: FakeClock::new().clock(),
            ..BusOptions::default()
        };
        let bus = EventBus::with_options(options).unwrap();
        let mut events = bus.subscribe();
        let timeout = RecvTimeoutError::Timeout;
        assert_eq!(events.recv_timeout(wait).unwrap_err(), timeout);
        let deadline = Instant::now() + wait;
        assert_eq!(events.recv_deadline(deadline).unwrap_err(), timeout);
    });
}

#[test]
fn an_endless_throttle_holds_text_until_another_event() {
    let bus = EventBus::new(10);
    let mut events = bus.subscribe_with(SubscribeOptions {
        throttle: Some(Duration::MAX),
        ..SubscribeOptions::default()
    });
    let emitter = bus.emitter_for("a");
    for token in ["one ", "two ", "three"] {
        emitter.token_received(1, token);
    }
    emitter.iteration_started(2);
    let mut next = || {
        events
            .recv_timeout(CEILING)
            .unwrap()
            .into_envelope()
            .unwrap()
    };
    let tokens = [next(), next()].map(|envelope| match envelope.event {
        TdEvent::TokenReceived { token, .. } => token,
        other => panic!("{other:?}"),
    });
    assert_eq!(tokens, ["one ", "two three"]);
    assert!(matches!(next().event, TdEvent::IterationStarted { .. }));
}

/// An embedder's own events are numbered, delivered and written, and read back unchanged.
#[test]
fn custom_events_are_delivered_and_read_back() {
    use serde_json::{self, json};
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

/// Reads two subscriptions in one thread with `select!`, one delivery for each message of the channel: nothing is
/// left when the bus is closed, and nothing hangs.
#[test]
fn subscriptions_are_read_with_select() {
    with_timeout(|| {
        for (capacity, pause) in [(10_000_000, 0), (10_000_000, 1000), (64, 0)] {
            let bus = Arc::new(EventBus::new(capacity));
            let mut all = bus.subscribe();
            let mut selected = bus.subscribe_filtered(|e| e.execution_id() == "1");
            // A channel that is kept is ready as long as deliveries are.
            let kept = selected.ready().clone();
            let (found_nothing, drained) = crossbeam_channel::bounded(1);
            let emitters: Vec<_> = (0..4)
                .map(|id: u32| {
                    let emitter = bus.emitter_for(id.to_string());
                    let drained = drained.clone();
                    thread::spawn(move || {
                        for number in 0..20_000 {
                            emitter.iteration_started(number);
                            // Until the reader has found nothing, and may sleep.
                            if pause > 0 && number % pause == 0 {
                                drained.recv_timeout(CEILING).unwrap();
                            }
                        }
                    })
                })
                .collect();
            let closing = Arc::clone(&bus);
            let closer = thread::spawn(move || {
                emitters.into_iter().for_each(|one| one.join().unwrap());
                closing.close();
            });
            let (mut counts, mut closed) = ([(0, 0); 2], [false; 2]);
            while closed != [true; 2] {
                // A closed one stays ready, and the other one has its turn, too.
                let (next, of) = select! {
                    recv(all.ready()) -> _ => (all.try_recv(), 0),
                    recv(kept) -> _ => (selected.try_recv(), 1),
                };
                match next {
                    Ok(Delivery::Event(envelope)) => counts[of].0 += envelope.n,
                    Ok(Delivery::Lagged { missed }) => counts[of].1 += missed,
                    // One that was not received yet serves the next emitter.
                    Err(TryRecvError::Empty) => drop(found_nothing.try_send(())),
                    Err(TryRecvError::Closed) => closed[of] = true,
                }
            }
            closer.join().unwrap();
            assert!(all.ready().try_recv().is_ok() && selected.ready().try_recv().is_ok());
            let [(received, missed), (of_one, missed_of_one)] = counts;
            assert_eq!(received + missed, 80_000);
            if capacity > 64 {
                assert_eq!((received, of_one), (80_000, 20_000));
            } else {
                assert!(of_one + missed_of_one <= 80_000);
            }
        }
    });
}

/// A channel that is asked for anew rings for what is there already, whoever has taken its last message.
#[test]
fn a_subscription_is_ready_while_it_has_deliveries() {
    let bus = EventBus::new(100);
    let mut events = bus.subscribe();
    assert!(events.ready().is_empty());
    let emitter = bus.emitter_for("a");
    for number in 0..3 {
        emitter.iteration_started(number);
    }
    events.ready().recv_timeout(CEILING).unwrap();
    // Its message is taken, and its deliveries are not.
    assert!(events.ready().try_recv().is_ok());
    assert!(events.try_recv().is_ok());
    assert!(events.ready().try_recv().is_ok());
    while events
        .recv_timeout(CEILING)
        .unwrap()
        .envelope()
        .unwrap()
        .seq
        != Some(3)
    {}
    while events.ready().try_recv().is_ok() {
        assert_eq!(events.try_recv().unwrap_err(), TryRecvError::Empty);
    }
    bus.close();
    for _ in 0..3 {
        events.ready().recv_timeout(CEILING).unwrap();
        assert_eq!(events.try_recv().unwrap_err(), TryRecvError::Closed);
    }
}
