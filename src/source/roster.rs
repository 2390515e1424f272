//! The panes of one watched session: opened, asked for, told apart, handed over and closed.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::handover::{Arrival, Handover, Moving};
use super::pane::{Begin, Manner, Out, Pane, settle_time};
use super::recall::Recall;
use super::turns::TurnRules;
use super::watch::Baseline;
use crate::agent::StateRules;
use crate::bus::EventEmitter;
use crate::event::PaneId;
use crate::tmux::{
    GatewayHandle, Left, Margin, PaneAnswer, PaneState, Rhythm, Seen, SessionId, Want, Wish,
    bytes_read_by,
};
use crate::track::{Look, text_of};

/// How long a pane that comes from another session is waited for; its poller sees that it has left
/// with its next look.
const ARRIVAL_WAIT: Duration = Duration::from_secs(3);

/// Which panes of the session are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
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
pub(super) struct Outfit {
    pub session_id: SessionId,
    /// The tmux server's process.
    pub server_pid: u32,
    pub emitter: EventEmitter,
    pub gateway: GatewayHandle,
    pub rhythm: Rhythm,
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
    pub recalls: HashMap<PaneId, Recall>,
    /// The programs in the foreground of the panes, as far as they are known.
    pub commands: HashMap<PaneId, String>,
    /// Gets what stood on the panes when observation began.
    pub baseline: Option<Baseline>,
}

/// An answer about all panes, as far as it matters to each.
#[derive(Clone, Copy)]
pub(super) struct Moment<'a> {
    /// What the session is called.
    pub name: &'a str,
    /// It is the first.
    pub first: bool,
    /// It came of a second look, at those panes of which the first was too short.
    pub again: bool,
    pub now: Instant,
}

/// The panes of one session.
pub(super) struct Roster {
    outfit: Outfit,
    panes: HashMap<PaneId, Pane>,
    /// Panes that are not watched.
    passed_over: HashSet<PaneId>,
    /// Panes that are to be said from their first line, or from a place to be found: all of them
    /// is looked at before they are opened.
    to_open: HashSet<PaneId>,
    /// Panes that another session's poller has not let go yet, and since when that is so.
    arriving: HashMap<PaneId, Instant>,
}

