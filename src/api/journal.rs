//! The journal of the last positions: the run and number of the event at each of them (pure).

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::event::ExecutionId;

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
}
