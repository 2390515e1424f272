//! Histories that are damaged, torn, being written, or written by another program: the report says so, and counts the
//! rest.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use super::night::report;
use super::script::Script;

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
