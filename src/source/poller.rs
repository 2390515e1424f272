//! The poller of one tmux session: asks the gateway for news of its panes, and says what changed.
//!
//! One thread a session, named after it. It gets [`Control`] messages from the coordinator and
//! answers from the gateway, which is its ticker too, and sends events, which never waits. It
//! blocks on the gateway's answer, together with its stop and with what it holds back for a while.
//! It ends when the session or the server is gone, or when it is stopped; a panic is caught at its
//! top, told, and it goes on after a while with what it had said.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, never, select_biased};

use super::handover::{Arrival, Handover, Moving};
use super::pane::{Begin, Out, Pane, settle_time};
use super::recall::Recall;
use super::watch::Baseline;
use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::thread::{Panicked, Stop, catching, is_stopped};
use crate::tmux::{
    GatewayHandle, Left, Margin, PaneAnswer, PaneState, Pending, Rhythm, Seen, ServerIdentity,
    SessionAnswer, SessionId, SessionLook, Want, When, Wish, bytes_read_by,
};
use crate::track::text_of;

/// The last look, when the observer stops: a hung server must not keep it from ending in time.
const LAST_LOOK: Duration = Duration::from_millis(800);

/// How long the poller keeps its place while the log has no room; tmux holds the lines meanwhile.
const ROOM_WAIT: Duration = Duration::from_secs(5);

/// How long a pane that comes from another session is waited for; its poller sees that it has left
/// with its next look.
const ARRIVAL_WAIT: Duration = Duration::from_secs(3);

/// After this time it is seen again whether the log has room, the server answers, or a pane was let
/// go.
const RETRY: Duration = Duration::from_millis(200);

/// After a crash the poller comes back after this time, doubled with each crash up to the second.
const BACK_OFF: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(30);

/// What the coordinator tells a poller.
#[derive(Debug)]
pub(super) enum Control {
    /// Look at once.
    PollNow,
    /// Watch these panes only, where it names some, and never those.
    Select(Selection),
}

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

/// What a poller is started with.
pub(super) struct Poller {
    pub session_id: SessionId,
    pub name: String,
    pub server: ServerIdentity,
    pub emitter: EventEmitter,
    pub gateway: GatewayHandle,
    pub clock: Clock,
    pub rhythm: Rhythm,
    pub stop: Stop,
    pub control: Receiver<Control>,
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

/// How a poller's work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub reason: EndReason,
    pub exit_status: Option<i32>,
}

/// Why a session is no longer observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndReason {
    Closed,
    ServerGone,
    Detached,
}

impl EndReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::ServerGone => "server_gone",
            Self::Detached => "detached",
        }
    }
}

impl Poller {
    /// Runs to the session's end.
    pub fn run(self) -> Ended {
        let mut work = Work {
            panes: HashMap::new(),
            passed_over: HashSet::new(),
            to_open: HashSet::new(),
            left: HashMap::new(),
            arriving: HashMap::new(),
            started: false,
            hung: false,
            no_room_since: None,
            poller: self,
        };
        let mut back_off = BACK_OFF;
        loop {
            match catching("poller", || work.observe()) {
                Ok(ended) => return ended,
                Err(panicked) => work.recover(&panicked, &mut back_off),
            }
        }
    }
}

struct Work {
    poller: Poller,
    panes: HashMap<PaneId, Pane>,
    /// Panes that are not watched.
    passed_over: HashSet<PaneId>,
    /// Panes that are to be said from their first line, or from a place to be found: all of them
    /// is looked at before they are opened.
    to_open: HashSet<PaneId>,
    /// What became of panes that are no longer the session's.
    left: HashMap<PaneId, Left>,
    /// Panes that another session's poller has not let go yet, and since when that is so.
    arriving: HashMap<PaneId, Instant>,
    started: bool,
    hung: bool,
    no_room_since: Option<Instant>,
}

/// What a wait came to.
enum Woken {
    /// An answer.
    Answered(Result<SessionAnswer>),
    /// Nothing that needs an answer any more: the question is to be asked anew.
    AskAgain,
    /// It is time to end.
    Stopped,
}

