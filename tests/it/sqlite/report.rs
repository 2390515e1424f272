//! A database has the same counts as the report of the same night.

use serde_json::Value;

use super::database::{open, rows};
use super::export;
use crate::cli::assert_code;
use crate::report::night::{SPAN, night, report};
use crate::report::script::at;

#[test]
fn a_database_has_the_counts_of_the_report() {
    let temp = tempfile::tempdir().unwrap();
    for script in night() {
        script.write(temp.path());
    }
    let (since, until) = (at(SPAN.0).to_string(), at(SPAN.1).to_string());
    let exported = export(temp.path(), &["--since", &since, "--until", &until]);
    assert_code(&exported, 0);
    let database = open(temp.path());
    let report = report(temp.path(), &[]);
    let count = |sql: &str| {
        let rows = rows(&database, sql);
        rows[0]
            .parse::<u64>()
            .unwrap_or_else(|why| panic!("{sql}: {rows:?}: {why}"))
    };
    let of_type = |kind: &str, more: &str| {
        count(&format!(
            "SELECT count(*) FROM events WHERE type = '{kind}'{more}"
        ))
    };
    let sum = |kind: &str, field: &str| {
        count(&format!(
            "SELECT coalesce(sum(data ->> '{field}'), 0) FROM events WHERE type = '{kind}'"
        ))
    };
    for (figure, counted) in [
        (
            "turns",
            count("SELECT count(*) FROM turns WHERE ended_by = 'TurnCompleted'"),
        ),
        ("tool_calls", of_type("ToolCallStarted", "")),
        (
            "tools_failed",
            count("SELECT count(*) FROM tools WHERE NOT success"),
        ),
        ("input_tokens", sum("ResponseCompleted", "input_tokens")),
        ("output_tokens", sum("ResponseCompleted", "output_tokens")),
        (
            "checks_passed",
            of_type("ValidationCompleted", " AND data ->> 'exit_code' = 0"),
        ),
        (
            "checks_failed",
            of_type("ValidationCompleted", " AND data ->> 'exit_code' <> 0"),
        ),
        ("jobs", of_type("ExecutionCompleted", "")),
        (
            "jobs_failed",
            of_type("ExecutionCompleted", " AND data ->> 'exit_code' <> 0"),
        ),
        ("gaps", of_type("OutputGap", "")),
        ("lost_lines", sum("OutputGap", "lost_lines")),
    ] {
        assert!(counted > 0, "{figure}");
        assert_eq!(report["totals"][figure], Value::from(counted), "{figure}");
    }
    for row in report["rows"].as_array().unwrap() {
        let Some(pane) = row["pane"].as_str() else {
            continue;
        };
        let turns = count(&format!(
            "SELECT count(*) FROM turns WHERE pane = '{pane}' AND ended_by = 'TurnCompleted'"
        ));
        assert_eq!(row["turns"]["count"], Value::from(turns), "{pane}");
    }
}
