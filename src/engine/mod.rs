//! The engine connects bus, log and sources, and stops them in the order that loses nothing.
//!
//! Stopping travels the way data travels: sources stop and are joined, then the bus is closed and
//! drained, then the log is written and synced. Raw recordings end with their sources. Any other
//! order loses the last events, or hangs.

mod log_thread;
mod runs;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Receiver;
use serde_json::{Map, Value};

use crate::agent_loop::{Cancel, LoopEngine, LoopOutcome, loop_job};
use crate::bus::{BusOptions, EventBus, EventEmitter, SubscribeOptions, Subscription};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{ExecutionId, TdEvent};
use crate::history::{
    DataDir, LogOptions, LogReport, Retention, Rotation, RunDirectory, RunInfo, SyncPolicy,
};
#[cfg(feature = "kernel")]
use crate::kernel::{KernelHandle, KernelTask, kernel_job};
#[cfg(feature = "cli")]
use crate::observe::BackgroundSessions;
use crate::observe::{
    AgentWatch, AgentsReport, Coordinator, JobHandle, JobIds, ObservedSessions, RunName,
    RunningWatch, Source, SourceContext, Watch, WatchClaims, WatchHandle, agents_job, command_job,
};
use crate::process::{Command, CommandControl, CommandOutcome};
use crate::recording::RecordingReport;
use crate::redact::Rules;
use crate::thread::{self, Handle, Panicked, Stop, StopGuard, stop_pair};
use crate::tmux::Server;
use crate::wait::Waiter;

use log_thread::LogThread;
#[cfg(feature = "cli")]
pub(crate) use log_thread::LogTroubles;
use runs::RunRegistry;

/// The time that a source may take to end; the sources' own limits are well below this.
const SOURCE_END: Duration = Duration::from_secs(10);

/// The result of an engine's work.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The report of the log; `None` without a log.
    pub log: Option<LogReport>,
    /// The report of raw recordings; `None` if there were none.
    pub raw: Option<RecordingReport>,
    /// The threads that panicked.
    pub panicked: Vec<Panicked>,
    /// The names of threads that did not end in time and still run.
    pub left: Vec<String>,
}

impl Report {
    /// Returns true if nothing was lost: every event that the engine accepted is in its log, if it has one, and every
    /// thread has ended well. What a subscriber missed, it has been told ([`Delivery::Lagged`](crate::Delivery)).
    pub fn is_clean(&self) -> bool {
        self.problems().is_empty()
    }

    /// Returns each loss and each failure, in words.
    fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = self.panicked.iter().map(ToString::to_string).collect();
        let left = self.left.iter();
        problems.extend(left.map(|name| format!("the thread {name} did not end in time")));
        let recordings = self.raw.iter().flat_map(|raw| &raw.lost);
        problems.extend(recordings.map(ToString::to_string));
        if let Some(log) = &self.log {
            let lost = log.lost.iter().chain(&log.unlogged);
            problems.extend(lost.map(ToString::to_string));
            if log.not_kept > 0 {
                let events = log.not_kept;
                problems.push(format!(
                    "{events} events belong to no run and were not kept"
                ));
            }
            problems.extend(log.problems.iter().map(|notice| notice.message.clone()));
        }
        problems
    }
}

