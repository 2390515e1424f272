//! The description of what to watch on a tmux server: built by the user, read by the coordinator.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};

use super::pane_observer::turns::TurnRules;
use super::poller::panes::Selection;
use crate::agent::{Markers, StateRules};
use crate::event::{ExecutionId, PaneId};
use crate::thread::{Stop, StopGuard, is_stopped, lock};
use crate::tmux::{
    DrainProgram, ListedSession, Listing, PaneState, PollSchedule, Server, ServerIdentity,
    SessionId, Target,
};

/// Describes which panes of a tmux server to watch, and how.
///
/// A pane whose pipe is free is streamed: tmux passes all its bytes to a drain, a small process of an installed
/// `td-observe` ([`DrainProgram::find`]) or of the program that [`Watch::stream`] names, so that nothing is missed at
/// any speed and lines arrive within a millisecond. Every other pane is polled, and all are where no such program is
/// installed. [`Watch::poll`] polls all panes.
///
/// ```
/// use std::time::Duration;
/// use td_observe::Watch;
/// use td_observe::tmux::{Server, Target};
/// # fn main() -> td_observe::Result<()> {
/// let watch = Watch::new(Server::named("work"))
///     .target(Target::parse("build")?)
///     .interval(Duration::from_millis(100)); // Applies to polled panes.
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "pass it to Engine::watch"]
pub struct Watch {
    pub(super) server: Server,
    pub(super) targets: Vec<Target>,
    pub(super) reported_absent: Vec<Target>,
    pub(super) schedule: PollSchedule,
    pub(super) turns: Option<TurnRules>,
    pub(super) states: Option<StateRules>,
    pub(super) execution_id: Option<ExecutionId>,
    pub(super) leave_out: Vec<PaneId>,
    pub(super) include_observers: bool,
    /// New terminals are watched for, to find new sessions at once.
    pub(super) finds_terminals: bool,
    pub(super) raw: bool,
    pub(super) baseline_lines: usize,
    pub(super) source: PaneSource,
    pub(super) conversations: bool,
    pub(super) screens: bool,
    pub(super) views: bool,
}

/// The way in which panes are observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PaneSource {
    /// Panes with a free pipe are streamed into this drain, or into the one that
    /// [`DrainProgram::find`] finds; all others are polled.
    Auto(Option<DrainProgram>),
    /// All panes are polled.
    Poll,
}

impl Watch {
    /// Watches all sessions of a server, including future ones.
    pub fn new(server: Server) -> Self {
        Self {
            server,
            targets: Vec::new(),
            reported_absent: Vec::new(),
            schedule: PollSchedule::default(),
            turns: None,
            states: None,
            execution_id: None,
            leave_out: Vec::new(),
            include_observers: false,
            finds_terminals: true,
            raw: false,
            baseline_lines: 0,
            source: PaneSource::Auto(None),
            conversations: true,
            screens: false,
            views: false,
        }
    }

    /// Watches only this target, and those of other calls. A target may appear later.
    pub fn target(mut self, target: Target) -> Self {
        self.targets.push(target);
        self
    }

    /// Does not log that these targets do not exist yet, because the caller has reported it.
    #[cfg(feature = "cli")]
    pub(crate) fn reported_absent(mut self, targets: Vec<Target>) -> Self {
        self.reported_absent = targets;
        self
    }

    /// Polls at a fixed interval, instead of adapting to the output of the panes.
    pub fn interval(self, interval: Duration) -> Self {
        self.schedule(PollSchedule::Fixed(interval))
    }

