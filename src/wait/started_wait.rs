//! A wait that has begun: requests captures and feeds them to its panes until a condition is met.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, never, select_biased};

use super::config::{TargetEnd, Wait, WaitCondition, WaitEnd, WaitMatch, WaitOutcome};
use super::matcher::{LastLines, LineMatch, MatchKind};
use super::pane::{BaselineMode, WaitedPane};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::process::{ExitWatch, ProcessWatcher, WatchedProcess};
use crate::thread::{self, Handle, Stop, StopGuard, stop_pair};
use crate::tmux::{
    DepartedPane, ForegroundPrograms, GatewayHandle, Listing, PaneReply, PaneRequest, PaneState,
    PollSchedule, Server, ServerIdentity, SessionId, SessionReply, SessionRequest, bytes_read_by,
    received,
};
use crate::track::ProcessExit;

/// The time limit of the last capture, after the timeout. A healthy server replies in a few milliseconds,
/// and a caller with a timeout must not wait long for a hung one.
const LAST_CAPTURE: Duration = Duration::from_secs(1);

/// A wait that has begun, from [`Waiter::start`](super::Waiter::start). Its duration and its timeout count
/// from that call. Dropping it ends the wait.
#[derive(Debug)]
#[must_use = "the outcome comes from finish"]
pub struct StartedWait<'a> {
    wait: Wait,
    channel: Option<ChannelWait>,
    session_id: SessionId,
    /// The last known name. While it is current, tmux need not list all sessions.
    session_name: String,
    identity: ServerIdentity,
    /// The panes of the target; `None` for all panes of the session, including new ones.
    target_panes: Option<Vec<PaneId>>,
    gateway: GatewayHandle,
    clock: &'a Clock,
    stop: Stop,
    began: Instant,
    deadline: Option<Instant>,
    panes: HashMap<PaneId, WaitedPane>,
    /// The panes of the session that are not part of the target.
    other_panes: HashSet<PaneId>,
    /// A pane that is gone has, or may have, printed lines that were not captured.
    has_lost_lines: bool,
    /// The last request got no reply in time.
    is_unanswered: bool,
    /// A match in the final state of a pane that is gone.
    final_match: Option<(PaneId, LineMatch)>,
    last_lines: LastLines,
    exit_status: Option<i32>,
    /// The programs, for a wait for their end.
    programs: Option<ProgramExits>,
    has_baseline: bool,
    /// The end, when the first capture already decided it.
    end: Option<WaitEnd>,
}

impl<'a> StartedWait<'a> {
    /// Begins a wait for a target that is in the listing: takes the first capture, however long that takes.
    pub(super) fn start(
        wait: &Wait,
        channel: Option<ChannelWait>,
        listing: &Listing,
        gateway: GatewayHandle,
        clock: &'a Clock,
        began: Instant,
        stop: &Stop,
    ) -> Result<Self> {
        let panes = wait.target.resolve(listing);
        let session = panes.first();
        let session_id = session.map_or_else(SessionId::default, |pane| pane.session_id);
        let ids: Vec<PaneId> = panes.iter().map(PaneState::pane).collect();
        let in_session = || listing.panes_of(session_id).map(PaneState::pane);
        // A target that is the whole session also includes panes that open later.
        let is_part = in_session().count() != ids.len() || wait.target.may_be_part(listing);
        let other_panes = in_session().filter(|id| !ids.contains(id)).collect();
        let mut started = Self {
            channel,
            session_id,
            session_name: session.map_or_else(String::new, |pane| pane.session_name.clone()),
            identity: listing.server.clone(),
            target_panes: is_part.then_some(ids),
            gateway,
            clock,
            stop: stop.clone(),
            began,
            deadline: wait.timeout.and_then(|timeout| began.checked_add(timeout)),
            panes: HashMap::new(),
            other_panes,
            has_lost_lines: false,
            is_unanswered: false,
            final_match: None,
            last_lines: LastLines::default(),
            exit_status: None,
            programs: wait.exit.then(ProgramExits::start),
            has_baseline: false,
            end: None,
            wait: wait.clone(),
        };
        started.end = started.capture_now(None)?;
        Ok(started)
    }