/// One line that names each loss, for people.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Further ones would not be read; the fields have them.
        const NAMED_MAX: usize = 8;
        let problems = self.problems();
        if problems.is_empty() {
            return f.write_str("nothing was lost");
        }
        let named = problems.len().min(NAMED_MAX);
        f.write_str(&problems[..named].join("; "))?;
        match problems.len() - named {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// Configures an [`Engine`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is started"]
pub struct Builder {
    bus: BusOptions,
    data_dir: Option<PathBuf>,
    log: LogOptions,
}

impl Default for Builder {
    fn default() -> Self {
        let bus = BusOptions {
            redact: Rules::builtin(),
            ..BusOptions::default()
        };
        Self {
            bus,
            data_dir: None,
            log: LogOptions::default(),
        }
    }
}

impl Builder {
    /// Returns a builder of an engine without a log; [`Builder::data_dir`] adds one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps the history under this directory, in `runs/{execution_id}/events.jsonl`.
    pub fn data_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(path.into());
        self
    }

    /// Sets when the log is synced; defaults to once a second.
    pub fn sync(mut self, policy: SyncPolicy) -> Self {
        self.log.sync = policy;
        self
    }

    /// Sets when a run's log continues in a new file; defaults to 64 MiB or one day.
    pub fn rotation(mut self, rotation: Rotation) -> Self {
        self.log.rotation = rotation;
        self
    }

    /// Sets how much history is kept; defaults to 10 GiB.
    pub fn retention(mut self, retention: Retention) -> Self {
        self.log.retention = retention;
        self
    }

    /// Sets what is redacted; defaults to keys and tokens of the known kinds. Secrets are removed
    /// from every event before its delivery, and from the metadata of runs. [`Rules::none`]
    /// disables redaction.
    pub fn redact(mut self, rules: Rules) -> Self {
        self.bus.redact = rules;
        self
    }

    /// Sets the number of events that a subscription holds while it is not read; defaults to
    /// 10,000.
    pub fn capacity(mut self, events: usize) -> Self {
        self.bus.capacity = events;
        self
    }

    /// Sets the clock, for tests.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.bus.clock = clock;
        self
    }

    /// Starts the bus and the log. Subscribe before attaching sources.
    ///
    /// # Errors
    /// If the data directory is unusable (the error contains its path), such as one that others can write to, or threads
    /// cannot be started. A missing directory is created.
    pub fn start(self) -> Result<Engine> {
        let clock = self.bus.clock.clone();
        let data = self.data_dir.map(DataDir::new);
        if let Some(data) = &data {
            data.prepare()?;
        }
        let rules = self.bus.redact.clone();
        let bus = Arc::new(EventBus::with_options(self.bus)?);
        let log_thread = match data {
            Some(_) => Some(LogThread::start(Arc::clone(&bus), self.log, clock.clone())?),
            None => None,
        };
        let commands = log_thread.as_ref().map(|log| log.commands.clone());
        let runs = RunRegistry::new(Arc::clone(&bus), data.zip(commands), rules, clock.clone());
        let (running, stop) = stop_pair();
        let (alive, done) = stop_pair();
        Ok(Engine {
            sources: Vec::new(),
            panicked: Vec::new(),
            watches: Vec::new(),
            claims: WatchClaims::default(),
            jobs: JobIds::default(),
            sessions: ObservedSessions::default(),
            alive: Some(Arc::new(alive)),
            done,
            running: Some(running),
            stop,
            runs: Arc::new(runs),
            log_thread,
            bus,
            clock,
        })
    }
}

/// Observes executions, numbers their events, writes and delivers them until shutdown.
///
/// ```no_run
/// use td_observe::tmux::Server;
/// use td_observe::{Builder, Delivery, TdEvent, Watch};
///
/// # fn main() -> td_observe::Result<()> {
/// let mut engine = Builder::new().data_dir("/tmp/observed").start()?;
/// let mut events = engine.subscribe();
/// engine.watch(Watch::new(Server::default()))?;
/// for delivery in events.iter() {
///     match delivery {
///         Delivery::Event(envelope) => match &envelope.event {
///             TdEvent::OutputUpdate { pane, chunk, .. } => print!("{pane}: {chunk}"),
///             TdEvent::SessionEnded { .. } => break,
///             _ => {}
///         },
///         Delivery::Lagged { missed } => eprintln!("missed {missed} events"),
///     }
/// }
/// engine.shutdown();
/// # Ok(())
/// # }
/// ```
///
/// An engine that is dropped, such as by an early `?` or a panic, stops in the same order as
/// [`shutdown`](Self::shutdown): no child process is left, but those that have left the process group of their command,
/// and each run is closed. This takes as long as a command that ignores the signal is given
/// ([`Command::grace`](crate::process::Command::grace), 5 s). What went wrong is an error of the crate `log`.
pub struct Engine {
    sources: Vec<Handle<()>>,
    /// The panics of sources that have ended.
    panicked: Vec<Panicked>,
    watches: Vec<RunningWatch>,
    claims: WatchClaims,
    jobs: JobIds,
    sessions: ObservedSessions,
    /// Each source holds a clone; `done` is closed when all are dropped.
    alive: Option<Arc<StopGuard>>,
    done: Stop,
    /// `None` once the engine is stopped.
    running: Option<StopGuard>,
    stop: Stop,
    runs: Arc<RunRegistry>,
    log_thread: Option<LogThread>,
    bus: Arc<EventBus>,
    clock: Clock,
}

impl Engine {
    /// Returns a subscription to all events from now on, each delivered unchanged.
    pub fn subscribe(&self) -> Subscription {
        self.bus.subscribe()
    }

