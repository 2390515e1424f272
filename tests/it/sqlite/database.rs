//! The content of a database, compared with the lines of the logs.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use super::{assert_refused, export};
use crate::cli::{assert_code, text};

/// Returns the samples' time plus this many seconds.
fn at(seconds: u64) -> String {
    format!(
        "2026-01-21T10:{:02}:{:02}.000000Z",
        seconds / 60,
        seconds % 60
    )
}

/// Returns lines of a log: events with their numbers, one second apart.
pub fn lines(id: &str, first_seq: u64, events: &[Value]) -> String {
    let header = json!({"seq": first_seq - 1, "ts": at(0), "event": {"type": "LogOpened", "execution_id": id,
        "schema": 1, "version": "0.1.0", "host": "h", "pid": 1, "first_seq": first_seq}});
    let events = events.iter().zip(first_seq..).map(|(event, seq)| {
        let mut event = event.clone();
        event["execution_id"] = id.into();
        json!({"seq": seq, "ts": at(seq), "event": event})
    });
    [header]
        .into_iter()
        .chain(events)
        .map(|line| line.to_string() + "\n")
        .collect()
}

pub fn write_run(data: &Path, id: &str, label: &str, files: &[(&str, String)]) {
    let directory = data.join("runs").join(id);
    fs::create_dir_all(&directory).unwrap();
    let metadata = json!({"execution_id": id, "kind": "tmux", "label": label, "created": at(0), "updated": at(9),
        "state": "failed", "exit_status": 3});
    fs::write(directory.join("metadata.json"), metadata.to_string()).unwrap();
    for (name, lines) in files {
        let bytes = if name.ends_with(".gz") {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(lines.as_bytes()).unwrap();
            packed.finish().unwrap()
        } else {
            lines.as_bytes().to_vec()
        };
        fs::write(directory.join(name), bytes).unwrap();
    }
}

fn update(line: i64, chunk: &str) -> Value {
    json!({"type": "OutputUpdate", "pane": "%1", "first_line": line, "chunk": chunk, "is_complete": false})
}

pub fn open(data: &Path) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    Connection::open_with_flags(data.join("history.db"), flags).unwrap()
}

