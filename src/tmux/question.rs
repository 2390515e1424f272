//! One question about a session: when it is due, and whether a listing gives something to tell (pure).

use std::collections::HashMap;
use std::time::Duration;

use super::ask::{Asker, Left, PaneAnswer, SessionAnswer, SessionLook, Want, When, Wish};
use super::capture::Shot;
use super::depth::{BASELINE_ROWS, Margin, depth};
use super::id::pane_number;
use super::listing::{Listing, PaneState};
use super::probe::Screen;
use super::seen::{Proof, Seen, Standing};
use super::tempo::{Adaptive, Rhythm, Tempo, UNHURRIED};
use crate::event::PaneId;

/// A question that waits for its answer.
#[derive(Debug)]
pub(super) struct Question {
    wanted: Box<SessionLook>,
    asker: Asker<SessionAnswer>,
    /// When it was weighed last, or asked.
    weighed: Duration,
    /// When a line settles, or a screen has to be compared.
    recheck: Option<Duration>,
    /// How long screens that were compared and read the same may wait to be compared again.
    checks: HashMap<PaneId, Duration>,
}

/// What is known of the server at one moment.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub listing: &'a Listing,
    /// The moment.
    pub proof: Proof,
    /// Screens by the numbers of their panes, as far as they were asked for.
    pub screens: &'a HashMap<u32, String>,
}

/// What a question came to.
#[derive(Debug)]
pub(super) enum Verdict {
    /// There is nothing to tell yet.
    Waits(Question),
    /// The answer, as soon as these looks have been taken.
    Tells(Telling),
}

/// An answer in the making.
#[derive(Debug)]
pub(super) struct Telling {
    asker: Asker<SessionAnswer>,
    answer: SessionAnswer,
    /// Looks that are to be taken, with what the listing had of their panes.
    pub looks: Vec<(PaneState, Shot)>,
    /// A history grew by an eighth of what it holds.
    pub flood: bool,
}

impl Question {
    pub fn new(wanted: Box<SessionLook>, asker: Asker<SessionAnswer>, now: Duration) -> Self {
        let mut question = Self {
            wanted,
            asker,
            weighed: now,
            recheck: None,
            checks: HashMap::new(),
        };
        let rechecks = question.wishes().map(|(pane, wish, seen)| {
            let check = seen.proof.at + question.check(pane);
            wish.settles.map_or(check, |settles| settles.min(check))
        });
        question.recheck = rechecks.min();
        question
    }

    /// Whether somebody still waits for the answer.
    pub fn is_awaited(&self) -> bool {
        self.asker.is_there()
    }

    pub fn fail(self, error: crate::error::Error) {
        self.asker.answer(Err(error));
    }

    /// Whether it is to be answered at once.
    pub fn is_urgent(&self) -> bool {
        self.wanted.when == When::Now
    }

    pub fn adaptive(&self) -> Option<&Adaptive> {
        match &self.wanted.when {
            When::News(Rhythm::Adaptive(adaptive)) => Some(adaptive),
            When::Now | When::News(Rhythm::Fixed(_)) => None,
        }
    }

    /// When it is to be weighed, as far as is known: the server has read `bytes` by now. `tick`
    /// gives the first tick of an interval after a moment.
    pub fn due(
        &self,
        tempo: &Tempo,
        bytes: Option<u64>,
        tick: impl Fn(Duration, Duration) -> Duration,
    ) -> Duration {
        match &self.wanted.when {
            When::Now => Duration::ZERO,
            When::News(Rhythm::Fixed(interval)) => tick(self.weighed, *interval),
            When::News(Rhythm::Adaptive(adaptive)) => tempo.due(adaptive, bytes, self.recheck),
        }
    }

    /// Panes with something to be compared.
    fn wishes(&self) -> impl Iterator<Item = (&PaneId, &Wish, &Seen)> {
        let wants = self.wanted.wants.iter();
        wants.filter_map(|(pane, want)| match want {
            Want::Look(wish) => Some((pane, wish, wish.seen.as_ref()?)),
            Want::Leave => None,
        })
    }

    /// How long a screen may wait to be compared.
    fn check(&self, pane: &PaneId) -> Duration {
        match self.adaptive() {
            Some(adaptive) => {
                let check = self.checks.get(pane).copied().unwrap_or(UNHURRIED);
                check.min(adaptive.most)
            }
            None => Duration::ZERO,
        }
    }

