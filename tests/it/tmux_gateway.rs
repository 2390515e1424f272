//! The gateway against real servers: many askers, few processes, servers that hang or go.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use td_observe::tmux::{
    BASELINE_ROWS, CaptureDigest, CaptureRequest, ForegroundPrograms, Gateway, GatewayHandle,
    Listing, Margin, PaneReply, PaneRequest, PendingReply, SessionId, SessionReply, SessionRequest,
};
use td_observe::track::Look;
use td_observe::{Clock, PaneId};

use crate::support::{CEILING, Stopped, TmuxServer, wait_for};
use crate::tmux::STAY;

/// The panes of a session that is there.
#[track_caller]
pub fn panes(
    gateway: &GatewayHandle,
    session_id: SessionId,
    wants: HashMap<PaneId, PaneRequest>,
) -> Vec<PaneReply> {
    match gateway
        .session(SessionRequest {
            session_id,
            panes: wants,
            ..SessionRequest::default()
        })
        .unwrap()
    {
        SessionReply::Present { panes, .. } => panes,
        other => panic!("session {session_id}: {other:?}"),
    }
}

#[track_caller]
pub fn look_of(answer: &PaneReply) -> &Look {
    match answer {
        PaneReply::Captured { capture, .. } => capture,
        PaneReply::Unchanged(state, _) | PaneReply::Listed(state) => panic!("no look at {state:?}"),
    }
}

/// What a poller would want next.
fn again(
    panes: &[PaneReply],
    seen: &mut HashMap<PaneId, CaptureDigest>,
) -> HashMap<PaneId, PaneRequest> {
    for answer in panes {
        if let PaneReply::Captured {
            state, digest: new, ..
        } = answer
        {
            seen.insert(state.pane(), (**new).clone());
        }
    }
    let want = |seen: &CaptureDigest| {
        PaneRequest::Capture(CaptureRequest {
            known: Some(seen.clone()),
            margin: Margin::Rows(20),
            settles_at: None,
            is_resting: false,
        })
    };
    seen.iter()
        .map(|(pane, seen)| (pane.clone(), want(seen)))
        .collect()
}

#[test]
fn a_session_is_followed_from_look_to_look() {
    let tmux = TmuxServer::new();
    let script = "seq 1 1000; printf ready; read line; seq 1001 1100; printf done; exec cat";
    let pane = tmux.new_session("follow", 40, 10, script);
    tmux.wait_for_text(&pane, "ready");
    let gateway = Gateway::start(tmux.server(), Clock::system()).unwrap();
    let ask = gateway.handle();
    let listing = ask.listing().unwrap();
    let id = listing.sessions().next().unwrap().id;
    assert!(!listing.pane(&pane).unwrap().command.is_empty());

    let first = panes(&ask, id, HashMap::new());
    let look = look_of(&first[0]);
    assert_eq!(look.history_rows(), BASELINE_ROWS as usize);
    let mut seen = HashMap::new();
    let wants = again(&first, &mut seen);
    wait_for("a look that is saved", CEILING, || {
        match panes(&ask, id, wants.clone()).remove(0) {
            PaneReply::Unchanged(state, _) => {
                assert_eq!(state.pane(), pane.as_str());
                Ok(())
            }
            look => Err(Box::new(look)),
        }
    });

    tmux.tmux(&["send-keys", "-t", &pane, "Enter"]);
    tmux.wait_for_text(&pane, "done");
    tmux.tmux(&["split-window", "-d", "-t", &pane, STAY]);
    let next = panes(&ask, id, wants.clone());
    assert_eq!(next.len(), 2, "the new pane too: {next:?}");
    let look = look_of(&next[0]);
    let grown = look.history_size - seen[pane.as_str()].numbers.history_size;
    assert!(grown >= 100, "{grown}");
    assert_eq!(look.history_rows(), grown as usize + 20);
    assert!(look.rows.iter().any(|row| row.text == "1001"));

    tmux.tmux(&["kill-pane", "-t", &pane]);
    let left = panes(&ask, id, wants);
    assert_eq!(left.len(), 1);
    assert_ne!(left[0].state().pane(), pane.as_str());
    tmux.new_session("other", 20, 5, STAY);
    tmux.tmux(&["rename-session", "-t", "=follow", "renamed"]);
    let answer = ask
        .session(SessionRequest {
            session_id: id,
            ..SessionRequest::default()
        })
        .unwrap();
    assert!(
        matches!(&answer, SessionReply::Present { name, .. } if name == "renamed"),
        "{answer:?}"
    );
    tmux.tmux(&["kill-session", "-t", "=renamed"]);
    let answer = ask
        .session(SessionRequest {
            session_id: id,
            ..SessionRequest::default()
        })
        .unwrap();
    assert!(matches!(answer, SessionReply::Gone { .. }), "{answer:?}");
    gateway.shutdown().unwrap();
}

