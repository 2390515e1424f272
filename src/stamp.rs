//! Points in time as they are written: UTC with microseconds, RFC 3339 (pure).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A wall-clock time in whole microseconds since 1970-01-01T00:00:00Z.
///
/// ```
/// use td_observe::Timestamp;
/// let ts: Timestamp = "2026-01-21T10:00:01.123456Z".parse().unwrap();
/// assert_eq!(ts.to_string(), "2026-01-21T10:00:01.123456Z");
/// // Whole seconds are read too, as older logs wrote them.
/// assert_eq!("2026-01-21T10:00:00Z".parse::<Timestamp>().unwrap().micros() % 1_000_000, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since the Unix epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the Unix epoch.
    pub const fn micros(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut stamp = StampFormatter::default();
        f.write_str(stamp.format(*self))
    }
}

/// The text is not an RFC 3339 time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time in RFC 3339 form: {0:?}")]
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
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Timestamp;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time in RFC 3339 form")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// Formats times, keeping the text of the current second: most events of a busy log share it.
#[derive(Debug)]
pub(crate) struct StampFormatter {
    second: i64,
    /// `2026-01-21T10:00:01` when `second` is known, then `.123456Z`.
    text: String,
    prefix_len: usize,
}

impl Default for StampFormatter {
    fn default() -> Self {
        Self {
            second: i64::MIN,
            text: String::new(),
            prefix_len: 0,
        }
    }
}

impl StampFormatter {
    /// The time as `YYYY-MM-DDTHH:MM:SS.ffffffZ`.
    pub(crate) fn format(&mut self, ts: Timestamp) -> &str {
        let second = ts.0.div_euclid(1_000_000);
        if second != self.second || self.prefix_len == 0 {
            // Outside of jiff's years (-9999 to 9999) the nearest end stands: a clock that far
            // off is not worth an error on the way to the log.
            let time = jiff::Timestamp::from_second(second).unwrap_or(if second < 0 {
                jiff::Timestamp::MIN
            } else {
                jiff::Timestamp::MAX
            });
            self.text = time.strftime("%Y-%m-%dT%H:%M:%S").to_string();
            self.prefix_len = self.text.len();
            self.second = second;
        }
        self.text.truncate(self.prefix_len);
        let micros = ts.0.rem_euclid(1_000_000);
        self.text.push('.');
        let mut digits = [b'0'; 6];
        let mut rest = micros;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.text
            .extend(digits.iter().map(|&digit| char::from(digit)));
        self.text.push('Z');
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn reads_what_it_writes(micros in -60_000_000_000_000_000_i64..200_000_000_000_000_000) {
            let ts = Timestamp::from_micros(micros);
            prop_assert_eq!(ts.to_string().parse::<Timestamp>().unwrap(), ts);
        }
    }

    #[test]
    fn the_cached_second_is_not_stale() {
        let mut stamp = StampFormatter::default();
        assert_eq!(
            stamp.format(Timestamp(1_999_999)),
            "1970-01-01T00:00:01.999999Z"
        );
        assert_eq!(
            stamp.format(Timestamp(2_000_000)),
            "1970-01-01T00:00:02.000000Z"
        );
        assert_eq!(stamp.format(Timestamp(-1)), "1969-12-31T23:59:59.999999Z");
    }
}
