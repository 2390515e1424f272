//! The panes of one watched session: opened, asked for, told apart, handed over and closed.

mod agents;
mod departures;
mod programs;
mod streams;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::agent::StateRules;
use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::event::PaneId;
use crate::observe::conversation::{AgentUpdate, Conversations, UPDATES_MAX};
use crate::observe::pane_observer::turns::TurnRules;
use crate::observe::pane_observer::{Begin, Manner, Pane, settle_time};
use crate::observe::pane_recordings::PaneRecordings;
use crate::observe::pane_transfers::{Arrival, Handover, Moving};
use crate::observe::poller::pipes::SessionPipes;
use crate::observe::programs::PanePrograms;
use crate::observe::resume_point::ResumePoint;
use crate::observe::say::Out;
use crate::observe::session_outcome::SessionOutcome;
use crate::observe::watch::Baseline;
use crate::process::{BlockingEmitter, ProcessWatcher};
use crate::tmux::{
    CaptureDigest, DepartedPane, Drains, GatewayHandle, Margin, PaneReply, PaneRequest, PaneState,
    PollSchedule, SessionId,
};
use crate::track::{Capture, captured_lines};

/// How long a pane that comes from another session is waited for; its poller sees that it has left
/// with its next look.
const ARRIVAL_WAIT: Duration = Duration::from_secs(3);

/// Which panes of the session are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::observe) struct Selection {
    /// All, if it names none.
    pub only: Option<HashSet<PaneId>>,
    /// Panes that would show the observer itself.
    pub leave_out: HashSet<PaneId>,
}

impl Selection {
    /// Whether the pane is watched.
    pub fn shows(&self, pane: &PaneId) -> bool {
        !self.leave_out.contains(pane) && self.only.as_ref().is_none_or(|only| only.contains(pane))
    }
}

/// What the panes of a session are watched with.
pub(in crate::observe) struct Outfit {
    pub session_id: SessionId,
    /// The tmux server's process.
    pub server_pid: u32,
    pub emitter: EventEmitter,
    pub gateway: GatewayHandle,
    pub rhythm: PollSchedule,
    /// Where turns end, in AI mode.
    pub turns: Option<TurnRules>,
    /// How agents' screens are read, where that is wanted.
    pub states: Option<StateRules>,
    pub selection: Selection,
    /// The session appeared while the server was observed.
    pub fresh: bool,
    /// Where panes come from that were another session's.
    pub handover: Handover,
    /// Where an earlier observer was.
    pub recalls: HashMap<PaneId, ResumePoint>,
    /// The programs in the foreground of the panes, as far as they are known.
    pub commands: HashMap<PaneId, String>,
    /// Gets what stood on the panes when observation began.
    pub baseline: Option<Baseline>,
    /// Where the panes are followed by their bytes.
    pub drains: Option<Drains>,
    /// Where they are recorded, too.
    pub recording: Option<PaneRecordings>,
    /// Where programs are held open, to learn how they end.
    pub exits: ProcessWatcher,
    /// Where the conversations of agents are read.
    pub conversations: Conversations,
    /// Rows of panes are reported though their agents' conversations are.
    pub shows_screens: bool,
    pub clock: Clock,
}

/// An answer about all panes, as far as it matters to each.
#[derive(Clone, Copy)]
pub(in crate::observe) struct Moment<'a> {
    /// What the session is called.
    pub name: &'a str,
    /// It is the first.
    pub first: bool,
    /// It came of a second look, at those panes of which the first was too short.
    pub again: bool,
    pub now: Instant,
}

/// The panes of one session.
pub(in crate::observe) struct Roster {
    outfit: Outfit,
    panes: HashMap<PaneId, Pane>,
    /// Where the panes are followed by their bytes.
    pipes: Option<SessionPipes>,
    /// Panes that are gone, and of whose bytes the last have not come yet.
    leaving: HashMap<PaneId, (Pane, Option<DepartedPane>)>,
    patient: BlockingEmitter,
    /// What runs in the panes.
    programs: PanePrograms,
    outcome: SessionOutcome,
    /// Panes that are not watched.
    passed_over: HashSet<PaneId>,
    /// Panes that are to be said from their first line, or from a place to be found: all of them
    /// is looked at before they are opened.
    to_open: HashMap<PaneId, ToOpen>,
    /// Some of them were found by a second look, and so wait for a third.
    found_late: bool,
    /// Panes that another session's poller has not let go yet, and since when that is so.
    arriving: HashMap<PaneId, Instant>,
    agent_sender: Sender<AgentUpdate>,
    agent_news: Receiver<AgentUpdate>,
}

