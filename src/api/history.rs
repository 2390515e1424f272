//! Merges the histories of several runs by time, each between given numbers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use super::journal::Numbers;
use crate::clock::Clock;
use crate::error::Result;
use crate::event::{ExecutionId, LogGapRange};
use crate::history::{DataDir, Follower, LogRecord, Query, RunDirectory};
use crate::thread::park;
use crate::timestamp::Timestamp;

/// The longest wait for the log's writer. It is usually some milliseconds behind the live events; more means
/// a stalled disk.
const LOG_WAIT_MAX: Duration = Duration::from_secs(5);
const LOG_PAUSE: Duration = Duration::from_millis(2);

/// Merges runs by the times of their events. Events with equal times are ordered by the names of their runs,
/// so that the order is the same at each reading.
pub(crate) struct MergedHistory {
    /// Runs that begin later than the time reached, the earliest first. They are opened when due, because an
    /// open run takes descriptors.
    waiting: VecDeque<(Timestamp, RunPart)>,
    open: BinaryHeap<Reverse<NextEvent>>,
    runs: Vec<OpenPart>,
    /// The number of events that are missing in the logs and were not reported yet.
    missed: u64,
    clock: Clock,
}

/// A part of a run: the numbers after `from`, up to and including `until`.
struct RunPart {
    run: RunDirectory,
    from: u64,
    until: u64,
}

struct OpenPart {
    log: Follower,
    part: RunPart,
    record: Option<LogRecord>,
}

/// The next event of an open run.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct NextEvent {
    ts: Timestamp,
    execution_id: ExecutionId,
    index: usize,
}

/// An item of the merged history.
pub(crate) enum HistoryItem {
    Event(Box<LogRecord>),
    /// The number of events that are missing in the log.
    Missed(u64),
}

impl MergedHistory {
    /// Merges all selected runs from their beginning. A run is read up to its number in `until`, or to its
    /// end if it has none.
    pub fn from_beginning(
        data: &DataDir,
        until: &Numbers,
        mut is_selected: impl FnMut(&str) -> bool,
        clock: &Clock,
    ) -> Result<Self> {
        let list = data.runs(clock.wall())?;
        for problem in &list.problems {
            log::warn!("{problem:?}");
        }
        let runs = list.runs.into_iter();
        let selected = runs.filter(|run| is_selected(&run.execution_id));
        let parts = selected.map(|run| {
            let until = until.get(&run.execution_id).copied().unwrap_or(u64::MAX);
            let part = RunPart {
                run: run.directory,
                from: 0,
                until,
            };
            (run.started, part)
        });
        Ok(Self::new(parts.collect(), clock))
    }

    /// Merges the events between two positions.
    pub fn between(
        data: &DataDir,
        from: &Numbers,
        until: &Numbers,
        mut is_selected: impl FnMut(&str) -> bool,
        clock: &Clock,
    ) -> Self {
        let changed = until.iter().filter_map(|(run, until)| {
            let from = from.get(run).copied().unwrap_or(0);
            (from < *until && is_selected(run)).then_some((run, from, *until))
        });
        let parts = changed.map(|(run, from, until)| {
            let run = data.run(run);
            (Timestamp::default(), RunPart { run, from, until })
        });
        Self::new(parts.collect(), clock)
    }

    fn new(mut parts: Vec<(Timestamp, RunPart)>, clock: &Clock) -> Self {
        parts.sort_by(|(a, of_a), (b, of_b)| {
            (a, of_a.run.execution_id()).cmp(&(b, of_b.run.execution_id()))
        });
        Self {
            waiting: parts.into(),
            open: BinaryHeap::new(),
            runs: Vec::new(),
            missed: 0,
            clock: clock.clone(),
        }
    }

    /// Returns the next item. Waits for events that are not written yet, unless `is_stopped()` returns true.
    pub fn next(&mut self, is_stopped: &dyn Fn() -> bool) -> Option<HistoryItem> {
        loop {
            if self.missed > 0 {
                return Some(HistoryItem::Missed(std::mem::take(&mut self.missed)));
            }
            // Open the runs that may have an earlier event than the open ones.
            while let Some(part) = self.next_due() {
                match Follower::open(&part.run, Query::all()) {
                    Ok(log) => {
                        self.runs.push(OpenPart {
                            log,
                            part,
                            record: None,
                        });
                        self.advance(self.runs.len() - 1, is_stopped);
                    }
                    // The run was pruned, or has no log.
                    Err(error) => {
                        log::debug!("{error:?}");
                        self.missed += part.missing_events();
                    }
                }
            }
            let Some(Reverse(next_event)) = self.open.pop() else {
                if self.missed > 0 {
                    continue;
                }
                return None;
            };
            let record = self.runs[next_event.index].record.take();
            self.advance(next_event.index, is_stopped);
            if let Some(record) = record {
                return Some(HistoryItem::Event(Box::new(record)));
            }
        }
    }

    /// Returns the next run to open, if its events may precede those of the open runs.
    fn next_due(&mut self) -> Option<RunPart> {
        let (started, _) = self.waiting.front()?;
        let is_due = match self.open.peek() {
            Some(Reverse(next_event)) => *started <= next_event.ts,
            None => true,
        };
        match is_due {
            true => self.waiting.pop_front().map(|(_, part)| part),
            false => None,
        }
    }

    /// Reads the next event of a run. At the end of the log, counts the missing events.
    fn advance(&mut self, index: usize, is_stopped: &dyn Fn() -> bool) {
        let open = &mut self.runs[index];
        let mut give_up_at: Option<Instant> = None;
        let mut is_written = true;
        while open.part.from < open.part.until {
            match open.log.next() {
                Ok(Some(record)) => {
                    let Some(numbers) = LogGapRange::of(&record.envelope) else {
                        // A header, or a line of an older log.
                        continue;
                    };
                    if numbers.last <= open.part.from {
                        continue;
                    }
                    if numbers.first > open.part.until {
                        return;
                    }
                    open.part.from = numbers.last;
                    open.record = Some(record);
                    self.open.push(Reverse(NextEvent {
                        ts: numbers.ts,
                        execution_id: open.part.run.execution_id().clone(),
                        index,
                    }));
                    return;
                }
                Ok(None) if open.part.until == u64::MAX => return,
                Ok(None) => {
                    let now = self.clock.now();
                    let give_up_at = *give_up_at.get_or_insert(now + LOG_WAIT_MAX);
                    if is_stopped() || now >= give_up_at || !is_written {
                        break;
                    }
                    // Read once more after the writer has ended, because it may have written events since the
                    // last read.
                    is_written = open.log.is_written().unwrap_or(false);
                    if is_written {
                        park(Some(LOG_PAUSE));
                    }
                }
                Err(error) => {
                    log::warn!("{error:?}");
                    break;
                }
            }
        }
        self.missed += open.part.missing_events();
        open.part.from = open.part.until;
    }
}

impl RunPart {
    /// Returns the number of existing events that were not read.
    fn missing_events(&self) -> u64 {
        match self.until {
            u64::MAX => 0,
            until => until.saturating_sub(self.from),
        }
    }
}
