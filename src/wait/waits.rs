//! Waiting: panes are looked at through one gateway, by as many threads as wait, until something
//! decides.
//!
//! Each wait runs in the thread that asks for it, and blocks on the gateway's answer, on its
//! deadlines and on its channel.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use crossbeam_channel::{Receiver, never, select_biased};

use super::channel::Channel;
use super::config::{Found, Wait, WaitEnd, Waited};
use super::matcher::Hit;
use super::watched::{Begin, Watched};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::thread::Stop;
use crate::tmux::{
    Gateway, GatewayHandle, Listing, PaneAnswer, PaneState, Programs, Rhythm, Server,
    ServerIdentity, SessionAnswer, SessionId, SessionLook, Target, Want, When,
};
use crate::track::Death;

/// Waits at the panes of one tmux server. All that wait at the same time share its one gateway, and
/// with it the tmux processes.
///
/// ```no_run
/// use td_observe::tmux::{Server, Target};
/// use td_observe::wait::{Needle, Wait, WaitEnd, Waits};
///
/// # fn main() -> td_observe::Result<()> {
/// let waits = Waits::new(Server::default())?;
/// let build = Wait::at(Target::parse("build")?).needle(Needle::text("BUILD SUCCESS")?);
/// if let WaitEnd::Found(found) = waits.wait(&build)?.end {
///     println!("line {:?}: {:?}", found.line, found.text);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Waits {
    server: Server,
    gateway: Gateway,
    clock: Clock,
}

impl Waits {
    /// Waits at this server, which must be there when something is waited for.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn new(server: Server) -> Result<Self> {
        let clock = Clock::system();
        let gateway = Gateway::start(server.clone(), clock.clone())?;
        Ok(Self {
            server,
            gateway,
            clock,
        })
    }

    /// Waits, in this thread.
    ///
    /// # Errors
    /// `is_invalid_input()` when there is no such target, or nothing is waited for; `is_gone()`
    /// without a server; `is_timeout()` when it is hung.
    pub fn wait(&self, wait: &Wait) -> Result<Waited> {
        let never = never();
        match self.wait_or_stop(wait, &never)? {
            Some(waited) => Ok(waited),
            None => Err(Error::gone("the wait was stopped")),
        }
    }

    /// Waits until it is stopped; `None` then.
    pub(crate) fn wait_or_stop(&self, wait: &Wait, stop: &Stop) -> Result<Option<Waited>> {
        if !wait.waits_for_anything() {
            return Err(Error::invalid("nothing is waited for"));
        }
        Rhythm::Fixed(wait.interval).check()?;
        let began = self.clock.now();
        let gateway = self.gateway.handle();
        let asked = gateway.ask_listing(Programs::LeftOut)?;
        let Some(listing) = asked.wait_or_stop(stop) else {
            return Ok(None);
        };
        let listing = listing?;
        let target = &wait.target;
        let panes = target.resolve(&listing);
        let Some(session) = panes.first() else {
            return Err(Error::invalid(format!(
                "there is no {:?} at {}: see tmux list-panes -a",
                target.as_str(),
                self.server
            )));
        };
        let channel = match &wait.channel {
            Some(name) => Some(Channel::wait_for(&self.server, name, &self.clock)?),
            None => None,
        };
        let mut work = Work {
            wait,
            session_id: session.session_id,
            identity: listing.server.clone(),
            only: only(target, &panes, &listing),
            gateway,
            clock: &self.clock,
            stop,
            began,
            deadline: wait.timeout.and_then(|timeout| began.checked_add(timeout)),
            panes: HashMap::new(),
            left_out: not_meant(&panes, &listing, session.session_id),
            lost_panes: false,
            last_lines: Vec::new(),
            exit_status: None,
            is_first: true,
        };
        let end = work.run(channel.as_ref());
        drop(channel);
        Ok(end?.map(|end| work.waited(end)))
    }
}

/// The panes that are meant, or `None` for all of a session, those that will come included.
fn only(target: &Target, panes: &[PaneState], listing: &Listing) -> Option<Vec<PaneId>> {
    let session = panes.first()?.session_id;
    let is_all = listing.panes_of(session).count() == panes.len();
    (!is_all || target.may_be_part()).then(|| panes.iter().map(PaneState::pane).collect())
}

