//! The styles of a row's columns, as runs (pure).

use crate::event::Ink;

/// The runs of a row that are not plain, in order and without overlaps. A row without styles allocates
/// nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Inks(pub Vec<Run>);

/// A run of columns or characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub from: usize,
    /// The first one after the run.
    pub to: usize,
    pub ink: Ink,
}

impl Inks {
    /// Sets the style of these columns. A plain style removes their runs.
    pub fn set(&mut self, from: usize, to: usize, ink: Ink) {
        if self.0.is_empty() && ink.is_plain() || from >= to {
            return;
        }
        match self.0.last_mut() {
            // Most text is written from left to right.
            Some(last) if last.to == from && last.ink == ink => last.to = to,
            Some(last) if last.to > from => self.set_between(from, to, ink),
            _ if ink.is_plain() => {}
            _ => self.0.push(Run { from, to, ink }),
        }
    }

    fn set_between(&mut self, from: usize, to: usize, ink: Ink) {
        let first = self.0.partition_point(|run| run.to <= from);
        let end = self.0.partition_point(|run| run.from < to).max(first);
        let over = &self.0[first..end];
        let left = over.first().filter(|run| run.from < from);
        let left = left.map(|run| Run { to: from, ..*run });
        let right = over.last().filter(|run| run.to > to);
        let right = right.map(|run| Run { from: to, ..*run });
        let own = (!ink.is_plain()).then_some(Run { from, to, ink });
        self.0
            .splice(first..end, [left, own, right].into_iter().flatten());
    }

    /// Moves `columns` columns. Columns that they leave are plain.
    pub fn shift(&mut self, to: usize, from: usize, columns: usize) {
        if self.0.is_empty() {
            return;
        }
        let end = from + columns;
        let within = |run: &Run| Run {
            from: run.from.max(from),
            to: run.to.min(end),
            ..*run
        };
        let moved: Vec<Run> = self
            .0
            .iter()
            .map(within)
            .filter(|run| run.from < run.to)
            .collect();
        self.set(from, end, Ink::default());
        self.set(to, to + columns, Ink::default());
        for run in moved {
            self.set(run.from - from + to, run.to - from + to, run.ink);
        }
    }

    /// Removes all runs from this column on.
    pub fn truncate(&mut self, end: usize) {
        self.set(end, usize::MAX, Ink::default());
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use proptest::prelude::*;

    fn ink(number: u8) -> Ink {
        let mut ink = Ink::default();
        if number > 0 {
            ink.apply(&format!("38;5;{number}"));
        }
        ink
    }

    proptest! {
        /// The runs give each column the style that a row of cells has, in order and without overlaps.
        #[test]
        fn runs_are_as_cells(steps in prop::collection::vec((0_usize..30, 0_usize..30, 0_u8..5, 0_u8..8), 0..40)) {
            let mut cells = vec![Ink::default(); 64];
            let mut inks = Inks::default();
            for (from, count, number, operation) in steps {
                match operation {
                    0 => {
                        inks.shift(number as usize, from, count);
                        let moved: Vec<Ink> = cells[from..from + count].to_vec();
                        cells[from..from + count].fill(Ink::default());
                        cells[number as usize..number as usize + count].copy_from_slice(&moved);
                    }
                    1 => {
                        inks.truncate(from);
                        cells[from..].fill(Ink::default());
                    }
                    _ => {
                        inks.set(from, from + count, ink(number));
                        cells[from..from + count].fill(ink(number));
                    }
                }
                let runs = &inks.0;
                prop_assert!(runs.iter().all(|run| run.from < run.to && !run.ink.is_plain()));
                prop_assert!(runs.windows(2).all(|pair| pair[0].to <= pair[1].from));
                let mut shown = vec![Ink::default(); 64];
                for run in runs {
                    shown[run.from..run.to].fill(run.ink);
                }
                prop_assert_eq!(&shown, &cells);
            }
        }
    }
}
