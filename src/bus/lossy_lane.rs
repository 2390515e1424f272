//! A lossy lane: the bounded queue of one subscription, which drops its oldest events and counts them.
//!
//! The fan-out adds batches and the subscription takes one batch at a time, with one lock per batch. The
//! fan-out never blocks for long here: the lock is held for a few moves only, and no user code runs under it.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::Batch;
use crate::thread::{Waker, lock};

/// A batch of envelopes, shared with other lanes if these select all of it.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) batch: Batch,
    /// Number of envelopes dropped from the front.
    pub(super) start: usize,
    /// Number of events that the remaining envelopes represent.
    events: u64,
    /// Memory of the whole batch, which the segment keeps alive.
    bytes: usize,
}

impl Segment {
    pub(super) fn new(batch: Batch, bytes: usize) -> Self {
        let events = batch.iter().map(|envelope| envelope.n).sum();
        Self {
            batch,
            start: 0,
            events,
            bytes,
        }
    }

    fn len(&self) -> usize {
        self.batch.len() - self.start
    }

    /// Drops envelopes from the front; returns the number of events that they represent.
    fn drop_front(&mut self, envelopes: usize) -> u64 {
        let front = &self.batch[self.start..self.start + envelopes];
        let dropped = front.iter().map(|envelope| envelope.n).sum();
        self.start += envelopes;
        self.events -= dropped;
        dropped
    }
}

/// An entry of a lane.
#[derive(Debug)]
pub(super) enum LaneItem {
    Segment(Segment),
    /// Number of events missing at this position.
    Missed(u64),
}

/// The entries and counts of a lane, without its lock (pure).
#[derive(Debug)]
pub(super) struct LaneQueue {
    items: VecDeque<LaneItem>,
    /// Events dropped before the first item.
    missed: u64,
    len: usize,
    bytes: usize,
    len_max: usize,
    bytes_max: usize,
}

impl LaneQueue {
    pub(super) fn new(len_max: usize, bytes_max: usize) -> Self {
        let len_max = len_max.max(1);
        Self {
            items: VecDeque::new(),
            missed: 0,
            len: 0,
            bytes: 0,
            len_max,
            bytes_max,
        }
    }

    /// Adds a segment, and drops the oldest events beyond the bounds. Dropped segments move to `trash`, so
    /// that they are freed outside the lock.
    fn push(&mut self, segment: Segment, trash: &mut Vec<Segment>) {
        self.len += segment.len();
        self.bytes += segment.bytes;
        self.items.push_back(LaneItem::Segment(segment));
        while self.len > self.len_max || self.bytes > self.bytes_max {
            let over = self.len.saturating_sub(self.len_max);
            match self.items.front_mut() {
                // Keeps the last segment if only its size is above the bound, because a single event may be
                // larger than the whole lane.
                Some(LaneItem::Segment(front)) if over == 0 && front.len() == self.len => break,
                Some(LaneItem::Segment(front)) if over > 0 && over < front.len() => {
                    self.missed += front.drop_front(over);
                    self.len -= over;
                }
                Some(_) => match self.pop() {
                    Some(LaneItem::Missed(missed)) => self.missed += missed,
                    Some(LaneItem::Segment(segment)) => {
                        self.missed += segment.events;
                        trash.push(segment);
                    }
                    None => break,
                },
                None => break,
            }
        }
    }

    fn push_missed(&mut self, events: u64) {
        match self.items.back_mut() {
            Some(LaneItem::Missed(missed)) => *missed += events,
            Some(LaneItem::Segment(_)) => self.items.push_back(LaneItem::Missed(events)),
            None => self.missed += events,
        }
    }

    fn take(&mut self) -> Option<LaneItem> {
        if self.missed > 0 {
            let mut missed = std::mem::take(&mut self.missed);
            if let Some(LaneItem::Missed(more)) = self.items.front() {
                missed += more;
                self.items.pop_front();
            }
            return Some(LaneItem::Missed(missed));
        }
        self.pop()
    }