    /// Returns a pane of the target and a line that it showed before the wait and that matches a pattern. Such
    /// a line does not end the wait.
    pub fn already_shown(&self) -> Option<(&PaneId, &str)> {
        let mut panes = self.panes.iter();
        panes.find_map(|(id, pane)| Some((id, pane.already_shown.as_deref()?)))
    }

    /// Returns the panes of the target.
    #[cfg(feature = "cli")]
    pub(crate) fn panes(&self) -> Vec<PaneId> {
        let mut panes: Vec<PaneId> = self.panes.keys().cloned().collect();
        panes.sort_unstable();
        panes
    }

    /// Returns the server of the target.
    #[cfg(feature = "cli")]
    pub(crate) fn server(&self) -> &ServerIdentity {
        &self.identity
    }

    /// Returns the session if the target is a whole session, which includes panes that open later.
    #[cfg(feature = "cli")]
    pub(crate) fn whole_session(&self) -> Option<SessionId> {
        self.target_panes.is_none().then_some(self.session_id)
    }

    /// Returns true if the first capture has ended the wait.
    #[cfg(feature = "cli")]
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Waits in this thread until a condition is met.
    ///
    /// # Errors
    /// `is_gone()` when the gateway has ended; `is_timeout()` or another error when tmux gives no readable
    /// reply.
    pub fn finish(mut self) -> Result<WaitOutcome> {
        let end = match self.end.take() {
            Some(end) => end,
            None => self.run()?,
        };
        if self.last_lines.lines.is_empty()
            && let Some(pane) = self.panes.values().max_by_key(|pane| pane.changed_at)
        {
            self.last_lines = pane.last_lines();
        }
        Ok(WaitOutcome {
            end,
            ts: self.clock.wall(),
            elapsed: self.clock.now().saturating_duration_since(self.began),
            lost_lines: self.may_have_lost_lines(),
            last_lines: self.last_lines.lines,
            lines_before: self.last_lines.before,
        })
    }

