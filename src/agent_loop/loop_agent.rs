//! The agent of a loop: any model, or a command whose standard error is also emitted and stored.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::iteration_files::IterationFiles;
use super::model::{CommandClient, LlmClient};
#[cfg(feature = "cli")]
use super::running_command::RunningCommand;
use crate::bus::EventEmitter;
use crate::event::OutputStream;
use crate::process::OutputWriter;
use crate::thread::lock;

pub(super) enum LoopAgent {
    Client(Box<dyn LlmClient>),
    Command {
        client: Box<CommandClient>,
        stderr: Arc<Mutex<StderrSink>>,
    },
}

/// The destinations of a command's standard error in the current iteration.
#[derive(Default)]
pub(super) struct StderrSink {
    writer: Option<OutputWriter>,
    files: Option<IterationFiles>,
}

impl LoopAgent {
    pub fn command(client: CommandClient) -> Self {
        let stderr = Arc::new(Mutex::new(StderrSink::default()));
        let sink = Arc::clone(&stderr);
        let client = client.on_output(move |stream, bytes| {
            if stream == OutputStream::Stderr {
                lock(&sink).write(bytes);
            }
        });
        Self::Command {
            client: Box::new(client),
            stderr,
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
            Self::Command { client, stderr } => Self::Command {
                client: Box::new(change(*client)),
                stderr,
            },
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

    /// Emits and stores the command's standard error in this iteration.
    pub fn begin_iteration(&self, emitter: Option<&EventEmitter>, files: &IterationFiles) {
        self.set_stderr(StderrSink {
            writer: emitter.map(|emitter| emitter.writer(OutputStream::Stderr)),
            files: Some(files.clone()),
        });
    }

    /// Ends the iteration. Dropping the writer emits an unfinished line.
    pub fn end_iteration(&self) {
        self.set_stderr(StderrSink::default());
    }

    fn set_stderr(&self, sink: StderrSink) {
        if let Self::Command { stderr, .. } = self {
            *lock(stderr) = sink;
        }
    }
}

impl StderrSink {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(files) = &self.files {
            files.write_stderr(bytes);
        }
        if let Some(writer) = &mut self.writer {
            // The writer never fails: the bus counts events that it must drop.
            let _ = std::io::Write::write_all(writer, bytes);
        }
    }
}
