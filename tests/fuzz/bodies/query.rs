//! Any expression and any text: a query finds an event with matching text, whatever the style of its JSON.
//!
//! The first byte selects the style. The rest of the first line is the expression, and the text follows.

use std::fmt::Write;
use std::fs;

use td_observe::history::{LogReader, Query};
use td_observe::internals::history::{parse_line, text_regex};
use td_observe::{Envelope, TdEvent, Timestamp};

pub fn run(bytes: &[u8]) {
    let Some((&how, rest)) = bytes.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(rest);
    let Some((pattern, text)) = text.split_once('\n') else {
        return;
    };
    let Ok(query) = Query::all().text(pattern) else {
        return;
    };
    let matches = text_regex(&query).unwrap().is_match(text);

    let event = TdEvent::token_received("a", 1, text);
    let envelope = Envelope::new(Some(1), Timestamp::from_micros(1), event);
    assert_eq!(query.wants(&envelope), matches);
    let by_serde = serde_json::to_string(&envelope).unwrap();
    let text = written(text, how);
    let head = r#"{"seq":1,"ts":"1970-01-01T00:00:00.000001Z","event":{"type":"#;
    let lines = [
        by_serde,
        format!(r#"{head}"TokenReceived","execution_id":"a","iteration":1,"token":{text}}}}}"#),
        format!(r#"{head}"Unheard","execution_id":"a","deep":[1,{{"er":[null,{text}]}}]}}}}"#),
        // Keys and ids do not count as text.
        format!(r#"{head}"Unheard","execution_id":{text},{text}:1}}}}"#),
    ];
    let wanted: Vec<&String> = lines
        .iter()
        .filter(|line| {
            let envelope = parse_line(line.as_bytes());
            envelope.is_ok_and(|envelope| query.wants(&envelope))
        })
        .collect();
    assert_eq!(wanted.len(), if matches { 3 } else { 0 }, "{lines:#?}");

    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("events.jsonl");
    fs::write(&path, lines.join("\n")).unwrap();
    let found: Vec<String> = LogReader::open_file(&path, query)
        .unwrap()
        .map(|record| String::from_utf8(record.line().to_vec()).unwrap())
        .collect();
    assert_eq!(found.iter().collect::<Vec<_>>(), wanted);
}

/// Returns the text as JSON in one of several styles: escaped slashes, characters as numbers.
fn written(text: &str, how: u8) -> String {
    let mut out = String::from("\"");
    for (at, c) in text.chars().enumerate() {
        let by_number = match how & 3 {
            0 => false,
            1 => !c.is_ascii(),
            2 => c.is_ascii_control(),
            _ => (usize::from(how) + at) % 5 == 0,
        };
        if by_number {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = match how & 4 {
                    0 => write!(out, "\\u{unit:04x}"),
                    _ => write!(out, "\\u{unit:04X}"),
                };
            }
        } else if c == '/' && how & 8 != 0 {
            out.push_str("\\/");
        } else {
            let json = serde_json::to_string(&c).unwrap();
            out.push_str(&json[1..json.len() - 1]);
        }
    }
    out.push('"');
    out
}
