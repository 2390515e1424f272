//! Detects the ends of turns on the screen of a full-screen program, whose rows have no line
//! numbers (pure).

use std::collections::VecDeque;

use super::markers::Markers;
use super::recent::{MarkerContext, RecentLines};
use crate::event::ScreenRow;

/// The maximum number of turns to remember, because they may be redrawn.
pub(super) const KNOWN_TURNS_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct FullScreen {
    pub rows: RecentLines,
    /// The contexts of the markers that the program has shown.
    known: VecDeque<MarkerContext>,
}

impl FullScreen {
    pub fn update(&mut self, height: u32, rows: &[ScreenRow], markers: &Markers) {
        self.rows.cut(i64::from(height));
        for row in rows {
            let marker = markers.find(&row.text);
            self.rows.set(i64::from(row.row), &row.text, marker);
        }
    }

    /// Returns the markers that were not shown before, in order. The screen shows a section of the
    /// text: its top markers are the last known ones or, after the user has scrolled back, all of
    /// its markers are known in this order.
    pub fn new_turns(&mut self) -> Vec<(i64, usize)> {
        let rows = self.rows.markers();
        let current: Vec<(i64, usize, MarkerContext)> = rows
            .filter(|(row, _)| !self.rows.is_input(*row))
            .map(|(row, marker)| (row, marker, self.rows.context(row, i64::MIN)))
            .collect();
        let known = self.known.make_contiguous();
        let is_section = |known: &[MarkerContext]| {
            let mut pairs = known.iter().zip(&current);
            pairs.all(|(known, (_, _, context))| known.is_same(context))
        };
        let mut lengths = (0..=current.len().min(known.len())).rev();
        let known = match known.windows(current.len().max(1)).any(is_section) {
            true => current.len(),
            false => lengths
                .find(|length| is_section(&known[known.len() - length..]))
                .unwrap_or(0),
        };
        let mut found = Vec::new();
        for (row, marker, context) in current.into_iter().skip(known) {
            found.push((row, marker));
            self.known.push_back(context);
        }
        while self.known.len() > KNOWN_TURNS_MAX {
            self.known.pop_front();
        }
        found
    }
}
