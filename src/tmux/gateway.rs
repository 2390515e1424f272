//! The gateway: one thread per tmux server asks it for all pollers together.
//!
//! Pollers and the coordinator send [`Message`]s; the thread `td-gateway` receives them, gathers
//! what comes at the same tick, lists the server once, looks at what can have changed in a few
//! batches, and answers each asker over a channel of its own. It runs one tmux process at a time
//! and waits for nothing else than that process, at most its deadline, and the next message.
//! Sending blocks only while the inbox is full. The thread ends when its [`Gateway`] is dropped or
//! shut down, or all handles are gone; askers that are left then get an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};

use super::ask::{
    Asker, Message, PaneAnswer, Pending, Programs, SessionAnswer, SessionLook, again, ended,
};
use super::capture::{Shot, Shown, bytes_read_by, capture};
use super::depth::{BASELINE_ROWS, Margin, depth};
use super::listing::{Listing, PaneState, ServerIdentity};
use super::plan::{Cost, cut};
use super::server::Server;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::thread::{self, Handle, Panicked, Stop, StopGuard, is_stopped, stop_pair};

/// How many questions may wait: four times the sessions of a very busy server, each of which asks
/// one question at a time. More only wait longer to be sent.
const INBOX_MESSAGES_MAX: usize = 1024;

/// How long others may come after the first question of a tick. Threads that a timer wakes at the
/// same moment are there within a fraction of this, and nobody notices the delay.
const GATHER: Duration = Duration::from_millis(2);

/// How old a listing may be that serves a look at a server that has read nothing since.
const LISTING_AGE_MAX: Duration = Duration::from_secs(1);

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
        let mut desk = Desk {
            server: server.until(stop.clone()),
            clock,
            stop,
            known: None,
            last: None,
            processes: Arc::clone(&processes),
        };
        let thread = thread::spawn("td-gateway", move || {
            // Dropped at the end of the thread, after a panic too: no asker waits for ever.
            let _alive = alive;
            desk.serve(&inbox);
        })?;
        let handle = GatewayHandle {
            messages,
            ended,
            processes,
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
}

