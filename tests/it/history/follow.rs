//! Followers of a log that another process writes: they get everything once and in order, to the end.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use td_observe::Envelope;
use td_observe::history::{DataDir, Follower, Query, Rotation, RunDirectory};

use super::{accounted, event, events_of, files};
use crate::bench::{Bench, token};
use crate::cli::{ECHO, Running, after_opening, assert_code, on, program, text};
use crate::support::{CEILING, TmuxServer, wait_for};

#[track_caller]
fn log(run: &str, data: &Path, more: &[&str]) -> Running {
    let args: Vec<&str> = ["log", run, "--follow"]
        .iter()
        .chain(more)
        .copied()
        .collect();
    Running::start(program(&args, data))
}

/// Follows a run to its end, as the documentation shows.
#[track_caller]
fn to_the_end(run: &RunDirectory) -> Vec<Envelope> {
    let mut log = Follower::open(run, Query::all()).unwrap();
    let mut seen = Vec::new();
    wait_for("the end of the run", CEILING * 2, || {
        let is_written = log.is_written().unwrap();
        while let Some(record) = log.next().unwrap() {
            seen.push(record.envelope);
        }
        if is_written {
            Err("it is written")
        } else {
            Ok(())
        }
    });
    assert!(
        log.report().invalid == 0 && log.report().problems.is_empty(),
        "{:?}",
        log.report()
    );
    seen
}

/// Returns the numbers of the existing events.
#[track_caller]
fn existing(log: &mut Follower) -> Vec<u64> {
    let mut seqs = Vec::new();
    while let Some(record) = log.next().unwrap() {
        seqs.push(record.envelope.seq.unwrap());
    }
    seqs
}

#[test]
fn another_process_follows_a_run_to_its_end() {
    let (tmux, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    tmux.new_session("job", 80, 24, ECHO);
    let socket = tmux.socket().display().to_string();
    let mut watch = Running::start(program(&on(&socket, &["watch", "job"]), data.path()));
    watch.wait_for("watching");
    let print = |what: &str| tmux.tmux(&["send-keys", "-t", "=job:", what, "Enter"]);
    print("the earlier line");
    watch.wait_for("the earlier line");
    let (mut first, mut json) = (
        log("job", data.path(), &[]),
        log("job", data.path(), &["--json"]),
    );
    for follower in [&mut first, &mut json] {
        follower.wait_for("the earlier line");
    }
    print("the live line");
    for follower in [&mut first, &mut json] {
        follower.wait_for("the live line");
    }
    tmux.tmux(&["kill-session", "-t", "=job"]);
    let shown = text(&watch.end().stdout);
    for follower in [first, json] {
        let output = follower.end();
        assert_code(&output, 0);
        assert!(output.stderr.is_empty(), "{output:#?}");
        let seen = text(&output.stdout);
        assert_eq!(seen.matches("the earlier line").count(), 1, "{seen}");
        assert_eq!(seen.matches("the live line").count(), 1, "{seen}");
    }
    // A late follower gets everything at once.
    let after = log("job", data.path(), &[]).end();
    assert_code(&after, 0);
    assert_eq!(text(&after.stdout), shown);
}

#[test]
fn followers_get_every_line_once_across_rotations() {
    let (tmux, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    // Some hundred kilobytes, in bursts.
    let flood = "read go; i=1; while [ $i -lt 12000 ]; do seq -f 'the line %.0f of the flood' $i $((i+99)); \
                 i=$((i+100)); sleep 0.02; done; tmux wait-for -S over; tmux wait-for leave";
    tmux.new_session("job", 80, 24, flood);
    let socket = tmux.socket().display().to_string();
    let args = [
        "watch",
        "job",
        "--execution-id",
        "flood",
        "--rotate-size",
        "20k",
        "--interval",
        "20ms",
    ];
    let mut watch = Running::start(program(&on(&socket, &args), data.path()));
    watch.wait_for("watching");
    let run = DataDir::new(data.path()).run(&"flood".into());
    let mut followers = vec![log("flood", data.path(), &["--json"])];
    let mut libraries = Vec::new();
    tmux.tmux(&["send-keys", "-t", "=job:", "go", "Enter"]);
    for line in [1, 4_000, 8_000] {
        watch.wait_for(&format!("the line {line} of the flood"));
        let run = run.clone();
        libraries.push(thread::spawn(move || to_the_end(&run)));
        followers.push(log("flood", data.path(), &["--json"]));
    }
    tmux.tmux(&["wait-for", "over"]);
    watch.wait_for("the line 12000 of the flood");
    tmux.tmux(&["wait-for", "-S", "leave"]);
    assert_code(&watch.end(), 0);
    let files = files(run.path());
    assert!(files.len() > 5, "{}", files.len());
    let kept = events_of(&files);
    accounted(kept.iter().map(|(event, _)| event), 1);
    let lines: Vec<u8> = kept
        .iter()
        .flat_map(|(_, line)| [line, &b"\n"[..]].concat())
        .collect();
    let envelopes: Vec<Envelope> = kept.into_iter().map(|(event, _)| event).collect();
    for follower in followers {
        let output = follower.end();
        assert_code(&output, 0);
        assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
        assert!(
            after_opening(&output.stdout) == lines,
            "a follower has {} bytes of {}",
            output.stdout.len(),
            lines.len()
        );
    }
    for library in libraries {
        assert!(library.join().unwrap() == envelopes);
    }
}

#[test]
fn a_follower_in_this_process_gets_every_number_once() {
    let temp = tempfile::tempdir().unwrap();
    let rotation = Rotation {
        bytes_max: 16 * 1024,
        age_max: None,
    };
    let mut bench = Bench::rotating(temp.path(), rotation);
    bench.open("a");
    let run = bench.run("a");
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let run = run.clone();
            thread::spawn(move || to_the_end(&run))
        })
        .collect();
    // A follower that rarely polls, so that many files are closed in between.
    let mut lazy = Follower::open(&run, Query::all()).unwrap();
    let mut seen = Vec::new();
    for from in (1..4001).step_by(500) {
        bench.fill("a", from..from + 500);
        seen.extend(existing(&mut lazy));
    }
    assert_eq!(seen, (1..4001).collect::<Vec<u64>>());
    bench.finish();
    for reader in readers {
        assert_eq!(accounted(&reader.join().unwrap(), 1), 4001);
    }
}

