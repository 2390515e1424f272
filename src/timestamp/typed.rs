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
