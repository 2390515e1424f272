//! The law of pane output under random programs, on real tmux.
//!
//! `TD_LAW_SEEDS=200 cargo test --test it law::` tries more of them; a failure names its seed, and
//! `TD_LAW_FIRST=` begins there.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use td_observe::tmux::{DrainProgram, PollSchedule, Target};
use td_observe::{Envelope, TdEvent, Watch};

use crate::observed::{Observed, Replay, shown};
use crate::support::{Dice, TmuxServer};

impl Dice {
    fn text(&mut self) -> String {
        const WORDS: [&str; 8] = [
            "a",
            "漢字",
            "word",
            "x",
            "compile",
            "é",
            "[ok]",
            "longer words here",
        ];
        let words = self.roll(12);
        let mut text = String::new();
        for _ in 0..words {
            let word = WORDS[self.roll(8) as usize];
            write!(text, "{word}{}", ["", " "][self.roll(2) as usize]).unwrap();
        }
        text
    }
}

fn seeds(default: u64) -> impl Iterator<Item = u64> {
    let number = |name, or| {
        std::env::var(name)
            .ok()
            .and_then(|n| n.parse().ok())
            .unwrap_or(or)
    };
    let first: u64 = number("TD_LAW_FIRST", 1);
    first..first + number("TD_LAW_SEEDS", default)
}

/// By captures at a fixed interval, by captures on output, or by bytes.
fn source(seed: u64, watch: Watch) -> Watch {
    match seed % 3 {
        0 => watch.schedule(PollSchedule::Fixed(Duration::from_millis(50))),
        1 => watch,
        _ => watch.stream(DrainProgram::at(env!("CARGO_BIN_EXE_td-observe"))),
    }
}

/// Runs the same test with each seed, some in parallel.
fn each_seed(default: u64, run: fn(u64)) {
    let seeds: Vec<u64> = seeds(default).collect();
    for some in seeds.chunks(4) {
        std::thread::scope(|scope| {
            for &seed in some {
                scope.spawn(move || run(seed));
            }
        });
    }
}

/// Writes the steps of a program, one file each, and the script that runs them.
fn program(server: &TmuxServer, steps: &[String], pauses: &[u64]) -> String {
    let mut script = String::from("printf 'ready\\n'; tmux wait-for go\n");
    for (at, (step, pause)) in steps.iter().zip(pauses).enumerate() {
        fs::write(server.directory().join(format!("step{at}")), step).unwrap();
        writeln!(script, "cat step{at}; sleep 0.{pause:03}").unwrap();
    }
    script.push_str("printf 'the end\\n'; tmux wait-for -S done; exec cat\n");
    fs::write(server.directory().join("program"), script).unwrap();
    format!("cd '{}' && exec sh program", server.directory().display())
}

