//! Agents: the parsing speed of their output, and the cost of polling their files.
//!
//! - Streams through the parser, 64 KiB at a time, compared with `serde_json::Value` for each of their
//!   records.
//! - 200 idle files, polled repeatedly; and the first poll of a file of 1 GiB compared with 1 MiB, in
//!   processor time.
//! - 20 agents at work in panes: the share of the observer's time for finding them and for reading their
//!   status files and transcripts.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use td_observe::agent::{StateRules, StreamParser};
use td_observe::{AgentRegistry, Delivery, EventBus, Polling, TdEvent, Timestamp, Watch};

use crate::common::cpu::{own_ms, threads_ms};
use crate::common::fake_agent;
use crate::common::panes::watched;
use crate::common::stats::{median, rounds};
use crate::common::streams::{self, Stream};
use crate::common::support::{CEILING, TmuxServer};
use crate::common::table::{Bar, Row, Table};

const ROUNDS: usize = 7;
const SPEED_BAR: f64 = 300.0;
const AGENTS: usize = 200;
const CHECKS: u32 = 100;
/// The number of agents in panes, and the time of their observation.
const AT_WORK: usize = 20;
const AT_WORK_FOR: Duration = Duration::from_secs(20);
const STEP: Duration = Duration::from_millis(100);
/// The default poll interval.
const EVERY_MS: f64 = 5_000.0;

pub fn run(table: &mut Table) {
    speed_rows(table);
    rest_row(table);
    size_row(table);
    panes_row(table);
}

fn speed_rows(table: &mut Table) {
    for Stream { name, format, text } in streams::all() {
        let mb = text.len() as f64 / 1e6;
        let ours = || {
            let began = Instant::now();
            let mut parser = StreamParser::new(format);
            let mut events = Vec::new();
            for piece in text.as_bytes().chunks(64 * 1024) {
                events.clear();
                parser.push(piece, Timestamp::from_micros(0), &mut events);
            }
            assert!(parser.format().is_some(), "{name} is known");
            began.elapsed().as_secs_f64()
        };
        let values = || {
            let began = Instant::now();
            for line in text.lines() {
                let json = line.strip_prefix("data: ").unwrap_or(line);
                if json.starts_with('{') {
                    serde_json::from_str::<serde_json::Value>(json).unwrap();
                }
            }
            began.elapsed().as_secs_f64()
        };
        let [ours, values] = rounds(ROUNDS, [&ours, &values]);
        table.row(&Row {
            what: &format!("{name} → events"),
            ours: format!("{:.0} MB/s", mb / ours),
            instead: format!("`serde_json::Value` a record: {:.0} MB/s", mb / values),
            ratio: Some(values / ours),
            bar: Bar::Stated("≥ 300 MB/s", mb / ours >= SPEED_BAR),
        });
    }
}

/// The tail of a transcript whose agent works.
const WORKING: &str = concat!(
    r#"{"type":"assistant","sessionId":"s","message":{"id":"m","role":"assistant","content":["#,
    r#"{"type":"tool_use","id":"t","name":"Bash","input":{"command":"make"}}],"stop_reason":"#,
    r#""tool_use"}}"#,
    "\n"
);

fn registry(bus: &EventBus) -> AgentRegistry {
    let polling = Polling {
        every: Duration::from_secs(3600),
        ..Polling::default()
    };
    AgentRegistry::new(bus.emitter_for("agents"), polling)
}

