//! Tests filters on lines in the style of many writers: no matching line is skipped.

use proptest::prelude::*;

use super::*;
use crate::history::parse_line;

/// Returns lines in the style of many writers.
fn lines() -> Vec<String> {
    let mut lines: Vec<String> = [
        r#"{"seq":1,"ts":"2026-01-21T10:00:01.000001Z","event":{"type":"OutputUpdate","execution_id":"a","pane":"%1","first_line":1,"chunk":"one\ntwo \"quoted\" back\\slash\n","is_complete":false}}"#,
        r#"{"seq":2,"ts":"2026-01-21T10:00:02.000000Z","event":{"type":"OutputGap","execution_id":"a","pane":"%1","first_line":3,"reason":"cleared"}}"#,
        r#"{"seq":3,"ts":"2026-01-21T10:00:03.000000Z","event":{"type":"Warning","execution_id":"b","context":"OutputGap","message":"says \"OutputGap\""}}"#,
        r#"{"seq":4,"ts":"2026-01-21T10:00:04.000000Z","event":{"type":"FromTheFuture","execution_id":"b","deep":[{"x":["one"]}]}}"#,
        r#"{"ts":"2026-01-21T10:00:05Z","event":{"type":"LoopStarted","execution_id":"abc","loop_type":"Phase","task":"Add auth"}}"#,
        r#"{"seq": 6, "ts": "2026-01-21T10:00:06+00:00", "event": {"execution_id": "a", "type": "Warning", "context": "c", "message": "\u006fne\/two"}}"#,
        r#"{"seq":7,"ts":"2026-01-21T10:00:07.000000Z","event":{"type":"OutputRevised","execution_id":"a","pane":"%1","line":2,"text":"Été 漢字"}}"#,
        r#"{"seq":8,"ts":"2026-01-21T10:00:08.000000Z","event":{"\u0074ype":"Warning","execution_id":"a","context":"c","message":"x"}}"#,
        r#"{"seq":9,"ts":"2026-01-21T10:00:09.000000Z","event":{"type":"ScreenUpdate","execution_id":"a","pane":"%1","width":80,"height":2,"cursor":{"x":0,"y":0},"rows":[{"row":0,"text":"top"},{"row":1,"text":"one"}]}}"#,
        r#"{"seq":10,"ts":"2026-01-21T10:00:10.000000Z","event":{"type":"IterationCompleted","execution_id":"a","iteration":1,"outcome":{"ToolError":{"tool":"one","error":"boom"}}}}"#,
        r#"{"seq":11,"ts":"2026-06-30T23:59:60.000000Z","event":{"type":"Warning","execution_id":"a","context":"leap","message":"second"}}"#,
        r#"{"seq":12,"ts":"2026-01-01T10:00:00.000000Z","event":{"type":"Warning","execution_id":"a","context":"c","message":"two times"},"ts":"2026-07-01T00:00:00.000000Z"}"#,
        "broken \"OutputGap\" one",
        "",
    ]
    .map(String::from)
    .into();
    lines.push("\0\0\0".to_owned());
    lines
}

fn is_selected(query: &Query, line: &[u8]) -> bool {
    parse_line(line).is_ok_and(|envelope| query.wants(&envelope) || query.is_context(&envelope))
}

fn found(query: &Query, block: &str) -> Vec<String> {
    let mut found = Vec::new();
    LineFilter::of(query).each(block.as_bytes(), |at, line| {
        assert_eq!(&block.as_bytes()[at..at + line.len()], line);
        if is_selected(query, line) {
            found.push(String::from_utf8_lossy(line).into_owned());
        }
    });
    found
}

/// Returns the matching lines, found by parsing every line.
fn expected(query: &Query, block: &str) -> Vec<String> {
    let wanted = |line: &&str| is_selected(query, line.as_bytes());
    block.split('\n').filter(wanted).map(String::from).collect()
}

