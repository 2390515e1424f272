//! Latency and idle cost of the bus compared with a broadcast channel.

use super::*;

/// The latency from before the emit to the reader, in µs: p50 and p99 over 4 readers, at 10,000 events
/// per second for two seconds. The event carries its time.
fn latency(
    mut send: impl FnMut(u64),
    readers: Vec<thread::JoinHandle<Vec<u64>>>,
    began: Instant,
) -> (f64, f64) {
    let period = Duration::from_micros(100);
    for number in 0..20_000_u32 {
        let due = began + period * number;
        loop {
            let now = Instant::now();
            if now >= due {
                break;
            }
            let left = due - now;
            // The kernel's timer adds about 60 µs: sleep for most of the time, and spin for the rest.
            if left > Duration::from_micros(80) {
                thread::sleep(left - Duration::from_micros(70));
            } else {
                thread::yield_now();
            }
        }
        send(began.elapsed().as_nanos() as u64);
    }
    send(u64::MAX);
    let mut all: Vec<u64> = readers
        .into_iter()
        .flat_map(|one| one.join().unwrap())
        .collect();
    all.sort_unstable();
    let at = |part: f64| all[(all.len() as f64 * part) as usize] as f64 / 1000.0;
    (at(0.5), at(0.99))
}

fn stamp(event: &TdEvent) -> u64 {
    match event {
        TdEvent::ResponseCompleted { input_tokens, .. } => *input_tokens,
        _ => unreachable!(),
    }
}

fn stamped(nanos: u64) -> TdEvent {
    TdEvent::response_completed(
        "bench",
        1,
        "",
        nanos,
        0,
        td_observe::event::ToolCalls::Absent,
    )
}

fn read_latencies(began: Instant, mut next: impl FnMut() -> u64) -> Vec<u64> {
    let mut all = Vec::with_capacity(20_000);
    loop {
        let sent = next();
        if sent == u64::MAX {
            return all;
        }
        all.push(began.elapsed().as_nanos() as u64 - sent);
    }
}

pub(super) fn ours_latency() -> (f64, f64) {
    let bus = EventBus::new(CAPACITY);
    let began = Instant::now();
    let readers = (0..SUBSCRIBERS)
        .map(|_| {
            let mut events = bus.subscribe();
            thread::spawn(move || {
                read_latencies(began, || {
                    stamp(&events.recv().unwrap().envelope().unwrap().event)
                })
            })
        })
        .collect();
    let emitter = bus.emitter_for("bench");
    latency(
        |nanos| assert_eq!(emitter.emit(stamped(nanos)), Emitted::Accepted),
        readers,
        began,
    )
}

pub(super) fn tokio_latency() -> (f64, f64) {
    let (tx, _) = broadcast::channel::<TdEvent>(CAPACITY);
    let began = Instant::now();
    let readers = (0..SUBSCRIBERS)
        .map(|_| {
            let mut rx = tx.subscribe();
            thread::spawn(move || read_latencies(began, || stamp(&rx.blocking_recv().unwrap())))
        })
        .collect();
    latency(|nanos| drop(tx.send(stamped(nanos))), readers, began)
}

/// Returns the processor time over ten seconds with four subscribers, a lossless lane, and no events.
pub(super) fn idle() -> f64 {
    let bus = EventBus::new(CAPACITY);
    let mut kept = subscribe_lossless(&bus).unwrap();
    let log = thread::spawn(move || while kept.recv_deadline(None).is_ok() {});
    let readers: Vec<_> = (0..SUBSCRIBERS)
        .map(|_| {
            let mut events = bus.subscribe();
            thread::spawn(move || events.iter().count())
        })
        .collect();
    bus.emitter_for("bench").iteration_started(1);
    thread::sleep(Duration::from_millis(200));
    let before = own_ms();
    thread::sleep(Duration::from_secs(10));
    let spent = own_ms() - before;
    bus.close();
    log.join().unwrap();
    readers
        .into_iter()
        .for_each(|reader| assert_eq!(reader.join().unwrap(), 1));
    spent
}