#[test]
fn a_follower_waits_for_an_incomplete_line() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::rotating(temp.path(), Rotation::NEVER);
    bench.open("a");
    let run = bench.run("a");
    let mut log = Follower::open(&run, Query::all()).unwrap();
    bench.fill("a", 1..3);
    assert_eq!(existing(&mut log), [1, 2]);
    let mut file = OpenOptions::new()
        .append(true)
        .open(run.events_path())
        .unwrap();
    let mut line = serde_json::to_vec(&token("a", 3, super::at(0))).unwrap();
    line.push(b'\n');
    for byte in &line[..line.len() - 1] {
        file.write_all(&[*byte]).unwrap();
        assert_eq!(existing(&mut log), [0; 0]);
    }
    // A new follower does not read it as a line either.
    let mut late = Follower::open(&run, Query::all()).unwrap();
    assert_eq!(existing(&mut late), [1, 2]);
    file.write_all(b"\n").unwrap();
    for log in [&mut log, &mut late] {
        assert_eq!(existing(log), [3]);
        assert_eq!((log.report().invalid, log.report().torn), (0, 0));
    }
    bench.finish();
}

#[test]
fn one_signal_ends_a_follower_cleanly() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::rotating(temp.path(), Rotation::NEVER);
    bench.open("a");
    bench.fill("a", 1..3);
    for signal in [Signal::INT, Signal::TERM] {
        let mut follower = log("a", temp.path(), &["--json"]);
        follower.wait_for("\"seq\":2,");
        let began = Instant::now();
        follower.signal(signal);
        let output = follower.end();
        assert_code(&output, 0);
        assert!(output.stderr.is_empty(), "{output:#?}");
        // An idle machine needs a tenth of that.
        assert!(
            began.elapsed() < Duration::from_secs(3),
            "{:?}",
            began.elapsed()
        );
    }
    bench.finish();
}

#[test]
fn changes_to_the_file_do_not_hang_a_follower() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::rotating(temp.path(), Rotation::NEVER);
    bench.open("a");
    let run = bench.run("a");
    let mut log = Follower::open(&run, Query::all()).unwrap();
    let mut process = self::log("a", temp.path(), &["--json"]);
    bench.fill("a", 1..101);
    process.wait_for("\"seq\":100,");
    assert_eq!(existing(&mut log).len(), 100);
    // Removed, and created again by its writer.
    fs::remove_file(run.events_path()).unwrap();
    assert_eq!(existing(&mut log), [0; 0]);
    bench.advance(Duration::from_secs(2));
    bench.fill("a", 101..111);
    assert_eq!(existing(&mut log), (101..111).collect::<Vec<u64>>());
    // Truncated to nothing.
    let file = OpenOptions::new()
        .write(true)
        .open(run.events_path())
        .unwrap();
    file.set_len(0).unwrap();
    assert_eq!(existing(&mut log), [0; 0]);
    bench.advance(Duration::from_secs(2));
    bench.fill("a", 111..121);
    assert_eq!(existing(&mut log), (111..121).collect::<Vec<u64>>());
    // Replaced by another file.
    let other = run.path().join("other");
    let mut line = serde_json::to_vec(&token("a", 121, super::at(0))).unwrap();
    line.push(b'\n');
    fs::write(&other, &line).unwrap();
    fs::rename(&other, run.events_path()).unwrap();
    assert_eq!(existing(&mut log), [121]);
    bench.advance(Duration::from_secs(2));
    bench.fill("a", 122..125);
    assert_eq!(existing(&mut log), [122, 123, 124]);
    // The whole run is removed, including its end.
    let away = temp.path().join("away");
    fs::rename(run.path(), &away).unwrap();
    fs::remove_dir_all(&away).unwrap();
    assert_eq!(existing(&mut log), [0; 0]);
    assert!(!log.is_written().unwrap());
    let output = process.end();
    assert!(output.status.code().is_some(), "{output:#?}");
    let now = bench.now();
    let _ = bench.log.finish(now);
}

#[test]
fn a_filter_applies_to_new_lines() {
    let temp = tempfile::tempdir().unwrap();
    let mut bench = Bench::rotating(
        temp.path(),
        Rotation {
            bytes_max: 16 * 1024,
            age_max: None,
        },
    );
    bench.open("a");
    let warning = |seq: u64| {
        let body = serde_json::json!({
            "type": "Warning", "execution_id": "a", "context": "test", "message": format!("found {seq}"),
        });
        event(seq, super::at(0), &body)
    };
    bench.append(&[warning(1)]);
    let mut follower = log(
        "a",
        temp.path(),
        &["--json", "--grep", "found (1|777|1000)$"],
    );
    follower.wait_for("found 1\"");
    bench.fill("a", 2..777);
    bench.append(&[warning(777)]);
    bench.fill("a", 778..999);
    bench.append(&[warning(999), warning(1000)]);
    follower.wait_for("found 1000");
    bench.finish();
    let output = follower.end();
    assert_code(&output, 0);
    let seqs: Vec<_> = super::values(after_opening(&output.stdout))
        .iter()
        .map(|line| line["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, [1, 777, 1000]);
}
