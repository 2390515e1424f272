//! The model of what must hold: the lines of each printer are in the logs once and in order, or a gap is in their place.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use td_observe::history::{LogReader, Query, RunDirectory};
use td_observe::{PaneId, TdEvent};

use crate::printer::{line, parse, tag};

/// Faults that are shown: all of a bad hour, because those of the observer follow those of the lines.
const SHOWN: usize = 100;

/// A gap before a piece: none, or the number of lost lines, if it is known.
type Gap = Option<Option<u64>>;

/// Consecutive lines of a printer in one pane of one run.
#[derive(Clone, Debug)]
struct Piece {
    source: (usize, PaneId),
    first: u64,
    last: u64,
    gap: Gap,
    /// The piece before it in the same pane is of the same printer.
    follows: bool,
}

/// What the logs have.
#[derive(Debug, Default)]
pub struct Verdict {
    pub faults: Vec<String>,
    lines: u64,
    gaps: u64,
    /// Each in words.
    kinds: Vec<String>,
    /// What the observer said of its panes, which tells why there are gaps.
    warnings: Vec<String>,
    /// Lines in gaps.
    lost: u64,
    /// Gaps whose number of lines is not known.
    uncounted: u64,
    runs: usize,
    printers: BTreeMap<u64, Vec<Piece>>,
}

/// The state of a pane while its log is read.
#[derive(Default)]
struct Pane {
    tag: Option<u64>,
    gap: Gap,
    /// A line that no printer prints as a whole: the end of one that was killed.
    torn: Option<String>,
}

impl Verdict {
    /// Reads the logs of all runs.
    pub fn of(runs: &[RunDirectory]) -> Self {
        let mut verdict = Self {
            runs: runs.len(),
            ..Self::default()
        };
        for (number, run) in runs.iter().enumerate() {
            verdict.read(number, run);
        }
        verdict.judge();
        verdict
    }

    fn read(&mut self, number: usize, run: &RunDirectory) {
        let name = run.path().display().to_string();
        let mut reader = match LogReader::open(run, Query::all()) {
            Ok(reader) => reader,
            Err(error) => return self.faults.push(format!("{name}: {error:?}")),
        };
        let (mut panes, mut next) = (BTreeMap::<PaneId, Pane>::new(), 1);
        for record in reader.by_ref() {
            let envelope = record.envelope;
            if let Some(seq) = envelope.seq.filter(|seq| *seq > 0) {
                let first = match envelope.event {
                    TdEvent::LogGap { first_seq, .. } => first_seq,
                    _ => seq,
                };
                if first != next {
                    self.faults
                        .push(format!("{name}: number {first} follows {}", next - 1));
                }
                next = seq + 1;
            }
            if matches!(envelope.event, TdEvent::LogGap { .. }) {
                // Any lines may be among the events that the log had to drop.
                for pane in panes.values_mut() {
                    pane.gap = Some(None);
                }
            }
            if let TdEvent::Warning { message, .. } = &envelope.event {
                self.warnings
                    .push(format!("{} {name}: {message}", envelope.ts));
            }
            let Some(pane) = envelope.event.pane().cloned() else {
                continue;
            };
            let state = panes.entry(pane.clone()).or_default();
            match &envelope.event {
                TdEvent::OutputGap {
                    lost_lines,
                    reason,
                    evidence,
                    ..
                } => {
                    self.gaps += 1;
                    let gap = format!(
                        "{} {name} {pane}: {evidence} {reason}, {lost_lines:?} lines",
                        envelope.ts
                    );
                    self.kinds.push(gap);
                    state.gap = Some(match state.gap {
                        None => *lost_lines,
                        Some(before) => before.zip(*lost_lines).map(|(one, other)| one + other),
                    });
                }
                TdEvent::OutputUpdate { chunk, .. } => {
                    for line in chunk.lines() {
                        if let Some(fault) = self.line((number, pane.clone()), state, line) {
                            self.faults.push(format!("{name} {pane}: {fault}"));
                        }
                    }
                }
                _ => {}
            }
        }
        let report = reader.into_report();
        if report.invalid > 0 {
            self.faults
                .push(format!("{name}: {} damaged lines", report.invalid));
        }
    }

    fn line(&mut self, source: (usize, PaneId), state: &mut Pane, line: &str) -> Option<String> {
        let (tag, number) = match parse(line.trim_end()) {
            Ok(parsed) => parsed,
            Err(true) => {
                state.torn = Some(line.to_owned());
                return None;
            }
            Err(false) => return None,
        };
        self.lines += 1;
        let follows = state.tag.replace(tag) == Some(tag);
        let torn = state.torn.take().filter(|_| follows && state.gap.is_none());
        let pieces = self.printers.entry(tag).or_default();
        match pieces.iter_mut().rev().find(|piece| piece.source == source) {
            Some(piece) if follows && state.gap.is_none() && piece.last + 1 == number => {
                piece.last = number;
            }
            _ => pieces.push(Piece {
                source,
                first: number,
                last: number,
                gap: state.gap.take(),
                follows,
            }),
        }
        torn.map(|torn| format!("a part of a line: {torn:?}"))
    }