fn one<T: FromSql>(database: &Connection, sql: &str) -> T {
    let found = database.query_row(sql, [], |row| row.get(0));
    found.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Returns the rows of a query, their values separated by `|`.
pub fn rows(database: &Connection, sql: &str) -> Vec<String> {
    let mut query = database
        .prepare(sql)
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    let columns = query.column_count();
    let shown = query.query_map([], |row| {
        let values = (0..columns).map(|at| {
            Ok(match row.get_ref(at)? {
                rusqlite::types::ValueRef::Null => "-".to_owned(),
                rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                rusqlite::types::ValueRef::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
                other => panic!("{other:?}"),
            })
        });
        Ok(values.collect::<rusqlite::Result<Vec<_>>>()?.join("|"))
    });
    shown.unwrap().map(Result::unwrap).collect()
}

/// A run with every kind of event that has lines, and an agent.
fn events() -> Vec<Value> {
    vec![
        update(1, "Compiling app\nwarning: unused\n"),
        json!({"type": "PromptSent", "iteration": 1, "prompt_summary": "fix it", "token_count": 7, "pane": "%1"}),
        json!({"type": "TokenReceived", "iteration": 1, "token": "I look at\nthe parser.\n", "pane": "%1"}),
        json!({"type": "ToolCallStarted", "iteration": 1, "tool_name": "Bash", "tool_args_summary": "make", "pane": "%1"}),
        json!({"type": "ToolCallCompleted", "iteration": 1, "tool_name": "Bash", "success": false,
            "result_summary": "no rule", "duration_ms": 12, "pane": "%1"}),
        json!({"type": "ResponseCompleted", "iteration": 1, "response_summary": "looking", "input_tokens": 900,
            "output_tokens": 80, "has_tool_calls": true, "pane": "%1"}),
        json!({"type": "TurnCompleted", "marker": "", "summary": "it is fixed", "pane": "%1"}),
        json!({"type": "OutputRevised", "pane": "%1", "line": 2, "text": "warning: none"}),
        json!({"type": "OutputRevised", "pane": "%1", "line": 3, "text": ""}),
        json!({"type": "ExecutionOutput", "stream": "stdout", "text": "half a "}),
        json!({"type": "ExecutionOutput", "stream": "stderr", "text": "\u{1b}[31merror\u{1b}[0m: boom\n"}),
        json!({"type": "ExecutionOutput", "stream": "stdout", "text": "line\n"}),
        json!({"type": "ValidationOutput", "iteration": 1, "line": "1 passed", "is_stderr": false}),
        json!({"type": "OutputUpdate", "pane": "%1", "first_line": 3, "chunk": "done\n", "is_complete": true,
            "reason": "exit", "exit_status": 3}),
        json!({"type": "BuildQueued", "position": {"is": [1, 2]}}),
        json!({"type": "IterationStarted", "iteration": 2, "of_a_later_version": true}),
    ]
}

#[test]
fn a_database_has_what_the_log_has() {
    let data = tempfile::tempdir().unwrap();
    write_run(
        data.path(),
        "a@1",
        "a",
        &[("events.jsonl", lines("a@1", 1, &events()))],
    );
    let exported = export(data.path(), &["a"]);
    assert_code(&exported, 0);
    assert_eq!(text(&exported.stderr), "");
    let file = data.path().join("history.db");
    assert_eq!(
        file.metadata().unwrap().permissions().mode() & 0o7777,
        0o600
    );

    let database = open(data.path());
    assert_eq!(one::<i64>(&database, "PRAGMA user_version"), 1);
    assert_eq!(one::<i64>(&database, "PRAGMA application_id"), 0x5444_6f62);
    assert_eq!(one::<String>(&database, "PRAGMA integrity_check"), "ok");
    assert_eq!(
        rows(
            &database,
            "SELECT execution_id, kind, label, state, started, last_event, exit_status, missing, damaged, \
            unreadable, first_event, events, lines FROM runs"
        ),
        [
            "a@1|tmux|a|failed|2026-01-21T10:00:00.000000Z|2026-01-21T10:00:16.000000Z|3|0|0|0|1|16|9"
        ]
    );
    assert_eq!(
        rows(
            &database,
            "SELECT seq, ts, type, pane, line, text FROM lines"
        ),
        [
            "1|2026-01-21T10:00:01.000000Z|OutputUpdate|%1|1|Compiling app",
            "1|2026-01-21T10:00:01.000000Z|OutputUpdate|%1|2|warning: unused",
            "3|2026-01-21T10:00:03.000000Z|TokenReceived|%1|-|I look at",
            "3|2026-01-21T10:00:03.000000Z|TokenReceived|%1|-|the parser.",
            "8|2026-01-21T10:00:08.000000Z|OutputRevised|%1|2|warning: none",
            "11|2026-01-21T10:00:11.000000Z|ExecutionOutput|-|-|error: boom",
            "12|2026-01-21T10:00:12.000000Z|ExecutionOutput|-|-|half a line",
            "13|2026-01-21T10:00:13.000000Z|ValidationOutput|-|-|1 passed",
            "14|2026-01-21T10:00:14.000000Z|OutputUpdate|%1|3|done",
        ]
    );
    let data_of = |seq: u64| {
        let sql = format!("SELECT data FROM events WHERE seq = {seq}");
        one::<Option<String>>(&database, &sql)
            .map(|data| serde_json::from_str::<Value>(&data).unwrap())
    };
    for seq in [1, 3, 8, 10, 12, 13] {
        assert_eq!(data_of(seq), None, "{seq}");
    }
    for (seq, expected) in [
        (
            2,
            json!({"iteration": 1, "prompt_summary": "fix it", "token_count": 7, "pane": "%1"}),
        ),
        (9, json!({"line": 3})),
        (11, json!({"stream": "stderr"})),
        (
            14,
            json!({"first_line": 3, "is_complete": true, "reason": "exit", "exit_status": 3}),
        ),
        (15, json!({"position": {"is": [1, 2]}})),
        (16, json!({"iteration": 2, "of_a_later_version": true})),
    ] {
        assert_eq!(data_of(seq), Some(expected), "{seq}");
    }
    assert_eq!(
        rows(
            &database,
            "SELECT pane, agent_id, began, ended, ended_by, prompt, summary, input_tokens, output_tokens, \
            tools, failed_tools, first_event, last_event FROM turns"
        ),
        [
            "%1|-|2026-01-21T10:00:02.000000Z|2026-01-21T10:00:07.000000Z|TurnCompleted|fix it|it is fixed|900|80|1|1|2|7"
        ]
    );
    assert_eq!(
        rows(
            &database,
            "SELECT event, seq, pane, tool, success, duration_ms, result FROM tools"
        ),
        ["5|5|%1|Bash|0|12|no rule"]
    );
}

#[test]
fn lines_are_found_by_their_words() {
    let data = tempfile::tempdir().unwrap();
    write_run(
        data.path(),
        "a@1",
        "a",
        &[("events.jsonl", lines("a@1", 1, &events()))],
    );
    assert_code(&export(data.path(), &[]), 0);
    let database = open(data.path());
    for (words, expected) in [
        ("error", &["error: boom"][..]),
        ("WARNING", &["warning: unused", "warning: none"]),
        ("\"half a line\"", &["half a line"]),
        ("pars*", &["the parser."]),
        ("done OR passed", &["1 passed", "done"]),
        ("absent", &[]),
    ] {
        let sql = format!("SELECT text FROM lines_text WHERE lines_text MATCH '{words}'");
        assert_eq!(rows(&database, &sql), expected, "{words}");
    }
    assert_eq!(
        rows(
            &database,
            "SELECT l.seq, snippet(lines_text, 0, '[', ']', '…', 4) FROM lines_text \
            JOIN lines l ON l.id = lines_text.rowid WHERE lines_text MATCH 'boom'"
        ),
        ["11|error: [boom]"]
    );
}

/// Returns the number of events of each type in all logs of a data directory, counted without this crate.
fn counted(files: &[&str]) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for line in files.iter().flat_map(|lines| lines.lines()) {
        let Ok(value) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let kind = value["event"]["type"].as_str().unwrap();
        if kind != "LogOpened" {
            *counts.entry(kind.to_owned()).or_default() += 1;
        }
    }
    counts
}

