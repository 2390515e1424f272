//! The loop engine: runs each phase in iterations until its check passes.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Request;
use super::conversation::{Conversation, ConversationEnd, Converse, converse};
use super::model::{Cancel, LlmClient};
use super::progress::{LoopEnd, LoopOutcome, Progress, fingerprint};
use super::reporting::{IterationFiles, LoopAgent, LoopReporter, StoredRun};
use super::spec::{Phase, PreviousFailure, Spec, prompt};
use super::tool::{RunningCommand, Toolbox};
use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{IterationOutcome, TdEvent};
use crate::history::{RunInfo, RunKind, RunState};
use crate::observe::{Job, JobHandle, JobName, JobRun, Source, SourceContext, place};
use crate::process::{Command, ValidationResult, validate_until_stopped};
use crossbeam_channel::select_biased;
use serde_json::{Map, Value};

/// Delay before the next attempt after a failure of the model; it doubles with each failure.
const BACK_OFF: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(60);

/// Works on a task until its check passes: prompts a model, runs its tools, runs the check, and
/// prompts again with the failure.
///
/// With an emitter, the loop reports its progress as events.
///
/// ```
/// use td_observe::agent_loop::{CommandClient, LoopEngine, Spec};
/// # let directory = tempfile::tempdir().unwrap();
///
/// let spec = Spec::of_task("Write a file").check("test -e done");
/// let agent = CommandClient::shell("touch done");
/// let mut engine = LoopEngine::of_command(spec, agent)
///     .directory(directory.path())
///     .max_iterations(3);
/// let outcome = engine.run(None);
/// assert!(outcome.success);
/// assert_eq!(outcome.iterations, 1);
/// ```
#[must_use = "a loop does nothing until it is run"]
pub struct LoopEngine {
    pub(super) spec: Spec,
    pub(super) agent: LoopAgent,
    pub(super) toolbox: Toolbox,
    pub(super) directory: PathBuf,
    max_iterations: u32,
    pub(super) max_turns: Option<u32>,
    timeout: Option<Duration>,
    pub(super) check_timeout: Option<Duration>,
    check_lines_max: u64,
    /// The number of lines of checks beyond the limit.
    lost_lines: u64,
    pub(super) ignored: Option<PathBuf>,
    pub(super) cancel: Cancel,
    pub(super) running_check: RunningCommand,
    pub(super) clock: Clock,
    pub(super) progress: Progress,
}

impl LoopEngine {
    /// Creates a loop with this model.
    pub fn new(spec: Spec, client: impl LlmClient + 'static) -> Self {
        Self::of(spec, LoopAgent::Client(Box::new(client)))
    }

    /// Creates a loop that runs this command in the loop's directory. The command's output is stored in files
    /// beside those of the check.
    pub fn of_command(spec: Spec, command: super::CommandClient) -> Self {
        Self::of(spec, LoopAgent::command(command))
    }

    fn of(spec: Spec, agent: LoopAgent) -> Self {
        Self {
            spec,
            agent,
            toolbox: Toolbox::new(),
            directory: PathBuf::from("."),
            // Default maximum number of iterations.
            max_iterations: 10,
            max_turns: None,
            timeout: None,
            check_timeout: None,
            // The default limit of lines of a check that become events.
            check_lines_max: 1_000_000,
            lost_lines: 0,
            ignored: None,
            cancel: Cancel::new(),
            running_check: RunningCommand::default(),
            clock: Clock::system(),
            progress: Progress::default(),
        }
    }

    /// Sets the tools that the model may call.
    pub fn tools(mut self, toolbox: Toolbox) -> Self {
        self.toolbox = toolbox;
        self
    }

