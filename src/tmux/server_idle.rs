//! Decides from CPU time if a tmux server has been idle since its last listing (pure).
//!
//! A listing holds while the server has not run, and need not be requested again. A query makes the server
//! run, even shortly after its reply. Its CPU time is therefore sampled some time after each query. Activity
//! for other clients before the sample is not noticed until the next listing. That listing comes soon after a
//! change, and later and later while nothing happens: each listing adds such a blind interval, so frequent
//! listings would gain nothing.

use std::time::Duration;

use super::counters::CpuTime;

/// The time that a server usually needs to clean up after a query. If it needs longer, for example on a busy
/// machine, it has run since the sample and is queried once more.
const CLEAN_UP: Duration = Duration::from_millis(3);

/// The maximum age of a listing while its server is idle: the initial value after a change, and the upper
/// bound.
const AGE_MIN: Duration = Duration::from_millis(500);
const AGE_MAX: Duration = Duration::from_secs(60);

/// The factor by which this age grows with each query that found the server idle.
const AGE_FACTOR: u32 = 4;

/// The idleness of one server. CPU times are `None` if they are unknown; the server may then have done
/// anything.
#[derive(Debug)]
pub(super) struct ServerIdle {
    /// The end of the last query, until its sample is taken.
    query_ended: Option<Duration>,
    /// The sample: the CPU time some time after the last query.
    sample: Option<CpuTime>,
    /// True if the server is not known to have run between the last listing and the sample.
    holds: bool,
    /// The maximum age of a listing.
    age_max: Duration,
}

impl Default for ServerIdle {
    fn default() -> Self {
        Self {
            query_ended: None,
            sample: None,
            holds: false,
            age_max: AGE_MIN,
        }
    }
}

impl ServerIdle {
    /// Records the start of a listing. Returns true if the server was idle since the last query; the next
    /// listing then comes later.
    pub fn listing_started(&mut self, cpu_time: Option<CpuTime>) -> bool {
        let was_idle = self.is_idle(cpu_time);
        self.age_max = match was_idle {
            true => (self.age_max * AGE_FACTOR).min(AGE_MAX),
            false => AGE_MIN,
        };
        self.holds = true;
        was_idle
    }

    /// Records the start of another query. If the server has run since the listing, the listing no longer
    /// holds.
    pub fn query_started(&mut self, cpu_time: Option<CpuTime>) {
        self.holds &= self.query_ended.is_some() || self.is_idle(cpu_time);
    }

    /// Records the end of a query.
    pub fn query_ended(&mut self, now: Duration) {
        (self.query_ended, self.sample) = (Some(now), None);
    }

    /// Returns when the next sample is due.
    pub fn sample_due(&self) -> Option<Duration> {
        Some(self.query_ended? + CLEAN_UP)
    }

    /// Records the CPU time once the sample is due.
    pub fn record_sample(&mut self, cpu_time: Option<CpuTime>) {
        (self.query_ended, self.sample) = (None, cpu_time);
    }

    /// Returns true if a listing taken at `listed` still holds.
    pub fn listing_holds(
        &self,
        cpu_time: Option<CpuTime>,
        listed: Duration,
        now: Duration,
    ) -> bool {
        self.holds && now < listed + self.age_max && self.is_idle(cpu_time)
    }

    fn is_idle(&self, cpu_time: Option<CpuTime>) -> bool {
        cpu_time.is_some() && self.sample == cpu_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_listing_holds_while_the_server_is_idle() {
        let [a, b, c, d] = [1, 2, 3, 4].map(|slices| Some(CpuTime::of(10 * slices, slices)));
        let mut idle = ServerIdle::default();
        idle.query_ended(ms(100));
        idle.listing_started(a);
        assert!(!idle.listing_holds(a, ms(100), ms(101)), "not sampled yet");
        assert_eq!(idle.sample_due(), Some(ms(103)));
        idle.record_sample(a);
        assert_eq!(idle.sample_due(), None);
        assert!(idle.listing_holds(a, ms(100), ms(599)));
        assert!(
            !idle.listing_holds(a, ms(100), ms(600)),
            "for half a second"
        );
        assert!(idle.listing_started(a));
        assert!(idle.listing_holds(a, ms(100), ms(2099)), "it was idle");
        assert!(!idle.listing_holds(b, ms(100), ms(130)), "it has run");
        assert!(!idle.listing_started(b));
        idle.query_ended(ms(200));
        idle.record_sample(b);
        assert!(
            !idle.listing_holds(b, ms(200), ms(700)),
            "half a second again"
        );
        assert!(idle.listing_holds(b, ms(200), ms(699)));
        idle.query_started(c);
        idle.query_ended(ms(300));
        idle.record_sample(c);
        assert!(
            !idle.listing_holds(c, ms(200), ms(330)),
            "it ran before another query"
        );
        assert!(!idle.listing_holds(None, ms(200), ms(330)), "gone");
        idle.listing_started(d);
        idle.query_ended(ms(400));
        idle.record_sample(None);
        assert!(!idle.listing_holds(None, ms(400), ms(430)), "unknown");
    }

    #[test]
    fn a_listing_may_grow_older_while_nothing_happens() {
        let cpu_time = Some(CpuTime::of(1, 1));
        let mut idle = ServerIdle::default();
        let mut ages = Vec::new();
        for _ in 0..6 {
            idle.query_ended(ms(0));
            idle.record_sample(cpu_time);
            idle.listing_started(cpu_time);
            let age = (1..).map(|half| half * ms(500));
            ages.extend(
                age.take_while(|age| idle.listing_holds(cpu_time, ms(0), *age - ms(1)))
                    .last(),
            );
        }
        assert_eq!(ages, [2000, 8000, 32000, 60000, 60000, 60000].map(ms));
    }
}
