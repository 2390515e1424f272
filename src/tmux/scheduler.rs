//! The gateway's thread: gathers questions, sees when they are due, and has them answered together.
//!
//! It is the clock of all pollers of a server. Questions that are due at once share a round, and
//! so do those on the same grid. It runs one tmux process at a time and waits for nothing else
//! than that process, at most its deadline, the next message and the next tick.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, never, select_biased};

use super::ask::{Asker, ListWish, Message, Programs, again};
use super::client::{Client, Extent};
use super::gateway::INBOX_MESSAGES_MAX;
use super::grid::next_tick;
use super::guess::guesses;
use super::listing::Listing;
use super::probe::Screen;
use super::question::{Question, Verdict};
use super::server::Server;
use super::tempo::{Brought, Early, Rhythm, Tempo, glance};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::thread::Stop;

/// How long others may come after a question that is to be answered at once. Threads that wake at
/// the same moment are there within a fraction of this, and nobody notices the delay.
const GATHER: Duration = Duration::from_millis(2);

/// How much earlier than needed a question may be weighed, to share a round with others.
const SOON: Duration = Duration::from_millis(100);

/// How often it is seen whether a listing still holds that somebody knows: at the same moments as
/// whether those hold by which panes are streamed.
const HELD_TICK: Duration = Duration::from_millis(200);

/// What the thread works with.
pub(super) struct Scheduler {
    client: Client,
    clock: Clock,
    stop: Stop,
    tempo: Tempo,
    early: Early,
    /// At most one for each poller.
    questions: Vec<Question>,
    /// Who asked for a listing.
    lists: Vec<(Asker<Arc<Listing>>, ListWish)>,
}

impl Scheduler {
    /// For a server, by a clock, in the time that began then.
    pub fn new(
        (server, clock, epoch): (Server, Clock, Instant),
        stop: Stop,
        processes: Arc<AtomicU64>,
    ) -> Self {
        Self {
            client: Client::new((server, clock.clone(), epoch), stop.clone(), processes),
            clock,
            stop,
            tempo: Tempo::default(),
            early: Early::default(),
            questions: Vec::new(),
            lists: Vec::new(),
        }
    }

    /// Serves until it is stopped or nobody can ask any more. It serves others: every failure goes
    /// to those who asked, and none ends the loop.
    pub fn serve(&mut self, inbox: &Receiver<Message>) {
        while self.gather(inbox).is_some() {
            self.lists.retain(|(asker, _)| asker.is_there());
            if let Err(error) = self.round()
                && error.is_timeout()
            {
                // Who asked while the server was silent has waited as long: it hears of it too.
                inbox.try_iter().for_each(|message| message.fail(&error));
                fail(std::mem::take(&mut self.questions), &error);
            }
        }
    }

