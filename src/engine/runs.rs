//! The runs that are open: who uses them, where they are kept.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

use super::keeper::{Order, Orders};
use super::tapes::TapeBook;
use crate::bus::{EventBus, EventEmitter};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{ExecutionId, for_each_json_text};
use crate::history::{
    DataDir, IterationDirectory, OpenRun, RawReport, RawTapes, RunDirectory, RunIndex, RunInfo,
    RunState,
};
use crate::observe::{OpenedRun, RunName, Runs};
use crate::redact::Rules;

/// Opens runs, counts their users, and closes them with the last.
pub(super) struct RunBook {
    bus: Arc<EventBus>,
    kept: Option<(DataDir, Orders)>,
    /// What is not to stand in metadata either.
    rules: Rules,
    tapes: TapeBook,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: HashMap<ExecutionId, Open>,
    /// What runs there were when the first one was opened.
    index: Option<RunIndex>,
    /// The last label that was given without a log, and how often.
    label: String,
    labelled: usize,
    closed: bool,
}

impl State {
    /// The label, or with a number behind it where an execution has it or had it just before.
    fn free(&mut self, label: &str) -> ExecutionId {
        if self.label != label {
            (self.label, self.labelled) = (label.to_owned(), 0);
        }
        loop {
            self.labelled += 1;
            let id: ExecutionId = match self.labelled {
                1 => label.into(),
                n => format!("{label}-{n}").into(),
            };
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
    /// Whether its events are kept; else the run's directory is another observer's.
    is_kept: bool,
}

impl RunBook {
    pub fn new(
        bus: Arc<EventBus>,
        kept: Option<(DataDir, Orders)>,
        rules: Rules,
        clock: Clock,
    ) -> Self {
        Self {
            tapes: TapeBook::new(Arc::clone(&bus), rules.clone(), clock.clone()),
            bus,
            kept,
            rules,
            clock,
            state: Mutex::default(),
        }
    }

    /// The emitter of a run that stays open until the engine's end.
    pub fn emitter(&self, id: ExecutionId, info: RunInfo) -> Result<EventEmitter> {
        Ok(self.open(RunName::Exactly(id), info)?.emitter)
    }

    /// Where the run of an execution is, or would be; `None` for one that is observed without a
    /// log, whose numbers are not those of the log that another observer writes there.
    pub fn directory(&self, id: &ExecutionId) -> Option<RunDirectory> {
        let (data, _) = self.kept.as_ref()?;
        let is_anothers = |open: &Open| !open.is_kept;
        (!self.state().open.get(id).is_some_and(is_anothers)).then(|| data.run(id))
    }

    /// Nothing is opened any more.
    pub fn close_all(&self) {
        self.state().closed = true;
    }

    /// The end begins: nobody waits for raw recordings any more.
    pub fn hurry_tapes(&self) {
        self.tapes.hurry();
    }

    /// Ends raw recordings; `None` when there are none.
    pub fn finish_tapes(&self) -> Option<RawReport> {
        self.tapes.finish()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a panic leaves behind here is counts and handles, each of them whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the run's log, if there is to be one.
    fn open_log(
        &self,
        state: &mut State,
        name: &RunName,
        info: RunInfo,
    ) -> Option<Result<OpenRun>> {
        let (data, _) = self.kept.as_ref()?;
        let now = self.clock.wall();
        let opened = match name {
            RunName::Exactly(id) => data.run(id).open(info, now),
            // What cannot be found again is not looked for.
            RunName::Labelled(label) if info.identity.is_none() => {
                RunIndex::default().open_run(data, label, info, now)
            }
            RunName::Labelled(label) => {
                let index = state.index.get_or_insert_with(|| RunIndex::scan(data));
                index.open_run(data, label, info, now)
            }
        };
        for warning in opened.iter().flat_map(OpenRun::warnings) {
            log::warn!("{warning}");
        }
        Some(opened)
    }
}

impl Runs for RunBook {
    fn open(&self, name: RunName, info: RunInfo) -> Result<OpenedRun> {
        let (name, info) = self.without_secrets(name, info);
        let mut state = self.state();
        if state.closed {
            return Err(Error::gone("the engine is shutting down"));
        }
        if let RunName::Exactly(id) = &name
            && let Some(open) = state.open.get_mut(id)
        {
            open.users += 1;
            return Ok(OpenedRun {
                emitter: open.emitter.clone(),
                history: open.history.clone(),
            });
        }
        let mut is_kept = false;
        let (emitter, history) = match self.open_log(&mut state, &name, info) {
            Some(Ok(run)) => {
                is_kept = true;
                let history = run.is_resumed().then(|| run.directory().clone());
                let emitter = self.bus.emitter_from(run.execution_id(), run.next_seq());
                self.order(Order::Attach(Box::new(run)));
                (emitter, history)
            }
            failed => {
                let label = match &name {
                    RunName::Exactly(id) => id.clone(),
                    RunName::Labelled(label) => state.free(label),
                };
                self.order(Order::PassOver(label.clone()));
                let emitter = self.bus.emitter_for(label);
                if let Some(Err(error)) = failed {
                    let why = format!("observing without a log: {error:?}");
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
            },
        );
        Ok(OpenedRun { emitter, history })
    }

    fn remark(&self, id: &ExecutionId, mut extra: Map<String, Value>) {
        self.mask(&mut extra);
        self.order(Order::Remark {
            id: id.clone(),
            extra,
        });
    }

    fn iteration(&self, id: &ExecutionId, iteration: u32) -> Option<Result<IterationDirectory>> {
        let run = self.directory(id)?;
        Some(run.iteration(iteration, &self.rules))
    }

    fn raw(&self, id: &ExecutionId, title: &str) -> Option<Result<RawTapes>> {
        let run = self.directory(id)?;
        Some(self.tapes.tapes(&run, title))
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
            self.order(Order::Close {
                id: id.clone(),
                state: run_state,
                exit_status,
            });
        }
    }
}

impl RunBook {
    /// A session may be called what nobody should read. An id that was chosen is kept as it is.
    fn without_secrets(&self, name: RunName, mut info: RunInfo) -> (RunName, RunInfo) {
        info.label = self.rules.text(&info.label).into_owned();
        self.mask(&mut info.extra);
        let name = match name {
            RunName::Exactly(id) => RunName::Exactly(id),
            RunName::Labelled(label) => RunName::Labelled(self.rules.text(&label).into_owned()),
        };
        (name, info)
    }

    fn mask(&self, extra: &mut Map<String, Value>) {
        for (_, value) in extra {
            for_each_json_text(value, &mut |text| {
                if let Cow::Owned(masked) = self.rules.text(text) {
                    *text = masked;
                }
            });
        }
    }

    fn order(&self, order: Order) {
        if let Some((_, orders)) = &self.kept {
            orders.give(order);
        }
    }
}