fn queries() -> Vec<Query> {
    let ts = |text: &str| text.parse().unwrap();
    let text = |pattern: &str| Query::all().text(pattern).unwrap();
    vec![
        Query::all(),
        Query::all().kind("OutputGap"),
        Query::all().kind("Warning"),
        Query::all().kind("OutputGap").kind("FromTheFuture"),
        Query::all().kind("LoopStarted").execution("abc"),
        Query::all().execution("b"),
        Query::all().execution("a\"b"),
        Query::all().since(ts("2026-01-21T10:00:04Z")),
        Query::all()
            .until(ts("2026-01-21T10:00:06.5Z"))
            .kind("Warning"),
        Query::all()
            .since(ts("2026-01-21T10:00:07Z"))
            .until(ts("2026-01-21T10:00:07.000001Z")),
        Query::all()
            .since(ts("2026-03-01T00:00:00Z"))
            .until(ts("2026-06-30T23:59:59.5Z")),
        text("one"),
        text("^two"),
        text(r#"two "quoted""#),
        text(r"back\\slash$"),
        text("(?i)ÉTÉ"),
        text("漢.$"),
        text("^one$").kind("Warning"),
        text("one/two"),
        text("e\\nt"),
        text(""),
        text("nowhere"),
        text("boom|top"),
        text("OutputGap"),
        text("nowhere")
            .context("OutputGap")
            .context("FromTheFuture"),
        Query::all()
            .since(ts("2026-01-21T10:00:07Z"))
            .context("OutputGap"),
        Query::all().kind("Warning").context("a\"b"),
        Query::all().execution("nobody").context("LoopStarted"),
    ]
}

#[test]
fn no_matching_line_is_skipped() {
    for query in queries() {
        for block in [lines().join("\n"), lines().join("\n") + "\n"] {
            assert_eq!(found(&query, &block), expected(&query, &block), "{query:?}");
        }
    }
}

proptest! {
    /// In any order, cut anywhere, with any text between the lines.
    #[test]
    fn no_matching_line_of_any_block_is_skipped(
        picks in proptest::collection::vec((0..15usize, any::<prop::sample::Index>(), any::<bool>()), 0..12),
    ) {
        let lines = lines();
        let cut: Vec<String> = picks
            .into_iter()
            .map(|(pick, at, whole)| {
                let line = &lines[pick];
                let at = line.floor_char_boundary(at.index(line.len() + 1));
                if whole { line.clone() } else { line[..at].to_owned() }
            })
            .collect();
        let block = cut.join("\n");
        for query in queries() {
            prop_assert_eq!(found(&query, &block), expected(&query, &block), "{:?}", query);
        }
    }
}

#[test]
fn few_lines_are_parsed() {
    let block = lines().join("\n");
    for (query, most) in [
        (Query::all().kind("OutputGap"), 6),
        (Query::all().text("nowhere").unwrap(), 2),
        (
            Query::all().since("2026-01-21T10:00:09Z".parse().unwrap()),
            7,
        ),
    ] {
        let mut candidates = 0;
        LineFilter::of(&query).each(block.as_bytes(), |_, _| candidates += 1);
        assert!(candidates <= most, "{query:?}: {candidates}");
    }
}

#[test]
fn an_invalid_expression_is_a_one_line_error() {
    for pattern in ["(", "a{1000}{1000}{1000}", "[", r"\p{Nope}", "(?<=x)"] {
        let error = Query::all().text(pattern).unwrap_err();
        assert!(error.is_invalid_input());
        assert!(!format!("{error:?}").contains('\n'), "{error:?}");
    }
}

#[test]
fn the_time_of_a_line_is_read_from_its_bytes() {
    for (line, expected) in [
        (&lines()[0], Some("2026-01-21T10:00:01.000001Z")),
        (&lines()[4], None),
        (&lines()[5], None),
        (&lines()[10], None),
        (&lines()[12], None),
    ] {
        let stamp = stamp_of(line.as_bytes()).map(|ts| String::from_utf8_lossy(ts).into_owned());
        assert_eq!(stamp.as_deref(), expected);
    }
}
