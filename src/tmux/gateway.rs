//! The gateway: one thread per tmux server asks it for all pollers together.
//!
//! Pollers and the coordinator send [`Message`]s; the thread `td-gateway` (see [`super::scheduler`])
//! answers each over a channel of its own, at once or when there is something to tell. Sending
//! blocks only while the inbox is full. The thread ends when its [`Gateway`] is dropped or shut
//! down, or all handles are gone; askers that are left then get an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crossbeam_channel::{Sender, bounded};

use super::ask::{ListWish, Message, Pending, Programs, SessionAnswer, SessionLook, ended};
use super::listing::Listing;
use super::scheduler::Scheduler;
use super::server::Server;
use crate::clock::Clock;
use crate::error::Result;
use crate::thread::{self, Handle, Panicked, Stop, StopGuard, stop_pair};

/// How many questions may wait: four times the sessions of a very busy server, each of which asks
/// one question at a time. More only wait longer to be sent.
pub(super) const INBOX_MESSAGES_MAX: usize = 1024;

/// The gateway of one server.
#[derive(Debug)]
#[must_use = "dropping the gateway ends it"]
pub struct Gateway {
    handle: GatewayHandle,
    thread: Handle<()>,
    _running: StopGuard,
}

impl Gateway {
    /// Starts the gateway. The server need not be there yet.
    ///
    /// # Errors
    /// When the system has no more threads to give.
    pub fn start(server: Server, clock: Clock) -> Result<Self> {
        let (messages, inbox) = bounded(INBOX_MESSAGES_MAX);
        let (running, stop) = stop_pair();
        let (alive, ended) = stop_pair();
        let processes = Arc::new(AtomicU64::new(0));
        let epoch = clock.now();
        let mut scheduler = Scheduler::new((server, clock, epoch), stop, Arc::clone(&processes));
        let thread = thread::spawn("td-gateway", move || {
            // Dropped at the end of the thread, after a panic too: no asker waits for ever.
            let _alive = alive;
            scheduler.serve(&inbox);
        })?;
        let handle = GatewayHandle {
            messages,
            ended,
            processes,
            epoch,
        };
        Ok(Self {
            handle,
            thread,
            _running: running,
        })
    }

    /// A handle to ask with.
    pub fn handle(&self) -> GatewayHandle {
        self.handle.clone()
    }

    /// Whether the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the gateway and waits for its thread, which may take as long as one tmux process.
    ///
    /// # Errors
    /// When the thread had panicked.
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

/// Asks the gateway. Cheap to clone.
#[derive(Clone, Debug)]
pub struct GatewayHandle {
    messages: Sender<Message>,
    ended: Stop,
    processes: Arc<AtomicU64>,
    epoch: Instant,
}

impl GatewayHandle {
    /// The beginning of the time in which looks are dated.
    pub(crate) fn epoch(&self) -> Instant {
        self.epoch
    }

    /// Everything that the server holds, the programs in the foreground included.
    ///
    /// # Errors
    /// `is_gone()` without a server or when the gateway has ended; `is_timeout()` when the server
    /// is hung; `is_missing_program()` without tmux.
    pub fn listing(&self) -> Result<Arc<Listing>> {
        self.ask_listing(Programs::Named)?.wait()
    }

    /// What a session's panes show.
    ///
    /// # Errors
    /// As for [`GatewayHandle::listing`].
    pub fn look(&self, look: SessionLook) -> Result<SessionAnswer> {
        self.ask_look(look)?.wait()
    }

    /// Asks for a listing without waiting for it.
    ///
    /// # Errors
    /// `is_gone()` when the gateway has ended.
    pub fn ask_listing(&self, programs: Programs) -> Result<Pending<Arc<Listing>>> {
        self.ask_list(ListWish {
            programs,
            ..ListWish::default()
        })
    }

    /// Asks for a listing of this moment: a terminal has been opened, which may be a new pane's.
    ///
    /// # Errors
    /// `is_gone()` when the gateway has ended.
    pub(crate) fn ask_listing_now(&self) -> Result<Pending<Arc<Listing>>> {
        self.ask_list(ListWish {
            is_fresh: true,
            ..ListWish::default()
        })
    }

    /// Asks for the next listing, once this one does not hold any more: the server has done
    /// something, or may have.
    ///
    /// # Errors
    /// `is_gone()` when the gateway has ended.
    pub(crate) fn ask_listing_after(&self, known: Arc<Listing>) -> Result<Pending<Arc<Listing>>> {
        self.ask_list(ListWish {
            known: Some(known),
            ..ListWish::default()
        })
    }

    fn ask_list(&self, wish: ListWish) -> Result<Pending<Arc<Listing>>> {
        let (asker, pending) = Pending::new(self.ended.clone());
        self.send(Message::List(asker, wish))?;
        Ok(pending)
    }

    /// Asks for a look without waiting for it.
    ///
    /// # Errors
    /// `is_gone()` when the gateway has ended.
    pub fn ask_look(&self, look: SessionLook) -> Result<Pending<SessionAnswer>> {
        let (asker, pending) = Pending::new(self.ended.clone());
        self.send(Message::Look(Box::new(look), asker))?;
        Ok(pending)
    }

    /// How many tmux processes the gateway has run.
    pub fn processes(&self) -> u64 {
        self.processes.load(Ordering::Relaxed)
    }

    fn send(&self, message: Message) -> Result<()> {
        self.messages.send(message).map_err(|_| ended())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nowhere() -> Gateway {
        let server = Server::socket("/nonexistent/td-observe/socket");
        Gateway::start(server, Clock::system()).unwrap()
    }

    #[test]
    fn a_panic_is_an_error_for_every_asker() {
        let gateway = nowhere();
        let handle = gateway.handle();
        handle.send(Message::Panic).unwrap();
        let asked: Vec<_> = (0..10)
            .map(|_| handle.ask_listing(Programs::Named))
            .collect();
        for pending in asked {
            let error = pending.and_then(Pending::wait).unwrap_err();
            assert!(error.is_gone(), "{error:?}");
        }
        assert!(handle.look(SessionLook::default()).unwrap_err().is_gone());
        assert_eq!(gateway.shutdown().unwrap_err().message, "on purpose");
    }

    #[test]
    fn a_gateway_that_is_shut_down_leaves_no_asker_behind() {
        let gateway = nowhere();
        let handle = gateway.handle();
        assert!(handle.listing().unwrap_err().is_gone(), "no server");
        gateway.shutdown().unwrap();
        assert!(handle.listing().unwrap_err().is_gone());
    }

    #[test]
    fn it_ends_with_its_last_handle() {
        let Gateway {
            handle,
            thread,
            _running,
        } = nowhere();
        drop(handle);
        thread.join().unwrap();
    }
}
