//! Durations, rhythms and shares as they are typed: `200ms`, `20ms..1s`, `20%` (pure).

use std::time::Duration;

use crate::tmux::{Adaptive, Rhythm};

/// Longer than anybody waits for anything here, and far from what clocks cannot add.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Reads a duration that is longer than nothing.
fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("write a time as 200ms, 5s, 2m or 1h".to_owned()),
    };
    if number.is_empty() {
        return Err("write a time as 200ms, 5s, 2m or 1h".to_owned());
    }
    // A number beyond u64 is too long in any unit.
    let ms = number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(factor_ms));
    match ms.map(Duration::from_millis) {
        Some(Duration::ZERO) => Err("the time must be longer than nothing".to_owned()),
        Some(time) if time <= LONGEST => Ok(time),
        _ => Err("the time is too long, the longest is 8784h".to_owned()),
    }
}

/// Reads how often panes are looked at: one interval, or the shortest and the longest of them.
pub(super) fn parse_rhythm(text: &str) -> Result<Rhythm, String> {
    let Some((least, most)) = text.split_once("..") else {
        return parse_duration(text).map(Rhythm::Fixed);
    };
    let (least, most) = (parse_duration(least)?, parse_duration(most)?);
    if least > most {
        return Err("the shortest interval comes first, as in 20ms..1s".to_owned());
    }
    Ok(Rhythm::Adaptive(Adaptive {
        least,
        most,
        ..Adaptive::default()
    }))
}

/// Reads a share as it is typed, `20%`.
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
    fn reads_what_people_type() {
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
    fn one_time_is_a_grid_and_two_are_limits() {
        let ms = Duration::from_millis;
        assert_eq!(parse_rhythm("200ms"), Ok(Rhythm::Fixed(ms(200))));
        let Ok(Rhythm::Adaptive(adaptive)) = parse_rhythm("50ms..2s") else {
            panic!()
        };
        assert_eq!((adaptive.least, adaptive.most), (ms(50), ms(2000)));
        for text in ["1s..20ms", "20ms..", "..1s", "0ms..1s", "1s...2s"] {
            assert!(parse_rhythm(text).is_err(), "{text}");
        }
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
