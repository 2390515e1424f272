//! Pipes that other programs hold, take or break: events report it, observation continues, and nothing is
//! left behind.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Signal, kill_process};
use td_observe::TdEvent;
use td_observe::tmux::DrainProgram;

use super::{by_bytes, drains, piped, streamed, wait_until_drains_are_gone, wait_until_streamed};
use crate::cli::program;
use crate::faults::watcher::Watcher;
use crate::faults::{Counted, Counting, end_of, of_run, runs_of, warnings};
use crate::observed::{Observed, Replay, shown};
use crate::support::{CEILING, TmuxServer, wait_for};

/// A pane that prints numbered lines.
fn counting(server: &TmuxServer) -> (Counting, String) {
    let program = Counting::new(server, "program", "0.005");
    let pane = server.new_session("counting", 60, 12, &program.command());
    (program, pane)
}

/// Waits until the lines printed so far are reported, and some more.
#[track_caller]
fn more(observed: &mut Observed, program: &Counting) {
    let printed = program.until_more(20);
    observed.until_line(&format!("line {printed}."));
}

/// Ends the program and checks that each of its lines is reported once or covered by a gap.
#[track_caller]
fn whole(observed: &mut Observed, program: &Counting, pane: &str) -> Counted {
    program.end();
    observed.until_line("the end");
    observed.stop();
    let counted = Counted::of(&observed.replay(pane), &["the end"]);
    assert_eq!(
        counted.settled.end,
        program.printed() + 1,
        "{}",
        shown(&observed.seen)
    );
    counted
}

#[test]
fn a_killed_drain_is_replaced_without_losing_the_position() {
    let server = TmuxServer::new();
    let (program, pane) = counting(&server);
    let mut observed = streamed(&server);
    observed.until_started(1);
    let mut killed = Vec::new();
    for _ in 0..5 {
        let drain = wait_for("another drain", CEILING, || {
            let drains = drains(&server);
            match drains[..] {
                [one] if !killed.contains(&one) => Ok(one),
                _ => Err(drains),
            }
        });
        more(&mut observed, &program);
        kill_process(drain, Signal::KILL).unwrap();
        killed.push(drain);
        more(&mut observed, &program);
    }
    let counted = whole(&mut observed, &program, &pane);
    assert_eq!(counted.missing, [], "2000 lines of history had all of it");
    assert_eq!(warnings(&observed.seen), 5);
    wait_until_drains_are_gone(&server);
}

#[test]
fn the_pipe_of_another_program_is_never_touched() {
    let server = TmuxServer::new();
    let (program, pane) = counting(&server);
    let theirs = server.directory().join("theirs");
    let pipe = format!("exec cat >> '{}'", theirs.display());
    server.tmux(&["pipe-pane", "-t", &pane, &pipe]);
    let mut observed = streamed(&server);
    observed.until_started(1);
    more(&mut observed, &program);
    assert!(drains(&server).is_empty());
    assert_eq!(piped(&server), "1");
    assert_eq!(warnings(&observed.seen), 1, "{}", shown(&observed.seen));
    // The other program's pipe ends, and is opened again.
    server.tmux(&["pipe-pane", "-t", &pane]);
    more(&mut observed, &program);
    assert_eq!(piped(&server), "0", "it is left alone");
    let before = fs::metadata(&theirs).unwrap().len();
    server.tmux(&["pipe-pane", "-t", &pane, &pipe]);
    more(&mut observed, &program);
    assert!(drains(&server).is_empty());
    whole(&mut observed, &program, &pane);
    // It is still open at the end.
    assert_eq!(piped(&server), "1");
    wait_for("lines of theirs", CEILING, || {
        let now = fs::metadata(&theirs).unwrap().len();
        if now > before { Ok(()) } else { Err(now) }
    });
    let counted = Counted::of(&observed.replay(&pane), &["the end"]);
    assert_eq!(counted.missing, [], "a slow pane: looks have all of it");
}

#[test]
fn a_respawned_pane_continues() {
    let server = TmuxServer::new();
    let pane = server.new_session("again", 60, 12, "echo first; exec cat");
    server.wait_for_text(&pane, "first");
    let mut observed = streamed(&server);
    observed.until_started(1);
    wait_until_streamed(&server, 1);
    for round in 0..3 {
        let command = format!("seq 1 2000; echo round {round}; exec cat");
        server.tmux(&["respawn-pane", "-k", "-t", &pane, &command]);
        observed.until_line(&format!("round {round}"));
        server.wait_for_text(&pane, &format!("round {round}"));
        // Wait for the gap before the next respawn.
        observed.until("the gap of the erased screen", |seen| {
            Replay::of(seen, &pane).gaps.len() > round
        });
    }
    observed.stop();
    let replay = observed.replay(&pane);
    assert!(
        replay.gaps.iter().all(|gap| gap.2 == "cleared"),
        "{:?}",
        replay.gaps
    );
    let twos = replay
        .texts()
        .iter()
        .filter(|text| **text == "1999")
        .count();
    assert_eq!(twos, 3, "{}", shown(&observed.seen));
    wait_until_drains_are_gone(&server);
}

