//! Faults on real parts: whatever happens around an observer, each line is reported once or covered by a
//! gap.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use td_observe::{Envelope, TdEvent};

use crate::observed::{Replay, shown};
use crate::support::{CEILING, TmuxServer, wait_for};

mod clock;
mod disk;
#[cfg(feature = "cli")]
mod hung;
mod moves;
mod names;
#[cfg(feature = "cli")]
mod observer;
mod panes;
mod panics;
mod server;
mod subscriber;
mod text;
#[cfg(feature = "cli")]
mod unread;
#[cfg(feature = "cli")]
pub mod watcher;

/// A pane's program that prints `line 1.`, `line 2.` and so on until a file ends it, and writes the
/// number of its last line to a file. It continues while its server or its observer is stopped.
pub struct Counting {
    printed: PathBuf,
    end: PathBuf,
    pause: &'static str,
}

impl Counting {
    /// Creates a program with this pause between two lines, in seconds.
    pub fn new(server: &TmuxServer, name: &str, pause: &'static str) -> Self {
        let at = |ending| server.directory().join(format!("{name}.{ending}"));
        Self {
            printed: at("printed"),
            end: at("end"),
            pause,
        }
    }

    /// Returns the pane's command, for the shell.
    pub fn command(&self) -> String {
        let Self {
            printed,
            end,
            pause,
        } = self;
        format!(
            "i=0; while [ ! -e '{end}' ]; do i=$((i+1)); echo line $i.; echo $i > '{printed}'; \
             sleep {pause}; done; echo the end; exec cat",
            end = end.display(),
            printed = printed.display()
        )
    }

    /// Returns a lower bound of the number of printed lines.
    pub fn printed(&self) -> u64 {
        // The file may not exist yet, or is being written.
        let text = fs::read_to_string(&self.printed).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// Waits until the program has printed this many more lines.
    #[track_caller]
    pub fn until_more(&self, lines: u64) -> u64 {
        let from = wait_for("a first line", CEILING, || {
            Some(self.printed()).filter(|&n| n > 0).ok_or("none")
        });
        wait_for("more lines", CEILING, || {
            let printed = self.printed();
            if printed >= from + lines {
                Ok(printed)
            } else {
                Err(printed)
            }
        })
    }

    /// Makes the program print `the end`.
    pub fn end(&self) {
        fs::write(&self.end, "").unwrap();
    }
}

/// A checked replay of a [`Counting`] program.
#[derive(Debug, Default)]
pub struct Counted {
    /// From the number of the first settled line to the number after the last.
    pub settled: Range<u64>,
    /// The ranges of lines that are missing and covered by a gap.
    pub missing: Vec<Range<u64>>,
    /// True if gaps follow the last line.
    pub open_end: bool,
}

impl Counted {
    /// Checks that each line occurs once and in order, or that a gap covers it. Apart from numbered lines
    /// only `others` are allowed.
    #[track_caller]
    pub fn of(replay: &Replay, others: &[&str]) -> Self {
        let mut counted = Self::default();
        let (mut first, mut next) = (None, 0);
        let mut announced = false;
        for (at, (_, text)) in replay.settled.iter().enumerate() {
            announced |= replay.gaps.iter().any(|gap| gap.3 == at);
            if others.contains(&text.as_str()) {
                continue;
            }
            let Some(number) = number_of(text) else {
                panic!("{text:?} was never printed: {replay:#?}");
            };
            if first.is_none() {
                (first, next) = (Some(number), number);
            }
            let texts = || &replay.settled[at.saturating_sub(5)..=at];
            assert!(number >= next, "twice, or out of order: {:?}", texts());
            if number > next {
                let gaps = &replay.gaps;
                assert!(announced, "missing silently: {:?}, gaps {gaps:?}", texts());
                counted.missing.push(next..number);
            }
            announced = false;
            next = number + 1;
        }
        counted.settled = first.unwrap_or(0)..next;
        counted.open_end = replay.gaps.iter().any(|gap| gap.3 == replay.settled.len());
        counted
    }
}

/// Returns the number in a line of a [`Counting`] program.
pub fn number_of(text: &str) -> Option<u64> {
    text.strip_prefix("line ")?.strip_suffix('.')?.parse().ok()
}

/// Returns the events of one run.
pub fn of_run(events: &[Envelope], id: &str) -> Vec<Envelope> {
    let is_of_run = |envelope: &&Envelope| envelope.event.execution_id() == id;
    events.iter().filter(is_of_run).cloned().collect()
}

/// Returns the runs in which a session was observed, in the order of their start.
pub fn runs_of(events: &[Envelope], name: &str) -> Vec<String> {
    let started = events.iter().filter_map(|envelope| match &envelope.event {
        TdEvent::SessionStarted {
            execution_id,
            session,
            ..
        } if session == name => Some(execution_id.to_string()),
        _ => None,
    });
    started.collect()
}

pub fn warnings(events: &[Envelope]) -> usize {
    let warns = |envelope: &&Envelope| matches!(envelope.event, TdEvent::Warning { .. });
    events.iter().filter(warns).count()
}

/// Returns the reason of a session's end, from its run.
#[track_caller]
pub fn end_of(run: &[Envelope]) -> String {
    let ends: Vec<String> = run
        .iter()
        .filter_map(|envelope| match &envelope.event {
            TdEvent::SessionEnded { reason, .. } => Some(reason.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(ends.len(), 1, "one end: {}", shown(run));
    ends[0].clone()
}
