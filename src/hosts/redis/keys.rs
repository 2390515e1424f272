//! What is in Redis: the names of keys, the ids of entries, and what is said of a run (pure).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::event::ExecutionId;
use crate::history::{RunMetadata, encode_name};
use crate::hosts::HostName;
use crate::timestamp::Timestamp;

/// The beginning of all keys, unless the user chooses another.
pub(crate) const PREFIX: &str = "td";

/// The field of an entry with a line of a log.
pub(super) const ENVELOPE: &str = "envelope";

/// Precedes the time at which a run began that has the name of an earlier one. No encoded name contains it.
const AGAIN: &str = "%@";

/// The longest prefix, in bytes: that of a key is in each command.
const PREFIX_MAX: usize = 64;

/// The names of keys. A host has no colon in its name and is not empty, so no two of them are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    prefix: String,
}

impl FromStr for Keys {
    type Err = &'static str;

    fn from_str(prefix: &str) -> Result<Self, Self::Err> {
        let is_plain = |c: char| c.is_ascii_graphic() && !"{}*?[]\\^".contains(c);
        if prefix.is_empty() || prefix.len() > PREFIX_MAX || !prefix.chars().all(is_plain) {
            return Err(
                "a prefix has 1 to 64 letters, digits and signs, but no brackets, '*' or '?'",
            );
        }
        let prefix = prefix.to_owned();
        Ok(Self { prefix })
    }
}

impl Keys {
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The set of the hosts.
    pub(super) fn hosts(&self) -> String {
        format!("{}::hosts", self.prefix)
    }

    /// The hash of what is said of each run of a host: an [`AboutRun`] for each name of a run.
    pub(super) fn runs(&self, host: &HostName) -> String {
        format!("{}::runs:{host}", self.prefix)
    }

    /// The stream of the runs of which something else is said, so that readers look there.
    pub(super) fn changes(&self) -> String {
        format!("{}::changes", self.prefix)
    }

    /// The stream of a run's events.
    pub(super) fn stream(&self, host: &HostName, name: &str) -> String {
        format!("{}:{host}:{name}", self.prefix)
    }
}

/// Returns the name of a run in keys; `again` is its beginning if an earlier run has had its name.
pub(super) fn run_name(id: &ExecutionId, again: Option<Timestamp>) -> String {
    let name = encode_name(id);
    match again {
        Some(began) => format!("{name}{AGAIN}{}", began.micros()),
        None => name,
    }
}

/// The id of an entry: the time of its event in milliseconds, and the event's number. Where the clock went back, the
/// time stays, so ids only grow. It is a function of the log up to the event: whoever ships it again gets the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryId {
    pub ms: u64,
    pub number: u64,
}

impl EntryId {
    /// Returns the id of the next entry, of an event with this time and number.
    pub fn next(self, ts: Timestamp, number: u64) -> Self {
        Self {
            ms: self.ms.max(Self::ms_of(ts)),
            number,
        }
    }

    /// Returns the milliseconds of a time in ids.
    pub fn ms_of(ts: Timestamp) -> u64 {
        u64::try_from(ts.micros() / 1000).unwrap_or(0)
    }

    pub fn parse(id: &[u8]) -> Option<Self> {
        let (ms, number) = std::str::from_utf8(id).ok()?.split_once('-')?;
        Some(Self {
            ms: ms.parse().ok()?,
            number: number.parse().ok()?,
        })
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.number)
    }
}

/// What is said of a run, beside its events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct AboutRun {
    /// The key of its events.
    pub stream: String,
    /// The data directory that it is in, on its host.
    pub data: String,
    /// The number of its last event, once nothing writes it and all its events are shipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
    /// True if it was removed on its host before all its events were shipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_removed: bool,
    /// Its metadata, without the rows of the board, which the events give.
    pub metadata: RunMetadata,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_only_grow_and_have_the_numbers_of_their_events() {
        let at = Timestamp::from_micros;
        let first = EntryId::default().next(at(1_500_999), 1);
        assert_eq!(first.to_string(), "1500-1");
        let same = first.next(at(1_500_999), 2);
        let back = same.next(at(7), 3);
        assert_eq!(back.to_string(), "1500-3");
        assert!(first < same && same < back && back < back.next(at(1_501_000), 4));
        assert_eq!(EntryId::parse(b"1500-3"), Some(back));
        for text in ["", "1500", "1500-", "x-1", "-1-2"] {
            assert_eq!(EntryId::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn names_are_of_one_run_each() {
        let keys: Keys = "td".parse().unwrap();
        let host = "web".parse().unwrap();
        let name = run_name(&"a/b:c%".into(), None);
        assert_eq!(keys.stream(&host, &name), "td:web:a%2Fb:c%25");
        let again = Some(Timestamp::from_micros(17));
        assert_eq!(run_name(&"a".into(), again), "a%@17");
        assert_eq!(run_name(&"a%@17".into(), None), "a%25@17");
        for prefix in ["", "a b", "a*", "{a}", "ä"] {
            assert!(prefix.parse::<Keys>().is_err(), "{prefix}");
        }
    }
}
