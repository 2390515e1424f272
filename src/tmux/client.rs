//! What is asked of a tmux server, one process at a time: what it holds, and looks at its panes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::select_biased;

use super::ask::{PaneAnswer, again};
use super::capture::{Shot, Shown, capture};
use super::counters::Counters;
use super::listing::{Listing, ServerIdentity};
use super::plan::{Cost, cut, screens_max};
use super::probe::{Probed, Screen, probe};
use super::question::Facts;
use super::rest::Rest;
use super::seen::Proof;
use super::server::Server;
use super::telling::Telling;
use super::visit::{Task, Visit};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::thread::{Stop, is_stopped};

/// How old a listing may be that serves as long as the server has read nothing, where it does not
/// stand still (see [`super::rest`]).
const LISTING_AGE_MAX: Duration = Duration::from_secs(1);

/// How old numbers may be for those who only look for new panes, and names while there are the same
/// panes.
const NUMBERS_AGE_MAX: Duration = Duration::from_millis(200);
const NAMES_AGE_MAX: Duration = Duration::from_millis(1500);

/// The longest pause after a process: twice as long as a batch may take.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// What a process takes to start and to end, in which the server is free for others.
const STARTING: Duration = Duration::from_millis(2);

/// Asks one server, and leaves it time for others in between.
pub(super) struct Client {
    server: Server,
    clock: Clock,
    stop: Stop,
    /// When the gateway's time began.
    epoch: Instant,
    /// The server that answered last.
    known: Option<ServerIdentity>,
    counters: Counters,
    last: Option<Listed>,
    /// The last listing in full, whatever came after it.
    before: Option<Arc<Listing>>,
    /// How many listings there were.
    listings: u64,
    /// Until then the server is left to others.
    free_at: Instant,
    rest: Rest,
    processes: Arc<AtomicU64>,
}

/// A listing, and when it was taken.
struct Listed {
    listing: Arc<Listing>,
    number: u64,
    /// What the server had read before; `None` where that does not tell about its panes.
    bytes: Option<u64>,
    at: Duration,
    /// When all of it was asked, names included.
    named_at: Duration,
}

impl Listed {
    /// Whether the server has read nothing since.
    fn is_idle(&self, now: Proof) -> bool {
        now.bytes.is_some() && now.bytes == self.bytes
    }

    /// Whether its names are as old as the rest.
    fn is_named(&self) -> bool {
        self.named_at == self.at
    }
}

/// How much of a server is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extent {
    /// What there was before will do as long as the server has read nothing: then no pane has
    /// changed by itself, and what users change (sizes, names, what is gone) the coordinator's
    /// next listing shows.
    #[default]
    Panes,
    /// All panes and their numbers; names may be old.
    Numbers,
    /// Names, too.
    Names,
    /// And the programs in the foreground.
    Programs,
}

/// What was found out of the server.
pub(super) struct Found {
    pub listing: Arc<Listing>,
    /// Which one of the client's it is.
    number: u64,
    /// The moment before.
    pub proof: Proof,
    /// The server was asked for it.
    pub is_new: bool,
    screens: HashMap<u32, String>,
    /// Looks that came along.
    looks: HashMap<PaneId, Guessed>,
}

/// A look that was taken before it was known whether it is wanted.
struct Guessed {
    shot: Shot,
    shown: Shown,
    moment: Proof,
}

impl Guessed {
    /// Whether it shows what another look was to show.
    fn serves(&self, wanted: &Shot) -> bool {
        let is_view = matches!(self.shown, Shown::View(_));
        is_view
            && wanted.seam.is_none()
            && self.shot.depth >= wanted.depth
            && (self.shot.saved || !wanted.saved)
    }
}

impl Found {
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            listing: &self.listing,
            number: self.number,
            proof: self.proof,
            screens: &self.screens,
        }
    }
}