    /// Sets the working directory of the agent and of checks; defaults to the current directory.
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = path.into();
        self.agent = self.agent.directory(&self.directory);
        self
    }

    /// Sets the maximum number of iterations; defaults to 10.
    pub fn max_iterations(mut self, iterations: u32) -> Self {
        self.max_iterations = iterations;
        self
    }

    /// Sets the maximum number of answers in an iteration, after which the check decides; defaults to
    /// 50. For a command that works on its own, the limit is the number of messages in its records and
    /// defaults to none.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = Some(turns);
        self.agent = self.agent.max_turns(turns);
        self
    }

    /// Sets the timeout of the loop; defaults to none.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the timeout of a check, which then fails with exit code 124; defaults to none.
    pub fn check_timeout(mut self, timeout: Duration) -> Self {
        self.check_timeout = Some(timeout);
        self
    }

    /// Limits the number of lines of a check that are emitted and stored; defaults to 1,000,000. One warning
    /// reports the cut, and [`LoopOutcome::lost_lines`] counts the others.
    pub fn check_line_limit(mut self, lines: u64) -> Self {
        self.check_lines_max = lines;
        self
    }

    /// Ignores changes in a directory that other programs write to, such as that of the log.
    pub fn ignore_changes_in(mut self, path: impl Into<PathBuf>) -> Self {
        self.ignored = Some(path.into());
        self
    }

    /// Continues an earlier loop; see [`Progress::of_run`].
    pub fn resume(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Returns a handle that ends the loop from another thread.
    #[must_use]
    pub fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Returns a function that cancels the loop and kills its commands at once, for a program that is
    /// about to exit.
    #[cfg(feature = "cli")]
    pub(crate) fn killer(&self) -> impl FnOnce() + Send + use<> {
        let cancel = self.cancel.clone();
        let running = [Some(self.running_check.clone()), self.agent.running()];
        move || {
            cancel.cancel();
            running.iter().flatten().for_each(RunningCommand::kill);
        }
    }

    /// Runs the loop in the calling thread until it ends. Nothing is stored, except by the emitter's bus.
    ///
    /// If an iteration fails, the failure is its outcome, and the next iteration follows.
    pub fn run(&mut self, emitter: Option<&EventEmitter>) -> LoopOutcome {
        self.run_stored(emitter, None)
    }

    pub(super) fn run_stored(
        &mut self,
        emitter: Option<&EventEmitter>,
        stored: Option<StoredRun>,
    ) -> LoopOutcome {
        let deadline = self
            .timeout
            .and_then(|timeout| self.clock.now().checked_add(timeout));
        let reporter = LoopReporter::new(emitter, stored);
        if let Some(emitter) = emitter
            && !self.progress.is_resumed
        {
            let ahead = self.spec.phases.iter().skip(self.progress.phase);
            let phases = ahead.map(|phase| phase.name.clone());
            emitter.emit(TdEvent::LoopStarted {
                execution_id: emitter.execution_id().clone(),
                // The type of loop, as TaskDaemon names it.
                loop_type: "Phase".to_owned(),
                task_description: self.spec.task.clone(),
                phases: Some(phases.collect()),
            });
        }
        let end = match deadline {
            None => Ok(self.run_phases(&reporter, None)),
            Some(at) => {
                let (cancel, due) = (self.cancel.clone(), self.clock.at(at));
                cancel.run_until("td-loop-timer", due, || {
                    self.run_phases(&reporter, deadline)
                })
            }
        };
        let end = end.unwrap_or_else(|error| LoopEnd::Failed(format!("{error:?}")));
        reporter.loop_completed(LoopOutcome {
            success: end == LoopEnd::Passed,
            iterations: self.progress.iteration,
            lost_lines: self.lost_lines,
            has_whole_messages: self.agent.has_whole_messages(),
            end,
        })
    }

    fn run_phases(&mut self, reporter: &LoopReporter<'_>, deadline: Option<Instant>) -> LoopEnd {
        let total = self.spec.phases.len();
        let mut failures = 0;
        while let Some(phase) = self.spec.phases.get(self.progress.phase).cloned() {
            // A resumed loop also names the phase that it continues.
            if let Some(emitter) = reporter.emitter {
                emitter.phase_started(self.progress.phase, &phase.name, total);
            }
            loop {
                if let Some(end) = self.limit_reached(&phase, deadline) {
                    return end;
                }
                self.progress.iteration += 1;
                self.progress.in_phase += 1;
                let attempt = self.attempt(reporter, &phase);
                reporter.iteration_completed(&self.progress, &attempt.outcome);
                if matches!(attempt.outcome, IterationOutcome::ValidationPassed) {
                    break;
                }
                if let Some(reason) = attempt.fatal {
                    return LoopEnd::Failed(reason);
                }
                failures = match attempt.outcome {
                    IterationOutcome::LlmError { .. } => failures + 1,
                    _ => 0,
                };
                if failures > 0
                    && let Some(end) = self.back_off(failures, reporter)
                {
                    return end;
                }
            }
            failures = 0;
            self.progress = self.progress.next_phase();
        }
        LoopEnd::Passed
    }

    /// Returns the limit that prevents another iteration, if one is reached.
    fn limit_reached(&self, phase: &Phase, deadline: Option<Instant>) -> Option<LoopEnd> {
        if deadline.is_some_and(|deadline| self.clock.now() >= deadline) {
            return Some(LoopEnd::Timeout);
        }
        if self.cancel.is_cancelled() {
            return Some(LoopEnd::Cancelled);
        }
        let in_phase = phase.max_iterations.unwrap_or(u32::MAX);
        let is_max =
            self.progress.iteration >= self.max_iterations || self.progress.in_phase >= in_phase;
        is_max.then_some(LoopEnd::MaxIterations)
    }

    /// Waits after a failure of the model; returns the end of the loop after too many failures.
    fn back_off(&self, failures: u32, reporter: &LoopReporter<'_>) -> Option<LoopEnd> {
        if self.cancel.is_cancelled() || self.progress.iteration >= self.max_iterations {
            return None;
        }
        // Number of consecutive failures of the model after which the loop ends. The cause is then permanent,
        // such as a wrong key, a broken network or a missing program.
        if failures >= 5 {
            let reason = format!("the model failed {failures} times in succession");
            return Some(LoopEnd::Failed(reason));
        }
        let wait = BACK_OFF.saturating_mul(1 << (failures - 1).min(16));
        let wait = wait.min(BACK_OFF_MAX);
        reporter.warning(&format!(
            "the model failed; the next iteration starts in {wait:?}"
        ));
        select_biased! {
            recv(self.cancel.stop()) -> _ => {}
            recv(self.clock.after(wait)) -> _ => {}
        }
        None
    }
}

