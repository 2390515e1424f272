//! Reads recordings strictly, for tests.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    pub version: u8,
    pub term: Term,
    pub timestamp: Option<u64>,
    pub title: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    pub cols: u16,
    pub rows: u16,
}

/// Microseconds since the previous event, code, data.
pub type Event = (u64, char, String);

#[track_caller]
pub fn read(text: &str) -> (Header, Vec<Event>) {
    assert!(text.ends_with('\n'), "{text:?}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
    let mut lines = text.lines();
    let header: Header = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(header.version, 3);
    let event = |line: &str| {
        let (interval, code, data): (f64, char, String) =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(interval >= 0.0 && "omrx".contains(code), "{line}");
        ((interval * 1e6).round() as u64, code, data)
    };
    (header, lines.map(event).collect())
}
