//! The coordinator: lists the sessions of a tmux server, and keeps exactly one poller for each.
//!
//! One thread per watched server, `td-coordinator`. It requests a listing from the gateway at least
//! twice a second while the server is active, starts a poller for each session to watch, and joins
//! pollers that have ended. A channel requests an immediate poll. The thread blocks on its ticker, on
//! the gateway and, at its end, on its pollers, all with a timeout. It ends when it is stopped, or
//! when all its targets have appeared and ended.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, never, select_biased};

use super::agent_files::{ConversationReader, Conversations};
use super::client_views::ClientView;
use super::observed_sessions::SessionKey;
use super::pane_observer::{PaneRules, settle_time};
use super::pane_recordings::PaneRecordings;
use super::pane_transfers::PaneTransfers;
use super::poller::panes::{PanesConfig, Selection, SessionPanes};
use super::poller::{Control, Ended, Poller, Progress};
use super::resume_point::ResumePoint;
use super::watch::{PaneSource, Watch, WatchTargets};
use super::watch_claims::WatchClaim;
use super::{RunName, Source, SourceContext};
use crate::error::{Error, Result};
use crate::event::{ExecutionId, PaneId, SessionEndReason};
use crate::history::{RunDirectory, RunInfo, RunKind, RunState, TmuxIdentity, host};
use crate::process::{ExitWatch, ProcessWatcher, TerminalWatch};
use crate::thread::{self, Handle, Panicked, StopGuard, stop_pair};
use crate::tmux::{
    DrainProgram, Drains, ForegroundPrograms, Gateway, GatewayHandle, ListedClient, ListedSession,
    Listing, PROGRAM, PaneState, PendingReply, ServerIdentity, SessionId, self_showing,
    terminals_behind,
};

/// The interval of listings. A new session must be found within a second; this leaves time to spare.
const LISTING_INTERVAL: Duration = Duration::from_millis(400);

/// The interval of checks for ended pollers while the server is idle and no listing is requested.
const IDLE_INTERVAL: Duration = Duration::from_secs(5);

/// The capacity of a poller's control channel: the poller reads it within a tick, and a second request
/// of an immediate poll adds nothing.
const CONTROL_MESSAGES: usize = 8;

/// The most runs of a tmux server in which a pane is searched that has moved while nothing observed it, the last
/// written ones: more than people have sessions, and the ends of as many histories are read within a second.
const RUNS_SEARCHED: usize = 50;

/// The time limit for a poller's end: its last capture, and some more.
const POLLER_END_TIMEOUT: Duration = Duration::from_millis(1500);

/// The source that watches one tmux server.
pub(crate) struct Coordinator {
    watch: Watch,
    poll_requests: Receiver<()>,
}

impl Coordinator {
    /// Creates a coordinator, and the channel that requests an immediate poll.
    ///
    /// # Errors
    /// When the schedule is invalid.
    pub fn new(watch: Watch) -> Result<(Self, Sender<()>)> {
        watch.schedule.check()?;
        // Simultaneous requests cause one poll.
        let (requester, poll_requests) = bounded(1);
        let coordinator = Self {
            watch,
            poll_requests,
        };
        Ok((coordinator, requester))
    }
}

impl Source for Coordinator {
    fn name(&self) -> String {
        "td-coordinator".to_owned()
    }

