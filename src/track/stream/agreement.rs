//! Records the last agreement of stream and tmux, and the lines reported since (pure).

use std::collections::{BTreeMap, VecDeque};

use crate::event::line_ends_in;
use crate::track::change::Change;

/// The most bytes of lines that are held for comparison: several screens, and little memory even for a
/// hundred panes.
const HELD_BYTES: usize = 48 * 1024;

/// The size up to which single lines are held together. An allocation for each would double their
/// memory.
const CHUNK_BYTES: usize = 4 * 1024;

/// The position of a line in tmux at the last agreement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    /// Its first row, counted from the top of the history.
    pub row: i64,
    pub number: i64,
    /// The number of rows that had scrolled off the stream's screen.
    pub scrolled: i64,
    /// The number of rows in the stream's history.
    pub history: i64,
    pub width: u32,
    pub pid: u32,
}

impl Anchor {
    /// Returns a lower bound of the numbers in the history, in which each line has at least one row.
    pub fn oldest_number(self) -> i64 {
        self.number - self.row
    }
}

/// The last agreement of stream and tmux, and the lines reported since.
#[derive(Debug, Default)]
pub(super) struct Agreement {
    pub anchor: Option<Anchor>,
    /// The first lines of the screen that were not blank, with their texts then.
    pub top: Vec<(i64, String)>,
    /// Chunks of lines, each with the number of its first line.
    pub reported: VecDeque<(i64, String)>,
    /// The number after the last chunk.
    next: Option<i64>,
    /// The revisions among them.
    revised: BTreeMap<i64, String>,
    pub bytes: usize,
}

impl Agreement {
    /// Records reported changes.
    pub fn note(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Lines { first_line, chunk } => {
                    // Settled lines supersede their revisions.
                    let unfinished = self.revised.split_off(first_line);
                    self.bytes -= unfinished.values().map(String::len).sum::<usize>();
                    let (first, held) = last_lines(*first_line, chunk);
                    self.hold(first, held);
                }
                Change::Revised { line, text } => {
                    let is_held = self
                        .reported
                        .front()
                        .is_some_and(|(first, _)| first <= line);
                    if is_held {
                        self.bytes += text.len();
                        let before = self.revised.insert(*line, text.clone());
                        self.bytes -= before.map_or(0, |text| text.len());
                    }
                }
                Change::Gap { .. } | Change::Screen { .. } => {}
            }
        }
        while self.bytes > HELD_BYTES
            && let Some((_, chunk)) = self.reported.pop_front()
        {
            self.bytes -= chunk.len();
            let first = self.reported.front().map_or(i64::MAX, |(first, _)| *first);
            let kept = self.revised.split_off(&first);
            self.bytes -= self.revised.values().map(String::len).sum::<usize>();
            self.revised = kept;
        }
    }

    fn hold(&mut self, first: i64, lines: &str) {
        self.bytes += lines.len();
        let continues = self.next == Some(first);
        match self.reported.back_mut() {
            Some((_, chunk)) if continues && chunk.len() + lines.len() <= CHUNK_BYTES => {
                chunk.push_str(lines);
            }
            _ => self.reported.push_back((first, lines.to_owned())),
        }
        self.next = Some(first + line_ends_in(lines));
    }

    /// Returns the held lines in order, with the texts last reported.
    pub fn lines(&self) -> impl Iterator<Item = (i64, &str)> {
        let chunks = self.reported.iter();
        let lines = chunks.flat_map(|(first, chunk)| (*first..).zip(chunk.lines()));
        lines.map(|(number, text)| {
            let revised = self.revised.get(&number).map(String::as_str);
            (number, revised.unwrap_or(text))
        })
    }

    pub fn top(&self) -> impl Iterator<Item = (i64, &str)> {
        self.top
            .iter()
            .map(|(number, text)| (*number, text.as_str()))
    }

    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

/// Returns the last lines of a chunk, at most [`HELD_BYTES`], and the number of the first one.
fn last_lines(first_line: i64, chunk: &str) -> (i64, &str) {
    let Some(surplus) = chunk.len().checked_sub(HELD_BYTES) else {
        return (first_line, chunk);
    };
    let bytes = chunk.as_bytes();
    let at = memchr::memchr(b'\n', &bytes[surplus..]).map_or(bytes.len(), |end| surplus + end + 1);
    let (before, lines) = chunk.split_at(at);
    (first_line + line_ends_in(before), lines)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_last_lines_are_held_as_they_were_reported(
            chunks in prop::collection::vec((0_i64..3, prop::collection::vec("[a-z]{0,900}", 1..12)), 1..60),
        ) {
            let mut agreed = Agreement::default();
            let mut all: Vec<(i64, String)> = Vec::new();
            let mut next = 1;
            for (gap, lines) in chunks {
                let first_line = next + gap;
                next = first_line + lines.len() as i64;
                let chunk = lines.iter().map(|line| format!("{line}\n")).collect();
                all.extend((first_line..).zip(lines));
                agreed.note(&[Change::Lines { first_line, chunk }]);
                prop_assert!(agreed.bytes <= HELD_BYTES);
                let held: usize = agreed.reported.iter().map(|(_, chunk)| chunk.len()).sum();
                prop_assert_eq!(held, agreed.bytes);
                let held: Vec<(i64, String)> =
                    agreed.lines().map(|(number, text)| (number, text.to_owned())).collect();
                prop_assert!(all.ends_with(&held));
                let bytes: usize = all.iter().map(|(_, line)| line.len() + 1).sum();
                prop_assert!(agreed.bytes >= bytes.min(HELD_BYTES - 12 * 901));
            }
        }
    }
}
