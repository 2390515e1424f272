//! Sessions and panes that are renamed, killed, respawned and resized while they print.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use td_observe::TdEvent;

use super::{Counted, Counting, end_of, runs_of};
use crate::observed::{Observed, Replay, shown};
use crate::support::{CEILING, TmuxServer, wait_for};

#[test]
fn a_session_renamed_repeatedly_while_printing_stays_one_run_and_loses_nothing() {
    let server = TmuxServer::new();
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("name-0", 60, 10, &program.command());
    let mut observed = Observed::session(&server, "$0");
    observed.until_started(1);
    for n in 1..=12 {
        program.until_more(4);
        server.tmux(&["rename-session", "-t", "$0", &format!("name-{n}")]);
    }
    program.until_more(4);
    program.end();
    observed.until_line("the end");
    observed.stop();
    let runs = runs_of(&observed.seen, "name-0");
    assert_eq!(runs.len(), 1);
    assert_eq!(observed.logs().len(), 1);
    // Names between two captures may be missed, but each reported rename continues from the previous one.
    let mut name = "name-0".to_owned();
    for envelope in &observed.seen {
        if let TdEvent::SessionRenamed { from, to, .. } = &envelope.event {
            assert_eq!(from, &name);
            name = to.clone();
        }
    }
    assert_eq!(name, "name-12");
    whole(&observed, &pane, &program);
}

/// Checks that every line of a program was reported, from some line on.
#[track_caller]
fn whole(observed: &Observed, pane: &str, program: &Counting) {
    let counted = Counted::of(&observed.replay(pane), &["the end"]);
    assert_eq!(counted.missing, [], "{}", shown(&observed.seen));
    assert_eq!(counted.settled.end, program.printed() + 1);
}

#[test]
fn a_pane_killed_while_printing_ends_with_the_captured_lines_and_a_gap() {
    let server = TmuxServer::new();
    server.new_session("keeper", 40, 5, "exec cat");
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("killed", 60, 10, &program.command());
    let mut observed = Observed::session(&server, "killed");
    observed.until_started(1);
    let printed = program.until_more(30);
    observed.until_line(&format!("line {printed}."));
    server.tmux(&["kill-session", "-t", "=killed"]);
    observed.until("its end", |seen| {
        seen.iter()
            .any(|envelope| matches!(envelope.event, TdEvent::SessionEnded { .. }))
    });
    observed.stop();
    assert_eq!(end_of(&observed.seen), "closed");
    let replay = observed.replay(&pane);
    let counted = Counted::of(&replay, &[]);
    assert_eq!(counted.missing, []);
    let all = counted.settled.end > program.printed();
    assert!(all || counted.open_end, "{replay:?}");
    assert!(replay.complete);
}

#[test]
fn a_pane_respawned_while_printing_continues_its_numbers_and_reports_wiped_lines() {
    let server = TmuxServer::new();
    // Taller than the output between two captures, so that it does not scroll off the screen.
    let first = Counting::new(&server, "first", "0.02");
    let pane = server.new_session("again", 60, 60, &first.command());
    let mut observed = Observed::session(&server, "again");
    observed.until_started(1);
    let printed = first.until_more(70);
    observed.until_line(&format!("line {printed}."));
    let second = Counting::new(&server, "second", "0.01");
    let command = format!("echo respawned; {}", second.command());
    server.tmux(&["respawn-pane", "-k", "-t", &pane, &command]);
    second.until_more(10);
    second.end();
    observed.until_line("the end");
    observed.stop();
    let replay = observed.replay(&pane);
    let at = replay.texts().iter().position(|text| *text == "respawned");
    let at = at.unwrap_or_else(|| panic!("{}", shown(&observed.seen)));
    let before = Counted::of(&part(&replay, 0..at), &[]);
    let all = before.settled.end > first.printed();
    let announced = replay.gaps.iter().any(|gap| gap.3 <= at);
    assert!(all || announced, "{} printed: {replay:?}", first.printed());
    let after = Counted::of(&part(&replay, at + 1..replay.settled.len()), &["the end"]);
    assert_eq!(
        (after.settled, after.missing),
        (1..second.printed() + 1, vec![])
    );
}

/// Returns the part of a replay with these settled lines.
fn part(replay: &Replay, range: std::ops::Range<usize>) -> Replay {
    let gaps = replay.gaps.iter().filter(|gap| range.contains(&gap.3));
    let moved = |gap: &(i64, Option<u64>, String, usize)| {
        let (number, count, reason, at) = gap.clone();
        (number, count, reason, at - range.start)
    };
    Replay {
        settled: replay.settled[range.clone()].to_vec(),
        gaps: gaps.map(moved).collect(),
        ..Replay::default()
    }
}

#[test]
fn resizing_ten_times_a_second_neither_repeats_nor_hides_lines() {
    let server = TmuxServer::new();
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("width", 80, 24, &program.command());
    let mut observed = Observed::session(&server, "width");
    observed.until_started(1);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut widths = [7, 120, 31, 80, 5, 66].iter().cycle();
            while !stop.load(Ordering::Relaxed) {
                let width = widths.next().unwrap().to_string();
                server.tmux(&["resize-window", "-t", "width", "-x", &width]);
                let began = Instant::now();
                wait_for("the next tenth of a second", CEILING, || {
                    let passed = began.elapsed();
                    if passed >= Duration::from_millis(100) {
                        Ok(())
                    } else {
                        Err(passed)
                    }
                });
            }
        });
        program.until_more(250);
        stop.store(true, Ordering::Relaxed);
    });
    program.end();
    observed.until_line("the end");
    observed.stop();
    let replay = observed.replay(&pane);
    let counted = Counted::of(&replay, &["the end"]);
    assert_eq!(counted.settled.end, program.printed() + 1);
    let resized = observed
        .seen
        .iter()
        .filter(|envelope| matches!(envelope.event, TdEvent::PaneResized { .. }))
        .count();
    assert!(resized >= 10, "{resized} widths were seen");
    eprintln!(
        "{resized} widths, holes {:?}, gaps {:?}",
        counted.missing, replay.gaps
    );
}
