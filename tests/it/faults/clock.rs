//! A wall clock that jumps while panes print: no line is lost, and numbers order the lines.

use std::time::{Duration, Instant};

use td_observe::{Clock, Envelope, FakeClock, Timestamp};

use super::{Counted, Counting, of_run, runs_of};
use crate::observed::{Observed, Replay, shown};
use crate::support::{CEILING, TmuxServer, wait_for};

const HOUR_MICROS: i64 = 3_600_000_000;

/// A watch whose wall clock is set by hand and whose monotonic clock follows real time.
struct Timed {
    observed: Observed,
    fake: FakeClock,
    passed: Instant,
}

impl Timed {
    fn all(server: &TmuxServer) -> Self {
        let fake = FakeClock::new();
        fake.set_wall(Clock::system().wall());
        Self {
            observed: Observed::by_clock(server, fake.clock()),
            fake,
            passed: Instant::now(),
        }
    }

    /// Lets time pass until the received events satisfy the predicate.
    #[track_caller]
    fn until(&mut self, what: &str, done: impl Fn(&[Envelope]) -> bool) {
        wait_for(what, CEILING, || {
            self.pass();
            if done(&self.observed.seen) {
                Ok(())
            } else {
                Err(format_args!("{}", shown(&self.observed.seen)).to_string())
            }
        });
    }

    fn pass(&mut self) {
        let now = Instant::now();
        self.fake.advance(now - self.passed);
        self.passed = now;
        self.observed.take_ready();
    }

    /// Sets the wall clock to the true time plus this offset.
    fn jump(&self, micros: i64) {
        let wall = Clock::system().wall().micros();
        self.fake.set_wall(Timestamp::from_micros(wall + micros));
    }

    /// Stops the watch while time passes.
    #[track_caller]
    fn stop(&mut self) {
        let fake = self.fake.clone();
        let (stopped, over) = std::sync::mpsc::channel::<()>();
        let passing = std::thread::spawn(move || {
            let step = Duration::from_millis(5);
            while over.recv_timeout(step) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                fake.advance(step);
            }
        });
        self.observed.stop();
        drop(stopped);
        passing.join().unwrap();
    }
}

/// Returns true if a settled line of any pane has this text.
fn has_line(seen: &[Envelope], line: &str) -> bool {
    seen.iter().rev().any(|envelope| {
        matches!(&envelope.event, td_observe::TdEvent::OutputUpdate { chunk, .. }
            if chunk.lines().any(|other| other == line))
    })
}

#[test]
fn no_line_is_lost_or_reordered_when_the_clock_jumps() {
    let server = TmuxServer::new();
    let program = Counting::new(&server, "program", "0.01");
    let pane = server.new_session("job", 60, 12, &program.command());
    let mut timed = Timed::all(&server);
    timed.until("the start", |seen| !runs_of(seen, "job").is_empty());
    for jump in [
        0,
        -HOUR_MICROS,
        HOUR_MICROS,
        0,
        -300_000,
        24 * HOUR_MICROS,
        -HOUR_MICROS,
    ] {
        timed.jump(jump);
        let printed = program.until_more(15);
        timed.until("a line after the jump", |seen| {
            has_line(seen, &format!("line {printed}."))
        });
    }
    program.end();
    timed.until("the end", |seen| has_line(seen, "the end"));
    timed.stop();
    let seen = &timed.observed.seen;
    let run = of_run(seen, &runs_of(seen, "job")[0]);
    let counted = Counted::of(&Replay::of(&run, &pane), &["the end"]);
    assert_eq!(counted.missing, [], "{}", shown(&run));
    assert_eq!(counted.settled.end, program.printed() + 1);
    let back = run
        .windows(2)
        .filter(|pair| pair[1].ts < pair[0].ts)
        .count();
    assert!(back >= 3, "the clock was set back {back} times");
    let is_warning = |envelope: &&Envelope| {
        matches!(&envelope.event, td_observe::TdEvent::Warning { context, message, .. }
            if context == "log" && message.contains("the clock was set back"))
    };
    assert_eq!(run.iter().filter(is_warning).count(), 4, "{}", shown(&run));
    let numbers: Vec<u64> = run.iter().filter_map(|envelope| envelope.seq).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_line_that_is_rewritten_in_place_is_followed_through_every_jump() {
    let server = TmuxServer::new();
    // Only the text changes: neither the cursor nor the history.
    let program = "stty -echo; echo ready; while read x; do printf '\\r%s' \"$x\"; done";
    let pane = server.new_session("bar", 60, 12, program);
    server.wait_for_text(&pane, "ready");
    let mut timed = Timed::all(&server);
    timed.until("the start", |seen| !runs_of(seen, "bar").is_empty());
    for (round, jump) in [0, HOUR_MICROS, -HOUR_MICROS, HOUR_MICROS, 0]
        .into_iter()
        .enumerate()
    {
        timed.jump(jump);
        // Several changes within a second, the resolution of tmux's activity time.
        for step in 1..=8 {
            let text = format!("step {round}-{step}");
            server.tmux(&["send-keys", "-t", &pane, &text, "Enter"]);
            timed.until(&format!("{text:?} after a jump of {jump}"), |seen| {
                Replay::of(seen, &pane)
                    .lines
                    .values()
                    .any(|line| *line == text)
            });
        }
    }
    timed.stop();
}
