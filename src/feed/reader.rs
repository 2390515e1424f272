//! Reads a feed from a position: history, then live, each event once and in order.
//!
//! There is one algorithm for a run of an engine and for all runs of an observer. Live events come from a
//! [`Live`] source, which knows the last number of each run at the reader's position. What it no longer has is
//! read from the logs between two positions, and what no log has is counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::logs::{LogItem, RunLogs};
use super::memory::{Feed, Next as MemoryNext, StreamGauge};
use super::position::{HistoryPlace, Numbers, StreamCursor, run_hash};
use super::selection::{Selection, Selector};
use crate::bus::{Delivery, EventRef, RecvTimeoutError, Subscription};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::Result;
use crate::event::{Envelope, ExecutionId, LogGapRange};
use crate::history::RunDirectory;
use crate::timestamp::Timestamp;

/// The value of [`HistoryPlace::from`] for a history from the beginning of all runs.
const BEGINNING: u64 = u64::MAX;

/// The value of [`HistoryPlace::from`] for the events of one run after a number.
const ONE_RUN: u64 = u64::MAX - 1;

/// The time by which the cursor of another observer is moved back, because events of several sources may have
/// been distributed in another order than that of their times.
const OVERLAP_MICROS: i64 = 2_000_000;

/// What a reader finds next.
#[derive(Clone, Debug)]
pub enum Next {
    /// An event.
    Event(EventRef),
    /// The number of events that are missing here, because no log has them.
    Missed(u64),
    /// Nothing arrived before the deadline.
    Timeout,
    /// Everything is read, and nothing will follow.
    End,
}

/// The point from which a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartPoint {
    /// Live events only.
    Now,
    /// Events from this time on.
    Since(Timestamp),
    /// Events after a cursor. The time is the start time of the stream, if it had one.
    After(StreamCursor, Option<Timestamp>),
}

/// The events of a feed from a position on: first from the logs, then live.
///
/// A late reader gets the log first and continues live where it ends. A slow reader gets from the log what
/// its place in memory has dropped. Each event arrives once and in order. A
/// [`LogGap`](crate::TdEvent::LogGap) represents what a log has lost. [`Next::Missed`] counts what no log has,
/// because there is none, a file was removed, or it makes no progress for 5 s.
#[derive(Debug)]
pub struct Reader {
    live: Live,
    selector: Selector,
    clock: Clock,
    position: u64,
    ts: Timestamp,
    /// The last number of each run before the position.
    numbers: Numbers,
    /// The last event that was read from the log of each run that began after the position. Its events may be
    /// delivered live, too.
    ahead: BTreeMap<u64, (u64, Timestamp)>,
    replay: Option<Replay>,
    /// Live events that were read from memory.
    ready: std::vec::IntoIter<EventRef>,
}

/// The source of live events.
#[derive(Debug)]
enum Live {
    /// The memory of an observer, which has the events of all runs.
    Memory(Feed, Arc<StreamGauge>),
    /// A lane of the bus, for one run.
    Run(RunLane),
}

#[derive(Debug)]
struct RunLane {
    id: ExecutionId,
    /// `None` without a log.
    run: Option<RunDirectory>,
    lane: Subscription,
    /// An event that waits until the events before it are read from the log.
    waiting: Option<EventRef>,
    /// The lane has dropped events, and no later event has shown how many.
    has_lagged: bool,
}

/// The state of reading the logs before the position.
#[derive(Debug)]
struct Replay {
    logs: RunLogs,
    from: u64,
    since: Option<Timestamp>,
    /// The last event that the reader had before. Events up to it are skipped.
    skip: Option<HistoryPlace>,
    /// The point that was reached.
    point: StreamCursor,
}

