//! The files of one iteration of a loop, which are written while it runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::conversation::ConversationPart;
use super::model::{CommandClient, LlmClient};
use super::progress::{LoopEnd, LoopOutcome, Progress};
#[cfg(feature = "cli")]
use super::tool::RunningCommand;
use crate::agent::AgentEvent;
use crate::bus::EventEmitter;
use crate::error::Result;
use crate::event::{Completion, ExecutionId, IterationOutcome, OutputStream, TdEvent};
use crate::history::{IterationDirectory, IterationFile, IterationText};
use crate::observe::RunProvider;
use crate::process::OutputWriter;
use crate::thread::lock;
use serde_json::{Map, Value, json};

/// The context of a loop's warnings and errors.
pub(super) const CONTEXT: &str = "loop";

/// The files of one iteration. Clones write to the same files. The first write error is reported as a
/// warning and in the diagnostics, and the loop continues.
#[derive(Clone)]
pub(super) struct IterationFiles(Arc<Mutex<OpenFiles>>);

#[derive(Default)]
struct OpenFiles {
    directory: Option<IterationDirectory>,
    /// The files that stay open while the iteration runs.
    texts: Vec<(IterationFile, IterationText)>,
    emitter: Option<EventEmitter>,
    has_failed: bool,
}

impl IterationFiles {
    pub fn new(
        directory: Option<Result<IterationDirectory>>,
        emitter: Option<&EventEmitter>,
    ) -> Self {
        let mut open = OpenFiles {
            emitter: emitter.cloned(),
            ..OpenFiles::default()
        };
        open.directory = directory.and_then(|made| open.warn_on_error(made));
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

    /// Stores the prompt; returns the path of its file.
    pub fn write_prompt(&self, text: &str) -> Option<PathBuf> {
        let mut open = lock(&self.0);
        let mut file = open.create(IterationFile::Prompt)?;
        let written = file.push(text);
        open.warn_on_error(written)?;
        Some(file.path().to_owned())
    }

    /// Returns a callback that stores the parts of the conversation.
    pub fn on_part(&self) -> impl FnMut(ConversationPart<'_>) + Send + 'static {
        let files = self.clone();
        let mut is_line_open = false;
        let called = |name: &str, args: &str| format!("\n[tool {name}] {args}\n");
        let ended = |name: &str, is_good: bool, text: &str| {
            let result = if is_good { "answered" } else { "failed" };
            format!("\n[tool {name} {result}]\n{text}\n")
        };
        move |part| {
            let text = match part {
                ConversationPart::Text(text) => text.to_owned(),
                // Terminates the last line of the answer, if it is open.
                ConversationPart::Response(_) if is_line_open => "\n".to_owned(),
                ConversationPart::ToolCall(call) => called(&call.name, &call.input_text()),
                ConversationPart::ToolResult { call, outcome } => {
                    ended(&call.name, !outcome.is_error, &outcome.content)
                }
                ConversationPart::Agent(AgentEvent::ToolCallStarted {
                    tool_name,
                    tool_args_summary,
                }) => called(tool_name, tool_args_summary),
                ConversationPart::Agent(AgentEvent::ToolCallCompleted {
                    tool_name,
                    success,
                    result_summary,
                    ..
                }) => ended(tool_name, *success, result_summary),
                // The first prompt has its own file, and later prompts are results of tools.
                ConversationPart::Prompt { .. }
                | ConversationPart::Agent(_)
                | ConversationPart::Response(_) => return,
            };
            is_line_open = !text.ends_with('\n');
            lock(&files.0).write(IterationFile::Response, text.as_bytes());
        }
    }

    /// Returns a callback that stores the output of the check.
    pub fn on_check_output(&self) -> impl FnMut(OutputStream, &str) + Send + 'static {
        let files = self.clone();
        move |stream, text| {
            let file = match stream {
                OutputStream::Stdout => IterationFile::Stdout,
                OutputStream::Stderr => IterationFile::Stderr,
            };
            lock(&files.0).write(file, text.as_bytes());
        }
    }

    /// Stores the output of the agent's command.
    pub fn write_agent_output(&self, stream: OutputStream, bytes: &[u8]) {
        let file = match stream {
            OutputStream::Stdout => IterationFile::AgentStdout,
            OutputStream::Stderr => IterationFile::AgentStderr,
        };
        lock(&self.0).write(file, bytes);
    }
}

impl OpenFiles {
    fn create(&mut self, file: IterationFile) -> Option<IterationText> {
        let created = self.directory.as_ref()?.create(file);
        self.warn_on_error(created)
    }

