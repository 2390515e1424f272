//! Decides an agent's state from the claims of its sources (pure).
//!
//! Each source has one rank, its place in [`StateSource`], and one settle time, [`settle_time`]. A
//! source overrules others only in states that it can express. Claude's status file knows `busy`,
//! `waiting` and `idle`; the transcript, or else the screen, shows whether an idle agent is done,
//! has failed or has reached a limit. A transcript shows how turns end. Its "working" only means
//! that the turn has not ended, so a title or a screen may still show that the agent waits.

use std::time::{Duration, Instant};

use super::program::KnownAgent;
use super::question::is_same_question;
use super::settle_time::{
    END_SHOWN, IDLE_AFTER_DONE, MOMENTARY, REST_BEGINS, REST_DRAWN, UNSEEN_WORK, WORK_BEGINS,
    WORK_DRAWN, settle_time,
};
use super::summary::failure_words;
use super::{AgentState, DetectedState, UNTOLD_FAILURE, is_same_dialogue};
pub(crate) use crate::event::StateSource;
use crate::event::{Background, Dialogue};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateClaim {
    pub state: AgentState,
    /// True if the source reports the state itself; false if the state is inferred.
    pub is_confirmed: bool,
    /// The question or command that the agent asks about, in one line.
    pub asks: Option<String>,
    /// The evidence, in one line.
    pub detail: String,
    /// The turn of the conversation that the claim refers to, counted from 1; 0 if the source does
    /// not count turns.
    pub turn: u64,
    /// What runs on in the background, as far as the source knows it.
    pub background: Background,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedState {
    pub source: StateSource,
    pub claim: StateClaim,
    /// The dialogue on the screen in which the agent waits.
    pub dialogue: Option<Dialogue>,
}

#[derive(Clone, Debug)]
struct HeldClaim {
    claim: StateClaim,
    since: Instant,
}

impl HeldClaim {
    fn is_busy(&self) -> bool {
        is_busy(self.claim.state)
    }
}

/// The claims of all sources about one agent, and the last reported state.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateResolver {
    /// True if the agent's process was found. Without it, the screen is the only evidence of an agent.
    has_program: bool,
    held: [Option<HeldClaim>; StateSource::ALL.len()],
    /// The state on the last screen, and its start.
    on_screen: Option<(DetectedState, Instant)>,
    /// When the dialogue on the last screen was first seen.
    dialogue_since: Option<Instant>,
    /// When the agent was reported to wait no longer.
    went_on_at: Option<Instant>,
    /// The last state that has settled on the screen.
    pub settled: Option<DetectedState>,
    /// When the screen first showed it.
    settled_since: Option<Instant>,
    reported: Option<ResolvedState>,
    /// The turn of the transcript at the last report.
    turn: u64,
    /// The question of the last dialogue that was reported.
    last_question: Option<String>,
    /// The question that the agent's dialogue shows, or has shown, while its report stands.
    drawn_question: Option<String>,
    /// The time at which a source below the transcript started to claim that the agent works.
    busy_since: Option<Instant>,
    /// The last failure on the screen, and since when the screen shows it.
    failure: Option<(String, Instant)>,
    /// When the work was reported that was reported last.
    worked_at: Option<Instant>,
    /// When the program began to report that it works, whether or not that was told.
    report_began: Option<Instant>,
    /// When the transcript's turn began.
    turn_began: Option<Instant>,
    /// When the last state was reported, and whether the screen has shown work since.
    told: Option<(Instant, bool)>,
    /// True once the transcript had a failure: it would have the next one, too.
    records_failures: bool,
    /// The number of shells in the background on the screen.
    shells: u32,
    /// Another number, and since when the screen shows it.
    next_shells: Option<(u32, Instant)>,
    /// When [`StateResolver::next_change`] is due if no claim arrives.
    pub deadline: Option<Instant>,
}

impl StateResolver {
    /// Begins without claims. `has_program`: the agent's process was found.
    pub fn new(has_program: bool) -> Self {
        Self {
            has_program,
            ..Self::default()
        }
    }

    /// Sets or, with `None`, removes the claim of a source.
    pub fn set_claim(&mut self, source: StateSource, claim: Option<StateClaim>, now: Instant) {
        let before = self.held[source as usize].take();
        let was_busy = before.as_ref().is_some_and(HeldClaim::is_busy);
        let is_begin = !was_busy && claim.as_ref().is_some_and(|claim| is_busy(claim.state));
        if source > StateSource::Transcript && is_begin {
            // A screen has shown the work before it settles.
            let shown = self.settled_since.filter(|_| source == StateSource::Screen);
            self.busy_since = Some(shown.unwrap_or(now));
        }
        if source == StateSource::Report && is_begin {
            self.report_began = Some(now);
        }
        if source == StateSource::Transcript {
            let turn = |claim: &StateClaim| claim.turn;
            let known = before.as_ref().map(|before| before.claim.turn);
            if claim.as_ref().map(turn) > known {
                self.turn_began = Some(now);
            }
            self.records_failures |= claim.as_ref().is_some_and(|claim| is_failure(claim.state));
        }
        self.held[source as usize] = claim.map(|claim| {
            let same = before.filter(|before| {
                let is_asked = source != StateSource::Report || claim.asks == before.claim.asks;
                (claim.state, claim.turn) == (before.claim.state, before.claim.turn) && is_asked
            });
            if source == StateSource::Report && same.is_none() {
                self.drawn_question = None;
            }
            let since = same.map_or(now, |before| before.since);
            HeldClaim { claim, since }
        });
        self.deadline = Some(now);
    }

    /// Sets the state that the screen shows. It becomes the screen's claim once it has settled; a
    /// screen without a state leaves the claim as it is.
    pub fn set_screen(&mut self, detected: Option<DetectedState>, now: Instant) {
        let before = self.on_screen.take();
        let shown = before
            .as_ref()
            .and_then(|(shown, _)| shown.dialogue.as_ref());
        let now_shown = detected.as_ref().and_then(|now| now.dialogue.as_ref());
        let is_same = shown
            .zip(now_shown)
            .is_some_and(|(before, now)| is_same_dialogue(before, now));
        if !is_same {
            self.dialogue_since = Some(now);
        }
        if let Some(shown) = &detected {
            let next = self
                .next_shells
                .filter(|(shells, _)| *shells == shown.shells);
            let is_known = shown.shells == self.shells;
            self.next_shells = (!is_known).then(|| next.unwrap_or((shown.shells, now)));
        }
        let shows_work = |shown: &DetectedState| shown.state == AgentState::Working;
        if let Some((_, has_shown)) = &mut self.told {
            *has_shown |= detected.as_ref().is_some_and(shows_work);
        }
        self.on_screen = detected.map(|detected| match before {
            Some((before, since)) if is_same_screen(&before, &detected) => (detected, since),
            _ => (detected, now),
        });
        self.deadline = Some(now);
    }

    /// Returns the last reported state.
    pub fn state(&self) -> Option<AgentState> {
        let reported = self.reported.as_ref();
        reported.map(|report| report.claim.state)
    }

    /// Returns true if a source claims a state.
    pub fn has_claim(&self, source: StateSource) -> bool {
        self.get(source).is_some()
    }

    /// Returns true if the last report infers that the turn has ended.
    pub fn infers_end(&self) -> bool {
        let reported = self.reported.as_ref().map(|report| &report.claim);
        reported.is_some_and(|claim| claim.state == AgentState::Done && !claim.is_confirmed)
    }

    /// Returns the state on the screen.
    pub fn shown_now(&self) -> Option<&DetectedState> {
        self.on_screen.as_ref().map(|(shown, _)| shown)
    }

    /// Returns the state on the screen, and the last one that has settled.
    pub fn shown(&self) -> impl Iterator<Item = &DetectedState> {
        self.shown_now().into_iter().chain(self.settled.as_ref())
    }

    /// Makes the state on the screen a claim if it has settled.
    pub fn settle_screen(&mut self, now: Instant) {
        if self.screen_settles_at().is_none_or(|at| at > now) {
            return;
        }
        if let Some((detected, since)) = &self.on_screen {
            self.settled_since = Some(*since);
            let claim = StateClaim {
                state: detected.state,
                is_confirmed: !detected.inferred && self.has_program,
                asks: detected.asks.clone(),
                detail: format!("{}: {}", detected.rule, detected.line),
                turn: 0,
                background: Background::default(),
            };
            if is_failure(detected.state) {
                // What stands behind the words, such as keys, may go.
                let words = &detected.line;
                let is_same =
                    |before: &str| before.starts_with(&**words) || words.starts_with(before);
                let before = self.failure.take().filter(|(before, _)| is_same(before));
                self.failure = before.or_else(|| Some((words.clone(), now)));
            }
            self.settled = Some(detected.clone());
            self.set_claim(StateSource::Screen, Some(claim), now);
        }
    }

    /// Returns when a state on the screen settles that differs from the last settled one.
    fn screen_settles_at(&self) -> Option<Instant> {
        let (detected, since) = self.on_screen.as_ref()?;
        let settled = self.settled.as_ref();
        if settled.is_some_and(|settled| is_same_screen(detected, settled)) {
            return None;
        }
        let was_done = settled.is_some_and(|settled| settled.state == AgentState::Done);
        let time = match detected.state {
            AgentState::Idle if was_done => IDLE_AFTER_DONE,
            _ => settle_time(StateSource::Screen),
        };
        Some(*since + time)
    }

    /// Returns the state if it or its question differs from the last report.
    pub fn next_change(&mut self, now: Instant) -> Option<ResolvedState> {
        self.settle_shells(now);
        self.keep_question(now);
        let settles = StateSource::ALL
            .into_iter()
            .filter_map(|source| Some(self.get(source)?.since + settle_time(source)));
        let begins = StateSource::ALL
            .into_iter()
            .filter_map(|source| Some(self.get(source)?.since + self.work_begins(source)?));
        // A status follows the first record of a turn as soon as its end does.
        let written = self.get(StateSource::Transcript);
        let begun = self.own_status().zip(written);
        let begun = begun.map(|(status, held)| held.since + settle_time(status));
        let ended = written.map(|held| held.since + END_SHOWN);
        let status = self.own_status().and_then(|source| self.get(source));
        let rests = status.map(|held| [held.since + REST_BEGINS, held.since + REST_DRAWN]);
        let rests = rests.into_iter().flatten();
        let settles = settles.chain(begins).chain(begun).chain(ended).chain(rests);
        let deadlines = settles.chain(self.screen_settles_at());
        let deadlines = deadlines.chain(self.dialogue_settles_at());
        let next_shells = self.next_shells;
        let shells = next_shells.map(|(_, since)| since + settle_time(StateSource::Screen));
        let deadlines = deadlines.chain(shells);
        let has_unseen_work = self.has_unseen_work(now);
        let unseen = self.told.filter(|_| has_unseen_work);
        let deadlines = deadlines.chain(unseen.map(|(at, _)| at + UNSEEN_WORK));
        self.deadline = deadlines.filter(|at| *at > now).min();
        let report = self.decide(now)?;
        if has_unseen_work && !is_busy(report.claim.state) {
            return None;
        }
        // A turn that begins and ends between two polls shows only its end.
        let is_end = !is_busy(report.claim.state) && report.claim.state != AgentState::Idle;
        let is_next_turn = is_end && report.claim.turn > self.turn;
        let is_same = self.reported.as_ref().is_some_and(|before| {
            before.claim.state == report.claim.state
                // A question that is no longer known does not count as a new one. The words of a failure may
                // count down.
                && (report.claim.state != AgentState::Waiting
                    || is_same_question(before.claim.asks.as_deref(), report.claim.asks.as_deref())
                        && is_known_dialogue(before.dialogue.as_ref(), report.dialogue.as_ref()))
        });
        if is_same && !is_next_turn {
            return None;
        }
        let known = self.get(StateSource::Transcript);
        self.turn = known.map_or(self.turn, |held| held.claim.turn);
        let before = self.reported.as_ref();
        let was_busy = before.is_some_and(|before| is_busy(before.claim.state));
        if is_busy(report.claim.state) && !was_busy {
            self.worked_at = Some(now);
        }
        if report.claim.state == AgentState::Waiting {
            self.last_question.clone_from(&report.claim.asks);
        } else if self.state() == Some(AgentState::Waiting) {
            // The next dialogue may be drawn before this work counts.
            let time = self.work_begins(report.source).unwrap_or_default();
            self.went_on_at = now.checked_sub(time).or(Some(now));
        }
        let shown = self.shown_now().map(|shown| shown.state);
        self.told = Some((now, shown == Some(AgentState::Working)));
        self.reported = Some(report.clone());
        Some(report)
    }

