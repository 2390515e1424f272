//! Phrases that several descriptions share: outcomes, durations, counts (pure).

use crate::face::tone::Tone;

/// Returns how a program ended: `exit code 7`, `signal 9 (KILL)`.
pub(in crate::face) fn end_in_words(exit_code: Option<i32>, signal: Option<i32>) -> String {
    match (signal, exit_code) {
        (Some(signal), _) => match signal_name(signal) {
            Some(name) => format!("signal {signal} ({name})"),
            None => format!("signal {signal}"),
        },
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "unknown end".to_owned(),
    }
}

/// Returns `success`, or `failure` with its reason.
pub(super) fn verdict(
    (exit_code, signal): (Option<i32>, Option<i32>),
    (success, failure): (&str, &str),
) -> (Tone, String) {
    match (exit_code, signal) {
        (Some(0), None) => (Tone::Good, success.to_owned()),
        _ => {
            let why = end_in_words(exit_code, signal);
            (Tone::Alarm, format!("{failure}: {why}"))
        }
    }
}

/// Returns the name of a signal that has the same number on every system, because a log may come from another
/// one.
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

/// Formats a duration: `0.03 s`, `1.5 s`, `2 min 5 s`, `1 h 3 min`.
pub(in crate::face) fn duration(ms: u64) -> String {
    // Rounded before the unit is chosen, so that no unit overflows (`60.0 s`).
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

/// Formats a count: `1 line`, `2 lines`.
pub(super) fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Reports the events that a slow subscriber missed.
pub(in crate::face) fn lagged(missed: u64) -> String {
    let verb = if missed == 1 { "was" } else { "were" };
    let events = count(missed, "event");
    format!("{events} {verb} not shown: reading was too slow")
}

/// The exit status of a program whose pane was killed (128 + SIGHUP), which is not a failure.
pub(in crate::face) const HUNG_UP: i32 = 129;

/// Returns the exit status as text to append, if it is a failure.
pub(super) fn failed_status(exit_status: Option<i32>) -> Option<String> {
    let status = exit_status.filter(|status| !matches!(*status, 0 | HUNG_UP))?;
    Some(format!(", exit status {status}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_rounded_to_a_readable_unit() {
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
    fn an_outcome_names_its_code_or_signal() {
        for (exit_code, signal, is_success, words) in [
            (Some(0), None, true, "exit code 0"),
            (Some(7), None, false, "exit code 7"),
            (None, Some(9), false, "signal 9 (KILL)"),
            (None, Some(64), false, "signal 64"),
            (Some(0), Some(15), false, "signal 15 (TERM)"),
            (None, None, false, "unknown end"),
        ] {
            let (tone, _) = verdict((exit_code, signal), ("", ""));
            let is_good = tone == Tone::Good;
            let in_words = end_in_words(exit_code, signal);
            assert_eq!((is_good, in_words.as_str()), (is_success, words));
        }
    }
}
