//! A scripted night of eight agents, three jobs and two loops, whose figures are counted naively from its events.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::script::{Script, Scripted, at};
use crate::cli::{assert_code, run, text};

/// The span of the report, in seconds of the night.
pub const SPAN: (f64, f64) = (600.0, 36_000.0);

/// Returns the report of the span as JSON.
pub fn report(data: &Path, more: &[&str]) -> Value {
    let (since, until) = (at(SPAN.0).to_string(), at(SPAN.1).to_string());
    let args = ["report", "--json", "--since", &since, "--until", &until];
    let output = run(&[&args, more].concat(), data);
    assert_code(&output, 0);
    let out = text(&output.stdout);
    assert_eq!(out.lines().count(), 1, "{out}");
    serde_json::from_str(&out).unwrap()
}

/// A generator of a fixed sequence of numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Writes the turns of an agent from a second until another one.
fn agent(script: &mut Script, pane: &str, (from, until): (f64, f64), dice: &mut Dice) {
    let state = |state: &str| json!({"pane": pane, "state": state, "evidence": "confirmed", "agent": "claude"});
    let mut now = from;
    let mut turn = 0;
    while now < until {
        turn += 1;
        script.add(
            now,
            "PromptSent",
            json!({"pane": pane, "iteration": turn, "prompt_summary": "go on"}),
        );
        script.add(now + 0.5, "AgentState", state("working"));
        for call in 0..dice.roll(5) {
            now += 10.0 + dice.roll(300) as f64;
            let tool = ["Bash", "Edit", "Read"][dice.roll(3) as usize];
            let calls = json!({"pane": pane, "iteration": turn, "tool_name": tool, "tool_args_summary": "{}"});
            script.add(now, "ToolCallStarted", calls);
            if dice.roll(4) == 0 {
                let mut waiting = state("waiting");
                waiting["asks"] = json!(format!("{tool} {turn}.{call}?"));
                waiting["question_id"] = json!(format!("q{turn}-{call}"));
                script.add(now + 0.5, "AgentState", waiting);
                now += 5.0 + dice.roll(4000) as f64;
                script.add(now, "AgentState", state("working"));
            }
            let done = json!({
                "pane": pane, "iteration": turn, "tool_name": tool, "success": dice.roll(5) > 0,
                "result_summary": "ok", "duration_ms": dice.roll(100_000),
            });
            script.add(now + 1.0, "ToolCallCompleted", done);
            let response = json!({
                "pane": pane, "iteration": turn, "response_summary": "so", "input_tokens": dice.roll(5000),
                "output_tokens": dice.roll(500), "has_tool_calls": true,
            });
            script.add(now + 1.5, "ResponseCompleted", response);
        }
        now += 20.0;
        let summary = format!("turn {turn} is over");
        script.add(
            now,
            "TurnCompleted",
            json!({"pane": pane, "marker": "end_turn", "summary": summary}),
        );
        script.add(now + 0.1, "AgentState", state("done"));
        now += 60.0 + dice.roll(2000) as f64;
    }
}

fn opened(script: &mut Script, second: f64, pane: &str) {
    let session = script.id.split('@').next().unwrap().to_owned();
    script.add(
        second,
        "SessionStarted",
        json!({"session": session, "panes": [pane]}),
    );
    let pane =
        json!({"pane": pane, "width": 80, "height": 24, "command": "claude", "is_new": true});
    script.add(second, "PaneOpened", pane);
}

