//! A subscriber that never reads while panes flood: it loses events, and nobody else does.

use std::time::{Duration, Instant};

use td_observe::{Builder, Delivery, Envelope, SubscribeOptions, TdEvent, Watch};

use crate::observed::{Replay, shown};
use crate::support::{CEILING, TmuxServer};

/// Events that the sleeper's lane holds.
const ROOM: usize = 8;

/// A program that prints in bursts, to cause many events.
fn bursts(bursts: u32) -> String {
    format!(
        "tmux wait-for go-$TMUX_PANE; i=0; while [ $i -lt {bursts} ]; do \
         seq -f 'line %g.' $((i*100+1)) $((i*100+100)); i=$((i+1)); sleep 0.02; done; \
         echo the end; exec cat"
    )
}

#[test]
fn a_sleeping_subscriber_misses_exactly_the_reported_count_and_others_miss_nothing() {
    let server = TmuxServer::new();
    server.new_session("keeper", 60, 12, "exec cat");
    // A history in which captures lose nothing even on a busy machine.
    server.script("set-option -g history-limit 10000");
    let panes = ["a", "b", "c"].map(|name| server.new_session(name, 60, 12, &bursts(60)));
    let data = server.directory().join("data");
    let mut engine = Builder::new()
        .data_dir(&data)
        .capacity(1_000_000)
        .start()
        .unwrap();
    let mut reader = engine.subscribe();
    let mut sleeper = engine.subscribe_with(SubscribeOptions {
        capacity: Some(ROOM),
        ..SubscribeOptions::default()
    });
    let watch = Watch::new(server.server())
        .interval(Duration::from_millis(20))
        .poll();
    engine.watch(watch).unwrap();
    let mut seen: Vec<Envelope> = Vec::new();
    let deadline = Instant::now() + CEILING;
    let mut read_until = |seen: &mut Vec<Envelope>, done: &dyn Fn(&[Envelope]) -> bool| {
        while !done(seen) {
            match reader.recv_deadline(deadline) {
                Ok(Delivery::Event(envelope)) => seen.push(envelope.into_envelope()),
                other => panic!("{other:?}; seen:\n{}", shown(seen)),
            }
        }
    };
    read_until(&mut seen, &|seen| super::runs_of(seen, "c").len() == 1);
    read_until(&mut seen, &|seen| {
        ["a", "b"]
            .iter()
            .all(|name| super::runs_of(seen, name).len() == 1)
    });
    for pane in &panes {
        server.tmux(&["wait-for", "-S", &format!("go-{pane}")]);
    }
    read_until(&mut seen, &|seen| {
        let ends = seen.iter().filter(|envelope| {
            matches!(&envelope.event, TdEvent::OutputUpdate { chunk, .. } if chunk.ends_with("the end\n"))
        });
        ends.count() == panes.len()
    });
    let report = engine.shutdown();
    assert_eq!(report.log.unwrap().lost, []);
    while let Ok(delivery) = reader.recv() {
        match delivery {
            Delivery::Event(envelope) => seen.push(envelope.into_envelope()),
            Delivery::Lagged { missed } => panic!("{missed} missed by who reads"),
        }
    }
    let want: Vec<String> = (1..=6000)
        .map(|n| format!("line {n}."))
        .chain(["the end".into()])
        .collect();
    for pane in &panes {
        let replay = Replay::of(&seen, pane);
        assert_eq!(replay.texts(), want);
        assert_eq!(replay.gaps, []);
    }
    let (mut received, mut missed) = (Vec::new(), 0);
    while let Ok(delivery) = sleeper.recv() {
        match delivery {
            Delivery::Event(envelope) => received.push(envelope.into_envelope()),
            Delivery::Lagged { missed: more } => missed += more,
        }
    }
    let represented: u64 = received.iter().map(|envelope| envelope.n).sum();
    assert_eq!(represented + missed, seen.len() as u64);
    assert!(
        missed > 0 && received.len() <= ROOM,
        "{missed} missed, {} kept",
        received.len()
    );
    // The oldest events were dropped, the newest kept.
    assert_eq!(received, seen[seen.len() - received.len()..]);
}
