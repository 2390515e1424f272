//! Places in the output of runs, as texts that clients keep and send again; they survive restarts of the observer
//! and of the server (pure).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};
use crate::event::ExecutionId;
use crate::face::view_lines::Position;
use crate::feed::run_hash;
use crate::timestamp::Timestamp;

/// The place before a line of a run's output: the line itself is the next one to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// The hash of the run's id.
    run: u64,
    at: Position,
}

impl Cursor {
    /// Returns the place before a line.
    pub(super) fn new(run: &ExecutionId, at: Position) -> Self {
        Self {
            run: run_hash(run),
            at,
        }
    }

    /// Returns the place in a run.
    ///
    /// # Errors
    /// [`Error::is_invalid_input`] if the cursor belongs to another run.
    pub(super) fn position_in(&self, run: &ExecutionId) -> Result<Position> {
        if self.run == run_hash(run) {
            return Ok(self.at);
        }
        let why = "the cursor belongs to another run: call read_output without cursor";
        Err(Error::invalid(why))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{}.{}", self.run, self.at.seq, self.at.nth)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (run, place) = text.split_once('.')?;
            let (run, at) = (hash(run)?, position(place)?);
            Some(Self { run, at })
        };
        let why = "this is no cursor of read_output: call read_output without cursor";
        parse().ok_or_else(|| Error::invalid(why))
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Places in the output of several runs, at most one in each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursors(BTreeMap<u64, Position>);

impl Cursors {
    /// Adds a place; of two in a run, the earlier one counts.
    pub(super) fn add(&mut self, cursor: Cursor) {
        let at = self.0.entry(cursor.run).or_insert(cursor.at);
        *at = cursor.at.min(*at);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the place in a run.
    pub(super) fn of_run(&self, run: &ExecutionId) -> Option<Cursor> {
        let run = run_hash(run);
        let at = *self.0.get(&run)?;
        Some(Cursor { run, at })
    }

    /// Returns any place, for the error that it is in none of the runs that are meant.
    pub(super) fn first(&self) -> Option<Cursor> {
        let (run, at) = self.0.first_key_value()?;
        Some(Cursor { run: *run, at: *at })
    }
}

impl fmt::Display for Cursors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (count, (run, at)) in self.0.iter().enumerate() {
            let separator = if count == 0 { "" } else { "," };
            let cursor = Cursor { run: *run, at: *at };
            write!(f, "{separator}{cursor}")?;
        }
        Ok(())
    }
}

impl FromStr for Cursors {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut cursors = Self::default();
        for part in text.split(',') {
            cursors.add(part.parse()?);
        }
        Ok(cursors)
    }
}

/// The place of a match in a search, from which it continues with older ones. Matches are in the order of this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SearchCursor {
    pub(super) ts: Timestamp,
    /// The hash of the run's id.
    pub(super) run: u64,
    pub(super) at: Position,
}

impl fmt::Display for SearchCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ts, run, at } = self;
        write!(f, "{}.{run:x}.{}.{}", ts.micros(), at.seq, at.nth)
    }
}

impl FromStr for SearchCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (micros, rest) = text.split_once('.')?;
            let (run, place) = rest.split_once('.')?;
            Some(Self {
                ts: Timestamp::from_micros(micros.parse().ok()?),
                run: hash(run)?,
                at: position(place)?,
            })
        };
        let why = "this is no cursor of search_history: call search_history without cursor";
        parse().ok_or_else(|| Error::invalid(why))
    }
}

impl Serialize for SearchCursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn hash(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

fn position(text: &str) -> Option<Position> {
    let (seq, nth) = text.split_once('.')?;
    Some(Position {
        seq: seq.parse().ok()?,
        nth: nth.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cursor_survives_as_text(run: u64, seq: u64, nth: u32, micros: i64) {
            let at = Position { seq, nth };
            let cursor = Cursor { run, at };
            prop_assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
            let cursor = SearchCursor { ts: Timestamp::from_micros(micros), run, at };
            prop_assert_eq!(cursor.to_string().parse::<SearchCursor>().unwrap(), cursor);
        }

        #[test]
        fn any_text_is_a_cursor_or_none(text in "[0-9a-f.-]{0,40}") {
            let _ = text.parse::<Cursor>();
            let _ = text.parse::<SearchCursor>();
        }
    }

    #[test]
    fn a_cursor_of_another_run_says_what_to_do() {
        let at = Position { seq: 7, nth: 1 };
        let cursor = Cursor::new(&"a".into(), at);
        assert_eq!(cursor.position_in(&"a".into()).unwrap(), at);
        for error in [
            cursor.position_in(&"b".into()).unwrap_err(),
            "nonsense".parse::<Cursor>().unwrap_err(),
        ] {
            assert!(error.is_invalid_input());
            let text = error.to_string();
            assert!(text.ends_with("call read_output without cursor"), "{text}");
        }
    }
}
