//! Merges the logs of several runs by time, each between given numbers, or followed while it is written.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use super::position::Numbers;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{ExecutionId, LogGapRange};
use crate::history::{DataDir, Follower, LogRecord, Query, RunDirectory};
use crate::thread::park;
use crate::timestamp::Timestamp;

/// The longest wait for the log's writer. It is usually some milliseconds behind the live events; more means
/// a stalled disk.
const LOG_WAIT_MAX: Duration = Duration::from_secs(5);
const LOG_PAUSE: Duration = Duration::from_millis(2);

/// The interval at which followed runs are read: fast enough for a reader, and cheap for the disk.
pub(crate) const FOLLOW_INTERVAL: Duration = Duration::from_millis(50);

/// Merges runs by the times of their events. Events with equal times are ordered by the names of their runs,
/// so that the order is the same at each reading.
#[derive(Debug)]
pub(crate) struct RunLogs {
    /// Runs that begin later than the time reached, the earliest first. They are opened when due, because an
    /// open run takes descriptors.
    waiting: VecDeque<RunPart>,
    heads: BinaryHeap<Reverse<NextEvent>>,
    open: BTreeMap<usize, OpenLog>,
    opened: usize,
    /// The runs to read before the next event is known.
    unread: Vec<usize>,
    /// Followed runs that are read to their present ends, and the time at which they are read again.
    idle: Vec<usize>,
    poll_at: Instant,
    query: Query,
    /// The number of events that are missing in the logs and were not reported yet.
    missed: u64,
    clock: Clock,
}

/// A part of a run: the numbers after `from`, up to and including `until`.
#[derive(Debug)]
struct RunPart {
    run: RunDirectory,
    started: Timestamp,
    from: u64,
    until: u64,
    reading: Reading,
}

impl RunPart {
    fn new(run: RunDirectory, started: Timestamp, numbers: (u64, u64), reading: Reading) -> Self {
        let (from, until) = numbers;
        Self {
            run,
            started,
            from,
            until,
            reading,
        }
    }
}

/// The treatment of what a log has, and of what it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// The log is read from its first event to its present end.
    Whole,
    /// Each number after `from` is an event, or counted as missing.
    Exact,
    /// All events are read until the run has no writer.
    Followed,
}