    /// Returns a subscription to the events from now on for which the closure returns true; see
    /// [`EventBus::subscribe_filtered`].
    pub fn subscribe_filtered(
        &self,
        selects: impl Fn(&TdEvent) -> bool + Send + 'static,
    ) -> Subscription {
        self.bus.subscribe_filtered(selects)
    }

    /// Returns a subscription with options: filtered, merged, with another capacity.
    pub fn subscribe_with(&self, options: SubscribeOptions) -> Subscription {
        self.bus.subscribe_with(options)
    }

    /// Returns the existing or future run directory of an execution; `None` if it has no log here.
    pub(crate) fn run_directory(&self, id: &ExecutionId) -> Option<RunDirectory> {
        self.runs.directory(id)
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the bus.
    pub fn bus(&self) -> &Arc<EventBus> {
        &self.bus
    }

    /// Returns an emitter for an execution of the caller, whose run is created or resumed.
    ///
    /// # Errors
    /// If the engine is shutting down; if it keeps history, but cannot open the run, for example because another
    /// process or engine writes it ([`Error::is_locked`]). [`EventBus::emitter_for`] emits without a log.
    pub fn emitter_for(&self, id: impl Into<ExecutionId>, info: RunInfo) -> Result<EventEmitter> {
        self.runs.emitter(id.into(), info)
    }

    /// Watches a tmux server, or parts of it, and returns at once. The content of a pane at its first
    /// capture (`PaneOpened`) is not reported. Each session has a run, whose id arrives with `SessionStarted`; a later
    /// watch of the session resumes it.
    ///
    /// A pane that an earlier watch of this engine observes is left to it: each line arrives once, in the run and
    /// with the options of that watch. When it ends, this one observes the pane.
    ///
    /// # Errors
    /// If the interval is zero, or threads cannot be started.
    pub fn watch(&mut self, watch: Watch) -> Result<WatchHandle> {
        let (coordinator, poll_requester) = Coordinator::new(watch)?;
        let (guard, stop) = stop_pair();
        let done = self.attach(coordinator, stop)?;
        let watch = RunningWatch::new(poll_requester, guard, done);
        self.watches.retain(|watch| !watch.has_ended());
        self.watches.push(watch.clone());
        Ok(WatchHandle(watch))
    }

    /// Returns a waiter for panes of a server. It hears the panes that this engine streams, before anything is
    /// redacted, and captures the others itself. A pane is streamed once
    /// [`PaneOpened`](crate::TdEvent::PaneOpened) has been delivered. A wait outlives the engine, and captures its panes
    /// then; [`Wait::cancelled_by`](crate::wait::Wait::cancelled_by) ends it.
    ///
    /// # Errors
    /// When the system has no threads left.
    pub fn waiter(&self, server: Server) -> Result<Waiter> {
        Waiter::beside(server, self.sessions.clone(), self.clock.clone())
    }

    /// Returns the sessions that the engine observes, for waiters of other servers.
    #[cfg(feature = "cli")]
    pub(crate) fn sessions(&self) -> &ObservedSessions {
        &self.sessions
    }

    /// Runs a command on its own thread and observes it. Its run is named after the program and the
    /// time, for example `make@1768989600`.
    ///
    /// ```no_run
    /// use td_observe::process::Command;
    ///
    /// # fn main() -> td_observe::Result<()> {
    /// let mut engine = td_observe::Builder::new().data_dir("/tmp/observed").start()?;
    /// let tests = engine.execute(Command::new("make").arg("test"))?;
    /// println!("make exited with {}", tests.wait()?.code());
    /// engine.shutdown();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If threads cannot be started. [`JobHandle::wait`] reports a command that cannot be started,
    /// with the errors of [`Command::observe`].
    pub fn execute(
        &mut self,
        command: Command,
    ) -> Result<JobHandle<CommandOutcome, CommandControl>> {
        let name = RunName::at(&command.name(), self.clock.wall());
        self.execute_named(name, command)
    }

    /// Runs a command under this name. An existing run is resumed; if another engine or process writes it, the command
    /// runs without a log: a `Warning` says so, and the [`Report`] at the end is not clean.
    ///
    /// # Errors
    /// The same as [`Engine::execute`]; `is_invalid_input()` while another job of this engine has this name.
    pub fn execute_as(
        &mut self,
        id: impl Into<ExecutionId>,
        command: Command,
    ) -> Result<JobHandle<CommandOutcome, CommandControl>> {
        self.execute_named(RunName::Exact(id.into()), command)
    }

    fn execute_named(
        &mut self,
        name: RunName,
        command: Command,
    ) -> Result<JobHandle<CommandOutcome, CommandControl>> {
        let name = self.jobs.claim(name)?;
        self.attach_job(command_job(name, command))
    }

    fn attach_job<H>(&mut self, (job, handle): (impl Source, H)) -> Result<H> {
        self.attach(job, self.stop.clone())?;
        Ok(handle)
    }

    /// Polls the output files of background agents until all have ended. One run has the events of
    /// all of them.
    ///
    /// ```no_run
    /// use td_observe::AgentWatch;
    ///
    /// # fn main() -> td_observe::Result<()> {
    /// let mut engine = td_observe::Builder::new().data_dir("/tmp/observed").start()?;
    /// let agents = engine.watch_agents(AgentWatch::new().path("/tmp/tasks")?)?;
    /// println!("{:?}", agents.wait()?);
    /// engine.shutdown();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is nothing to watch, the interval is zero, another job of this engine has the same name, or threads
    /// cannot be started.
    pub fn watch_agents(&mut self, watch: AgentWatch) -> Result<JobHandle<AgentsReport>> {
        self.attach_job(agents_job(watch, &self.jobs, self.clock.wall())?)
    }

    /// Observes the background sessions of agents in the homes that these variables of the environment name, until the
    /// engine ends. Each has a run of its own.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    #[cfg(feature = "cli")]
    pub(crate) fn watch_sessions(
        &mut self,
        variable: impl Fn(&str) -> Option<std::ffi::OsString>,
    ) -> Result<()> {
        let sessions = BackgroundSessions::of(variable);
        self.attach(sessions, self.stop.clone()).map(drop)
    }

    /// Runs an agentic loop on its own thread. Its run is named after the time, for example
    /// `loop@1768989600`, if `id` is `None`. An existing run is resumed. `extra` is stored in the
    /// run's metadata.
    ///
    /// Several loops may run at once; each has its own id and files.
    ///
    /// # Errors
    /// If threads cannot be started; `is_invalid_input()` while another job of this engine has the same name.
    /// [`JobHandle::wait`] reports a loop that cannot be started: its directory does not exist, or its run cannot
    /// be opened.
    pub fn run_loop(
        &mut self,
        id: Option<ExecutionId>,
        engine: LoopEngine,
        extra: Map<String, Value>,
    ) -> Result<JobHandle<LoopOutcome, Cancel>> {
        let name = match id {
            Some(id) => RunName::Exact(id),
            None => RunName::at("loop", self.clock.wall()),
        };
        let name = self.jobs.claim(name)?;
        self.attach_job(loop_job(name, engine, extra))
    }

    /// Runs code on a kernel, or listens to it, on its own thread, as [`Engine::execute`] does. Its run is named
    /// after its label and the time.
    ///
    /// # Errors
    /// If threads cannot be started; `is_invalid_input()` while another job of this engine has the task's name.
    /// [`JobHandle::wait`] reports a kernel that cannot be started or does not answer.
    #[cfg(feature = "kernel")]
    pub fn run_kernel(&mut self, task: KernelTask) -> Result<KernelHandle> {
        let name = self.jobs.claim(task.run_name(self.clock.wall()))?;
        self.attach_job(kernel_job(task, name))
    }

    /// Returns the runs whose logs cannot be written at present.
    #[cfg(feature = "cli")]
    pub(crate) fn log_troubles(&self) -> LogTroubles {
        self.runs.log_troubles()
    }

    /// Returns the runs, into which others may emit.
    #[cfg(feature = "cli")]
    pub(crate) fn runs(&self) -> Arc<dyn crate::observe::RunProvider> {
        self.runs.clone()
    }

    /// Adds data to the metadata of an open run, in place of earlier data with the same names.
    #[cfg(feature = "cli")]
    pub(crate) fn add_metadata(&self, id: &ExecutionId, extra: Map<String, Value>) {
        crate::observe::RunProvider::add_metadata(&*self.runs, id, extra);
    }

    /// Polls everything at once without waiting for the next tick, for example after a command was
    /// typed into a pane. What stands on the screens then is delivered at once, including lines that would
    /// wait a tick for a change; a later change of such a line is delivered as a revision.
    pub fn poll_now(&self) {
        self.watches.iter().for_each(RunningWatch::poll_now);
    }

    /// Returns a channel that is closed when all attached sources have ended. No source can be
    /// attached afterwards.
    pub fn done(&mut self) -> Receiver<std::convert::Infallible> {
        self.alive = None;
        self.done.clone()
    }

    /// Starts a source, which ends when `stop` is closed; returns the channel that is closed when it has ended.
    fn attach(&mut self, source: impl Source, stop: Stop) -> Result<Stop> {
        let Some(alive) = self.alive.clone() else {
            return Err(Error::other("the engine accepts no more sources"));
        };
        let context = SourceContext {
            stop,
            clock: self.clock.clone(),
            runs: self.runs.clone(),
            sessions: self.sessions.clone(),
            claims: self.claims.clone(),
        };
        let (ended, done) = stop_pair();
        let handle = thread::spawn(source.name(), move || {
            let _until_end = (alive, ended);
            Box::new(source).run(context);
        })?;
        // Ended sources are dropped: an engine may run many commands.
        for ended in self.sources.extract_if(.., |source| source.is_finished()) {
            if let Err(panicked) = ended.join() {
                self.panicked.push(panicked);
            }
        }
        self.sources.push(handle);
        Ok(done)
    }

    /// Stops everything in order: sources observe one last time, and everything that they emitted
    /// is delivered and written. Subscriptions end when they are read to their end.
    pub fn shutdown(mut self) -> Report {
        self.stop()
    }

    fn stop(&mut self) -> Report {
        drop((self.running.take(), self.alive.take()));
        self.watches.iter().for_each(RunningWatch::stop);
        let (runs, bus) = (&self.runs, &self.bus);
        runs.recordings.begin_shutdown();
        let mut report = Report {
            panicked: std::mem::take(&mut self.panicked),
            ..Report::default()
        };
        let deadline = self.clock.now() + SOURCE_END;
        for source in self.sources.drain(..) {
            match source.join_deadline(deadline) {
                Ok(Ok(())) => {}
                Ok(Err(panicked)) => report.panicked.push(panicked),
                Err(source) => report.left.push(source.name().to_owned()),
            }
        }
        runs.refuse_new_runs();
        // The bus still accepts warnings.
        report.raw = runs.finish_recordings();
        if let Some(raw) = &report.raw {
            report.panicked.extend(raw.panicked.clone());
            if raw.timed_out {
                report.left.push("td-raw".to_owned());
            }
        }
        bus.close();
        if let Some(log_thread) = self.log_thread.take() {
            match log_thread.finish() {
                Ok(log) => report.log = Some(log),
                Err(panicked) => report.panicked.push(panicked),
            }
        }
        report
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // `shutdown` has stopped it and returned the report.
        if self.running.is_none() {
            return;
        }
        let report = self.stop();
        if !report.is_clean() {
            log::error!("{report}");
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("sources", &self.sources)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{LogReport, LostRun};
    use crate::recording::{LostRecording, RecordingReport};

    #[test]
    fn a_report_names_each_loss_in_one_line() {
        assert!(Report::default().is_clean());
        assert_eq!(Report::default().to_string(), "nothing was lost");
        let lost = |events, first_seq, last_seq| LostRun {
            execution_id: "job@1".into(),
            path: "/data/runs/job@1".into(),
            events,
            first_seq,
            last_seq,
            cause: "no space left on device".into(),
            is_recorded: false,
        };
        let log = LogReport {
            lost: vec![lost(5, 5, 9), lost(3, 5, 9)],
            unlogged: vec![lost(1, 7, 7)],
            ..LogReport::default()
        };
        let recording = LostRecording {
            execution_id: "job@1".into(),
            pane: "%3".into(),
            path: "/data/runs/job@1/raw".into(),
            cause: "no space left on device".to_owned(),
        };
        let raw = RecordingReport {
            lost: vec![recording],
            ..RecordingReport::default()
        };
        let mut report = Report {
            log: Some(log),
            raw: Some(raw),
            left: vec!["td-coordinator".into()],
            ..Report::default()
        };
        assert!(!report.is_clean());
        let disk = "no space left on device";
        assert_eq!(
            report.to_string(),
            [
                "the thread td-coordinator did not end in time".to_owned(),
                format!("the raw recording of %3 in /data/runs/job@1/raw is incomplete: {disk}"),
                format!("events 5 to 9 of job@1 are not in the log /data/runs/job@1: {disk}"),
                format!(
                    "3 events between 5 and 9 of job@1 are not in the log /data/runs/job@1: {disk}"
                ),
                format!("event 7 of job@1 is not in the log /data/runs/job@1: {disk}"),
            ]
            .join("; ")
        );
        report.left = vec!["td-x".to_owned(); 10];
        assert!(report.to_string().ends_with("; and 6 more"), "{report}");
    }
}