impl Client {
    pub fn new(
        (server, clock, epoch): (Server, Clock, Instant),
        stop: Stop,
        processes: Arc<AtomicU64>,
    ) -> Self {
        Self {
            server: server.until(stop.clone()),
            epoch,
            free_at: clock.now(),
            clock,
            stop,
            known: None,
            counters: Counters::default(),
            last: None,
            before: None,
            listings: 0,
            rest: Rest::default(),
            processes,
        }
    }

    /// The gateway's time.
    pub fn now(&self) -> Duration {
        self.clock.now().saturating_duration_since(self.epoch)
    }

    pub fn epoch(&self) -> Instant {
        self.epoch
    }

    /// What the server has read, as far as is known.
    pub fn bytes(&self) -> Option<u64> {
        self.counters.bytes()
    }

    /// When the server was last asked about all of its panes, and what it had read before, as far
    /// as that is known.
    pub fn asked(&self) -> Option<(Duration, u64)> {
        let last = self.last.as_ref()?;
        Some((last.at, last.bytes?))
    }

    /// When to call [`Client::note_rest`].
    pub fn rest_due(&self) -> Option<Duration> {
        self.rest.due().filter(|_| self.known.is_some())
    }

    /// Sees how long the server has run, once it has dealt with the last question.
    pub fn note_rest(&mut self) {
        if self.rest_due().is_some_and(|due| due <= self.now()) {
            self.rest.note(self.counters.run());
        }
    }

    /// This moment, before a question.
    pub fn moment(&self) -> Proof {
        Proof {
            at: self.now(),
            second: self.clock.wall().micros().div_euclid(1_000_000),
            bytes: self.bytes(),
        }
    }

    /// What the server held a moment ago: enough for those who only look for new panes.
    pub fn recent(&self) -> Option<&Arc<Listing>> {
        let last = self.last.as_ref()?;
        (self.now() < last.at + NUMBERS_AGE_MAX).then_some(&last.listing)
    }

    /// Finds out what the server holds, with as little as will do. Where it has to be asked, looks
    /// may come along.
    pub fn find(&mut self, extent: Extent, screens: &[Screen], shots: Vec<Shot>) -> Result<Found> {
        let mut proof = self.moment();
        let Some(last) = self.last.take() else {
            return self.list(extent, proof);
        };
        let are_names_old = proof.at >= last.named_at + NAMES_AGE_MAX;
        let serves = match extent {
            Extent::Panes => {
                last.is_idle(proof) && proof.at < last.at + LISTING_AGE_MAX
                    || self.holds(&last, proof)
            }
            Extent::Numbers => self.holds(&last, proof),
            Extent::Names => last.is_named() && self.holds(&last, proof),
            Extent::Programs => false,
        };
        if serves && screens.is_empty() {
            let found = Found {
                is_new: false,
                ..found(&last, proof, HashMap::new())
            };
            self.last = Some(last);
            return Ok(found);
        }
        let stood_still = self.rest.lists(self.counters.run());
        // What went unnoticed behind the last listing may be a name.
        if extent >= Extent::Names || are_names_old || stood_still {
            return self.list(extent, proof);
        }
        let (beside, alone) = screens_max(last.listing.panes.len());
        let (first, more) = screens.split_at(screens.len().min(beside));
        let moment = self.moment();
        let probed = self.probe(Some(&last.listing), first, &shots)?;
        let Some(listing) = probed.listing else {
            proof = self.moment();
            return self.list(extent, proof);
        };
        let mut shown = by_pane(first, probed.screens);
        for more in more.chunks(alone) {
            // What is shown later proves more.
            shown.extend(by_pane(more, self.probe(None, more, &[])?.screens));
        }
        self.listings += 1;
        let listed = Listed {
            listing: Arc::new(listing),
            number: self.listings,
            bytes: proof.bytes,
            at: proof.at,
            named_at: last.named_at,
        };
        let guessed = shots.into_iter().zip(probed.looks).map(|(shot, shown)| {
            let guessed = Guessed {
                shot,
                shown,
                moment,
            };
            (guessed.shot.pane.clone(), guessed)
        });
        let found = Found {
            looks: guessed.collect(),
            ..found(&listed, proof, shown)
        };
        self.last = Some(listed);
        Ok(found)
    }

