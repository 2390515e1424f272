//! The files of one iteration of a loop, which are written while it runs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::turn_reporter::ConversationPart;
use crate::agent::AgentEvent;
use crate::bus::EventEmitter;
use crate::error::Result;
use crate::event::OutputStream;
use crate::history::{IterationDirectory, IterationFile, IterationText};
use crate::thread::lock;

/// The context of a loop's warnings and errors.
pub(super) const CONTEXT: &str = "loop";

/// The files of one iteration. Clones write to the same files. The first write error is reported as a
/// warning, and the loop continues.
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

    /// Stores the standard error of the agent's command.
    pub fn write_stderr(&self, bytes: &[u8]) {
        lock(&self.0).write(IterationFile::Stderr, bytes);
    }
}

impl OpenFiles {
    fn create(&mut self, file: IterationFile) -> Option<IterationText> {
        let created = self.directory.as_ref()?.create(file);
        self.warn_on_error(created)
    }

    fn write(&mut self, file: IterationFile, bytes: &[u8]) {
        let text = self.texts.iter_mut().find(|(of, _)| *of == file);
        let written = text.map_or(Ok(()), |(_, text)| text.push_bytes(bytes));
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
