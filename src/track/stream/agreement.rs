//! Records the last agreement of stream and tmux, and the lines reported since (pure).

use std::collections::{BTreeMap, VecDeque};

use super::super::capture::{Capture, TmuxVersion};
use super::super::change::Change;
use crate::event::line_ends_in;

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

// The state of a pane in tmux just before the first byte of a stream (pure).

/// A capture of a pane, and the state that a stream needs to continue from it.
///
/// One tmux command list must take the capture and open the pipe. tmux executes it between two reads of
/// the pane, so that the first byte in the pipe is the one after the capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncPoint {
    /// The screen, some of the history above it, and the normal screen if the alternate one is shown.
    pub capture: Capture,
    /// The modes of the terminal.
    pub modes: TerminalModes,
    /// The beginning of an unfinished escape sequence: the output of `capture-pane -p -P -C`, through
    /// [`unescape`]. The stream begins with its rest.
    pub pending: Vec<u8>,
    /// The server's version, on which the emulation depends.
    pub version: TmuxVersion,
}

/// The modes of a pane's terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalModes {
    /// Text continues in the next row (`#{wrap_flag}`).
    pub wrap: bool,
    /// Text moves the characters behind it (`#{insert_flag}`).
    pub insert: bool,
    /// Rows count from the top of the scroll region (`#{origin_flag}`).
    pub origin: bool,
    /// The first and the last row of the scroll region, from 0
    /// (`#{scroll_region_upper}`, `#{scroll_region_lower}`); an invalid one means the whole screen.
    pub region: (u32, u32),
    /// The columns of the tab stops, from 0 (`#{pane_tabs}`); `None` means every eighth.
    pub tabs: Option<Vec<u32>>,
    /// The alternate screen is enabled (`#{alternate-screen}`, an option).
    pub alternates: bool,
}

impl Default for TerminalModes {
    fn default() -> Self {
        Self {
            wrap: true,
            insert: false,
            origin: false,
            region: (0, 0),
            tabs: None,
            alternates: true,
        }
    }
}

impl TerminalModes {
    /// The format whose expansion [`TerminalModes::read`] parses.
    pub const FORMAT: &str = "#{wrap_flag} #{insert_flag} #{origin_flag} \
        #{scroll_region_upper} #{scroll_region_lower} #{pane_tabs} #{alternate-screen}";

    /// Parses the expansion of [`TerminalModes::FORMAT`]. Invalid values are replaced by defaults.
    pub fn read(answer: &str) -> Self {
        let mut words = answer.trim_end_matches('\n').split(' ');
        let mut next = || words.next().unwrap_or_default();
        let default = Self::default();
        let flag = |word: &str, default: bool| match word {
            "0" => false,
            "1" => true,
            _ => default,
        };
        Self {
            wrap: flag(next(), default.wrap),
            insert: flag(next(), default.insert),
            origin: flag(next(), default.origin),
            region: (next().parse().unwrap_or(0), next().parse().unwrap_or(0)),
            tabs: match next() {
                "" => None,
                list => Some(list.split(',').filter_map(|tab| tab.parse().ok()).collect()),
            },
            alternates: flag(next(), default.alternates),
        }
    }
}

/// Decodes the output of `capture-pane -P -C`, which has `\ooo` for bytes that are not printable.
pub fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.trim_end_matches('\n').as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let octal = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (first, octal, after.first()) {
            (b'\\', Some(byte), _) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            (b'\\', None, Some(b'\\')) => {
                bytes.push(b'\\');
                rest = &after[1..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    mod agreement {

        use super::super::*;
        use proptest::prelude::*;

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

    mod sync_point {

        use super::super::*;

        #[test]
        fn pending_bytes_are_read_as_tmux_writes_them() {
            assert_eq!(unescape("\\033[3;1\n"), b"\x1b[3;1");
            assert_eq!(unescape("\\033]0;a\\\\b\\134"), b"\x1b]0;a\\b\\");
            assert_eq!(unescape("\n"), b"");
            assert_eq!(unescape("\\9"), b"\\9");
        }

        #[test]
        fn modes_are_read_as_far_as_tmux_knows_them() {
            let modes = TerminalModes::read("1 0 1 2 9 8,16\n");
            assert_eq!(
                (modes.wrap, modes.insert, modes.origin),
                (true, false, true)
            );
            assert_eq!((modes.region, modes.tabs), ((2, 9), Some(vec![8, 16])));
            assert!(modes.alternates);
            assert!(!TerminalModes::read("1 0 0 0 9  0\n").alternates);
            assert!(TerminalModes::read("1 0 0 0 9  1").alternates);
            assert_eq!(TerminalModes::read(""), TerminalModes::default());
        }
    }
}
