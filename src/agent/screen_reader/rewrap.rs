//! Aligns the page that follows a resize: its rows are wrapped at another width, so letters are compared (pure).

use std::collections::VecDeque;

use super::ScreenReader;
use super::align::{letters, letters_before};
use super::row::ConversationRow;
use crate::agent::AgentEvent;

impl ScreenReader {
    /// Returns the number of letters above the settled row `at` if the page shows the letters of the settled
    /// rows from there in other rows, because an earlier resize has left them wrapped at another width.
    pub(super) fn letters_above_rewrapped(
        &self,
        at: usize,
        page: &[ConversationRow],
    ) -> Option<usize> {
        let settled = self.settled.range(at..);
        let same_rows = &page[..page.len().min(settled.len())];
        let settled: Vec<char> = settled.flat_map(ConversationRow::letters).collect();
        let is_rewrapped = !settled.is_empty()
            && letters(same_rows) != settled
            && letters(page).starts_with(&settled);
        let above = self.settled.range(..at).flat_map(ConversationRow::letters);
        is_rewrapped.then(|| above.count())
    }

    /// Aligns a page that is wrapped at another width, by its letters.
    pub(super) fn rewrap(
        &mut self,
        page: &[ConversationRow],
        events: &mut Vec<AgentEvent>,
    ) -> bool {
        let known = self.settled.iter().chain(&self.live);
        let known: Vec<char> = known.flat_map(ConversationRow::letters).collect();
        let before = letters_before(&known, &letters(page));
        if let Some(before) = before {
            self.rewrap_after(before, page, events);
        }
        before.is_some()
    }

    /// Processes a page that begins after this number of known letters, wrapped at another width.
    pub(super) fn rewrap_after(
        &mut self,
        before: usize,
        page: &[ConversationRow],
        events: &mut Vec<AgentEvent>,
    ) {
        // Live rows above the page have scrolled off.
        let settled = self.settled.iter();
        let mut start = settled.flat_map(ConversationRow::letters).count();
        while let Some(row) = self.live.first() {
            let letters = row.letters().count();
            if start + letters > before {
                break;
            }
            self.settle_rows(1, events);
            start += letters;
        }
        let mut reported_end = start;
        if let Some(row) = self.live.first_mut() {
            let above = before.saturating_sub(start);
            if above > row.reported {
                self.writer
                    .add_row(&row.up_to(above).unreported(), &self.layout, events);
                row.reported = above;
            }
            reported_end += row.reported;
            if above > 0 {
                self.settled.push_back(row.up_to(above));
            }
        }
        let mut reported = reported_end.saturating_sub(before);
        let mut bare = match reported_end == start {
            true => bare_rows_at_end(&self.settled),
            false => 0,
        };
        let mut rows = page.iter();
        self.keep_letters(before);
        self.last = self.settled.len();
        self.live.clear();
        for row in rows.by_ref() {
            let letters = row.letters().count();
            if letters == 0 && reported == 0 && bare > 0 {
                bare -= 1;
            } else if letters > reported || reported == 0 {
                let mut row = row.clone();
                row.reported = reported;
                self.live.push(row);
                break;
            }
            reported -= letters;
            self.settled.push_back(row.clone());
        }
        self.live.extend(rows.cloned());
        self.settling = None;
    }

    /// Truncates the settled rows to this number of letters.
    fn keep_letters(&mut self, mut letters: usize) {
        for at in 0..self.settled.len() {
            let count = self.settled[at].letters().count();
            if count > letters {
                self.settled[at] = self.settled[at].up_to(letters);
                self.settled.truncate(at + usize::from(letters > 0));
                return;
            }
            letters -= count;
        }
    }
}

/// Returns the number of rows without letters at the end. Only their number shows that a page has them again.
fn bare_rows_at_end(rows: &VecDeque<ConversationRow>) -> usize {
    let is_bare = |row: &&ConversationRow| row.letters().next().is_none();
    rows.iter().rev().take_while(is_bare).count()
}
