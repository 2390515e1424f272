//! Lines that are longer than any screen: each character is reported once, streamed or polled.

use std::fmt::Write as _;
use std::fs;

use td_observe::tmux::{DrainProgram, PollSchedule, Target};

use crate::observed::{Observed, Replay, shown};
use crate::support::{CEILING, Dice, TmuxServer, wait_for};

/// One long line under observation.
#[derive(Clone, Copy, Debug)]
struct Case {
    bytes: usize,
    has_end: bool,
    resizes: bool,
    /// The program rests before the line ends, so that the screen is compared.
    pauses: bool,
    history_limit: u32,
    is_streamed: bool,
    /// The line is a repetition of one character, so that no text shows a position.
    is_uniform: bool,
}

/// Returns a line of this length. Unless it is uniform, it consists of ascending numbers.
fn line(case: Case) -> String {
    let mut line = String::with_capacity(case.bytes + 9);
    if case.is_uniform {
        return "x".repeat(case.bytes);
    }
    for number in 0.. {
        if line.len() >= case.bytes {
            break;
        }
        write!(line, "{number:07}-").unwrap();
    }
    line.truncate(case.bytes);
    line
}

/// Observes the line, and returns the replay of the pane.
#[track_caller]
fn observe(case: Case) -> (String, Replay) {
    let server = TmuxServer::new();
    server.new_session("keeper", 40, 5, "exec cat");
    server.script(&format!(
        "set-option -g history-limit {}",
        case.history_limit
    ));
    let line = line(case);
    let mut script = String::from("printf 'ready\\n'; tmux wait-for go\n");
    let parts = if case.resizes { 12 } else { 1 };
    let bytes = line.as_bytes();
    for (at, part) in bytes.chunks(bytes.len().div_ceil(parts)).enumerate() {
        fs::write(server.directory().join(format!("part{at}")), part).unwrap();
        writeln!(script, "cat part{at}").unwrap();
        if case.resizes {
            writeln!(script, "tmux wait-for -S printed; tmux wait-for more").unwrap();
        }
    }
    if case.pauses {
        // Longer than a routine comparison with the screen takes to come.
        script.push_str("sleep 4\n");
    }
    if case.has_end {
        script.push_str("printf '\\nthe end\\n'\n");
    }
    script.push_str("tmux wait-for -S done; exec cat\n");
    fs::write(server.directory().join("program"), script).unwrap();
    let program = format!("cd '{}' && exec sh program", server.directory().display());
    let pane = server.new_session("long", 80, 24, &program);
    server.wait_for_text(&pane, "ready");
    let mut observed = Observed::start(&server, |watch| {
        let watch = watch.target(Target::parse("long").unwrap());
        if case.is_streamed {
            let drain = DrainProgram::at(env!("CARGO_BIN_EXE_td-observe"));
            watch.schedule(PollSchedule::default()).stream(drain)
        } else {
            watch
        }
    });
    observed.until_started(1);
    server.tmux(&["wait-for", "-S", "go"]);
    if case.resizes {
        let mut dice = Dice(case.bytes as u64 + 3);
        for _ in 0..parts.min(bytes.len()) {
            server.tmux(&["wait-for", "printed"]);
            let [width, height] = [20 + dice.roll(100), 3 + dice.roll(40)].map(|n| n.to_string());
            server.tmux(&["resize-window", "-t", "long", "-x", &width, "-y", &height]);
            let resized = (width.parse().unwrap(), height.parse().unwrap());
            observed.until("the resize", |seen| {
                seen.iter().any(|e| size_of(e) == Some(resized))
            });
            server.tmux(&["wait-for", "-S", "more"]);
        }
    }
    server.tmux(&["wait-for", "done"]);
    if case.resizes && !case.is_streamed {
        // What stands in a pane whose lines are not found after a resize is not reported again.
        observed.until("the end, or a gap", |seen| {
            let replay = Replay::of(seen, &pane);
            let last = replay.lines.values().next_back();
            let is_end = |text: &String| {
                if case.has_end {
                    text == "the end"
                } else {
                    text.len() >= case.bytes
                }
            };
            !replay.gaps.is_empty() || last.is_some_and(is_end)
        });
    } else if case.has_end {
        observed.until_line("the end");
    } else {
        let screen = server.screen(&pane);
        let last = screen
            .trim_end()
            .lines()
            .last()
            .unwrap_or_default()
            .to_owned();
        wait_for("the end of the line", CEILING, || {
            observed.take_ready();
            let replay = observed.replay(&pane);
            let length: usize = replay.lines.values().map(String::len).sum();
            let is_whole = !case.is_streamed || length >= case.bytes;
            let end = is_whole
                && replay
                    .lines
                    .values()
                    .next_back()
                    .is_some_and(|text| text.ends_with(&last));
            if end { Ok(()) } else { Err(last.clone()) }
        });
    }
    observed.stop();
    if std::env::var_os("TD_SHOW").is_some() {
        eprintln!("{}", shown(&observed.seen));
    }
    (line, observed.replay(&pane))
}

