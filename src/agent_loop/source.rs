//! A loop as a source of an engine: a thread runs it, and opens and closes its run.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::engine::LoopEngine;
use super::model::Cancel;
use super::progress::{LoopEnd, LoopOutcome};
use crate::error::{Error, Result};
use crate::history::{RunInfo, RunKind, RunState};
use crate::observe::{Job, JobHandle, RunName, Source, SourceContext};

/// Creates the job that runs a loop. `extra` is added to the metadata of the run.
pub(crate) fn loop_job(
    name: RunName,
    mut engine: LoopEngine,
    extra: Map<String, Value>,
) -> (impl Source, JobHandle<LoopOutcome, Cancel>) {
    let cancel = engine.cancel();
    let work = move |context: &SourceContext| {
        engine.clock = context.clock.clone();
        if !engine.directory.is_dir() {
            let error = Error::invalid("the working directory does not exist:");
            return Err(error.at(&engine.directory));
        }
        let info = RunInfo {
            kind: RunKind::Loop,
            label: "loop".to_owned(),
            identity: None,
            extra,
        };
        run(&mut engine, name, info, context)
    };
    Job::new("td-loop".to_owned(), cancel, work)
}

fn run(
    engine: &mut LoopEngine,
    name: RunName,
    info: RunInfo,
    context: &SourceContext,
) -> Result<LoopOutcome> {
    let opened = context.runs.open(name, info)?;
    let emitter = opened.emitter;
    let id = emitter.execution_id().clone();
    if engine.progress.iteration > 0 && opened.history.is_none() {
        context.runs.close(&id, RunState::Detached, None);
        return Err(Error::locked(format!(
            "another process continues the run {id}"
        )));
    }
    let stored = (Arc::clone(&context.runs), id.clone());
    // The shutdown of the engine cancels the loop.
    let (cancel, stop) = (engine.cancel(), context.stop.clone());
    let outcome = cancel.run_until("td-loop-stop", stop, || {
        engine.run_stored(Some(&emitter), Some(stored))
    })?;
    let (state, exit_status) = match &outcome.end {
        LoopEnd::Passed => (RunState::Completed, Some(0)),
        LoopEnd::Cancelled => (RunState::Detached, None),
        _ => (RunState::Failed, Some(1)),
    };
    context.runs.close(&id, state, exit_status);
    Ok(outcome)
}
