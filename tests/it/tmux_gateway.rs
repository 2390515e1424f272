//! The gateway against real servers: many requesters, few processes, servers that hang or end.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use td_observe::internals::tmux::{
    BASELINE_ROWS, CaptureDigest, CaptureRequest, ForegroundPrograms, Gateway, GatewayHandle,
    Listing, Margin, PaneReply, PaneRequest, PendingReply, SessionId, SessionReply, SessionRequest,
};
use td_observe::internals::track::Capture;
use td_observe::tmux::Server;
use td_observe::{Clock, PaneId, Result};
use tempfile::TempDir;

use crate::support::{CEILING, Stopped, TmuxServer, wait_for};
use crate::tmux::STAY;

/// Returns the state of a session and of its panes.
fn session(gateway: &GatewayHandle, request: SessionRequest) -> Result<SessionReply> {
    gateway.request_session(request)?.wait()
}

/// A `tmux` at the head of `PATH` that counts how often it runs.
struct CountedTmux(TempDir);

impl CountedTmux {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("tmux");
        let text = "#!/bin/sh\nprintf . >>\"$0.runs\"\nPATH=${PATH#*:} exec tmux \"$@\"\n";
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        Self(directory)
    }

    /// Returns the server, each query of which is counted.
    fn server(&self, tmux: &TmuxServer) -> Server {
        let mut path = OsString::from(self.0.path());
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        tmux.server().with_env("PATH", path)
    }

    fn processes(&self) -> u64 {
        std::fs::metadata(self.0.path().join("tmux.runs")).map_or(0, |runs| runs.len())
    }
}

/// Returns the panes of a session, which must exist.
#[track_caller]
pub fn panes(
    gateway: &GatewayHandle,
    session_id: SessionId,
    requests: HashMap<PaneId, PaneRequest>,
) -> Vec<PaneReply> {
    let request = SessionRequest {
        session_id,
        panes: requests,
        ..SessionRequest::default()
    };
    match session(gateway, request).unwrap() {
        SessionReply::Present { panes, .. } => panes,
        other => panic!("session {session_id}: {other:?}"),
    }
}

#[track_caller]
pub fn capture_of(reply: &PaneReply) -> &Capture {
    match reply {
        PaneReply::Captured(pane) => &pane.capture,
        PaneReply::Unchanged(state, _) | PaneReply::Listed(state) => {
            panic!("no capture of {state:?}")
        }
    }
}

/// Returns the next requests of a poller.
fn next_requests(
    panes: &[PaneReply],
    digests: &mut HashMap<PaneId, CaptureDigest>,
) -> HashMap<PaneId, PaneRequest> {
    for reply in panes {
        if let PaneReply::Captured(pane) = reply {
            digests.insert(pane.state.pane(), pane.digest.clone());
        }
    }
    let request = |digest: &CaptureDigest| {
        PaneRequest::Capture(CaptureRequest {
            known: Some(digest.clone()),
            margin: Margin::Rows(20),
            again_at: None,
            is_resting: false,
        })
    };
    digests
        .iter()
        .map(|(pane, digest)| (pane.clone(), request(digest)))
        .collect()
}

#[test]
fn a_session_is_followed_from_capture_to_capture() {
    let tmux = TmuxServer::new();
    let script = "seq 1 1000; printf ready; read line; seq 1001 1100; printf done; exec cat";
    let pane = tmux.new_session("follow", 40, 10, script);
    tmux.wait_for_text(&pane, "ready");
    let running = Gateway::start(tmux.server(), Clock::system()).unwrap();
    let gateway = running.handle();
    let listing = gateway.listing().unwrap();
    let id = listing.sessions().next().unwrap().id;
    let request = || SessionRequest {
        session_id: id,
        ..SessionRequest::default()
    };
    assert!(!listing.pane(&pane).unwrap().command.is_empty());

    let first = panes(&gateway, id, HashMap::new());
    let capture = capture_of(&first[0]);
    assert_eq!(capture.history_rows(), BASELINE_ROWS as usize);
    let mut digests = HashMap::new();
    let mut requests = next_requests(&first, &mut digests);
    wait_for("an unchanged pane", CEILING, || {
        let mut replies = panes(&gateway, id, requests.clone());
        requests = next_requests(&replies, &mut digests);
        match replies.remove(0) {
            PaneReply::Unchanged(state, _) => {
                assert_eq!(state.pane(), pane.as_str());
                Ok(())
            }
            other => Err(Box::new(other)),
        }
    });

    tmux.tmux(&["send-keys", "-t", &pane, "Enter"]);
    tmux.wait_for_text(&pane, "done");
    tmux.tmux(&["split-window", "-d", "-t", &pane, STAY]);
    let next = panes(&gateway, id, requests.clone());
    assert_eq!(next.len(), 2, "the new pane too: {next:?}");
    let capture = capture_of(&next[0]);
    let grown = capture.history_size - digests[pane.as_str()].numbers.history_size;
    assert!(grown >= 100, "{grown}");
    assert_eq!(capture.history_rows(), grown as usize + 20);
    assert!(capture.rows.iter().any(|row| row.text == "1001"));

    tmux.tmux(&["kill-pane", "-t", &pane]);
    let left = panes(&gateway, id, requests);
    assert_eq!(left.len(), 1);
    assert_ne!(left[0].state().pane(), pane.as_str());
    tmux.new_session("other", 20, 5, STAY);
    tmux.tmux(&["rename-session", "-t", "=follow", "renamed"]);
    let reply = session(&gateway, request()).unwrap();
    assert!(
        matches!(&reply, SessionReply::Present { name, .. } if name == "renamed"),
        "{reply:?}"
    );
    tmux.tmux(&["kill-session", "-t", "=renamed"]);
    let reply = session(&gateway, request()).unwrap();
    assert!(matches!(reply, SessionReply::Gone { .. }), "{reply:?}");
    running.shutdown().unwrap();
}

