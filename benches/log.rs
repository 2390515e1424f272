//! The log beside what a user would take instead: "serialise, write, flush", event by event.
//!
//! The yardstick writes the very same lines: derived serde types, `serde_json::to_writer` into a
//! `BufWriter<File>`, a line feed, a flush. Every figure is a function that measures all sides in
//! alternating rounds and gives the medians. `cargo bench --bench log -- latency` measures one.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::inotify;
use serde::Serialize;
use td_observe::log::{DataDir, LogOptions, LogWriter, RunInfo};
use td_observe::{Builder, Clock, Emitted, Engine, Envelope, EventEmitter, TdEvent, Timestamp};

const ID: &str = "bench@1768989600";
const TOKEN: &str = "I'll do it\n";
/// Events of one round.
const EVENTS: u64 = 200_000;
const ROUNDS: usize = 5;

// The yardstick: what the seed of this project does, with the fields that our lines have.

#[derive(Serialize)]
struct PlainLine {
    seq: u64,
    #[serde(serialize_with = "plain_stamp")]
    ts: i64,
    event: PlainEvent,
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum PlainEvent {
    TokenReceived {
        execution_id: String,
        iteration: u32,
        token: String,
    },
}

fn plain_stamp<S: serde::Serializer>(micros: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    let time = jiff::Timestamp::from_microsecond(*micros).unwrap();
    serializer.collect_str(&format_args!("{time:.6}"))
}

fn plain_event() -> PlainEvent {
    PlainEvent::TokenReceived {
        execution_id: ID.to_owned(),
        iteration: 1,
        token: TOKEN.to_owned(),
    }
}

/// Serialises, writes and flushes one event after the other.
struct Plain {
    file: BufWriter<File>,
    seq: u64,
}

impl Plain {
    fn create(path: &Path) -> Self {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        Self {
            file: BufWriter::new(file),
            seq: 0,
        }
    }

    fn write(&mut self, ts: i64, event: PlainEvent) {
        self.push(ts, event);
        self.file.flush().unwrap();
    }

    fn push(&mut self, ts: i64, event: PlainEvent) {
        self.seq += 1;
        let line = PlainLine {
            seq: self.seq,
            ts,
            event,
        };
        serde_json::to_writer(&mut self.file, &line).unwrap();
        self.file.write_all(b"\n").unwrap();
    }
}

fn micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_micros() as i64
}

/// How long each file is when so many events are in it, without a header.
fn lengths(events: u64) -> Vec<u64> {
    let line = |seq| {
        let event = TdEvent::TokenReceived {
            execution_id: ID.into(),
            iteration: 1,
            token: TOKEN.to_owned(),
        };
        let envelope = Envelope::new(Some(seq), Timestamp::from_micros(micros()), event);
        serde_json::to_string(&envelope).unwrap().len() as u64 + 1
    };
    // Only the digits of the number differ.
    let (one, mut sum) = (line(1) - 1, 0);
    let lengths = (1..=events).map(|seq| {
        sum += one + u64::from(seq.ilog10()) + 1;
        sum
    });
    lengths.collect()
}

fn len(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.size())
}

// Figure 1: the writer alone, ns an event.

fn our_writer(batch: usize) -> f64 {
    let temp = tempfile::tempdir().unwrap();
    let clock = Clock::system();
    let run = DataDir::new(temp.path()).run(&ID.into());
    let mut log = LogWriter::start(LogOptions::default(), clock.clone()).unwrap();
    let open = run.open(RunInfo::default(), clock.wall()).unwrap();
    log.attach(open, clock.now());
    let header = len(&run.events_path());
    let id = td_observe::ExecutionId::from(ID);
    let events: Vec<_> = (1..=EVENTS)
        .map(|seq| {
            let event = TdEvent::TokenReceived {
                execution_id: id.clone(),
                iteration: 1,
                token: TOKEN.to_owned(),
            };
            Envelope::new(Some(seq), clock.wall(), event)
        })
        .collect();
    let began = Instant::now();
    for batch in events.chunks(batch) {
        let now = clock.now();
        log.append(batch, now);
        log.tick(now);
    }
    let spent = began.elapsed();
    let written = len(&run.events_path()) - header;
    assert_eq!(written, *lengths(EVENTS).last().unwrap());
    let _ = log.finish(clock.now());
    spent.as_nanos() as f64 / EVENTS as f64
}

