//! Merges the logs of several runs by time, each between given numbers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use super::position::Numbers;
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
#[derive(Debug)]
pub(super) struct RunLogs {
    /// Runs that begin later than the time reached, the earliest first. They are opened when due, because an
    /// open run takes descriptors.
    waiting: VecDeque<(Timestamp, RunPart)>,
    open: BinaryHeap<Reverse<NextEvent>>,
    runs: Vec<OpenPart>,
    /// The run whose next event is not written yet.
    unwritten: Option<usize>,
    /// The number of events that are missing in the logs and were not reported yet.
    missed: u64,
    clock: Clock,
}

/// A part of a run: the numbers after `from`, up to and including `until`.
#[derive(Debug)]
struct RunPart {
    run: RunDirectory,
    from: u64,
    until: u64,
    reading: Reading,
}

/// The treatment of what a log has, and of what it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// The log is read from its first event to its present end.
    Whole,
    /// Each number after `from` is an event, or counted as missing.
    Exact,
}

#[derive(Debug)]
struct OpenPart {
    log: Follower,
    part: RunPart,
    record: Option<LogRecord>,
    /// The time until which the log may make no progress.
    patience: Option<Instant>,
    /// The log had a writer when its end was reached.
    was_written: bool,
}

/// The next event of an open run.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NextEvent {
    ts: Timestamp,
    execution_id: ExecutionId,
    index: usize,
}

/// An item of the merged logs.
pub(super) enum LogItem {
    Event(Box<LogRecord>),
    /// The number of events that are missing in the logs.
    Missed(u64),
    /// The next event is not written before the deadline.
    Timeout,
    /// Everything is read.
    End,
}

impl RunLogs {
    /// Merges all selected runs from their beginning. A run is read up to its number in `until`, or to its
    /// end if it has none.
    pub fn whole(
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
                reading: Reading::Whole,
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
            let part = RunPart {
                run: data.run(run),
                from,
                until,
                reading: Reading::Exact,
            };
            (Timestamp::default(), part)
        });
        Self::new(parts.collect(), clock)
    }

    /// Reads the numbers of one run after `from`, up to and including `until`: all, if that is the maximum.
    /// Without a log, they are missing.
    pub fn of_run(run: Option<RunDirectory>, from: u64, until: u64, clock: &Clock) -> Self {
        let part = run.map(|run| RunPart {
            run,
            from,
            until,
            reading: Reading::Exact,
        });
        let mut logs = Self::new(Vec::new(), clock);
        match part {
            Some(part) => logs.waiting.push_back((Timestamp::default(), part)),
            None => logs.missed = missing(from, until),
        }
        logs
    }

    fn new(mut parts: Vec<(Timestamp, RunPart)>, clock: &Clock) -> Self {
        parts.sort_by(|(a, of_a), (b, of_b)| {
            (a, of_a.run.execution_id()).cmp(&(b, of_b.run.execution_id()))
        });
        Self {
            waiting: parts.into(),
            open: BinaryHeap::new(),
            runs: Vec::new(),
            unwritten: None,
            missed: 0,
            clock: clock.clone(),
        }
    }

    /// Returns the next item. Waits until the deadline for events that are not written yet.
    pub fn next(&mut self, deadline: Option<Instant>) -> LogItem {
        loop {
            if self.missed > 0 {
                return LogItem::Missed(std::mem::take(&mut self.missed));
            }
            if let Some(index) = self.unwritten.take() {
                self.advance(index);
            }
            // Open the runs that may have an earlier event than the open ones.
            while self.unwritten.is_none()
                && let Some(part) = self.next_due()
            {
                let log = if part.from > 0 {
                    part.run.follow_after(part.from)
                } else {
                    Follower::open(&part.run, Query::all())
                };
                match log {
                    Ok(log) => {
                        self.runs.push(OpenPart {
                            log,
                            part,
                            record: None,
                            patience: None,
                            was_written: true,
                        });
                        self.advance(self.runs.len() - 1);
                    }
                    // The run was pruned, or has no log.
                    Err(error) => {
                        log::debug!("{error:?}");
                        self.missed += missing(part.from, part.until);
                    }
                }
            }
            if self.unwritten.is_some() {
                if deadline.is_some_and(|deadline| self.clock.now() >= deadline) {
                    return LogItem::Timeout;
                }
                park(Some(LOG_PAUSE));
                continue;
            }
            if self.missed > 0 {
                continue;
            }
            let Some(Reverse(next_event)) = self.open.pop() else {
                return LogItem::End;
            };
            let record = self.runs[next_event.index].record.take();
            self.advance(next_event.index);
            if let Some(record) = record {
                return LogItem::Event(Box::new(record));
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
        if !is_due {
            return None;
        }
        self.waiting.pop_front().map(|(_, part)| part)
    }

    /// Reads the next event of a run. At the end of the log, waits for its writer, or counts the missing
    /// events.
    fn advance(&mut self, index: usize) {
        let open = &mut self.runs[index];
        let part = &mut open.part;
        while part.from < part.until {
            match open.log.next() {
                Ok(Some(record)) => {
                    open.patience = None;
                    let numbers = LogGapRange::of(&record.envelope);
                    let is_first = part.reading == Reading::Exact && part.from == 0;
                    let (last, ts) = match numbers {
                        Some(numbers) if numbers.last <= part.from => continue,
                        Some(numbers) => {
                            let is_counted = part.reading == Reading::Exact || part.from > 0;
                            let before = numbers.first.saturating_sub(1).min(part.until);
                            if is_counted {
                                self.missed += missing(part.from, before);
                            }
                            if numbers.first > part.until {
                                part.from = part.until;
                                return;
                            }
                            (numbers.last, numbers.ts)
                        }
                        // Lines of an older log have no numbers, and precede all numbered ones.
                        None if is_first => (0, record.envelope.ts),
                        None => continue,
                    };
                    part.from = last;
                    open.record = Some(record);
                    self.open.push(Reverse(NextEvent {
                        ts,
                        execution_id: part.run.execution_id().clone(),
                        index,
                    }));
                    return;
                }
                Ok(None) if part.reading == Reading::Whole && part.until == u64::MAX => return,
                Ok(None) => {
                    let now = self.clock.now();
                    let patience = *open.patience.get_or_insert(now + LOG_WAIT_MAX);
                    if now >= patience || !open.was_written {
                        break;
                    }
                    // Read once more after the writer has ended, because it may have written events since the
                    // last read.
                    open.was_written = open.log.is_written().unwrap_or(false);
                    if open.was_written {
                        self.unwritten = Some(index);
                        return;
                    }
                }
                Err(error) => {
                    log::warn!("{error:?}");
                    break;
                }
            }
        }
        self.missed += missing(part.from, part.until);
        part.from = part.until;
    }
}

/// Returns the number of events after `from`, up to and including `until`; 0 if it is not known where they end.
fn missing(from: u64, until: u64) -> u64 {
    match until {
        u64::MAX => 0,
        until => until.saturating_sub(from),
    }
}
