//! Lines that were printed between two waits: found in the log of a pane, from a cursor on.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::cursor::Cursor;
use super::read::{self, OutputReader};
use super::redacted::Patterns;
use crate::board::Row;
use crate::clock::Clock;
use crate::event::PaneId;
use crate::history::DataDir;
use crate::thread::park;

/// The time within which a line that has matched is in the log: a prompt has half a second to become a line. With less, the
/// next wait would find one prompt of a thousand again.
const LOGGED_WITHIN: Duration = Duration::from_millis(900);

/// The most lines that are read for the output of a wait: a flood is told by what the pane shows.
const READ_MAX: usize = 20_000;

/// The most lines of the output of a wait: what fits is less.
const OUTPUT_LINES: usize = 100;

/// The time for which the log of a program that has ended must rest: its end is logged within a tick.
const REST: Duration = Duration::from_millis(100);

/// The interval at which it is looked for.
const CHECK: Duration = Duration::from_millis(20);

/// The row whose lines count for a wait, and the patterns that they are to match.
pub(super) struct LoggedLines {
    data: DataDir,
    row: Row,
    patterns: Patterns,
    /// The place from which the lines count.
    from: Cursor,
    has_cursor: bool,
}

/// What was printed.
pub(super) struct Printed {
    /// The last lines.
    pub text: String,
    /// There are lines before them.
    pub is_cut: bool,
    /// The place after them.
    pub cursor: Cursor,
}

/// A line that matches.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub text: String,
    /// It matches a pattern that ends the wait without success.
    pub is_stop: bool,
    /// The place after it.
    pub cursor: Cursor,
}

impl LoggedLines {
    /// Returns the lines of a row that count for a wait with these patterns: those after a cursor, or after now. `None`
    /// without a cursor, if the row has no log.
    ///
    /// # Errors
    /// If the cursor belongs to another run.
    pub fn new(
        data: &DataDir,
        row: &Row,
        (patterns, cursor): (&Patterns, Option<Cursor>),
    ) -> crate::error::Result<Option<Self>> {
        let from = match cursor {
            Some(cursor) => {
                cursor.position_in(&row.execution_id)?;
                cursor
            }
            None => match read::end(data, row) {
                Ok(end) => end,
                Err(_) => return Ok(None),
            },
        };
        Ok(Some(Self {
            data: data.clone(),
            row: row.clone(),
            patterns: patterns.clone(),
            from,
            has_cursor: cursor.is_some(),
        }))
    }

    /// Returns true if lines from before the wait count.
    pub fn has_cursor(&self) -> bool {
        self.has_cursor
    }

    /// Returns the place from which the lines count.
    pub fn begin(&self) -> Cursor {
        self.from
    }

    /// Returns the pane.
    pub fn pane(&self) -> Option<&PaneId> {
        self.row.pane.as_ref()
    }

    /// Begins to look for a line that matches.
    pub fn search<'a>(&'a self, is_over: &'a dyn Fn() -> bool) -> Option<LineSearch<'a>> {
        if self.patterns.is_empty() {
            return None;
        }
        let reader = OutputReader::new(&self.data, &self.row, &self.from, is_over);
        let reader = reader.map_err(|error| log::debug!("{error:?}")).ok()?;
        Some(LineSearch {
            known: reader.begun_line().unwrap_or_default(),
            lines: self,
            reader,
        })
    }

    /// Returns the place after the line that has ended the wait, once it is in the log, or else the end of the log.
    pub fn after_match(&self, clock: &Clock, is_over: &dyn Fn() -> bool) -> Option<Cursor> {
        let until: Instant = clock.now() + LOGGED_WITHIN;
        let mut search = self.search(is_over);
        while let Some(search) = search.as_mut().filter(|_| !is_over()) {
            if let Some(line) = search.next() {
                return Some(line.cursor);
            }
            if clock.now() >= until {
                break;
            }
            park(Some(CHECK));
        }
        self.end()
    }

    /// Returns what was printed since the beginning; `None` if that is too much to read.
    pub fn output(&self, is_over: &dyn Fn() -> bool) -> Option<Printed> {
        let mut reader = OutputReader::new(&self.data, &self.row, &self.from, is_over).ok()?;
        let known = reader.begun_line();
        let mut last = VecDeque::new();
        let mut count = 0;
        while let Ok(Some(line)) = reader.next_line() {
            count += 1;
            if count > READ_MAX || is_over() {
                return None;
            }
            if last.len() == OUTPUT_LINES {
                last.pop_front();
            }
            last.push_back(line.text.text);
        }
        let begun = reader.open_line();
        last.extend(begun.filter(|line| Some(line) != known.as_ref()));
        Some(Printed {
            is_cut: count > OUTPUT_LINES,
            text: Vec::from(last).join("\n"),
            cursor: reader.cursor(),
        })
    }

    /// Returns what was printed until a program has ended, once the log does not grow any more.
    pub fn last_output(&self, clock: &Clock, is_over: &dyn Fn() -> bool) -> Option<Printed> {
        let until = clock.now() + LOGGED_WITHIN;
        let mut printed = self.output(is_over)?;
        while clock.now() < until && !is_over() {
            park(Some(REST));
            let later = self.output(is_over)?;
            if later.cursor == printed.cursor {
                break;
            }
            printed = later;
        }
        Some(printed)
    }

    /// Returns the end of the log.
    pub fn end(&self) -> Option<Cursor> {
        read::end(&self.data, &self.row).ok()
    }
}

/// A search in lines that grow.
pub(super) struct LineSearch<'a> {
    lines: &'a LoggedLines,
    reader: OutputReader<'a>,
    /// The line that had begun at the cursor: what it had then does not match.
    known: String,
}

impl LineSearch<'_> {
    /// Returns the next line that matches, if there is one now: a whole line, or one that has begun, such as a prompt.
    pub fn next(&mut self) -> Option<Line> {
        while let Ok(Some(line)) = self.reader.next_line() {
            let known = std::mem::take(&mut self.known);
            if let Some(found) = self.matching(line.text.text, &known) {
                return Some(found);
            }
        }
        while let Some(line) = self.reader.next_rewritten() {
            if let Some(found) = self.matching(line.text, &line.before) {
                return Some(found);
            }
        }
        let begun = self.reader.open_line()?;
        self.matching(begun, &self.known)
    }

    fn matching(&self, text: String, known: &str) -> Option<Line> {
        let same = text.bytes().zip(known.bytes());
        let from = same.take_while(|(new, old)| new == old).count();
        let patterns = &self.lines.patterns;
        patterns.match_line(&text, from).then(|| Line {
            is_stop: patterns.stop_at(&text, from),
            cursor: self.reader.cursor(),
            text,
        })
    }
}
