//! Notebooks: cell by cell, with the outputs that Jupyter's own client stores.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{KernelHome, has, jupyter, python};
use crate::cli::{Running, assert_code, text};

/// Runs a notebook with nbclient, as JSON.
const REFERENCE: &str = "
import sys, json, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], 4)
client = NotebookClient(notebook, timeout=60, allow_errors=True, kernel_name='python3',
    store_widget_state=False, coalesce_streams=True, skip_cells_with_tag='skip-execution')
client.execute()
print(json.dumps(notebook))
";

/// Notebooks that test something else, or print the time.
const LEFT_OUT: &[&str] = &[
    "Autokill",
    "Interrupt",
    "JupyterWidgets",
    "Parallel Execute A",
    "Parallel Execute B",
    "Check History in Memory",
    "Sleep1s",
];

fn code(source: &str) -> Value {
    json!({ "cell_type": "code", "metadata": {}, "source": source, "outputs": [{"old": 1}], "execution_count": 9 })
}

fn notebook(cells: &[Value]) -> String {
    json!({ "nbformat": 4, "nbformat_minor": 5, "metadata": {"kept": true}, "cells": cells })
        .to_string()
}

#[test]
fn cells_are_executions_and_a_copy_gets_their_outputs() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    let markdown = json!({ "cell_type": "markdown", "metadata": {}, "source": ["# a\n", "b"] });
    let cells = [
        code("x = 20 + 1\nprint(x)"),
        markdown.clone(),
        code("  "),
        code("2 * x"),
        code("1/0"),
        code("print('never')"),
    ];
    let path = home.directory.path().join("sums.ipynb");
    let original = notebook(&cells);
    fs::write(&path, &original).unwrap();
    let output = Running::start(home.on_new(&["--json", "sums.ipynb", "--save"])).end();
    assert_code(&output, 1);
    let events: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["event"].clone())
        .collect();
    let ends: Vec<(Value, Value)> = events
        .iter()
        .filter(|event| event["type"] == "ExecutionCompleted")
        .map(|event| (event["cell"].clone(), event["exit_code"].clone()))
        .collect();
    assert_eq!(
        ends,
        [
            (1.into(), 0.into()),
            (3.into(), 0.into()),
            (4.into(), 1.into())
        ]
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), original);
    let copy = fs::read_to_string(home.directory.path().join("sums.executed.ipynb")).unwrap();
    let copy: Value = serde_json::from_str(&copy).unwrap();
    assert_eq!(copy["metadata"], json!({"kept": true}));
    assert_eq!(copy["cells"][1], markdown);
    let outputs = |cell: usize| copy["cells"][cell]["outputs"].clone();
    assert_eq!(
        outputs(0),
        json!([{"output_type": "stream", "name": "stdout", "text": ["21\n"]}])
    );
    assert_eq!(outputs(3)[0]["data"]["text/plain"], "42");
    assert_eq!(outputs(4)[0]["ename"], "ZeroDivisionError");
    assert_eq!(outputs(5), json!([]));
    // The board has one row for the kernel, named after the notebook.
    let status = crate::cli::run(&["status", "--json"], &home.data());
    let row: Value = serde_json::from_str(text(&status.stdout).lines().next().unwrap()).unwrap();
    assert_eq!(
        (&row["kind"], &row["name"]),
        (&"kernel".into(), &"sums.ipynb".into())
    );
}

#[test]
fn a_file_that_is_no_notebook_is_refused() {
    let home = KernelHome::new(Path::new("/no/such/python"));
    for (text_of, words) in [
        ("{", "it is no notebook"),
        ("[]", "it is no JSON object"),
        ("{\"nbformat\": 3}", "format 3"),
        ("{\"nbformat\": 4}", "it has no cells"),
    ] {
        fs::write(home.directory.path().join("bad.ipynb"), text_of).unwrap();
        let output = Running::start(home.on_new(&["bad.ipynb"])).end();
        assert_code(&output, 2);
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains(words) && stderr.lines().count() == 1,
            "{stderr}"
        );
    }
    fs::write(home.directory.path().join("own.ipynb"), notebook(&[])).unwrap();
    let output = Running::start(home.on_new(&["own.ipynb", "--save", "own.ipynb"])).end();
    assert_code(&output, 2);
}

/// The notebooks of nbclient's own tests have the outputs that nbclient stores.
#[test]
fn notebooks_of_nbclient_have_the_same_outputs() {
    let Some(python) = python() else { return };
    let Some(directory) = jupyter()
        .map(|directory| directory.join("notebooks"))
        .filter(|directory| directory.is_dir())
    else {
        eprintln!("!!! the notebooks of nbclient are absent (.ci/jupyter fetches them): skipped");
        return;
    };
    if !has(python, "nbclient") {
        eprintln!("!!! nbclient is not installed: skipped");
        return;
    }
    let mut compared = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        if LEFT_OUT.contains(&name) {
            continue;
        }
        let home = KernelHome::new(python);
        let reference = Command::new(python)
            .args(["-c", REFERENCE])
            .arg(&path)
            .env("JUPYTER_PATH", home.directory.path())
            .env("JUPYTER_RUNTIME_DIR", home.runtime())
            .output()
            .unwrap();
        assert!(
            reference.status.success(),
            "{name}: {}",
            text(&reference.stderr)
        );
        let reference: Value = serde_json::from_slice(&reference.stdout).unwrap();
        let args = [
            "-q",
            "--no-log",
            "--allow-errors",
            path.to_str().unwrap(),
            "--save",
            "ours.ipynb",
        ];
        let output = Running::start(home.on_new(&args)).end();
        assert_code(&output, 0);
        let ours = fs::read_to_string(home.directory.path().join("ours.ipynb")).unwrap();
        let ours: Value = serde_json::from_str(&ours).unwrap();
        let cells = |of: &Value| -> Vec<Value> {
            let code = of["cells"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|cell| cell["cell_type"] == "code");
            code.map(|cell| json!([cell["execution_count"], outputs_of(cell)]))
                .collect()
        };
        assert_eq!(cells(&ours), cells(&reference), "{name}");
        compared += 1;
    }
    assert!(compared >= 10, "{compared} notebooks");
}

/// Returns the outputs in one form: texts as one string, tracebacks without colours.
fn outputs_of(cell: &Value) -> Value {
    let mut outputs = cell["outputs"].clone();
    for output in outputs.as_array_mut().unwrap() {
        for field in ["text", "traceback"] {
            if let Some(lines) = output[field].as_array() {
                output[field] = lines
                    .iter()
                    .map(|line| line.as_str().unwrap())
                    .collect::<String>()
                    .into();
            }
            if output[field].is_null() {
                output.as_object_mut().unwrap().remove(field);
            }
        }
        if let Some(traceback) = output["traceback"].as_str() {
            output["traceback"] = traceback.len().into();
        } else {
            output.as_object_mut().unwrap().remove("traceback");
        }
    }
    // Addresses of objects.
    let text = regex::Regex::new("0x[0-9a-f]{6,}")
        .unwrap()
        .replace_all(&outputs.to_string(), "0x")
        .into_owned();
    serde_json::from_str(&text).unwrap()
}
