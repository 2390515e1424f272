//! The event bus: emitters in, one fan-out thread that numbers and copies, lanes out.
//!
//! Emitters never wait: what has no room is refused and counted. The fan-out never waits for
//! anybody who reads: a lossy lane drops its oldest events and says how many, a kept lane (the
//! log's) has 64 MiB and then says which numbers are missing. So for everyone, always:
//! received + missed = sent. The bus knows no log and no tmux.
//!
//! Threads: emitters → inbox (bounded) → `td-fanout` → lanes (bounded) → readers. Only readers
//! sleep on a lane, only the fan-out on the inbox. It ends by [`EventBus::close`], which delivers
//! everything that was accepted before; an emitter that is kept gets [`Emitted::Closed`].

mod emitter;
mod subscription;

mod filter;
mod limit;

mod bell;
mod gate;
mod inbox;
mod lane;

mod fanout;
mod kept;
mod ring;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::bounded;

pub use self::emitter::EventEmitter;
pub use self::filter::Filter;
pub use self::inbox::Emitted;
pub(crate) use self::kept::Nudge;
pub use self::kept::{Kept, KeptLane};
pub use self::subscription::{Delivery, EventRef, IntoIter, Iter, RecvError, Subscription};

use self::fanout::FanOut;
use self::gate::Side;
use self::inbox::{Msg, Shared};
use self::lane::{Lane, Queue};
use self::limit::Limiter;
use self::subscription::Predicate;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{ExecutionId, TdEvent};
use crate::redact::{Redactor, Rules};
use crate::thread::{self, Handle, Panicked};

/// Memory of what waits in one lossy lane: a viewer that stands still for long must not cost more
/// than the log does.
const LANE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Events that a lossy lane holds, unless told otherwise: 100 seconds of a talkative model.
const LANE_EVENTS: usize = 10_000;

/// How an [`EventBus`] is set up; the rest is `..Default::default()`.
#[derive(Clone, Debug)]
pub struct BusOptions {
    /// Events that a lossy lane holds, 10,000 as a rule.
    pub capacity: usize,
    /// Where time comes from.
    pub clock: Clock,
    /// Events that wait for the fan-out at most, a quarter of it reserved for life-cycle events.
    pub inbox_events: usize,
    /// Memory of what waits in one lossy lane.
    pub lane_bytes_max: usize,
    /// Memory of what is on its way to the slowest kept lane.
    pub kept_bytes_max: usize,
    /// Takes secrets out of every event before anybody gets it; no secrets are known by default.
    /// An engine knows them.
    pub redact: Rules,
}

impl Default for BusOptions {
    fn default() -> Self {
        Self {
            capacity: LANE_EVENTS,
            clock: Clock::system(),
            inbox_events: inbox::INBOX_EVENTS,
            lane_bytes_max: LANE_BYTES_MAX,
            kept_bytes_max: kept::KEPT_BYTES_MAX,
            redact: Rules::none(),
        }
    }
}

/// How a subscription is set up; the rest is `..Default::default()`.
#[derive(Clone, Debug, Default)]
pub struct SubscribeOptions {
    /// Which events it is for; all, unless told otherwise.
    pub filter: Filter,
    /// Events that its lane holds; the bus's capacity, unless told otherwise.
    pub capacity: Option<usize>,
    /// Merges text that follows on and delivers it once in so long; everything else passes at
    /// once, and the order stays. `None`, the default, delivers each event as it is.
    pub limit: Option<Duration>,
}

/// Where everything that happens passes through, numbered, to everyone who listens.
///
/// ```
/// use std::sync::Arc;
/// use td_observe::EventBus;
///
/// let bus = Arc::new(EventBus::new(10_000));
/// let mut events = bus.subscribe();
/// let emitter = bus.emitter_for("execution-123");
/// emitter.prompt_sent(1, "Implement OAuth...", 1500);
/// bus.close();
/// for delivery in events.iter() {
///     if let Some(envelope) = delivery.envelope() {
///         assert_eq!(envelope.event.execution_id(), "execution-123");
///     }
/// }
/// ```
pub struct EventBus {
    shared: Arc<Shared>,
    side: Side,
    capacity: usize,
    lane_bytes_max: usize,
    /// Gone when the bus is closed.
    fanout: Mutex<Option<Handle<()>>>,
}

