//! The memory of a feed: the position of each event of the observer, the board, and the last events.
//!
//! `td-feed` reads one subscription of the bus. Readers cannot delay it: each one has its own thread and its
//! own speed, and waits on a condition variable. A reader that is too slow gets from the logs what the memory
//! has dropped.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::position::{Journal, Numbers, StreamCursor};
use crate::board::{Board, Fate, Row};
use crate::bus::{Delivery, EventRef, RecvTimeoutError, Subscription};
use crate::clock::Clock;
use crate::error::Result;
use crate::event::{Envelope, ExecutionId, LogGapRange, TdEvent};
use crate::history::{DataDir, RunMetadata};
use crate::thread::{self, Handle, lock};
use crate::timestamp::Timestamp;

/// The most memory for the last events: minutes of 100 busy panes, or less than a second of a flood. Older
/// events are read from the logs.
const EVENTS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The overhead of an event in memory: its envelope, reference counters, place in the queue, and the
/// allocator's overhead.
const EVENT_BYTES_MORE: usize = 128;

/// The interval of the board's tick. Rows become quiet after minutes, and are read within a second.
const TICK: Duration = Duration::from_secs(1);
const READING_TICK: Duration = Duration::from_millis(100);

/// The most events that are handled under one lock, so that it is held for microseconds only.
const BATCH_MAX: usize = 256;

/// The board and the stream of events. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
    data: DataDir,
    clock: Clock,
    instance: u64,
}

#[derive(Debug)]
struct State {
    board: Board,
    /// Incremented with each change of the board.
    version: u64,
    journal: Journal,
    /// The last events and the memory of each. They are copies, because an event of the bus keeps its whole
    /// batch alive and fragments the memory of the thread that emitted it.
    events: VecDeque<(EventRef, usize)>,
    bytes: usize,
    last_ts: Timestamp,
    lagged: u64,
    /// Executions whose rows have changed since their last summary.
    changed: BTreeSet<ExecutionId>,
    /// The runs of others are copies, whose summaries are kept, too.
    are_copies: bool,
    /// The number of streams so far, and the open ones in the order of their opening.
    streams: (u64, Vec<Weak<StreamGauge>>),
    /// Executions whose events come from the logs of other processes.
    others: BTreeSet<ExecutionId>,
    is_closed: bool,
}

/// The next events of the stream.
pub(super) enum Next {
    /// Events from the position on.
    Events(Vec<EventRef>),
    /// Events from the position on are no longer in memory.
    Missed,
    /// No event arrived before the deadline.
    Timeout,
    /// The observer is ending.
    Closed,
}

/// The rows of an execution as of one of its events.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub execution_id: ExecutionId,
    pub seq: u64,
    pub rows: Vec<Row>,
}

/// The rows of one version of the board.
#[derive(Clone, Debug)]
pub(crate) struct BoardView {
    pub version: u64,
    pub rows: Vec<Row>,
}

impl Feed {
    /// Starts the feed with a board and the last number of each run in it. The thread ends when the bus is
    /// closed.
    pub fn start(
        events: Subscription,
        board: Board,
        numbers: &Numbers,
        data: DataDir,
        clock: Clock,
    ) -> Result<(Self, Handle<()>)> {
        Self::start_with(events, (board, numbers, false), data, clock)
    }

    /// Starts the feed of copies of other hosts' runs, whose summaries it gives, as [`Feed::start`] does.
    #[cfg(feature = "redis")]
    pub fn start_for_copies(
        events: Subscription,
        (board, numbers): (Board, &Numbers),
        data: DataDir,
        clock: Clock,
    ) -> Result<(Self, Handle<()>)> {
        Self::start_with(events, (board, numbers, true), data, clock)
    }