/// Returns the night: eight agents, of which one is cut off and observed again, one is killed, one is left waiting, one
/// reaches a limit and one loses lines; three jobs in a shell; two loops.
pub fn night() -> Vec<Script> {
    let mut dice = Dice(2_463_534_242);
    let mut scripts = Vec::new();
    for number in 0..8 {
        let mut script = Script::new(&format!("agent-{number}@1"), "tmux");
        let pane = format!("%{number}");
        opened(&mut script, 10.0 * f64::from(number), &pane);
        agent(&mut script, &pane, (100.0, 15_000.0), &mut dice);
        let now = script.events.last().unwrap().second + 5.0;
        let state = |state: &str| json!({"pane": pane, "state": state, "evidence": "confirmed", "agent": "claude"});
        match number {
            0 => {
                script.add(now, "AgentState", state("working"));
                script.add(
                    now + 100.0,
                    "OutputUpdate",
                    json!({"pane": pane, "first_line": 1, "chunk": "x\n", "is_complete": false}),
                );
                script.restart();
                opened(&mut script, now + 900.0, &pane);
                agent(&mut script, &pane, (now + 901.0, now + 9000.0), &mut dice);
            }
            1 => {
                script.add(now, "AgentState", state("working"));
                script.add(
                    now + 50.0,
                    "PaneClosed",
                    json!({"pane": pane, "reason": "closed", "exit_status": 137}),
                );
                let ended = json!({"session": "agent-1", "reason": "closed", "exit_status": 137});
                script.add(now + 50.0, "SessionEnded", ended);
                script.ends("failed", Some(137));
            }
            2 => {
                let mut waiting = state("waiting");
                waiting["asks"] = json!("rm -rf build?");
                waiting["question_id"] = json!("left");
                script.add(now, "AgentState", waiting);
            }
            3 => {
                let mut limited = state("limited");
                limited["asks"] = json!("You've hit your usage limit, resets 11:59pm (UTC)");
                script.add(now, "AgentState", limited);
            }
            4 => {
                script.add(now, "OutputGap", json!({
                    "pane": pane, "first_line": 90, "lost_lines": 17, "reason": "overrun", "evidence": "confirmed",
                }));
            }
            5 => {
                let ended = json!({"session": "agent-5", "reason": "detached"});
                script.add(now, "SessionEnded", ended);
                script.ends("detached", None);
            }
            _ => {}
        }
        scripts.push(script);
    }
    let mut shell = Script::new("shell@1", "tmux");
    opened(&mut shell, 5.0, "%20");
    for (job, status) in [(0, 0), (1, 2), (2, 0)] {
        let began = 1000.0 + 3000.0 * f64::from(job);
        let fields = json!({"pane": "%20", "command": "make all", "cwd": "/w"});
        shell.add(began, "ExecutionStarted", fields);
        shell.add(
            began + 600.0,
            "ExecutionCompleted",
            json!({"pane": "%20", "exit_code": status, "duration_ms": 600_000}),
        );
    }
    scripts.push(shell);
    for (name, fails) in [("loop-a@1", 2), ("loop-b@1", 4)] {
        let mut script = Script::new(name, "loop");
        script.add(
            700.0,
            "LoopStarted",
            json!({"loop_type": "ralph", "task_description": "fix it"}),
        );
        let mut now = 700.0;
        for iteration in 1..=3 {
            script.add(now, "IterationStarted", json!({"iteration": iteration}));
            now += 500.0;
            script.add(
                now,
                "ValidationStarted",
                json!({"iteration": iteration, "command": "make test"}),
            );
            let code = u32::from(iteration <= fails) * 2;
            script.add(
                now + 20.0,
                "ValidationCompleted",
                json!({"iteration": iteration, "exit_code": code, "duration_ms": 20_000}),
            );
            let outcome = match code {
                0 => json!("ValidationPassed"),
                code => json!({"ValidationFailed": {"exit_code": code}}),
            };
            script.add(
                now + 20.0,
                "IterationCompleted",
                json!({"iteration": iteration, "outcome": outcome}),
            );
        }
        let has_passed = fails < 3;
        script.add(
            now + 21.0,
            "LoopCompleted",
            json!({"success": has_passed, "total_iterations": 3}),
        );
        script.ends(
            if has_passed { "completed" } else { "failed" },
            Some(i32::from(!has_passed)),
        );
        scripts.push(script);
    }
    scripts
}

/// The rows of a night with their events, by id.
fn rows_of(scripts: &[Script]) -> BTreeMap<String, Vec<&Scripted>> {
    let mut rows: BTreeMap<String, Vec<&Scripted>> = BTreeMap::new();
    for script in scripts {
        let panes: BTreeSet<&str> = script
            .events
            .iter()
            .map(|event| event.text("pane"))
            .collect();
        let pane = panes.iter().find(|pane| !pane.is_empty());
        let id = pane.map_or(script.id.clone(), |pane| format!("{}:{pane}", script.id));
        rows.insert(id, script.events.iter().collect());
    }
    rows
}

fn within(event: &Scripted) -> bool {
    (SPAN.0..SPAN.1).contains(&event.second)
}

fn count(events: &[&Scripted], kind: &str) -> u64 {
    let of_kind = events
        .iter()
        .filter(|event| event.kind == kind && within(event));
    of_kind.count() as u64
}

fn sum(events: &[&Scripted], kind: &str, field: &str) -> u64 {
    let of_kind = events
        .iter()
        .filter(|event| event.kind == kind && within(event));
    of_kind.map(|event| event.number(field)).sum()
}

