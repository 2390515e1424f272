//! Renders events in the wire format, one JSON object per line (pure).

use std::borrow::Cow;

use serde::Serialize;

/// Appends the line of a value: an event, or an entry of a list.
pub(crate) fn push_line(out: &mut String, value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(line) => push_text(out, &line),
        // Serialization of strings, numbers and maps with string keys does not fail.
        Err(error) => log::error!("cannot serialize a line of JSON: {error}"),
    }
}

/// Appends the line of an event as the log has it.
pub(super) fn push_text(out: &mut String, line: &str) {
    out.push_str(&escaped(line));
    out.push('\n');
}

/// Escapes DEL and C1 controls. JSON allows them unescaped, but terminals interpret some of them.
fn escaped(line: &str) -> Cow<'_, str> {
    let is_control = |c: char| matches!(c, '\x7f'..='\u{9f}');
    if !line.contains(is_control) {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        // Control characters occur only in strings, where escapes are allowed.
        if is_control(c) {
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
    use crate::event::{Envelope, SCHEMA, StreamEvent, TdEvent};
    use crate::face::sanitize::tests::nasty;
    use crate::timestamp::Timestamp;

    proptest! {
        #[test]
        fn a_line_parses_into_its_envelope_without_control_characters(message in nasty()) {
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
    fn events_of_streams_have_no_number() {
        let now = Timestamp::from_micros(0);
        let mut lines = String::new();
        push_line(&mut lines, &StreamEvent::opened().at(now));
        push_line(&mut lines, &StreamEvent::Lagged { missed: 7 }.at(now));
        let (version, ts) = (env!("CARGO_PKG_VERSION"), "1970-01-01T00:00:00.000000Z");
        let expected = [
            format!(
                r#"{{"seq":null,"ts":"{ts}","event":{{"type":"StreamOpened","schema":{SCHEMA},"version":"{version}"}}}}"#
            ),
            format!(r#"{{"seq":null,"ts":"{ts}","event":{{"type":"Lagged","missed":7}}}}"#),
        ];
        assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
    }
}
