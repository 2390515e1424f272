//! What may be in a report: no secret and no control sequence in any format, no text with `--metadata-only`, and
//! hostile text only as text.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use td_observe::Timestamp;

use super::night::night;
use super::script::{Script, at};
use crate::cli::{assert_code, program, run, text};
use crate::support::{CEILING, peer, wait_for};
use crate::wire::{all_samples, line_of};

/// The ways to print a report, and its page.
const FORMATS: [&[&str]; 3] = [&["--json"], &["--markdown"], &["--color", "always"]];

/// Replaces every text of an event but its type, its times and what it belongs to.
fn replaced(value: &mut Value, with: &str) {
    match value {
        Value::String(text) if text.parse::<Timestamp>().is_err() => *text = with.to_owned(),
        Value::Array(values) => values.iter_mut().for_each(|value| replaced(value, with)),
        Value::Object(fields) => {
            for (name, value) in fields {
                if !matches!(name.as_str(), "type" | "execution_id" | "pane") {
                    replaced(value, with);
                }
            }
        }
        _ => {}
    }
}

/// Writes runs with every event, once as it is and once with this text in every field, in which the names of the
/// executions have it, too.
fn write_everywhere(data: &Path, with: &str) {
    for (kind, pane) in [("tmux", Some("%7")), ("process", None), ("loop", None)] {
        let mut script = Script::new(&format!("{with} {kind}@1"), kind);
        let mut second = 700.0;
        for event in all_samples() {
            let line: Value = serde_json::from_str(&line_of(Some(1), &event)).unwrap();
            if line["event"]["type"] == "LogOpened" {
                continue;
            }
            for text in [None, Some(with)] {
                let mut fields = line["event"].clone();
                if let Some(text) = text {
                    replaced(&mut fields, text);
                }
                if let (Some(pane), true) = (pane, fields["pane"].is_string()) {
                    fields["pane"] = json!(pane);
                }
                let kind = fields["type"].as_str().unwrap().to_owned();
                second += 1.0;
                script.add(second, &kind, fields);
            }
        }
        script.write(data);
    }
}

fn span_of_night() -> [String; 4] {
    let (since, until) = (at(0.0).to_string(), at(40_000.0).to_string());
    ["--since".to_owned(), since, "--until".to_owned(), until]
}

/// Returns the report in every format, the page last.
fn in_all_formats(data: &Path, more: &[&str]) -> Vec<String> {
    let span = span_of_night();
    let span: Vec<&str> = span.iter().map(String::as_str).collect();
    let mut printed = Vec::new();
    for format in FORMATS {
        let args = [&["report"], &span[..], format, more].concat();
        let output = run(&args, data);
        assert_code(&output, 0);
        assert_eq!(text(&output.stderr), "", "{format:?}");
        printed.push(text(&output.stdout));
    }
    let page = data.join("page.html");
    let args = [
        &["report"],
        &span[..],
        &["--html", page.to_str().unwrap()],
        more,
    ]
    .concat();
    let output = run(&args, data);
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout), "");
    printed.push(fs::read_to_string(page).unwrap());
    printed
}

#[test]
fn metadata_only_has_no_text_of_any_field() {
    let temp = tempfile::tempdir().unwrap();
    write_everywhere(temp.path(), "CANARY");
    for printed in in_all_formats(temp.path(), &["--metadata-only"]) {
        assert!(!printed.contains("CANARY"), "{printed}");
        // Nor a text of the samples themselves, which are in the report without the option.
        assert!(!printed.contains("cargo"), "{printed}");
    }
    for printed in in_all_formats(temp.path(), &[]) {
        assert!(printed.contains("CANARY"), "{printed}");
    }
}

#[test]
fn no_secret_passes_in_any_format() {
    let temp = tempfile::tempdir().unwrap();
    // As an old log, or one of another program, may have it.
    let secret = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
    write_everywhere(temp.path(), &format!("token {secret}"));
    for printed in in_all_formats(temp.path(), &[]) {
        assert!(!printed.contains("a1B2c3D4e5"), "{printed}");
        assert!(printed.contains("redacted"), "{printed}");
    }
}