impl GatewayHandle {
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
        let (asker, pending) = Pending::new(self.ended.clone());
        self.send(Message::List(asker, programs))?;
        Ok(pending)
    }

    /// Asks for a look without waiting for it.
    ///
    /// # Errors
    /// `is_gone()` when the gateway has ended.
    pub fn ask_look(&self, look: SessionLook) -> Result<Pending<SessionAnswer>> {
        let (asker, pending) = Pending::new(self.ended.clone());
        self.send(Message::Look(look, asker))?;
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

/// What the thread works with.
struct Desk {
    server: Server,
    clock: Clock,
    stop: Stop,
    /// The server that answered last.
    known: Option<ServerIdentity>,
    last: Option<Listed>,
    processes: Arc<AtomicU64>,
}

/// A listing, and when it was taken.
struct Listed {
    listing: Arc<Listing>,
    /// What the server had read before; `None` where that does not tell about its panes.
    bytes: Option<u64>,
    at: Instant,
}

/// A session that is being looked at.
struct Visit {
    asker: Asker<SessionAnswer>,
    name: String,
    created: i64,
    panes: Vec<PaneAnswer>,
    /// Looks that are still to be taken.
    left: usize,
}

/// A look that is to be taken.
struct Task {
    visit: usize,
    listed: PaneState,
    shot: Shot,
}

impl Desk {
    // It serves others: every failure goes to those who asked, and none ends the loop.
    fn serve(&mut self, inbox: &Receiver<Message>) {
        while let Some(mut messages) = self.gather(inbox) {
            messages.retain(Message::is_awaited);
            if messages.is_empty() {
                continue;
            }
            if let Err(error) = self.answer(messages)
                && error.is_timeout()
            {
                // Who asked while the server was silent has waited as long: it hears of it too.
                inbox.try_iter().for_each(|message| message.fail(&error));
            }
        }
    }

    /// The next messages; `None` at the end.
    fn gather(&self, inbox: &Receiver<Message>) -> Option<Vec<Message>> {
        let first = select_biased! {
            recv(self.stop) -> _ => return None,
            recv(inbox) -> message => message.ok()?,
        };
        let mut messages = vec![first];
        let over = self.clock.after(GATHER);
        while messages.len() < INBOX_MESSAGES_MAX {
            select_biased! {
                recv(self.stop) -> _ => return None,
                recv(inbox) -> message => match message {
                    Ok(message) => messages.push(message),
                    // All handles are gone, and with them the askers.
                    Err(_) => return None,
                },
                recv(over) -> _ => break,
            }
        }
        Some(messages)
    }

    /// Answers all; an error is of the server, and has been told to all of them.
    fn answer(&mut self, messages: Vec<Message>) -> Result<()> {
        #[cfg(test)]
        assert!(
            !messages
                .iter()
                .any(|message| matches!(message, Message::Panic)),
            "on purpose"
        );
        let (listing, bytes) = match self.list_for(&messages) {
            Ok(listed) => listed,
            Err(error) => {
                messages
                    .into_iter()
                    .for_each(|message| message.fail(&error));
                return Err(error);
            }
        };
        let (mut visits, mut tasks) = (Vec::new(), Vec::new());
        for message in messages {
            match message {
                Message::List(asker, _) => asker.answer(Ok(Arc::clone(&listing))),
                Message::Look(wanted, asker) => {
                    if let Some((visit, new)) =
                        self.begin(visits.len(), &wanted, asker, &listing, bytes)
                    {
                        visits.push(Some(visit));
                        tasks.extend(new);
                    }
                }
                #[cfg(test)]
                Message::Panic => {}
            }
        }
        self.look(visits, &tasks, listing.server.pid);
        Ok(())
    }

    /// A listing, and what the server had read before it. Looks make do with the last one as long
    /// as the server has read nothing since: then no pane has changed by itself, and what users
    /// change (sizes, names, what is gone) the coordinator's next listing shows.
    fn list_for(&mut self, messages: &[Message]) -> Result<(Arc<Listing>, Option<u64>)> {
        let wants = |message: &Message, wanted| matches!(message, Message::List(_, programs) if *programs == wanted);
        let commands = messages
            .iter()
            .any(|message| wants(message, Programs::Named));
        let asked = commands
            || messages
                .iter()
                .any(|message| wants(message, Programs::LeftOut));
        let last = self.last.take();
        let bytes = last
            .as_ref()
            .and_then(|last| bytes_read_by(last.listing.server.pid));
        let now = self.clock.now();
        if let Some(last) = last
            && !asked
            && bytes.is_some()
            && bytes == last.bytes
            && now.saturating_duration_since(last.at) < LISTING_AGE_MAX
        {
            let listing = Arc::clone(&last.listing);
            self.last = Some(last);
            return Ok((listing, bytes));
        }
        self.processes.fetch_add(1, Ordering::Relaxed);
        let listing = Arc::new(Listing::ask(&self.server, &self.clock, commands)?);
        // Bytes of another server say nothing about this one. The names of programs are read, too:
        // only after such a listing are the bytes those of the panes again.
        let same = self.known.as_ref() == Some(&listing.server);
        let bytes = bytes.filter(|_| same);
        self.known = Some(listing.server.clone());
        let counted = if commands { None } else { bytes };
        self.last = Some(Listed {
            listing: Arc::clone(&listing),
            bytes: counted,
            at: now,
        });
        Ok((listing, bytes))
    }

    /// Finds out what of a session must be looked at; answers at once if nothing.
    fn begin(
        &self,
        number: usize,
        wanted: &SessionLook,
        asker: Asker<SessionAnswer>,
        listing: &Listing,
        bytes: Option<u64>,
    ) -> Option<(Visit, Vec<Task>)> {
        let same_server = wanted
            .server
            .as_ref()
            .is_none_or(|server| *server == listing.server);
        let Some(session) = listing.session(wanted.session_id).filter(|_| same_server) else {
            asker.answer(Ok(SessionAnswer::Gone));
            return None;
        };
        let mut panes = Vec::new();
        let mut tasks = Vec::new();
        for listed in listing.panes_of(session.id) {
            let pane = listed.pane();
            let want = wanted.wants.get(&pane);
            let seen = want.and_then(|want| want.seen.as_ref());
            if seen.is_some_and(|seen| seen.is_still(listed, bytes)) {
                panes.push(PaneAnswer::Still(listed.clone()));
                continue;
            }
            let margin = want.map_or(Margin::Rows(BASELINE_ROWS), |want| want.margin);
            let depth = depth(seen, listed, margin);
            let saved = want.is_none_or(|want| want.saved);
            let shot = Shot { pane, depth, saved };
            tasks.push(Task {
                visit: number,
                listed: listed.clone(),
                shot,
            });
        }
        let (name, created) = (session.name.to_owned(), session.created);
        let visit = Visit {
            asker,
            name,
            created,
            panes,
            left: tasks.len(),
        };
        if visit.left == 0 {
            visit.done();
            return None;
        }
        Some((visit, tasks))
    }

    /// Takes the looks, a batch at a time, and answers each session when it has all of its own.
    fn look(&self, mut visits: Vec<Option<Visit>>, tasks: &[Task], server_pid: u32) {
        let costs: Vec<Cost> = tasks
            .iter()
            .map(|task| Cost::of(&task.shot, task.listed.height))
            .collect();
        for batch in cut(&costs) {
            if is_stopped(&self.stop) {
                return;
            }
            // Those whose asker has gone away in the meantime are left out.
            let batch: Vec<&Task> = tasks[batch]
                .iter()
                .filter(|task| visits[task.visit].as_ref().is_some_and(Visit::is_awaited))
                .collect();
            let shots: Vec<Shot> = batch.iter().map(|task| task.shot.clone()).collect();
            if shots.is_empty() {
                continue;
            }
            let second = self.clock.wall().micros().div_euclid(1_000_000);
            let shown = match self.capture(server_pid, &shots) {
                Ok(shown) => shown,
                Err(error) => {
                    // The server is hung or gone; the next question tries again.
                    let left = visits.into_iter().flatten();
                    return left.for_each(|visit| visit.asker.answer(Err(again(&error))));
                }
            };
            for (task, shown) in batch.into_iter().zip(shown) {
                let Some(mut visit) = visits[task.visit].take() else {
                    continue;
                };
                match self.readable(server_pid, task, shown) {
                    Ok(Shown::View(view)) => {
                        visit
                            .panes
                            .push(PaneAnswer::look(&task.listed, *view, second));
                    }
                    // A pane that is not in the answer is gone.
                    Ok(Shown::Gone) => {}
                    Ok(Shown::Unreadable) => {
                        visit.asker.answer(Err(Error::other(format!(
                            "{} gave an answer about pane {} that cannot be read",
                            self.server, task.shot.pane
                        ))));
                        continue;
                    }
                    Err(error) => {
                        visit.asker.answer(Err(error));
                        continue;
                    }
                }
                visit.left -= 1;
                if visit.left == 0 {
                    visit.done();
                } else {
                    visits[task.visit] = Some(visit);
                }
            }
        }
    }

    /// A look whose answer was cut off, because rows are full of combining marks or other panes
    /// took the room, is taken once more, alone and of the screen only.
    fn readable(&self, server_pid: u32, task: &Task, shown: Shown) -> Result<Shown> {
        if shown != Shown::Unreadable {
            return Ok(shown);
        }
        let shallow = Shot {
            depth: 0,
            ..task.shot.clone()
        };
        Ok(self
            .capture(server_pid, &[shallow])?
            .pop()
            .unwrap_or(Shown::Unreadable))
    }

    fn capture(&self, server_pid: u32, shots: &[Shot]) -> Result<Vec<Shown>> {
        self.processes.fetch_add(1, Ordering::Relaxed);
        capture(&self.server, &self.clock, server_pid, shots)
    }
}

impl Visit {
    fn is_awaited(&self) -> bool {
        self.asker.is_there()
    }

    fn done(self) {
        let Self {
            asker,
            name,
            created,
            mut panes,
            ..
        } = self;
        // As the listing has them: by window and place.
        panes.sort_by_key(|pane| {
            let state = pane.state();
            (state.window_index, state.pane_index, state.pane_number())
        });
        asker.answer(Ok(SessionAnswer::There {
            name,
            created,
            panes,
        }));
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