impl Reader {
    /// Returns a reader of one execution of an engine, which begins with the event of this number: 1 gives all
    /// events. Use it to join late, or to receive every event with a slow reader.
    ///
    /// ```no_run
    /// use td_observe::feed::{Next, Reader};
    /// # fn main() -> td_observe::Result<()> {
    /// # let engine = td_observe::Builder::new().data_dir("/tmp/observed").start()?;
    /// let mut reader = Reader::of_run(&engine, "build@1768989600", 1);
    /// loop {
    ///     match reader.next(None) {
    ///         Next::Event(event) => println!("{:?} {:?}", event.seq, event.event),
    ///         Next::Missed(count) => println!("{count} events are in no log"),
    ///         Next::Timeout => {}
    ///         Next::End => break,
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn of_run(engine: &Engine, id: impl Into<ExecutionId>, from_seq: u64) -> Self {
        let id = id.into();
        let (lane, live_from) = engine.bus().subscribe_numbered(&id);
        let run = engine.run_directory(&id).filter(RunDirectory::exists);
        let clock = engine.clock().clone();
        let lane = RunLane {
            id: id.clone(),
            run,
            lane,
            waiting: None,
            has_lagged: false,
        };
        let mut reader = Self::new(Live::Run(lane), Selector::default(), clock);
        let before = from_seq.saturating_sub(1);
        reader.numbers.insert(id, before);
        if from_seq.max(1) < live_from {
            reader.read_run(before, live_from - 1);
        }
        reader
    }

    /// Opens a reader of an observer's feed.
    pub(crate) fn open(feed: &Feed, selection: Selection, from: StartPoint) -> Result<Self> {
        Self::begin(feed.clone(), feed.open_gauge(), selection, from)
    }

    /// Opens a reader of one run of an observer, which begins after a number of the run.
    pub(crate) fn open_after(
        feed: &Feed,
        mut selection: Selection,
        id: &ExecutionId,
        seq: u64,
    ) -> Result<Self> {
        selection.executions = [id.to_string()].into();
        let mut reader = Self::open(feed, selection, StartPoint::Now)?;
        if reader.numbers.get(id).is_none_or(|last| *last <= seq) {
            // A log may be ahead of the memory.
            let now = reader.clock.wall();
            reader.ahead.insert(run_hash(id), (seq, now));
        } else if let Some((position, numbers)) = feed.position_after(id, seq) {
            (reader.position, reader.numbers) = (position, numbers);
        } else {
            reader.read_after(feed, id, seq);
        }
        Ok(reader)
    }

    /// Returns a reader of all live events, which the metrics do not list.
    pub(crate) fn live(feed: &Feed) -> Self {
        let live = Live::Memory(feed.clone(), Arc::default());
        let mut reader = Self::new(live, Selector::default(), feed.clock().clone());
        (reader.position, reader.numbers) = feed.numbers();
        reader
    }

    /// Continues with another selection from a point.
    pub(crate) fn reopen(&mut self, selection: Selection, from: StartPoint) -> Result<()> {
        if let Live::Memory(feed, gauge) = &self.live {
            *self = Self::begin(feed.clone(), Arc::clone(gauge), selection, from)?;
        }
        Ok(())
    }

    fn new(live: Live, selector: Selector, clock: Clock) -> Self {
        Self {
            live,
            selector,
            clock,
            position: 0,
            ts: Timestamp::default(),
            numbers: Numbers::new(),
            ahead: BTreeMap::new(),
            replay: None,
            ready: Vec::new().into_iter(),
        }
    }

    fn begin(
        feed: Feed,
        gauge: Arc<StreamGauge>,
        selection: Selection,
        from: StartPoint,
    ) -> Result<Self> {
        let selector = Selector::new(selection, feed.data().clone());
        let clock = feed.clock().clone();
        let mut reader = Self::new(Live::Memory(feed.clone(), gauge), selector, clock);
        (reader.position, reader.numbers) = feed.numbers();
        (_, reader.ts) = feed.end();
        match from {
            StartPoint::Now => {}
            StartPoint::Since(since) => reader.read_all(&feed, Some(since), None)?,
            StartPoint::After(cursor, since) => reader.resume(&feed, cursor, since)?,
        }
        reader.note_progress(0);
        Ok(reader)
    }