#[test]
fn a_secret_over_several_lines_does_not_pass() {
    let temp = tempfile::tempdir().unwrap();
    let mut script = Script::new("key@1", "process");
    script.add(
        700.0,
        "ExecutionStarted",
        json!({"command": "show", "cwd": "/"}),
    );
    let mut print = |second: f64, text: &str| {
        script.add(
            second,
            "ExecutionOutput",
            json!({"stream": "stdout", "text": text}),
        );
    };
    print(701.0, "-----BEGIN OPENSSH PRIVATE KEY-----\n");
    for line in 0..40 {
        print(
            702.0 + f64::from(line),
            "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n",
        );
    }
    script.add(
        760.0,
        "ExecutionCompleted",
        json!({"exit_code": 1, "duration_ms": 60_000}),
    );
    script.ends("failed", Some(1));
    script.write(temp.path());
    for printed in in_all_formats(temp.path(), &[]) {
        assert!(printed.contains("exit code 1"), "{printed}");
        assert!(!printed.contains("b3BlbnNzaC1r"), "{printed}");
    }
}

#[test]
fn hostile_text_is_text() {
    let temp = tempfile::tempdir().unwrap();
    let hostile = "<img src=x onerror=alert(1)>\u{1b}[2J\u{202e}[a](javascript:alert(1))\u{7}\"'><script>alert(2)</script>";
    write_everywhere(temp.path(), hostile);
    let printed = in_all_formats(temp.path(), &[]);
    let [_, markdown, terminal, page] = &printed[..] else {
        panic!("four formats");
    };
    for printed in [markdown, page] {
        assert!(
            !printed.contains(['\u{1b}', '\u{7}', '\u{202e}']),
            "{printed}"
        );
    }
    assert!(!terminal.contains("\u{1b}[2J") && !terminal.contains(['\u{7}', '\u{202e}']));
    for markup in ["<img", "<script", "onerror=alert(1)>\u{1b}"] {
        assert!(!page.contains(markup), "{markup}");
    }
    assert!(
        page.contains("&lt;img src=x onerror=alert(1)&gt;"),
        "{page}"
    );
    assert!(page.contains("default-src 'none'"), "{page}");
    assert!(
        markdown.contains(r"\<img src=x onerror=alert(1)\>"),
        "{markdown}"
    );
    assert!(
        markdown.contains(r"\[a\](javascript:alert(1))"),
        "{markdown}"
    );
}

#[test]
fn every_line_fits_the_terminal() {
    let temp = tempfile::tempdir().unwrap();
    for script in night() {
        script.write(temp.path());
    }
    let span = span_of_night();
    let span: Vec<&str> = span.iter().map(String::as_str).collect();
    let output = run(
        &[&["report"], &span[..], &["--color", "never"]].concat(),
        temp.path(),
    );
    let printed = text(&output.stdout);
    for line in printed.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for words in [
        "NEEDS YOU",
        "agent-2: ",
        "rm -rf build?",
        "all checks passed",
    ] {
        assert!(printed.contains(words), "{words}: {printed}");
    }
    assert!(!printed.contains('\u{1b}'), "{printed}");
}

#[test]
fn the_json_is_an_instance_of_its_schema() {
    let temp = tempfile::tempdir().unwrap();
    for script in night() {
        script.write(temp.path());
    }
    write_everywhere(temp.path(), "text");
    let output = run(&["schema", "report"], temp.path());
    assert_code(&output, 0);
    let schema: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    for more in [&[][..], &["--metadata-only"]] {
        let report = in_all_formats(temp.path(), more).swap_remove(0);
        let value: Value = serde_json::from_str(&report).unwrap();
        check_fields(&schema, &value, "report");
        check_by_jsonschema(&schema, &value);
    }
}

/// Checks that the schema and a value have the same fields, at every depth.
#[track_caller]
fn check_fields(schema: &Value, value: &Value, place: &str) {
    if let Some(any) = schema["anyOf"].as_array() {
        if !value.is_null() {
            check_fields(&any[0], value, place);
        }
        return;
    }
    if let Some(items) = schema.get("items") {
        for item in value.as_array().unwrap() {
            check_fields(items, item, &format!("{place}[]"));
        }
    }
    if let Some(properties) = schema["properties"].as_object() {
        let known: Vec<&String> = properties.keys().collect();
        let there: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert_eq!(known, there, "{place}");
        for (name, schema) in properties {
            check_fields(schema, &value[name], &format!("{place}.{name}"));
        }
    }
}

