//! The coordinator: sees which tmux sessions there are, and keeps exactly one poller for each.
//!
//! One thread a watched server, `td-coordinator`. It asks the gateway for a listing twice a second
//! unless the server stands still, starts a poller for each session that is to be watched and joins
//! those that have ended; it is asked for an immediate look over a channel. It blocks on its ticker,
//! on the gateway and, at its end, on its pollers, which all have a ceiling. It ends when it is
//! stopped, or when all targets that it was given have come and gone.

mod pollers;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded, never, select_biased};

use crate::error::{Error, Result};
use crate::event::{ExecutionId, PaneId};
use crate::observe::conversation::{ConversationReader, Conversations};
use crate::observe::pane_transfers::Handover;
use crate::observe::poller::panes::Selection;
use crate::observe::poller::{Control, Ended};
use crate::observe::watch::Watch;
use crate::observe::watch_targets::WatchTargets;
use crate::observe::{Context, Source};
use crate::process::{ExitWatch, ProcessWatcher, TerminalWatch};
use crate::thread::{Handle, StopGuard};
use crate::tmux::{
    ForegroundPrograms, Gateway, GatewayHandle, Listing, PaneState, PendingReply, ServerIdentity,
    SessionId, observer_panes,
};

/// How often sessions are looked for: a new one is found within a second, with time to spare.
const LOOK_FOR_SESSIONS: Duration = Duration::from_millis(400);

/// How often pollers are looked at while the server stands still and is not asked.
const LOOK_AT_POLLERS: Duration = Duration::from_secs(5);

/// In every so many rounds observers are looked for, by a walk over all processes, unless the server
/// has stood still: one that was started in a pane is seen within a second.
const OBSERVERS_EVERY: u32 = 2;

/// Messages that wait for one poller: it takes them within a tick, and an immediate look that is
/// asked for twice is one.
const CONTROL_MESSAGES: usize = 8;

/// How long a poller may take to end: its last look, and some.
const POLLER_END: Duration = Duration::from_millis(1500);

/// The program's name, by which panes that show an observer are recognised.
const OBSERVER: &str = "td-observe";

/// The source that watches one tmux server.
pub(crate) struct Coordinator {
    watch: Watch,
    poke: Receiver<()>,
}

impl Coordinator {
    /// A coordinator, and what asks it for an immediate look.
    ///
    /// # Errors
    /// When there is no such rhythm.
    pub fn new(watch: Watch) -> Result<(Self, Sender<()>)> {
        watch.rhythm.check()?;
        // Two looks asked for at the same time are one.
        let (poked, poke) = bounded(1);
        Ok((Self { watch, poke }, poked))
    }
}

impl Source for Coordinator {
    fn name(&self) -> String {
        "td-coordinator".to_owned()
    }

    fn run(self: Box<Self>, context: Context) {
        let gateway = match Gateway::start(self.watch.server.clone(), context.clock.clone()) {
            Ok(gateway) => gateway,
            Err(error) => return log::error!("cannot watch tmux: {error:?}"),
        };
        let exits = ExitWatch::start();
        let reader = self
            .watch
            .reads_conversations()
            .then(|| ConversationReader::start(context.clock.clone()));
        let reader = reader.and_then(|started| match started {
            Ok(reader) => Some(reader),
            Err(error) => {
                log::warn!("the conversations of agents are not read: {error:?}");
                None
            }
        });
        if let Err(error) = &exits {
            log::info!("how programs end is looked up when their panes are gone: {error:?}");
        }
        let terminals = TerminalWatch::start();
        if let Err(error) = &terminals {
            log::info!("new sessions are found by listings alone: {error:?}");
        }
        let mut work = Work {
            new_terminals: terminals
                .as_ref()
                .map_or_else(|_| never(), |watch| watch.opened().clone()),
            has_new_terminal: false,
            handle: gateway.handle(),
            exits: exits
                .as_ref()
                .map_or_else(|_| ProcessWatcher::default(), ExitWatch::watcher),
            conversations: reader
                .as_ref()
                .map_or_else(Conversations::default, ConversationReader::conversations),
            sessions: HashMap::new(),
            first: true,
            choice: WatchTargets::new(&self.watch),
            told_trouble: None,
            commands: HashMap::new(),
            rounds: 0,
            walked: None,
            settled: None,
            observers: None,
            listed: HashSet::new(),
            listed_server: None,
            handover: Handover::default(),
            watch: self.watch,
            context,
        };
        work.run(&self.poke);
        work.end();
        if let Some(reader) = reader {
            let deadline = work.context.clock.now() + POLLER_END;
            if let Err(panicked) = reader.shutdown(deadline) {
                log::error!("{panicked}");
            }
        }
        if let Some(Err(panicked)) = terminals.ok().map(TerminalWatch::shutdown) {
            log::error!("{panicked}");
        }
        if let Some(Err(panicked)) = exits.ok().map(ExitWatch::shutdown) {
            log::error!("{panicked}");
        }
        if let Err(panicked) = gateway.shutdown() {
            log::error!("{panicked}");
        }
    }
}