#[test]
fn the_end_of_a_program_has_all_output_that_tmux_read() {
    let server = TmuxServer::new();
    server.new_session("keeper", 60, 12, "exec cat");
    for _ in 0..5 {
        let pane = server.new_session("short", 60, 12, "tmux wait-for go; seq 1 30000; exit 3");
        let mut observed = Observed::start(&server, |watch| {
            by_bytes(watch).target(td_observe::tmux::Target::parse("short").unwrap())
        });
        observed.until_started(1);
        server.tmux(&["wait-for", "-S", "go"]);
        observed.until("the session's end", |seen| {
            seen.iter()
                .any(|e| matches!(e.event, TdEvent::SessionEnded { .. }))
        });
        observed.stop();
        let replay = observed.replay(&pane);
        let settled = replay.settled.len();
        // tmux does not always read the output just before a program's end: the last line may be cut.
        let is_printed = |(number, text): (usize, &str)| {
            let printed = number.to_string();
            text == printed || number == settled && settled < 30_000 && printed.starts_with(text)
        };
        assert!((1..).zip(replay.texts()).all(is_printed), "{settled}");
        let reasons: Vec<&str> = (replay.gaps.iter())
            .map(|(_, _, reason, _)| reason.as_str())
            .collect();
        assert_eq!(reasons, ["closed"], "tmux may not have read the last lines");
        assert_eq!(replay.confirmed, 0, "the drain read all that tmux had");
        assert!(replay.complete);
    }
    wait_until_drains_are_gone(&server);
}

#[test]
fn a_remaining_dead_pane_is_complete_with_its_status() {
    let server = TmuxServer::new();
    let pane = server.new_session("kept", 60, 12, "tmux wait-for go; seq 1 5000; exit 3");
    server.script("set-option -g remain-on-exit on");
    let mut observed = streamed(&server);
    observed.until_started(1);
    server.tmux(&["wait-for", "-S", "go"]);
    observed.until("the program's end", |seen| {
        seen.iter().any(|e| {
            matches!(
                e.event,
                TdEvent::OutputUpdate {
                    is_complete: true,
                    exit_status: Some(3),
                    ..
                }
            )
        })
    });
    // tmux does not always read the output just before a program's end.
    let screen = server.screen(&pane);
    let numbers = screen
        .lines()
        .filter_map(|line| line.trim().parse::<usize>().ok());
    let read = numbers.max().unwrap();
    server.tmux(&["respawn-pane", "-t", &pane, "echo again; exec cat"]);
    observed.until_line("again");
    observed.stop();
    let replay = observed.replay(&pane);
    let all = replay
        .texts()
        .iter()
        .filter(|text| text.parse::<u32>().is_ok())
        .count();
    // The last line may follow text that tmux itself writes there.
    assert!((read..=5000).contains(&all), "{all} of {read}");
    let shows = server.joined(&pane, &[]);
    assert!(
        replay.text().ends_with(shows.trim_end()),
        "{:?} for {shows:?}",
        replay.text()
    );
}

#[test]
fn a_server_that_is_killed_ends_its_drains() {
    let server = TmuxServer::new();
    let (program, pane) = counting(&server);
    let mut observed = streamed(&server);
    observed.until_started(1);
    more(&mut observed, &program);
    let drains = drains(&server);
    assert_eq!(drains.len(), 1);
    server.will_be_killed();
    kill_process(server.pid(), Signal::KILL).unwrap();
    observed.until("the session's end", |seen| {
        seen.iter()
            .any(|e| matches!(e.event, TdEvent::SessionEnded { .. }))
    });
    observed.stop();
    let run = of_run(&observed.seen, &runs_of(&observed.seen, "counting")[0]);
    assert_eq!(end_of(&run), "server_gone");
    Counted::of(&observed.replay(&pane), &[]);
    wait_for(
        "the drain's end",
        CEILING,
        || match rustix::process::test_kill_process(drains[0]) {
            Err(_) => Ok(()),
            Ok(()) => Err(drains[0]),
        },
    );
}

