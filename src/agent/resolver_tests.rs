//! Claims of sources, and the states that result from them.

use proptest::prelude::*;

use super::AgentState::{Done, Error, Idle, Waiting, Working};
use super::StateSource::{Screen, StatusFile, Title, Transcript};
use super::*;

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