    /// The screens that will be needed, unless the numbers of their panes have changed.
    pub fn screens(&self, now: Proof) -> impl Iterator<Item = Screen> + '_ {
        self.wishes().filter_map(move |(pane, wish, seen)| {
            let due = now.at >= seen.proof.at + self.check(pane)
                || wish.settles.is_some_and(|at| at <= now.at);
            let useful = due && !seen.is_final(now.bytes) && seen.is_proved_by_screen(now.bytes);
            useful.then_some(Screen {
                pane: pane_number(pane)?,
                height: seen.height,
            })
        })
    }

    /// Whether there is something to tell.
    pub fn weigh(mut self, facts: &Facts<'_>) -> Verdict {
        let now = facts.proof.at;
        self.weighed = now;
        self.recheck = None;
        let listing = facts.listing;
        let same_server = self
            .wanted
            .server
            .as_ref()
            .is_none_or(|server| *server == listing.server);
        if !same_server {
            return Verdict::Tells(self.telling(SessionAnswer::OtherServer, Vec::new(), false));
        }
        let Some(session) = listing.session(self.wanted.session_id) else {
            let answer = SessionAnswer::Gone {
                left: self.left(listing),
            };
            return Verdict::Tells(self.telling(answer, Vec::new(), false));
        };
        let renamed = self
            .wanted
            .name
            .as_ref()
            .is_some_and(|name| name != session.name);
        let mut tells = self.is_urgent() || renamed;
        let (mut panes, mut looks, mut flood) = (Vec::new(), Vec::new(), false);
        for listed in listing.panes_of(session.id) {
            let pane = listed.pane();
            let answer = match self.wanted.wants.get(&pane) {
                None => None,
                Some(Want::Leave) => Some(PaneAnswer::There(listed.clone())),
                Some(Want::Look(_)) => self.compare(&pane, listed, facts, &mut tells),
            };
            if let Some(answer) = answer {
                panes.push(answer);
                continue;
            }
            tells = true;
            let (shot, seen) = self.shot(pane, listed);
            flood |= seen.is_some_and(|seen| {
                let grown = listed.history_size.saturating_sub(seen.history_size);
                grown > listed.history_limit / 8
            });
            looks.push((listed.clone(), shot));
        }
        let left = self.left(listing);
        tells |= self.wanted.wants.keys().any(|pane| {
            let is_here = |state: &PaneState| state.session_id == session.id;
            !listing.pane(pane).is_some_and(is_here)
        });
        if !tells {
            return Verdict::Waits(self);
        }
        let answer = SessionAnswer::There {
            name: session.name.to_owned(),
            created: session.created,
            panes,
            left,
        };
        Verdict::Tells(self.telling(answer, looks, flood))
    }

    /// What is known of a pane that was seen; `None` when it has to be looked at.
    fn compare(
        &mut self,
        pane: &PaneId,
        listed: &PaneState,
        facts: &Facts<'_>,
        tells: &mut bool,
    ) -> Option<PaneAnswer> {
        let (now, bytes) = (facts.proof.at, facts.proof.bytes);
        let check = self.check(pane);
        let urgent = self.is_urgent();
        let Some(Want::Look(wish)) = self.wanted.wants.get_mut(pane) else {
            return None;
        };
        let settles = wish.settles;
        let seen = wish.seen.as_mut()?;
        match seen.standing(listed, bytes) {
            Standing::Changed => return None,
            Standing::Still => {}
            Standing::Unsure => match facts.screens.get(&listed.pane_number()) {
                Some(screen) if **screen == *seen.screen && seen.is_proved_by_screen(bytes) => {
                    self.checks.insert(pane.clone(), (check * 2).max(UNHURRIED));
                }
                Some(_) => return None,
                None => {
                    let recheck = seen.proof.at + check;
                    let recheck = settles.map_or(recheck, |settles| settles.min(recheck));
                    if urgent || recheck <= now {
                        return None;
                    }
                    self.recheck = Some(self.recheck.map_or(recheck, |at| at.min(recheck)));
                    return Some(PaneAnswer::There(listed.clone()));
                }
            },
        }
        seen.renew(listed, facts.proof);
        if let Some(settles) = settles {
            *tells |= settles <= now;
            self.recheck = Some(self.recheck.map_or(settles, |at| at.min(settles)));
        }
        Some(PaneAnswer::Still(listed.clone(), facts.proof))
    }

    fn shot(&self, pane: PaneId, listed: &PaneState) -> (Shot, Option<&Seen>) {
        let (seen, margin) = match self.wanted.wants.get(&pane) {
            Some(Want::Look(wish)) => (wish.seen.as_ref(), wish.margin),
            Some(Want::Leave) | None => (None, Margin::Rows(BASELINE_ROWS)),
        };
        let shot = Shot {
            depth: depth(seen, listed, margin),
            pane,
            saved: listed.alternate,
        };
        (shot, seen)
    }

    /// What became of the panes that the session owns no more.
    fn left(&self, listing: &Listing) -> HashMap<PaneId, Left> {
        let left = self.wanted.wants.iter().filter_map(|(pane, want)| {
            let owner = listing.pane(pane).map(|state| state.session_id);
            let seen = match want {
                Want::Look(wish) => wish.seen.as_ref(),
                Want::Leave => None,
            };
            let left = Left {
                proof: seen.map(|seen| seen.proof),
                moved: owner.is_some(),
            };
            (owner != Some(self.wanted.session_id)).then(|| (pane.clone(), left))
        });
        left.collect()
    }

    /// Whether names are asked for.
    pub fn asks_names(&self) -> bool {
        self.wanted.name.is_none()
    }

    fn telling(self, answer: SessionAnswer, looks: Vec<(PaneState, Shot)>, flood: bool) -> Telling {
        Telling {
            asker: self.asker,
            answer,
            looks,
            flood,
        }
    }
}

impl Telling {
    /// Whether somebody still waits for it.
    pub fn is_awaited(&self) -> bool {
        self.asker.is_there()
    }

    /// Adds what a look showed.
    pub fn add(&mut self, pane: PaneAnswer) {
        if let SessionAnswer::There { panes, .. } = &mut self.answer {
            panes.push(pane);
        }
    }

    pub fn fail(self, error: crate::error::Error) {
        self.asker.answer(Err(error));
    }

    /// All looks have been taken.
    pub fn tell(mut self) {
        if let SessionAnswer::There { panes, .. } = &mut self.answer {
            // As the listing has them: by window and place.
            panes.sort_by_key(|pane| {
                let state = pane.state();
                (state.window_index, state.pane_index, state.pane_number())
            });
        }
        self.asker.answer(Ok(self.answer));
    }
}
