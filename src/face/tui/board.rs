//! Manages the rows of the board and of older runs below it: their groups, order and selection (pure).

use std::collections::{HashMap, HashSet};

use super::keys::{Motion, moved};
use crate::board::{Attention, Row, RowKey, RowState, listed};
use crate::event::{AgentState, ExecutionId};
use crate::face::{ServerEnd, age_of, last_text, one_line, row_names, server_ends};
use crate::timestamp::Timestamp;

/// The maximum number of lines of a question on the screen. Dialogues have a sentence or two.
pub(super) const QUESTION_LINES_MAX: usize = 3;

/// A group of rows, below a heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Board(Attention),
    /// Runs of the history that are no longer on the board.
    Older,
}

/// The rows, and which one is selected.
#[derive(Debug, Default)]
pub(super) struct BoardRows {
    /// The rows in the order of the board, then those of older runs.
    pub rows: Vec<Row>,
    /// The display names of the rows, in full.
    pub names: Vec<String>,
    /// The number of rows on the board.
    pub len: usize,
    /// The rows of the runs in the history, the latest first.
    history: Vec<Row>,
    /// The rows of the board, also those that ended with their server and are shown as one.
    board: Vec<Row>,
    /// The executions on the board, also those whose rows are not listed.
    executions: HashSet<ExecutionId>,
    /// The ends of servers that are one row, by the row that stands for the others.
    ends: Vec<(RowKey, ServerEnd)>,
    /// The servers whose rows are shown although they ended with it.
    opened: HashSet<String>,
    selected: Option<RowKey>,
    /// The first visible line.
    pub top: usize,
    /// The number of visible lines.
    height: usize,
}

/// Returns the question of a waiting row: the agent's question, or else its last line.
pub(super) fn question_of(row: &Row) -> Option<String> {
    let is_waiting = row.state == RowState::Agent(AgentState::Waiting.into());
    Some(last_text(row)).filter(|asks| is_waiting && !asks.is_empty())
}

impl BoardRows {
    /// Returns the selected row.
    pub fn row(&self) -> Option<&Row> {
        self.rows.get(self.index()?)
    }

    /// Returns the index of the selected row.
    pub fn index(&self) -> Option<usize> {
        let key = self.selected.as_ref()?;
        self.rows.iter().position(|row| row.key() == *key)
    }

    /// Returns the display name of the selected row.
    pub fn name(&self) -> Option<&str> {
        self.names.get(self.index()?).map(String::as_str)
    }

    pub fn group_of(&self, index: usize) -> Option<Group> {
        let row = self.rows.get(index)?;
        Some(if index < self.len {
            Group::Board(row.attention())
        } else {
            Group::Older
        })
    }

    pub fn count_of(&self, group: Group) -> usize {
        let groups = (0..self.rows.len()).filter_map(|index| self.group_of(index));
        groups.filter(|other| *other == group).count()
    }

    /// Sets the rows of the board. The selected row stays selected, unless it is gone, or `may_move` is true
    /// and the only active row is new. Returns true if the log of the selected row is to be loaded.
    pub fn set(&mut self, rows: Vec<Row>, may_move: bool) -> bool {
        let index = self.index();
        let was_older = index.is_some_and(|index| index >= self.len);
        self.executions = rows.iter().map(|row| row.execution_id.clone()).collect();
        let before = &self.board;
        // The user may be typing into the selected row's pane.
        let is_selected = |row: &Row| self.selected.as_ref() == Some(&row.key());
        let rows = in_stable_order(before, listed(rows, is_selected));
        let mut active = rows.iter().filter(|row| !row.has_ended());
        let only = active.next().filter(|_| active.next().is_none());
        let is_new = |row: &&Row| before.iter().all(|known| known.key() != row.key());
        let only = only.filter(|row| may_move && is_new(row)).map(Row::key);
        self.board = rows;
        self.fold();
        if only.is_some() {
            return self.select(only);
        }
        if let Some(index) = self.index() {
            self.scroll();
            // A run that has continued is followed again.
            return was_older && index < self.len;
        }
        // The selected row is gone: its neighbour is selected.
        let chosen = match index {
            Some(index) => self.rows.get(index.min(self.rows.len().saturating_sub(1))),
            None => self.rows[..self.len].first(),
        };
        self.select(chosen.map(Row::key))
    }

    /// Sets the rows of the runs in the history, the latest first.
    pub fn set_history(&mut self, rows: Vec<Row>) {
        self.history = rows;
        self.rows.truncate(self.len);
        self.add_older();
        self.scroll();
    }

