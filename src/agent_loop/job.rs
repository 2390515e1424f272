//! A loop as a source: a thread runs it to its end, and its run is opened and closed with it.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};
use serde_json::{Map, Value};

use super::looping::{LoopEnd, LoopEngine, LoopOutcome};
use super::model::Cancel;
use super::record::Keep;
use crate::error::{Error, Result};
use crate::event::ExecutionId;
use crate::history::{IterationDirectory, RunInfo, RunState};
use crate::observe::{Context, RunName, Runs, Source};
use crate::thread::{self, stop_pair};

/// A loop that an engine runs; from [`Engine::run_loop`](crate::Engine::run_loop). Dropping it
/// changes nothing: the loop goes on until its end or the engine's.
#[derive(Debug)]
pub struct Looping {
    cancel: Cancel,
    outcome: Receiver<Result<LoopOutcome>>,
}

impl Looping {
    /// Ends the loop from another thread.
    #[must_use]
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When there is no such directory to work in, or the run cannot be opened; `is_gone()` when its
    /// thread panicked, which is in the engine's report then.
    pub fn wait(self) -> Result<LoopOutcome> {
        self.outcome
            .recv()
            .unwrap_or_else(|_| Err(Error::gone("the loop is not observed any more")))
    }
}

/// The source.
pub(crate) struct LoopJob {
    name: RunName,
    engine: LoopEngine,
    /// What is to stand in the run's metadata.
    extra: Map<String, Value>,
    done: Sender<Result<LoopOutcome>>,
}

impl LoopJob {
    pub fn new(name: RunName, engine: LoopEngine, extra: Map<String, Value>) -> (Self, Looping) {
        let cancel = engine.cancel();
        // With room for the one answer: nobody may be waiting for it.
        let (done, outcome) = bounded(1);
        let job = Self {
            name,
            engine,
            extra,
            done,
        };
        (job, Looping { cancel, outcome })
    }
}

impl Source for LoopJob {
    fn name(&self) -> String {
        "td-loop".to_owned()
    }

    fn run(self: Box<Self>, context: Context) {
        let Self {
            name,
            mut engine,
            extra,
            done,
        } = *self;
        engine.clock = context.clock.clone();
        let outcome = engine.ready().and_then(|()| {
            let info = RunInfo {
                kind: "loop".to_owned(),
                label: "loop".to_owned(),
                identity: None,
                extra,
            };
            run(&mut engine, name, info, &context)
        });
        // Whoever waits for it may have left.
        let _ = done.send(outcome);
    }
}

fn run(
    engine: &mut LoopEngine,
    name: RunName,
    info: RunInfo,
    context: &Context,
) -> Result<LoopOutcome> {
    let opened = context.runs.open(name, info)?;
    let emitter = opened.emitter;
    if engine.progress.iteration > 0 && opened.history.is_none() {
        let id = emitter.execution_id().clone();
        context.runs.close(&id, RunState::Detached, None);
        return Err(Error::locked(format!(
            "somebody else goes on with the run {id}"
        )));
    }
    let id = emitter.execution_id().clone();
    // The engine's end is the loop's; the watcher ends with this call, whatever happens.
    let (running, over) = stop_pair();
    let (stop, cancel) = (context.stop.clone(), engine.cancel());
    let watcher = thread::spawn("td-loop-stop", move || {
        select_biased! {
            recv(over) -> _ => {}
            recv(stop) -> _ => cancel.cancel(),
        }
    })?;
    let keep = Kept {
        runs: Arc::clone(&context.runs),
        id: id.clone(),
    };
    let outcome = engine.run_kept(Some(&emitter), Some(Arc::new(keep)));
    drop(running);
    // It has nothing that could panic.
    let _ = watcher.join();
    let (state, exit_status) = match &outcome.end {
        LoopEnd::Passed => (RunState::Completed, Some(0)),
        LoopEnd::Cancelled => (RunState::Detached, None),
        _ => (RunState::Failed, Some(1)),
    };
    context.runs.close(&id, state, exit_status);
    Ok(outcome)
}

/// A run that is kept.
struct Kept {
    runs: Arc<dyn Runs>,
    id: ExecutionId,
}

impl Keep for Kept {
    fn iteration(&self, iteration: u32) -> Option<Result<IterationDirectory>> {
        self.runs.iteration(&self.id, iteration)
    }

    fn remark(&self, extra: Map<String, Value>) {
        self.runs.remark(&self.id, extra);
    }
}
