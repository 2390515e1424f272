//! Histories that are damaged, torn, being written, or written by another program: the report says so, and counts the
//! rest.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::night::report;
use super::script::Script;
use crate::cli::{assert_code, run, text};

/// Writes a run with turns at each minute from the 20th on; returns its directory.
fn turns(data: &Path, id: &str, count: u32) -> std::path::PathBuf {
    let mut script = Script::new(id, "tmux");
    let pane = json!({"pane": "%1", "width": 80, "height": 24, "command": "claude"});
    script.add(1200.0, "PaneOpened", pane);
    for turn in 0..count {
        let second = 1200.0 + 60.0 * f64::from(turn);
        let fields = json!({"pane": "%1", "marker": "end_turn", "summary": format!("turn {turn}")});
        script.add(second, "TurnCompleted", fields);
    }
    script.ends("detached", None);
    script.write(data)
}

fn run_of<'a>(report: &'a Value, id: &str) -> &'a Value {
    let runs = report["runs"].as_array().unwrap();
    runs.iter()
        .find(|run| run["execution_id"] == json!(id))
        .unwrap_or_else(|| panic!("{id}: {runs:?}"))
}

fn turns_of(report: &Value, id: &str) -> Value {
    let rows = report["rows"].as_array().unwrap();
    let row = rows
        .iter()
        .find(|row| row["execution_id"] == json!(id))
        .unwrap();
    row["turns"]["count"].clone()
}

#[test]
fn what_is_damaged_torn_or_foreign_is_reported_and_the_rest_counts() {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path();
    let whole = turns(data, "whole@1", 10);
    // A line in the middle is overwritten.
    let damaged = turns(data, "damaged@1", 10).join("events.jsonl");
    let text = fs::read_to_string(&damaged).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[5] = "\0\0\0TurnCompleted\0\0".to_owned();
    fs::write(&damaged, lines.join("\n") + "\n").unwrap();
    // The writer was killed within a line.
    let torn = turns(data, "torn@1", 10);
    let mut log = File::options()
        .append(true)
        .open(torn.join("events.jsonl"))
        .unwrap();
    write!(log, r#"{{"seq":12,"ts":"2026-11-28T2"#).unwrap();
    let metadata = fs::read_to_string(torn.join("metadata.json")).unwrap();
    let metadata = metadata.replace("detached", "running");
    fs::write(torn.join("metadata.json"), metadata).unwrap();
    // Lines were removed.
    let missing = turns(data, "missing@1", 10).join("events.jsonl");
    let text = fs::read_to_string(&missing).unwrap();
    let kept: Vec<&str> = text
        .lines()
        .enumerate()
        .filter(|(at, _)| !(4..7).contains(at))
        .map(|(_, line)| line)
        .collect();
    fs::write(missing, kept.join("\n") + "\n").unwrap();
    // A compressed file that ends too early.
    let packed = turns(data, "packed@1", 200);
    let lines = fs::read(packed.join("events.jsonl")).unwrap();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&lines).unwrap();
    let mut bytes = encoder.finish().unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(packed.join("events.000001.jsonl.gz"), bytes).unwrap();
    fs::remove_file(packed.join("events.jsonl")).unwrap();
    // Another program's log has neither numbers nor metadata.
    let foreign = data.join("runs/foreign");
    fs::create_dir_all(&foreign).unwrap();
    let line = |second: u32| {
        format!(
            r#"{{"ts":"2026-11-28T21:00:{second:02}Z","event":{{"type":"TurnCompleted","execution_id":"foreign","agent_id":"x","marker":"","summary":"s"}}}}"#
        ) + "\n"
    };
    fs::write(
        foreign.join("events.jsonl"),
        (0..3).map(line).collect::<String>(),
    )
    .unwrap();
    assert!(whole.exists());

    let report = report(data, &[]);
    let fine = run_of(&report, "whole@1");
    for field in [
        "damaged_lines",
        "missing_events",
        "torn_files",
        "dropped_events",
    ] {
        assert_eq!(fine[field], json!(0), "{field}");
    }
    assert_eq!(
        (&fine["state"], &fine["foreign"]),
        (&json!("detached"), &json!(false))
    );
    assert_eq!(turns_of(&report, "whole@1"), json!(10));
    assert_eq!(run_of(&report, "damaged@1")["damaged_lines"], json!(1));
    assert_eq!(run_of(&report, "damaged@1")["missing_events"], json!(1));
    assert_eq!(turns_of(&report, "damaged@1"), json!(9));
    assert_eq!(run_of(&report, "torn@1")["torn_files"], json!(1));
    assert_eq!(run_of(&report, "torn@1")["state"], json!("cut off"));
    assert_eq!(turns_of(&report, "torn@1"), json!(10));
    assert_eq!(run_of(&report, "missing@1")["missing_events"], json!(3));
    assert_eq!(turns_of(&report, "missing@1"), json!(7));
    let packed = run_of(&report, "packed@1");
    assert!(
        !packed["problems"].as_array().unwrap().is_empty(),
        "{packed}"
    );
    assert!(packed["missing_events"].as_u64() > Some(50), "{packed}");
    let counted = turns_of(&report, "packed@1").as_u64().unwrap();
    assert!((1..200).contains(&counted), "{counted}");
    let foreign = run_of(&report, "foreign");
    assert_eq!(
        (&foreign["foreign"], &foreign["state"]),
        (&json!(true), &json!("unknown"))
    );
    assert_eq!(turns_of(&report, "foreign"), json!(3));
    assert_eq!(
        report["totals"]["turns"],
        json!(10 + 9 + 10 + 7 + counted + 3)
    );
}

