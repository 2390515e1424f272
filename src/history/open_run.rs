//! Opening a run for writing: its directory, its lock, the end of its log, its metadata.

use std::path::Path;

use crate::error::{Error, Result};
use crate::event::ExecutionId;
use crate::history::dir::RunDirectory;
use crate::history::dir_handle::EVENTS;
use crate::history::events_file::EventsFile;
use crate::history::lock::RunLock;
use crate::history::metadata::{RunInfo, RunMetadata};
use crate::history::read::{LogReader, Query};
use crate::history::tail::{Repair, SEQ_MAX};
use crate::timestamp::Timestamp;

/// A run that nobody else writes until this is dropped. Give it to
/// [`LogWriter::attach`](crate::history::LogWriter::attach).
#[derive(Debug)]
#[must_use = "dropping it gives the run to others"]
pub struct OpenRun {
    pub(super) directory: RunDirectory,
    pub(super) lock: RunLock,
    pub(super) events: EventsFile,
    pub(super) metadata: RunMetadata,
    pub(super) next_seq: u64,
    /// Numbers that were given, and whose events did not reach the file.
    pub(super) missing: Option<(u64, u64)>,
    resumed: bool,
    repair: Repair,
    warnings: Vec<String>,
}

impl RunDirectory {
    /// Makes the run or goes on in it: takes the lock, mends a torn last line, finds the next
    /// number, writes the metadata. From any thread.
    ///
    /// # Errors
    /// [`Error::is_locked`] when another process writes the run, named by its pid;
    /// [`Error::is_invalid_input`] when the directory is a symbolic link or of another execution;
    /// else what the system says.
    pub fn open(&self, info: RunInfo, ts: Timestamp) -> Result<OpenRun> {
        let dir = self.create()?;
        let lock = RunLock::take(self, &dir)?;
        let mut warnings = Vec::new();
        let before = RunMetadata::read_in(&dir).unwrap_or_else(|error| {
            warnings.push(format!("{error:?}"));
            None
        });
        if before
            .as_ref()
            .is_some_and(|before| before.execution_id != *self.execution_id())
        {
            // Two ids never have one name but for a hash that somebody chose, or a copied directory.
            return Err(Error::invalid("another execution has the run directory").at(self.path()));
        }
        let mut found = EventsFile::open(&dir)
            .map_err(|cause| Error::file("cannot open", &dir.join(EVENTS), cause))?;
        // The writer opens it again when it has room for one more open file.
        found.events.close();
        let last_seq = match found.last_seq {
            // A crash between closing a file and beginning the next has left the newest empty.
            None => last_closed_seq(self),
            last_seq => last_seq,
        };
        let promised = before.as_ref().and_then(|before| before.next_seq);
        let promised = promised
            .filter(|seq| (1..SEQ_MAX).contains(seq))
            .unwrap_or(1);
        let in_file = last_seq.map_or(1, |last| last.saturating_add(1));
        let next_seq = promised.max(in_file);
        // A file without numbers says by its header where they go on; one with them needs a gap.
        let missing = (last_seq.is_some() && in_file < promised).then_some((in_file, promised - 1));
        let resumed = before.is_some() || found.events.len() > 0;
        let metadata = match before {
            Some(before) => before.resumed(info, ts),
            None => RunMetadata::new(self.execution_id(), info, ts),
        };
        if let Err(error) = metadata.write_in(&dir) {
            // A full disk must not keep anybody from observing; the log waits for room.
            warnings.push(format!("{error:?}"));
        }
        Ok(OpenRun {
            directory: self.clone(),
            lock,
            events: found.events,
            metadata,
            next_seq,
            missing,
            resumed,
            repair: found.repair,
            warnings,
        })
    }
}

/// The last number in the closed files, if they have any.
fn last_closed_seq(run: &RunDirectory) -> Option<u64> {
    // What cannot be read has no numbers; the metadata may.
    let reader = LogReader::open_last(run, 2, Query::all()).ok()?;
    let seqs = reader.filter_map(|record| record.envelope.seq);
    seqs.filter(|&seq| seq < SEQ_MAX).max()
}

impl OpenRun {
    /// The run's execution.
    pub fn execution_id(&self) -> &ExecutionId {
        self.directory.execution_id()
    }

    /// The number that the next event gets.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Whether the run has a history already.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// What was done to a torn last line.
    pub fn repair(&self) -> Repair {
        self.repair
    }

    /// What is not as it should be and did not keep the run from being opened.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The run's metadata, as written.
    pub fn metadata(&self) -> &RunMetadata {
        &self.metadata
    }

    /// The run's directory.
    pub fn directory(&self) -> &RunDirectory {
        &self.directory
    }

    /// The path of the run's directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}