fn size_of(envelope: &td_observe::Envelope) -> Option<(u32, u32)> {
    match &envelope.event {
        td_observe::TdEvent::PaneResized { width, height, .. } => Some((*width, *height)),
        _ => None,
    }
}

/// Returns what the replay lacks or has too much, in a few words; empty if all is well.
fn fault(case: Case) -> String {
    let (line, replay) = observe(case);
    let lines: Vec<&str> = (replay.lines.range(1..))
        .map(|(_, text)| text.as_str())
        .collect();
    let expected = line.trim_end();
    let mut fault = String::new();
    let mut check = |what: &str, lines: &[&str]| {
        let lines = lines.strip_prefix(&["ready"]).unwrap_or(lines);
        let lines = lines.strip_suffix(&["the end"]).unwrap_or(lines);
        let text = lines.concat();
        let text = text.trim_end();
        if text == expected {
            return;
        }
        if !case.is_streamed && !replay.gaps.is_empty() {
            // Something may be missing, but nothing is there twice.
            if case.is_uniform && text.len() <= expected.len() {
                return;
            }
            // Each line may begin and end within a number.
            let numbers: Vec<usize> = (lines.iter().flat_map(|line| line.split('-')))
                .filter(|n| n.len() == 7)
                .filter_map(|n| n.parse().ok())
                .collect();
            if !case.is_uniform && numbers.is_sorted_by(|a, b| a < b) {
                return;
            }
        }
        write!(fault, "{what}: {} of {}; ", text.len(), expected.len()).unwrap();
    };
    check("replay", &lines);
    if case.has_end {
        check("settled", &replay.texts());
    }
    if case.is_streamed && !replay.gaps.is_empty() {
        write!(fault, "gaps {:?}", replay.gaps).unwrap();
    }
    eprintln!(
        "{case:?}: {} lines, {} revisions, gaps {:?}: {fault}",
        replay.lines.len(),
        replay.revisions,
        replay.gaps
    );
    fault
}

/// Observes all cases, some in parallel, and fails with the faults of all of them.
#[track_caller]
fn check(cases: &[Case]) {
    let faults: Vec<String> = std::thread::scope(|scope| {
        let mut faults = Vec::new();
        for some in cases.chunks(4) {
            let running: Vec<_> = some
                .iter()
                .map(|&case| (case, scope.spawn(move || fault(case))))
                .collect();
            for (case, running) in running {
                let fault = running.join().unwrap_or_else(|_| "panicked".to_owned());
                if !fault.is_empty() {
                    faults.push(format!("{case:?}: {fault}"));
                }
            }
        }
        faults
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Each size with each history, and half of the other combinations. `TD_LONG=1` observes all.
fn cases(is_streamed: bool, sizes: &[usize]) -> Vec<Case> {
    let all = std::env::var_os("TD_LONG").is_some();
    let mut cases = Vec::new();
    for (size, &bytes) in sizes.iter().enumerate() {
        for (limit, history_limit) in [0, 50, 2_000, 50_000].into_iter().enumerate() {
            for mode in 0..8_usize {
                let sum = mode.count_ones() as usize + size + limit;
                if !all && !sum.is_multiple_of(4) {
                    continue;
                }
                cases.push(Case {
                    bytes,
                    has_end: mode & 1 == 0,
                    resizes: mode & 2 != 0,
                    pauses: false,
                    is_uniform: mode & 4 == 0,
                    history_limit,
                    is_streamed,
                });
            }
        }
    }
    cases
}

#[test]
fn a_long_line_that_is_streamed_is_reported_once() {
    check(&cases(true, &[1 << 10, 66_000, 200_000, 1_000_000]));
}

#[test]
fn a_long_line_that_is_polled_is_reported_once() {
    check(&cases(false, &[1 << 10, 66_000, 200_000, 1_000_000]));
}

#[test]
fn ten_megabytes_without_an_end_are_one_line() {
    let case = Case {
        bytes: 10 << 20,
        has_end: false,
        resizes: false,
        pauses: false,
        history_limit: 50_000,
        is_streamed: true,
        is_uniform: false,
    };
    check(&[
        case,
        Case {
            is_streamed: false,
            history_limit: 2_000,
            ..case
        },
    ]);
}

/// While the line rests, its screen is compared with tmux's rows, which are joined over all pieces.
#[test]
fn a_long_line_at_rest_is_not_revised() {
    let case = |history_limit, is_uniform| Case {
        bytes: 1_000_000,
        has_end: true,
        resizes: false,
        pauses: true,
        history_limit,
        is_streamed: true,
        is_uniform,
    };
    check(&[
        case(2_000, true),
        case(50, true),
        case(50_000, false),
        case(0, false),
    ]);
}
