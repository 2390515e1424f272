//! The gateway: one thread for each tmux server, which queries the server for all pollers together.
//!
//! Pollers and the coordinator send [`Message`]s. The thread `td-gateway` (see [`super::scheduler`]) replies
//! to each over a separate channel, immediately or when something has changed. Sending blocks only while the
//! inbox is full. The thread ends when its [`Gateway`] is dropped or shut down, or when all handles are
//! dropped; waiting requesters then get an error.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, never, select_biased};

use super::active::{ActiveRequest, complete, fail_all};
use super::client::{Client, LISTING_TICK};
use super::listing::Listing;
use super::request::{
    ForegroundPrograms, ListingRequest, PendingReply, ReplySender, SessionReply, SessionRequest,
    ended,
};
use super::schedule::{AdaptiveRounds, PollSchedule, Round, RoundResult, next_tick};
use super::server::Server;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::thread::{self, Handle, Panicked, Stop, StopGuard, stop_pair};

/// The gateway of one server.
#[derive(Debug)]
#[must_use = "dropping the gateway ends it"]
pub struct Gateway {
    handle: GatewayHandle,
    thread: Handle<()>,
    _running: StopGuard,
}

impl Gateway {
    /// Starts the gateway. The server need not be running yet.
    ///
    /// # Errors
    /// When the system cannot start a thread.
    pub fn start(server: Server, clock: Clock) -> Result<Self> {
        let (messages, inbox) = bounded(INBOX_MESSAGES_MAX);
        let (running, stop) = stop_pair();
        let (alive, ended) = stop_pair();
        let epoch = clock.now();
        let handle = GatewayHandle {
            messages,
            ended,
            clock: clock.clone(),
            epoch,
        };
        let mut scheduler = Scheduler::new((server, clock, epoch), stop);
        let thread = thread::spawn("td-gateway", move || {
            // Dropped at the end of the thread, even after a panic, so that no requester hangs.
            let _alive = alive;
            scheduler.serve(&inbox);
        })?;
        Ok(Self {
            handle,
            thread,
            _running: running,
        })
    }

    /// Returns a handle for requests.
    pub fn handle(&self) -> GatewayHandle {
        self.handle.clone()
    }

    /// Ends the gateway and waits for its thread, which may take as long as one tmux process.
    ///
    /// # Errors
    /// When the thread has panicked.
    pub fn shutdown(self) -> Result<(), Panicked> {
        let Self {
            handle,
            thread,
            _running: running,
        } = self;
        drop((handle, running));
        thread.join()
    }
}

/// Sends requests to the gateway. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GatewayHandle {
    messages: Sender<Message>,
    ended: Stop,
    clock: Clock,
    epoch: Instant,
}

impl GatewayHandle {
    /// Returns the start of the gateway's time, which dates captures.
    pub(crate) fn epoch(&self) -> Instant {
        self.epoch
    }

    /// Returns all sessions and panes of the server, with the programs in the foreground.
    ///
    /// # Errors
    /// `is_gone()` without a server or when the gateway has ended; `is_timeout()` when the server
    /// hangs; `is_missing_program()` without tmux.
    pub fn listing(&self) -> Result<Arc<Listing>> {
        self.request_listing(ForegroundPrograms::Included)?.wait()
    }

    /// Requests a listing without waiting for it.
    ///
    /// # Errors
    /// `is_gone()` when the gateway has ended.
    pub fn request_listing(
        &self,
        programs: ForegroundPrograms,
    ) -> Result<PendingReply<Arc<Listing>>> {
        self.send_listing(ListingRequest {
            programs,
            ..ListingRequest::default()
        })
    }

    /// Requests a listing that is taken after the request. Used for a new terminal, which may belong to a new
    /// pane, and after the end of a session.
    ///
    /// # Errors
    /// `is_gone()` when the gateway has ended.
    pub(crate) fn request_fresh_listing(&self) -> Result<PendingReply<Arc<Listing>>> {
        self.send_listing(ListingRequest {
            is_fresh: true,
            ..ListingRequest::default()
        })
    }

