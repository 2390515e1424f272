//! Reads from the words of a limit when it ends (pure).

use std::sync::LazyLock;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp as Moment, ToSpan, Zoned};
use regex::{Captures, Regex};

#[cfg(feature = "report")]
use super::row::Row;
use crate::timestamp::Timestamp;

#[cfg(feature = "report")]
impl Row {
    /// Returns when the agent's limit ends, if its words say so.
    pub(crate) fn limit_end(&self) -> Option<Timestamp> {
        self.limit_end
    }
}

/// Returns when a limit ends that was reported at a time: `resets 3:53pm (UTC)`, `try again at 6:06 PM`, `resets Oct 7, 3pm`,
/// `try again in 2 hours 5 minutes`. A time of day without a zone is in `zone`; it is the next one after the report.
pub(super) fn limit_end(words: &str, at: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let at = Moment::from_microsecond(at.micros()).ok()?;
    let end = duration(words)
        .and_then(|span| at.to_zoned(zone.clone()).checked_add(span).ok())
        .or_else(|| time_of_day(words, at, zone))?;
    Some(Timestamp::from_micros(end.timestamp().as_microsecond()))
}

/// Returns the words that say when a limit ends: `try again at 6:06 PM`.
#[cfg(feature = "cli")]
pub(crate) fn end_in_words(words: &str) -> Option<&str> {
    let found = duration_pattern().and_then(|pattern| pattern.captures(words));
    let found = found.or_else(|| time_in(words))?.get(0)?;
    Some(found.as_str().trim_end_matches(['.', ' ', ';']))
}

fn duration_pattern() -> Option<&'static Regex> {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?i)(?:resets?|retry|(?:try )?again|wait)(?: in)? ((?:\d+ ?(?:d|days?|h|hours?|hrs?|m|mins?|minutes?|s|secs?|seconds?)(?:,? (?:and )?|$|(?:\b|[.;)])))+)").ok()
    });
    PATTERN.as_ref()
}

/// Returns the time of day in the words of a limit, with its parts.
fn time_in(words: &str) -> Option<Captures<'_>> {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(concat!(
            r"(?i)(?:resets?|(?:try )?again)(?: at| on)? (?:(?P<tomorrow>tomorrow)(?: at)? )?",
            r"(?:(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?",
            r"(?:,? (?P<year>\d{4}))?(?:,| at|,? at)? )?",
            r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))? ?(?P<half>[ap]m)?(?: ?\(?(?P<zone>UTC|GMT|[A-Z][a-z]+/[A-Za-z_/]+)\)?)?",
        ))
        .ok()
    });
    let found = PATTERN.as_ref()?.captures(words)?;
    // A bare number is no time.
    (found.name("half").is_some() || found.name("minute").is_some()).then_some(found)
}

fn duration(words: &str) -> Option<Span> {
    static PART: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?i)(\d+) ?([dhms])").ok());
    let found = duration_pattern()?.captures(words)?;
    let mut span = Span::new();
    for part in PART.as_ref()?.captures_iter(found.get(1)?.as_str()) {
        // More than a year is no time of a limit.
        let count = number(&part, 1)?.min(31_536_000);
        let unit = part.get(2)?.as_str().to_ascii_lowercase();
        span = match unit.as_str() {
            "d" => span.checked_add(count.hours().checked_mul(24).ok()?).ok()?,
            "h" => span.checked_add(count.hours()).ok()?,
            "m" => span.checked_add(count.minutes()).ok()?,
            _ => span.checked_add(count.seconds()).ok()?,
        };
    }
    Some(span)
}

