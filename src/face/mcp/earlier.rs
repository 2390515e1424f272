//! Lines that were printed between two waits: found in the log of a pane, from a cursor on.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::cursor::Cursor;
use super::read::{self, OutputReader};
use crate::board::Row;
use crate::clock::Clock;
use crate::history::DataDir;
use crate::thread::park;
use crate::wait::Pattern;

/// The time within which a line that has matched is in the log: it must have settled.
const LOGGED_WITHIN: Duration = Duration::from_millis(400);

/// The interval at which it is looked for.
const CHECK: Duration = Duration::from_millis(20);

/// The patterns of a wait, and the row whose lines they are to match.
pub(super) struct Lines {
    data: DataDir,
    row: Row,
    wanted: Vec<Pattern>,
    stops: Vec<Pattern>,
    /// The place from which the lines count.
    from: Cursor,
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

impl Lines {
    /// Returns the lines of a row that count for a wait with these conditions: those after a cursor, or after now. `None`
    /// without a cursor, if the row has no log.
    ///
    /// # Errors
    /// If the cursor belongs to another run.
    pub fn new(
        data: &DataDir,
        row: &Row,
        (conditions, cursor): (&Value, Option<Cursor>),
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
        let texts = |name: &str| {
            let texts = conditions[name].as_array().into_iter().flatten();
            texts.filter_map(Value::as_str).collect::<Vec<_>>()
        };
        let regexes = |name: &str| {
            let regexes = texts(name).into_iter().map(Pattern::regex);
            regexes.collect::<crate::error::Result<Vec<_>>>()
        };
        let mut wanted = regexes("regex")?;
        for text in texts("text") {
            wanted.push(Pattern::text(text)?);
        }
        Ok(Some(Self {
            data: data.clone(),
            row: row.clone(),
            wanted,
            stops: regexes("stop")?,
            from,
        }))
    }

    /// Returns the first line in the log that matches.
    pub fn first(&self, is_over: &dyn Fn() -> bool) -> Option<Line> {
        if self.wanted.is_empty() && self.stops.is_empty() {
            return None;
        }
        let reader = OutputReader::new(&self.data, &self.row, &self.from, is_over);
        let mut reader = reader.map_err(|error| log::debug!("{error:?}")).ok()?;
        while let Ok(Some(line)) = reader.next_line() {
            let text = line.text.text;
            let matches = |patterns: &[Pattern]| patterns.iter().any(|of| of.matches(&text, 0));
            let is_stop = matches(&self.stops);
            if is_stop || matches(&self.wanted) {
                let cursor = reader.cursor();
                return Some(Line {
                    text,
                    is_stop,
                    cursor,
                });
            }
        }
        None
    }

    /// Returns the place after the line that has ended the wait, once it is in the log, or else the end of the log.
    pub fn after_match(&self, clock: &Clock, is_over: &dyn Fn() -> bool) -> Option<Cursor> {
        let until: Instant = clock.now() + LOGGED_WITHIN;
        while !is_over() {
            if let Some(line) = self.first(is_over) {
                return Some(line.cursor);
            }
            if clock.now() >= until {
                break;
            }
            park(Some(CHECK));
        }
        self.end()
    }

    /// Returns the end of the log.
    pub fn end(&self) -> Option<Cursor> {
        read::end(&self.data, &self.row).ok()
    }
}
