//! The fan-out: one thread that numbers and redacts the batches of events, and sends them to every lane.
//!
//! Emitters and the bus send to it through the inbox. It sends to lossy and lossless lanes without ever
//! waiting for them: it sleeps on the inbox only. No user code runs on it. It ends with the item `Close`,
//! which is always the last one.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded, select};
use rustc_hash::FxHashMap;

use super::Batch;
use super::subscription::Filter;
use crate::bus::inbox::{EventBatch, Inbox, InboxItem, RefusedCounts, Taken};
use crate::bus::lossless_lane::LosslessSender;
use crate::bus::lossy_lane::{LossyLane, Segment};
use crate::bus::throttle::Throttle;
use crate::event::{Envelope, EventKind, ExecutionId, LogGapRange};
use crate::redact::Redactor;
use crate::thread::{Waker, park};
use crate::timestamp::Timestamp;

pub(super) struct FanOut {
    inbox: Arc<Inbox>,
    /// The room for the next events, allocated outside the lock.
    empty: EventBatch,
    /// Rung by the inbox while this thread also waits for a time.
    bell: (Sender<()>, Receiver<()>),
    /// Redacts events before any lane receives them, so that no lane, log or face can omit it.
    redactor: Redactor,
    /// The next sequence number of each execution.
    numbers: FxHashMap<ExecutionId, u64>,
    /// The time of the last event.
    last_ts: Option<Timestamp>,
    lanes: Vec<LossySender>,
    lossless: LosslessSender,
    /// Threads to wake once the batch is in every lane. A thread that woke earlier could take the processor
    /// from the fan-out and delay the other lanes.
    sleepers: Vec<Waker>,
}

/// The fan-out's side of a lossy lane. Dropping it closes the lane.
struct LossySender {
    lane: Arc<LossyLane>,
    filter: Filter,
    throttle: Option<Throttle>,
}

impl FanOut {
    pub(super) fn new(inbox: Arc<Inbox>, redactor: Redactor) -> Self {
        Self {
            lossless: LosslessSender::new(Arc::clone(&inbox)),
            inbox,
            empty: EventBatch::default(),
            bell: bounded(1),
            redactor,
            numbers: FxHashMap::default(),
            last_ts: None,
            lanes: Vec::new(),
            sleepers: Vec::new(),
        }
    }

    pub(super) fn run(mut self) {
        // Beside the threads that start the sources.
        self.redactor.prepare();
        let mut is_open = true;
        while is_open {
            let taken = self.wait();
            is_open = taken.item.is_none_or(|item| self.handle(item));
            self.account(taken.refused);
            self.release(Throttle::poll);
            self.wake();
            self.lossless.send_held();
            self.inbox.made_room();
        }
        self.release(Throttle::flush);
        self.wake();
    }

    fn wake(&mut self) {
        for sleeper in self.sleepers.drain(..) {
            sleeper.wake();
        }
    }

    /// Waits until the inbox has something; returns nothing when a throttle's deadline has passed.
    fn wait(&mut self) -> Taken {
        let deadlines = self.lanes.iter();
        let due = deadlines
            .filter_map(|lane| lane.throttle.as_ref()?.deadline())
            .min();
        loop {
            let bell = &self.bell.0;
            let taken = self.inbox.take(&mut self.empty, || match due {
                Some(_) => Waker::Bell(bell.clone()),
                None => Waker::current(),
            });
            match (taken, due) {
                (Some(taken), _) => return taken,
                (None, None) => park(None),
                (None, Some(due)) => {
                    let timer = self.inbox.clock.at(due);
                    select! {
                        // It may have been rung for something that was taken since.
                        recv(self.bell.1) -> _ => {}
                        recv(timer) -> _ => return Taken::default(),
                    }
                }
            }
        }
    }

    /// Handles an item; returns false after the last one.
    fn handle(&mut self, item: InboxItem) -> bool {
        match item {
            InboxItem::Events(batch) => self.deliver(batch),
            InboxItem::Subscribe {
                lane,
                filter,
                throttle,
                numbered,
                done,
            } => {
                let next = numbered.and_then(|id| self.numbers.get(&id).copied());
                self.lanes.push(LossySender {
                    lane,
                    filter,
                    throttle: throttle.map(|throttle| *throttle),
                });
                // The subscriber waits for the reply; an error means that it panicked.
                let _ = done.send(next.unwrap_or(1));
            }
            InboxItem::SubscribeLossless { reply } => {
                let _ = reply.send(self.lossless.open_lane());
            }
            InboxItem::StartNumbers {
                id,
                next_seq,
                skips,
                done,
            } => {
                let next = self.numbers.entry(id).or_insert(next_seq.max(1));
                if skips {
                    *next = next_seq.max(*next);
                }
                let _ = done.send(*next);
            }
            InboxItem::Close => return false,
        }
        true
    }

    /// Numbers and redacts events, and sends them to every lane.
    fn deliver(&mut self, mut events: EventBatch) {
        for envelope in &mut events.envelopes {
            self.redactor.event(&mut envelope.event);
        }
        if !events.live {
            self.number(&mut events.envelopes);
        }
        self.last_ts = events.envelopes.last().map(|envelope| envelope.ts);
        // The next batch is probably as large, and does not grow in steps then.
        self.empty = EventBatch::with_capacity(events.envelopes.len());
        let batch = Arc::new(events.envelopes);
        let now = self.throttle_time();
        self.lanes
            .retain_mut(|lane| lane.send(&batch, events.bytes, now, &mut self.sleepers));
        if !events.live {
            self.lossless.send(&batch, events.bytes as u64);
        }
        self.inbox.release(events.bytes as u64);
    }

