//! Who works in a loop: any model, or a command whose errors are heard, too.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::files::Files;
use super::model::{CommandClient, LlmClient};
#[cfg(feature = "cli")]
use super::running::Running;
use crate::bus::EventEmitter;
use crate::process::{OutputStream, OutputWriter};

/// Whom the loop asks.
pub(super) enum Agent {
    Client(Box<dyn LlmClient>),
    Command {
        client: Box<CommandClient>,
        errors: Arc<Mutex<Errors>>,
    },
}

/// Where the errors of a command go in this iteration.
#[derive(Default)]
pub(super) struct Errors {
    writer: Option<OutputWriter>,
    files: Option<Files>,
}

impl Agent {
    pub fn new(client: Box<dyn LlmClient>) -> Self {
        Self::Client(client)
    }

    pub fn command(client: CommandClient) -> Self {
        let errors = Arc::new(Mutex::new(Errors::default()));
        let to = Arc::clone(&errors);
        let client = client.on_output(move |stream, bytes| {
            if stream == OutputStream::Stderr {
                lock(&to).hear(bytes);
            }
        });
        Self::Command {
            client: Box::new(client),
            errors,
        }
    }

    /// Where a command runs.
    pub fn directory(self, path: &Path) -> Self {
        match self {
            Self::Client(client) => Self::Client(client),
            Self::Command { client, errors } => Self::Command {
                client: Box::new(client.directory(path)),
                errors,
            },
        }
    }

    /// How many messages a command's model may have in an iteration.
    pub fn max_turns(self, turns: u32) -> Self {
        match self {
            Self::Client(client) => Self::Client(client),
            Self::Command { client, errors } => Self::Command {
                client: Box::new(client.max_turns(turns)),
                errors,
            },
        }
    }

    /// The command that runs.
    #[cfg(feature = "cli")]
    pub fn running(&self) -> Option<Running> {
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

    /// An iteration begins: what a command says on its standard error is shown, and kept.
    pub fn listen(&self, emitter: Option<&EventEmitter>, files: &Files) {
        self.set(Errors {
            writer: emitter.map(|emitter| emitter.writer(OutputStream::Stderr)),
            files: Some(files.clone()),
        });
    }

    /// It is over: a line that was not ended is shown.
    pub fn rest(&self) {
        self.set(Errors::default());
    }

    fn set(&self, now: Errors) {
        if let Self::Command { errors, .. } = self {
            *lock(errors) = now;
        }
    }
}

impl Errors {
    fn hear(&mut self, bytes: &[u8]) {
        if let Some(files) = &self.files {
            files.errors(bytes);
        }
        if let Some(writer) = &mut self.writer {
            // It has nowhere to fail: what cannot be emitted is counted there.
            let _ = std::io::Write::write_all(writer, bytes);
        }
    }
}

fn lock(errors: &Mutex<Errors>) -> MutexGuard<'_, Errors> {
    // Each change is one step: a panic leaves nothing half done.
    errors.lock().unwrap_or_else(PoisonError::into_inner)
}
