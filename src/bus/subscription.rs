//! A subscription: reads, filters and sleeps in the subscriber's thread.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use rustc_hash::FxHashSet;

use super::lossy_lane::{LaneItem, LossyLane, Segment};
use super::lossy_lane::{RecvError, RecvTimeoutError, TryRecvError};
use crate::clock::Clock;
use crate::event::{Envelope, EventKind, ExecutionId, TdEvent};
use crate::thread::{Waker, park};

/// The receiving end of a lossy lane, from [`EventBus::subscribe`](crate::EventBus::subscribe) and its
/// siblings.
///
/// It never delays other threads. If it is read too slowly, the oldest events are dropped, and
/// [`Delivery::Lagged`] takes their place. The sum of `n` of all received envelopes and of all `missed`
/// equals the number of events that were sent to the lane.
///
/// ```
/// use td_observe::{Delivery, EventBus};
/// use td_observe::bus::RecvError;
/// let bus = EventBus::new(10_000);
/// let mut events = bus.subscribe();
/// bus.emitter_for("abc123").iteration_started(1);
/// bus.close();
/// match events.recv()? {
///     Delivery::Event(event) => assert_eq!(event.seq, Some(1)),
///     Delivery::Lagged { missed } => println!("{missed} events missed"),
/// }
/// assert_eq!(events.recv().unwrap_err(), RecvError);
/// # Ok::<(), RecvError>(())
/// ```
pub struct Subscription {
    lane: Arc<LossyLane>,
    predicate: Option<Predicate>,
    /// The segment in progress and the index of its next envelope; at most one batch, in addition to those in
    /// the lane.
    reading: Option<(Arc<Segment>, usize)>,
    /// The channel of [`Subscription::ready`], once it was asked for.
    bell: OnceLock<(Sender<()>, Receiver<()>)>,
}

impl Subscription {
    pub(super) fn new(lane: Arc<LossyLane>, predicate: Option<Predicate>) -> Self {
        Self {
            lane,
            predicate,
            reading: None,
            bell: OnceLock::new(),
        }
    }

    /// Waits for the next delivery, without using processor time.
    ///
    /// # Errors
    /// [`RecvError`] when the bus is closed and all events have been read.
    pub fn recv(&mut self) -> Result<Delivery, RecvError> {
        // Without a deadline, the only error is that the bus is closed.
        self.recv_until(None).map_err(|_| RecvError)
    }

    /// Returns the next delivery, if one is ready.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] when none is ready, [`TryRecvError::Closed`] when the bus is closed
    /// and all events have been read.
    pub fn try_recv(&mut self) -> Result<Delivery, TryRecvError> {
        let next = self.next(false);
        if let Some((bell, _)) = self.bell.get()
            && !matches!(next, Err(TryRecvError::Empty))
        {
            // There may be more: the channel stays ready until a call finds nothing. A full one is ready.
            let _ = bell.try_send(());
        }
        next
    }

    /// Returns a channel for [`select!`](crate::channel::select) that has a message while a delivery may be
    /// ready, or the bus is closed. Take the delivery with [`try_recv`](Self::try_recv), which may also find
    /// none. The channel only rings: the messages themselves mean nothing, and one is enough for many
    /// deliveries.
    ///
    /// ```
    /// use std::time::Duration;
    /// use td_observe::bus::TryRecvError;
    /// use td_observe::channel::select;
    /// use td_observe::{Clock, EventBus};
    ///
    /// let bus = EventBus::new(10_000);
    /// let mut events = bus.subscribe();
    /// let timeout = Clock::system().after(Duration::from_secs(60));
    /// bus.emitter_for("abc123").iteration_started(1);
    /// bus.close();
    /// let mut received = 0;
    /// loop {
    ///     select! {
    ///         recv(events.ready()) -> _ => match events.try_recv() {
    ///             Ok(_) => received += 1,
    ///             Err(TryRecvError::Empty) => {}
    ///             Err(TryRecvError::Closed) => break,
    ///         },
    ///         recv(timeout) -> _ => break,
    ///     }
    /// }
    /// assert_eq!(received, 1);
    /// ```
    pub fn ready(&self) -> &Receiver<()> {
        // One message suffices: it stays until it is received.
        let (bell, ready) = self.bell.get_or_init(|| bounded(1));
        let bell = Waker::Bell(bell.clone());
        if self.reading.is_some() {
            bell.wake();
        } else {
            self.lane.wake_when_ready(bell);
        }
        ready
    }

