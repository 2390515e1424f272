//! Files of background agents: their ends are detected as people labelled them, at a bounded cost.

#[cfg(feature = "cli")]
mod program;
mod replay;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use td_observe::{AgentRegistry, AgentStatus, EventBus, FakeClock, Polling, Subscription, TdEvent};

use crate::agent::labels;
use crate::recordings::{labelled, recordings};
use crate::support::CEILING;

/// A registry whose clock is advanced by hand.
struct Agents {
    clock: FakeClock,
    registry: AgentRegistry,
    events: Subscription,
    bus: EventBus,
}

impl Agents {
    fn new() -> Self {
        let clock = FakeClock::new();
        let bus = EventBus::new(100_000);
        let events = bus.subscribe();
        let polling = Polling {
            clock: clock.clock(),
            ..Polling::default()
        };
        let registry = AgentRegistry::new(bus.emitter_for("it"), polling);
        Self {
            clock,
            registry,
            events,
            bus,
        }
    }

    /// Returns the events since the last call; they are complete.
    #[track_caller]
    fn take_events(&mut self) -> Vec<TdEvent> {
        self.bus.emitter_for("it").error("mark", "");
        let mut events = Vec::new();
        loop {
            let delivery = self.events.recv_timeout(CEILING).unwrap();
            let Some(envelope) = delivery.into_envelope() else {
                panic!("events were missed");
            };
            match envelope.event {
                TdEvent::Error { context, .. } if context == "mark" => return events,
                event => events.push(event),
            }
        }
    }

    /// Lets the time pass until a ticker has seen the end of this agent.
    fn until_completed(&self, registry: &AgentRegistry, id: &str) {
        crate::support::wait_for(id, CEILING, || {
            self.clock.advance(Duration::from_secs(5));
            match registry.status(id) {
                Some(AgentStatus::Completed) => Ok(()),
                other => Err(other),
            }
        });
    }

    /// Ticks after this many seconds.
    fn tick(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.registry.poll_now();
    }
}

#[test]
fn each_end_is_reported_once() {
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().join(name);
    let mut agents = Agents::new();
    for name in ["quiet", "absent", "by-hand", "forgotten"] {
        agents.registry.register(name, path(name)).unwrap();
    }
    let twice = agents.registry.register("quiet", path("quiet"));
    assert!(twice.unwrap_err().is_invalid_input());
    fs::write(path("quiet"), "text\n").unwrap();
    fs::write(path("forgotten"), "text\n").unwrap();
    assert!(agents.registry.complete("by-hand", "ok"));
    assert!(!agents.registry.fail("by-hand", "no"));
    assert!(agents.registry.cleanup("forgotten"));
    for _ in 0..10 {
        agents.tick(5);
    }
    assert!(!agents.registry.complete("quiet", "again"));
    assert_eq!(
        agents.registry.status("quiet"),
        Some(AgentStatus::Completed)
    );
    assert_eq!(agents.registry.status("absent"), Some(AgentStatus::Running));
    assert_eq!(agents.registry.status("forgotten"), None);
    let events = agents.take_events();
    let kinds: Vec<_> = events.iter().map(TdEvent::type_name).collect();
    assert_eq!(kinds[..4], ["AgentRegistered"; 4]);
    assert_eq!(kinds[4..], ["AgentCompleted"; 2], "{events:#?}");
}

#[test]
fn an_agent_without_a_file_ends_as_its_caller_says() {
    let mut agents = Agents::new();
    let (registry, twice) = (&agents.registry, "there is an agent");
    for name in ["good", "bad", "working"] {
        registry.register_without_file(name).unwrap();
    }
    let error = registry.register_without_file("good").unwrap_err();
    assert!(
        error.is_invalid_input() && error.to_string().contains(twice),
        "{error}"
    );
    for _ in 0..10 {
        agents.tick(5);
    }
    let registry = &agents.registry;
    assert_eq!(registry.count(AgentStatus::Running), 3);
    assert!(registry.complete("good", "All tests pass."));
    assert!(registry.fail("bad", "no quota"));
    assert!(!registry.complete("good", "once more"));
    let events = agents.take_events();
    let kinds: Vec<_> = events.iter().map(TdEvent::type_name).collect();
    assert_eq!(kinds[..3], ["AgentRegistered"; 3]);
    assert_eq!(kinds[3..], ["AgentCompleted", "AgentFailed"], "{events:#?}");
    let is_without = |event: &TdEvent| matches!(event, TdEvent::AgentRegistered { output_file, .. } if output_file.is_empty());
    assert!(events[..3].iter().all(is_without), "{events:#?}");
}

