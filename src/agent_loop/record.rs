//! What a loop tells: its events, and in the metadata of its run how far it has come.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::files::Files;
use super::looping::{LoopEnd, LoopOutcome, Progress};
use crate::bus::EventEmitter;
use crate::error::Result;
use crate::event::{ExecutionId, IterationOutcome, TdEvent};
use crate::history::IterationDirectory;

/// What warnings of a loop are about.
const CONTEXT: &str = "loop";

/// Where a loop is kept.
pub(super) trait Keep: Send + Sync {
    /// The directory of an iteration, where there is to be one.
    fn iteration(&self, iteration: u32) -> Option<Result<IterationDirectory>>;

    /// Adds to the metadata of the run.
    fn remark(&self, extra: Map<String, Value>);
}

/// Tells what a loop does.
pub(super) struct Record<'a> {
    pub emitter: Option<&'a EventEmitter>,
    keep: Option<Arc<dyn Keep>>,
}

impl<'a> Record<'a> {
    pub fn new(emitter: Option<&'a EventEmitter>, keep: Option<Arc<dyn Keep>>) -> Self {
        Self { emitter, keep }
    }

    pub fn loop_started(&self, loop_type: &str, task: &str) {
        if let Some(emitter) = self.emitter {
            emitter.loop_started(loop_type, task);
        }
    }

    pub fn phase_started(&self, index: usize, name: &str, total: usize) {
        if let Some(emitter) = self.emitter {
            emitter.phase_started(index, name, total);
        }
    }

    /// An iteration begins.
    pub fn begin(&self, progress: &Progress) -> Files {
        let iteration = progress.iteration;
        if let Some(emitter) = self.emitter {
            emitter.iteration_started(iteration);
        }
        self.remark(progress, Value::Null);
        let directory = self
            .keep
            .as_ref()
            .and_then(|keep| keep.iteration(iteration));
        Files::new(directory, self.emitter)
    }

    /// It is over.
    pub fn iteration_completed(&self, progress: &Progress, outcome: &IterationOutcome) {
        if let Some(emitter) = self.emitter {
            emitter.emit(TdEvent::IterationCompleted {
                execution_id: ExecutionId::clone(emitter.execution_id()),
                iteration: progress.iteration,
                outcome: outcome.clone(),
            });
        }
        // An enum of names and texts can be written.
        let outcome = serde_json::to_value(outcome).unwrap_or_default();
        self.remark(progress, outcome);
    }

    pub fn loop_completed(&self, outcome: LoopOutcome) -> LoopOutcome {
        if let Some(emitter) = self.emitter {
            match &outcome.end {
                LoopEnd::Passed => {}
                LoopEnd::Failed(why) => {
                    emitter.error(CONTEXT, why);
                }
                end => {
                    emitter.warning(CONTEXT, &format!("it ends: {}", end.words()));
                }
            }
            emitter.loop_completed(outcome.success, outcome.iterations);
        }
        outcome
    }

    pub fn warning(&self, message: &str) {
        warn(self.emitter, message);
    }

    pub fn error(&self, context: &str, message: &str) {
        match self.emitter {
            Some(emitter) => {
                emitter.error(context, message);
            }
            None => log::error!("{context}: {message}"),
        }
    }

    fn remark(&self, progress: &Progress, outcome: Value) {
        let Some(keep) = &self.keep else { return };
        let mut extra = Map::new();
        let value = json!({
            "phase": progress.phase,
            "iteration": progress.iteration,
            "outcome": outcome,
        });
        extra.insert("progress".to_owned(), value);
        keep.remark(extra);
    }
}

/// A warning about the loop, on whatever way there is.
pub(super) fn warn(emitter: Option<&EventEmitter>, message: &str) {
    match emitter {
        Some(emitter) => {
            emitter.warning(CONTEXT, message);
        }
        None => log::warn!("{message}"),
    }
}
