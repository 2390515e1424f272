//! Decides in which state an agent is, from what its sources claim, in order of authority (pure).
//!
//! A source overrules others only in states that it can express. Claude's status file knows `busy`,
//! `waiting` and `idle`: whether an idle agent is done, has failed or reached a limit is its
//! transcript's to say, then its screen's. A transcript knows how turns end; that an agent works is only
//! what remains when a turn has no end yet, so that a title or a screen may say that it waits.

use std::time::Duration;

use super::AgentState;

/// How long a source of higher authority is waited for that is about to say more: an agent writes its
/// transcript about 0.1 s after its status (measured on Claude Code 2.1.330: 0.03 to 0.3 s).
const CATCHES_UP: Duration = Duration::from_millis(400);

/// The same where a title, a notification or the screen says that the turn is over, or that the agent
/// waits: of the agents that have no status file, Qwen Code 0.24 took longest, 1.0 s on a busy machine.
const WRITES_UP: Duration = Duration::from_millis(1300);

/// Letters of a question that tell it from others, where one source shows more of it than another.
const QUESTION_CHARS_MIN: usize = 8;

/// How long an answer must stand after which more may come, where nothing else tells that the turn is over.
const ANSWER_STANDS: Duration = Duration::from_secs(2);

/// Sources that disagree for so long are reported to the log of diagnostics.
const DISAGREES: Duration = Duration::from_secs(2);

/// Where a state is known from; the first has the highest authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum StateSource {
    StatusFile,
    Transcript,
    Title,
    Notification,
    Hook,
    Screen,
}

impl StateSource {
    const ALL: [Self; 6] = [
        Self::StatusFile,
        Self::Transcript,
        Self::Title,
        Self::Notification,
        Self::Hook,
        Self::Screen,
    ];

    /// As it is written in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StatusFile => "status_file",
            Self::Transcript => "transcript",
            Self::Title => "title",
            Self::Notification => "notification",
            Self::Hook => "hook",
            Self::Screen => "screen",
        }
    }
}

/// What one source says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateClaim {
    pub state: AgentState,
    /// The source says so itself; else it follows from what the source shows.
    pub is_confirmed: bool,
    /// The question or the command that the agent asks about, in one line.
    pub asks: Option<String>,
    /// What shows it, in one line.
    pub detail: String,
    /// The turn of the conversation that it is about, counted from 1; 0 where the source counts none.
    pub turn: u64,
}

/// The state of an agent, as it is reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedState {
    pub source: StateSource,
    pub claim: StateClaim,
}

#[derive(Clone, Debug)]
struct Held {
    claim: StateClaim,
    since: Duration,
}

/// What all sources claim of one agent.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateResolver {
    held: [Option<Held>; StateSource::ALL.len()],
    reported: Option<ResolvedState>,
    /// The last turn that was known when a state was reported.
    turn: u64,
    /// What the last dialogue asked.
    asked: Option<String>,
    /// What the dialogue on the screen asks.
    shown: Option<String>,
    /// When a source below the transcript began to say that the agent works.
    busy_since: Option<Duration>,
    /// Since when two sources disagree, and whether that was noted.
    disagrees: Option<(Duration, bool)>,
}

impl StateResolver {
    /// Takes what a source says now; `None`: it says nothing any more.
    pub fn set_claim(&mut self, source: StateSource, claim: Option<StateClaim>, now: Duration) {
        let held = &mut self.held[source as usize];
        let was_busy = held.as_ref().is_some_and(|held| is_busy(held.claim.state));
        let begins = !was_busy && claim.as_ref().is_some_and(|claim| is_busy(claim.state));
        if source > StateSource::Transcript && begins {
            self.busy_since = Some(now);
        }
        let same = |held: &Held| {
            claim
                .as_ref()
                .is_some_and(|claim| claim.state == held.claim.state)
        };
        let since = held
            .as_ref()
            .filter(|held| same(held))
            .map_or(now, |held| held.since);
        *held = claim.map(|claim| Held { claim, since });
    }

    /// Takes what the dialogue on the screen asks now; `None`: there is no dialogue, or no question.
    pub fn set_screen_question(&mut self, question: Option<String>) {
        self.shown = question;
    }

