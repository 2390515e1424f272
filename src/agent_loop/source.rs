//! A loop as a source of an engine: a thread runs it, and opens and closes its run.

use std::sync::Arc;

use crossbeam_channel::select_biased;
use serde_json::{Map, Value};

use super::engine::LoopEngine;
use super::loop_reporter::LoopStore;
use super::model::Cancel;
use super::progress::{LoopEnd, LoopOutcome};
use crate::error::{Error, Result};
use crate::event::ExecutionId;
use crate::history::{IterationDirectory, RunInfo, RunKind, RunState};
use crate::observe::{Job, JobHandle, RunName, RunProvider, Source, SourceContext};
use crate::thread::{self, stop_pair};

/// Creates the job that runs a loop. `extra` is added to the metadata of the run.
pub(crate) fn loop_job(
    name: RunName,
    mut engine: LoopEngine,
    extra: Map<String, Value>,
) -> (impl Source, JobHandle<LoopOutcome, Cancel>) {
    let cancel = engine.cancel();
    let work = move |context: &SourceContext| {
        engine.clock = context.clock.clone();
        engine.check_directory()?;
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
    // The shutdown of the engine cancels the loop. The watcher ends with this call.
    let (guard, done) = stop_pair();
    let (stop, cancel) = (context.stop.clone(), engine.cancel());
    let watcher = thread::spawn("td-loop-stop", move || {
        select_biased! {
            recv(done) -> _ => {}
            recv(stop) -> _ => cancel.cancel(),
        }
    })?;
    let store = RunStore {
        runs: Arc::clone(&context.runs),
        id: id.clone(),
    };
    let outcome = engine.run_stored(Some(&emitter), Some(Arc::new(store)));
    drop(guard);
    // Nothing in this thread panics.
    let _ = watcher.join();
    let (state, exit_status) = match &outcome.end {
        LoopEnd::Passed => (RunState::Completed, Some(0)),
        LoopEnd::Cancelled => (RunState::Detached, None),
        _ => (RunState::Failed, Some(1)),
    };
    context.runs.close(&id, state, exit_status);
    Ok(outcome)
}

/// The run of a loop, stored by an engine.
struct RunStore {
    runs: Arc<dyn RunProvider>,
    id: ExecutionId,
}

impl LoopStore for RunStore {
    fn iteration(&self, iteration: u32) -> Option<Result<IterationDirectory>> {
        self.runs.create_iteration(&self.id, iteration)
    }

    fn add_metadata(&self, extra: Map<String, Value>) {
        self.runs.add_metadata(&self.id, extra);
    }
}
