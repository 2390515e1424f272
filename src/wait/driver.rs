//! One wait: asks for looks and takes in what they show, until something decides.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, never, select_biased};

use super::channel_wait::ChannelWait;
use super::config::{TargetEnd, Wait, WaitCondition, WaitEnd, WaitMatch, WaitOutcome};
use super::matcher::{LineMatch, MatchKind, Patterns};
use super::pane::{BaselineMode, WaitedPane};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::thread::Stop;
use crate::tmux::{
    DepartedPane, ForegroundPrograms, GatewayHandle, Listing, NewPanes, PaneReply, PaneRequest,
    PaneState, PendingReply, PollSchedule, ReplyTime, ServerIdentity, SessionId, SessionReply,
    SessionRequest, Target, bytes_read_by,
};
use crate::track::Death;

/// How long the look may take that a wait takes when its time is up. A server that is well answers
/// in a few milliseconds; who set a deadline does not wait long for one that is not.
const LAST_LOOK: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct WaitDriver<'a> {
    wait: Wait,
    session_id: SessionId,
    /// What it was called last: as long as that is known, names need not be asked for.
    session_name: String,
    identity: ServerIdentity,
    only: Option<Vec<PaneId>>,
    gateway: GatewayHandle,
    clock: &'a Clock,
    stop: Stop,
    began: Instant,
    deadline: Option<Instant>,
    panes: HashMap<PaneId, WaitedPane>,
    /// Panes of the session that are not meant.
    left_out: HashSet<PaneId>,
    /// Lines of panes that are gone were lost.
    lost_panes: bool,
    /// The last look was not answered.
    unanswered: bool,
    /// What the end of a pane brought to light.
    at_end: Option<(PaneId, LineMatch)>,
    last_lines: Vec<String>,
    exit_status: Option<i32>,
    is_first: bool,
}

/// What woke a wait.
enum WakeReason {
    Answered(Result<SessionReply>),
    Signalled(Result<()>),
    TimeUp,
    Idle,
    Stopped,
}

/// What became of a look.
enum PollResult {
    Decided(WaitEnd),
    Undecided,
    /// It was not answered in time.
    Late,
    Stopped,
}

impl<'a> WaitDriver<'a> {
    /// A wait at a target that is in the listing.
    pub fn new(
        wait: &Wait,
        listing: &Listing,
        gateway: GatewayHandle,
        clock: &'a Clock,
        stop: &Stop,
        began: Instant,
    ) -> Self {
        let panes = wait.target.resolve(listing);
        let session = panes.first();
        let session_id = session.map_or_else(SessionId::default, |pane| pane.session_id);
        Self {
            session_id,
            session_name: session.map_or_else(String::new, |pane| pane.session_name.clone()),
            identity: listing.server.clone(),
            only: only(&wait.target, &panes, listing),
            gateway,
            clock,
            stop: stop.clone(),
            began,
            deadline: wait.timeout.and_then(|timeout| began.checked_add(timeout)),
            panes: HashMap::new(),
            left_out: not_meant(&panes, listing, session_id),
            lost_panes: false,
            unanswered: false,
            at_end: None,
            last_lines: Vec::new(),
            exit_status: None,
            is_first: true,
            wait: wait.clone(),
        }
    }

    /// Takes the first look, however long that takes, and with it the baseline; what it decides at
    /// once. `None` when it is stopped.
    pub fn begin(&mut self) -> Result<Option<Option<WaitEnd>>> {
        Ok(match self.look_now(None)? {
            PollResult::Decided(end) => Some(Some(end)),
            PollResult::Undecided | PollResult::Late => Some(None),
            PollResult::Stopped => None,
        })
    }

    /// Waiter until something decides; `None` when it is stopped.
    pub fn run(&mut self, channel: Option<&ChannelWait>) -> Result<Option<WaitEnd>> {
        let no_channel = never();
        let signalled = channel.map_or(&no_channel, |channel| &channel.done);
        loop {
            let looked = match self.wake(signalled)? {
                WakeReason::Stopped => return Ok(None),
                WakeReason::Signalled(signalled) => return self.signalled(signalled).map(Some),
                WakeReason::TimeUp => return self.last_look(),
                WakeReason::Idle => match self.look_now(self.deadline)? {
                    // What was printed since the look before was no silence.
                    PollResult::Undecided if self.is_idle() => {
                        PollResult::Decided(WaitEnd::Matched(WaitMatch::of(WaitCondition::Idle)))
                    }
                    looked => looked,
                },
                WakeReason::Answered(answer) => match self.take_in(answer, false)? {
                    PollResult::Undecided => self.look_deeper(self.deadline)?,
                    looked => looked,
                },
            };
            match looked {
                PollResult::Decided(end) => return Ok(Some(end)),
                PollResult::Undecided => {}
                PollResult::Late => return self.last_look(),
                PollResult::Stopped => return Ok(None),
            }
        }
    }

