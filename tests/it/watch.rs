//! The law of pane output on real tmux: each line once and in order, or a gap in its place.

#[cfg(feature = "cli")]
mod baseline;
mod faults;
#[cfg(feature = "cli")]
mod starved;

use std::time::Duration;

use td_observe::{TdEvent, Watch};

use crate::observed::{Observed, Replay, shown};
use crate::support::{CEILING, Stopped, TmuxServer, wait_for};

/// A pane's program that waits for [`go`] and stays after its end.
fn waiting(program: &str) -> String {
    format!("printf 'ready\\n'; tmux wait-for go; {program}; tmux wait-for -S done; exec cat")
}

/// Lets a [`waiting`] program run, and waits for its end.
#[track_caller]
fn go(server: &TmuxServer) {
    server.tmux(&["wait-for", "-S", "go"]);
    server.tmux(&["wait-for", "done"]);
}

/// Returns `capture-pane -J` of the whole pane, without trailing blanks.
#[track_caller]
fn captured(server: &TmuxServer, pane: &str) -> String {
    let text = server.joined(pane, &["-S", "-"]);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim_end().to_owned()
}

/// Waits until the replay of a pane ends as the pane does; returns the replay.
#[track_caller]
fn until_replayed(observed: &mut Observed, server: &TmuxServer, pane: &str) -> Replay {
    let want = captured(server, pane);
    observed.until(&format!("the replay to read\n{want}"), |seen| {
        let text = Replay::of(seen, pane).text();
        !text.is_empty() && (want.ends_with(&text) || text.ends_with(&want))
    });
    observed.replay(pane)
}

#[test]
fn bursts_of_lines_and_their_twins_arrive_once() {
    let server = TmuxServer::new();
    let program = "i=0; while [ $i -lt 30 ]; do \
        seq -f 'line %g' $((i*100+1)) $((i*100+100)) | sed p; i=$((i+1)); sleep 0.05; done";
    let pane = server.new_session("bursts", 80, 24, &waiting(program));
    server.wait_for_text(&pane, "ready");
    let mut observed = Observed::session(&server, "bursts");
    observed.until_started(1);
    go(&server);
    observed.until_line("line 3000");
    // The cursor is right below the last line, which settles once it is captured unchanged again.
    observed.until("the last twin", |seen| {
        Replay::of(seen, &pane).settled.len() >= 6000
    });
    observed.stop();
    let replay = observed.replay(&pane);
    assert_eq!(replay.gaps, []);
    let want: Vec<String> = (1..=3000)
        .flat_map(|n| [format!("line {n}"), format!("line {n}")])
        .collect();
    assert_eq!(replay.texts(), want);
    // The log has the same lines.
    let logs = observed.logs();
    let log = logs.values().next().unwrap();
    assert_eq!(Replay::of(log, &pane).texts(), want);
}

#[test]
fn the_gaps_of_a_flood_beyond_the_history_are_announced() {
    let server = TmuxServer::new();
    server.new_session("keeper", 40, 5, "exec cat");
    server.script("set-option -g history-limit 300");
    let pane = server.new_session("flood", 80, 24, &waiting("seq 1 200000"));
    server.wait_for_text(&pane, "ready");
    let mut observed = Observed::session(&server, "flood");
    observed.until_started(1);
    go(&server);
    observed.until_line("200000");
    observed.stop();
    let replay = observed.replay(&pane);
    let (mut last, mut gaps) = (0, replay.gaps.iter().peekable());
    for (at, (_, text)) in replay.settled.iter().enumerate() {
        let number: i64 = text.parse().unwrap();
        let mut announced = false;
        while let Some((_, count, reason, _)) = gaps.next_if(|gap| gap.3 == at) {
            announced = true;
            assert!(
                number > last + 1 || reason == "ambiguous",
                "no hole: {replay:?}"
            );
            assert!(count.is_none_or(|count| count as i64 == number - last - 1));
        }
        assert!(
            number == last + 1 || announced && number > last,
            "{last} {number}"
        );
        last = number;
    }
    assert_eq!(last, 200_000);
    let tail: Vec<String> = (199_731..=200_000).map(|n: i32| n.to_string()).collect();
    assert_eq!(replay.texts()[replay.settled.len() - 270..], tail);
}

