//! The wire contract, declared a second time with the documented names and fields, so that no accidental
//! change of the library's own table changes the wire format.

mod reading;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use td_observe::event::{
    Cursor, Dialogue, DialogueChoice, GapEvidence, IterationOutcome, Link, Links, ReportedChild,
    ScreenRow, Styles,
};
use td_observe::history::{DataDir, RunInfo};
use td_observe::internals::history::{LogOptions, LogWriter, open_run, parse_line};
use td_observe::{Envelope, EventKind, FakeClock, TdEvent, Timestamp};

/// Every event with exactly its fields: first those of the seed, then those of schema 1.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
#[rustfmt::skip]
enum Wire {
    LoopStarted {
        execution_id: String, loop_type: String, task_description: String,
        #[serde(skip_serializing_if = "Option::is_none")] phases: Option<Vec<String>>,
    },
    PhaseStarted { execution_id: String, phase_index: usize, phase_name: String, total_phases: usize },
    IterationStarted { execution_id: String, iteration: u32 },
    IterationCompleted { execution_id: String, iteration: u32, outcome: WireOutcome },
    LoopCompleted { execution_id: String, success: bool, total_iterations: u32 },
    PromptSent {
        execution_id: String, iteration: u32, prompt_summary: String,
        #[serde(skip_serializing_if = "Option::is_none")] token_count: Option<u64>,
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
    PaneOpened {
        execution_id: String, pane: String, width: u32, height: u32, command: String,
        #[serde(skip_serializing_if = "Option::is_none")] is_new: Option<bool>,
    },
    PaneResized { execution_id: String, pane: String, width: u32, height: u32 },
    BackgroundWork {
        execution_id: String,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
        shells: u32, agents: u32,
    },
    ConversationFound {
        execution_id: String,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] agent: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] file: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] answer: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] turn_began: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] turn_ended: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] acted: Option<String>,
    },
    RowRenamed {
        execution_id: String,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] agent_id: Option<String>,
        name: String,
    },
    PaneClosed {
        execution_id: String, pane: String, reason: String,
        #[serde(skip_serializing_if = "Option::is_none")] exit_status: Option<i32>,
    },
    PaneSeen { execution_id: String, pane: String, by: String },
    RowDismissed {
        execution_id: String,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] agent_id: Option<String>,
        dismissed: bool, by: String,
    },
    OutputUpdate {
        execution_id: String, pane: String, first_line: i64, chunk: String, is_complete: bool,
        #[serde(skip_serializing_if = "Option::is_none")] reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] exit_status: Option<i32>,
        // Line, first character, end (exclusive), SGR parameters.
        #[serde(default, skip_serializing_if = "Vec::is_empty")] styles: Vec<(u32, u32, u32, String)>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")] links: Vec<WireLink>,
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
        // Early gaps had none.
        #[serde(default)] evidence: String,
    },
    LogGap { execution_id: String, first_seq: u64, last_seq: u64 },
    ExecutionStarted {
        execution_id: String, command: String, cwd: String,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] pid: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")] cell: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")] verification: Option<String>,
    },
    ExecutionOutput { execution_id: String, stream: String, text: String },
    ExecutionCompleted {
        execution_id: String,
        #[serde(skip_serializing_if = "Option::is_none")] exit_code: Option<i32>,
        #[serde(skip_serializing_if = "Option::is_none")] signal: Option<i32>,
        duration_ms: u64,
        #[serde(skip_serializing_if = "Option::is_none")] pane: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] pid: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")] cell: Option<u32>,
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
        #[serde(skip_serializing_if = "Option::is_none")] question_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")] dialogue: Option<WireDialogue>,
    },
    AgentActivity { execution_id: String, pane: String, text: String },
    ProgressReported {
        execution_id: String, pane: String,
        #[serde(skip_serializing_if = "Option::is_none")] progress: Option<u32>,
        children: Vec<WireChild>,
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
struct WireChild {
    id: String,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    asks: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireLink {
    line: i64,
    start: u32,
    end: u32,
    url: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRow {
    row: u32,
    text: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireDialogue {
    text: String,
    choices: Vec<WireChoice>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    again: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireChoice {
    key: String,
    label: String,
    selected: bool,
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

/// Returns at least one event of the kind; with optional fields, one with and one without them.
#[rustfmt::skip]
fn samples(kind: EventKind) -> Vec<TdEvent> {
    use EventKind as K;
    use TdEvent as E;
    let execution_id = td_observe::ExecutionId::from("abc123");
    let pane = td_observe::PaneId::from("%7");
    let iteration = u32::MAX;
    let s = str::to_owned;
    let single = |event| vec![event];
    let style = |line, to: u32, sgr| td_observe::event::Style::new(line, 0, to, sgr);
    let styles = |has: bool| if has { Styles::new(vec![style(0, 3, "1;31"), style(1, u32::MAX, "38;5;208")]) } else { Styles::default() };
    let link = |line, url| Link { line, start: 0, end: u32::MAX, url: s(url) };
    let links = |has: bool| if has { Links::new(vec![link(i64::MIN, "https://x"), link(-3, "mailto:a@b.c")]) } else { Links::default() };
    match kind {
        K::LoopStarted => [None, Some(vec![s("one"), s("two")])].map(|phases| E::LoopStarted {
            execution_id: execution_id.clone(), loop_type: s("Phase"), task_description: s("Add auth"), phases,
        }).into(),
        K::PhaseStarted => single(E::PhaseStarted { execution_id, phase_index: 0, phase_name: s("p"), total_phases: usize::MAX }),
        K::IterationStarted => single(E::IterationStarted { execution_id, iteration }),
        K::IterationCompleted => [
            IterationOutcome::ValidationPassed,
            IterationOutcome::ValidationFailed { exit_code: i32::MIN },
            IterationOutcome::MaxTurnsReached,
            IterationOutcome::ToolError { tool: s("bash"), error: s("no") },
            IterationOutcome::LlmError { error: s("529") },
        ]
        .map(|outcome| E::IterationCompleted { execution_id: execution_id.clone(), iteration, outcome })
        .into(),
        K::LoopCompleted => single(E::LoopCompleted { execution_id, success: true, total_iterations: 3 }),
        K::PromptSent => [None, Some(u64::MAX)].map(|token_count| E::PromptSent {
            execution_id: execution_id.clone(), iteration, prompt_summary: s("Implement…"), token_count, pane: Some(pane.clone()),
        }).into(),
        K::TokenReceived => single(E::TokenReceived { execution_id, iteration, token: s(" implement"), pane: Some(pane) }),
        K::ResponseCompleted => single(E::ResponseCompleted {
            execution_id, iteration, response_summary: s("r"), input_tokens: u64::MAX, output_tokens: 0, has_tool_calls: false, pane: Some(pane) }),
        K::ToolCallStarted => single(E::ToolCallStarted { execution_id, iteration, tool_name: s("t"), tool_args_summary: s("a"), pane: Some(pane) }),
        K::ToolCallCompleted => single(E::ToolCallCompleted {
            execution_id, iteration, tool_name: s("t"), success: false, result_summary: s("r"), duration_ms: u64::MAX, pane: Some(pane) }),
        K::ValidationStarted => single(E::ValidationStarted { execution_id, iteration, command: s("cargo test") }),
        K::ValidationOutput => single(E::ValidationOutput { execution_id, iteration, line: s("ok"), is_stderr: true }),
        K::ValidationCompleted => single(E::ValidationCompleted { execution_id, iteration, exit_code: -1, duration_ms: 0 }),
        K::Error => single(E::Error { execution_id, context: s("c"), message: s("m") }),
        K::Warning => single(E::Warning { execution_id, context: s("c"), message: s("m") }),
        K::SessionStarted => single(E::SessionStarted { execution_id, session: s("build"), panes: vec![pane, "%8".into()] }),
        K::SessionRenamed => single(E::SessionRenamed { execution_id, from: s("a"), to: s("b") }),
        K::SessionEnded => [None, Some(0)].map(|exit_status| E::SessionEnded {
            execution_id: execution_id.clone(), session: s("build"), reason: "closed".into(), exit_status,
        }).into(),
        K::PaneOpened => [None, Some(true)].map(|is_new| E::PaneOpened {
            execution_id: execution_id.clone(), pane: pane.clone(), width: 80, height: 24, command: s("sh"), is_new,
        }).into(),
        K::PaneResized => single(E::PaneResized { execution_id, pane, width: 80, height: u32::MAX }),
        K::BackgroundWork => single(E::BackgroundWork { execution_id, pane: Some(pane), shells: 1, agents: 2 }),
        K::ConversationFound => [None, Some(Timestamp::from_micros(1))].map(|turn_ended| E::ConversationFound {
            execution_id: execution_id.clone(), pane: Some(pane.clone()), agent: Some(Box::new(s("claude"))),
            file: Some(Box::new(s("/tmp/s.jsonl"))), answer: Some(Box::new(s("Done."))),
            turn_began: Some(Timestamp::from_micros(0)), turn_ended, acted: turn_ended.is_none().then(|| Timestamp::from_micros(2)),
        }).into(),
        K::RowRenamed => [(None, Some(pane)), (Some(s("a1")), None)].map(|(agent_id, pane)| E::RowRenamed {
            execution_id: execution_id.clone(), pane, agent_id, name: s("api (main)"),
        }).into(),
        K::PaneClosed => [None, Some(143)].map(|exit_status| E::PaneClosed {
            execution_id: execution_id.clone(), pane: pane.clone(), reason: "exited".into(), exit_status,
        }).into(),
        K::RowDismissed => [(None, Some(pane)), (Some(s("a1")), None)].map(|(agent_id, pane)| E::RowDismissed {
            execution_id: execution_id.clone(), pane, agent_id, dismissed: true, by: "face".into(),
        }).into(),
        K::PaneSeen => single(E::PaneSeen { execution_id, pane, by: "client".into() }),
        K::OutputUpdate => [(i64::MIN, None, None), (i64::MAX, Some("exit"), Some(i32::MIN)), (-3, Some("turn"), None)]
            .map(|(first_line, reason, exit_status)| E::OutputUpdate {
                execution_id: execution_id.clone(), pane: pane.clone(), first_line, chunk: s("one\ntwo\n"),
                is_complete: reason.is_some(), reason: reason.map(Into::into), exit_status,
                styles: styles(exit_status.is_some()), links: links(exit_status.is_some()),
            }).into(),
        K::OutputRevised => [false, true].map(|styled| E::OutputRevised {
            execution_id: execution_id.clone(), pane: pane.clone(), line: -7, text: s("two"), styles: styles(styled),
        }).into(),
        K::ScreenUpdate => single(E::ScreenUpdate {
            execution_id, pane, width: 80, height: 24, cursor: Cursor { x: 1, y: 2 },
            rows: vec![ScreenRow { row: 0, text: s("top") }],
        }),
        K::AgentActivity => single(E::AgentActivity { execution_id, pane, text: s("Bash make test") }),
        K::ProgressReported => [None, Some(40)].map(|progress| E::ProgressReported {
            execution_id: execution_id.clone(), pane: pane.clone(), progress,
            children: [(None, None), (Some(s("Tests")), Some(s("Go?")))].map(|(title, asks)| ReportedChild {
                id: s("test/unit"), state: "waiting".into(), title, asks, progress,
            }).into(),
        }).into(),
        K::ScreenSnapshot => single(E::ScreenSnapshot {
            execution_id, pane, width: 80, height: 24, rows: vec![ScreenRow { row: 3, text: s("row") }],
        }),
        K::OutputGap => [None, Some(u64::MAX)].map(|lost_lines| E::OutputGap {
            execution_id: execution_id.clone(), pane: pane.clone(), first_line: -1, lost_lines, reason: "ambiguous".into(),
            evidence: lost_lines.map_or(GapEvidence::Possible, |_| GapEvidence::Confirmed).into(),
        }).into(),
        K::LogGap => single(E::LogGap { execution_id, first_seq: 1, last_seq: u64::MAX }),
        K::ExecutionStarted => [None, Some(pane)].map(|pane| E::ExecutionStarted {
            execution_id: execution_id.clone(), command: s("make"), cwd: s("/tmp"),
            pid: pane.is_some().then_some(4_000_000), cell: pane.is_none().then_some(3),
            verification: pane.is_none().then(|| "correct".into()), pane,
        }).into(),
        K::ExecutionOutput => single(E::ExecutionOutput { execution_id, stream: "stdout".into(), text: s("x\n") }),
        K::ExecutionCompleted => [(None, Some(9)), (Some(0), None)].map(|(exit_code, signal)| E::ExecutionCompleted {
            execution_id: execution_id.clone(), exit_code, signal, duration_ms: 5,
            pane: signal.map(|_| pane.clone()), pid: signal.map(|_| 7), cell: exit_code.map(|_| 3),
        }).into(),
        K::TurnCompleted => [(None, None), (Some(pane), Some("inferred".into()))].map(|(pane, evidence)| E::TurnCompleted {
            execution_id: execution_id.clone(), marker: s("DONE"), summary: s("s"), agent_id: pane.is_none().then(|| Box::new(s("a1"))), pane, evidence,
        }).into(),
        K::AgentRegistered => single(E::AgentRegistered { execution_id, agent_id: s("a1"), output_file: s("/tmp/o"), pane: Some(pane) }),
        K::AgentCompleted => single(E::AgentCompleted { execution_id, agent_id: s("a1"), result: s("r"), evidence: "e".into(), pane: Some(pane) }),
        K::AgentFailed => single(E::AgentFailed { execution_id, agent_id: s("a1"), error: s("r"), evidence: "e".into(), pane: Some(pane) }),
        K::AgentState => [(None, Some(pane)), (Some(Box::new(s("a1"))), None)].map(|(agent_id, pane)| E::AgentState {
            execution_id: execution_id.clone(), agent_id, pane, state: "working".into(), evidence: "e".into(), agent: Some(Box::new(s("claude"))), source: Some("title".into()),
            asks: Some(Box::new(s("go on?"))), detail: None,
            question_id: Some(Box::new(s("q1"))), dialogue: Some(Box::new(Dialogue {
                text: s("go on?"), choices: vec![DialogueChoice { key: s("y"), label: s("yes"), selected: true }],
                again: true,
            })),
        }).into(),
        K::PollerRestarted => single(E::PollerRestarted { execution_id, source: s("pane:build"), cause: s("panicked") }),
        K::LogOpened => single(E::LogOpened {
            execution_id, schema: 1, version: s("0.1.0"), host: s("h"), pid: 1, first_seq: 1,
        }),
        _ => Vec::new(),
    }
}

pub fn all_samples() -> impl Iterator<Item = TdEvent> {
    EventKind::ALL.iter().flat_map(|&kind| samples(kind))
}

pub fn line_of(seq: Option<u64>, event: &TdEvent) -> String {
    let ts = Timestamp::from_micros(1_768_989_601_123_456);
    serde_json::to_string(&Envelope::new(seq, ts, event.clone())).unwrap()
}

#[track_caller]
fn read(line: &str) -> Envelope {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Reads and writes a line; returns the written form.
#[track_caller]
fn through(line: &Value) -> Value {
    serde_json::to_value(read(&line.to_string())).unwrap()
}

#[test]
fn both_declarations_of_every_kind_agree() {
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
        // A run for each event, so that each has its own file to compare.
        let data = DataDir::new(temp.path().join(n.to_string()));
        let run = data.run(&event.execution_id().into());
        let info = RunInfo::default();
        log.attach(open_run(&run, info, clock.wall()).unwrap(), clock.now());
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
    // serde lists all types in its error for an unknown one.
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