#[test]
fn a_session_continues_after_its_first_end() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("session.jsonl");
    let append = |name: &str, text: &str| {
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(&path)
            .unwrap();
        let record = |kind: &str, id: &str, text: &str| {
            let time = "2999-01-01T00:00:00.000Z";
            format!(
                "{{\"id\":\"{id}{name}\",\"timestamp\":\"{time}\",\"type\":\"{kind}\",\"content\":\"{text}\"}}\n"
            )
        };
        let kind = if text.starts_with("no ") {
            "error"
        } else {
            "gemini"
        };
        let turn = [record("user", "u", "go on"), record(kind, "a", text)].concat();
        file.write_all(turn.as_bytes()).unwrap();
    };
    let mut agents = Agents::new();
    let head = r#"{"sessionId":"5b","projectHash":"7e","startTime":"2999-01-01T00:00:00.000Z","kind":"main"}"#;
    fs::write(&path, format!("{head}\n")).unwrap();
    agents.registry.register("session", &path).unwrap();
    for (name, text) in [
        ("1", "First."),
        ("2", "Second."),
        ("3", "no quota"),
        ("4", "Last."),
    ] {
        append(name, text);
        for _ in 0..5 {
            agents.tick(5);
        }
    }
    let events: Vec<String> = agents
        .take_events()
        .into_iter()
        .map(|event| match event {
            TdEvent::TurnCompleted {
                summary,
                agent_id,
                evidence,
                ..
            } => format!("turn {} {summary} {}", agent_id.unwrap(), evidence.unwrap()),
            TdEvent::Error { message, .. } => format!("error {message}"),
            TdEvent::AgentCompleted { result, .. } => format!("completed {result}"),
            TdEvent::RowRenamed { name, .. } => format!("named {name}"),
            event => event.type_name().to_owned(),
        })
        .collect();
    assert_eq!(
        events,
        [
            "AgentRegistered",
            "named go on",
            "turn session First. inferred",
            "completed First.",
            "turn session Second. inferred",
            "error no quota",
            "turn session Last. inferred",
        ]
    );
    assert_eq!(
        agents.registry.status("session"),
        Some(AgentStatus::Completed)
    );
}

/// Returns a record of Claude Code 2.1.330.
fn record(fields: &str) -> String {
    format!(
        r#"{{{fields},"timestamp":"2026-11-27T10:00:01.000Z","sessionId":"s1","version":"2.1.330"}}"#
    ) + "\n"
}

fn says(text: &str, stop: &str) -> String {
    record(&format!(
        r#""type":"assistant","message":{{"id":"{text}","model":"m","content":[{{"type":"text","text":"{text}"}}],"stop_reason":{stop}}}"#
    ))
}

