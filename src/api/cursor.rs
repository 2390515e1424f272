//! Cursors: opaque positions in the observer's stream of all events (pure).

use std::fmt;
use std::str::FromStr;

use crate::history::fnv1a;
use crate::timestamp::Timestamp;

/// A position after an event, in the live stream or in the history before it.
///
/// Clients store its text and send it as `Last-Event-ID`. Only the observer interprets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamCursor {
    /// The observer that assigned the position.
    pub instance: u64,
    /// The number of events that the observer had distributed at this position.
    pub position: u64,
    /// The time of the last event before the position, from which another observer can continue. Before the
    /// first event of a history, the time from which the history is read.
    pub ts: Timestamp,
    /// The place in the history, while the history before the position is read.
    pub history: Option<HistoryPlace>,
}

/// A place in the histories of all runs, which are merged in a stable order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HistoryPlace {
    /// The position from which the history is read. `stream.rs` defines the value for the beginning of all
    /// runs.
    pub from: u64,
    /// The hash of the last event's execution; see [`run_hash`]. 0 before the first event.
    pub run: u64,
    /// The number of the last event in its run; 0 before the first event.
    pub seq: u64,
}

impl HistoryPlace {
    /// Returns the place before the first event of a history.
    pub fn before(from: u64) -> Self {
        Self {
            from,
            run: 0,
            seq: 0,
        }
    }

    /// Returns true if the place is before the first event.
    pub fn is_before_all(self) -> bool {
        (self.run, self.seq) == (0, 0)
    }
}

impl fmt::Display for StreamCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.ts.micros();
        write!(f, "{:x}.{}.{micros}", self.instance, self.position)?;
        match self.history {
            Some(HistoryPlace { from, run, seq }) => write!(f, ".{from}.{run:x}.{seq}"),
            None => Ok(()),
        }
    }
}

/// The error for a text that is not a cursor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InvalidCursor;

impl FromStr for StreamCursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        let hex = |text: &str| u64::from_str_radix(text, 16).map_err(|_| InvalidCursor);
        let decimal = |text: &str| text.parse().map_err(|_| InvalidCursor);
        let parts: Vec<&str> = text.split('.').collect();
        let (start, history) = match parts.as_slice() {
            [start @ .., from, run, seq] if start.len() == 3 => {
                let (from, run, seq) = (decimal(from)?, hex(run)?, decimal(seq)?);
                (start, Some(HistoryPlace { from, run, seq }))
            }
            start => (start, None),
        };
        let [instance, position, micros] = start else {
            return Err(InvalidCursor);
        };
        Ok(Self {
            instance: hex(instance)?,
            position: decimal(position)?,
            ts: Timestamp::from_micros(micros.parse().map_err(|_| InvalidCursor)?),
            history,
        })
    }
}

/// Returns the hash that identifies a run in a cursor.
pub(crate) fn run_hash(execution_id: &str) -> u64 {
    fnv1a(execution_id.as_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cursor_survives_as_text(
            instance: u64, position: u64, micros: i64, history in proptest::option::of((any::<u64>(), any::<u64>(), any::<u64>())),
        ) {
            let history = history.map(|(from, run, seq)| HistoryPlace { from, run, seq });
            let cursor = StreamCursor { instance, position, ts: Timestamp::from_micros(micros), history };
            prop_assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }

        #[test]
        fn any_text_is_a_cursor_or_none(text in "[0-9a-f.-]{0,40}") {
            let _ = text.parse::<StreamCursor>();
        }
    }
}