    /// The state that is known now, if it is another one than was reported last, or asks for something
    /// else.
    pub fn next_change(&mut self, now: Duration) -> Option<ResolvedState> {
        let report = self.resolve(now)?;
        // A turn may begin and end between two looks: that it worked is not seen, that it ended is.
        let ends = !is_busy(report.claim.state) && report.claim.state != AgentState::Idle;
        let is_next_turn = ends && report.claim.turn > self.turn;
        let is_same = self.reported.as_ref().is_some_and(|before| {
            before.claim.state == report.claim.state
                // A question that is not known any more is no new one.
                && is_same_question(before.claim.asks.as_deref(), report.claim.asks.as_deref())
        });
        if is_same && !is_next_turn {
            return None;
        }
        let known = self.get(StateSource::Transcript);
        self.turn = known.map_or(self.turn, |held| held.claim.turn);
        if report.claim.state == AgentState::Waiting {
            self.asked.clone_from(&report.claim.asks);
        }
        self.reported = Some(report.clone());
        Some(report)
    }

    /// When [`StateResolver::next_change`] may have something to say, if nothing is claimed.
    pub fn deadline(&self, now: Duration) -> Option<Duration> {
        let catches_up = StateSource::ALL.into_iter().filter_map(|source| {
            let since = self.get(source)?.since;
            let ends = [since + CATCHES_UP, since + WRITES_UP];
            ends.into_iter().find(|at| *at > now)
        });
        let answer = self
            .get(StateSource::Transcript)
            .map(|held| held.since + ANSWER_STANDS);
        catches_up.chain(answer).filter(|at| *at > now).min()
    }

    /// Sources that have disagreed for a while, in words; once for each disagreement.
    pub fn disagreement(&mut self, now: Duration) -> Option<String> {
        let state = self
            .reported
            .as_ref()
            .map(|report| (report.source, report.claim.state));
        let other = state.and_then(|(source, state)| {
            let held = StateSource::ALL
                .into_iter()
                .filter_map(|other| Some((other, self.get(other)?)));
            held.filter(|(other, _)| *other > source)
                .find(|(_, held)| is_busy(held.claim.state) != is_busy(state))
                .map(|(other, held)| (other, held.claim.state))
        });
        let Some(((source, state), (other, its))) = state.zip(other) else {
            self.disagrees = None;
            return None;
        };
        let (since, is_noted) = self.disagrees.get_or_insert((now, false));
        if *is_noted || now.saturating_sub(*since) < DISAGREES {
            return None;
        }
        *is_noted = true;
        Some(format!(
            "{} says {state}, {} says {its}: {} counts",
            source.as_str(),
            other.as_str(),
            source.as_str()
        ))
    }

    fn is_waiting(&self) -> bool {
        let reported = self.reported.as_ref();
        reported.is_some_and(|report| report.claim.state == AgentState::Waiting)
    }

    fn get(&self, source: StateSource) -> Option<&Held> {
        self.held[source as usize].as_ref()
    }

    fn report(&self, source: StateSource) -> Option<ResolvedState> {
        let claim = self.get(source)?.claim.clone();
        Some(ResolvedState { source, claim })
    }

    /// `None` where nothing is known, or a source is about to say more.
    fn resolve(&self, now: Duration) -> Option<ResolvedState> {
        let mut report = match self.get(StateSource::StatusFile) {
            Some(status) => self.by_status(status, now)?,
            None => self.by_transcript(now)?,
        };
        match report.claim.state {
            AgentState::Waiting if report.claim.asks.is_none() => report.claim.asks = self.asks(),
            AgentState::Waiting => {}
            // A tool that is at work asks nothing.
            _ => report.claim.asks = None,
        }
        if report.claim.state == AgentState::Waiting {
            // What it asks is written a moment after that it does: the question that is known may be that
            // of the dialogue before.
            let since = self.get(report.source).map_or(now, |held| held.since);
            let is_old = self.asked == report.claim.asks && !self.is_waiting();
            let is_unknown = report.claim.asks.is_none() || is_old;
            let is_late = match report.source {
                StateSource::StatusFile => now >= since + CATCHES_UP,
                _ => now >= since + WRITES_UP,
            };
            if is_unknown && !is_late {
                return None;
            }
        }
        Some(report)
    }