impl Roster {
    pub fn new(mut outfit: Outfit) -> Self {
        let (agent_sender, agent_news) = bounded(UPDATES_MAX);
        Self {
            agent_sender,
            agent_news,
            pipes: outfit.drains.take().map(SessionPipes::new),
            leaving: HashMap::new(),
            programs: PanePrograms::new(outfit.exits.clone(), outfit.server_pid),
            outcome: SessionOutcome::default(),
            patient: BlockingEmitter::new(outfit.emitter.clone(), outfit.clock.clone()),
            outfit,
            panes: HashMap::new(),
            passed_over: HashSet::new(),
            to_open: HashMap::new(),
            found_late: false,
            arriving: HashMap::new(),
        }
    }

    pub fn select(&mut self, selection: Selection) {
        self.outfit.selection = selection;
    }

    /// Whether the pane is watched.
    pub fn shows(&self, pane: &PaneId) -> bool {
        self.outfit.selection.shows(pane)
    }

    /// Whether a look is needed beside those that tell what is new: one that is deeper than the
    /// last, one that bytes follow or one to compare with them.
    pub fn needs_more(&self, now: Instant) -> bool {
        let streams = self.pipes.is_some();
        let needs = |(id, pane): (&PaneId, &Pane)| {
            pane.deeper
                || streams
                    && self.shows(id)
                    && (pane.wants_pipe(now)
                        || pane.wants_pipe_recheck(now)
                        || pane.wants_look()
                        || pane.wants_check(now))
        };
        !self.to_open.is_empty() || self.panes.iter().any(needs)
    }

    /// Panes that were listed and have not been captured yet.
    pub fn unopened(&self) -> Vec<PaneId> {
        let mut panes: Vec<PaneId> = self.to_open.keys().cloned().collect();
        panes.sort();
        panes
    }

    /// Whether a pane is on its way from another session, or is listed and could not be captured yet.
    /// No listing brings it again: it is to be asked for after a while.
    pub fn awaits_panes(&self) -> bool {
        !self.arriving.is_empty() || !self.to_open.is_empty()
    }

    /// What to ask for, until there is something to tell.
    pub fn wants(&self) -> HashMap<PaneId, PaneRequest> {
        let wants = self.panes.iter().map(|(id, pane)| {
            let want = if self.shows(id) {
                pane.want()
            } else {
                PaneRequest::Presence
            };
            (id.clone(), want)
        });
        let passed_over = self.passed_over.iter().filter(|id| !self.shows(id));
        // What is known of a pane that is followed counts.
        let to_open = self.to_open.keys();
        passed_over
            .chain(to_open)
            .map(|id| (id.clone(), PaneRequest::Presence))
            .chain(wants)
            .collect()
    }

    /// When something that was held back is to be said; `asks`: or when more is to be asked for.
    pub fn next_due(&self, asks: bool) -> Option<Instant> {
        let leaving = self.leaving.values().map(|(pane, _)| pane);
        let said = self
            .panes
            .values()
            .chain(leaving)
            .filter_map(Pane::next_due);
        let checks = self.panes.values().filter_map(Pane::next_check);
        said.chain(checks.filter(|_| asks))
            .chain(self.programs.deadline())
            .min()
    }

    /// Says what was held back and is due. Whether other things are to be asked for from now on.
    pub fn say_due(&mut self, now: Instant) -> bool {
        let mut asks_otherwise = false;
        for (id, pane) in &mut self.panes {
            let recall = self.outfit.recalls.entry(id.clone()).or_default();
            asks_otherwise |= pane.say_due(&mut Out {
                emitter: &self.outfit.emitter,
                recall,
                patient: self.pipes.is_some().then_some(&mut self.patient),
                now,
            });
            // Its drain did not come, and is not waited for any more.
            if let Some((pipes, token)) = self.pipes.as_mut().zip(pane.pipe())
                && !pane.is_streamed()
                && pipes.owner(token).is_some()
            {
                pipes.close(token);
            }
        }
        self.say_jobs(now);
        self.say_leaving(now);
        asks_otherwise
    }

    /// Somebody wants the panes to be looked at: none of them rests.
    pub fn wake(&mut self, now: Instant) {
        self.panes.values_mut().for_each(|pane| pane.wake(now));
    }

    /// Takes in what became of all panes.
    pub fn answered(
        &mut self,
        panes: &[PaneReply],
        left: &HashMap<PaneId, DepartedPane>,
        moment: Moment<'_>,
    ) {
        let mut there = HashSet::new();
        for answer in panes {
            let id = answer.state().pane();
            if self.shows(&id) {
                self.programs.pane_listed(&id, answer.state(), moment.now);
            }
            self.pane_answered(&id, answer, moment);
            there.insert(id);
        }
        self.arriving.retain(|id, _| there.contains(id));
        self.passed_over.retain(|id| there.contains(id));
        let never_seen: Vec<PaneId> = self
            .to_open
            .keys()
            .filter(|id| !there.contains(*id))
            .cloned()
            .collect();
        for id in never_seen {
            self.vanished(&id, left, moment.now);
        }
        let gone: Vec<PaneId> = self
            .panes
            .keys()
            .filter(|id| !there.contains(*id))
            .cloned()
            .collect();
        for id in gone {
            self.close_pane(&id, left, moment.now);
        }
        if moment.again {
            self.unanswered(moment.now);
        }
    }

