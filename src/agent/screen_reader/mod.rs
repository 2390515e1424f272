//! Reads an agent's conversation from its screen if it keeps no transcript (pure). Each row is
//! reported once, when it scrolls off inside a full-screen program or when the turn ends.
//!
//! ```text
//! screen ─layout─> page (rows that scroll) ─align─> settled rows ─writer─> events
//! ```
//!
//! Each page is aligned with the known rows. *Settled* rows were reported and are final; *live*
//! rows may still change. Live rows that a page no longer shows have scrolled off. If a page shares
//! no rows with the known ones, rows were lost, which is also reported.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{AgentEvent, AgentProgram, one_line};
use crate::text::last_sentence;
use align::{
    ConversationPage, ConversationRow, RowPart, align, grown, is_redrawn, letters, letters_before,
    shared_rows,
};
use layout::Layout;
use writer::ConversationWriter;

mod align;
mod layout;
mod opencode;

mod writer;

#[cfg(test)]
mod tests;

/// The number of settled rows to remember, so that scrolling back within them reports nothing twice.
const SETTLED_MAX: usize = 600;

/// The number of consecutive unmatched screens after which rows count as lost. A dialogue covers
/// fewer screens.
const UNPLACED_MAX: u32 = 3;

/// The time after which unchanged rows settle if the layout does not show the end of a turn.
const QUIET_TIME: Duration = Duration::from_secs(3);

/// The time for which rows that the layout considers final must stay unchanged, because a capture
/// may show a partly drawn screen.
const DRAW_TIME: Duration = Duration::from_millis(250);

/// The number of last settled rows that align a page if rows above them were redrawn.
const ANCHOR_ROWS: usize = 3;

/// Reads the conversation from the screens of one agent.
#[derive(Debug, Default)]
pub(crate) struct ScreenReader {
    layout: Layout,
    writer: ConversationWriter,
    /// Rows that were reported or that precede the conversation.
    settled: VecDeque<ConversationRow>,
    /// Rows of the last page below the settled ones.
    live: Vec<ConversationRow>,
    /// The index of the first row of the last page among the settled and live rows.
    last: usize,
    width: usize,
    /// The known rows, if only empty pages followed them.
    erased: Option<Vec<ConversationRow>>,
    /// The number of consecutive pages that match no known row, and the last of these pages.
    unplaced: (u32, Option<ConversationPage>),
    /// True once rows belong to a conversation, and so are reported.
    has_begun: bool,
    was_working: bool,
    /// Rows that settle if they stay unchanged.
    settling: Option<SettlingRows>,
    /// The total number of settled rows.
    settled_count: u64,
}

/// Rows that are about to settle.
#[derive(Debug)]
struct SettlingRows {
    until: Instant,
    /// The number of the row after them, and the last of these rows.
    end: u64,
    last: ConversationRow,
}

impl ScreenReader {
    /// Creates a reader that has not read a screen yet.
    pub fn new(program: &AgentProgram) -> Self {
        Self {
            layout: Layout::of(program),
            ..Self::default()
        }
    }

    /// Reads a screen.
    pub fn update(
        &mut self,
        rows: &[&str],
        width: u32,
        now: Instant,
        events: &mut Vec<AgentEvent>,
    ) {
        let width = usize::try_from(width).unwrap_or(usize::MAX);
        let Some(page) = self.layout.page(rows, width) else {
            return;
        };
        self.writer.add_typed(&page.typed);
        self.writer.set_notice(&page.notice);
        let was_working = std::mem::replace(&mut self.was_working, page.is_working == Some(true));
        let before = std::mem::replace(&mut self.width, width);
        let (is_first, is_new_width) = (before == 0, before != width);
        if page.rows.is_empty() {
            if page.is_first {
                self.take_empty_page(was_working, events);
            }
        } else if self.has_begun {
            self.take_page(page, was_working, is_new_width, events);
        } else if self.is_new(&page) {
            self.has_begun = true;
            if is_first {
                self.begin_within_turn(page.rows);
            } else {
                self.take_page(page, true, is_new_width, events);
            }
        } else {
            // Rows that are shown before the agent gets a prompt precede the conversation.
            self.has_begun = page.is_working.is_none();
            self.start_from(page.rows);
        }
        self.handle_timeout(now, events);
    }