/// The plain loop; `batch` events a flush, 1 for the yardstick.
fn plain_writer(batch: usize) -> f64 {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("events.jsonl");
    let mut plain = Plain::create(&path);
    let events: Vec<_> = (0..EVENTS).map(|_| (micros(), plain_event())).collect();
    let began = Instant::now();
    for (number, (ts, event)) in events.into_iter().enumerate() {
        plain.push(ts, event);
        if (number + 1).is_multiple_of(batch) {
            plain.file.flush().unwrap();
        }
    }
    plain.file.flush().unwrap();
    let spent = began.elapsed();
    assert_eq!(len(&path), *lengths(EVENTS).last().unwrap());
    spent.as_nanos() as f64 / EVENTS as f64
}

/// For batches of 1, 16 and 256: ours, and the plain loop with as many events a flush; then the
/// yardstick, which is the plain loop with one.
pub fn writer() -> [(usize, f64, f64, f64); 3] {
    [1, 16, 256].map(|batch| {
        let [ours, same, plain] = rounds([&|| our_writer(batch), &|| plain_writer(batch), &|| {
            plain_writer(1)
        }]);
        (batch, ours, same, plain)
    })
}

// Figure 2: from producers to the kernel, events a second.

/// An engine with a log and one run.
struct Ours {
    engine: Engine,
    emitter: EventEmitter,
    path: PathBuf,
    header: u64,
    _temp: tempfile::TempDir,
}

impl Ours {
    fn start() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let engine = Builder::new().data_dir(temp.path()).start().unwrap();
        let emitter = engine.emitter_for(ID, RunInfo::default()).unwrap();
        let path = DataDir::new(temp.path()).run(&ID.into()).events_path();
        // One event makes the log's thread look at its orders, and write the header.
        emitter.iteration_started(1);
        wait_for(|| fs::read_to_string(&path).is_ok_and(|text| text.lines().count() == 2));
        Self {
            engine,
            emitter,
            header: len(&path),
            path,
            _temp: temp,
        }
    }

    fn end(self) {
        let report = self.engine.shutdown();
        assert!(report.log.unwrap().lost.is_empty());
    }
}

/// Lengths of a file whose first event has the number 2.
fn lengths_from_2(events: u64) -> Vec<u64> {
    let all = lengths(events + 1);
    all[1..].iter().map(|length| length - all[0]).collect()
}

fn wait_for(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never comes");
        thread::sleep(Duration::from_micros(100));
    }
}

/// Events a second from the first call of a producer until the file has all of them.
fn throughput(path: &Path, expected: u64, producers: Vec<Box<dyn FnOnce() + Send>>) -> f64 {
    let began = Instant::now();
    let producers: Vec<_> = producers.into_iter().map(thread::spawn).collect();
    for producer in producers {
        producer.join().unwrap();
    }
    wait_for(|| len(path) >= expected);
    let spent = began.elapsed();
    assert_eq!(len(path), expected, "something is missing, or twice");
    EVENTS as f64 / spent.as_secs_f64()
}

fn our_throughput(producers: u64) -> f64 {
    let ours = Ours::start();
    let expected = ours.header + lengths_from_2(EVENTS).last().unwrap();
    let producers = (0..producers).map(|_| {
        let emitter = ours.emitter.clone();
        let produce: Box<dyn FnOnce() + Send> = Box::new(move || {
            let deadline = Instant::now() + Duration::from_secs(60);
            for _ in 0..EVENTS / producers {
                let event = TdEvent::TokenReceived {
                    execution_id: emitter.execution_id().clone(),
                    iteration: 1,
                    token: TOKEN.to_owned(),
                };
                assert_eq!(emitter.emit_waiting(event, deadline), Emitted::Accepted);
            }
        });
        produce
    });
    let rate = throughput(&ours.path, expected, producers.collect());
    ours.end();
    rate
}

