//! The JSON Schema describes every recorded event and no other; an independent validator agrees.

mod structure;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use serde_json::{Value, json};
use td_observe::EventKind;

use crate::recordings::files_below;
use crate::wire::{all_samples, line_of};
pub use structure::Structure;

/// Checks a line of a stream or of a log against the schema, strictly: every field must be in the table.
pub fn check(line: &Value) -> Result<(), String> {
    static STRICT: OnceLock<Structure> = OnceLock::new();
    STRICT.get_or_init(Structure::strict).check(line)
}

/// Checks a row of the board, strictly.
pub fn check_row(row: &Value) -> Result<(), String> {
    Structure::strict().check_as("BoardRow", row)
}

/// Checks the rows of a board, strictly.
pub fn check_board(rows: &Value) -> Result<(), String> {
    Structure::strict().check_as("Board", rows)
}

/// Rows that no version prints.
fn wrong_rows(row: &Value) -> Vec<Value> {
    let with = |name: &str, value: Value| {
        let mut row = row.clone();
        row[name] = value;
        row
    };
    let mut without = row.clone();
    without.as_object_mut().unwrap().remove("since");
    vec![
        without,
        with("turns", json!(-1)),
        with("since", Value::Null),
        with("name", json!(7)),
        with("exit_status", json!("3")),
        with("attention", json!(1)),
    ]
}

/// The lines of the wire contract: each event with and without its optional fields, and those of streams.
fn wire_lines() -> Vec<Value> {
    let mut lines: Vec<Value> = all_samples()
        .map(|event| {
            let mut line: Value = serde_json::from_str(&line_of(Some(7), &event)).unwrap();
            // Their evidence and reasons are placeholders that no version knows.
            for (field, known) in [("evidence", "confirmed"), ("reason", "closed")] {
                let kind = line["event"]["type"].as_str().unwrap().to_owned();
                let is_open = matches!(
                    (field, kind.as_str()),
                    ("evidence", "AgentState") | ("reason", "PaneClosed")
                );
                if is_open {
                    line["event"][field] = json!(known);
                }
            }
            line
        })
        .collect();
    let ts = "2026-01-21T10:00:01.123456Z";
    for event in [
        json!({"type": "StreamOpened", "schema": 1, "version": "0.1.0"}),
        json!({"type": "Lagged", "missed": 7}),
    ] {
        lines.push(json!({"seq": null, "ts": ts, "event": event}));
    }
    lines.push(json!({"seq": 3, "ts": ts, "n": 2, "event": {
        "type": "ExecutionOutput", "execution_id": "x", "stream": "stderr", "text": "t"}}));
    lines
}

/// Lines that no version writes, each with its fault.
fn wrong_lines() -> Vec<(&'static str, Value)> {
    let started = json!({"seq": 1, "ts": "2026-01-21T10:00:01.123456Z",
        "event": {"type": "IterationStarted", "execution_id": "x", "iteration": 1}});
    let with = |pointer: &str, value: Value| {
        let mut line = started.clone();
        match pointer.rsplit_once('/').unwrap() {
            ("", name) => line[name] = value,
            (object, name) => line.pointer_mut(object).unwrap()[name] = value,
        }
        line
    };
    let without = |pointer: &str| {
        let mut line = started.clone();
        let (object, name) = pointer.rsplit_once('/').unwrap();
        line.pointer_mut(object)
            .unwrap()
            .as_object_mut()
            .unwrap()
            .remove(name);
        line
    };
    vec![
        ("a number that is text", with("/seq", json!("1"))),
        ("a number below 0", with("/seq", json!(-1))),
        ("no time", without("/ts")),
        ("no event", without("/event")),
        ("no type", without("/event/type")),
        ("no execution", without("/event/execution_id")),
        ("no iteration", without("/event/iteration")),
        (
            "an iteration beyond 32 bits",
            with("/event/iteration", json!(5_000_000_000_u64)),
        ),
        (
            "a field that is null",
            with("/event/iteration", Value::Null),
        ),
        ("n of 0", with("/n", json!(0))),
    ]
}

