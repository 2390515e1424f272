//! Resolves an agent's state from the claims of its sources, in order of authority (pure).
//!
//! A source overrules others only in states that it can express. Claude's status file knows `busy`,
//! `waiting` and `idle`; the transcript, or else the screen, shows whether an idle agent is done,
//! has failed or has reached a limit. A transcript shows how turns end. Its "working" only means
//! that the turn has not ended, so a title or a screen may still show that the agent waits.

use std::time::Duration;

use super::AgentState;
pub(crate) use crate::event::StateSource;

/// The time to wait for a delayed source of higher authority. An agent writes its transcript about
/// 0.1 s after its status (0.03 to 0.3 s on Claude Code 2.1.330).
const SOURCE_LAG: Duration = Duration::from_millis(400);

/// The time to wait for a transcript after a title, a notification or the screen shows that the
/// turn has ended or that the agent waits. Of the agents without a status file, Qwen Code 0.24 took
/// longest: 1.0 s on a busy machine.
const TRANSCRIPT_LAG: Duration = Duration::from_millis(1300);

/// The minimum number of bytes for comparing two questions if one is the beginning of the other.
const QUESTION_BYTES_MIN: usize = 8;

/// The time after which an unconfirmed answer ends the turn, if no other source shows its end.
const ANSWER_FINAL_AFTER: Duration = Duration::from_secs(2);

/// The time after which a disagreement between sources is logged.
const DISAGREEMENT_LOGGED_AFTER: Duration = Duration::from_secs(2);

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
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedState {
    pub source: StateSource,
    pub claim: StateClaim,
}

#[derive(Clone, Debug)]
struct HeldClaim {
    claim: StateClaim,
    since: Duration,
}

/// The claims of all sources about one agent, and the last reported state.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateResolver {
    held: [Option<HeldClaim>; StateSource::ALL.len()],
    reported: Option<ResolvedState>,
    /// The turn of the transcript at the last report.
    turn: u64,
    /// The question of the last dialogue that was reported.
    last_question: Option<String>,
    /// The question of the dialogue that the screen shows.
    screen_question: Option<String>,
    /// The time at which a source below the transcript started to claim that the agent works.
    busy_since: Option<Duration>,
    /// The time at which two sources started to disagree, and whether this was logged.
    disagreement: Option<(Duration, bool)>,
}

impl StateResolver {
    /// Sets or, with `None`, removes the claim of a source.
    pub fn set_claim(&mut self, source: StateSource, claim: Option<StateClaim>, now: Duration) {
        let held = &mut self.held[source as usize];
        let was_busy = held.as_ref().is_some_and(|held| is_busy(held.claim.state));
        let begins = !was_busy && claim.as_ref().is_some_and(|claim| is_busy(claim.state));
        if source > StateSource::Transcript && begins {
            self.busy_since = Some(now);
        }
        let same = |held: &HeldClaim| {
            claim.as_ref().is_some_and(|claim| {
                (claim.state, claim.turn) == (held.claim.state, held.claim.turn)
            })
        };
        let since = held
            .as_ref()
            .filter(|held| same(held))
            .map_or(now, |held| held.since);
        *held = claim.map(|claim| HeldClaim { claim, since });
    }

    /// Sets the question of the dialogue on the screen; `None` if there is no dialogue or its
    /// question is unknown.
    pub fn set_screen_question(&mut self, question: Option<String>) {
        self.screen_question = question;
    }

    /// Returns the state if it or its question differs from the last report.
    pub fn next_change(&mut self, now: Duration) -> Option<ResolvedState> {
        let report = self.resolve(now)?;
        // A turn that begins and ends between two polls shows only its end.
        let ends = !is_busy(report.claim.state) && report.claim.state != AgentState::Idle;
        let is_next_turn = ends && report.claim.turn > self.turn;
        let is_same = self.reported.as_ref().is_some_and(|before| {
            before.claim.state == report.claim.state
                // A question that is no longer known does not count as a new one.
                && is_same_question(before.claim.asks.as_deref(), report.claim.asks.as_deref())
        });
        if is_same && !is_next_turn {
            return None;
        }
        let known = self.get(StateSource::Transcript);
        self.turn = known.map_or(self.turn, |held| held.claim.turn);
        if report.claim.state == AgentState::Waiting {
            self.last_question.clone_from(&report.claim.asks);
        }
        self.reported = Some(report.clone());
        Some(report)
    }

