//! Copies of runs whose writer is elsewhere: the same events with the same numbers, under ids of their own.

use std::fs::File;
use std::io::{self, Write};

use rustix::fs::OFlags;

use super::dir::{RunDirectory, RunLock};
use super::dir_handle::{DirHandle, EVENTS};
use super::line::{LineWriter, header};
use super::metadata::RunMetadata;
use super::tail;
use crate::error::{Error, Result};
use crate::event::{Envelope, ExecutionId, LogGapRange};
use crate::timestamp::Timestamp;

/// The size of the lines that are written at once.
const WRITE_BYTES: usize = 256 * 1024;

/// A copy that is being written.
pub(crate) struct RunCopy {
    dir: DirHandle,
    /// Held while the run itself is being written, so that readers of the copy wait for more.
    lock: Option<RunLock>,
    metadata: RunMetadata,
    file: File,
    is_empty: bool,
    last: (u64, Timestamp),
    lines: LineWriter,
    pending: Vec<u8>,
}

impl RunCopy {
    /// Opens the copy, or begins it.
    ///
    /// # Errors
    /// [`Error::is_locked`] if another process writes it; another error if it cannot be written.
    pub fn open(run: &RunDirectory, metadata: RunMetadata) -> Result<Self> {
        let dir = run.create()?;
        let lock = RunLock::take(run, &dir)?;
        let failed = |cause| Error::file("cannot write", &run.events_path(), cause);
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE;
        let open = || {
            let file = dir.file(EVENTS, flags)?;
            tail::repair(&file)?;
            let last = (
                tail::last_seq(&file)?.unwrap_or(0),
                tail::last_ts(&file)?.unwrap_or_default(),
            );
            Ok((file.metadata()?.len() == 0, last, file))
        };
        let (is_empty, last, file) = open().map_err(failed)?;
        let mut copy = Self {
            lock: Some(lock),
            metadata: metadata.clone(),
            file,
            is_empty,
            last,
            lines: LineWriter::default(),
            pending: Vec::new(),
            dir,
        };
        copy.set_metadata(metadata)?;
        // Notifies observers that watch the data directory. If this fails, they find the run a little later.
        let _ = copy.dir.set_times();
        Ok(copy)
    }

    /// Returns the number of the last event.
    pub fn last_seq(&self) -> u64 {
        self.last.0
    }

    /// Returns the number and the time of the last event.
    #[cfg(feature = "redis")]
    pub fn last(&self) -> (u64, Timestamp) {
        self.last
    }

    /// Returns the metadata.
    pub fn metadata(&self) -> &RunMetadata {
        &self.metadata
    }

    /// Replaces the metadata.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn set_metadata(&mut self, metadata: RunMetadata) -> Result<()> {
        metadata.write(&self.dir, false)?;
        self.metadata = metadata;
        Ok(())
    }

    /// Records that the run itself has no writer any more, so that its readers come to an end.
    ///
    /// # Errors
    /// If what was added cannot be written.
    pub fn release(&mut self) -> Result<()> {
        let flushed = self.flush();
        self.lock = None;
        flushed
    }

    /// Adds an event, whose id is that of the copy. One that the copy has is left out.
    ///
    /// # Errors
    /// If the copy cannot be written.
    pub fn append(&mut self, envelope: &Envelope) -> Result<()> {
        let Some(numbers) = LogGapRange::of(envelope) else {
            // Headers, and lines of older logs.
            return Ok(());
        };
        // A lower number at a later time is new: after a crash, numbers are assigned again.
        if numbers.last <= self.last.0 && envelope.ts <= self.last.1 {
            return Ok(());
        }
        if std::mem::take(&mut self.is_empty) {
            let id: ExecutionId = envelope.event.execution_id().into();
            let writer = (self.metadata.host.as_str(), self.metadata.pid);
            let head = header(&id, envelope.ts, writer, numbers.first);
            self.push(&head)?;
        }
        self.last = (numbers.last, envelope.ts);
        self.push(envelope)?;
        if self.pending.len() >= WRITE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn push(&mut self, envelope: &Envelope) -> Result<()> {
        let pushed = self.lines.push(&mut self.pending, envelope);
        pushed.map_err(|cause| self.failed(cause.into()))
    }

    /// Writes what was added.
    ///
    /// # Errors
    /// If the copy cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        let written = (&self.file).write_all(&self.pending);
        self.pending.clear();
        written.map_err(|cause| self.failed(cause))
    }

    fn failed(&self, cause: io::Error) -> Error {
        Error::file("cannot write", &self.dir.join(EVENTS), cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TdEvent;
    use crate::history::{DataDir, LogReader, Query, RunInfo, RunState, RunStatus};

    fn event(id: &ExecutionId, seq: u64) -> Envelope {
        let event = TdEvent::Warning {
            execution_id: id.clone(),
            context: "c".into(),
            message: seq.to_string(),
        };
        Envelope::new(
            Some(seq),
            Timestamp::from_micros(1_000 * seq.cast_signed()),
            event,
        )
    }

    #[test]
    fn a_copy_continues_after_its_last_event_and_ends_with_the_run() {
        let temp = tempfile::tempdir().unwrap();
        let data = DataDir::new(temp.path());
        let id: ExecutionId = "web/build@1".into();
        let run = data.run(&id);
        let metadata = RunMetadata::new(&id, RunInfo::default(), Timestamp::from_micros(1));
        let mut copy = RunCopy::open(&run, metadata.clone()).unwrap();
        for seq in [5, 6, 6, 7] {
            copy.append(&event(&id, seq)).unwrap();
        }
        copy.flush().unwrap();
        assert!(run.is_written().unwrap());
        let second = RunCopy::open(&run, metadata.clone());
        assert!(second.err().is_some_and(|error| error.is_locked()));
        drop(copy);
        let mut copy = RunCopy::open(&run, metadata.clone()).unwrap();
        assert_eq!(copy.last_seq(), 7);
        for seq in [6, 7, 9] {
            copy.append(&event(&id, seq)).unwrap();
        }
        copy.flush().unwrap();
        let ended = RunMetadata {
            state: RunState::Completed,
            ..metadata
        };
        copy.set_metadata(ended).unwrap();
        copy.release().unwrap();
        let log = LogReader::open(&run, Query::all()).unwrap();
        let seqs: Vec<_> = log.filter_map(|record| record.envelope.seq).collect();
        assert_eq!(seqs, [5, 6, 7, 9]);
        let list = data.runs(Timestamp::from_micros(0)).unwrap();
        assert_eq!(list.runs[0].state, RunStatus::Ended(RunState::Completed));
    }
}