#[test]
fn progress_wrapping_repainting_and_a_prompt_replay_to_the_screen() {
    let server = TmuxServer::new();
    let program = "\
        for p in 10 20 30 40 50 60 70 80 90 100; do printf '\\rdone %s%%' $p; sleep 0.07; done; echo; \
        head -c 300 /dev/zero | tr '\\0' x; echo; \
        printf 'one\\ntwo\\nthree\\n'; sleep 0.3; printf '\\033[2A\\033[2KTWO\\n\\n'; sleep 0.3; \
        printf '漢字 wide é e\\314\\201 end\\n\\ttab\\n\\n\\n'; \
        printf 'Really? [y/N] '; sleep 0.5";
    let pane = server.new_session("paint", 70, 20, &waiting(program));
    server.wait_for_text(&pane, "ready");
    let mut observed = Observed::session(&server, "paint");
    observed.until_started(1);
    go(&server);
    let replay = until_replayed(&mut observed, &server, &pane);
    assert_eq!(replay.gaps, [], "{}", shown(&observed.seen));
    // Ten states of the bar, a rewritten line, a prompt: at most about two revisions for each change.
    assert!(replay.revisions <= 26, "{} revisions", replay.revisions);
    observed.stop();
    let settled: Vec<_> = observed.replay(&pane).settled;
    let mut numbers: Vec<i64> = settled.iter().map(|(number, _)| *number).collect();
    numbers.dedup();
    assert_eq!(numbers.len(), settled.len(), "each number once");
}

#[test]
fn a_full_screen_program_starts_and_ends() {
    let server = TmuxServer::new();
    let program = "echo before; printf '\\033[?1049h\\033[Hfull\\033[5;5Hscreen'; sleep 0.5; \
        printf '\\033[?1049l'; echo after";
    let pane = server.new_session("full", 60, 10, &waiting(program));
    server.wait_for_text(&pane, "ready");
    let mut observed = Observed::session(&server, "full");
    observed.until_started(1);
    go(&server);
    observed.until_line("after");
    observed.stop();
    assert_eq!(observed.replay(&pane).texts(), ["before", "after"]);
    let rows: Vec<String> = observed
        .seen
        .iter()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::ScreenUpdate { rows, .. } => Some(rows),
            _ => None,
        })
        .flatten()
        .map(|row| format!("{} {}", row.row, row.text))
        .collect();
    assert!(rows.contains(&"0 full".to_owned()), "{rows:?}");
    assert!(rows.contains(&"4     screen".to_owned()), "{rows:?}");
}

#[test]
fn clearing_continues_the_line_numbers_and_is_reported() {
    let server = TmuxServer::new();
    let program = "seq 1 40; sleep 0.4; clear; sleep 0.3; seq 41 60; sleep 0.3; \
        printf '\\033[2J\\033[H'; seq 61 70; sleep 0.3; tmux clear-history; seq 71 80";
    let pane = server.new_session("clear", 60, 10, &waiting(program));
    server.wait_for_text(&pane, "ready");
    let mut observed = Observed::session(&server, "clear");
    observed.until_started(1);
    go(&server);
    observed.until_line("80");
    observed.stop();
    let replay = observed.replay(&pane);
    let mut numbers: Vec<u32> = Vec::new();
    for text in replay.texts() {
        numbers.extend(text.parse::<u32>());
    }
    assert!(
        replay
            .gaps
            .iter()
            .all(|(_, _, reason, _)| reason == "cleared"),
        "{replay:?}"
    );
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted, numbers, "in order, none twice");
    assert!(numbers.len() >= 75, "{numbers:?}");
}

