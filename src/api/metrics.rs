//! The observer's metrics in Prometheus text format.

use std::fmt::{Display, Write};

use super::context::ApiContext;
use super::gauges::StreamGauge;

/// Returns the metrics of the board, the streams of events and the logs.
pub(super) fn metrics(context: &ApiContext) -> String {
    let (hub, clock) = (&context.hub, &context.clock);
    let mut text = String::new();
    let mut metric = |name: &str, help: &str, samples: &[(String, u64)]| {
        push_metric(&mut text, name, help, samples);
    };
    let view = hub.board_after(None, clock.now());
    let rows = view.map(|view| view.rows).unwrap_or_default();
    let attention: Vec<(String, u64)> = hub
        .counts()
        .iter()
        .map(|(attention, count)| (format!("{{attention=\"{attention}\"}}"), *count as u64))
        .collect();
    metric("rows", "Rows of the board by attention.", &attention);
    let mut states = std::collections::BTreeMap::<String, u64>::new();
    for row in &rows {
        *states.entry(row.state.as_str().to_owned()).or_default() += 1;
    }
    let states: Vec<(String, u64)> = states
        .into_iter()
        .map(|(state, count)| (format!("{{state=\"{}\"}}", label(&state)), count))
        .collect();
    metric("row_states", "Rows of the board by state.", &states);
    let unlabelled = |value: u64| vec![(String::new(), value)];
    let sum = |of: fn(&crate::board::Row) -> u64| rows.iter().map(of).sum();
    metric(
        "gaps",
        "Confirmed gaps of the rows.",
        &unlabelled(sum(|row| row.gaps)),
    );
    metric(
        "errors",
        "Errors of the rows.",
        &unlabelled(sum(|row| row.errors)),
    );
    metric(
        "events_total",
        "Events that were distributed.",
        &unlabelled(hub.end().0),
    );
    metric(
        "events_missed_total",
        "Events that the hub has missed; the logs have them.",
        &unlabelled(hub.lagged()),
    );
    let (end, _) = hub.end();
    let streams = hub.gauges();
    let per_stream = |value: &dyn Fn(&StreamGauge) -> u64| -> Vec<(String, u64)> {
        let streams = streams.iter();
        let labels = |stream: &StreamGauge| format!("{{stream=\"{}\"}}", stream.number);
        streams
            .map(|stream| (labels(stream), value(stream)))
            .collect()
    };
    metric(
        "streams",
        "Open streams of events.",
        &unlabelled(streams.len() as u64),
    );
    metric(
        "stream_lag_events",
        "Events that a stream has not reached yet.",
        &per_stream(&|stream| end.saturating_sub(stream.position())),
    );
    metric(
        "stream_events_missed_total",
        "Events that a stream has missed, because they are kept nowhere.",
        &per_stream(&StreamGauge::missed),
    );
    if let Some(Ok(list)) = context.data.as_ref().map(|data| data.runs(clock.wall())) {
        let bytes = list.runs.iter().map(|run| run.size_bytes).sum();
        metric(
            "runs",
            "Runs in the history.",
            &unlabelled(list.runs.len() as u64),
        );
        metric("log_bytes", "Size of the history.", &unlabelled(bytes));
    }
    let captures = context.panes.servers.iter().map(|observed| {
        let socket = label(&observed.socket.to_string_lossy());
        let (count, time) = observed.server.captures().total();
        let labels = format!("{{server=\"{socket}\"}}");
        ((labels.clone(), count), (labels, time.as_secs_f64()))
    });
    let (counts, seconds): (Vec<_>, Vec<_>) = captures.unzip();
    metric("captures_total", "Captures of panes.", &counts);
    let help = "Time that tmux took for captures.";
    push_metric(&mut text, "capture_seconds_total", help, &seconds);
    text
}

/// Appends a metric. As is usual, the names of counters end in `_total`.
fn push_metric(text: &mut String, name: &str, help: &str, samples: &[(String, impl Display)]) {
    let kind = match name.ends_with("_total") {
        true => "counter",
        false => "gauge",
    };
    // Writing to a string does not fail.
    let _ = writeln!(text, "# HELP td_observe_{name} {help}");
    let _ = writeln!(text, "# TYPE td_observe_{name} {kind}");
    for (labels, value) in samples {
        let _ = writeln!(text, "td_observe_{name}{labels} {value}");
    }
}

/// Escapes the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