fn time_of_day(words: &str, at: Moment, zone: &TimeZone) -> Option<Zoned> {
    let found = time_in(words)?;
    let name = |name: &str| found.name(name).map(|found| found.as_str());
    let hour = i8::try_from(named(&found, "hour")?).ok()?;
    let hour = match name("half").map(str::to_ascii_lowercase).as_deref() {
        Some("am") => hour % 12,
        Some(_) => hour % 12 + 12,
        None => hour,
    };
    let minute = i8::try_from(named(&found, "minute").unwrap_or(0)).ok()?;
    let time = Time::new(hour, minute, 0, 0).ok()?;
    let zone = match name("zone") {
        Some(zone) => TimeZone::get(zone).ok()?,
        None => zone.clone(),
    };
    let now = at.to_zoned(zone.clone());
    let today = now.date();
    let on = |date: Date| date.to_datetime(time).to_zoned(zone.clone()).ok();
    if let Some(month) = name("month") {
        const MONTHS: &str = "janfebmaraprmayjunjulaugsepoctnovdec";
        let month = MONTHS.find(&month.to_ascii_lowercase())? / 3 + 1;
        let (month, day) = (
            i8::try_from(month).ok()?,
            i8::try_from(named(&found, "day")?).ok()?,
        );
        if let Some(year) = named(&found, "year") {
            return on(Date::new(i16::try_from(year).ok()?, month, day).ok()?);
        }
        let this = on(Date::new(today.year(), month, day).ok()?)?;
        // A date that has passed is next year's.
        return if this < now {
            on(Date::new(today.year().checked_add(1)?, month, day).ok()?)
        } else {
            Some(this)
        };
    }
    let this = on(today)?;
    if name("tomorrow").is_some() || this <= now {
        return on(today.tomorrow().ok()?);
    }
    Some(this)
}

fn named(found: &Captures<'_>, name: &str) -> Option<i64> {
    found.name(name)?.as_str().parse().ok()
}

fn number(found: &Captures<'_>, group: usize) -> Option<i64> {
    found.get(group)?.as_str().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[cfg(feature = "cli")]
    #[test]
    fn the_words_of_a_limits_end_are_known() {
        for (words, expected) in [
            (
                "You've hit your usage limit. Visit x to purchase more credits or try again at 6:06 PM.",
                Some("try again at 6:06 PM"),
            ),
            (
                "5-hour limit · resets 3:53pm (UTC)",
                Some("resets 3:53pm (UTC)"),
            ),
            (
                "Please try again in 2 hours 5 minutes.",
                Some("try again in 2 hours 5 minutes"),
            ),
            ("Request rejected (429) · usage limit", None),
            ("try again 3 times", None),
        ] {
            assert_eq!(end_in_words(words), expected, "{words}");
        }
    }

    #[test]
    fn the_ends_of_limits_are_read() {
        let at: Timestamp = "2026-11-28T12:00:00Z".parse().unwrap();
        let zone = TimeZone::fixed(jiff::tz::offset(1));
        for (words, expected) in [
            (
                "You've hit your 5-hour limit · resets 3:53pm (UTC)",
                Some("2026-11-28T15:53:00Z"),
            ),
            (
                "5-hour limit reached ∙ resets 3pm",
                Some("2026-11-28T14:00:00Z"),
            ),
            (
                "Try again at 9am UTC. Purchase more credits.",
                Some("2026-11-29T09:00:00Z"),
            ),
            ("or try again at 6:06 PM.", Some("2026-11-28T17:06:00Z")),
            ("or try again at 2:54 AM.", Some("2026-11-29T01:54:00Z")),
            (
                "or try again at Dec 3rd, 2026 6:06 PM.",
                Some("2026-12-03T17:06:00Z"),
            ),
            (
                "Weekly limit reached ∙ resets Jan 7, 3pm (Europe/Berlin)",
                Some("2027-01-07T14:00:00Z"),
            ),
            ("resets Nov 30 at 12am (UTC)", Some("2026-11-30T00:00:00Z")),
            ("Try again at tomorrow 9am.", Some("2026-11-29T08:00:00Z")),
            (
                "Please try again in 2 hours 5 minutes.",
                Some("2026-11-28T14:05:00Z"),
            ),
            (
                "quota exhausted, resets in 1d 2h",
                Some("2026-11-29T14:00:00Z"),
            ),
            ("Please retry in 47s.", Some("2026-11-28T12:00:47Z")),
            ("The usage limit has been reached", None),
            ("the version 3 resets 3 things", None),
            ("resets 99:99pm", None),
        ] {
            let end = limit_end(words, at, &zone).map(|end| end.to_string());
            let expected = expected.map(|at| at.parse::<Timestamp>().unwrap().to_string());
            assert_eq!(end, expected, "{words}");
        }
    }

    proptest! {
        #[test]
        fn any_words_are_read(
            words in "(resets|try again)( in| at)? [0-9a-z :(),]{0,30}",
            micros: i64,
        ) {
            let _ = limit_end(&words, Timestamp::from_micros(micros), &TimeZone::UTC);
        }
    }
}