#[test]
fn resizing_during_output_loses_and_repeats_nothing_silently() {
    let server = TmuxServer::new();
    let program =
        "i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo \"line $i of some text\"; sleep 0.01; done";
    let pane = server.new_session("size", 80, 24, &waiting(program));
    server.wait_for_text(&pane, "ready");
    let mut observed = Observed::session(&server, "size");
    observed.until_started(1);
    server.tmux(&["wait-for", "-S", "go"]);
    for (width, height) in [
        (60, 24),
        (100, 24),
        (100, 10),
        (30, 12),
        (80, 40),
        (12, 24),
        (80, 24),
    ] {
        observed.until("some lines", {
            let before = observed.replay(&pane).settled.len();
            let pane = pane.clone();
            move |seen| Replay::of(seen, &pane).settled.len() >= before + 20
        });
        let (width, height) = (width.to_string(), height.to_string());
        server.tmux(&["resize-window", "-t", "size", "-x", &width, "-y", &height]);
    }
    observed.until_line("line 300 of some text");
    observed.stop();
    let replay = observed.replay(&pane);
    let mut last = 0;
    for (at, (_, text)) in replay.settled.iter().enumerate() {
        let number: i64 = text.split(' ').nth(1).unwrap_or("0").parse().unwrap_or(0);
        let announced = replay.gaps.iter().any(|gap| gap.3 == at);
        assert!(
            number == last + 1 || announced,
            "{last} {text:?} {:?}",
            replay.gaps
        );
        last = number;
    }
}

#[test]
fn a_session_is_followed_from_its_start_through_a_rename_to_its_end() {
    let server = TmuxServer::new();
    server.new_session("keeper", 40, 5, "exec cat");
    let mut observed = Observed::all(&server);
    observed.until_started(1);
    let pane = server.new_session(
        "young",
        40,
        5,
        "echo first; tmux wait-for go; echo last; exec cat",
    );
    observed.until_line("first");
    server.tmux(&["rename-session", "-t", "=young", "old"]);
    observed.until("the new name", |seen| {
        seen.iter().any(|envelope| {
            matches!(&envelope.event, TdEvent::SessionRenamed { from, to, .. } if from == "young" && to == "old")
        })
    });
    server.tmux(&["wait-for", "-S", "go"]);
    observed.until_line("last");
    server.tmux(&["kill-session", "-t", "=old"]);
    observed.until("its end", |seen| {
        seen.iter().any(|envelope| {
            matches!(&envelope.event, TdEvent::SessionEnded { session, reason, .. } if session == "old" && reason.as_str() == "closed")
        })
    });
    let replay = observed.replay(&pane);
    assert_eq!(replay.texts(), ["first", "last"]);
    assert!(replay.complete);
    // The pane ends before the session, all in one run.
    let mut log = observed.seen.iter().rev();
    let last = log
        .find(|e| e.event.execution_id().starts_with("young@"))
        .unwrap();
    assert!(matches!(last.event, TdEvent::SessionEnded { .. }));
    observed.stop();
}

#[test]
fn an_exit_status_is_reported_and_a_respawned_pane_continues_its_line_numbers() {
    let server = TmuxServer::new();
    server.new_session("other", 40, 8, "exec cat");
    server.script("set-option -g remain-on-exit on");
    let pane = server.new_session(
        "exit",
        40,
        8,
        "echo one; tmux wait-for go; echo two; exit 3",
    );
    server.wait_for_text(&pane, "one");
    let mut observed = Observed::session(&server, "exit");
    observed.until_started(1);
    server.tmux(&["wait-for", "-S", "go"]);
    observed.until("the exit status", |seen| {
        server.reap();
        seen.iter().any(|envelope| {
            matches!(
                envelope.event,
                TdEvent::OutputUpdate {
                    is_complete: true,
                    exit_status: Some(3),
                    ..
                }
            )
        })
    });
    assert_eq!(observed.replay(&pane).texts(), ["two"]);
    server.tmux(&["respawn-pane", "-t", &pane, "echo three; exec cat"]);
    observed.until_line("three");
    observed.stop();
    let replay = observed.replay(&pane);
    assert_eq!(replay.texts(), ["two", "three"]);
    assert!(replay.settled[1].0 > replay.settled[0].0);
}

