//! The race of waiting for text: many waits during bursts that overflow histories. No wait misses a
//! line without a report, and none matches a line that was printed before its start.
//!
//! `TD_RACE_WAITS=10000 cargo test --test it race` sets the number of waits; a failure contains the output.
//! Bursts are written to the terminals of panes when a wait has started, during it, or in pieces. Each burst
//! ends with a mark, which is the stop pattern of some waits: a wait that stops there without lost lines must
//! have had nothing to match.

use std::fs::File;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use td_observe::wait::{Pattern, StartedWait, Wait, WaitEnd, WaitOutcome, Waiter};

use super::at;
use crate::support::{Dice, TmuxServer};

/// The default number of waits.
const WAITS: u64 = 1500;
const PANES: u64 = 32;
const HISTORIES: [u32; 4] = [50, 200, 2000, 30_000];
const WIDTHS: [u32; 3] = [20, 41, 80];

/// The time before the deadline in which tmux may not yet have read the output, on a busy machine.
const SLACK: Duration = Duration::from_millis(500);

#[test]
fn no_wait_misses_a_line_unreported_or_matches_an_old_one() {
    let wanted = std::env::var("TD_RACE_WAITS").ok();
    let wanted = wanted.and_then(|text| text.parse().ok()).unwrap_or(WAITS);
    let server = TmuxServer::new();
    server.new_session("first", 80, 24, "exec cat");
    let mut stages: Vec<Stage> = (0..PANES).map(|at| Stage::new(&server, at)).collect();
    let waiter = Waiter::new(server.server()).unwrap();
    let tally = Mutex::new(Tally::default());
    let began = Instant::now();
    std::thread::scope(|scope| {
        for stage in &mut stages {
            scope.spawn(|| {
                while tally.lock().unwrap().continues(wanted) {
                    stage.round(&waiter, &tally);
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    eprintln!("{tally:?} in {:.1?}", began.elapsed());
    assert!(tally.wrong.is_empty(), "{:#?}", tally.wrong);
    // Most patterns are printed: losses alone would prove nothing.
    assert!(tally.found * 2 > wanted, "{tally:?}");
    assert!(tally.lost > 0, "no history rolled over: {tally:?}");
}

#[test]
fn a_line_in_a_flood_matches_or_is_reported_as_lost() {
    for (history, must_be_found) in [(2000, false), (40_000, true)] {
        let server = TmuxServer::new();
        server.new_session("first", 80, 24, "exec cat");
        let mut terminal = server.silent_pane("flood", (80, 24), history);
        let waiter = Waiter::new(server.server()).unwrap();
        let wait = at("flood").pattern(Pattern::text("NEEDLE").unwrap());
        let started = waiter
            .start(&wait.stop(Pattern::text("THE END").unwrap()))
            .unwrap();
        let lines = |from: u32, to| (from..=to).map(|n| format!("line {n}\n"));
        let flood: String = lines(1, 15_000)
            .chain(["a NEEDLE\n".to_owned()])
            .chain(lines(15_002, 30_000))
            .collect();
        let waited = std::thread::scope(|scope| {
            scope.spawn(|| terminal.write_all((flood + "THE END").as_bytes()).unwrap());
            started.finish().unwrap()
        });
        match &waited.end {
            WaitEnd::Matched(found) => assert_eq!(found.text.as_deref(), Some("a NEEDLE")),
            WaitEnd::Stopped(_) => assert!(waited.lost_lines && !must_be_found, "{waited:?}"),
            other => panic!("{other:?}"),
        }
    }
}

/// The outcomes of all waits.
#[derive(Debug, Default)]
struct Tally {
    /// The pattern matched its line.
    found: u64,
    /// The pattern matched after lost lines.
    found_after_loss: u64,
    /// The line was printed and did not match, and lost lines were reported.
    lost: u64,
    /// The line was not printed and did not match.
    absent: u64,
    /// The line was printed too close to the deadline for a verdict.
    late: u64,
    /// The wait for the mark of a pane, which was printed or about to be.
    settled: u64,
    wrong: Vec<String>,
}

impl Tally {
    fn continues(&self, wanted: u64) -> bool {
        let all = self.found + self.found_after_loss + self.lost + self.absent + self.late;
        all < wanted && self.wrong.len() < 5
    }
}

/// A pane and its output.
struct Stage {
    name: String,
    width: u64,
    terminal: File,
    dice: Dice,
    rounds: u64,
}

/// A wait and its lines in the burst.
struct Role {
    wait: Wait,
    token: String,
    /// The line that will match, if there is one.
    line: Option<(i64, String)>,
    /// `None` with a stop pattern; otherwise the wait ends with its timeout.
    timeout: Option<Duration>,
}

/// Output during waits, in pieces with a pause before each.
struct Burst {
    pieces: Vec<(Duration, Vec<u8>)>,
    /// Everything is printed before the wait continues.
    comes_first: bool,
}

impl Stage {
    fn new(server: &TmuxServer, at: u64) -> Self {
        let mut dice = Dice(at);
        let width = WIDTHS[at as usize % WIDTHS.len()];
        let history = HISTORIES[at as usize % HISTORIES.len()];
        let name = format!("stage-{at}");
        let height = 4 + dice.roll(20) as u32;
        Self {
            terminal: server.silent_pane(&name, (width, height), history),
            name,
            width: width.into(),
            dice,
            rounds: 0,
        }
    }

    /// Prints one burst during several waits.
    fn round(&mut self, waiter: &Waiter, tally: &Mutex<Tally>) {
        self.rounds += 1;
        let number = 1 + u64::from(self.dice.roll(3) == 0);
        let mut lines = self.filling();
        let mut roles: Vec<Role> = (0..number)
            .map(|which| self.role(which, &mut lines))
            .collect();
        for (number, line) in roles.iter_mut().filter_map(|role| role.line.as_mut()) {
            // The cursor is on line 1, so the burst begins with the end of that line.
            let at = lines.iter().position(|one| one == line);
            *number = at.unwrap() as i64 + 2;
        }
        self.settle(&roles, waiter, tally);
        let began = Instant::now();
        let begun: Vec<StartedWait<'_>> = roles
            .iter()
            .map(|role| waiter.start(&role.wait).unwrap())
            .collect();
        let burst = self.burst(&lines);
        let mut terminal = &self.terminal;
        if burst.comes_first {
            burst.write(&mut terminal);
        }
        let (waited, written) = std::thread::scope(|scope| {
            let finishing: Vec<_> = begun
                .into_iter()
                .map(|started| scope.spawn(move || started.finish().unwrap()))
                .collect();
            if !burst.comes_first {
                burst.write(&mut terminal);
            }
            let written = began.elapsed();
            let waited: Vec<WaitOutcome> = finishing
                .into_iter()
                .map(|one| one.join().unwrap())
                .collect();
            (waited, written)
        });
        let mut tally = tally.lock().unwrap();
        for (role, waited) in roles.iter().zip(waited) {
            if let Err(wrong) = role.judge(&waited, written, &self.mark("END"), &mut tally) {
                let what = format!(
                    "{wrong}: round {} at {}, {} lines, wanted {:?} of {:?}, written after \
                     {written:?}: {waited:#?}",
                    self.rounds,
                    self.name,
                    lines.len(),
                    role.line,
                    role.wait,
                );
                tally.wrong.push(what);
            }
        }
    }

    /// Prints lines that must not match and a mark, and waits until the pane shows the mark.
    fn settle(&mut self, roles: &[Role], waiter: &Waiter, tally: &Mutex<Tally>) {
        let mut text = String::from("\n");
        for role in roles.iter().filter(|_| self.dice.roll(2) == 0) {
            // As a line of its own, or as the line that will match.
            let same = role.line.as_ref().map(|(_, line)| line.as_str());
            let stale = same.unwrap_or(&role.token);
            text += &format!("{stale}\n{}\n", role.token);
        }
        // Without a line end: the cursor behind the mark shows that everything has been read.
        text += &self.mark("READY");
        self.terminal.write_all(text.as_bytes()).unwrap();
        let ready = at(&self.name)
            .pattern(Pattern::text(self.mark("READY")).unwrap())
            .interval(Duration::from_millis(10))
            .include_existing();
        let waited = waiter.wait(&ready).unwrap();
        let mut tally = tally.lock().unwrap();
        tally.settled += 1;
        if !matches!(waited.end, WaitEnd::Matched(_)) {
            tally.wrong.push(format!("{text:?} never came: {waited:?}"));
        }
    }

    fn mark(&self, what: &str) -> String {
        format!("{what}-{}-{};", self.name, self.rounds)
    }

    /// Returns the lines of a burst without matching lines.
    fn filling(&mut self) -> Vec<String> {
        let dice = &mut self.dice;
        let lines = match dice.roll(20) {
            0..8 => dice.roll(8),
            8..13 => 10 + dice.roll(60),
            13..18 => 100 + dice.roll(400),
            _ => 1000 + dice.roll(4000),
        };
        let style = dice.roll(5);
        let mut line = |number| match style {
            0 => format!("line {number} of a burst"),
            1 => "the same".to_owned(),
            2 => "漢字 ".repeat(dice.roll(8) as usize) + ".",
            3 if dice.roll(2) == 0 => String::new(),
            _ => "wrapped ".repeat(dice.roll(self.width / 3) as usize) + ".",
        };
        (0..lines).map(&mut line).collect()
    }

    /// Creates a wait, and adds matching and similar lines.
    fn role(&mut self, which: u64, lines: &mut Vec<String>) -> Role {
        let dice = &mut self.dice;
        let nonce = dice.roll(1 << 30);
        let beginning = format!("N-{}-{}-{which}-{nonce:x}", self.name, self.rounds);
        let token = format!("{beginning};");
        let is_printed = dice.roll(10) < 7;
        let pad = |dice: &mut Dice| "z".repeat(dice.roll(2 * self.width) as usize);
        for _ in 0..dice.roll(3) {
            // A prefix of the pattern does not match.
            let line = format!("{}{beginning}", pad(dice));
            lines.insert(dice.roll(lines.len() as u64 + 1) as usize, line);
        }
        let line = is_printed.then(|| format!("{}{token}{}", pad(dice), pad(dice)));
        if let Some(line) = &line {
            lines.insert(dice.roll(lines.len() as u64 + 1) as usize, line.clone());
        }
        let interval = Duration::from_millis([5, 20, 50][dice.roll(3) as usize]);
        let text = match dice.roll(2) {
            0 => Pattern::text(&token),
            _ => Pattern::regex(&token),
        };
        let wait = at(&self.name).pattern(text.unwrap()).interval(interval);
        let timeout = match (dice.roll(5), is_printed) {
            (0..3, _) => None,
            (_, true) => Some(Duration::from_millis(1000 + dice.roll(1000))),
            (_, false) => Some(Duration::from_millis(20 + dice.roll(200))),
        };
        let wait = match timeout {
            Some(timeout) => wait.timeout(timeout),
            None => wait.stop(Pattern::text(self.mark("END")).unwrap()),
        };
        Role {
            wait,
            token,
            line: line.map(|line| (0, line)),
            timeout,
        }
    }

    /// Splits the output into pieces with pauses.
    fn burst(&mut self, lines: &[String]) -> Burst {
        let mut text = String::from("\n");
        for line in lines {
            text += line;
            text += "\n";
        }
        text += &self.mark("END");
        let dice = &mut self.dice;
        let mut rest = text.into_bytes();
        let mut pieces = Vec::new();
        let mut pause = Duration::from_millis(dice.roll(2) * dice.roll(80));
        for _ in 0..dice.roll(4) {
            let later = rest.split_off(dice.roll(rest.len() as u64) as usize);
            pieces.push((pause, std::mem::replace(&mut rest, later)));
            pause = Duration::from_millis(dice.roll(60));
        }
        pieces.push((pause, rest));
        Burst {
            pieces,
            comes_first: dice.roll(4) == 0,
        }
    }
}

impl Burst {
    fn write(&self, terminal: &mut impl Write) {
        for (pause, piece) in &self.pieces {
            // A random pause; no condition depends on it.
            std::thread::sleep(*pause);
            terminal.write_all(piece).unwrap();
        }
    }
}

impl Role {
    /// Counts the outcome of a wait, or records its error. Everything was printed `written` after the wait
    /// had started.
    fn judge(
        &self,
        waited: &WaitOutcome,
        written: Duration,
        end: &str,
        tally: &mut Tally,
    ) -> Result<(), &'static str> {
        let lost = waited.lost_lines;
        match (&waited.end, &self.line) {
            (WaitEnd::Matched(_), None) => return Err("found what was not printed"),
            (WaitEnd::Matched(found), Some((number, line))) => {
                let text = found.text.as_deref().unwrap_or_default();
                // The line may have been incomplete, and tmux may have dropped its beginning.
                let is_same = line.starts_with(text) || lost && line.contains(text);
                if !is_same || !text.contains(&self.token) {
                    return Err("found in another line");
                }
                if !lost && found.line != Some(*number) {
                    return Err("found under a wrong number");
                }
                if lost {
                    tally.found_after_loss += 1
                } else {
                    tally.found += 1
                }
            }
            (WaitEnd::Stopped(found), line) => {
                let text = found.text.as_deref().unwrap_or_default();
                if self.timeout.is_some() || text != end {
                    return Err("stopped at another line");
                }
                match (line.is_some(), lost) {
                    (true, false) => return Err("missed in silence"),
                    (true, true) => tally.lost += 1,
                    (false, _) => tally.absent += 1,
                }
            }
            (WaitEnd::TimedOut, _) if self.timeout.is_none() => return Err("missed its stop"),
            (WaitEnd::TimedOut, _) if lost => return Err("lost, and does not say so"),
            (WaitEnd::TimedOut, Some(_)) => {
                if self
                    .timeout
                    .is_some_and(|timeout| written + SLACK < timeout)
                {
                    return Err("missed in silence until its time was up");
                }
                tally.late += 1;
            }
            (WaitEnd::Lost, Some(_)) => tally.lost += 1,
            (WaitEnd::TimedOut | WaitEnd::Lost, None) => tally.absent += 1,
            _ => return Err("ended, and nothing had"),
        }
        Ok(())
    }
}