#[test]
fn any_program_replays_to_what_the_pane_shows() {
    each_seed(12, |seed| {
        let mut dice = Dice(seed);
        let (width, height) = (20 + dice.roll(60) as u32, 4 + dice.roll(20) as u32);
        let mut steps = Vec::new();
        // Until a full-screen program runs, tmux takes rows that scroll out of a region below the top for the
        // beginning of the line at the top; the bytes do not show this.
        let mut is_joined = false;
        for _ in 0..10 + dice.roll(20) {
            let mut step = String::new();
            for _ in 0..dice.roll(12) {
                let text = dice.text();
                let n = 1 + dice.roll(4);
                match dice.roll(22) {
                    0..=7 => writeln!(step, "{text}").unwrap(),
                    8 => step.push_str(&text),
                    9 => write!(step, "\r{text}").unwrap(),
                    10 => write!(step, "\x1b[{n}A").unwrap(),
                    11 => write!(step, "\x1b[{n}B").unwrap(),
                    12 => step.push_str("\r\x1b[2K"),
                    13 => step.push_str("\x1b[K"),
                    14 => step.push_str("\x1b[J"),
                    15 => write!(step, "\x1b[{n}C{text}").unwrap(),
                    16 => write!(step, "\t{text}\n\n").unwrap(),
                    17 => write!(step, "\x1b[{n}L").unwrap(),
                    18 => write!(step, "\x1b[{n}M").unwrap(),
                    19 if dice.roll(4) == 0 => step.push_str("\x1b[H\x1b[J"),
                    20 if dice.roll(4) == 0 => step.push_str("\x1b[H\x1b[2J\x1b[3J"),
                    21 if is_joined && seed % 3 == 2 => {}
                    21 => write!(step, "\x1b[?1049h{text}\x1b[?1049l").unwrap(),
                    _ => {
                        is_joined = true;
                        step.push_str("\x1b[3;9r\x1b[9;1H\n\n\x1b[r\x1b[99;1H");
                    }
                }
            }
            steps.push(step);
        }
        let pauses: Vec<u64> = steps.iter().map(|_| dice.roll(150)).collect();
        let server = TmuxServer::new();
        let pane = server.new_session("law", width, height, &program(&server, &steps, &pauses));
        server.wait_for_text(&pane, "ready");
        let mut observed = Observed::start(&server, |watch| {
            source(
                seed,
                watch
                    .target(Target::parse("law").unwrap())
                    .schedule(PollSchedule::default()),
            )
        });
        observed.until_started(1);
        server.tmux(&["wait-for", "-S", "go"]);
        server.tmux(&["wait-for", "done"]);
        let captured = server.joined(&pane, &["-S", "-"]);
        let shows: Vec<&str> = captured.trim_end().lines().map(str::trim_end).collect();
        // Below the end there can be text to which the cursor never returned.
        observed.until_replayed(&pane, &shows, &format!("seed {seed}"));
        observed.stop();
        let replay = Replay::of(&observed.seen, &pane);
        assert!(
            replay
                .gaps
                .iter()
                .all(|(_, _, reason, _)| reason == "cleared"),
            "seed {seed}: {:?}\n{}",
            replay.gaps,
            shown(&observed.seen)
        );
    });
}

#[test]
fn each_line_arrives_once_or_is_covered_by_a_gap() {
    each_seed(12, |seed| {
        let mut dice = Dice(seed.wrapping_mul(7919));
        let (width, height) = (10 + dice.roll(90) as u32, 2 + dice.roll(40) as u32);
        let limit = [0, 1, 9, 50, 300, 2000][dice.roll(6) as usize];
        let (mut steps, mut printed) = (Vec::new(), Vec::new());
        for _ in 0..10 + dice.roll(20) {
            let mut step = String::new();
            let most = [5, 30, 200, 1500][dice.roll(4) as usize];
            for _ in 0..dice.roll(most) {
                let line = format!("{}:{}", printed.len(), dice.text().trim_end());
                writeln!(step, "{line}").unwrap();
                printed.push(line);
            }
            steps.push(step);
        }
        let pauses: Vec<u64> = steps.iter().map(|_| dice.roll(150)).collect();
        let server = TmuxServer::new();
        server.new_session("keeper", 40, 5, "exec cat");
        server.script(&format!("set-option -g history-limit {limit}"));
        let pane = server.new_session("law", width, height, &program(&server, &steps, &pauses));
        server.wait_for_text(&pane, "ready");
        let mut observed = Observed::start(&server, |watch| {
            source(
                seed,
                watch
                    .target(Target::parse("law").unwrap())
                    .schedule(PollSchedule::default()),
            )
        });
        observed.until_started(1);
        server.tmux(&["wait-for", "-S", "go"]);
        observed.until_line("the end");
        observed.stop();
        let replay = observed.replay(&pane);
        printed.push("the end".to_owned());
        let (mut next, mut gaps) = (0, replay.gaps.iter().peekable());
        let mut piece = false;
        for (at, (_, line)) in replay.settled.iter().enumerate() {
            // Only the next line shows which line a piece belongs to.
            let mut has_gap = std::mem::take(&mut piece);
            let mut certain = false;
            while let Some((_, _, reason, _)) = gaps.next_if(|gap| gap.3 == at) {
                (has_gap, certain) = (true, certain || reason != "ambiguous");
            }
            if printed.get(next) == Some(line) {
                assert!(
                    !certain,
                    "seed {seed}: no hole before {line:?}: {:?}",
                    replay.gaps
                );
                next += 1;
                continue;
            }
            assert!(
                has_gap,
                "seed {seed}, limit {limit}, {width}x{height}: {line:?} at {at} for {:?} after {:?}, gaps {:?}",
                printed.get(next),
                &replay.settled[at.saturating_sub(3)..at],
                replay.gaps
            );
            // After a gap, the beginning of a line may be missing.
            let rest = &printed[next..];
            let whole = rest.iter().position(|other| other == line);
            piece = whole.is_none();
            let found = whole.or_else(|| rest.iter().position(|other| other.ends_with(&**line)));
            let found = found.unwrap_or_else(|| panic!("seed {seed}: {line:?} twice or made up"));
            next += found + 1;
        }
        assert_eq!(next, printed.len(), "seed {seed}");
        eprintln!(
            "seed {seed}: {} lines, limit {limit}, gaps {:?}",
            printed.len(),
            replay.gaps
        );
    });
}