    /// Waits for the next delivery, at most for `timeout`, by the system's clock also where the bus has a
    /// [`FakeClock`](crate::FakeClock): a test that waits for events must not hang.
    ///
    /// # Errors
    /// [`RecvTimeoutError::Timeout`] when none arrived in time, [`RecvTimeoutError::Closed`] when
    /// the bus is closed and all events have been read.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Delivery, RecvTimeoutError> {
        // A timeout that overflows the clock means no deadline.
        self.recv_until(Clock::system().now().checked_add(timeout))
    }

    /// Waits for the next delivery until a point in time. A thread that also checks another input, such as a
    /// stop signal, alternates between the two.
    ///
    /// # Errors
    /// As [`recv_timeout`](Self::recv_timeout).
    pub fn recv_deadline(&mut self, deadline: Instant) -> Result<Delivery, RecvTimeoutError> {
        self.recv_until(Some(deadline))
    }

    /// Returns a blocking iterator over all deliveries until the bus is closed.
    pub fn iter(&mut self) -> impl Iterator<Item = Delivery> + '_ {
        std::iter::from_fn(|| self.recv().ok())
    }

    /// Waits for the next delivery. Without a deadline, waits indefinitely.
    pub(crate) fn recv_until(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Delivery, RecvTimeoutError> {
        loop {
            match self.next(true) {
                Ok(delivery) => return Ok(delivery),
                Err(TryRecvError::Closed) => return Err(RecvTimeoutError::Closed),
                Err(TryRecvError::Empty) => {}
            }
            let now = Clock::system().now();
            let remaining = deadline.map(|deadline| deadline.saturating_duration_since(now));
            if remaining.is_some_and(|remaining| remaining.is_zero()) {
                return Err(RecvTimeoutError::Timeout);
            }
            park(remaining);
        }
    }

    /// Returns the next delivery. If none is ready, the next change of the lane wakes the caller if it parks, and
    /// otherwise the receiver of the bell.
    fn next(&mut self, parks: bool) -> Result<Delivery, TryRecvError> {
        loop {
            if let Some(delivery) = self.next_in_segment() {
                return Ok(delivery);
            }
            let bell = &self.bell;
            match self.lane.take(|| match (parks, bell.get()) {
                (true, _) => Some(Waker::current()),
                (false, bell) => bell.map(|(bell, _)| Waker::Bell(bell.clone())),
            })? {
                LaneItem::Missed(missed) => return Ok(Delivery::Lagged { missed }),
                LaneItem::Segment(segment) => {
                    let start = segment.start;
                    self.reading = Some((Arc::new(segment), start));
                }
            }
        }
    }

    /// Returns the next selected envelope of the segment in progress.
    fn next_in_segment(&mut self) -> Option<Delivery> {
        while let Some((segment, next)) = &mut self.reading {
            let index = *next;
            if index >= segment.batch.len() {
                self.reading = None;
                break;
            }
            *next += 1;
            // The last envelope takes the segment over, which saves a change of its reference counter.
            let is_last = *next >= segment.batch.len();
            if self
                .predicate
                .as_ref()
                .is_some_and(|selects| !selects(&segment.batch[index].event))
            {
                continue;
            }
            let segment = if is_last {
                self.reading.take().map(|(segment, _)| segment)?
            } else {
                Arc::clone(segment)
            };
            return Some(Delivery::Event(EventRef { segment, index }));
        }
        None
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.lane.unsubscribe();
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("has_predicate", &self.predicate.is_some())
            .finish_non_exhaustive()
    }
}

/// An item that a subscription receives.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// The next event.
    Event(EventRef),
    /// Events at this position were dropped because they were not read in time.
    Lagged {
        /// The exact number of dropped events.
        missed: u64,
    },
}

impl Delivery {
    /// Returns the envelope, if this is an event.
    pub fn envelope(&self) -> Option<&Envelope> {
        match self {
            Self::Event(event) => Some(event),
            Self::Lagged { .. } => None,
        }
    }

