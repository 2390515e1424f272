//! A subscriber that never reads while panes flood: it costs nobody anything but itself some events.

use std::fs;
use std::time::{Duration, Instant};

use td_observe::{Builder, Delivery, Envelope, SubscribeOptions, TdEvent, Watch};

use crate::observed::{Replay, shown};
use crate::support::{CEILING, TmuxServer};

/// Events that the sleeper's lane holds.
const ROOM: usize = 50;

/// A program that prints in bursts, so that there are many events.
fn bursts(bursts: u32) -> String {
    format!(
        "tmux wait-for go; i=0; while [ $i -lt {bursts} ]; do \
         seq -f 'line %g.' $((i*100+1)) $((i*100+100)); i=$((i+1)); sleep 0.02; done; \
         echo the end; exec cat"
    )
}

#[test]
fn who_sleeps_misses_exactly_what_it_is_told_and_others_see_all() {
    let server = TmuxServer::new();
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
    let watch = Watch::new(server.server()).interval(Duration::from_millis(20));
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
    server.tmux(&["wait-for", "-S", "go"]);
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
    let stands_for: u64 = received.iter().map(|envelope| envelope.n).sum();
    assert_eq!(stands_for + missed, seen.len() as u64);
    assert!(
        missed > 0 && received.len() <= ROOM,
        "{missed} missed, {} kept",
        received.len()
    );
    // The oldest went, the newest stayed.
    assert_eq!(received, seen[seen.len() - received.len()..]);
}

#[test]
#[cfg(feature = "cli")]
fn a_program_whose_output_nobody_reads_keeps_its_log_and_stays_small() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    use rustix::process::{Pid, Signal, kill_process};

    use crate::cli::{on, program};
    use crate::observed::logs;
    use crate::support::wait_for;

    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    server.new_session("keeper", 40, 5, "exec cat");
    server.script("set-option -g history-limit 50000");
    let line = "x".repeat(480);
    let flood = format!(
        "tmux wait-for go; i=0; while [ $i -lt {CHUNKS} ]; do \
         seq -f '%g {line}' $((i*{CHUNK}+1)) $((i*{CHUNK}+{CHUNK})); i=$((i+1)); sleep 0.01; done; \
         echo the end; tmux wait-for -S done; exec cat"
    );
    let pane = server.new_session("flood", 490, 24, &flood);
    let socket = server.socket().display().to_string();
    let args = on(&socket, &["watch", "--json", "--interval", "50ms", "flood"]);
    let mut child = program(&args, data.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_child(&child);
    let log = || {
        let run = fs::read_dir(data.path().join("runs"))
            .ok()?
            .flatten()
            .next()?;
        fs::read_to_string(run.path().join("events.jsonl")).ok()
    };
    let until_kept = |text: &str| {
        wait_for(text, CEILING, || {
            log().filter(|log| log.contains(text)).map(drop).ok_or(())
        });
    };
    until_kept("SessionStarted");
    let began = Instant::now();
    server.tmux(&["wait-for", "-S", "go"]);
    server.tmux(&["wait-for", "done"]);
    eprintln!("printed in {:?}", began.elapsed());
    until_kept("the end");
    eprintln!("kept in {:?}", began.elapsed());
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    eprintln!(
        "peak {peak} rss {:?}",
        status.lines().find(|l| l.starts_with("VmRSS"))
    );
    kill_process(pid, Signal::INT).unwrap();
    let mut missed = 0;
    let mut received = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        let envelope: Envelope =
            serde_json::from_str(&line).unwrap_or_else(|why| panic!("{why}: {line:.300}"));
        match &envelope.event {
            TdEvent::Unknown(event) if event.type_name() == "Lagged" => {
                missed += event.fields()["missed"].as_u64().unwrap();
            }
            _ => received += envelope.seq.is_some() as u64,
        }
    }
    assert!(child.wait().unwrap().success() || missed > 0);
    let kept = logs(data.path());
    let kept = kept.values().next().unwrap();
    eprintln!(
        "missed {missed} received {received} kept {} gaps {:?}",
        kept.len(),
        Replay::of(kept, &pane).gaps
    );
}

const CHUNKS: u32 = 50;
const CHUNK: u32 = 500;
