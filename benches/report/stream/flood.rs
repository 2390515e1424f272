//! A pane that prints numbered lines as fast as they are taken, and what became of them.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use td_observe::{Envelope, TdEvent};

use crate::common::support::{TmuxServer, wait_for, within};

/// The last line; its command does not have it as one word.
pub const END: &str = "the end";

/// A pane of its own server that prints a number of lines on request.
pub struct Flood {
    pub server: TmuxServer,
    pub lines: u64,
    took: PathBuf,
}

impl Flood {
    pub fn new(lines: u64) -> Self {
        Self::that_ends(lines, "")
    }

    /// The same, with the last line printed on request.
    pub fn whose_end_waits(lines: u64) -> Self {
        Self::that_ends(lines, "tmux wait-for more;")
    }

    fn that_ends(lines: u64, when: &str) -> Self {
        let server = TmuxServer::new();
        let took = server.directory().join("took");
        let file = took.display();
        let pane = server.new_session(
            "flood",
            80,
            24,
            &format!(
                "exec bash -c 'printf \"ready\\n\"; tmux wait-for go; TIMEFORMAT=%R; \
                 {{ time seq 1 {lines}; }} 2> {file}.part; mv {file}.part {file}; \
                 {when} printf \"the %s\\n\" end; exec cat'"
            ),
        );
        server.wait_for_text(&pane, "ready");
        Self {
            server,
            lines,
            took,
        }
    }

    /// Tells it to begin.
    pub fn go(&self) {
        self.server.tmux(&["wait-for", "-S", "go"]);
    }

    /// Tells it to print the last line, too.
    pub fn more(&self) {
        self.server.tmux(&["wait-for", "-S", "more"]);
    }

    /// Seconds that the pane's program took, when it has come to its end.
    pub fn took(&self) -> f64 {
        // Slow machines take three million lines a second, and this one may be busy.
        let ceiling = Duration::from_secs(30 + self.lines / 200_000);
        let text = wait_for("the end of the flood", ceiling, || {
            fs::read_to_string(&self.took)
        });
        text.trim().parse().unwrap()
    }
}

/// Waits until what `look` gives ends the flood; whether it came to that.
pub fn until_end(what: &str, ceiling: Duration, mut look: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    let came = within(ceiling, || if look() { Ok(()) } else { Err(()) });
    if came.is_err() {
        eprintln!("FAILED: {what} has no end after {:?}", began.elapsed());
    }
    came.is_ok()
}

/// The reports about a pane that prints `seq 1 N`.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    pub said: u64,
    /// In gaps that know how many.
    pub lost: u64,
    /// Gaps that do not.
    pub unknown: u64,
    /// Lines that are not the next one, and lines that were said and changed.
    pub wrong: u64,
    pub has_ended: bool,
    /// The number that was said last, gaps counted.
    last: u64,
    /// A gap may be as wide as it likes.
    is_open: bool,
    /// The tracker's number of the line that comes next.
    next_line: i64,
}

impl Counted {
    pub fn take(&mut self, envelope: &Envelope) {
        match &envelope.event {
            TdEvent::OutputUpdate {
                first_line, chunk, ..
            } => {
                for line in chunk.lines() {
                    self.line(line);
                }
                self.next_line = first_line + chunk.lines().count() as i64;
            }
            TdEvent::OutputRevised { line, .. } if *line < self.next_line => self.wrong += 1,
            TdEvent::OutputGap { lost_lines, .. } => match lost_lines {
                Some(lost) => {
                    self.lost += lost;
                    self.last += lost;
                }
                None => {
                    self.unknown += 1;
                    self.is_open = true;
                }
            },
            _ => {}
        }
    }

    pub fn line(&mut self, line: &str) {
        match line.parse::<u64>() {
            Ok(number) => {
                self.said += 1;
                let is_next = number == self.last + 1 || self.is_open && number > self.last;
                self.wrong += u64::from(!is_next);
                self.last = number;
                self.is_open = false;
            }
            Err(_) if line == END => self.has_ended = true,
            Err(_) if line == "ready" => {}
            Err(_) => self.wrong += 1,
        }
    }

    /// All lines once, in order, and none is missing.
    pub fn is_whole(&self, lines: u64) -> bool {
        self.said == lines && self.lost == 0 && self.is_counted(lines)
    }

    /// Each line once, in order, or counted as lost.
    pub fn is_counted(&self, lines: u64) -> bool {
        self.said + self.lost == lines && self.wrong == 0 && self.unknown == 0 && self.has_ended
    }

    pub fn shown(&self) -> String {
        let mut text = format!("{} said", super::thousands(self.said));
        for (count, what) in [
            (self.lost, "said to be lost"),
            (self.unknown, "gaps without a number"),
            (self.wrong, "out of order, twice or changed"),
            (u64::from(!self.has_ended), "end missing"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {} {what}", super::thousands(count)));
            }
        }
        text
    }
}
