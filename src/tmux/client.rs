//! The client of a tmux server: runs one tmux process at a time, and reuses a listing while it holds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::select_biased;

use super::batches::screens_max;
use super::capture::CaptureSpec;
use super::counters::Counters;
use super::digest::Freshness;
use super::listing::Listing;
use super::probe::{ProbeResult, ScreenSpec, probe};
use super::server::Server;
use super::server_idle::ServerIdle;
use super::snapshot::Snapshot;
use super::speculation::Speculations;
use crate::clock::Clock;
use crate::error::Result;
use crate::thread::{Stop, is_stopped};

/// The age up to which a listing is reused while the server has read nothing, even if the server is not idle
/// (see [`super::server_idle`]).
const LISTING_AGE_MAX: Duration = Duration::from_secs(1);

/// The age up to which numbers suffice for requesters that only need new panes, and names suffice while the
/// set of panes is unchanged.
const NUMBERS_AGE_MAX: Duration = Duration::from_millis(200);
const NAMES_AGE_MAX: Duration = Duration::from_millis(1500);

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
    /// The last full listing, which later refreshes do not replace.
    last_full: Option<Arc<Listing>>,
    listing_count: u64,
    /// Until this time, the server is left to other clients.
    free_at: Instant,
    idle: ServerIdle,
}

/// A listing and its age.
struct TimedListing {
    listing: Arc<Listing>,
    number: u64,
    /// The number of bytes that the server had read before; `None` if they are not all from its panes.
    server_bytes: Option<u64>,
    at: Duration,
    named_at: Duration,
}

impl TimedListing {
    /// Returns true if the server has read nothing since the listing.
    fn is_idle(&self, now: Freshness) -> bool {
        now.server_bytes.is_some() && now.server_bytes == self.server_bytes
    }

    /// Returns true if its names are as recent as its numbers.
    fn is_named(&self) -> bool {
        self.named_at == self.at
    }

    fn snapshot(
        &self,
        queried: Freshness,
        is_new: bool,
        screens: HashMap<u32, String>,
    ) -> Snapshot {
        let freshness = Freshness {
            second: self.listing.second.unwrap_or(queried.second),
            ..queried
        };
        Snapshot {
            listing: Arc::clone(&self.listing),
            number: self.number,
            freshness,
            is_new,
            screens,
            speculations: Speculations::default(),
        }
    }
}

