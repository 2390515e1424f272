//! Events as the wire contract writes them, one JSON object a line (pure).

use std::borrow::Cow;

use serde::Serialize;

use crate::timestamp::Timestamp;

/// Adds the line of an event, or of something that is listed.
pub(crate) fn push_line(out: &mut String, value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(line) => push_text(out, &line),
        // Strings, numbers and maps with text as keys: nothing of that fails.
        Err(error) => log::error!("a line of JSON cannot be written: {error}"),
    }
}

/// Adds the line of an event as it stands in a log.
pub(super) fn push_text(out: &mut String, line: &str) {
    out.push_str(&escaped(line));
    out.push('\n');
}

/// Adds the line that says how much was missed, and when that was.
pub(super) fn push_lagged(out: &mut String, missed: u64, now: Timestamp) {
    out.push_str(&format!(
        r#"{{"seq":null,"ts":"{now}","event":{{"type":"Lagged","missed":{missed}}}}}"#
    ));
    out.push('\n');
}

/// JSON leaves DEL and C1 as they are, and a terminal takes some of these for orders: they are
/// written as escapes, which read the same.
fn escaped(line: &str) -> Cow<'_, str> {
    let is_order = |c: char| matches!(c, '\x7f'..='\u{9f}');
    if !line.contains(is_order) {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        // A control character can stand in strings only.
        if is_order(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::{Envelope, TdEvent};
    use crate::face::clean::tests::nasty;

    proptest! {
        #[test]
        fn a_line_reads_as_its_envelope_and_orders_nothing(message in nasty()) {
            let event = TdEvent::Warning {
                execution_id: "x".into(),
                context: "test".into(),
                message,
            };
            let envelope = Envelope::new(Some(1), Timestamp::default(), event);
            let mut line = String::new();
            push_line(&mut line, &envelope);
            prop_assert!(!line.trim_end_matches('\n').contains(char::is_control), "{:?}", line);
            let read: Envelope = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(read, envelope);
        }
    }

    #[test]
    fn what_was_missed_has_no_number() {
        let mut line = String::new();
        push_lagged(&mut line, 7, Timestamp::from_micros(0));
        let expected = r#"{"seq":null,"ts":"1970-01-01T00:00:00.000000Z","event":{"type":"Lagged","missed":7}}"#;
        assert_eq!(line.trim_end(), expected);
    }
}