impl fmt::Debug for LoopEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopEngine")
            .field("spec", &self.spec)
            .field("directory", &self.directory)
            .field("progress", &self.progress)
            .finish_non_exhaustive()
    }
}

// One iteration of a loop: the agent works, then the check decides.

pub(super) struct Attempt {
    pub outcome: IterationOutcome,
    /// The failure that the next prompt describes.
    failure: Option<PreviousFailure>,
    /// The reason why further attempts cannot succeed.
    pub fatal: Option<String>,
}

impl Attempt {
    fn passed() -> Self {
        Self {
            outcome: IterationOutcome::ValidationPassed,
            failure: None,
            fatal: None,
        }
    }

    fn failed(outcome: IterationOutcome, reason: impl Into<String>) -> Self {
        Self {
            outcome,
            failure: Some(PreviousFailure::Agent(reason.into())),
            fatal: None,
        }
    }

    fn of_check(check: &str, result: &ValidationResult, end: &ConversationEnd) -> Self {
        if result.passed() {
            return Self::passed();
        }
        if result.was_ended {
            let exit_code = match result.exit_code {
                // Some programs exit with 0 when they are terminated.
                // Exit code of a check that was terminated but exited with 0, as shells report it: 128 plus `TERM`.
                0 => 143,
                code => code,
            };
            let outcome = IterationOutcome::ValidationFailed { exit_code };
            return Self::failed(outcome, "the check was terminated before its end");
        }
        let exit_code = result.exit_code;
        Self {
            outcome: (end.outcome()).unwrap_or(IterationOutcome::ValidationFailed { exit_code }),
            failure: Some(PreviousFailure::Check {
                command: check.to_owned(),
                exit_code,
                stdout: result.stdout.clone(),
                stderr: result.stderr.clone(),
            }),
            fatal: None,
        }
    }
}

impl LoopEngine {
    pub(super) fn attempt(&mut self, reporter: &LoopReporter<'_>, phase: &Phase) -> Attempt {
        let number = self.progress.iteration;
        let files = reporter.iteration_started(&self.progress);
        let text = prompt(
            &self.spec,
            self.progress.phase,
            self.progress.previous_failure.as_ref(),
            self.progress.unchanged,
        );
        let mut request = Request::prompt(&text);
        if let Some(path) = files.write_prompt(&text) {
            request = request.prompt_file(path);
        }
        let before = self.fingerprint();
        let mut on_part = files.on_part();
        let mut options = Converse::new().clock(self.clock.clone());
        if let Some(turns) = self.max_turns {
            options = options.max_turns(turns);
        }
        if let Some(emitter) = reporter.emitter {
            options = options.emitter(emitter, number);
        }
        self.agent.begin_iteration(reporter.emitter, &files);
        let conversation = converse(
            self.agent.client(),
            &mut self.toolbox,
            request,
            options.on_part(&mut on_part),
            &self.cancel,
        );
        drop(on_part);
        self.agent.end_iteration();
        self.progress.unchanged = before.is_some() && before == self.fingerprint();
        if self.progress.unchanged && !self.cancel.is_cancelled() {
            let directory = self.directory.display();
            reporter.warning(&format!(
                "iteration {number} changed no file in {directory}"
            ));
        }
        let attempt = self.judge(phase, &conversation, reporter, &files);
        self.progress.previous_failure = attempt.failure.clone();
        attempt
    }