/// A run that is read.
#[derive(Debug)]
pub(crate) struct OpenLog {
    pub run: RunDirectory,
    pub log: Follower,
    from: u64,
    until: u64,
    reading: Reading,
    record: Option<LogRecord>,
    /// The next record, if it was needed to judge this one.
    following: Option<LogRecord>,
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
pub(crate) enum LogItem {
    /// The first event of a followed run may follow.
    Opened(RunDirectory),
    /// An event in the log of a run.
    Event(ExecutionId, Box<LogRecord>),
    /// The number of events that are missing in the logs.
    Missed(u64),
    /// A followed run has no writer, and its events are read.
    Ended(Box<OpenLog>),
    /// A followed run cannot be read.
    Failed(RunDirectory, Error),
    /// The next event is not written before the deadline.
    Timeout,
    /// Everything is read.
    End,
}

impl RunLogs {
    /// Merges all selected runs from their beginning. A run is read up to its number in `until`, or to its
    /// end if it has none.
    pub(super) fn whole(
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
            RunPart::new(run.directory, run.started, (0, until), Reading::Whole)
        });
        Ok(Self::new(parts.collect(), Query::all(), clock))
    }

    /// Merges the events between two positions.
    pub(super) fn between(
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
            let started = Timestamp::default();
            RunPart::new(data.run(run), started, (from, until), Reading::Exact)
        });
        Self::new(parts.collect(), Query::all(), clock)
    }

    /// Reads the numbers of one run after `from`, up to and including `until`: all, if that is the maximum.
    /// Without a log, they are missing.
    pub(super) fn of_run(run: Option<RunDirectory>, from: u64, until: u64, clock: &Clock) -> Self {
        let missed = run.as_ref().map_or(missing(from, until), |_| 0);
        let started = Timestamp::default();
        let part = run.map(|run| RunPart::new(run, started, (from, until), Reading::Exact));
        Self {
            missed,
            ..Self::new(part.into_iter().collect(), Query::all(), clock)
        }
    }

    /// Follows the runs that are added with [`RunLogs::follow`].
    pub fn following(query: Query, clock: &Clock) -> Self {
        Self::new(VecDeque::new(), query, clock)
    }

    fn new(waiting: VecDeque<RunPart>, query: Query, clock: &Clock) -> Self {
        let mut logs = Self {
            waiting,
            heads: BinaryHeap::new(),
            open: BTreeMap::new(),
            opened: 0,
            unread: Vec::new(),
            idle: Vec::new(),
            poll_at: clock.now(),
            query,
            missed: 0,
            clock: clock.clone(),
        };
        logs.sort();
        logs
    }

    fn sort(&mut self) {
        let waiting = self.waiting.make_contiguous();
        waiting.sort_by_cached_key(|part| (part.started, part.run.execution_id().clone()));
    }

    /// Follows runs, each after a number: events up to it may come first. 0 gives all events, also those
    /// without a number.
    pub fn follow(&mut self, runs: impl IntoIterator<Item = (RunDirectory, u64)>) {
        self.waiting.extend(runs.into_iter().map(|(run, from)| {
            let created = run.metadata().ok().flatten().map(|known| known.created);
            // The events of a run may be slightly older than its directory, because another thread creates it.
            let started = created.map_or(i64::MIN, |at| at.micros().saturating_sub(60_000_000));
            let started = Timestamp::from_micros(started);
            RunPart::new(run, started, (from, u64::MAX), Reading::Followed)
        }));
        self.sort();
    }

    /// Follows a run again that has ended, because another writer may continue it.
    pub fn follow_on(&mut self, mut log: OpenLog) {
        log.was_written = true;
        self.idle.push(self.opened);
        self.insert(log);
    }

    /// No longer follows a run.
    pub fn leave(&mut self, id: &ExecutionId) {
        self.open.retain(|_, open| open.run.execution_id() != id);
    }

    /// Reads followed runs at the next call, instead of when the interval is over.
    pub fn poll(&mut self) {
        self.poll_at = self.clock.now();
    }

    fn insert(&mut self, log: OpenLog) {
        self.open.insert(self.opened, log);
        self.opened += 1;
    }

    /// Returns the next item. Waits until the deadline for events that are not written yet.
    pub fn next(&mut self, deadline: Option<Instant>) -> LogItem {
        loop {
            if self.missed > 0 {
                return LogItem::Missed(std::mem::take(&mut self.missed));
            }
            if let Some(index) = self.unread.pop() {
                match self.advance(index) {
                    None => {}
                    Some(LogItem::Timeout) => {
                        self.unread.push(index);
                        if deadline.is_some_and(|deadline| self.clock.now() >= deadline) {
                            return LogItem::Timeout;
                        }
                        park(Some(LOG_PAUSE));
                    }
                    Some(item) => return item,
                }
            } else if let Some(part) = self.next_due() {
                if let Some(item) = self.open(part) {
                    return item;
                }
            } else if !self.idle.is_empty() && self.clock.now() >= self.poll_at {
                self.poll_at = self.clock.now() + FOLLOW_INTERVAL;
                self.unread.append(&mut self.idle);
            } else if let Some(Reverse(next_event)) = self.heads.pop() {
                self.unread.push(next_event.index);
                let open = self.open.get_mut(&next_event.index);
                if let Some(record) = open.and_then(|open| open.record.take()) {
                    return LogItem::Event(next_event.execution_id, Box::new(record));
                }
            } else if self.idle.is_empty() {
                return LogItem::End;
            } else {
                let now = self.clock.now();
                if deadline.is_some_and(|deadline| now >= deadline) {
                    return LogItem::Timeout;
                }
                park(Some(self.poll_at.saturating_duration_since(now)));
            }
        }
    }

    /// Returns the next run to open, if its events may precede those of the open runs.
    fn next_due(&mut self) -> Option<RunPart> {
        let next = self.heads.peek().map(|Reverse(next_event)| next_event.ts);
        let is_due = |part: &RunPart| next.is_none_or(|ts| part.started <= ts);
        self.waiting
            .front()
            .is_some_and(is_due)
            .then(|| self.waiting.pop_front())?
    }

    fn open(&mut self, part: RunPart) -> Option<LogItem> {
        let is_followed = part.reading == Reading::Followed;
        let log = if part.from > 0 {
            part.run.follow_after(part.from, None)
        } else {
            Follower::open(&part.run, self.query.clone())
        };
        match log {
            Ok(log) => {
                let opened = is_followed.then(|| LogItem::Opened(part.run.clone()));
                // As many threads for each of several logs would be too many.
                let is_alone = self.open.is_empty() && self.waiting.is_empty();
                self.unread.push(self.opened);
                self.insert(OpenLog {
                    run: part.run,
                    log: if is_followed && !is_alone {
                        log.in_this_thread()
                    } else {
                        log
                    },
                    from: part.from,
                    until: part.until,
                    reading: part.reading,
                    record: None,
                    following: None,
                    patience: None,
                    was_written: true,
                });
                opened
            }
            Err(error) if is_followed => Some(LogItem::Failed(part.run, error)),
            // The run was pruned, or has no log.
            Err(error) => {
                log::debug!("{error:?}");
                self.missed += missing(part.from, part.until);
                None
            }
        }
    }

    /// Reads the next event of a run; [`LogItem::Timeout`] means that it is not written yet. At the end of the
    /// log, counts the missing events.
    fn advance(&mut self, index: usize) -> Option<LogItem> {
        let open = self.open.get_mut(&index)?;
        while open.from < open.until {
            match open.next_record() {
                Ok(Some(record)) => {
                    open.patience = None;
                    let numbers = LogGapRange::of(&record.envelope);
                    let (last, ts) = match (numbers, open.reading) {
                        (_, Reading::Followed) => (open.from, record.envelope.ts),
                        (Some(numbers), _) if numbers.last <= open.from => continue,
                        (Some(numbers), reading) => {
                            let before = numbers.first.saturating_sub(1).min(open.until);
                            if reading == Reading::Exact || open.from > 0 {
                                self.missed += missing(open.from, before);
                            }
                            if numbers.first > open.until {
                                open.from = open.until;
                                break;
                            }
                            (numbers.last, numbers.ts)
                        }
                        // Lines of an older log have no numbers, and precede all numbered ones.
                        (None, Reading::Exact) if open.from == 0 => (0, record.envelope.ts),
                        (None, _) => continue,
                    };
                    open.from = last;
                    open.record = Some(record);
                    self.heads.push(Reverse(NextEvent {
                        ts,
                        execution_id: open.run.execution_id().clone(),
                        index,
                    }));
                    return None;
                }
                Ok(None) if open.reading == Reading::Followed && !open.was_written => {
                    let ended = self.open.remove(&index)?;
                    return Some(LogItem::Ended(Box::new(ended)));
                }
                Ok(None) if open.reading == Reading::Whole && open.until == u64::MAX => break,
                Ok(None) => {
                    let now = self.clock.now();
                    let is_late = now >= *open.patience.get_or_insert(now + LOG_WAIT_MAX);
                    let is_followed = open.reading == Reading::Followed;
                    if !is_followed && (is_late || !open.was_written) {
                        break;
                    }
                    // Read once more after the writer has ended, because it may have written events since the
                    // last read.
                    open.was_written = open.log.is_written().unwrap_or(false);
                    if open.was_written && is_followed {
                        self.idle.push(index);
                        return None;
                    }
                    if open.was_written {
                        return Some(LogItem::Timeout);
                    }
                }
                Err(error) if open.reading == Reading::Followed => {
                    let failed = self.open.remove(&index)?;
                    return Some(LogItem::Failed(failed.run, error));
                }
                Err(error) => {
                    log::warn!("{error:?}");
                    break;
                }
            }
        }
        self.missed += missing(open.from, open.until);
        // Closes its files.
        self.open.remove(&index);
        None
    }
}

