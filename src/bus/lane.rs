//! A lossy lane: what one subscription has yet to read, bounded, the oldest dropped and counted.
//!
//! The fan-out puts batches in, the subscription takes one batch at a time; one lock a batch. The
//! fan-out never waits here: the lock is held for a few moves, and no user code runs under it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::event::Envelope;
use crate::thread::Waker;

/// A run of envelopes that a lane holds, shared with the other lanes.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    batch: Arc<[Envelope]>,
    /// Which envelopes of the batch are meant; `None` means all.
    picks: Option<Arc<[u32]>>,
    /// How many of those have been dropped from the front.
    start: usize,
    /// How many events the rest stands for.
    events: u64,
    /// The memory that the batch takes, all of it: a segment keeps the whole batch alive.
    bytes: usize,
}

impl Segment {
    /// All of a batch.
    pub(super) fn whole(batch: Arc<[Envelope]>, bytes: usize) -> Self {
        let events = batch.iter().map(|envelope| envelope.n).sum();
        Self {
            batch,
            picks: None,
            start: 0,
            events,
            bytes,
        }
    }

    /// Some of a batch.
    pub(super) fn picked(batch: Arc<[Envelope]>, picks: Arc<[u32]>, bytes: usize) -> Self {
        let events = picks.iter().map(|&index| batch[index as usize].n).sum();
        Self {
            batch,
            picks: Some(picks),
            start: 0,
            events,
            bytes,
        }
    }

    /// How many envelopes there are, those that were dropped included.
    pub(super) fn end(&self) -> usize {
        self.picks
            .as_ref()
            .map_or(self.batch.len(), |picks| picks.len())
    }

    /// The first envelope that was not dropped.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// The envelope at a place between `start` and `end`.
    pub(super) fn get(&self, place: usize) -> &Envelope {
        match &self.picks {
            None => &self.batch[place],
            Some(picks) => &self.batch[picks[place] as usize],
        }
    }

    fn len(&self) -> usize {
        self.end() - self.start
    }

    /// Drops from the front; answers how many events that were.
    fn drop_front(&mut self, envelopes: usize) -> u64 {
        let dropped = (self.start..self.start + envelopes)
            .map(|at| self.get(at).n)
            .sum();
        self.start += envelopes;
        self.events -= dropped;
        dropped
    }
}

/// What is read from a lane.
#[derive(Debug)]
pub(super) enum Item {
    Segment(Segment),
    /// So many events would have stood here.
    Missed(u64),
}

/// The accounting of a lane, without its lock (pure).
#[derive(Debug)]
pub(super) struct Queue {
    items: VecDeque<Item>,
    /// Dropped at the front, before all items.
    missed: u64,
    len: usize,
    bytes: usize,
    len_max: usize,
    bytes_max: usize,
}

impl Queue {
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

