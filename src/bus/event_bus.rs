//! The bus: creates emitters and lanes, and owns the fan-out.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::bounded;

use super::emitter::EventEmitter;
use super::fanout::FanOut;
use super::inbox::{Emitted, Inbox, InboxItem};
use super::lossless_lane::LosslessLane;
use super::lossy_lane::LossyLane;
use super::subscription::{Filter, Predicate, Subscription};
use super::throttle::Throttle;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{ExecutionId, TdEvent};
use crate::redact::{Redactor, Rules};
use crate::thread::{self, Handle, Panicked, lock};

/// Memory of the events in one lossy lane: a viewer that stops reading must not cost more memory than the
/// log.
const LANE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Default number of events in a lossy lane: 100 seconds of a model that emits 100 events per second.
const LANE_EVENTS: usize = 10_000;

/// Options of an [`EventBus`]; complete them with `..Default::default()`.
#[derive(Clone, Debug)]
pub struct BusOptions {
    /// Number of events that a lossy lane holds; defaults to 10,000.
    pub capacity: usize,
    /// The source of time; defaults to the system's clock.
    pub clock: Clock,
    /// Memory of the events in one lossy lane, in bytes; defaults to 64 MiB.
    pub lane_bytes_max: usize,
    /// Memory of the events that wait for the fan-out, or that the slowest lossless lane has not read, together in
    /// bytes; defaults to 64 MiB. A sixteenth of it is reserved for life-cycle events.
    pub lossless_bytes_max: usize,
    /// Rules that redact secrets from every event before any lane receives it; defaults to none. The engine
    /// sets the built-in rules.
    pub redact: Rules,
}

impl Default for BusOptions {
    fn default() -> Self {
        Self {
            capacity: LANE_EVENTS,
            clock: Clock::system(),
            lane_bytes_max: LANE_BYTES_MAX,
            lossless_bytes_max: super::inbox::LOSSLESS_BYTES_MAX,
            redact: Rules::none(),
        }
    }
}

/// Options of a subscription; complete them with `..Default::default()`.
#[derive(Clone, Debug, Default)]
pub struct SubscribeOptions {
    /// Selects the events; defaults to all.
    pub filter: Filter,
    /// Number of events that the lane holds; defaults to the bus's capacity.
    pub capacity: Option<usize>,
    /// Merges consecutive text and delivers it at most once per interval. All other events pass at once, and
    /// the order is kept. Defaults to `None`, which delivers each event unchanged.
    pub throttle: Option<Duration>,
}

/// Numbers every event and delivers it to every subscriber.
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
    inbox: Arc<Inbox>,
    capacity: usize,
    lane_bytes_max: usize,
    /// `None` after the bus is closed.
    fanout: Mutex<Option<Handle<()>>>,
}

