//! The loop: phase after phase, iteration after iteration, until each check has passed.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::select_biased;

use super::LlmClient;
use super::agent::Agent;
use super::model::Cancel;
use super::prompt::Setback;
use super::record::{Keep, Record};
use super::running::Running;
use super::spec::{Phase, Spec};
use super::tool::Toolbox;
use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::IterationOutcome;
use crate::thread::{self, Handle, StopGuard, stop_pair};

/// As TaskDaemon's loops have it.
const LOOP_TYPE: &str = "Phase";

/// Iterations of a loop unless told otherwise.
const ITERATIONS_MAX: u32 = 10;

/// When the model fails so many times on end, something is wrong that no further attempt mends: a
/// key, a network, a program that is not there.
const FAILURES_MAX: u32 = 5;

/// After a failure of the model the next attempt waits, longer each time.
const BACK_OFF: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(60);

/// Works on a task until its check passes: asks a model, runs its tools, runs the check, and tells
/// the model what failed.
///
/// All that happens becomes events of its emitter; without one everything else is the same.
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
    pub(super) agent: Agent,
    pub(super) toolbox: Toolbox,
    pub(super) directory: PathBuf,
    max_iterations: u32,
    pub(super) max_turns: Option<u32>,
    timeout: Option<Duration>,
    pub(super) check_timeout: Option<Duration>,
    pub(super) leave_out: Option<PathBuf>,
    pub(super) cancel: Cancel,
    /// What ends the check that runs.
    pub(super) checking: Running,
    pub(super) clock: Clock,
    pub(super) progress: Progress,
}

/// How far a loop has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The phase that is to be worked on, from 0.
    pub phase: usize,
    /// Iterations that have been begun.
    pub iteration: u32,
    /// Those of this phase.
    pub in_phase: u32,
    /// Why there is to be another one.
    pub setback: Option<Setback>,
    /// The last one has changed nothing.
    pub unchanged: bool,
    /// Nothing of the loop was told before.
    pub is_resumed: bool,
}

/// What a loop came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopOutcome {
    /// All checks have passed.
    pub success: bool,
    /// Iterations in all.
    pub iterations: u32,
    /// Why it ended.
    pub end: LoopEnd,
}

/// Why a loop ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoopEnd {
    /// All checks have passed.
    Passed,
    /// There may be no more iterations.
    MaxIterations,
    /// Its time was up.
    Timeout,
    /// It was cancelled.
    Cancelled,
    /// Going on is of no use; why.
    Failed(String),
}

impl LoopEnd {
    /// In words, for people.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Passed => "all checks have passed",
            Self::MaxIterations => "no more iterations are allowed",
            Self::Timeout => "its time was up",
            Self::Cancelled => "it was cancelled",
            Self::Failed(why) => why,
        }
    }
}

impl LoopEngine {
    /// A loop that asks this model.
    pub fn new(spec: Spec, client: impl LlmClient + 'static) -> Self {
        Self::of(spec, Agent::new(Box::new(client)))
    }

    /// A loop that runs this command, in the loop's directory; its errors are kept with those of
    /// the check.
    pub fn of_command(spec: Spec, command: super::CommandClient) -> Self {
        Self::of(spec, Agent::command(command))
    }

    fn of(spec: Spec, agent: Agent) -> Self {
        Self {
            spec,
            agent,
            toolbox: Toolbox::new(),
            directory: PathBuf::from("."),
            max_iterations: ITERATIONS_MAX,
            max_turns: None,
            timeout: None,
            check_timeout: None,
            leave_out: None,
            cancel: Cancel::new(),
            checking: Running::default(),
            clock: Clock::system(),
            progress: Progress::default(),
        }
    }

    /// The tools that the model may call.
    pub fn tools(mut self, toolbox: Toolbox) -> Self {
        self.toolbox = toolbox;
        self
    }

