//! At any speed, every line arrives once, in order.

use std::collections::BTreeMap;

use td_observe::TdEvent;

use super::{drains, piped, streamed, wait_until_drains_are_gone, wait_until_streamed};
use crate::observed::{Replay, logs, shown};
use crate::support::TmuxServer;

#[test]
fn a_flood_arrives_once_and_in_order() {
    let server = TmuxServer::new();
    let pane = server.new_session(
        "flood",
        80,
        24,
        "tmux wait-for go; seq 1 300000; echo the end; exec cat",
    );
    let mut observed = streamed(&server);
    observed.until_started(1);
    server.tmux(&["wait-for", "-S", "go"]);
    observed.until_line("the end");
    observed.stop();
    let replay = observed.replay(&pane);
    assert_eq!(replay.gaps, []);
    let mut printed: Vec<String> = (1..=300_000).map(|number| number.to_string()).collect();
    printed.push("the end".to_owned());
    assert!(replay.texts() == printed, "{} lines", replay.settled.len());
    let kept = logs(&server.directory().join("data"));
    let chunks = kept
        .values()
        .flatten()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::OutputUpdate { chunk, .. } => Some(chunk.as_str()),
            _ => None,
        });
    assert!(chunks.collect::<String>() == printed.join("\n") + "\n");
    wait_until_drains_are_gone(&server);
}

#[test]
fn single_lines_and_open_prompts_are_reported() {
    let server = TmuxServer::new();
    let pane = server.new_session("slow", 80, 24, "printf '$ '; exec cat");
    server.wait_for_text(&pane, "$");
    let mut observed = streamed(&server);
    observed.until_started(1);
    for line in ["one", "two", "three"] {
        server.tmux(&["send-keys", "-t", &pane, "-l", line]);
        observed.until("the line while it is typed", |seen| {
            seen.iter().any(|envelope| match &envelope.event {
                TdEvent::OutputRevised { text, .. } => text.ends_with(line),
                _ => false,
            })
        });
        server.tmux(&["send-keys", "-t", &pane, "Enter"]);
        observed.until("the line and the output of cat", |seen| {
            let text = Replay::of(seen, &pane).text();
            text.lines().filter(|shown| shown.ends_with(line)).count() == 2
        });
    }
    let captured = server.joined(&pane, &[]);
    let shows: Vec<&str> = captured.trim_end().lines().collect();
    observed.until_replayed(&pane, &shows, "what was typed");
    observed.stop();
}

#[test]
fn a_new_pane_of_a_watched_session_is_streamed_from_its_first_line() {
    let server = TmuxServer::new();
    server.new_session("born", 80, 24, "exec cat");
    server.script("set-option -g history-limit 200000");
    let mut observed = streamed(&server);
    observed.until_started(1);
    let command = "seq 1 50000; echo the end; exec cat";
    let shape = ["-P", "-F", "#{pane_id}"];
    let window =
        server.tmux(&[&["new-window", "-d", "-t", "born"][..], &shape, &[command]].concat());
    observed.until_line("the end");
    let split = server.tmux(
        &[
            &["split-window", "-d", "-t", "born"][..],
            &shape,
            &[command],
        ]
        .concat(),
    );
    observed.until("the end of the other", |seen| {
        seen.iter().any(|envelope| match &envelope.event {
            TdEvent::OutputUpdate { pane, chunk, .. } => {
                *pane == *split && chunk.ends_with("the end\n")
            }
            _ => false,
        })
    });
    observed.stop();
    for pane in [window, split] {
        let replay = observed.replay(&pane);
        assert_eq!(replay.gaps, []);
        assert_eq!(replay.settled.len(), 50_001, "{pane}");
        let numbers = replay.texts().into_iter().map(str::to_owned);
        assert!(
            numbers
                .take(50_000)
                .eq((1..=50_000).map(|number| number.to_string()))
        );
        assert_eq!(replay.settled[0].0, 1);
    }
}

#[test]
fn many_sessions_lose_nothing_while_some_of_them_flood() {
    let server = TmuxServer::new();
    server.new_session("keeper", 80, 24, "exec cat");
    let mut panes = BTreeMap::new();
    for at in 0..20 {
        let program = match at % 4 {
            0 => "tmux wait-for go; seq -f 'line %g.' 1 30000; echo the end; exec cat".to_owned(),
            _ => {
                "tmux wait-for go; for i in 1 2 3 4 5 6 7 8 9; do echo line $i.; sleep 0.02; done; \
                  echo the end; exec cat"
                    .to_owned()
            }
        };
        let name = format!("s{at}");
        panes.insert(server.new_session(&name, 80, 24, &program), at);
    }
    let mut observed = streamed(&server);
    observed.until_started(21);
    wait_until_streamed(&server, 21);
    // A signal on a channel wakes all waiting programs.
    server.tmux(&["wait-for", "-S", "go"]);
    for pane in panes.keys() {
        observed.until("the ends", |seen| {
            seen.iter().rev().any(|envelope| match &envelope.event {
                TdEvent::OutputUpdate {
                    pane: of, chunk, ..
                } => *of == **pane && chunk.ends_with("the end\n"),
                _ => false,
            })
        });
    }
    observed.stop();
    for (pane, at) in panes {
        let replay = observed.replay(&pane);
        assert_eq!(replay.gaps, [], "{}", shown(&observed.seen));
        let last = if at % 4 == 0 { 30_000 } else { 9 };
        let printed = (1..=last).map(|number| format!("line {number}."));
        assert!(
            replay
                .texts()
                .into_iter()
                .eq(printed.chain(["the end".to_owned()])),
            "{pane}"
        );
    }
    wait_until_drains_are_gone(&server);
    assert!(drains(&server).is_empty() && !piped(&server).contains('1'));
}