#[test]
fn several_runs_are_one_database() {
    let data = tempfile::tempdir().unwrap();
    let (old, new) = (lines("a@1", 1, &events()), lines("a@1", 17, &events()));
    let b = lines("b@2", 1, &events());
    let closed = ("events.000001.jsonl.gz", old.clone());
    write_run(
        data.path(),
        "a@1",
        "a",
        &[closed, ("events.jsonl", new.clone())],
    );
    // The last line is torn, one is damaged, and its event is missing.
    let mut damaged: Vec<&str> = b.lines().collect();
    damaged[5] = "{\"seq\":5,\"ts\":\"2026";
    let torn = damaged.join("\n") + "\n{\"seq\":17,\"ts\"";
    write_run(data.path(), "b@2", "b", &[("events.jsonl", torn.clone())]);
    let foreign = [("x", "one"), ("y", "two"), ("x", "three")].map(|(id, line)| {
        let event = json!({"type": "ExecutionOutput", "execution_id": id, "stream": "stdout", "text": format!("{line}\n")});
        json!({"ts": "2026-01-21T10:00:00Z", "event": event}).to_string() + "\n"
    });
    let foreign = foreign.concat();
    let path = data.path().join("foreign.jsonl");
    fs::write(&path, &foreign).unwrap();

    let exported = export(data.path(), &["*@*", path.to_str().unwrap()]);
    assert_code(&exported, 0);
    let stderr = text(&exported.stderr);
    for expected in [
        "1 line is no event",
        "1 event is missing",
        "the last line is cut off",
    ] {
        assert!(stderr.contains(expected), "{stderr}");
    }
    let database = open(data.path());
    let mut types = BTreeMap::new();
    for row in rows(&database, "SELECT type, count(*) FROM events GROUP BY type") {
        let (kind, count) = row.split_once('|').unwrap();
        types.insert(kind.to_owned(), count.parse().unwrap());
    }
    assert_eq!(types, counted(&[&old, &new, &torn, &foreign]));
    assert_eq!(
        rows(
            &database,
            "SELECT execution_id, label, missing, damaged, events FROM runs"
        ),
        ["a@1|a|0|0|32", "b@2|b|1|1|15", "x|-|0|0|2", "y|-|0|0|1"]
    );
    assert_eq!(
        rows(
            &database,
            "SELECT execution_id FROM lines_text JOIN lines ON lines.id = lines_text.rowid \
            JOIN runs ON runs.id = lines.run WHERE lines_text MATCH 'boom OR two OR three' ORDER BY lines.id"
        ),
        ["a@1", "a@1", "b@2", "y", "x"]
    );
    for sql in [
        "SELECT count(*) FROM events JOIN runs ON runs.id = run WHERE events.id < first_event",
        "SELECT sum(events) - (SELECT count(*) FROM events) FROM runs",
        "SELECT sum(lines) - (SELECT count(*) FROM texts) FROM runs",
    ] {
        assert_eq!(one::<i64>(&database, sql), 0, "{sql}");
    }
}