#[test]
fn a_server_that_is_gone_says_so_and_a_new_one_is_another() {
    let tmux = TmuxServer::new();
    let gateway = Gateway::start(tmux.server(), Clock::system()).unwrap();
    let ask = gateway.handle();
    assert!(ask.listing().unwrap_err().is_gone(), "not there yet");
    tmux.new_session("one", 20, 5, STAY);
    let listing = ask.listing().unwrap();
    let id = listing.sessions().next().unwrap().id;
    let look = || SessionRequest {
        session_id: id,
        server: Some(listing.server.clone()),
        ..SessionRequest::default()
    };
    assert!(matches!(
        ask.session(look()).unwrap(),
        SessionReply::Present { .. }
    ));
    tmux.kill();
    let error = ask.session(look()).unwrap_err();
    assert!(error.is_gone(), "{error:?}");
    tmux.new_session("two", 20, 5, STAY);
    assert_eq!(
        ask.listing().unwrap().sessions().next().unwrap().id,
        id,
        "the same id again"
    );
    let answer = ask.session(look()).unwrap();
    assert_eq!(answer, SessionReply::OtherServer);
    gateway.shutdown().unwrap();
}

#[test]
fn a_server_that_ends_while_it_is_asked_is_gone() {
    // tmux's client then ends without a word, when the moment is met.
    for _ in 0..25 {
        let tmux = TmuxServer::new();
        tmux.new_session("one", 20, 5, STAY);
        std::thread::scope(|scope| {
            let ask = || {
                let until_it_fails = std::iter::repeat_with(|| {
                    Listing::fetch(&tmux.server(), &Clock::system()).err()
                });
                until_it_fails.flatten().next().unwrap()
            };
            let asking: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            tmux.tmux(&["kill-server"]);
            for asking in asking {
                let error = asking.join().unwrap();
                assert!(error.is_gone(), "{error:?}");
            }
        });
    }
}

#[test]
fn a_hung_server_is_a_timeout_for_all_and_recovers() {
    let tmux = TmuxServer::new();
    tmux.new_session("hung", 20, 5, STAY);
    let server = tmux.server().with_timeout(Duration::from_millis(300));
    let gateway = Gateway::start(server, Clock::system()).unwrap();
    let ask = gateway.handle();
    let id = ask.listing().unwrap().sessions().next().unwrap().id;
    let stopped = Stopped::new(tmux.pid());
    let began = Instant::now();
    let look = || SessionRequest {
        session_id: id,
        ..SessionRequest::default()
    };
    let asked: Vec<_> = (0..5)
        .map(|_| ask.request_session(look()).unwrap())
        .collect();
    // One that does not wait for its answer takes nobody's time.
    drop(ask.request_listing(ForegroundPrograms::Omitted).unwrap());
    for pending in asked {
        let error = pending.wait().unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
    }
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    drop(stopped);
    let answer = wait_for("an answer again", CEILING, || ask.session(look()));
    assert!(matches!(answer, SessionReply::Present { .. }));
    gateway.shutdown().unwrap();
}