impl Work {
    /// Observes until the end. Called again after a panic.
    fn observe(&mut self) -> Ended {
        // The first look is taken at once: what is printed after it is seen.
        let mut when = When::Now;
        let reason = loop {
            if is_stopped(&self.poller.stop) {
                break EndReason::Detached;
            }
            if !self.has_room() {
                match self.wait(None, Some(self.retry_at())) {
                    Woken::Stopped => break EndReason::Detached,
                    Woken::Answered(_) | Woken::AskAgain => continue,
                }
            }
            let asked = self.poller.gateway.ask_look(self.wishes(when));
            let woken = match asked {
                Ok(pending) => self.wait(Some(pending), None),
                Err(error) => Woken::Answered(Err(error)),
            };
            // Whatever comes between is a reason to look at once.
            when = When::Now;
            match woken {
                Woken::Stopped => break EndReason::Detached,
                Woken::AskAgain => {}
                Woken::Answered(Ok(answer)) => {
                    let reason = self.answered(answer, false).or_else(|| self.look_deeper());
                    if let Some(reason) = reason {
                        break reason;
                    }
                    if self.arriving.is_empty() {
                        when = When::News(self.poller.rhythm);
                    } else if let Woken::Stopped = self.wait(None, Some(self.retry_at())) {
                        break EndReason::Detached;
                    }
                }
                Woken::Answered(Err(error)) => {
                    if let Some(reason) = self.failed(&error) {
                        break reason;
                    }
                    if let Woken::Stopped = self.wait(None, Some(self.retry_at())) {
                        break EndReason::Detached;
                    }
                }
            }
        };
        self.end(reason)
    }

    /// Waits for an answer, or until some time, and says meanwhile what was held back.
    fn wait(&mut self, asked: Option<Pending<SessionAnswer>>, until: Option<Instant>) -> Woken {
        let nothing = never();
        let timer = until.map_or_else(never, |until| self.poller.clock.at(until));
        loop {
            let due = self.panes.values().filter_map(Pane::next_due).min();
            let due = due.map_or_else(never, |due| self.poller.clock.at(due));
            let answers = asked.as_ref().map_or(&nothing, Pending::answers);
            select_biased! {
                recv(self.poller.stop) -> _ => return Woken::Stopped,
                recv(self.poller.control) -> control => match control {
                    Ok(Control::PollNow) => return Woken::AskAgain,
                    Ok(Control::Select(selection)) => {
                        self.poller.selection = selection;
                        return Woken::AskAgain;
                    }
                    // The coordinator is gone: so is the reason to observe.
                    Err(_) => return Woken::Stopped,
                },
                recv(answers) -> answer => {
                    return Woken::Answered(answer.unwrap_or_else(|_| Err(gateway_ended())));
                }
                recv(timer) -> _ => return Woken::AskAgain,
                recv(due) -> _ => self.say_due(),
            }
        }
    }

    fn retry_at(&self) -> Instant {
        self.poller.clock.now() + RETRY
    }

    fn say_due(&mut self) {
        let now = self.poller.clock.now();
        for (id, pane) in &mut self.panes {
            let recall = self.poller.recalls.entry(id.clone()).or_default();
            pane.say_due(&mut Out {
                emitter: &self.poller.emitter,
                recall,
                now,
            });
        }
    }

    /// Looks again at the panes of which the last look was too short.
    fn look_deeper(&mut self) -> Option<EndReason> {
        if !self.needs_deeper() {
            return None;
        }
        let asked = self.poller.gateway.ask_look(self.wishes(When::Now));
        match asked.map(|pending| pending.wait_or_stop(&self.poller.stop)) {
            Ok(None) => Some(EndReason::Detached),
            Ok(Some(Ok(answer))) => self.answered(answer, true),
            Ok(Some(Err(error))) | Err(error) => self.failed(&error),
        }
    }

    fn needs_deeper(&self) -> bool {
        !self.to_open.is_empty() || self.panes.values().any(|pane| pane.deeper)
    }

    fn wishes(&self, when: When) -> SessionLook {
        let selection = &self.poller.selection;
        let wants = self.panes.iter().map(|(id, pane)| {
            let want = if selection.shows(id) {
                pane.want()
            } else {
                Want::Leave
            };
            (id.clone(), want)
        });
        let passed_over = self.passed_over.iter().filter(|id| !selection.shows(id));
        let whole = Wish {
            seen: None,
            margin: Margin::All,
            settles: None,
        };
        let to_open = self
            .to_open
            .iter()
            .map(|id| (id.clone(), Want::Look(whole.clone())));
        SessionLook {
            session_id: self.poller.session_id,
            server: Some(self.poller.server.clone()),
            name: Some(self.poller.name.clone()),
            wants: wants
                .chain(passed_over.map(|id| (id.clone(), Want::Leave)))
                .chain(to_open)
                .collect(),
            when,
        }
    }

