//! The log thread takes batches from the bus and writes them.
//!
//! `td-log` reads the lossless lane, whose sender never waits. It receives [`LogCommand`]s from the
//! threads that open and close runs; each command interrupts the lane. It blocks on the lane until
//! a batch or a command arrives or the writer has something to do, and on the disk. It ends when
//! the bus is closed and everything is read.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use serde_json::{Map, Value};

use crate::bus::inbox::Emitted;
use crate::bus::{EventBus, LaneInterrupt, LosslessLane, RecvTimeoutError};
use crate::clock::Clock;
use crate::error::Result;
use crate::event::ExecutionId;
use crate::history::{
    LogNotice, LogNoticeKind, LogOptions, LogReport, LogWriter, OpenRun, RunDirectory, RunState,
};
use crate::thread::{self, Handle, Panicked, lock};

/// The number of queued commands: one for each run that is opened or closed while a batch is
/// written.
const COMMANDS_MAX: usize = 256;

/// The delay between a run's last use and its closing, in which the log's own notices and others that know the
/// execution may still emit events.
const CLOSE_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) enum LogCommand {
    /// Write this run's events.
    Attach(Box<OpenRun>),
    /// Omit the events of this execution, which has no log.
    Skip { run: RunDirectory, cause: String },
    /// Add to the run's metadata.
    AddMetadata {
        id: ExecutionId,
        extra: Map<String, Value>,
    },
    /// Close this run, or forget this execution without a log.
    Close(CloseRun),
    /// Close all runs that are due to be closed later, and drop `done` when their locks are released.
    CloseNow { done: Sender<Infallible> },
}

#[derive(Debug)]
pub(super) struct CloseRun {
    pub id: ExecutionId,
    pub state: RunState,
    pub exit_status: Option<i32>,
}

/// The runs whose logs cannot be written at present, each with the reason.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogTroubles(Arc<Mutex<BTreeMap<ExecutionId, String>>>);

impl LogTroubles {
    /// Records why a run cannot be written; `None` if it is written again, or has ended.
    pub(super) fn set(&self, id: &ExecutionId, why: Option<&str>) {
        let mut runs = lock(&self.0);
        match why {
            Some(why) => drop(runs.insert(id.clone(), why.to_owned())),
            None => drop(runs.remove(id)),
        }
    }

    /// Returns the runs, each with its reason.
    #[cfg(feature = "cli")]
    pub fn list(&self) -> Vec<String> {
        let runs = lock(&self.0);
        runs.iter()
            .map(|(id, why)| format!("{id}: {why}"))
            .collect()
    }
}

/// Sends commands from any thread.
#[derive(Clone)]
pub(super) struct LogCommands {
    pub troubles: LogTroubles,
    queue: Sender<LogCommand>,
    /// Without it, a command would wait for the next event, which may never arrive.
    interrupt: LaneInterrupt,
}

impl LogCommands {
    pub fn send(&self, command: LogCommand) {
        // The log thread lives as long as the bus. If it has panicked, the engine's report contains the panic.
        let _ = self.queue.send(command);
        self.interrupt.interrupt();
    }
}

/// The handle of the log thread.
pub(super) struct LogThread {
    pub commands: LogCommands,
    thread: Handle<LogReport>,
}

impl LogThread {
    pub fn start(bus: Arc<EventBus>, options: LogOptions, clock: Clock) -> Result<Self> {
        let writer = LogWriter::start(options, clock.clone())?;
        let lane = bus.subscribe_lossless()?;
        let (queue, inbox) = bounded(COMMANDS_MAX);
        let interrupt = lane.interrupt();
        let troubles = LogTroubles::default();
        let state = LogThreadState {
            writer,
            inbox,
            bus,
            clock,
            closing: Vec::new(),
            when_closed: Vec::new(),
            last_notices: Vec::new(),
            troubles: troubles.clone(),
        };
        let thread = thread::spawn("td-log", move || state.run(lane))?;
        let commands = LogCommands {
            troubles,
            queue,
            interrupt,
        };
        Ok(Self { commands, thread })
    }

    /// Waits for the end of the thread. The bus must be closed.
    pub fn finish(self) -> Result<LogReport, Panicked> {
        drop(self.commands);
        self.thread.join()
    }
}

