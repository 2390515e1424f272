//! Checks a log: no number is missing, no line vanishes, and printed numbers are contiguous or have a gap.

use std::collections::HashMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;

use td_observe::history::{LogReader, Query, RunDirectory};
use td_observe::internals::history::read_tail;
use td_observe::{Envelope, TdEvent, Timestamp};

use crate::program::{Place, RUN};

/// Enough for the last whole lines of a log.
const TAIL_BYTES: u64 = 1 << 20;

/// Lines that were complete in the log at some time: each must still be there at the end.
#[derive(Debug, Default)]
pub struct Witnesses(HashMap<u64, Timestamp>);

impl Witnesses {
    /// Records the last event of the newest file; returns its number.
    pub fn note(&mut self, run: &RunDirectory) -> u64 {
        let tail = read_tail(&run.events_path(), TAIL_BYTES).unwrap_or_default();
        let Some((seq, ts)) = tail.last().and_then(|last| Some((last.seq?, last.ts))) else {
            return 0;
        };
        self.0.insert(seq, ts);
        seq
    }
}

/// The findings in a log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Findings {
    pub lost_lines: u64,
    pub missing_numbers: u64,
    /// The printed lines in the log.
    pub lines: u64,
}

/// Reads a run from its beginning.
pub fn check(run: &RunDirectory, mut witnesses: Witnesses) -> Findings {
    let mut findings = Findings::default();
    let mut next = 1;
    let mut printed = Printed::default();
    let mut reader = LogReader::open(run, Query::all()).unwrap();
    for record in reader.by_ref() {
        let envelope: Envelope = record.envelope;
        let Some(seq) = envelope.seq.filter(|seq| *seq > 0) else {
            continue;
        };
        let first = match envelope.event {
            TdEvent::LogGap { first_seq, .. } => first_seq,
            _ => seq,
        };
        if first != next {
            findings.missing_numbers += first.abs_diff(next);
        }
        next = seq + 1;
        if witnesses.0.get(&seq) == Some(&envelope.ts) {
            witnesses.0.remove(&seq);
        }
        printed.take(&envelope.event);
    }
    let report = reader.into_report();
    findings.lost_lines = printed.lost + report.invalid + witnesses.0.len() as u64;
    findings.lines = printed.lines;
    findings
}

/// Follows the numbers that `seq` prints.
#[derive(Debug, Default)]
struct Printed {
    last: Option<u64>,
    /// The text of a line whose end has not arrived.
    open: String,
    lines: u64,
    lost: u64,
}

impl Printed {
    fn take(&mut self, event: &TdEvent) {
        match event {
            TdEvent::OutputUpdate { chunk, .. } => self.text(chunk),
            TdEvent::ExecutionOutput { text, .. } => self.text(text),
            // The command starts again; lost lines have been reported.
            TdEvent::ExecutionStarted { .. }
            | TdEvent::OutputGap { .. }
            | TdEvent::LogGap { .. }
            | TdEvent::SessionStarted { .. } => {
                *self = Self {
                    last: None,
                    open: String::new(),
                    ..*self
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        for piece in text.split_inclusive('\n') {
            self.open.push_str(piece);
            if !piece.ends_with('\n') {
                continue;
            }
            let line = std::mem::take(&mut self.open);
            let Ok(number) = line.trim_end().trim_start_matches("line ").parse::<u64>() else {
                continue;
            };
            if let Some(last) = self.last
                && number != last + 1
            {
                self.lost += number.abs_diff(last + 1);
            }
            self.last = Some(number);
            self.lines += 1;
        }
    }
}

/// Checks a log with a lost line, a missing number and a vanished event, to prove that the counts of the
/// rounds can differ from 0.
pub fn assert_it_finds_losses() {
    let place = Place::new();
    let run = place.run();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(run.path())
        .unwrap();
    let line = |seq: u64, text: &str| {
        format!(
            "{{\"seq\":{seq},\"ts\":\"2026-01-21T10:00:01.123456Z\",\"event\":{{\"type\":\"ExecutionOutput\",\
             \"execution_id\":\"{RUN}\",\"stream\":\"stdout\",\"text\":\"{text}\"}}}}\n"
        )
    };
    let whole = [
        line(1, r"line 1\n"),
        line(2, r"line 2\nline 4\n"),
        line(4, r"line 5\n"),
    ];
    fs::write(run.events_path(), whole.concat()).unwrap();
    let mut witnesses = Witnesses::default();
    assert_eq!(witnesses.note(&run), 4);
    let findings = check(&run, Witnesses::default());
    assert_eq!((findings.lost_lines, findings.missing_numbers), (1, 1));
    fs::write(run.events_path(), whole[..2].concat()).unwrap();
    assert_eq!(check(&run, witnesses).lost_lines, 2);
}
