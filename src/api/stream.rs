//! The stream of events for one client: the history that it asks for, then the live events.
//!
//! Every event is delivered once, in the order of the observer. A client that comes back with a cursor
//! gets exactly what followed it: from the hub where that has it still, else from the logs. A client that
//! reads too slowly gets from the logs what it missed in the hub; what is kept nowhere is counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cursor::{HistoryPlace, StreamCursor, run_hash};
use super::gauges::StreamGauge;
use super::history::{HistoryItem, MergedHistory};
use super::hub::{Hub, Next};
use super::journal::Numbers;
use super::selection::{Selection, Selector};
use crate::clock::Clock;
use crate::error::Result;
use crate::event::{Envelope, LogGapRange};
use crate::history::DataDir;
use crate::timestamp::Timestamp;

/// The place of a history that begins at the beginning of all runs.
const BEGINNING: u64 = u64::MAX;

/// The time by which another observer's cursor is widened: events of several sources may have been
/// distributed in another order than that of their times.
const OVERLAP_MICROS: i64 = 2_000_000;

/// The point from which a client wants events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartPoint {
    /// From now on.
    Now,
    /// From this time on, which may be the beginning of the history.
    Since(Timestamp),
    /// After a cursor of a stream that began at a time, if at one.
    After(StreamCursor, Option<Timestamp>),
}

/// The next delivery.
pub(crate) enum Item {
    /// An event, and the position after it.
    Event(Arc<Envelope>, StreamCursor),
    /// The number of events that are kept nowhere.
    Missed(u64, StreamCursor),
}

/// The stream of events for one client.
pub(crate) struct EventStream {
    hub: Hub,
    data: Option<DataDir>,
    selector: Selector,
    gauge: Arc<StreamGauge>,
    position: u64,
    ts: Timestamp,
    /// The last number of each run before the position.
    numbers: Numbers,
    /// The last event that was read of each run that began after the position, and may come live, too.
    ahead: BTreeMap<u64, (u64, Timestamp)>,
    round: Option<Round>,
    /// Live events that were taken from the hub.
    ready: std::vec::IntoIter<Arc<Envelope>>,
    clock: Clock,
}

/// The history that is read before the position.
struct Round {
    history: MergedHistory,
    from: u64,
    since: Option<Timestamp>,
    /// The last event that the client has; what precedes it is not delivered again.
    skip: Option<HistoryPlace>,
    /// The point that is reached.
    point: StreamCursor,
}

impl EventStream {
    /// Begins a stream.
    ///
    /// # Errors
    /// If the history cannot be listed.
    pub fn open(
        hub: Hub,
        data: Option<DataDir>,
        selection: Selection,
        from: StartPoint,
        clock: Clock,
    ) -> Result<Self> {
        let gauge = hub.open_gauge();
        Self::begin((hub, gauge), data, selection, from, clock)
    }

    /// Begins again with another selection, in the place of this stream.
    ///
    /// # Errors
    /// As for [`EventStream::open`].
    pub fn reopened(&self, selection: Selection, from: StartPoint) -> Result<Self> {
        let (hub, gauge) = (self.hub.clone(), Arc::clone(&self.gauge));
        Self::begin(
            (hub, gauge),
            self.data.clone(),
            selection,
            from,
            self.clock.clone(),
        )
    }

    fn begin(
        (hub, gauge): (Hub, Arc<StreamGauge>),
        data: Option<DataDir>,
        selection: Selection,
        from: StartPoint,
        clock: Clock,
    ) -> Result<Self> {
        let (position, numbers) = hub.numbers();
        let (_, ts) = hub.end();
        let mut stream = Self {
            hub,
            selector: Selector::new(selection, data.clone()),
            data,
            gauge,
            position,
            ts,
            numbers,
            ahead: BTreeMap::new(),
            round: None,
            ready: Vec::new().into_iter(),
            clock,
        };
        match from {
            StartPoint::Now => {}
            StartPoint::Since(since) => stream.read_all(Some(since), None)?,
            StartPoint::After(cursor, since) => stream.resume(cursor, since)?,
        }
        stream.gauge.reach(stream.position);
        Ok(stream)
    }

    /// Goes back to a cursor.
    fn resume(&mut self, cursor: StreamCursor, since: Option<Timestamp>) -> Result<()> {
        let is_ours = cursor.instance == self.hub.instance();
        let numbers = match is_ours {
            true => self.hub.numbers_at(cursor.position),
            false => None,
        };
        let Some(numbers) = numbers else {
            // Of an observer that has ended, or too old: found again by its time.
            let is_begin = cursor.history.is_some_and(HistoryPlace::is_before_all);
            let overlap = if is_begin { 0 } else { OVERLAP_MICROS };
            let since = cursor.ts.micros().saturating_sub(overlap);
            return self.read_all(Some(Timestamp::from_micros(since)), None);
        };
        (self.position, self.numbers, self.ts) = (cursor.position, numbers, cursor.ts);
        match cursor.history {
            None => Ok(()),
            Some(place) if place.is_before_all() => self.read_all(Some(cursor.ts), None),
            // A time before now is a later one at each request, and what it has passed is still wanted.
            Some(place) if place.from == BEGINNING => {
                self.read_all(since.map(|since| since.min(cursor.ts)), Some(place))
            }
            Some(place) => match self.hub.numbers_at(place.from) {
                Some(from) => {
                    self.read_between(place.from, &from, Some(place));
                    Ok(())
                }
                None => {
                    let since = cursor.ts.micros().saturating_sub(OVERLAP_MICROS);
                    self.read_all(Some(Timestamp::from_micros(since)), None)
                }
            },
        }
    }

