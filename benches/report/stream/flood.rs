//! A pane that prints numbered lines as fast as they are read, and an account of the reports.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use td_observe::{Envelope, TdEvent};

use crate::common::support::{TmuxServer, wait_for, within};

/// The last line; the pane's command does not contain it as one word.
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

    /// Creates the same pane; it prints the last line on request.
    pub fn with_held_end(lines: u64) -> Self {
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

    /// Starts the flood.
    pub fn go(&self) {
        self.server.tmux(&["wait-for", "-S", "go"]);
    }

    /// Lets the pane print the last line.
    pub fn more(&self) {
        self.server.tmux(&["wait-for", "-S", "more"]);
    }

    /// Returns the seconds that the pane's program took, once it has ended.
    pub fn took(&self) -> f64 {
        // Slow machines print three million lines per second, and this one may be busy.
        let ceiling = Duration::from_secs(30 + self.lines / 200_000);
        let text = wait_for("the end of the flood", ceiling, || {
            fs::read_to_string(&self.took)
        });
        text.trim().parse().unwrap()
    }
}

/// Waits until `check` returns true at the end of the flood; returns false if it never did.
pub fn until_end(what: &str, ceiling: Duration, mut check: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    let came = within(ceiling, || if check() { Ok(()) } else { Err(()) });
    if came.is_err() {
        eprintln!("FAILED: {what} has no end after {:?}", began.elapsed());
    }
    came.is_ok()
}

/// The reports about a pane that prints `seq 1 N`.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    pub settled: u64,
    /// Lines in gaps with a count.
    pub lost: u64,
    /// Gaps without a count.
    pub unknown: u64,
    /// Lines out of order, and settled lines that were revised.
    pub wrong: u64,
    pub has_ended: bool,
    /// The number of the last line, including gaps.
    last: u64,
    /// True after a gap without a count, which may be of any size.
    is_open: bool,
    /// The tracker's number of the next line.
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
                self.settled += 1;
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

    /// Returns true if every line arrived once, in order.
    pub fn is_whole(&self, lines: u64) -> bool {
        self.settled == lines && self.lost == 0 && self.is_counted(lines)
    }

    /// Returns true if every line arrived once, in order, or was counted as lost.
    pub fn is_counted(&self, lines: u64) -> bool {
        self.settled + self.lost == lines && self.wrong == 0 && self.unknown == 0 && self.has_ended
    }

    pub fn shown(&self) -> String {
        let mut text = format!("{} said", super::thousands(self.settled));
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
