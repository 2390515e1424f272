//! Any bytes as a line of a log: what can be read is written and read alike from then on.

use td_observe::Envelope;
use td_observe::history::parse_line;

pub fn run(bytes: &[u8]) {
    let Ok(envelope) = parse_line(bytes) else {
        return;
    };
    let written = serde_json::to_string(&envelope).unwrap();
    assert!(!written.contains('\n'), "a line is one line: {written}");
    let again: Envelope = serde_json::from_str(&written).unwrap();
    assert_eq!(again, envelope, "{written}");
    assert_eq!(serde_json::to_string(&again).unwrap(), written);
}
