//! Timestamps as they are serialized: UTC with microseconds, RFC 3339 (pure).

#[cfg(feature = "cli")]
mod typed;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[cfg(feature = "cli")]
pub(crate) use typed::{ago, local_time};

/// A wall-clock time in whole microseconds since 1970-01-01T00:00:00Z.
///
/// ```
/// use td_observe::Timestamp;
/// let ts: Timestamp = "2026-01-21T10:00:01.123456Z".parse().unwrap();
/// assert_eq!(ts.to_string(), "2026-01-21T10:00:01.123456Z");
/// // Whole seconds are accepted, too: older logs have them.
/// assert_eq!("2026-01-21T10:00:00Z".parse::<Timestamp>().unwrap().micros() % 1_000_000, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Creates a timestamp from microseconds since the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since the Unix epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Returns the whole seconds since the Unix epoch.
    pub(crate) const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Returns the whole seconds and the remaining microseconds.
    const fn parts(self) -> (i64, i64) {
        (self.seconds(), self.0.rem_euclid(1_000_000))
    }
}

/// Formats a second as `2026-01-21T10:00:01`. Outside jiff's years (-9999 to 9999), uses the nearest valid
/// time, so that a wrong clock does not stop the log.
fn format_second(second: i64) -> String {
    let time = jiff::Timestamp::from_second(second).unwrap_or(if second < 0 {
        jiff::Timestamp::MIN
    } else {
        jiff::Timestamp::MAX
    });
    time.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (second, micros) = self.parts();
        write!(f, "{}.{micros:06}Z", format_second(second))
    }
}

/// The error of parsing text that is not an RFC 3339 time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid RFC 3339 time: {0:?}")]
pub struct ParseTimestampError(String);

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<jiff::Timestamp>() {
            Ok(time) => Ok(Self(time.as_microsecond())),
            Err(_) => Err(ParseTimestampError(text.chars().take(64).collect())),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TimestampVisitor;
        impl de::Visitor<'_> for TimestampVisitor {
            type Value = Timestamp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 time")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(TimestampVisitor)
    }
}

/// Formats timestamps and caches the text of the last second, because most events of a busy log share it.
#[derive(Debug, Default)]
pub(crate) struct TimestampFormatter {
    /// The last second and its text.
    cached: Option<(i64, String)>,
}

impl TimestampFormatter {
    /// Appends the time as `YYYY-MM-DDTHH:MM:SS.ffffffZ`.
    pub(crate) fn push(&mut self, out: &mut Vec<u8>, ts: Timestamp) {
        let (second, mut micros) = ts.parts();
        if self
            .cached
            .as_ref()
            .is_none_or(|(cached, _)| *cached != second)
        {
            self.cached = Some((second, format_second(second)));
        }
        if let Some((_, text)) = &self.cached {
            out.extend_from_slice(text.as_bytes());
        }
        let mut tail = *b".000000Z";
        for digit in tail[1..7].iter_mut().rev() {
            // A remainder modulo ten fits into a byte.
            *digit += (micros % 10) as u8;
            micros /= 10;
        }
        out.extend_from_slice(&tail);
    }
}

/// Parses timestamps and caches the last second, because most events of a busy log share it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimestampParser {
    /// The text of the last second, and its microseconds since the epoch.
    cached: Option<([u8; SECOND_BYTES], i64)>,
}

/// The length of `2026-01-21T10:00:01`.
const SECOND_BYTES: usize = 19;

impl TimestampParser {
    /// Returns the time if the text has the format in which this crate writes it.
    pub(crate) fn parse(&mut self, text: &str) -> Option<Timestamp> {
        let (second, fraction) = text.as_bytes().split_first_chunk()?;
        let [b'.', digits @ .., b'Z'] = fraction else {
            return None;
        };
        if digits.len() != 6 {
            return None;
        }
        let mut micros = 0;
        for digit in digits {
            micros = micros * 10 + i64::from(digit.wrapping_sub(b'0'));
        }
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        match &self.cached {
            Some((cached, micros_before)) if cached == second => {
                Some(Timestamp(micros_before + micros))
            }
            _ => {
                let ts: Timestamp = text.parse().ok()?;
                // A leap second is parsed as the second before it.
                let is_leap = second.ends_with(b"60");
                self.cached = (!is_leap).then_some((*second, ts.0 - micros));
                Some(ts)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_written_timestamp_reads_back(micros in -60_000_000_000_000_000_i64..200_000_000_000_000_000) {
            let ts = Timestamp::from_micros(micros);
            prop_assert_eq!(ts.to_string().parse::<Timestamp>().unwrap(), ts);
        }
    }

    #[test]
    fn the_cached_second_is_replaced() {
        let mut stamp = TimestampFormatter::default();
        for (micros, expected) in [
            (1_999_999, "1970-01-01T00:00:01.999999Z"),
            (1_000_020, "1970-01-01T00:00:01.000020Z"),
            (2_000_000, "1970-01-01T00:00:02.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
        ] {
            let mut out = Vec::new();
            stamp.push(&mut out, Timestamp(micros));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
            assert_eq!(Timestamp(micros).to_string(), expected);
        }
    }
}
