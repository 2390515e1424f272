//! Logs that tests write and grow, in a data directory of their own.

use std::path::Path;
use std::time::Instant;

use td_observe::event::OutputStream;
use td_observe::history::{DataDir, RunInfo, RunKind, RunState};
use td_observe::internals::history::{LogOptions, LogWriter, open_run};
use td_observe::{Clock, Envelope, ExecutionId, TdEvent, Timestamp};

/// The time of the first event, in microseconds: in 2026.
const START: i64 = 1_790_000_000_000_000;

/// A run that is being written.
pub struct Log {
    writer: LogWriter,
    id: ExecutionId,
    next: u64,
    /// The time of the next event.
    pub ts: i64,
    /// The time between two events.
    pub step: i64,
}

impl Log {
    /// Opens a run, and continues one that has this many events.
    pub fn open(data: &Path, id: &str, count: u64) -> Self {
        let clock = Clock::system();
        let id = ExecutionId::from(id);
        let run = DataDir::new(data).run(&id);
        let info = RunInfo {
            kind: RunKind::Process,
            label: id.to_string(),
            ..RunInfo::default()
        };
        let mut writer = LogWriter::start(LogOptions::default(), clock.clone()).unwrap();
        writer.attach(open_run(&run, info, clock.wall()).unwrap(), clock.now());
        Self {
            writer,
            id,
            next: count + 1,
            ts: START + i64::try_from(count).unwrap() * 700,
            step: 700,
        }
    }

    /// Appends this many events.
    pub fn append(&mut self, count: u64) {
        let mut batch = Vec::new();
        for _ in 0..count {
            batch.push(self.event());
            if batch.len() == 1000 {
                self.writer
                    .append(&std::mem::take(&mut batch), Instant::now());
            }
        }
        self.writer.append(&batch, Instant::now());
    }

    fn event(&mut self) -> Envelope {
        let seq = self.next;
        let event = TdEvent::ExecutionOutput {
            execution_id: self.id.clone(),
            stream: OutputStream::Stdout.into(),
            text: format!("line {seq} of a build that prints a good deal\n"),
        };
        let ts = Timestamp::from_micros(self.ts);
        self.next += 1;
        self.ts += self.step;
        Envelope::new(Some(seq), ts, event)
    }

    /// Ends the run.
    pub fn end(mut self) {
        let now = Instant::now();
        self.writer
            .close_run(&self.id, RunState::Completed, Some(0), now);
        assert!(self.writer.finish(now).lost.is_empty());
    }
}

/// Writes an ended run with this many events.
pub fn write(data: &Path, id: &str, count: u64) {
    let mut log = Log::open(data, id, 0);
    log.append(count);
    log.end();
}

/// Returns the numbered lines of a run's log.
pub fn lines(data: &Path, id: &str) -> Vec<String> {
    let run = DataDir::new(data).run(&ExecutionId::from(id));
    let text = std::fs::read_to_string(run.events_path()).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("{\"seq\":0,"));
    lines.map(str::to_owned).collect()
}
