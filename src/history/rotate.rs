//! When a log goes on in a new file, and what the closed ones are called (pure).

use std::time::Duration;

use crate::timestamp::Timestamp;

/// When `events.jsonl` is closed and a new one begun. The closed files stay beside it, numbered and
/// compressed.
///
/// ```
/// use td_observe::history::Rotation;
/// let weekly = Rotation { age_max: Some(std::time::Duration::from_secs(7 * 24 * 3600)), ..Rotation::default() };
/// assert_eq!(weekly.bytes_max, 64 * 1024 * 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// The file is closed before a write that would make it longer than this, in bytes. A single
    /// write may be longer, and then has a file of its own.
    pub bytes_max: u64,
    /// The file is closed before a write that comes so long after its first line. `None`: never for
    /// its age.
    pub age_max: Option<Duration>,
}

impl Default for Rotation {
    /// 64 MiB, which compress within a second and are searched within a tenth of one; or a day, so
    /// that "last night" is a file or two.
    fn default() -> Self {
        Self {
            bytes_max: 64 * 1024 * 1024,
            age_max: Some(Duration::from_secs(24 * 3600)),
        }
    }
}

impl Rotation {
    /// One file for ever.
    pub const NEVER: Self = Self {
        bytes_max: u64::MAX,
        age_max: None,
    };

    /// Whether a file of `len` bytes, whose first line is of `began`, is closed before `more` bytes
    /// are written to it. A clock that went back closes nothing.
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

/// A closed file of a run, as its name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Closed {
    /// Counted from 1, the oldest first.
    pub(super) number: u32,
    /// Whether it is compressed. A file may be there both ways for a moment.
    pub(super) is_gzip: bool,
}

impl Closed {
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

    /// `events.000001.jsonl`, or `events.000001.jsonl.gz`: in the order of their numbers as long as
    /// there are fewer than a million.
    pub(super) fn name(self) -> String {
        let gz = if self.is_gzip { ".gz" } else { "" };
        format!("events.{:06}.jsonl{gz}", self.number)
    }

    /// The file of that name, if it is one.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let rest = name.strip_prefix("events.")?;
        let (rest, is_gzip) = match rest.strip_suffix(".gz") {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let number = rest.strip_suffix(".jsonl")?.parse().ok()?;
        let closed = Self { number, is_gzip };
        // Other spellings of a number are none of ours.
        (number > 0 && closed.name() == name).then_some(closed)
    }
}

/// Closed files in the order of what they hold, each once: the compressed one of two.
pub(super) fn in_order(mut files: Vec<Closed>) -> Vec<Closed> {
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
        fn a_name_leads_back(number in 1..u32::MAX, is_gzip: bool) {
            let closed = Closed { number, is_gzip };
            prop_assert_eq!(Closed::of_name(&closed.name()), Some(closed));
        }

        #[test]
        fn foreign_names_are_left_alone(name in "events\\.[0-9+]{0,8}\\.?(jsonl)?(\\.gz)?(\\.tmp)?") {
            if let Some(closed) = Closed::of_name(&name) {
                prop_assert_eq!(closed.name(), name);
            }
        }
    }

    #[test]
    fn names_that_are_none() {
        for name in [
            "events.jsonl",
            "events.1.jsonl",
            "events.000000.jsonl",
            "events.000001.jsonl.gz.tmp",
            "events.0000001.jsonl",
            "events.+00001.jsonl",
            "metadata.json",
        ] {
            assert_eq!(Closed::of_name(name), None, "{name}");
        }
    }

    #[test]
    fn each_file_once_the_oldest_first() {
        let files = vec![
            Closed::plain(10),
            Closed::plain(2),
            Closed::gzip(2),
            Closed::gzip(1),
        ];
        assert_eq!(
            in_order(files),
            [Closed::gzip(1), Closed::gzip(2), Closed::plain(10)]
        );
    }

    #[test]
    fn it_is_due_by_size_and_by_age_and_never_for_nothing() {
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
