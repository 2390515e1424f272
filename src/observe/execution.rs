//! A command as a source: a thread runs it to its end, and its run is opened and closed with it.

use crossbeam_channel::{Receiver, Sender, bounded};
use serde_json::Map;

use super::{Context, RunName, Source};
use crate::agent::Format;
use crate::error::{Error, Result};
use crate::event::ExecutionId;
use crate::history::{RunInfo, RunState};
use crate::process::{Command, Control, Outcome, observe};

/// A command that an engine runs; from [`Engine::execute`](crate::Engine::execute). Dropping it
/// changes nothing: the command goes on until its end or the engine's.
#[derive(Debug)]
pub struct Execution {
    control: Control,
    outcome: Receiver<Result<Outcome>>,
}

impl Execution {
    /// Ends the command from another thread.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// As [`Command::observe`](crate::process::Command::observe) says; `is_gone()` when its thread
    /// panicked, which is in the engine's report then.
    pub fn wait(self) -> Result<Outcome> {
        self.outcome
            .recv()
            .unwrap_or_else(|_| Err(Error::gone("the command is not observed any more")))
    }
}

/// The source.
pub(crate) struct Job {
    name: RunName,
    command: Command,
    done: Sender<Result<Outcome>>,
}

impl Job {
    pub fn new(name: RunName, command: Command) -> (Self, Execution) {
        let control = command.control_handle();
        // With room for the one answer: nobody may be waiting for it.
        let (done, outcome) = bounded(1);
        let job = Self {
            name,
            command,
            done,
        };
        (job, Execution { control, outcome })
    }
}

impl Source for Job {
    fn name(&self) -> String {
        format!("td-run {}", self.command.name())
    }

    fn run(self: Box<Self>, context: Context) {
        let Self {
            name,
            command,
            done,
        } = *self;
        let info = info(&command);
        let mut opened: Option<ExecutionId> = None;
        let open = || {
            let run = context.runs.open(name, info)?;
            opened = Some(run.emitter.execution_id().clone());
            Ok(run.emitter)
        };
        let command = command.clock(context.clock.clone());
        let outcome = observe(command, open, &context.stop);
        if let Some(id) = opened {
            let (state, exit_status) = match &outcome {
                Ok(outcome) if outcome.is_success() => (RunState::Completed, Some(0)),
                Ok(outcome) => (RunState::Failed, Some(outcome.code())),
                Err(_) => (RunState::Failed, None),
            };
            context.runs.close(&id, state, exit_status);
        }
        // Whoever waits for it may have left.
        let _ = done.send(outcome);
    }
}

fn info(command: &Command) -> RunInfo {
    let mut extra = Map::new();
    extra.insert("command".to_owned(), command.line().into());
    extra.insert("cwd".to_owned(), command.directory_shown().into());
    if command.output_format() != Format::Text {
        extra.insert("as".to_owned(), command.output_format().name().into());
    }
    RunInfo {
        kind: "process".to_owned(),
        label: command.name(),
        identity: None,
        extra,
    }
}
