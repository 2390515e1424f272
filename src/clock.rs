//! Clocks: only this file reads time. Other code takes `now` as an argument, or time as a channel.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::timestamp::Timestamp;

/// A source of time: the system, or a test that advances it. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Clock(ClockSource);

#[derive(Clone, Debug, Default)]
enum ClockSource {
    #[default]
    System,
    Fake(FakeClock),
}

impl Clock {
    /// Returns the system's clock.
    pub fn system() -> Self {
        Self(ClockSource::System)
    }

    /// Returns monotonic time, for deadlines and durations.
    pub fn now(&self) -> Instant {
        match &self.0 {
            ClockSource::System => Instant::now(),
            ClockSource::Fake(fake) => fake.state().now,
        }
    }

    /// Returns wall-clock time, for timestamps. It may jump.
    pub fn wall(&self) -> Timestamp {
        match &self.0 {
            ClockSource::System => {
                Timestamp::from_micros(match SystemTime::now().duration_since(UNIX_EPOCH) {
                    Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
                    Err(before) => i64::try_from(before.duration().as_micros())
                        .map_or(i64::MIN, |micros| -micros),
                })
            }
            ClockSource::Fake(fake) => fake.state().wall,
        }
    }

    /// Returns a channel that receives one message at this time.
    pub fn at(&self, when: Instant) -> Receiver<Instant> {
        match &self.0 {
            ClockSource::System => crossbeam_channel::at(when),
            ClockSource::Fake(fake) => fake.at(when),
        }
    }

    /// Returns a channel that receives one message after this duration.
    pub fn after(&self, wait: Duration) -> Receiver<Instant> {
        self.at(self.now() + wait)
    }
}

/// A clock for tests, which advances only on request.
///
/// ```
/// use std::time::Duration;
/// let fake = td_observe::FakeClock::new();
/// let clock = fake.clock();
/// let timer = clock.after(Duration::from_secs(60));
/// assert!(timer.try_recv().is_err());
/// fake.advance(Duration::from_secs(60));
/// assert!(timer.try_recv().is_ok());
/// ```
#[derive(Clone)]
pub struct FakeClock(Arc<Mutex<FakeState>>);

struct FakeState {
    now: Instant,
    wall: Timestamp,
    /// Each timer's channel has room for its only message, so that firing never blocks.
    timers: Vec<(Instant, Sender<Instant>)>,
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeClock {
    /// Creates a clock that shows 2026-01-21T10:00:00Z.
    pub fn new() -> Self {
        let wall = Timestamp::from_micros(1_768_989_600_000_000);
        Self(Arc::new(Mutex::new(FakeState {
            now: Instant::now(),
            wall,
            timers: Vec::new(),
        })))
    }

    /// Returns the clock for the code under test.
    pub fn clock(&self) -> Clock {
        Clock(ClockSource::Fake(self.clone()))
    }

    /// Advances both times, and fires the timers that are due.
    pub fn advance(&self, by: Duration) {
        let mut state = self.state();
        state.now += by;
        let micros = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        state.wall = Timestamp::from_micros(state.wall.micros().saturating_add(micros));
        let now = state.now;
        state.timers.retain(|(when, timer)| {
            if *when > now {
                return true;
            }
            // An error means that the timer's receiver is dropped.
            let _ = timer.try_send(now);
            false
        });
    }

    /// Sets the wall clock, as a user or a time server may do; monotonic time does not change.
    pub fn set_wall(&self, wall: Timestamp) {
        self.state().wall = wall;
    }

    fn at(&self, when: Instant) -> Receiver<Instant> {
        let (timer, fired) = bounded(1);
        let mut state = self.state();
        if when <= state.now {
            let _ = timer.try_send(state.now);
        } else {
            state.timers.push((when, timer));
        }
        fired
    }

    fn state(&self) -> MutexGuard<'_, FakeState> {
        // The state consists of plain values, which a panic elsewhere leaves valid.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for FakeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeClock")
            .field("wall", &self.state().wall)
            .finish_non_exhaustive()
    }
}
