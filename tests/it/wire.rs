//! The wire contract, declared a second time: names and fields as the documents give them, so that
//! no accident in the library's own table changes what is on the wire.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use td_observe::history::{DataDir, LogOptions, LogWriter, RunInfo, parse_line};
use td_observe::{
    Cursor, Envelope, EventKind, FakeClock, GapEvidence, IterationOutcome, ScreenRow, Styles,
    TdEvent, Timestamp,
};

/// Every event with exactly its fields: the seed's first, then those of schema 1.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
#[rustfmt::skip]
enum Wire {
    LoopStarted { execution_id: String, loop_type: String, task_description: String },
    PhaseStarted { execution_id: String, phase_index: usize, phase_name: String, total_phases: usize },
    IterationStarted { execution_id: String, iteration: u32 },
    IterationCompleted { execution_id: String, iteration: u32, outcome: WireOutcome },
    LoopCompleted { execution_id: String, success: bool, total_iterations: u32 },
    PromptSent {
        execution_id: String, iteration: u32, prompt_summary: String, token_count: u64,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
    },
    TokenReceived {
        execution_id: String, iteration: u32, token: String,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
    },
    ResponseCompleted {
        execution_id: String, iteration: u32, response_summary: String, input_tokens: u64,
        output_tokens: u64, has_tool_calls: bool,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
    },
    ToolCallStarted {
        execution_id: String, iteration: u32, tool_name: String, tool_args_summary: String,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
    },
    ToolCallCompleted {
        execution_id: String, iteration: u32, tool_name: String, success: bool,
        result_summary: String, duration_ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
    },
    ValidationStarted { execution_id: String, iteration: u32, command: String },
    ValidationOutput { execution_id: String, iteration: u32, line: String, is_stderr: bool },
    ValidationCompleted { execution_id: String, iteration: u32, exit_code: i32, duration_ms: u64 },
    Error { execution_id: String, context: String, message: String },
    Warning { execution_id: String, context: String, message: String },

