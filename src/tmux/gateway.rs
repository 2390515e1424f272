//! The gateway: one thread for each tmux server, which queries the server for all pollers together.
//!
//! Pollers and the coordinator send [`Message`]s. The thread `td-gateway` (see [`super::scheduler`]) replies
//! to each over a separate channel, immediately or when something has changed. Sending blocks only while the
//! inbox is full. The thread ends when its [`Gateway`] is dropped or shut down, or when all handles are
//! dropped; waiting requesters then get an error.

use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Sender, bounded};

use super::active::ActiveRequest;
use super::listing::Listing;
use super::pending::{PendingReply, ended};
use super::reply::SessionReply;
use super::request::{ForegroundPrograms, ListingRequest, SessionRequest};
use super::scheduler::{INBOX_MESSAGES_MAX, Message, Scheduler};
use super::server::Server;
use crate::clock::Clock;
use crate::error::Result;
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