    /// Appends to a file, and creates it if it does not exist: a model may have no command.
    fn write(&mut self, file: IterationFile, bytes: &[u8]) {
        let at = self.texts.iter().position(|(of, _)| *of == file);
        let at = at.or_else(|| {
            let text = self.create(file)?;
            self.texts.push((file, text));
            Some(self.texts.len() - 1)
        });
        let written = at.map_or(Ok(()), |at| self.texts[at].1.push_bytes(bytes));
        self.warn_on_error(written);
    }

    fn warn_on_error<T>(&mut self, result: Result<T>) -> Option<T> {
        result
            .map_err(|error| {
                if std::mem::replace(&mut self.has_failed, true) {
                    return;
                }
                let message = format!("files of the iteration are incomplete: {error:?}");
                warn(self.emitter.as_ref(), &message);
                // A full disk has no room for the event either.
                if self.emitter.is_some() {
                    log::warn!("{message}");
                }
            })
            .ok()
    }
}

/// Emits a warning about the loop; without an emitter, logs it.
pub(super) fn warn(emitter: Option<&EventEmitter>, message: &str) {
    match emitter {
        Some(emitter) => drop(emitter.warning(CONTEXT, message)),
        None => log::warn!("{message}"),
    }
}

// The agent of a loop: any model, or a command whose output is also stored, and its standard error emitted.

pub(super) enum LoopAgent {
    Client(Box<dyn LlmClient>),
    Command {
        client: Box<CommandClient>,
        sink: Arc<Mutex<AgentSink>>,
    },
}

/// The destinations of a command's output in the current iteration.
#[derive(Default)]
pub(super) struct AgentSink {
    /// Emits standard error.
    stderr: Option<OutputWriter>,
    files: Option<IterationFiles>,
}

impl LoopAgent {
    pub fn command(client: CommandClient) -> Self {
        let sink = Arc::new(Mutex::new(AgentSink::default()));
        let output = Arc::clone(&sink);
        let client = client.on_output(move |stream, bytes| lock(&output).write(stream, bytes));
        Self::Command {
            client: Box::new(client),
            sink,
        }
    }

    pub fn directory(self, path: &Path) -> Self {
        self.map_command(|client| client.directory(path))
    }

    /// Sets the maximum number of messages of a command's model in an iteration.
    pub fn max_turns(self, turns: u32) -> Self {
        self.map_command(|client| client.max_turns(turns))
    }

    fn map_command(self, change: impl FnOnce(CommandClient) -> CommandClient) -> Self {
        match self {
            Self::Client(client) => Self::Client(client),
            Self::Command { client, sink } => Self::Command {
                client: Box::new(change(*client)),
                sink,
            },
        }
    }

    pub fn has_whole_messages(&self) -> bool {
        match self {
            Self::Client(_) => false,
            Self::Command { client, .. } => client.has_whole_messages(),
        }
    }

    #[cfg(feature = "cli")]
    pub fn running(&self) -> Option<RunningCommand> {
        match self {
            Self::Client(_) => None,
            Self::Command { client, .. } => Some(client.running()),
        }
    }

    pub fn client(&mut self) -> &mut dyn LlmClient {
        match self {
            Self::Client(client) => client.as_mut(),
            Self::Command { client, .. } => client.as_mut(),
        }
    }

    /// Stores the command's output in this iteration, and emits its standard error.
    pub fn begin_iteration(&self, emitter: Option<&EventEmitter>, files: &IterationFiles) {
        self.set_sink(AgentSink {
            stderr: emitter.map(|emitter| emitter.writer(OutputStream::Stderr)),
            files: Some(files.clone()),
        });
    }

    /// Ends the iteration. Dropping the writer emits an unfinished line.
    pub fn end_iteration(&self) {
        self.set_sink(AgentSink::default());
    }

    fn set_sink(&self, new: AgentSink) {
        if let Self::Command { sink, .. } = self {
            *lock(sink) = new;
        }
    }
}

impl AgentSink {
    fn write(&mut self, stream: OutputStream, bytes: &[u8]) {
        if let Some(files) = &self.files {
            files.write_agent_output(stream, bytes);
        }
        let stderr = self.stderr.as_mut();
        if let Some(writer) = stderr.filter(|_| stream == OutputStream::Stderr) {
            // The writer never fails: the bus counts events that it must drop.
            let _ = std::io::Write::write_all(writer, bytes);
        }
    }
}

// Reports a loop: emits its events and stores its progress in the metadata of its run.

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
                    emitter.warning(CONTEXT, &end.announcement());
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