    /// Returns the time at which [`ScreenReader::handle_timeout`] has rows to report.
    pub fn deadline(&self) -> Option<Instant> {
        self.settling.as_ref().map(|rows| rows.until)
    }

    /// Reports rows that have stayed unchanged long enough.
    pub fn handle_timeout(&mut self, now: Instant, events: &mut Vec<AgentEvent>) {
        self.settle_unchanged(now, events);
        self.writer.flush(events);
    }

    /// Ends the turn, which settles the remaining rows.
    pub fn end_turn(&mut self, events: &mut Vec<AgentEvent>) {
        // The agent's state is delayed: rows that are drawn while the agent works have not settled.
        if !self.has_begun || self.was_working {
            return;
        }
        self.take_unplaced(events);
        self.settle(self.live.len(), events);
        self.writer.end_turn(events);
    }

    /// Reports the last page that could not be aligned.
    fn take_unplaced(&mut self, events: &mut Vec<AgentEvent>) {
        if let Some(page) = self.unplaced.1.take() {
            self.take_after_gap(page.rows, events);
        }
    }

    /// Returns the tool or the last sentence at the end of the conversation, as the last page shows it, if the agent's
    /// layout tells them from prompts.
    pub fn says(&self) -> Option<String> {
        if !self.layout.shows_ends() {
            return None;
        }
        let known: Vec<&ConversationRow> = self.settled.iter().chain(&self.live).collect();
        let mut end = known.len();
        loop {
            let last = known[..end].last()?;
            let begins = |row: &&ConversationRow| match last.kind {
                RowPart::Boxed => row.is_head,
                _ => row.is_spaced,
            };
            let is_part = |row: &&&ConversationRow| row.kind == last.kind;
            let rows = known[..end].iter().rev().take_while(is_part).count();
            let part = &known[end - rows..end];
            let begin = part.iter().rposition(begins).unwrap_or(0);
            let part = &part[begin..];
            let words = match last.kind {
                RowPart::End => return None,
                RowPart::Boxed if part.iter().any(|row| opencode::is_queued(row)) => {
                    end -= part.len();
                    continue;
                }
                RowPart::Boxed => self.layout.tool(&part.first()?.text)?.1.to_owned(),
                RowPart::Tool => self.layout.tool(&last.text)?.1.to_owned(),
                RowPart::Text => {
                    let rows = part.iter().map(|row| row.text.trim());
                    last_sentence(&rows.collect::<Vec<_>>().join(" ")).to_owned()
                }
            };
            return Some(one_line(&words)).filter(|words| words.contains(char::is_alphanumeric));
        }
    }

    /// Returns true if a page begins a conversation that has to be reported.
    fn is_new(&self, page: &ConversationPage) -> bool {
        let is_sent_prompt =
            |row: &ConversationRow| row.is_head && self.writer.was_typed(&row.text);
        page.is_working == Some(true) || page.rows.iter().any(is_sent_prompt)
    }

    /// Settles rows that have stayed unchanged long enough.
    fn settle_unchanged(&mut self, now: Instant, events: &mut Vec<AgentEvent>) {
        let (sealed, time) = if self.layout.shows_ends() {
            (self.layout.sealed(&self.live), DRAW_TIME)
        } else {
            (self.live.len(), QUIET_TIME)
        };
        let mut settled = 0;
        if let Some(rows) = self.settling.take() {
            let count = usize::try_from(rows.end.saturating_sub(self.settled_count)).unwrap_or(0);
            let last = count.checked_sub(1).and_then(|last| self.live.get(last));
            if count <= sealed && last.is_some_and(|last| last.is_same(&rows.last)) {
                if rows.until > now {
                    self.settling = Some(rows);
                    return;
                }
                self.settle(count, events);
                self.writer.close(events);
                settled = count;
            }
        }
        let count = sealed - settled;
        self.settling = count.checked_sub(1).map(|last| SettlingRows {
            until: now + time,
            end: self.settled_count + count as u64,
            last: self.live[last].clone(),
        });
    }

