//! The pure cores in isolation: the trackers, envelopes to lines and back, the bus between threads, the
//! search for secrets, the streams of agents and their screens, the stream of a pane.
//!
//! `cargo bench --bench cores`. The throttle and the reader of captures are not public: the throttle is
//! measured through a throttled lane.

#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use td_observe::agent::{AgentScreen, StateRules, StreamParser};
use td_observe::event::Cursor;
use td_observe::internals::history::parse_line;
use td_observe::internals::redact::Redactor;
use td_observe::internals::track::{Capture, PaneNumbers, Row, StreamTracker, SyncPoint, Tracker};
use td_observe::redact::Rules;
use td_observe::{BusOptions, Envelope, EventBus, SubscribeOptions, TdEvent, Timestamp};

#[path = "common/streams.rs"]
mod streams;

use streams::Stream;

const HEIGHT: u32 = 24;

/// Returns a pane that has printed this many lines, captured `depth` rows beyond its screen.
fn pane(printed: u32, depth: u32) -> Capture {
    // The cursor is in an empty row below the last line.
    let history_size = (printed + 1).saturating_sub(HEIGHT);
    let depth = depth.min(history_size);
    let rows = (history_size - depth..printed.max(HEIGHT - 1)).map(|number| Row {
        text: match number {
            number if number < printed => format!("line {number}: cc -O2 -c module_{number}.c"),
            _ => String::new(),
        },
        wrapped: false,
    });
    Capture {
        numbers: PaneNumbers {
            width: 80,
            height: HEIGHT,
            history_size,
            history_limit: 50_000,
            cursor: Cursor {
                x: 0,
                y: printed.min(HEIGHT - 1),
            },
            pid: 7,
            ..PaneNumbers::default()
        },
        rows: rows.chain([Row::default()]).collect(),
        ..Capture::default()
    }
}

