//! What a subscriber holds: it reads its lane in its own thread, filters there, and sleeps there.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bus::lane::{Found, Item, Lane, Segment};
use crate::clock::Clock;
use crate::event::{Envelope, TdEvent};
use crate::thread::{Waker, park};

/// One subscriber's view of the stream, from [`EventBus::subscribe`](crate::EventBus::subscribe)
/// and its siblings.
///
/// It never holds anybody up: when it is read too slowly, the oldest events are dropped, and
/// [`Delivery::Lagged`] stands in their place. For what it is sent, always: the sum of the received
/// envelopes' `n`, plus all `missed`, is what was emitted.
///
/// ```
/// use td_observe::{Delivery, EventBus, RecvError};
/// let bus = EventBus::new(10_000);
/// let mut events = bus.subscribe();
/// bus.emitter_for("abc123").iteration_started(1);
/// bus.close();
/// match events.recv()? {
///     Delivery::Event(event) => assert_eq!(event.seq, Some(1)),
///     Delivery::Lagged { missed } => println!("{missed} events missed"),
/// }
/// assert_eq!(events.recv().unwrap_err(), RecvError::Closed);
/// # Ok::<(), RecvError>(())
/// ```
pub struct Subscription {
    lane: Arc<Lane>,
    clock: Clock,
    wanted: Option<Predicate>,
    /// What is being read, and the next place in it. One batch at most, beside what the lane holds.
    reading: Option<(Arc<Segment>, usize)>,
}

pub(super) type Predicate = Box<dyn Fn(&TdEvent) -> bool + Send>;

impl Subscription {
    pub(super) fn new(lane: Arc<Lane>, clock: Clock, wanted: Option<Predicate>) -> Self {
        Self {
            lane,
            clock,
            wanted,
            reading: None,
        }
    }

    /// Waits for what comes next. Costs nothing while it waits.
    ///
    /// # Errors
    /// [`RecvError::Closed`] when the bus is closed and all has been read.
    pub fn recv(&mut self) -> Result<Delivery, RecvError> {
        self.recv_until(None)
    }

    /// What comes next, if it is there.
    ///
    /// # Errors
    /// [`RecvError::Empty`] when nothing is there, [`RecvError::Closed`] when nothing will be.
    pub fn try_recv(&mut self) -> Result<Delivery, RecvError> {
        loop {
            if let Some(delivery) = self.next_read() {
                return Ok(delivery);
            }
            match self.lane.take(None) {
                Found::Item(item) => {
                    if let Some(delivery) = self.open(item) {
                        return Ok(delivery);
                    }
                }
                Found::Empty => return Err(RecvError::Empty),
                Found::Closed => return Err(RecvError::Closed),
            }
        }
    }

    /// Waits for what comes next, for a while.
    ///
    /// # Errors
    /// [`RecvError::Empty`] when nothing came, [`RecvError::Closed`] when nothing will.
    pub fn recv_timeout(&mut self, wait: Duration) -> Result<Delivery, RecvError> {
        // A time too far off to be told is no deadline.
        self.recv_until(self.clock.now().checked_add(wait))
    }

    /// Waits for what comes next until a point in time; a thread that has to look at something
    /// else as well, such as a stop signal, takes its turns with this.
    ///
    /// # Errors
    /// [`RecvError::Empty`] when nothing came, [`RecvError::Closed`] when nothing will.
    pub fn recv_deadline(&mut self, deadline: Instant) -> Result<Delivery, RecvError> {
        self.recv_until(Some(deadline))
    }

