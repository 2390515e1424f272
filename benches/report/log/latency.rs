//! The latency of the history from emit to file.

use super::*;

/// Watches a file grow, like another program: woken by inotify, it reads the length and the clock. The
/// watcher's own wake-up time is part of each latency, on all sides alike.
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

/// Sends at a steady rate for two seconds; returns p50 and p99 from before the call to the watcher's
/// check.
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
            // The kernel's timer adds about 60 µs: sleep for most of the time, and spin for the rest.
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
    // With the defaults.
    let ours = Ours::start(Rules::builtin());
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

/// Returns p50 and p99 for 1,000 and 10,000 events per second: ours, a thread behind a channel, direct.
pub(super) fn latencies() -> [(u32, [[f64; 2]; 3]); 2] {
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
