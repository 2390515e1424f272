//! A command as a job of an engine: a thread runs it to its end, and its run is opened and closed
//! with it.

use serde_json::Map;

use super::job::{Job, JobHandle, JobName, JobRun, place};
use super::{Source, SourceContext};
use crate::agent::Format;
use crate::event::ExecutionId;
use crate::history::{RunInfo, RunKind, RunState};
use crate::process::{Command, CommandControl, CommandOutcome, observe_command};

/// Creates the job that runs and observes `command`.
pub(crate) fn command_job(
    name: JobName,
    command: Command,
) -> (impl Source, JobHandle<CommandOutcome, CommandControl>) {
    let thread = format!("td-run {}", command.name());
    let control = command.control.clone();
    let work = move |context: &SourceContext, run: JobRun<'_>| {
        let info = info(&command);
        let mut opened: Option<ExecutionId> = None;
        let open = || {
            let run = run.open(context, info)?;
            opened = Some(run.emitter.execution_id().clone());
            Ok(run.emitter)
        };
        let command = command.clock(context.clock.clone());
        let outcome = observe_command(command, open, &context.stop);
        if let Some(id) = opened {
            let (state, exit_status) = match &outcome {
                Ok(outcome) if outcome.is_success() => (RunState::Completed, Some(0)),
                Ok(outcome) => (RunState::Failed, Some(outcome.code())),
                Err(_) => (RunState::Failed, None),
            };
            context.runs.close(&id, state, exit_status);
        }
        outcome
    };
    Job::new(thread, name, control, work)
}

fn info(command: &Command) -> RunInfo {
    let mut extra = Map::new();
    extra.insert("command".to_owned(), command.line().into());
    extra.insert("cwd".to_owned(), command.directory_shown().into());
    if command.format != Format::Text {
        extra.insert("as".to_owned(), command.format.name().into());
    }
    // Before the start: a command that reads the terminal takes its foreground.
    extra.extend(place());
    RunInfo {
        kind: RunKind::Process,
        label: command.name(),
        identity: None,
        extra,
    }
}