/// Returns the milliseconds in each state within the span, from a list of changes by their seconds.
fn naive_times(script: &Script, until: f64) -> BTreeMap<String, f64> {
    let mut changes: Vec<(f64, String)> = Vec::new();
    let mut last = 0.0;
    for event in &script.events {
        let state = match event.kind.as_str() {
            "PaneOpened" if last > 0.0 && event.second - last > 500.0 => {
                changes.push((last, "not_observed".to_owned()));
                Some("unknown")
            }
            "PaneOpened" => Some("unknown"),
            "AgentState" => Some(event.text("state")),
            "PaneClosed" | "LoopCompleted" => Some("ended"),
            "SessionEnded" => {
                let is_left = event.text("reason") == "detached";
                Some(if is_left { "not_observed" } else { "ended" })
            }
            "LoopStarted" => Some("running"),
            _ => None,
        };
        if let Some(state) = state {
            changes.push((event.second, state.to_owned()));
        }
        if event.kind != "SessionStarted" {
            last = event.second;
        }
    }
    let mut times = BTreeMap::new();
    for (index, (from, state)) in changes.iter().enumerate() {
        let next = changes.get(index + 1).map_or(until, |(next, _)| *next);
        let length = next.min(until) - from.max(SPAN.0);
        if length > 0.0 && state != "ended" {
            *times.entry(state.clone()).or_default() += length * 1000.0;
        }
    }
    times
}

fn write(scripts: &[Script]) -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    for script in scripts {
        script.write(temp.path());
    }
    temp
}

#[test]
fn every_figure_of_a_scripted_night_equals_a_naive_count() {
    let scripts = night();
    let temp = write(&scripts);
    let report = report(temp.path(), &[]);
    let rows = rows_of(&scripts);
    let told: BTreeMap<String, &Value> = (report["rows"].as_array().unwrap().iter())
        .map(|row| (row["id"].as_str().unwrap().to_owned(), row))
        .collect();
    assert_eq!(
        told.keys().collect::<Vec<_>>(),
        rows.keys().collect::<Vec<_>>()
    );
    let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
    for (id, events) in &rows {
        let row = told[id];
        let failed_tools = events.iter().filter(|event| {
            event.kind == "ToolCallCompleted" && within(event) && event.fields["success"] == false
        });
        let code = |event: &&&Scripted| event.kind == "ValidationCompleted" && within(event);
        let checks: Vec<u64> = (events.iter().filter(code))
            .map(|event| event.number("exit_code"))
            .collect();
        let jobs = events
            .iter()
            .filter(|event| event.kind == "ExecutionCompleted" && within(event));
        let statuses: Vec<u64> = jobs.map(|event| event.number("exit_code")).collect();
        let figures = [
            (
                "turns",
                &row["turns"]["count"],
                count(events, "TurnCompleted"),
            ),
            (
                "prompts",
                &row["turns"]["prompts"],
                count(events, "PromptSent"),
            ),
            (
                "tool_calls",
                &row["tools"]["calls"],
                count(events, "ToolCallStarted"),
            ),
            (
                "tools_failed",
                &row["tools"]["failed"],
                failed_tools.count() as u64,
            ),
            (
                "input_tokens",
                &row["tokens"]["input"],
                sum(events, "ResponseCompleted", "input_tokens"),
            ),
            (
                "output_tokens",
                &row["tokens"]["output"],
                sum(events, "ResponseCompleted", "output_tokens"),
            ),
            (
                "checks_passed",
                &row["checks"]["passed"],
                checks.iter().filter(|code| **code == 0).count() as u64,
            ),
            (
                "checks_failed",
                &row["checks"]["failed"],
                checks.iter().filter(|code| **code > 0).count() as u64,
            ),
            ("jobs", &row["jobs"]["count"], statuses.len() as u64),
            (
                "jobs_failed",
                &row["jobs"]["failed"],
                statuses.iter().filter(|code| **code > 0).count() as u64,
            ),
            ("gaps", &row["gaps"]["count"], count(events, "OutputGap")),
            (
                "lost_lines",
                &row["gaps"]["lost_lines"],
                sum(events, "OutputGap", "lost_lines"),
            ),
            (
                "iterations",
                &row["checks"]["iterations"],
                count(events, "IterationCompleted"),
            ),
        ];
        for (name, told, counted) in figures {
            let told = told.as_u64().unwrap_or(0);
            assert_eq!(told, counted, "{id}: {name}");
            *totals.entry(name).or_default() += counted;
        }
        check_turns(id, row, events);
    }
    for (name, counted) in totals
        .iter()
        .filter(|(name, _)| !matches!(**name, "prompts" | "iterations"))
    {
        assert_eq!(report["totals"][name], json!(counted), "{name}");
    }
    assert_eq!(report["totals"]["rows"], json!(rows.len()));
}

