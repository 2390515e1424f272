//! Any bytes as the files of a run: the reader returns the same events as parsing line by line, each once.
//!
//! The first line of the input selects the case: three bytes (the filters, their values, the division into
//! files), then a regular expression. The log follows.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
use td_observe::history::{Follower, LogReader, LogRecord, Query, ReadReport, RunDirectory};
use td_observe::internals::history::parse_line;
use td_observe::{Envelope, TdEvent, Timestamp};

const TYPES: [&str; 8] = [
    "OutputUpdate",
    "OutputGap",
    "Unheard",
    "LoopStarted",
    "LogOpened",
    "",
    "a\"b",
    "é",
];
const EXECUTIONS: [&str; 5] = ["a", "b", "", "a/b", "é"];
const TIMES: [&str; 5] = [
    "2026-01-21T10:00:01Z",
    "2026-01-21T10:00:01.5Z",
    "2026-01-21T10:00:01.000001Z",
    "2026-06-30T23:59:59.5Z",
    "0999-12-31T00:00:00Z",
];
/// The size of the reader's blocks: after almost as many blanks, the log crosses the end of a block.
const BLOCK_BYTES: usize = 256 * 1024;
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];

pub fn run(bytes: &[u8]) {
    let Some((head, log)) = split_line(bytes) else {
        return;
    };
    let Some((&[flags, pick, split], pattern)) = head.split_first_chunk() else {
        return;
    };
    // Letters and digits, so that inputs can be written by hand.
    let (flags, split) = (flags.wrapping_sub(b'@'), split.wrapping_sub(b'0'));
    let Some(search) = Search::new(flags, pick, pattern) else {
        return;
    };
    let filling = if search.is_filled {
        [
            &vec![b' '; BLOCK_BYTES - 1 - usize::from(pick) * log.len() / 256],
            &b"\n"[..],
        ]
        .concat()
    } else {
        Vec::new()
    };
    one_file(&search, &[&filling, log].concat());
    files(&search, &filling, log, split);
    followed(&search, log, split);
}

/// Returns the first line without its end, and the rest.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|&byte| byte == b'\n')?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

/// A query, its context, and whether blanks precede the log.
struct Search {
    query: Query,
    context: Option<&'static str>,
    is_filled: bool,
}

impl Search {
    fn new(flags: u8, pick: u8, pattern: &[u8]) -> Option<Self> {
        let has = |bit: u8| flags >> bit & 1 == 1;
        let pick = usize::from(pick);
        let time = |pick: usize| TIMES[pick % TIMES.len()].parse::<Timestamp>().unwrap();
        let mut query = Query::all();
        if has(0) {
            query = query.kind(TYPES[pick % TYPES.len()]);
        }
        if has(1) {
            query = query.text(std::str::from_utf8(pattern).ok()?).ok()?;
        }
        if has(2) {
            query = match pick % 3 {
                0 => query.since(time(pick)),
                1 => query.until(time(pick)),
                _ => query.since(time(pick)).until(time(pick + 1)),
            };
        }
        if has(3) {
            query = query.execution(EXECUTIONS[pick % EXECUTIONS.len()]);
        }
        let context = has(4).then(|| TYPES[(pick + 1) % TYPES.len()]);
        if let Some(context) = context {
            query = query.context(context);
        }
        Some(Self {
            query,
            context,
            // Rarely, because it is slow.
            is_filled: flags >> 5 == 1,
        })
    }
}

/// The content of a log, parsed line by line.
#[derive(Debug, Default, PartialEq)]
struct Truth {
    events: Vec<Found>,
    broken: u64,
    first_broken: Option<u64>,
    torn: u64,
}

/// An event, true if the query selects it, and its line.
#[derive(Debug, PartialEq)]
struct Found(Envelope, bool, Vec<u8>);

impl Truth {
    fn of(search: &Search, file: &[u8]) -> Self {
        let (mut truth, mut at) = (Self::default(), 0);
        for whole in file.split_inclusive(|&byte| byte == b'\n') {
            let line = whole.strip_suffix(b"\n");
            let (line, is_torn) = (line.unwrap_or(whole), line.is_none());
            match parse_line(line) {
                Ok(envelope) => truth.event(search, envelope, line),
                Err(_) if is_torn => truth.torn += 1,
                Err(_) if line.trim_ascii().is_empty() => {}
                Err(_) => {
                    truth.broken += 1;
                    truth.first_broken.get_or_insert(at);
                }
            }
            at += whole.len() as u64;
        }
        truth
    }

