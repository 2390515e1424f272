//! The files of one iteration of a loop, while it goes on.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::record::warn;
use super::turns::Part;
use crate::agent::AgentEvent;
use crate::bus::EventEmitter;
use crate::error::Result;
use crate::history::{IterationDirectory, IterationFile, IterationText};
use crate::process::OutputStream;

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
    pub fn new(
        directory: Option<Result<IterationDirectory>>,
        emitter: Option<&EventEmitter>,
    ) -> Self {
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
