//! How ends, durations and what is missing are said to people (pure).

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
}

impl Outcome {
    pub fn is_good(self) -> bool {
        self.exit_code == Some(0) && self.signal.is_none()
    }

    /// `exit code 7`, `signal 9 (KILL)`.
    pub fn words(self) -> String {
        match (self.signal, self.exit_code) {
            (Some(signal), _) => match signal_name(signal) {
                Some(name) => format!("signal {signal} ({name})"),
                None => format!("signal {signal}"),
            },
            (None, Some(code)) => format!("exit code {code}"),
            (None, None) => "unknown end".to_owned(),
        }
    }
}

/// Signals that have the same number wherever this runs: the log may be from another system.
fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        5 => "TRAP",
        6 => "ABRT",
        8 => "FPE",
        9 => "KILL",
        11 => "SEGV",
        13 => "PIPE",
        14 => "ALRM",
        15 => "TERM",
        24 => "XCPU",
        25 => "XFSZ",
        _ => return None,
    })
}

/// `0.03 s`, `1.5 s`, `2 min 5 s`, `1 h 3 min`: as exact as anybody wants it.
pub(super) fn duration(ms: u64) -> String {
    // Rounded first, so that no unit is full.
    let rounded = |unit: u64| ms.saturating_add(unit / 2) / unit;
    let (hundredths, tenths, seconds, minutes) =
        (rounded(10), rounded(100), rounded(1000), rounded(60_000));
    if hundredths < 100 {
        format!("0.{hundredths:02} s")
    } else if tenths < 600 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else if seconds < 3600 {
        format!("{} min {} s", seconds / 60, seconds % 60)
    } else {
        format!("{} h {} min", minutes / 60, minutes % 60)
    }
}

/// What a viewer that was too slow did not get.
pub(super) fn lagged(missed: u64) -> String {
    match missed {
        1 => "1 event was not shown: reading was too slow".to_owned(),
        _ => format!("{missed} events were not shown: reading was too slow"),
    }
}

/// The exit status of a program that was hung up, as those are whose panes are killed: that is no news.
pub(super) const HUNG_UP: i32 = 129;

/// What stands behind the word for an end: the exit status, where it says more than that all is well.
pub(super) fn with_status(exit_status: Option<i32>) -> String {
    match exit_status {
        Some(0 | HUNG_UP) | None => String::new(),
        Some(status) => format!(", exit status {status}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_for_people() {
        for (ms, expected) in [
            (0, "0.00 s"),
            (30, "0.03 s"),
            (994, "0.99 s"),
            (995, "1.0 s"),
            (1500, "1.5 s"),
            (59_949, "59.9 s"),
            (59_950, "1 min 0 s"),
            (125_000, "2 min 5 s"),
            (3_599_500, "1 h 0 min"),
            (3_780_000, "1 h 3 min"),
            (u64::MAX, "5124095576030 h 25 min"),
        ] {
            assert_eq!(duration(ms), expected, "{ms} ms");
        }
    }

    #[test]
    fn ends_are_told_by_code_or_signal() {
        for (exit_code, signal, is_good, words) in [
            (Some(0), None, true, "exit code 0"),
            (Some(7), None, false, "exit code 7"),
            (None, Some(9), false, "signal 9 (KILL)"),
            (None, Some(64), false, "signal 64"),
            (Some(0), Some(15), false, "signal 15 (TERM)"),
            (None, None, false, "unknown end"),
        ] {
            let outcome = Outcome { exit_code, signal };
            assert_eq!(
                (outcome.is_good(), outcome.words().as_str()),
                (is_good, words)
            );
        }
    }
}
