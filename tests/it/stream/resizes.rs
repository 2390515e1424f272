//! A window that is resized sixty times: no line is lost or repeated, whatever tmux does to its screen.

use std::fmt::Write as _;
use std::fs;

use td_observe::TdEvent;

use super::streamed;
use crate::observed::{Observed, shown};
use crate::support::{CEILING, Dice, TmuxServer, wait_for};

/// Resizes the window sixty times, each time after further output.
#[track_caller]
fn resize(server: &TmuxServer, observed: &mut Observed, dice: &mut Dice) {
    for _ in 0..60 {
        let (width, height) = (20 + dice.roll(100), 3 + dice.roll(40));
        let (width, height) = (width.to_string(), height.to_string());
        server.tmux(&[
            "resize-window",
            "-t",
            "resized",
            "-x",
            &width,
            "-y",
            &height,
        ]);
        let had = observed.seen.len();
        observed.until("something more", |seen| seen.len() > had);
    }
}

/// Writes a program that waits for a signal, prints these lines in groups of `at_a_time`, and signals its
/// end.
fn program(server: &TmuxServer, lines: &[String], at_a_time: usize, pause: &str) -> String {
    let mut script = String::from("tmux wait-for go\n");
    for (at, part) in lines.chunks(at_a_time).enumerate() {
        let file = format!("part{at}");
        fs::write(server.directory().join(&file), part.join("\n") + "\n").unwrap();
        writeln!(script, "cat {file}; {pause}").unwrap();
    }
    script.push_str("tmux wait-for resized; echo the end; exec cat\n");
    fs::write(server.directory().join("program"), script).unwrap();
    format!("cd '{}' && exec sh program", server.directory().display())
}

#[test]
fn resizes_during_a_flood_lose_nothing() {
    let server = TmuxServer::new();
    let lines: Vec<String> = (0..300_000)
        .map(|at| format!("{at}:{}", "x".repeat(at % 150)))
        .collect();
    let pane = server.new_session("resized", 80, 24, &program(&server, &lines, 2000, ":"));
    let mut observed = streamed(&server);
    observed.until_started(1);
    server.tmux(&["wait-for", "-S", "go"]);
    resize(&server, &mut observed, &mut Dice(7));
    server.tmux(&["wait-for", "-S", "resized"]);
    observed.until_line("the end");
    observed.stop();
    let replay = observed.replay(&pane);
    assert_eq!(replay.gaps, []);
    let texts = replay.texts();
    let (end, texts) = texts.split_last().unwrap();
    assert_eq!((*end, texts.len()), ("the end", lines.len()));
    let other = texts
        .iter()
        .zip(&lines)
        .position(|(texts, line)| texts != line);
    assert_eq!(other.map(|at| (texts[at], &lines[at])), None);
}

#[test]
fn resizes_at_a_few_lines_a_second_lose_nothing() {
    let server = TmuxServer::new();
    let lines: Vec<String> = (0..600)
        .map(|at| format!("{at}:{}", "words and words ".repeat(at % 17).trim_end()))
        .collect();
    let pane = server.new_session(
        "resized",
        80,
        24,
        &program(&server, &lines, 2, "sleep 0.03"),
    );
    let mut observed = streamed(&server);
    observed.until_started(1);
    server.tmux(&["wait-for", "-S", "go"]);
    resize(&server, &mut observed, &mut Dice(11));
    server.tmux(&["wait-for", "-S", "resized"]);
    observed.until_line("the end");
    wait_for("the same screen", CEILING, || {
        observed.take_ready();
        let screen = server.joined(&pane, &[]);
        let replayed = observed.replay(&pane).text();
        let last = |text: &str| text.trim_end().lines().last().map(str::to_owned);
        if last(&screen) == last(&replayed) {
            Ok(())
        } else {
            Err((screen, replayed))
        }
    });
    observed.stop();
    let replay = observed.replay(&pane);
    let (mut next, mut gaps) = (0, replay.gaps.iter().peekable());
    for (at, (_, text)) in replay.settled.iter().enumerate() {
        let mut has_gap = false;
        while let Some(gap) = gaps.next_if(|gap| gap.3 == at) {
            assert_eq!(gap.2, "resized");
            has_gap = true;
        }
        let Some(number) = text
            .split(':')
            .next()
            .and_then(|number| number.parse::<usize>().ok())
        else {
            continue;
        };
        let rest = || shown(&observed.seen);
        assert!(
            number == next || has_gap && number > next,
            "{number} for {next}: {}",
            rest()
        );
        assert_eq!(*text, lines[number]);
        next = number + 1;
    }
    assert_eq!(next, lines.len());
}

#[test]
fn a_pane_from_another_session_is_reported_with_its_new_size() {
    let server = TmuxServer::new();
    server.new_session("there", 60, 12, "exec cat");
    let pane = server.new_session("here", 60, 12, "exec cat");
    server.tmux(&["new-window", "-d", "-t", "here:", "exec cat"]);
    let mut observed = streamed(&server);
    observed.until_started(2);
    server.tmux(&["move-window", "-d", "-s", &pane, "-t", "there:"]);
    observed.until("the move", |seen| {
        let opened = seen.iter().filter(|envelope| match &envelope.event {
            TdEvent::PaneOpened { pane: opened, .. } => *opened == *pane,
            _ => false,
        });
        opened.count() == 2
    });
    server.tmux(&["resize-window", "-t", &pane, "-x", "70", "-y", "20"]);
    observed.until("its new size", |seen| {
        seen.iter().any(|envelope| {
            matches!(
                &envelope.event,
                TdEvent::PaneResized { pane: resized, width: 70, height: 20, .. } if *resized == *pane
            )
        })
    });
    observed.stop();
}
