//! Holds the lines of a view in order, and finds lines of panes by their numbers (pure).

use std::collections::{HashMap, VecDeque};

use super::content::Change;
use super::line::{Position, ViewLine};

/// Lines in order.
#[derive(Debug, Default)]
pub(super) struct Lines {
    lines: VecDeque<ViewLine>,
    /// The number of lines that were removed from the front.
    removed: usize,
    /// The index of each line of a pane, plus the removed lines.
    numbers: HashMap<i64, usize>,
}

impl Lines {
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    pub fn get(&self, index: usize) -> Option<&ViewLine> {
        self.lines.get(index)
    }

    pub fn last(&self) -> Option<&ViewLine> {
        self.lines.back()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &ViewLine> {
        self.lines.iter()
    }

    /// Applies a change; returns the new line, if there is one.
    pub fn apply(&mut self, change: Change) -> Option<&ViewLine> {
        match change {
            Change::Line(line) => {
                self.push(line);
                self.lines.back()
            }
            Change::Revised(number, text) => {
                let at = self.numbers.get(&number)?.checked_sub(self.removed)?;
                if let Some(line) = self.lines.get_mut(at) {
                    line.text = text;
                }
                None
            }
        }
    }

    pub fn push(&mut self, line: ViewLine) {
        if let Some(number) = line.number {
            self.numbers.insert(number, self.removed + self.lines.len());
        }
        self.lines.push_back(line);
    }

    /// Removes the lines of events up to this number from the front.
    pub fn forget_until(&mut self, seq: u64) {
        let count = self
            .lines
            .iter()
            .take_while(|line| line.at.seq <= seq)
            .count();
        self.keep_last(self.lines.len() - count);
    }

    /// Keeps only the last `count` lines.
    pub fn keep_last(&mut self, count: usize) {
        while self.lines.len() > count
            && let Some(line) = self.lines.pop_front()
        {
            self.forget_number(&line);
            self.removed += 1;
        }
    }

    fn forget_number(&mut self, line: &ViewLine) {
        if let Some(number) = line.number
            && self.numbers.get(&number) == Some(&self.removed)
        {
            self.numbers.remove(&number);
        }
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the index of the first line at or after a position, or of the last line.
    pub fn find(&self, at: Position) -> usize {
        let index = self.lines.partition_point(|line| line.at < at);
        index.min(self.lines.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::face::tui::painted::StyledText;
    use crate::timestamp::Timestamp;

    fn line(seq: u64, number: i64) -> ViewLine {
        ViewLine {
            at: Position { seq, nth: 0 },
            ts: Timestamp::default(),
            text: StyledText::default(),
            number: Some(number),
        }
    }

    proptest! {
        /// A revision finds its line, regardless of the number of lines removed before it.
        #[test]
        fn revisions_find_their_lines(steps in prop::collection::vec((0_u8..4, 0_i64..40), 0..80)) {
            let (mut lines, mut naive) = (Lines::default(), Vec::<(u64, i64, String)>::new());
            let mut seq = 0;
            for (kind, number) in steps {
                match kind {
                    0 | 1 => {
                        seq += 1;
                        lines.apply(Change::Line(line(seq, seq as i64)));
                        naive.push((seq, seq as i64, String::new()));
                    }
                    2 => {
                        let text = StyledText { text: format!("{number}x"), runs: Vec::new() };
                        lines.apply(Change::Revised(number, text));
                        if let Some(line) = naive.iter_mut().rfind(|line| line.1 == number) {
                            line.2 = format!("{number}x");
                        }
                    }
                    _ => {
                        lines.keep_last(number as usize);
                        let drop = naive.len().saturating_sub(number as usize);
                        naive.drain(..drop);
                    }
                }
            }
            let held: Vec<_> = lines.iter().map(|line| (line.at.seq, line.number.unwrap(), line.text.text.clone())).collect();
            prop_assert_eq!(held, naive);
        }
    }
}