fn rest_row(table: &mut Table) {
    let temp = tempfile::tempdir().unwrap();
    let bus = EventBus::new(10_000);
    let agents = registry(&bus);
    for number in 0..AGENTS {
        let path = temp.path().join(format!("{number}.jsonl"));
        fs::write(&path, WORKING.repeat(1_000)).unwrap();
        agents.register(&number.to_string(), path).unwrap();
    }
    agents.poll_now();
    let check = || {
        let before = own_ms();
        for _ in 0..CHECKS {
            agents.poll_now();
        }
        (own_ms() - before) / f64::from(CHECKS)
    };
    let check_ms = median((0..ROUNDS).map(|_| check()).collect());
    let share = check_ms / EVERY_MS * 100.0;
    table.row(&Row {
        what: &format!("{AGENTS} agents' files at rest, one look at all of them"),
        ours: format!(
            "{check_ms:.2} ms CPU: {share:.3} % of a core each 5 s, {:.2} % each second",
            check_ms / 10.0
        ),
        instead: String::new(),
        ratio: None,
        bar: Bar::Stated("< 1 % of a core", share < 1.0),
    });
}

fn size_row(table: &mut Table) {
    let temp = tempfile::tempdir().unwrap();
    let first_check = |bytes: u64| {
        let path = temp.path().join(format!("{bytes}.jsonl"));
        write_sparse(&path, bytes);
        let bus = EventBus::new(10_000);
        let agents = registry(&bus);
        agents.register("one", &path).unwrap();
        let before = own_ms();
        agents.poll_now();
        own_ms() - before
    };
    let [small, large] = rounds(ROUNDS, [&|| first_check(1 << 20), &|| first_check(1 << 30)]);
    table.row(&Row {
        what: "the first look at an agent's file of 1 GiB",
        ours: format!("{large:.1} ms CPU"),
        instead: format!("of 1 MiB: {small:.1} ms"),
        ratio: Some(large / small),
        bar: Bar::AtMost(1.5),
    });
}

/// Writes a sparse file with 1 MiB of records at its end.
fn write_sparse(path: &Path, bytes: u64) {
    let tail = WORKING.repeat((1 << 20) / WORKING.len());
    let mut file = File::create(path).unwrap();
    file.seek(SeekFrom::Start(bytes - tail.len() as u64))
        .unwrap();
    file.write_all(tail.as_bytes()).unwrap();
}

fn panes_row(table: &mut Table) {
    let temp = tempfile::tempdir().unwrap();
    let command = fake_agent::command(temp.path());
    let server = TmuxServer::new();
    for number in 0..AT_WORK {
        server.new_session(&format!("agent{number}"), 80, 24, &command);
    }
    let watch = Watch::new(server.server()).states(StateRules::builtin());
    let (engine, mut events) = watched(watch, AT_WORK);
    // An agent's tools are reported once it is joined.
    let mut joined = HashSet::new();
    let mut results = 0;
    while joined.len() < AT_WORK {
        if let Delivery::Event(envelope) = events.recv_timeout(CEILING).unwrap()
            && matches!(envelope.event, TdEvent::ToolCallCompleted { .. })
        {
            joined.extend(envelope.event.pane().cloned());
        }
    }
    let now = || (threads_ms("td-agents"), own_ms());
    let (before, began) = (now(), Instant::now());
    while began.elapsed() < AT_WORK_FOR {
        if let Ok(Delivery::Event(envelope)) = events.recv_timeout(STEP) {
            let is_result = matches!(envelope.event, TdEvent::ToolCallCompleted { .. });
            results += usize::from(is_result);
        }
    }
    let (after, seconds) = (now(), began.elapsed().as_secs_f64());
    let (reading, all) = (after.0 - before.0, after.1 - before.1);
    let percent = |ms: f64| ms / seconds / 10.0;
    // One of three records is a tool's result.
    let expected = AT_WORK as f64 * seconds * 2.0 / 3.0;
    assert!(results as f64 > expected * 0.9, "{results} of {expected}");
    table.row(&Row {
        what: &format!("{AT_WORK} agents at work in panes: finding, joining and reading them"),
        ours: format!("{:.2} % of a core", percent(reading)),
        instead: format!("all that the observer does: {:.2} %", percent(all)),
        ratio: None,
        bar: Bar::Stated("≤ 1 % of a core", percent(reading) <= 1.0),
    });
    engine.shutdown();
}
