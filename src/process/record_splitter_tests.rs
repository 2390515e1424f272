//! Tests that records and text are distinguished for all cuts of the output.

use proptest::prelude::*;

use super::*;

/// Returns the parts of an output: text as it is, events by their names.
fn split(format: Format, pieces: &[&[u8]]) -> Vec<String> {
    let mut records = RecordSplitter::new(format).unwrap();
    let (mut found, mut text) = (Vec::new(), Vec::new());
    let now = Timestamp::from_micros(0);
    let mut handle = |part: RecordPart<'_>| match part {
        RecordPart::Text(bytes) | RecordPart::Unknown(bytes) => text.extend_from_slice(bytes),
        RecordPart::Event(event) => {
            if !text.is_empty() {
                found.push(String::from_utf8_lossy(&std::mem::take(&mut text)).into_owned());
            }
            let name = format!("{event:?}");
            found.push(name.split(' ').next().unwrap_or_default().to_owned());
        }
    };
    for piece in pieces {
        records.push(piece, now, &mut handle);
    }
    records.finish(now, &mut handle);
    if !text.is_empty() {
        found.push(String::from_utf8_lossy(&text).into_owned());
    }
    found
}

const TURN: &str = "Warning: no stdin\n{\"type\":\"thread.started\"}\n\n{\"type\":\"turn.started\"}\nbetween {\"a\n{ int x; }\n\0\0{\"type\":\"item.completed\",\"item\":{\"id\":\"1\",\"type\":\"agent_message\",\"text\":\"hi\"}}\n{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":7}}\nbye";

#[test]
fn other_lines_stay_text_in_their_place() {
    for format in [Format::Codex, Format::Auto] {
        let found = split(format, &[TURN.as_bytes()]);
        let (first, last) = (found.first().unwrap(), found.last().unwrap());
        // The records in between have no event.
        assert_eq!(first, "Warning: no stdin\nbetween {\"a\n{ int x; }\n");
        assert_eq!(last, "bye", "{found:?}");
        assert!(found.contains(&"TurnCompleted".to_owned()), "{found:?}");
        assert!(found.contains(&"AgentCompleted".to_owned()), "{found:?}");
    }
}

#[test]
fn plain_text_is_unchanged() {
    for text in [
        "plain\n\nlines\n  {\n\"x\n}",
        "data: not an event\nevent: nor this\n\nid: 7\n",
        "{\"broken\n{\"more\n",
        "\u{feff}text",
        "{",
        "",
        "\r50%\r100%\n",
    ] {
        let found = split(Format::Auto, &[text.as_bytes()]);
        assert_eq!(found.concat(), text);
    }
}

#[test]
fn a_stream_that_breaks_off_is_a_failure() {
    let found = split(Format::Auto, &[&TURN.as_bytes()[..70]]);
    assert_eq!(found.last().unwrap(), "AgentFailed", "{found:?}");
}

#[test]
fn a_wrong_format_causes_a_warning() {
    let found = split(Format::Claude, &[b"just text\n"]);
    assert_eq!(found, ["just text\n", "Warning"]);
}

#[test]
fn server_sent_events_are_records() {
    let text = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"usage\":{}}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\ncurl: note\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let found = split(Format::Auto, &[text.as_bytes()]);
    assert!(found.contains(&"curl: note\n".to_owned()), "{found:?}");
    assert!(found.contains(&"TokenReceived".to_owned()), "{found:?}");
    assert!(
        !found.iter().any(|text| text.contains("data:")),
        "{found:?}"
    );
}

proptest! {
    #[test]
    fn cuts_do_not_change_the_parts(cuts in prop::collection::vec(0..TURN.len(), 0..6)) {
        let mut cuts = cuts;
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts.into_iter().chain([TURN.len()]) {
            pieces.push(&TURN.as_bytes()[from..cut]);
            from = cut;
        }
        for format in [Format::Auto, Format::Codex] {
            prop_assert_eq!(split(format, &pieces), split(format, &[TURN.as_bytes()]));
        }
    }

    /// No line of the text is an object.
    #[test]
    fn no_byte_of_text_is_lost(text in "[a{:\" \n\r0d]{0,60}") {
        let found = split(Format::Auto, &[text.as_bytes()]);
        let has_records = found.iter().any(|piece| piece == "Warning");
        prop_assert!(has_records || found.concat() == text, "{:?}", found);
    }
}