    /// Returns the time at which [`StateResolver::next_change`] may change without a new claim.
    pub fn deadline(&self, now: Duration) -> Option<Duration> {
        let lags = StateSource::ALL.into_iter().filter_map(|source| {
            let since = self.get(source)?.since;
            let ends = [since + SOURCE_LAG, since + TRANSCRIPT_LAG];
            ends.into_iter().find(|at| *at > now)
        });
        let answer = self
            .get(StateSource::Transcript)
            .map(|held| held.since + ANSWER_FINAL_AFTER);
        lags.chain(answer).filter(|at| *at > now).min()
    }

    /// Describes a persistent disagreement between sources, once.
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
        let Some(((source, state), (other, other_state))) = state.zip(other) else {
            self.disagreement = None;
            return None;
        };
        let (since, is_noted) = self.disagreement.get_or_insert((now, false));
        if *is_noted || now.saturating_sub(*since) < DISAGREEMENT_LOGGED_AFTER {
            return None;
        }
        *is_noted = true;
        Some(format!(
            "{} reports {state}, {} reports {other_state}: using {}",
            source.as_str(),
            other.as_str(),
            source.as_str()
        ))
    }

    fn is_waiting(&self) -> bool {
        let reported = self.reported.as_ref();
        reported.is_some_and(|report| report.claim.state == AgentState::Waiting)
    }

    fn get(&self, source: StateSource) -> Option<&HeldClaim> {
        self.held[source as usize].as_ref()
    }

    fn report(&self, source: StateSource) -> Option<ResolvedState> {
        let claim = self.get(source)?.claim.clone();
        Some(ResolvedState { source, claim })
    }

    /// Returns `None` if the state is unknown or a source is delayed.
    fn resolve(&self, now: Duration) -> Option<ResolvedState> {
        let mut report = match self.get(StateSource::StatusFile) {
            Some(status) => self.resolve_status_file(status, now)?,
            None => self.resolve_other_sources(now)?,
        };
        if report.claim.state != AgentState::Waiting {
            // An agent that does not wait has no question.
            report.claim.asks = None;
            return Some(report);
        }
        if report.claim.asks.is_none() {
            report.claim.asks = self.known_question();
        }
        // The question is written shortly after the status, so a known question may belong to the
        // previous dialogue. A screen shows a dialogue and its question at the same time.
        let since = self.get(report.source).map_or(now, |held| held.since);
        let is_old = self.last_question == report.claim.asks
            && report.source != StateSource::Screen
            && !self.is_waiting();
        let is_unknown = report.claim.asks.is_none() || is_old;
        let is_late = match report.source {
            StateSource::StatusFile => now >= since + SOURCE_LAG,
            _ => now >= since + TRANSCRIPT_LAG,
        };
        (is_late || !is_unknown).then_some(report)
    }

    fn resolve_status_file(&self, status: &HeldClaim, now: Duration) -> Option<ResolvedState> {
        if status.claim.state != AgentState::Idle {
            return self.report(StateSource::StatusFile);
        }
        let final_claim = |source: StateSource| {
            let held = self.get(source)?;
            (!is_busy(held.claim.state)).then(|| self.report(source))?
        };
        if let Some(ended) = final_claim(StateSource::Transcript) {
            return Some(ended);
        }
        // The end of the turn is about to be written to the transcript.
        if self.get(StateSource::Transcript).is_some() && now < status.since + SOURCE_LAG {
            return None;
        }
        let screen = final_claim(StateSource::Screen)
            .filter(|report| report.claim.state != AgentState::Idle);
        screen.or_else(|| self.report(StateSource::StatusFile))
    }

    fn resolve_other_sources(&self, now: Duration) -> Option<ResolvedState> {
        use StateSource::{Hook, Notification, Screen, Title, Transcript};
        let lower = [Title, Notification, Hook, Screen];
        let first = lower.into_iter().find(|source| self.get(*source).is_some());
        let transcript = self.get(Transcript);
        let state = first.and_then(|source| Some(self.get(source)?.claim.state));
        // After a title or a screen shows the end of the turn, the transcript will soon show how it ended.
        let precedes_work =
            |held: &HeldClaim| self.busy_since.is_some_and(|since| held.since < since);
        let is_behind =
            transcript.is_some_and(|held| is_busy(held.claim.state) || precedes_work(held));
        let idle_since = first.and_then(|source| Some(self.get(source)?.since));
        let has_waited = |since: Duration| {
            let is_older = transcript.is_some_and(|held| held.since > since);
            is_older || now >= since + TRANSCRIPT_LAG
        };
        if is_behind
            && state.is_some_and(|state| !is_busy(state))
            && !idle_since.is_some_and(has_waited)
        {
            return None;
        }
        // An inferred failure does not describe later work: `/clear` of Qwen Code 0.24 shows work
        // in the title, and starts a transcript only with the next prompt.
        let is_outdated = |held: &&HeldClaim| {
            let is_failure = matches!(held.claim.state, AgentState::Error | AgentState::Limited);
            is_failure && !held.claim.is_confirmed && state.is_some() && precedes_work(held)
        };
        let transcript = transcript.filter(|held| !is_outdated(held));
        if let Some(ended) = transcript.filter(|held| !is_busy(held.claim.state)) {
            return match state {
                _ if ended.claim.is_confirmed => self.report(Transcript),
                // The turn continues after this answer.
                Some(state) if is_busy(state) => self.report(first?),
                Some(_) => self.report(Transcript),
                None if now >= ended.since + ANSWER_FINAL_AFTER => self.report(Transcript),
                None => None,
            };
        }
        let Some(first) = first else {
            return self.report(Transcript);
        };
        let lower = self.get(first)?;
        let state = lower.claim.state;
        // An idle state from before the turn is no evidence about the turn.
        if transcript.is_some_and(|held| held.since > lower.since) && !is_busy(state) {
            return self.report(Transcript);
        }
        // A title is briefly blank between two states. A screen state has already been debounced.
        let reported = self.reported.as_ref();
        let was_busy = reported.is_some_and(|report| is_busy(report.claim.state));
        let is_screen = |source| source == Screen;
        let by_screens =
            is_screen(first) && reported.is_some_and(|report| is_screen(report.source));
        if was_busy && !is_busy(state) && !by_screens && now < lower.since + SOURCE_LAG {
            return None;
        }
        // Titles do not show how a turn ended, so the screen refines `idle`.
        let screen = self.get(Screen).filter(|held| !is_busy(held.claim.state));
        match (state, screen) {
            (AgentState::Idle, Some(_)) => self.report(Screen),
            _ => self.report(first),
        }
    }

    /// Returns the question from another source, if the source that claims `waiting` does not show it.
    fn known_question(&self) -> Option<String> {
        let sources = StateSource::ALL.into_iter();
        let mut others = sources.filter(|source| *source != StateSource::Screen);
        let claimed = others.find_map(|source| self.get(source)?.claim.asks.clone());
        claimed.or_else(|| self.screen_question.clone())
    }
}