#[test]
fn a_restarted_observer_continues_the_same_run() {
    let server = TmuxServer::new();
    let program = "seq 1 30; tmux wait-for -S half; tmux wait-for more; seq 31 60; tmux wait-for -S most; \
        tmux wait-for rest; seq 61 90; exec cat";
    let pane = server.new_session(
        "back",
        60,
        10,
        &format!("printf 'ready\\n'; tmux wait-for go; {program}"),
    );
    server.wait_for_text(&pane, "ready");
    let mut observed = Observed::session(&server, "back");
    observed.until_started(1);
    server.tmux(&["wait-for", "-S", "go"]);
    server.tmux(&["wait-for", "half"]);
    observed.until_line("30");
    observed.stop();
    // Unobserved, and renamed.
    server.tmux(&["wait-for", "-S", "more"]);
    server.tmux(&["wait-for", "most"]);
    server.tmux(&["rename-session", "-t", "=back", "renamed"]);
    let mut again = Observed::session(&server, "renamed");
    again.until_started(1);
    server.tmux(&["wait-for", "-S", "rest"]);
    again.until_line("90");
    again.stop();
    let logs = again.logs();
    assert_eq!(logs.len(), 1, "one run: {:?}", logs.keys());
    let replay = Replay::of(logs.values().next().unwrap(), &pane);
    let want: Vec<String> = (1..=90).map(|n: i32| n.to_string()).collect();
    assert_eq!(replay.gaps, []);
    assert_eq!(replay.texts(), want);
}

/// One call suffices, also for lines that would wait a tick for a change, and for a prompt without an end.
#[test]
fn an_immediate_poll_delivers_what_stands_on_the_screen() {
    let server = TmuxServer::new();
    let program = "printf 'ready\n'; tmux wait-for go; printf 'one\ntwo\nname? '; \
        tmux wait-for -S printed; exec cat";
    let pane = server.new_session("poke", 40, 9, program);
    server.wait_for_text(&pane, "ready");
    let mut observed = Observed::start(&server, |watch| watch.interval(Duration::from_secs(3600)));
    observed.until_started(1);
    server.tmux(&["wait-for", "-S", "go"]);
    server.tmux(&["wait-for", "printed"]);
    server.wait_for_text(&pane, "name?");
    observed.engine().poll_now();
    observed.until("the lines and the prompt", |seen| {
        let replay = Replay::of(seen, &pane);
        replay.texts() == ["one", "two"]
            && replay
                .lines
                .values()
                .next_back()
                .is_some_and(|text| text.starts_with("name?"))
    });
    observed.stop();
}

#[test]
fn a_session_with_the_name_of_an_id_is_not_mistaken() {
    let server = TmuxServer::new();
    let other = server.new_session("other", 40, 9, "exec cat");
    let window = server.tmux(&["display-message", "-p", "-t", &other, "#{window_id}"]);
    let window = window.trim();
    let named = server.new_session("x", 40, 9, "exec cat");
    server.tmux(&["rename-session", "-t", "=x", window]);
    let id = server.tmux(&["display-message", "-p", "-t", &named, "#{session_id}"]);
    let mut observed = Observed::session(&server, window);
    server.tmux(&["rename-session", "-t", id.trim(), "y"]);
    observed.until("the window, once no session has its id as name", |seen| {
        let opened =
            |event: &TdEvent| matches!(event, TdEvent::PaneOpened { pane, .. } if *pane == *other);
        seen.iter().any(|envelope| opened(&envelope.event))
    });
    observed.stop();
    assert!(
        observed
            .seen
            .iter()
            .all(|e| e.event.pane().is_none_or(|pane| *pane != *named))
    );
}

#[test]
fn each_session_has_one_poller_and_an_immediate_capture_on_request() {
    let server = TmuxServer::new();
    let pane = server.new_session("pollers", 40, 12, "exec cat");
    // Its panes have the same poller.
    server.tmux(&["split-window", "-t", "=pollers:", "exec cat"]);
    server.tmux(&["new-window", "-d", "-t", "=pollers:", "exec cat"]);
    let mut observed = Observed::start(&server, |watch| watch.interval(Duration::from_secs(3600)));
    observed.until_started(1);
    // No other test has a session of this name in this process.
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    assert_eq!(names.filter(|name| name.trim() == "td-pollers").count(), 1);
    server.tmux(&["send-keys", "-t", &pane, "typed", "Enter"]);
    server.wait_for_text(&pane, "typed\ntyped");
    wait_for("the typed line", CEILING, || {
        observed.engine().poll_now();
        observed.take_ready();
        let seen = observed.replay(&pane).settled.len();
        if seen >= 1 { Ok(()) } else { Err(seen) }
    });
    observed.stop();
}
