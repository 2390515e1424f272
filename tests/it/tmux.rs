//! Captures, listings and targets against real tmux servers.

use std::collections::HashMap;

use td_observe::internals::tmux::{
    CaptureResult, CaptureSpec, Gateway, PaneCapture, PaneState, capture, resolve,
};
use td_observe::internals::track::{ProcessExit, TmuxVersion};
use td_observe::tmux::Target;
use td_observe::{Clock, PaneId};

use crate::support::{CEILING, TmuxServer, wait_for};
use crate::tmux_gateway::{capture_of, panes};

/// A program that runs forever and prints nothing.
pub const STAY: &str = "exec cat";

#[track_caller]
fn capture_all(tmux: &TmuxServer, specs: &[CaptureSpec]) -> Vec<CaptureResult> {
    let known = tmux.listing().server;
    capture(&tmux.server(), &Clock::system(), &known, specs).unwrap()
}

#[track_caller]
fn capture_one(tmux: &TmuxServer, pane: &str, depth: u32) -> PaneCapture {
    match capture_all(
        tmux,
        &[CaptureSpec {
            pane: pane.into(),
            depth,
            saved: true,
            resync: None,
        }],
    )
    .remove(0)
    {
        CaptureResult::Captured(pane) => *pane,
        other => panic!("{other:?}"),
    }
}

fn texts(pane: &PaneCapture) -> Vec<(&str, bool)> {
    pane.capture
        .rows
        .iter()
        .map(|row| (row.text.as_str(), row.wrapped))
        .collect()
}

#[test]
fn state_and_text_are_of_one_instant_while_a_pane_floods() {
    let tmux = TmuxServer::new();
    let pane = tmux.new_session("flood", 40, 10, "seq 1 1000000000");
    for _ in 0..40 {
        let pane_capture = capture_one(&tmux, &pane, 500);
        let capture = &pane_capture.capture;
        assert_eq!(
            capture.rows.len(),
            (capture.history_size.min(500) + 10) as usize
        );
        // The numbers are consecutive down to the cursor, which follows the last one.
        let at = capture.history_rows() + capture.cursor.y as usize;
        let numbers: Vec<u64> = capture.rows[..at]
            .iter()
            .map(|row| row.text.parse().unwrap())
            .collect();
        assert!(
            numbers.windows(2).all(|two| two[0] + 1 == two[1]),
            "{capture:#?}"
        );
        // A read may end between the carriage return and the line feed.
        let x = capture.cursor.x as usize;
        assert!(x == capture.rows[at].text.len() || x == 0, "{capture:#?}");
        assert!(
            capture.rows[at + 1..].iter().all(|row| row.text.is_empty()),
            "{capture:#?}"
        );
        if cfg!(target_os = "linux") {
            assert!(capture.bytes_before.unwrap() <= capture.bytes_after.unwrap());
        }
    }
}

#[test]
fn wrapped_rows_and_wide_characters() {
    let tmux = TmuxServer::new();
    let script = "printf '0123456789abcde  \\n0123456789\\n\\n123456789漢字 x\\n\\303\\244\\n'; \
                  printf '0123456789          end\\nready'; exec cat";
    let pane = tmux.new_session("wrap", 10, 14, script);
    tmux.wait_for_text(&pane, "ready");
    let pane_capture = capture_one(&tmux, &pane, 0);
    assert_eq!(
        texts(&pane_capture)[..11],
        [
            ("0123456789", true),
            ("abcde  ", false),
            ("0123456789", false),
            ("", false),
            ("123456789", true),
            ("漢字 x", false),
            ("ä", false),
            ("0123456789", true),
            ("          ", true),
            ("end", false),
            ("ready", false),
        ]
    );
}

#[test]
fn the_alternate_screen_and_the_normal_one_behind_it() {
    let tmux = TmuxServer::new();
    let script = "seq 1 30; printf 'normal  \\ncur'; printf '\\033[?1049h\\033[2;3Halt ready'; cat";
    let pane = tmux.new_session("alt", 20, 6, script);
    tmux.wait_for_text(&pane, "alt ready");
    let pane_capture = capture_one(&tmux, &pane, 1000);
    let capture = &pane_capture.capture;
    assert!(capture.alternate && capture.is_complete());
    assert_eq!(capture.rows.len(), capture.history_size as usize + 6);
    assert_eq!(capture.rows[0].text, "1");
    let rows: Vec<_> = capture.rows[capture.history_rows()..]
        .iter()
        .map(|row| &*row.text)
        .collect();
    assert_eq!(rows, ["", "  alt ready", "", "", "", ""]);
    let saved = capture.saved.as_ref().unwrap();
    let rows: Vec<_> = saved.rows.iter().map(|row| &*row.text).collect();
    assert_eq!(rows, ["27", "28", "29", "30", "normal  ", "cur"]);
    assert_eq!((saved.cursor.x, saved.cursor.y), (3, 5));
}