    /// All that comes, waiting for it, until the bus is closed.
    pub fn iter(&mut self) -> Iter<'_> {
        Iter(self)
    }

    fn recv_until(&mut self, deadline: Option<Instant>) -> Result<Delivery, RecvError> {
        loop {
            if let Some(delivery) = self.next_read() {
                return Ok(delivery);
            }
            match self.lane.take(Some(Waker::current())) {
                Found::Item(item) => {
                    if let Some(delivery) = self.open(item) {
                        return Ok(delivery);
                    }
                }
                Found::Closed => return Err(RecvError::Closed),
                Found::Empty => match deadline {
                    None => park(None),
                    Some(deadline) => {
                        let left = deadline.saturating_duration_since(self.clock.now());
                        if left.is_zero() {
                            return Err(RecvError::Empty);
                        }
                        park(Some(left));
                    }
                },
            }
        }
    }

    fn open(&mut self, item: Item) -> Option<Delivery> {
        match item {
            Item::Missed(missed) => Some(Delivery::Lagged { missed }),
            Item::Segment(segment) => {
                let start = segment.start();
                self.reading = Some((Arc::new(segment), start));
                None
            }
        }
    }

    /// The next wanted envelope of what is being read.
    fn next_read(&mut self) -> Option<Delivery> {
        while let Some((segment, place)) = &mut self.reading {
            let at = *place;
            if at >= segment.end() {
                self.reading = None;
                break;
            }
            *place += 1;
            // The last envelope takes the segment along, which saves counting it up and down.
            let last = *place >= segment.end();
            if self
                .wanted
                .as_ref()
                .is_some_and(|wanted| !wanted(&segment.get(at).event))
            {
                continue;
            }
            let segment = if last {
                self.reading.take().map(|(segment, _)| segment)?
            } else {
                Arc::clone(segment)
            };
            return Some(Delivery::Event(EventRef { segment, place: at }));
        }
        None
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.lane.leave();
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("filtered", &self.wanted.is_some())
            .finish_non_exhaustive()
    }
}

/// What a subscription gets.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// The next event.
    Event(EventRef),
    /// Events that would have come here and were dropped, since they were not read in time.
    Lagged {
        /// How many, exactly.
        missed: u64,
    },
}

impl Delivery {
    /// The envelope, if this is one.
    pub fn envelope(&self) -> Option<&Envelope> {
        match self {
            Self::Event(event) => Some(event),
            Self::Lagged { .. } => None,
        }
    }

    /// The envelope as a value, if this is one.
    pub fn into_envelope(self) -> Option<Envelope> {
        match self {
            Self::Event(event) => Some(event.into_envelope()),
            Self::Lagged { .. } => None,
        }
    }
}

/// An envelope that was delivered; read it as an [`Envelope`].
///
/// It shares the memory of the batch that it came in, which stays as long as one of these does:
/// take the [`Envelope`] out of what is kept for long.
#[derive(Clone)]
pub struct EventRef {
    /// This subscriber's own counter: counting on the batch's, which all subscribers share, would
    /// cost them more than the delivery.
    segment: Arc<Segment>,
    place: usize,
}

impl EventRef {
    /// A copy of the envelope.
    pub fn into_envelope(self) -> Envelope {
        self.segment.get(self.place).clone()
    }
}

impl From<Envelope> for EventRef {
    fn from(envelope: Envelope) -> Self {
        let bytes = envelope.event.memory_bytes();
        Self {
            segment: Arc::new(Segment::whole([envelope].into(), bytes)),
            place: 0,
        }
    }
}

impl Deref for EventRef {
    type Target = Envelope;
    fn deref(&self) -> &Envelope {
        self.segment.get(self.place)
    }
}

impl fmt::Debug for EventRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Why nothing was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecvError {
    /// Nothing is there, or came in time.
    #[error("no event yet")]
    Empty,
    /// The bus is closed and all has been read.
    #[error("the event bus is closed")]
    Closed,
}

/// All that a subscription gets, until the bus is closed.
#[derive(Debug)]
pub struct Iter<'a>(&'a mut Subscription);

impl Iterator for Iter<'_> {
    type Item = Delivery;
    fn next(&mut self) -> Option<Delivery> {
        self.0.recv().ok()
    }
}

/// All that a subscription gets, until the bus is closed.
#[derive(Debug)]
pub struct IntoIter(Subscription);

impl Iterator for IntoIter {
    type Item = Delivery;
    fn next(&mut self) -> Option<Delivery> {
        self.0.recv().ok()
    }
}

impl IntoIterator for Subscription {
    type Item = Delivery;
    type IntoIter = IntoIter;
    fn into_iter(self) -> IntoIter {
        IntoIter(self)
    }
}

impl<'a> IntoIterator for &'a mut Subscription {
    type Item = Delivery;
    type IntoIter = Iter<'a>;
    fn into_iter(self) -> Iter<'a> {
        Iter(self)
    }
}