    /// The number of the last listing, if it holds at this moment.
    pub fn holding(&self) -> Option<u64> {
        let last = self.last.as_ref()?;
        self.holds(last, self.moment()).then_some(last.number)
    }

    /// Whether there is nothing to tell beyond this listing.
    pub fn is_held(&self, listing: &Arc<Listing>) -> bool {
        let last = self.last.as_ref();
        last.is_some_and(|last| Arc::ptr_eq(&last.listing, listing)) && self.holding().is_some()
    }

    /// Whether a listing holds, because the server has done nothing since.
    fn holds(&self, last: &Listed, now: Proof) -> bool {
        let are_named = last.is_named() || now.at < last.named_at + NAMES_AGE_MAX;
        last.is_idle(now) && are_named && self.rest.keeps(self.counters.run(), last.at, now.at)
    }

    fn probe(
        &mut self,
        known: Option<&Listing>,
        screens: &[Screen],
        shots: &[Shot],
    ) -> Result<Probed> {
        let of = self.known.clone().unwrap_or_default();
        self.ask(|server, clock| probe(server, clock, known, screens, (&of, shots)))
    }

    /// Runs one tmux process. One that took long is followed by a pause of about the same length
    /// (within limits): in it the server serves others, who would wait for all batches otherwise.
    fn ask<T>(&mut self, question: impl FnOnce(&Server, &Clock) -> Result<T>) -> Result<T> {
        if let Some(pause) = self.free_at.checked_duration_since(self.clock.now()) {
            select_biased! {
                recv(self.stop) -> _ => {}
                recv(self.clock.after(pause)) -> _ => {}
            }
        }
        self.processes.fetch_add(1, Ordering::Relaxed);
        let began = self.clock.now();
        let answer = question(&self.server, &self.clock);
        let ended = self.clock.now();
        self.rest.asked(ended.saturating_duration_since(self.epoch));
        self.free_at = ended + (ended - began).saturating_sub(STARTING).min(PAUSE_MAX);
        answer
    }

    /// Asks for everything.
    fn list(&mut self, extent: Extent, mut proof: Proof) -> Result<Found> {
        let commands = extent == Extent::Programs;
        let mut listing = self.ask(|server, clock| Listing::ask(server, clock, commands))?;
        if let Some(before) = &self.before {
            listing.keep_pids(before);
        }
        // Bytes of another server say nothing about this one.
        if self.known.as_ref() != Some(&listing.server) {
            self.counters = Counters::of(listing.server.pid);
            self.known = Some(listing.server.clone());
            proof.bytes = None;
        }
        // The names of programs are read, too: only after such a listing are the bytes those of
        // the panes again.
        self.listings += 1;
        let listing = Arc::new(listing);
        self.before = Some(Arc::clone(&listing));
        let listed = self.last.insert(Listed {
            listing,
            number: self.listings,
            bytes: proof.bytes.filter(|_| !commands),
            at: proof.at,
            named_at: proof.at,
        });
        Ok(found(listed, proof, HashMap::new()))
    }

