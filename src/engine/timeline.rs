//! Replays a run from any number and continues with its live events without gaps or duplicates.

use std::time::{Duration, Instant};

use crate::bus::{Delivery, EventRef, RecvError, RecvTimeoutError, Subscription};
use crate::clock::Clock;
use crate::event::{Envelope, LogGapRange};
use crate::history::{Follower, Query, RunDirectory};
use crate::thread::park;

/// The time to wait for the log to contain live events while it makes no progress; a longer pause
/// means that the disk is stalled.
const LOG_PATIENCE: Duration = Duration::from_secs(5);
/// The interval of these checks; the writer is a few milliseconds behind.
const LOG_PAUSE: Duration = Duration::from_millis(2);

/// The events of one execution from a number on, first from its log and then live; returned by
/// [`Engine::timeline`](crate::Engine::timeline).
///
/// A late reader gets the log first and continues live where it ends. A slow reader gets from the
/// log what its lane dropped. Each number arrives once and in order. A
/// [`LogGap`](crate::TdEvent::LogGap) represents what the log has lost. Without a log, or if it
/// makes no progress, [`Delivery::Lagged`] states how many events are missing.
#[derive(Debug)]
pub struct Timeline {
    live: Subscription,
    /// The reader of the log; `None` without a log, or after an error.
    log: Option<Follower>,
    /// The next number to deliver.
    next: u64,
    /// Numbers below this come from the log.
    log_until: u64,
    /// A live event that waits until the log has caught up.
    waiting: Option<EventRef>,
    /// The event of the log that follows a reported gap.
    after_gap: Option<EventRef>,
    /// True while the lane has dropped events and no later event has shown how many.
    has_lagged: bool,
    /// The time until which the log may make no progress.
    patience: Option<Instant>,
    clock: Clock,
}

impl Timeline {
    /// Returns the timeline of one execution whose first live number is `live_from`.
    pub(super) fn new(
        live: Subscription,
        live_from: u64,
        run: Option<RunDirectory>,
        from_seq: u64,
        clock: Clock,
    ) -> Self {
        let log = run.and_then(|run| match Follower::open(&run, Query::all()) {
            Ok(log) => Some(log),
            Err(error) => {
                log::warn!("{error:?}");
                None
            }
        });
        Self {
            live,
            log,
            next: from_seq.max(1),
            log_until: live_from,
            waiting: None,
            after_gap: None,
            has_lagged: false,
            patience: None,
            clock,
        }
    }

    /// Waits for the next delivery.
    ///
    /// # Errors
    /// [`RecvError`] if the bus is closed and all events have been read.
    pub fn recv(&mut self) -> Result<Delivery, RecvError> {
        // Without a deadline, the only error is that the bus is closed.
        self.next_until(None).map_err(|_| RecvError)
    }

    /// Waits for the next delivery, at most as long as `wait`.
    ///
    /// # Errors
    /// [`RecvTimeoutError::Timeout`] if nothing arrived, [`RecvTimeoutError::Closed`] if nothing
    /// will.
    pub fn recv_timeout(&mut self, wait: Duration) -> Result<Delivery, RecvTimeoutError> {
        self.next_until(self.clock.now().checked_add(wait))
    }

    /// Returns an iterator that waits for deliveries until the bus is closed.
    pub fn iter(&mut self) -> impl Iterator<Item = Delivery> + '_ {
        std::iter::from_fn(|| self.recv().ok())
    }

    fn next_until(&mut self, deadline: Option<Instant>) -> Result<Delivery, RecvTimeoutError> {
        loop {
            if self.next < self.log_until {
                if let Some(delivery) = self.next_from_log() {
                    return Ok(delivery);
                }
                if deadline.is_some_and(|deadline| self.clock.now() >= deadline) {
                    return Err(RecvTimeoutError::Timeout);
                }
                park(Some(LOG_PAUSE));
                continue;
            }
            if let Some(event) = self.waiting.take() {
                return Ok(self.deliver(event));
            }
            match self.live.recv_until(deadline) {
                Ok(Delivery::Event(event)) => match LogGapRange::of(&event) {
                    // Delivered live only.
                    None => return Ok(Delivery::Event(event)),
                    Some(numbers) if numbers.last < self.next => {}
                    Some(numbers) => {
                        self.log_until = numbers.first;
                        self.waiting = Some(event);
                    }
                },
                // The number of the next event shows what is missing.
                Ok(Delivery::Lagged { .. }) => self.has_lagged = true,
                Err(RecvTimeoutError::Closed) if std::mem::take(&mut self.has_lagged) => {
                    // The last events are missing, and only the log knows how many.
                    self.log_until = u64::MAX;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the next event of the log, or the number of missing events if the log makes no progress.
    fn next_from_log(&mut self) -> Option<Delivery> {
        if let Some(event) = self.after_gap.take()
            && LogGapRange::of(&event).is_some_and(|numbers| numbers.last >= self.next)
        {
            return Some(self.deliver(event));
        }
        loop {
            let found = match &mut self.log {
                Some(log) => log.next().unwrap_or_else(|error| {
                    log::warn!("{error:?}");
                    self.log = None;
                    None
                }),
                None => None,
            };
            match found {
                Some(record) => {
                    self.patience = None;
                    let numbers = LogGapRange::of(&record.envelope);
                    // A file was removed or cannot be read.
                    let gap = numbers.filter(|numbers| numbers.first > self.next);
                    if let Some(numbers) = gap {
                        // Events that arrive live are not missing.
                        let to = numbers.first.min(self.log_until);
                        let missed = to.saturating_sub(self.next);
                        self.next = to;
                        self.after_gap = Some(EventRef::from(record.envelope));
                        return Some(Delivery::Lagged { missed });
                    }
                    // Lines without numbers precede all numbered ones.
                    if numbers.is_some_and(|numbers| numbers.last >= self.next)
                        || (numbers.is_none() && self.next == 1)
                    {
                        return Some(self.deliver(EventRef::from(record.envelope)));
                    }
                }
                None => return self.missing_events(),
            }
        }
    }

    /// Returns the number of missing events if the log will never contain them.
    fn missing_events(&mut self) -> Option<Delivery> {
        let now = self.clock.now();
        let patience = *self.patience.get_or_insert(now + LOG_PATIENCE);
        let is_written = self
            .log
            .as_ref()
            .is_some_and(|log| log.is_written().unwrap_or(false));
        if is_written && now < patience {
            return None;
        }
        self.patience = None;
        let log_until = std::mem::replace(&mut self.log_until, 0);
        if log_until == u64::MAX {
            // The end: everything is read.
            return None;
        }
        let missed = log_until.saturating_sub(self.next);
        self.next = self.next.max(log_until);
        Some(Delivery::Lagged { missed })
    }

    fn deliver(&mut self, event: EventRef) -> Delivery {
        let envelope: &Envelope = &event;
        if let Some(numbers) = LogGapRange::of(envelope) {
            self.next = self.next.max(numbers.last.saturating_add(1));
            self.has_lagged = false;
        }
        Delivery::Event(event)
    }
}
