//! The client of a tmux server: runs one tmux process at a time, and reuses a listing while it holds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::select_biased;

use super::capture::{CaptureResult, CaptureSpec, capture};
use super::digest::Freshness;
use super::listing::{Listing, ServerIdentity};
use super::procfs::{Counters, CpuTime};
use super::server::Server;
use super::state::PaneState;
use crate::clock::Clock;
use crate::error::Result;
use crate::thread::{Stop, is_stopped};

/// The interval at which a known listing is checked, which is also that of the listings for streamed panes,
/// and the age up to which one suffices for requesters that only need new panes.
pub(super) const LISTING_TICK: Duration = Duration::from_millis(200);

/// The longest pause after a process: twice the longest duration of a batch.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// The time that a process takes to start and end, during which the server is free for other clients.
const PROCESS_OVERHEAD: Duration = Duration::from_millis(2);

/// Queries one server, and leaves it time for other clients between queries.
pub(super) struct Client {
    server: Server,
    clock: Clock,
    stop: Stop,
    /// The start of the gateway's time.
    epoch: Instant,
    counters: Counters,
    last: Option<TimedListing>,
    listing_count: u64,
    /// Until this time, the server is left to other clients.
    free_at: Instant,
    idle: ServerIdle,
    /// See [`Client::server_time`].
    server_time: Duration,
}

/// A listing and its age.
struct TimedListing {
    listing: Arc<Listing>,
    number: u64,
    /// The number of bytes that the server had read before; `None` if they are not all from its panes.
    server_bytes: Option<u64>,
    at: Duration,
    /// A query has failed since. The server may have ended, and the counters of a process that has ended stay as
    /// they were until its parent has waited for it.
    is_doubtful: bool,
}

impl TimedListing {
    /// Returns true if the server has read nothing since the listing.
    fn is_idle(&self, now: Freshness) -> bool {
        !self.is_doubtful && now.server_bytes.is_some() && now.server_bytes == self.server_bytes
    }

    fn snapshot(&self, queried: Freshness) -> Snapshot {
        let second = self.listing.second.unwrap_or(queried.second);
        Snapshot {
            listing: Arc::clone(&self.listing),
            number: self.number,
            freshness: Freshness { second, ..queried },
        }
    }
}

impl Client {
    pub fn new((server, clock, epoch): (Server, Clock, Instant), stop: Stop) -> Self {
        Self {
            server: server.until(stop.clone()),
            epoch,
            free_at: clock.now(),
            clock,
            stop,
            counters: Counters::default(),
            last: None,
            listing_count: 0,
            idle: ServerIdle::default(),
            server_time: Duration::ZERO,
        }
    }

    /// Returns the gateway's time.
    pub fn now(&self) -> Duration {
        self.clock.now().saturating_duration_since(self.epoch)
    }

    pub fn epoch(&self) -> Instant {
        self.epoch
    }

    /// Returns the number of bytes that the server has read, if known.
    pub fn server_bytes(&self) -> Option<u64> {
        self.counters.bytes()
    }

    /// Returns the server's time that all queries have taken: its CPU time, or if that is unknown, the time until its
    /// replies. On a busy machine, a server waits for a processor ten times as long as it works, and that is no time of
    /// the server.
    pub fn server_time(&self) -> Duration {
        self.server_time
    }

    /// Returns when [`Client::sample_idle`] is due.
    pub fn sample_due(&self) -> Option<Duration> {
        self.idle.sample_due().filter(|_| self.last.is_some())
    }

    /// Samples the server's CPU time if it has finished the last query.
    pub fn sample_idle(&mut self) {
        if self.sample_due().is_some_and(|due| due <= self.now()) {
            let is_running = self.counters.is_running();
            let cpu_time = self.counters.cpu_time();
            self.idle.take_sample(cpu_time, is_running, self.now());
        }
    }

    /// Returns the present time, to be taken before a query.
    pub fn freshness(&self) -> Freshness {
        Freshness {
            at: self.now(),
            second: self.clock.wall().seconds(),
            server_bytes: self.server_bytes(),
        }
    }

    /// Returns the last listing if it is recent enough for requesters that only need new panes.
    pub fn recent(&self) -> Option<&Arc<Listing>> {
        let last = self.last.as_ref().filter(|last| !last.is_doubtful)?;
        (self.now() < last.at + LISTING_TICK).then_some(&last.listing)
    }

    /// Returns the last listing if it still holds, or a new one; with `programs`, always a new one, with the
    /// programs in the foreground.
    pub fn snapshot(&mut self, programs: bool) -> Result<Snapshot> {
        let now = self.freshness();
        match &self.last {
            Some(last) if !programs && self.holds(last, now) => Ok(last.snapshot(now)),
            _ => self.list(programs, now),
        }
    }

    /// Returns the number of the last listing if it still holds.
    pub fn holding(&self) -> Option<u64> {
        let last = self.last.as_ref()?;
        self.holds(last, self.freshness()).then_some(last.number)
    }

