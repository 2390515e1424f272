//! Durations as they are typed: `200ms`, `5s`, `2m`, `1h` (pure).

use std::time::Duration;

/// Longer than anybody waits for anything here, and far from what clocks cannot add.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Reads a duration that is longer than nothing.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
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
}
