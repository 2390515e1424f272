//! Opens a run for writing: its directory, lock, the end of its log and its metadata.

use rustc_hash::FxHashMap;

use crate::error::{Error, Result};
use crate::event::ExecutionId;
use crate::history::dir::{DataDir, LABELS_MAX, RunDirectory, RunLock, numbered};
use crate::history::dir_handle::{EVENTS, close_newest};
use crate::history::events_file::EventsFile;
use crate::history::metadata::{RunInfo, RunMetadata, TmuxIdentity};
use crate::history::read::{LogReader, Query};
use crate::history::tail::{Repair, SEQ_MAX};
use crate::timestamp::Timestamp;

/// A run that no other writer can open until this value is dropped. Pass it to
/// [`LogWriter::attach`](crate::history::LogWriter::attach).
#[derive(Debug)]
#[must_use = "dropping it gives the run to others"]
pub struct OpenRun {
    pub(super) directory: RunDirectory,
    pub(super) lock: RunLock,
    pub(super) events: EventsFile,
    pub(super) metadata: RunMetadata,
    pub(super) next_seq: u64,
    /// Numbers that were assigned to events that were never written.
    pub(super) missing: Option<(u64, u64)>,
    /// A number above those of the files that were closed here.
    pub(super) next_file: u32,
    /// True if the space for the last metadata is reserved.
    pub(super) has_reserve: bool,
    /// The time of the opening, or of the last event if that is later.
    pub(super) latest: Timestamp,
    /// True if the newest file contains numbers.
    has_numbers: bool,
    is_resumed: bool,
    #[cfg_attr(
        not(feature = "internals"),
        expect(dead_code, reason = "tests read it")
    )]
    repair: Repair,
    /// The problems that did not prevent opening the run.
    pub(crate) warnings: Vec<String>,
}

impl RunDirectory {
    /// Creates or resumes the run: takes the lock, repairs an incomplete last line, finds the next number and
    /// writes the metadata. May be called from any thread.
    ///
    /// # Errors
    /// [`Error::is_locked`] if another process writes the run, with its pid;
    /// [`Error::is_invalid_input`] if the directory is a symbolic link or belongs to another
    /// execution; otherwise the system's error.
    pub(crate) fn open(&self, info: RunInfo, ts: Timestamp) -> Result<OpenRun> {
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
            // Two ids have the same directory name only in a copied directory or by a deliberate hash
            // collision.
            return Err(
                Error::invalid("the run directory belongs to another execution:").at(self.path()),
            );
        }
        let mut found = EventsFile::open(&dir)
            .map_err(|cause| Error::file("cannot open", &dir.join(EVENTS), cause))?;
        // The writer reopens the file when it has room for another open file.
        found.events.file = None;
        // A crash between closing a file and beginning the next one left the newest file empty.
        let last_seq = found.last_seq.or_else(|| {
            // An unreadable file has no numbers, but the metadata may have one.
            let reader = LogReader::open_last(self, 2, Query::all()).ok()?;
            let seqs = reader.filter_map(|record| record.envelope.seq);
            seqs.filter(|&seq| seq < SEQ_MAX).max()
        });
        let promised = before.as_ref().and_then(|before| before.next_seq);
        let promised = promised
            .filter(|seq| (1..SEQ_MAX).contains(seq))
            .unwrap_or(1);
        let in_file = last_seq.map_or(1, |last| last.saturating_add(1));
        let next_seq = promised.max(in_file);
        // A gap stands for what was never written. The header states the number after what was written and is
        // gone, so that readers go on to miss it.
        let dropped = before.as_ref().and_then(|before| before.dropped_from);
        let missing = dropped
            .map(|first| (first.max(in_file), next_seq - 1))
            .filter(|(first, last)| first <= last);
        let is_resumed = before.is_some() || found.events.len > 0;
        let mut next_file = 1;
        // A list of runs, which reads only the ends of files, finds the loss between two of them.
        let has_lost = in_file < missing.map_or(next_seq, |(first, _)| first);
        // Programs that follow the file have read the part of a line that was removed, and would take what is written
        // in its place for the rest of that line.
        let was_cut = matches!(found.repair, Repair::Cut { .. });
        if found.events.len > 0 && (has_lost || was_cut) {
            match close_newest(&dir, next_file) {
                Ok(number) => {
                    next_file = number.saturating_add(1);
                    found.events = EventsFile::open(&dir)
                        .map_err(|cause| Error::file("cannot open", &dir.join(EVENTS), cause))?
                        .events;
                    found.events.file = None;
                }
                Err(cause) => {
                    let error = Error::file("cannot close", &dir.join(EVENTS), cause);
                    warnings.push(format!("{error:?}"));
                }
            }
        }
        // A new run begins without waiting for the disk.
        let is_synced = before.is_some();
        let metadata = match before {
            Some(before) => before.resumed(info, ts),
            None => RunMetadata::new(self.execution_id(), info, ts),
        };
        // A full disk must not prevent observation; the log waits for room.
        let has_reserve = metadata.reserve(&dir).is_ok();
        if let Err(error) = metadata.write(&dir, is_synced) {
            warnings.push(format!("{error:?}"));
        }
        // Notifies observers that watch the data directory. If this fails, they find the run a little later.
        let _ = dir.set_times();
        Ok(OpenRun {
            directory: self.clone(),
            lock,
            events: found.events,
            metadata,
            next_seq,
            missing,
            next_file,
            has_reserve,
            latest: found.last_ts.map_or(ts, |last| last.max(ts)),
            has_numbers: last_seq.is_some(),
            is_resumed,
            repair: found.repair,
            warnings,
        })
    }
}