    /// Returns true if this listing is the last one and still holds.
    pub fn is_current(&self, listing: &Arc<Listing>) -> bool {
        let last = self.last.as_ref();
        last.is_some_and(|last| Arc::ptr_eq(&last.listing, listing)) && self.holding().is_some()
    }

    /// Returns true if a listing holds because the server has done nothing since.
    fn holds(&self, last: &TimedListing, now: Freshness) -> bool {
        let cpu_time = self.counters.cpu_time();
        last.is_idle(now) && self.idle.listing_holds(cpu_time, last.at, now.at)
    }

    /// Runs one tmux process that takes this number of captures. After a long process, waits for about as
    /// long (within limits): the server then serves other clients, which would otherwise wait for all
    /// batches.
    fn query<T>(
        &mut self,
        captures: usize,
        run: impl FnOnce(&Server, &Clock) -> Result<T>,
    ) -> Result<T> {
        if let Some(pause) = self.free_at.checked_duration_since(self.clock.now()) {
            select_biased! {
                recv(self.stop) -> _ => {}
                recv(self.clock.after(pause)) -> _ => {}
            }
        }
        let (began, cpu_time) = (self.clock.now(), self.counters.cpu_time());
        let reply = run(&self.server, &self.clock);
        if let (Err(_), Some(last)) = (&reply, &mut self.last) {
            last.is_doubtful = true;
        }
        let ended = self.clock.now();
        let duration = ended - began;
        let since_epoch = ended.saturating_duration_since(self.epoch);
        self.idle.query_ended(since_epoch, duration);
        let cpu_times = self.counters.cpu_time().zip(cpu_time);
        self.server_time += cpu_times.map_or(duration, |(now, then)| now.since(then).min(duration));
        self.server.captures().add(captures, duration);
        self.free_at = ended + duration.saturating_sub(PROCESS_OVERHEAD).min(PAUSE_MAX);
        reply
    }

    /// Queries the server for a listing.
    fn list(&mut self, programs: bool, mut now: Freshness) -> Result<Snapshot> {
        self.idle.listing_started(self.counters.cpu_time());
        let mut listing = self.query(0, |server, clock| Listing::query(server, clock, programs))?;
        let last = self.last.take();
        // Byte counts of another server cannot be compared with this one's.
        if last.as_ref().map(|last| &last.listing.server) != Some(&listing.server) {
            self.counters = Counters::of(listing.server.pid);
            now.server_bytes = None;
        }
        if let Some(last) = last {
            listing.keep_pids(&last.listing);
        }
        self.listing_count += 1;
        let last = self.last.insert(TimedListing {
            listing: Arc::new(listing),
            number: self.listing_count,
            // The server also reads the names of programs. After such a listing, the number of bytes is not
            // only from its panes.
            server_bytes: now.server_bytes.filter(|_| !programs),
            at: now.at,
            is_doubtful: false,
        });
        Ok(last.snapshot(now))
    }

    /// Captures panes of this server.
    pub fn capture(
        &mut self,
        identity: &ServerIdentity,
        specs: &[CaptureSpec],
    ) -> Result<Vec<CaptureResult>> {
        self.idle.query_started(self.counters.cpu_time());
        self.query(specs.len(), |server, clock| {
            capture(server, clock, identity, specs)
        })
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    pub fn is_stopped(&self) -> bool {
        is_stopped(&self.stop)
    }
}

/// The known state of a server at one time.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub listing: Arc<Listing>,
    /// The number of the listing, counted by the gateway.
    pub number: u64,
    /// The time just before the query.
    pub freshness: Freshness,
}

impl Snapshot {
    /// Returns true if the pane is the only one of its window. tmux dates only the activity of windows.
    pub fn is_alone(&self, listed: &PaneState) -> bool {
        let mut panes = self.listing.panes.iter();
        !panes.any(|other| other.window_id == listed.window_id && other.pane != listed.pane)
    }
}

/// The time that a server needs to clean up after a query, and the interval at which one that still runs is looked at:
/// with a thousand panes, it needs some 5 ms of a processor, for which it may have to wait.
const CLEAN_UP: Duration = Duration::from_millis(3);

/// The maximum age of a listing while its server is idle: the initial value after a change, and the upper
/// bound.
const AGE_MIN: Duration = Duration::from_millis(500);
const AGE_MAX: Duration = Duration::from_secs(60);

/// The idleness of one server since its last listing, decided from its CPU time (pure).
///
/// A listing holds while the server has not run, and need not be requested again. A query makes the server
/// run, even shortly after its reply. Its CPU time is therefore sampled some time after each query, when it sleeps
/// again. Activity for other clients before the sample is not noticed until the next listing. That listing comes soon after a
/// change, and later and later while nothing happens: each listing adds such a blind interval, so frequent
/// listings would gain nothing.
///
/// CPU times are `None` if they are unknown; the server may then have done
/// anything.
#[derive(Debug)]
pub(super) struct ServerIdle {
    /// Until the sample after the last query is taken.
    clean_up: Option<CleanUp>,
    /// The sample: the CPU time some time after the last query.
    sample: Option<CpuTime>,
    /// True if the server is not known to have run between the last listing and the sample.
    holds: bool,
    /// The maximum age of a listing.
    age_max: Duration,
}