#[test]
fn the_schema_describes_each_event_of_the_wire_contract() {
    let lenient = Structure::lenient();
    let mut kinds = BTreeSet::new();
    for line in wire_lines() {
        check(&line).unwrap_or_else(|why| panic!("{why}: {line}"));
        lenient
            .check(&line)
            .unwrap_or_else(|why| panic!("{why}: {line}"));
        kinds.insert(line["event"]["type"].as_str().unwrap().to_owned());
    }
    for kind in EventKind::ALL {
        assert!(kinds.contains(kind.as_str()), "{kind:?}");
    }
    for (what, line) in wrong_lines() {
        assert!(lenient.check(&line).is_err(), "{what}: {line}");
    }
    // Later versions add fields, types and names.
    let later = json!({"seq": 1, "ts": "2026-01-21T10:00:01Z", "new": 1, "event": {
        "type": "SessionEnded", "execution_id": "x", "session": "s", "reason": "eclipsed", "new": {}}});
    lenient.check(&later).unwrap();
    assert!(check(&later).is_err());
    let other =
        json!({"ts": "2026-01-21T10:00:01Z", "event": {"type": "BuildQueued", "position": 3}});
    lenient.check(&other).unwrap();
    assert!(check(&other).is_err());
}

#[test]
fn the_schema_describes_the_examples_of_the_documentation() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut examples = 0;
    let chapters = files_below(&root.join("src/guide"));
    for path in chapters.into_iter().chain([root.join("README.md")]) {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|line| line.starts_with("{\"seq\":"));
        for line in lines {
            let line: Value = serde_json::from_str(line).unwrap();
            check(&line).unwrap_or_else(|why| panic!("{path:?}: {why}: {line}"));
            examples += 1;
        }
    }
    assert!(examples >= 2, "{examples}");
}

#[test]
fn the_guide_has_the_events_of_the_table_with_their_fields() {
    let schema = td_observe::board::json_schema();
    let mut documented = BTreeSet::new();
    for row in include_str!("../../../src/guide/events.md").lines() {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, names, fields, _, _] = cells.as_slice() else {
            continue;
        };
        for name in names.split(", ").map(|name| name.trim_matches('`')) {
            let event = &schema["$defs"][name];
            if !event.is_object() {
                continue;
            }
            let required: Vec<&str> = event["required"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_str)
                .collect();
            let mut expected: BTreeSet<String> = event["properties"]
                .as_object()
                .unwrap()
                .keys()
                .filter(|field| !matches!(field.as_str(), "type" | "execution_id"))
                .map(|field| {
                    if required.contains(&field.as_str()) {
                        field.clone()
                    } else {
                        format!("{field}?")
                    }
                })
                .collect();
            // Older logs lack this field; this version always writes it.
            if name == "OutputGap" {
                expected.remove("evidence?");
                expected.insert("evidence".to_owned());
            }
            let fields: BTreeSet<String> = fields
                .split(", ")
                .map(|field| field.trim_matches('`').to_owned())
                .collect();
            assert_eq!(fields, expected, "{name} in src/guide/events.md");
            documented.insert(name.to_owned());
        }
    }
    let defined = schema["$defs"].as_object().unwrap().keys();
    let defined: BTreeSet<String> = defined
        .filter(|name| {
            !matches!(
                name.as_str(),
                "Envelope" | "Event" | "OtherEvent" | "BoardRow" | "Board"
            )
        })
        .cloned()
        .collect();
    assert_eq!(documented, defined);
}

/// Validates lines from standard input with the package `jsonschema`, as rows of the board if they are no
/// envelopes. Prints the number of each refused line.
const VALIDATOR: &str = r##"
import json, sys, jsonschema
schema = json.load(open(sys.argv[1]))
jsonschema.Draft202012Validator.check_schema(schema)
def of(schema):
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
envelope = of(schema)
row = of({"$ref": "#/$defs/BoardRow", "$defs": schema["$defs"]})
for number, line in enumerate(sys.stdin):
    value = json.loads(line)
    if not (row if "attention" in value else envelope).is_valid(value):
        print(number)
"##;

/// Returns a Python with the package `jsonschema`: `$TD_TEST_PYTHON`, or `python3`.
fn python() -> Option<String> {
    let named = std::env::var("TD_TEST_PYTHON").ok();
    let has_package = |python: &String| {
        let output = Command::new(python)
            .args(["-c", "import jsonschema"])
            .output();
        output.is_ok_and(|output| output.status.success())
    };
    let usual = ["python3", "/tmp/td-observe-venv/bin/python"].map(str::to_owned);
    named.into_iter().chain(usual).find(has_package)
}