#[test]
fn a_hundred_panes_are_a_few_processes() {
    let tmux = TmuxServer::new();
    tmux.new_session("s0", 80, 24, "printf ready; exec cat");
    let more: String = (1..100)
        .map(|number| format!("new-session -d -s s{number} -x 80 -y 24 'printf ready; exec cat'\n"))
        .collect();
    tmux.script(&more);
    let gateway = Gateway::start(tmux.server(), Clock::system()).unwrap();
    let ask = gateway.handle();
    let listing = ask.listing().unwrap();
    let ids: Vec<SessionId> = listing.sessions().map(|session| session.id).collect();
    assert_eq!(ids.len(), 100);
    let mut seen: HashMap<SessionId, HashMap<PaneId, CaptureDigest>> = HashMap::new();
    let mut wants: HashMap<SessionId, HashMap<PaneId, PaneRequest>> = HashMap::new();
    let mut tick = || {
        let before = ask.processes();
        let asked: Vec<(SessionId, PendingReply<SessionReply>)> = ids
            .iter()
            .map(|&session_id| {
                let wants = wants.get(&session_id).cloned().unwrap_or_default();
                let look = SessionRequest {
                    session_id,
                    panes: wants,
                    ..SessionRequest::default()
                };
                (session_id, ask.request_session(look).unwrap())
            })
            .collect();
        let mut looks = 0;
        for (id, pending) in asked {
            let SessionReply::Present { panes, .. } = pending.wait().unwrap() else {
                panic!("{id} is gone")
            };
            assert_eq!(panes.len(), 1);
            looks += panes
                .iter()
                .filter(|pane| matches!(pane, PaneReply::Captured { .. }))
                .count();
            wants.insert(id, again(&panes, seen.entry(id).or_default()));
        }
        (looks, ask.processes() - before)
    };
    let (looks, processes) = tick();
    assert_eq!(looks, 100);
    // A listing and three batches; a loaded machine may spread the questions.
    assert!(processes <= 10, "{processes}");
    wait_for("a tick without a look", CEILING, || match tick() {
        (0, processes) if processes <= 3 => Ok(()),
        other => Err(other),
    });
    gateway.shutdown().unwrap();
}

#[test]
fn a_server_that_stands_still_is_left_alone_and_what_it_is_told_is_seen_at_once() {
    if std::fs::read_to_string("/proc/self/schedstat").is_ok_and(|text| text.starts_with("0 ")) {
        eprintln!("SKIPPED: this kernel does not tell how long processes run");
        return;
    }
    let tmux = TmuxServer::new();
    tmux.new_session("first", 80, 24, STAY);
    let gateway = Gateway::start(tmux.server(), Clock::system()).unwrap();
    let ask = gateway.handle();
    let list = || {
        let pending = ask.request_listing(ForegroundPrograms::Omitted).unwrap();
        pending.wait().unwrap()
    };
    let (mut processes, mut asked_at) = (0, Instant::now());
    for (at, change) in [
        ["new-session", "-d", "-s", "second", STAY].as_slice(),
        &["rename-session", "-t", "=second", "third"],
        &["resize-window", "-t", "=third:", "-x", "70", "-y", "20"],
        &["kill-session", "-t", "=third"],
    ]
    .into_iter()
    .enumerate()
    {
        // Once for a while nobody had to ask.
        wait_for("a server that is left alone", CEILING, || {
            list();
            let now = ask.processes();
            if std::mem::replace(&mut processes, now) != now {
                asked_at = Instant::now();
            }
            let alone = asked_at.elapsed();
            // The next listing would come after eight seconds.
            (alone > Duration::from_millis(2500))
                .then_some(())
                .ok_or(alone)
        });
        tmux.tmux(change);
        let told = Instant::now();
        let expected = [
            Some(("second", 80)),
            Some(("third", 80)),
            Some(("third", 70)),
            None,
        ][at];
        wait_for("what it was told", CEILING, || {
            let listing = list();
            let mut panes = listing.panes.iter();
            let second = panes.find(|pane| pane.session_name != "first");
            let seen = second.map(|pane| (&*pane.session_name, pane.width));
            (seen == expected)
                .then_some(())
                .ok_or(format!("{change:?}: {seen:?}"))
        });
        assert!(told.elapsed() < Duration::from_secs(6), "{change:?}");
    }
    gateway.shutdown().unwrap();
}