    fn run(&mut self) -> Result<WaitEnd> {
        loop {
            let schedule = PollSchedule::Fixed(self.wait.interval);
            let request = self.request(Some(schedule));
            let pending = self.gateway.request_session(request)?;
            let stop = self.stop.clone();
            let channel = self.channel.as_ref();
            let channel_done = channel.map_or_else(never, |channel| channel.done.clone());
            let other = self.wait.other.clone().unwrap_or_else(never);
            let time_up = self.deadline.map_or_else(never, |at| self.clock.at(at));
            let idle = self.idle_at().map_or_else(never, |at| self.clock.at(at));
            let end = select_biased! {
                recv(stop) -> _ => Some(WaitEnd::Interrupted),
                recv(pending.receiver()) -> reply => {
                    match self.handle_reply(received(reply), false)? {
                        None => self.capture_deeper(self.deadline)?,
                        end => end,
                    }
                }
                recv(channel_done) -> result => {
                    let result = result.unwrap_or_else(|_| {
                        Err(Error::other("the thread that waits for the channel has panicked"))
                    });
                    Some(self.channel_done(result)?)
                }
                recv(other) -> found => {
                    if found.is_err() {
                        // A condition that the wait does not observe can no longer be met.
                        self.wait.other = None;
                    }
                    found.ok().map(WaitEnd::Matched)
                }
                recv(time_up) -> _ => Some(self.last_capture()?),
                // Output since the previous capture ends the silence.
                recv(idle) -> _ => self
                    .capture_now(self.deadline)?
                    .or_else(|| self.is_idle().then(|| matched(WaitCondition::Idle))),
            };
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// Takes the last capture, after the timeout: everything printed until now counts.
    fn last_capture(&mut self) -> Result<WaitEnd> {
        // Without a reply, the present state of the panes is unknown.
        self.is_unanswered = true;
        let by = self.clock.now().checked_add(LAST_CAPTURE);
        let end = self.capture_now(by)?;
        Ok(end.unwrap_or_else(|| {
            if self.may_have_lost_lines() {
                WaitEnd::Lost
            } else {
                WaitEnd::TimedOut
            }
        }))
    }

    /// Captures the panes at once, and again in full where the first capture was too short.
    fn capture_now(&mut self, by: Option<Instant>) -> Result<Option<WaitEnd>> {
        match self.capture(false, by)? {
            None => self.capture_deeper(by),
            end => Ok(end),
        }
    }

    /// Captures the full history of panes whose last capture was too short.
    fn capture_deeper(&mut self, by: Option<Instant>) -> Result<Option<WaitEnd>> {
        if self
            .panes
            .values()
            .any(|pane| pane.polled.needs_full_capture)
        {
            self.capture(true, by)
        } else {
            Ok(None)
        }
    }

    fn capture(&mut self, is_full: bool, by: Option<Instant>) -> Result<Option<WaitEnd>> {
        let pending = self.gateway.request_session(self.request(None))?;
        let late = by.map_or_else(never, |at| self.clock.at(at));
        select_biased! {
            recv(self.stop) -> _ => Ok(Some(WaitEnd::Interrupted)),
            recv(pending.receiver()) -> reply => {
                self.handle_reply(received(reply), is_full)
            }
            recv(late) -> _ => {
                self.is_unanswered = true;
                Ok(None)
            }
        }
    }

    fn request(&self, on_change: Option<PollSchedule>) -> SessionRequest {
        let panes = self.panes.iter();
        let panes = panes.map(|(id, pane)| (id.clone(), pane.request()));
        let others = self.other_panes.iter();
        let others = others.map(|id| (id.clone(), PaneRequest::Presence));
        SessionRequest {
            lists_new_panes: false,
            session_id: self.session_id,
            server: Some(self.identity.clone()),
            name: Some(self.session_name.clone()),
            panes: panes.chain(others).collect(),
            viewed: None,
            on_change,
        }
    }

    fn idle_at(&self) -> Option<Instant> {
        let idle = self.wait.idle?;
        let changed_at = self.panes.values().map(|pane| pane.changed_at).max()?;
        changed_at.checked_add(idle)
    }

    /// Returns true if the last capture succeeded and confirmed a silence that is long enough.
    fn is_idle(&self) -> bool {
        !self.is_unanswered && self.idle_at().is_some_and(|at| at <= self.clock.now())
    }

    /// Handles a reply. A hung server is retried while there is time.
    fn handle_reply(
        &mut self,
        reply: Result<SessionReply>,
        is_full: bool,
    ) -> Result<Option<WaitEnd>> {
        match reply {
            Ok(reply) => {
                self.is_unanswered = false;
                Ok(self.handle_session(reply, is_full))
            }
            Err(error) if !self.has_baseline => Err(error),
            Err(error) if error.is_gone() => Ok(Some(self.server_gone())),
            Err(error) if error.is_timeout() => {
                log::warn!("{error:?}");
                self.is_unanswered = true;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn handle_session(&mut self, reply: SessionReply, is_full: bool) -> Option<WaitEnd> {
        let (panes, departed) = match reply {
            SessionReply::Present {
                name,
                panes,
                departed,
            } => {
                self.session_name = name;
                (panes, departed)
            }
            SessionReply::Gone { departed } => {
                self.remove_panes(|_| true, &departed);
                return Some(self.target_ended(TargetEnd::SessionGone));
            }
            SessionReply::OtherServer => return Some(self.server_gone()),
        };
        let now = self.clock.now();
        let mut first_match: Option<(PaneId, LineMatch)> = None;
        let present: HashSet<PaneId> = panes.iter().map(|reply| reply.state().pane()).collect();
        for reply in panes {
            let id = reply.state().pane();
            if let Some(targets) = &self.target_panes
                && !targets.contains(&id)
            {
                self.other_panes.insert(id);
                continue;
            }
            if let Some(line_match) = self.handle_pane(&id, reply, is_full, now) {
                first_match.get_or_insert((id, line_match));
            }
        }
        self.has_baseline = true;
        if let Some((id, line_match)) = first_match {
            return Some(self.end_of(id, line_match));
        }
        self.remove_panes(|id| !present.contains(id), &departed);
        if let Some((pane, line_match)) = self.final_match.take() {
            return Some(self.end_of(pane, line_match));
        }
        if self.panes.is_empty() {
            return Some(self.target_ended(TargetEnd::PaneGone));
        }
        if self.panes.values().all(|pane| pane.death.is_some()) {
            let deaths = self.panes.values().filter_map(|pane| pane.death);
            // A failure counts more than a success, as for programs whose panes are closed.
            self.exit_status = deaths.filter_map(ProcessExit::exit_status).max();
            return Some(self.target_ended(TargetEnd::ProgramEnded));
        }
        None
    }

    fn handle_pane(
        &mut self,
        id: &PaneId,
        reply: PaneReply,
        is_full: bool,
        now: Instant,
    ) -> Option<LineMatch> {
        let known = self.panes.get_mut(id);
        let mut captured = match reply {
            PaneReply::Captured(captured) => *captured,
            PaneReply::Unchanged(state, freshness) => {
                return known.and_then(|pane| pane.handle_unchanged(&state, freshness, now));
            }
            PaneReply::Listed(_) => return None,
        };
        if let Some(programs) = &mut self.programs {
            programs.note(id, captured.capture.pid, self.identity.pid);
        }
        match known {
            Some(pane) if is_full && !pane.polled.needs_full_capture => None,
            Some(pane) => pane.handle_capture(captured, is_full, now),
            None => {
                let mode = match (self.has_baseline, self.wait.include_existing) {
                    (true, _) => BaselineMode::New,
                    (false, true) => BaselineMode::Existing,
                    (false, false) => BaselineMode::Baseline,
                };
                let (pane, line_match) = WaitedPane::new(&mut captured, &self.wait, mode, now);
                self.panes.insert(id.clone(), pane);
                line_match
            }
        }
    }

    /// Removes panes that are gone. Everything that the server has read since a pane's last capture may
    /// have been output of this pane.
    fn remove_panes(
        &mut self,
        is_gone: impl Fn(&PaneId) -> bool,
        departed: &HashMap<PaneId, DepartedPane>,
    ) {
        let now = self.clock.now();
        for (id, mut pane) in self.panes.extract_if(|id, _| is_gone(id)) {
            let captured = departed.get(&id);
            let captured = captured.and_then(|departed| departed.freshness?.server_bytes);
            let is_complete = pane.death.is_some()
                || captured.is_some() && captured == bytes_read_by(self.identity.pid);
            self.has_lost_lines |= pane.has_lost_lines || self.wait.matches_lines() && !is_complete;
            self.last_lines = pane.last_lines();
            if let Some(line_match) = pane.end(now) {
                self.final_match.get_or_insert((id, line_match));
            }
        }
    }

    fn may_have_lost_lines(&self) -> bool {
        let is_incomplete =
            |pane: &WaitedPane| pane.has_lost_lines || pane.polled.needs_full_capture;
        self.has_lost_lines || self.is_unanswered || self.panes.values().any(is_incomplete)
    }
}

fn matched(condition: WaitCondition) -> WaitEnd {
    WaitEnd::Matched(WaitMatch::of(condition))
}

impl StartedWait<'_> {
    pub(super) fn end_of(&mut self, pane: PaneId, line_match: LineMatch) -> WaitEnd {
        if let Some(pane) = self.panes.get(&pane) {
            self.last_lines = pane.last_lines();
        }
        let condition = match line_match.kind {
            MatchKind::Wanted | MatchKind::Stop => WaitCondition::Text,
            MatchKind::Turn => WaitCondition::Turn,
        };
        let wait_match = WaitMatch {
            pane: Some(pane),
            line: line_match.line,
            text: Some(line_match.text),
            pattern: Some(line_match.pattern),
            ..WaitMatch::of(condition)
        };
        match line_match.kind {
            MatchKind::Stop => WaitEnd::Stopped(wait_match),
            MatchKind::Wanted | MatchKind::Turn => WaitEnd::Matched(wait_match),
        }
    }

    pub(super) fn server_gone(&mut self) -> WaitEnd {
        self.remove_panes(|_| true, &HashMap::new());
        self.target_ended(TargetEnd::ServerGone)
    }

    pub(super) fn target_ended(&mut self, end: TargetEnd) -> WaitEnd {
        if let Some((pane, line_match)) = self.final_match.take() {
            return self.end_of(pane, line_match);
        }
        if self.wait.exit {
            WaitEnd::Matched(WaitMatch {
                exit_status: self.exit_status.or_else(|| {
                    let programs = self.programs.as_ref()?;
                    programs.status(self.clock)
                }),
                ..WaitMatch::of(WaitCondition::Exit)
            })
        } else {
            WaitEnd::Ended(end)
        }
    }

    /// Handles the end of `wait-for`, which returns when the channel is signalled and when the server dies.
    pub(super) fn channel_done(&mut self, result: Result<()>) -> Result<WaitEnd> {
        let listing = self
            .gateway
            .request_listing(ForegroundPrograms::Omitted)?
            .wait();
        match (result, listing) {
            (Ok(()), Ok(listing)) if listing.server == self.identity => {
                Ok(matched(WaitCondition::Channel))
            }
            (_, Err(error)) if !error.is_gone() => Err(error),
            _ => Ok(self.target_ended(TargetEnd::ServerGone)),
        }
    }
}

/// Maximum time that tmux takes to reap a program whose pane it has closed.
const REAPING: Duration = Duration::from_millis(500);

/// The programs of the panes of a wait.
#[derive(Debug)]
pub(super) struct ProgramExits {
    programs: HashMap<PaneId, Vec<WatchedProcess>>,
    exited: Sender<()>,
    exits: Receiver<()>,
    /// `None` where the watch could not be started: exits are then read from `/proc`. Dropped last.
    watch: Option<ExitWatch>,
}

impl ProgramExits {
    pub fn start() -> Self {
        let watch = ExitWatch::start().inspect_err(|error| log::info!("{error:?}"));
        let (exited, exits) = bounded(1);
        Self {
            programs: HashMap::new(),
            exited,
            exits,
            watch: watch.ok(),
        }
    }

    /// Watches the program of a pane, a child of the tmux server.
    pub fn note(&mut self, pane: &PaneId, pid: u32, server: u32) {
        let programs = self.programs.entry(pane.clone()).or_default();
        if programs.iter().any(|program| program.pid == pid) {
            return;
        }
        let watch = self.watch.as_ref();
        let watcher = watch.map_or_else(ProcessWatcher::default, |watch| watch.watcher.clone());
        // tmux makes each program the leader of a session.
        let program = watcher.watch(pid, &self.exited, |stat| {
            stat.parent == server && stat.session == pid
        });
        // A respawned pane reports its latest program.
        *programs = program.into_iter().collect();
    }

    /// Returns the greatest exit status of the ended programs: it is 0 only if none is known to have failed.
    pub fn status(&self, clock: &Clock) -> Option<i32> {
        let time_up = clock.after(REAPING);
        let mut is_late = false;
        loop {
            let programs = self.programs.values().flatten();
            let exits: Vec<_> = programs.map(WatchedProcess::query_exit).collect();
            let is_final = exits.iter().all(Option::is_some);
            if is_final || is_late {
                let known = exits.into_iter().flatten().flatten();
                return known.filter_map(ProcessExit::exit_status).max();
            }
            select_biased! {
                recv(self.exits) -> _ => {}
                recv(time_up) -> _ => is_late = true,
            }
        }
    }
}

/// A running wait for a channel. Dropping it ends the wait.
#[derive(Debug)]
pub(super) struct ChannelWait {
    /// Receives a message when the channel was signalled or the server is gone.
    pub done: Receiver<Result<()>>,
    running: Option<StopGuard>,
    thread: Option<Handle<()>>,
}

impl ChannelWait {
    /// Starts the thread.
    pub fn start(server: &Server, name: &str, clock: &Clock) -> Result<Self> {
        let (running, stop) = stop_pair();
        let (sender, done) = bounded(1);
        let (server, name, clock) = (server.clone(), name.to_owned(), clock.clone());
        let thread = thread::spawn("td-channel", move || {
            // The wait may have ended for another reason.
            let _ = sender.send(server.wait_for(&name, stop, &clock));
        })?;
        Ok(Self {
            done,
            running: Some(running),
            thread: Some(thread),
        })
    }
}

impl Drop for ChannelWait {
    fn drop(&mut self) {
        self.running = None;
        if let Some(thread) = self.thread.take() {
            thread.join_logged();
        }
    }
}