    /// Returns true if the agent has been reported to work for less than [`UNSEEN_WORK`], and its screen has not shown it.
    fn has_unseen_work(&self, now: Instant) -> bool {
        let reported = self.reported.as_ref();
        let is_work = |report: &ResolvedState| {
            // A status that the agent keeps of itself is followed at once.
            let is_own = matches!(report.source, StateSource::Screen | StateSource::StatusFile);
            report.claim.state == AgentState::Working && !is_own
        };
        let is_short = |(at, has_shown): (Instant, bool)| !has_shown && now < at + UNSEEN_WORK;
        reported.is_some_and(is_work) && self.told.is_some_and(is_short) && self.draws_dialogues()
    }

    /// Returns the time for which this source must claim that the agent works before it counts.
    fn work_begins(&self, source: StateSource) -> Option<Duration> {
        let shows_work = |shown: &DetectedState| shown.state == AgentState::Working;
        let is_drawn = self.shown_now().is_some_and(shows_work) || !self.draws_dialogues();
        match source {
            StateSource::StatusFile if !is_drawn => Some(WORK_DRAWN),
            _ => MOMENTARY.contains(&source).then_some(WORK_BEGINS),
        }
    }

    /// Returns what runs on in the background, as the transcript says, else the screen.
    pub fn background(&self) -> Background {
        let written = self.get(StateSource::Transcript);
        let written = written.map(|held| held.claim.background);
        let written = written.filter(|written| !written.is_empty());
        written.unwrap_or(Background {
            shells: self.shells,
            agents: 0,
        })
    }

    /// Takes the number of shells from the screen once it has settled.
    fn settle_shells(&mut self, now: Instant) {
        let settled = self.next_shells;
        let settled = settled.filter(|(_, since)| *since + settle_time(StateSource::Screen) <= now);
        if let Some((shells, _)) = settled {
            (self.shells, self.next_shells) = (shells, None);
        }
    }

    fn get(&self, source: StateSource) -> Option<&HeldClaim> {
        self.held[source as usize].as_ref()
    }

    fn report(&self, source: StateSource) -> Option<ResolvedState> {
        Some(ResolvedState {
            source,
            claim: self.get(source)?.claim.clone(),
            dialogue: None,
        })
    }

    /// Returns true if the claim of a source has settled.
    fn has_settled(&self, source: StateSource, now: Instant) -> bool {
        self.has_held(source, settle_time(source), now)
    }

    /// Returns true if the claim of a source holds for a time.
    fn has_held(&self, source: StateSource, time: Duration, now: Instant) -> bool {
        self.get(source)
            .is_some_and(|held| now >= held.since + time)
    }

    /// Returns `None` if the state is unknown or a source is delayed.
    fn decide(&self, now: Instant) -> Option<ResolvedState> {
        // A suspended process does nothing, whatever its files and its screen last showed.
        if let Some(report) = self.report(StateSource::Process) {
            return Some(report);
        }
        let mut report = match self.own_status() {
            Some(source) => self.decide_by_status(source, now)?,
            None => self.decide_by_other_sources(now)?,
        };
        let begins = self.work_begins(report.source);
        if report.claim.state == AgentState::Working
            && self.state() != Some(AgentState::Working)
            && begins.is_some_and(|time| !self.has_held(report.source, time, now))
        {
            return None;
        }
        if report.claim.state != AgentState::Waiting {
            // An agent that does not wait has no question; a failure has its words in its place. The screen shows those
            // that the agent does not write.
            report.claim.asks = self.words_of_failure(&report);
            let is_untold = report.claim.asks.as_deref() == Some(UNTOLD_FAILURE);
            let is_shown_soon = is_untold && !self.has_held(report.source, END_SHOWN, now);
            return Some(report).filter(|_| !is_shown_soon);
        }
        // A report has its own question, or none, unless the agent also writes what it asks.
        let is_own = report.source == StateSource::Report
            && (report.claim.asks.is_some() || self.get(StateSource::Transcript).is_none());
        // What a report says in general, such as `Running command`, a dialogue says in full. It is drawn a moment later.
        let mut is_drawn_later = false;
        if report.source == StateSource::Report && report.claim.asks.is_some() {
            is_drawn_later = self.drawn_question.is_none() && self.draws_dialogues();
            report.claim.asks = self.drawn_question.clone().or(report.claim.asks);
        }
        if report.claim.asks.is_none() {
            report.claim.asks = self.known_question();
        }
        // The question is written shortly after the status, so a known question may belong to the
        // previous dialogue. A screen shows a dialogue and its question at the same time.
        let was_waiting = self.state() == Some(AgentState::Waiting);
        let is_old = self.last_question == report.claim.asks
            && report.source != StateSource::Screen
            && !was_waiting;
        // It may become known later, because other sources are ahead of the screen; then it is reported again.
        report.dialogue = self.dialogue(now);
        let is_unknown = report.claim.asks.is_none() || is_old;
        let is_whole = (!is_unknown || is_own) && !is_drawn_later;
        (is_whole || self.has_settled(report.source, now)).then_some(report)
    }

    /// Keeps the question of the agent's own dialogue once that has settled, as long as its report stands: a dialogue
    /// that is drawn again asks no second question.
    fn keep_question(&mut self, now: Instant) {
        let report = self.get(StateSource::Report);
        let asks = report.is_some_and(|held| held.claim.state == AgentState::Waiting);
        let shown = self.shown_now().filter(|shown| {
            asks && shown.state == AgentState::Waiting && self.is_known_agents(shown)
        });
        let question = shown.and_then(|shown| shown.asks.clone());
        if question.is_some() && self.dialogue(now).is_some() {
            self.drawn_question = question;
        }
    }

    /// Returns true if the agent draws dialogues that its own rules read.
    fn draws_dialogues(&self) -> bool {
        self.shown().any(|shown| self.is_known_agents(shown))
    }

    /// Returns true if an agent's own rules have read a screen.
    fn is_known_agents(&self, shown: &DetectedState) -> bool {
        let is_named = self.has_program || KnownAgent::named(&shown.agent).is_some();
        is_named && !shown.is_general
    }

    /// Returns the source in which the agent itself states what it does, if there is one.
    fn own_status(&self) -> Option<StateSource> {
        let mut own = [StateSource::StatusFile, StateSource::Report].into_iter();
        own.find(|source| self.has_claim(*source))
    }

    /// Returns the dialogue on the screen, once it has settled.
    fn dialogue(&self, now: Instant) -> Option<Dialogue> {
        let (shown, _) = self.on_screen.as_ref()?;
        let since = self.dialogue_since?;
        // An answered dialogue stands until the screen is drawn again.
        let is_next = self.went_on_at.is_none_or(|at| at < since);
        let has_settled = self.dialogue_settles_at().is_some_and(|at| at <= now);
        shown.dialogue.clone().filter(|_| is_next && has_settled)
    }

    /// Returns when the dialogue on the screen settles: it is drawn in steps.
    fn dialogue_settles_at(&self) -> Option<Instant> {
        let (shown, _) = self.on_screen.as_ref()?;
        shown.dialogue.as_ref()?;
        Some(self.dialogue_since? + settle_time(StateSource::Screen))
    }

    /// Decides by the status that the agent itself states, in its file or in a report.
    fn decide_by_status(&self, source: StateSource, now: Instant) -> Option<ResolvedState> {
        use StateSource::{Report, Screen, Transcript};
        let status = self.get(source)?;
        let is_reported = source == Report;
        if is_reported && status.claim.state == AgentState::Working {
            // A program may draw its dialogue, and not report it. An answered one stands for a moment.
            let asks = |held: &HeldClaim| {
                let is_standing = held.since > status.since || self.has_settled(source, now);
                held.claim.state == AgentState::Waiting && is_standing
            };
            let has_dialogue = self.dialogue(now).is_some() && self.get(Screen).is_some_and(asks);
            if has_dialogue {
                return self.report(Screen);
            }
            return self.report(source);
        }
        let next = self
            .get(Report)
            .filter(|held| !is_reported && !held.is_busy() && held.claim.state != AgentState::Idle);
        let transcript = self.get(Transcript);
        if status.claim.state != AgentState::Idle {
            // Its words follow, or its limit, as reports know none.
            let is_end = is_reported && !status.is_busy() && status.claim.asks.is_none();
            let worked = self.worked_at.max(self.report_began);
            let is_old = |held: &HeldClaim| {
                held.is_busy() || worked.is_some_and(|worked| held.since < worked)
            };
            let is_behind = is_end && transcript.is_some_and(is_old);
            if is_behind && !self.has_settled(source, now) {
                return None;
            }
            let is_limit = |held: &HeldClaim| held.claim.state == AgentState::Limited;
            let is_limited = status.claim.state == AgentState::Error
                && is_reported
                && transcript.is_some_and(is_limit);
            return self.report(if is_limited { Transcript } else { source });
        }
        if next.is_some() {
            return self.report(Report);
        }
        match transcript {
            // An end that was written long before this rest may not be the last: the end of a background agent sends the
            // agent on, and Claude Code 2.1.332 is idle for 5 ms before.
            Some(transcript) if !transcript.is_busy() => {
                let is_of_this_rest = status.since < transcript.since + settle_time(source);
                let follows = is_of_this_rest || self.has_held(source, REST_BEGINS, now);
                let shown = self.shown_now();
                let shows_work = shown
                    .is_some_and(|shown| shown.state == AgentState::Working && !shown.inferred);
                let is_drawn = is_reported || !shows_work || self.has_held(source, REST_DRAWN, now);
                return self.report(Transcript).filter(|_| follows && is_drawn);
            }
            // The end of the turn is about to be written to the transcript, or its begin to the status.
            Some(_)
                if !self.has_settled(source, now)
                    || !self.has_held(Transcript, settle_time(source), now) =>
            {
                return None;
            }
            _ => {}
        }
        let is_more = |held: &HeldClaim| {
            let says_little = matches!(held.claim.state, AgentState::Idle | AgentState::Unknown);
            !held.is_busy() && !says_little
        };
        if self.get(Screen).is_some_and(is_more) && !self.shows_old_failure() {
            self.report(Screen)
        } else {
            self.report(source)
        }
    }

