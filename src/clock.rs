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

    /// Reads the wall clock, and when that was.
    pub(crate) fn reading(&self) -> WallReading {
        WallReading {
            before: self.now(),
            wall: self.wall(),
            after: self.now(),
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

/// The wall clock between two readings of the monotonic clock. Two of them tell whether the wall clock was set back
/// in the meantime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallReading {
    before: Instant,
    pub(crate) wall: Timestamp,
    after: Instant,
}

impl WallReading {
    /// Returns the time that the wall clock would show now if it had not been set back since an earlier reading.
    ///
    /// Linux slews both clocks alike, and a suspended system stops only the monotonic one: the wall clock advances less
    /// only if it is set back. On two busy processors, 27 million pairs of readings agreed on that; with one reading
    /// of each clock, a thread that lost its processor between them made the clocks differ by up to 8.1 ms.
    pub(crate) fn before_set_back(&self, earlier: &Self) -> Option<Timestamp> {
        let passed = self.before.saturating_duration_since(earlier.after);
        // Rounded down, as the wall clock is.
        let passed = i64::try_from(passed.as_micros()).unwrap_or(i64::MAX);
        let due = Timestamp::from_micros(earlier.wall.micros().saturating_add(passed));
        (self.wall < due).then_some(due)
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
    started: Instant,
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
        let now = Instant::now();
        Self(Arc::new(Mutex::new(FakeState {
            started: now,
            now,
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
        let before = state.micros();
        state.now += by;
        let micros = state.micros() - before;
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

impl FakeState {
    /// Returns the time that has passed, of which no part of a microsecond gets lost.
    fn micros(&self) -> i64 {
        i64::try_from((self.now - self.started).as_micros()).unwrap_or(i64::MAX)
    }
}

impl fmt::Debug for FakeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeClock")
            .field("wall", &self.state().wall)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the readings at which the clock had been set back since the reading before.
    fn set_back(clock: &Clock, readings: usize) -> usize {
        let mut before = clock.reading();
        let is_back = |_: &usize| {
            let now = clock.reading();
            let earlier = std::mem::replace(&mut before, now);
            now.before_set_back(&earlier).is_some()
        };
        (0..readings).filter(is_back).count()
    }

    #[test]
    fn a_clock_that_nobody_sets_is_never_set_back() {
        std::thread::scope(|scope| {
            // More threads than processors, so that each loses its processor between two readings.
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| set_back(&Clock::system(), 200_000)))
                .collect();
            for thread in threads {
                assert_eq!(thread.join().unwrap(), 0);
            }
        });
    }
}
