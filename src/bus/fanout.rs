//! The fan-out: one thread that numbers, redacts and batches events, and sends the batches to every lane.
//!
//! Emitters and the bus send to it through the inbox. It sends to lossy and lossless lanes without ever
//! waiting for them: it sleeps on the inbox only. No user code runs on it. It ends with the message `Close`,
//! which is always the last one.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, select_biased};
use rustc_hash::FxHashMap;

use super::subscription::Filter;
use crate::bus::inbox::{Inbox, InboxMessage, MessageList};
use crate::bus::lossless_lane::LosslessSender;
use crate::bus::lossy_lane::{LossyLane, Segment};
use crate::bus::throttle::Throttle;
use crate::event::{Envelope, EventKind, ExecutionId, LogGapRange, TdEvent};
use crate::redact::Redactor;
use crate::thread::{Waker, park};
use crate::timestamp::Timestamp;

/// Maximum number of events in a batch. Larger batches hardly save locks, and a reader that keeps one event
/// of a batch keeps the memory of the whole batch.
const BATCH_EVENTS_MAX: usize = 256;

pub(super) struct FanOut {
    inbox: Arc<Inbox>,
    messages: Receiver<InboxMessage>,
    /// Messages that found the channel full, taken when it was empty. They precede what is in it now.
    overflow: MessageList,
    /// Redacts events before any lane receives them, so that no lane, log or face can omit it.
    redactor: Redactor,
    /// The next sequence number of each execution.
    numbers: FxHashMap<ExecutionId, u64>,
    batch: Vec<Envelope>,
    batch_bytes: usize,
    batch_bytes_max: usize,
    /// True if the batch is for lossy lanes only.
    batch_live: bool,
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
    pub(super) fn new(
        inbox: Arc<Inbox>,
        messages: Receiver<InboxMessage>,
        redactor: Redactor,
    ) -> Self {
        // The limit was converted from a `usize`.
        let lossless_bytes_max = inbox.lossless.bytes_max as usize;
        Self {
            lossless: LosslessSender::new(Arc::clone(&inbox)),
            inbox,
            messages,
            overflow: MessageList::default(),
            redactor,
            numbers: FxHashMap::default(),
            batch: Vec::with_capacity(BATCH_EVENTS_MAX),
            batch_bytes: 0,
            // Several batches must fit into a lane. No account includes the batch in progress, so it must also fit
            // beside all events that were accepted while there was room.
            batch_bytes_max: (1024 * 1024).min(lossless_bytes_max / 64),
            batch_live: false,
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
            let Some(message) = self.wait() else { break };
            is_open = self.handle(message);
            while is_open
                && self.batch.len() < BATCH_EVENTS_MAX
                && self.batch_bytes < self.batch_bytes_max
                && let Some(message) = self.next()
            {
                is_open = self.handle(message);
            }
            self.flush();
            let now = self.throttle_time();
            for lane in &mut self.lanes {
                lane.release(now, &mut self.sleepers, Throttle::poll);
            }
            self.wake();
            self.lossless.send_held();
            self.inbox.made_room();
        }
        let now = self.throttle_time();
        for lane in &mut self.lanes {
            lane.release(now, &mut self.sleepers, Throttle::flush);
        }
        self.wake();
    }

    fn wake(&mut self) {
        for sleeper in self.sleepers.drain(..) {
            sleeper.wake();
        }
    }

    /// Returns the next message, if there is one.
    fn next(&mut self) -> Option<InboxMessage> {
        if let Some(message) = self.overflow.pop_front() {
            return Some(message);
        }
        // The sender lives as long as the inbox, so an error means that the channel is empty.
        let next = self.messages.try_recv().ok();
        next.or_else(|| (self.inbox).take_overflow(&self.messages, &mut self.overflow))
    }

    /// Waits for the next message; returns `Wake` when a throttle's deadline has passed.
    fn wait(&mut self) -> Option<InboxMessage> {
        let due = self
            .lanes
            .iter()
            .filter_map(|lane| lane.throttle.as_ref()?.deadline())
            .min();
        let mut is_armed = false;
        let due = loop {
            let next = self.next();
            if next.is_some() {
                if is_armed {
                    self.inbox.doorbell.disarm();
                }
                return next;
            }
            match due {
                Some(due) => break due,
                None if is_armed => park(None),
                None => self.inbox.doorbell.arm(),
            }
            is_armed = !is_armed;
        };
        let timer = self.inbox.clock.at(due);
        select_biased! {
            recv(self.messages) -> message => message.ok(),
            recv(timer) -> _ => Some(InboxMessage::Wake),
        }
    }

    /// Handles a message; returns false after the last one.
    fn handle(&mut self, message: InboxMessage) -> bool {
        match message {
            InboxMessage::Event {
                ts,
                live,
                mut event,
            } => {
                if self.batch_live != live {
                    self.flush();
                    self.batch_live = live;
                }
                self.batch_bytes += event.memory_bytes();
                self.redactor.event(&mut event);
                self.last_ts = Some(ts);
                let seq = (!live).then(|| self.number(&event));
                self.batch.push(Envelope::new(seq, ts, event));
            }
            InboxMessage::Wake => {}
            InboxMessage::Subscribe {
                lane,
                filter,
                throttle,
                numbered,
                done,
            } => {
                self.flush();
                let next = numbered.and_then(|id| self.numbers.get(&id).copied());
                self.lanes.push(LossySender {
                    lane,
                    filter,
                    throttle: throttle.map(|throttle| *throttle),
                });
                // The subscriber waits for the reply; an error means that it panicked.
                let _ = done.send(next.unwrap_or(1));
            }
            InboxMessage::SubscribeLossless { reply } => {
                self.flush();
                let _ = reply.send(self.lossless.open_lane());
            }
            InboxMessage::StartNumbers {
                id,
                next_seq,
                skips,
                done,
            } => {
                self.flush();
                let next = self.numbers.entry(id).or_insert(next_seq.max(1));
                if skips {
                    *next = next_seq.max(*next);
                }
                let _ = done.send(*next);
            }
            InboxMessage::Close => return false,
        }
        true
    }

    fn number(&mut self, event: &TdEvent) -> u64 {
        if let Some(next) = self.numbers.get_mut(event.execution_id()) {
            let seq = *next;
            *next += 1;
            return seq;
        }
        self.numbers.insert(event.cloned_execution(), 2);
        1
    }

    /// Sends the batch to every lane, then accounts for the events refused in the meantime.
    fn flush(&mut self) {
        if !self.batch.is_empty() {
            let batch: Arc<[Envelope]> = self.batch.drain(..).collect();
            let bytes = std::mem::take(&mut self.batch_bytes);
            let now = self.throttle_time();
            self.lanes
                .retain_mut(|lane| lane.send(&batch, bytes, now, &mut self.sleepers));
            if !self.batch_live {
                self.lossless.send(&batch, bytes as u64);
            }
            self.inbox.release(bytes as u64);
        }
        if let Some(refused) = self.inbox.take_refused() {
            // Events that are queued behind them may be seconds old, and times are in order.
            let ts = self.last_ts.unwrap_or_else(|| self.inbox.clock.wall());
            for ((id, kind, live), events) in refused {
                self.account_refused(&id, kind, live, events, ts);
            }
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
        batch: &Arc<[Envelope]>,
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
fn select(filter: &Filter, batch: &Arc<[Envelope]>, bytes: usize) -> Option<Segment> {
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
    Segment::new(envelopes.into(), bytes)
}
