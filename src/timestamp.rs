//! Timestamps as they are serialized: UTC with microseconds, RFC 3339 (pure).

use std::fmt;
use std::str::FromStr;
#[cfg(feature = "engine")]
use std::time::Duration;

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

    /// Creates a timestamp from the time of a file: seconds since the Unix epoch, and nanoseconds. Returns `None` if it
    /// cannot hold it.
    #[cfg(feature = "engine")]
    pub(crate) fn from_unix(seconds: i64, nanos: i64) -> Option<Self> {
        let micros = seconds.checked_mul(1_000_000)?.checked_add(nanos / 1_000)?;
        Some(Self(micros))
    }

    /// Returns the time that is later by this duration.
    #[cfg(feature = "engine")]
    pub(crate) fn after(self, time: Duration) -> Self {
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(micros))
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

#[cfg(feature = "cli")]
mod typed {
    //! Points in time as people type them: `10m` ago, or `13:14`, `yesterday`, `2026-11-23 13:14` in local time
    //! (pure except for the time zone).

    use jiff::civil::{Date, DateTime, Time};
    use jiff::tz::TimeZone;
    use jiff::{ToSpan, Zoned};

    use crate::timestamp::Timestamp;

    /// Parses a time before now, such as `10s`, `10m`, `2h` or `1d`; `None` for other text.
    pub(crate) fn ago(text: &str, now: Timestamp) -> Option<Timestamp> {
        let (count, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
        let seconds = match unit {
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return None,
        };
        // A sign is more likely a mistake than a number.
        let is_number = count.bytes().all(|byte| byte.is_ascii_digit());
        let count: i64 = count.parse().ok().filter(|_| is_number)?;
        let micros = count.checked_mul(seconds)?.checked_mul(1_000_000)?;
        Some(Timestamp::from_micros(now.micros().saturating_sub(micros)))
    }

    /// Parses a point in local time; `None` for other text.
    pub(crate) fn local_time(text: &str, now: Timestamp) -> Option<Timestamp> {
        local_time_in(text, now, &TimeZone::try_system().unwrap_or(TimeZone::UTC))
    }

    /// Parses a point in the time of a zone. A time that does not exist because clocks are put forward becomes
    /// one hour later; of two times when clocks are put back, the first is used.
    fn local_time_in(text: &str, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let now = jiff::Timestamp::from_microsecond(now.micros()).ok()?;
        let now = now.to_zoned(zone.clone());
        let today = now.date();
        let (day, rest) = match text.split_once(' ') {
            Some((day, rest)) => (day, Some(rest.trim_start())),
            None => (text, None),
        };
        let day = match day {
            "today" => Some(today),
            "yesterday" => today.checked_sub(1.day()).ok(),
            day => day.parse::<Date>().ok().filter(|_| is_date(day)),
        };
        let at = match (day, rest) {
            (Some(day), None) => day.to_datetime(Time::midnight()),
            (Some(day), Some(rest)) => day.to_datetime(time_of_day(rest)?),
            (None, _) => match time_of_day(text) {
                Some(time) => return latest(time, &now).map(timestamp),
                // With a `T` and without a zone.
                None => text.parse::<DateTime>().ok()?,
            },
        };
        Some(timestamp(at.to_zoned(zone.clone()).ok()?))
    }

    /// Returns the latest time before now at which a clock showed this time.
    fn latest(time: Time, now: &Zoned) -> Option<Zoned> {
        let today = now.date();
        let days = [today, today.checked_sub(1.day()).ok()?].into_iter();
        let zone = now.time_zone();
        let mut times = days.filter_map(|day| day.to_datetime(time).to_zoned(zone.clone()).ok());
        times.find(|at| at <= now)
    }

    /// Parses `13:14`, `13:14:05` or `13:14:05.123`.
    fn time_of_day(text: &str) -> Option<Time> {
        let is_time = text.as_bytes().get(1..=2)?.contains(&b':');
        let padded = match text.find(':') {
            Some(1) => format!("0{text}"),
            _ => text.to_owned(),
        };
        padded.parse().ok().filter(|_| is_time)
    }

    /// Returns true for dates such as `2026-11-23`, without any text after them.
    fn is_date(text: &str) -> bool {
        text.len() == 10
            && text
                .bytes()
                .all(|byte| byte == b'-' || byte.is_ascii_digit())
    }

    fn timestamp(at: Zoned) -> Timestamp {
        Timestamp::from_micros(at.timestamp().as_microsecond())
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// 2026-11-25 01:30 in a zone two hours east of Greenwich.
        const NOW: &str = "2026-11-24T23:30:00Z";

        fn read(text: &str) -> Option<String> {
            let zone = TimeZone::fixed(jiff::tz::offset(2));
            let point = local_time_in(text, NOW.parse().unwrap(), &zone)?;
            Some(point.to_string().replace(".000000Z", "Z"))
        }

        #[test]
        fn times_of_day_and_days_are_local() {
            for (text, expected) in [
                ("01:29", "2026-11-24T23:29:00Z"),
                ("1:29", "2026-11-24T23:29:00Z"),
                ("13:14", "2026-11-24T11:14:00Z"),
                ("13:14:05", "2026-11-24T11:14:05Z"),
                ("today", "2026-11-24T22:00:00Z"),
                ("yesterday", "2026-11-23T22:00:00Z"),
                ("yesterday 13:14", "2026-11-24T11:14:00Z"),
                ("2026-11-23", "2026-11-22T22:00:00Z"),
                ("2026-11-23 13:14", "2026-11-23T11:14:00Z"),
                ("2026-11-23 13:14:05", "2026-11-23T11:14:05Z"),
                ("2026-11-23T13:14", "2026-11-23T11:14:00Z"),
            ] {
                assert_eq!(read(text).as_deref(), Some(expected), "{text}");
            }
            assert_eq!(
                read("2026-11-23 13:14:05.123").as_deref(),
                Some("2026-11-23T11:14:05.123000Z")
            );
        }

        #[test]
        fn times_before_now_have_a_unit() {
            let now: Timestamp = NOW.parse().unwrap();
            for (text, seconds) in [
                ("0s", Some(0)),
                ("10m", Some(600)),
                ("2h", Some(7200)),
                ("1d", Some(86_400)),
            ] {
                let ago_s = ago(text, now).map(|at| (now.micros() - at.micros()) / 1_000_000);
                assert_eq!(ago_s, seconds, "{text}");
            }
            for text in [
                "",
                "m",
                "10",
                "-5m",
                "+5m",
                "5 m",
                "5ü",
                "99999999999999d",
                "13:14",
            ] {
                assert_eq!(ago(text, now), None, "{text}");
            }
        }

        #[test]
        fn other_texts_are_no_times() {
            for text in [
                "",
                "10m",
                "25:00",
                "13",
                "2026-13-01",
                "tomorrow",
                "yesterday x",
                "1",
                "2026",
            ] {
                assert_eq!(read(text), None, "{text}");
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