    /// Continues after a cursor.
    fn resume(
        &mut self,
        feed: &Feed,
        cursor: StreamCursor,
        since: Option<Timestamp>,
    ) -> Result<()> {
        let is_ours = cursor.instance == feed.instance();
        let numbers = is_ours.then(|| feed.numbers_at(cursor.position)).flatten();
        let of_run = cursor.history.filter(|place| place.from == ONE_RUN);
        let runs = numbers.as_ref().unwrap_or(&self.numbers);
        if let Some(place) = of_run
            && let Some(id) = runs.keys().find(|id| run_hash(id) == place.run).cloned()
        {
            // The number names the place to each observer.
            if let Some(numbers) = numbers {
                (self.position, self.numbers) = (cursor.position, numbers);
            }
            self.read_after(feed, &id, place.seq);
            return Ok(());
        }
        let Some(numbers) = numbers else {
            // The cursor is of another observer, or too old, so continue at its time.
            let is_begin = cursor.history.is_some_and(HistoryPlace::is_before_all);
            let overlap = if is_begin { 0 } else { OVERLAP_MICROS };
            let since = cursor.ts.micros().saturating_sub(overlap);
            return self.read_all(feed, Some(Timestamp::from_micros(since)), None);
        };
        (self.position, self.numbers, self.ts) = (cursor.position, numbers, cursor.ts);
        match cursor.history {
            None => Ok(()),
            Some(place) if place.is_before_all() => self.read_all(feed, Some(cursor.ts), None),
            // A relative start time is later at each request. Keep the earlier one, so that no event is
            // skipped.
            Some(place) if place.from == BEGINNING => {
                self.read_all(feed, since.map(|since| since.min(cursor.ts)), Some(place))
            }
            Some(place) => match feed.numbers_at(place.from) {
                Some(from) => {
                    self.read_between(feed, place.from, &from, Some(place));
                    Ok(())
                }
                None => {
                    let since = cursor.ts.micros().saturating_sub(OVERLAP_MICROS);
                    self.read_all(feed, Some(Timestamp::from_micros(since)), None)
                }
            },
        }
    }

    /// Begins to read all runs up to the position.
    fn read_all(
        &mut self,
        feed: &Feed,
        since: Option<Timestamp>,
        skip: Option<HistoryPlace>,
    ) -> Result<()> {
        let is_selected = |id: &str| self.selector.selects_execution(id);
        let logs = RunLogs::whole(feed.data(), &self.numbers, is_selected, &self.clock)?;
        let point = StreamCursor {
            history: Some(skip.unwrap_or(HistoryPlace::before(BEGINNING))),
            ts: match skip {
                Some(_) => self.ts,
                None => since.unwrap_or_default(),
            },
            ..feed.cursor(self.position, self.ts)
        };
        self.replay = Some(Replay {
            logs,
            from: BEGINNING,
            since,
            skip,
            point,
        });
        Ok(())
    }

    /// Begins to read the log of one run after a number, up to the position.
    fn read_after(&mut self, feed: &Feed, id: &ExecutionId, seq: u64) {
        let mut from = self.numbers.clone();
        from.insert(id.clone(), seq);
        self.read_between(feed, ONE_RUN, &from, None);
        if let Some(replay) = &mut self.replay {
            let place = HistoryPlace {
                from: ONE_RUN,
                run: run_hash(id),
                seq,
            };
            replay.point = StreamCursor {
                history: Some(place),
                ..feed.cursor(self.position, self.ts)
            };
        }
    }

