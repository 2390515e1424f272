//! Whether, when and how often an API is asked again (pure).

use std::time::Duration;

use crate::timestamp::Timestamp;

/// Bounds of asking again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    /// How many times at most, beside the first.
    pub times_max: u32,
    /// How long the first wait is where the API says nothing; each further one is twice as long.
    pub first: Duration,
    /// How long one wait is at most.
    pub delay_max: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        // As the APIs' own libraries begin, with more patience: a loop runs for hours, and 1 + 2 +
        // 4 + 8 + 16 seconds are past most overloads.
        Self {
            times_max: 5,
            first: Duration::from_secs(1),
            delay_max: Duration::from_secs(60),
        }
    }
}

/// Whether asking again may help: too many requests, and servers that are overloaded (529 is
/// Anthropic's) or not there for the moment.
pub(super) fn may_help(status: u16) -> bool {
    matches!(status, 429 | 500 | 502 | 503 | 504 | 529)
}

impl Retry {
    /// How long to wait before the request that follows the `asked`th, from 1; `None` when it was
    /// the last one, or when the API asks for a longer wait than is granted.
    pub fn delay(&self, asked: u32, wished: Option<Duration>) -> Option<Duration> {
        if asked > self.times_max {
            return None;
        }
        match wished {
            Some(wished) => (wished <= self.delay_max).then_some(wished),
            None => {
                let doubled = 2_u32.saturating_pow(asked.saturating_sub(1));
                Some(self.first.saturating_mul(doubled).min(self.delay_max))
            }
        }
    }
}

/// What a `retry-after` header wishes: seconds, or a point in time.
pub(super) fn wished(header: &str, now: Timestamp) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(header)
        .ok()?;
    let micros = date.as_microsecond().saturating_sub(now.micros());
    // It may have passed.
    Some(Duration::from_micros(micros.try_into().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_and_are_bounded() {
        let retry = Retry {
            times_max: 4,
            first: Duration::from_secs(1),
            delay_max: Duration::from_secs(5),
        };
        let seconds = |asked, wished: Option<u64>| {
            let delay = retry.delay(asked, wished.map(Duration::from_secs));
            delay.map(|delay| delay.as_secs())
        };
        assert_eq!(
            [1, 2, 3, 4, 5].map(|n| seconds(n, None)),
            [Some(1), Some(2), Some(4), Some(5), None]
        );
        assert_eq!(seconds(1, Some(0)), Some(0));
        assert_eq!(seconds(1, Some(5)), Some(5));
        assert_eq!(seconds(1, Some(6)), None, "longer than is granted");
        assert_eq!(
            Retry {
                times_max: u32::MAX,
                ..retry
            }
            .delay(u32::MAX, None),
            Some(retry.delay_max)
        );
    }

    #[test]
    fn wishes_are_seconds_or_dates() {
        // 1994-11-06T08:49:30Z
        let now = Timestamp::from_micros(784_111_770_000_000);
        for (header, seconds) in [
            ("0", Some(0)),
            (" 17 ", Some(17)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(7)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", Some(0)),
            ("-3", None),
            ("soon", None),
            ("", None),
            ("99999999999999999999999", None),
        ] {
            let found = wished(header, now).map(|wish| wish.as_secs());
            assert_eq!(found, seconds, "{header}");
        }
    }
}