    fn run(self: Box<Self>, context: SourceContext) {
        let gateway = match Gateway::start(self.watch.server.clone(), context.clock.clone()) {
            Ok(gateway) => gateway,
            Err(error) => return log::error!("cannot watch tmux: {error:?}"),
        };
        let exits = ExitWatch::start().inspect_err(|error| {
            log::info!("exit statuses are read after panes have closed: {error:?}");
        });
        let exits = exits.ok();
        let reader = self.watch.reads_conversations().then(|| {
            ConversationReader::start(context.clock.clone()).inspect_err(|error| {
                log::warn!("cannot read the conversations of agents: {error:?}");
            })
        });
        let reader = reader.and_then(Result::ok);
        let terminals = self.watch.finds_terminals.then(|| {
            TerminalWatch::start().inspect_err(|error| {
                log::info!("new sessions are found by listings alone: {error:?}");
            })
        });
        let terminals = terminals.and_then(Result::ok);
        let mut thread = CoordinatorThread {
            new_terminals: terminals
                .as_ref()
                .map_or_else(never, |watch| watch.opened.clone()),
            needs_fresh_listing: false,
            gateway: gateway.handle(),
            exits: exits
                .as_ref()
                .map_or_else(ProcessWatcher::default, |watch| watch.watcher.clone()),
            conversations: reader
                .as_ref()
                .map_or_else(Conversations::default, ConversationReader::conversations),
            sessions: HashMap::new(),
            is_first_round: true,
            selected_panes: 0,
            targets: WatchTargets::new(&self.watch),
            last_trouble: None,
            programs: HashMap::new(),
            rounds: 0,
            searched_listing: None,
            applied_listing: None,
            self_showing: None,
            listed_sessions: HashSet::new(),
            listed_server: None,
            transfers: PaneTransfers::default(),
            known_elsewhere: None,
            watch: self.watch,
            claim: context.claims.join(),
            context,
        };
        thread.run(&self.poll_requests);
        thread.stop_pollers();
        if let Some(reader) = reader {
            let deadline = thread.context.clock.now() + POLLER_END_TIMEOUT;
            log_panic(reader.shutdown(deadline));
        }
        log_panic(terminals.map_or(Ok(()), TerminalWatch::shutdown));
        log_panic(exits.map_or(Ok(()), ExitWatch::shutdown));
        log_panic(gateway.shutdown());
    }
}

fn log_panic(ended: Result<(), Panicked>) {
    if let Err(panicked) = ended {
        log::error!("{panicked}");
    }
}

fn is_listed(key: SessionKey, listing: &Listing) -> bool {
    key == SessionKey::new(&listing.server, key.session) && listing.session(key.session).is_some()
}

/// A session with a poller.
struct WatchedSession {
    poller: Handle<Ended>,
    stop: Option<StopGuard>,
    control: Sender<Control>,
    selection: Selection,
    execution_id: ExecutionId,
    /// The run that another observer writes.
    locked: Option<RunDirectory>,
}

struct CoordinatorThread {
    watch: Watch,
    context: SourceContext,
    gateway: GatewayHandle,
    exits: ProcessWatcher,
    conversations: Conversations,
    /// Receives a message when a terminal is opened: the next listing may contain a new pane.
    new_terminals: Receiver<()>,
    /// A terminal was opened or a poller has ended since the last listing, which may lack the new pane, or still
    /// contain the session that has ended.
    needs_fresh_listing: bool,
    sessions: HashMap<SessionKey, WatchedSession>,
    /// The sessions of the first round existed before the observer.
    is_first_round: bool,
    /// The number of selected panes.
    selected_panes: usize,
    targets: WatchTargets,
    /// What no other watch of the engine observes.
    claim: WatchClaim,
    /// The last logged error; the same error is logged once.
    last_trouble: Option<String>,
    /// The foreground programs of the panes, as of the last listing that contained them.
    programs: HashMap<PaneId, String>,
    rounds: u32,
    /// The listing at the last search for panes that show themselves.
    searched_listing: Option<Arc<Listing>>,
    /// The listing that the pollers agree with.
    applied_listing: Option<Arc<Listing>>,
    /// The panes that show themselves; `None` if the system does not reveal them.
    self_showing: Option<HashSet<PaneId>>,
    /// The sessions of the last listing, and its server.
    listed_sessions: HashSet<SessionId>,
    listed_server: Option<ServerIdentity>,
    transfers: PaneTransfers,
    /// What the runs of all sessions knew of the panes before this round, once a session needs it.
    known_elsewhere: Option<HashMap<PaneId, ResumePoint>>,
}

impl CoordinatorThread {
    fn run(&mut self, poll_requests: &Receiver<()>) {
        while !self.update_sessions() {
            let tick = self.context.clock.after(LISTING_INTERVAL);
            if !self.wait(poll_requests, &tick, None) {
                return;
            }
            let Some(applied) = self.applied_listing.clone() else {
                continue;
            };
            let is_searched = is_same(self.searched_listing.as_ref(), &applied);
            if !is_searched || !self.sessions.keys().all(|key| is_listed(*key, &applied)) {
                continue;
            }
            // The server is idle until its listing changes.
            if let Ok(pending) = self.gateway.request_listing_after(applied) {
                let has_locked = self
                    .sessions
                    .values()
                    .any(|watched| watched.locked.is_some());
                let interval = if has_locked || self.claim.is_refused() {
                    LISTING_INTERVAL
                } else {
                    IDLE_INTERVAL
                };
                let tick = self.context.clock.after(interval);
                if !self.wait(poll_requests, &tick, Some(&pending)) {
                    return;
                }
            }
        }
    }

