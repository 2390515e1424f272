//! The open runs: their users and their history.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crossbeam_channel::bounded;
use serde_json::{Map, Value};

#[cfg(feature = "cli")]
use super::log_thread::LogTroubles;
use super::log_thread::{CloseRun, LogCommand, LogCommands};
use crate::bus::{EventBus, EventEmitter};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{ExecutionId, TdEvent, for_each_json_text};
use crate::history::{
    DataDir, IterationDirectory, OpenRun, RunDirectory, RunIndex, RunInfo, RunState, TmuxIdentity,
    numbered,
};
use crate::observe::{OpenedRun, RunName, RunProvider};
use crate::recording::{RecordingReport, RecordingWriter, RunRecorder};
use crate::redact::Rules;
use crate::thread::lock;

/// The time that shutdown waits for the disk of raw recordings; the same as for the history.
const RECORDINGS_END: Duration = Duration::from_secs(5);

/// The longest time for which opening a run waits for the end of the same run.
const RELEASE_WAIT: Duration = Duration::from_secs(2);

/// Opens runs, counts their users, and closes each run with its last user.
pub(super) struct RunRegistry {
    bus: Arc<EventBus>,
    log: Option<(DataDir, LogCommands)>,
    /// Also redacts metadata.
    rules: Rules,
    pub recordings: RecordingWriter,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<ExecutionId, Open>,
    /// The runs that existed when the first run was opened.
    index: Option<RunIndex>,
    /// The label last used without a log, and the number of its uses.
    label: String,
    label_uses: u32,
    closed: bool,
}

impl State {
    /// Returns the label, with a suffix if an open execution has it or the last one had it.
    fn unused_id(&mut self, label: &str) -> ExecutionId {
        if self.label != label {
            (self.label, self.label_uses) = (label.to_owned(), 0);
        }
        loop {
            self.label_uses += 1;
            let id = numbered(label, self.label_uses);
            if !self.open.contains_key(&id) {
                return id;
            }
        }
    }
}

struct Open {
    emitter: EventEmitter,
    users: usize,
    history: Option<RunDirectory>,
    /// True if the events are written; otherwise the run's directory belongs to another observer.
    is_kept: bool,
    /// Another process writes the run.
    #[cfg_attr(
        not(feature = "notify"),
        expect(dead_code, reason = "notifications ask")
    )]
    is_locked: bool,
}

impl RunRegistry {
    pub fn new(
        bus: Arc<EventBus>,
        log: Option<(DataDir, LogCommands)>,
        rules: Rules,
        clock: Clock,
    ) -> Self {
        Self {
            recordings: recording_writer(&bus, rules.clone(), clock.clone()),
            bus,
            log,
            rules,
            clock,
            state: Mutex::default(),
        }
    }

    /// Returns the emitter of a run that stays open until the engine's end. Fails if the engine keeps history, but
    /// cannot open the run.
    pub fn emitter(&self, id: ExecutionId, info: RunInfo) -> Result<EventEmitter> {
        Ok(self.open_run(RunName::Exact(id), info, true)?.emitter)
    }

    /// Returns the existing or future run directory of an execution; `None` if the execution is
    /// observed without a log, because another observer's log there has other numbers.
    pub fn directory(&self, id: &ExecutionId) -> Option<RunDirectory> {
        let (data, _) = self.log.as_ref()?;
        let is_foreign = |open: &Open| !open.is_kept;
        (!self.state().open.get(id).is_some_and(is_foreign)).then(|| data.run(id))
    }

    /// Makes every later attempt to open a run fail.
    pub fn refuse_new_runs(&self) {
        self.state().closed = true;
    }