/// tmux keeps panes whose programs print more than the history holds and end before the first capture.
/// Such a pane shows neither the number of printed lines nor the cursor position.
#[test]
fn a_program_that_ends_at_once_is_reported_once() {
    for seed in [1, 2] {
        let server = TmuxServer::new();
        // Longer than a pipe may take to open, so that a missing pipe would be noticed.
        let keeper = "tmux wait-for go; sleep 3; echo still here; exec cat";
        server.new_session("ends", 60, 12, keeper);
        server.script("set-option -g remain-on-exit on");
        let mut observed = Observed::start(&server, |watch| source(seed, watch));
        observed.until_started(1);
        server.tmux(&["wait-for", "-S", "go"]);
        let mut panes = Vec::new();
        for lines in [20, 1500, 5000].repeat(4) {
            let program = format!("seq 1 {lines}; exit 7");
            let window = ["new-window", "-d", "-P", "-F", "#{pane_id}", "-t", "ends:"];
            let pane = server.tmux(&[&window[..], &[&program]].concat());
            panes.push((pane.trim().to_owned(), lines));
        }
        let is_end = |e: &Envelope| matches!(e.event, TdEvent::OutputUpdate { is_complete, .. } if is_complete);
        observed.until("the programs' ends", |seen| {
            seen.iter().filter(|e| is_end(e)).count() == panes.len()
        });
        // The panes are captured once more.
        observed.until_line("still here");
        observed.stop();
        for (pane, lines) in &panes {
            let replay = observed.replay(pane);
            // The lines that tmux has read, which may lack the last ones of a program.
            let shows = server.joined(pane, &["-S", "-"]);
            let shows = shows.split("Pane is dead").next().unwrap_or_default();
            let shows: Vec<&str> = shows.trim_end().lines().map(str::trim_end).collect();
            assert!(
                replay.texts().ends_with(&shows),
                "source {seed}, {lines} lines, gaps {:?}: {:?} for {shows:?}",
                replay.gaps,
                replay.texts()
            );
            let numbers: Vec<u32> = replay
                .texts()
                .iter()
                .map_while(|text| text.parse().ok())
                .collect();
            // The last line may be incomplete.
            let whole = &numbers[..numbers.len().saturating_sub(1)];
            assert!(
                whole.is_sorted_by(|a, b| a + 1 == *b),
                "source {seed}, {lines} lines: {:?}",
                replay.texts()
            );
            let at_the_beginning = |gap: &(i64, _, _, usize)| gap.3 == 0 && *lines == 5000;
            assert!(
                replay.gaps.iter().all(at_the_beginning),
                "source {seed}, {lines} lines: {:?}",
                replay.gaps
            );
            let of_pane = |e: &&Envelope| e.event.pane().is_some_and(|id| *id == **pane);
            let last = observed.seen.iter().rfind(of_pane);
            assert!(last.is_some_and(is_end), "{last:?}");
        }
    }
}