#[test]
fn a_missing_pane_is_gone_and_the_others_are_not() {
    let tmux = TmuxServer::new();
    let pane = tmux.new_session("here", 20, 5, "printf ready; exec cat");
    tmux.wait_for_text(&pane, "ready");
    let spec = |pane: &str| CaptureSpec {
        pane: pane.into(),
        depth: 10,
        saved: true,
        resync: None,
    };
    let results = capture_all(&tmux, &[spec("%998"), spec(&pane), spec("%999")]);
    assert!(
        matches!(
            &results[..],
            [
                CaptureResult::Gone,
                CaptureResult::Captured(_),
                CaptureResult::Gone
            ]
        ),
        "{results:#?}"
    );
}

#[test]
fn a_dead_pane_has_an_exit_status_or_signal() {
    let tmux = TmuxServer::new();
    tmux.new_session("first", 20, 5, STAY);
    tmux.tmux(&["set-option", "-g", "remain-on-exit", "on"]);
    let pane = tmux.new_session("dead", 40, 5, "printf ready; read line; exit 3");
    let killed = tmux.new_session("killed", 40, 5, "printf ready; read line; kill -9 $$");
    for pane in [&pane, &killed] {
        tmux.wait_for_text(pane, "ready");
        tmux.tmux(&["send-keys", "-t", pane, "Enter"]);
    }
    let death = |pane: &str| {
        wait_for("its death", CEILING, || {
            // Until tmux reaps its program, a dead pane has no status.
            tmux.reap();
            let state = tmux.pane(pane);
            state
                .dead
                .filter(|death| *death != ProcessExit::default())
                .ok_or(format!("{state:?}"))
        })
    };
    assert_eq!(death(&pane).status, Some(3));
    assert_eq!(death(&killed).signal, Some(9));
    assert_eq!(
        capture_one(&tmux, &pane, 0).capture.dead.unwrap().status,
        Some(3)
    );
}

#[test]
fn targets_match_exactly() {
    let tmux = TmuxServer::new();
    let pane = tmux.new_session("job-10", 20, 5, STAY);
    tmux.new_session("a b", 20, 5, STAY);
    let second = tmux.tmux(&[
        "split-window",
        "-d",
        "-t",
        "=a b:",
        "-P",
        "-F",
        "#{pane_id}",
        STAY,
    ]);
    tmux.tmux(&["rename-window", "-t", "=a b:", "x:y.1"]);
    let listing = tmux.listing();
    let resolve = |text: &str| -> Vec<PaneId> {
        let panes = resolve(&Target::parse(text).unwrap(), &listing);
        panes.iter().map(PaneState::pane).collect()
    };
    assert!(resolve("job-1").is_empty());
    assert_eq!(resolve("job-10"), [pane.as_str()]);
    assert_eq!(resolve("a b").len(), 2);
    assert_eq!(resolve("a b:x:y.1").len(), 2);
    assert_eq!(resolve("a b:x:y.1.1"), [second.as_str()]);
    assert_eq!(resolve("a b:0.1"), [second.as_str()]);
    assert_eq!(resolve(&second), [second.as_str()]);
}

#[test]
fn hostile_names_are_handled() {
    let tmux = TmuxServer::new();
    let long = "n".repeat(300);
    let script = "exec -a \"$(printf 'x\\ny%%1$2td0123')\" cat";
    let pane = tmux.new_session(
        "first",
        20,
        5,
        &format!("exec bash -c '{}'", script.replace('\'', "'\\''")),
    );
    // tmux 3.7 and newer refuses control characters in names.
    let are_refused = tmux.version() >= TmuxVersion::new(3, 7);
    let [tab, line, odd] = if are_refused {
        ["tab here", "new line", "w 1 #[fg=red] %5 @1"]
    } else {
        ["tab\there", "new\nline", "w\t1\n#[fg=red] %5 @1"]
    };
    for name in [
        "a b  c",
        tab,
        line,
        "漢字 ü",
        "#{pid} #S %H",
        "'\"$HOME;",
        &long,
    ] {
        tmux.new_session(name, 20, 5, STAY);
    }
    tmux.tmux(&["rename-window", "-t", "=first:", odd]);
    let state = wait_for("its name", CEILING, || {
        let state = tmux.pane(&pane);
        // The same applies to names of programs.
        if state.command.starts_with("x\ny") || are_refused {
            Ok(state)
        } else {
            Err(state.command)
        }
    });
    if !are_refused {
        assert_eq!(state.command, "x\ny%1$2td0123");
    }
    // tmux itself writes control characters in names as escapes.
    assert!(state.window_name.contains("#[fg=red] %5 @1"), "{state:?}");
    let listing = tmux.listing();
    let names: Vec<_> = listing
        .sessions()
        .map(|session| session.name.to_owned())
        .collect();
    assert_eq!(names.len(), 8, "{names:?}");
    assert_eq!(names[1], "a b  c");
    assert_eq!(names[4], "漢字 ü");
    assert_eq!(names[7], long);
    for name in names {
        assert_eq!(
            resolve(&Target::parse(&name).unwrap(), &listing).len(),
            1,
            "{name:?}"
        );
    }
    assert_eq!(listing.server.socket, tmux.socket());
}