#[cfg(feature = "cli")]
#[test]
fn an_independent_validator_agrees() {
    let Some(python) = python() else {
        eprintln!(
            "\n*** NOT CHECKED: the schema against an independent validator. Run\n\
             ***   python3 -m venv /tmp/td-observe-venv && /tmp/td-observe-venv/bin/pip install jsonschema\n\
             *** or name a Python that has the package with TD_TEST_PYTHON.\n"
        );
        return;
    };
    let temp = tempfile::tempdir().unwrap();
    let schema = temp.path().join("schema.json");
    let printed = crate::cli::run(&["schema"], temp.path());
    crate::cli::assert_code(&printed, 0);
    assert_eq!(
        serde_json::from_slice::<Value>(&printed.stdout).unwrap(),
        td_observe::board::json_schema()
    );
    fs::write(&schema, &printed.stdout).unwrap();
    let mut lines = wire_lines();
    lines.extend(streams(temp.path()));
    let rows = crate::observer::real_rows(temp.path());
    lines.extend(rows.iter().cloned());
    let good = lines.len();
    lines.extend(wrong_lines().into_iter().map(|(_, line)| line));
    lines.extend(wrong_rows(&rows[0]));
    let input = temp.path().join("lines");
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs::write(&input, text.join("\n")).unwrap();
    let output = Command::new(python)
        .args(["-c", VALIDATOR])
        .arg(&schema)
        .stdin(fs::File::open(&input).unwrap())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let refused = String::from_utf8(output.stdout).unwrap();
    let refused: Vec<usize> = refused.lines().map(|line| line.parse().unwrap()).collect();
    let first = refused.first().map(|number| &lines[*number]);
    assert_eq!(
        refused,
        (good..lines.len()).collect::<Vec<_>>(),
        "{first:?}"
    );
}

/// Returns the streams of all commands that print envelopes, from real panes, commands, loops and agents.
#[cfg(feature = "cli")]
fn streams(data: &Path) -> Vec<Value> {
    use crate::cli::{Running, after_opening, on, program, run};
    let server = crate::support::TmuxServer::new();
    server.new_session("job", 80, 24, "exec sh");
    let socket = server.socket().display().to_string();
    let mut watch = Running::start(program(&on(&socket, &["watch", "--json"]), data));
    watch.wait_for("PaneOpened");
    for (typed, seen) in [
        (r"printf 'one\r\ntwo\n'; false", r#"two\n"#),
        (
            "tput smcup; echo full; sleep 0.3; tput rmcup; echo back",
            "back",
        ),
        ("exit 3", "PaneClosed"),
    ] {
        server.tmux(&["send-keys", "-t", "=job:", typed, "Enter"]);
        watch.wait_for(seen);
    }
    watch.signal(rustix::process::Signal::INT);
    let tasks = data.join("tasks.jsonl");
    fs::write(
        &tasks,
        "{\"type\":\"turn.failed\",\"error\":{\"message\":\"no\"}}\n",
    )
    .unwrap();
    let outputs = [
        watch.end(),
        run(
            &[
                "run",
                "--json",
                "--execution-id",
                "it",
                "--",
                "sh",
                "-c",
                "echo a; echo b >&2; exit 3",
            ],
            data,
        ),
        run(&["log", "it", "--json", "--follow"], data),
        run(
            &[
                "loop",
                "--json",
                "--task",
                "t",
                "--as",
                "text",
                "--agent",
                "cat",
                "--check",
                "echo no; exit 1",
                "--max-iterations",
                "2",
            ],
            data,
        ),
        run(&["agents", "--json", tasks.to_str().unwrap()], data),
    ];
    let mut lines = Vec::new();
    for output in outputs {
        after_opening(&output.stdout);
        let text = String::from_utf8(output.stdout).unwrap();
        lines.extend(
            text.lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap()),
        );
    }
    // The logs have their own first lines.
    for path in files_below(&data.join("runs")) {
        if path.file_name().is_some_and(|name| name == "events.jsonl") {
            let text = fs::read_to_string(path).unwrap();
            lines.extend(
                text.lines()
                    .map(|line| serde_json::from_str::<Value>(line).unwrap()),
            );
        }
    }
    for line in &lines {
        check(line).unwrap_or_else(|why| panic!("{why}: {line}"));
    }
    lines
}
