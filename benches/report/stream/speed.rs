//! The speed of a flood to a subscriber in this process, with its log, compared with a thread that reads
//! the output of `tail -F` on the file that `cat` writes.

use std::io::{Read, Write};

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use td_observe::{Builder, Delivery, TdEvent, Watch};

use super::flood::{Counted, END, Flood};
use super::{lines, thousands};
use crate::common::drains::{drain, until_followed};
use crate::common::stats::rounds;
use crate::common::support::CEILING;
use crate::common::table::{Bar, Row, Table};
use crate::common::ways::tail_of;

const ROUNDS: usize = 5;

pub fn run(table: &mut Table) {
    let [ours, theirs] = rounds(ROUNDS, [&streamed, &tailed]);
    let speed = |seconds: f64| format!("{:.2} M lines/s", lines() as f64 / seconds / 1e6);
    table.row(&Row {
        what: &format!(
            "`seq 1 {}` in a pane → subscriber, the last line, log kept",
            thousands(lines())
        ),
        ours: format!("{} ({ours:.2} s)", speed(ours)),
        instead: format!(
            "`pipe-pane` to a file, `tail -F`: {} ({theirs:.2} s)",
            speed(theirs)
        ),
        ratio: Some(theirs / ours),
        bar: Bar::None,
    });
}

/// Returns the seconds from the signal until the subscriber has the last line; infinity if lines are
/// missing.
fn streamed() -> f64 {
    let flood = Flood::new(lines());
    let data = flood.server.directory().join("data");
    let mut engine = Builder::new()
        .data_dir(data)
        .capacity(1_000_000)
        .start()
        .unwrap();
    let mut events = engine.subscribe();
    let watch = Watch::new(flood.server.server()).stream(drain());
    engine.watch(watch).unwrap();
    until_followed(&flood.server, 1);
    thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    flood.go();
    let (mut deliveries, mut missed) = (Vec::new(), 0);
    let took = loop {
        match events.recv_timeout(CEILING) {
            Ok(Delivery::Event(envelope)) => {
                let is_last = matches!(
                    &envelope.event,
                    TdEvent::OutputUpdate { chunk, .. } if chunk.trim_end().ends_with(END)
                );
                // Parsed later, so that parsing is not measured.
                deliveries.push(envelope);
                if is_last {
                    break began.elapsed().as_secs_f64();
                }
            }
            Ok(Delivery::Lagged { missed: more }) => missed += more,
            Err(_) => break f64::INFINITY,
        }
    };
    engine.shutdown();
    let mut counted = Counted::default();
    for envelope in deliveries {
        counted.take(&envelope.into_envelope());
    }
    if missed > 0 || !counted.is_whole(lines()) {
        eprintln!("FAILED: {}, {missed} events missed", counted.shown());
        return f64::INFINITY;
    }
    took
}

fn tailed() -> f64 {
    let flood = Flood::new(lines());
    let (mut tail, mut from, _) = tail_of(&flood.server);
    let (send, came) = channel();
    let reader = thread::spawn(move || {
        let (mut text, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            text.write_all(&buffer[..read]).unwrap();
            if text.ends_with(b"begin\n") {
                send.send(Instant::now()).unwrap();
            }
            if text.trim_ascii_end().ends_with(END.as_bytes()) {
                let _ = send.send(Instant::now());
                break;
            }
        }
    });
    came.recv_timeout(CEILING).unwrap();
    thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    flood.go();
    let ended = came.recv_timeout(CEILING);
    tail.kill().unwrap();
    tail.wait().unwrap();
    reader.join().unwrap();
    ended.map_or(f64::INFINITY, |ended| (ended - began).as_secs_f64())
}
