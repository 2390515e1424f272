//! Tests of searches: all matching lines, the newest first, in parts of any size.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use regex::RegexBuilder;

use super::cursor::SearchCursor;
use super::read::{ReadRequest, read_output};
use super::search::{Found, Match, SearchRequest, parse_since, search_history};
use super::test_logs::{AGENT, Logs, PANE, events_of, pane_row, row, row_of};
use crate::api::FindObserver;
use crate::board::{ExecutionKind, Row};
use crate::clock::Clock;
use crate::event::TdEvent;
use crate::face::find_row::find_row;
use crate::face::samples;
use crate::feed::run_hash;

fn request(pattern: &str, is_regex: bool) -> SearchRequest<'_> {
    SearchRequest {
        pattern,
        is_regex,
        rows: None,
        since: None,
        limit: None,
        budget: 1 << 20,
        cursor: None,
    }
}

fn search(logs: &Logs, request: &SearchRequest<'_>) -> Found {
    search_history(&logs.data, request, &|| false).unwrap()
}

fn rows() -> [Row; 3] {
    let other = row(PANE.0, Some("%2"), ExecutionKind::Pane);
    [pane_row(), other, row_of(false)]
}

/// Returns the ids and texts of all matching lines, found without the search.
fn expected(logs: &Logs, pattern: &str, rows: &[Row]) -> Vec<(String, String)> {
    let regex = RegexBuilder::new(pattern).multi_line(true).build().unwrap();
    let mut found = BTreeMap::new();
    for row in rows {
        for line in logs.lines(row).iter() {
            if regex.is_match(&line.text.text) {
                let place = SearchCursor {
                    ts: line.ts,
                    run: run_hash(&row.execution_id),
                    at: line.at,
                };
                let text = line.text.text.clone();
                assert!(found.insert(place, (row.key().to_string(), text)).is_none());
            }
        }
    }
    found.into_values().rev().collect()
}

fn texts(matches: &[Match]) -> Vec<(String, String)> {
    let texts = matches
        .iter()
        .map(|found| (found.id.clone(), found.line.clone()));
    texts.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Searches in parts of any size find each matching line of several runs once, the newest first, and the cursor of
    /// a match is the place of its line.
    #[test]
    fn each_matching_line_is_found_once(
        kinds in prop::collection::vec((0_u8..24, any::<bool>()), 0..120),
        limits in prop::collection::vec((1_usize..30, 200_usize..3_000), 1..4),
        pattern in prop::sample::select(vec!["line", "1", "a$", "^and", "red", "zzz", "é漢 .", "begun \\d+", "10%", "\\.", "lost"]),
    ) {
        let mut logs = Logs::new(3_000);
        logs.log([samples::session_started("s", &["%1", "%2"]), samples::started("make")]);
        for (number, (kind, is_pane)) in kinds.iter().enumerate() {
            let kinds: Vec<u8> = std::iter::repeat_n(7, number).chain([*kind]).collect();
            logs.log(events_of(&kinds, *is_pane).pop());
        }
        let mut cursor: Option<SearchCursor> = None;
        let mut found = Vec::new();
        for turn in 0.. {
            prop_assert!(turn < 500, "no end");
            let (limit, budget) = limits[turn % limits.len()];
            let request = SearchRequest {
                limit: Some(limit), budget, cursor: cursor.as_ref(), ..request(pattern, true)
            };
            let part = search(&logs, &request);
            prop_assert!(part.matches.len() <= limit);
            found.extend(part.matches);
            prop_assert_eq!(part.complete, part.next_cursor.is_none());
            match part.next_cursor {
                Some(next) => cursor = Some(next.to_string().parse().unwrap()),
                None => break,
            }
        }
        prop_assert_eq!(texts(&found), expected(&logs, pattern, &rows()));
        for found in found.iter().take(5) {
            let row = rows().into_iter().find(|row| row.key().to_string() == found.id).unwrap();
            let request = ReadRequest { cursor: Some(&found.cursor), limit: Some(1), budget: 4_000 };
            let output = read_output(&logs.data, &row, &request, &|| false).unwrap();
            prop_assert_eq!(&output.output, &found.line);
        }
    }
}

#[test]
fn a_text_without_capitals_is_found_in_any_case() {
    let mut logs = Logs::new(1 << 20);
    logs.log([
        samples::update(1, "An ERROR. here\n"),
        samples::update(2, "an error? there\n"),
    ]);
    let count = |pattern: &str, is_regex| search(&logs, &request(pattern, is_regex)).matches.len();
    assert_eq!(count("error", false), 2);
    assert_eq!(count("ERROR", false), 1);
    assert_eq!(count("error.", false), 1);
    assert_eq!(count("error.", true), 1);
    assert_eq!(count("(?i)error.", true), 2);
    let found = search(&logs, &request("there", false));
    let json = serde_json::to_value(&found).unwrap();
    let [only] = json["matches"].as_array().unwrap().as_slice() else {
        panic!("{json}");
    };
    assert_eq!(
        (&only["id"], &only["pane"], &only["name"]),
        (&"x:%1".into(), &"%1".into(), &"label of x".into())
    );
    assert_eq!(json["complete"], true);
    assert_eq!(json.get("next_cursor"), None);
}

