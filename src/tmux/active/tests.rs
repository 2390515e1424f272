//! Evaluations of a request for session $1 with pane %1 against listings.

use std::sync::Arc;

use super::super::depth::Margin;
use super::super::listing::Listing;
use super::super::listing::tests::listing;
use super::super::pending::PendingReply;
use super::super::speculation::Speculations;
use super::super::state::tests::state;
use super::*;
use crate::thread::stop_pair;

/// Builds a listing with %1 in session $1, last active in second 5, and %2 in $2.
fn listed(change: impl FnOnce(&mut PaneState)) -> Listing {
    let mut pane = state(1, (1, "a"), (1, 0, "w"), 0);
    change(&mut pane);
    listing(vec![pane, state(2, (2, "b"), (2, 0, "w"), 0)])
}

/// Builds a request to capture %1, whose known screen is `as it was` at the beginning of second 5.
fn capture_request(settles_at: Option<Duration>) -> CaptureRequest {
    let listed = listed(|_| {});
    let freshness = Freshness {
        second: 5,
        server_bytes: Some(100),
        ..Freshness::default()
    };
    let screen = "as it was".into();
    CaptureRequest {
        known: Some(CaptureDigest::new(&listed.panes[0], screen, freshness)),
        margin: Margin::Rows(10),
        settles_at,
        is_resting: false,
    }
}

/// Evaluates a request for session $1 one second later, when the server has read `server_bytes`. Returns the
/// request as an error if nothing has changed.
fn evaluate(
    pane: Option<PaneRequest>,
    listing: &Listing,
    server_bytes: u64,
    screen: Option<&str>,
) -> Result<ActiveRequest, Box<ActiveRequest>> {
    let (reply_to, _) = PendingReply::new(stop_pair().1);
    let request = SessionRequest {
        session_id: listing.panes[0].session_id,
        name: Some("a".into()),
        panes: pane.map(|pane| ("%1".into(), pane)).into_iter().collect(),
        when: ReplyTime::OnChange(PollSchedule::default()),
        ..SessionRequest::default()
    };
    let mut active = ActiveRequest::new(request, reply_to, Duration::ZERO);
    let snapshot = Snapshot {
        listing: Arc::new(listing.clone()),
        number: 1,
        freshness: Freshness {
            at: Duration::from_millis(100),
            second: 6,
            server_bytes: Some(server_bytes),
        },
        is_new: true,
        screens: screen
            .map(|text| (1, text.to_owned()))
            .into_iter()
            .collect(),
        speculations: Speculations::default(),
    };
    match active.evaluate(&snapshot) {
        true => Ok(active),
        false => Err(Box::new(active)),
    }
}

fn capture(settles_at: Option<Duration>) -> Option<PaneRequest> {
    Some(PaneRequest::Capture(capture_request(settles_at)))
}

#[test]
fn an_unchanged_pane_is_no_news() {
    let same = listed(|_| {});
    let unchanged = evaluate(capture(None), &same, 100, None).unwrap_err();
    assert_eq!(unchanged.recheck, None, "the server has read nothing");
    let uncertain = evaluate(capture(None), &same, 101, None).unwrap_err();
    assert_eq!(uncertain.recheck, Some(UNHURRIED), "to be compared then");
    let compared = evaluate(capture(None), &same, 101, Some("as it was")).unwrap_err();
    assert_eq!(
        compared.check_interval(&"%1".into()),
        UNHURRIED * 2,
        "compared again later"
    );
    let grown = listed(|pane| pane.history_size = 9);
    assert!(evaluate(Some(PaneRequest::Presence), &grown, 200, None).is_err());
}

#[test]
fn a_changed_or_new_pane_is_captured() {
    let grown = listed(|pane| pane.history_size = 300);
    let request = evaluate(capture(None), &grown, 200, None).unwrap();
    assert_eq!(request.captures.len(), 1);
    assert!(request.is_flood, "300 of 2000 rows since the last capture");
    let same = listed(|_| {});
    let rewritten = evaluate(capture(None), &same, 101, Some("as it is")).unwrap();
    assert_eq!(rewritten.captures.len(), 1);
    let new = evaluate(None, &same, 100, None).unwrap();
    assert_eq!(new.captures.len(), 1, "new");
}

#[test]
fn an_unchanged_pane_is_news_once_a_line_settles() {
    let same = listed(|_| {});
    let later = Duration::from_millis(150);
    let waiting = evaluate(capture(Some(later)), &same, 100, None).unwrap_err();
    assert_eq!(waiting.recheck, Some(later));
    let now = Duration::from_millis(100);
    let request = evaluate(capture(Some(now)), &same, 100, None).unwrap();
    let Some(SessionReply::Present { panes, .. }) = &request.reply else {
        panic!("{request:?}")
    };
    assert!(matches!(panes[..], [PaneReply::Unchanged(..)]), "{panes:?}");
}

#[test]
fn a_moved_pane_differs_from_an_ended_one_also_without_a_known_capture() {
    let mut moved = listed(|_| {});
    // $1 has %3 instead of %1, and %1 is in $2.
    moved.panes[0].pane = 3;
    moved.panes[1].pane = 1;
    let ended = listing(vec![state(3, (1, "a"), (1, 0, "w"), 0)]);
    for known in [capture_request(None).known, None] {
        let pane = |known: &Option<CaptureDigest>| {
            Some(PaneRequest::Capture(CaptureRequest {
                known: known.clone(),
                ..capture_request(None)
            }))
        };
        for (listing, is_moved) in [(&moved, true), (&ended, false)] {
            let request = evaluate(pane(&known), listing, 200, None).unwrap();
            let Some(SessionReply::Present { departed, .. }) = &request.reply else {
                panic!("{request:?}")
            };
            let departed = departed["%1"];
            assert_eq!(
                (departed.moved, departed.freshness.is_some()),
                (is_moved, known.is_some())
            );
        }
    }
}