    /// Writes the queued data of raw recordings; `None` if there are none.
    pub fn finish_recordings(&self) -> Option<RecordingReport> {
        self.recordings.finish(self.clock.now() + RECORDINGS_END)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Opens the run's log, if the engine keeps history.
    fn open_log(
        &self,
        state: &mut State,
        name: &RunName,
        info: RunInfo,
    ) -> Option<Result<OpenRun>> {
        let (data, _) = self.log.as_ref()?;
        let mut opened = self.try_open_log(data, state, name, info.clone());
        if opened.as_ref().is_err_and(Error::is_locked) {
            // A run of this engine keeps its lock for a while after its last use.
            self.close_ended_runs();
            opened = self.try_open_log(data, state, name, info);
        }
        for warning in opened.iter().flat_map(|run| &run.warnings) {
            log::warn!("{warning}");
        }
        Some(opened)
    }

    fn try_open_log(
        &self,
        data: &DataDir,
        state: &mut State,
        name: &RunName,
        info: RunInfo,
    ) -> Result<OpenRun> {
        let now = self.clock.wall();
        match name {
            RunName::Exact(id) => data.run(id).open(info, now),
            // A run without an identity cannot be found again.
            RunName::Labelled(label) if info.identity.is_none() => {
                RunIndex::default().open_run(data, label, info, now)
            }
            RunName::Labelled(label) => {
                let index = state.index.get_or_insert_with(|| RunIndex::scan(data));
                index.open_run(data, label, info, now)
            }
        }
    }

    /// Closes the runs that nobody uses any more at once, and waits until their locks are released.
    fn close_ended_runs(&self) {
        let (done, released) = bounded(0);
        self.send(LogCommand::CloseNow { done });
        // A disk that does not respond must not hold up who opens a run.
        let _ = released.recv_timeout(RELEASE_WAIT);
    }

    /// Opens a run. One that cannot be opened is an error if it `must_be_kept`; otherwise it is observed without a
    /// log.
    fn open_run(&self, name: RunName, info: RunInfo, must_be_kept: bool) -> Result<OpenedRun> {
        let (name, info) = self.redacted(name, info);
        let mut state = self.state();
        if state.closed {
            return Err(Error::gone("the engine is shutting down"));
        }
        if let RunName::Exact(id) = &name
            && let Some(open) = state.open.get_mut(id)
        {
            if must_be_kept && self.log.is_some() && !open.is_kept {
                return Err(Error::other(format!("{id} is observed without a log here")));
            }
            open.users += 1;
            return Ok(OpenedRun {
                emitter: open.emitter.clone(),
                history: open.history.clone(),
                locked: None,
            });
        }
        let mut is_kept = false;
        let mut locked = None;
        let (emitter, history) = match self.open_log(&mut state, &name, info) {
            Some(Ok(mut run)) => {
                is_kept = true;
                let history = run.is_resumed().then(|| run.directory().clone());
                // While another process wrote the run, this process observed it without a log.
                let id = run.execution_id().clone();
                let (emitter, next_seq) = self.bus.start_numbers(id, run.next_seq(), true);
                run.leave_out(next_seq);
                self.send(LogCommand::Attach(Box::new(run)));
                (emitter, history)
            }
            Some(Err(error)) if must_be_kept => return Err(error),
            failed => {
                let label = match &name {
                    RunName::Exact(id) => id.clone(),
                    RunName::Labelled(label) => state.unused_id(label),
                };
                let emitter = self.bus.emitter_for(label.clone());
                if let (Some((data, commands)), Some(Err(error))) = (&self.log, failed) {
                    let (run, cause) = (data.run(&label), format!("{error:?}"));
                    let why = format!("observing without a log: {cause}");
                    commands.send(LogCommand::Skip { run, cause });
                    locked = locked_run(&error);
                    if locked.is_none() {
                        commands.troubles.set(&label, Some(&why));
                    }
                    log::warn!("{why}");
                    emitter.warning("log", &why);
                }
                (emitter, None)
            }
        };
        let id = emitter.execution_id().clone();
        state.open.insert(
            id,
            Open {
                emitter: emitter.clone(),
                users: 1,
                history: history.clone(),
                is_kept,
                is_locked: locked.is_some(),
            },
        );
        Ok(OpenedRun {
            emitter,
            history,
            locked,
        })
    }
}

impl RunProvider for RunRegistry {
    fn open(&self, name: RunName, info: RunInfo) -> Result<OpenedRun> {
        self.open_run(name, info, false)
    }

    fn runs_of_server(&self, server: &TmuxIdentity) -> Vec<RunDirectory> {
        let Some((data, _)) = &self.log else {
            return Vec::new();
        };
        let state = self.state();
        let runs = state.index.iter().flat_map(|index| index.of_server(server));
        runs.map(|run| data.run(&run.execution_id)).collect()
    }

    #[cfg(feature = "notify")]
    fn is_written_elsewhere(&self, id: &ExecutionId) -> bool {
        let state = self.state();
        state.open.get(id).is_some_and(|open| open.is_locked)
    }

    fn add_metadata(&self, id: &ExecutionId, mut extra: Map<String, Value>) {
        self.redact(&mut extra);
        self.send(LogCommand::AddMetadata {
            id: id.clone(),
            extra,
        });
    }

    fn create_iteration(
        &self,
        id: &ExecutionId,
        iteration: u32,
    ) -> Option<Result<IterationDirectory>> {
        let run = self.directory(id)?;
        Some(run.iteration(iteration, &self.rules))
    }

    fn start_recording(&self, id: &ExecutionId, title: &str) -> Option<Result<RunRecorder>> {
        let run = self.directory(id)?;
        Some(self.recordings.record(&run, title))
    }