/// A session, whatever its name: a restarted server gives the same ids again.
type Key = (u32, i64, SessionId);

struct Watched {
    poller: Handle<Ended>,
    stop: Option<StopGuard>,
    control: Sender<Control>,
    selection: Selection,
    execution_id: ExecutionId,
}

struct Work {
    watch: Watch,
    context: Context,
    handle: GatewayHandle,
    exits: ProcessWatcher,
    conversations: Conversations,
    /// Gets a message when a terminal was opened: the next listing may have a new pane.
    new_terminals: Receiver<()>,
    /// One was opened since the last listing.
    has_new_terminal: bool,
    sessions: HashMap<Key, Watched>,
    /// No listing yet: what is there now was there before.
    first: bool,
    choice: WatchTargets,
    told_trouble: Option<String>,
    /// The programs in the foreground of the panes, as of the last listing that named them.
    commands: HashMap<PaneId, String>,
    rounds: u32,
    /// The listing when observers were looked for.
    walked: Option<Arc<Listing>>,
    /// The listing by which there are the pollers that there should be.
    settled: Option<Arc<Listing>>,
    /// Panes that run an observer, where the system tells.
    observers: Option<HashSet<PaneId>>,
    /// Sessions of the last listing, and the server that it was of.
    listed: HashSet<SessionId>,
    listed_server: Option<ServerIdentity>,
    handover: Handover,
}

impl Work {
    fn run(&mut self, poke: &Receiver<()>) {
        loop {
            let done = self.look_for_sessions();
            if done {
                return;
            }
            let tick = self.context.clock.after(LOOK_FOR_SESSIONS);
            if !self.wait(poke, &tick, None) {
                return;
            }
            let Some(settled) = self
                .settled
                .clone()
                .filter(|settled| self.is_at_rest(settled))
            else {
                continue;
            };
            if let Ok(pending) = self.handle.request_listing_after(settled) {
                let tick = self.context.clock.after(LOOK_AT_POLLERS);
                if !self.wait(poke, &tick, Some(&pending)) {
                    return;
                }
            }
        }
    }

    /// Waits for a tick, or for news; false when it is time to stop.
    fn wait(
        &mut self,
        poke: &Receiver<()>,
        tick: &Receiver<Instant>,
        news: Option<&PendingReply<Arc<Listing>>>,
    ) -> bool {
        let no_news = never();
        loop {
            select_biased! {
                recv(self.context.stop) -> _ => return false,
                recv(poke) -> poked => {
                    // A dropped engine handle asks no more; its stop follows.
                    if poked.is_err() { return false }
                    for watched in self.sessions.values() {
                        // Full: an immediate look is on its way already.
                        let _ = watched.control.try_send(Control::PollNow);
                    }
                }
                recv(tick) -> _ => return true,
                recv(self.new_terminals) -> _ => {
                    self.has_new_terminal = true;
                    return true;
                }
                recv(news.map_or(&no_news, PendingReply::receiver)) -> _ => return true,
            }
        }
    }

    /// Whether nothing is to be done as long as this listing holds: what it has is what is watched.
    fn is_at_rest(&self, listing: &Listing) -> bool {
        let (pid, start_time) = (listing.server.pid, listing.server.start_time);
        let any_exists =
            |key: &Key| (key.0, key.1) == (pid, start_time) && listing.session(key.2).is_some();
        self.sessions.keys().all(any_exists)
    }

    /// One round: new sessions get a poller, ended ones are joined. True when all targets that
    /// were given have come and gone.
    fn look_for_sessions(&mut self) -> bool {
        // Before the listing: one that is older than a poller's end has its session still, to be watched.
        self.join_ended();
        let listing = match self.list() {
            None => return false,
            Some(Ok(listing)) => {
                self.told_trouble = None;
                Some(listing)
            }
            Some(Err(error)) if error.is_gone() => None,
            Some(Err(error)) => {
                self.tell_trouble(&error);
                return false;
            }
        };
        match &listing {
            Some(listing) if self.is_settled(listing) => {}
            Some(listing) => {
                self.settled = Some(Arc::clone(listing));
                self.listed(listing);
            }
            None => {
                self.settled = None;
                self.choice.tell_absent(&self.watch.server, false);
            }
        }
        self.first = false;
        self.choice.all_found()
            && self.sessions.is_empty()
            && listing.is_none_or(|listing| !self.choice.any_exists(&listing))
    }