    fn answered(&mut self, answer: SessionAnswer, again: bool) -> Option<EndReason> {
        let (name, panes, left) = match answer {
            SessionAnswer::There {
                name, panes, left, ..
            } => (name, panes, left),
            SessionAnswer::Gone { left } => {
                self.left = left;
                return Some(EndReason::Closed);
            }
            SessionAnswer::OtherServer => return Some(EndReason::ServerGone),
        };
        self.left = left;
        let now = self.poller.clock.now();
        self.answers_again();
        if name != self.poller.name {
            self.poller
                .emitter
                .session_renamed(&self.poller.name, &name);
            self.poller.name = name;
        }
        let first = !self.started;
        if first {
            self.started = true;
            let ids: Vec<PaneId> = panes
                .iter()
                .map(|answer| answer.state().pane())
                .filter(|id| self.poller.selection.shows(id))
                .collect();
            self.poller.emitter.session_started(&self.poller.name, ids);
        }
        let mut there = HashSet::new();
        for answer in &panes {
            let id = answer.state().pane();
            there.insert(id.clone());
            self.pane_answered(&id, answer, again, first, now);
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
            self.close_pane(&id, now);
        }
        None
    }

    fn pane_answered(
        &mut self,
        id: &PaneId,
        answer: &PaneAnswer,
        again: bool,
        first: bool,
        now: Instant,
    ) {
        if !self.poller.selection.shows(id) {
            if !self.panes.contains_key(id) {
                self.passed_over.insert(id.clone());
            }
            return;
        }
        // While it is worked on, the pane is not in the map: a panic leaves no half-done state
        // behind, and what was said of it is recalled.
        let pane = self.panes.remove(id);
        let known = pane
            .is_none()
            .then(|| self.poller.recalls.get(id).cloned())
            .flatten();
        let mut moved = None;
        if pane.is_none() && known.is_none() {
            match self.poller.handover.arrive(id, self.poller.session_id) {
                Arrival::New => {}
                Arrival::Moved(moving) => {
                    let Moving { pane, recall } = *moving;
                    self.poller.recalls.insert(id.clone(), recall);
                    moved = Some(pane);
                }
                Arrival::Held => {
                    let since = *self.arriving.entry(id.clone()).or_insert(now);
                    if now.saturating_duration_since(since) < ARRIVAL_WAIT {
                        return;
                    }
                    // What was said of it there is not known here.
                    self.poller.recalls.insert(id.clone(), Recall::begin());
                    return self.pane_answered(id, answer, again, first, now);
                }
            }
        }
        self.arriving.remove(id);
        let noted = self
            .poller
            .recalls
            .entry(id.clone())
            .or_insert_with(Recall::begin);
        let mut out = Out {
            emitter: &self.poller.emitter,
            recall: noted,
            now,
        };
        let pane = match (pane, answer) {
            (Some(mut pane), PaneAnswer::Still(state, proof)) => {
                if !again {
                    pane.still(state, *proof, &mut out);
                }
                Some(pane)
            }
            (pane @ Some(_), PaneAnswer::There(_)) => pane,
            (Some(mut pane), PaneAnswer::Look { state, look, seen }) => {
                if !again || pane.deeper {
                    pane.look(state, look, Seen::clone(seen), again, &mut out);
                }
                Some(pane)
            }
            (None, PaneAnswer::Look { state, look, seen }) if moved.is_some() => {
                let command = command_of(&mut self.poller.commands, &self.poller.gateway, id);
                if let Some(pane) = &mut moved {
                    pane.arrive(
                        &PaneState {
                            command,
                            ..state.clone()
                        },
                        &mut out,
                    );
                    pane.look(state, look, Seen::clone(seen), again, &mut out);
                }
                moved
            }
            (None, PaneAnswer::Look { state, look, seen }) => {
                let passed_over = self.passed_over.contains(id);
                let begin = match &known {
                    Some(recall) => Begin::Resume(recall),
                    None if passed_over || first && !self.poller.fresh => Begin::Baseline,
                    None => Begin::Fresh,
                };
                let whole = look.is_complete() || matches!(begin, Begin::Baseline);
                // A full-screen program came after the listing: what is behind it is wanted, too.
                let hidden = look.alternate && look.saved.is_none();
                if !again && (!whole || hidden) {
                    if known.is_none() {
                        self.poller.recalls.remove(id);
                    }
                    self.to_open.insert(id.clone());
                    None
                } else {
                    self.to_open.remove(id);
                    let stood_there = !matches!(begin, Begin::Fresh);
                    if let Some(baseline) = self.poller.baseline.as_ref().filter(|_| stood_there) {
                        baseline.show(&self.poller.name, id, &text_of(look));
                    }
                    self.passed_over.remove(id);
                    let command = command_of(&mut self.poller.commands, &self.poller.gateway, id);
                    let state = PaneState {
                        command,
                        ..state.clone()
                    };
                    Some(Pane::open(
                        &state,
                        look,
                        Seen::clone(seen),
                        (&begin, settle_time(&self.poller.rhythm)),
                        &mut out,
                    ))
                }
            }
            (None, PaneAnswer::Still(..) | PaneAnswer::There(_)) => None,
        };
        if let Some(pane) = pane {
            self.poller.handover.hold(id, self.poller.session_id);
            self.panes.insert(id.clone(), pane);
        }
    }