impl EventBus {
    /// Creates a bus whose subscriptions hold `capacity` events each, typically 10,000.
    ///
    /// # Panics
    /// When the system cannot start a thread, as [`std::thread::spawn`] does; see
    /// [`EventBus::with_options`].
    pub fn new(capacity: usize) -> Self {
        #[expect(
            clippy::expect_used,
            reason = "documented; with_options returns an error instead"
        )]
        Self::with_options(BusOptions {
            capacity,
            ..Default::default()
        })
        .expect("the event bus needs a thread")
    }

    /// Creates a bus with options.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub fn with_options(options: BusOptions) -> Result<Self> {
        let inbox = Arc::new(Inbox::new(options.clock, options.lossless_bytes_max));
        let redactor = Redactor::new(options.redact);
        let fanout = FanOut::new(Arc::clone(&inbox), redactor);
        let fanout = thread::spawn("td-fanout", move || fanout.run())?;
        Ok(Self {
            inbox,
            capacity: options.capacity,
            lane_bytes_max: options.lane_bytes_max,
            fanout: Mutex::new(Some(fanout)),
        })
    }

    /// Emits an event. Never waits.
    pub fn emit(&self, event: TdEvent) -> Emitted {
        self.inbox.emit(event, false)
    }

    /// Returns an emitter for the events of one execution.
    pub fn emitter_for(&self, id: impl Into<ExecutionId>) -> EventEmitter {
        EventEmitter::new(Arc::clone(&self.inbox), id.into())
    }

    /// Returns an emitter for an execution whose log already exists. Its numbers start at `next_seq`, unless
    /// the execution already has numbers on this bus.
    pub fn emitter_from(&self, id: impl Into<ExecutionId>, next_seq: u64) -> EventEmitter {
        self.start_numbers(id.into(), next_seq, false).0
    }

    /// Returns an emitter as [`EventBus::emitter_from`] does, and the number of its next event. With `skips`, an
    /// execution whose numbers on this bus are lower continues at `next_seq`.
    pub(crate) fn start_numbers(
        &self,
        id: ExecutionId,
        next_seq: u64,
        skips: bool,
    ) -> (EventEmitter, u64) {
        let (done, numbered) = bounded(1);
        let item = InboxItem::StartNumbers {
            id: id.clone(),
            next_seq,
            skips,
            done,
        };
        let next = if self.inbox.control(item) {
            // An error means that the fan-out has ended and numbers no more events.
            numbered.recv().unwrap_or(next_seq)
        } else {
            next_seq
        };
        (self.emitter_for(id), next)
    }

    /// Subscribes to all events emitted after this call.
    pub fn subscribe(&self) -> Subscription {
        self.subscribe_with(SubscribeOptions::default())
    }

    /// Subscribes to the events emitted after this call for which the closure returns true. It runs in the
    /// subscriber's own `recv`: events that it excludes take room in the lane, and count as missed if they are
    /// dropped there.
    ///
    /// ```
    /// let bus = td_observe::EventBus::new(10_000);
    /// let mut events = bus.subscribe_filtered(|e| e.execution_id() == "abc123");
    /// bus.emitter_for("abc123").iteration_started(1);
    /// bus.emitter_for("another").iteration_started(1);
    /// bus.close();
    /// assert_eq!(events.iter().count(), 1);
    /// ```
    pub fn subscribe_filtered(
        &self,
        selects: impl Fn(&TdEvent) -> bool + Send + 'static,
    ) -> Subscription {
        let predicate: Predicate = Box::new(selects);
        self.open_lane(SubscribeOptions::default(), Some(predicate), None)
            .0
    }

    /// Subscribes to events emitted after this call, with a filter, a capacity and a throttle. The fan-out applies
    /// the filter: events that it excludes take no room in the lane, and never count as missed.
    ///
    /// ```
    /// use td_observe::{EventBus, EventKind, Filter, SubscribeOptions};
    /// let bus = EventBus::new(10_000);
    /// let warnings = bus.subscribe_with(SubscribeOptions {
    ///     filter: Filter::all().kind(EventKind::Warning),
    ///     ..SubscribeOptions::default()
    /// });
    /// # drop(warnings);
    /// ```
    pub fn subscribe_with(&self, options: SubscribeOptions) -> Subscription {
        self.open_lane(options, None, None).0
    }

    /// Subscribes to one execution, and returns the number of its next event.
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
        predicate: Option<Predicate>,
        numbered: Option<ExecutionId>,
    ) -> (Subscription, u64) {
        let capacity = options.capacity.unwrap_or(self.capacity);
        let lane = Arc::new(LossyLane::new(capacity, self.lane_bytes_max));
        let (done, open) = bounded(1);
        let item = InboxItem::Subscribe {
            lane: Arc::clone(&lane),
            filter: options.filter,
            throttle: options
                .throttle
                .map(|period| Box::new(Throttle::new(period))),
            numbered,
            done,
        };
        // Waits for the reply, so that this lane counts every event emitted after this call.
        let sent = self.inbox.control(item);
        let next = sent.then(|| open.recv().ok()).flatten();
        if next.is_none() {
            lane.close();
        }
        let subscription = Subscription::new(lane, predicate);
        (subscription, next.unwrap_or(1))
    }

    /// Opens a lane, such as the log's, that misses no event that fits in memory. All lossless lanes share
    /// that memory, and the slowest lane determines how much of it is used.
    ///
    /// # Errors
    /// When the bus is closed.
    pub(crate) fn subscribe_lossless(&self) -> Result<LosslessLane> {
        let (reply, start) = bounded(1);
        let item = InboxItem::SubscribeLossless { reply };
        if !self.inbox.control(item) {
            return Err(Error::gone("the event bus is closed"));
        }
        let start = start
            .recv()
            .map_err(|cause| Error::gone("the event bus has ended").because(cause))?;
        Ok(LosslessLane::new(start, Arc::clone(&self.inbox)))
    }

    /// Closes the bus. Accepted events are delivered, and emitters get [`Emitted::Closed`] from now on. The
    /// fan-out has ended when this returns, whatever subscribers do. Further calls have no effect.
    pub fn close(&self) {
        if let Err(panicked) = self.end() {
            log::error!("{panicked}");
        }
    }

    /// Closes the bus as [`EventBus::close`] does.
    ///
    /// # Errors
    /// When the fan-out has panicked, which is a bug and loses events.
    pub fn shutdown(self) -> Result<(), Panicked> {
        self.end()
    }

    fn end(&self) -> Result<(), Panicked> {
        // Held until the end, so that a concurrent call waits, too.
        let mut fanout = lock(&self.fanout);
        let Some(handle) = fanout.take() else {
            return Ok(());
        };
        self.inbox.close();
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
