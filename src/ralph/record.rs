//! What a loop leaves behind: events, the files of each iteration, and how far it has come.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};

use super::looping::{LoopEnd, LoopOutcome, Progress};
use super::turns::Part;
use crate::agent::AgentEvent;
use crate::bus::EventEmitter;
use crate::error::Result;
use crate::event::{ExecutionId, IterationOutcome, TdEvent};
use crate::log::{IterationDirectory, IterationFile, IterationText};
use crate::process::OutputStream;

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

/// The files of one iteration; clones write the same ones. What cannot be written is said once, and
/// the loop goes on.
#[derive(Clone)]
pub(super) struct Files(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    directory: Option<IterationDirectory>,
    /// Those that are written while it goes on.
    texts: Vec<(IterationFile, IterationText)>,
    emitter: Option<EventEmitter>,
    has_failed: bool,
}

impl Files {
    fn new(directory: Option<Result<IterationDirectory>>, emitter: Option<&EventEmitter>) -> Self {
        let mut open = Open {
            emitter: emitter.cloned(),
            ..Open::default()
        };
        open.directory = directory.and_then(|made| open.tried(made));
        for file in [
            IterationFile::Response,
            IterationFile::Stdout,
            IterationFile::Stderr,
        ] {
            let text = open.create(file);
            open.texts.extend(text.map(|text| (file, text)));
        }
        Self(Arc::new(Mutex::new(open)))
    }

    /// Keeps the prompt; where it stands then.
    pub fn prompt(&self, text: &str) -> Option<PathBuf> {
        let mut open = self.open();
        let mut file = open.create(IterationFile::Prompt)?;
        let written = file.push(text);
        open.tried(written)?;
        Some(file.path().to_owned())
    }

    /// Takes what is said.
    pub fn hear(&self) -> impl FnMut(Part<'_>) + Send + 'static {
        let files = self.clone();
        let mut is_open = false;
        move |part| {
            let text = match part {
                Part::Text(text) => text.to_owned(),
                // The answer ends its line, if it has not.
                Part::Response(_) if is_open => "\n".to_owned(),
                Part::ToolCall(call) => format!("\n[tool {}] {}\n", call.name, call.input_text()),
                Part::ToolResult { call, outcome } => {
                    let how = if outcome.is_error {
                        "failed"
                    } else {
                        "answered"
                    };
                    format!("\n[tool {} {how}]\n{}\n", call.name, outcome.content)
                }
                Part::Agent(AgentEvent::ToolCallStarted {
                    tool_name,
                    tool_args_summary,
                }) => format!("\n[tool {tool_name}] {tool_args_summary}\n"),
                Part::Agent(AgentEvent::ToolCallCompleted {
                    tool_name,
                    success,
                    result_summary,
                    ..
                }) => {
                    let how = if *success { "answered" } else { "failed" };
                    format!("\n[tool {tool_name} {how}]\n{result_summary}\n")
                }
                // The first prompt has its file, and later ones are results of tools.
                Part::Prompt { .. } | Part::Agent(_) | Part::Response(_) => return,
            };
            is_open = !text.ends_with('\n');
            files.open().write(IterationFile::Response, text.as_bytes());
        }
    }

    /// Takes what the check prints.
    pub fn check(&self) -> impl FnMut(OutputStream, &str) + Send + 'static {
        let files = self.clone();
        move |stream, text| {
            let file = match stream {
                OutputStream::Stdout => IterationFile::Stdout,
                OutputStream::Stderr => IterationFile::Stderr,
            };
            files.open().write(file, text.as_bytes());
        }
    }

    /// Takes the errors of an agent's command.
    pub fn errors(&self, bytes: &[u8]) {
        self.open().write(IterationFile::Stderr, bytes);
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // What a panic leaves behind here are files, each of them whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn create(&mut self, file: IterationFile) -> Option<IterationText> {
        let created = self.directory.as_ref()?.create(file);
        self.tried(created)
    }

    fn write(&mut self, file: IterationFile, bytes: &[u8]) {
        let text = self.texts.iter_mut().find(|(of, _)| *of == file);
        let written = text.map_or(Ok(()), |(_, text)| text.push_bytes(bytes));
        self.tried(written);
    }

    fn tried<T>(&mut self, tried: Result<T>) -> Option<T> {
        tried
            .map_err(|error| {
                if std::mem::replace(&mut self.has_failed, true) {
                    return;
                }
                let message = format!("files of the iteration are not whole: {error:?}");
                warn(self.emitter.as_ref(), &message);
            })
            .ok()
    }
}

/// A warning about the loop, on whatever way there is.
fn warn(emitter: Option<&EventEmitter>, message: &str) {
    match emitter {
        Some(emitter) => {
            emitter.warning(CONTEXT, message);
        }
        None => log::warn!("{message}"),
    }
}
