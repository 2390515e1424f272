//! Formats times for people, in the local time zone: `2026-11-23 13:14:05.123`.

use jiff::tz::TimeZone;

use crate::timestamp::Timestamp;

/// Formats times in the zone of the system, which `TZ` may set. Caches the text of the last second, which
/// most lines of a busy log share.
#[derive(Clone, Debug)]
pub(crate) struct LocalTime {
    zone: TimeZone,
    cached: Option<(i64, String)>,
}

impl LocalTime {
    /// Reads the zone of the system, or UTC if the system has none.
    pub fn of_system() -> Self {
        Self::in_zone(TimeZone::try_system().unwrap_or(TimeZone::UTC))
    }

    /// Formats times in a zone.
    pub(super) fn in_zone(zone: TimeZone) -> Self {
        Self { zone, cached: None }
    }

    /// Returns the time to the second.
    pub fn second(&mut self, ts: Timestamp) -> &str {
        let second = ts.seconds();
        let cached = self.cached.as_ref().map(|(second, _)| *second);
        if cached != Some(second) {
            // A time outside the supported years becomes the nearest supported one.
            let nearest = if second < 0 {
                jiff::Timestamp::MIN
            } else {
                jiff::Timestamp::MAX
            };
            let time = jiff::Timestamp::from_second(second).unwrap_or(nearest);
            let time = time.to_zoned(self.zone.clone());
            self.cached = Some((second, time.strftime("%Y-%m-%d %H:%M:%S").to_string()));
        }
        self.cached.as_ref().map_or("", |(_, text)| text)
    }

    /// Appends the time to the millisecond, and a blank.
    pub fn push(&mut self, out: &mut String, ts: Timestamp) {
        out.push_str(self.second(ts));
        let millis = ts.micros().rem_euclid(1_000_000) / 1000;
        out.push_str(&format!(".{millis:03} "));
    }
}

/// The local time at the beginning of rows: empty, or the time of the current event with a blank after it.
#[derive(Debug, Default)]
pub(super) struct RowTime {
    local: Option<Box<LocalTime>>,
    pub text: String,
}

impl RowTime {
    pub fn new(has_time: bool) -> Self {
        Self {
            local: has_time.then(|| Box::new(LocalTime::of_system())),
            text: String::new(),
        }
    }

    /// Sets the time of the current event.
    pub fn set(&mut self, ts: Timestamp) {
        if let Some(local) = &mut self.local {
            self.text.clear();
            local.push(&mut self.text, ts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_zone_and_to_the_millisecond() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let mut local = LocalTime::in_zone(zone);
        let mut out = String::new();
        for micros in [1_768_989_601_123_456, 1_768_989_601_999_999, -1] {
            local.push(&mut out, Timestamp::from_micros(micros));
        }
        assert_eq!(
            out,
            "2026-01-21 12:00:01.123 2026-01-21 12:00:01.999 1970-01-01 01:59:59.999 "
        );
        for micros in [i64::MIN, i64::MAX] {
            assert!(!local.second(Timestamp::from_micros(micros)).is_empty());
        }
    }
}
