//! Two hosts ship, and a face reads, while Redis, a shipper and the reader are killed and stopped.
//!
//! `TD_REDIS_EVENTS=1000000` does it with a million events of each host, and stops Redis for 30 s.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use td_observe::ExecutionId;
use td_observe::history::{DataDir, LogReader, Query};

use super::log::Log;
use super::server::Redis;
use super::{copies, kill, shipper_of};
use crate::cli::{Running, program};
use crate::support::{CEILING, Stopped, wait_for};

const HOSTS: [&str; 2] = ["db", "web"];

/// The number of events of each host in the suite.
const EVENTS: u64 = 40_000;

/// The number of parts in which the logs grow.
const PARTS: u64 = 40;

fn reader(data: &Path, address: &str) -> Running {
    Running::start(program(
        &["status", "--watch", "--json", "--from", address],
        data,
    ))
}

/// Writes a log that grows all the time.
fn grow(data: &Path, events: u64) {
    let mut log = Log::open(data, "build", 0);
    for part in 1..=PARTS {
        log.append(events * part / PARTS - events * (part - 1) / PARTS);
        thread::park_timeout(Duration::from_millis(50));
    }
    log.end();
}

/// Checks that a copy has each event of a log once, in order, with its number and time.
fn assert_copied(own: (&Path, &str), copied: (&Path, &str), events: u64) {
    let open = |(data, id): (&Path, &str)| {
        let run = DataDir::new(data).run(&ExecutionId::from(id));
        LogReader::open(&run, Query::all()).unwrap()
    };
    let (mut expected, mut found) = (open(own), open(copied));
    for number in 1..=events {
        let (expected, found) = (expected.next().unwrap(), found.next().unwrap());
        assert_eq!(found.envelope.seq, Some(number));
        assert_eq!(found.envelope.event.execution_id(), copied.1);
        assert_eq!(found.envelope.ts, expected.envelope.ts);
        let text = |record: &td_observe::history::LogRecord| match &record.envelope.event {
            td_observe::TdEvent::ExecutionOutput { text, .. } => text.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(text(&found), text(&expected));
    }
    assert!(expected.next().is_none() && found.next().is_none());
    assert_eq!(found.into_report().missing(), 0);
}

#[test]
fn every_event_is_copied_once_and_in_order_whatever_is_killed() {
    let Some(mut redis) = Redis::start(&[]) else {
        return;
    };
    let asked = std::env::var("TD_REDIS_EVENTS").ok();
    let is_full = asked.is_some();
    let events = asked.map_or(EVENTS, |events| events.parse().unwrap());
    let ceiling = CEILING + Duration::from_millis(events / 5);
    let began = Instant::now();
    let report = |what: &str| eprintln!("{:6.1} s: {what}", began.elapsed().as_secs_f64());
    let address = redis.address();
    let data: Vec<_> = HOSTS.iter().map(|_| tempfile::tempdir().unwrap()).collect();
    let face = tempfile::tempdir().unwrap();
    let writers = data.iter().map(|data| {
        let path = data.path().to_owned();
        thread::spawn(move || grow(&path, events))
    });
    let writers: Vec<_> = writers.collect();
    let mut shippers: Vec<_> = (HOSTS.iter().zip(&data))
        .map(|(host, data)| shipper_of(host, data.path(), &address, &[]))
        .collect();
    let mut faces = vec![reader(face.path(), &address)];
    let reached = |redis: &Redis, percent: u64| {
        wait_for("some events", ceiling, || {
            let count = redis.number(&["XLEN", "td:db:build"]);
            (count >= events * percent / 100).then_some(()).ok_or(count)
        });
    };
    for (number, percent) in [15, 50].into_iter().enumerate() {
        reached(&redis, percent);
        let before = redis.number(&["XLEN", "td:db:build"]);
        redis.kill();
        // As if the last part had not reached the disk.
        redis.lose(300_000);
        redis.restart();
        let left = redis.number(&["XLEN", "td:db:build"]);
        report(&format!(
            "redis-server was killed at {before} events of db, and had {left} of them afterwards"
        ));
        reached(&redis, percent + 10);
        kill(shippers.remove(0));
        shippers.insert(0, shipper_of(HOSTS[0], data[0].path(), &address, &[]));
        report(&format!(
            "the shipper of db was killed, {} of 2",
            number + 1
        ));
        reached(&redis, percent + 20);
        kill(faces.remove(0));
        faces.push(reader(face.path(), &address));
        report(&format!("the reader was killed, {} of 2", number + 1));
    }
    reached(&redis, 80);
    let stopped = Stopped::new(redis.pid());
    let pause = Duration::from_secs(if is_full { 30 } else { 1 });
    let until = Instant::now() + pause;
    while Instant::now() < until {
        thread::park_timeout(until - Instant::now());
    }
    drop(stopped);
    report(&format!(
        "redis-server was stopped for {} s",
        pause.as_secs()
    ));
    for writer in writers {
        writer.join().unwrap();
    }
    for host in HOSTS {
        wait_for("the end of the copies", ceiling, || {
            let run = DataDir::new(copies(face.path()))
                .run(&ExecutionId::from(format!("{host}/build").as_str()));
            let metadata = run.metadata().unwrap();
            let next = metadata.and_then(|metadata| metadata.next_seq);
            (next == Some(events + 1)).then_some(()).ok_or(next)
        });
    }
    report("the copies are complete");
    for running in shippers {
        super::interrupt(running);
    }
    super::interrupt(faces.remove(0));
    let copies = copies(face.path());
    for (host, data) in HOSTS.iter().zip(&data) {
        let id = format!("{host}/build");
        assert_copied((data.path(), "build"), (&copies, &id), events);
    }
    report(&format!(
        "{events} events of each host are there once, in order"
    ));
}