    fn pane_answered(&mut self, id: &PaneId, answer: &PaneReply, moment: Moment<'_>) {
        if !self.shows(id) {
            self.pass_over(id, moment.now);
            return;
        }
        // While it is worked on, the pane is not in the map: a panic leaves no half-done state
        // behind, and what was said of it is recalled.
        let pane = match (self.panes.remove(id), answer) {
            (Some(mut pane), answer) => {
                self.go_on(&mut pane, id, answer, moment);
                Some(pane)
            }
            (
                None,
                PaneReply::Captured {
                    state,
                    capture: look,
                    digest: seen,
                    resync: seam,
                },
            ) => {
                let mut pane = self.found(id, Sight { state, look, seen }, moment);
                match &mut pane {
                    Some(pane) => self.pipe_answered(pane, id, look, seam.as_deref(), moment.now),
                    None => self.drop_opening(id),
                }
                pane
            }
            (None, PaneReply::Listed(state)) if self.pipes.is_some() => {
                self.is_to_be_opened(id, state, moment);
                None
            }
            (None, PaneReply::Unchanged(..) | PaneReply::Listed(_)) => None,
        };
        if let Some(pane) = pane {
            self.programs.begin_reporting(id);
            let has_news = pane.has_news_of(moment.now);
            let looks = has_news || !pane.was_looked_through();
            self.outfit.handover.hold(id, self.outfit.session_id);
            self.panes.insert(id.clone(), pane);
            if has_news {
                self.programs.note_output(id, moment.now);
            }
            if looks {
                // An agent may be there since before.
                self.look_for_agent(id, moment.now);
            }
        }
    }

    /// A pane that is watched.
    fn go_on(&mut self, pane: &mut Pane, id: &PaneId, answer: &PaneReply, moment: Moment<'_>) {
        let pid = match answer {
            PaneReply::Captured { capture: look, .. } => look.pid,
            PaneReply::Unchanged(state, _) | PaneReply::Listed(state) => state.pid,
        };
        let is_respawned = pane.is_respawned(pid);
        if is_respawned {
            // The program that is known is the one that has ended.
            self.outfit.commands.remove(id);
        }
        let named = is_respawned.then(|| self.with_command(answer.state()));
        let mut out = out(
            &self.outfit.emitter,
            &mut self.outfit.recalls,
            id,
            moment.now,
        );
        match answer {
            PaneReply::Captured {
                capture: look,
                resync: Some(seam),
                ..
            } if pane.is_streamed() => {
                if pane.compare(look, seam, moment.now)
                    && let (Some(pipes), Some(token)) = (&self.pipes, pane.pipe())
                {
                    pipes.request_mark(token);
                }
            }
            PaneReply::Captured {
                state,
                capture: look,
                digest: seen,
                resync: seam,
            } if !moment.again || pane.deeper || seam.is_some() => {
                let deepest = moment.again && (pane.deeper || seam.is_some());
                let state = named.as_ref().unwrap_or(state);
                pane.look(state, look, CaptureDigest::clone(seen), deepest, &mut out);
                self.pipe_answered(pane, id, look, seam.as_deref(), moment.now);
            }
            PaneReply::Unchanged(state, proof) if !moment.again => {
                pane.still(state, *proof, &mut out);
            }
            PaneReply::Listed(state) => {
                let state = named.as_ref().unwrap_or(state);
                if pane.there(state, &mut out)
                    && let Some(recording) = &self.outfit.recording
                {
                    recording.add_resize(id, (state.width, state.height));
                }
            }
            PaneReply::Unchanged(..) | PaneReply::Captured { .. } => {}
        }
    }

    /// A pane that is to be watched from now on, if it can be.
    fn found(&mut self, id: &PaneId, sight: Sight<'_>, moment: Moment<'_>) -> Option<Pane> {
        let known = self.outfit.recalls.get(id).cloned();
        if known.is_none() {
            match self.outfit.handover.arrive(id, self.outfit.session_id) {
                Arrival::New => {}
                Arrival::Moved(moving) => return Some(self.take_over(*moving, id, sight, moment)),
                Arrival::Held => {
                    let since = *self.arriving.entry(id.clone()).or_insert(moment.now);
                    if moment.now.saturating_duration_since(since) < ARRIVAL_WAIT {
                        return None;
                    }
                    // What was said of it there is not known here.
                    return self.open(id, sight, &Begin::Resume(&ResumePoint::new()), moment);
                }
            }
        }
        let stood_there = self.passed_over.contains(id) || moment.first && !self.outfit.fresh;
        let begin = match &known {
            Some(recall) => Begin::Resume(recall),
            None if stood_there => Begin::Baseline,
            None => Begin::Fresh,
        };
        self.open(id, sight, &begin, moment)
    }

