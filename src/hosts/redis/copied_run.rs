//! One stream on its way to its copy: how far the copy is, and what is said of the run.

use serde_json::{Map, Value};

use super::entries::{Entry, entries};
use super::keys::{AboutRun, EntryId};
use super::link::{Link, LinkError};
use crate::error::{Error, Result};
use crate::event::{ExecutionId, LineDecoder, LogGapRange};
use crate::history::{
    DataDir, IN_PANE, RunCopy, RunDirectory, RunMetadata, RunState, SESSION, numbered,
};
use crate::hosts::HostName;

/// The field of a copy's metadata with the key of its stream.
const STREAM: &str = "stream";

/// The field of a copy's metadata with the rows of the board.
const BOARD: &str = "board";

/// The most runs of one name that a host may have had.
const NAMES_MAX: u32 = 1000;

/// The longest id of a run, in bytes: a hostile one must not fill the memory.
const ID_BYTES_MAX: usize = 4096;

/// The number of entries that are read at once to find the last event of a copy.
const STEP: usize = 100;

/// A stream that is copied.
pub(super) struct CopiedRun {
    directory: RunDirectory,
    stream: String,
    /// The id that the run has on its host.
    own_id: ExecutionId,
    host: HostName,
    /// The copy, while more is expected.
    copy: Option<RunCopy>,
    /// The last entry that was read; `None` if it must be found.
    position: Option<EntryId>,
    /// The state with which the copy ends, once all is read.
    end: Option<RunEnd>,
    /// The number of the last event of a copy that is complete.
    complete: Option<u64>,
    missed: u64,
    /// The rows of the board, for who reads the copy next.
    board: Option<Value>,
}

/// How a run has ended.
struct RunEnd {
    last: u64,
    metadata: RunMetadata,
}

impl CopiedRun {
    /// Opens the copy of a run, unless it is complete.
    pub fn new(data: &DataDir, host: &HostName, about: AboutRun) -> Result<Self> {
        let own_id = about.metadata.execution_id.clone();
        if own_id.len() > ID_BYTES_MAX {
            return Err(Error::invalid("the id of a run is too long"));
        }
        let directory = directory_of(data, &host.id(&own_id), &about.stream)?;
        let mut run = Self {
            directory,
            stream: about.stream.clone(),
            own_id,
            host: host.clone(),
            copy: None,
            position: None,
            end: None,
            complete: None,
            missed: 0,
            board: None,
        };
        let mut copied = run.directory.metadata()?;
        run.board = copied
            .as_mut()
            .and_then(|copied| copied.extra.remove(BOARD));
        run.complete = copied.and_then(|copied| copied.next_seq?.checked_sub(1));
        run.note(about)?;
        Ok(run)
    }

    pub fn id(&self) -> &ExecutionId {
        self.directory.execution_id()
    }

    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// Returns true if more is expected, and it is known from where.
    pub fn is_read(&self) -> bool {
        self.copy.is_some() && self.position.is_some()
    }

    /// Returns true if it must be found where the stream is read on.
    pub fn is_lost(&self) -> bool {
        self.copy.is_some() && self.position.is_none()
    }

    pub fn position(&self) -> EntryId {
        self.position.unwrap_or_default()
    }

    /// Returns the number of events that were trimmed before they were read.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Notes what is said of the run.
    pub fn note(&mut self, about: AboutRun) -> Result<()> {
        if self.copy.is_none() && about.last.is_some() && about.last == self.complete {
            return Ok(());
        }
        let metadata = self.metadata(about.metadata);
        let running = RunMetadata {
            state: RunState::Running,
            exit_status: None,
            next_seq: None,
            ..metadata.clone()
        };
        match &mut self.copy {
            Some(copy) => copy.set_metadata(running)?,
            None => {
                self.copy = Some(RunCopy::open(&self.directory, running)?);
                self.position = None;
            }
        }
        self.end = about.last.map(|last| RunEnd { last, metadata });
        Ok(())
    }

    /// Returns the metadata of the copy: what belongs to the host bears its name.
    fn metadata(&self, own: RunMetadata) -> RunMetadata {
        let host = self.host.as_str();
        let mut metadata = RunMetadata {
            execution_id: self.id().clone(),
            host: host.to_owned(),
            dropped_from: None,
            ..own
        };
        if let Some(identity) = &mut metadata.identity {
            identity.socket = format!("{host}:{}", identity.socket);
        }
        if let Some(Value::String(server)) = metadata
            .extra
            .get_mut(IN_PANE)
            .and_then(|place| place.get_mut("server"))
        {
            *server = format!("{host}:{server}");
        }
        // It is found by its name with and without the host.
        if !metadata.label.is_empty() {
            let session = metadata.extra.entry(SESSION);
            session.or_insert_with(|| metadata.label.as_str().into());
            metadata.label = format!("{host}/{}", metadata.label);
        }
        let stream = Value::from(self.stream.as_str());
        metadata.extra.insert(STREAM.to_owned(), stream);
        metadata.extra.remove(BOARD);
        self.with_board(metadata)
    }

