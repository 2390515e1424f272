//! Detects ends of turns on the screen of a full-screen program, whose rows have no line numbers
//! (pure).

use std::collections::VecDeque;

use super::recent::{MarkerContext, RecentLines};
use super::{Markers, PAST_MAX};
use crate::event::ScreenRow;

/// The screen of a full-screen program.
#[derive(Debug, Default)]
pub(super) struct FullScreen {
    pub page: RecentLines,
    /// The contexts of the markers that the program has shown.
    shown: VecDeque<MarkerContext>,
}

impl FullScreen {
    /// Updates changed rows.
    pub fn update(&mut self, height: u32, rows: &[ScreenRow], markers: &Markers) {
        self.page.cut(i64::from(height));
        for row in rows {
            let marker = markers.find(&row.text);
            self.page.set(i64::from(row.row), &row.text, marker);
        }
    }

    /// Returns the markers that were not shown before, in order. The screen shows a section of the
    /// text: its top markers are the last ones shown, or, after scrolling back, all of them were
    /// shown in this order.
    pub fn new_turns(&mut self) -> Vec<(i64, usize)> {
        let rows = self.page.markers();
        let there: Vec<(i64, usize, MarkerContext)> = rows
            .filter(|(row, _)| !self.page.is_input(*row))
            .map(|(row, marker)| (row, marker, self.page.context(row, i64::MIN)))
            .collect();
        let shown = self.shown.make_contiguous();
        let is_stretch = |shown: &[MarkerContext]| {
            let mut pairs = shown.iter().zip(&there);
            pairs.all(|(known, (_, _, context))| known.is_same(context))
        };
        let mut lengths = (0..=there.len().min(shown.len())).rev();
        let known = match shown.windows(there.len().max(1)).any(is_stretch) {
            true => there.len(),
            false => lengths
                .find(|length| is_stretch(&shown[shown.len() - length..]))
                .unwrap_or(0),
        };
        let mut found = Vec::new();
        for (row, marker, context) in there.into_iter().skip(known) {
            found.push((row, marker));
            self.shown.push_back(context);
        }
        while self.shown.len() > PAST_MAX {
            self.shown.pop_front();
        }
        found
    }
}
