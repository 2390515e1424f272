//! Reports a loop: emits its events and stores its progress in the metadata of its run.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::iteration_files::{CONTEXT, IterationFiles, warn};
use super::progress::{LoopEnd, LoopOutcome, Progress};
use crate::bus::EventEmitter;
use crate::event::{Completion, ExecutionId, IterationOutcome, TdEvent};
use crate::observe::RunProvider;

/// The run that stores a loop, and its provider.
pub(super) type StoredRun = (Arc<dyn RunProvider>, ExecutionId);

pub(super) struct LoopReporter<'a> {
    pub emitter: Option<&'a EventEmitter>,
    run: Option<StoredRun>,
}

impl<'a> LoopReporter<'a> {
    pub fn new(emitter: Option<&'a EventEmitter>, run: Option<StoredRun>) -> Self {
        Self { emitter, run }
    }

    /// Reports the start of an iteration and creates its files.
    pub fn iteration_started(&self, progress: &Progress) -> IterationFiles {
        let iteration = progress.iteration;
        if let Some(emitter) = self.emitter {
            emitter.iteration_started(iteration);
        }
        self.store_progress(progress, Value::Null);
        let run = self.run.as_ref();
        let directory = run.and_then(|(runs, id)| runs.create_iteration(id, iteration));
        IterationFiles::new(directory, self.emitter)
    }

    pub fn iteration_completed(&self, progress: &Progress, outcome: &IterationOutcome) {
        if let Some(emitter) = self.emitter {
            emitter.emit(TdEvent::IterationCompleted {
                execution_id: ExecutionId::clone(emitter.execution_id()),
                iteration: progress.iteration,
                outcome: outcome.clone(),
            });
        }
        // An enum of names and texts always serializes.
        let outcome = serde_json::to_value(outcome).unwrap_or_default();
        self.store_progress(progress, outcome);
    }

    pub fn loop_completed(&self, outcome: LoopOutcome) -> LoopOutcome {
        if let Some(emitter) = self.emitter {
            match &outcome.end {
                LoopEnd::Passed => {}
                LoopEnd::Failed(why) => drop(emitter.error(CONTEXT, why)),
                end => {
                    emitter.warning(CONTEXT, &format!("the loop ends: {}", end.words()));
                }
            }
            let completion = if outcome.success {
                Completion::Succeeded
            } else {
                Completion::Failed
            };
            emitter.loop_completed(completion, outcome.iterations);
        }
        outcome
    }

    pub fn warning(&self, message: &str) {
        warn(self.emitter, message);
    }

    /// Reports an error of the check.
    pub fn check_error(&self, message: &str) {
        match self.emitter {
            Some(emitter) => drop(emitter.error("check", message)),
            None => log::error!("check: {message}"),
        }
    }

    fn store_progress(&self, progress: &Progress, outcome: Value) {
        let Some((runs, id)) = &self.run else { return };
        let mut extra = Map::new();
        let value = json!({
            "phase": progress.phase,
            "iteration": progress.iteration,
            "outcome": outcome,
        });
        extra.insert("progress".to_owned(), value);
        runs.add_metadata(id, extra);
    }
}