#[test]
fn events_that_the_log_dropped_and_lines_that_a_pane_lost_are_reported() {
    let temp = tempfile::tempdir().unwrap();
    let mut script = Script::new("a@1", "tmux");
    let pane = json!({"pane": "%1", "width": 80, "height": 24, "command": "claude"});
    script.add(1200.0, "PaneOpened", pane);
    script.add(1300.0, "LogGap", json!({"first_seq": 90, "last_seq": 99}));
    script.add(
        1301.0,
        "PollerRestarted",
        json!({"source": "td-session-a", "cause": "index out of bounds"}),
    );
    for (second, evidence) in [(1400.0, "confirmed"), (1500.0, "possible")] {
        let gap = json!({"pane": "%1", "first_line": 5, "lost_lines": 7, "reason": "overrun", "evidence": evidence});
        script.add(second, "OutputGap", gap);
    }
    script.write(temp.path());
    let report = report(temp.path(), &[]);
    assert_eq!(run_of(&report, "a@1")["dropped_events"], json!(10));
    let problems = run_of(&report, "a@1")["problems"].to_string();
    assert!(
        problems.contains("td-session-a crashed and ran again: index out of bounds"),
        "{problems}"
    );
    let gaps = &report["rows"][0]["gaps"];
    assert_eq!(
        (&gaps["count"], &gaps["possible"], &gaps["lost_lines"]),
        (&json!(1), &json!(1), &json!(7))
    );
    assert_eq!(report["totals"]["lost_lines"], json!(7));
}

#[test]
fn runs_that_cannot_be_read_are_named_and_the_others_count() {
    let temp = tempfile::tempdir().unwrap();
    turns(temp.path(), "fine@1", 4);
    let refused = turns(temp.path(), "refused@1", 4);
    fs::set_permissions(&refused, fs::Permissions::from_mode(0o777)).unwrap();
    let no_log = turns(temp.path(), "nolog@1", 4).join("events.jsonl");
    fs::remove_file(&no_log).unwrap();
    fs::create_dir(&no_log).unwrap();
    for more in [&[][..], &["*@1"]] {
        let report = report(temp.path(), more);
        let told = [&report["problems"], &report["runs"]].map(Value::to_string);
        assert!(told.concat().contains("nolog@1"), "{told:?}");
        assert_eq!(report["totals"]["turns"], json!(4), "{more:?}");
        let problems = report["problems"].to_string();
        assert!(problems.contains("refused@1"), "{problems}");
    }
}

#[test]
fn lines_of_another_program_that_are_no_events_are_counted() {
    let temp = tempfile::tempdir().unwrap();
    let foreign = temp.path().join("runs/foreign");
    fs::create_dir_all(&foreign).unwrap();
    let lines = r#"{"time":1,"msg":"x"}
{"seq":5,"level":"info"}
{}
"#;
    fs::write(foreign.join("events.jsonl"), lines).unwrap();
    let output = run(
        &["report", "--json", "foreign", "--since", "1h"],
        temp.path(),
    );
    assert_code(&output, 0);
    let report: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(run_of(&report, "foreign")["damaged_lines"], json!(3));
}

#[test]
fn a_failure_is_one_error_and_outlasts_its_observer() {
    let temp = tempfile::tempdir().unwrap();
    let mut script = Script::new("shell@1", "tmux");
    let pane = json!({"pane": "%1", "width": 80, "height": 24, "command": "bash"});
    let idle = json!({"pane": "%1", "state": "idle", "evidence": "confirmed", "agent": "shell"});
    script.add(1200.0, "PaneOpened", pane.clone());
    script.add(1201.0, "AgentState", idle.clone());
    let job = json!({"pane": "%1", "command": "bash -c 'sleep 11; exit 4'", "cwd": "/"});
    script.add(1300.0, "ExecutionStarted", job);
    let line = json!({"pane": "%1", "first_line": 1, "chunk": "user@host:~$ make\nno space left\n", "is_complete": false});
    script.add(1310.0, "OutputUpdate", line);
    let end = json!({"pane": "%1", "exit_code": 4, "duration_ms": 11000});
    script.add(1311.0, "ExecutionCompleted", end);
    script.add(1311.1, "AgentState", idle.clone());
    script.restart();
    script.add(1400.0, "PaneOpened", pane);
    script.add(1400.5, "AgentState", idle);
    script.write(temp.path());
    let mut agents = Script::new("agents@1", "agents");
    agents.add(
        1200.0,
        "AgentRegistered",
        json!({"agent_id": "a", "output_file": "/tmp/none"}),
    );
    agents.add(
        1300.0,
        "AgentFailed",
        json!({"agent_id": "a", "error": "it broke", "evidence": "result"}),
    );
    agents.write(temp.path());
    let report = report(temp.path(), &[]);
    assert_eq!(report["needs_you"], json!(["agents@1:a", "shell@1:%1"]));
    let rows = report["rows"].as_array().unwrap();
    let shell = rows.iter().find(|row| row["id"] == "shell@1:%1").unwrap();
    assert_eq!(shell["jobs"]["items"][0]["lines"], json!(["no space left"]));
    let agent = rows.iter().find(|row| row["id"] == "agents@1:a").unwrap();
    assert_eq!(agent["errors"]["count"], json!(1), "{agent}");
}