    fn close_pane(&mut self, id: &PaneId, now: Instant) -> Option<i32> {
        let mut pane = self.panes.remove(id)?;
        let mut recall = self.poller.recalls.remove(id).unwrap_or_default();
        let mut out = Out {
            emitter: &self.poller.emitter,
            recall: &mut recall,
            now,
        };
        let left = self.left.get(id);
        if left.is_some_and(|left| left.moved) {
            pane.leave(&mut out);
            self.poller.handover.leave(id, pane, recall);
            return None;
        }
        self.poller.handover.forget(id);
        if let Some(left) = left {
            pane.proved(left.proof);
        }
        pane.close(bytes_read_by(self.poller.server.pid), &mut out);
        pane.exit_status()
    }

    /// The end: last lines, the panes' ends, then the session's.
    fn end(&mut self, reason: EndReason) -> Ended {
        let mut exit_status = None;
        if reason == EndReason::Detached {
            self.last_look();
            let now = self.poller.clock.now();
            for (id, mut pane) in self.panes.drain() {
                self.poller.handover.forget(&id);
                let recall = self.poller.recalls.entry(id).or_default();
                pane.detach(&mut Out {
                    emitter: &self.poller.emitter,
                    recall,
                    now,
                });
            }
        } else {
            let now = self.poller.clock.now();
            let mut ids: Vec<PaneId> = self.panes.keys().cloned().collect();
            ids.sort();
            for id in ids {
                exit_status = exit_status.or(self.close_pane(&id, now));
            }
        }
        if self.started {
            self.poller
                .emitter
                .session_ended(&self.poller.name, reason.as_str(), exit_status);
        }
        Ended {
            reason,
            exit_status,
        }
    }

    /// What was printed until the observer was stopped, if the server tells in time.
    fn last_look(&mut self) {
        if !self.started || self.hung {
            return;
        }
        for again in [false, true] {
            if again && !self.needs_deeper() {
                return;
            }
            // The last name is wanted, too.
            let wishes = SessionLook {
                name: None,
                ..self.wishes(When::Now)
            };
            let Ok(pending) = self.poller.gateway.ask_look(wishes) else {
                return;
            };
            let deadline = self.poller.clock.at(self.poller.clock.now() + LAST_LOOK);
            match pending.wait_or_time(&deadline) {
                Some(Ok(answer)) => {
                    // A session that has just gone is told by the panes that are no longer there.
                    let _ = self.answered(answer, again);
                }
                Some(Err(_)) | None => return,
            }
        }
    }

    /// A look failed: the server is gone, or does not answer, which is said once.
    fn failed(&mut self, error: &Error) -> Option<EndReason> {
        if error.is_gone() {
            return Some(EndReason::ServerGone);
        }
        if !std::mem::replace(&mut self.hung, true) {
            let message = format!("no look at the panes is possible: {error}");
            self.poller.emitter.warning("tmux", &message);
        }
        None
    }

    fn answers_again(&mut self) {
        if std::mem::take(&mut self.hung) {
            self.poller
                .emitter
                .warning("tmux", "the tmux server answers again");
        }
    }

    /// Whether the log has room; without it the poller keeps its place for a while.
    fn has_room(&mut self) -> bool {
        if self.poller.emitter.has_room() {
            self.no_room_since = None;
            return true;
        }
        let now = self.poller.clock.now();
        let since = *self.no_room_since.get_or_insert(now);
        now.saturating_duration_since(since) >= ROOM_WAIT
    }

    /// After a panic: says so and waits.
    fn recover(&mut self, panicked: &Panicked, back_off: &mut Duration) {
        ::log::error!(
            "the poller of session {:?} crashed: {}",
            self.poller.name,
            panicked.message
        );
        let stop = &self.poller.stop;
        select_biased! {
            recv(stop) -> _ => {}
            recv(self.poller.clock.after(*back_off)) -> _ => {}
        }
        *back_off = (*back_off * 2).min(BACK_OFF_MAX);
        let source = format!("poller {}", self.poller.name);
        self.poller
            .emitter
            .poller_restarted(&source, &panicked.message);
    }
}

fn gateway_ended() -> Error {
    Error::gone("the tmux gateway has ended")
}

/// The program in a pane's foreground. A pane that has just appeared is asked for.
fn command_of(
    commands: &mut HashMap<PaneId, String>,
    gateway: &GatewayHandle,
    id: &PaneId,
) -> String {
    if !commands.contains_key(id)
        && let Ok(listing) = gateway.listing()
    {
        *commands = listing
            .panes
            .iter()
            .map(|state| (state.pane(), state.command.clone()))
            .collect();
    }
    commands.get(id).cloned().unwrap_or_default()
}