    /// Where the agent works and checks run; here, unless told otherwise.
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = path.into();
        self.agent = self.agent.directory(&self.directory);
        self
    }

    /// How many iterations there may be in all; 10 unless told otherwise.
    pub fn max_iterations(mut self, iterations: u32) -> Self {
        self.max_iterations = iterations;
        self
    }

    /// How many answers of the model an iteration may have; 50 unless told otherwise. Of a command
    /// that works by itself it is the messages of its model that its records tell; any number, unless
    /// told otherwise. Then the check decides.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = Some(turns);
        self.agent = self.agent.max_turns(turns);
        self
    }

    /// How long all of it may take; for ever, unless told otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long a check may take; for ever, unless told otherwise. One that takes longer has
    /// failed, with 124.
    pub fn check_timeout(mut self, timeout: Duration) -> Self {
        self.check_timeout = Some(timeout);
        self
    }

    /// A directory whose changes are not the agent's: that of the log.
    pub fn leave_out(mut self, path: impl Into<PathBuf>) -> Self {
        self.leave_out = Some(path.into());
        self
    }

    /// Goes on where another one was; from [`Progress::of_run`].
    pub fn resume(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// Ends it from another thread.
    #[must_use]
    pub fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Ends it, and kills what it runs: the last act of a program that must end at once.
    #[cfg(feature = "cli")]
    pub(crate) fn killer(&self) -> impl FnOnce() + Send + use<> {
        let cancel = self.cancel.clone();
        let running = [Some(self.checking.clone()), self.agent.running()];
        move || {
            cancel.cancel();
            running.iter().flatten().for_each(Running::kill);
        }
    }

    /// Runs it, in this thread, to its end; nothing is kept but by the emitter.
    ///
    /// What goes wrong in an iteration is its outcome, and the next one follows.
    pub fn run(&mut self, emitter: Option<&EventEmitter>) -> LoopOutcome {
        self.run_kept(emitter, None)
    }

    pub(super) fn run_kept(
        &mut self,
        emitter: Option<&EventEmitter>,
        keep: Option<Arc<dyn Keep>>,
    ) -> LoopOutcome {
        let deadline = self
            .timeout
            .and_then(|timeout| self.clock.now().checked_add(timeout));
        let record = Record::new(emitter, keep);
        if !self.progress.is_resumed {
            record.loop_started(LOOP_TYPE, &self.spec.task);
        }
        let end = match self.timer(deadline) {
            Ok(timer) => {
                let end = self.phases(&record, deadline);
                timer.end();
                end
            }
            Err(error) => LoopEnd::Failed(format!("{error:?}")),
        };
        record.loop_completed(LoopOutcome {
            success: end == LoopEnd::Passed,
            iterations: self.progress.iteration,
            end,
        })
    }

    /// Cancels at the deadline.
    fn timer(&self, deadline: Option<Instant>) -> Result<Timer> {
        let (running, over) = stop_pair();
        let Some(deadline) = deadline else {
            return Ok(Timer {
                running,
                thread: None,
            });
        };
        let (cancel, clock) = (self.cancel.clone(), self.clock.clone());
        let thread = thread::spawn("td-loop-timer", move || {
            select_biased! {
                recv(over) -> _ => {}
                recv(clock.at(deadline)) -> _ => cancel.cancel(),
            }
        })?;
        Ok(Timer {
            running,
            thread: Some(thread),
        })
    }

    fn phases(&mut self, record: &Record<'_>, deadline: Option<Instant>) -> LoopEnd {
        let total = self.spec.phases.len();
        let mut failures = 0;
        while let Some(phase) = self.spec.phases.get(self.progress.phase).cloned() {
            if self.progress.in_phase == 0 {
                record.phase_started(self.progress.phase, &phase.name, total);
            }
            loop {
                if let Some(end) = self.ends(&phase, deadline) {
                    return end;
                }
                self.progress.iteration += 1;
                self.progress.in_phase += 1;
                let tried = self.iteration(record, &phase);
                record.iteration_completed(&self.progress, &tried.outcome);
                if matches!(tried.outcome, IterationOutcome::ValidationPassed) {
                    break;
                }
                if let Some(why) = tried.hopeless {
                    return LoopEnd::Failed(why);
                }
                failures = match tried.outcome {
                    IterationOutcome::LlmError { .. } => failures + 1,
                    _ => 0,
                };
                if failures > 0
                    && let Some(end) = self.back_off(failures, record)
                {
                    return end;
                }
            }
            failures = 0;
            self.progress = Progress {
                phase: self.progress.phase + 1,
                iteration: self.progress.iteration,
                ..Progress::default()
            };
        }
        LoopEnd::Passed
    }

    /// Whether there may be no further iteration.
    fn ends(&self, phase: &Phase, deadline: Option<Instant>) -> Option<LoopEnd> {
        if deadline.is_some_and(|deadline| self.clock.now() >= deadline) {
            return Some(LoopEnd::Timeout);
        }
        if self.cancel.is_cancelled() {
            return Some(LoopEnd::Cancelled);
        }
        let in_phase = phase.max_iterations.unwrap_or(u32::MAX);
        let is_used_up =
            self.progress.iteration >= self.max_iterations || self.progress.in_phase >= in_phase;
        is_used_up.then_some(LoopEnd::MaxIterations)
    }

    /// After a failure of the model: waits, or gives up.
    fn back_off(&self, failures: u32, record: &Record<'_>) -> Option<LoopEnd> {
        if self.cancel.is_cancelled() || self.progress.iteration >= self.max_iterations {
            return None;
        }
        if failures >= FAILURES_MAX {
            let why = format!("the model failed {failures} times on end");
            return Some(LoopEnd::Failed(why));
        }
        let wait = BACK_OFF.saturating_mul(1 << (failures - 1).min(16));
        let wait = wait.min(BACK_OFF_MAX);
        record.warning(&format!("the model failed: the next iteration in {wait:?}"));
        select_biased! {
            recv(self.cancel.stop()) -> _ => {}
            recv(self.clock.after(wait)) -> _ => {}
        }
        None
    }

    /// Whether it can be begun: the directory is there.
    ///
    /// # Errors
    /// `is_invalid_input()` where not.
    pub(super) fn ready(&self) -> Result<()> {
        let path: &Path = &self.directory;
        match path.is_dir() {
            true => Ok(()),
            false => Err(Error::invalid("there is no directory to work in:").at(path)),
        }
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

/// Waits for the deadline, on a thread of its own; ends when it is dropped.
struct Timer {
    running: StopGuard,
    thread: Option<Handle<()>>,
}

impl Timer {
    fn end(self) {
        drop(self.running);
        if let Some(thread) = self.thread {
            // It has nothing that could panic.
            let _ = thread.join();
        }
    }
}