    /// Begins to read the logs between an earlier position and the present one.
    fn read_between(
        &mut self,
        feed: &Feed,
        from: u64,
        numbers: &Numbers,
        skip: Option<HistoryPlace>,
    ) {
        let is_selected = |id: &str| self.selector.selects_execution(id);
        let logs = RunLogs::between(
            feed.data(),
            numbers,
            &self.numbers,
            is_selected,
            &self.clock,
        );
        let here = feed.cursor(self.position, self.ts);
        let point = match skip {
            Some(_) => StreamCursor {
                history: skip,
                ..here
            },
            None => StreamCursor {
                position: from,
                ..here
            },
        };
        self.replay = Some(Replay {
            logs,
            from,
            since: None,
            skip,
            point,
        });
    }

    /// Begins to read the log of the one run, after a number, up to and including another.
    fn read_run(&mut self, from: u64, until: u64) {
        let Live::Run(lane) = &self.live else {
            return;
        };
        let logs = RunLogs::of_run(lane.run.clone(), from, until, &self.clock);
        self.numbers.insert(lane.id.clone(), until);
        self.replay = Some(Replay {
            logs,
            from,
            since: None,
            skip: None,
            point: self.cursor(),
        });
    }

    /// Returns the cursor of the point that was reached, from which another reader can continue.
    pub(crate) fn cursor(&self) -> StreamCursor {
        match (&self.replay, &self.live) {
            (Some(replay), _) => replay.point,
            (None, Live::Memory(feed, _)) => feed.cursor(self.position, self.ts),
            (None, Live::Run(_)) => StreamCursor::default(),
        }
    }

    /// Returns the point that was reached, for [`Reader::reopen`].
    pub(crate) fn point(&self) -> StartPoint {
        let since = self.replay.as_ref().and_then(|replay| replay.since);
        StartPoint::After(self.cursor(), since)
    }

    pub(crate) fn selection(&self) -> &Selection {
        self.selector.selection()
    }

    /// Returns the next item; waits for it until the deadline, or as long as it takes without one.
    pub fn next(&mut self, deadline: Option<Instant>) -> Next {
        let next = self.next_item(deadline);
        self.note_progress(match next {
            Next::Missed(missed) => missed,
            _ => 0,
        });
        next
    }

    /// Waits for the next item, at most as long as `wait`.
    pub fn next_within(&mut self, wait: Duration) -> Next {
        // A timeout that overflows the clock means no deadline.
        self.next(self.clock.now().checked_add(wait))
    }

    fn note_progress(&self, missed: u64) {
        if let Live::Memory(_, gauge) = &self.live {
            gauge.position.store(self.position, Ordering::Relaxed);
            gauge.missed.fetch_add(missed, Ordering::Relaxed);
        }
    }

    fn next_item(&mut self, deadline: Option<Instant>) -> Next {
        loop {
            if self.replay.is_some() {
                match self.next_of_logs(deadline) {
                    Next::End => {}
                    next => return next,
                }
            }
            let live = match &mut self.live {
                Live::Memory(feed, _) => {
                    if let Some(event) = self.ready.next() {
                        self.position += 1;
                        self.ts = event.ts;
                        LiveNext::Event(event)
                    } else {
                        let feed = feed.clone();
                        match feed.next(self.position, deadline) {
                            MemoryNext::Events(events) => self.ready = events.into_iter(),
                            MemoryNext::Missed => {
                                let (from, numbers) = (self.position, self.numbers.clone());
                                (self.position, self.numbers) = feed.numbers();
                                self.read_between(&feed, from, &numbers, None);
                            }
                            MemoryNext::Timeout => return Next::Timeout,
                            MemoryNext::Closed => return Next::End,
                        }
                        continue;
                    }
                }
                Live::Run(lane) => {
                    let last = self.numbers.get(&lane.id).copied().unwrap_or(0);
                    lane.next(last, deadline)
                }
            };
            match live {
                LiveNext::Event(event) => {
                    let was_read = self.was_read(&event);
                    if let Some(numbers) = LogGapRange::of(&event) {
                        self.note(event.event.execution_id(), numbers.last);
                    }
                    if !was_read && self.selector.selects(&event.event) {
                        return Next::Event(event);
                    }
                }
                LiveNext::Missing(from, until) => self.read_run(from, until),
                LiveNext::Timeout => return Next::Timeout,
                LiveNext::End => return Next::End,
            }
        }
    }

