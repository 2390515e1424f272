//! Time: the only file that reads a clock; everything else gets `now` as an argument or time as a channel.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::timestamp::Timestamp;

/// Where time comes from: the system, or a test that moves it by hand. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    Fake(FakeClock),
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// Monotonic time, for deadlines and durations.
    pub fn now(&self) -> Instant {
        match &self.0 {
            Source::System => Instant::now(),
            Source::Fake(fake) => fake.state().now,
        }
    }

    /// Wall-clock time, for what is written down. It may jump.
    pub fn wall(&self) -> Timestamp {
        match &self.0 {
            Source::System => {
                Timestamp::from_micros(match SystemTime::now().duration_since(UNIX_EPOCH) {
                    Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
                    Err(before) => i64::try_from(before.duration().as_micros())
                        .map_or(i64::MIN, |micros| -micros),
                })
            }
            Source::Fake(fake) => fake.state().wall,
        }
    }

    /// A channel that gets one message when the time has come.
    pub fn at(&self, when: Instant) -> Receiver<Instant> {
        match &self.0 {
            Source::System => crossbeam_channel::at(when),
            Source::Fake(fake) => fake.at(when),
        }
    }

    /// A channel that gets one message after a while.
    pub fn after(&self, wait: Duration) -> Receiver<Instant> {
        self.at(self.now() + wait)
    }
}

/// A clock for tests: stands still until it is moved.
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
    /// Each timer has room for its one message, so that firing never waits.
    timers: Vec<(Instant, Sender<Instant>)>,
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeClock {
    /// A clock that stands at 2026-01-21T10:00:00Z.
    pub fn new() -> Self {
        let wall = Timestamp::from_micros(1_768_989_600_000_000);
        Self(Arc::new(Mutex::new(FakeState {
            now: Instant::now(),
            wall,
            timers: Vec::new(),
        })))
    }

    /// The clock to hand to the code under test.
    pub fn clock(&self) -> Clock {
        Clock(Source::Fake(self.clone()))
    }

    /// Moves both times on and fires the timers that have come due.
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
            // A timer that nobody waits for any more is not an error.
            let _ = timer.try_send(now);
            false
        });
    }

    /// Sets the wall clock, as a user or a time server does; monotonic time stays.
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
        // A panic elsewhere leaves plain values behind: they are as good as before.
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