#[test]
fn a_span_of_time_is_exported() {
    let data = tempfile::tempdir().unwrap();
    write_run(
        data.path(),
        "a@1",
        "a",
        &[("events.jsonl", lines("a@1", 1, &events()))],
    );
    let span = [
        "--since",
        "2026-01-21T10:00:03Z",
        "--until",
        "2026-01-21T10:00:06Z",
    ];
    assert_code(&export(data.path(), &span), 0);
    let database = open(data.path());
    assert_eq!(rows(&database, "SELECT seq FROM events"), ["3", "4", "5"]);
    assert_eq!(rows(&database, "SELECT missing, events FROM runs"), ["0|3"]);
    let empty = export(data.path(), &["--since", "1h", "--until", "2h"]);
    assert_refused(&empty, "the time span is empty");
}

#[test]
fn only_regular_files_are_replaced() {
    let data = tempfile::tempdir().unwrap();
    write_run(
        data.path(),
        "a@1",
        "a",
        &[("events.jsonl", lines("a@1", 1, &events()))],
    );
    let file = data.path().join("history.db");
    fs::create_dir(&file).unwrap();
    assert_refused(&export(data.path(), &[]), "is not a regular file");
    fs::remove_dir(&file).unwrap();

    // A link stays, and its target is replaced.
    let target = data.path().join("target.db");
    fs::write(&target, "old").unwrap();
    std::os::unix::fs::symlink(&target, &file).unwrap();
    assert_code(&export(data.path(), &[]), 0);
    assert!(file.symlink_metadata().unwrap().is_symlink());
    assert_eq!(
        one::<i64>(&open(data.path()), "SELECT count(*) FROM events"),
        16
    );
    assert!(fs::read(&target).unwrap().starts_with(b"SQLite format 3\0"));
}

#[test]
fn no_runs_are_an_empty_database() {
    let data = tempfile::tempdir().unwrap();
    let exported = export(data.path(), &[]);
    assert_code(&exported, 0);
    assert!(text(&exported.stderr).contains("there are no runs yet"));
    assert_eq!(
        one::<i64>(&open(data.path()), "SELECT count(*) FROM runs"),
        0
    );
}

#[test]
fn what_cannot_be_read_is_reported_and_the_rest_is_exported() {
    let data = tempfile::tempdir().unwrap();
    let (old, new) = (lines("a@1", 1, &events()), lines("a@1", 17, &events()));
    let closed = ("events.000001.jsonl.gz", old);
    write_run(data.path(), "a@1", "a", &[closed, ("events.jsonl", new)]);
    let path = data.path().join("runs/a@1/events.000001.jsonl.gz");
    let packed = fs::read(&path).unwrap();
    fs::write(&path, &packed[..packed.len() / 2]).unwrap();
    write_run(
        data.path(),
        "b@2",
        "b",
        &[("events.jsonl", lines("b@2", 1, &events()))],
    );

    let exported = export(data.path(), &[]);
    assert_code(&exported, 1);
    let stderr = text(&exported.stderr);
    assert!(stderr.contains("events.000001.jsonl.gz"), "{stderr}");
    let database = open(data.path());
    let shown = "SELECT execution_id, events + missing, missing > 0, unreadable FROM runs";
    assert_eq!(rows(&database, shown), ["a@1|32|1|1", "b@2|16|0|0"]);
}