#[test]
fn a_killed_observer_leaves_nothing_and_the_next_one_finds_its_position() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let (program, pane) = counting(&server);
    let places = tempfile::tempdir().unwrap();
    let socket = server.socket().display().to_string();
    let mut seen = Vec::new();
    for round in 0..4 {
        let args = ["-S", &socket, "watch", "--json", "--source", "stream"];
        let mut command = program_in(&args, data.path());
        command.env("TMPDIR", places.path());
        let mut watch = Watcher::of(command);
        watch.until_started("counting", 1);
        let printed = program.until_more(20);
        watch.until_line("counting", &format!("line {printed}."));
        if round < 3 {
            kill_process(watch.pid(), Signal::KILL).unwrap();
            seen.extend(watch.killed());
            wait_until_drains_are_gone(&server);
        } else {
            program.end();
            watch.until_line("counting", "the end");
            seen.extend(watch.stop());
        }
        let left: Vec<_> = fs::read_dir(places.path()).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
    // The logs of all four observers together have each line once, or gaps in their place.
    let log = crate::observed::logs(data.path())
        .into_values()
        .next()
        .unwrap();
    let counted = Counted::of(&Replay::of(&log, &pane), &["the end"]);
    assert_eq!(counted.settled.end, program.printed() + 1);
    wait_until_drains_are_gone(&server);
}

fn program_in(args: &[&str], data: &std::path::Path) -> std::process::Command {
    program(args, data)
}

#[test]
fn a_drain_starts_from_any_path() {
    let directory = tempfile::tempdir().unwrap();
    let odd = directory.path().join(std::ffi::OsStr::from_bytes(
        b"#S %Y ' \" $HOME \\ ;{}\n\xff ~#{pane_id}",
    ));
    fs::create_dir(&odd).unwrap();
    let drain = odd.join("#(touch x)'%H");
    fs::copy(env!("CARGO_BIN_EXE_td-observe"), &drain).unwrap();
    let server = TmuxServer::new();
    let (program, pane) = counting(&server);
    let mut observed = Observed::start(&server, |watch| watch.stream(DrainProgram::at(&drain)));
    observed.until_started(1);
    wait_until_streamed(&server, 1);
    more(&mut observed, &program);
    assert_eq!(whole(&mut observed, &program, &pane).missing, []);
}

#[test]
fn without_a_drain_a_pane_is_polled() {
    let server = TmuxServer::new();
    let (program, pane) = counting(&server);
    let nowhere = DrainProgram::at("/nonexistent/td-observe");
    let mut observed = Observed::start(&server, |watch| watch.stream(nowhere));
    observed.until_started(1);
    more(&mut observed, &program);
    assert_eq!(whole(&mut observed, &program, &pane).missing, []);
    assert!(warnings(&observed.seen) >= 1, "{}", shown(&observed.seen));
    wait_until_drains_are_gone(&server);
}

#[test]
fn a_program_that_ends_before_its_drain_connects_has_its_end_and_no_silent_gap() {
    let server = TmuxServer::new();
    server.new_session("keeper", 60, 12, "exec cat");
    let nowhere = DrainProgram::at("/nonexistent/td-observe");
    let mut observed = Observed::start(&server, |watch| watch.stream(nowhere));
    observed.until_started(1);
    let tmux = format!("tmux -S '{}'", server.socket().display());
    let program = format!("echo hello; {tmux} wait-for go; echo bye");
    let pane = server.new_session("short", 60, 12, &program);
    observed.until_line("hello");
    server.tmux(&["wait-for", "-S", "go"]);
    observed.until("the end of the session", |seen| {
        seen.iter().any(|envelope| {
            matches!(&envelope.event, TdEvent::SessionEnded { session, .. } if session == "short")
        })
    });
    let replay = observed.replay(&pane);
    let lines = replay.texts();
    assert!(
        lines.contains(&"bye") || !replay.gaps.is_empty(),
        "{}",
        shown(&observed.seen)
    );
    observed.stop();
}

#[test]
fn a_recording_marks_where_a_drain_was_killed() {
    let (server, data) = (TmuxServer::new(), tempfile::tempdir().unwrap());
    let (program, _) = counting(&server);
    let socket = server.socket().display().to_string();
    let args = [
        "-S", &socket, "watch", "--json", "--source", "stream", "--raw",
    ];
    let mut watch = Watcher::of(program_in(&args, data.path()));
    watch.until_started("counting", 1);
    let drain = wait_until_streamed(&server, 1)[0];
    let printed = program.until_more(20);
    watch.until_line("counting", &format!("line {printed}."));
    kill_process(drain, Signal::KILL).unwrap();
    wait_for("another drain", CEILING, || match drains(&server)[..] {
        [one] if one != drain => Ok(()),
        ref drains => Err(drains.to_vec()),
    });
    let printed = program.until_more(20);
    watch.until_line("counting", &format!("line {printed}."));
    program.end();
    watch.until_line("counting", "the end");
    watch.stop();
    let raw = fs::read_dir(data.path().join("runs"))
        .unwrap()
        .flatten()
        .next()
        .unwrap();
    let recordings = fs::read_dir(raw.path().join("raw")).unwrap().flatten();
    let recordings: String = recordings
        .map(|recording| fs::read_to_string(recording.path()).unwrap())
        .collect();
    let markers = recordings
        .lines()
        .filter(|line| line.contains(r#"something is missing here"#));
    assert_eq!(markers.count(), 1, "{recordings}");
}
