//! Merges the selected events of several logs by time.
//!
//! [`MergedLogs`] opens a log when the merge reaches the time at which its run began, and closes it at its end.
//! Descriptors and memory therefore depend on the number of runs at the same time. The more logs, the smaller
//! their blocks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;

use super::parse::LogRecord;
use super::query::Query;
use super::reader::{LogReader, ReadReport, SEQUENTIAL_BLOCK_BYTES};
use crate::error::{Error, Result};
use crate::history::dir::RunDirectory;
use crate::timestamp::Timestamp;

/// A log to merge.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LogSource {
    /// The log of a run.
    Run(RunDirectory),
    /// A single file.
    File(PathBuf),
}

/// An item from merged logs.
#[derive(Debug)]
#[non_exhaustive]
pub enum Merged {
    /// The first event of this log may follow.
    Opened(usize),
    /// An event of a log.
    Record(usize, Box<LogRecord>),
    /// The log has ended.
    Closed(usize, Box<ReadReport>),
    /// The log cannot be read.
    Failed(usize, Error),
}

/// Merges logs. Each log's number is its index in the list of sources.
#[derive(Debug)]
pub struct MergedLogs {
    query: Query,
    block_bytes: u64,
    /// Logs that are not open yet; the earliest is the last element.
    waiting: Vec<(Timestamp, usize, LogSource)>,
    /// The time of the next event of each open log, ordered by time and then by log.
    heads: BinaryHeap<Reverse<(Timestamp, usize)>>,
    /// The open logs, each with its next event.
    open: Vec<Option<(LogReader, Option<LogRecord>)>>,
    /// The log whose head was returned last and whose next event must be read.
    last: Option<usize>,
}

impl MergedLogs {
    /// Begins to merge the events of logs that match a query.
    pub fn new(sources: Vec<LogSource>, query: Query) -> Self {
        let count = sources.len();
        let mut waiting: Vec<_> = (0..)
            .zip(sources)
            .map(|(number, source)| (began(&source), number, source))
            .collect();
        waiting.sort_by_key(|(began, number, _)| Reverse((*began, *number)));
        Self {
            query,
            // All blocks together take 8 MiB. Lines are rarely longer than the smallest block.
            block_bytes: (8 * 1024 * 1024 / count.max(1) as u64)
                .clamp(4096, SEQUENTIAL_BLOCK_BYTES),
            waiting,
            heads: BinaryHeap::new(),
            open: (0..count).map(|_| None).collect(),
            last: None,
        }
    }

    /// Opens the next log unless an open log has an earlier event.
    fn open_next(&mut self) -> Option<Merged> {
        let (began, ..) = self.waiting.last()?;
        let earliest = self.heads.peek();
        if earliest.is_some_and(|Reverse((ts, _))| ts < began) {
            return None;
        }
        let (_, number, source) = self.waiting.pop()?;
        match self.reader(&source) {
            Ok(reader) => {
                self.open[number] = Some((reader, None));
                self.last = Some(number);
                Some(Merged::Opened(number))
            }
            Err(error) => Some(Merged::Failed(number, error)),
        }
    }

    fn reader(&self, source: &LogSource) -> Result<LogReader> {
        let query = self.query.clone();
        let reader = match source {
            LogSource::Run(run) => LogReader::open_lines(run, query),
            LogSource::File(path) => LogReader::open_file(path, query),
        };
        Ok(reader?.in_blocks_of(self.block_bytes))
    }

    /// Reads the next event of the log whose head was returned last; returns the log's end if it has ended.
    fn advance(&mut self) -> Option<Merged> {
        let number = self.last.take()?;
        let (reader, head) = self.open[number].as_mut()?;
        match reader.next() {
            Some(record) => {
                self.heads.push(Reverse((record.envelope.ts, number)));
                *head = Some(record);
                None
            }
            None => {
                let report = self.open[number].take().map(|(reader, _)| reader.report);
                Some(Merged::Closed(number, Box::new(report.unwrap_or_default())))
            }
        }
    }
}

impl Iterator for MergedLogs {
    type Item = Merged;

    fn next(&mut self) -> Option<Merged> {
        if let Some(closed) = self.advance() {
            return Some(closed);
        }
        if let Some(opened) = self.open_next() {
            return Some(opened);
        }
        let Reverse((_, number)) = self.heads.pop()?;
        self.last = Some(number);
        let record = self.open[number].as_mut()?.1.take()?;
        Some(Merged::Record(number, Box::new(record)))
    }
}

/// Returns a time before which the log has no events.
fn began(source: &LogSource) -> Timestamp {
    let first = Timestamp::from_micros(i64::MIN);
    let LogSource::Run(run) = source else {
        return first;
    };
    // Events of a run may be slightly older than its directory, because another thread creates it.
    match run.metadata() {
        Ok(Some(metadata)) => {
            Timestamp::from_micros(metadata.created.micros().saturating_sub(60_000_000))
        }
        _ => first,
    }
}
