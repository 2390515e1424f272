//! A run from its beginning, or from anywhere, and then as it happens: history goes over into the live stream at the right number.

use std::time::{Duration, Instant};

use crate::bus::{Delivery, EventRef, RecvError, RecvTimeoutError, Subscription};
use crate::clock::Clock;
use crate::event::Envelope;
use crate::event::LogGapRange;
use crate::history::{Follower, Query, RunDirectory};
use crate::thread::park;

/// How long to wait for the log to have what has been delivered already, without seeing it come on;
/// beyond that it is a disk that stands still.
const LOG_PATIENCE: Duration = Duration::from_secs(5);
/// How often to look whether it does: its writer is some milliseconds behind.
const LOG_PAUSE: Duration = Duration::from_millis(2);

/// What one execution has done since a number, and then what it does; from
/// [`Engine::timeline`](crate::Engine::timeline).
///
/// Whoever comes late reads the log first and goes on live where it ends, and whoever was too slow
/// and lagged gets from the log what the lane had to drop: each number comes once, in order. What
/// the log lost stands in a [`LogGap`](crate::TdEvent::LogGap); where there is no log, or it does
/// not come on, [`Delivery::Lagged`] says how many events are missing.
#[derive(Debug)]
pub struct Timeline {
    live: Subscription,
    /// What the log has; `None` without one, or when it could not be read any more.
    log: Option<Follower>,
    /// The number that is delivered next.
    next: u64,
    /// Numbers below it are to come from the log.
    behind: u64,
    /// The live event that waits until the log has caught up.
    waiting: Option<EventRef>,
    /// What the log has behind a hole that was told.
    behind_hole: Option<EventRef>,
    /// The lane has dropped something that no later event has shown yet.
    has_lagged: bool,
    /// How long the log may still take.
    patience: Option<Instant>,
    clock: Clock,
}

impl Timeline {
    /// The lane's first number is `live_from`; it has one execution.
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
            behind: live_from,
            waiting: None,
            behind_hole: None,
            has_lagged: false,
            patience: None,
            clock,
        }
    }

    /// Waits for what comes next.
    ///
    /// # Errors
    /// [`RecvError`] when the bus is closed and all events have been read.
    pub fn recv(&mut self) -> Result<Delivery, RecvError> {
        // Without a deadline, the only error is that the bus is closed.
        self.next_until(None).map_err(|_| RecvError)
    }

    /// Waits for what comes next, for a while.
    ///
    /// # Errors
    /// [`RecvTimeoutError::Timeout`] when nothing came, [`RecvTimeoutError::Closed`] when nothing will.
    pub fn recv_timeout(&mut self, wait: Duration) -> Result<Delivery, RecvTimeoutError> {
        self.next_until(self.clock.now().checked_add(wait))
    }

    /// All that comes, waiting for it, until the bus is closed.
    pub fn iter(&mut self) -> impl Iterator<Item = Delivery> + '_ {
        std::iter::from_fn(|| self.recv().ok())
    }

    fn next_until(&mut self, deadline: Option<Instant>) -> Result<Delivery, RecvTimeoutError> {
        loop {
            if self.next < self.behind {
                if let Some(delivery) = self.next_of_log() {
                    return Ok(delivery);
                }
                if deadline.is_some_and(|deadline| self.clock.now() >= deadline) {
                    return Err(RecvTimeoutError::Timeout);
                }
                park(Some(LOG_PAUSE));
                continue;
            }
            if let Some(event) = self.waiting.take() {
                return Ok(self.passed(event));
            }
            match self.live.recv_until(deadline) {
                Ok(Delivery::Event(event)) => match LogGapRange::of(&event) {
                    // Shown live only.
                    None => return Ok(Delivery::Event(event)),
                    Some(numbers) if numbers.last < self.next => {}
                    Some(numbers) => {
                        self.behind = numbers.first;
                        self.waiting = Some(event);
                    }
                },
                // The next event shows by its number what is missing.
                Ok(Delivery::Lagged { .. }) => self.has_lagged = true,
                Err(RecvTimeoutError::Closed) if std::mem::take(&mut self.has_lagged) => {
                    // The last ones are missing, and nothing tells how many but the log.
                    self.behind = u64::MAX;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The next event that the log has; when it has none for too long, what is missing.
    fn next_of_log(&mut self) -> Option<Delivery> {
        if let Some(event) = self.behind_hole.take()
            && LogGapRange::of(&event).is_some_and(|numbers| numbers.last >= self.next)
        {
            return Some(self.passed(event));
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
                    // A file that somebody removed, or that cannot be read.
                    let hole = numbers.filter(|numbers| numbers.first > self.next);
                    if let Some(numbers) = hole {
                        // What comes live is not missing.
                        let to = numbers.first.min(self.behind);
                        let missed = to.saturating_sub(self.next);
                        self.next = to;
                        self.behind_hole = Some(EventRef::from(record.envelope));
                        return Some(Delivery::Lagged { missed });
                    }
                    // Lines without numbers are older than numbers: before all others.
                    if numbers.is_some_and(|numbers| numbers.last >= self.next)
                        || (numbers.is_none() && self.next == 1)
                    {
                        return Some(self.passed(EventRef::from(record.envelope)));
                    }
                }
                None => return self.given_up(),
            }
        }
    }

    /// What the log will not have any more, if it is that.
    fn given_up(&mut self) -> Option<Delivery> {
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
        let behind = std::mem::replace(&mut self.behind, 0);
        if behind == u64::MAX {
            // The end: all that there is has been read.
            return None;
        }
        let missed = behind.saturating_sub(self.next);
        self.next = self.next.max(behind);
        Some(Delivery::Lagged { missed })
    }

    fn passed(&mut self, event: EventRef) -> Delivery {
        let envelope: &Envelope = &event;
        if let Some(numbers) = LogGapRange::of(envelope) {
            self.next = self.next.max(numbers.last.saturating_add(1));
            self.has_lagged = false;
        }
        Delivery::Event(event)
    }
}