    /// Sets the schedule of polls. Defaults to [`PollSchedule::default`].
    pub fn schedule(mut self, schedule: PollSchedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// Streams panes into this drain, instead of into the `td-observe` that [`DrainProgram::find`]
    /// finds. A pane that another program has piped is polled. After that program closes its pipe or
    /// replaces the drain's, the pane's pipe is not opened for a minute.
    pub fn stream(mut self, drain: DrainProgram) -> Self {
        self.source = PaneSource::Auto(Some(drain));
        self
    }

    /// Polls all panes: opens no pipe and changes nothing in the tmux server. The last lines of a
    /// program that prints and ends at once are then lost.
    pub fn poll(mut self) -> Self {
        self.source = PaneSource::Poll;
        self
    }

    /// Enables AI mode: a line that consists of one of these markers ends an agent's turn. The end of
    /// a turn emits a complete [`OutputUpdate`](crate::TdEvent::OutputUpdate) and a
    /// [`TurnCompleted`](crate::TdEvent::TurnCompleted). Then the pane rests: it is not polled until
    /// it changes, or until [`Engine::poll_now`](crate::Engine::poll_now) is called.
    pub fn turns(mut self, markers: Markers) -> Self {
        self.turns.get_or_insert_default().markers = markers;
        self
    }

    /// Enables AI mode for agents that may omit the marker: after this silence, a turn counts as
    /// completed, with the evidence `inferred`.
    pub fn infer_turns_after(mut self, silence: Duration) -> Self {
        self.turns.get_or_insert_default().inferred_after = Some(silence);
        self
    }

    /// Reports the states of the agents in the panes, as far as these rules recognize their screens:
    /// an [`AgentState`](crate::TdEvent::AgentState) for the first state and for each change that
    /// lasts: 0.3 s; a second for an idle screen after a finished turn.
    pub fn states(mut self, rules: StateRules) -> Self {
        self.states = Some(rules);
        self
    }

    /// Ignores the files of the agents in the panes. By default, if [`Watch::states`] is set, their
    /// status files and transcripts are read, and their conversations reported.
    pub fn no_conversations(mut self) -> Self {
        self.conversations = false;
        self
    }

    /// Reports the rows of a pane even if its agent's conversation is reported. By default, such rows
    /// are kept as snapshots only.
    pub fn screens(mut self) -> Self {
        self.screens = true;
        self
    }

    /// Reports views of panes by attached clients: a [`PaneSeen`](crate::TdEvent::PaneSeen) when a pane
    /// comes into view, then at most once a minute, and only if it shows something new.
    pub fn views(mut self) -> Self {
        self.views = true;
        self
    }

    pub(super) fn reads_conversations(&self) -> bool {
        self.conversations && self.states.is_some()
    }

    /// Records everything in one run with this id.
    pub fn execution_id(mut self, id: impl Into<ExecutionId>) -> Self {
        self.execution_id = Some(id.into());
        self
    }

    /// Excludes a pane, such as the one in which the observer shows its events.
    pub fn leave_out(mut self, pane: impl Into<PaneId>) -> Self {
        self.leave_out.push(pane.into());
        self
    }

    /// Finds new sessions by listings alone, because the targets exist. The kernel takes some 20 ms to end the
    /// watch for new terminals.
    #[cfg(feature = "cli")]
    pub(crate) fn known_sessions(mut self) -> Self {
        self.finds_terminals = false;
        self
    }

    /// Includes panes that show what is observed. By default a pane is excluded while `td-observe` prints events or
    /// the board in its foreground, since two such panes that show each other's output never stop printing.
    pub fn include_observers(mut self) -> Self {
        self.include_observers = true;
        self
    }

    /// Records all bytes of the panes with their times: as `raw/{pane}.cast` in the run's directory,
    /// in the format asciicast v3. Requires a history and streamed panes; a polled pane is not
    /// recorded.
    pub fn raw(mut self, raw: bool) -> Self {
        self.raw = raw;
        self
    }

    /// Emits the last lines of each pane's baseline, too: they have the numbers 0 and below.
    /// Defaults to none. An observer that resumes a run emits the last lines that its history has
    /// for live subscribers only.
    pub fn baseline_lines(mut self, lines: usize) -> Self {
        self.baseline_lines = lines;
        self
    }
}

/// A running watch of an [`Engine`](crate::Engine). Dropping the handle changes nothing: the watch runs until
/// all its targets have ended, or the engine ends.
#[derive(Debug)]
pub struct WatchHandle(pub(crate) RunningWatch);

impl WatchHandle {
    /// Ends this watch alone, and waits for its end: its panes are read one last time, and its sessions' runs end
    /// as detached.
    pub fn stop(self) {
        self.0.stop();
        // The coordinator's own limits end this wait.
        let _ = self.0.done.recv();
    }

    /// Returns a channel that is closed when the watch has ended, for
    /// [`select!`](crate::channel::select).
    pub fn done(&self) -> &Receiver<Infallible> {
        &self.0.done
    }
}

/// The engine's side of a watch.
#[derive(Clone, Debug)]
pub(crate) struct RunningWatch {
    poll_requester: Sender<()>,
    /// `None` once the watch is to end.
    guard: Arc<Mutex<Option<StopGuard>>>,
    done: Stop,
}

impl RunningWatch {
    pub fn new(poll_requester: Sender<()>, guard: StopGuard, done: Stop) -> Self {
        Self {
            poll_requester,
            guard: Arc::new(Mutex::new(Some(guard))),
            done,
        }
    }

    /// Requests an immediate poll; a pending request suffices.
    pub fn poll_now(&self) {
        let _ = self.poll_requester.try_send(());
    }

    pub fn stop(&self) {
        *lock(&self.guard) = None;
    }

