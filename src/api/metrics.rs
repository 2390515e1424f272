//! The observer's numbers as Prometheus text.

use std::fmt::Write;

use super::hub::Hub;
use crate::clock::Clock;
use crate::history::DataDir;

/// Returns the numbers of the board, of the stream of events and of the logs.
pub(super) fn metrics(hub: &Hub, data: Option<&DataDir>, clock: &Clock) -> String {
    let mut text = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, samples: &[(String, u64)]| {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "# HELP td_observe_{name} {help}\n# TYPE td_observe_{name} {kind}"
        );
        for (labels, value) in samples {
            let _ = writeln!(text, "td_observe_{name}{labels} {value}");
        }
    };
    let view = hub.board_after(None, clock.now());
    let rows = view.map(|view| view.rows).unwrap_or_default();
    let attention: Vec<(String, u64)> = hub
        .counts()
        .iter()
        .map(|(attention, count)| (format!("{{attention=\"{attention}\"}}"), *count as u64))
        .collect();
    metric(
        "rows",
        "gauge",
        "Rows of the board by attention.",
        &attention,
    );
    let mut states = std::collections::BTreeMap::<String, u64>::new();
    for row in &rows {
        *states.entry(row.state.as_str().to_owned()).or_default() += 1;
    }
    let states: Vec<(String, u64)> = states
        .into_iter()
        .map(|(state, count)| (format!("{{state=\"{}\"}}", label(&state)), count))
        .collect();
    metric(
        "row_states",
        "gauge",
        "Rows of the board by state.",
        &states,
    );
    let one = |value: u64| vec![(String::new(), value)];
    let sum = |of: fn(&crate::board::Row) -> u64| rows.iter().map(of).sum();
    metric(
        "gaps",
        "gauge",
        "Confirmed gaps of the rows.",
        &one(sum(|row| row.gaps)),
    );
    metric(
        "errors",
        "gauge",
        "Errors of the rows.",
        &one(sum(|row| row.errors)),
    );
    metric(
        "events_total",
        "counter",
        "Events that were distributed.",
        &one(hub.end().0),
    );
    metric(
        "events_missed_total",
        "counter",
        "Events that the hub has missed; the logs have them.",
        &one(hub.lagged()),
    );
    if let Some(Ok(list)) = data.map(|data| data.runs(clock.wall())) {
        let bytes = list.runs.iter().map(|run| run.size_bytes).sum();
        metric(
            "runs",
            "gauge",
            "Runs in the history.",
            &one(list.runs.len() as u64),
        );
        metric("log_bytes", "gauge", "Size of the history.", &one(bytes));
    }
    text
}

/// Escapes the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