    fn decide_by_other_sources(&self, now: Instant) -> Option<ResolvedState> {
        use StateSource::{Hook, Notification, Screen, Title, Transcript};
        let mut lower = [Title, Notification, Hook, Screen].into_iter();
        let first = lower.find_map(|source| Some((source, self.get(source)?)));
        // A title or a screen showed work after this claim.
        let precedes_work =
            |held: &HeldClaim| self.busy_since.is_some_and(|since| held.since < since);
        // The user has stopped the work of this turn: the screen shows its end without a failure.
        let is_stopped = |held: &HeldClaim| {
            // A prompt that is typed long before it is sent may settle after the turn has failed.
            let shown = self
                .settled_since
                .map_or(held.since, |at| at.min(held.since));
            held.claim.state == AgentState::Idle
                && self.busy_since.is_some_and(|since| since < shown)
                && self.turn_began.is_none_or(|began| began < shown)
        };
        let is_inferred_failure =
            |held: &HeldClaim| is_failure(held.claim.state) && !held.claim.is_confirmed;
        // An inferred failure does not describe later work: `/clear` of Qwen Code 0.24 shows work
        // in the title, and starts a transcript only with the next prompt. Nor has a turn failed that the user stops
        // while the agent tries a request again: Qwen Code records the error, and not the stop.
        let is_outdated = |held: &HeldClaim| {
            let is_over = precedes_work(held) || self.get(Screen).is_some_and(is_stopped);
            is_inferred_failure(held) && is_over
        };
        let transcript = self.get(Transcript);
        let Some((first, lower)) = first else {
            // No other source confirms an answer.
            let is_open = transcript
                .is_some_and(|held| !held.is_busy() && !held.claim.is_confirmed)
                && !self.has_settled(Transcript, now);
            return self.report(Transcript).filter(|_| !is_open);
        };
        // A title shows neither the menus that the user opens nor that Codex tries to reach its server. Beside a dialogue,
        // another tool or a sub-agent may work, as hooks tell; an answered one stands for a moment.
        let has_dialogue = self.dialogue(now).is_some();
        let is_ahead = |held: &&HeldClaim| {
            let is_newer = held.since > lower.since;
            let is_standing = first == Hook || is_newer || self.has_settled(first, now);
            match (held.claim.state, lower.claim.state) {
                (AgentState::Waiting, AgentState::Working) => has_dialogue && is_standing,
                _ => held.is_busy() && !lower.is_busy() && is_newer,
            }
        };
        let screen = self.get(Screen).filter(is_ahead);
        let (first, lower) = screen.map_or((first, lower), |screen| (Screen, screen));
        let has_settled = self.has_settled(first, now);
        // A hook also reports permissions that are granted at once, without a dialogue.
        let asks = first == Hook && lower.claim.state == AgentState::Waiting;
        if asks && !has_dialogue && !has_settled {
            return None;
        }
        if let Some(transcript) = transcript {
            // After a title or a screen shows the end of the turn, the transcript will soon show how
            // it ended.
            let is_behind = transcript.is_busy() || precedes_work(transcript);
            let is_newer = transcript.since > lower.since;
            // The screen is about to show if the user has stopped the turn.
            let may_be_stopped =
                is_inferred_failure(transcript) && self.get(Screen).is_some_and(HeldClaim::is_busy);
            let is_unknown = is_behind && !is_newer || may_be_stopped;
            if is_unknown && !lower.is_busy() && !has_settled {
                return None;
            }
            // What a screen shows only since after the end, or an end that precedes the observation, is no part of the
            // turn: a menu, or a command of the user and its question. Work also shows in a title, and after an
            // interruption for a moment more.
            let is_later = |held: &HeldClaim| match held.claim.state {
                AgentState::Waiting => true,
                AgentState::Working => {
                    first == Screen && transcript.claim.state != AgentState::Idle
                }
                _ => false,
            };
            let is_since = transcript.claim.turn == 0
                || self.settled_since.is_some_and(|at| at > transcript.since);
            if !transcript.is_busy() && is_since && self.get(Screen).is_some_and(is_later) {
                return self.report(Screen);
            }
            // While it is drawn again, a screen shows no state.
            let work = self.shown().next();
            let work = work.filter(|shown| shown.state == AgentState::Working);
            let shows_work = work.is_some_and(|work| !work.inferred);
            // A title may be ahead of the answer, which is written and drawn together. A typed prompt may have settled on the
            // screen just before it was sent.
            let is_outlived = shows_work || first == Screen && work.is_some();
            if transcript.is_busy() && !lower.is_busy() && is_outlived {
                return None;
            }
            let was_working = self.state() == Some(AgentState::Working);
            // A prompt that waited begins the next turn. After an answer that is perhaps none, what only looks like work may
            // be about to settle, or to give way to the end.
            let is_doubtful = work.is_some() && !transcript.claim.is_confirmed;
            let may_go_on = transcript.claim.state == AgentState::Done
                && was_working
                && (shows_work || is_doubtful);
            if may_go_on && !self.has_held(Transcript, END_SHOWN, now) {
                return None;
            }
            if !transcript.is_busy() && !is_outdated(transcript) {
                // The turn continues after an unconfirmed answer. Work that the screen has shown since before it, and that
                // settles after the end was told, may be about to give way to the end.
                let is_since = self.state().is_some_and(is_busy)
                    || first != Screen
                    || self.has_held(Transcript, END_SHOWN, now);
                let goes_on = lower.is_busy() && !transcript.claim.is_confirmed && is_since;
                return self.report(if goes_on { first } else { Transcript });
            }
            // An idle state from before the turn is no evidence about the turn. A typed prompt may settle on the screen once
            // it was sent, and stand for a moment more.
            let was_before = first == Screen
                && self.settled_since.is_some_and(|at| at < transcript.since)
                && !self.has_held(Transcript, END_SHOWN, now);
            if transcript.is_busy() && (is_newer || was_before) && !lower.is_busy() {
                return self.report(Transcript);
            }
        }
        // A title is briefly blank between two states. A screen's claim has already settled.
        let reported = self.reported.as_ref();
        let was_busy = reported.is_some_and(|report| is_busy(report.claim.state));
        let by_screens = first == Screen && reported.is_some_and(|report| report.source == Screen);
        let is_early = !has_settled || first != Screen && self.draws_end();
        if was_busy && !lower.is_busy() && !by_screens && is_early {
            return None;
        }
        // Titles do not show how a turn ended, so the screen refines `idle`.
        let is_refined = lower.claim.state == AgentState::Idle
            && self
                .get(Screen)
                .is_some_and(|held| !held.is_busy() && held.claim.state != AgentState::Unknown)
            && !self.shows_old_failure();
        self.report(if is_refined { Screen } else { first })
    }

    /// Returns true if the screen no longer shows the work that it claims, and what it shows has not settled.
    fn draws_end(&self) -> bool {
        let works = |held: &HeldClaim| held.claim.state == AgentState::Working;
        let shows_end = |shown: &DetectedState| shown.state != AgentState::Working;
        self.get(StateSource::Screen).is_some_and(works) && self.shown_now().is_some_and(shows_end)
    }

    /// Returns true if the failure on the screen is that of an earlier turn: the user has stopped the last one before its
    /// first words, and the agent has taken the prompt back from the screen.
    fn shows_old_failure(&self) -> bool {
        let is_failure = |held: &HeldClaim| is_failure(held.claim.state);
        let since = self.failure.as_ref().map(|(_, since)| *since);
        self.records_failures
            && self.get(StateSource::Screen).is_some_and(is_failure)
            && since.is_some_and(|since| self.worked_at.is_some_and(|worked| since < worked))
    }

    /// Returns the words of an error or a limit: those of the transcript, else those on the screen.
    fn words_of_failure(&self, report: &ResolvedState) -> Option<String> {
        let state = report.claim.state;
        if !is_failure(state) {
            return None;
        }
        let has_words = |held: &&HeldClaim| {
            let words = held.claim.detail.as_str();
            held.claim.state == state && !["", UNTOLD_FAILURE].contains(&words)
        };
        let mut own = [StateSource::Report, StateSource::Transcript].into_iter();
        let written = own.find_map(|source| self.get(source).filter(has_words));
        let written = written.map(|held| held.claim.detail.as_str());
        let shown = self.settled.as_ref().filter(|shown| shown.state == state);
        let words = written.or_else(|| Some(shown?.line.as_str()));
        let words = failure_words(words.unwrap_or(&report.claim.detail));
        Some(words).filter(|words| !words.is_empty())
    }

    /// Returns the question from another source, if the source that claims `waiting` does not show it.
    fn known_question(&self) -> Option<String> {
        let sources = StateSource::ALL.into_iter();
        let mut others = sources.filter(|source| *source != StateSource::Screen);
        let claimed = others.find_map(|source| self.get(source)?.claim.asks.clone());
        // The dialogue may have been closed since it settled.
        let is_settled = self.screen_settles_at().is_none();
        let shown = self.on_screen.as_ref().filter(|_| is_settled);
        claimed.or_else(|| shown?.0.asks.clone())
    }
}

/// Returns true if a dialogue tells no more than the one that was reported.
fn is_known_dialogue(before: Option<&Dialogue>, now: Option<&Dialogue>) -> bool {
    match (before, now) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(before), Some(now)) => before == now,
    }
}

/// Returns true if two screens show the same state. Another dialogue is another state, if the screen
/// shows its question.
fn is_same_screen(a: &DetectedState, b: &DetectedState) -> bool {
    a.agent == b.agent && a.state == b.state && (a.asks == b.asks || a.asks.is_none())
}

/// Returns true if a turn has failed.
fn is_failure(state: AgentState) -> bool {
    matches!(state, AgentState::Error | AgentState::Limited)
}

/// Returns true if a turn is in progress.
fn is_busy(state: AgentState) -> bool {
    matches!(state, AgentState::Working | AgentState::Waiting)
}

#[cfg(test)]
mod tests {
    mod resolver {
        //! Claims of sources, and the states that result from them.

        use super::super::AgentState::{Done, Error, Idle, Waiting, Working};
        use super::super::StateSource::{Report, Screen, StatusFile, Title, Transcript};
        use std::sync::LazyLock;

        use super::super::*;
        use crate::clock::Clock;
        use proptest::prelude::*;

        fn claim(state: AgentState, asks: Option<&str>) -> Option<StateClaim> {
            Some(StateClaim {
                state,
                is_confirmed: true,
                asks: asks.map(str::to_owned),
                detail: String::new(),
                turn: 0,
                background: Background::default(),
            })
        }

        fn ms(at: u64) -> Instant {
            static START: LazyLock<Instant> = LazyLock::new(|| Clock::system().now());
            *START + Duration::from_millis(at)
        }

        fn screen(state: AgentState, asks: Option<&str>) -> Option<DetectedState> {
            Some(DetectedState {
                agent: "codex".into(),
                state,
                rule: String::new(),
                line: String::new(),
                inferred: false,
                asks: asks.map(str::to_owned),
                dialogue: None,
                takes_text: true,
                shells: 0,
                says: None,
                rows_below: 0,
                is_general: false,
            })
        }

        /// A screen that shows a sent prompt and no answer yet.
        fn typed() -> Option<DetectedState> {
            screen(AgentState::Working, None).map(|shown| DetectedState {
                inferred: true,
                ..shown
            })
        }

        fn states(
            claims: &mut StateResolver,
            now: u64,
        ) -> Option<(StateSource, AgentState, Option<String>)> {
            let report = claims.next_change(ms(now))?;
            Some((report.source, report.claim.state, report.claim.asks))
        }

        #[test]
        fn a_dialogue_outranks_the_work_that_hooks_and_titles_tell_of() {
            for source in [StateSource::Hook, Title, Report] {
                let mut claims = StateResolver::new(true);
                claims.set_claim(source, claim(Working, None), ms(0));
                assert_eq!(states(&mut claims, 100), Some((source, Working, None)));
                let mut asks = screen(Waiting, Some("touch a"));
                asks.as_mut().unwrap().dialogue = Some(Dialogue::default());
                claims.set_screen(asks, ms(100));
                claims.settle_screen(ms(400));
                let asked = Some((Screen, Waiting, Some("touch a".to_owned())));
                assert_eq!(states(&mut claims, 400), asked);
                claims.set_claim(source, claim(Working, None), ms(500));
                assert_eq!(states(&mut claims, 500), None, "it still asks");
                // The dialogue is gone; what the screen shows then is no state.
                claims.set_screen(None, ms(600));
                assert_eq!(states(&mut claims, 600), Some((source, Working, None)));
            }
        }

        #[test]
        fn the_dialogue_of_an_agent_has_the_words_of_what_it_reports() {
            let mut claims = StateResolver::new(true);
            claims.set_screen(screen(Idle, None), ms(0));
            claims.settle_screen(ms(300));
            let asks = |question| {
                let mut shown = screen(Waiting, Some(question));
                let text = question.to_owned();
                let dialogue = Dialogue {
                    text,
                    ..Dialogue::default()
                };
                shown.as_mut().unwrap().dialogue = Some(dialogue);
                shown
            };
            let asked = |question: &str| Some((Report, Waiting, Some(question.to_owned())));
            claims.set_claim(Report, claim(Working, None), ms(300));
            assert_eq!(states(&mut claims, 400), Some((Report, Working, None)));
            claims.set_claim(Report, claim(Waiting, Some("Running command")), ms(1_000));
            assert_eq!(states(&mut claims, 1_000), None, "not drawn yet");
            claims.set_screen(asks("touch a"), ms(1_100));
            assert_eq!(states(&mut claims, 1_399), None);
            assert_eq!(claims.deadline, Some(ms(1_400)));
            claims.settle_screen(ms(1_400));
            assert_eq!(states(&mut claims, 1_400), asked("touch a"));
            // It is drawn again, and the agent reports the same again.
            claims.set_screen(None, ms(2_000));
            claims.set_claim(Report, claim(Waiting, Some("Running command")), ms(2_100));
            assert_eq!(states(&mut claims, 3_000), None);
            claims.set_screen(asks("touch a"), ms(3_000));
            claims.settle_screen(ms(3_300));
            assert_eq!(states(&mut claims, 3_300), None);
            // The next dialogue follows at once.
            claims.set_screen(asks("touch b"), ms(4_000));
            assert_eq!(states(&mut claims, 4_299), None);
            claims.settle_screen(ms(4_300));
            assert_eq!(states(&mut claims, 4_300), asked("touch b"));
            // What the agent asks without a dialogue, it has said itself. The last dialogue may still stand.
            claims.set_claim(Report, claim(Working, None), ms(5_000));
            assert_eq!(states(&mut claims, 5_100), Some((Report, Working, None)));
            claims.set_claim(Report, claim(Waiting, Some("Log in")), ms(5_200));
            assert_eq!(states(&mut claims, 6_199), None);
            assert_eq!(states(&mut claims, 6_200), asked("Log in"));
        }

