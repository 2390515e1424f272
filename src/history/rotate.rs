//! Decides when a log continues in a new file, and names closed files (pure).

use std::time::Duration;

use crate::timestamp::Timestamp;

/// The limits at which `events.jsonl` is closed and a new file begins. Closed files stay in the same
/// directory, numbered and compressed.
///
/// ```
/// use td_observe::history::Rotation;
/// let weekly = Rotation { age_max: Some(std::time::Duration::from_secs(7 * 24 * 3600)), ..Rotation::default() };
/// assert_eq!(weekly.bytes_max, 64 * 1024 * 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The maximum size of a file in bytes. A longer single write gets a file of its own.
    pub bytes_max: u64,
    /// The maximum age of a file since its first line; `None` for no limit.
    pub age_max: Option<Duration>,
}

impl Default for Rotation {
    /// 64 MiB, which can be compressed within a second and searched within a tenth of a second; or one day,
    /// so that "last night" is in one or two files.
    fn default() -> Self {
        Self {
            bytes_max: 64 * 1024 * 1024,
            age_max: Some(Duration::from_secs(24 * 3600)),
        }
    }
}

impl Rotation {
    /// Keeps all events in one file.
    pub const NEVER: Self = Self {
        bytes_max: u64::MAX,
        age_max: None,
    };

    /// Returns `true` if a file of `len` bytes that began at `began` must be closed before `more` bytes are
    /// written. A clock that was set back closes nothing.
    pub(super) fn is_due(
        &self,
        len: u64,
        more: usize,
        began: Option<Timestamp>,
        now: Timestamp,
    ) -> bool {
        if len == 0 {
            return false;
        }
        let is_old = |age_max: Duration| {
            let age_max = i64::try_from(age_max.as_micros()).unwrap_or(i64::MAX);
            began.is_some_and(|began| now.micros().saturating_sub(began.micros()) > age_max)
        };
        len.saturating_add(more as u64) > self.bytes_max || self.age_max.is_some_and(is_old)
    }
}

/// A closed file of a run, identified by its number and form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClosedFile {
    /// The number of the file; 1 is the oldest.
    pub(super) number: u32,
    /// True if the file is compressed. Briefly, both forms of a file exist.
    pub(super) is_gzip: bool,
}

impl ClosedFile {
    pub(super) fn plain(number: u32) -> Self {
        Self {
            number,
            is_gzip: false,
        }
    }

    pub(super) fn gzip(number: u32) -> Self {
        Self {
            number,
            is_gzip: true,
        }
    }

    /// Returns `events.000001.jsonl` or `events.000001.jsonl.gz`. Below one million, names sort by number.
    pub(super) fn name(self) -> String {
        let gz = if self.is_gzip { ".gz" } else { "" };
        format!("events.{:06}.jsonl{gz}", self.number)
    }

    /// Parses the name of a closed file.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("events.")?;
        let (rest, is_gzip) = match rest.strip_suffix(".gz") {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let number = rest.strip_suffix(".jsonl")?.parse().ok()?;
        let closed = Self { number, is_gzip };
        // Another spelling of the number is not a valid name.
        (number > 0 && closed.name() == name).then_some(closed)
    }
}

/// Returns the name of the filter of a file of a log: `events.000001.filter`, `events.filter`.
pub(super) fn filter_name(log: &str) -> Option<String> {
    let plain = log.strip_suffix(".gz").unwrap_or(log);
    Some(format!("{}.filter", plain.strip_suffix(".jsonl")?))
}

/// Sorts closed files from oldest to newest and removes duplicates. If both forms of a file exist, keeps the
/// compressed one.
pub(super) fn in_order(mut files: Vec<ClosedFile>) -> Vec<ClosedFile> {
    files.sort_by_key(|file| (file.number, !file.is_gzip));
    files.dedup_by_key(|file| file.number);
    files
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_name_round_trips(number in 1..u32::MAX, is_gzip: bool) {
            let closed = ClosedFile { number, is_gzip };
            prop_assert_eq!(ClosedFile::of_name(&closed.name()), Some(closed));
        }

        #[test]
        fn foreign_names_are_ignored(name in "events\\.[0-9+]{0,8}\\.?(jsonl)?(\\.gz)?(\\.tmp)?") {
            if let Some(closed) = ClosedFile::of_name(&name) {
                prop_assert_eq!(closed.name(), name);
            }
        }
    }

    #[test]
    fn other_names_are_not_parsed() {
        for name in [
            "events.jsonl",
            "events.1.jsonl",
            "events.000000.jsonl",
            "events.000001.jsonl.gz.tmp",
            "events.0000001.jsonl",
            "events.+00001.jsonl",
            "metadata.json",
        ] {
            assert_eq!(ClosedFile::of_name(name), None, "{name}");
        }
    }

    #[test]
    fn each_file_is_listed_once_oldest_first() {
        let files = vec![
            ClosedFile::plain(10),
            ClosedFile::plain(2),
            ClosedFile::gzip(2),
            ClosedFile::gzip(1),
        ];
        assert_eq!(
            in_order(files),
            [
                ClosedFile::gzip(1),
                ClosedFile::gzip(2),
                ClosedFile::plain(10)
            ]
        );
    }

    #[test]
    fn rotation_is_due_by_size_and_by_age() {
        let rotation = Rotation {
            bytes_max: 100,
            age_max: Some(Duration::from_secs(10)),
        };
        let at = |second: i64| Timestamp::from_micros(second * 1_000_000);
        let due = |len, more, now| rotation.is_due(len, more, Some(at(5)), at(now));
        assert!(!due(0, 1000, 5), "a large write has the file for itself");
        assert!(!due(90, 10, 5));
        assert!(due(90, 11, 5));
        assert!(!due(1, 1, 15));
        assert!(due(1, 1, 16));
        assert!(!due(1, 1, -1000), "the clock went back");
        assert!(!due(0, 1, 16));
        assert!(!Rotation::NEVER.is_due(u64::MAX, 1, Some(at(0)), at(1 << 40)));
        assert!(!rotation.is_due(1, 1, None, at(1 << 40)));
    }
}