    /// The time is up: what was printed since the last look, up to now, still counts.
    fn last_look(&mut self) -> Result<Option<WaitEnd>> {
        // Nobody knows what a server shows that does not answer.
        self.unanswered = true;
        let by = self.clock.now().checked_add(LAST_LOOK);
        Ok(match self.look_now(by)? {
            PollResult::Decided(end) => Some(end),
            PollResult::Undecided | PollResult::Late => Some(self.time_up()),
            PollResult::Stopped => None,
        })
    }

    /// Takes a look at once, and a deeper one if need be.
    fn look_now(&mut self, by: Option<Instant>) -> Result<PollResult> {
        match self.look(false, by)? {
            PollResult::Undecided => self.look_deeper(by),
            looked => Ok(looked),
        }
    }

    /// Looks again at panes whose last look was too short, at all that tmux has of them.
    fn look_deeper(&mut self, by: Option<Instant>) -> Result<PollResult> {
        match self.panes.values().any(|pane| pane.deeper) {
            true => self.look(true, by),
            false => Ok(PollResult::Undecided),
        }
    }

    fn look(&mut self, deepest: bool, by: Option<Instant>) -> Result<PollResult> {
        let pending = self.ask(ReplyTime::Now)?;
        let late = by.map_or_else(never, |at| self.clock.at(at));
        let answer = select_biased! {
            recv(self.stop) -> _ => return Ok(PollResult::Stopped),
            recv(pending.receiver()) -> answer => answer.unwrap_or_else(|_| Err(ended())),
            recv(late) -> _ => return Ok(PollResult::Late),
        };
        self.take_in(answer, deepest)
    }

    /// Waiter for news, or for anything else that decides.
    fn wake(&self, signalled: &Receiver<Result<()>>) -> Result<WakeReason> {
        let pending = self.ask(ReplyTime::OnChange(PollSchedule::Fixed(self.wait.interval)))?;
        let time_up = self.deadline.map_or_else(never, |at| self.clock.at(at));
        let idle = self.idle_at().map_or_else(never, |at| self.clock.at(at));
        Ok(select_biased! {
            recv(self.stop) -> _ => WakeReason::Stopped,
            recv(pending.receiver()) -> answer => {
                WakeReason::Answered(answer.unwrap_or_else(|_| Err(ended())))
            }
            recv(signalled) -> signalled => WakeReason::Signalled(signalled.unwrap_or_else(|_| {
                Err(Error::other("the wait for the channel crashed"))
            })),
            recv(time_up) -> _ => WakeReason::TimeUp,
            recv(idle) -> _ => WakeReason::Idle,
        })
    }

    fn ask(&self, when: ReplyTime) -> Result<PendingReply<SessionReply>> {
        let wants = self
            .panes
            .iter()
            .map(|(id, pane)| (id.clone(), pane.want()));
        let left = self
            .left_out
            .iter()
            .map(|id| (id.clone(), PaneRequest::Presence));
        self.gateway.request_session(SessionRequest {
            new_panes: NewPanes::Capture,
            session_id: self.session_id,
            server: Some(self.identity.clone()),
            name: Some(self.session_name.clone()),
            panes: wants.chain(left).collect(),
            when,
        })
    }

    fn idle_at(&self) -> Option<Instant> {
        let idle = self.wait.idle?;
        let news = self.panes.values().map(|pane| pane.news_at).max()?;
        news.checked_add(idle)
    }

    /// Whether the last look, if it was answered, ended a silence that was long enough.
    fn is_idle(&self) -> bool {
        !self.unanswered && self.idle_at().is_some_and(|at| at <= self.clock.now())
    }