    /// Adds at the end and drops the oldest of what is too much. What is thrown away goes to
    /// `trash`, so that it is freed outside of the lock.
    fn push(&mut self, segment: Segment, trash: &mut Vec<Segment>) {
        self.len += segment.len();
        self.bytes += segment.bytes;
        self.items.push_back(Item::Segment(segment));
        while self.len > self.len_max || self.bytes > self.bytes_max {
            let over = self.len.saturating_sub(self.len_max);
            match self.items.front_mut() {
                // The last one stays when it is only its size: one event may be larger than all.
                Some(Item::Segment(front)) if over == 0 && front.len() == self.len => break,
                Some(Item::Segment(front)) if over > 0 && over < front.len() => {
                    self.missed += front.drop_front(over);
                    self.len -= over;
                }
                Some(_) => match self.pop() {
                    Some(Item::Missed(missed)) => self.missed += missed,
                    Some(Item::Segment(segment)) => {
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
            Some(Item::Missed(missed)) => *missed += events,
            Some(Item::Segment(_)) => self.items.push_back(Item::Missed(events)),
            None => self.missed += events,
        }
    }

    fn take(&mut self) -> Option<Item> {
        if self.missed > 0 {
            let mut missed = std::mem::take(&mut self.missed);
            if let Some(Item::Missed(more)) = self.items.front() {
                missed += more;
                self.items.pop_front();
            }
            return Some(Item::Missed(missed));
        }
        self.pop()
    }

    fn pop(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        if let Item::Segment(segment) = &item {
            self.len -= segment.len();
            self.bytes -= segment.bytes;
        }
        Some(item)
    }
}

/// What a subscription finds when it looks.
#[derive(Debug)]
pub(super) enum Found {
    Item(Item),
    /// Nothing yet.
    Empty,
    /// Nothing any more.
    Closed,
}

/// The lane itself, shared by the fan-out and the subscription.
#[derive(Debug)]
pub(super) struct Lane {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    /// Whom to wake: set only while the subscription sleeps, so that a burst wakes it once.
    sleeper: Option<Waker>,
    /// The bus is closed: nothing will be added.
    closed: bool,
    /// The subscription is dropped: nothing will be read.
    left: bool,
}

impl Lane {
    pub(super) fn new(queue: Queue) -> Self {
        Self {
            state: Mutex::new(State {
                queue,
                sleeper: None,
                closed: false,
                left: false,
            }),
        }
    }

    /// Adds a segment, unless nobody will read it; answers whom to wake.
    #[must_use = "the subscription may sleep"]
    pub(super) fn push(&self, segment: Segment) -> Option<Waker> {
        let mut trash = Vec::new();
        self.change(|queue| queue.push(segment, &mut trash))
    }

    /// Notes events that this lane will not get; answers whom to wake.
    #[must_use = "the subscription may sleep"]
    pub(super) fn push_missed(&self, events: u64) -> Option<Waker> {
        self.change(|queue| queue.push_missed(events))
    }

    fn change(&self, add: impl FnOnce(&mut Queue)) -> Option<Waker> {
        let mut state = self.state();
        if state.left {
            return None;
        }
        add(&mut state.queue);
        state.sleeper.take()
    }

    /// No more will come.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let sleeper = state.sleeper.take();
        drop(state);
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
    }

    /// The subscription goes away: what it has not read is freed now.
    pub(super) fn leave(&self) {
        let mut state = self.state();
        state.left = true;
        let items = std::mem::take(&mut state.queue.items);
        drop(state);
        drop(items);
    }

    /// Takes what is next; with a sleeper, that one is woken when there is more than nothing.
    pub(super) fn take(&self, sleeper: Option<Waker>) -> Found {
        let mut state = self.state();
        state.sleeper = None;
        match state.queue.take() {
            Some(item) => Found::Item(item),
            None if state.closed => Found::Closed,
            None => {
                state.sleeper = sleeper;
                Found::Empty
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No user code runs under the lock and each change is complete: a panic elsewhere leaves
        // nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::TdEvent;
    use crate::timestamp::Timestamp;

    fn batch(seqs: std::ops::Range<u64>, n: u64) -> Arc<[Envelope]> {
        seqs.map(|seq| {
            let event = TdEvent::IterationStarted {
                execution_id: "a".into(),
                iteration: seq as u32,
            };
            let mut envelope = Envelope::new(Some(seq), Timestamp::default(), event);
            envelope.n = n;
            envelope
        })
        .collect()
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push {
            events: u64,
            n: u64,
            bytes: usize,
            every: usize,
        },
        Missed(u64),
        Take,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1_u64..12, 1_u64..4, 0_usize..50, 1_usize..4)
                .prop_map(|(events, n, bytes, every)| Step::Push { events, n, bytes, every }),
            1 => (1_u64..5).prop_map(Step::Missed),
            2 => Just(Step::Take),
        ]
    }

    proptest! {
        /// Received + missed = sent, in order, within the bounds, whatever is pushed and taken.
        #[test]
        fn the_account_is_exact(
            steps in prop::collection::vec(step(), 0..100),
            len_max in 1_usize..20,
            bytes_max in 1_usize..200,
        ) {
            let mut queue = Queue::new(len_max, bytes_max);
            let (mut next, mut sent, mut received, mut missed) = (1, 0, 0, 0);
            let mut last = 0;
            let mut trash = Vec::new();
            let mut read = |item: Option<Item>| match item {
                Some(Item::Segment(segment)) => {
                    let mut n = 0;
                    for at in segment.start()..segment.end() {
                        let envelope = segment.get(at);
                        assert!(envelope.seq.unwrap() > last);
                        last = envelope.seq.unwrap();
                        n += envelope.n;
                    }
                    assert!(n > 0 && n == segment.events);
                    received += n;
                    true
                }
                Some(Item::Missed(n)) => { assert!(n > 0); missed += n; true }
                None => false,
            };
            for step in steps {
                match step {
                    Step::Push { events, n, bytes, every } => {
                        let batch = batch(next..next + events, n);
                        next += events;
                        let picks: Arc<[u32]> = (0..events as u32).step_by(every).collect();
                        sent += picks.len() as u64 * n;
                        let segment = if every == 1 {
                            Segment::whole(batch, bytes)
                        } else {
                            Segment::picked(batch, picks, bytes)
                        };
                        queue.push(segment, &mut trash);
                        prop_assert!(queue.len <= len_max);
                        let alone = matches!(queue.items.front(), Some(Item::Segment(s)) if s.len() == queue.len);
                        prop_assert!(queue.bytes <= bytes_max || alone);
                    }
                    Step::Missed(n) => { queue.push_missed(n); sent += n; }
                    Step::Take => { read(queue.take()); }
                }
            }
            while read(queue.take()) {}
            prop_assert_eq!(received + missed, sent);
            prop_assert_eq!((queue.len, queue.bytes), (0, 0));
        }
    }

    #[test]
    fn missed_stands_in_its_place() {
        let mut queue = Queue::new(2, usize::MAX);
        let mut trash = Vec::new();
        queue.push(Segment::whole(batch(1..4, 1), 0), &mut trash);
        queue.push_missed(5);
        assert!(matches!(queue.take(), Some(Item::Missed(1))));
        assert!(matches!(queue.take(), Some(Item::Segment(s)) if s.get(s.start()).seq == Some(2)));
        assert!(matches!(queue.take(), Some(Item::Missed(5))));
        assert!(queue.take().is_none());
    }
}