    fn take_page(
        &mut self,
        page: ConversationPage,
        was_working: bool,
        is_new_width: bool,
        events: &mut Vec<AgentEvent>,
    ) {
        let is_redrawn = self
            .erased
            .take()
            .is_none_or(|known| is_redrawn(&known, self.last, &page.rows));
        let is_empty = self.settled.is_empty() && self.live.is_empty();
        if is_empty && page.is_working.is_some() && !self.is_new(&page) {
            return self.start_from(page.rows);
        }
        if is_empty || !is_redrawn {
            self.settled.clear();
            (self.live, self.last) = (page.rows, 0);
            return;
        }
        let (unplaced, _) = std::mem::take(&mut self.unplaced);
        // Rows that are wrapped at a new width are compared by their letters.
        if is_new_width && self.rewrap(&page.rows, events) {
            return;
        }
        let known: Vec<&ConversationRow> = self.settled.iter().chain(&self.live).collect();
        if let Some(at) = align(&known, self.settled.len(), &page.rows, self.last) {
            return self.advance(at, page.rows, events);
        }
        if !is_new_width && self.rewrap(&page.rows, events) {
            return;
        }
        // Another page of the same program, such as a list of sessions or an older session.
        if page.is_working == Some(false) && !was_working && !is_new_width {
            return self.start_from(page.rows);
        }
        if unplaced + 1 >= UNPLACED_MAX {
            self.take_after_gap(page.rows, events)
        } else {
            self.unplaced = (unplaced + 1, Some(page))
        }
    }

    /// Processes a page that begins at this index of the known rows.
    fn advance(&mut self, at: usize, page: Vec<ConversationRow>, events: &mut Vec<AgentEvent>) {
        let settled = self.settled.len();
        if let Some(scrolled) = at.checked_sub(settled) {
            self.settle_rows(scrolled, events);
            self.last = self.settled.len();
            return self.set_live(page);
        }
        let known = self.settled.iter().chain(&self.live).skip(at);
        let is_known = page.len() <= settled + self.live.len() - at
            && known.zip(&page).all(|(known, row)| known.is_same(row));
        if is_known && at < self.last && at + page.len() < settled + self.live.len() {
            // The user has scrolled back.
            return;
        }
        self.last = at;
        let above_settled = settled - at;
        let mut start = above_settled;
        let mut pairs = self.settled.iter().skip(at).zip(&page);
        if let Some(first) = pairs.position(|(known, row)| !known.is_same(row)) {
            if let Some(found) = self.anchor(&page, first) {
                start = found;
            } else if self.is_taken_back(at + first, &page[first]) {
                self.settled.truncate(at + first);
                start = first;
            } else if let Some(before) = self.letters_above_rewrapped(at, &page) {
                return self.rewrap_after(before, &page, events);
            } else if first + 1 == above_settled
                && let Some(rest) = grown(&self.settled[settled - 1], &page[first])
            {
                // Text was appended to the last settled row.
                self.settled[settled - 1] = page[first].clone();
                self.writer.add_row(&rest, &self.layout, events);
            }
        }
        if start > page.len() {
            return;
        }
        let rest = page.into_iter().skip(start).collect();
        self.set_live(rest);
    }

    /// Returns true if the settled rows from `from` on are a failure below its prompt, and another box is in its place:
    /// kilo 7.7 removes the failure of a turn when the next one begins.
    fn is_taken_back(&self, from: usize, row: &ConversationRow) -> bool {
        let is_boxed = |row: &ConversationRow| row.kind == RowPart::Boxed;
        let mut gone = self.settled.iter().skip(from);
        let head = gone.next().filter(|head| is_boxed(head) && head.is_head);
        let is_failure = head.is_some_and(|head| self.layout.tool(&head.text).is_none())
            && gone.all(|row| is_boxed(row) && !row.is_head)
            && from
                .checked_sub(1)
                .is_some_and(|above| is_boxed(&self.settled[above]));
        is_failure && is_boxed(row) && row.is_head
    }

    /// Returns the index of the first row after the last settled rows.
    fn anchor(&self, page: &[ConversationRow], from: usize) -> Option<usize> {
        let count = ANCHOR_ROWS.min(self.settled.len());
        let anchor = self.settled.iter().skip(self.settled.len() - count);
        let anchor: Vec<&ConversationRow> = anchor.collect();
        let is_anchor = |rows: &[ConversationRow]| {
            anchor
                .iter()
                .zip(rows)
                .all(|(known, row)| known.is_same(row))
        };
        let from = from.saturating_sub(count);
        let found = page[from..].windows(count.max(1)).rposition(is_anchor)?;
        Some(from + found + count)
    }