struct LogThreadState {
    writer: LogWriter,
    inbox: Receiver<LogCommand>,
    bus: Arc<EventBus>,
    clock: Clock,
    closing: Vec<(Instant, CloseRun)>,
    /// Senders to drop when all of `closing` is closed.
    when_closed: Vec<Sender<Infallible>>,
    /// Notices that the bus did not accept, because it is closing.
    last_notices: Vec<LogNotice>,
    troubles: LogTroubles,
}

impl LogThreadState {
    fn run(mut self, mut lane: LosslessLane) -> LogReport {
        loop {
            let now = self.clock.now();
            self.handle_commands(now);
            // On a slow disk, events are queued for longer than the delay. The next batch wakes the
            // thread.
            let close_at = if lane.is_caught_up() {
                self.close_due(&lane, now)
            } else {
                None
            };
            let due = [self.writer.tick(now), close_at];
            let due = due.into_iter().flatten().min();
            self.pass_notices();
            match lane.recv_deadline(due) {
                Ok(batch) => {
                    // A run is attached before its first event is emitted, so the command is in the
                    // queue.
                    let now = self.clock.now();
                    self.handle_commands(now);
                    self.writer.append(&batch, now);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Closed) => break,
            }
        }
        let now = self.clock.now();
        self.handle_commands(now);
        self.pass_notices();
        for notice in std::mem::take(&mut self.last_notices) {
            self.writer.append_last(notice.to_event(), now);
        }
        self.close_until(now + CLOSE_AFTER, now);
        self.pass_notices();
        self.writer.finish(now)
    }

    fn handle_commands(&mut self, now: Instant) {
        for command in self.inbox.try_iter() {
            match command {
                // The run was opened again before it was closed.
                LogCommand::Attach(run) => {
                    self.closing
                        .retain(|(_, close)| close.id != *run.execution_id());
                    self.writer.attach(*run, now);
                }
                LogCommand::Skip { run, cause } => {
                    self.closing
                        .retain(|(_, close)| close.id != *run.execution_id());
                    self.writer.skip(&run, cause);
                }
                LogCommand::AddMetadata { id, extra } => self.writer.add_metadata(&id, extra, now),
                LogCommand::Close(close) => {
                    self.troubles.set(&close.id, None);
                    self.closing.push((now + CLOSE_AFTER, close));
                }
                LogCommand::CloseNow { done } => {
                    self.closing.iter_mut().for_each(|(at, _)| *at = now);
                    self.when_closed.push(done);
                }
            }
        }
    }

    /// Closes the runs that are due, and returns when the next one is. If their last events have only now reached
    /// the lane, they are read first.
    fn close_due(&mut self, lane: &LosslessLane, now: Instant) -> Option<Instant> {
        let mut closing = self.closing.iter();
        if let Some((_, due)) = closing.find(|(at, _)| *at <= now) {
            // The fan-out replies after all events that were emitted before.
            self.bus.emitter_from(&due.id, 1);
            if !lane.is_caught_up() {
                return None;
            }
        }
        self.close_until(now, now);
        self.closing.iter().map(|(at, _)| *at).min()
    }

    fn close_until(&mut self, due: Instant, now: Instant) {
        for (_, close) in self.closing.extract_if(.., |(at, _)| *at <= due) {
            self.writer
                .close_run(&close.id, close.state, close.exit_status, now);
        }
        for done in self.when_closed.drain(..) {
            self.writer.when_released(done);
        }
    }

