//! Parsers of durations, schedules, shares and sizes: `200ms`, `20ms..1s`, `20%`, `64MiB` (pure).

use std::time::Duration;

use crate::clock::Clock;
use crate::timestamp::{Timestamp, local_time};
use crate::tmux::{AdaptivePolling, PollSchedule};

/// Longer than any user waits, and short enough that deadline arithmetic cannot overflow.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

const TIME_SYNTAX: &str = "write a time as 200ms, 5s, 2m, 1h or 1d";
const SIZE_SYNTAX: &str = "write a size as 500M, 64MiB or 10G";

/// Splits a text into a number, which may be empty, and its unit.
fn split_unit(text: &str) -> (&str, &str) {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    text.split_at(text.len() - unit.len())
}

/// Parses a duration, which must not be zero.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_unit(text);
    let factor_ms = match unit {
        _ if number.is_empty() => return Err(TIME_SYNTAX.to_owned()),
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 24 * 3_600_000,
        _ => return Err(TIME_SYNTAX.to_owned()),
    };
    // A number beyond u64 is too long in any unit.
    let ms = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor_ms));
    match ms.map(Duration::from_millis) {
        Some(Duration::ZERO) => Err("the time must not be zero".to_owned()),
        Some(time) if time <= LONGEST => Ok(time),
        _ => Err("the time is too long, the longest is 8784h".to_owned()),
    }
}

/// Parses a size in bytes, such as `64MiB`, `64M` or `1000`; units are powers of 1024.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let factor: u64 = match unit.trim_end_matches("iB").trim_end_matches('B') {
        "" => 1,
        "k" | "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        _ => return Err(SIZE_SYNTAX.to_owned()),
    };
    let bytes = number.parse::<u64>().ok();
    bytes
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| SIZE_SYNTAX.to_owned())
}

/// Parses a value, or `none`.
fn parse_or_none<T>(
    text: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    match text {
        "none" => Ok(None),
        text => parse(text).map(Some),
    }
}

/// Parses a size limit, or `none`.
pub(super) fn parse_size_limit(text: &str) -> Result<Limit<u64>, String> {
    parse_or_none(text, parse_size).map(Limit)
}

/// Parses the size at which a log continues in a new file, or `none`.
pub(super) fn parse_rotation(text: &str) -> Result<Limit<u64>, String> {
    match parse_size_limit(text)? {
        // Smaller files would contain little more than their headers.
        Limit(Some(bytes)) if bytes < 1024 => Err("the size must be at least 1KiB".to_owned()),
        limit => Ok(limit),
    }
}

/// Parses an age limit, or `none`.
pub(super) fn parse_age_limit(text: &str) -> Result<Limit<Duration>, String> {
    parse_or_none(text, parse_duration).map(Limit)
}

/// An optional limit. It has its own type, because clap interprets an `Option` as "not typed".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit<T>(pub Option<T>);

/// A typed point in time of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimePoint {
    /// A time of the wall clock.
    At(Timestamp),
    /// This long before now, or after the start.
    Off(Duration),
}

/// Parses a point in time: `2026-01-21T10:00:00Z`; in local time `2026-01-21 10:00`, `10:00` or `yesterday`; or
/// a distance such as `10m`.
pub(super) fn parse_time_point(text: &str) -> Result<TimePoint, String> {
    let now = Clock::system().wall();
    if let Some(ts) = text.parse().ok().or_else(|| local_time(text, now)) {
        return Ok(TimePoint::At(ts));
    }
    // Unlike a duration, a distance may be zero: the start itself.
    if matches!(text, "0" | "0s") {
        return Ok(TimePoint::Off(Duration::ZERO));
    }
    parse_duration(text).map(TimePoint::Off).map_err(|_| {
        "write a time as 10m (ago), 13:14, yesterday, '2026-01-21 13:14' or 2026-01-21T10:00:00Z"
            .to_owned()
    })
}

/// Parses a speed such as `4`, `0.5` or `4x`.
pub(super) fn parse_speed(text: &str) -> Result<f64, String> {
    match text.strip_suffix('x').unwrap_or(text).parse::<f64>() {
        Ok(speed) if (0.001..=1_000_000.0).contains(&speed) => Ok(speed),
        _ => Err("write a speed as 4 or 0.5".to_owned()),
    }
}

/// Parses a poll schedule: a fixed interval, or the minimum and maximum of an adaptive one.
pub(super) fn parse_schedule(text: &str) -> Result<PollSchedule, String> {
    let Some((least, most)) = text.split_once("..") else {
        return parse_duration(text).map(PollSchedule::Fixed);
    };
    let (least, most) = (parse_duration(least)?, parse_duration(most)?);
    if least > most {
        return Err("the shortest interval comes first, as in 20ms..1s".to_owned());
    }
    Ok(PollSchedule::Adaptive(AdaptivePolling {
        interval_min: least,
        interval_max: most,
        ..AdaptivePolling::default()
    }))
}

/// Parses a share such as `20%`.
pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    match percent {
        Ok(percent) if (0.1..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("write a share as 20%, from 0.1% to 100%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        for (text, ms) in [
            ("200ms", Some(200)),
            ("5s", Some(5_000)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("0ms", None),
            ("0h", None),
            ("-1s", None),
            ("1", None),
            ("s", None),
            ("", None),
            ("1.5s", None),
            ("1 s", None),
            ("5S", None),
            ("99999h", None),
            ("99999999999999999999999h", None),
        ] {
            let expected = ms.map(Duration::from_millis);
            assert_eq!(parse_duration(text).ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn one_interval_is_fixed_and_two_are_adaptive() {
        let ms = Duration::from_millis;
        assert_eq!(parse_schedule("200ms"), Ok(PollSchedule::Fixed(ms(200))));
        let Ok(PollSchedule::Adaptive(adaptive)) = parse_schedule("50ms..2s") else {
            panic!()
        };
        assert_eq!(
            (adaptive.interval_min, adaptive.interval_max),
            (ms(50), ms(2000))
        );
        for text in ["1s..20ms", "20ms..", "..1s", "0ms..1s", "1s...2s"] {
            assert!(parse_schedule(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("1000", Some(1000)),
            ("64MiB", Some(64 << 20)),
            ("64M", Some(64 << 20)),
            ("10GB", Some(10 << 30)),
            ("0", Some(0)),
            ("", None),
            ("M", None),
            ("1X", None),
            ("-1M", None),
            ("1.5G", None),
            ("99999999999999T", None),
        ] {
            assert_eq!(parse_size(text).ok(), bytes, "{text:?}");
        }
        assert_eq!(parse_size_limit("none"), Ok(Limit(None)));
    }

    #[test]
    fn a_time_point_is_a_time_or_a_distance() {
        let ts = "2026-01-21T10:00:00Z";
        assert_eq!(parse_time_point(ts), Ok(TimePoint::At(ts.parse().unwrap())));
        assert_eq!(
            parse_time_point("2d"),
            Ok(TimePoint::Off(Duration::from_secs(2 * 24 * 3600)))
        );
        assert!(matches!(
            parse_time_point("yesterday"),
            Ok(TimePoint::At(_))
        ));
        assert!(parse_time_point("soon").is_err());
    }

    #[test]
    fn a_share_is_a_percentage() {
        assert_eq!(parse_share("20%"), Ok(0.2));
        assert_eq!(parse_share("100"), Ok(1.0));
        for text in ["", "%", "0", "0%", "-1%", "101%", "NaN", "inf", "x"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }
}