fn tracker(c: &mut Criterion) {
    let mut group = c.benchmark_group("tracker");
    let before = pane(1_000, 40);
    for (name, new) in [
        ("unchanged", 0),
        ("10 new lines", 10),
        ("2000 new rows", 2_000),
    ] {
        let after = pane(1_000 + new, 40 + new);
        group.throughput(Throughput::Elements(u64::from(new.max(1))));
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || {
                    let mut tracker = Tracker::baseline(&before);
                    tracker.apply(&before, false);
                    tracker
                },
                |tracker| black_box(tracker.apply(black_box(&after), false)),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

/// Bytes of a pane in pieces of 64 KiB, as a drain delivers them.
fn stream(c: &mut Criterion) {
    /// The length of the stream in bytes.
    const BYTES: usize = 8 * 1024 * 1024;
    let mut group = c.benchmark_group("stream");
    let numbers: String = (0..BYTES / 9).map(|n| format!("{n:07}\r\n")).collect();
    let lines = "cc -O2 -Wall -Wextra -Iinclude -c src/module_17.c -o target/module_17.o\r\n";
    let colours = "\x1b[1m\x1b[32m   Compiling\x1b[0m serde v1.0.219 (/home/me/work/serde)\r\n";
    let wide = "│ 漢字 │ é │ die längste Zeile │\r\n";
    for (name, bytes) in [
        ("short lines", numbers),
        ("lines", lines.repeat(BYTES / lines.len())),
        ("coloured lines", colours.repeat(BYTES / colours.len())),
        ("lines beyond ASCII", wide.repeat(BYTES / wide.len())),
    ] {
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.sample_size(10);
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || {
                    let sync_point = SyncPoint {
                        capture: pane(0, 0),
                        ..SyncPoint::default()
                    };
                    StreamTracker::new(Tracker::baseline(&sync_point.capture), &sync_point)
                },
                |stream| {
                    for mut piece in bytes.as_bytes().chunks(64 * 1024) {
                        while !piece.is_empty() {
                            let taken = stream.feed(piece);
                            piece = &piece[taken..];
                            black_box(stream.changes(Duration::ZERO));
                        }
                    }
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn output() -> Envelope {
    let event = TdEvent::output_update(
        "build@1768989600",
        &"%3".into(),
        17,
        "cc -O2 -c main.c\ncc -O2 -c \"util\".c\n",
    );
    Envelope::new(
        Some(42),
        Timestamp::from_micros(1_768_989_601_123_456),
        event,
    )
}

fn token() -> TdEvent {
    TdEvent::token_received("bench", 1, "I'll do it")
}

fn envelope(c: &mut Criterion) {
    let mut group = c.benchmark_group("envelope");
    for (name, envelope) in [
        ("output", output()),
        (
            "token",
            Envelope::new(Some(42), Timestamp::from_micros(1), token()),
        ),
    ] {
        let line = serde_json::to_string(&envelope).unwrap();
        group.throughput(Throughput::Bytes(line.len() as u64));
        group.bench_function(format!("{name} to a line"), |b| {
            let mut out = Vec::new();
            b.iter(|| {
                out.clear();
                serde_json::to_writer(&mut out, black_box(&envelope)).unwrap();
            });
        });
        assert!(parse_line(line.as_bytes()).is_ok());
        group.bench_function(format!("{name} from a line"), |b| {
            b.iter(|| black_box(parse_line(black_box(line.as_bytes()))));
        });
    }
    group.finish();
}

/// The events of a burst, for which a lane and the inbox have room.
const BURST: u64 = 1_000;

fn bus(c: &mut Criterion) {
    let mut group = c.benchmark_group("bus");
    group.bench_function("one event from emit to recv", |b| {
        let bus = EventBus::new(10_000);
        let mut events = bus.subscribe();
        b.iter(|| {
            bus.emit(token());
            black_box(events.recv().unwrap())
        });
    });
    group.throughput(Throughput::Elements(BURST));
    for (name, throttle) in [
        ("1000 events, one by one", None),
        (
            "1000 events through the throttle",
            Some(Duration::from_secs(1)),
        ),
    ] {
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || {
                    let bus = EventBus::with_options(BusOptions::default()).unwrap();
                    let events = bus.subscribe_with(SubscribeOptions {
                        throttle,
                        ..Default::default()
                    });
                    (bus, events)
                },
                |(bus, events)| {
                    for _ in 0..BURST {
                        bus.emit(token());
                    }
                    // Releases the text that the throttle holds.
                    bus.close();
                    let all: u64 = events
                        .iter()
                        .filter_map(|delivery| delivery.envelope().map(|envelope| envelope.n))
                        .sum();
                    assert_eq!(all, BURST);
                },
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn updated(chunk: &str) -> TdEvent {
    TdEvent::output_update("build@1768989600", &"%3".into(), 17, chunk)
}

fn redact(c: &mut Criterion) {
    let mut group = c.benchmark_group("redact");
    let clean = "cc -O2 -Wall -Wextra -Iinclude -c src/module_17.c\ncc -O2 -Wall -Wextra -Iinclude -c src/module_18.c\n";
    let prose = "I'll read the file first and then change the way in which it counts its lines; after that I run ";
    let url = "  Downloading https://crates.io/api/v1/crates/serde/1.0.219/download to the cache of this machine\n";
    let key = [
        "export KEY=sk-ant-",
        "api03-",
        &"a1B2c3D4".repeat(8),
        " # mine\n",
    ]
    .concat();
    let token = |token: &str| TdEvent::token_received("bench", 1, token);
    let full = format!("{:<78}\n", clean[..49].replace('\n', " ") + "│").replace(' ', "·");
    for (name, event) in [
        ("100 clean bytes of a pane", updated(clean)),
        ("100 clean bytes of tokens", token(prose)),
        ("10 clean bytes of tokens", token("I'll do it")),
        ("100 bytes with an address", updated(url)),
        ("a clean line as wide as the pane", updated(&full)),
        ("4 KiB of clean lines", updated(&clean.repeat(41))),
        ("a line with a key", updated(&key)),
        ("64 KiB of sk-", token(&"sk-".repeat(65_536 / 3))),
        (
            "64 KiB of password=",
            token(&"password=".repeat(65_536 / 9)),
        ),
        (
            "64 KiB of password=x1\"",
            token(&"password=x1\"".repeat(65_536 / 12)),
        ),
        ("64 KiB of ://a:", token(&"://a:".repeat(65_536 / 5))),
        ("64 KiB of a", token(&"a".repeat(65_536))),
    ] {
        let text = match &event {
            TdEvent::OutputUpdate { chunk: text, .. }
            | TdEvent::TokenReceived { token: text, .. } => text.len(),
            _ => 0,
        };
        let mut redactor = Redactor::new(Rules::builtin());
        redactor.event(&mut TdEvent::pane_opened(
            "build@1768989600",
            &"%3".into(),
            80,
            24,
            "sh",
        ));
        group.throughput(Throughput::Bytes(text as u64));
        let mut same = event.clone();
        if redactor.event(&mut same) {
            group.bench_function(name, |b| {
                b.iter_batched_ref(
                    || event.clone(),
                    |event| redactor.event(event),
                    BatchSize::SmallInput,
                );
            });
        } else {
            group.bench_function(name, |b| b.iter(|| redactor.event(black_box(&mut same))));
        }
    }
    group.finish();
}

/// Streams of agents in pieces of 64 KiB, as a pipe delivers them.
fn agent(c: &mut Criterion) {
    let mut group = c.benchmark_group("agent");
    for Stream { name, format, text } in streams::all() {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(name, |b| {
            let (now, mut events) = (Timestamp::from_micros(0), Vec::new());
            b.iter(|| {
                let mut parser = StreamParser::new(format);
                for piece in black_box(text.as_bytes()).chunks(64 * 1024) {
                    events.clear();
                    parser.push(piece, now, &mut events);
                }
                black_box(parser.status())
            });
        });
    }
    group.finish();
}

/// Screens of agents, as in the tests: a line `=== NAME = STATE`, then the rows.
const SCREENS: &[(&str, &str)] = &[
    (
        "claude",
        include_str!("../src/agent/state/tests/screens/claude.txt"),
    ),
    (
        "codex",
        include_str!("../src/agent/state/tests/screens/codex.txt"),
    ),
    (
        "gemini",
        include_str!("../src/agent/state/tests/screens/gemini.txt"),
    ),
    (
        "opencode",
        include_str!("../src/agent/state/tests/screens/opencode.txt"),
    ),
    (
        "aider",
        include_str!("../src/agent/state/tests/screens/aider.txt"),
    ),
    (
        "nobody",
        include_str!("../src/agent/state/tests/screens/nobody.txt"),
    ),
];

/// One detection for each screen of an agent, in a pane of 50 rows with text above the screen.
fn states(c: &mut Criterion) {
    const HEIGHT: usize = 50;
    let filler = format!(
        "  the quick brown fox · (3s) … {}",
        "lorem ipsum ".repeat(14)
    );
    let rules = StateRules::builtin();
    let mut group = c.benchmark_group("states");
    for (agent, text) in SCREENS {
        let screens = text.split("=== ").skip(1);
        let screens: Vec<Vec<&str>> = screens
            .map(|screen| {
                let shown: Vec<&str> = screen.lines().skip(1).collect();
                let mut rows = vec![filler.as_str(); HEIGHT.saturating_sub(shown.len())];
                rows.extend(shown);
                rows
            })
            .collect();
        group.throughput(Throughput::Elements(screens.len() as u64));
        group.bench_function(*agent, |b| {
            b.iter(|| {
                for rows in &screens {
                    black_box(rules.detect(black_box(&AgentScreen::of(rows))));
                }
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = cores;
    config = Criterion::default()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(2));
    targets = tracker, stream, envelope, bus, redact, agent, states
}
criterion_main!(cores);