/// A thread behind a channel, as long as ours, that writes event by event.
fn channel_throughput(producers: u64) -> f64 {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("events.jsonl");
    let (send, writer) = plain_thread(&path);
    let make = (0..producers).map(|_| {
        let send = send.clone();
        let produce: Box<dyn FnOnce() + Send> = Box::new(move || {
            for _ in 0..EVENTS / producers {
                send.send((micros(), plain_event())).unwrap();
            }
        });
        produce
    });
    let rate = throughput(&path, *lengths(EVENTS).last().unwrap(), make.collect());
    drop(send);
    writer.join().unwrap();
    rate
}

type PlainSender = crossbeam_channel::Sender<(i64, PlainEvent)>;

fn plain_thread(path: &Path) -> (PlainSender, thread::JoinHandle<()>) {
    let (send, receive) = crossbeam_channel::bounded(8 * 1024);
    let mut plain = Plain::create(path);
    let writer = thread::spawn(move || {
        for (ts, event) in receive {
            plain.write(ts, event);
        }
    });
    (send, writer)
}

/// Producers that write for themselves, one after the other.
fn direct_throughput(producers: u64) -> f64 {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("events.jsonl");
    let plain = Arc::new(Mutex::new(Plain::create(&path)));
    let make = (0..producers).map(|_| {
        let plain = Arc::clone(&plain);
        let produce: Box<dyn FnOnce() + Send> = Box::new(move || {
            for _ in 0..EVENTS / producers {
                let event = (micros(), plain_event());
                plain.lock().unwrap().write(event.0, event.1);
            }
        });
        produce
    });
    throughput(&path, *lengths(EVENTS).last().unwrap(), make.collect())
}

/// For 1 and 4 producers: ours, a thread behind a channel, direct writing; events a second.
pub fn end_to_end() -> [(u64, f64, f64, f64); 2] {
    [1, 4].map(|producers| {
        let [ours, channel, direct] = rounds([
            &|| our_throughput(producers),
            &|| channel_throughput(producers),
            &|| direct_throughput(producers),
        ]);
        (producers, ours, channel, direct)
    })
}

// Figure 3: from the emit to the kernel, µs.

/// Watches a file grow, as another program would: woken by inotify, it looks at the length and the
/// clock. So each latency has the watcher's own waking in it, on all sides alike.
fn watch_growth(path: &Path, ends: Vec<u64>) -> thread::JoinHandle<Vec<Instant>> {
    let path = path.to_owned();
    let (ready, is_ready) = crossbeam_channel::bounded(1);
    let watcher = thread::spawn(move || {
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&fd, &path, inotify::WatchFlags::MODIFY).unwrap();
        ready.send(()).unwrap();
        let file = File::open(&path).unwrap();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&fd, &mut buffer);
        let mut seen = Vec::with_capacity(ends.len());
        while seen.len() < ends.len() {
            events.next().unwrap();
            let length = file.metadata().unwrap().size();
            let now = Instant::now();
            while ends.get(seen.len()).is_some_and(|&end| end <= length) {
                seen.push(now);
            }
        }
        seen
    });
    is_ready.recv().unwrap();
    watcher
}

/// Sends at a steady rate for two seconds; p50 and p99 from before the call to the watcher's look.
fn latency(path: &Path, rate: u32, ends: Vec<u64>, mut send: impl FnMut()) -> [f64; 2] {
    let watcher = watch_growth(path, ends);
    let began = Instant::now();
    let period = Duration::from_secs(1) / rate;
    let mut sent = Vec::new();
    for number in 0..2 * rate {
        let due = began + period * number;
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            // The kernel's timer adds about 60 µs: sleep the most of it, and wait for the rest.
            if left > Duration::from_micros(80) {
                thread::sleep(left - Duration::from_micros(70));
            } else {
                thread::yield_now();
            }
        }
        sent.push(Instant::now());
        send();
    }
    let seen = watcher.join().unwrap();
    let mut all: Vec<_> = std::iter::zip(seen, sent)
        .map(|(seen, sent)| (seen - sent).as_nanos() as f64 / 1e3)
        .collect();
    all.sort_by(f64::total_cmp);
    [0.5, 0.99].map(|part| all[(all.len() as f64 * part) as usize])
}

