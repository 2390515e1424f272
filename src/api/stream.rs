//! The stream of events for one client: the requested history, then live events.
//!
//! Every event is delivered once, in the order of the observer. A client that returns with a cursor gets
//! exactly the events after it: from the hub if it still has them, otherwise from the logs. A client that
//! reads too slowly gets missed events from the logs; events that no log has are counted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::context::ApiContext;
use super::cursor::{HistoryPlace, StreamCursor, run_hash};
use super::gauges::StreamGauge;
use super::history::{HistoryItem, MergedHistory};
use super::hub::Next;
use super::journal::Numbers;
use super::selection::{Selection, Selector};
use crate::error::Result;
use crate::event::{Envelope, LogGapRange};
use crate::timestamp::Timestamp;

/// The value of [`HistoryPlace::from`] for a history from the beginning of all runs.
const BEGINNING: u64 = u64::MAX;

/// The time by which the cursor of another observer is moved back, because events of several sources may have
/// been distributed in another order than that of their times.
const OVERLAP_MICROS: i64 = 2_000_000;

/// The point from which a client requests events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartPoint {
    /// Live events only.
    Now,
    /// Events from this time on.
    Since(Timestamp),
    /// Events after a cursor. The time is the start time of the stream, if it had one.
    After(StreamCursor, Option<Timestamp>),
}

/// The next item of a stream.
pub(crate) enum Item {
    /// An event, and the position after it.
    Event(Arc<Envelope>, StreamCursor),
    /// The number of missed events that no log has.
    Missed(u64, StreamCursor),
}

/// The stream of events for one client.
pub(crate) struct EventStream {
    context: ApiContext,
    selector: Selector,
    gauge: Arc<StreamGauge>,
    position: u64,
    ts: Timestamp,
    /// The last number of each run before the position.
    numbers: Numbers,
    /// The last event that was read from the log of each run that began after the position. Its events may be
    /// delivered live, too.
    ahead: BTreeMap<u64, (u64, Timestamp)>,
    replay: Option<Replay>,
    /// Live events that were read from the hub.
    ready: std::vec::IntoIter<Arc<Envelope>>,
}

/// The state of reading the history before the position.
struct Replay {
    history: MergedHistory,
    from: u64,
    since: Option<Timestamp>,
    /// The last event that the client has. Events up to it are skipped.
    skip: Option<HistoryPlace>,
    /// The point that was reached.
    point: StreamCursor,
}

impl EventStream {
    /// Opens a stream.
    pub fn open(context: &ApiContext, selection: Selection, from: StartPoint) -> Result<Self> {
        Self::begin(context.clone(), context.hub.open_gauge(), selection, from)
    }

    /// Opens a stream with another selection, to replace this one.
    pub fn reopened(&self, selection: Selection, from: StartPoint) -> Result<Self> {
        let gauge = Arc::clone(&self.gauge);
        Self::begin(self.context.clone(), gauge, selection, from)
    }

    fn begin(
        context: ApiContext,
        gauge: Arc<StreamGauge>,
        selection: Selection,
        from: StartPoint,
    ) -> Result<Self> {
        let (position, numbers) = context.hub.numbers();
        let (_, ts) = context.hub.end();
        let mut stream = Self {
            selector: Selector::new(selection, context.data.clone()),
            context,
            gauge,
            position,
            ts,
            numbers,
            ahead: BTreeMap::new(),
            replay: None,
            ready: Vec::new().into_iter(),
        };
        match from {
            StartPoint::Now => {}
            StartPoint::Since(since) => stream.read_all(Some(since), None)?,
            StartPoint::After(cursor, since) => stream.resume(cursor, since)?,
        }
        stream.gauge.reach(stream.position);
        Ok(stream)
    }