    /// A pane that was another session's.
    fn take_over(
        &mut self,
        Moving { mut pane, recall }: Moving,
        id: &PaneId,
        sight: Sight<'_>,
        moment: Moment<'_>,
    ) -> Pane {
        let deepest = self.was_asked_whole(id, moment);
        self.arriving.remove(id);
        self.to_open.remove(id);
        self.outfit.recalls.insert(id.clone(), recall);
        let state = self.with_command(sight.state);
        let mut out = out(
            &self.outfit.emitter,
            &mut self.outfit.recalls,
            id,
            moment.now,
        );
        pane.arrive(&state, &mut out);
        let Sight { state, look, seen } = sight;
        pane.look(state, look, seen.clone(), deepest, &mut out);
        self.found_late |= moment.again && pane.deeper;
        pane
    }

    /// Whether the look at a pane that is to be opened is as deep as looks can be.
    fn was_asked_whole(&self, id: &PaneId, moment: Moment<'_>) -> bool {
        let margin = self.to_open.get(id).map(|to_open| to_open.margin);
        moment.again && margin == Some(Margin::All)
    }

    /// Opens a pane; not yet, if the look is too short for that.
    fn open(
        &mut self,
        id: &PaneId,
        Sight { state, look, seen }: Sight<'_>,
        begin: &Begin<'_>,
        moment: Moment<'_>,
    ) -> Option<Pane> {
        let whole = look.is_complete() || matches!(begin, Begin::Baseline);
        // A full-screen program came after the listing: what is behind it is wanted, too.
        let hidden = look.alternate && look.saved.is_none();
        if (!whole || hidden) && !self.was_asked_whole(id, moment) {
            self.found_late |= moment.again;
            let to_open = ToOpen {
                margin: Margin::All,
                state: state.clone(),
                is_fresh: matches!(begin, Begin::Fresh),
            };
            self.to_open.insert(id.clone(), to_open);
            return None;
        }
        self.to_open.remove(id);
        self.passed_over.remove(id);
        self.arriving.remove(id);
        // From here on it is known, whatever happens to this thread.
        let recalls = &mut self.outfit.recalls;
        recalls.entry(id.clone()).or_default();
        let stood_there = !matches!(begin, Begin::Fresh);
        if let Some(baseline) = self.outfit.baseline.as_ref().filter(|_| stood_there) {
            baseline.show(moment.name, id, &captured_lines(look));
        }
        let state = self.with_command(state);
        let mut out = out(
            &self.outfit.emitter,
            &mut self.outfit.recalls,
            id,
            moment.now,
        );
        let manner = Manner {
            begin,
            settle: settle_time(&self.outfit.rhythm),
            turns: self.outfit.turns.as_ref(),
            states: self.outfit.states.as_ref(),
            conversations: &self.outfit.conversations,
            shows_screen: self.outfit.shows_screens,
            streams: self.pipes.is_some(),
        };
        Some(Pane::open(&state, look, seen.clone(), manner, &mut out))
    }

    /// The state with the program in the pane's foreground. A pane that has just appeared is asked
    /// for.
    fn with_command(&mut self, state: &PaneState) -> PaneState {
        let (id, commands) = (state.pane(), &mut self.outfit.commands);
        if !commands.contains_key(&id)
            && let Ok(listing) = self.outfit.gateway.listing()
        {
            let named = listing.panes.iter();
            *commands = named
                .map(|state| (state.pane(), state.command.clone()))
                .collect();
        }
        PaneState {
            command: commands.get(&id).cloned().unwrap_or_default(),
            ..state.clone()
        }
    }
}

/// A pane that is to be opened with the look that is taken next.
struct ToOpen {
    /// How deep it is to be.
    margin: Margin,
    /// What the listing had of the pane.
    state: PaneState,
    /// It is to be said from its first line.
    is_fresh: bool,
}

/// A look at a pane.
#[derive(Clone, Copy)]
struct Sight<'a> {
    state: &'a PaneState,
    look: &'a Capture,
    seen: &'a CaptureDigest,
}

/// Where a pane's events go.
fn out<'a>(
    emitter: &'a EventEmitter,
    recalls: &'a mut HashMap<PaneId, ResumePoint>,
    id: &PaneId,
    now: Instant,
) -> Out<'a> {
    let recall = recalls.entry(id.clone()).or_default();
    Out {
        emitter,
        recall,
        patient: None,
        now,
    }
}
