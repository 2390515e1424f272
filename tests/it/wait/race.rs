//! The race of `wait_for_text` (`004…`): many waits beside bursts that roll histories over. None
//! misses in silence, and none finds what was not printed after it began.
//!
//! `TD_RACE_WAITS=10000 cargo test --test it race` runs so many waits; a failure names what was
//! printed. Bursts are written to the terminals of panes, at once when a wait has begun, during it,
//! or in pieces. Each ends with a mark that other waits stop at: one that stops there and has lost
//! nothing must have had nothing to find.

use std::fs::File;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use td_observe::wait::{Pattern, StartedWait, Wait, WaitEnd, WaitOutcome, Waiter};

use super::at;
use crate::support::{Dice, TmuxServer};

/// How many waits, unless told otherwise.
const WAITS: u64 = 1500;
const PANES: u64 = 32;
const HISTORIES: [u32; 4] = [50, 200, 2000, 30_000];
const WIDTHS: [u32; 3] = [20, 41, 80];

/// How long before the deadline something must have been written so that tmux, on a busy machine,
/// has surely read it by then.
const SLACK: Duration = Duration::from_millis(500);

#[test]
fn no_wait_misses_in_silence_and_none_finds_what_is_not_new() {
    let wanted = std::env::var("TD_RACE_WAITS").ok();
    let wanted = wanted.and_then(|text| text.parse().ok()).unwrap_or(WAITS);
    let server = TmuxServer::new();
    server.new_session("first", 80, 24, "exec cat");
    let mut stages: Vec<Stage> = (0..PANES).map(|at| Stage::new(&server, at)).collect();
    let waits = Waiter::new(server.server()).unwrap();
    let tally = Mutex::new(Tally::default());
    let began = Instant::now();
    std::thread::scope(|scope| {
        for stage in &mut stages {
            scope.spawn(|| {
                while tally.lock().unwrap().goes_on(wanted) {
                    stage.round(&waits, &tally);
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    eprintln!("{tally:?} in {:.1?}", began.elapsed());
    assert!(tally.wrong.is_empty(), "{:#?}", tally.wrong);
    // Most of it is there to be found; a test of losses alone would show nothing.
    assert!(tally.found * 2 > wanted, "{tally:?}");
    assert!(tally.lost > 0, "no history rolled over: {tally:?}");
}

#[test]
fn a_needle_in_a_flood_is_found_or_said_to_be_lost() {
    for (history, must_be_found) in [(2000, false), (40_000, true)] {
        let server = TmuxServer::new();
        server.new_session("first", 80, 24, "exec cat");
        let mut terminal = pane(&server, "flood", 80, 24, history);
        let waits = Waiter::new(server.server()).unwrap();
        let wait = at("flood").pattern(Pattern::text("NEEDLE").unwrap());
        let begun = waits
            .begin(&wait.stop(Pattern::text("THE END").unwrap()))
            .unwrap();
        let lines = |from: u32, to| (from..=to).map(|n| format!("line {n}\n"));
        let flood: String = lines(1, 15_000)
            .chain(["a NEEDLE\n".to_owned()])
            .chain(lines(15_002, 30_000))
            .collect();
        let waited = std::thread::scope(|scope| {
            scope.spawn(|| terminal.write_all((flood + "THE END").as_bytes()).unwrap());
            begun.finish().unwrap()
        });
        match &waited.end {
            WaitEnd::Matched(found) => assert_eq!(found.text.as_deref(), Some("a NEEDLE")),
            WaitEnd::Stopped(_) => assert!(waited.lost_lines && !must_be_found, "{waited:?}"),
            other => panic!("{other:?}"),
        }
    }
}

/// What came of all waits.
#[derive(Debug, Default)]
struct Tally {
    /// The needle was found in a place that is known.
    found: u64,
    /// It was found, and lines were lost before it.
    found_after_loss: u64,
    /// It had been printed, was not found, and lines were said to be lost.
    lost: u64,
    /// It had not been printed, and was not found.
    absent: u64,
    /// It was printed too near the deadline to be sure of anything.
    late: u64,
    /// Waiter for the mark of a pane, which stood there or was about to.
    settled: u64,
    wrong: Vec<String>,
}

impl Tally {
    fn goes_on(&self, wanted: u64) -> bool {
        let all = self.found + self.found_after_loss + self.lost + self.absent + self.late;
        all < wanted && self.wrong.len() < 5
    }
}

/// Starts a session with a pane that prints nothing by itself; its terminal.
fn pane(server: &TmuxServer, name: &str, width: u32, height: u32, history: u32) -> File {
    // Panes get what is set when they are made.
    server.tmux(&["set-option", "-g", "history-limit", &history.to_string()]);
    let pane = server.new_session(name, width, height, "exec cat");
    // And from 3.7 on what is set later for all, unless their session has its own.
    let session = format!("={name}:");
    let own = [
        "set-option",
        "-t",
        &session,
        "history-limit",
        &history.to_string(),
    ];
    server.tmux(&own);
    server.terminal(&pane)
}

/// A pane, and what is printed on it.
struct Stage {
    name: String,
    width: u64,
    terminal: File,
    dice: Dice,
    rounds: u64,
}

/// A wait, and what its pane prints for it.
struct Role {
    wait: Wait,
    needle: String,
    /// The line that has the needle, if any will.
    line: Option<(i64, String)>,
    /// Without a stop it ends with its time.
    timeout: Option<Duration>,
}

/// What is printed beside waits, in pieces with a pause before each.
struct Burst {
    pieces: Vec<(Duration, Vec<u8>)>,
    /// All of it comes before the wait goes on.
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
            terminal: pane(server, &name, width, height, history),
            name,
            width: width.into(),
            dice,
            rounds: 0,
        }
    }

    /// One burst, and the waits beside it.
    fn round(&mut self, waits: &Waiter, tally: &Mutex<Tally>) {
        self.rounds += 1;
        let number = 1 + u64::from(self.dice.roll(3) == 0);
        let mut lines = self.filling();
        let mut roles: Vec<Role> = (0..number)
            .map(|which| self.role(which, &mut lines))
            .collect();
        for (number, line) in roles.iter_mut().filter_map(|role| role.line.as_mut()) {
            // The cursor rests on line 1, and the burst begins with its end.
            let at = lines.iter().position(|one| one == line);
            *number = at.unwrap() as i64 + 2;
        }
        self.settle(&roles, waits, tally);
        let began = Instant::now();
        let begun: Vec<StartedWait<'_>> = roles
            .iter()
            .map(|role| waits.begin(&role.wait).unwrap())
            .collect();
        let burst = self.burst(&lines);
        let mut terminal = &self.terminal;
        if burst.comes_first {
            burst.write(&mut terminal);
        }
        let (waited, written) = std::thread::scope(|scope| {
            let finishing: Vec<_> = begun
                .into_iter()
                .map(|begun| scope.spawn(move || begun.finish().unwrap()))
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

    /// Prints what must not match, and a mark, and waits until the pane shows that.
    fn settle(&mut self, roles: &[Role], waits: &Waiter, tally: &Mutex<Tally>) {
        let mut text = String::from("\n");
        for role in roles.iter().filter(|_| self.dice.roll(2) == 0) {
            // As a line of its own, or as the line that will have it.
            let same = role.line.as_ref().map(|(_, line)| line.as_str());
            let stale = same.unwrap_or(&role.needle);
            text += &format!("{stale}\n{}\n", role.needle);
        }
        // Without a line end: that the cursor rests behind it says that all has been read.
        text += &self.mark("READY");
        self.terminal.write_all(text.as_bytes()).unwrap();
        let ready = at(&self.name)
            .pattern(Pattern::text(self.mark("READY")).unwrap())
            .interval(Duration::from_millis(10))
            .include_existing();
        let waited = waits.wait(&ready).unwrap();
        let mut tally = tally.lock().unwrap();
        tally.settled += 1;
        if !matches!(waited.end, WaitEnd::Matched(_)) {
            tally.wrong.push(format!("{text:?} never came: {waited:?}"));
        }
    }

    fn mark(&self, what: &str) -> String {
        format!("{what}-{}-{};", self.name, self.rounds)
    }

    /// The lines of a burst before needles are put among them.
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

    /// Makes up a wait, and puts what it waits for, and what it does not, among the lines.
    fn role(&mut self, which: u64, lines: &mut Vec<String>) -> Role {
        let dice = &mut self.dice;
        let nonce = dice.roll(1 << 30);
        let beginning = format!("N-{}-{}-{which}-{nonce:x}", self.name, self.rounds);
        let needle = format!("{beginning};");
        let is_printed = dice.roll(10) < 7;
        let pad = |dice: &mut Dice| "z".repeat(dice.roll(2 * self.width) as usize);
        for _ in 0..dice.roll(3) {
            // Its beginning is not it.
            let line = format!("{}{beginning}", pad(dice));
            lines.insert(dice.roll(lines.len() as u64 + 1) as usize, line);
        }
        let line = is_printed.then(|| format!("{}{needle}{}", pad(dice), pad(dice)));
        if let Some(line) = &line {
            lines.insert(dice.roll(lines.len() as u64 + 1) as usize, line.clone());
        }
        let interval = Duration::from_millis([5, 20, 50][dice.roll(3) as usize]);
        let text = match dice.roll(2) {
            0 => Pattern::text(&needle),
            _ => Pattern::regex(&needle),
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
            needle,
            line: line.map(|line| (0, line)),
            timeout,
        }
    }

    /// Cuts what is printed into pieces, with times between them.
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
            // Nothing waits for this: at which moment something is printed is what is at random.
            std::thread::sleep(*pause);
            terminal.write_all(piece).unwrap();
        }
    }
}

impl Role {
    /// Counts what came of the wait, or says what is wrong with it. All was printed `written` after
    /// the wait had begun.
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
                // It may still have been in the making, and tmux may have dropped its beginning.
                let is_it = line.starts_with(text) || lost && line.contains(text);
                if !is_it || !text.contains(&self.needle) {
                    return Err("found in another line");
                }
                if !lost && found.line != Some(*number) {
                    return Err("found under a wrong number");
                }
                match lost {
                    true => tally.found_after_loss += 1,
                    false => tally.found += 1,
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
