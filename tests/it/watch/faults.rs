//! Pollers and servers that fail, panes that end, and a second observer.

use super::*;

#[test]
fn a_poller_that_panics_restarts_and_reports_nothing_twice() {
    let server = TmuxServer::new();
    let program = waiting("seq 1 20");
    let pane = server.new_session("panic", 40, 8, &program);
    server.wait_for_text(&pane, "ready");
    crate::logger::panic_at_opening("panic", &pane, 1);
    let mut observed = Observed::all(&server);
    observed.until("the poller's return", |seen| {
        seen.iter().any(|envelope| {
            matches!(&envelope.event, TdEvent::PollerRestarted { cause, .. } if cause == "on purpose")
        })
    });
    observed.until("the pane", |seen| {
        seen.iter()
            .any(|envelope| matches!(envelope.event, TdEvent::PaneOpened { .. }))
    });
    go(&server);
    observed.until_line("20");
    observed.stop();
    let want: Vec<String> = (1..=20).map(|n: i32| n.to_string()).collect();
    assert_eq!(observed.replay(&pane).texts(), want);
}

#[test]
fn a_hung_server_is_reported_twice_and_loses_nothing() {
    let server = TmuxServer::new();
    let pane = server.new_session("hung", 40, 8, &waiting("seq 1 20"));
    server.wait_for_text(&pane, "ready");
    let pid = server.pid();
    let mut observed = Observed::with(
        &server,
        server.server().with_timeout(Duration::from_millis(300)),
    );
    observed.until_started(1);
    let warnings = |seen: &[td_observe::Envelope]| {
        seen.iter()
            .filter(|e| matches!(e.event, TdEvent::Warning { .. }))
            .count()
    };
    {
        let _stopped = Stopped::new(pid);
        observed.until("a warning", |seen| warnings(seen) == 1);
    }
    observed.until("a second one", |seen| warnings(seen) == 2);
    go(&server);
    observed.until_line("20");
    server.kill();
    observed.until("the end", |seen| {
        seen.iter().any(|envelope| {
            matches!(&envelope.event, TdEvent::SessionEnded { reason, .. } if reason.as_str() == "server_gone")
        })
    });
    observed.stop();
    assert_eq!(warnings(&observed.seen), 2);
}

#[test]
fn lines_printed_just_before_the_end_of_a_pane_are_reported_as_a_gap() {
    let server = TmuxServer::new();
    server.new_session("keeper", 40, 5, "exec cat");
    let last = server.new_session("last", 40, 5, "tmux wait-for end; seq 1 500; exit");
    let mut observed = Observed::session(&server, "last");
    observed.until_started(1);
    server.tmux(&["wait-for", "-S", "end"]);
    observed.until("its end", |seen| {
        seen.iter()
            .any(|envelope| matches!(envelope.event, TdEvent::SessionEnded { .. }))
    });
    observed.stop();
    let replay = observed.replay(&last);
    let settled = replay.settled.len();
    assert!(settled == 500 || replay.gaps.len() == 1, "{replay:?}");
    assert!(replay.complete);
}

#[test]
fn a_second_observer_reports_everything_and_stores_nothing() {
    let server = TmuxServer::new();
    let pane = server.new_session("both", 40, 8, &waiting("seq 1 20"));
    server.wait_for_text(&pane, "ready");
    let mut first = Observed::session(&server, "both");
    first.until_started(1);
    let mut second = Observed::session(&server, "both");
    second.until_started(1);
    go(&server);
    first.until_line("20");
    second.until_line("20");
    let report = second.stop();
    assert_eq!(
        report.log.unwrap().not_kept,
        0,
        "it was said that there is no log"
    );
    first.stop();
    assert_eq!(first.replay(&pane).texts(), second.replay(&pane).texts());
    assert_eq!(first.logs().len(), 1);
}

#[test]
fn a_respawned_pane_opens_with_its_program() {
    let sources: [fn(Watch) -> Watch; 2] = [Watch::poll, crate::stream::by_bytes];
    for source in sources {
        let server = TmuxServer::new();
        let pane = server.new_session("job", 40, 10, "tmux wait-for go; exit 3");
        server.tmux(&["set-option", "-p", "-t", &pane, "remain-on-exit", "on"]);
        let mut observed = Observed::start(&server, source);
        observed.until_started(1);
        server.tmux(&["wait-for", "-S", "go"]);
        observed.until("its end", |seen| {
            let ends = |event: &TdEvent| matches!(event, TdEvent::OutputUpdate { is_complete, .. } if *is_complete);
            seen.iter().any(|envelope| ends(&envelope.event))
        });
        server.tmux(&["respawn-pane", "-t", &pane, "exec cat"]);
        let opened = |seen: &[td_observe::Envelope]| -> Vec<String> {
            let opened = seen.iter().filter_map(|envelope| match &envelope.event {
                TdEvent::PaneOpened { command, .. } => Some(command.clone()),
                _ => None,
            });
            opened.collect()
        };
        observed.until("another program", |seen| opened(seen).len() == 2);
        observed.stop();
        // Its shell may not yet have executed the program.
        let second = &opened(&observed.seen)[1];
        assert!(
            ["cat", "sh", "bash", "dash"].contains(&second.as_str()),
            "{second:?}"
        );
    }
}