    pub fn has_ended(&self) -> bool {
        is_stopped(&self.done)
    }
}

/// Logs which targets of a watch, or whether its server, do not exist yet, for a caller that observes nothing
/// itself. `None` means that no server is running.
#[cfg(feature = "cli")]
pub(crate) fn report_absent(watch: &Watch, listing: Option<&Listing>) {
    let mut targets = WatchTargets::new(watch);
    if let Some(listing) = listing {
        targets.select(listing, |_| false);
    }
    targets.report_absent(&watch.server, listing.is_some());
}

/// The targets that the user named, and those that have existed.
#[derive(Debug)]
pub(super) struct WatchTargets {
    /// Empty to watch everything.
    targets: Vec<WatchTarget>,
    leave_out: Vec<PaneId>,
    include_observers: bool,
    is_no_server_reported: bool,
    /// The ids and names of the listed sessions.
    sessions: Vec<(SessionId, String)>,
    /// The server whose ids are followed.
    server: Option<ServerIdentity>,
}

#[derive(Debug)]
struct WatchTarget {
    target: Target,
    /// The ids that the target has resolved to, without those that are gone.
    followed: Vec<Target>,
    /// The target has existed.
    was_found: bool,
    is_absence_reported: bool,
}

impl WatchTargets {
    pub fn new(watch: &Watch) -> Self {
        let named = |target: &Target| WatchTarget {
            target: target.clone(),
            followed: Vec::new(),
            was_found: false,
            is_absence_reported: watch.reported_absent.contains(target),
        };
        Self {
            targets: watch.targets.iter().map(named).collect(),
            leave_out: watch.leave_out.clone(),
            include_observers: watch.include_observers,
            is_no_server_reported: false,
            sessions: Vec::new(),
            server: None,
        }
    }

    /// Returns the sessions to watch, each with its selected panes.
    pub fn select<'a>(
        &mut self,
        listing: &'a Listing,
        shows_itself: impl Fn(&PaneState) -> bool,
    ) -> Vec<(ListedSession<'a>, Selection)> {
        if self.server.as_ref() != Some(&listing.server) {
            // Another server assigns the same ids to other panes.
            self.server = Some(listing.server.clone());
            self.targets
                .iter_mut()
                .for_each(|target| target.followed.clear());
        }
        let sessions = listing.sessions();
        self.sessions = sessions
            .map(|session| (session.id, session.name.to_owned()))
            .collect();
        let mut named: HashMap<SessionId, HashSet<PaneId>> = HashMap::new();
        for target in &mut self.targets {
            target.follow(listing);
            for state in target.resolve(listing) {
                target.was_found = true;
                named
                    .entry(state.session_id)
                    .or_default()
                    .insert(state.pane());
            }
        }
        let selected = listing.sessions().filter_map(|session| {
            let only = if self.targets.is_empty() {
                None
            } else {
                self.only(named.remove(&session.id)?, listing, session.id)
            };
            let left_out = |state: &&PaneState| {
                !self.include_observers && shows_itself(state)
                    || self.leave_out.contains(&state.pane())
            };
            let panes = listing.panes_of(session.id);
            let leave_out = panes.filter(left_out).map(PaneState::pane).collect();
            Some((session, Selection { only, leave_out }))
        });
        selected.collect()
    }

    /// Returns the selected panes of a session, or `None` for all of them, including future ones.
    fn only(
        &self,
        named: HashSet<PaneId>,
        listing: &Listing,
        session: SessionId,
    ) -> Option<HashSet<PaneId>> {
        let all = listing
            .panes_of(session)
            .all(|state| named.contains(&state.pane()));
        let mut targets = self.targets.iter();
        let names_panes = targets.any(|target| target.target.may_be_part(listing));
        (!all || names_panes).then_some(named)
    }

    /// Returns true if there are targets and all of them have existed.
    pub fn all_found(&self) -> bool {
        !self.targets.is_empty() && self.targets.iter().all(|target| target.was_found)
    }

    /// Returns true if a target exists.
    pub fn any_exists(&self, listing: &Listing) -> bool {
        let is_same = self.server.as_ref() == Some(&listing.server);
        let mut targets = self.targets.iter();
        targets.any(|target| {
            if is_same {
                !target.resolve(listing).is_empty()
            } else {
                !target.target.resolve(listing).is_empty()
            }
        })
    }

    /// Logs once that a target or the server does not exist yet.
    pub fn report_absent(&mut self, server: &Server, is_running: bool) {
        if self.all_found() {
            return;
        }
        if !is_running {
            if !std::mem::replace(&mut self.is_no_server_reported, true) {
                log::warn!("no tmux server is running at {server}: waiting for it");
            }
            return;
        }
        for target in self.targets.iter_mut().filter(|target| !target.was_found) {
            if !std::mem::replace(&mut target.is_absence_reported, true) {
                let sessions = self.sessions.iter().map(|(id, name)| (*id, &**name));
                if let Some(why) = target.target.conflict(sessions) {
                    log::warn!("nothing is watched: {why}");
                    continue;
                }
                let reading = target.target.reading();
                let reading = reading.map_or_else(String::new, |reading| format!(" ({reading})"));
                let text = target.target.as_str();
                log::warn!("{text:?}{reading} does not exist yet: waiting for it");
            }
        }
    }
}