    fn start_with(
        events: Subscription,
        (board, numbers, are_copies): (Board, &Numbers, bool),
        data: DataDir,
        clock: Clock,
    ) -> Result<(Self, Handle<()>)> {
        let mut journal = Journal::default();
        for (run, seq) in numbers {
            journal.begin(run, *seq);
        }
        let now = clock.wall();
        let read = board.rows().filter(|_| are_copies);
        let changed = read.map(|row| row.execution_id.clone()).collect();
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                board,
                version: 1,
                journal,
                events: VecDeque::new(),
                bytes: 0,
                last_ts: now,
                lagged: 0,
                changed,
                are_copies,
                streams: (0, Vec::new()),
                others: BTreeSet::new(),
                is_closed: false,
            }),
            arrived: Condvar::new(),
            instance: instance(now),
            data,
            clock,
        });
        let feed = Self { shared };
        let handle = {
            let feed = feed.clone();
            thread::spawn("td-feed", move || feed.run(events))?
        };
        Ok((feed, handle))
    }

    fn run(&self, mut events: Subscription) {
        let mut tick = self.shared.clock.now() + TICK;
        loop {
            match events.recv_deadline(tick) {
                Ok(delivery) => {
                    let mut state = self.lock();
                    state.take(delivery, &self.shared.data);
                    // Handle further events under the same lock.
                    for _ in 1..BATCH_MAX {
                        match events.try_recv() {
                            Ok(delivery) => state.take(delivery, &self.shared.data),
                            Err(_) => break,
                        }
                    }
                    drop(state);
                    self.shared.arrived.notify_all();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Closed) => break,
            }
            let now = self.shared.clock.now();
            if now >= tick {
                let mut state = self.lock();
                let is_reading = state.board.is_reading();
                tick = now + if is_reading { READING_TICK } else { TICK };
                if !state.board.tick(self.shared.clock.wall()).is_empty() {
                    state.version += 1;
                    drop(state);
                    self.shared.arrived.notify_all();
                }
            }
        }
        self.lock().is_closed = true;
        self.shared.arrived.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }

    /// Returns the data directory, whose logs have what the memory has dropped.
    pub fn data(&self) -> &DataDir {
        &self.shared.data
    }

    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Returns the number that identifies this observer in cursors.
    pub fn instance(&self) -> u64 {
        self.shared.instance
    }

    /// Returns the cursor of a position.
    pub fn cursor(&self, position: u64, ts: Timestamp) -> StreamCursor {
        StreamCursor {
            instance: self.shared.instance,
            position,
            ts,
            history: None,
        }
    }

    /// Returns the position after the last event, and the time of that event.
    pub fn end(&self) -> (u64, Timestamp) {
        let state = self.lock();
        (state.journal.end(), state.last_ts)
    }

    /// Returns the position after the last event, and the last number of each run at this position.
    pub fn numbers(&self) -> (u64, Numbers) {
        let state = self.lock();
        (state.journal.end(), state.journal.numbers())
    }

    /// Returns the last number of each run at a position, unless the position is too old.
    pub fn numbers_at(&self, position: u64) -> Option<Numbers> {
        self.lock().journal.numbers_at(position)
    }

    /// Returns the position of the first event of a run after a number, and the last number of each run
    /// before it; `None` unless the memory has all later events of the run.
    pub(super) fn position_after(&self, id: &ExecutionId, seq: u64) -> Option<(u64, Numbers)> {
        let state = self.lock();
        let numbers_of = |event: &EventRef| {
            let is_of_run = event.event.execution_id() == id.as_str();
            LogGapRange::of(event).filter(|_| is_of_run)
        };
        let mut numbers = state.events.iter().map(|(event, _)| numbers_of(event));
        let (at, next) = numbers.by_ref().enumerate().find_map(|(at, numbers)| {
            let numbers = numbers.filter(|numbers| numbers.last > seq)?;
            Some((at, numbers))
        })?;
        let position = state.first() + at as u64;
        let before = state.journal.numbers_at(position)?;
        (next.first <= seq.saturating_add(1)).then_some((position, before))
    }

    /// Registers a run that another process writes. Returns the number of its last event in the feed.
    pub fn begin_other(&self, id: &ExecutionId) -> u64 {
        let mut state = self.lock();
        state.others.insert(id.clone());
        state.journal.last_of(id)
    }

    /// Adds events of runs that other processes write. Returns the runs that the observer itself has taken
    /// over; their events are not added.
    pub fn take_others(&self, events: Vec<Envelope>) -> BTreeSet<ExecutionId> {
        let mut own = BTreeSet::new();
        let mut events = events.into_iter().peekable();
        while events.peek().is_some() {
            let mut state = self.lock();
            for event in events.by_ref().take(BATCH_MAX) {
                let id = event.event.execution_id();
                if state.others.contains(id) {
                    let changed = state.take_event(event.into(), &self.shared.data);
                    if state.are_copies {
                        state.changed.extend(changed);
                    }
                } else {
                    own.insert(id.into());
                }
            }
            drop(state);
            self.shared.arrived.notify_all();
        }
        own
    }

    /// Records that the writer of a run is stopped, or goes on.
    #[cfg(feature = "cli")]
    pub fn set_suspended(&self, id: &ExecutionId, is_suspended: bool, at: Timestamp) {
        let mut state = self.lock();
        if state.others.contains(id) && state.board.set_suspended(id, is_suspended, at) {
            state.version += 1;
            drop(state);
            self.shared.arrived.notify_all();
        }
    }

    /// Ends the rows of a run whose writer is gone, or marks those that go on.
    pub fn end_other(
        &self,
        id: &ExecutionId,
        exit_status: Option<i32>,
        is_cut_off: bool,
        at: Timestamp,
        fate: impl Fn(&Row) -> Fate,
    ) {
        let mut state = self.lock();
        if state.others.remove(id) && state.board.end(id, exit_status, is_cut_off, at, fate) {
            state.version += 1;
            if state.are_copies {
                state.changed.insert(id.clone());
            }
            drop(state);
            self.shared.arrived.notify_all();
        }
    }

    /// Returns true if the runs are copies of other hosts' runs.
    #[cfg(feature = "redis")]
    pub fn has_copies(&self) -> bool {
        self.lock().are_copies
    }

    /// Returns the number of events that the feed has missed.
    pub fn lagged(&self) -> u64 {
        self.lock().lagged
    }

    /// Adds a stream to the metrics.
    pub(super) fn open_gauge(&self) -> Arc<StreamGauge> {
        let (count, streams) = &mut self.lock().streams;
        *count += 1;
        let gauge = Arc::new(StreamGauge {
            number: *count,
            ..StreamGauge::default()
        });
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(&gauge));
        gauge
    }

    /// Returns the open streams.
    pub fn gauges(&self) -> Vec<Arc<StreamGauge>> {
        let state = self.lock();
        state.streams.1.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns events from a position on; waits for them until the deadline.
    pub(super) fn next(&self, position: u64, deadline: Option<Instant>) -> Next {
        let mut state = self.lock();
        loop {
            let first = state.first();
            if position < first {
                return Next::Missed;
            }
            let at = usize::try_from(position - first).unwrap_or(usize::MAX);
            if at < state.events.len() {
                let events = state.events.range(at..).take(BATCH_MAX);
                return Next::Events(events.map(|(event, _)| event.clone()).collect());
            }
            if state.is_closed {
                return Next::Closed;
            }
            match self.wait(state, deadline) {
                Some(woken) => state = woken,
                None => return Next::Timeout,
            }
        }
    }

    /// Returns the rows of the board.
    pub fn rows(&self) -> Vec<Row> {
        self.lock().board.rows().cloned().collect()
    }

    /// Returns the board once its version differs from the given one; `None` at the deadline or when the
    /// observer ends.
    pub fn board_after(&self, version: Option<u64>, deadline: Instant) -> Option<BoardView> {
        self.board_unless(version, deadline, || false)
    }

    /// Returns the board as [`Feed::board_after`] does; `None` also once `is_enough`, which is asked after each event
    /// and each [`Feed::nudge`].
    pub fn board_unless(
        &self,
        version: Option<u64>,
        deadline: Instant,
        is_enough: impl Fn() -> bool,
    ) -> Option<BoardView> {
        let mut state = self.lock();
        loop {
            if version != Some(state.version) {
                return Some(BoardView {
                    version: state.version,
                    rows: state.board.rows().cloned().collect(),
                });
            }
            if state.is_closed || is_enough() {
                return None;
            }
            state = self.wait(state, Some(deadline))?;
        }
    }

    /// Wakes those who wait for the board, so that they look at what else they wait for.
    #[cfg(feature = "notify")]
    pub fn nudge(&self) {
        // Whoever is about to wait has the lock.
        drop(self.lock());
        self.shared.arrived.notify_all();
    }

    /// Returns true if another process writes this run.
    #[cfg(feature = "notify")]
    pub fn is_others(&self, id: &ExecutionId) -> bool {
        self.lock().others.contains(id)
    }

    /// Returns a summary of each execution whose rows have changed since the last call.
    pub fn take_summaries(&self) -> Vec<Summary> {
        let mut state = self.lock();
        let changed = std::mem::take(&mut state.changed);
        if changed.is_empty() {
            return Vec::new();
        }
        let numbers = state.journal.numbers();
        let summaries = changed.into_iter().filter_map(|execution_id| {
            let rows: Vec<Row> = state.board.rows_of(&execution_id).cloned().collect();
            let seq = *numbers.get(&execution_id)?;
            // An execution may have a name before its first row. It needs no summary yet.
            (!rows.is_empty()).then_some(Summary {
                execution_id,
                seq,
                rows,
            })
        });
        summaries.collect()
    }

    fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        deadline: Option<Instant>,
    ) -> Option<MutexGuard<'a, State>> {
        let arrived = &self.shared.arrived;
        let Some(deadline) = deadline else {
            return Some(arrived.wait(state).unwrap_or_else(PoisonError::into_inner));
        };
        let wait = deadline.saturating_duration_since(self.shared.clock.now());
        if wait.is_zero() {
            return None;
        }
        let woken = arrived.wait_timeout(state, wait);
        Some(woken.unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl State {
    /// Returns the position of the oldest event in memory.
    fn first(&self) -> u64 {
        self.journal.end() - self.events.len() as u64
    }

    fn take(&mut self, delivery: Delivery, data: &DataDir) {
        let event = match delivery {
            Delivery::Event(event) => event,
            Delivery::Lagged { missed } => {
                // Missed events get no positions. The logs have them.
                self.lagged += missed;
                return;
            }
        };
        // The observer has taken over the run.
        if !self.others.is_empty() {
            self.others.remove(event.event.execution_id());
        }
        let changed = self.take_event(event, data);
        self.changed.extend(changed);
    }

    /// Records the tmux server of a session, which the metadata of the run contain.
    fn set_server(&mut self, id: &ExecutionId, data: &DataDir) {
        let metadata = data.run(id).metadata().ok().flatten();
        if let Some(identity) = metadata.and_then(|metadata| metadata.identity) {
            self.board.set_server(id, &identity.socket);
        }
    }

    /// Adds an event; returns the executions whose rows have changed.
    fn take_event(&mut self, event: EventRef, data: &DataDir) -> Vec<ExecutionId> {
        let seq = LogGapRange::of(&event).map(|numbers| numbers.last);
        self.journal.push(event.event.execution_id(), seq);
        self.last_ts = event.ts;
        if let TdEvent::SessionStarted { execution_id, .. } = &event.event {
            self.set_server(execution_id, data);
        }
        let changed = self.board.apply(&event);
        if let TdEvent::ExecutionStarted {
            execution_id: id,
            pane: None,
            ..
        }
        | TdEvent::LoopStarted {
            execution_id: id, ..
        } = &event.event
        {
            let metadata = data.run(id).metadata().ok().flatten();
            let place = metadata.as_ref().and_then(RunMetadata::in_pane);
            self.board.set_place(id, place);
        }
        self.version += u64::from(!changed.is_empty());
        let bytes = event.event.memory_bytes() + EVENT_BYTES_MORE;
        self.bytes += bytes;
        self.events.push_back((event.into_envelope().into(), bytes));
        while self.bytes > EVENTS_BYTES_MAX
            && let Some((_, bytes)) = self.events.pop_front()
        {
            self.bytes -= bytes;
        }
        let executions = changed.into_iter().map(|row| row.execution_id);
        executions.collect()
    }
}

/// Returns a number that is unique to this observer, from its start time and process id.
fn instance(now: Timestamp) -> u64 {
    let micros = now.micros().cast_unsigned();
    micros.rotate_left(16) ^ u64::from(std::process::id())
}

/// The position of one stream. A stream counts as open until this is dropped.
#[derive(Debug, Default)]
pub(crate) struct StreamGauge {
    /// The number of the stream, from 1.
    pub number: u64,
    /// The position that the stream has reached.
    pub position: AtomicU64,
    /// The number of events that were lost to the stream.
    pub missed: AtomicU64,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::bus::EventBus;

    #[test]
    fn a_stream_counts_until_it_is_dropped() {
        let bus = EventBus::new(16);
        let data = DataDir::new("/nowhere");
        let (events, clock) = (bus.subscribe(), Clock::system());
        let (feed, _thread) =
            Feed::start(events, Board::default(), &Numbers::new(), data, clock).unwrap();
        let (first, second) = (feed.open_gauge(), feed.open_gauge());
        second.position.store(7, Ordering::Relaxed);
        drop(first);
        let all = feed.gauges();
        let [stream] = all.as_slice() else {
            panic!("{all:?}")
        };
        assert_eq!(
            (stream.number, stream.position.load(Ordering::Relaxed)),
            (2, 7)
        );
        assert_eq!(feed.open_gauge().number, 3);
    }
}
