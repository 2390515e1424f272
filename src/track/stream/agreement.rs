//! The record of the last agreement of stream and tmux, and of the lines reported since (pure).

use std::collections::{BTreeMap, VecDeque};

use crate::track::change::Change;

/// The most bytes of lines that are held for comparison: more than a few screens, little for each of a
/// hundred panes.
const HELD_BYTES: usize = 96 * 1024;

/// The position of a line in tmux at the last agreement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Its first row, counted from the top of the history.
    pub row: i64,
    pub number: i64,
    /// All rows that had scrolled off the stream's screen, and how many of them were in its history.
    pub scrolled: i64,
    pub history: i64,
    pub width: u32,
    pub pid: u32,
}

impl Place {
    /// No line of the history had a smaller number: each has at least a row.
    pub fn oldest_number(self) -> i64 {
        self.number - self.row
    }
}

/// The changes reported since stream and tmux agreed, and the place where they did.
#[derive(Debug, Default)]
pub(super) struct Agreed {
    pub place: Option<Place>,
    /// The first lines of the screen that were not blank, as they read then.
    pub top: Vec<(i64, String)>,
    /// Chunks of lines, each with the number of its first.
    pub reported: VecDeque<(i64, String)>,
    /// The revisions among them.
    revised: BTreeMap<i64, String>,
    pub bytes: usize,
}

impl Agreed {
    /// Records reported changes.
    pub fn note(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Lines { first_line, chunk } => {
                    // Revisions of unfinished lines are superseded: these lines are reported again.
                    let unfinished = self.revised.split_off(first_line);
                    self.bytes -= unfinished.values().map(String::len).sum::<usize>();
                    let (first, held) = last_lines(*first_line, chunk);
                    self.bytes += held.len();
                    self.reported.push_back((first, held.to_owned()));
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

    /// Returns the held lines in order, as last reported.
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

/// The last lines of a chunk, as many as are held at all, and the number of the first.
fn last_lines(first_line: i64, chunk: &str) -> (i64, &str) {
    let Some(surplus) = chunk.len().checked_sub(HELD_BYTES) else {
        return (first_line, chunk);
    };
    let bytes = chunk.as_bytes();
    let at = memchr::memchr(b'\n', &bytes[surplus..]).map_or(bytes.len(), |end| surplus + end + 1);
    let before = memchr::memchr_iter(b'\n', &bytes[..at]).count();
    (first_line + before as i64, &chunk[at..])
}