    fn close(&self, id: &ExecutionId, run_state: RunState, exit_status: Option<i32>) {
        let mut state = self.state();
        let Some(open) = state.open.get_mut(id) else {
            return;
        };
        open.users -= 1;
        if open.users == 0 {
            state.open.remove(id);
            if run_state == RunState::Completed
                && let Some(index) = &mut state.index
            {
                index.forget(id);
            }
            self.send(LogCommand::Close(CloseRun {
                id: id.clone(),
                state: run_state,
                exit_status,
            }));
        }
    }
}

impl RunRegistry {
    /// Redacts a session's name. An id chosen by the caller is kept.
    fn redacted(&self, name: RunName, mut info: RunInfo) -> (RunName, RunInfo) {
        info.label = self.rules.text(&info.label).into_owned();
        self.redact(&mut info.extra);
        let name = match name {
            RunName::Exact(id) => RunName::Exact(id),
            RunName::Labelled(label) => RunName::Labelled(self.rules.text(&label).into_owned()),
        };
        (name, info)
    }

    fn redact(&self, extra: &mut Map<String, Value>) {
        for (_, value) in extra {
            for_each_json_text(value, &mut |text| {
                if let Cow::Owned(redacted) = self.rules.text(text) {
                    *text = redacted;
                }
            });
        }
    }

    /// Returns the runs whose logs cannot be written at present.
    #[cfg(feature = "cli")]
    pub fn log_troubles(&self) -> LogTroubles {
        let log = self.log.as_ref();
        log.map_or_else(LogTroubles::default, |(_, commands)| {
            commands.troubles.clone()
        })
    }

    fn send(&self, command: LogCommand) {
        if let Some((_, commands)) = &self.log {
            commands.send(command);
        }
    }
}

/// Returns the run whose lock another process holds.
fn locked_run(error: &Error) -> Option<RunDirectory> {
    let lock = error.path().filter(|_| error.is_locked())?;
    RunDirectory::at(lock.parent()?).ok()
}

/// Returns a writer of raw recordings that emits its warnings on the bus.
fn recording_writer(bus: &Arc<EventBus>, rules: Rules, clock: Clock) -> RecordingWriter {
    let bus = Arc::clone(bus);
    RecordingWriter::new(rules, clock, move |id, warning| {
        log::warn!("{id}: {warning}");
        // A closing bus accepts no events; the warning is on stderr.
        let _ = bus.emit(TdEvent::Warning {
            execution_id: id.clone(),
            context: "raw".to_owned(),
            message: warning.to_owned(),
        });
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::bus::Delivery;
    use crate::history::{DataDir, RunInfo};

    #[test]
    fn a_recording_that_cannot_be_written_is_a_warning() {
        let temp = tempfile::tempdir().unwrap();
        let clock = Clock::system();
        let bus = Arc::new(EventBus::new(16));
        let mut events = bus.subscribe();
        let writer = || recording_writer(&bus, Rules::builtin(), clock.clone());
        let deadline = || clock.now() + RECORDINGS_END;
        assert_eq!(writer().finish(deadline()), None);
        let writer = writer();
        let open = |id: &str| {
            let run = DataDir::new(temp.path()).run(&id.into());
            run.open(RunInfo::default(), clock.wall()).unwrap()
        };
        let (good, bad) = (open("good"), open("bad"));
        symlink(temp.path(), bad.directory().path().join("raw")).unwrap();
        let pane = crate::event::PaneId::from("%1");
        for run in [&good, &bad] {
            let recorder = writer.record(run.directory(), "a title").unwrap();
            recorder.begin(&pane, (80, 24), b"screen", clock.wall());
        }
        writer.begin_shutdown();
        let report = writer.finish(deadline()).unwrap();
        assert!(report.bytes_written > 0 && !report.timed_out, "{report:?}");
        let lost: Vec<&str> = report.lost.iter().map(|lost| &*lost.execution_id).collect();
        assert_eq!(lost, ["bad"]);
        assert_eq!(good.directory().recordings().unwrap().len(), 1);
        assert!(writer.record(good.directory(), "").is_err());
        bus.close();
        let warnings: Vec<TdEvent> = events
            .iter()
            .filter_map(|delivery| match delivery {
                Delivery::Event(envelope) => Some(envelope.event.clone()),
                Delivery::Lagged { .. } => None,
            })
            .collect();
        assert!(
            matches!(&warnings[..], [TdEvent::Warning { execution_id, context, .. }]
                if &**execution_id == "bad" && context == "raw"),
            "{warnings:?}"
        );
    }
}