    /// Waits for a tick or for the reply, and forwards requests of a poll. Returns false when the
    /// coordinator is to stop.
    fn wait(
        &mut self,
        poll_requests: &Receiver<()>,
        tick: &Receiver<Instant>,
        reply: Option<&PendingReply<Arc<Listing>>>,
    ) -> bool {
        let no_reply = never();
        loop {
            select_biased! {
                recv(self.context.stop) -> _ => return false,
                recv(poll_requests) -> request => {
                    // The engine has dropped its handle; its stop follows.
                    if request.is_err() { return false }
                    for watched in self.sessions.values() {
                        // A full channel already contains a request.
                        let _ = watched.control.try_send(Control::PollNow);
                    }
                }
                recv(tick) -> _ => return true,
                recv(self.new_terminals) -> _ => {
                    self.needs_fresh_listing = true;
                    return true;
                }
                recv(reply.map_or(&no_reply, PendingReply::receiver)) -> _ => return true,
            }
        }
    }

    /// Runs one round: starts pollers for new sessions, and joins those that have ended. Returns true
    /// when all targets have appeared and ended.
    fn update_sessions(&mut self) -> bool {
        self.take_over();
        // Before the listing: one from before a poller's end still contains its session, for which a second
        // poller would be started.
        self.join_ended();
        let listing = match self.list() {
            None => return false,
            Some(Ok(listing)) => {
                self.last_trouble = None;
                Some(listing)
            }
            Some(Err(error)) if error.is_gone() => None,
            Some(Err(error)) => {
                self.log_trouble(&error);
                return false;
            }
        };
        if self.claim.may_get_more() {
            self.applied_listing = None;
        }
        match &listing {
            Some(listing) if is_same(self.applied_listing.as_ref(), listing) => {}
            Some(listing) => {
                self.applied_listing = Some(Arc::clone(listing));
                self.apply_listing(listing);
            }
            None => {
                self.applied_listing = None;
                self.claim.set_views(Vec::new());
                self.targets.report_absent(&self.watch.server, false);
            }
        }
        self.is_first_round = false;
        self.targets.all_found()
            && self.sessions.is_empty()
            && listing.is_none_or(|listing| !self.targets.any_exists(&listing))
    }

    /// Returns a listing, or `None` when the coordinator is to stop. The foreground programs are
    /// included if there is a new pane, and every few rounds if they alone reveal panes that show themselves.
    fn list(&mut self) -> Option<Result<Arc<Listing>>> {
        self.rounds = self.rounds.wrapping_add(1);
        let requested = if std::mem::take(&mut self.needs_fresh_listing) {
            self.gateway.request_fresh_listing()
        } else {
            self.gateway.request_listing(ForegroundPrograms::Omitted)
        };
        let listing = match self.wait_for(requested)? {
            Ok(listing) => listing,
            Err(error) => return Some(Err(error)),
        };
        // Searches for panes that show themselves read all processes, so only every second round has one: a face
        // that is started in a pane, or leaves its foreground, is found within a second.
        let is_due = self.rounds % 2 == 1;
        let is_new_server = self.listed_server.as_ref() != Some(&listing.server);
        if is_due && !is_same(self.searched_listing.as_ref(), &listing) || is_new_server {
            let panes = listing.panes.iter();
            self.self_showing = self_showing(panes.map(|state| (state.pane(), state.pid)));
            self.applied_listing = None;
            self.searched_listing = Some(Arc::clone(&listing));
        }
        if is_new_server {
            // Another server assigns the same ids to other panes.
            self.programs.clear();
            self.listed_sessions.clear();
            self.transfers = PaneTransfers::default();
            self.listed_server = Some(listing.server.clone());
        }
        let known = |state: &PaneState| self.programs.contains_key(&state.pane());
        if listing.panes.iter().all(known) && !(is_due && self.self_showing.is_none()) {
            return Some(Ok(listing));
        }
        let named = self.wait_for(self.gateway.request_listing(ForegroundPrograms::Included))?;
        if let Ok(listing) = &named {
            let panes = listing.panes.iter();
            self.programs = panes
                .map(|state| (state.pane(), state.command.clone()))
                .collect();
        }
        Some(named)
    }