fn our_latency(rate: u32) -> [f64; 2] {
    let ours = Ours::start();
    let ends = lengths_from_2(u64::from(2 * rate));
    let ends = ends.iter().map(|end| ours.header + end).collect();
    let latencies = latency(&ours.path, rate, ends, || {
        assert_eq!(ours.emitter.token_received(1, TOKEN), Emitted::Accepted);
    });
    ours.end();
    latencies
}

fn channel_latency(rate: u32) -> [f64; 2] {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("events.jsonl");
    let (send, writer) = plain_thread(&path);
    let latencies = latency(&path, rate, lengths(u64::from(2 * rate)), || {
        send.send((micros(), plain_event())).unwrap();
    });
    drop(send);
    writer.join().unwrap();
    latencies
}

fn direct_latency(rate: u32) -> [f64; 2] {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("events.jsonl");
    let mut plain = Plain::create(&path);
    latency(&path, rate, lengths(u64::from(2 * rate)), || {
        plain.write(micros(), plain_event());
    })
}

/// For 1,000 and 10,000 events a second, p50 and p99: ours, a thread behind a channel, direct.
pub fn latencies() -> [(u32, [[f64; 2]; 3]); 2] {
    [1_000, 10_000].map(|rate| {
        let mut all: [Vec<[f64; 2]>; 3] = Default::default();
        for _ in 0..ROUNDS {
            all[0].push(our_latency(rate));
            all[1].push(channel_latency(rate));
            all[2].push(direct_latency(rate));
        }
        let medians =
            all.map(|one| [0, 1].map(|part| median(one.iter().map(|it| it[part]).collect())));
        (rate, medians)
    })
}

// Figure 4: memory under a flood, MiB beyond what the process had before it.

/// A disk that takes nothing, in one way or another; given back when dropped.
struct BadDisk {
    at: PathBuf,
    is_frozen: bool,
}

impl BadDisk {
    /// A file system of one megabyte, which is full at once.
    fn full(root: &Path) -> Option<Self> {
        let at = root.join("full");
        fs::create_dir(&at).unwrap();
        let mounted = run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(&at));
        mounted.then_some(Self {
            at,
            is_frozen: false,
        })
    }

    /// A file system that can be made to let every write wait, as a disk that does not answer.
    fn stalling(root: &Path) -> Option<Self> {
        let (image, at) = (root.join("image"), root.join("stalled"));
        fs::create_dir(&at).unwrap();
        File::create(&image).unwrap().set_len(256 << 20).unwrap();
        let mounted = run(Command::new("mkfs.ext4").arg("-q").arg(&image))
            && run(Command::new("mount")
                .args(["-o", "loop"])
                .args([&image, &at]));
        mounted.then_some(Self {
            at,
            is_frozen: false,
        })
    }

    fn freeze(&mut self) -> bool {
        self.is_frozen = run(Command::new("fsfreeze").arg("-f").arg(&self.at));
        self.is_frozen
    }

    fn thaw(&mut self) {
        if std::mem::take(&mut self.is_frozen) {
            run(Command::new("fsfreeze").arg("-u").arg(&self.at));
        }
    }
}

impl Drop for BadDisk {
    fn drop(&mut self) {
        self.thaw();
        run(Command::new("umount").arg("-l").arg(&self.at));
    }
}

fn run(command: &mut Command) -> bool {
    command
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Memory of this process now, MiB.
fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib: f64 = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kib / 1024.0
}

/// Runs of the flood: together they may hold more than the log does.
const FLOODED_RUNS: usize = 12;

