//! The retry policy: the requests that are retried, their delays and their number (pure).

use std::time::Duration;

use crate::timestamp::Timestamp;

#[derive(Clone, Copy, Debug)]
pub(super) struct RetryPolicy {
    pub retries_max: u32,
    /// The first delay, if the server requests none; it doubles with each retry.
    pub first_delay: Duration,
    pub delay_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        // The first delay is that of the APIs' own libraries. The number of retries is higher, because
        // a loop runs for hours and most overloads end within 1 + 2 + 4 + 8 + 16 seconds.
        Self {
            retries_max: 5,
            first_delay: Duration::from_secs(1),
            delay_max: Duration::from_secs(60),
        }
    }
}

/// Returns true if a retry may succeed: after too many requests, and if the server is overloaded (529
/// is Anthropic's status) or temporarily unavailable.
pub(super) fn is_retryable(status: u16) -> bool {
    matches!(status, 429 | 500 | 502 | 503 | 504 | 529)
}

impl RetryPolicy {
    /// Returns the delay after this number of attempts; `None` after the last one, or if the requested
    /// delay exceeds the maximum.
    pub fn delay(&self, attempts: u32, requested: Option<Duration>) -> Option<Duration> {
        if attempts > self.retries_max {
            return None;
        }
        match requested {
            Some(requested) => (requested <= self.delay_max).then_some(requested),
            None => {
                let doubled = 2_u32.saturating_pow(attempts.saturating_sub(1));
                Some(self.first_delay.saturating_mul(doubled).min(self.delay_max))
            }
        }
    }
}

/// Parses the delay in a `retry-after` header: seconds, or a date.
pub(super) fn requested_delay(header: &str, now: Timestamp) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new()
        .parse_timestamp(header)
        .ok()?;
    let micros = date.as_microsecond().saturating_sub(now.micros());
    // The date may be in the past.
    Some(Duration::from_micros(micros.try_into().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_and_are_bounded() {
        let policy = RetryPolicy {
            retries_max: 4,
            first_delay: Duration::from_secs(1),
            delay_max: Duration::from_secs(5),
        };
        let seconds = |attempts, requested: Option<u64>| {
            let delay = policy.delay(attempts, requested.map(Duration::from_secs));
            delay.map(|delay| delay.as_secs())
        };
        assert_eq!(
            [1, 2, 3, 4, 5].map(|n| seconds(n, None)),
            [Some(1), Some(2), Some(4), Some(5), None]
        );
        assert_eq!(seconds(1, Some(0)), Some(0));
        assert_eq!(seconds(1, Some(5)), Some(5));
        assert_eq!(seconds(1, Some(6)), None, "longer than the maximum");
        assert_eq!(
            RetryPolicy {
                retries_max: u32::MAX,
                ..policy
            }
            .delay(u32::MAX, None),
            Some(policy.delay_max)
        );
    }

    #[test]
    fn requested_delays_are_seconds_or_dates() {
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
            let found = requested_delay(header, now).map(|delay| delay.as_secs());
            assert_eq!(found, seconds, "{header}");
        }
    }
}
