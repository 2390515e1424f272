//! Raw recordings of an engine's runs: the recorder is started with the first, and ended in order.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::bus::EventBus;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::TdEvent;
use crate::history::{RawRecorder, RawReport, RawTapes, RunDirectory};
use crate::redact::Rules;

/// How long the end waits for a disk, as the log's does.
const TAPES_END: Duration = Duration::from_secs(5);

/// Who records, as soon as somebody wants to.
pub(super) struct TapeBook {
    bus: Arc<EventBus>,
    rules: Rules,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    recorder: Option<RawRecorder>,
    is_ended: bool,
}

impl TapeBook {
    pub fn new(bus: Arc<EventBus>, rules: Rules, clock: Clock) -> Self {
        Self {
            bus,
            rules,
            clock,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic leaves a recorder behind, or none.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the panes of a run are recorded.
    ///
    /// # Errors
    /// When the engine is shutting down, or the system has no thread to give.
    pub fn tapes(&self, run: &RunDirectory, title: &str) -> Result<RawTapes> {
        let mut state = self.state();
        if state.is_ended {
            return Err(Error::gone("the engine is shutting down"));
        }
        let title = Some(self.rules.text(title).into_owned()).filter(|title| !title.is_empty());
        let recorder = match &mut state.recorder {
            Some(recorder) => recorder,
            none => none.insert(self.start()?),
        };
        Ok(recorder.tapes(run, title))
    }

    fn start(&self) -> Result<RawRecorder> {
        let bus = Arc::clone(&self.bus);
        RawRecorder::start(self.rules.clone(), self.clock.clone(), move |id, what| {
            log::warn!("{id}: {what}");
            // A bus that is being closed takes no more; it has been said on stderr.
            let _ = bus.emit(TdEvent::Warning {
                execution_id: id.clone(),
                context: "raw".to_owned(),
                message: what.to_owned(),
            });
        })
    }

    /// No source waits for a disk any more.
    pub fn hurry(&self) {
        if let Some(recorder) = &self.state().recorder {
            recorder.hurry();
        }
    }

    /// Writes what waits; `None` when nothing was recorded.
    pub fn finish(&self) -> Option<RawReport> {
        let mut state = self.state();
        state.is_ended = true;
        let recorder = state.recorder.take()?;
        drop(state);
        Some(recorder.finish(self.clock.now() + TAPES_END))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::bus::Delivery;
    use crate::history::{DataDir, RunInfo};

    #[test]
    fn it_is_started_with_the_first_and_says_what_is_wrong() {
        let temp = tempfile::tempdir().unwrap();
        let clock = Clock::system();
        let bus = Arc::new(EventBus::new(16));
        let mut events = bus.subscribe();
        let book = || TapeBook::new(Arc::clone(&bus), Rules::builtin(), clock.clone());
        assert_eq!(book().finish(), None);
        let book = book();
        let open = |id: &str| {
            let run = DataDir::new(temp.path()).run(&id.into());
            run.open(RunInfo::default(), clock.wall()).unwrap()
        };
        let (good, bad) = (open("good"), open("bad"));
        symlink(temp.path(), bad.path().join("raw")).unwrap();
        let pane = crate::event::PaneId::from("%1");
        for run in [&good, &bad] {
            let tapes = book.tapes(run.directory(), "a title").unwrap();
            tapes.begin(&pane, (80, 24), b"screen", clock.wall());
        }
        book.hurry();
        let report = book.finish().unwrap();
        assert!(report.bytes_written > 0 && !report.is_left, "{report:?}");
        let lost: Vec<&str> = report.lost.iter().map(|lost| &*lost.execution_id).collect();
        assert_eq!(lost, ["bad"]);
        assert_eq!(good.directory().raw_files().unwrap().len(), 1);
        assert!(book.tapes(good.directory(), "").is_err());
        bus.close();
        let said: Vec<TdEvent> = events
            .iter()
            .filter_map(|delivery| match delivery {
                Delivery::Event(envelope) => Some(envelope.event.clone()),
                Delivery::Lagged { .. } => None,
            })
            .collect();
        assert!(
            matches!(&said[..], [TdEvent::Warning { execution_id, context, .. }]
                if &**execution_id == "bad" && context == "raw"),
            "{said:?}"
        );
    }
}