impl OpenRun {
    /// Returns the execution's id.
    pub fn execution_id(&self) -> &ExecutionId {
        self.directory.execution_id()
    }

    /// Returns the number of the next event.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Skips the numbers before `next_seq`, which belong to events that were not written.
    pub(crate) fn leave_out(&mut self, next_seq: u64) {
        if next_seq <= self.next_seq {
            return;
        }
        if self.has_numbers || self.missing.is_some() {
            let first = self.missing.map_or(self.next_seq, |(first, _)| first);
            self.missing = Some((first, next_seq - 1));
        }
        self.next_seq = next_seq;
    }

    /// Returns the repair that was made to the last line.
    #[cfg(feature = "internals")]
    pub fn repair(&self) -> Repair {
        self.repair
    }

    /// Returns `true` if the run had events or metadata before.
    pub fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Returns the run's directory.
    pub fn directory(&self) -> &RunDirectory {
        &self.directory
    }
}

/// The runs of tmux sessions, as of one scan of the data directory.
#[derive(Debug, Default)]
pub struct RunIndex {
    /// If a session has several runs, the one that was written last.
    by_identity: FxHashMap<TmuxIdentity, RunMetadata>,
}

impl RunIndex {
    /// Reads the metadata of all runs. Skips unreadable ones.
    pub fn scan(data: &DataDir) -> Self {
        let mut index = Self::default();
        let directories = data.run_directories().unwrap_or_default();
        // The maximum number of run directories that are scanned: 20,000 small files take about half a second.
        // Beyond it, the newest runs are still found by their label.
        for directory in directories.iter().take(20_000) {
            // A copy under another name is not the run that its metadata describe.
            if let Ok(Some(metadata)) = directory.metadata()
                && metadata.execution_id == *directory.execution_id()
            {
                index.add(metadata);
            }
        }
        index
    }

    /// Returns the run of a session.
    pub fn find(&self, identity: &TmuxIdentity) -> Option<&RunMetadata> {
        self.by_identity.get(identity)
    }

    /// Returns the runs of all sessions of a tmux server, the last written one first.
    pub fn of_server(&self, server: &TmuxIdentity) -> Vec<&RunMetadata> {
        let is_of_server = |run: &&RunMetadata| {
            let identity = run.identity.as_ref();
            identity.is_some_and(|identity| identity.shares_server_with(server))
        };
        let mut runs: Vec<&RunMetadata> = self.by_identity.values().filter(is_of_server).collect();
        runs.sort_by_key(|run| std::cmp::Reverse(run.updated));
        runs
    }

    /// Adds a run that was opened after the scan.
    pub fn add(&mut self, metadata: RunMetadata) {
        let Some(identity) = metadata.identity.clone() else {
            return;
        };
        let newer = self
            .by_identity
            .get(&identity)
            .is_none_or(|known| known.updated <= metadata.updated);
        if newer {
            self.by_identity.insert(identity, metadata);
        }
    }

    /// Removes a run whose session has ended and cannot return.
    pub fn forget(&mut self, execution_id: &ExecutionId) {
        self.by_identity
            .retain(|_, run| run.execution_id != *execution_id);
    }

    /// Opens the run of `info.identity`: the existing run, or a new one named `label`, with the suffix `-2`,
    /// `-3`… if the name is taken.
    ///
    /// # Errors
    /// [`Error::is_locked`] if another process writes the run; otherwise the errors of
    /// [`RunDirectory::open`].
    pub fn open_run(
        &mut self,
        data: &DataDir,
        label: &str,
        info: RunInfo,
        ts: Timestamp,
    ) -> Result<OpenRun> {
        let run = self.open_found_or_new(data, label, info, ts)?;
        self.add(run.metadata.clone());
        Ok(run)
    }

    fn open_found_or_new(
        &self,
        data: &DataDir,
        label: &str,
        info: RunInfo,
        ts: Timestamp,
    ) -> Result<OpenRun> {
        let identity = info.identity.as_ref();
        if let Some(found) = identity.and_then(|identity| self.find(identity)) {
            return data.run(&found.execution_id).open(info, ts);
        }
        for n in 1..=LABELS_MAX {
            let directory = data.run(&numbered(label, n));
            if directory.exists() {
                // The run was created after the scan, perhaps by another observer of the same session; or it is
                // this session's, and a full disk has kept its metadata from being written.
                let is_same = match directory.metadata() {
                    Ok(Some(run)) => run.identity == info.identity,
                    Ok(None) => true,
                    Err(_) => false,
                };
                if info.identity.is_none() || !is_same {
                    continue;
                }
            }
            match directory.open(info.clone(), ts) {
                // The run is just being created. While it is unknown whether it belongs to another session, no
                // log is better than two runs of one session. A run without an identity belongs to the process
                // that opened it.
                Err(error)
                    if error.is_locked()
                        && (info.identity.is_none()
                            || (directory.metadata().ok().flatten())
                                .is_some_and(|run| run.identity != info.identity)) => {}
                opened => return opened,
            }
        }
        Err(Error::other(format!("too many runs are called {label:?}")))
    }
}
