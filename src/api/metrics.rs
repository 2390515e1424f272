//! The observer's metrics in Prometheus text format.

use std::fmt::{Display, Write};

use super::context::ApiContext;
use crate::feed::StreamGauge;

/// Returns the metrics of the board, the streams of events and the logs.
pub(super) fn metrics(context: &ApiContext) -> String {
    let (feed, clock) = (&context.feed, &context.clock);
    let mut metrics = Metrics::default();
    let view = feed.board_after(None, clock.now());
    let rows = view.map(|view| view.rows).unwrap_or_default();
    let attention: Vec<(String, u64)> = feed
        .counts()
        .iter()
        .map(|(attention, count)| (format!("{{attention=\"{attention}\"}}"), *count as u64))
        .collect();
    metrics.samples("rows", "Rows of the board by attention.", &attention);
    let mut states = std::collections::BTreeMap::<String, u64>::new();
    for row in &rows {
        *states.entry(row.state.as_str().to_owned()).or_default() += 1;
    }
    let states: Vec<(String, u64)> = states
        .into_iter()
        .map(|(state, count)| (format!("{{state=\"{}\"}}", label(&state)), count))
        .collect();
    metrics.samples("row_states", "Rows of the board by state.", &states);
    let sum = |of: fn(&crate::board::Row) -> u64| rows.iter().map(of).sum();
    metrics.value("gaps", "Confirmed gaps of the rows.", sum(|row| row.gaps));
    metrics.value("errors", "Errors of the rows.", sum(|row| row.errors));
    let (end, _) = feed.end();
    metrics.value("events_total", "Events that were distributed.", end);
    let help = "Events that the hub has missed; the logs have them.";
    metrics.value("events_missed_total", help, feed.lagged());
    let streams = feed.gauges();
    let per_stream = |value: &dyn Fn(&StreamGauge) -> u64| -> Vec<(String, u64)> {
        let streams = streams.iter();
        let labels = |stream: &StreamGauge| format!("{{stream=\"{}\"}}", stream.number);
        streams
            .map(|stream| (labels(stream), value(stream)))
            .collect()
    };
    metrics.value("streams", "Open streams of events.", streams.len() as u64);
    let lags = per_stream(&|stream| end.saturating_sub(stream.position()));
    let help = "Events that a stream has not reached yet.";
    metrics.samples("stream_lag_events", help, &lags);
    let missed = per_stream(&StreamGauge::missed);
    let help = "Events that a stream has missed, because they are kept nowhere.";
    metrics.samples("stream_events_missed_total", help, &missed);
    if let Ok(list) = feed.data().runs(clock.wall()) {
        let bytes = list.runs.iter().map(|run| run.size_bytes).sum();
        metrics.value("runs", "Runs in the history.", list.runs.len() as u64);
        metrics.value("log_bytes", "Size of the history.", bytes);
    }
    let captures = context.panes.servers.iter().map(|observed| {
        let socket = label(&observed.socket.to_string_lossy());
        let (count, time) = observed.server.captures().total();
        let labels = format!("{{server=\"{socket}\"}}");
        ((labels.clone(), count), (labels, time.as_secs_f64()))
    });
    let (counts, seconds): (Vec<_>, Vec<_>) = captures.unzip();
    metrics.samples("captures_total", "Captures of panes.", &counts);
    let help = "Time that tmux took for captures.";
    metrics.samples("capture_seconds_total", help, &seconds);
    metrics.0
}

/// The text of the metrics so far.
#[derive(Default)]
struct Metrics(String);

impl Metrics {
    /// Adds a metric with labels. As is usual, the names of counters end in `_total`.
    fn samples(&mut self, name: &str, help: &str, samples: &[(String, impl Display)]) {
        let kind = match name.ends_with("_total") {
            true => "counter",
            false => "gauge",
        };
        let text = &mut self.0;
        // Writing to a string does not fail.
        let _ = writeln!(text, "# HELP td_observe_{name} {help}");
        let _ = writeln!(text, "# TYPE td_observe_{name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(text, "td_observe_{name}{labels} {value}");
        }
    }

    /// Adds a metric with a single value.
    fn value(&mut self, name: &str, help: &str, value: u64) {
        self.samples(name, help, &[(String::new(), value)]);
    }
}

/// Escapes the value of a label.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
