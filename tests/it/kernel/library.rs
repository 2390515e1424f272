//! Kernels as jobs of an engine: code, notebooks and listening as events of a run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use td_observe::kernel::{ConnectionInfo, Kernel, KernelTask, Notebook};
use td_observe::{Builder, Subscription, TdEvent};

use super::fake::{Fake, Manners};
use super::{KernelHome, python};
use crate::support::CEILING;

/// Returns a short description of each event of cells until the bus is closed.
fn cells(mut events: Subscription) -> Vec<String> {
    let mut seen = Vec::new();
    while let Ok(delivery) = events.recv_timeout(CEILING) {
        let Some(envelope) = delivery.into_envelope() else {
            continue;
        };
        match envelope.event {
            TdEvent::ExecutionStarted { command, cell, .. } => {
                seen.push(format!("{} {command}", cell.unwrap()));
            }
            TdEvent::ExecutionOutput { text, .. } => seen.push(text),
            TdEvent::ExecutionCompleted {
                exit_code, cell, ..
            } => seen.push(format!("{} ended {}", cell.unwrap(), exit_code.unwrap())),
            _ => {}
        }
    }
    seen
}

#[test]
fn code_runs_as_cells_of_a_run() {
    let fake = Fake::start(Manners {
        execute: Box::new(|answer| {
            answer.print("hello\n");
            answer.end();
        }),
        ..Manners::default()
    });
    let mut engine = Builder::new().start().unwrap();
    let events = engine.subscribe();
    let info = ConnectionInfo::read(fake.file()).unwrap();
    let task = KernelTask::connect(info)
        .execution_id("sums")
        .code("1 + 1")
        .code("2 + 2");
    let job = engine.run_kernel(task).unwrap();
    assert_eq!(job.execution_id().unwrap().as_str(), "sums");
    assert!(!job.wait().unwrap().has_failed);
    assert!(engine.shutdown().is_clean());
    let expected = [
        "1 1 + 1",
        "hello\n",
        "1 ended 0",
        "2 2 + 2",
        "hello\n",
        "2 ended 0",
    ];
    assert_eq!(cells(events), expected);
}

#[test]
fn a_notebook_runs_and_others_are_listened_to() {
    let Some(python) = python() else { return };
    let home = KernelHome::new(python);
    let code = |source: &str| json!({ "cell_type": "code", "metadata": {}, "source": source, "outputs": [] });
    let cells_ = [
        code("x = 21"),
        code("print(x)"),
        code("input('? ')"),
        code("1/0"),
        code("2 * x"),
    ];
    let text = json!({ "nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells_ });
    let notebook = Notebook::read(&text.to_string()).unwrap();
    let copies = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&copies);
    let mut engine = Builder::new().data_dir(home.data()).start().unwrap();
    let events = engine.subscribe();
    let task = KernelTask::start(home.find())
        .notebook(notebook, move |copy| {
            into.lock().unwrap().push(copy.text().unwrap());
            Ok(())
        })
        .on_question(|question, _| Some(format!("to {}", question.prompt)))
        .allow_errors();
    let outcome = engine.run_kernel(task).unwrap().wait().unwrap();
    assert!(!outcome.has_failed, "{outcome:?}");
    let copies = copies.lock().unwrap();
    assert_eq!(copies.len(), 5);
    let last: Value = serde_json::from_str(copies.last().unwrap()).unwrap();
    assert_eq!(last["cells"][1]["outputs"][0]["text"], json!(["21\n"]));
    assert_eq!(last["cells"][4]["outputs"][0]["data"]["text/plain"], "42");
    let first: Value = serde_json::from_str(&copies[0]).unwrap();
    assert_eq!(first["cells"][4]["outputs"], json!([]));

    // Another client's code, seen by a listener on the same kernel.
    let (sender, connected) = std::sync::mpsc::channel();
    let listening = KernelTask::start(home.find()).on_connected(move |file| {
        sender.send(file.unwrap().to_owned()).unwrap();
    });
    let listener = engine.run_kernel(listening).unwrap();
    let file = connected.recv_timeout(CEILING).unwrap();
    listener.execution_id().unwrap();
    let mut other = Kernel::connect(&ConnectionInfo::read(&file).unwrap()).unwrap();
    other
        .execute("print('of another client')", |_, _| {})
        .unwrap();
    // The listener has the end of the cell when it has the output of the next one.
    let mut live = engine.subscribe_filtered(|e| e.type_name() == "ExecutionCompleted");
    other.execute("3", |_, _| {}).unwrap();
    live.recv_timeout(CEILING).unwrap();
    drop(other);
    assert!(engine.shutdown().is_clean());
    let mut listener = listener;
    assert!(listener.wait_timeout(Duration::ZERO).is_ok());
    let seen = cells(events);
    for part in [
        "2 print(x)",
        "21\n",
        "? to ? \n",
        "4 ended 1",
        "of another client\n",
    ] {
        // What follows at once may be in the same event.
        let is_seen = seen.iter().any(|one| one.starts_with(part));
        assert!(is_seen, "{part:?}: {seen:#?}");
    }
}