    /// Sets the live rows. Unchanged rows keep their known kind, because their boxes may begin
    /// above the screen.
    fn set_live(&mut self, mut rows: Vec<ConversationRow>) {
        for (row, was) in rows.iter_mut().zip(&self.live) {
            if !row.is_same(was) {
                break;
            }
            if row.is_covered || row.kind == was.kind {
                row.clone_from(was);
            }
        }
        self.live = rows;
    }

    /// Processes a page without rows.
    fn take_empty_page(&mut self, was_working: bool, events: &mut Vec<AgentEvent>) {
        if self.layout.shows_ends() {
            if was_working {
                self.settle(self.live.len(), events);
                self.writer.end_turn(events);
            }
            self.settled.clear();
            self.live.clear();
            self.last = 0;
            return;
        }
        // Later rows belong to the conversation.
        self.has_begun = true;
        self.take_unplaced(events);
        if self.erased.is_none() {
            self.erased = Some(self.settled.iter().chain(&self.live).cloned().collect());
            self.settle(self.live.len(), events);
        }
    }

    /// Starts from rows of an earlier or another conversation, which are not reported.
    fn start_from(&mut self, rows: Vec<ConversationRow>) {
        self.settled = rows.into();
        self.live.clear();
        self.last = 0;
        self.unplaced = (0, None);
    }

    /// Starts from the first page if the agent works: the turns that have ended on it are not reported.
    fn begin_within_turn(&mut self, mut rows: Vec<ConversationRow>) {
        let end = rows.iter().rposition(|row| row.kind == RowPart::End);
        self.live = rows.split_off(end.map_or(0, |end| end + 1));
        self.settled = rows.into();
    }

    /// Processes a page after a gap: the rows between the known ones and these were not captured.
    fn take_after_gap(&mut self, mut rows: Vec<ConversationRow>, events: &mut Vec<AgentEvent>) {
        self.settle_rows(self.live.len(), events);
        self.writer.rows_lost(events);
        let shared = shared_rows(self.settled.make_contiguous(), &rows);
        (self.live, self.last) = (rows.split_off(shared), 0);
        self.settled = rows.into();
        self.unplaced = (0, None);
    }

    /// Settles and reports the first `count` live rows.
    fn settle(&mut self, count: usize, events: &mut Vec<AgentEvent>) {
        self.settle_rows(count, events);
        self.writer.flush(events);
    }

    fn settle_rows(&mut self, count: usize, events: &mut Vec<AgentEvent>) {
        let count = count.min(self.live.len());
        self.settled_count += count as u64;
        for row in self.live.drain(..count) {
            self.writer.add_row(&row.unreported(), &self.layout, events);
            self.settled.push_back(row);
        }
        let surplus = self.settled.len().saturating_sub(SETTLED_MAX);
        self.settled.drain(..surplus);
        self.last = self.last.saturating_sub(surplus);
    }
}

// Aligns the page that follows a resize: its rows are wrapped at another width, so letters are compared (pure).

impl ScreenReader {
    /// Returns the number of letters above the settled row `at` if the page shows the letters of the settled
    /// rows from there in other rows, because an earlier resize has left them wrapped at another width.
    fn letters_above_rewrapped(&self, at: usize, page: &[ConversationRow]) -> Option<usize> {
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
    fn rewrap(&mut self, page: &[ConversationRow], events: &mut Vec<AgentEvent>) -> bool {
        let known = self.settled.iter().chain(&self.live);
        let known: Vec<char> = known.flat_map(ConversationRow::letters).collect();
        let before = letters_before(&known, &letters(page));
        if let Some(before) = before {
            self.rewrap_after(before, page, events);
        }
        before.is_some()
    }

    /// Processes a page that begins after this number of known letters, wrapped at another width.
    fn rewrap_after(
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
        let mut bare = if reported_end == start {
            bare_rows_at_end(&self.settled)
        } else {
            0
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
