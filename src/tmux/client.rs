//! What is asked of a tmux server, one process at a time: what it holds, and looks at its panes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::select_biased;

use super::ask::{PaneAnswer, again};
use super::capture::{Shot, Shown, bytes_read_by, capture};
use super::listing::{Listing, ServerIdentity};
use super::plan::{Cost, cut, screens_max};
use super::probe::{Probed, Screen, probe};
use super::question::{Facts, Telling};
use super::seen::Proof;
use super::server::Server;
use super::state::PaneState;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::thread::{Stop, is_stopped};

/// How old a listing may be that serves as long as the server has read nothing.
const LISTING_AGE_MAX: Duration = Duration::from_secs(1);

/// How old numbers may be for those who only look for new panes, and names while there are the same
/// panes.
const NUMBERS_AGE_MAX: Duration = Duration::from_millis(200);
const NAMES_AGE_MAX: Duration = Duration::from_secs(2);

/// The longest pause after a process: twice as long as a batch may take.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Asks one server, and leaves it time for others in between.
pub(super) struct Client {
    server: Server,
    clock: Clock,
    stop: Stop,
    /// When the gateway's time began.
    epoch: Instant,
    /// The server that answered last.
    known: Option<ServerIdentity>,
    last: Option<Listed>,
    /// Until then the server is left to others.
    free_at: Instant,
    processes: Arc<AtomicU64>,
}

/// A listing, and when it was taken.
struct Listed {
    listing: Arc<Listing>,
    /// What the server had read before; `None` where that does not tell about its panes.
    bytes: Option<u64>,
    at: Duration,
    /// When all of it was asked, names included.
    named_at: Duration,
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
    /// The moment before.
    pub proof: Proof,
    screens: HashMap<u32, String>,
}

impl Found {
    pub fn facts(&self) -> Facts<'_> {
        Facts {
            listing: &self.listing,
            proof: self.proof,
            screens: &self.screens,
        }
    }
}