    /// Takes the looks that are missing, a batch at a time, and answers each session when it has
    /// all of its own.
    pub fn look(&mut self, tellings: Vec<Telling>, found: &mut Found) {
        let listing = Arc::clone(&found.listing);
        let known = &listing.server;
        let mut tasks: Vec<Task> = Vec::new();
        let mut of_pane: HashMap<PaneId, usize> = HashMap::new();
        let mut visits: Vec<Option<Visit>> = Vec::new();
        for mut telling in tellings {
            let looks = std::mem::take(&mut telling.looks);
            if looks.is_empty() {
                telling.tell();
                continue;
            }
            let left = looks.len();
            let visit = visits.len();
            for (listed, shot) in looks {
                // A pane that several look at is captured once, as deep as the deepest of them.
                match of_pane.get(&shot.pane).map(|at| &mut tasks[*at]) {
                    Some(task) => task.join(visit, &shot),
                    None => {
                        of_pane.insert(shot.pane.clone(), tasks.len());
                        let visits = vec![visit];
                        tasks.push(Task {
                            visits,
                            listed,
                            shot,
                        });
                    }
                }
            }
            visits.push(Some(Visit { telling, left }));
        }
        tasks.retain(|task| {
            let guessed = found.looks.remove(&task.shot.pane);
            let Some(guessed) = guessed.filter(|guessed| guessed.serves(&task.shot)) else {
                return true;
            };
            let answer = self.answer(task, guessed.shown, known, guessed.moment);
            task.tell(&mut visits, &answer);
            false
        });
        let costs: Vec<Cost> = tasks
            .iter()
            .map(|task| Cost::of(&task.shot, task.listed.height))
            .collect();
        for batch in cut(&costs) {
            if is_stopped(&self.stop) {
                return;
            }
            // Those whose asker has gone away in the meantime are left out.
            let batch: Vec<&Task> = tasks[batch]
                .iter()
                .filter(|task| {
                    let mut visits = task.visits.iter().filter_map(|at| visits[*at].as_ref());
                    visits.any(|visit| visit.telling.is_awaited())
                })
                .collect();
            let shots: Vec<Shot> = batch.iter().map(|task| task.shot.clone()).collect();
            if shots.is_empty() {
                continue;
            }
            let moment = self.moment();
            let shown = match self.capture(known, &shots) {
                Ok(shown) => shown,
                Err(error) => {
                    // The server is hung or gone; the next question tries again.
                    let left = visits.into_iter().flatten();
                    return left.for_each(|visit| visit.telling.fail(again(&error)));
                }
            };
            for (task, shown) in batch.into_iter().zip(shown) {
                let answer = self.answer(task, shown, known, moment);
                task.tell(&mut visits, &answer);
            }
        }
    }

    /// What a look showed, for those who wait for it; `None` where the pane is gone.
    fn answer(
        &mut self,
        task: &Task,
        shown: Shown,
        known: &ServerIdentity,
        moment: Proof,
    ) -> Result<Option<PaneAnswer>> {
        match self.readable(known, task, shown)? {
            Shown::View(mut view) => {
                view.look.at = moment.at;
                let proof = Proof {
                    bytes: view.look.bytes_before,
                    second: view.second.unwrap_or(moment.second),
                    ..moment
                };
                Ok(Some(PaneAnswer::look(&task.listed, *view, proof)))
            }
            Shown::Gone => Ok(None),
            Shown::Unreadable => Err(Error::other(format!(
                "{} gave an answer about pane {} that cannot be read",
                self.server, task.shot.pane
            ))),
        }
    }

    /// A look whose answer was cut off, because rows are full of combining marks or other panes
    /// took the room, is taken once more, alone and of the screen only.
    fn readable(&mut self, known: &ServerIdentity, task: &Task, shown: Shown) -> Result<Shown> {
        if shown != Shown::Unreadable {
            return Ok(shown);
        }
        let shallow = Shot {
            depth: 0,
            // The pipe may be open by now, and this is not where it begins.
            seam: None,
            ..task.shot.clone()
        };
        Ok(self
            .capture(known, &[shallow])?
            .pop()
            .unwrap_or(Shown::Unreadable))
    }

    fn capture(&mut self, known: &ServerIdentity, shots: &[Shot]) -> Result<Vec<Shown>> {
        self.rest.asks(self.counters.run());
        self.ask(|server, clock| capture(server, clock, known, shots))
    }
}

fn by_pane(screens: &[Screen], shown: Vec<String>) -> HashMap<u32, String> {
    let panes = screens.iter().map(|screen| screen.pane);
    panes.zip(shown).collect()
}

fn found(listed: &Listed, asked: Proof, screens: HashMap<u32, String>) -> Found {
    let proof = Proof {
        second: listed.listing.second.unwrap_or(asked.second),
        ..asked
    };
    Found {
        listing: Arc::clone(&listed.listing),
        number: listed.number,
        proof,
        is_new: true,
        screens,
        looks: HashMap::new(),
    }
}