    /// Requests the next listing once `known` no longer holds: the server has done something, or may have.
    ///
    /// # Errors
    /// `is_gone()` when the gateway has ended.
    pub(crate) fn request_listing_after(
        &self,
        known: Arc<Listing>,
    ) -> Result<PendingReply<Arc<Listing>>> {
        self.send_listing(ListingRequest {
            known: Some(known),
            ..ListingRequest::default()
        })
    }

    fn send_listing(&self, request: ListingRequest) -> Result<PendingReply<Arc<Listing>>> {
        let (reply_to, pending) = PendingReply::new(self.ended.clone());
        self.send(Message::Listing(request, reply_to))?;
        Ok(pending)
    }

    /// Requests the state of a session and of its panes without waiting for it.
    ///
    /// # Errors
    /// `is_gone()` when the gateway has ended.
    pub fn request_session(&self, request: SessionRequest) -> Result<PendingReply<SessionReply>> {
        let (reply_to, pending) = PendingReply::new(self.ended.clone());
        let now = self.clock.now().saturating_duration_since(self.epoch);
        let request = ActiveRequest::new(request, reply_to, now);
        self.send(Message::Session(Box::new(request)))?;
        Ok(pending)
    }

    fn send(&self, message: Message) -> Result<()> {
        self.messages.send(message).map_err(|_| ended())
    }
}

/// The bound of the inbox: four times the sessions of a very busy server, each with one request at a time.
/// When it is full, sending a request waits.
pub(super) const INBOX_MESSAGES_MAX: usize = 1024;

/// The time for which an urgent request waits for others. Threads that wake at the same time send their
/// requests within a fraction of it, and the delay is not noticeable.
const GATHER: Duration = Duration::from_millis(2);

/// The maximum time by which a request is evaluated early, to share a round with others.
const SHARE_WINDOW: Duration = Duration::from_millis(100);

/// A message to the gateway's thread.
#[derive(Debug)]
pub(super) enum Message {
    Listing(ListingRequest, ReplySender<Arc<Listing>>),
    /// Requests the state of a session.
    Session(Box<ActiveRequest>),
    /// Panics, to test that no requester hangs.
    #[cfg(test)]
    Panic,
}

impl Message {
    fn fail(self, error: &Error) {
        match self {
            Self::Listing(_, reply_to) => reply_to.send(Err(error.without_cause())),
            Self::Session(mut request) => request.fail(error),
            #[cfg(test)]
            Self::Panic => {}
        }
    }
}

/// The state of the thread.
pub(super) struct Scheduler {
    client: Client,
    clock: Clock,
    stop: Stop,
    adaptive_rounds: AdaptiveRounds,
    /// The pending requests, at most one from each poller.
    sessions: Vec<ActiveRequest>,
    listings: Vec<(ListingRequest, ReplySender<Arc<Listing>>)>,
}

impl Scheduler {
    /// Creates the scheduler of a server. `epoch` is the start of the gateway's time.
    pub fn new((server, clock, epoch): (Server, Clock, Instant), stop: Stop) -> Self {
        Self {
            client: Client::new((server, clock.clone(), epoch), stop.clone()),
            clock,
            stop,
            adaptive_rounds: AdaptiveRounds::default(),
            sessions: Vec::new(),
            listings: Vec::new(),
        }
    }

    /// Serves until it is stopped or all handles are dropped. Errors are sent to the requesters and never end
    /// the loop.
    pub fn serve(&mut self, inbox: &Receiver<Message>) {
        while self.gather(inbox).is_some() {
            self.listings.retain(|(_, reply_to)| reply_to.is_awaited());
            if let Err(error) = self.round()
                && error.is_timeout()
            {
                // Requests that arrived during the timeout have waited as long, so they also fail.
                inbox.try_iter().for_each(|message| message.fail(&error));
                fail_all(&mut self.sessions, &error);
                self.sessions.clear();
            }
        }
    }