        #[test]
        fn a_program_that_draws_no_dialogue_of_an_agent_has_its_own_question_at_once() {
            let general = screen(Waiting, Some("Go on?")).map(|shown| DetectedState {
                is_general: true,
                dialogue: Some(Dialogue::default()),
                ..shown
            });
            let shell = screen(Idle, None).map(|shown| DetectedState {
                agent: "shell".into(),
                ..shown
            });
            for shown in [None, general, shell] {
                let mut claims = StateResolver::new(false);
                claims.set_screen(shown, ms(0));
                claims.settle_screen(ms(300));
                claims.set_claim(Report, claim(Waiting, Some("Deploy?")), ms(300));
                let asked = Some((Report, Waiting, Some("Deploy?".to_owned())));
                assert_eq!(states(&mut claims, 300), asked);
                assert_eq!(states(&mut claims, 2_000), None);
            }
        }

        #[test]
        fn a_report_outranks_what_the_agent_writes_and_shows() {
            let mut claims = StateResolver::new(true);
            claims.set_claim(Transcript, claim(Working, Some("ls")), ms(0));
            claims.set_claim(Title, claim(Working, None), ms(0));
            assert_eq!(states(&mut claims, 100).unwrap().1, Working);
            claims.set_claim(Report, claim(Waiting, Some("Deploy?")), ms(100));
            let asked = Some((Report, Waiting, Some("Deploy?".to_owned())));
            assert_eq!(states(&mut claims, 100), asked, "at once");
            claims.set_claim(Report, claim(Working, None), ms(200));
            assert_eq!(states(&mut claims, 300), Some((Report, Working, None)));
            claims.set_claim(Report, claim(Waiting, Some("Deploy?")), ms(350));
            assert_eq!(states(&mut claims, 350), asked, "the same question again");
            claims.set_claim(Report, claim(Idle, None), ms(400));
            assert_eq!(
                states(&mut claims, 799),
                None,
                "the transcript is about to say more"
            );
            claims.set_claim(Transcript, claim(Done, None), ms(799));
            assert_eq!(states(&mut claims, 799), Some((Transcript, Done, None)));
            claims.set_claim(Report, claim(Done, None), ms(900));
            claims.set_claim(StatusFile, claim(Working, None), ms(1_000));
            assert_eq!(
                states(&mut claims, 1_000),
                Some((StatusFile, Working, None))
            );
            claims.set_claim(StatusFile, claim(Idle, None), ms(1_100));
            assert_eq!(states(&mut claims, 1_100), Some((Report, Done, None)));
        }

        #[test]
        fn an_agent_that_reports_a_question_before_it_writes_or_draws_it_asks_once() {
            let mut claims = StateResolver::new(true);
            claims.set_claim(Transcript, claim(Working, None), ms(0));
            claims.set_claim(Report, claim(Working, None), ms(0));
            assert_eq!(states(&mut claims, 100), Some((Report, Working, None)));
            // The question of the last dialogue may be that of the next one, too.
            for (at, question, asked_at) in [
                (1_000, "touch a", 1_900),
                (3_000, "touch b", 3_900),
                (5_000, "touch b", 6_000),
            ] {
                claims.set_claim(Report, claim(Waiting, None), ms(at));
                assert_eq!(states(&mut claims, at + 899), None, "before {question}");
                claims.set_claim(Transcript, claim(Working, Some(question)), ms(at + 900));
                let asked = Some((Report, Waiting, Some(question.to_owned())));
                let at_once = asked.clone().filter(|_| asked_at == at + 900);
                assert_eq!(states(&mut claims, at + 900), at_once);
                let later = asked.filter(|_| at_once.is_none());
                assert_eq!(states(&mut claims, asked_at), later);
                claims.set_claim(Report, claim(Working, None), ms(at + 1_500));
                let works = Some((Report, Working, None));
                assert_eq!(states(&mut claims, at + 1_600), works);
            }
            // A question that stays unknown is reported too.
            claims.set_claim(Transcript, claim(Working, None), ms(7_000));
            claims.set_claim(Report, claim(Waiting, None), ms(7_000));
            assert_eq!(states(&mut claims, 7_999), None);
            assert_eq!(states(&mut claims, 8_000), Some((Report, Waiting, None)));
        }

        #[test]
        fn an_end_that_an_agent_reports_before_it_writes_it_has_its_words_and_its_limit() {
            let mut claims = StateResolver::new(true);
            claims.set_claim(Transcript, claim(Working, None), ms(0));
            claims.set_claim(Report, claim(Working, None), ms(0));
            assert_eq!(states(&mut claims, 100), Some((Report, Working, None)));
            claims.set_claim(Report, claim(Error, None), ms(1_000));
            assert_eq!(states(&mut claims, 1_100), None);
            claims.set_claim(Transcript, claim(AgentState::Limited, None), ms(1_200));
            assert_eq!(states(&mut claims, 1_200).unwrap().1, AgentState::Limited);
            for (at, is_written) in [(3_000, true), (5_000, false)] {
                claims.set_claim(Transcript, claim(Working, None), ms(at));
                claims.set_claim(Report, claim(Working, None), ms(at));
                assert_eq!(states(&mut claims, at + 100), Some((Report, Working, None)));
                claims.set_claim(Report, claim(Done, None), ms(at + 100));
                assert_eq!(states(&mut claims, at + 1_099), None);
                if is_written {
                    claims.set_claim(Transcript, claim(Done, None), ms(at + 1_099));
                }
                let end = at + if is_written { 1_099 } else { 1_100 };
                assert_eq!(states(&mut claims, end), Some((Report, Done, None)));
            }
        }

        #[test]
        fn a_turn_that_is_written_before_the_status_begins_is_no_idleness() {
            for (source, settled) in [(StatusFile, 400), (Report, 1_000)] {
                let mut claims = StateResolver::new(true);
                claims.set_claim(source, claim(Idle, None), ms(0));
                claims.set_claim(Transcript, claim(Done, None), ms(0));
                assert_eq!(states(&mut claims, 400), Some((Transcript, Done, None)));
                claims.set_claim(Transcript, claim(Working, None), ms(5_000));
                assert_eq!(states(&mut claims, 5_000), None);
                assert_eq!(claims.deadline, Some(ms(5_000 + settled)));
                claims.set_claim(source, claim(Working, None), ms(5_100));
                assert_eq!(states(&mut claims, 5_200), Some((source, Working, None)));
                claims.set_claim(source, claim(Idle, None), ms(6_000));
                // The user has stopped it before its first record.
                claims.set_claim(Transcript, claim(Working, None), ms(6_000));
                let idle = Some((source, Idle, None));
                assert_eq!(states(&mut claims, 6_000 + settled), idle);
            }
        }

        #[test]
        fn a_failure_that_is_reported_before_it_is_written_is_not_that_of_the_turn_before() {
            let mut claims = StateResolver::new(true);
            claims.set_claim(Transcript, claim(Error, None), ms(0));
            claims.set_claim(Report, claim(Error, None), ms(0));
            assert_eq!(states(&mut claims, 0).unwrap().1, Error);
            claims.set_claim(Report, claim(Working, None), ms(5_000));
            assert_eq!(states(&mut claims, 5_100), Some((Report, Working, None)));
            claims.set_claim(Report, claim(Error, None), ms(5_200));
            assert_eq!(states(&mut claims, 5_200), None, "not written yet");
            let limited =
                claim(AgentState::Limited, None).map(|claim| StateClaim { turn: 1, ..claim });
            claims.set_claim(Transcript, limited, ms(5_250));
            assert_eq!(states(&mut claims, 5_250).unwrap().1, AgentState::Limited);
        }

        #[test]
        fn work_that_a_program_reports_for_a_moment_is_none() {
            let mut claims = StateResolver::new(true);
            claims.set_claim(Report, claim(Idle, None), ms(0));
            assert_eq!(states(&mut claims, 0), Some((Report, Idle, None)));
            claims.set_claim(Report, claim(Working, None), ms(1_000));
            assert_eq!(states(&mut claims, 1_000), None);
            assert_eq!(claims.deadline, Some(ms(1_100)));
            claims.set_claim(Report, claim(Idle, None), ms(1_015));
            assert_eq!(states(&mut claims, 2_000), None);
            claims.set_claim(Report, claim(Working, None), ms(3_000));
            assert_eq!(states(&mut claims, 3_100), Some((Report, Working, None)));
        }

        /// Codex 0.171 reports work for some 20 ms after the user has denied a permission.
        #[test]
        fn work_that_a_program_reports_for_a_moment_after_a_dialogue_is_none() {
            let waiting = || {
                let mut claims = StateResolver::new(true);
                claims.set_screen(dialogue("touch a", 0), ms(0));
                claims.settle_screen(ms(300));
                claims.set_claim(Transcript, claim(Working, None), ms(300));
                claims.set_claim(Report, claim(Waiting, Some("touch a")), ms(300));
                let asked = Some((Report, Waiting, Some("touch a".to_owned())));
                assert_eq!(states(&mut claims, 300), asked);
                claims.set_claim(Report, claim(Working, None), ms(2_000));
                assert_eq!(states(&mut claims, 2_000), None);
                assert_eq!(claims.deadline, Some(ms(2_100)));
                claims
            };
            let mut claims = waiting();
            claims.set_claim(Report, claim(Idle, None), ms(2_020));
            assert_eq!(states(&mut claims, 2_020), None);
            let stopped = claim(Idle, None).map(|claim| StateClaim { turn: 1, ..claim });
            claims.set_claim(Transcript, stopped, ms(2_030));
            assert_eq!(states(&mut claims, 2_030), Some((Transcript, Idle, None)));
            // It goes on, and asks the next question before its work counts.
            let mut claims = waiting();
            claims.set_screen(dialogue("touch b", 0), ms(2_050));
            assert_eq!(states(&mut claims, 2_100), Some((Report, Working, None)));
            claims.settle_screen(ms(2_350));
            claims.set_claim(Report, claim(Waiting, Some("touch b")), ms(2_350));
            let next = words("touch b", Some("Bash command touch b Some(0)"));
            assert_eq!(asked(&mut claims, 2_350), Some(next));
        }

        #[test]
        fn work_that_a_title_shows_for_a_moment_is_none() {
            let mut claims = StateResolver::new(true);
            claims.set_claim(Title, claim(Idle, None), ms(0));
            assert_eq!(states(&mut claims, 0), Some((Title, Idle, None)));
            claims.set_claim(Title, claim(Working, None), ms(1_000));
            assert_eq!(states(&mut claims, 1_000), None);
            assert_eq!(claims.deadline, Some(ms(1_100)));
            claims.set_claim(Title, claim(Idle, None), ms(1_063));
            assert_eq!(states(&mut claims, 1_063), None);
            // The request was refused.
            let failed = claim(Error, Some("401")).map(|claim| StateClaim {
                is_confirmed: false,
                ..claim
            });
            claims.set_claim(Transcript, failed, ms(1_110));
            let refused = states(&mut claims, 1_110).map(|(source, state, _)| (source, state));
            assert_eq!(refused, Some((Transcript, Error)));
            claims.set_claim(Title, claim(Working, None), ms(5_000));
            assert_eq!(states(&mut claims, 5_099), None);
            assert_eq!(states(&mut claims, 5_100), Some((Title, Working, None)));
            // It goes on after a dialogue.
            claims.set_claim(Title, claim(Waiting, Some("touch a")), ms(6_000));
            let asks = Some((Title, Waiting, Some("touch a".to_owned())));
            assert_eq!(states(&mut claims, 6_000), asks);
            claims.set_claim(Title, claim(Working, None), ms(7_000));
            assert_eq!(states(&mut claims, 7_099), None);
            assert_eq!(states(&mut claims, 7_100), Some((Title, Working, None)));
        }