    fn wait_for(
        &self,
        requested: Result<PendingReply<Arc<Listing>>>,
    ) -> Option<Result<Arc<Listing>>> {
        match requested {
            Ok(pending) => pending.wait_or(&self.context.stop),
            Err(error) => Some(Err(error)),
        }
    }

    /// Ends the pollers whose runs another observer does not write any more: the next round starts them
    /// again, and they resume these runs.
    fn take_over(&mut self) {
        for watched in self.sessions.values_mut() {
            // A run that cannot be probed counts as written.
            let is_free = |run: &mut RunDirectory| !run.is_written().unwrap_or(true);
            if watched.locked.take_if(is_free).is_some() {
                log::info!("{}: taken over from another observer", watched.execution_id);
                watched.stop = None;
            }
        }
    }

    /// Starts, adjusts and stops pollers so that they agree with a listing.
    fn apply_listing(&mut self, listing: &Listing) {
        self.transfers.retain(|pane| listing.pane(pane).is_some());
        let shows_itself = |state: &PaneState| match &self.self_showing {
            Some(panes) => panes.contains(&state.pane()),
            None => {
                let program = self.programs.get(&state.pane());
                program.is_some_and(|program| program == PROGRAM)
            }
        };
        let selected = self.targets.select(listing, shows_itself);
        let panes = selected.iter().map(|(session, selection)| {
            let panes = listing.panes_of(session.id);
            panes
                .filter(|state| selection.contains(&state.pane()))
                .count()
        });
        self.selected_panes = panes.sum();
        self.targets.report_absent(&self.watch.server, true);
        let ids: HashSet<SessionId> = selected.iter().map(|(session, _)| session.id).collect();
        let (sessions, mut claimed): (Vec<_>, Vec<_>) = selected
            .into_iter()
            .map(|(session, selection)| {
                let key = SessionKey::new(&listing.server, session.id);
                (session, (key, selection))
            })
            .unzip();
        let was_refused = self.claim.is_refused();
        self.claim.claim(&mut claimed, listing);
        if self.claim.is_refused() && !was_refused {
            log::info!("panes that another watch observes are left to it");
        }
        for (session, (key, selection)) in sessions.into_iter().zip(claimed) {
            match self.sessions.get_mut(&key) {
                Some(watched) if watched.selection != selection => {
                    match watched.control.try_send(Control::Select(selection.clone())) {
                        Ok(()) => watched.selection = selection,
                        // The channel is full: the next round tries again.
                        Err(_) => self.applied_listing = None,
                    }
                }
                Some(_) => {}
                None => {
                    // A session without a selected pane gets no poller.
                    let is_selected = |state: &PaneState| selection.contains(&state.pane());
                    if listing.panes_of(session.id).any(is_selected) {
                        self.start_poller(key, &session, listing, selection);
                    }
                }
            }
        }
        self.known_elsewhere = None;
        for (key, watched) in &mut self.sessions {
            // No target selects the session any more.
            if is_listed(*key, listing) && !ids.contains(&key.session) {
                watched.stop = None;
            }
        }
        self.listed_sessions = listing.sessions().map(|session| session.id).collect();
        self.claim.set_views(self.views(listing));
    }

    /// Returns the clients that show observed panes.
    fn views(&self, listing: &Listing) -> Vec<ClientView> {
        let is_observed = |state: &PaneState| {
            let key = SessionKey::new(&listing.server, state.session_id);
            let watched = self.sessions.get(&key);
            state.owned && watched.is_some_and(|watched| watched.selection.contains(&state.pane()))
        };
        let shows_observed = |client: &&ListedClient| {
            let mut panes = listing.panes.iter();
            panes.any(|state| state.window_id == client.window && is_observed(state))
        };
        let clients = listing.clients.iter().filter(shows_observed);
        let views = clients.filter_map(|client| {
            let session = listing.session(client.session)?.name;
            let view = move |terminal| ClientView {
                terminal,
                session: session.to_owned(),
            };
            Some(terminals_behind(client.pid).into_iter().map(view))
        });
        views.flatten().collect()
    }