/// Emits lines of a kilobyte into a log on a bad disk, with a subscriber that never reads; how
/// much memory that took at its highest, after 500 MB and after 2 GB.
fn flood(mut disk: BadDisk, freeze: bool) -> Option<[f64; 2]> {
    let engine = Builder::new().data_dir(&disk.at).start().unwrap();
    let _reads_nothing = engine.subscribe();
    let emitters: Vec<_> = (0..FLOODED_RUNS)
        .map(|n| {
            engine
                .emitter_for(format!("flood-{n}"), RunInfo::default())
                .unwrap()
        })
        .collect();
    let line = "x".repeat(1024);
    if freeze && !disk.freeze() {
        return None;
    }
    let (before, mut highest) = (resident(), 0_f64);
    let peaks = [500_000, 1_500_000].map(|events| {
        for n in 0..events {
            emitters[n % FLOODED_RUNS].token_received(1, &line);
            if n % 64 == 0 {
                // Gives the fan-out a turn: else the inbox takes it all.
                thread::yield_now();
            }
            if n % 1000 == 0 {
                highest = highest.max(resident() - before);
            }
        }
        highest
    });
    disk.thaw();
    let log = engine.shutdown().log.unwrap();
    assert_eq!(log.lost.is_empty(), freeze, "{:?}", log.lost);
    Some(peaks)
}

/// For a full disk and one that does not answer; `None` where nothing can be mounted or frozen.
/// They share what the allocator keeps, so the second seems to take less: run one at a time.
pub fn memory(full: bool) -> Option<[f64; 2]> {
    let temp = tempfile::tempdir().unwrap();
    if full {
        flood(BadDisk::full(temp.path())?, false)
    } else {
        flood(BadDisk::stalling(temp.path())?, true)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs each measurement in turn, so that a noisy moment hits all of them; the medians.
fn rounds<const N: usize>(measure: [&dyn Fn() -> f64; N]) -> [f64; N] {
    let mut all: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (values, measure) in all.iter_mut().zip(measure) {
            values.push(measure());
        }
    }
    all.map(median)
}

fn main() {
    // `cargo bench` and `cargo test --benches` both come here; the latter only wants a sign of life.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let wanted = |what: &str| only.as_deref().is_none_or(|only| only == what);
    if wanted("writer") {
        println!(
            "{:<44} {:>10} {:>10} {:>10}",
            "the writer alone, ns an event", "td", "plain", "plain / td"
        );
        for (batch, ours, same, plain) in writer() {
            let what = format!("batches of {batch}");
            println!(
                "{what:<44} {ours:>10.0} {plain:>10.0} {:>10.2} (>= 2)",
                plain / ours
            );
            let what = format!("  and plain with {batch} a flush");
            println!("{what:<44} {ours:>10.0} {same:>10.0} {:>10.2}", same / ours);
        }
    }
    if wanted("throughput") {
        println!(
            "{:<44} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "emit to kernel, k events/s", "td", "channel", "direct", "td/channel", "td/direct"
        );
        for (producers, ours, channel, direct) in end_to_end() {
            println!(
                "{:<44} {:>10.0} {:>10.0} {:>10.0} {:>10.2} {:>10.2} (>= 2)",
                format!("{producers} producers"),
                ours / 1e3,
                channel / 1e3,
                direct / 1e3,
                ours / channel,
                ours / direct
            );
        }
    }
    if wanted("latency") {
        println!(
            "{:<44} {:>10} {:>10} {:>10}",
            "emit to kernel, us", "td", "channel", "direct"
        );
        for (rate, [ours, channel, direct]) in latencies() {
            for (part, name) in ["p50", "p99 (<= 5000)"].into_iter().enumerate() {
                println!(
                    "{:<44} {:>10.0} {:>10.0} {:>10.0}",
                    format!("{rate} events/s, {name}"),
                    ours[part],
                    channel[part],
                    direct[part]
                );
            }
        }
    }
    for (what, full) in [("memory-full", true), ("memory-stalled", false)] {
        if wanted(what) {
            match memory(full) {
                Some([early, late]) => println!(
                    "{:<44} {early:>10.0} after 500 MB, {late:.0} after 2 GB",
                    format!("{what}, MiB at most")
                ),
                None => println!("{what}: SKIPPED, nothing can be mounted or frozen here"),
            }
        }
    }
}