    fn is_empty(&self) -> bool {
        self.items.is_empty() && self.missed == 0
    }

    fn pop(&mut self) -> Option<LaneItem> {
        let item = self.items.pop_front()?;
        if let LaneItem::Segment(segment) = &item {
            self.len -= segment.len();
            self.bytes -= segment.bytes;
        }
        Some(item)
    }
}

/// A lane, shared by the fan-out and the subscription.
#[derive(Debug)]
pub(super) struct LossyLane(Mutex<LaneState>);

#[derive(Debug)]
struct LaneState {
    queue: LaneQueue,
    /// Set only while the subscription sleeps, so that a burst of events wakes it once.
    sleeper: Option<Waker>,
    /// True when the bus is closed and adds no more events.
    is_closed: bool,
    /// True when the subscription is dropped and reads no more.
    is_unread: bool,
}

impl LossyLane {
    pub(super) fn new(len_max: usize, bytes_max: usize) -> Self {
        Self(Mutex::new(LaneState {
            queue: LaneQueue::new(len_max, bytes_max),
            sleeper: None,
            is_closed: false,
            is_unread: false,
        }))
    }

    /// Adds a segment, unless the subscription is dropped; returns the thread to wake.
    #[must_use = "the subscription may sleep"]
    pub(super) fn push(&self, segment: Segment) -> Option<Waker> {
        let mut trash = Vec::new();
        self.change(|queue| queue.push(segment, &mut trash))
    }

    /// Counts events that the lane does not receive; returns the thread to wake.
    #[must_use = "the subscription may sleep"]
    pub(super) fn push_missed(&self, events: u64) -> Option<Waker> {
        self.change(|queue| queue.push_missed(events))
    }

    fn change(&self, add: impl FnOnce(&mut LaneQueue)) -> Option<Waker> {
        let mut state = lock(&self.0);
        if state.is_unread {
            return None;
        }
        add(&mut state.queue);
        state.sleeper.take()
    }

    /// Closes the lane and wakes its reader.
    pub(super) fn close(&self) {
        let mut state = lock(&self.0);
        state.is_closed = true;
        let sleeper = state.sleeper.take();
        drop(state);
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }

    /// Marks the lane as unread and frees its entries.
    pub(super) fn unsubscribe(&self) {
        let mut state = lock(&self.0);
        state.is_unread = true;
        let items = std::mem::take(&mut state.queue.items);
        drop(state);
        drop(items);
    }

    /// Takes the next entry. If the lane is empty, the next change to it wakes the sleeper, if there is one.
    pub(super) fn take(
        &self,
        sleeper: impl FnOnce() -> Option<Waker>,
    ) -> Result<LaneItem, TryRecvError> {
        let mut state = lock(&self.0);
        state.sleeper = None;
        match state.queue.take() {
            Some(item) => Ok(item),
            None if state.is_closed => Err(TryRecvError::Closed),
            None => {
                state.sleeper = sleeper();
                Err(TryRecvError::Empty)
            }
        }
    }

    /// Wakes the sleeper now if the lane has an entry or is closed, else at the next change.
    pub(super) fn wake_when_ready(&self, sleeper: Waker) {
        let mut state = lock(&self.0);
        if state.queue.is_empty() && !state.is_closed {
            state.sleeper = Some(sleeper);
        } else {
            drop(state);
            sleeper.wake();
        }
    }
}

/// The error of [`Subscription::recv`](crate::Subscription::recv): the bus is closed and all
/// events have been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the event bus is closed")]
pub struct RecvError;

/// The error of [`Subscription::try_recv`](crate::Subscription::try_recv).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TryRecvError {
    /// No event is ready yet.
    #[error("no event is ready")]
    Empty,
    /// The bus is closed and all events have been read.
    #[error("the event bus is closed")]
    Closed,
}