    SessionStarted { execution_id: String, session: String, panes: Vec<String> },
    SessionRenamed { execution_id: String, from: String, to: String },
    SessionEnded {
        execution_id: String, session: String, reason: String,
        #[serde(skip_serializing_if = "Option::is_none")] exit_status: Option<i32>,
    },
    PaneOpened { execution_id: String, pane: String, width: u32, height: u32, command: String },
    PaneResized { execution_id: String, pane: String, width: u32, height: u32 },
    PaneClosed {
        execution_id: String, pane: String, reason: String,
        #[serde(skip_serializing_if = "Option::is_none")] exit_status: Option<i32>,
    },
    OutputUpdate {
        execution_id: String, pane: String, first_line: i64, chunk: String, is_complete: bool,
        #[serde(skip_serializing_if = "Option::is_none")] reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] exit_status: Option<i32>,
        // Line, first character, the one behind the last, parameters of SGR.
        #[serde(default, skip_serializing_if = "Vec::is_empty")] styles: Vec<(u32, u32, u32, String)>,
    },
    OutputRevised {
        execution_id: String, pane: String, line: i64, text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")] styles: Vec<(u32, u32, u32, String)>,
    },
    ScreenUpdate {
        execution_id: String, pane: String, width: u32, height: u32, cursor: WireCursor,
        rows: Vec<WireRow>,
    },
    OutputGap {
        execution_id: String, pane: String, first_line: i64,
        #[serde(skip_serializing_if = "Option::is_none")] lost_lines: Option<u64>,
        reason: String,
        // Gaps had none at first.
        #[serde(default)] evidence: String,
    },
    LogGap { execution_id: String, first_seq: u64, last_seq: u64 },
    ExecutionStarted {
        execution_id: String, command: String, cwd: String,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] pid: Option<u32>,
    },
    ExecutionOutput { execution_id: String, stream: String, text: String },
    ExecutionCompleted {
        execution_id: String,
        #[serde(skip_serializing_if = "Option::is_none")] exit_code: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")] signal: Option<i32>,
        duration_ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] pid: Option<u32>,
    },
    TurnCompleted {
        execution_id: String, marker: String, summary: String,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] evidence: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] agent_id: Option<String>,
    },
    AgentRegistered {
        execution_id: String, agent_id: String, output_file: String,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
    },
    AgentCompleted {
        execution_id: String, agent_id: String, result: String, evidence: String,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
    },
    AgentFailed {
        execution_id: String, agent_id: String, error: String, evidence: String,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
    },
    AgentState {
        execution_id: String,
        #[serde(skip_serializing_if = "Option::is_none")] agent_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
        state: String, evidence: String,
        #[serde(skip_serializing_if = "Option::is_none")] agent: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] source: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] asks: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] detail: Option<String>,
    },
    ScreenSnapshot { execution_id: String, pane: String, width: u32, height: u32, rows: Vec<WireRow> },
    PollerRestarted { execution_id: String, source: String, cause: String },
    LogOpened {
        execution_id: String, schema: u32, version: String, host: String, pid: u32, first_seq: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
enum WireOutcome {
    ValidationPassed,
    ValidationFailed { exit_code: i32 },
    MaxTurnsReached,
    ToolError { tool: String, error: String },
    LlmError { error: String },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireCursor {
    x: u32,
    y: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRow {
    row: u32,
    text: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireLine {
    seq: Option<u64>,
    ts: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u64>,
    event: Wire,
}

/// At least one event of the kind; where it has optional fields, one with and one without.
#[rustfmt::skip]
fn samples(kind: EventKind) -> Vec<TdEvent> {
    use EventKind as K;
    use TdEvent as E;
    let execution_id = td_observe::ExecutionId::from("abc123");
    let pane = td_observe::PaneId::from("%7");
    let iteration = u32::MAX;
    let s = str::to_owned;
    let one = |event| vec![event];
    let style = |line, to: u32, sgr| td_observe::Style { line, from: 0, to, sgr: s(sgr) };
    let styles = |has: bool| match has {
        true => Styles::new(vec![style(0, 3, "1;31"), style(1, u32::MAX, "38;5;208")]),
        false => Styles::default(),
    };
    match kind {
        K::LoopStarted => one(E::LoopStarted { execution_id, loop_type: s("Phase"), task_description: s("Add auth") }),
        K::PhaseStarted => one(E::PhaseStarted { execution_id, phase_index: 0, phase_name: s("p"), total_phases: usize::MAX }),
        K::IterationStarted => one(E::IterationStarted { execution_id, iteration }),
        K::IterationCompleted => [
            IterationOutcome::ValidationPassed,
            IterationOutcome::ValidationFailed { exit_code: i32::MIN },
            IterationOutcome::MaxTurnsReached,
            IterationOutcome::ToolError { tool: s("bash"), error: s("no") },
            IterationOutcome::LlmError { error: s("529") },
        ]
        .map(|outcome| E::IterationCompleted { execution_id: execution_id.clone(), iteration, outcome })
        .into(),
        K::LoopCompleted => one(E::LoopCompleted { execution_id, success: true, total_iterations: 3 }),
        K::PromptSent => one(E::PromptSent { execution_id, iteration, prompt_summary: s("Implement…"), token_count: u64::MAX, pane: Some(pane) }),
        K::TokenReceived => one(E::TokenReceived { execution_id, iteration, token: s(" implement"), pane: Some(pane) }),
        K::ResponseCompleted => one(E::ResponseCompleted {
            execution_id, iteration, response_summary: s("r"), input_tokens: u64::MAX, output_tokens: 0, has_tool_calls: false, pane: Some(pane) }),
        K::ToolCallStarted => one(E::ToolCallStarted { execution_id, iteration, tool_name: s("t"), tool_args_summary: s("a"), pane: Some(pane) }),
        K::ToolCallCompleted => one(E::ToolCallCompleted {
            execution_id, iteration, tool_name: s("t"), success: false, result_summary: s("r"), duration_ms: u64::MAX, pane: Some(pane) }),
        K::ValidationStarted => one(E::ValidationStarted { execution_id, iteration, command: s("cargo test") }),
        K::ValidationOutput => one(E::ValidationOutput { execution_id, iteration, line: s("ok"), is_stderr: true }),
        K::ValidationCompleted => one(E::ValidationCompleted { execution_id, iteration, exit_code: -1, duration_ms: 0 }),
        K::Error => one(E::Error { execution_id, context: s("c"), message: s("m") }),
        K::Warning => one(E::Warning { execution_id, context: s("c"), message: s("m") }),
        K::SessionStarted => one(E::SessionStarted { execution_id, session: s("build"), panes: vec![pane, "%8".into()] }),
        K::SessionRenamed => one(E::SessionRenamed { execution_id, from: s("a"), to: s("b") }),
        K::SessionEnded => [None, Some(0)].map(|exit_status| E::SessionEnded {
            execution_id: execution_id.clone(), session: s("build"), reason: "closed".into(), exit_status,
        }).into(),
        K::PaneOpened => one(E::PaneOpened { execution_id, pane, width: 80, height: 24, command: s("sh") }),
        K::PaneResized => one(E::PaneResized { execution_id, pane, width: 80, height: u32::MAX }),
        K::PaneClosed => [None, Some(143)].map(|exit_status| E::PaneClosed {
            execution_id: execution_id.clone(), pane: pane.clone(), reason: "exited".into(), exit_status,
        }).into(),
        K::OutputUpdate => [(i64::MIN, None, None), (i64::MAX, Some("exit"), Some(i32::MIN)), (-3, Some("turn"), None)]
            .map(|(first_line, reason, exit_status)| E::OutputUpdate {
                execution_id: execution_id.clone(), pane: pane.clone(), first_line, chunk: s("one\ntwo\n"),
                is_complete: reason.is_some(), reason: reason.map(Into::into), exit_status,
                styles: styles(exit_status.is_some()),
            }).into(),
        K::OutputRevised => [false, true].map(|styled| E::OutputRevised {
            execution_id: execution_id.clone(), pane: pane.clone(), line: -7, text: s("two"), styles: styles(styled),
        }).into(),
        K::ScreenUpdate => one(E::ScreenUpdate {
            execution_id, pane, width: 80, height: 24, cursor: Cursor { x: 1, y: 2 },
            rows: vec![ScreenRow { row: 0, text: s("top") }],
        }),
        K::ScreenSnapshot => one(E::ScreenSnapshot {
            execution_id, pane, width: 80, height: 24, rows: vec![ScreenRow { row: 3, text: s("row") }],
        }),
        K::OutputGap => [None, Some(u64::MAX)].map(|lost_lines| E::OutputGap {
            execution_id: execution_id.clone(), pane: pane.clone(), first_line: -1, lost_lines, reason: "ambiguous".into(),
            evidence: lost_lines.map_or(GapEvidence::Possible, |_| GapEvidence::Confirmed).into(),
        }).into(),
        K::LogGap => one(E::LogGap { execution_id, first_seq: 1, last_seq: u64::MAX }),
        K::ExecutionStarted => [None, Some(pane)].map(|pane| E::ExecutionStarted {
            execution_id: execution_id.clone(), command: s("make"), cwd: s("/tmp"),
            pid: pane.is_some().then_some(4_000_000), pane,
        }).into(),
        K::ExecutionOutput => one(E::ExecutionOutput { execution_id, stream: "stdout".into(), text: s("x\n") }),
        K::ExecutionCompleted => [(None, Some(9)), (Some(0), None)].map(|(exit_code, signal)| E::ExecutionCompleted {
            execution_id: execution_id.clone(), exit_code, signal, duration_ms: 5,
            pane: signal.map(|_| pane.clone()), pid: signal.map(|_| 7),
        }).into(),
        K::TurnCompleted => [(None, None), (Some(pane), Some("inferred".into()))].map(|(pane, evidence)| E::TurnCompleted {
            execution_id: execution_id.clone(), marker: s("DONE"), summary: s("s"), agent_id: pane.is_none().then(|| Box::new(s("a1"))), pane, evidence,
        }).into(),
        K::AgentRegistered => one(E::AgentRegistered { execution_id, agent_id: s("a1"), output_file: s("/tmp/o"), pane: Some(pane) }),
        K::AgentCompleted => one(E::AgentCompleted { execution_id, agent_id: s("a1"), result: s("r"), evidence: "e".into(), pane: Some(pane) }),
        K::AgentFailed => one(E::AgentFailed { execution_id, agent_id: s("a1"), error: s("r"), evidence: "e".into(), pane: Some(pane) }),
        K::AgentState => [(None, Some(pane)), (Some(s("a1")), None)].map(|(agent_id, pane)| E::AgentState {
            execution_id: execution_id.clone(), agent_id, pane, state: "working".into(), evidence: "e".into(), agent: Some(Box::new(s("claude"))), source: Some("title".into()),
            asks: Some(Box::new(s("go on?"))), detail: None,
        }).into(),
        K::PollerRestarted => one(E::PollerRestarted { execution_id, source: s("pane:build"), cause: s("panicked") }),
        K::LogOpened => one(E::LogOpened {
            execution_id, schema: 1, version: s("0.1.0"), host: s("h"), pid: 1, first_seq: 1,
        }),
        _ => Vec::new(),
    }
}

fn all_samples() -> impl Iterator<Item = TdEvent> {
    EventKind::ALL.iter().flat_map(|&kind| samples(kind))
}

fn line_of(seq: Option<u64>, event: &TdEvent) -> String {
    let ts = Timestamp::from_micros(1_768_989_601_123_456);
    serde_json::to_string(&Envelope::new(seq, ts, event.clone())).unwrap()
}

#[track_caller]
fn read(line: &str) -> Envelope {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Reads and writes; the answer is what was written.
#[track_caller]
fn through(line: &Value) -> Value {
    serde_json::to_value(read(&line.to_string())).unwrap()
}

#[test]
fn every_kind_is_declared_twice_alike() {
    for &kind in EventKind::ALL {
        let samples = samples(kind);
        assert!(
            !samples.is_empty(),
            "{} has no sample: add it here and to `Wire`",
            kind.as_str()
        );
        for event in samples {
            assert_eq!((event.kind(), event.type_name()), (kind, kind.as_str()));
            assert_eq!(EventKind::from_name(kind.as_str()), Some(kind));
            let written = line_of(Some(42), &event);
            let second: WireLine = serde_json::from_str(&written).unwrap_or_else(|error| {
                panic!("the second declaration refuses {written}: {error}")
            });
            let back = serde_json::to_value(&second).unwrap();
            assert_eq!(
                back,
                serde_json::from_str::<Value>(&written).unwrap(),
                "{written}"
            );
            let again = read(&back.to_string());
            assert_eq!(
                (again.seq, again.n, &again.event),
                (Some(42), 1, &event),
                "{written}"
            );
            assert_eq!(again.extra, None, "{written}");
        }
    }
}

#[test]
fn the_log_writes_every_event_as_serde_does() {
    let temp = tempfile::tempdir().unwrap();
    let clock = FakeClock::new().clock();
    let mut log = LogWriter::start(LogOptions::default(), clock.clone()).unwrap();
    for (n, event) in all_samples().enumerate() {
        // A run for each, so that each has a file of its own to look at.
        let data = DataDir::new(temp.path().join(n.to_string()));
        let run = data.run(&event.execution_id().into());
        let info = RunInfo::default();
        log.attach(run.open(info, clock.wall()).unwrap(), clock.now());
        let envelope = Envelope::new(Some(7), clock.wall(), event);
        log.append(std::slice::from_ref(&envelope), clock.now());
        let written = std::fs::read_to_string(run.events_path()).unwrap();
        let expected = serde_json::to_string(&envelope).unwrap();
        assert_eq!(written.lines().nth(1), Some(&*expected));
    }
    let _ = log.finish(clock.now());
}

#[test]
fn no_kind_of_the_contract_is_missing() {
    // What serde itself lists when it is given a type that there is not.
    let error = serde_json::from_value::<Wire>(json!({"type": "?"}))
        .unwrap_err()
        .to_string();
    let (_, declared) = error.split_once("expected one of ").unwrap();
    let mut declared: Vec<&str> = declared
        .split(", ")
        .map(|name| name.trim_matches('`'))
        .collect();
    let mut known: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.as_str()).collect();
    declared.sort_unstable();
    known.sort_unstable();
    assert_eq!(known, declared);
}

#[test]
fn a_line_reads_as_it_is_promised() {
    let event = TdEvent::IterationStarted {
        execution_id: "abc123".into(),
        iteration: 1,
    };
    assert_eq!(
        line_of(Some(42), &event),
        r#"{"seq":42,"ts":"2026-01-21T10:00:01.123456Z","event":{"type":"IterationStarted","execution_id":"abc123","iteration":1}}"#
    );
    // What is shown live only has no number, and says so.
    assert!(line_of(None, &event).starts_with(r#"{"seq":null,"ts":""#));
    let mut merged = read(&line_of(Some(42), &event));
    merged.n = 3;
    let merged = serde_json::to_string(&merged).unwrap();
    assert!(merged.contains(r#","n":3,"event":"#), "{merged}");
    assert_eq!(read(&merged).n, 3);
}

#[test]
fn outcomes_are_written_as_serde_writes_the_enum() {
    let written: Vec<String> = samples(EventKind::IterationCompleted)
        .iter()
        .map(|event| serde_json::to_value(event).unwrap()["outcome"].to_string())
        .collect();
    assert_eq!(
        written,
        [
            r#""ValidationPassed""#,
            r#"{"ValidationFailed":{"exit_code":-2147483648}}"#,
            r#""MaxTurnsReached""#,
            r#"{"ToolError":{"error":"no","tool":"bash"}}"#,
            r#"{"LlmError":{"error":"529"}}"#,
        ]
    );
}

#[test]
fn what_is_not_there_is_left_out_and_null_reads_as_not_there() {
    for event in all_samples() {
        let value = serde_json::to_value(&event).unwrap();
        let fields = value.as_object().unwrap();
        assert!(fields.values().all(|field| !field.is_null()), "{value}");
    }
    let gap = json!({"seq": 1, "ts": "2026-01-21T10:00:01.000000Z", "event": {
        "type": "OutputGap", "execution_id": "a", "pane": "%1", "first_line": 1,
        "lost_lines": null, "reason": "ambiguous", "evidence": "possible"}});
    let mut expected = gap.clone();
    expected["event"]
        .as_object_mut()
        .unwrap()
        .remove("lost_lines");
    assert_eq!(through(&gap), expected);
}

#[test]
fn a_field_that_must_be_there_is_missed() {
    for event in all_samples() {
        let whole = serde_json::to_value(&event).unwrap();
        for name in whole.as_object().unwrap().keys() {
            let mut part = whole.clone();
            part.as_object_mut().unwrap().remove(name);
            let declared = serde_json::from_value::<Wire>(part.clone()).is_ok();
            let read = serde_json::from_value::<TdEvent>(part.clone()).is_ok();
            assert_eq!(read, declared, "without {name}: {part}");
        }
    }
}

#[test]
fn what_a_newer_version_adds_survives() {
    for event in all_samples() {
        let mut line: Value = serde_json::from_str(&line_of(Some(u64::MAX), &event)).unwrap();
        line["added"] = json!({"deep": [1, -1, 1.5, null, true, "x", {}], "max": u64::MAX});
        line["event"]["also_added"] = json!([i64::MIN, "ü\n\u{1b}", 0.1, 1e300]);
        assert_eq!(through(&line), line);
        // Two rounds, and through the reader of log lines, which takes bytes.
        let again = parse_line(through(&line).to_string().as_bytes()).unwrap();
        assert_eq!(again.event, event);
        assert_eq!(serde_json::to_value(again).unwrap(), line);
    }
    let unknown = json!({"seq": 5, "ts": "2026-01-21T10:00:01.000000Z", "more": 1, "event": {
        "type": "NotYetThoughtOf", "execution_id": "a", "what": {"ever": [null, 2.5]}}});
    assert_eq!(through(&unknown), unknown);
    let envelope = read(&unknown.to_string());
    assert_eq!(envelope.event.kind(), EventKind::Unknown);
    assert_eq!(envelope.event.type_name(), "NotYetThoughtOf");
    assert_eq!(envelope.event.execution_id(), "a");
    // `Unknown` is no type of the wire, but a newer version may say so.
    let unknown =
        json!({"seq": 5, "ts": "2026-01-21T10:00:01.000000Z", "event": {"type": "Unknown"}});
    assert_eq!(through(&unknown), unknown);
}

#[test]
fn values_of_a_newer_version_survive() {
    let mut seen = 0;
    for event in all_samples() {
        let line: Value = serde_json::from_str(&line_of(Some(1), &event)).unwrap();
        for field in ["reason", "evidence", "state", "source", "stream"] {
            let mut later = line.clone();
            if let Some(value) = later["event"].get_mut(field) {
                *value = "not_yet_thought_of".into();
                assert_eq!(through(&later), later);
                assert_eq!(read(&later.to_string()).event.kind(), event.kind());
                seen += 1;
            }
        }
    }
    assert!(seen > 10, "{seen}");
}

#[test]
fn the_type_may_stand_anywhere() {
    for event in all_samples() {
        let Value::Object(fields) = serde_json::to_value(&event).unwrap() else {
            unreachable!()
        };
        let mut parts: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{}:{value}", json!(name)))
            .collect();
        for _ in 0..parts.len() {
            parts.rotate_left(1);
            let text = format!("{{{}}}", parts.join(","));
            let read: TdEvent = serde_json::from_str(&text).unwrap();
            assert_eq!(read, event, "{text}");
        }
    }
}

#[test]
fn the_seeds_own_lines_read() {
    // Copied from the design document of the event bus, "Event Log Format".
    let log = r#"
{"ts":"2026-01-21T10:00:00Z","event":{"type":"LoopStarted","execution_id":"abc123","loop_type":"Phase","task":"Add auth"}}
{"ts":"2026-01-21T10:00:01Z","event":{"type":"IterationStarted","execution_id":"abc123","iteration":1}}
{"ts":"2026-01-21T10:00:02Z","event":{"type":"PromptSent","execution_id":"abc123","iteration":1,"prompt_summary":"Implement OAuth...","token_count":1500}}
{"ts":"2026-01-21T10:00:03Z","event":{"type":"TokenReceived","execution_id":"abc123","iteration":1,"token":"I'll"}}
{"ts":"2026-01-21T10:00:03Z","event":{"type":"TokenReceived","execution_id":"abc123","iteration":1,"token":" implement"}}
"#;
    let lines: Vec<Envelope> = log.trim().lines().map(read).collect();
    assert_eq!(lines.len(), 5);
    for line in &lines {
        assert_eq!((line.seq, line.n, &line.extra), (None, 1, &None));
        assert_eq!(line.event.execution_id(), "abc123");
        assert_ne!(line.event.kind(), EventKind::Unknown);
    }
    let ts = serde_json::to_value(lines[1].ts).unwrap();
    assert_eq!(ts, "2026-01-21T10:00:01.000000Z");
    let TdEvent::LoopStarted {
        task_description, ..
    } = &lines[0].event
    else {
        panic!("{:?}", lines[0])
    };
    assert_eq!(task_description, "Add auth");
    // It is written under the name that the seed's type has.
    let written = serde_json::to_value(&lines[0]).unwrap();
    assert_eq!(written["event"]["task_description"], "Add auth");
    assert_eq!(written["event"].get("task"), None);
}

#[test]
fn numbers_beyond_their_type_are_refused() {
    let base = json!({"seq": 1, "ts": "2026-01-21T10:00:01.000000Z", "event": {
        "type": "OutputRevised", "execution_id": "a", "pane": "%1", "line": 1, "text": ""}});
    let with = |place: &str, number: &str| {
        let mut line = base.clone();
        *line.pointer_mut(place).unwrap() = json!("NUMBER");
        serde_json::from_str::<Envelope>(&line.to_string().replace("\"NUMBER\"", number))
    };
    assert_eq!(
        with("/seq", "18446744073709551615").unwrap().seq,
        Some(u64::MAX)
    );
    assert!(with("/event/line", "-9223372036854775808").is_ok());
    for (place, number) in [
        ("/seq", "18446744073709551616"),
        ("/seq", "-1"),
        ("/seq", "1.5"),
        ("/event/line", "9223372036854775808"),
        ("/event/line", "1e3"),
        ("/event/line", "\"1\""),
        ("/ts", "0"),
        ("/ts", "\"2026-13-21T10:00:01Z\""),
        ("/event", "[]"),
        ("/event/execution_id", "null"),
    ] {
        assert!(with(place, number).is_err(), "{place} = {number}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "2026-01-21T10:0[0-9]:00(\\.[0-9]{0,7})?Z".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 8, |inner| {
        let key = prop_oneof![
            "(seq|ts|n|event|type|execution_id|iteration|pane|task|rows|outcome)",
            any::<String>()
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Whatever it was, it does not panic; what was read once is written and read alike for ever.
fn is_stable(text: &str) {
    if let Ok(envelope) = serde_json::from_str::<Envelope>(text) {
        let written = serde_json::to_string(&envelope).unwrap();
        assert_eq!(read(&written), envelope, "{text}");
    }
    if let Ok(event) = serde_json::from_str::<TdEvent>(text) {
        let written = serde_json::to_string(&event).unwrap();
        assert_eq!(
            serde_json::from_str::<TdEvent>(&written).unwrap(),
            event,
            "{text}"
        );
    }
    let _ = parse_line(text.as_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_in_any_field_survives(text in any::<String>(), at in any::<prop::sample::Index>()) {
        let events: Vec<TdEvent> = all_samples().collect();
        let mut value = serde_json::to_value(at.get(&events)).unwrap();
        let is_gap = value["type"] == "OutputGap";
        for (name, field) in value.as_object_mut().unwrap() {
            let is_choice = matches!(&**name, "type" | "outcome") || is_gap && name == "evidence";
            if field.is_string() && !is_choice {
                *field = text.as_str().into();
            }
        }
        let event: TdEvent = serde_json::from_value(value.clone()).unwrap();
        prop_assert_eq!(serde_json::to_value(event).unwrap(), value);
    }

    #[test]
    fn any_number_survives_unread(number in any::<f64>().prop_filter("JSON has none", |f| f.is_finite())) {
        let line = json!({"seq": 1, "ts": "2026-01-21T10:00:01.000000Z", "extra": number,
            "event": {"type": "New", "value": number}});
        prop_assert_eq!(through(&line), line);
    }

    #[test]
    fn garbage_does_not_panic(text in any::<String>(), bytes in any::<Vec<u8>>()) {
        is_stable(&text);
        let _ = parse_line(&bytes);
    }

    #[test]
    fn any_json_does_not_panic(value in any_json(), event in any_json(), at in any::<prop::sample::Index>()) {
        is_stable(&value.to_string());
        // Near misses: a real event with one field of another shape.
        let events: Vec<TdEvent> = all_samples().collect();
        let mut near: Value = serde_json::from_str(&line_of(Some(1), at.get(&events))).unwrap();
        let fields = near["event"].as_object_mut().unwrap();
        let name = at.get(&fields.keys().cloned().collect::<Vec<_>>()).clone();
        fields.insert(name, event.clone());
        is_stable(&near.to_string());
        near["event"] = event;
        is_stable(&near.to_string());
    }

    #[test]
    fn torn_lines_do_not_panic(at in any::<prop::sample::Index>(), cut in any::<prop::sample::Index>()) {
        let events: Vec<TdEvent> = all_samples().collect();
        let line = line_of(Some(1), at.get(&events));
        let torn = &line.as_bytes()[..cut.index(line.len())];
        prop_assert!(parse_line(torn).is_err());
    }
}
