//! The differences between tmux 3.3 and 3.8, tested on the version that comes first in PATH.
//!
//! A test of a feature that only some versions have prints on others that it is skipped, bypassing the
//! harness.

use std::collections::HashMap;
use std::io::Write as _;

use rustix::process::Signal;
use td_observe::internals::tmux::{
    CaptureResult, CaptureSpec, Gateway, PaneState, capture, check_version,
};
use td_observe::internals::track::TmuxVersion;
use td_observe::tmux::{Server, Target};
use td_observe::{Clock, Watch};

use crate::cli::{Running, assert_code, on, program, run, text};
use crate::observed::{Observed, Replay, shown};
use crate::support::{CEILING, TmuxServer, wait_for};
use crate::tmux::STAY;
use crate::tmux_gateway::panes;

/// Returns true if the server's version supports the tested feature, and prints a skip otherwise.
fn supports(server: &TmuxServer, first: TmuxVersion, what: &str) -> bool {
    let version = server.version();
    if version < first {
        // The harness shows the output of `eprintln!` for failed tests only.
        let _ = writeln!(
            std::io::stderr(),
            "\n!!! skipped on tmux {version}: {what} (from {first} on)"
        );
    }
    version >= first
}

/// Returns the rows of a pane's screen, each with its wrap mark.
#[track_caller]
fn rows(server: &TmuxServer, pane: &str) -> Vec<(String, bool)> {
    let spec = CaptureSpec {
        pane: pane.into(),
        depth: 0,
        saved: false,
        resync: None,
    };
    let known = server.listing().server;
    match capture(&server.server(), &Clock::system(), &known, &[spec])
        .unwrap()
        .remove(0)
    {
        CaptureResult::Captured(pane) => {
            let rows = pane.capture.rows.into_iter();
            rows.map(|row| (row.text, row.wrapped)).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn busy_windows_killed_one_after_the_other_leave_the_server_alive() {
    const WINDOWS: usize = 100;
    let server = TmuxServer::new();
    server.new_session("busy", 80, 24, STAY);
    // Prints twenty lines a second without starting a process.
    let busy = "exec bash -c 'i=0; while :; do echo \"line $((i++))\"; read -r -t 0.05; done'";
    let start = [
        "new-window",
        "-d",
        "-t",
        "=busy:",
        "-P",
        "-F",
        "#{pane_id}",
        busy,
    ];
    let windows: Vec<String> = (0..WINDOWS).map(|_| server.tmux(&start)).collect();
    let last = &windows[WINDOWS - 1];
    server.wait_for_text(last, "line 3");
    let (socket, data) = (server.socket(), server.directory().join("data"));
    let args = on(socket.to_str().unwrap(), &["watch", "--json"]);
    if server.version() < TmuxVersion::OLDEST {
        let refused = run(&args, &data);
        assert_code(&refused, 2);
        let message = text(&refused.stderr);
        assert_eq!(message.lines().count(), 1, "{message}");
        let version = server.version().to_string();
        assert!(
            message.contains(&version) && message.contains("3.3"),
            "{message}"
        );
        for pane in windows {
            server.tmux(&["kill-window", "-t", &pane]);
        }
        return;
    }
    let mut watch = Running::start(program(&args, &data));
    // Windows are killed once all of them are observed.
    for pane in &windows {
        watch.wait_for_all(&["OutputUpdate", &format!("\"{pane}\"")]);
    }
    for (at, pane) in windows.iter().enumerate() {
        server.tmux(&["kill-window", "-t", pane]);
        // Waits for the observer at times, so that it polls between the kills.
        if at % 5 == 0 {
            watch.wait_for_all(&["PaneClosed", &format!("\"{pane}\"")]);
        }
    }
    watch.wait_for_all(&["PaneClosed", &format!("\"{last}\"")]);
    watch.signal(Signal::INT);
    assert_code(&watch.end(), 0);
    // Dropping the server asserts that it is the same process.
    assert_eq!(server.listing().panes.len(), 1);
}

#[test]
fn an_unsupported_server_is_refused_before_a_pane_is_named() {
    let server = TmuxServer::new();
    server.new_session("any", 20, 5, STAY);
    let version = server.version();
    let checked = check_version(&server.server(), &Clock::system());
    if version.is_supported() {
        assert_eq!(checked.unwrap(), version);
        let _ = writeln!(
            std::io::stderr(),
            "\n!!! skipped on tmux {version}: the refusal of versions before {}",
            TmuxVersion::OLDEST
        );
        return;
    }
    assert!(checked.unwrap_err().is_invalid_input());
    let gateway = Gateway::start(server.server(), Clock::system()).unwrap();
    let refused = gateway.handle().listing().unwrap_err();
    assert!(refused.is_invalid_input(), "{refused}");
    gateway.shutdown().unwrap();
    let socket = server.socket();
    let args = on(socket.to_str().unwrap(), &["wait", "any", "--text", "x"]);
    let output = run(&args, server.directory());
    assert_code(&output, 2);
    assert!(text(&output.stderr).contains("3.3 or newer"), "{output:?}");
}

#[test]
fn rows_of_blanks_stay_in_their_lines() {
    let server = TmuxServer::new();
    let script = "printf '          begins\\n          \\n0123456789          end\\n  two  \\n\\n'; \
                  printf '          \\033[3;1H'; printf '\\033[12;1Hready'; exec cat";
    let pane = server.new_session("blanks", 10, 14, script);
    server.wait_for_text(&pane, "ready");
    let rows = rows(&server, &pane);
    let got: Vec<_> = rows
        .iter()
        .map(|(text, wrapped)| (text.as_str(), *wrapped))
        .collect();
    let blank = "          ";
    assert_eq!(
        got[..9],
        [
            (blank, true),
            ("begins", false),
            (blank, false),
            ("0123456789", true),
            (blank, true),
            ("end", false),
            ("  two  ", false),
            ("", false),
            (blank, false),
        ]
    );
}

#[test]
fn blank_rows_and_lines_that_begin_with_them_are_reported_by_either_source() {
    let server = TmuxServer::new();
    let printed = "printf '%30s%s\\n' '' begins; printf '%30s\\n' ''; printf '%75sx\\n' ''; \
                   printf 'a\\tb\\tc\\n\\ttab\\n12345678\\tx\\n'; echo end";
    let want = [
        format!("{:30}begins", ""),
        String::new(),
        format!("{:75}x", ""),
        "a       b       c".to_owned(),
        "        tab".to_owned(),
        "12345678        x".to_owned(),
        "end".to_owned(),
    ];
    let sources: [fn(Watch) -> Watch; 2] = [|watch| watch, crate::stream::by_bytes];
    for (at, source) in sources.into_iter().enumerate() {
        let name = format!("source{at}");
        let script = format!("echo ready; tmux wait-for go{at}; {printed}; exec cat");
        let pane = server.new_session(&name, 30, 20, &script);
        server.wait_for_text(&pane, "ready");
        let target = Target::parse(&name).unwrap();
        let mut observed = Observed::start(&server, |watch| source(watch.target(target)));
        observed.until_started(1);
        server.tmux(&["wait-for", "-S", &format!("go{at}")]);
        observed.until_line("end");
        let replay = observed.replay(&pane);
        let lines: Vec<_> = replay.texts().iter().map(|line| line.trim_end()).collect();
        assert_eq!(lines, want, "{name}\n{}", shown(&observed.seen));
        assert_eq!(replay.gaps, [], "{name}");
        observed.stop();
        if at == 0 && supports(&server, TmuxVersion::new(3, 6), "tabs in captures") {
            let raw = server.tmux(&["capture-pane", "-p", "-t", &pane]);
            assert!(raw.contains("a\tb\tc"), "{raw:?}");
        }
    }
}

#[test]
fn a_dead_pane_keeps_the_pid_of_its_program() {
    let server = TmuxServer::new();
    server.new_session("keeper", 20, 5, STAY);
    server.tmux(&["set-option", "-g", "remain-on-exit", "on"]);
    let pane = server.new_session("job", 40, 8, "echo ready; read line; echo last; exit 3");
    server.wait_for_text(&pane, "ready");
    let gateway = Gateway::start(server.server(), Clock::system()).unwrap();
    let session = server.pane(&pane).session_id;
    let state = || -> PaneState {
        panes(&gateway.handle(), session, HashMap::new())[0]
            .state()
            .clone()
    };
    let running = state();
    assert!(running.pid > 0 && running.dead.is_none(), "{running:?}");
    server.tmux(&["send-keys", "-t", &pane, "Enter"]);
    let dead = wait_for("its end", CEILING, || {
        server.reap();
        let state = state();
        match state.dead {
            Some(_) => Ok(state),
            None => Err(state.pid),
        }
    });
    assert_eq!(dead.pid, running.pid);
    // Each full listing requests names anew.
    let listed = gateway.handle().listing().unwrap();
    assert_eq!(listed.pane(&pane).unwrap().pid, running.pid);
    gateway.shutdown().unwrap();
    let pid = server.tmux(&["display-message", "-p", "-t", &pane, "#{pane_pid}"]);
    if supports(
        &server,
        TmuxVersion::new(3, 8),
        "dead panes without a process",
    ) {
        assert_eq!(pid, "");
    }
}

#[test]
fn a_respawned_dead_pane_has_every_line_once() {
    for source in [|watch| watch, crate::stream::by_bytes as fn(Watch) -> Watch] {
        let server = TmuxServer::new();
        server.new_session("keeper", 20, 5, STAY);
        server.tmux(&["set-option", "-g", "remain-on-exit", "on"]);
        let first = "echo ready; read line; seq 1 5; exit 3";
        let pane = server.new_session("job", 40, 8, first);
        server.wait_for_text(&pane, "ready");
        let target = Target::parse("job").unwrap();
        let mut observed = Observed::start(&server, |watch| source(watch.target(target)));
        observed.until_started(1);
        server.tmux(&["send-keys", "-t", &pane, "Enter"]);
        observed.until("the end of the first program", |seen| {
            server.reap();
            Replay::of(seen, &pane).complete
        });
        server.tmux(&["respawn-pane", "-t", &pane, "seq 6 9; exec cat"]);
        observed.until_line("9");
        observed.stop();
        let replay = observed.replay(&pane);
        let numbers: Vec<&str> = replay.texts();
        let numbers: Vec<&&str> = numbers.iter().filter(|line| !line.is_empty()).collect();
        assert_eq!(
            numbers,
            [&"1", &"2", &"3", &"4", &"5", &"6", &"7", &"8", &"9"],
            "{}",
            shown(&observed.seen)
        );
        assert_eq!(replay.gaps, [], "{}", shown(&observed.seen));
    }
}

#[test]
fn a_history_trimmed_by_an_option_loses_no_line() {
    for source in [|watch| watch, crate::stream::by_bytes as fn(Watch) -> Watch] {
        let server = TmuxServer::new();
        server.new_session("keeper", 20, 5, STAY);
        let program = "echo ready; tmux wait-for go; seq 1 1000; tmux wait-for more; \
                       seq 1001 1020; tmux wait-for again; seq 1021 1300; exec cat";
        let pane = server.new_session("job", 40, 10, program);
        server.wait_for_text(&pane, "ready");
        let target = Target::parse("job").unwrap();
        let mut observed = Observed::start(&server, |watch| source(watch.target(target)));
        observed.until_started(1);
        server.tmux(&["wait-for", "-S", "go"]);
        observed.until_line("1000");
        server.tmux(&["set-option", "-g", "history-limit", "300"]);
        let size = server.pane(&pane).history_size;
        if supports(&server, TmuxVersion::new(3, 7), "running panes are trimmed") {
            assert!(size <= 300, "{size}");
        }
        for (channel, last) in [("more", "1020"), ("again", "1300")] {
            server.tmux(&["wait-for", "-S", channel]);
            observed.until_line(last);
        }
        observed.stop();
        let replay = observed.replay(&pane);
        let want: Vec<String> = (1..=1300).map(|n| n.to_string()).collect();
        assert_eq!(replay.texts(), want, "{}", shown(&observed.seen));
        assert_eq!(replay.gaps, [], "{}", shown(&observed.seen));
    }
}

#[test]
fn a_session_with_dots_and_colons_in_its_name_is_watched() {
    let server = TmuxServer::new();
    server.new_session("keeper", 20, 5, STAY);
    if !supports(
        &server,
        TmuxVersion::new(3, 7),
        "dots and colons in names of sessions",
    ) {
        return;
    }
    let first = server.new_session("api.v2:x", 40, 8, STAY);
    let mut observed = Observed::session(&server, "api.v2:x");
    observed.until_started(1);
    let session = server.pane(&first).session_id.to_string();
    server.tmux(&["new-window", "-d", "-t", &session, "echo here; exec cat"]);
    observed.until_line("here");
    observed.stop();
}

#[test]
fn the_server_has_the_version_of_the_client() {
    let server = TmuxServer::new();
    server.new_session("any", 20, 5, STAY);
    let client = Server::default().run(["-V"], &Clock::system()).unwrap();
    assert_eq!(TmuxVersion::parse(&client), server.version());
    assert_eq!(server.listing().server.tmux_version(), server.version());
}