        #[test]
        fn work_of_a_status_file_that_is_never_drawn_is_none() {
            let limited =
                |turn| claim(AgentState::Limited, None).map(|claim| StateClaim { turn, ..claim });
            let mut claims = StateResolver::new(true);
            claims.set_claim(StatusFile, claim(Idle, None), ms(0));
            claims.set_claim(Transcript, limited(1), ms(0));
            claims.set_screen(screen(AgentState::Limited, None), ms(0));
            claims.settle_screen(ms(300));
            let end = Some((Transcript, AgentState::Limited, None));
            assert_eq!(states(&mut claims, 300), end);
            claims.set_claim(StatusFile, claim(Working, None), ms(5_000));
            assert_eq!(states(&mut claims, 5_000), None);
            claims.set_claim(Transcript, limited(2), ms(5_100));
            claims.set_claim(StatusFile, claim(Idle, None), ms(5_100));
            assert_eq!(states(&mut claims, 5_100), end, "the next turn");
            // Work that is drawn counts at once, other work a moment later.
            for (is_drawn, at) in [(true, 9_050), (false, 9_200)] {
                let mut claims = claims.clone();
                claims.set_claim(StatusFile, claim(Working, None), ms(9_000));
                assert_eq!(states(&mut claims, 9_000), None);
                if is_drawn {
                    claims.set_screen(screen(Working, None), ms(9_050));
                } else {
                    assert_eq!(states(&mut claims, 9_150), None);
                    assert_eq!(claims.deadline, Some(ms(9_200)));
                }
                assert_eq!(states(&mut claims, at), Some((StatusFile, Working, None)));
            }
        }

        #[test]
        fn a_permission_that_is_granted_at_once_is_no_question() {
            let mut claims = StateResolver::new(true);
            let hook = StateSource::Hook;
            claims.set_claim(hook, claim(Working, None), ms(0));
            assert_eq!(states(&mut claims, 0), Some((hook, Working, None)));
            claims.set_claim(hook, claim(Waiting, Some("touch a")), ms(100));
            assert_eq!(states(&mut claims, 1_000), None);
            claims.set_claim(hook, claim(Working, None), ms(1_000));
            assert_eq!(states(&mut claims, 5_000), None);
            claims.set_claim(hook, claim(Waiting, Some("touch b")), ms(6_000));
            assert_eq!(states(&mut claims, 7_000), None);
            let asked = Some((hook, Waiting, Some("touch b".to_owned())));
            assert_eq!(states(&mut claims, 7_300), asked);
        }

        #[test]
        fn work_that_the_screen_does_not_show_is_told_for_half_a_second() {
            let worked = |at: u64, shown: AgentState, draws: bool| {
                let mut claims = StateResolver::new(true);
                if draws {
                    claims.set_screen(screen(Idle, None), ms(0));
                    claims.settle_screen(ms(300));
                }
                claims.set_claim(Report, claim(Idle, None), ms(300));
                assert_eq!(states(&mut claims, 300).unwrap().1, Idle);
                claims.set_claim(Report, claim(Working, None), ms(1_000));
                assert_eq!(states(&mut claims, 1_100), Some((Report, Working, None)));
                if draws {
                    claims.set_screen(screen(shown, None), ms(1_150));
                    claims.set_screen(screen(Idle, None), ms(1_180));
                }
                claims.set_claim(Report, claim(Done, Some("All is done")), ms(1_200));
                claims.set_claim(Transcript, claim(Done, None), ms(1_200));
                states(&mut claims, at).map(|(source, state, _)| (source, state))
            };
            // Codex 0.171 hides its status row while it answers.
            assert_eq!(worked(1_599, Idle, true), None);
            assert_eq!(worked(1_600, Idle, true), Some((Report, Done)));
            assert_eq!(worked(1_200, Working, true), Some((Report, Done)));
            assert_eq!(
                worked(1_200, Idle, false),
                Some((Report, Done)),
                "without a screen"
            );
            // A question never waits for it.
            let mut claims = StateResolver::new(true);
            claims.set_screen(screen(Idle, None), ms(0));
            claims.settle_screen(ms(300));
            claims.set_claim(Title, claim(Working, None), ms(1_000));
            assert_eq!(states(&mut claims, 1_100), Some((Title, Working, None)));
            claims.set_claim(Title, claim(Idle, None), ms(1_150));
            assert_eq!(states(&mut claims, 1_250), None);
            assert_eq!(claims.deadline, Some(ms(1_600)));
            claims.set_claim(Title, claim(Waiting, Some("touch a")), ms(1_300));
            let asks = Some((Title, Waiting, Some("touch a".to_owned())));
            assert_eq!(states(&mut claims, 1_300), asks);
        }

        #[test]
        fn a_turn_that_was_stopped_says_nothing_of_the_next_ones_failure() {
            let mut claims = StateResolver::new(true);
            let transcript = |state, is_confirmed, turn| {
                claim(state, None).map(|claim| StateClaim {
                    is_confirmed,
                    turn,
                    ..claim
                })
            };
            claims.set_claim(Transcript, transcript(Working, true, 1), ms(0));
            claims.set_screen(screen(Working, None), ms(0));
            claims.settle_screen(ms(300));
            assert_eq!(states(&mut claims, 300).unwrap().1, Working);
            // aider writes nothing of the stop.
            claims.set_screen(screen(Idle, None), ms(3_000));
            claims.settle_screen(ms(3_300));
            assert_eq!(states(&mut claims, 5_000), Some((Screen, Idle, None)));
            claims.set_claim(Transcript, transcript(Working, true, 2), ms(9_000));
            assert_eq!(states(&mut claims, 9_000).unwrap().1, Working);
            claims.set_claim(Transcript, transcript(Error, false, 2), ms(9_100));
            assert_eq!(states(&mut claims, 9_100), None, "nobody has seen the work");
            let failed = states(&mut claims, 9_500).map(|(source, state, _)| (source, state));
            assert_eq!(failed, Some((Transcript, Error)));
        }

        #[test]
        fn a_limit_that_ends_a_moments_work_is_no_error_before() {
            let mut claims = StateResolver::new(true);
            claims.set_claim(Report, claim(Done, None), ms(0));
            claims.set_claim(Transcript, claim(Done, None), ms(0));
            assert_eq!(states(&mut claims, 2_000).unwrap().1, Done);
            claims.set_claim(Report, claim(Working, None), ms(5_000));
            assert_eq!(states(&mut claims, 5_000), None);
            claims.set_claim(Report, claim(Error, None), ms(5_060));
            assert_eq!(states(&mut claims, 5_060), None);
            claims.set_claim(Transcript, claim(AgentState::Limited, None), ms(5_070));
            let limited = states(&mut claims, 5_070).map(|(source, state, _)| (source, state));
            assert_eq!(limited, Some((Transcript, AgentState::Limited)));
        }

        #[test]
        fn a_title_at_rest_beside_a_screen_that_works_waits_for_the_end_of_the_turn() {
            let begun = || {
                let mut claims = StateResolver::new(true);
                claims.set_claim(Title, claim(Working, None), ms(0));
                claims.set_claim(Transcript, claim(Working, None), ms(100));
                claims.set_screen(screen(Working, None), ms(200));
                claims.settle_screen(ms(500));
                assert_eq!(states(&mut claims, 500).unwrap().1, Working);
                claims.set_claim(Title, claim(Idle, None), ms(3_000));
                assert_eq!(states(&mut claims, 4_300), None);
                claims
            };
            // Qwen Code 0.24 writes and draws the answer up to 1.5 s later on a busy machine.
            let mut claims = begun();
            claims.set_claim(Transcript, claim(Done, None), ms(4_450));
            claims.set_screen(screen(Idle, None), ms(4_490));
            assert_eq!(states(&mut claims, 5_450), Some((Transcript, Done, None)));
            // The user has stopped it.
            let mut claims = begun();
            claims.set_screen(screen(Idle, None), ms(4_400));
            claims.settle_screen(ms(4_700));
            assert_eq!(states(&mut claims, 4_700).unwrap().1, Idle);
        }

        /// The title of Qwen Code 0.24 has rested for 1.3 s when it draws the end, and 0.1 s later it writes it.
        #[test]
        fn a_title_that_has_rested_waits_for_a_screen_that_has_just_ended_its_work() {
            for has_transcript in [true, false] {
                let mut claims = StateResolver::new(true);
                claims.set_claim(Title, claim(Working, None), ms(0));
                if has_transcript {
                    claims.set_claim(Transcript, claim(Working, None), ms(100));
                }
                claims.set_screen(screen(Working, None), ms(200));
                claims.settle_screen(ms(500));
                states(&mut claims, 500);
                assert_eq!(claims.state(), Some(Working));
                claims.set_claim(Title, claim(Idle, None), ms(3_000));
                claims.set_screen(screen(Done, None), ms(4_300));
                assert_eq!(states(&mut claims, 4_300), None, "it is drawn");
                assert_eq!(claims.deadline, Some(ms(4_600)));
                if has_transcript {
                    let mut claims = claims.clone();
                    claims.set_claim(Transcript, claim(Done, None), ms(4_400));
                    assert_eq!(states(&mut claims, 4_400), Some((Transcript, Done, None)));
                }
                claims.settle_screen(ms(4_600));
                assert_eq!(states(&mut claims, 4_600), Some((Screen, Done, None)));
            }
        }

        #[test]
        fn a_moment_of_rest_long_after_the_end_of_a_turn_is_none() {
            let mut claims = StateResolver::new(true);
            claims.set_claim(StatusFile, claim(Working, None), ms(0));
            claims.set_claim(Transcript, claim(Working, None), ms(50));
            assert_eq!(states(&mut claims, 50), Some((StatusFile, Working, None)));
            // It writes the end of a turn up to 0.3 s before it rests.
            claims.set_claim(Transcript, claim(Done, None), ms(1_000));
            assert_eq!(states(&mut claims, 1_000), None);
            claims.set_claim(StatusFile, claim(Idle, None), ms(1_300));
            assert_eq!(states(&mut claims, 1_300), Some((Transcript, Done, None)));
            claims.set_claim(StatusFile, claim(Working, None), ms(1_500));
            claims.set_claim(Transcript, claim(Working, None), ms(1_550));
            assert_eq!(
                states(&mut claims, 1_550),
                Some((StatusFile, Working, None))
            );
            // A background agent still runs.
            claims.set_claim(Transcript, claim(Done, None), ms(2_000));
            assert_eq!(states(&mut claims, 2_000), None);
            // Its end sends the agent on.
            claims.set_claim(StatusFile, claim(Idle, None), ms(9_000));
            assert_eq!(states(&mut claims, 9_000), None);
            assert_eq!(claims.deadline, Some(ms(9_150)));
            claims.set_claim(StatusFile, claim(Working, None), ms(9_005));
            assert_eq!(states(&mut claims, 9_100), None);
            claims.set_claim(StatusFile, claim(Idle, None), ms(12_000));
            assert_eq!(states(&mut claims, 12_149), None);
            assert_eq!(states(&mut claims, 12_150), Some((Transcript, Done, None)));
        }

        #[test]
        fn an_idle_status_is_done_once_the_transcript_shows_the_end() {
            let mut claims = StateResolver::default();
            claims.set_claim(StatusFile, claim(Working, None), ms(0));
            assert_eq!(states(&mut claims, 0), Some((StatusFile, Working, None)));
            claims.set_claim(Transcript, claim(Working, None), ms(50));
            claims.set_claim(StatusFile, claim(Idle, None), ms(1000));
            assert_eq!(
                states(&mut claims, 1000),
                None,
                "the transcript is about to say more"
            );
            assert!(claims.deadline.is_some_and(|at| at <= ms(1400)));
            claims.set_claim(Transcript, claim(Done, None), ms(1100));
            assert_eq!(states(&mut claims, 1100), Some((Transcript, Done, None)));
            assert_eq!(states(&mut claims, 1400), None, "once");
        }

        #[test]
        fn a_turn_that_ends_between_two_polls_is_reported() {
            let mut claims = StateResolver::default();
            let failed = |turn| claim(Error, None).map(|claim| StateClaim { turn, ..claim });
            claims.set_claim(StatusFile, claim(Idle, None), ms(0));
            claims.set_claim(Transcript, failed(1), ms(0));
            assert_eq!(states(&mut claims, 0), Some((Transcript, Error, None)));
            claims.set_claim(Transcript, failed(2), ms(5000));
            assert_eq!(states(&mut claims, 5000), Some((Transcript, Error, None)));
            assert_eq!(states(&mut claims, 5001), None, "once");
        }