#[test]
fn a_gone_server_is_an_error_and_a_new_one_is_another() {
    let tmux = TmuxServer::new();
    let running = Gateway::start(tmux.server(), Clock::system()).unwrap();
    let gateway = running.handle();
    assert!(gateway.listing().unwrap_err().is_gone(), "not there yet");
    tmux.new_session("one", 20, 5, STAY);
    let listing = gateway.listing().unwrap();
    let id = listing.sessions().next().unwrap().id;
    let request = || SessionRequest {
        session_id: id,
        server: Some(listing.server.clone()),
        ..SessionRequest::default()
    };
    assert!(matches!(
        session(&gateway, request()).unwrap(),
        SessionReply::Present { .. }
    ));
    tmux.kill();
    let error = session(&gateway, request()).unwrap_err();
    assert!(error.is_gone(), "{error:?}");
    tmux.new_session("two", 20, 5, STAY);
    assert_eq!(
        gateway.listing().unwrap().sessions().next().unwrap().id,
        id,
        "the same id again"
    );
    let reply = session(&gateway, request()).unwrap();
    assert_eq!(reply, SessionReply::OtherServer);
    running.shutdown().unwrap();
}

#[test]
fn after_a_failed_query_no_earlier_listing_holds() {
    let tmux = TmuxServer::new();
    tmux.new_session("one", 20, 5, STAY);
    let pid = tmux.pid();
    let running = Gateway::start(tmux.server(), Clock::system()).unwrap();
    let gateway = running.handle();
    let list = || {
        let pending = gateway
            .request_listing(ForegroundPrograms::Omitted)
            .unwrap();
        pending.wait()
    };
    let listing = list().unwrap();
    let id = listing.sessions().next().unwrap().id;
    let pane = listing.panes[0].pane();
    let request = |panes| SessionRequest {
        session_id: id,
        panes,
        ..SessionRequest::default()
    };
    // The server is idle, and dies during a query: the counters of its process say nothing of that, at least
    // until its parent has waited for it.
    let stopped = Stopped::new(pid);
    let pending = gateway.request_session(request(HashMap::new())).unwrap();
    tmux.will_be_killed();
    kill_process(pid, Signal::KILL).unwrap();
    drop(stopped);
    assert!(pending.wait().unwrap_err().is_gone());
    for _ in 0..20 {
        let error = list().map(|listing| listing.panes.len()).unwrap_err();
        assert!(error.is_gone(), "{error:?}");
        let listed = HashMap::from([(pane.clone(), PaneRequest::Presence)]);
        let error = session(&gateway, request(listed)).unwrap_err();
        assert!(error.is_gone(), "{error:?}");
    }
    running.shutdown().unwrap();
}

#[test]
fn a_server_that_ends_during_a_query_is_gone() {
    // The tmux client may then end silently.
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
            tmux.will_be_killed();
            tmux.tmux(&["kill-server"]);
            for asking in asking {
                let error = asking.join().unwrap();
                assert!(error.is_gone(), "{error:?}");
            }
        });
    }
}

#[test]
fn a_hung_server_is_a_timeout_for_all_requesters_and_recovers() {
    let tmux = TmuxServer::new();
    tmux.new_session("hung", 20, 5, STAY);
    let server = tmux.server().with_timeout(Duration::from_millis(300));
    let running = Gateway::start(server, Clock::system()).unwrap();
    let gateway = running.handle();
    let id = gateway.listing().unwrap().sessions().next().unwrap().id;
    let stopped = Stopped::new(tmux.pid());
    let began = Instant::now();
    let request = || SessionRequest {
        session_id: id,
        ..SessionRequest::default()
    };
    let pending_replies: Vec<_> = (0..5)
        .map(|_| gateway.request_session(request()).unwrap())
        .collect();
    // A withdrawn request costs nothing.
    drop(
        gateway
            .request_listing(ForegroundPrograms::Omitted)
            .unwrap(),
    );
    for pending in pending_replies {
        let error = pending.wait().unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
    }
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "{:?}",
        began.elapsed()
    );
    drop(stopped);
    let reply = wait_for("a reply again", CEILING, || session(&gateway, request()));
    assert!(matches!(reply, SessionReply::Present { .. }));
    running.shutdown().unwrap();
}

