//! One question about a session: when it is due, and whether a listing gives something to tell (pure).

use std::collections::HashMap;
use std::time::Duration;

use super::ask::{
    Asker, Left, Newcomers, PaneAnswer, SessionAnswer, SessionLook, Want, When, Wish,
};
use super::capture::Shot;
use super::depth::{BASELINE_ROWS, Margin, depth};
use super::id::pane_number;
use super::listing::Listing;
use super::probe::Screen;
use super::seen::{Proof, Seen, Standing};
use super::state::PaneState;
use super::telling::Telling;
use super::tempo::{Adaptive, Rhythm, Tempo, UNHURRIED};
use crate::event::PaneId;

/// A question that waits for its answer.
#[derive(Debug)]
pub(super) struct Question {
    wanted: Box<SessionLook>,
    asker: Asker<SessionAnswer>,
    /// When it was weighed last, or asked.
    weighed: Duration,
    /// The listing by which it was.
    weighed_by: Option<u64>,
    /// Nothing but another listing can give something to tell.
    pub goes_by_listing: bool,
    /// When a line settles, or a screen has to be compared.
    recheck: Option<Duration>,
    /// How long screens that were compared and read the same may wait to be compared again.
    checks: HashMap<PaneId, Duration>,
}

/// What is known of the server at one moment.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub listing: &'a Listing,
    /// Which one it is.
    pub number: u64,
    /// The moment.
    pub proof: Proof,
    /// Screens by the numbers of their panes, as far as they were asked for.
    pub screens: &'a HashMap<u32, String>,
}

impl Facts<'_> {
    /// Whether the listing shows that a pane was active: it knows that of windows only.
    fn shows_activity(&self, seen: &Seen, listed: &PaneState) -> bool {
        let is_alone = || {
            let mut panes = self.listing.panes.iter();
            !panes.any(|other| other.window_id == listed.window_id && other.pane != listed.pane)
        };
        seen.window_activity != listed.window_activity && is_alone()
    }
}

/// What a question came to.
#[derive(Debug)]
pub(super) enum Verdict {
    /// There is nothing to tell yet.
    Waits(Question),
    /// The answer, as soon as these looks have been taken.
    Tells(Telling),
}