/// Checks a value with Python's validator, where `.ci/peers` has fetched it.
fn check_by_jsonschema(schema: &Value, value: &Value) {
    let Some(python) = peer("mcp-2/bin/python") else {
        return;
    };
    let temp = tempfile::tempdir().unwrap();
    let (schema_path, value_path) = (temp.path().join("schema"), temp.path().join("value"));
    fs::write(&schema_path, schema.to_string()).unwrap();
    fs::write(&value_path, value.to_string()).unwrap();
    let code = "import json,sys,jsonschema\n\
        schema, value = (json.load(open(path)) for path in sys.argv[1:])\n\
        jsonschema.Draft202012Validator.check_schema(schema)\n\
        jsonschema.Draft202012Validator(schema).validate(value)\n";
    let output = Command::new(python)
        .args(["-c", code])
        .args([schema_path, value_path])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_night_without_an_event_is_one_line() {
    let temp = tempfile::tempdir().unwrap();
    for format in [&[][..], &["--markdown"]] {
        let output = run(
            &[&["report", "--since", "1h"], format].concat(),
            temp.path(),
        );
        assert_code(&output, 0);
        let printed = text(&output.stdout);
        assert_eq!(printed.lines().count(), 1, "{printed}");
        assert!(printed.contains("nothing was observed"), "{printed}");
    }
    let script = &night()[0];
    script.write(temp.path());
    let output = run(&["report", "agent-0", "--since", "1h"], temp.path());
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout).lines().count(), 1);
}

#[test]
fn a_report_that_is_interrupted_fails() {
    let temp = tempfile::tempdir().unwrap();
    let mut script = Script::new("long@1", "tmux");
    for second in 0..400_000 {
        script.add(
            f64::from(second) / 20.0,
            "TurnCompleted",
            json!({"pane": "%1", "marker": "", "summary": "s"}),
        );
    }
    script.write(temp.path());
    let span = span_of_night();
    let mut command = program(&["report"], temp.path());
    let mut child = command
        .args(span)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    // Signals are caught before the first thread that reads begins.
    let tasks = format!("/proc/{}/task", child.id());
    wait_for("a thread that reads", CEILING, || {
        let tasks = fs::read_dir(&tasks).map_err(|error| error.to_string())?;
        let names = tasks
            .flatten()
            .map(|task| fs::read_to_string(task.path().join("comm")));
        let names: Vec<String> = names.flatten().collect();
        let reads = names.iter().any(|name| name.starts_with("td-report-"));
        if reads {
            Ok(())
        } else {
            Err(format!("{names:?}"))
        }
    });
    kill_process(pid, Signal::INT).unwrap();
    let status = child.wait().unwrap();
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted"), "{said}");
}

#[test]
fn a_page_replaces_a_file_at_once_and_only_its_owner_reads_it() {
    let temp = tempfile::tempdir().unwrap();
    let page = temp.path().join("page.html");
    fs::write(&page, "before").unwrap();
    fs::set_permissions(&page, fs::Permissions::from_mode(0o644)).unwrap();
    let before = fs::File::open(&page).unwrap();
    let output = run(&["report", "--html", page.to_str().unwrap()], temp.path());
    assert_code(&output, 0);
    let mode = fs::metadata(&page).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(
        fs::read_to_string(&page)
            .unwrap()
            .starts_with("<!DOCTYPE html>")
    );
    // Who reads the file before goes on with it.
    assert_eq!(std::io::read_to_string(before).unwrap(), "before");
    let entries: Vec<_> = fs::read_dir(temp.path()).unwrap().collect();
    assert_eq!(entries.len(), 1, "{entries:?}");
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let temp = tempfile::tempdir().unwrap();
    let night = temp.path().join("missing/page.html");
    for (args, words) in [
        (vec!["--since", "soon"], "write a time as"),
        (
            vec!["--since", "1h", "--until", "2h"],
            "--since is not before --until",
        ),
        (vec!["nothing-like-it"], "nothing-like-it"),
        (
            vec!["--html", night.to_str().unwrap()],
            "--html: cannot write",
        ),
        (vec!["--html", "/dev/null"], "it is not a regular file"),
        (vec!["--html", "a", "--markdown"], "--markdown"),
        (vec!["--html", "a", "--json"], "--json"),
    ] {
        let output = run(&[&["report"], &args[..]].concat(), temp.path());
        assert_code(&output, 2);
        let said = text(&output.stderr);
        assert!(
            said.contains(words) && said.lines().count() == 1,
            "{args:?}: {said}"
        );
    }
}