#[test]
fn a_hundred_panes_take_a_few_processes() {
    let tmux = TmuxServer::new();
    tmux.new_session("s0", 80, 24, "printf ready; exec cat");
    let more: String = (1..100)
        .map(|number| format!("new-session -d -s s{number} -x 80 -y 24 'printf ready; exec cat'\n"))
        .collect();
    tmux.script(&more);
    let counted = CountedTmux::new();
    let running = Gateway::start(counted.server(&tmux), Clock::system()).unwrap();
    let gateway = running.handle();
    let listing = gateway.listing().unwrap();
    let ids: Vec<SessionId> = listing.sessions().map(|session| session.id).collect();
    assert_eq!(ids.len(), 100);
    let mut digests: HashMap<SessionId, HashMap<PaneId, CaptureDigest>> = HashMap::new();
    let mut requests: HashMap<SessionId, HashMap<PaneId, PaneRequest>> = HashMap::new();
    let mut tick = || {
        let before = counted.processes();
        let pending_replies: Vec<(SessionId, PendingReply<SessionReply>)> = ids
            .iter()
            .map(|&session_id| {
                let requests = requests.get(&session_id).cloned().unwrap_or_default();
                let request = SessionRequest {
                    session_id,
                    panes: requests,
                    ..SessionRequest::default()
                };
                (session_id, gateway.request_session(request).unwrap())
            })
            .collect();
        let mut captures = 0;
        for (id, pending) in pending_replies {
            let SessionReply::Present { panes, .. } = pending.wait().unwrap() else {
                panic!("{id} is gone")
            };
            assert_eq!(panes.len(), 1);
            captures += panes
                .iter()
                .filter(|pane| matches!(pane, PaneReply::Captured(_)))
                .count();
            requests.insert(id, next_requests(&panes, digests.entry(id).or_default()));
        }
        (captures, counted.processes() - before)
    };
    let (captures, processes) = tick();
    assert_eq!(captures, 100);
    // A listing and three batches; a loaded machine may spread the requests.
    assert!(processes <= 10, "{processes}");
    wait_for("a tick without a capture", CEILING, || match tick() {
        (0, processes) if processes <= 3 => Ok(()),
        other => Err(other),
    });
    running.shutdown().unwrap();
}

#[test]
fn an_idle_server_is_left_alone_and_changes_are_seen_at_once() {
    if std::fs::read_to_string("/proc/self/schedstat").is_ok_and(|text| text.starts_with("0 ")) {
        eprintln!("SKIPPED: this kernel does not tell how long processes run");
        return;
    }
    let tmux = TmuxServer::new();
    tmux.new_session("first", 80, 24, STAY);
    let counted = CountedTmux::new();
    let running = Gateway::start(counted.server(&tmux), Clock::system()).unwrap();
    let gateway = running.handle();
    let list = || {
        let pending = gateway
            .request_listing(ForegroundPrograms::Omitted)
            .unwrap();
        pending.wait().unwrap()
    };
    let (mut processes, mut queried_at) = (0, Instant::now());
    for (at, change) in [
        ["new-session", "-d", "-s", "second", STAY].as_slice(),
        &["rename-session", "-t", "=second", "third"],
        &["resize-window", "-t", "=third:", "-x", "70", "-y", "20"],
        &["kill-session", "-t", "=third"],
    ]
    .into_iter()
    .enumerate()
    {
        // Some time after the last request.
        wait_for("a server that is left alone", CEILING, || {
            list();
            let now = counted.processes();
            if std::mem::replace(&mut processes, now) != now {
                queried_at = Instant::now();
            }
            let alone = queried_at.elapsed();
            // The next listing would come after eight seconds.
            (alone > Duration::from_millis(2500))
                .then_some(())
                .ok_or(alone)
        });
        tmux.tmux(change);
        let changed_at = Instant::now();
        let expected = [
            Some(("second", 80)),
            Some(("third", 80)),
            Some(("third", 70)),
            None,
        ][at];
        wait_for("the change", CEILING, || {
            let listing = list();
            let mut panes = listing.panes.iter();
            let second = panes.find(|pane| pane.session_name != "first");
            let digests = second.map(|pane| (&*pane.session_name, pane.width));
            (digests == expected)
                .then_some(())
                .ok_or(format!("{change:?}: {digests:?}"))
        });
        assert!(changed_at.elapsed() < Duration::from_secs(6), "{change:?}");
    }
    running.shutdown().unwrap();
}