        #[test]
        fn the_number_of_shells_on_the_screen_settles() {
            let mut claims = StateResolver::default();
            let mut shells = |shown, now| {
                let detected = screen(Done, None).map(|detected| DetectedState {
                    shells: shown,
                    ..detected
                });
                claims.set_screen(detected, ms(now));
                claims.next_change(ms(now));
                (claims.background().shells, claims.deadline)
            };
            assert_eq!(shells(1, 0), (0, Some(ms(300))));
            assert_eq!(shells(1, 299).0, 0);
            assert_eq!(shells(1, 300).0, 1);
            // A screen that is being drawn.
            assert_eq!(shells(0, 500), (1, Some(ms(800))));
            assert_eq!(shells(1, 600).0, 1);
            assert_eq!(shells(0, 1_000).0, 1);
            assert_eq!(shells(0, 1_300).0, 0);
            // The transcript knows better.
            let of_transcript = claim(Done, None).map(|claim| StateClaim {
                background: Background {
                    shells: 2,
                    agents: 1,
                },
                ..claim
            });
            claims.set_claim(Transcript, of_transcript, ms(1_400));
            assert_eq!(claims.background().agents, 1);
        }

        #[test]
        fn an_idle_status_without_an_end_is_idle_unless_the_screen_shows_more() {
            let mut claims = StateResolver::default();
            claims.set_claim(Transcript, claim(Working, None), ms(0));
            claims.set_claim(StatusFile, claim(Idle, None), ms(0));
            assert_eq!(states(&mut claims, 399), None);
            assert_eq!(states(&mut claims, 400), Some((StatusFile, Idle, None)));
            claims.set_claim(Screen, claim(Error, None), ms(500));
            assert_eq!(states(&mut claims, 500), Some((Screen, Error, None)));
        }

        #[test]
        fn an_inferred_failure_does_not_outlast_the_work_after_it() {
            let mut claims = StateResolver::default();
            let inferred = |state, turn| {
                claim(state, None).map(|claim| StateClaim {
                    is_confirmed: false,
                    turn,
                    ..claim
                })
            };
            claims.set_claim(Title, claim(Working, None), ms(0));
            claims.set_claim(Title, claim(Idle, None), ms(900));
            claims.set_claim(Transcript, inferred(Error, 1), ms(1000));
            assert_eq!(states(&mut claims, 1000), Some((Transcript, Error, None)));
            // `/clear`: the title shows work, but no record follows.
            claims.set_claim(Title, claim(Working, None), ms(5000));
            assert_eq!(states(&mut claims, 5100), Some((Title, Working, None)));
            claims.set_claim(Title, claim(Idle, None), ms(6000));
            assert_eq!(states(&mut claims, 6000), None, "the transcript may follow");
            assert_eq!(states(&mut claims, 7300), Some((Title, Idle, None)));
            // The next turn also fails, and its beginning was not observed.
            claims.set_claim(Title, claim(Working, None), ms(8000));
            assert_eq!(states(&mut claims, 8100), Some((Title, Working, None)));
            claims.set_claim(Title, claim(Idle, None), ms(9000));
            claims.set_claim(Transcript, inferred(Error, 2), ms(9100));
            assert_eq!(states(&mut claims, 9100), Some((Transcript, Error, None)));
            assert_eq!(states(&mut claims, 12_000), None);
        }

        #[test]
        fn a_failure_of_which_the_agent_writes_no_words_has_those_on_the_screen() {
            let untold = claim(Error, None).map(|claim| StateClaim {
                detail: UNTOLD_FAILURE.to_owned(),
                turn: 1,
                ..claim
            });
            for is_shown in [true, false] {
                let mut claims = StateResolver::new(true);
                claims.set_screen(screen(Working, None), ms(0));
                claims.settle_screen(ms(300));
                assert_eq!(states(&mut claims, 300), Some((Screen, Working, None)));
                claims.set_claim(Transcript, untold.clone(), ms(5_000));
                assert_eq!(states(&mut claims, 5_000), None);
                if is_shown {
                    let mut shown = screen(Error, None);
                    shown.as_mut().unwrap().line = "Authorization failed.".to_owned();
                    claims.set_screen(shown, ms(5_100));
                    claims.settle_screen(ms(5_400));
                }
                let (words, at) = if is_shown {
                    ("Authorization failed.", 5_400)
                } else {
                    (UNTOLD_FAILURE, 6_000)
                };
                let failed = Some((Transcript, Error, Some(words.to_owned())));
                assert_eq!(states(&mut claims, at), failed);
                assert_eq!(states(&mut claims, 9_000), None);
            }
        }

        #[test]
        fn a_failure_after_which_the_agent_tries_again_at_once_is_none() {
            let mut claims = StateResolver::new(true);
            claims.set_claim(Transcript, claim(Working, None), ms(0));
            claims.set_screen(screen(Working, None), ms(0));
            claims.settle_screen(ms(300));
            assert_eq!(states(&mut claims, 300), Some((Screen, Working, None)));
            let failed = claim(Error, None).map(|claim| StateClaim {
                turn: 1,
                is_confirmed: false,
                ..claim
            });
            claims.set_claim(Transcript, failed.clone(), ms(1_000));
            assert_eq!(states(&mut claims, 1_000), None, "the screen shows work");
            claims.set_claim(Transcript, claim(Working, None), ms(1_100));
            assert_eq!(states(&mut claims, 1_100), None);
            claims.set_claim(Transcript, failed, ms(2_000));
            claims.set_screen(screen(Error, None), ms(2_100));
            claims.settle_screen(ms(2_400));
            assert_eq!(states(&mut claims, 2_400), Some((Transcript, Error, None)));
        }

        #[test]
        fn a_turn_that_is_stopped_while_a_request_is_tried_again_has_not_failed() {
            let mut claims = StateResolver::default();
            let failed = |turn| {
                claim(Error, None).map(|claim| StateClaim {
                    is_confirmed: false,
                    turn,
                    ..claim
                })
            };
            claims.set_claim(Screen, claim(Idle, None), ms(0));
            claims.set_claim(Title, claim(Working, None), ms(100));
            claims.set_claim(Transcript, claim(Working, None), ms(200));
            claims.set_claim(Screen, claim(Working, None), ms(500));
            assert_eq!(states(&mut claims, 500), Some((Title, Working, None)));
            claims.set_claim(Transcript, failed(1), ms(1000));
            assert_eq!(states(&mut claims, 1000), None, "it tries again");
            claims.set_claim(Title, claim(Idle, None), ms(3000));
            assert_eq!(
                states(&mut claims, 3000),
                None,
                "or the user has stopped it"
            );
            claims.set_claim(Screen, claim(Idle, None), ms(3300));
            let stopped = states(&mut claims, 4300).map(|(_, state, _)| state);
            assert_eq!(stopped, Some(Idle));
            // A request that fails at once: the screen is as before the turn.
            claims.set_claim(Title, claim(Working, None), ms(9000));
            assert_eq!(states(&mut claims, 9100), Some((Title, Working, None)));
            claims.set_claim(Title, claim(Idle, None), ms(9200));
            claims.set_claim(Transcript, failed(2), ms(9201));
            let failed = states(&mut claims, 9201).map(|(_, state, _)| state);
            assert_eq!(failed, Some(Error));
        }

        /// aider 0.86 writes the failure of a request that is refused at once, before it draws it. The screen has shown the
        /// typed prompt for a second.
        #[test]
        fn a_prompt_that_settles_after_its_turn_has_failed_is_no_stop() {
            let turn = |state, turn| {
                claim(state, None).map(|claim| StateClaim {
                    is_confirmed: false,
                    turn,
                    ..claim
                })
            };
            let mut claims = StateResolver::new(true);
            claims.set_claim(Transcript, turn(Working, 1), ms(0));
            claims.set_screen(screen(Working, None), ms(0));
            claims.settle_screen(ms(300));
            assert_eq!(states(&mut claims, 300), Some((Screen, Working, None)));
            claims.set_claim(Transcript, turn(Done, 1), ms(1_000));
            claims.set_screen(screen(Done, None), ms(1_000));
            claims.settle_screen(ms(1_300));
            assert_eq!(states(&mut claims, 1_300), Some((Transcript, Done, None)));
            claims.set_screen(screen(Idle, None), ms(5_000));
            claims.set_claim(Transcript, turn(Error, 2), ms(5_980));
            let failed = states(&mut claims, 5_980).map(|(_, state, _)| state);
            assert_eq!(failed, Some(Error));
            claims.settle_screen(ms(6_000));
            assert_eq!(states(&mut claims, 6_000), None, "it is the typed prompt");
            claims.set_screen(screen(Error, None), ms(6_100));
            claims.settle_screen(ms(6_400));
            assert_eq!(states(&mut claims, 6_400), None);
        }

        /// The user types a prompt for a second, and sends it. aider 0.86 draws that before it draws an answer.
        #[test]
        fn a_prompt_that_settles_once_it_is_sent_is_no_rest() {
            let mut claims = StateResolver::new(true);
            claims.set_claim(Transcript, claim(Done, None), ms(0));
            claims.set_screen(screen(Done, None), ms(0));
            claims.settle_screen(ms(300));
            assert_eq!(states(&mut claims, 300), Some((Transcript, Done, None)));
            claims.set_screen(screen(Idle, None), ms(5_000));
            claims.set_claim(Transcript, claim(Working, None), ms(5_990));
            let works = Some((Transcript, Working, None));
            assert_eq!(states(&mut claims, 5_990), works);
            claims.settle_screen(ms(6_000));
            for drawn_at in [6_010, 6_400] {
                let mut claims = claims.clone();
                if drawn_at > 6_300 {
                    assert_eq!(states(&mut claims, 6_300), None);
                }
                claims.set_screen(typed(), ms(drawn_at));
                assert_eq!(states(&mut claims, drawn_at + 290), None);
                claims.settle_screen(ms(drawn_at + 300));
                assert_eq!(states(&mut claims, drawn_at + 300), None);
            }
            // It was stopped at once, and is written late.
            assert_eq!(states(&mut claims, 6_989), None);
            assert_eq!(states(&mut claims, 6_990), Some((Screen, Idle, None)));
        }

        /// aider 0.86 writes a failure between two polls, while the screen shows the prompt that was just sent.
        #[test]
        fn work_that_settles_after_a_failure_was_told_is_none() {
            let failed = claim(Error, None).map(|claim| StateClaim {
                is_confirmed: false,
                turn: 2,
                ..claim
            });
            for is_drawn in [true, false] {
                let mut claims = StateResolver::new(true);
                let done = claim(Done, None).map(|claim| StateClaim { turn: 1, ..claim });
                claims.set_claim(Transcript, done, ms(0));
                claims.set_screen(screen(Done, None), ms(0));
                claims.settle_screen(ms(300));
                assert_eq!(states(&mut claims, 300), Some((Transcript, Done, None)));
                claims.set_screen(typed(), ms(5_000));
                claims.set_claim(Transcript, failed.clone(), ms(5_100));
                assert_eq!(states(&mut claims, 5_100), Some((Transcript, Error, None)));
                claims.settle_screen(ms(5_300));
                assert_eq!(states(&mut claims, 5_300), None, "the screen is behind");
                if is_drawn {
                    claims.set_screen(screen(Error, None), ms(5_350));
                    claims.settle_screen(ms(5_650));
                    assert_eq!(states(&mut claims, 6_100), None);
                } else {
                    assert_eq!(states(&mut claims, 6_099), None);
                    let works = Some((Screen, Working, None));
                    assert_eq!(states(&mut claims, 6_100), works, "it tries again");
                }
            }
        }

        #[test]
        fn a_rest_between_two_prompts_beside_a_screen_that_works_is_none() {
            let ended = |turn| claim(Done, None).map(|claim| StateClaim { turn, ..claim });
            let mut claims = StateResolver::new(true);
            claims.set_claim(StatusFile, claim(Working, None), ms(0));
            claims.set_claim(Transcript, claim(Working, None), ms(0));
            claims.set_screen(screen(Working, None), ms(0));
            claims.settle_screen(ms(300));
            assert_eq!(states(&mut claims, 300), Some((StatusFile, Working, None)));
            claims.set_claim(Transcript, ended(1), ms(3_000));
            claims.set_claim(StatusFile, claim(Idle, None), ms(3_000));
            assert_eq!(states(&mut claims, 3_000), None);
            assert_eq!(states(&mut claims, 3_349), None);
            claims.set_claim(StatusFile, claim(Working, None), ms(3_349));
            assert_eq!(states(&mut claims, 3_349), None);
            for is_drawn in [true, false] {
                let mut claims = claims.clone();
                claims.set_claim(Transcript, ended(2), ms(6_000));
                claims.set_claim(StatusFile, claim(Idle, None), ms(6_000));
                if is_drawn {
                    claims.set_screen(screen(Done, None), ms(6_000));
                } else {
                    assert_eq!(states(&mut claims, 6_349), None);
                }
                let at = if is_drawn { 6_000 } else { 6_350 };
                assert_eq!(states(&mut claims, at), Some((Transcript, Done, None)));
            }
        }