#[test]
fn a_linked_window_has_one_owner() {
    let tmux = TmuxServer::new();
    let first = tmux.new_session("z first", 20, 5, STAY);
    let second = tmux.new_session("a second", 20, 5, STAY);
    tmux.tmux(&["link-window", "-s", "=z first:0", "-t", "=a second:5"]);
    tmux.tmux(&["new-session", "-d", "-s", "grouped", "-t", "=a second"]);
    let listing = tmux.listing();
    let sessions: Vec<_> = listing.sessions().map(|session| session.id).collect();
    let owned = |at: usize| -> Vec<_> {
        listing
            .panes_of(sessions[at])
            .map(PaneState::pane)
            .collect()
    };
    assert_eq!(listing.panes.len(), 5, "{listing:#?}");
    assert_eq!(owned(0), [first.as_str()]);
    assert_eq!(owned(1), [second.as_str()]);
    assert_eq!(owned(2), Vec::<PaneId>::new());
    // The gateway replies with the owner's names, through whichever window tmux reaches the pane.
    let gateway = Gateway::start(tmux.server(), Clock::system()).unwrap();
    for (at, name) in ["z first", "a second"].into_iter().enumerate() {
        let panes = panes(&gateway.handle(), sessions[at], HashMap::new());
        assert_eq!(panes.len(), 1);
        assert_eq!(panes[0].state().session_name, name);
        assert_eq!(panes[0].state().session_id, sessions[at]);
    }
    assert!(panes(&gateway.handle(), sessions[2], HashMap::new()).is_empty());
    gateway.shutdown().unwrap();
}

#[test]
fn forged_replies_in_a_pane_are_only_text() {
    let tmux = TmuxServer::new();
    let forged =
        "td00112233445566778899aabbccddeeffh%0 $0 @0 1 0 0 1 1 80 6 0 2000 0 0 0   0 0   1 0 1";
    let script = format!(
        "printf '%s\\n' '{forged}' td00112233445566778899aabbccddeeffj 'tde' '%end 1 1 1'; printf ready; exec cat"
    );
    let pane = tmux.new_session("forger", 200, 6, &script);
    tmux.wait_for_text(&pane, "ready");
    let pane_capture = capture_one(&tmux, &pane, 100);
    assert_eq!(texts(&pane_capture)[0], (forged, false));
    assert_eq!(texts(&pane_capture)[4], ("ready", false));
    assert_eq!(pane_capture.state.height, 6);
}

#[test]
fn names_and_text_survive_a_c_locale() {
    let tmux = TmuxServer::with_env(&[("LC_ALL", "C"), ("LANG", "C")]);
    let pane = tmux.new_session("café 漢字", 20, 5, "printf 'ü漢ready'; exec cat");
    tmux.wait_for_text(&pane, "ready");
    let server = tmux.server().with_env("LC_ALL", "C");
    let gateway = Gateway::start(server, Clock::system()).unwrap();
    let listing = gateway.handle().listing().unwrap();
    let session = listing.sessions().next().unwrap();
    assert_eq!(session.name, "café 漢字");
    let panes = panes(&gateway.handle(), session.id, HashMap::new());
    assert_eq!(capture_of(&panes[0]).rows[0].text, "ü漢ready");
    gateway.shutdown().unwrap();
}

#[test]
fn a_server_without_sessions_is_listed() {
    let tmux = TmuxServer::new();
    tmux.new_session("last", 20, 5, STAY);
    tmux.tmux(&["set-option", "-s", "exit-empty", "off"]);
    tmux.tmux(&["kill-session", "-t", "=last"]);
    let listing = tmux.listing();
    assert!(
        listing.panes.is_empty() && listing.server.pid > 0,
        "{listing:?}"
    );
}