/// The other panes of the session.
fn not_meant(panes: &[PaneState], listing: &Listing, session: SessionId) -> HashSet<PaneId> {
    let ids: HashSet<PaneId> = panes.iter().map(PaneState::pane).collect();
    let all = listing.panes_of(session).map(PaneState::pane);
    all.filter(|id| !ids.contains(id)).collect()
}

struct Work<'a> {
    wait: &'a Wait,
    session_id: SessionId,
    identity: ServerIdentity,
    only: Option<Vec<PaneId>>,
    gateway: GatewayHandle,
    clock: &'a Clock,
    stop: &'a Stop,
    began: Instant,
    deadline: Option<Instant>,
    panes: HashMap<PaneId, Watched>,
    /// Panes of the session that are not meant.
    left_out: HashSet<PaneId>,
    /// Lines of panes that are gone were lost.
    lost_panes: bool,
    last_lines: Vec<String>,
    exit_status: Option<i32>,
    is_first: bool,
}

/// What woke a wait.
enum Woken {
    Answered(Result<SessionAnswer>),
    Signalled(Result<()>),
    TimeUp,
    Idle,
    Stopped,
}

impl Work<'_> {
    /// Waits until something decides; `None` when it is stopped.
    fn run(&mut self, channel: Option<&Channel>) -> Result<Option<WaitEnd>> {
        let no_channel = never();
        let signalled = channel.map_or(&no_channel, |channel| &channel.done);
        let mut when = When::Now;
        loop {
            match self.ask_and_wait(when, signalled)? {
                Woken::Stopped => return Ok(None),
                Woken::TimeUp => return Ok(Some(self.time_up())),
                Woken::Idle => {
                    let idle = Found::of("idle");
                    return Ok(Some(WaitEnd::Found(idle)));
                }
                Woken::Signalled(signalled) => return self.signalled(signalled).map(Some),
                Woken::Answered(Ok(answer)) => {
                    if let Some(end) = self.answered(answer, false) {
                        return Ok(Some(end));
                    }
                    when = When::News(Rhythm::Fixed(self.wait.interval));
                    if self.panes.values().any(|pane| pane.deeper) {
                        match self.ask_and_wait(When::Now, &never())? {
                            Woken::Answered(Ok(answer)) => {
                                if let Some(end) = self.answered(answer, true) {
                                    return Ok(Some(end));
                                }
                            }
                            Woken::Answered(Err(error)) => self.failed(error)?,
                            Woken::TimeUp => return Ok(Some(self.time_up())),
                            Woken::Stopped => return Ok(None),
                            Woken::Idle | Woken::Signalled(_) => {}
                        }
                    }
                }
                Woken::Answered(Err(error)) if error.is_gone() => {
                    return Ok(Some(self.gone("the tmux server is gone")));
                }
                Woken::Answered(Err(error)) => self.failed(error)?,
            }
        }
    }

    /// A look that failed: a hung server is waited for, as long as there is time.
    fn failed(&self, error: Error) -> Result<()> {
        if error.is_timeout() && !self.is_first {
            log::warn!("{error:?}");
            return Ok(());
        }
        Err(error)
    }

    fn ask_and_wait(&self, when: When, signalled: &Receiver<Result<()>>) -> Result<Woken> {
        let wants = self
            .panes
            .iter()
            .map(|(id, pane)| (id.clone(), pane.want()));
        let left = self.left_out.iter().map(|id| (id.clone(), Want::Leave));
        let wants = wants.chain(left).collect();
        let pending = self.gateway.ask_look(SessionLook {
            session_id: self.session_id,
            server: Some(self.identity.clone()),
            name: None,
            wants,
            when,
        })?;
        let time_up = self.deadline.map_or_else(never, |at| self.clock.at(at));
        let idle = self.idle_at().map_or_else(never, |at| self.clock.at(at));
        Ok(select_biased! {
            recv(self.stop) -> _ => Woken::Stopped,
            recv(pending.answers()) -> answer => Woken::Answered(answer.unwrap_or_else(|_| {
                Err(Error::gone("the tmux gateway has ended"))
            })),
            recv(signalled) -> signalled => Woken::Signalled(signalled.unwrap_or_else(|_| {
                Err(Error::other("the wait for the channel crashed"))
            })),
            recv(time_up) -> _ => Woken::TimeUp,
            recv(idle) -> _ => Woken::Idle,
        })
    }

    fn idle_at(&self) -> Option<Instant> {
        let idle = self.wait.idle?;
        let news = self.panes.values().map(|pane| pane.news_at).max()?;
        news.checked_add(idle)
    }

    /// Takes in an answer; what it decides.
    fn answered(&mut self, answer: SessionAnswer, again: bool) -> Option<WaitEnd> {
        let panes = match answer {
            SessionAnswer::There { panes, .. } => panes,
            SessionAnswer::Gone { .. } => return Some(self.gone("the session is gone")),
            SessionAnswer::OtherServer => return Some(self.gone("the tmux server is gone")),
        };
        let now = self.clock.now();
        let mut hit: Option<(PaneId, Hit)> = None;
        let is_meant = |id: &PaneId| self.only.as_ref().is_none_or(|only| only.contains(id));
        for answer in &panes {
            let id = answer.state().pane();
            if !is_meant(&id) {
                self.left_out.insert(id);
                continue;
            }
            let PaneAnswer::Look { look, seen, .. } = answer else {
                continue;
            };
            let found = match self.panes.get_mut(&id) {
                Some(pane) if !again || pane.deeper => {
                    pane.look(look, (**seen).clone(), again, now)
                }
                Some(_) => None,
                None => {
                    let begin = match (self.is_first, self.wait.include_existing) {
                        (false, _) => Begin::Fresh,
                        (true, true) => Begin::Existing,
                        (true, false) => Begin::Baseline,
                    };
                    let needles = self.wait.needles.clone();
                    let (pane, hit) = Watched::begin(look, (**seen).clone(), needles, begin, now);
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
        let there: Vec<PaneId> = panes.iter().map(|answer| answer.state().pane()).collect();
        let gone: Vec<PaneId> = self
            .panes
            .keys()
            .filter(|id| !there.contains(id))
            .cloned()
            .collect();
        for id in gone {
            if let Some(pane) = self.panes.remove(&id) {
                self.lost_panes |= pane.has_lost;
                self.last_lines = pane.last_lines();
            }
        }
        if self.panes.is_empty() {
            return Some(self.gone("the pane is gone"));
        }
        if self.panes.values().all(|pane| pane.dead.is_some()) {
            let deaths = self.panes.values().filter_map(|pane| pane.dead);
            self.exit_status = deaths.filter_map(Death::exit_status).next();
            return Some(self.gone("the program has ended"));
        }
        None
    }

    fn hit(&mut self, pane: PaneId, hit: Hit) -> WaitEnd {
        if let Some(shown) = self.panes.get(&pane) {
            self.last_lines = shown.last_lines();
        }
        let needles = &self.wait.needles;
        let needle = match hit.is_stop {
            true => needles.stops.get(hit.needle),
            false => needles.wanted.get(hit.needle),
        };
        let found = Found {
            pane: Some(pane),
            line: Some(hit.line),
            text: Some(hit.text),
            needle: needle.map(ToString::to_string),
            ..Found::of("text")
        };
        match hit.is_stop {
            true => WaitEnd::Stopped(found),
            false => WaitEnd::Found(found),
        }
    }

    fn gone(&self, why: &'static str) -> WaitEnd {
        match self.wait.exit {
            true => WaitEnd::Found(Found {
                exit_status: self.exit_status,
                ..Found::of("exit")
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
        self.lost_panes || self.panes.values().any(|pane| pane.has_lost)
    }

    /// `wait-for` comes back when it is signalled, and when the server dies.
    fn signalled(&self, signalled: Result<()>) -> Result<WaitEnd> {
        let is_there = self.gateway.ask_listing(Programs::LeftOut)?.wait();
        match (signalled, is_there) {
            (Ok(()), Ok(listing)) if listing.server == self.identity => {
                Ok(WaitEnd::Found(Found::of("channel")))
            }
            (_, Ok(_)) => Ok(self.gone("the tmux server is gone")),
            (_, Err(error)) if error.is_gone() => Ok(self.gone("the tmux server is gone")),
            (_, Err(error)) => Err(error),
        }
    }

    fn waited(mut self, end: WaitEnd) -> Waited {
        if self.last_lines.is_empty()
            && let Some(pane) = self.panes.values().max_by_key(|pane| pane.news_at)
        {
            self.last_lines = pane.last_lines();
        }
        Waited {
            end,
            ts: self.clock.wall(),
            elapsed: self.clock.now().saturating_duration_since(self.began),
            lost_lines: self.has_lost(),
            last_lines: self.last_lines,
        }
    }
}