impl Roster {
    pub fn new(outfit: Outfit) -> Self {
        Self {
            outfit,
            panes: HashMap::new(),
            passed_over: HashSet::new(),
            to_open: HashSet::new(),
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

    /// Whether a look is needed that is deeper than the last.
    pub fn needs_deeper(&self) -> bool {
        !self.to_open.is_empty() || self.panes.values().any(|pane| pane.deeper)
    }

    /// Whether a pane is on its way from another session.
    pub fn awaits_panes(&self) -> bool {
        !self.arriving.is_empty()
    }

    /// What to ask for.
    pub fn wants(&self) -> HashMap<PaneId, Want> {
        let wants = self.panes.iter().map(|(id, pane)| {
            let want = if self.shows(id) {
                pane.want()
            } else {
                Want::Leave
            };
            (id.clone(), want)
        });
        let passed_over = self.passed_over.iter().filter(|id| !self.shows(id));
        let whole = Wish {
            seen: None,
            margin: Margin::All,
            settles: None,
            rests: false,
        };
        let to_open = self.to_open.iter();
        wants
            .chain(passed_over.map(|id| (id.clone(), Want::Leave)))
            .chain(to_open.map(|id| (id.clone(), Want::Look(whole.clone()))))
            .collect()
    }

    /// When something that was held back is to be said.
    pub fn next_due(&self) -> Option<Instant> {
        self.panes.values().filter_map(Pane::next_due).min()
    }

    /// Says what was held back and is due. Whether other things are to be asked for from now on.
    pub fn say_due(&mut self, now: Instant) -> bool {
        let mut asks_otherwise = false;
        for (id, pane) in &mut self.panes {
            let recall = self.outfit.recalls.entry(id.clone()).or_default();
            asks_otherwise |= pane.say_due(&mut Out {
                emitter: &self.outfit.emitter,
                recall,
                now,
            });
        }
        asks_otherwise
    }

    /// Somebody wants the panes to be looked at: none of them rests.
    pub fn wake(&mut self, now: Instant) {
        self.panes.values_mut().for_each(|pane| pane.wake(now));
    }

    /// Takes in what became of all panes.
    pub fn answered(
        &mut self,
        panes: &[PaneAnswer],
        left: &HashMap<PaneId, Left>,
        moment: Moment<'_>,
    ) {
        let mut there = HashSet::new();
        for answer in panes {
            let id = answer.state().pane();
            self.pane_answered(&id, answer, moment);
            there.insert(id);
        }
        self.arriving.retain(|id, _| there.contains(id));
        self.passed_over.retain(|id| there.contains(id));
        self.to_open.retain(|id| there.contains(id));
        let gone: Vec<PaneId> = self
            .panes
            .keys()
            .filter(|id| !there.contains(*id))
            .cloned()
            .collect();
        for id in gone {
            self.close_pane(&id, left, moment.now);
        }
    }

    fn pane_answered(&mut self, id: &PaneId, answer: &PaneAnswer, moment: Moment<'_>) {
        if !self.shows(id) {
            if !self.panes.contains_key(id) {
                self.passed_over.insert(id.clone());
            }
            return;
        }
        // While it is worked on, the pane is not in the map: a panic leaves no half-done state
        // behind, and what was said of it is recalled.
        let pane = match (self.panes.remove(id), answer) {
            (Some(mut pane), answer) => {
                self.go_on(&mut pane, id, answer, moment);
                Some(pane)
            }
            (None, PaneAnswer::Look { state, look, seen }) => {
                self.found(id, Sight { state, look, seen }, moment)
            }
            (None, PaneAnswer::Still(..) | PaneAnswer::There(_)) => None,
        };
        if let Some(pane) = pane {
            self.outfit.handover.hold(id, self.outfit.session_id);
            self.panes.insert(id.clone(), pane);
        }
    }

    /// A pane that is watched.
    fn go_on(&mut self, pane: &mut Pane, id: &PaneId, answer: &PaneAnswer, moment: Moment<'_>) {
        let mut out = out(
            &self.outfit.emitter,
            &mut self.outfit.recalls,
            id,
            moment.now,
        );
        match answer {
            PaneAnswer::Still(state, proof) if !moment.again => {
                pane.still(state, *proof, &mut out);
            }
            PaneAnswer::Look { state, look, seen } if !moment.again || pane.deeper => {
                pane.look(state, look, Seen::clone(seen), moment.again, &mut out);
            }
            PaneAnswer::Still(..) | PaneAnswer::There(_) | PaneAnswer::Look { .. } => {}
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
                    return self.open(id, sight, &Begin::Resume(&Recall::begin()), moment);
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
        self.arriving.remove(id);
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
        pane.look(state, look, seen.clone(), moment.again, &mut out);
        pane
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
        if !moment.again && (!whole || hidden) {
            self.to_open.insert(id.clone());
            return None;
        }
        self.to_open.remove(id);
        self.passed_over.remove(id);
        self.arriving.remove(id);
        // From here on it is known, whatever happens to this thread.
        let recalls = &mut self.outfit.recalls;
        recalls.entry(id.clone()).or_insert_with(Recall::begin);
        let stood_there = !matches!(begin, Begin::Fresh);
        if let Some(baseline) = self.outfit.baseline.as_ref().filter(|_| stood_there) {
            baseline.show(moment.name, id, &text_of(look));
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

    /// A pane is no longer the session's; its exit status.
    fn close_pane(
        &mut self,
        id: &PaneId,
        left: &HashMap<PaneId, Left>,
        now: Instant,
    ) -> Option<i32> {
        let mut pane = self.panes.remove(id)?;
        let mut recall = self.outfit.recalls.remove(id).unwrap_or_default();
        let mut out = Out {
            emitter: &self.outfit.emitter,
            recall: &mut recall,
            now,
        };
        let left = left.get(id);
        if left.is_some_and(|left| left.moved) {
            pane.leave(&mut out);
            self.outfit.handover.leave(id, pane, recall);
            return None;
        }
        self.outfit.handover.forget(id);
        if let Some(proof) = left.and_then(|left| left.proof) {
            pane.proved(proof);
        }
        pane.close(bytes_read_by(self.outfit.server_pid), &mut out);
        pane.exit_status()
    }

    /// The session is gone: its panes have ended, or are another session's. Gives an exit status
    /// of theirs.
    pub fn close(&mut self, left: &HashMap<PaneId, Left>, now: Instant) -> Option<i32> {
        let mut ids: Vec<PaneId> = self.panes.keys().cloned().collect();
        ids.sort();
        ids.iter().fold(None, |status, id| {
            let own = self.close_pane(id, left, now);
            status.or(own)
        })
    }

    /// The observer stops and the panes go on.
    pub fn detach(&mut self, now: Instant) {
        for (id, mut pane) in self.panes.drain() {
            self.outfit.handover.forget(&id);
            let recall = self.outfit.recalls.entry(id).or_default();
            pane.detach(&mut Out {
                emitter: &self.outfit.emitter,
                recall,
                now,
            });
        }
    }
}

/// A look at a pane.
#[derive(Clone, Copy)]
struct Sight<'a> {
    state: &'a PaneState,
    look: &'a Look,
    seen: &'a Seen,
}

/// Where a pane's events go.
fn out<'a>(
    emitter: &'a EventEmitter,
    recalls: &'a mut HashMap<PaneId, Recall>,
    id: &PaneId,
    now: Instant,
) -> Out<'a> {
    let recall = recalls.entry(id.clone()).or_insert_with(Recall::begin);
    Out {
        emitter,
        recall,
        now,
    }
}