impl EventBus {
    /// A bus whose subscriptions hold `capacity` events each; 10,000 is usual.
    ///
    /// # Panics
    /// When the system has no thread to give, as [`std::thread::spawn`] does; see
    /// [`EventBus::with_options`].
    pub fn new(capacity: usize) -> Self {
        #[expect(
            clippy::expect_used,
            reason = "documented; with_options gives an error instead"
        )]
        Self::with_options(BusOptions {
            capacity,
            ..Default::default()
        })
        .expect("the event bus needs a thread")
    }

    /// A bus with options.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn with_options(options: BusOptions) -> Result<Self> {
        let (shared, inbox) =
            Shared::new(options.clock, options.inbox_events, options.kept_bytes_max);
        let shared = Arc::new(shared);
        let redactor = Redactor::new(options.redact);
        let fanout = FanOut::new(Arc::clone(&shared), inbox, redactor);
        let fanout = thread::spawn("td-fanout", move || fanout.run())?;
        Ok(Self {
            side: shared.side(),
            shared,
            capacity: options.capacity,
            lane_bytes_max: options.lane_bytes_max,
            fanout: Mutex::new(Some(fanout)),
        })
    }

    /// Emits an event. Never waits.
    pub fn emit(&self, event: TdEvent) -> Emitted {
        self.shared.emit(self.side, event, false)
    }

    /// A handle that emits the events of one execution.
    pub fn emitter_for(&self, id: impl Into<ExecutionId>) -> EventEmitter {
        EventEmitter::new(Arc::clone(&self.shared), id.into())
    }

    /// As [`EventBus::emitter_for`], with numbers that go on from `next_seq`, where a log of this
    /// execution exists already. An execution that has numbers on this bus keeps them.
    pub fn emitter_from(&self, id: impl Into<ExecutionId>, next_seq: u64) -> EventEmitter {
        let id = id.into();
        let (done, numbered) = bounded(1);
        let msg = Msg::Number {
            id: id.clone(),
            next_seq,
            done,
        };
        if self.shared.control(self.side, msg) {
            // Nothing comes when the fan-out has ended, and then nothing is numbered either.
            let _ = numbered.recv();
        }
        self.emitter_for(id)
    }

    /// Everything from here on.
    pub fn subscribe(&self) -> Subscription {
        self.subscribe_with(SubscribeOptions::default())
    }

    /// What a closure wants of everything from here on. The closure runs in the subscriber's own
    /// `recv`; what it leaves out takes room in the lane all the same, and counts as missed when
    /// it is dropped there. [`EventBus::subscribe_with`] chooses as data, before the lane.
    pub fn subscribe_filtered(
        &self,
        wanted: impl Fn(&TdEvent) -> bool + Send + 'static,
    ) -> Subscription {
        self.open_lane(SubscribeOptions::default(), Some(Box::new(wanted)), None)
            .0
    }

    /// Some of everything from here on, with its own bounds and rate.
    pub fn subscribe_with(&self, options: SubscribeOptions) -> Subscription {
        self.open_lane(options, None, None).0
    }

    /// One execution from here on, and the number that its next event gets.
    pub(crate) fn subscribe_numbered(&self, id: &ExecutionId) -> (Subscription, u64) {
        let options = SubscribeOptions {
            filter: Filter::all().execution(id.clone()),
            ..SubscribeOptions::default()
        };
        self.open_lane(options, None, Some(id.clone()))
    }

    fn open_lane(
        &self,
        options: SubscribeOptions,
        wanted: Option<Predicate>,
        numbers_of: Option<ExecutionId>,
    ) -> (Subscription, u64) {
        let capacity = options.capacity.unwrap_or(self.capacity);
        let lane = Arc::new(Lane::new(Queue::new(capacity, self.lane_bytes_max)));
        let (done, open) = bounded(1);
        let msg = Msg::Subscribe {
            lane: Arc::clone(&lane),
            filter: options.filter,
            limiter: options.limit.map(Limiter::new),
            numbers_of,
            done,
        };
        // Waited for, so that what is emitted after this is for this lane, refused or not.
        let sent = self.shared.control(self.side, msg);
        let next = sent.then(|| open.recv().ok()).flatten();
        if next.is_none() {
            lane.close();
        }
        let subscription = Subscription::new(lane, self.shared.clock.clone(), wanted);
        (subscription, next.unwrap_or(1))
    }

    /// A lane that misses nothing for which there is memory; the log's way out. All kept lanes
    /// share that memory, and the slowest decides.
    ///
    /// # Errors
    /// When the bus is closed.
    pub fn keep(&self) -> Result<KeptLane> {
        let (reply, lane) = bounded(1);
        if !self.shared.control(self.side, Msg::Keep { reply }) {
            return Err(Error::gone("the event bus is closed"));
        }
        lane.recv()
            .map_err(|cause| Error::gone("the event bus has ended").because(cause))
    }

    /// Closes the bus: what was accepted is delivered, emitters get [`Emitted::Closed`] from here
    /// on, and the fan-out has ended when this returns, whatever subscribers do. Closing twice
    /// does nothing more.
    pub fn close(&self) {
        if let Err(panicked) = self.end() {
            log::error!("{panicked}");
        }
    }

    /// Closes the bus as [`EventBus::close`] does.
    ///
    /// # Errors
    /// When the fan-out panicked, which it never should; events were lost then.
    pub fn shutdown(self) -> Result<(), Panicked> {
        self.end()
    }

    fn end(&self) -> Result<(), Panicked> {
        // Held until the end, so that whoever closes at the same time waits for it too.
        let mut fanout = self.fanout.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(handle) = fanout.take() else {
            return Ok(());
        };
        self.shared.close();
        handle.join()
    }
}

impl Drop for EventBus {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for EventBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBus")
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}