    /// Judges the pieces of each printer.
    fn judge(&mut self) {
        if self.lines == 0 {
            self.faults.push("no line was observed".to_owned());
        }
        for (tag, pieces) in &mut self.printers {
            pieces.sort_by_key(|piece| piece.first);
            for pair in pieces.windows(2) {
                let [before, after] = pair else { continue };
                let what = || format!("printer {tag}: {before:?} and {after:?}");
                let Some(missing) = after.first.checked_sub(before.last + 1) else {
                    self.faults.push(format!("{}: lines twice", what()));
                    continue;
                };
                self.lost += missing;
                match after.gap {
                    None if missing > 0 => {
                        self.faults
                            .push(format!("{}: lines silently missing", what()));
                    }
                    Some(Some(count))
                        if after.follows && count != missing && before.source == after.source =>
                    {
                        self.faults
                            .push(format!("{}: another number is missing", what()));
                    }
                    Some(None) => self.uncounted += 1,
                    _ => {}
                }
            }
        }
    }

    /// Makes each gap a violation, for a time in which nothing was lost.
    pub fn refuse_gaps(&mut self) {
        if !self.kinds.is_empty() {
            self.faults.append(&mut self.kinds);
            self.faults.append(&mut self.warnings);
        }
    }

    /// Returns the last line of a printer in the logs.
    pub fn last_of(&self, tag: u64) -> Option<u64> {
        let pieces = self.printers.get(&tag)?;
        pieces.iter().map(|piece| piece.last).max()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} runs, {} printers, {} lines, {} gaps with {} lines ({} of unknown size), {} violations",
            self.runs,
            self.printers.len(),
            self.lines,
            self.gaps,
            self.lost,
            self.uncounted,
            self.faults.len()
        )?;
        for fault in self.faults.iter().take(SHOWN) {
            writeln!(f, "!!! {fault}")?;
        }
        Ok(())
    }
}

/// Proves that violations are found.
pub fn assert_it_finds_faults() {
    let began = |seconds| tag(7, Duration::from_secs(seconds));
    let printer = |tag| move |numbers: &[u64]| lines(tag, numbers);
    let (one, other) = (printer(began(1)), printer(began(2)));
    let here = |numbers: &[u64]| vec![(0, None, one(numbers))];
    assert_eq!(faults(&here(&[1, 2, 3])), 0);
    assert_eq!(faults(&here(&[1, 2, 5])), 1);
    assert_eq!(faults(&here(&[1, 2, 2])), 1);
    let with_gap = |lost| vec![(0, None, one(&[1, 2])), (0, Some(lost), one(&[5]))];
    assert_eq!(faults(&with_gap(Some(2))), 0);
    assert_eq!(faults(&with_gap(None)), 0);
    assert_eq!(faults(&with_gap(Some(3))), 1);
    // The pane has moved to another session, whose run follows.
    let moved = |gap, numbers: &[u64]| vec![(0, None, one(&[1, 2])), (1, gap, one(numbers))];
    assert_eq!(faults(&moved(None, &[3, 4])), 0);
    assert_eq!(faults(&moved(None, &[5, 6])), 1);
    assert_eq!(faults(&moved(Some(None), &[5, 6])), 0);
    assert_eq!(faults(&moved(None, &[1, 2])), 1);
    assert_eq!(faults(&moved(Some(None), &[2, 3])), 1);
    // Another printer has the pid of one that has ended.
    let again = |numbers: &[u64]| vec![(0, None, one(&[1, 2, 3])), (1, None, other(numbers))];
    assert_eq!(faults(&again(&[1, 2])), 0);
    assert_eq!(faults(&again(&[1, 3])), 1);
    assert_eq!(faults(&again(&[1, 1])), 1);
}

/// Lines in the log of a run, and the gap before them.
type Logged = (usize, Gap, Vec<String>);

fn lines(tag: u64, numbers: &[u64]) -> Vec<String> {
    let numbers = numbers.iter();
    numbers.map(|number| line(tag, *number)).collect()
}

/// Returns the number of violations in the logs of a pane.
fn faults(logs: &[Logged]) -> usize {
    let (mut verdict, mut states) = (Verdict::default(), BTreeMap::<usize, Pane>::new());
    for (run, gap, lines) in logs {
        let state = states.entry(*run).or_default();
        state.gap = *gap;
        for line in lines {
            let torn = verdict.line((*run, PaneId::from("%1")), state, line);
            assert_eq!(torn, None);
        }
    }
    verdict.judge();
    verdict.faults.len()
}
