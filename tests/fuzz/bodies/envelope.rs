//! Any bytes as a line of a log: the parser agrees with serde, and an envelope that was parsed once is
//! written and parsed unchanged.

use td_observe::Envelope;
use td_observe::internals::history::parse_line;

pub fn run(bytes: &[u8]) {
    let parsed = parse_line(bytes).ok();
    let by_serde = serde_json::from_slice::<Envelope>(bytes.trim_ascii_end());
    assert_eq!(parsed, by_serde.ok(), "{}", String::from_utf8_lossy(bytes));
    let Some(envelope) = parsed else {
        return;
    };
    let written = serde_json::to_string(&envelope).unwrap();
    assert!(!written.contains('\n'), "a line is one line: {written}");
    let again: Envelope = serde_json::from_str(&written).unwrap();
    assert_eq!(again, envelope, "{written}");
    assert_eq!(serde_json::to_string(&again).unwrap(), written);
}