    /// Determines the outcome from the end of the conversation and, unless that failed, from the check.
    fn judge(
        &mut self,
        phase: &Phase,
        conversation: &Conversation,
        reporter: &LoopReporter<'_>,
        files: &IterationFiles,
    ) -> Attempt {
        // An agent that has used up its turns may have finished the work, so the check decides.
        let end = &conversation.end;
        let has_worked = matches!(
            end,
            ConversationEnd::Ended | ConversationEnd::MaxTurnsReached
        );
        if let (true, Some(check)) = (has_worked && !self.cancel.is_cancelled(), &phase.check) {
            return match self.check(check, reporter, files) {
                Ok(result) => Attempt::of_check(check, &result, end),
                Err(error) => {
                    let reason = format!("cannot run the check: {error:?}");
                    reporter.check_error(&reason);
                    let outcome = IterationOutcome::ValidationFailed { exit_code: 127 };
                    Attempt {
                        fatal: Some(reason.clone()),
                        ..Attempt::failed(outcome, reason)
                    }
                }
            };
        }
        let outcome = match end.outcome() {
            Some(outcome) => outcome,
            // Without a check, the end of the conversation decides.
            None if !self.cancel.is_cancelled() => return Attempt::passed(),
            None => IterationOutcome::LlmError {
                error: LoopEnd::Cancelled.words().to_owned(),
            },
        };
        let fatal = match end {
            ConversationEnd::LlmError(error)
                if error.is_missing_program() || error.is_limited() =>
            {
                Some(format!("cannot use the model: {error}"))
            }
            _ => None,
        };
        Attempt {
            failure: Some(PreviousFailure::of_outcome(&outcome)),
            outcome,
            fatal,
        }
    }

    fn check(
        &mut self,
        check: &str,
        reporter: &LoopReporter<'_>,
        files: &IterationFiles,
    ) -> Result<ValidationResult> {
        let control = self.running_check.begin();
        let mut command = Command::shell(check)
            .directory(&self.directory)
            .line_limit(self.check_lines_max)
            // Maximum size of each output of a check that is kept for the next prompt.
            .collect(256 << 10)
            .clock(self.clock.clone())
            .control(&control)
            .on_output(files.on_check_output());
        if let Some(timeout) = self.check_timeout {
            command = command.timeout(timeout);
        }
        let result = validate_until_stopped(
            command,
            check,
            reporter.emitter,
            self.progress.iteration,
            self.cancel.stop(),
        )?;
        self.lost_lines += result.lost_lines;
        Ok(result)
    }

    fn fingerprint(&self) -> Option<u64> {
        fingerprint(&self.directory, self.ignored.as_deref(), &self.clock)
    }
}

// A loop as a source of an engine: a thread runs it, and opens and closes its run.

/// Creates the job that runs a loop. `extra` is added to the metadata of the run.
pub(crate) fn loop_job(
    name: JobName,
    mut engine: LoopEngine,
    mut extra: Map<String, Value>,
) -> (impl Source, JobHandle<LoopOutcome, Cancel>) {
    let cancel = engine.cancel();
    let work = move |context: &SourceContext, job: JobRun<'_>| {
        engine.clock = context.clock.clone();
        if !engine.directory.is_dir() {
            let error = Error::invalid("the working directory does not exist:");
            return Err(error.at(&engine.directory));
        }
        extra.extend(place());
        let info = RunInfo {
            kind: RunKind::Loop,
            label: "loop".to_owned(),
            identity: None,
            extra,
        };
        run(&mut engine, job, info, context)
    };
    Job::new("td-loop".to_owned(), name, cancel, work)
}

fn run(
    engine: &mut LoopEngine,
    job: JobRun<'_>,
    info: RunInfo,
    context: &SourceContext,
) -> Result<LoopOutcome> {
    let opened = job.open(context, info)?;
    let emitter = opened.emitter;
    let id = emitter.execution_id().clone();
    if engine.progress.iteration > 0 && opened.history.is_none() {
        context.runs.close(&id, RunState::Detached, None);
        return Err(Error::locked(format!(
            "another process continues the run {id}"
        )));
    }
    let stored = (Arc::clone(&context.runs), id.clone());
    // The shutdown of the engine cancels the loop.
    let (cancel, stop) = (engine.cancel(), context.stop.clone());
    let outcome = cancel.run_until("td-loop-stop", stop, || {
        engine.run_stored(Some(&emitter), Some(stored))
    })?;
    let (state, exit_status) = match &outcome.end {
        LoopEnd::Passed => (RunState::Completed, Some(0)),
        LoopEnd::Cancelled => (RunState::Detached, None),
        _ => (RunState::Failed, Some(1)),
    };
    context.runs.close(&id, state, exit_status);
    Ok(outcome)
}