    /// Reads all runs up to the position.
    fn read_all(&mut self, since: Option<Timestamp>, skip: Option<HistoryPlace>) -> Result<()> {
        let Some(data) = &self.data else {
            return Ok(());
        };
        let is_wanted = |id: &str| self.selector.selects_execution(id);
        let history = MergedHistory::from_beginning(data, &self.numbers, is_wanted, &self.clock)?;
        let point = StreamCursor {
            history: Some(skip.unwrap_or(HistoryPlace::before(BEGINNING))),
            ts: match skip {
                Some(_) => self.ts,
                None => since.unwrap_or_default(),
            },
            ..self.hub.cursor(self.position, self.ts)
        };
        self.round = Some(Round {
            history,
            from: BEGINNING,
            since,
            skip,
            point,
        });
        Ok(())
    }

    /// Reads what the logs have between an earlier position and this one.
    fn read_between(&mut self, from: u64, numbers: &Numbers, skip: Option<HistoryPlace>) {
        let Some(data) = &self.data else {
            return;
        };
        let is_wanted = |id: &str| self.selector.selects_execution(id);
        let history = MergedHistory::between(data, numbers, &self.numbers, is_wanted, &self.clock);
        let here = self.hub.cursor(self.position, self.ts);
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
        self.round = Some(Round {
            history,
            from,
            since: None,
            skip,
            point,
        });
    }

    /// Returns the cursor of the point that is reached, from which another stream continues: in the history,
    /// if that is being read.
    pub fn cursor(&self) -> StreamCursor {
        match &self.round {
            Some(round) => round.point,
            None => self.hub.cursor(self.position, self.ts),
        }
    }

    /// Returns the point that is reached, for [`EventStream::reopened`].
    pub fn point(&self) -> StartPoint {
        let since = self.round.as_ref().and_then(|round| round.since);
        StartPoint::After(self.cursor(), since)
    }

    /// Returns what the client wants.
    pub fn selection(&self) -> &Selection {
        self.selector.selection()
    }

    /// Returns the next item; `Ok(None)` at the deadline.
    ///
    /// # Errors
    /// [`Ended`] when the observer ends.
    pub fn next(
        &mut self,
        deadline: Instant,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Item>, Ended> {
        let next = self.next_item(deadline, is_stopped);
        self.gauge.reach(self.position);
        if let Ok(Some(Item::Missed(missed, _))) = &next {
            self.gauge.miss(*missed);
        }
        next
    }

    fn next_item(
        &mut self,
        deadline: Instant,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<Item>, Ended> {
        loop {
            if is_stopped() {
                return Err(Ended);
            }
            if self.round.is_some() {
                if let Some(item) = self.next_of_history(is_stopped) {
                    return Ok(Some(item));
                }
                continue;
            }
            if let Some(event) = self.ready.next() {
                self.position += 1;
                self.ts = event.ts;
                let was_read = self.was_read(&event);
                if let Some(numbers) = LogGapRange::of(&event) {
                    self.note(event.event.execution_id(), numbers.last);
                }
                if !was_read && self.selector.selects(&event.event) {
                    return Ok(Some(Item::Event(event, self.cursor())));
                }
                continue;
            }
            match self.hub.next(self.position, deadline) {
                Next::Events(events) => self.ready = events.into_iter(),
                Next::Missed(missed) if self.data.is_none() => {
                    self.position += missed;
                    return Ok(Some(Item::Missed(missed, self.cursor())));
                }
                Next::Missed(_) => {
                    let (from, numbers) = (self.position, self.numbers.clone());
                    (self.position, self.numbers) = self.hub.numbers();
                    self.read_between(from, &numbers, None);
                }
                Next::Timeout => return Ok(None),
                Next::Closed => return Err(Ended),
            }
        }
    }

    /// Returns true if a live event was read from the log of its run, which began after the position.
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

    /// Returns the next item of the history; `None` at its end.
    fn next_of_history(&mut self, is_stopped: &dyn Fn() -> bool) -> Option<Item> {
        loop {
            let round = self.round.as_mut()?;
            let record = match round.history.next(is_stopped) {
                Some(HistoryItem::Event(record)) => record,
                Some(HistoryItem::Missed(missed)) => {
                    return Some(Item::Missed(missed, self.cursor()));
                }
                None => {
                    self.round = None;
                    return None;
                }
            };
            let envelope = record.envelope;
            let run = run_hash(envelope.event.execution_id());
            let seq = envelope.seq.unwrap_or(0);
            if !self.numbers.contains_key(envelope.event.execution_id()) {
                self.ahead.insert(run, (seq, envelope.ts));
            }
            if let Some(skip) = round.skip {
                if (skip.run, skip.seq) == (run, seq) {
                    round.skip = None;
                }
                continue;
            }
            let is_early = round.since.is_some_and(|since| envelope.ts < since);
            let from = round.from;
            let cursor = StreamCursor {
                history: Some(HistoryPlace { from, run, seq }),
                ts: envelope.ts,
                ..self.hub.cursor(self.position, self.ts)
            };
            round.point = cursor;
            if is_early || !self.selector.selects(&envelope.event) {
                continue;
            }
            return Some(Item::Event(Arc::new(envelope), cursor));
        }
    }
}

/// The observer ends; nothing follows.
#[derive(Debug)]
pub(crate) struct Ended;

/// The time between two checks whether a waiting client is still there.
pub(crate) const WAIT: Duration = Duration::from_millis(500);
