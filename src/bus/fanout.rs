//! The fan-out: one thread that numbers what comes in, makes batches and hands them to every lane.
//!
//! Emitters and the bus send to it through the inbox; it sends to lossy lanes and kept lanes, and
//! neither can make it wait: it sleeps in the inbox and nowhere else. No user code runs on it. It
//! ends with the message `Close`, which is the last one, after everything before it.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, TryRecvError, select_biased};
use rustc_hash::FxHashMap;

use crate::bus::filter::Filter;
use crate::bus::inbox::{Msg, Shared};
use crate::bus::lane::{Lane, Segment};
use crate::bus::limit::Limiter;
use crate::bus::ring::KeptOut;
use crate::event::LogGapRange;
use crate::event::{Envelope, EventKind, ExecutionId, TdEvent};
use crate::redact::Redactor;
use crate::thread::{Waker, park};
use crate::timestamp::Timestamp;

/// Events in a batch at most. Larger ones save no more locks worth having, and hold memory longer
/// for those who keep one event of them.
const BATCH_EVENTS_MAX: usize = 256;

/// A batch is closed when it has this many bytes: a few of them must fit into a lane.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// ... or this part of the memory of what is on its way to the log: what is in the batch that is
/// being made is counted nowhere, and must fit beside all that was let in while there was room.
const BATCH_PART: usize = 64;

/// A lane whose events are a smaller part of a batch than one in so many gets copies of them:
/// sharing the batch would keep all of it in memory for their sake.
const SPARSE: usize = 4;

pub(super) struct FanOut {
    shared: Arc<Shared>,
    inbox: Receiver<Msg>,
    /// Here, where each event is one that nobody has yet: no lane, log or view can forget it.
    redactor: Redactor,
    /// The next number of each execution.
    numbers: FxHashMap<ExecutionId, u64>,
    batch: Vec<Envelope>,
    batch_bytes: usize,
    batch_bytes_max: usize,
    /// Whether the batch is for lossy lanes only.
    batch_live: bool,
    lanes: Vec<LaneOut>,
    kept: KeptOut,
    /// Who is to be woken when the batch is with everyone: a thread that wakes earlier may take
    /// the processor from this one, and the others would wait for it.
    sleepers: Vec<Waker>,
}

/// A lossy lane, as the fan-out sees it. Dropped, it is closed.
struct LaneOut {
    lane: Arc<Lane>,
    filter: Filter,
    limiter: Option<Limiter>,
}

impl FanOut {
    pub(super) fn new(shared: Arc<Shared>, inbox: Receiver<Msg>, redactor: Redactor) -> Self {
        // At most what it was made from, a `usize`.
        let kept_bytes_max = shared.kept.bytes_max as usize;
        Self {
            kept: KeptOut::new(Arc::clone(&shared)),
            shared,
            inbox,
            redactor,
            numbers: FxHashMap::default(),
            batch: Vec::with_capacity(BATCH_EVENTS_MAX),
            batch_bytes: 0,
            batch_bytes_max: BATCH_BYTES_MAX.min(kept_bytes_max / BATCH_PART),
            batch_live: false,
            lanes: Vec::new(),
            sleepers: Vec::new(),
        }
    }

    pub(super) fn run(mut self) {
        let mut open = true;
        while open {
            let Some(msg) = self.wait() else { break };
            open = self.handle(msg);
            while open
                && self.batch.len() < BATCH_EVENTS_MAX
                && self.batch_bytes < self.batch_bytes_max
                && let Ok(msg) = self.inbox.try_recv()
            {
                open = self.handle(msg);
            }
            self.flush();
            self.poll_limiters();
            self.wake();
            self.kept.settle();
            self.shared.made_room();
        }
        let now = self.shared.clock.now();
        for lane in &mut self.lanes {
            lane.flush(now, &mut self.sleepers);
        }
        self.wake();
    }

    fn wake(&mut self) {
        for sleeper in self.sleepers.drain(..) {
            sleeper.wake();
        }
    }

    /// The next message, or `Look` when a limiter's time has come.
    fn wait(&self) -> Option<Msg> {
        let due = self
            .lanes
            .iter()
            .filter_map(|lane| lane.limiter.as_ref()?.deadline())
            .min();
        let bell = &self.shared.bell;
        let mut armed = false;
        let due = loop {
            match self.inbox.try_recv() {
                Ok(msg) => {
                    if armed {
                        bell.disarm();
                    }
                    return Some(msg);
                }
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {}
            }
            match due {
                Some(due) => break due,
                None if armed => park(None),
                None => bell.arm(),
            }
            armed = !armed;
        };
        let timer = self.shared.clock.at(due);
        select_biased! {
            recv(self.inbox) -> msg => msg.ok(),
            recv(timer) -> _ => Some(Msg::Look),
        }
    }

    /// Takes a message in; `false` after the last one.
    fn handle(&mut self, msg: Msg) -> bool {
        match msg {
            Msg::Event {
                ts,
                live,
                mut event,
            } => {
                if self.batch_live != live {
                    self.flush();
                    self.batch_live = live;
                }
                let bytes = event.memory_bytes();
                self.shared.taken(bytes);
                self.batch_bytes += bytes;
                self.redactor.event(&mut event);
                let seq = (!live).then(|| self.number(&event));
                self.batch.push(Envelope::new(seq, ts, event));
            }
            Msg::Look => {}
            Msg::Subscribe {
                lane,
                filter,
                limiter,
                numbers_of,
                done,
            } => {
                self.flush();
                let next = numbers_of.and_then(|id| self.numbers.get(&id).copied());
                self.lanes.push(LaneOut {
                    lane,
                    filter,
                    limiter,
                });
                // Who asked waits for this; it is gone only when it panicked.
                let _ = done.send(next.unwrap_or(1));
            }
            Msg::Keep { reply } => {
                self.flush();
                let _ = reply.send(self.kept.add());
            }
            Msg::Number { id, next_seq, done } => {
                self.flush();
                self.numbers.entry(id).or_insert(next_seq.max(1));
                let _ = done.send(());
            }
            Msg::Close => return false,
        }
        true
    }