impl OpenLog {
    /// Returns the next record. A record with a higher number than the next one is damaged, and is omitted: its
    /// own number is missing.
    fn next_record(&mut self) -> Result<Option<LogRecord>> {
        loop {
            let Some(record) = self
                .following
                .take()
                .map_or_else(|| self.log.next(), |next| Ok(Some(next)))?
            else {
                return Ok(None);
            };
            let first = LogGapRange::of(&record.envelope).map(|numbers| numbers.first);
            let is_expected = first.is_none_or(|first| first <= self.from.saturating_add(1));
            if is_expected || self.reading == Reading::Followed {
                return Ok(Some(record));
            }
            self.following = self.log.next()?;
            let following = self.following.as_ref();
            let next = following.and_then(|next| LogGapRange::of(&next.envelope));
            if next.as_ref().is_none_or(|next| Some(next.first) > first) {
                return Ok(Some(record));
            }
            // Unless it has only changed places with the next one.
            let is_moved = next.is_some_and(|next| {
                next.first == self.from.saturating_add(1) && Some(next.last + 1) == first
            });
            if is_moved {
                return Ok(self.following.replace(record));
            }
        }
    }
}

/// Returns the number of events after `from`, up to and including `until`; 0 if it is not known where they end.
fn missing(from: u64, until: u64) -> u64 {
    match until {
        u64::MAX => 0,
        until => until.saturating_sub(from),
    }
}