    /// Returns the envelope as a value, if this is an event.
    pub fn into_envelope(self) -> Option<Envelope> {
        match self {
            Self::Event(event) => Some(event.into_envelope()),
            Self::Lagged { .. } => None,
        }
    }
}

/// A delivered envelope; it dereferences to [`Envelope`].
///
/// It shares the memory of its whole batch and keeps it alive; call [`into_envelope`](Self::into_envelope)
/// for events that are kept for long.
#[derive(Clone)]
pub struct EventRef {
    /// This subscriber's own reference counter: changing the batch's counter, which all subscribers share,
    /// would cost more than the delivery.
    segment: Arc<Segment>,
    index: usize,
}

impl EventRef {
    /// Returns a copy of the envelope.
    pub fn into_envelope(self) -> Envelope {
        self.segment.batch[self.index].clone()
    }
}

impl From<Envelope> for EventRef {
    fn from(envelope: Envelope) -> Self {
        let bytes = envelope.event.memory_bytes();
        Self {
            segment: Arc::new(Segment::new(Arc::new(vec![envelope]), bytes)),
            index: 0,
        }
    }
}

impl Deref for EventRef {
    type Target = Envelope;
    fn deref(&self) -> &Envelope {
        &self.segment.batch[self.index]
    }
}

impl fmt::Debug for EventRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

// Filters of a subscription: data (executions and kinds) for the fan-out, or a closure.

/// Selects events by execution and by kind; the default selects all events.
///
/// Events that the filter excludes are not sent to the subscription: they take no room in its lane and never
/// count as missed.
///
/// ```
/// use td_observe::{EventKind, Filter};
/// let filter = Filter::all()
///     .execution("abc123")
///     .kinds([EventKind::ValidationOutput, EventKind::ValidationCompleted]);
/// assert!(filter.selects("abc123", EventKind::ValidationOutput));
/// assert!(!filter.selects("abc123", EventKind::TokenReceived));
/// assert!(!filter.selects("other", EventKind::ValidationOutput));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Filter {
    executions: Option<FxHashSet<ExecutionId>>,
    /// One bit for each kind.
    kinds: Option<u64>,
}

// `Unknown` needs one bit more, because `ALL` does not contain it.
const _: () = assert!(EventKind::ALL.len() < u64::BITS as usize);

impl Filter {
    /// Selects every event.
    pub fn all() -> Self {
        Self::default()
    }

    /// Restricts the filter to this execution; further calls add further executions.
    pub fn execution(self, id: impl Into<ExecutionId>) -> Self {
        self.executions([id])
    }

    /// Restricts the filter to these executions; further calls add further executions. An empty
    /// list selects no event.
    pub fn executions<I: Into<ExecutionId>>(mut self, ids: impl IntoIterator<Item = I>) -> Self {
        self.executions
            .get_or_insert_default()
            .extend(ids.into_iter().map(Into::into));
        self
    }

    /// Restricts the filter to this kind; further calls add further kinds.
    pub fn kind(self, kind: EventKind) -> Self {
        self.kinds([kind])
    }

    /// Restricts the filter to these kinds; further calls add further kinds. An empty list selects
    /// no event.
    pub fn kinds(mut self, kinds: impl IntoIterator<Item = EventKind>) -> Self {
        let bits = self.kinds.get_or_insert_default();
        for kind in kinds {
            *bits |= bit(kind);
        }
        self
    }

    /// Returns true if the filter selects events of this kind and execution.
    pub fn selects(&self, execution_id: &str, kind: EventKind) -> bool {
        self.kinds.is_none_or(|bits| bits & bit(kind) != 0)
            && self
                .executions
                .as_ref()
                .is_none_or(|ids| ids.contains(execution_id))
    }

    pub(super) fn matches(&self, event: &TdEvent) -> bool {
        self.is_all() || self.selects(event.execution_id(), event.kind())
    }

    pub(super) fn is_all(&self) -> bool {
        self.executions.is_none() && self.kinds.is_none()
    }
}

fn bit(kind: EventKind) -> u64 {
    1 << (kind as u32)
}

/// A closure that selects events in the subscriber's thread.
pub(super) type Predicate = Box<dyn Fn(&TdEvent) -> bool + Send>;