/// The time after a query, until the server sleeps.
#[derive(Debug)]
struct CleanUp {
    sample_at: Duration,
    /// When the sample is taken also if the server runs: it has had as long as for the query, so it does something else.
    latest: Duration,
}

impl Default for ServerIdle {
    fn default() -> Self {
        Self {
            clean_up: None,
            sample: None,
            holds: false,
            age_max: AGE_MIN,
        }
    }
}

impl ServerIdle {
    /// Records the start of a listing. If the server was idle since the last query, the next listing comes
    /// later.
    pub fn listing_started(&mut self, cpu_time: Option<CpuTime>) {
        self.age_max = if self.is_idle(cpu_time) {
            (self.age_max * 4).min(AGE_MAX)
        } else {
            AGE_MIN
        };
        self.holds = true;
    }

    /// Records the start of another query. If the server has run since the listing, the listing no longer
    /// holds.
    pub fn query_started(&mut self, cpu_time: Option<CpuTime>) {
        self.holds &= self.clean_up.is_some() || self.is_idle(cpu_time);
    }

    /// Records the end of a query, which took `duration`.
    pub fn query_ended(&mut self, now: Duration, duration: Duration) {
        self.clean_up = Some(CleanUp {
            sample_at: now + CLEAN_UP,
            latest: now + duration,
        });
        self.sample = None;
    }

    /// Returns when the next sample is due.
    pub fn sample_due(&self) -> Option<Duration> {
        self.clean_up.as_ref().map(|clean_up| clean_up.sample_at)
    }

    /// Takes the sample once it is due, unless the server still cleans up.
    pub fn take_sample(&mut self, cpu_time: Option<CpuTime>, is_running: bool, now: Duration) {
        match &mut self.clean_up {
            Some(clean_up) if is_running && now < clean_up.latest => {
                clean_up.sample_at = now + CLEAN_UP;
            }
            _ => (self.clean_up, self.sample) = (None, cpu_time),
        }
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
        idle.query_ended(ms(100), ms(1));
        idle.listing_started(a);
        assert!(!idle.listing_holds(a, ms(100), ms(101)), "not sampled yet");
        assert_eq!(idle.sample_due(), Some(ms(103)));
        idle.take_sample(a, false, ms(0));
        assert_eq!(idle.sample_due(), None);
        assert!(idle.listing_holds(a, ms(100), ms(599)));
        assert!(
            !idle.listing_holds(a, ms(100), ms(600)),
            "for half a second"
        );
        idle.listing_started(a);
        assert!(idle.listing_holds(a, ms(100), ms(2099)), "it was idle");
        assert!(!idle.listing_holds(b, ms(100), ms(130)), "it has run");
        idle.listing_started(b);
        idle.query_ended(ms(200), ms(1));
        idle.take_sample(b, false, ms(0));
        assert!(
            !idle.listing_holds(b, ms(200), ms(700)),
            "half a second again"
        );
        assert!(idle.listing_holds(b, ms(200), ms(699)));
        idle.query_started(c);
        idle.query_ended(ms(300), ms(1));
        idle.take_sample(c, false, ms(0));
        assert!(
            !idle.listing_holds(c, ms(200), ms(330)),
            "it ran before another query"
        );
        assert!(!idle.listing_holds(None, ms(200), ms(330)), "gone");
        idle.listing_started(d);
        idle.query_ended(ms(400), ms(1));
        idle.take_sample(None, false, ms(0));
        assert!(!idle.listing_holds(None, ms(400), ms(430)), "unknown");
    }

    #[test]
    fn a_sample_waits_until_the_server_sleeps_or_has_had_as_long_as_for_the_query() {
        let [a, b] = [1, 2].map(|slices| Some(CpuTime::of(10 * slices, slices)));
        let mut idle = ServerIdle::default();
        idle.listing_started(a);
        idle.query_ended(ms(100), ms(40));
        idle.take_sample(a, true, ms(103));
        assert!(!idle.listing_holds(a, ms(60), ms(104)), "it cleans up");
        assert_eq!(idle.sample_due(), Some(ms(106)));
        idle.take_sample(b, false, ms(106));
        assert_eq!(idle.sample_due(), None);
        assert!(
            idle.listing_holds(b, ms(60), ms(107)),
            "its clean-up is no news"
        );
        idle.query_ended(ms(200), ms(40));
        idle.take_sample(a, true, ms(239));
        assert_eq!(idle.sample_due(), Some(ms(242)));
        idle.take_sample(a, true, ms(242));
        assert_eq!(idle.sample_due(), None, "it does something else");
    }

    #[test]
    fn a_listing_may_grow_older_while_nothing_happens() {
        let cpu_time = Some(CpuTime::of(1, 1));
        let mut idle = ServerIdle::default();
        let mut ages = Vec::new();
        for _ in 0..6 {
            idle.query_ended(ms(0), ms(1));
            idle.take_sample(cpu_time, false, ms(0));
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