    fn number(&mut self, event: &TdEvent) -> u64 {
        if let Some(next) = self.numbers.get_mut(event.execution_id()) {
            let seq = *next;
            *next += 1;
            return seq;
        }
        let id = match event.execution() {
            Some(id) => id.clone(),
            None => event.execution_id().into(),
        };
        self.numbers.insert(id, 2);
        1
    }

    /// Hands the batch to everyone, then accounts for what was refused meanwhile.
    fn flush(&mut self) {
        if !self.batch.is_empty() {
            let batch: Arc<[Envelope]> = self.batch.drain(..).collect();
            let bytes = std::mem::take(&mut self.batch_bytes);
            let now = self.limiter_time();
            self.lanes
                .retain_mut(|lane| lane.hand(&batch, bytes, now, &mut self.sleepers));
            if !self.batch_live {
                self.kept.hand(&batch, bytes as u64);
            }
        }
        if let Some(refused) = self.shared.take_refused() {
            let ts = self.shared.clock.wall();
            for ((id, kind, live), events) in refused {
                self.account(&id, kind, live, events, ts);
            }
        }
    }

    /// Gives refused events their numbers, and tells everyone who would have got them.
    fn account(
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
            self.kept.missed(id, LogGapRange { first, last, ts });
        }
        let now = self.limiter_time();
        for lane in &mut self.lanes {
            if lane.filter.chooses(id, kind) {
                lane.flush(now, &mut self.sleepers);
                self.sleepers.extend(lane.lane.push_missed(events));
            }
        }
    }

    fn poll_limiters(&mut self) {
        let now = self.limiter_time();
        for lane in &mut self.lanes {
            lane.limited(now, &mut self.sleepers, |limiter, now, out| {
                limiter.poll(now, out)
            });
        }
    }

    /// The time, if any lane has a limiter: reading it is not free.
    fn limiter_time(&self) -> Option<Instant> {
        let limited = self.lanes.iter().any(|lane| lane.limiter.is_some());
        limited.then(|| self.shared.clock.now())
    }
}

impl LaneOut {
    /// Hands on what the lane is for; `false` when its subscription is gone.
    fn hand(
        &mut self,
        batch: &Arc<[Envelope]>,
        bytes: usize,
        now: Option<Instant>,
        sleepers: &mut Vec<Waker>,
    ) -> bool {
        if Arc::strong_count(&self.lane) == 1 {
            return false;
        }
        if let (Some(limiter), Some(now)) = (&mut self.limiter, now) {
            let mut out = Vec::new();
            for envelope in batch.iter().filter(|one| self.filter.matches(&one.event)) {
                limiter.push(now, envelope, &mut out);
            }
            if !out.is_empty() {
                sleepers.extend(self.lane.push(own(out)));
            }
        } else if let Some(segment) = choose(&self.filter, batch, bytes) {
            sleepers.extend(self.lane.push(segment));
        }
        true
    }

    fn flush(&mut self, now: impl Into<Option<Instant>>, sleepers: &mut Vec<Waker>) {
        self.limited(now.into(), sleepers, |limiter, now, out| {
            limiter.flush(now, out)
        });
    }

    /// Asks the limiter, if there is one, and hands on what it lets out.
    fn limited(
        &mut self,
        now: Option<Instant>,
        sleepers: &mut Vec<Waker>,
        ask: impl FnOnce(&mut Limiter, Instant, &mut Vec<Envelope>),
    ) {
        let (Some(limiter), Some(now)) = (&mut self.limiter, now) else {
            return;
        };
        let mut out = Vec::new();
        ask(limiter, now, &mut out);
        if !out.is_empty() {
            sleepers.extend(self.lane.push(own(out)));
        }
    }
}

/// On a panic in the middle of a batch, those who were to be woken are: a closed lane wakes only
/// who sleeps since.
impl Drop for FanOut {
    fn drop(&mut self) {
        self.wake();
    }
}

impl Drop for LaneOut {
    fn drop(&mut self) {
        self.lane.close();
    }
}

/// The part of a batch that a filter chooses, if any.
fn choose(filter: &Filter, batch: &Arc<[Envelope]>, bytes: usize) -> Option<Segment> {
    if filter.is_all() {
        return Some(Segment::whole(Arc::clone(batch), bytes));
    }
    let mut picked_bytes = 0;
    let mut picks = Vec::new();
    for (index, envelope) in batch.iter().enumerate() {
        if filter.matches(&envelope.event) {
            // A batch has few hundred envelopes.
            picks.push(index as u32);
            picked_bytes += envelope.event.memory_bytes();
        }
    }
    if picks.is_empty() {
        None
    } else if picks.len() == batch.len() {
        Some(Segment::whole(Arc::clone(batch), bytes))
    } else if picked_bytes * SPARSE < bytes {
        Some(own(picks
            .iter()
            .map(|&index| batch[index as usize].clone())
            .collect()))
    } else {
        Some(Segment::picked(Arc::clone(batch), picks.into(), bytes))
    }
}

/// A segment of envelopes that only one lane has.
fn own(envelopes: Vec<Envelope>) -> Segment {
    let bytes = envelopes
        .iter()
        .map(|envelope| envelope.event.memory_bytes())
        .sum();
    Segment::whole(envelopes.into(), bytes)
}