    fn event(&mut self, search: &Search, envelope: Envelope, line: &[u8]) {
        if matches!(envelope.event, TdEvent::LogOpened { .. }) {
            return;
        }
        let is_wanted = search.query.wants(&envelope);
        if is_wanted || search.context == Some(envelope.event.type_name()) {
            self.events.push(Found(envelope, is_wanted, line.to_vec()));
        }
    }

    fn add(&mut self, more: Self) {
        self.events.extend(more.events);
        self.broken += more.broken;
        self.torn += more.torn;
    }
}

fn found(record: LogRecord) -> Found {
    let line = record.line().to_vec();
    Found(record.envelope, record.is_wanted, line)
}

/// A filter parses fewer lines, so it counts fewer.
fn check_counts(search: &Search, report: &ReadReport, truth: &Truth) {
    let counted = (report.invalid, report.torn);
    if search.query.wants_all() {
        assert_eq!(counted, (truth.broken, truth.torn));
    } else {
        assert!(counted.0 <= truth.broken && counted.1 <= truth.torn);
    }
}

/// An empty run.
struct Run {
    directory: RunDirectory,
    _temp: tempfile::TempDir,
}

impl Run {
    fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        Self {
            directory: RunDirectory::at(temp.path()).unwrap(),
            _temp: temp,
        }
    }

    fn read(&self, search: &Search) -> (Vec<Found>, ReadReport) {
        let mut log = LogReader::open_lines(&self.directory, search.query.clone()).unwrap();
        let events = (&mut log).map(found).collect();
        (events, log.into_report())
    }
}

fn one_file(search: &Search, log: &[u8]) {
    if log.starts_with(GZIP_MAGIC) {
        return;
    }
    let truth = Truth::of(search, log);
    let run = Run::new();
    let path = run.directory.events_path();
    fs::write(&path, log).unwrap();
    let (events, report) = run.read(search);
    assert_eq!(events, truth.events);
    check_counts(search, &report, &truth);
    if search.query.wants_all() {
        let first = report.first_invalid.as_ref().map(|(_, at)| *at);
        assert_eq!(first, truth.first_broken);
    }
    assert!(report.problems.is_empty(), "{report:?}");
    // As a file outside of a run.
    let events: Vec<Found> = LogReader::open_file(&path, search.query.clone())
        .unwrap()
        .map(found)
        .collect();
    assert_eq!(events, truth.events);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Plain,
    Gzip,
    /// Two consecutive gzip members, beside a plain file that the reader must ignore.
    Members,
    /// The end is missing.
    Cut,
    /// One bit is flipped.
    Flipped,
}

const KINDS: [Kind; 5] = [
    Kind::Plain,
    Kind::Gzip,
    Kind::Members,
    Kind::Cut,
    Kind::Flipped,
];

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// Returns the readable bytes of a compressed file, and true if it has an error.
fn unpacked(bytes: &[u8], kind: Kind) -> (Vec<u8>, bool) {
    let (mut out, mut byte) = (Vec::new(), [0]);
    let mut from = MultiGzDecoder::new(bytes);
    if kind != Kind::Flipped {
        let is_error = from.read_to_end(&mut out).is_err();
        return (out, is_error);
    }
    loop {
        // Byte by byte, because a longer read drops the bytes before an error.
        match from.read(&mut byte) {
            Ok(0) => return (out, false),
            Ok(_) => out.extend(byte),
            Err(_) => return (out, true),
        }
    }
}

fn closed_path(directory: &Path, number: usize, is_gzip: bool) -> std::path::PathBuf {
    let gz = if is_gzip { ".gz" } else { "" };
    directory.join(format!("events.{number:06}.jsonl{gz}"))
}

/// Writes a file that was modified after its last event.
fn write(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).unwrap();
    file.write_all(bytes).unwrap();
    let later = SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    file.set_modified(later).unwrap();
}

/// Writes a closed file; returns its readable bytes, and true if it has an error.
fn write_closed(directory: &Path, number: usize, kind: Kind, bytes: &[u8]) -> (Vec<u8>, bool) {
    let half = bytes.len() / 2;
    let mut on_disk = match kind {
        Kind::Plain => bytes.to_vec(),
        Kind::Members => [packed(&bytes[..half]), packed(&bytes[half..])].concat(),
        Kind::Gzip | Kind::Cut | Kind::Flipped => packed(bytes),
    };
    match kind {
        Kind::Cut => on_disk.truncate(on_disk.len() * 3 / 4),
        Kind::Flipped => {
            let at = 10 + half % (on_disk.len() - 10);
            on_disk[at] ^= 1 << (half % 8);
        }
        Kind::Members => write(&closed_path(directory, number, false), b"not this one\n"),
        Kind::Plain | Kind::Gzip => {}
    }
    write(
        &closed_path(directory, number, kind != Kind::Plain),
        &on_disk,
    );
    if on_disk.starts_with(GZIP_MAGIC) {
        unpacked(&on_disk, kind)
    } else {
        (on_disk, false)
    }
}