impl Question {
    pub fn new(wanted: Box<SessionLook>, asker: Asker<SessionAnswer>, now: Duration) -> Self {
        let mut question = Self {
            wanted,
            asker,
            weighed: now,
            weighed_by: None,
            goes_by_listing: false,
            recheck: None,
            checks: HashMap::new(),
        };
        let rechecks = question.wishes().map(|(pane, wish, seen)| {
            let check = (!wish.rests).then(|| seen.proof.at + question.check(pane));
            [check, wish.settles].into_iter().flatten().min()
        });
        question.recheck = rechecks.flatten().min();
        let mut wants = question.wanted.wants.values();
        let is_told = |want: &Want| matches!(want, Want::Leave | Want::Shape(_));
        question.goes_by_listing = wants.all(is_told) && !question.is_urgent();
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

    /// In what rhythm it is weighed, unless it is to be answered at once.
    pub fn rhythm(&self) -> Option<&Rhythm> {
        match &self.wanted.when {
            When::News(rhythm) => Some(rhythm),
            When::Now => None,
        }
    }

    pub fn adaptive(&self) -> Option<&Adaptive> {
        match self.rhythm()? {
            Rhythm::Adaptive(adaptive) => Some(adaptive),
            Rhythm::Fixed(_) => None,
        }
    }

    /// When it is to be weighed, as far as is known: the server has read `bytes` by now. `tick`
    /// gives the first tick of an interval after a moment, or an earlier one.
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
    pub fn wishes(&self) -> impl Iterator<Item = (&PaneId, &Wish, &Seen)> {
        let wants = self.wanted.wants.iter();
        wants.filter_map(|(pane, want)| match want {
            Want::Look(wish) => Some((pane, wish, wish.seen.as_ref()?)),
            Want::Leave | Want::Shape(_) | Want::Seam(_) => None,
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
            (useful && !wish.rests).then_some(Screen {
                pane: pane_number(pane)?,
                height: seen.height,
            })
        })
    }

    /// Whether there is something to tell.
    pub fn weigh(mut self, facts: &Facts<'_>) -> Verdict {
        let now = facts.proof.at;
        self.weighed = now;
        if self.is_told_by(facts.number) {
            return Verdict::Waits(self);
        }
        self.weighed_by = Some(facts.number);
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
                None if self.wanted.newcomers == Newcomers::Tell => {
                    tells = true;
                    Some(PaneAnswer::There(listed.clone()))
                }
                None | Some(Want::Seam(_)) => None,
                Some(Want::Leave) => Some(PaneAnswer::There(listed.clone())),
                Some(Want::Shape(shape)) => {
                    tells |= listed.shape() != *shape;
                    Some(PaneAnswer::There(listed.clone()))
                }
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

    /// Whether this listing cannot give anything to tell: it was weighed by it.
    pub fn is_told_by(&self, listing: u64) -> bool {
        self.weighed_by == Some(listing) && self.goes_by_listing
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
            Standing::Unsure if wish.rests && !facts.shows_activity(seen, listed) => {}
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
            Some(Want::Seam(wish)) => (wish.seen.as_ref(), wish.margin),
            Some(Want::Leave | Want::Shape(_)) | None => (None, Margin::Rows(BASELINE_ROWS)),
        };
        let seam = match self.wanted.wants.get(&pane) {
            Some(Want::Seam(wish)) => Some(wish.seam.clone()),
            _ => None,
        };
        let shot = Shot {
            depth: depth(seen, listed, margin),
            pane,
            // A seam may find a full-screen program that the listing does not have yet, and a deep
            // look is asked for where one was found.
            saved: listed.alternate || seam.is_some() || matches!(margin, Margin::All),
            seam,
        };
        (shot, seen)
    }

    /// What became of the panes that the session owns no more.
    fn left(&self, listing: &Listing) -> HashMap<PaneId, Left> {
        let left = self.wanted.wants.iter().filter_map(|(pane, want)| {
            let owner = listing.pane(pane).map(|state| state.session_id);
            let seen = match want {
                Want::Look(wish) => wish.seen.as_ref(),
                Want::Leave | Want::Shape(_) | Want::Seam(_) => None,
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

#[cfg(test)]
mod tests {
    use super::super::ask::Pending;
    use super::super::listing::tests::listing;
    use super::super::state::tests::state;
    use super::*;
    use crate::thread::stop_pair;

    /// One pane, %1 of session $1, last active in second 5.
    fn there(change: impl FnOnce(&mut PaneState)) -> Listing {
        let mut pane = state(1, (1, "a"), (1, 0, "w"), 0);
        change(&mut pane);
        listing(vec![pane, state(2, (2, "b"), (2, 0, "w"), 0)])
    }

    /// What was seen of it, with a screen of `as it was`, at the beginning of second 5.
    fn wish(settles: Option<Duration>) -> Wish {
        let listed = there(|_| {});
        let view = super::super::capture::PaneView {
            state: listed.panes[0].clone(),
            screen: "as it was".into(),
            ..Default::default()
        };
        let proof = Proof {
            second: 5,
            bytes: Some(100),
            ..Proof::default()
        };
        Wish {
            seen: Some(Seen::of(&view, proof)),
            margin: Margin::Rows(10),
            settles,
            rests: false,
        }
    }

    /// Weighs a question about session $1 a second later, when the server has read `bytes`.
    fn weighed(
        want: Option<Want>,
        listing: &Listing,
        bytes: u64,
        screen: Option<&str>,
    ) -> Result<Telling, Box<Question>> {
        let (asker, _) = Pending::new(stop_pair().1);
        let wanted = SessionLook {
            session_id: listing.panes[0].session_id,
            name: Some("a".into()),
            wants: want.map(|want| ("%1".into(), want)).into_iter().collect(),
            when: When::News(Rhythm::default()),
            ..SessionLook::default()
        };
        let question = Question::new(Box::new(wanted), asker, Duration::ZERO);
        let facts = Facts {
            listing,
            number: 1,
            proof: Proof {
                at: Duration::from_millis(100),
                second: 6,
                bytes: Some(bytes),
            },
            screens: &screen
                .map(|text| (1, text.to_owned()))
                .into_iter()
                .collect(),
        };
        match question.weigh(&facts) {
            Verdict::Tells(telling) => Ok(telling),
            Verdict::Waits(question) => Err(Box::new(question)),
        }
    }

    fn look(settles: Option<Duration>) -> Option<Want> {
        Some(Want::Look(wish(settles)))
    }

    #[test]
    fn nothing_new_is_not_told() {
        let same = there(|_| {});
        let still = weighed(look(None), &same, 100, None).unwrap_err();
        assert_eq!(still.recheck, None, "the server has read nothing");
        let unsure = weighed(look(None), &same, 101, None).unwrap_err();
        assert_eq!(unsure.recheck, Some(UNHURRIED), "to be compared then");
        let compared = weighed(look(None), &same, 101, Some("as it was")).unwrap_err();
        assert_eq!(
            compared.check(&"%1".into()),
            UNHURRIED * 2,
            "and later again"
        );
        assert!(
            weighed(
                Some(Want::Leave),
                &there(|pane| pane.history_size = 9),
                200,
                None
            )
            .is_err()
        );
    }

    #[test]
    fn what_changed_or_is_new_is_looked_at() {
        let grown = there(|pane| pane.history_size = 300);
        let telling = weighed(look(None), &grown, 200, None).unwrap();
        assert_eq!(telling.looks.len(), 1);
        assert!(telling.flood, "300 of 2000 rows since the last look");
        let same = there(|_| {});
        let rewritten = weighed(look(None), &same, 101, Some("as it is")).unwrap();
        assert_eq!(rewritten.looks.len(), 1);
        assert_eq!(
            weighed(None, &same, 100, None).unwrap().looks.len(),
            1,
            "new"
        );
    }

    #[test]
    fn a_line_that_settles_is_news_once_it_has_stood() {
        let same = there(|_| {});
        let later = Duration::from_millis(150);
        let waits = weighed(look(Some(later)), &same, 100, None).unwrap_err();
        assert_eq!(waits.recheck, Some(later));
        let telling = weighed(look(Some(Duration::from_millis(100))), &same, 100, None).unwrap();
        let SessionAnswer::There { panes, .. } = &telling.answer else {
            panic!("{telling:?}")
        };
        assert!(matches!(panes[..], [PaneAnswer::Still(..)]), "{panes:?}");
    }

    #[test]
    fn a_pane_that_left_is_told_apart_from_one_that_ended_also_when_it_was_to_be_looked_at_anew() {
        let mut moved = there(|_| {});
        // $1 has %3 instead, and %1 is in $2.
        moved.panes[0].pane = 3;
        moved.panes[1].pane = 1;
        let ended = listing(vec![state(3, (1, "a"), (1, 0, "w"), 0)]);
        for seen in [wish(None).seen, None] {
            let want = |seen: &Option<Seen>| {
                Some(Want::Look(Wish {
                    seen: seen.clone(),
                    ..wish(None)
                }))
            };
            for (listing, is_moved) in [(&moved, true), (&ended, false)] {
                let telling = weighed(want(&seen), listing, 200, None).unwrap();
                let SessionAnswer::There { left, .. } = &telling.answer else {
                    panic!("{telling:?}")
                };
                let left = left["%1"];
                assert_eq!(
                    (left.moved, left.proof.is_some()),
                    (is_moved, seen.is_some())
                );
            }
        }
    }
}