impl Client {
    pub fn new(server: Server, clock: Clock, stop: Stop, processes: Arc<AtomicU64>) -> Self {
        Self {
            server: server.until(stop.clone()),
            epoch: clock.now(),
            free_at: clock.now(),
            clock,
            stop,
            known: None,
            last: None,
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
        bytes_read_by(self.known.as_ref()?.pid)
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

    /// Finds out what the server holds, with as little as will do.
    pub fn find(&mut self, extent: Extent, screens: &[Screen]) -> Result<Found> {
        let mut proof = self.moment();
        let Some(last) = self.last.take() else {
            return self.list(extent, proof);
        };
        if extent >= Extent::Names || proof.at >= last.named_at + NAMES_AGE_MAX {
            return self.list(extent, proof);
        }
        let is_idle = proof.bytes.is_some() && proof.bytes == last.bytes;
        let serves = is_idle && proof.at < last.at + LISTING_AGE_MAX;
        if extent == Extent::Panes && screens.is_empty() && serves {
            let listing = Arc::clone(&last.listing);
            self.last = Some(last);
            return Ok(found(listing, proof, HashMap::new()));
        }
        let (beside, alone) = screens_max(last.listing.panes.len());
        let (first, more) = screens.split_at(screens.len().min(beside));
        let (listing, mut shown) = self.probe(Some(&last.listing), first)?;
        let Some(listing) = listing else {
            proof = self.moment();
            return self.list(extent, proof);
        };
        let listing = Arc::new(listing);
        for more in more.chunks(alone) {
            // What is shown later proves more.
            shown.extend(self.probe(None, more)?.1);
        }
        self.last = Some(Listed {
            listing: Arc::clone(&listing),
            bytes: proof.bytes,
            at: proof.at,
            named_at: last.named_at,
        });
        Ok(found(listing, proof, shown))
    }

    fn probe(
        &mut self,
        known: Option<&Listing>,
        screens: &[Screen],
    ) -> Result<(Option<Listing>, HashMap<u32, String>)> {
        let Probed {
            listing,
            screens: shown,
        } = self.ask(|server, clock| probe(server, clock, known, screens))?;
        let panes = screens.iter().map(|screen| screen.pane);
        Ok((listing, panes.zip(shown).collect()))
    }

    /// Runs one tmux process. One that took long is followed by a pause of the same length
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
        self.free_at = ended + (ended - began).min(PAUSE_MAX);
        answer
    }

    /// Asks for everything.
    fn list(&mut self, extent: Extent, mut proof: Proof) -> Result<Found> {
        let commands = extent == Extent::Programs;
        let listing = self.ask(|server, clock| Listing::ask(server, clock, commands))?;
        let listing = Arc::new(listing);
        // Bytes of another server say nothing about this one.
        if self.known.as_ref() != Some(&listing.server) {
            self.known = Some(listing.server.clone());
            proof.bytes = None;
        }
        // The names of programs are read, too: only after such a listing are the bytes those of
        // the panes again.
        self.last = Some(Listed {
            listing: Arc::clone(&listing),
            bytes: proof.bytes.filter(|_| !commands),
            at: proof.at,
            named_at: proof.at,
        });
        Ok(found(listing, proof, HashMap::new()))
    }

    /// Takes the looks that are missing, a batch at a time, and answers each session when it has
    /// all of its own.
    pub fn look(&mut self, tellings: Vec<Telling>, server_pid: u32) {
        let mut tasks: Vec<Task> = Vec::new();
        let mut visits: Vec<Option<Visit>> = Vec::new();
        for mut telling in tellings {
            let looks = std::mem::take(&mut telling.looks);
            if looks.is_empty() {
                telling.tell();
                continue;
            }
            let left = looks.len();
            let visit = visits.len();
            tasks.extend(looks.into_iter().map(|(listed, shot)| Task {
                visit,
                listed,
                shot,
            }));
            visits.push(Some(Visit { telling, left }));
        }
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
                    let visit = visits[task.visit].as_ref();
                    visit.is_some_and(|visit| visit.telling.is_awaited())
                })
                .collect();
            let shots: Vec<Shot> = batch.iter().map(|task| task.shot.clone()).collect();
            if shots.is_empty() {
                continue;
            }
            let moment = self.moment();
            let shown = match self.capture(server_pid, &shots) {
                Ok(shown) => shown,
                Err(error) => {
                    // The server is hung or gone; the next question tries again.
                    let left = visits.into_iter().flatten();
                    return left.for_each(|visit| visit.telling.fail(again(&error)));
                }
            };
            for (task, shown) in batch.into_iter().zip(shown) {
                let Some(visit) = visits[task.visit].take() else {
                    continue;
                };
                visits[task.visit] = self.shown(visit, task, shown, server_pid, moment);
            }
        }
    }

    /// Adds a look to a visit and answers it if that was the last; gives it back otherwise.
    fn shown(
        &mut self,
        mut visit: Visit,
        task: &Task,
        shown: Shown,
        server_pid: u32,
        moment: Proof,
    ) -> Option<Visit> {
        match self.readable(server_pid, task, shown) {
            Ok(Shown::View(mut view)) => {
                view.look.at = moment.at;
                let proof = Proof {
                    bytes: view.look.bytes_before,
                    second: view.second.unwrap_or(moment.second),
                    ..moment
                };
                visit
                    .telling
                    .add(PaneAnswer::look(&task.listed, *view, proof));
            }
            // A pane that is not in the answer is gone.
            Ok(Shown::Gone) => {}
            Ok(Shown::Unreadable) => {
                visit.telling.fail(Error::other(format!(
                    "{} gave an answer about pane {} that cannot be read",
                    self.server, task.shot.pane
                )));
                return None;
            }
            Err(error) => {
                visit.telling.fail(error);
                return None;
            }
        }
        visit.left -= 1;
        if visit.left == 0 {
            visit.telling.tell();
            return None;
        }
        Some(visit)
    }

    /// A look whose answer was cut off, because rows are full of combining marks or other panes
    /// took the room, is taken once more, alone and of the screen only.
    fn readable(&mut self, server_pid: u32, task: &Task, shown: Shown) -> Result<Shown> {
        if shown != Shown::Unreadable {
            return Ok(shown);
        }
        let shallow = Shot {
            depth: 0,
            ..task.shot.clone()
        };
        Ok(self
            .capture(server_pid, &[shallow])?
            .pop()
            .unwrap_or(Shown::Unreadable))
    }

    fn capture(&mut self, server_pid: u32, shots: &[Shot]) -> Result<Vec<Shown>> {
        self.ask(|server, clock| capture(server, clock, server_pid, shots))
    }
}

fn found(listing: Arc<Listing>, asked: Proof, screens: HashMap<u32, String>) -> Found {
    let proof = Proof {
        second: listing.second.unwrap_or(asked.second),
        ..asked
    };
    Found {
        listing,
        proof,
        screens,
    }
}

/// A session that is being looked at.
struct Visit {
    telling: Telling,
    /// Looks that are still to be taken.
    left: usize,
}

/// A look that is to be taken.
struct Task {
    visit: usize,
    listed: PaneState,
    shot: Shot,
}