    /// Shows rows that ended with their server as one: the selected one of them, or else the last.
    fn fold(&mut self) {
        self.ends.clear();
        let mut shown: Vec<Option<&Row>> = self.board.iter().map(Some).collect();
        for end in server_ends(&self.board) {
            let is_selected = |index: &&usize| Some(self.board[**index].key()) == self.selected;
            let last = end.members.last();
            let chosen = end.members.iter().find(is_selected).or(last);
            let Some(&chosen) = chosen.filter(|_| !self.opened.contains(&end.name())) else {
                continue;
            };
            end.members.iter().for_each(|index| shown[*index] = None);
            shown[chosen] = Some(&self.board[chosen]);
            self.ends.push((self.board[chosen].key(), end));
        }
        self.rows = shown.into_iter().flatten().cloned().collect();
        self.len = self.rows.len();
        self.add_older();
    }

    /// Returns the end of a server that a row stands for.
    pub fn end_of(&self, row: &Row) -> Option<&ServerEnd> {
        let mut ends = self.ends.iter();
        ends.find(|(key, _)| row.server_gone && *key == row.key())
            .map(|(_, end)| end)
    }

    /// Returns the line of a row that stands for the end of a server.
    pub fn end_text(&self, row: &Row, name: &str, now: Timestamp) -> Option<String> {
        self.end_of(row)?;
        Some(format!("  · {name}  {}", age_of(row.since, now)))
    }

    /// Returns those of the rows' names that are not ends of servers.
    pub fn names_of_rows<'n>(&self, names: &'n [String]) -> impl Iterator<Item = &'n String> {
        let named = self.rows.iter().zip(names);
        let rows = named.filter(|(row, _)| self.end_of(row).is_none());
        rows.map(|(_, name)| name)
    }

    /// Shows the rows that ended with the server of the selected row; returns false if none is hidden.
    pub fn open(&mut self) -> bool {
        let end = self.row().and_then(|row| self.end_of(row));
        let Some(server) = end.map(ServerEnd::name) else {
            return false;
        };
        self.opened.insert(server);
        self.fold();
        self.scroll();
        true
    }

    /// Returns the selected row, or all rows that it stands for.
    pub fn selected_rows(&self) -> Vec<Row> {
        let Some(row) = self.row() else {
            return Vec::new();
        };
        match self.end_of(row) {
            Some(end) => (end.members.iter())
                .map(|index| self.board[*index].clone())
                .collect(),
            None => vec![row.clone()],
        }
    }

    /// Returns the display names of the rows, at most `width` columns wide.
    pub fn names_within(&self, width: usize) -> Vec<String> {
        let names = self.rows.iter().zip(row_names(&self.rows, width));
        names
            .map(|(row, name)| match self.end_of(row) {
                Some(end) => one_line(&end.words()),
                None => name,
            })
            .collect()
    }

    /// Appends the runs that are not on the board.
    fn add_older(&mut self) {
        let older = self.history.iter();
        let older = older.filter(|row| !self.executions.contains(&row.execution_id));
        let older: Vec<Row> = older.take(200).cloned().collect();
        self.rows.extend(older);
        self.names = self.names_within(usize::MAX);
    }

    /// Selects a row; returns true if it was not selected.
    pub fn select(&mut self, key: Option<RowKey>) -> bool {
        let has_changed = self.selected != key;
        self.selected = key;
        self.scroll();
        has_changed
    }

    /// Returns the row after a motion.
    pub fn after(&self, motion: Motion) -> Option<RowKey> {
        let last = self.rows.len().saturating_sub(1);
        let to = self
            .index()
            .map_or(0, |at| moved(at, last, self.height.max(1), motion));
        self.rows.get(to).map(Row::key)
    }

    /// Returns the next or previous row that needs the user.
    pub fn next_waiting(&self, is_forward: bool) -> Option<RowKey> {
        let selected = self.index();
        let needs_you = |at: &usize| self.rows[*at].attention() == Attention::NeedsYou;
        let mut waiting: Vec<usize> = (0..self.rows.len()).filter(needs_you).collect();
        if !is_forward {
            waiting.reverse();
        }
        let follows = |at: &&usize| {
            if is_forward {
                selected.is_none_or(|selected| **at > selected)
            } else {
                selected.is_some_and(|selected| **at < selected)
            }
        };
        let next = waiting.iter().find(follows).or(waiting.first());
        next.map(|index| self.rows[*index].key())
    }

    /// Returns the row or run with this name, with or without its pane, or the first whose name begins with
    /// it; also one that ended with its server, whose rows are shown then.
    pub fn named(&mut self, name: &str) -> Option<RowKey> {
        if let Some(key) = self.shown(name) {
            return Some(key);
        }
        let hidden = self.ends.iter().map(|(_, end)| end.name());
        let hidden: HashSet<String> = hidden.collect();
        let opened = &self.opened | &hidden;
        let before = std::mem::replace(&mut self.opened, opened);
        self.fold();
        let found = self.shown(name);
        if found.is_none() {
            self.opened = before;
            self.fold();
        }
        found
    }

    fn shown(&self, name: &str) -> Option<RowKey> {
        let named: Vec<(&Row, &String)> = self.rows.iter().zip(&self.names).collect();
        let prefix = name.to_lowercase();
        let is_exact = |(row, full): &&(&Row, &String)| {
            let with_pane = (row.pane.as_ref()).map(|pane| format!("{} {pane}", row.name));
            let pane = row.pane.as_deref();
            let before = full.strip_suffix(name);
            *full == name
                || before.is_some_and(|before| before.ends_with(':'))
                || pane == Some(name)
                || with_pane.as_deref() == Some(name)
                || row.name == name
                || *row.execution_id == *name
        };
        let begins = |(row, full): &&(&Row, &String)| {
            let mut names = [full.as_str(), &*row.execution_id].into_iter();
            names.any(|full| full.to_lowercase().starts_with(&prefix))
        };
        let found = named.iter().find(is_exact);
        let found = found.or_else(|| named.iter().find(begins));
        found.map(|(row, _)| row.key())
    }

    /// Sets the height of the screen. The title and the bottom line take one line each; the board may be
    /// hidden, so its area is not used.
    pub fn resize(&mut self, height: u16) {
        self.height = usize::from(height).saturating_sub(2);
        self.scroll();
    }

    /// Scrolls so that the selected row is visible, and no further.
    fn scroll(&mut self) {
        let line = self.index().map_or(0, |at| self.line_of(at));
        let last = self.rows.len().checked_sub(1);
        let count = last.map_or(0, |last| self.line_of(last) + 1);
        self.top = top_of(self.top, line, count, self.height);
    }

    /// Returns the line of a row on the board, which also has the headings of the groups.
    pub fn line_of(&self, index: usize) -> usize {
        let groups: Vec<_> = (0..=index).map(|at| self.group_of(at)).collect();
        let headings = 1 + groups.windows(2).filter(|pair| pair[0] != pair[1]).count();
        index + headings
    }
}