impl WatchTarget {
    /// Notes the ids that have the name now.
    fn follow(&mut self, listing: &Listing) {
        self.followed.retain(|id| !id.resolve(listing).is_empty());
        for id in self.target.identity(listing) {
            if !self.followed.contains(&id) {
                self.followed.push(id);
            }
        }
    }

    /// Returns the panes that have the name, or had it.
    fn resolve(&self, listing: &Listing) -> Vec<PaneState> {
        let mut panes = self.target.resolve(listing);
        for id in &self.followed {
            for state in id.resolve(listing) {
                if panes.iter().all(|known| known.pane() != state.pane()) {
                    panes.push(state);
                }
            }
        }
        panes
    }
}

#[cfg(test)]
mod tests {
    use crate::tmux::listing_of;

    use super::*;

    fn targets_of(targets: &[&str]) -> WatchTargets {
        let mut watch = Watch::new(Server::default());
        for target in targets {
            watch = watch.target(Target::parse(target).unwrap());
        }
        WatchTargets::new(&watch)
    }

    fn selected(
        targets: &mut WatchTargets,
        listing: &Listing,
    ) -> Vec<(String, Option<usize>, usize)> {
        let shows_itself = |state: &PaneState| state.pane() == "%3";
        let selected = targets.select(listing, shows_itself).into_iter();
        selected
            .map(|(session, selection)| {
                let only = selection.only.map(|only| only.len());
                (session.name.to_owned(), only, selection.leave_out.len())
            })
            .collect()
    }

    #[test]
    fn without_targets_everything_but_what_shows_itself_is_watched() {
        let listing = listing_of(&[(1, "a"), (2, "b"), (3, "b")]);
        let got = selected(&mut targets_of(&[]), &listing);
        assert_eq!(got, [("a".to_owned(), None, 0), ("b".to_owned(), None, 1)]);
    }

    #[test]
    fn a_session_means_all_of_it_and_a_pane_itself() {
        let listing = listing_of(&[(1, "a"), (2, "b"), (3, "b")]);
        let got = selected(&mut targets_of(&["b"]), &listing);
        assert_eq!(got, [("b".to_owned(), None, 1)]);
        let got = selected(&mut targets_of(&["%2"]), &listing);
        assert_eq!(got, [("b".to_owned(), Some(1), 1)]);
        let got = selected(&mut targets_of(&["%1", "a"]), &listing);
        assert_eq!(got, [("a".to_owned(), Some(1), 0)]);
        let dotted = listing_of(&[(1, "api.v2"), (2, "api.v2")]);
        let got = selected(&mut targets_of(&["api.v2"]), &dotted);
        assert_eq!(got, [("api.v2".to_owned(), None, 0)], "a name, not a part");
    }

    #[test]
    fn a_renamed_session_is_followed() {
        let mut targets = targets_of(&["old"]);
        let names = |targets: &mut WatchTargets, listing: &Listing| -> Vec<String> {
            let selected = selected(targets, listing).into_iter();
            selected.map(|(name, ..)| name).collect()
        };
        let mut listing = listing_of(&[(1, "old"), (2, "x")]);
        assert_eq!(names(&mut targets, &listing), ["old"]);
        listing.panes[0].session_name = "new".to_owned();
        let renamed = listing.clone();
        assert_eq!(names(&mut targets, &renamed), ["new"]);
        assert!(targets.any_exists(&renamed));
        // Another session that takes the name is watched, too.
        listing.panes[1].session_name = "old".to_owned();
        assert_eq!(names(&mut targets, &listing), ["new", "old"]);
        // Another server's sessions have the same ids.
        let mut restarted = renamed.clone();
        restarted.server.start_time += 1;
        assert!(!targets.any_exists(&restarted));
        assert_eq!(names(&mut targets, &restarted), [""; 0]);
    }

    #[test]
    fn watching_ends_when_all_targets_have_appeared_and_gone() {
        let mut targets = targets_of(&["a", "b"]);
        let (first, both) = (listing_of(&[(1, "a")]), listing_of(&[(1, "a"), (2, "b")]));
        selected(&mut targets, &first);
        assert!(!targets.all_found() && targets.any_exists(&first));
        selected(&mut targets, &both);
        assert!(targets.all_found());
        assert!(!targets.any_exists(&listing_of(&[(4, "c")])));
    }
}