/// Returns true if two questions are the same. A source may show only the beginning of a question,
/// and a question that is no longer known does not count as a new one.
fn is_same_question(before: Option<&str>, now: Option<&str>) -> bool {
    let (Some(before), Some(now)) = (before, now) else {
        return now.is_none();
    };
    let (before, now) = (before.trim_end_matches('…'), now.trim_end_matches('…'));
    let shorter = before.len().min(now.len());
    before == now
        || shorter >= QUESTION_BYTES_MIN && (before.starts_with(now) || now.starts_with(before))
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
        use super::super::StateSource::{Screen, StatusFile, Title, Transcript};
        use super::super::*;
        use proptest::prelude::*;

        fn claim(state: AgentState, asks: Option<&str>) -> Option<StateClaim> {
            Some(StateClaim {
                state,
                is_confirmed: true,
                asks: asks.map(str::to_owned),
                detail: String::new(),
                turn: 0,
            })
        }

        fn ms(at: u64) -> Duration {
            Duration::from_millis(at)
        }

        fn states(
            claims: &mut StateResolver,
            now: u64,
        ) -> Option<(StateSource, AgentState, Option<String>)> {
            let report = claims.next_change(ms(now))?;
            Some((report.source, report.claim.state, report.claim.asks))
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
            assert!(claims.deadline(ms(1000)).is_some_and(|at| at <= ms(1400)));
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
            assert_eq!(states(&mut claims, 5000), Some((Title, Working, None)));
            claims.set_claim(Title, claim(Idle, None), ms(6000));
            assert_eq!(states(&mut claims, 6000), None, "the transcript may follow");
            assert_eq!(states(&mut claims, 7300), Some((Title, Idle, None)));
            // The next turn also fails, and its beginning was not observed.
            claims.set_claim(Title, claim(Working, None), ms(8000));
            assert_eq!(states(&mut claims, 8000), Some((Title, Working, None)));
            claims.set_claim(Title, claim(Idle, None), ms(9000));
            claims.set_claim(Transcript, inferred(Error, 2), ms(9100));
            assert_eq!(states(&mut claims, 9100), Some((Transcript, Error, None)));
            assert_eq!(states(&mut claims, 12_000), None);
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
            claims.set_screen_question(Some("touch a".into()));
            assert_eq!(
                states(&mut claims, 200),
                Some((Title, Waiting, Some("touch a".into())))
            );
            claims.set_screen_question(None);
            assert_eq!(states(&mut claims, 300), None);
            claims.set_screen_question(Some("touch b".into()));
            assert_eq!(
                states(&mut claims, 400),
                Some((Title, Waiting, Some("touch b".into()))),
                "the next dialogue, without a state between"
            );
            claims.set_claim(Transcript, claim(Working, Some("touch b; ls")), ms(500));
            assert_eq!(
                states(&mut claims, 500).map(|state| state.2),
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
        fn a_disagreement_of_two_seconds_is_logged_once() {
            let mut claims = StateResolver::default();
            claims.set_claim(StatusFile, claim(Working, None), ms(0));
            claims.set_claim(Screen, claim(Idle, None), ms(0));
            let _ = states(&mut claims, 0);
            assert_eq!(claims.disagreement(ms(0)), None);
            assert_eq!(claims.disagreement(ms(1999)), None);
            let text = claims.disagreement(ms(2000)).unwrap();
            assert_eq!(
                text,
                "status_file reports working, screen reports idle: using status_file"
            );
            assert_eq!(claims.disagreement(ms(9000)), None);
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
            assert_eq!(states(&mut claims, 0).unwrap().1, Working);
            claims.set_claim(Title, claim(Idle, None), ms(50));
            assert_eq!(states(&mut claims, 50), Some((Transcript, Done, None)));

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
                steps in prop::collection::vec((0_usize..6, any_claim(), 0_u64..600), 0..40),
            ) {
                let (mut claims, mut now, mut last) = (StateResolver::default(), ms(0), None);
                for (source, claimed, passed) in steps {
                    now += ms(passed);
                    claims.set_claim(StateSource::ALL[source], claimed, now);
                    if let Some(report) = claims.next_change(now) {
                        let key = (report.claim.state, report.claim.asks.clone());
                        prop_assert_ne!(Some(&key), last.as_ref());
                        prop_assert_eq!(claims.get(report.source).map(|held| held.claim.state), Some(report.claim.state));
                        if let Some(status) = claims.get(StatusFile) {
                            let is_coarse = status.claim.state == Idle;
                            prop_assert!(report.source == StatusFile || is_coarse && !is_busy(report.claim.state));
                        }
                        last = Some(key);
                    }
                    prop_assert_eq!(claims.next_change(now), None);
                    // No report is delayed indefinitely.
                    prop_assert!(claims.deadline(now).is_none_or(|at| at <= now + ANSWER_FINAL_AFTER));
                }
            }
        }
    }
}
