//! History from outside: logs on real disks, created by real writers and read by the program.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use td_observe::history::{Rotation, RunDirectory};
use td_observe::internals::history::parse_line;
use td_observe::{Envelope, TdEvent, Timestamp};

use crate::bench::Bench;
use crate::observed::read;

#[cfg(feature = "cli")]
mod export;
#[cfg(feature = "cli")]
mod follow;
#[cfg(feature = "cli")]
mod full;
#[cfg(feature = "cli")]
mod killed;
mod late;
#[cfg(feature = "cli")]
mod many_runs;
mod missing;
#[cfg(feature = "cli")]
mod raw;
#[cfg(feature = "cli")]
mod reader;
#[cfg(feature = "cli")]
mod replay;
mod rotation;
#[cfg(feature = "cli")]
mod runs;
#[cfg(feature = "cli")]
mod secrets;

/// An event file, decompressed.
#[derive(Debug)]
struct LogFile {
    path: PathBuf,
    name: String,
    bytes: Vec<u8>,
}

impl LogFile {
    #[track_caller]
    fn read(path: PathBuf) -> Self {
        let mut bytes = Vec::new();
        let mut file = File::open(&path).unwrap();
        let read = if path.extension().is_some_and(|ending| ending == "gz") {
            MultiGzDecoder::new(file).read_to_end(&mut bytes)
        } else {
            file.read_to_end(&mut bytes)
        };
        read.unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        Self { path, name, bytes }
    }

    /// Returns its whole lines, each of which must be an event.
    #[track_caller]
    fn lines(&self) -> Vec<(Envelope, &[u8])> {
        let whole = self
            .bytes
            .iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |at| at + 1);
        let lines = self.bytes[..whole].split_inclusive(|&byte| byte == b'\n');
        lines
            .map(|line| {
                let line = &line[..line.len() - 1];
                let envelope = parse_line(line).unwrap_or_else(|error| {
                    panic!("{}: {error}: {}", self.name, String::from_utf8_lossy(line))
                });
                (envelope, line)
            })
            .collect()
    }
}

/// Returns the paths of a run's event files, oldest first; of a file in both forms, the compressed
/// one.
#[track_caller]
fn paths(run: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(run)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("events.") && !name.ends_with(".tmp")
        })
        .collect();
    paths.sort();
    let packed: Vec<PathBuf> = paths.clone();
    paths.retain(|path| !packed.contains(&PathBuf::from(format!("{}.gz", path.display()))));
    // Digits sort before letters, so the newest is the last.
    paths
}

/// Returns all of a run's event files, oldest first.
#[track_caller]
fn files(run: &Path) -> Vec<LogFile> {
    paths(run).into_iter().map(LogFile::read).collect()
}

/// Returns the names of a run's closed files in plain form.
#[track_caller]
fn plain_files(run: &Path) -> Vec<String> {
    let names = fs::read_dir(run).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with("events.0") && name.ends_with(".jsonl"))
        .collect()
}

/// Checks that each file begins with a header line whose number is that of the next event. Returns
/// the events of all files and their lines.
#[track_caller]
fn events_of(files: &[LogFile]) -> Vec<(Envelope, Vec<u8>)> {
    let mut events = Vec::new();
    let mut promised = None;
    for file in files {
        let lines = file.lines();
        if let Some((first, _)) = lines.first() {
            assert!(
                matches!(first.event, TdEvent::LogOpened { .. }),
                "{} begins with {first:?}",
                file.name
            );
        }
        for (envelope, line) in lines {
            match &envelope.event {
                TdEvent::LogOpened { first_seq, .. } => {
                    assert_eq!(envelope.seq, Some(0));
                    promised = Some(*first_seq);
                }
                event => {
                    let first = match event {
                        TdEvent::LogGap { first_seq, .. } => Some(*first_seq),
                        _ => envelope.seq,
                    };
                    if let Some(promised) = promised.take() {
                        assert_eq!(first, Some(promised), "{}", file.name);
                    }
                    events.push((envelope, line.to_vec()));
                }
            }
        }
    }
    events
}

/// Checks that each number from `first` on occurs once and in order, as an event or in a gap.
/// Returns the number after the last.
#[track_caller]
fn accounted<'a>(events: impl IntoIterator<Item = &'a Envelope>, first: u64) -> u64 {
    let mut next = first;
    for envelope in events {
        let last = envelope.seq.unwrap_or_else(|| panic!("{envelope:?}"));
        let from = match envelope.event {
            TdEvent::LogGap { first_seq, .. } => first_seq,
            _ => last,
        };
        assert_eq!(from, next, "{envelope:?}");
        next = last + 1;
    }
    next
}

/// Returns the time this many milliseconds after the beginning of a recorded run.
#[cfg(feature = "cli")]
fn at(millis: i64) -> Timestamp {
    Timestamp::from_micros(START_MICROS + millis * 1000)
}

/// 2026-01-21T10:00:00Z
#[cfg(feature = "cli")]
const START_MICROS: i64 = 1_768_989_600_000_000;

#[cfg(feature = "cli")]
#[track_caller]
fn event(seq: u64, ts: Timestamp, event: &serde_json::Value) -> Envelope {
    let line = serde_json::json!({"seq": seq, "ts": ts.to_string(), "event": event});
    parse_line(line.to_string().as_bytes()).unwrap()
}

/// Records an ended run of a session whose lines were printed at these milliseconds.
#[cfg(feature = "cli")]
#[track_caller]
fn record(data: &Path, id: &str, lines: &[(i64, &str)]) -> RunDirectory {
    let mut bench = Bench::rotating(data, Rotation::NEVER);
    assert_eq!(bench.open(id), 1);
    let of = |body: serde_json::Value| {
        let mut body = body;
        body["execution_id"] = id.into();
        body
    };
    let start = of(serde_json::json!({"type": "SessionStarted", "session": id, "panes": ["%1"]}));
    let mut events = vec![event(1, at(lines[0].0), &start)];
    for (number, (millis, text)) in lines.iter().enumerate() {
        let update = of(serde_json::json!({
            "type": "OutputUpdate", "pane": "%1", "first_line": number + 1,
            "chunk": format!("{text}\n"), "is_complete": false,
        }));
        events.push(event(number as u64 + 2, at(*millis), &update));
    }
    let end = of(serde_json::json!({"type": "SessionEnded", "session": id, "reason": "closed"}));
    let (last, _) = lines[lines.len() - 1];
    events.push(event(lines.len() as u64 + 2, at(last), &end));
    bench.append(&events);
    let now = bench.now();
    bench
        .log
        .close_run(id, td_observe::history::RunState::Completed, None, now);
    let run = bench.run(id);
    bench.finish();
    run
}

/// Parses lines of JSON, of which there must be some.
#[cfg(feature = "cli")]
#[track_caller]
fn values(bytes: &[u8]) -> Vec<serde_json::Value> {
    let text = std::str::from_utf8(bytes).unwrap();
    let read =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(read).collect()
}

/// Checks that the program failed with wrong usage, in one line, and printed nothing.
#[cfg(feature = "cli")]
#[track_caller]
fn assert_wrong_usage(output: &std::process::Output, expected: &str) {
    crate::cli::assert_code(output, 2);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.stdout.is_empty(), "{output:#?}");
    assert_eq!(stderr.matches('\n').count(), 1, "{output:#?}");
    assert!(stderr.contains(expected), "{stderr}");
}