#[test]
fn the_session_knows_how_its_sub_agents_have_ended() {
    let temp = tempfile::tempdir().unwrap();
    let directory = temp.path().join("s1/subagents");
    fs::create_dir_all(&directory).unwrap();
    let mut agents = Agents::new();
    let mut session = String::new();
    for (id, status) in [("a1", "completed"), ("a2", "killed"), ("a3", "running")] {
        let file = directory.join(format!("agent-{id}.jsonl"));
        // A tool runs in each of them, as far as its own file shows.
        let prompt = record(r#""isSidechain":true,"type":"user","message":{"content":"look"}"#);
        let tool = record(
            r#""isSidechain":true,"type":"assistant","message":{"id":"m","model":"m","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"command":"sleep 99"}}],"stop_reason":"tool_use"}"#,
        );
        fs::write(&file, [prompt, tool].concat()).unwrap();
        agents.registry.register(id, &file).unwrap();
        let launched = format!(r#""toolUseResult":{{"status":"async_launched","agentId":"{id}"}}"#);
        session += &record(&format!(
            r#""type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"{id}","content":"x"}}]}},{launched}"#
        ));
        let text = format!(
            "<task-notification>\\n<task-id>{id}</task-id>\\n<status>{status}</status>\\n</task-notification>"
        );
        session += &record(&format!(
            r#""type":"user","message":{{"content":"{text}"}},"origin":{{"kind":"task-notification"}}"#
        ));
        session += &says(&format!("noted {id}"), r#""end_turn""#);
    }
    // The session of another directory says nothing about them.
    let other = temp.path().join("s2.jsonl");
    fs::write(&other, session.replace("running", "completed")).unwrap();
    agents.registry.register("other", &other).unwrap();
    let path = temp.path().join("s1.jsonl");
    fs::write(&path, &session).unwrap();
    agents.registry.register("session", &path).unwrap();
    agents.tick(5);
    agents.tick(100_000);
    let status = |id: &str| agents.registry.status(id).unwrap();
    assert_eq!(status("a1"), AgentStatus::Completed);
    assert_eq!(status("a2"), AgentStatus::Failed);
    assert_eq!(status("a3"), AgentStatus::Running);
    assert_eq!(status("session"), AgentStatus::Running, "a3 runs");
    let ends = agents.take_events();
    let is_killed =
        |event: &TdEvent| matches!(event, TdEvent::AgentFailed { error, .. } if error == "killed");
    assert_eq!(ends.iter().filter(|event| is_killed(event)).count(), 1);
}

#[test]
fn a_long_silence_is_an_end_also_of_a_known_format() {
    let temp = tempfile::tempdir().unwrap();
    let agents = Agents::new();
    let prompt = record(r#""type":"user","message":{"content":"look"}"#);
    let monitor = record(
        r#""type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]},"toolUseResult":{"taskId":"b1","timeoutMs":300000,"persistent":true}"#,
    );
    for (id, text) in [
        ("cut", [prompt.clone(), says("The report", "null")].concat()),
        ("silent", prompt.clone()),
        (
            "watching",
            [prompt, monitor, says("I watch", r#""end_turn""#)].concat(),
        ),
    ] {
        let path = temp.path().join(id);
        fs::write(&path, text).unwrap();
        agents.registry.register(id, &path).unwrap();
    }
    let running = |seconds: u64| {
        agents.tick(seconds);
        ["cut", "silent", "watching"]
            .map(|id| agents.registry.status(id) == Some(AgentStatus::Running))
    };
    // A file that was found counts as changed when it is first read.
    assert_eq!(running(0), [true, true, true]);
    assert_eq!(running(299), [true, true, true]);
    assert_eq!(running(1), [false, true, true]);
    assert_eq!(running(1_499), [false, true, true]);
    assert_eq!(running(1), [false, false, true]);
    assert_eq!(running(1_000_000), [false, false, true]);
}

#[test]
fn one_ticker_serves_all_and_stops() {
    let temp = tempfile::tempdir().unwrap();
    let mut agents = Agents::new();
    agents.registry.start_polling().unwrap();
    agents.registry.start_polling().unwrap();
    let path = temp.path().join("a");
    fs::write(&path, "{\"type\":\"result\"}\n").unwrap();
    agents.registry.register("a", &path).unwrap();
    agents.until_completed(&agents.registry, "a");
    agents.registry.stop_polling();
    agents.registry.stop_polling();
    assert_eq!(agents.take_events().len(), 2);
    // Nothing ticks any more while a ticker on the same clock does; a new start finds the end.
    let other = AgentRegistry::new(
        agents.bus.emitter_for("other"),
        Polling {
            clock: agents.clock.clock(),
            ..Polling::default()
        },
    );
    other.start_polling().unwrap();
    agents.registry.register("b", &path).unwrap();
    other.register("c", &path).unwrap();
    agents.until_completed(&other, "c");
    assert_eq!(agents.registry.status("b"), Some(AgentStatus::Running));
    agents.registry.start_polling().unwrap();
    agents.until_completed(&agents.registry, "b");
}

#[test]
fn a_failed_agent_is_not_reported_again() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a");
    let failed = "{\"type\":\"thread.started\"}\n{\"type\":\"turn.started\"}\n{\"type\":\"turn.failed\",\"error\":{\"message\":\"no quota\"}}\n";
    fs::write(&path, failed).unwrap();
    let mut agents = Agents::new();
    agents.registry.register("a", &path).unwrap();
    for _ in 0..10 {
        agents.tick(5);
    }
    assert_eq!(agents.registry.status("a"), Some(AgentStatus::Failed));
    let ends = agents.take_events().into_iter();
    let ends = ends.filter(|event| matches!(event, TdEvent::AgentFailed { .. }));
    assert_eq!(ends.count(), 1);
    // What is appended after the end, and silence, make no second one.
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(b"{\"type\":\"error\",\"message\":\"no quota\"}\n")
        .unwrap();
    for _ in 0..10 {
        agents.tick(5);
    }
    assert_eq!(agents.registry.status("a"), Some(AgentStatus::Failed));
    let again: Vec<_> = agents.take_events().into_iter().collect();
    let is_end = |event: &TdEvent| {
        matches!(
            event,
            TdEvent::AgentFailed { .. } | TdEvent::AgentCompleted { .. }
        )
    };
    assert!(!again.iter().any(is_end), "{again:#?}");
}

/// Returns the end of an agent with this file, which never grows again.
fn end_of(path: &Path) -> Option<TdEvent> {
    let mut agents = Agents::new();
    agents.registry.register("a", path).unwrap();
    for _ in 0..5 {
        agents.tick(5);
    }
    let events = agents.take_events();
    events.into_iter().find(|event| {
        matches!(
            event,
            TdEvent::AgentCompleted { .. } | TdEvent::AgentFailed { .. }
        )
    })
}

#[test]
fn transcripts_are_classified_as_labelled() {
    let Some(root) = recordings() else { return };
    let mut judged = 0;
    let mut wrong = Vec::new();
    for (file, label) in labelled(&root) {
        let Some(expected) = labels::status(&file, &label) else {
            continue;
        };
        let path = root.join(&file);
        judged += 1;
        let expected = match expected[0].as_str() {
            "working" => None,
            "done" | "maybe_done" => Some("AgentCompleted"),
            _ => Some("AgentFailed"),
        };
        let end = end_of(&path);
        let found = end.as_ref().map(TdEvent::type_name);
        if found != expected {
            wrong.push(format!("{file}: {label:?}: {end:?}, not {expected:?}"));
        }
    }
    assert!(judged > 40, "only {judged} of the labels are understood");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The CPU time of this thread.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

#[test]
fn two_hundred_idle_agents_cost_almost_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let mut agents = Agents::new();
    let record = "{\"type\":\"thread.started\"}\n{\"type\":\"turn.started\"}\n";
    for number in 0..200 {
        let path = temp.path().join(number.to_string());
        fs::write(&path, record.repeat(1_000)).unwrap();
        agents.registry.register(&number.to_string(), path).unwrap();
    }
    agents.tick(5);
    let began = cpu();
    for _ in 0..100 {
        agents.tick(5);
    }
    let tick = (cpu() - began) / 100;
    eprintln!("a tick of 200 agents whose files do not change: {tick:?}");
    // One per cent of the 5 s between two ticks.
    assert!(tick < Duration::from_millis(50), "{tick:?}");
    assert_eq!(agents.registry.count(AgentStatus::Running), 200);
    assert_eq!(agents.take_events().len(), 200);
}

#[test]
fn only_the_end_of_a_gigabyte_is_read() {
    let temp = tempfile::tempdir().unwrap();
    let record = "{\"type\":\"thread.started\"}\n{\"type\":\"turn.started\"}\n";
    let of_size = |bytes: u64| {
        let path = temp.path().join(bytes.to_string());
        let file = File::create(&path).unwrap();
        file.set_len(bytes).unwrap();
        let mut text = fs::OpenOptions::new().append(true).open(&path).unwrap();
        std::io::Write::write_all(
            &mut text,
            ["\n", &record.repeat(10_000)].concat().as_bytes(),
        )
        .unwrap();
        let agents = Agents::new();
        agents.registry.register("a", &path).unwrap();
        let began = cpu();
        agents.tick(5);
        cpu() - began
    };
    let (small, large) = (of_size(1), of_size(1 << 30));
    eprintln!("the first look at a small file: {small:?}, at 1 GiB: {large:?}");
    assert!(large < small * 3 + Duration::from_millis(20), "{large:?}");
}