#[test]
fn a_search_keeps_to_its_rows_and_its_time() {
    let mut logs = Logs::new(1 << 20);
    logs.log([
        samples::update(1, "hit 1\n"),
        samples::update_of("%2", 1, "hit 2\n", Vec::new()),
        samples::started("make"),
        samples::output("stdout", "hit 3\n"),
    ]);
    let all = search(&logs, &request("hit", false));
    let lines: Vec<&str> = all
        .matches
        .iter()
        .map(|found| found.line.as_str())
        .collect();
    assert_eq!(lines, ["hit 3", "hit 2", "hit 1"]);
    let own = [pane_row()];
    let only = SearchRequest {
        rows: Some(&own),
        ..request("hit", false)
    };
    assert_eq!(
        texts(&search(&logs, &only).matches),
        [("x:%1".to_owned(), "hit 1".to_owned())]
    );
    let since = SearchRequest {
        since: Some(all.matches[1].ts),
        ..request("hit", false)
    };
    assert_eq!(search(&logs, &since).matches.len(), 2);
    let later = SearchRequest {
        since: Some("2999-01-01T00:00:00Z".parse().unwrap()),
        ..request("hit", false)
    };
    let later = search(&logs, &later);
    assert!(later.matches.is_empty() && later.complete);
}

#[test]
fn the_lines_of_a_background_agent_are_found() {
    let mut logs = Logs::new(1 << 20);
    let word = |token: &str| TdEvent::TokenReceived {
        execution_id: AGENT.into(),
        iteration: 1,
        token: token.to_owned(),
        pane: None,
    };
    logs.log([
        TdEvent::AgentRegistered {
            execution_id: AGENT.into(),
            agent_id: "fox".to_owned(),
            output_file: "/f.jsonl".to_owned(),
            pane: None,
        },
        word("the first "),
        word("hit\nand more\n"),
        TdEvent::AgentCompleted {
            execution_id: AGENT.into(),
            agent_id: "fox".to_owned(),
            result: "a last hit".to_owned(),
            evidence: "inferred".into(),
            pane: None,
        },
    ]);
    let row = row(AGENT, Some("fox"), ExecutionKind::Agent);
    let found = search(&logs, &request("hit", false)).matches;
    let expected = expected(&logs, "hit", std::slice::from_ref(&row));
    assert_eq!(texts(&found), expected);
    assert_eq!((found.len(), found[1].line.as_str()), (2, "the first hit"));
    assert_eq!((found[0].name.as_str(), &found[0].pane), ("fox", &None));
}

#[test]
fn the_row_of_each_match_is_found_by_its_id() {
    let mut logs = Logs::new(1 << 20);
    logs.log([
        samples::update(1, "hit\n"),
        samples::started("make"),
        samples::output("stdout", "hit\n"),
    ]);
    let find: FindObserver = Arc::new(|| Err("no observer".to_owned()));
    let clock = Clock::system();
    for found in search(&logs, &request("hit", false)).matches {
        let row = find_row((&find, &clock), &logs.data, &found.id).unwrap();
        assert_eq!(row.key().to_string(), found.id);
        let request = ReadRequest {
            cursor: Some(&found.cursor),
            limit: Some(1),
            budget: 400,
        };
        let output = read_output(&logs.data, &row, &request, &|| false).unwrap();
        assert_eq!(output.output, "hit");
    }
    assert!(find_row((&find, &clock), &logs.data, "nobody:%1").is_none());
}

#[test]
fn long_lines_are_cut_around_the_match() {
    let mut logs = Logs::new(1 << 20);
    let (before, after) = ("é".repeat(5_000), "z".repeat(5_000));
    logs.log([
        samples::update(1, &format!("{before}needle{after}\n")),
        samples::update(2, &format!("needle{after}\n")),
    ]);
    let found = search(&logs, &request("needle", false)).matches;
    for found in &found {
        assert!(
            found.line.contains("needlez") && found.line.chars().count() <= 300,
            "{}",
            found.line
        );
    }
    assert!(found[0].line.starts_with("needle") && found[1].line.starts_with("…é"));
}

#[test]
fn an_invalid_expression_is_an_error() {
    let logs = Logs::new(1 << 20);
    for (pattern, words) in [
        ("(", "unclosed group"),
        ("a{1000}{1000}{1000}", "size limit"),
        ("", "give a text"),
    ] {
        let error = search_history(&logs.data, &request(pattern, true), &|| false).unwrap_err();
        assert!(error.is_invalid_input());
        assert!(error.to_string().contains(words), "{error}");
    }
    let now = "2026-01-21T10:00:00Z".parse().unwrap();
    assert_eq!(
        parse_since("12h", now).unwrap().to_string(),
        "2026-01-20T22:00:00.000000Z"
    );
    assert_eq!(
        parse_since("2026-01-20T00:00:00Z", now)
            .unwrap()
            .to_string(),
        "2026-01-20T00:00:00.000000Z"
    );
    assert!(parse_since("soon", now).is_err());
}

#[test]
fn a_search_that_is_over_is_not_complete() {
    let mut logs = Logs::new(1 << 20);
    logs.log([samples::update(1, "hit\n")]);
    let found = search_history(&logs.data, &request("hit", false), &|| true).unwrap();
    assert!(found.matches.is_empty() && !found.complete && found.next_cursor.is_none());
}