    /// Waits for messages and for the next tick; `None` at the end.
    fn gather(&mut self, inbox: &Receiver<Message>) -> Option<()> {
        let tick = self.wake().map_or_else(never, |at| self.clock.at(at));
        select_biased! {
            recv(self.stop) -> _ => return None,
            // All handles are gone, and with them the askers.
            recv(inbox) -> message => self.take(message.ok()?),
            recv(tick) -> _ => {}
        }
        inbox
            .try_iter()
            .take(INBOX_MESSAGES_MAX)
            .for_each(|message| self.take(message));
        self.client.note_rest();
        if !self.is_urgent() {
            return Some(());
        }
        let over = self.clock.after(GATHER);
        for _ in 0..INBOX_MESSAGES_MAX {
            select_biased! {
                recv(self.stop) -> _ => return None,
                recv(inbox) -> message => self.take(message.ok()?),
                recv(over) -> _ => break,
            }
        }
        Some(())
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::List(asker, wish) => self.lists.push((asker, wish)),
            Message::Look(wanted, asker) => {
                let now = self.client.now();
                self.questions.push(Question::new(wanted, asker, now));
            }
            #[cfg(test)]
            Message::Panic => panic!("on purpose"),
        }
    }

    fn is_urgent(&self) -> bool {
        self.wants_listing() || self.questions.iter().any(Question::is_urgent)
    }

    fn wants_listing(&self) -> bool {
        self.lists.iter().any(|(_, wish)| !self.is_held(wish))
    }

    /// Whether somebody knows already what there is to tell.
    fn is_held(&self, wish: &ListWish) -> bool {
        let known = wish.known.as_ref();
        known.is_some_and(|known| self.client.is_held(known))
    }

    /// When to see again whether something is due.
    fn wake(&self) -> Option<Instant> {
        let (now, bytes) = (self.client.now(), self.bytes());
        let holding = self.client.holding();
        let wakes = self.questions.iter().map(|question| {
            if let Some(interval) = told_again(question, holding) {
                return self.tick(now, interval);
            }
            let due = self.due(question, bytes);
            match &question.rhythm() {
                Some(Rhythm::Adaptive(adaptive)) => {
                    self.tempo.look_again(adaptive, bytes, (now, due))
                }
                // Whether the server reads something is seen between its ticks, where panes are looked at.
                Some(Rhythm::Fixed(interval)) if bytes.is_some() && !question.goes_by_listing => {
                    due.min(self.tick(now, glance(*interval)))
                }
                Some(Rhythm::Fixed(_)) | None => due,
            }
        });
        let held = (!self.lists.is_empty()).then(|| self.tick(now, HELD_TICK));
        let wakes = wakes.chain(held).chain(self.client.rest_due());
        wakes.min().map(|at| self.client.epoch() + at)
    }

    /// What the server has read, where that matters.
    fn bytes(&self) -> Option<u64> {
        let waits = self.questions.iter().any(|question| !question.is_urgent());
        waits.then(|| self.client.bytes())?
    }

    /// When a question is to be weighed, as far as is known.
    fn due(&self, question: &Question, bytes: Option<u64>) -> Duration {
        let asked = self.client.asked();
        let early = |interval| self.early.due(interval, asked, bytes);
        question.due(&self.tempo, bytes, |after, interval| {
            let tick = self.tick(after, interval);
            early(interval).map_or(tick, |early| tick.min(early))
        })
    }

    /// The first tick of an interval after a moment.
    fn tick(&self, after: Duration, interval: Duration) -> Duration {
        let epoch = self.client.epoch();
        next_tick(epoch + after, epoch, interval) - epoch
    }

    /// Takes out the questions that are to be weighed now.
    fn take_due(&mut self) -> Vec<Question> {
        let (now, bytes) = (self.client.now(), self.bytes());
        let holding = self.client.holding();
        let wants_listing = self.wants_listing();
        let questions = std::mem::take(&mut self.questions);
        let (due, later) = questions.into_iter().partition(|question| {
            if told_again(question, holding).is_some() {
                return false;
            }
            let due = self.due(question, bytes);
            // A listing that somebody asked for serves those who adapt, where it costs no looks
            // that would not have been taken soon.
            let listed = wants_listing && question.adaptive().is_some();
            let soon = due <= now + SOON || self.tempo.is_idle(bytes);
            due <= now || listed && soon
        });
        self.questions = later;
        due
    }

    /// Gives those who look for new panes what pollers have just been told.
    fn answer_recent(&mut self) {
        let Some(recent) = self.client.recent() else {
            return;
        };
        let serves = |wish: &ListWish| {
            let known = wish.known.as_ref();
            wish.programs == Programs::LeftOut
                && !wish.is_fresh
                && known.is_none_or(|known| !Arc::ptr_eq(known, recent))
        };
        for (asker, _) in self.lists.extract_if(.., |(_, wish)| serves(wish)) {
            asker.answer(Ok(Arc::clone(recent)));
        }
    }

    /// Answers what is due; an error is of the server, and has been told to those who were due.
    fn round(&mut self) -> Result<()> {
        self.answer_recent();
        let mut due = self.take_due();
        if !due.is_empty() {
            due.retain(Question::is_awaited);
            self.questions.retain(Question::is_awaited);
        }
        let lists = std::mem::take(&mut self.lists);
        let (held, lists) = lists
            .into_iter()
            .partition::<Vec<_>, _>(|(_, wish)| self.is_held(wish));
        self.lists = held;
        if due.is_empty() && lists.is_empty() {
            return Ok(());
        }
        let adapts = due.iter().any(|question| question.adaptive().is_some());
        let listed = lists.iter().map(|(_, wish)| match wish.programs {
            Programs::LeftOut => Extent::Numbers,
            Programs::Named => Extent::Programs,
        });
        let named = due
            .iter()
            .any(Question::asks_names)
            .then_some(Extent::Names);
        let extent = listed.chain(named).max().unwrap_or_default();
        let began = self.client.moment();
        let mut screens: Vec<Screen> = due
            .iter()
            .flat_map(|question| question.screens(began))
            .collect();
        // A pane that two ask for is captured once.
        screens.sort_by_key(|screen| screen.pane);
        screens.dedup_by_key(|screen| screen.pane);
        let shots = guesses(due.iter().flat_map(Question::wishes), began);
        let mut found = match self.client.find(extent, &screens, shots) {
            Ok(found) => found,
            Err(error) => {
                fail(due, &error);
                lists
                    .into_iter()
                    .for_each(|(asker, _)| asker.answer(Err(again(&error))));
                return Err(error);
            }
        };
        let is_fixed = |question: &Question| matches!(question.rhythm(), Some(Rhythm::Fixed(_)));
        if found.is_new && due.iter().any(is_fixed) {
            self.early.round(began.at);
        }
        for (asker, _) in lists {
            asker.answer(Ok(Arc::clone(&found.listing)));
        }
        let facts = found.facts();
        let mut brought = Brought {
            least_history: found
                .listing
                .panes
                .iter()
                .map(|state| state.history_limit)
                .min()
                .unwrap_or(0),
            ..Brought::default()
        };
        let mut tellings = Vec::new();
        for question in due {
            match question.weigh(&facts) {
                Verdict::Waits(question) => self.questions.push(question),
                Verdict::Tells(telling) => {
                    brought.news |= !telling.looks.is_empty();
                    brought.flood |= telling.flood;
                    tellings.push(telling);
                }
            }
        }
        self.client.look(tellings, &mut found);
        if adapts {
            self.tempo
                .round(began.at, self.client.now(), began.bytes, brought);
        }
        Ok(())
    }
}

/// Of a question that a listing which holds gives nothing to tell: the interval in which it is seen
/// whether it still holds.
fn told_again(question: &Question, holding: Option<u64>) -> Option<Duration> {
    match question.rhythm()? {
        Rhythm::Fixed(interval) => question.is_told_by(holding?).then_some(*interval),
        Rhythm::Adaptive(_) => None,
    }
}

fn fail(questions: Vec<Question>, error: &Error) {
    for question in questions {
        question.fail(again(error));
    }
}
