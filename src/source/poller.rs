//! The poller of one tmux session: sleeps on its ticker, has the gateway look, says what changed.
//!
//! One thread a session, named after it. It gets [`Control`] messages from the coordinator and
//! answers from the gateway, and sends events, which never waits. It blocks on its ticker and on
//! the gateway's answer (at most the gateway's deadline), both together with its stop. It ends when
//! the session or the server is gone, or when it is stopped; a panic is caught at its top, told,
//! and it goes on after a while with what it had said.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, select_biased};

use super::pane::{Begin, Out, Pane};
use super::recall::Recall;
use super::watch::Baseline;
use crate::bus::EventEmitter;
use crate::clock::Clock;
use crate::error::Error;
use crate::event::PaneId;
use crate::thread::{Panicked, Stop, catching, is_stopped};
use crate::tmux::{
    GatewayHandle, Margin, PaneAnswer, PaneState, Seen, ServerIdentity, SessionAnswer, SessionId,
    SessionLook, Want, bytes_read_by, next_tick,
};
use crate::track::text_of;

/// The last look, when the observer stops: a hung server must not keep it from ending in time.
const LAST_LOOK: Duration = Duration::from_millis(800);

/// How long the poller keeps its place while the log has no room; tmux holds the lines meanwhile.
const ROOM_WAIT: Duration = Duration::from_secs(5);

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
    pub interval: Duration,
    /// The grid that all pollers tick on begins here.
    pub epoch: Instant,
    pub stop: Stop,
    pub control: Receiver<Control>,
    pub selection: Selection,
    /// The session appeared while the server was observed.
    pub fresh: bool,
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
            passed_over: HashMap::new(),
            to_open: HashSet::new(),
            started: false,
            hung: false,
            no_room_since: None,
            server_bytes: None,
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
    /// Panes that are not watched, as they were seen.
    passed_over: HashMap<PaneId, Seen>,
    /// Panes that are to be said from their first line, or from a place to be found: all of them
    /// is looked at before they are opened.
    to_open: HashSet<PaneId>,
    started: bool,
    hung: bool,
    no_room_since: Option<Instant>,
    /// Bytes that the server had read before the last look was asked for.
    server_bytes: Option<u64>,
}

impl Work {
    /// Observes until the end. Called again after a panic.
    fn observe(&mut self) -> Ended {
        // The first look is taken at once: what is printed after it is seen.
        let mut reason = self.tick();
        while reason.is_none() {
            let now = self.poller.clock.now();
            let tick = next_tick(now, self.poller.epoch, self.poller.interval);
            select_biased! {
                recv(self.poller.stop) -> _ => reason = Some(EndReason::Detached),
                recv(self.poller.control) -> control => match control {
                    Ok(Control::PollNow) => reason = self.tick(),
                    Ok(Control::Select(selection)) => self.poller.selection = selection,
                    // The coordinator is gone: so is the reason to observe.
                    Err(_) => reason = Some(EndReason::Detached),
                },
                recv(self.poller.clock.at(tick)) -> _ => reason = self.tick(),
            }
        }
        self.end(reason.unwrap_or(EndReason::Detached))
    }

    /// One tick: a look at all panes, and a deeper one at those that need it.
    fn tick(&mut self) -> Option<EndReason> {
        if is_stopped(&self.poller.stop) {
            return Some(EndReason::Detached);
        }
        if !self.has_room() {
            return None;
        }
        let reason = self.look_at(false);
        if reason.is_none() && self.needs_deeper() {
            return self.look_at(true);
        }
        reason
    }

    fn needs_deeper(&self) -> bool {
        !self.to_open.is_empty() || self.panes.values().any(|pane| pane.deeper)
    }

    /// Looks at all panes, or at those only of which the last look was too short.
    fn look_at(&mut self, again: bool) -> Option<EndReason> {
        // What comes before the answer is in it.
        self.server_bytes = bytes_read_by(self.poller.server.pid);
        let pending = match self.poller.gateway.ask_look(self.wishes()) {
            Ok(pending) => pending,
            Err(error) => return self.failed(&error),
        };
        let answer = match pending.wait_or_stop(&self.poller.stop) {
            None => return Some(EndReason::Detached),
            Some(answer) => answer,
        };
        match answer {
            Ok(answer) => self.answered(answer, again),
            Err(error) => self.failed(&error),
        }
    }

    fn wishes(&self) -> SessionLook {
        let passed_over = self.passed_over.iter().map(|(pane, seen)| {
            let want = Want {
                seen: Some(seen.clone()),
                margin: Margin::Rows(0),
                saved: false,
            };
            (pane.clone(), want)
        });
        let whole = Want {
            seen: None,
            margin: Margin::All,
            saved: true,
        };
        SessionLook {
            session_id: self.poller.session_id,
            server: Some(self.poller.server.clone()),
            wants: self
                .panes
                .iter()
                .map(|(id, pane)| (id.clone(), pane.want()))
                .chain(passed_over)
                .chain(self.to_open.iter().map(|id| (id.clone(), whole.clone())))
                .collect(),
        }
    }

    fn answered(&mut self, answer: SessionAnswer, again: bool) -> Option<EndReason> {
        let SessionAnswer::There { name, panes, .. } = answer else {
            return Some(EndReason::Closed);
        };
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
        self.passed_over.retain(|id, _| there.contains(id));
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
            if let PaneAnswer::Look { seen, .. } = answer
                && !self.panes.contains_key(id)
            {
                self.passed_over.insert(id.clone(), Seen::clone(seen));
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
            (Some(mut pane), PaneAnswer::Still(_)) => {
                if !again {
                    pane.still(self.server_bytes, &mut out);
                }
                Some(pane)
            }
            (Some(mut pane), PaneAnswer::Look { state, look, seen }) => {
                if !again || pane.deeper {
                    pane.look(state, look, Seen::clone(seen), again, &mut out);
                }
                Some(pane)
            }
            (None, PaneAnswer::Look { state, look, seen }) => {
                let passed_over = self.passed_over.contains_key(id);
                let begin = match &known {
                    Some(recall) => Begin::Resume(recall),
                    None if passed_over || first && !self.poller.fresh => Begin::Baseline,
                    None => Begin::Fresh,
                };
                if !look.is_complete() && !again && !matches!(begin, Begin::Baseline) {
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
                        &begin,
                        &mut out,
                    ))
                }
            }
            (None, PaneAnswer::Still(_)) => None,
        };
        if let Some(pane) = pane {
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
            let Ok(pending) = self.poller.gateway.ask_look(self.wishes()) else {
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