/// Reads the log from several files, divided at any byte; the last one is `events.jsonl`.
fn files(search: &Search, filling: &[u8], log: &[u8], split: u8) {
    let run = Run::new();
    let (count, kinds) = (usize::from(split % 4) + 2, usize::from(split / 4));
    let cut = |at: usize| at * log.len() / count;
    let (mut truth, mut flipped) = (Truth::default(), None);
    let mut errors = 0;
    for at in 0..count {
        let mut bytes = log[cut(at)..cut(at + 1)].to_vec();
        let kind = match at {
            0 => {
                bytes = [filling, &bytes].concat();
                KINDS[kinds % KINDS.len()]
            }
            // Only the first file may have a flipped bit.
            _ => KINDS[(kinds + at) % (KINDS.len() - 1)],
        };
        let (bytes, is_error) = if at + 1 == count {
            if bytes.starts_with(GZIP_MAGIC) {
                return;
            }
            write(&run.directory.events_path(), &bytes);
            (bytes, false)
        } else {
            write_closed(run.directory.path(), at + 1, kind, &bytes)
        };
        errors += usize::from(is_error);
        let more = Truth::of(search, &bytes);
        if kind == Kind::Flipped && at == 0 {
            flipped = Some(more.events);
        } else {
            truth.add(more);
        }
    }
    let (mut events, report) = run.read(search);
    if let Some(most) = flipped {
        // The events before the damage are unchanged, and those of the other files are complete.
        assert!(events.len() >= truth.events.len(), "{events:?} {truth:?}");
        let rest = events.split_off(events.len() - truth.events.len());
        let surely = events.len().saturating_sub(1);
        assert!(events.len() <= most.len() + 1);
        assert_eq!(events[..surely], most[..surely.min(most.len())]);
        events = rest;
    } else {
        check_counts(search, &report, &truth);
    }
    assert_eq!(events, truth.events);
    assert_eq!(report.problems.len(), errors, "{report:?}");
}

/// Follows a log while it grows, is closed and is compressed.
fn followed(search: &Search, log: &[u8], split: u8) {
    const STEPS: usize = 5;
    let log = [log, b"\n"].concat();
    let run = Run::new();
    let newest = run.directory.events_path();
    let mut follower = None;
    let (mut events, mut truth) = (Vec::new(), Truth::default());
    let (mut number, mut in_newest) = (0, Vec::new());
    fs::write(&newest, "").unwrap();
    for step in 0..STEPS {
        let part = &log[step * log.len() / STEPS..(step + 1) * log.len() / STEPS];
        let mut file = OpenOptions::new().append(true).open(&newest).unwrap();
        file.write_all(part).unwrap();
        in_newest.extend_from_slice(part);
        if in_newest.starts_with(GZIP_MAGIC) {
            return;
        }
        // The step at which the follower opens the run varies.
        if step >= usize::from(split % 3) && follower.is_none() {
            follower = Some(Follower::open(&run.directory, search.query.clone()).unwrap());
        }
        // In some cases, it polls only at every other step.
        if split >> 2 & 1 == 0 || step % 2 == 0 {
            drain(&mut follower, &mut events);
        }
        if split >> step & 1 == 1 && in_newest.ends_with(b"\n") {
            number += 1;
            fs::rename(&newest, closed_path(run.directory.path(), number, false)).unwrap();
            if step % 2 == 0 {
                // At this point no `events.jsonl` exists.
                drain(&mut follower, &mut events);
            }
            if split >> 6 & 1 == 1 {
                write(
                    &closed_path(run.directory.path(), number, true),
                    &packed(&in_newest),
                );
                fs::remove_file(closed_path(run.directory.path(), number, false)).unwrap();
            }
            fs::write(&newest, "").unwrap();
            truth.add(Truth::of(search, &in_newest));
            in_newest.clear();
        }
    }
    truth.add(Truth::of(search, &in_newest));
    drain(&mut follower, &mut events);
    assert_eq!(events, truth.events);
    let follower = follower.unwrap();
    check_counts(search, follower.report(), &truth);
    assert!(follower.report().problems.is_empty());
}

fn drain(follower: &mut Option<Follower>, events: &mut Vec<Found>) {
    if let Some(follower) = follower {
        while let Some(record) = follower.next().unwrap() {
            events.push(found(record));
        }
    }
}