    /// Continues after a cursor.
    fn resume(&mut self, cursor: StreamCursor, since: Option<Timestamp>) -> Result<()> {
        let is_ours = cursor.instance == self.context.hub.instance();
        let numbers = match is_ours {
            true => self.context.hub.numbers_at(cursor.position),
            false => None,
        };
        let Some(numbers) = numbers else {
            // The cursor is of another observer, or too old, so continue at its time.
            let is_begin = cursor.history.is_some_and(HistoryPlace::is_before_all);
            let overlap = if is_begin { 0 } else { OVERLAP_MICROS };
            let since = cursor.ts.micros().saturating_sub(overlap);
            return self.read_all(Some(Timestamp::from_micros(since)), None);
        };
        (self.position, self.numbers, self.ts) = (cursor.position, numbers, cursor.ts);
        match cursor.history {
            None => Ok(()),
            Some(place) if place.is_before_all() => self.read_all(Some(cursor.ts), None),
            // A relative start time is later at each request. Keep the earlier one, so that no event is
            // skipped.
            Some(place) if place.from == BEGINNING => {
                self.read_all(since.map(|since| since.min(cursor.ts)), Some(place))
            }
            Some(place) => match self.context.hub.numbers_at(place.from) {
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

    /// Begins to read all runs up to the position.
    fn read_all(&mut self, since: Option<Timestamp>, skip: Option<HistoryPlace>) -> Result<()> {
        let Some(data) = &self.context.data else {
            return Ok(());
        };
        let is_selected = |id: &str| self.selector.selects_execution(id);
        let history =
            MergedHistory::from_beginning(data, &self.numbers, is_selected, &self.context.clock)?;
        let point = StreamCursor {
            history: Some(skip.unwrap_or(HistoryPlace::before(BEGINNING))),
            ts: match skip {
                Some(_) => self.ts,
                None => since.unwrap_or_default(),
            },
            ..self.context.hub.cursor(self.position, self.ts)
        };
        self.replay = Some(Replay {
            history,
            from: BEGINNING,
            since,
            skip,
            point,
        });
        Ok(())
    }

    /// Begins to read the logs between an earlier position and the present one.
    fn read_between(&mut self, from: u64, numbers: &Numbers, skip: Option<HistoryPlace>) {
        let Some(data) = &self.context.data else {
            return;
        };
        let is_selected = |id: &str| self.selector.selects_execution(id);
        let history = MergedHistory::between(
            data,
            numbers,
            &self.numbers,
            is_selected,
            &self.context.clock,
        );
        let here = self.context.hub.cursor(self.position, self.ts);
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
            history,
            from,
            since: None,
            skip,
            point,
        });
    }

    /// Returns the cursor of the point that was reached, from which another stream can continue.
    pub fn cursor(&self) -> StreamCursor {
        match &self.replay {
            Some(replay) => replay.point,
            None => self.context.hub.cursor(self.position, self.ts),
        }
    }

    /// Returns the point that was reached, for [`EventStream::reopened`].
    pub fn point(&self) -> StartPoint {
        let since = self.replay.as_ref().and_then(|replay| replay.since);
        StartPoint::After(self.cursor(), since)
    }

    /// Returns the selection of the client.
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
            if self.replay.is_some() {
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
            match self.context.hub.next(self.position, deadline) {
                Next::Events(events) => self.ready = events.into_iter(),
                Next::Missed(missed) if self.context.data.is_none() => {
                    self.position += missed;
                    return Ok(Some(Item::Missed(missed, self.cursor())));
                }
                Next::Missed(_) => {
                    let (from, numbers) = (self.position, self.numbers.clone());
                    (self.position, self.numbers) = self.context.hub.numbers();
                    self.read_between(from, &numbers, None);
                }
                Next::Timeout => return Ok(None),
                Next::Closed => return Err(Ended),
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

    /// Returns the next item of the history; `None` at its end.
    fn next_of_history(&mut self, is_stopped: &dyn Fn() -> bool) -> Option<Item> {
        loop {
            let replay = self.replay.as_mut()?;
            let record = match replay.history.next(is_stopped) {
                Some(HistoryItem::Event(record)) => record,
                Some(HistoryItem::Missed(missed)) => {
                    return Some(Item::Missed(missed, self.cursor()));
                }
                None => {
                    self.replay = None;
                    return None;
                }
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
            let cursor = StreamCursor {
                history: Some(HistoryPlace { from, run, seq }),
                ts: envelope.ts,
                ..self.context.hub.cursor(self.position, self.ts)
            };
            replay.point = cursor;
            if is_early || !self.selector.selects(&envelope.event) {
                continue;
            }
            return Some(Item::Event(Arc::new(envelope), cursor));
        }
    }
}

/// The observer is ending; no events follow.
#[derive(Debug)]
pub(crate) struct Ended;

/// The interval of checks whether a waiting client is still connected.
pub(crate) const WAIT: Duration = Duration::from_millis(500);
