//! Positions in the events of an observer: what came before each of them, and cursors, by which clients name
//! them (pure).

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::str::FromStr;

use crate::event::ExecutionId;
use crate::history::fnv1a;
use crate::timestamp::Timestamp;

/// The number of steps in the journal, of 4 bytes each: seconds of a flood, or hours of 100 busy panes.
const STEPS_MAX: usize = 1 << 19;

/// The last number of each run at a position.
pub(crate) type Numbers = BTreeMap<ExecutionId, u64>;

/// Records the order in which the observer distributed the events of all runs.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    runs: Vec<ExecutionId>,
    index: HashMap<ExecutionId, u32>,
    /// The last number of each run before the first step; 0 for none.
    base: Vec<u64>,
    /// The last number of each run after the last step.
    last: Vec<u64>,
    /// The position of the first step.
    first: u64,
    /// The step at each position: the run of the event, and the change of the run's number.
    steps: VecDeque<Step>,
    /// The numbers of the steps with [`JUMP`], in order.
    jumps: VecDeque<u64>,
}

/// The index of a run, and in its two lowest bits one of [`STAY`], [`NEXT`] and [`JUMP`].
#[derive(Clone, Copy, Debug)]
struct Step(u32);

/// The event has no number.
const STAY: u32 = 0;
/// The number is the next one of the run, as for nearly all events.
const NEXT: u32 = 1;
/// The number is stored in [`Journal::jumps`].
const JUMP: u32 = 2;

impl Step {
    /// Updates the number of the step's run.
    fn apply(self, numbers: &mut [u64], jump: impl FnOnce() -> Option<u64>) {
        let number = numbers.get_mut((self.0 >> 2) as usize);
        match (number, self.0 & 3) {
            (Some(number), NEXT) => *number += 1,
            (Some(number), JUMP) => *number = jump().unwrap_or(*number),
            _ => {}
        }
    }
}

impl Journal {
    /// Sets the number of a run before the first position.
    pub fn begin(&mut self, run: &str, seq: u64) {
        let index = self.index_of(run);
        self.base[index as usize] = seq;
        self.last[index as usize] = seq;
    }

    /// Adds the event at the next position.
    pub fn push(&mut self, run: &str, seq: Option<u64>) {
        let index = self.index_of(run);
        let last = self.last[index as usize];
        let change = match seq {
            None | Some(0) => STAY,
            Some(seq) if seq == last + 1 => NEXT,
            Some(seq) => {
                self.jumps.push_back(seq);
                JUMP
            }
        };
        let step = Step(index << 2 | change);
        step.apply(&mut self.last, || seq);
        self.steps.push_back(step);
        if self.steps.len() > STEPS_MAX
            && let Some(step) = self.steps.pop_front()
        {
            self.first += 1;
            step.apply(&mut self.base, || self.jumps.pop_front());
        }
    }

    /// Returns the position after the last event.
    pub fn end(&self) -> u64 {
        self.first + self.steps.len() as u64
    }

    /// Returns the last number of each run after the last event.
    pub fn numbers(&self) -> Numbers {
        self.named(&self.last)
    }

    /// Returns the last number of a run; 0 for none.
    pub fn last_of(&self, run: &str) -> u64 {
        let index = self.index.get(run);
        let last = index.and_then(|index| self.last.get(*index as usize));
        last.copied().unwrap_or(0)
    }

    /// Returns the last number of each run at a position; `None` if it is older than the journal or in the
    /// future.
    pub fn numbers_at(&self, position: u64) -> Option<Numbers> {
        let count = position.checked_sub(self.first)?;
        if position > self.end() {
            return None;
        }
        let mut numbers = self.base.clone();
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let mut jumps = self.jumps.iter();
        for step in self.steps.iter().take(count) {
            step.apply(&mut numbers, || jumps.next().copied());
        }
        Some(self.named(&numbers))
    }

    fn named(&self, numbers: &[u64]) -> Numbers {
        let runs = self.runs.iter().zip(numbers);
        let numbered = runs.filter(|(_, seq)| **seq > 0);
        numbered.map(|(run, seq)| (run.clone(), *seq)).collect()
    }

    fn index_of(&mut self, run: &str) -> u32 {
        if let Some(index) = self.index.get(run) {
            return *index;
        }
        // An observer has far fewer runs than 2³⁰.
        let index = u32::try_from(self.runs.len()).unwrap_or(u32::MAX);
        let run = ExecutionId::from(run);
        self.runs.push(run.clone());
        self.base.push(0);
        self.last.push(0);
        self.index.insert(run, index);
        index
    }
}

/// A position after an event, in the live stream or in the history before it.
///
/// Clients store its text and send it as `Last-Event-ID`. Only the observer interprets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamCursor {
    /// The observer that assigned the position.
    pub instance: u64,
    /// The number of events that the observer had distributed at this position.
    pub position: u64,
    /// The time of the last event before the position, from which another observer can continue. Before the
    /// first event of a history, the time from which the history is read.
    pub ts: Timestamp,
    /// The place in the history, while the history before the position is read.
    pub history: Option<HistoryPlace>,
}