/// The error of receiving with a timeout or a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecvTimeoutError {
    /// No event arrived in time.
    #[error("no event arrived in time")]
    Timeout,
    /// The bus is closed and all events have been read.
    #[error("the event bus is closed")]
    Closed,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::event::{Envelope, TdEvent};
    use crate::timestamp::Timestamp;

    fn batch(seqs: std::ops::Range<u64>, n: u64) -> Batch {
        let envelopes = seqs.map(|seq| {
            let event = TdEvent::IterationStarted {
                execution_id: "a".into(),
                iteration: seq as u32,
            };
            let mut envelope = Envelope::new(Some(seq), Timestamp::default(), event);
            envelope.n = n;
            envelope
        });
        Arc::new(envelopes.collect())
    }

    #[derive(Clone, Debug)]
    enum LaneStep {
        Push {
            events: u64,
            n: u64,
            bytes: usize,
            every: usize,
        },
        Missed(u64),
        Take,
    }

    fn step() -> impl Strategy<Value = LaneStep> {
        prop_oneof![
            4 => (1_u64..12, 1_u64..4, 0_usize..50, 1_usize..4)
                .prop_map(|(events, n, bytes, every)| LaneStep::Push { events, n, bytes, every }),
            1 => (1_u64..5).prop_map(LaneStep::Missed),
            2 => Just(LaneStep::Take),
        ]
    }

    proptest! {
        /// Received + missed = sent, in order and within the bounds, for any sequence of steps.
        #[test]
        fn received_plus_missed_equals_sent(
            steps in prop::collection::vec(step(), 0..100),
            len_max in 1_usize..20,
            bytes_max in 1_usize..200,
        ) {
            let mut queue = LaneQueue::new(len_max, bytes_max);
            let (mut next, mut sent, mut received, mut missed) = (1, 0, 0, 0);
            let mut last = 0;
            let mut trash = Vec::new();
            let mut read = |item: Option<LaneItem>| match item {
                Some(LaneItem::Segment(segment)) => {
                    let mut n = 0;
                    for envelope in &segment.batch[segment.start..] {
                        assert!(envelope.seq.unwrap() > last);
                        last = envelope.seq.unwrap();
                        n += envelope.n;
                    }
                    assert!(n > 0 && n == segment.events);
                    received += n;
                    true
                }
                Some(LaneItem::Missed(n)) => { assert!(n > 0); missed += n; true }
                None => false,
            };
            for step in steps {
                match step {
                    LaneStep::Push { events, n, bytes, every } => {
                        let batch = batch(next..next + events, n);
                        next += events;
                        let selected: Vec<Envelope> = batch.iter().step_by(every).cloned().collect();
                        sent += selected.len() as u64 * n;
                        queue.push(Segment::new(Arc::new(selected), bytes), &mut trash);
                        prop_assert!(queue.len <= len_max);
                        let alone = matches!(queue.items.front(), Some(LaneItem::Segment(s)) if s.len() == queue.len);
                        prop_assert!(queue.bytes <= bytes_max || alone);
                    }
                    LaneStep::Missed(n) => { queue.push_missed(n); sent += n; }
                    LaneStep::Take => { read(queue.take()); }
                }
            }
            while read(queue.take()) {}
            prop_assert_eq!(received + missed, sent);
            prop_assert_eq!((queue.len, queue.bytes), (0, 0));
        }
    }

    #[test]
    fn missed_events_are_reported_at_their_position() {
        let mut queue = LaneQueue::new(2, usize::MAX);
        let mut trash = Vec::new();
        queue.push(Segment::new(batch(1..4, 1), 0), &mut trash);
        queue.push_missed(5);
        assert!(matches!(queue.take(), Some(LaneItem::Missed(1))));
        assert!(
            matches!(queue.take(), Some(LaneItem::Segment(s)) if s.batch[s.start].seq == Some(2))
        );
        assert!(matches!(queue.take(), Some(LaneItem::Missed(5))));
        assert!(queue.take().is_none());
    }
}