    /// Reports the writer's notices on stderr and as events.
    fn pass_notices(&mut self) {
        for notice in self.writer.take_notices() {
            log::warn!("log of {}: {}", notice.execution_id, notice.message);
            match notice.kind {
                LogNoticeKind::Failing => {
                    self.troubles
                        .set(&notice.execution_id, Some(&notice.message));
                }
                LogNoticeKind::Recovered => self.troubles.set(&notice.execution_id, None),
                _ => {}
            }
            if notice.kind != LogNoticeKind::NotKept
                && self.bus.emit(notice.to_event()) == Emitted::Closed
            {
                self.last_notices.push(notice);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::BusOptions;
    use crate::clock::FakeClock;
    use crate::event::TdEvent;
    use crate::history::{DataDir, LogReader, Query, RunInfo};

    #[test]
    fn a_run_is_closed_after_its_events_are_written() {
        let temp = tempfile::tempdir().unwrap();
        let fake = FakeClock::new();
        let clock = fake.clock();
        let bus = Arc::new(
            EventBus::with_options(BusOptions {
                clock: clock.clone(),
                ..BusOptions::default()
            })
            .unwrap(),
        );
        let log_thread =
            LogThread::start(Arc::clone(&bus), LogOptions::default(), clock.clone()).unwrap();
        let run = DataDir::new(temp.path()).run(&"a".into());
        let open = run.open(RunInfo::default(), clock.wall()).unwrap();
        log_thread.commands.send(LogCommand::Attach(Box::new(open)));
        let emitter = bus.emitter_for("a");
        // About 30 MB: the log takes longer than the bus.
        for _ in 0..500 {
            let event = TdEvent::ExecutionOutput {
                execution_id: "a".into(),
                stream: "stdout".into(),
                text: "x".repeat(64 * 1024),
            };
            emitter.emit_deadline(event, clock.now() + Duration::from_secs(3600));
        }
        log_thread.commands.send(LogCommand::Close(CloseRun {
            id: "a".into(),
            state: RunState::Completed,
            exit_status: None,
        }));
        // Simulates a slow disk: much time passes while the log writes.
        let system = Clock::system();
        let ceiling = system.now() + Duration::from_secs(30);
        while run.is_written().unwrap() {
            assert!(system.now() < ceiling, "the run was never closed");
            fake.advance(Duration::from_millis(500));
            thread::park(Some(Duration::from_millis(2)));
        }
        bus.close();
        let report = log_thread.finish().unwrap();
        assert!(report.lost.is_empty(), "{report:?}");
        let kept = LogReader::open(&run, Query::all()).unwrap().count();
        assert_eq!(kept, 500);
    }

    #[test]
    fn a_clock_that_is_set_back_before_the_end_is_a_warning_in_the_log() {
        let temp = tempfile::tempdir().unwrap();
        let fake = FakeClock::new();
        let clock = fake.clock();
        let options = BusOptions {
            clock: clock.clone(),
            ..BusOptions::default()
        };
        let bus = Arc::new(EventBus::with_options(options).unwrap());
        let log_thread =
            LogThread::start(Arc::clone(&bus), LogOptions::default(), clock.clone()).unwrap();
        let run = DataDir::new(temp.path()).run(&"a".into());
        let open = run.open(RunInfo::default(), clock.wall()).unwrap();
        log_thread.commands.send(LogCommand::Attach(Box::new(open)));
        let emitter = bus.emitter_for("a");
        let _ = emitter.iteration_started(1);
        fake.set_wall(crate::timestamp::Timestamp::from_micros(0));
        let _ = emitter.iteration_started(2);
        // The bus accepts no warning any more.
        bus.close();
        assert!(log_thread.finish().unwrap().lost.is_empty());
        let mut log = LogReader::open(&run, Query::all()).unwrap();
        let kept: Vec<_> = log.by_ref().map(|record| record.envelope).collect();
        let is_warning = |event: &TdEvent| matches!(event, TdEvent::Warning { message, .. } if message.contains("set back"));
        let warnings = kept.iter().filter(|kept| is_warning(&kept.event)).count();
        assert_eq!((warnings, kept.len()), (1, 3), "{kept:?}");
        assert_eq!(log.report().missing(), 0);
    }

    #[test]
    fn commands_are_handled_without_any_event() {
        let temp = tempfile::tempdir().unwrap();
        let clock = Clock::system();
        let bus = Arc::new(EventBus::new(16));
        let log_thread =
            LogThread::start(Arc::clone(&bus), LogOptions::default(), clock.clone()).unwrap();
        let run = DataDir::new(temp.path()).run(&"a".into());
        let open = run.open(RunInfo::default(), clock.wall()).unwrap();
        log_thread.commands.send(LogCommand::Attach(Box::new(open)));
        log_thread.commands.send(LogCommand::Close(CloseRun {
            id: "a".into(),
            state: RunState::Completed,
            exit_status: None,
        }));
        // The lock is released without any event, and before the end of the bus.
        let deadline = clock.now() + Duration::from_secs(30);
        while run.open(RunInfo::default(), clock.wall()).is_err() {
            assert!(clock.now() < deadline, "the run was never closed");
            thread::park(Some(Duration::from_millis(20)));
        }
        bus.close();
        assert!(log_thread.finish().unwrap().lost.is_empty());
    }
}