    fn by_status(&self, status: &Held, now: Duration) -> Option<ResolvedState> {
        if status.claim.state != AgentState::Idle {
            return self.report(StateSource::StatusFile);
        }
        let refines = |source: StateSource| {
            let held = self.get(source)?;
            (!is_busy(held.claim.state)).then(|| self.report(source))?
        };
        if let Some(ended) = refines(StateSource::Transcript) {
            return Some(ended);
        }
        // A transcript that has no end yet is about to have one.
        if self.get(StateSource::Transcript).is_some() && now < status.since + CATCHES_UP {
            return None;
        }
        let screen =
            refines(StateSource::Screen).filter(|report| report.claim.state != AgentState::Idle);
        screen.or_else(|| self.report(StateSource::StatusFile))
    }

    fn by_transcript(&self, now: Duration) -> Option<ResolvedState> {
        use StateSource::{Hook, Notification, Screen, Title, Transcript};
        let lower = [Title, Notification, Hook, Screen];
        let first = lower.into_iter().find(|source| self.get(*source).is_some());
        let transcript = self.get(Transcript);
        let state = first.and_then(|source| Some(self.get(source)?.claim.state));
        // Where a title or a screen says that the turn is over, the transcript is about to say how.
        let is_behind = transcript.is_some_and(|held| {
            is_busy(held.claim.state) || self.busy_since.is_some_and(|since| held.since < since)
        });
        let rests_since = first.and_then(|source| Some(self.get(source)?.since));
        let has_rested = |since: Duration| {
            let is_older = transcript.is_some_and(|held| held.since > since);
            is_older || now >= since + WRITES_UP
        };
        if is_behind
            && state.is_some_and(|state| !is_busy(state))
            && !rests_since.is_some_and(has_rested)
        {
            return None;
        }
        if let Some(ended) = transcript.filter(|held| !is_busy(held.claim.state)) {
            return match state {
                _ if ended.claim.is_confirmed => self.report(Transcript),
                // An answer after which more may come, and comes.
                Some(state) if is_busy(state) => self.report(first?),
                Some(_) => self.report(Transcript),
                None if now >= ended.since + ANSWER_STANDS => self.report(Transcript),
                None => None,
            };
        }
        let Some(first) = first else {
            return self.report(Transcript);
        };
        let lower = self.get(first)?;
        let state = lower.claim.state;
        // What rested before the turn began says nothing of it.
        if transcript.is_some_and(|held| held.since > lower.since) && !is_busy(state) {
            return self.report(Transcript);
        }
        // A title is blank for a moment between two states.
        let reported = self.reported.as_ref();
        let was_busy = reported.is_some_and(|report| is_busy(report.claim.state));
        if was_busy && !is_busy(state) && now < lower.since + CATCHES_UP {
            return None;
        }
        // Titles know no ends of turns: what stands on the screen tells which idleness it is.
        let screen = self.get(Screen).filter(|held| !is_busy(held.claim.state));
        match (state, screen) {
            (AgentState::Idle, Some(_)) => self.report(Screen),
            _ => self.report(first),
        }
    }

    /// What is asked, where the source that says that the agent waits does not say it.
    fn asks(&self) -> Option<String> {
        let sources = StateSource::ALL.into_iter();
        let mut others = sources.filter(|source| *source != StateSource::Screen);
        let claimed = others.find_map(|source| self.get(source)?.claim.asks.clone());
        claimed.or_else(|| self.shown.clone())
    }
}

/// Whether a question is the one that was asked before: a source may show its beginning only, and a
/// question that is not known any more is no new one.
fn is_same_question(before: Option<&str>, now: Option<&str>) -> bool {
    let (Some(before), Some(now)) = (before, now) else {
        return now.is_none();
    };
    let (before, now) = (before.trim_end_matches('…'), now.trim_end_matches('…'));
    let shorter = before.len().min(now.len());
    before == now
        || shorter >= QUESTION_CHARS_MIN && (before.starts_with(now) || now.starts_with(before))
}

/// Whether a turn is under way.
fn is_busy(state: AgentState) -> bool {
    matches!(state, AgentState::Working | AgentState::Waiting)
}

#[cfg(test)]
#[path = "resolver_tests.rs"]
mod tests;