        /// Qwen Code and Claude Code take the prompt back if nothing has come yet: the failure above it is an old one.
        #[test]
        fn a_failure_does_not_come_back_when_the_next_turn_is_stopped() {
            for source in [Title, StatusFile] {
                let mut claims = StateResolver::new(true);
                let at = |claims: &mut StateResolver, now, of_source, shown| {
                    claims.set_claim(source, claim(of_source, None), ms(now));
                    claims.set_screen(screen(shown, None), ms(now));
                    claims.settle_screen(ms(now + 300));
                    states(claims, now + 300);
                    states(claims, now + 2_000).map(|(_, state, _)| state)
                };
                claims.set_claim(Transcript, claim(Error, None), ms(0));
                at(&mut claims, 0, Idle, Error);
                claims.set_claim(Transcript, claim(Working, None), ms(5_000));
                at(&mut claims, 5_000, Working, Idle);
                at(&mut claims, 7_000, Working, Working);
                at(&mut claims, 10_000, Idle, Error);
                let state = claims.reported.as_ref().map(|report| report.claim.state);
                assert_eq!(state, Some(Idle), "{source:?}");
                // The next turn fails in the same words.
                at(&mut claims, 15_000, Working, Working);
                claims.set_claim(Transcript, claim(Error, None), ms(19_900));
                at(&mut claims, 20_000, Idle, Error);
                let state = claims.reported.as_ref().map(|report| report.claim.state);
                assert_eq!(state, Some(Error), "{source:?}");
            }
        }

        /// Qwen Code writes its answer late, even after the next prompt, and the screen has shown the end before.
        #[test]
        fn an_answer_that_is_written_late_does_not_end_the_next_turn() {
            let mut claims = StateResolver::new(true);
            let transcript = |state, is_confirmed, turn| {
                claim(state, None).map(|claim| StateClaim {
                    is_confirmed,
                    turn,
                    ..claim
                })
            };
            let state = |claims: &mut StateResolver, now| {
                claims.next_change(ms(now));
                claims.state()
            };
            claims.set_claim(Title, claim(Working, None), ms(0));
            claims.set_claim(Transcript, transcript(Working, true, 1), ms(100));
            assert_eq!(state(&mut claims, 100), Some(Working));
            claims.set_claim(Transcript, transcript(Done, false, 1), ms(2_000));
            claims.set_claim(Title, claim(Idle, None), ms(2_100));
            assert_eq!(state(&mut claims, 4_000), Some(Done));
            assert!(claims.infers_end());
            claims.set_claim(Title, claim(Working, None), ms(9_000));
            assert_eq!(state(&mut claims, 9_100), Some(Working));
            // The end of the first turn, as it is read now.
            claims.set_claim(Transcript, transcript(Done, false, 1), ms(9_900));
            assert_eq!(state(&mut claims, 9_900), Some(Working));
            claims.set_claim(Transcript, transcript(Working, true, 2), ms(12_000));
            assert_eq!(state(&mut claims, 12_000), Some(Working));
        }

        #[test]
        fn work_that_a_title_does_not_show_is_on_the_screen() {
            let mut claims = StateResolver::new(true);
            claims.set_claim(Title, claim(Idle, None), ms(0));
            assert_eq!(states(&mut claims, 0), Some((Title, Idle, None)));
            claims.set_screen(screen(Working, None), ms(100));
            claims.settle_screen(ms(400));
            assert_eq!(states(&mut claims, 400), Some((Screen, Working, None)));
            claims.set_screen(screen(Idle, None), ms(5_000));
            claims.settle_screen(ms(5_300));
            let idle = states(&mut claims, 7_000).map(|(_, state, _)| state);
            assert_eq!(idle, Some(Idle));
            // The title is ahead of the screen at the end of a turn.
            claims.set_claim(Title, claim(Working, None), ms(9_000));
            claims.set_screen(screen(Working, None), ms(9_000));
            claims.settle_screen(ms(9_300));
            assert_eq!(states(&mut claims, 9_300), Some((Title, Working, None)));
            claims.set_claim(Title, claim(Idle, None), ms(12_000));
            let idle = states(&mut claims, 13_300).map(|(_, state, _)| state);
            assert_eq!(idle, Some(Idle));
        }

        #[test]
        fn a_menu_that_the_user_opens_after_a_turn_waits() {
            let mut claims = StateResolver::new(true);
            claims.set_claim(Transcript, claim(Done, None), ms(0));
            claims.set_claim(Title, claim(Idle, None), ms(0));
            assert_eq!(states(&mut claims, 2_000), Some((Transcript, Done, None)));
            claims.set_screen(screen(Waiting, Some("Select model")), ms(3_000));
            claims.settle_screen(ms(3_300));
            let asks = Some("Select model".to_owned());
            assert_eq!(states(&mut claims, 3_300), Some((Screen, Waiting, asks)));
            claims.set_screen(screen(Idle, None), ms(5_000));
            claims.settle_screen(ms(5_300));
            assert_eq!(states(&mut claims, 7_000), Some((Transcript, Done, None)));
        }

        #[test]
        fn each_dialogue_is_reported_with_its_question() {
            let mut claims = StateResolver::default();
            claims.set_claim(StatusFile, claim(Waiting, None), ms(0));
            assert_eq!(states(&mut claims, 0), None);
            claims.set_claim(Transcript, claim(Working, Some("touch a")), ms(90));
            assert_eq!(
                states(&mut claims, 90),
                Some((StatusFile, Waiting, Some("touch a".into())))
            );
            claims.set_claim(Transcript, claim(Working, Some("touch b")), ms(900));
            assert_eq!(
                states(&mut claims, 900),
                Some((StatusFile, Waiting, Some("touch b".into())))
            );
            claims.set_claim(Transcript, claim(Working, None), ms(950));
            assert_eq!(states(&mut claims, 2000), None, "the dialogue is the same");
        }

        #[test]
        fn the_question_of_the_previous_dialogue_is_not_reported_again() {
            let mut claims = StateResolver::default();
            claims.set_claim(Transcript, claim(Working, Some("touch a")), ms(0));
            claims.set_claim(StatusFile, claim(Waiting, None), ms(0));
            assert_eq!(
                states(&mut claims, 0),
                Some((StatusFile, Waiting, Some("touch a".into())))
            );
            claims.set_claim(StatusFile, claim(Working, None), ms(500));
            assert_eq!(states(&mut claims, 500).unwrap().1, Working);
            claims.set_claim(StatusFile, claim(Waiting, None), ms(600));
            assert_eq!(
                states(&mut claims, 600),
                None,
                "the answer to the first is not written yet"
            );
            claims.set_claim(Transcript, claim(Working, Some("touch b")), ms(700));
            assert_eq!(
                states(&mut claims, 700),
                Some((StatusFile, Waiting, Some("touch b".into())))
            );
            claims.set_claim(StatusFile, claim(Working, None), ms(900));
            let _ = states(&mut claims, 900);
            claims.set_claim(StatusFile, claim(Waiting, None), ms(1000));
            assert_eq!(
                states(&mut claims, 1400).unwrap().2,
                Some("touch b".into()),
                "asked once more"
            );
        }

        #[test]
        fn the_question_on_the_screen_counts_without_a_file() {
            let mut claims = StateResolver::default();
            claims.set_claim(Title, claim(Waiting, None), ms(0));
            assert_eq!(states(&mut claims, 0), None, "it is not drawn yet");
            claims.set_screen(screen(Waiting, Some("touch a")), ms(100));
            claims.settle_screen(ms(399));
            assert_eq!(states(&mut claims, 399), None, "it is being drawn");
            assert_eq!(claims.deadline, Some(ms(400)));
            claims.settle_screen(ms(400));
            assert_eq!(
                states(&mut claims, 400),
                Some((Title, Waiting, Some("touch a".into())))
            );
            claims.set_screen(None, ms(500));
            assert_eq!(states(&mut claims, 500), None);
            claims.set_screen(screen(Waiting, Some("touch b")), ms(600));
            claims.settle_screen(ms(900));
            assert_eq!(
                states(&mut claims, 900),
                Some((Title, Waiting, Some("touch b".into()))),
                "the next dialogue, without a state between"
            );
            claims.set_claim(Transcript, claim(Working, Some("touch b; ls")), ms(1000));
            assert_eq!(
                states(&mut claims, 1000).map(|state| state.2),
                Some(Some("touch b; ls".into())),
                "too short to be the beginning of the other"
            );
        }

        #[test]
        fn a_question_that_becomes_longer_is_the_same() {
            let same = |a, b| is_same_question(Some(a), Some(b));
            assert!(same("cargo test --wor…", "cargo test --workspace"));
            assert!(same("cargo test --workspace", "cargo test"));
            assert!(same("ls", "ls"));
            assert!(!same("ls", "ls -l"));
            assert!(!same("touch par-a.txt", "touch par-b.txt"));
            assert!(is_same_question(Some("ls"), None));
            assert!(!is_same_question(None, Some("ls")));
        }

        fn settled(screens: &[(u64, Option<DetectedState>)]) -> Vec<(u64, AgentState)> {
            let mut claims = StateResolver::new(true);
            let mut settled = Vec::new();
            for (at, detected) in screens {
                claims.set_screen(detected.clone(), ms(*at));
                let before = claims.settled.clone();
                claims.settle_screen(ms(*at));
                let change = claims
                    .settled
                    .as_ref()
                    .filter(|now| Some(*now) != before.as_ref());
                settled.extend(change.map(|change| (*at, change.state)));
            }
            settled
        }

        #[test]
        fn a_screen_counts_once_it_has_persisted() {
            let (working, idle) = (screen(Working, None), screen(Idle, None));
            let screens = [
                (0, &working),
                (300, &working),
                (400, &idle),
                (600, &working),
                (1_000, &idle),
                (1_100, &None),
                (1_400, &idle),
                (1_500, &working),
                (2_000, &idle),
                (2_299, &idle),
                (2_300, &idle),
                (9_000, &idle),
            ];
            let screens = screens.map(|(at, detected)| (at, detected.clone()));
            assert_eq!(settled(&screens), [(300, Working), (2_300, Idle)]);
        }

        #[test]
        fn an_empty_box_after_a_turn_is_not_yet_idle() {
            let screens = [
                (0, Done),
                (300, Done),
                (400, Idle),
                (900, Idle),
                (1_000, Working),
                (1_300, Working),
                (1_400, Idle),
                (1_700, Idle),
            ];
            let screens = screens.map(|(at, state)| (at, screen(state, None)));
            let expected = [(300, Done), (1_300, Working), (1_700, Idle)];
            assert_eq!(settled(&screens), expected);
        }

        /// A screen with a dialogue, of which this choice is selected.
        fn dialogue(asks: &str, chosen: usize) -> Option<DetectedState> {
            let choice = |(number, label): (usize, &str)| crate::event::DialogueChoice {
                key: (number + 1).to_string(),
                label: label.to_owned(),
                selected: number == chosen,
            };
            screen(Waiting, Some(asks)).map(|detected| DetectedState {
                dialogue: Some(Dialogue {
                    text: format!("Bash command\n{asks}"),
                    choices: ["Yes", "No"].into_iter().enumerate().map(choice).collect(),
                    again: false,
                }),
                ..detected
            })
        }

        /// Returns the reported question, and the commands and selected choice of its dialogue.
        fn asked(claims: &mut StateResolver, now: u64) -> Option<(Option<String>, Option<String>)> {
            let report = claims.next_change(ms(now))?;
            let dialogue = report.dialogue.map(|dialogue| {
                let chosen = dialogue.choices.iter().position(|choice| choice.selected);
                format!("{} {chosen:?}", dialogue.text.replace('\n', " "))
            });
            Some((report.claim.asks, dialogue))
        }

        fn words(asks: &str, dialogue: Option<&str>) -> (Option<String>, Option<String>) {
            (Some(asks.to_owned()), dialogue.map(str::to_owned))
        }