    fn log_trouble(&mut self, error: &Error) {
        self.applied_listing = None;
        let text = format!("{error:?}");
        if self.last_trouble.as_ref() != Some(&text) {
            log::warn!("{text}");
            self.last_trouble = Some(text);
        }
    }
}

fn is_same(earlier: Option<&Arc<Listing>>, listing: &Arc<Listing>) -> bool {
    earlier.is_some_and(|earlier| Arc::ptr_eq(earlier, listing))
}

impl CoordinatorThread {
    /// Starts the poller of a session, and opens its run.
    fn start_poller(
        &mut self,
        key: SessionKey,
        session: &ListedSession<'_>,
        listing: &Listing,
        selection: Selection,
    ) {
        let server = &listing.server;
        let label = format!("{}@{}", session.name, session.created);
        let name = match &self.watch.execution_id {
            Some(id) => RunName::Exact(id.clone()),
            None => RunName::Labelled(label),
        };
        let info = RunInfo {
            kind: RunKind::Tmux,
            label: listing.shown_name(session).to_owned(),
            identity: Some(identity(server, session)),
            ..RunInfo::default()
        };
        let run = match self.context.runs.open(name, info) {
            Ok(run) => run,
            Err(error) => return self.log_trouble(&error),
        };
        let (stop_guard, stop) = stop_pair();
        let (control, controls) = bounded(CONTROL_MESSAGES);
        let execution_id = run.emitter.execution_id().clone();
        // Earlier output of a session that existed unwatched is not reported.
        let fresh = !self.is_first_round && !self.listed_sessions.contains(&session.id);
        let panes: Vec<PaneId> = listing.panes_of(session.id).map(PaneState::pane).collect();
        let mut resume_points = run.history.map_or_else(HashMap::new, |path| {
            ResumePoint::read(&path, &panes).unwrap_or_else(|error| {
                log::warn!("{error:?}");
                HashMap::new()
            })
        });
        if !fresh {
            self.find_elsewhere(&mut resume_points, &panes, session, listing);
        }
        let drains = self.start_drains().unwrap_or_else(|error| {
            run.emitter.warning(
                "tmux",
                &format!("cannot stream panes; falling back to polling: {error}"),
            );
            None
        });
        let is_recorded = self.watch.raw && drains.is_some();
        let runs = &self.context.runs;
        let recorder = is_recorded.then(|| runs.start_recording(&execution_id, session.name));
        let recording = match recorder.flatten() {
            Some(Ok(recorder)) => Some(PaneRecordings::new(recorder, self.context.clock.clone())),
            Some(Err(error)) => {
                self.log_trouble(&error);
                None
            }
            None => None,
        };
        let config = PanesConfig {
            session_id: session.id,
            server_pid: server.pid,
            gateway: self.gateway.clone(),
            rules: PaneRules {
                settle: settle_time(&self.watch.schedule),
                turns: self.watch.turns.clone(),
                states: self.watch.states.clone(),
                host: host(),
                baseline_lines: self.watch.baseline_lines,
                shows_screens: self.watch.screens,
            },
            selection: selection.clone(),
            fresh,
            // Opening a pipe takes the server about 5 ms, a capture 0.3 ms: of many panes that exist when the
            // observation begins, all are captured first, and their pipes opened after.
            captured_first: self.is_first_round && self.selected_panes > 16,
            transfers: self.transfers.clone(),
            commands: self.programs.clone(),
            drains,
            recording,
            exits: self.exits.clone(),
            views: self.context.claims.views(),
            conversations: self.conversations.clone(),
            reports_views: self.watch.views,
        };
        let panes = SessionPanes::new(config, run.emitter.clone(), resume_points);
        let poller = Poller {
            session_id: session.id,
            name: listing.shown_name(session).to_owned(),
            server: server.clone(),
            emitter: run.emitter,
            gateway: self.gateway.clone(),
            clock: self.context.clock.clone(),
            schedule: self.watch.schedule,
            stop,
            control: controls,
            panes,
            progress: Progress::default(),
        };
        match thread::spawn(format!("td-{}", session.name), move || poller.run()) {
            Ok(poller) => {
                let watched = WatchedSession {
                    poller,
                    stop: Some(stop_guard),
                    control,
                    selection,
                    execution_id,
                    locked: run.locked,
                };
                self.context.sessions.add(key, &watched.control);
                self.sessions.insert(key, watched);
            }
            Err(error) => {
                self.context
                    .runs
                    .close(&execution_id, RunState::Failed, None);
                self.log_trouble(&error);
            }
        }
    }