    /// Takes in what a look came to. A hung server is waited for, as long as there is time.
    fn take_in(&mut self, answer: Result<SessionReply>, deepest: bool) -> Result<PollResult> {
        let end = match answer {
            Ok(answer) => {
                self.unanswered = false;
                self.answered(answer, deepest)
            }
            Err(error) if self.is_first => return Err(error),
            Err(error) if error.is_gone() => {
                self.lose_all(&HashMap::new());
                Some(self.gone(TargetEnd::ServerGone))
            }
            Err(error) if error.is_timeout() => {
                log::warn!("{error:?}");
                self.unanswered = true;
                None
            }
            Err(error) => return Err(error),
        };
        Ok(end.map_or(PollResult::Undecided, PollResult::Decided))
    }

    /// Takes in an answer; what it decides.
    fn answered(&mut self, answer: SessionReply, deepest: bool) -> Option<WaitEnd> {
        let (panes, left) = match answer {
            SessionReply::Present {
                name,
                panes,
                departed: left,
                ..
            } => {
                self.session_name = name;
                (panes, left)
            }
            SessionReply::Gone { departed: left } => {
                self.lose_all(&left);
                return Some(self.gone(TargetEnd::SessionGone));
            }
            SessionReply::OtherServer => {
                self.lose_all(&HashMap::new());
                return Some(self.gone(TargetEnd::ServerGone));
            }
        };
        let now = self.clock.now();
        let mut hit: Option<(PaneId, LineMatch)> = None;
        let is_meant = |id: &PaneId| self.only.as_ref().is_none_or(|only| only.contains(id));
        for answer in &panes {
            let id = answer.state().pane();
            if !is_meant(&id) {
                self.left_out.insert(id);
                continue;
            }
            let (look, seen) = match answer {
                PaneReply::Captured {
                    capture: look,
                    digest: seen,
                    ..
                } => (look, seen),
                PaneReply::Unchanged(_, proof) => {
                    let pane = self.panes.get_mut(&id);
                    if let Some(found) = pane.and_then(|pane| pane.still(*proof)) {
                        hit.get_or_insert((id, found));
                    }
                    continue;
                }
                PaneReply::Listed(_) => continue,
            };
            let found = match self.panes.get_mut(&id) {
                Some(pane) if !deepest || pane.deeper => {
                    pane.look(look, (**seen).clone(), deepest, now)
                }
                Some(_) => None,
                None => {
                    let begin = match (self.is_first, self.wait.include_existing) {
                        (false, _) => BaselineMode::Fresh,
                        (true, true) => BaselineMode::Existing,
                        (true, false) => BaselineMode::Baseline,
                    };
                    let (pane, hit) =
                        WaitedPane::begin(look, (**seen).clone(), &self.wait, begin, now);
                    self.panes.insert(id.clone(), pane);
                    hit
                }
            };
            if let Some(found) = found {
                hit.get_or_insert((id, found));
            }
        }
        self.is_first = false;
        if let Some((id, hit)) = hit {
            return Some(self.hit(id, hit));
        }
        let there: HashSet<PaneId> = panes.iter().map(|answer| answer.state().pane()).collect();
        let gone = self.panes.keys().filter(|id| !there.contains(*id));
        for id in gone.cloned().collect::<Vec<_>>() {
            self.lose(&id, &left);
        }
        if let Some((pane, hit)) = self.at_end.take() {
            return Some(self.hit(pane, hit));
        }
        if self.panes.is_empty() {
            return Some(self.gone(TargetEnd::PaneGone));
        }
        if self.panes.values().all(|pane| pane.dead.is_some()) {
            let deaths = self.panes.values().filter_map(|pane| pane.dead);
            self.exit_status = deaths.filter_map(Death::exit_status).next();
            return Some(self.gone(TargetEnd::ProgramEnded));
        }
        None
    }

    fn lose_all(&mut self, left: &HashMap<PaneId, DepartedPane>) {
        for id in self.panes.keys().cloned().collect::<Vec<_>>() {
            self.lose(&id, left);
        }
    }

    /// A pane is gone, and took with it what it printed after the last look, if it did: whatever
    /// the server has read since may have been that.
    fn lose(&mut self, id: &PaneId, left: &HashMap<PaneId, DepartedPane>) {
        let Some(mut pane) = self.panes.remove(id) else {
            return;
        };
        if let Some(found) = pane.end() {
            self.at_end.get_or_insert((id.clone(), found));
        }
        let proved = left.get(id).and_then(|left| left.freshness?.server_bytes);
        let was_all =
            pane.dead.is_some() || proved.is_some() && proved == bytes_read_by(self.identity.pid);
        self.lost_panes |= pane.has_lost || self.wait.looks_at_lines() && !was_all;
        self.last_lines = pane.last_lines();
    }