/// Checks the turns of a row: each with its time, its words and its tools.
#[track_caller]
fn check_turns(id: &str, row: &Value, events: &[&Scripted]) {
    let mut expected = Vec::new();
    let (mut began, mut calls) = (None, 0);
    for event in events {
        match event.kind.as_str() {
            "PromptSent" => began = within(event).then_some(event.second),
            "ToolCallStarted" => calls += u64::from(within(event)),
            "TurnCompleted" => {
                if within(event) {
                    expected.push(json!({
                        "began": began.map(at), "ended": at(event.second), "summary": event.text("summary"),
                        "tool_calls": calls,
                    }));
                }
                calls = 0;
            }
            _ => {}
        }
    }
    let items = row["turns"]["items"].as_array().unwrap();
    let told: Vec<Value> = (items.iter())
        .map(|turn| {
            json!({
                "began": turn["began"], "ended": turn["ended"], "summary": turn["summary"],
                "tool_calls": turn["tool_calls"],
            })
        })
        .collect();
    assert_eq!(told, expected, "{id}");
}

#[test]
fn the_times_and_the_questions_of_a_scripted_night_equal_a_naive_count() {
    let scripts = night();
    let temp = write(&scripts);
    let report = report(temp.path(), &[]);
    for script in scripts
        .iter()
        .filter(|script| !script.id.starts_with("shell"))
    {
        let row = (report["rows"].as_array().unwrap().iter())
            .find(|row| row["execution_id"] == json!(script.id))
            .unwrap();
        let until = match script.end {
            // The log of a writer that was killed ends with its last event.
            None => script.events.last().unwrap().second,
            Some(_) => SPAN.1,
        };
        let mut naive = naive_times(script, until);
        if script.end.is_none() {
            naive.insert("not_observed".to_owned(), {
                let lost = naive.get("not_observed").copied().unwrap_or(0.0);
                lost + (SPAN.1 - until) * 1000.0
            });
        }
        for (state, ms) in row["times_ms"].as_object().unwrap() {
            let naive = naive.get(state).copied().unwrap_or(0.0);
            let told = ms.as_f64().unwrap();
            // Each of some hundred bands is rounded down to a millisecond.
            assert!(
                (told - naive).abs() < 500.0,
                "{}: {state}: {told} {naive}",
                script.id
            );
        }
        let waits: Vec<(f64, f64)> = waits(script, until);
        let questions = &row["questions"];
        assert_eq!(questions["count"], json!(waits.len()), "{}", script.id);
        let longest = waits.iter().map(|(from, until)| until - from.max(SPAN.0));
        let longest = longest.fold(0.0, f64::max) * 1000.0;
        let told = questions["longest_wait_ms"].as_f64().unwrap();
        assert!(
            (told - longest).abs() < 2.0,
            "{}: {told} {longest}",
            script.id
        );
    }
}

/// Returns the waits of an agent that are within the span.
fn waits(script: &Script, until: f64) -> Vec<(f64, f64)> {
    let states: Vec<&Scripted> = (script.events.iter())
        .filter(|event| matches!(event.kind.as_str(), "AgentState" | "PaneClosed"))
        .collect();
    let mut waits = Vec::new();
    for (index, event) in states.iter().enumerate() {
        if event.text("state") == "waiting" {
            let next = states.get(index + 1).map_or(until, |next| next.second);
            if next >= SPAN.0 && event.second < SPAN.1 {
                waits.push((event.second, next));
            }
        }
    }
    waits
}

#[test]
fn a_scripted_night_says_why_each_row_ended_and_what_needs_the_user() {
    let scripts = night();
    let temp = write(&scripts);
    let report = report(temp.path(), &[]);
    let end_of = |id: &str| {
        let rows = report["rows"].as_array().unwrap();
        let row = rows
            .iter()
            .find(|row| row["execution_id"] == json!(id))
            .unwrap();
        let words = row["end"]["words"].as_str().unwrap().to_owned();
        (row["end"]["reason"].as_str().unwrap().to_owned(), words)
    };
    for (id, reason, words) in [
        ("agent-0@1", "cut_off", "was done when it was last observed"),
        ("agent-1@1", "killed", "killed: signal 9 (KILL)"),
        (
            "agent-5@1",
            "observer_stopped",
            "was done when its observer stopped",
        ),
        ("loop-a@1", "completed", "all checks passed"),
        (
            "loop-b@1",
            "failed",
            "stopped after 3 iterations: the check failed with exit code 2",
        ),
    ] {
        assert_eq!(end_of(id), (reason.to_owned(), words.to_owned()), "{id}");
    }
    let restarted: Vec<&Value> = (report["runs"].as_array().unwrap().iter())
        .filter(|run| run["restarts"] == json!(1))
        .map(|run| &run["execution_id"])
        .collect();
    assert_eq!(restarted, [&json!("agent-0@1")]);
    let needs: Vec<&str> = (report["needs_you"].as_array().unwrap().iter())
        .map(|id| id.as_str().unwrap())
        .collect();
    assert!(needs.contains(&"agent-2@1:%2"), "{needs:?}");
    assert!(needs.contains(&"agent-1@1:%1"), "{needs:?}");
}