/// Returns the first line to show, so that `line` is visible with the heading above it, and the screen has no
/// empty rows that earlier lines could fill.
fn top_of(top: usize, line: usize, count: usize, rows: usize) -> usize {
    let rows = rows.max(1);
    let top = top.min(line.saturating_sub(1));
    top.max((line + 1).saturating_sub(rows))
        .min(count.saturating_sub(rows))
}

/// Returns the rows in the order of the board, but rows that stay in their group keep their places.
/// Otherwise, two rows that print in turn would swap under the reader's keys.
fn in_stable_order(before: &[Row], mut rows: Vec<Row>) -> Vec<Row> {
    let places: HashMap<RowKey, (Attention, usize)> = (0..)
        .zip(before)
        .map(|(place, row)| (row.key(), (row.attention(), place)))
        .collect();
    rows.sort_by_cached_key(|row| {
        let attention = row.attention();
        let known = places.get(&row.key());
        let place = known.filter(|(group, _)| *group == attention);
        // Rows in need are sorted by the time since which they wait, which does not change. New rows come
        // before the others.
        match attention {
            Attention::NeedsYou => (attention, 0),
            _ => (attention, place.map_or(0, |(_, place)| place + 1)),
        }
    });
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The board never scrolls further than needed: the last line is at the bottom of the screen only if
        /// the board is longer than the screen.
        #[test]
        fn the_board_fills_the_screen(count in 1_usize..60, line in 0_usize..60, top in 0_usize..99, rows in 0_usize..40) {
            let line = line.min(count - 1);
            let top = top_of(top, line, count, rows);
            let rows = rows.max(1);
            prop_assert!((top..top + rows).contains(&line), "{top}");
            prop_assert!(top == 0 || top + rows <= count, "{top}");
            prop_assert!(top > 0 || count <= rows || line < rows);
        }
    }
}