    /// Waits for messages and for the next tick; `None` at the end.
    fn gather(&mut self, inbox: &Receiver<Message>) -> Option<()> {
        let tick = self.wake().map_or_else(never, |at| self.clock.at(at));
        select_biased! {
            recv(self.stop) -> _ => return None,
            // An error means that all handles, and therefore all requesters, are gone.
            recv(inbox) -> message => self.receive(message.ok()?),
            recv(tick) -> _ => {}
        }
        inbox
            .try_iter()
            .take(INBOX_MESSAGES_MAX)
            .for_each(|message| self.receive(message));
        self.client.sample_idle();
        if !self.is_urgent() {
            return Some(());
        }
        let over = self.clock.after(GATHER);
        for _ in 0..INBOX_MESSAGES_MAX {
            select_biased! {
                recv(self.stop) -> _ => return None,
                recv(inbox) -> message => self.receive(message.ok()?),
                recv(over) -> _ => break,
            }
        }
        Some(())
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Listing(request, reply_to) => self.listings.push((request, reply_to)),
            Message::Session(request) => self.sessions.push(*request),
            #[cfg(test)]
            Message::Panic => panic!("on purpose"),
        }
    }

    fn is_urgent(&self) -> bool {
        self.needs_listing() || self.sessions.iter().any(ActiveRequest::is_urgent)
    }

    fn needs_listing(&self) -> bool {
        let mut requests = self.listings.iter();
        requests.any(|(request, _)| !self.is_current(request))
    }

    /// Returns true if the requester already has the current listing.
    fn is_current(&self, request: &ListingRequest) -> bool {
        let known = request.known.as_ref();
        known.is_some_and(|known| self.client.is_current(known))
    }

    /// Returns when to check again for due requests.
    fn wake(&self) -> Option<Instant> {
        let (now, server_bytes) = (self.client.now(), self.server_bytes());
        let holding = self.client.holding();
        let wakes = self.sessions.iter().map(|request| {
            if let Some(interval) = settled_interval(request, holding) {
                return next_tick(now, interval);
            }
            let (rounds, due) = (
                &self.adaptive_rounds,
                request.due(&self.adaptive_rounds, server_bytes),
            );
            request.adaptive().map_or(due, |adaptive| {
                rounds.next_check(adaptive, server_bytes, (now, due))
            })
        });
        let listing = (!self.listings.is_empty()).then(|| next_tick(now, LISTING_TICK));
        let wakes = wakes.chain(listing).chain(self.client.sample_due());
        wakes.min().map(|at| self.client.epoch() + at)
    }

    /// Returns the number of bytes that the server has read, if a request depends on it.
    fn server_bytes(&self) -> Option<u64> {
        let mut sessions = self.sessions.iter();
        let depends = sessions.any(|request| request.adaptive().is_some());
        depends.then(|| self.client.server_bytes())?
    }

    /// Removes and returns the requests that must be evaluated now.
    fn take_due(&mut self) -> Vec<ActiveRequest> {
        let (now, server_bytes) = (self.client.now(), self.server_bytes());
        let holding = self.client.holding();
        let needs_listing = self.needs_listing();
        let sessions = std::mem::take(&mut self.sessions);
        let (due, later) = sessions.into_iter().partition(|request| {
            if settled_interval(request, holding).is_some() {
                return false;
            }
            let due = request.due(&self.adaptive_rounds, server_bytes);
            // A listing that is needed anyway also serves adaptive requests, if it leads to no captures that
            // would not be due soon.
            let shares = needs_listing && request.adaptive().is_some();
            let is_soon = due <= now + SHARE_WINDOW || self.adaptive_rounds.is_idle(server_bytes);
            due <= now || shares && is_soon
        });
        self.sessions = later;
        due
    }

    /// Replies with a recent listing to requesters that only need new panes.
    fn reply_recent(&mut self) {
        let Some(recent) = self.client.recent() else {
            return;
        };
        let serves = |request: &ListingRequest| {
            let known = request.known.as_ref();
            request.programs == ForegroundPrograms::Omitted
                && !request.is_fresh
                && known.is_none_or(|known| !Arc::ptr_eq(known, recent))
        };
        let served = self.listings.extract_if(.., |(request, _)| serves(request));
        for (_, reply_to) in served {
            reply_to.send(Ok(Arc::clone(recent)));
        }
    }

    /// Replies to the due requests. An error concerns the server, and the due requests have already failed
    /// with it.
    fn round(&mut self) -> Result<()> {
        self.reply_recent();
        let mut due = self.take_due();
        if !due.is_empty() {
            due.retain(ActiveRequest::is_awaited);
            self.sessions.retain(ActiveRequest::is_awaited);
        }
        let listings = std::mem::take(&mut self.listings);
        let (current, listings) = listings
            .into_iter()
            .partition::<Vec<_>, _>(|(request, _)| self.is_current(request));
        self.listings = current;
        if due.is_empty() && listings.is_empty() {
            return Ok(());
        }
        let mut requests = listings.iter();
        let programs =
            requests.any(|(request, _)| request.programs == ForegroundPrograms::Included);
        let (began, server_time) = (self.client.freshness(), self.client.server_time());
        let snapshot = match self.client.snapshot(programs) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                fail_all(&mut due, &error);
                for (_, reply_to) in listings {
                    reply_to.send(Err(error.without_cause()));
                }
                return Err(error);
            }
        };
        for (_, reply_to) in listings {
            reply_to.send(Ok(Arc::clone(&snapshot.listing)));
        }
        let is_adaptive = due.iter().any(|request| request.adaptive().is_some());
        let ready: Vec<ActiveRequest> = due
            .extract_if(.., |request| request.evaluate(&snapshot))
            .collect();
        self.sessions.append(&mut due);
        let limits = snapshot
            .listing
            .panes
            .iter()
            .map(|state| state.history_limit);
        let result = RoundResult {
            has_news: ready.iter().any(|request| !request.captures.is_empty()),
            is_flood: ready.iter().any(|request| request.is_flood),
            history_limit_min: limits.min().unwrap_or(0),
        };
        complete(&mut self.client, ready, snapshot);
        if is_adaptive {
            let round = Round {
                began: began.at,
                ended: self.client.now(),
                server_time: self.client.server_time() - server_time,
                server_bytes: began.server_bytes,
            };
            self.adaptive_rounds.record(round, result);
        }
        Ok(())
    }
}