    fn with_board(&self, mut metadata: RunMetadata) -> RunMetadata {
        if let Some(board) = &self.board {
            metadata.extra.insert(BOARD.to_owned(), board.clone());
        }
        metadata
    }

    /// Keeps a summary of the copy in its metadata, so that a board needs only later events.
    pub fn keep_summary(&mut self, mut summary: Map<String, Value>) -> Result<()> {
        self.board = summary.remove(BOARD);
        match &mut self.copy {
            Some(copy) => {
                let mut metadata = copy.metadata().clone();
                if let Some(board) = &self.board {
                    metadata.extra.insert(BOARD.to_owned(), board.clone());
                }
                copy.set_metadata(metadata)
            }
            None => {
                let Some(metadata) = self.directory.metadata()? else {
                    return Ok(());
                };
                let metadata = self.with_board(metadata);
                RunCopy::open(&self.directory, metadata)?.release()
            }
        }
    }

    /// Finds the entry of the copy's last event.
    pub fn find_position(&mut self, link: &mut Link) -> Result<(), LinkError> {
        let Some(copy) = &self.copy else {
            return Ok(());
        };
        let (number, ts) = copy.last();
        if number == 0 {
            self.position = Some(EntryId::default());
            return Ok(());
        }
        // Where no clock went back, it is this one; else a later one.
        let first = EntryId::default().next(ts, number);
        let mut from = first.to_string();
        loop {
            let mut command = redis::cmd("XRANGE");
            command.arg(&self.stream).arg(&from);
            command.arg("+").arg("COUNT").arg(STEP);
            let entries = entries(link.ask(&command)?).unwrap_or_default();
            for entry in &entries {
                let is_last = entry.id.number == number
                    && entry.envelope().is_some_and(|event| event.ts == ts);
                if is_last || entry.id.number > number {
                    self.position = Some(if is_last { entry.id } else { first });
                    return Ok(());
                }
            }
            match entries.last() {
                Some(last) => from = format!("({}", last.id),
                None => break,
            }
        }
        self.position = Some(first);
        Ok(())
    }

    /// Adds an entry to the copy; returns false if it is no event of the run.
    pub fn append(&mut self, entry: &Entry, decoder: &mut LineDecoder) -> Result<bool> {
        self.position = Some(entry.id);
        let Some(copy) = &mut self.copy else {
            return Ok(true);
        };
        let line = entry.line.as_deref().unwrap_or_default();
        let Ok(mut envelope) = decoder.decode(line) else {
            return Ok(false);
        };
        let Some(numbers) = LogGapRange::of(&envelope) else {
            return Ok(false);
        };
        if numbers.last != entry.id.number || envelope.event.execution_id() != self.own_id.as_str()
        {
            return Ok(false);
        }
        let next = copy.last().0 + 1;
        envelope
            .event
            .set_execution_id(self.directory.execution_id());
        copy.append(&envelope)?;
        self.missed += numbers.first.saturating_sub(next);
        Ok(true)
    }

    /// Writes what was added.
    pub fn flush(&mut self) -> Result<()> {
        match &mut self.copy {
            Some(copy) => copy.flush(),
            None => Ok(()),
        }
    }

    /// Ends the copy, if the run has ended: Redis has nothing more.
    pub fn end(&mut self) -> Result<()> {
        let (Some(end), Some(copy)) = (&self.end, &mut self.copy) else {
            return Ok(());
        };
        let mut metadata = RunMetadata {
            next_seq: Some(end.last + 1),
            ..end.metadata.clone()
        };
        if let Some(board) = &self.board {
            metadata.extra.insert(BOARD.to_owned(), board.clone());
        }
        copy.set_metadata(metadata)?;
        copy.release()?;
        self.complete = Some(end.last);
        (self.copy, self.end) = (None, None);
        Ok(())
    }

    /// Reads nothing more of the stream, until more is said of the run.
    pub fn give_up(&mut self) {
        (self.copy, self.end) = (None, None);
    }
}

/// Returns the directory of a stream's copy: another run of the host may have had its name.
fn directory_of(data: &DataDir, id: &ExecutionId, stream: &str) -> Result<RunDirectory> {
    for n in 1..=NAMES_MAX {
        // Each has the whole number of runs that may be open: the descriptors are the limit.
        let directory = DataDir::new(data.path()).run(&numbered(id, n));
        match directory.metadata()? {
            Some(copied) if copied.extra.get(STREAM) != Some(&Value::from(stream)) => {}
            _ => return Ok(directory),
        }
    }
    Err(Error::other(format!("too many runs are called {id:?}")))
}