    /// Returns true if a live event was already read from the log of its run.
    fn was_read(&self, event: &Envelope) -> bool {
        let (Some(seq), false) = (event.seq, self.ahead.is_empty()) else {
            return false;
        };
        let read = self.ahead.get(&run_hash(event.event.execution_id()));
        read.is_some_and(|(last, ts)| seq <= *last && event.ts <= *ts)
    }

    fn note(&mut self, run: &str, seq: u64) {
        match self.numbers.get_mut(run) {
            Some(last) => *last = seq,
            None => {
                self.numbers.insert(run.into(), seq);
            }
        }
    }

    /// Returns the next item of the logs; their end is not the end of the feed.
    fn next_of_logs(&mut self, deadline: Option<Instant>) -> Next {
        loop {
            let Some(replay) = &mut self.replay else {
                return Next::End;
            };
            let record = match replay.logs.next(deadline) {
                LogItem::Event(_, record) => record,
                LogItem::Missed(missed) => return Next::Missed(missed),
                LogItem::Timeout => return Next::Timeout,
                LogItem::End => {
                    self.replay = None;
                    return Next::End;
                }
                // Only followed runs have these.
                LogItem::Opened(_) | LogItem::Ended(_) | LogItem::Failed(..) => continue,
            };
            let envelope = record.envelope;
            let run = run_hash(envelope.event.execution_id());
            let seq = envelope.seq.unwrap_or(0);
            if !self.numbers.contains_key(envelope.event.execution_id()) {
                self.ahead.insert(run, (seq, envelope.ts));
            }
            if let Some(skip) = replay.skip {
                if (skip.run, skip.seq) == (run, seq) {
                    replay.skip = None;
                }
                continue;
            }
            let is_early = replay.since.is_some_and(|since| envelope.ts < since);
            let from = replay.from;
            replay.point = StreamCursor {
                history: Some(HistoryPlace { from, run, seq }),
                position: self.position,
                ts: envelope.ts,
                ..replay.point
            };
            if !is_early && self.selector.selects(&envelope.event) {
                return Next::Event(envelope.into());
            }
            if deadline.is_some_and(|deadline| self.clock.now() >= deadline) {
                return Next::Timeout;
            }
        }
    }
}

/// What a lane delivers next.
enum LiveNext {
    Event(EventRef),
    /// The numbers after the first, up to and including the second, are to be read from the log.
    Missing(u64, u64),
    Timeout,
    End,
}

impl RunLane {
    /// Returns the next event after the number `last`.
    fn next(&mut self, last: u64, deadline: Option<Instant>) -> LiveNext {
        loop {
            let event = match self.waiting.take() {
                Some(event) => event,
                None => match self.lane.recv_until(deadline) {
                    Ok(Delivery::Event(event)) => event,
                    // The number of the next event shows what is missing.
                    Ok(Delivery::Lagged { .. }) => {
                        self.has_lagged = true;
                        continue;
                    }
                    Err(RecvTimeoutError::Timeout) => return LiveNext::Timeout,
                    Err(RecvTimeoutError::Closed) => {
                        // The last events are missing, and only the log knows how many.
                        let has_lagged = std::mem::take(&mut self.has_lagged);
                        return if has_lagged {
                            LiveNext::Missing(last, u64::MAX)
                        } else {
                            LiveNext::End
                        };
                    }
                },
            };
            match LogGapRange::of(&event) {
                Some(numbers) if numbers.last <= last => {}
                Some(numbers) if numbers.first > last.saturating_add(1) => {
                    self.waiting = Some(event);
                    return LiveNext::Missing(last, numbers.first - 1);
                }
                numbers => {
                    self.has_lagged &= numbers.is_none();
                    return LiveNext::Event(event);
                }
            }
        }
    }
}