/// Returns the interval at which to check a listing that still holds and cannot show a change to a request.
fn settled_interval(request: &ActiveRequest, holding: Option<u64>) -> Option<Duration> {
    match request.schedule()? {
        PollSchedule::Fixed(interval) => request.is_settled_by(holding?).then_some(*interval),
        PollSchedule::Adaptive(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_server() -> Gateway {
        let server = Server::socket("/nonexistent/td-observe/socket");
        Gateway::start(server, Clock::system()).unwrap()
    }

    #[test]
    fn a_panic_is_an_error_for_every_requester() {
        let gateway = without_server();
        let handle = gateway.handle();
        handle.send(Message::Panic).unwrap();
        let requested: Vec<_> = (0..10)
            .map(|_| handle.request_listing(ForegroundPrograms::Included))
            .collect();
        for pending in requested {
            let error = pending.and_then(PendingReply::wait).unwrap_err();
            assert!(error.is_gone(), "{error:?}");
        }
        let requested = handle.request_session(SessionRequest::default());
        let error = requested.and_then(PendingReply::wait).unwrap_err();
        assert!(error.is_gone());
        assert_eq!(gateway.shutdown().unwrap_err().message, "on purpose");
    }

    #[test]
    fn a_shut_down_gateway_leaves_no_requester_behind() {
        let gateway = without_server();
        let handle = gateway.handle();
        assert!(handle.listing().unwrap_err().is_gone(), "no server");
        gateway.shutdown().unwrap();
        assert!(handle.listing().unwrap_err().is_gone());
    }

    #[test]
    fn the_gateway_ends_with_its_last_handle() {
        let Gateway {
            handle,
            thread,
            _running,
        } = without_server();
        drop(handle);
        thread.join().unwrap();
    }
}
