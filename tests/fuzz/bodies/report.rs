//! Any bytes as the log of a run: a report of it is valid in each format, and its figures agree with each other.

use serde_json::Value;
use td_observe::Timestamp;
use td_observe::internals::history::parse_line;
use td_observe::internals::report::in_all_formats;

/// The span of the report, in seconds from the time of the first event.
const SPAN: (i64, i64) = (10, 40_000);

pub fn run(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n');
    let events: Vec<_> = lines.filter_map(|line| parse_line(line).ok()).collect();
    let Some(first) = events.first().map(|event| event.ts.micros()) else {
        return;
    };
    let at = |second: i64| Timestamp::from_micros(first.saturating_add(second * 1_000_000));
    let span = (at(SPAN.0), at(SPAN.1));
    let [json, terminal, markdown, page] = in_all_formats(events.into_iter(), span);
    let report: Value = serde_json::from_str(&json).unwrap();
    for row in report["rows"].as_array().unwrap() {
        check_row(row);
    }
    for line in terminal.lines() {
        assert!(unicode_width::UnicodeWidthStr::width(line) <= 80, "{line}");
    }
    for printed in [&terminal, &markdown, &page] {
        let is_control = |c: char| c.is_control() && c != '\n';
        assert!(!printed.contains(is_control), "{printed}");
    }
    assert!(!page.contains("<script") && page.ends_with("</html>\n"));
}

fn check_row(row: &Value) {
    let number = |value: &Value| value.as_u64().unwrap();
    let time = |value: &Value| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    let span_ms = |from: &Value, until: &Value| {
        let micros = time(until).micros().saturating_sub(time(from).micros());
        u64::try_from(micros / 1000).unwrap()
    };
    let times = row["times_ms"].as_object().unwrap().values();
    let told: u64 = times.map(number).sum();
    let bands = row["bands"].as_array().unwrap().iter();
    let drawn: u64 = bands
        .map(|band| span_ms(&band["from"], &band["until"]))
        .sum();
    assert_eq!(told, drawn, "{row}");
    for name in ["questions", "turns", "errors"] {
        let items = row[name]["items"].as_array().unwrap().len() as u64;
        assert_eq!(items, number(&row[name]["count"]).min(200), "{name}: {row}");
    }
    assert!(number(&row["questions"]["unanswered"]) <= number(&row["questions"]["count"]));
    assert!(number(&row["jobs"]["failed"]) <= number(&row["jobs"]["count"]));
}