    fn number(&mut self, envelopes: &mut [Envelope]) {
        let same =
            |one: &Envelope, next: &Envelope| one.event.execution_id() == next.event.execution_id();
        for same in envelopes.chunk_by_mut(same) {
            let next = match self.numbers.get_mut(same[0].event.execution_id()) {
                Some(next) => next,
                None => (self.numbers)
                    .entry(same[0].event.cloned_execution())
                    .or_insert(1),
            };
            for envelope in same {
                envelope.seq = Some(*next);
                *next += 1;
            }
        }
    }

    /// Accounts for refused events, for which every lane has its own count.
    fn account(&mut self, refused: RefusedCounts) {
        if refused.is_empty() {
            return;
        }
        // Events that are queued behind them may be seconds old, and times are in order.
        let ts = self.last_ts.unwrap_or_else(|| self.inbox.clock.wall());
        for ((id, kind, live), events) in refused {
            self.account_refused(&id, kind, live, events, ts);
        }
    }

    /// Sends what the throttles of lanes release.
    fn release(&mut self, release: fn(&mut Throttle, Instant, &mut Vec<Envelope>)) {
        let now = self.throttle_time();
        for lane in &mut self.lanes {
            lane.release(now, &mut self.sleepers, release);
        }
    }

    /// Numbers refused events and counts them as missed in every lane that selects them.
    fn account_refused(
        &mut self,
        id: &ExecutionId,
        kind: EventKind,
        live: bool,
        events: u64,
        ts: Timestamp,
    ) {
        if !live {
            let next = self.numbers.entry(id.clone()).or_insert(1);
            let first = *next;
            *next += events;
            let last = first + events - 1;
            self.lossless.missed(id, LogGapRange { first, last, ts });
        }
        let now = self.throttle_time();
        for lane in &mut self.lanes {
            if lane.filter.selects(id, kind) {
                lane.release(now, &mut self.sleepers, Throttle::flush);
                self.sleepers.extend(lane.lane.push_missed(events));
            }
        }
    }

    /// Returns the present time if any lane has a throttle; reading the clock costs time.
    fn throttle_time(&self) -> Option<Instant> {
        let is_throttled = self.lanes.iter().any(|lane| lane.throttle.is_some());
        is_throttled.then(|| self.inbox.clock.now())
    }
}

impl LossySender {
    /// Sends the envelopes that the lane selects; returns false when its subscription is dropped.
    fn send(
        &mut self,
        batch: &Batch,
        bytes: usize,
        now: Option<Instant>,
        sleepers: &mut Vec<Waker>,
    ) -> bool {
        if Arc::strong_count(&self.lane) == 1 {
            return false;
        }
        if let (Some(throttle), Some(now)) = (&mut self.throttle, now) {
            let mut out = Vec::new();
            let envelopes = batch.iter();
            for envelope in envelopes.filter(|envelope| self.filter.matches(&envelope.event)) {
                throttle.push(now, envelope, &mut out);
            }
            if !out.is_empty() {
                sleepers.extend(self.lane.push(owned_segment(out)));
            }
        } else if let Some(segment) = select(&self.filter, batch, bytes) {
            sleepers.extend(self.lane.push(segment));
        }
        true
    }

    /// Sends the envelopes that the lane's throttle, if any, releases.
    fn release(
        &mut self,
        now: Option<Instant>,
        sleepers: &mut Vec<Waker>,
        release: impl FnOnce(&mut Throttle, Instant, &mut Vec<Envelope>),
    ) {
        let (Some(throttle), Some(now)) = (&mut self.throttle, now) else {
            return;
        };
        let mut out = Vec::new();
        release(throttle, now, &mut out);
        if !out.is_empty() {
            sleepers.extend(self.lane.push(owned_segment(out)));
        }
    }
}

/// Wakes the readers after a panic in the middle of a batch. Closing a lane wakes only readers that went to
/// sleep after the batch was added.
impl Drop for FanOut {
    fn drop(&mut self) {
        self.inbox.end();
        self.wake();
    }
}

impl Drop for LossySender {
    fn drop(&mut self) {
        self.lane.close();
    }
}

/// Returns the part of a batch that a filter selects, if any. A part is copied, because sharing the batch would keep
/// all of it in memory.
fn select(filter: &Filter, batch: &Batch, bytes: usize) -> Option<Segment> {
    let selected = || {
        batch
            .iter()
            .filter(|envelope| filter.matches(&envelope.event))
    };
    match selected().count() {
        0 => None,
        count if count == batch.len() => Some(Segment::new(Arc::clone(batch), bytes)),
        _ => Some(owned_segment(selected().cloned().collect())),
    }
}

/// Creates a segment of envelopes that only one lane has.
fn owned_segment(envelopes: Vec<Envelope>) -> Segment {
    let bytes = envelopes
        .iter()
        .map(|envelope| envelope.event.memory_bytes())
        .sum();
    Segment::new(Arc::new(envelopes), bytes)
}