/// A place in the histories of all runs, which are merged in a stable order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HistoryPlace {
    /// The position from which the history is read. `reader.rs` defines the values for the beginning of all
    /// runs and for one run.
    pub from: u64,
    /// The hash of the last event's execution; see [`run_hash`]. 0 before the first event.
    pub run: u64,
    /// The number of the last event in its run; 0 before the first event.
    pub seq: u64,
}

impl HistoryPlace {
    /// Returns the place before the first event of a history.
    pub fn before(from: u64) -> Self {
        Self {
            from,
            run: 0,
            seq: 0,
        }
    }

    /// Returns true if the place is before the first event.
    pub fn is_before_all(self) -> bool {
        (self.run, self.seq) == (0, 0)
    }
}

impl fmt::Display for StreamCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.ts.micros();
        write!(f, "{:x}.{}.{micros}", self.instance, self.position)?;
        match self.history {
            Some(HistoryPlace { from, run, seq }) => write!(f, ".{from}.{run:x}.{seq}"),
            None => Ok(()),
        }
    }
}

/// The error for a text that is not a cursor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidCursor;

impl FromStr for StreamCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let hex = |text: &str| u64::from_str_radix(text, 16).map_err(|_| InvalidCursor);
        let decimal = |text: &str| text.parse().map_err(|_| InvalidCursor);
        let parts: Vec<&str> = text.split('.').collect();
        let (start, history) = match parts.as_slice() {
            [start @ .., from, run, seq] if start.len() == 3 => {
                let (from, run, seq) = (decimal(from)?, hex(run)?, decimal(seq)?);
                (start, Some(HistoryPlace { from, run, seq }))
            }
            start => (start, None),
        };
        let [instance, position, micros] = start else {
            return Err(InvalidCursor);
        };
        Ok(Self {
            instance: hex(instance)?,
            position: decimal(position)?,
            ts: Timestamp::from_micros(micros.parse().map_err(|_| InvalidCursor)?),
            history,
        })
    }
}

/// Returns the hash that identifies a run in a cursor.
pub(crate) fn run_hash(execution_id: &str) -> u64 {
    fnv1a(execution_id.as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_those_of_a_naive_fold(
            begun in proptest::collection::vec(0_usize..4, 0..3),
            runs in proptest::collection::vec((0_usize..4, proptest::option::of(0_u64..3)), 0..200),
        ) {
            let ids: Vec<ExecutionId> = ["a", "b", "c", "d"].map(ExecutionId::from).into();
            let mut journal = Journal::default();
            let mut numbers = Numbers::new();
            for run in begun {
                journal.begin(&ids[run], 7);
                numbers.insert(ids[run].clone(), 7);
            }
            let mut all = vec![numbers.clone()];
            for (run, ahead) in runs {
                let last = numbers.get(&ids[run]).copied().unwrap_or(0);
                let seq = ahead.map(|ahead| last + 1 + ahead);
                journal.push(&ids[run], seq);
                if let Some(seq) = seq {
                    numbers.insert(ids[run].clone(), seq);
                }
                all.push(numbers.clone());
            }
            prop_assert_eq!(journal.numbers(), numbers);
            for (position, numbers) in (0..).zip(all) {
                prop_assert_eq!(journal.numbers_at(position), Some(numbers));
            }
            prop_assert_eq!(journal.numbers_at(journal.end() + 1), None);
        }
    }

    #[test]
    fn old_positions_are_forgotten() {
        let mut journal = Journal::default();
        let id = ExecutionId::from("a");
        let count = STEPS_MAX as u64 + 10;
        // Every fifth number skips one.
        let seq_of = |position: u64| position + position / 5;
        for position in 1..=count {
            journal.push(&id, Some(seq_of(position)));
        }
        assert_eq!(journal.end(), count);
        assert_eq!(journal.numbers_at(9), None);
        for position in [10, 11, 12, count] {
            let numbers = journal.numbers_at(position).unwrap();
            assert_eq!(numbers[&id], seq_of(position));
        }
        assert!(journal.jumps.len() <= STEPS_MAX / 5 + 1);
    }

    proptest! {
        #[test]
        fn a_cursor_survives_as_text(
            instance: u64, position: u64, micros: i64, history in proptest::option::of((any::<u64>(), any::<u64>(), any::<u64>())),
        ) {
            let history = history.map(|(from, run, seq)| HistoryPlace { from, run, seq });
            let cursor = StreamCursor { instance, position, ts: Timestamp::from_micros(micros), history };
            prop_assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }

        #[test]
        fn any_text_is_a_cursor_or_none(text in "[0-9a-f.-]{0,40}") {
            let _ = text.parse::<StreamCursor>();
        }
    }
}