    /// What there is now; `None` when it is time to stop. Programs are asked for when there is a new
    /// pane; where the system does not tell who observes, every few rounds.
    fn list(&mut self) -> Option<Result<Arc<Listing>>> {
        self.rounds = self.rounds.wrapping_add(1);
        let is_fresh = std::mem::take(&mut self.has_new_terminal);
        let listing = match self.ask_listing(is_fresh)? {
            Ok(listing) => listing,
            Err(error) => return Some(Err(error)),
        };
        let is_due = self.rounds % OBSERVERS_EVERY == 1;
        let walked = self.walked.as_ref();
        let stood_still = walked.is_some_and(|walked| Arc::ptr_eq(walked, &listing));
        if is_due && !stood_still || self.listed_server.as_ref() != Some(&listing.server) {
            self.observers = observer_panes(listing.server.pid);
            self.settled = None;
            self.walked = Some(Arc::clone(&listing));
        }
        if self.listed_server.as_ref() != Some(&listing.server) {
            // Another server gives the same ids to other panes.
            self.commands.clear();
            self.listed.clear();
            self.handover = Handover::default();
            self.listed_server = Some(listing.server.clone());
        }
        let known = |state: &PaneState| self.commands.contains_key(&state.pane());
        if listing.panes.iter().all(known) && !(is_due && self.observers.is_none()) {
            return Some(Ok(listing));
        }
        let named = self.answer(self.handle.request_listing(ForegroundPrograms::Included))?;
        if let Ok(listing) = &named {
            let named = listing.panes.iter();
            self.commands = named
                .map(|state| (state.pane(), state.command.clone()))
                .collect();
        }
        Some(named)
    }

    fn ask_listing(&self, is_fresh: bool) -> Option<Result<Arc<Listing>>> {
        self.answer(match is_fresh {
            true => self.handle.request_fresh_listing(),
            false => self.handle.request_listing(ForegroundPrograms::Omitted),
        })
    }

    fn answer(&self, asked: Result<PendingReply<Arc<Listing>>>) -> Option<Result<Arc<Listing>>> {
        match asked {
            Ok(pending) => pending.wait_or(&self.context.stop),
            Err(error) => Some(Err(error)),
        }
    }

    fn is_settled(&self, listing: &Arc<Listing>) -> bool {
        let settled = self.settled.as_ref();
        settled.is_some_and(|settled| Arc::ptr_eq(settled, listing))
    }

    fn listed(&mut self, listing: &Listing) {
        self.handover.retain(|pane| listing.pane(pane).is_some());
        let observes = |state: &PaneState| match &self.observers {
            Some(observers) => observers.contains(&state.pane()),
            None => {
                let command = self.commands.get(&state.pane());
                command.is_some_and(|command| command == OBSERVER)
            }
        };
        let chosen = self.choice.select(listing, observes);
        self.choice.tell_absent(&self.watch.server, true);
        let ids = chosen.iter().map(|(session, _)| session.id).collect();
        let server = &listing.server;
        for (session, selection) in chosen {
            let key = (server.pid, server.start_time, session.id);
            match self.sessions.get_mut(&key) {
                Some(watched) if watched.selection != selection => {
                    match watched.control.try_send(Control::Select(selection.clone())) {
                        Ok(()) => watched.selection = selection,
                        // It has no room now.
                        Err(_) => self.settled = None,
                    }
                }
                Some(_) => {}
                None => {
                    // A session of which nothing is left to show is not watched at all.
                    let shows = |state: &PaneState| selection.shows(&state.pane());
                    if listing.panes_of(session.id).any(shows) {
                        self.start(key, &session, listing, selection);
                    }
                }
            }
        }
        self.stop_unchosen(listing, &ids);
        self.listed = listing.sessions().map(|session| session.id).collect();
    }

    /// Pollers whose panes no target names any more, though their sessions are there.
    fn stop_unchosen(&mut self, listing: &Listing, chosen: &HashSet<SessionId>) {
        let server = (listing.server.pid, listing.server.start_time);
        for (key, watched) in &mut self.sessions {
            let other_server = (key.0, key.1) != server;
            if !other_server && !chosen.contains(&key.2) && listing.session(key.2).is_some() {
                watched.stop = None;
            }
        }
    }

    fn tell_trouble(&mut self, error: &Error) {
        self.settled = None;
        let text = format!("{error:?}");
        if self.told_trouble.as_ref() != Some(&text) {
            log::warn!("{text}");
            self.told_trouble = Some(text);
        }
    }
}

/// Asks for an immediate look; one that is on its way already will do.
pub(crate) fn poke(poke: &Sender<()>) {
    match poke.try_send(()) {
        Ok(()) | Err(TrySendError::Full(()) | TrySendError::Disconnected(())) => {}
    }
}