        #[test]
        fn a_dialogue_is_reported_when_it_becomes_known_and_when_another_choice_is_selected() {
            let mut claims = StateResolver::default();
            claims.set_claim(Title, claim(Waiting, Some("ls")), ms(0));
            assert_eq!(asked(&mut claims, 0), Some(words("ls", None)));
            claims.set_screen(dialogue("ls", 0), ms(100));
            assert_eq!(asked(&mut claims, 100), None, "it may be half drawn");
            let due = claims.deadline.unwrap();
            assert_eq!(due, ms(400));
            claims.settle_screen(due);
            let first = words("ls", Some("Bash command ls Some(0)"));
            assert_eq!(asked(&mut claims, 400), Some(first));
            assert_eq!(asked(&mut claims, 500), None, "once");
            claims.set_screen(dialogue("ls", 1), ms(900));
            let second = words("ls", Some("Bash command ls Some(1)"));
            assert_eq!(asked(&mut claims, 900), Some(second));
        }

        #[test]
        fn an_answered_dialogue_is_not_that_of_the_next_question() {
            let mut claims = StateResolver::default();
            claims.set_screen(dialogue("ls", 0), ms(0));
            claims.settle_screen(ms(300));
            claims.set_claim(Title, claim(Waiting, Some("ls")), ms(300));
            assert!(asked(&mut claims, 300).unwrap().1.is_some());
            claims.set_claim(Title, claim(Working, None), ms(1000));
            assert!(claims.next_change(ms(1100)).is_some());
            // The screen is not drawn again yet.
            claims.set_claim(Title, claim(Waiting, Some("rm a")), ms(1200));
            assert_eq!(asked(&mut claims, 1200), Some(words("rm a", None)));
        }

        #[test]
        fn a_dialogue_that_stood_before_the_first_report_is_that_of_the_question() {
            let mut claims = StateResolver::default();
            claims.set_screen(dialogue("ls", 0), ms(0));
            // The observer has just started, and reads the file before the screen has settled.
            claims.set_claim(Transcript, claim(Working, None), ms(100));
            assert_eq!(asked(&mut claims, 100), Some((None, None)));
            claims.settle_screen(ms(300));
            let first = words("ls", Some("Bash command ls Some(0)"));
            assert_eq!(asked(&mut claims, 300), Some(first));
        }

        #[test]
        fn what_the_screen_shows_since_after_the_end_of_a_turn_outranks_it() {
            let mut claims = StateResolver::new(true);
            let done = claim(Done, None).map(|claim| StateClaim { turn: 1, ..claim });
            claims.set_screen(screen(Working, None), ms(0));
            claims.settle_screen(ms(300));
            assert_eq!(states(&mut claims, 300), Some((Screen, Working, None)));
            claims.set_claim(Transcript, done, ms(400));
            assert_eq!(states(&mut claims, 400), None, "the screen shows work");
            claims.set_screen(screen(Idle, None), ms(450));
            assert_eq!(states(&mut claims, 450), Some((Transcript, Done, None)));
            let mut shows = |detected: Option<DetectedState>, at| {
                claims.set_screen(detected, ms(at));
                claims.settle_screen(ms(at + 300));
                states(&mut claims, at + 300)
            };
            assert_eq!(shows(screen(Idle, None), 500), None);
            // A command of the user, and its question.
            let running = shows(screen(Working, None), 2_000);
            assert_eq!(running, Some((Screen, Working, None)));
            let asks = shows(screen(Waiting, Some("Add it?")), 5_000);
            assert_eq!(asks, Some((Screen, Waiting, Some("Add it?".into()))));
            assert_eq!(shows(screen(Idle, None), 7_000), None);
            let over = states(&mut claims, 7_600);
            assert_eq!(over, Some((Transcript, Done, None)));
        }

        /// GitHub Copilot CLI 1.0.102 writes the end of a turn, and 0.2 to 0.4 s later the prompt that was typed meanwhile.
        #[test]
        fn a_turn_that_a_waiting_prompt_follows_is_not_done() {
            let mut claims = StateResolver::new(true);
            let written =
                |state, turn| claim(state, None).map(|claim| StateClaim { turn, ..claim });
            claims.set_claim(Transcript, written(Working, 1), ms(0));
            claims.set_screen(screen(Working, None), ms(0));
            claims.settle_screen(ms(300));
            assert_eq!(states(&mut claims, 300).unwrap().1, Working);
            claims.set_claim(Transcript, written(Done, 1), ms(1_000));
            assert_eq!(states(&mut claims, 1_000), None, "the screen shows work");
            claims.set_claim(Transcript, written(Working, 2), ms(1_400));
            assert_eq!(states(&mut claims, 1_400), None, "it works on");
            // The last turn ends as soon as the screen shows it, too.
            claims.set_claim(Transcript, written(Done, 2), ms(3_000));
            assert_eq!(states(&mut claims, 3_000), None);
            claims.set_screen(screen(Idle, None), ms(3_100));
            let done = Some((Transcript, Done, None));
            assert_eq!(states(&mut claims, 3_100), done);
            // A screen that does not change says no more after a second.
            claims.set_claim(Transcript, written(Working, 3), ms(5_000));
            assert_eq!(states(&mut claims, 5_000).unwrap().1, Working);
            claims.set_screen(screen(Working, None), ms(5_000));
            claims.settle_screen(ms(5_300));
            claims.set_claim(Transcript, written(Done, 3), ms(6_000));
            assert_eq!(states(&mut claims, 6_999), None);
            assert_eq!(claims.deadline, Some(ms(7_000)));
            assert_eq!(states(&mut claims, 7_000), done);
        }

        /// aider 0.86 writes an answer 30 ms before its typed prompt has settled as work, and then draws the end.
        #[test]
        fn an_unconfirmed_end_waits_while_the_screen_shows_work_that_has_not_settled() {
            let answered = |turn| {
                claim(Done, None).map(|claim| StateClaim {
                    is_confirmed: false,
                    turn,
                    ..claim
                })
            };
            for is_drawn in [true, false] {
                let mut claims = StateResolver::new(true);
                claims.set_claim(Transcript, answered(1), ms(0));
                claims.set_screen(screen(Idle, None), ms(0));
                claims.settle_screen(ms(300));
                assert_eq!(states(&mut claims, 300), Some((Transcript, Done, None)));
                claims.set_claim(Transcript, claim(Working, None), ms(5_000));
                assert_eq!(
                    states(&mut claims, 5_000),
                    Some((Transcript, Working, None))
                );
                claims.set_screen(typed(), ms(5_030));
                claims.set_claim(Transcript, answered(2), ms(5_300));
                assert_eq!(states(&mut claims, 5_300), None, "the screen shows work");
                if is_drawn {
                    claims.set_screen(screen(Done, None), ms(5_325));
                }
                let end = is_drawn.then_some((Transcript, Done, None));
                assert_eq!(states(&mut claims, 5_326), end);
                claims.settle_screen(ms(5_330));
                assert_eq!(states(&mut claims, 5_330), None);
                claims.settle_screen(ms(5_625));
                assert_eq!(states(&mut claims, 5_625), None);
                // The turn goes on.
                claims.settle_screen(ms(6_300));
                assert_eq!(states(&mut claims, 6_300), None);
            }
        }

        /// GitHub Copilot CLI 1.0.102 writes the interruption, and shows its spinner once more.
        #[test]
        fn a_spinner_after_an_interruption_is_no_work() {
            let mut claims = StateResolver::new(true);
            claims.set_screen(screen(Working, None), ms(0));
            claims.settle_screen(ms(300));
            assert_eq!(states(&mut claims, 300), Some((Screen, Working, None)));
            let stopped = claim(Idle, None).map(|claim| StateClaim { turn: 1, ..claim });
            claims.set_claim(Transcript, stopped, ms(400));
            let mut shows = |detected: Option<DetectedState>, at| {
                claims.set_screen(detected, ms(at));
                claims.settle_screen(ms(at + 300));
                states(&mut claims, at + 300)
            };
            let idle = shows(screen(Idle, None), 500);
            assert_eq!(idle, Some((Transcript, Idle, None)));
            assert_eq!(shows(screen(Working, None), 900), None);
        }

        #[test]
        fn a_question_outranks_the_end_of_a_turn_before_the_observation() {
            let mut claims = StateResolver::new(true);
            claims.set_screen(screen(Waiting, Some("Add it?")), ms(0));
            claims.set_claim(Transcript, claim(Idle, None), ms(100));
            assert_eq!(states(&mut claims, 100), Some((Transcript, Idle, None)));
            claims.settle_screen(ms(300));
            let asks = states(&mut claims, 300);
            assert_eq!(asks, Some((Screen, Waiting, Some("Add it?".into()))));
        }

        #[test]
        fn a_dialogue_without_a_known_question_is_reported() {
            let mut claims = StateResolver::default();
            claims.set_claim(Title, claim(Waiting, None), ms(0));
            assert_eq!(states(&mut claims, 1299), None);
            assert_eq!(states(&mut claims, 1300), Some((Title, Waiting, None)));
        }

        #[test]
        fn a_transcript_without_an_end_yields_to_title_and_screen() {
            let mut claims = StateResolver::default();
            claims.set_claim(Transcript, claim(Working, Some("make")), ms(0));
            assert_eq!(states(&mut claims, 0).unwrap().1, Working);
            claims.set_claim(Title, claim(Waiting, None), ms(100));
            assert_eq!(
                states(&mut claims, 100),
                Some((Title, Waiting, Some("make".into())))
            );
            claims.set_claim(Title, claim(Idle, None), ms(200));
            claims.set_claim(Screen, claim(Error, None), ms(200));
            assert_eq!(
                states(&mut claims, 1499),
                None,
                "the transcript is about to say more"
            );
            assert_eq!(states(&mut claims, 1500), Some((Screen, Error, None)));
            claims.set_claim(Transcript, claim(Done, None), ms(300));
            assert_eq!(states(&mut claims, 300), Some((Transcript, Done, None)));
        }

        #[test]
        fn an_unconfirmed_answer_is_final_once_no_source_claims_work() {
            let mut claims = StateResolver::default();
            let answered = claim(Done, None).map(|claim| StateClaim {
                is_confirmed: false,
                ..claim
            });
            claims.set_claim(Title, claim(Working, None), ms(0));
            claims.set_claim(Transcript, answered.clone(), ms(0));
            assert_eq!(states(&mut claims, 100).unwrap().1, Working);
            claims.set_claim(Title, claim(Idle, None), ms(150));
            assert_eq!(states(&mut claims, 150), Some((Transcript, Done, None)));

            let mut claims = StateResolver::default();
            claims.set_claim(Transcript, answered, ms(0));
            assert_eq!(states(&mut claims, 1999), None);
            assert_eq!(states(&mut claims, 2000), Some((Transcript, Done, None)));
        }

        fn any_claim() -> impl Strategy<Value = Option<StateClaim>> {
            let state = prop::sample::select(AgentState::ALL.to_vec());
            prop::option::of((state, prop::option::of("[a-c]")))
                .prop_map(|claimed| claimed.and_then(|(state, asks)| claim(state, asks.as_deref())))
        }

        proptest! {
            /// For any claims, each state is reported once, in time, from the highest source that can express it.
            #[test]
            fn resolved_states_follow_the_claims(
                steps in prop::collection::vec((0_usize..7, any_claim(), 0_u64..600), 0..40),
            ) {
                let (mut claims, mut now, mut last) = (StateResolver::default(), ms(0), None);
                for (source, claimed, passed) in steps {
                    now += Duration::from_millis(passed);
                    // A process outranks all others.
                    claims.set_claim(StateSource::ALL[1 + source], claimed, now);
                    if let Some(report) = claims.next_change(now) {
                        let key = (report.claim.state, report.claim.asks.clone());
                        prop_assert_ne!(Some(&key), last.as_ref());
                        prop_assert_eq!(claims.get(report.source).map(|held| held.claim.state), Some(report.claim.state));
                        if let Some(status) = claims.get(StatusFile) {
                            let is_coarse = status.claim.state == Idle;
                            prop_assert!(report.source == StatusFile || is_coarse && !is_busy(report.claim.state));
                        } else if let Some(reported) = claims.get(Report).map(|held| held.claim.state) {
                            let is_coarse = matches!(reported, Idle | Error);
                            prop_assert!(report.source == Report || is_coarse && !is_busy(report.claim.state));
                        }
                        last = Some(key);
                    }
                    prop_assert_eq!(claims.next_change(now), None);
                    // No report is delayed indefinitely.
                    prop_assert!(claims.deadline.is_none_or(|at| at <= now + settle_time(Transcript)));
                }
            }
        }
    }
}