    fn hit(&mut self, pane: PaneId, hit: LineMatch) -> WaitEnd {
        if let Some(shown) = self.panes.get(&pane) {
            self.last_lines = shown.last_lines();
        }
        let Patterns { wanted, stops } = &self.wait.patterns;
        let (condition, pattern) = match &hit.what {
            MatchKind::Wanted(pattern) => (
                WaitCondition::Text,
                wanted.get(*pattern).map(ToString::to_string),
            ),
            MatchKind::Stop(pattern) => (
                WaitCondition::Text,
                stops.get(*pattern).map(ToString::to_string),
            ),
            MatchKind::Turn(marker) => (WaitCondition::Turn, Some(marker.clone())),
        };
        let found = WaitMatch {
            pane: Some(pane),
            line: (hit.line != i64::MAX).then_some(hit.line),
            text: Some(hit.text),
            pattern,
            ..WaitMatch::of(condition)
        };
        match hit.what {
            MatchKind::Stop(_) => WaitEnd::Stopped(found),
            MatchKind::Wanted(_) | MatchKind::Turn(_) => WaitEnd::Matched(found),
        }
    }

    fn gone(&mut self, why: TargetEnd) -> WaitEnd {
        if let Some((pane, hit)) = self.at_end.take() {
            return self.hit(pane, hit);
        }
        match self.wait.exit {
            true => WaitEnd::Matched(WaitMatch {
                exit_status: self.exit_status,
                ..WaitMatch::of(WaitCondition::Exit)
            }),
            false => WaitEnd::Ended(why),
        }
    }

    fn time_up(&self) -> WaitEnd {
        match self.has_lost() {
            true => WaitEnd::Lost,
            false => WaitEnd::TimedOut,
        }
    }

    fn has_lost(&self) -> bool {
        let is_missing = |pane: &WaitedPane| pane.has_lost || pane.deeper;
        self.lost_panes || self.unanswered || self.panes.values().any(is_missing)
    }

    /// `wait-for` comes back when it is signalled, and when the server dies.
    fn signalled(&mut self, signalled: Result<()>) -> Result<WaitEnd> {
        let is_there = self
            .gateway
            .request_listing(ForegroundPrograms::Omitted)?
            .wait();
        match (signalled, is_there) {
            (Ok(()), Ok(listing)) if listing.server == self.identity => {
                Ok(WaitEnd::Matched(WaitMatch::of(WaitCondition::Channel)))
            }
            (_, Ok(_)) => Ok(self.gone(TargetEnd::ServerGone)),
            (_, Err(error)) if error.is_gone() => Ok(self.gone(TargetEnd::ServerGone)),
            (_, Err(error)) => Err(error),
        }
    }

    pub fn waited(mut self, end: WaitEnd) -> WaitOutcome {
        if self.last_lines.is_empty()
            && let Some(pane) = self.panes.values().max_by_key(|pane| pane.news_at)
        {
            self.last_lines = pane.last_lines();
        }
        WaitOutcome {
            end,
            ts: self.clock.wall(),
            elapsed: self.clock.now().saturating_duration_since(self.began),
            lost_lines: self.has_lost(),
            last_lines: self.last_lines,
        }
    }
}

fn ended() -> Error {
    Error::gone("the tmux gateway has ended")
}

/// The panes that are meant, or `None` for all of a session, those that will come included.
fn only(target: &Target, panes: &[PaneState], listing: &Listing) -> Option<Vec<PaneId>> {
    let session = panes.first()?.session_id;
    let is_all = listing.panes_of(session).count() == panes.len();
    (!is_all || target.may_be_part(listing)).then(|| panes.iter().map(PaneState::pane).collect())
}

/// The other panes of the session.
fn not_meant(panes: &[PaneState], listing: &Listing, session: SessionId) -> HashSet<PaneId> {
    let ids: HashSet<PaneId> = panes.iter().map(PaneState::pane).collect();
    let all = listing.panes_of(session).map(PaneState::pane);
    all.filter(|id| !ids.contains(id)).collect()
}