/// The extent of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extent {
    /// The last listing, as long as the server has read nothing. In that time, no pane has changed by itself,
    /// and the coordinator's next listing shows changes by users (sizes, names, closed panes).
    #[default]
    Cached,
    /// The numbers of all panes; names may be older.
    Numbers,
    /// Numbers and names.
    Names,
    /// Numbers, names and the programs in the foreground.
    Programs,
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
            last_full: None,
            listing_count: 0,
            idle: ServerIdle::default(),
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

    /// Returns the time of the last listing, and the number of bytes that the server had read before it, if
    /// known.
    pub fn last_listed(&self) -> Option<(Duration, u64)> {
        let last = self.last.as_ref()?;
        Some((last.at, last.server_bytes?))
    }

    /// Returns when [`Client::sample_idle`] is due.
    pub fn sample_due(&self) -> Option<Duration> {
        self.idle.sample_due().filter(|_| self.last_full.is_some())
    }

    /// Samples the server's CPU time once it has finished the last query.
    pub fn sample_idle(&mut self) {
        if self.sample_due().is_some_and(|due| due <= self.now()) {
            self.idle.record_sample(self.counters.cpu_time());
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
        let last = self.last.as_ref()?;
        (self.now() < last.at + NUMBERS_AGE_MAX).then_some(&last.listing)
    }

    /// Returns a snapshot with as few queries as possible. If the server is queried, speculative captures may
    /// come with the reply.
    pub fn snapshot(
        &mut self,
        extent: Extent,
        screens: &[ScreenSpec],
        speculative: Vec<CaptureSpec>,
    ) -> Result<Snapshot> {
        let mut now = self.freshness();
        let Some(last) = self.last.take() else {
            return self.list(extent, now);
        };
        let are_names_old = now.at >= last.named_at + NAMES_AGE_MAX;
        let serves = match extent {
            Extent::Cached => {
                last.is_idle(now) && now.at < last.at + LISTING_AGE_MAX || self.holds(&last, now)
            }
            Extent::Numbers => self.holds(&last, now),
            Extent::Names => last.is_named() && self.holds(&last, now),
            Extent::Programs => false,
        };
        if serves && screens.is_empty() {
            let snapshot = last.snapshot(now, false, HashMap::new());
            self.last = Some(last);
            return Ok(snapshot);
        }
        let was_idle = self.idle.listing_started(self.counters.cpu_time());
        // A change that was not noticed after the last listing may be a rename.
        if extent >= Extent::Names || are_names_old || was_idle {
            return self.list(extent, now);
        }
        let (beside_max, alone_max) = screens_max(last.listing.panes.len());
        let (first, more) = screens.split_at(screens.len().min(beside_max));
        let probed_at = self.freshness();
        let probed = self.probe(Some(&last.listing), first, &speculative)?;
        let Some(listing) = probed.listing else {
            now = self.freshness();
            return self.list(extent, now);
        };
        let mut captured = by_pane(first, probed.screens);
        for more in more.chunks(alone_max) {
            // A later screen is more conclusive.
            captured.extend(by_pane(more, self.probe(None, more, &[])?.screens));
        }
        let last = self.last.insert(TimedListing {
            listing: Arc::new(listing),
            number: self.listing_count + 1,
            server_bytes: now.server_bytes,
            at: now.at,
            named_at: last.named_at,
        });
        self.listing_count += 1;
        Ok(Snapshot {
            speculations: Speculations::new(speculative, probed.captures, probed_at),
            ..last.snapshot(now, true, captured)
        })
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
        let has_names = last.is_named() || now.at < last.named_at + NAMES_AGE_MAX;
        let cpu_time = self.counters.cpu_time();
        last.is_idle(now) && has_names && self.idle.listing_holds(cpu_time, last.at, now.at)
    }

    fn probe(
        &mut self,
        known: Option<&Listing>,
        screens: &[ScreenSpec],
        speculative: &[CaptureSpec],
    ) -> Result<ProbeResult> {
        let identity = self
            .last_full
            .as_ref()
            .map(|listing| listing.server.clone());
        let identity = identity.unwrap_or_default();
        let captures = screens.len() + speculative.len();
        self.query(captures, |server, clock| {
            probe(server, clock, known, screens, (&identity, speculative))
        })
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
        let began = self.clock.now();
        let reply = run(&self.server, &self.clock);
        let ended = self.clock.now();
        self.idle
            .query_ended(ended.saturating_duration_since(self.epoch));
        let duration = ended - began;
        self.server.captures().add(captures, duration);
        self.free_at = ended + duration.saturating_sub(PROCESS_OVERHEAD).min(PAUSE_MAX);
        reply
    }

    /// Takes a full listing.
    fn list(&mut self, extent: Extent, mut now: Freshness) -> Result<Snapshot> {
        let commands = extent == Extent::Programs;
        let mut listing = self.query(0, |server, clock| Listing::query(server, clock, commands))?;
        let last_full = self.last_full.take();
        // Byte counts of another server cannot be compared with this one's.
        if last_full.as_ref().map(|last| &last.server) != Some(&listing.server) {
            self.counters = Counters::of(listing.server.pid);
            now.server_bytes = None;
        }
        if let Some(last_full) = last_full {
            listing.keep_pids(&last_full);
        }
        let listing = Arc::new(listing);
        self.last_full = Some(Arc::clone(&listing));
        self.listing_count += 1;
        let last = self.last.insert(TimedListing {
            listing,
            number: self.listing_count,
            // The server also reads the names of programs. After such a listing, the number of bytes is not
            // only from its panes.
            server_bytes: now.server_bytes.filter(|_| !commands),
            at: now.at,
            named_at: now.at,
        });
        Ok(last.snapshot(now, true, HashMap::new()))
    }

    /// Runs one tmux process that takes this number of captures.
    pub fn run_captures<T>(
        &mut self,
        captures: usize,
        run: impl FnOnce(&Server, &Clock) -> Result<T>,
    ) -> Result<T> {
        self.idle.query_started(self.counters.cpu_time());
        self.query(captures, run)
    }

    pub fn server(&self) -> &Server {
        &self.server
    }

    pub fn is_stopped(&self) -> bool {
        is_stopped(&self.stop)
    }
}

fn by_pane(screens: &[ScreenSpec], captured: Vec<String>) -> HashMap<u32, String> {
    let panes = screens.iter().map(|screen| screen.pane);
    panes.zip(captured).collect()
}