    /// Adds what the runs of other sessions know of panes that have moved here while nothing observed this session.
    fn find_elsewhere(
        &mut self,
        resume_points: &mut HashMap<PaneId, ResumePoint>,
        panes: &[PaneId],
        session: &ListedSession<'_>,
        listing: &Listing,
    ) {
        let may_be_elsewhere = |pane: &&PaneId| {
            let known = resume_points.get(*pane);
            known.is_none_or(ResumePoint::may_be_elsewhere)
        };
        let wanted: Vec<&PaneId> = panes.iter().filter(may_be_elsewhere).collect();
        if wanted.is_empty() {
            return;
        }
        let known = self.known_elsewhere.get_or_insert_with(|| {
            let mut runs = (self.context.runs).runs_of_server(&identity(&listing.server, session));
            runs.truncate(RUNS_SEARCHED);
            let all = listing.panes.iter().map(PaneState::pane).collect();
            ResumePoint::read_elsewhere(&runs, &all)
        });
        for pane in wanted {
            if let Some(point) = known.get(pane) {
                point.clone().replace_nearer(resume_points, pane.clone());
            }
        }
    }

    /// Starts the reader of a session's drains; `None` if all panes are polled.
    fn start_drains(&self) -> Result<Option<Drains>> {
        let program = match &self.watch.source {
            PaneSource::Poll => return Ok(None),
            PaneSource::Auto(Some(program)) => program.clone(),
            PaneSource::Auto(None) => DrainProgram::find()?,
        };
        Drains::start(program, &self.context.clock).map(Some)
    }

    /// Joins the pollers that have ended, and closes their runs.
    fn join_ended(&mut self) {
        let has_ended = |_: &SessionKey, watched: &mut WatchedSession| watched.poller.is_finished();
        let ended: Vec<_> = self.sessions.extract_if(has_ended).collect();
        for (key, watched) in ended {
            self.context.sessions.remove(key, &watched.control);
            (self.applied_listing, self.needs_fresh_listing) = (None, true);
            self.close_run(&watched.execution_id, watched.poller.join());
        }
    }

    fn close_run(&self, id: &ExecutionId, ended: Result<Ended, thread::Panicked>) {
        let (state, exit_status) = match ended {
            Ok(ended) => {
                let state = match ended.reason {
                    SessionEndReason::Detached => RunState::Detached,
                    _ if ended.has_failed => RunState::Failed,
                    _ => RunState::Completed,
                };
                (state, ended.exit_status)
            }
            Err(panicked) => {
                log::error!("{panicked}");
                (RunState::Failed, None)
            }
        };
        self.context.runs.close(id, state, exit_status);
    }

    /// Stops all pollers at once, and joins them.
    fn stop_pollers(&mut self) {
        let mut sessions: Vec<WatchedSession> =
            self.sessions.drain().map(|(_, watched)| watched).collect();
        for watched in &mut sessions {
            watched.stop = None;
        }
        let deadline = self.context.clock.now() + POLLER_END_TIMEOUT;
        for watched in sessions {
            match watched.poller.join_deadline(deadline) {
                Ok(ended) => self.close_run(&watched.execution_id, ended),
                Err(poller) => {
                    log::error!("{} did not end in time and is abandoned", poller.name())
                }
            }
        }
    }
}

fn identity(server: &ServerIdentity, session: &ListedSession<'_>) -> TmuxIdentity {
    TmuxIdentity {
        socket: server.socket.to_string_lossy().into_owned(),
        server_pid: server.pid,
        server_started: server.start_time,
        session_id: session.id.to_string(),
        session_created: session.created,
    }
}
