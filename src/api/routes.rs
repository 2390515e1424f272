//! The routes of the API, version 1, and the observer's metrics in Prometheus text format.

use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;

use super::connections::Service;
use super::events::{self, EventsQuery};
use super::http::Request;
use super::http::{ChunkedBody, Response};
use super::panes::ApiContext;
use super::stream::Stream;
use super::{panes, rows, wait, ws};
use crate::board::{Attention, json_schema};
use crate::event::{LogGapRange, PaneId};
use crate::feed::StreamGauge;
use crate::history::{LogReader, RunDirectory, RunSummary};
use crate::thread::Stop;

/// The longest time that a client may wait for a change of the board.
const BOARD_WAIT_MAX: Duration = Duration::from_secs(60);

/// Answers requests. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    pub context: ApiContext,
    pub slots: Slots,
    /// The status of the observer, for `/healthz`.
    pub about: serde_json::Value,
}

impl Service for Routes {
    fn answer(
        &self,
        request: &Request,
        body: &[u8],
        mut stream: &Stream,
        stop: &Stop,
    ) -> io::Result<()> {
        let context = &self.context;
        let with_body = request.method != "HEAD";
        let segments = request.segments();
        let path: Vec<&str> = segments.iter().map(String::as_str).collect();
        let allowed: &[&str] = match path.as_slice() {
            ["api", "v1", "panes", _, "input"]
            | ["api", "v1", "rows", _, "dismiss"]
            | ["api", "v1", "wait"] => &["POST"],
            _ => &["GET", "HEAD"],
        };
        if !allowed.contains(&request.method.as_str()) {
            let allowed = allowed.join(", ");
            let why = format!("{} is not supported here, but {allowed}", request.method);
            return Response::problem(405, &why)
                .header("Allow", allowed)
                .write(&mut stream, with_body);
        }
        if let Some(known) = parameters(&path)
            && let Err(why) = request.check_parameters(known)
        {
            return Response::problem(400, &why).write(&mut stream, with_body);
        }
        let is_long = match path.as_slice() {
            ["api", "v1", "events" | "ws" | "wait"] => true,
            ["api", "v1", "board"] => request.parameter("wait").is_some(),
            _ => false,
        };
        let slot = self.slots.take().filter(|_| is_long);
        if is_long && slot.is_none() {
            let why = "there are too many streams and waits already; try again later";
            return Response::problem(503, why).write(&mut stream, with_body);
        }
        let response = match path.as_slice() {
            ["healthz"] => {
                let problems = context.log_troubles.list();
                let status = if problems.is_empty() {
                    "ok"
                } else {
                    "degraded"
                };
                Response::json(
                    &json!({"status": status, "problems": problems, "observer": self.about,
                        "time": context.clock.wall()}),
                )
            }
            ["metrics"] => {
                Response::text("text/plain; version=0.0.4; charset=utf-8", metrics(context))
            }
            ["api", "v1", "board"] => self.board(request),
            ["api", "v1", "schema"] => Response::json(&json_schema()),
            ["api", "v1", "runs"] => match self.runs() {
                Ok(runs) => Response::json(&runs),
                Err(response) => response,
            },
            ["api", "v1", "runs", id] => self.run_summary(id).unwrap_or_else(|response| response),
            ["api", "v1", "runs", id, "events"] => {
                return match (self.run(id), EventsQuery::of_run(request, &context.clock)) {
                    (Ok(run), Ok(query)) if with_body => run_events(&run, &query, stream),
                    (Ok(_), Ok(_)) => Response::empty(200).write(&mut stream, false),
                    (Err(response), _) => response.write(&mut stream, with_body),
                    (_, Err(why)) => Response::problem(400, &why).write(&mut stream, with_body),
                };
            }
            #[cfg(feature = "redis")]
            ["api", "v1", "panes", _, "screen" | "input"] if context.feed.has_copies() => {
                let why = "the runs of these hosts are copied by way of Redis, which has no screens and types nothing: \
                           use --host, or go to the host";
                Response::problem(409, why)
            }
            ["api", "v1", "panes", id, "screen"] => {
                // Scripts read screens, too; only a person's look is a view.
                let is_view = with_body && request.parameter("viewed") == Some("true");
                panes::screen(context, id, request, is_view, stop)
            }
            ["api", "v1", "panes", id, "input"] => match context.panes.check_input() {
                Ok(()) => {
                    let row_of = |pane: &PaneId, socket: &Path| Ok(context.row_of(pane, socket));
                    let typed = (*id, request, body);
                    panes::input(&context.panes, &row_of, typed, (stop, &context.clock))
                }
                Err(response) => response,
            },
            ["api", "v1", "rows", id, "dismiss"] => rows::dismiss(context, id, body),
            ["api", "v1", "wait"] => {
                return wait::wait(context, (request, body), stream, stop);
            }
            ["api", "v1", "events"] => {
                return match events::open(context, request) {
                    Ok(mut events) if with_body => {
                        events::send(&mut events, stream, &context.clock, stop)
                    }
                    Ok(events) => Response::empty(200)
                        .header("ETag", events.cursor().to_string())
                        .write(&mut stream, false),
                    Err(response) => response.write(&mut stream, with_body),
                };
            }
            ["api", "v1", "ws"] => {
                return ws::serve(context, request, stream, stop);
            }
            _ => Response::problem(404, &format!("there is nothing at {}", request.path)),
        };
        response.write(&mut stream, with_body)
    }
}

impl Routes {
    /// Returns the rows of the board, immediately or once they have changed.
    fn board(&self, request: &Request) -> Response {
        let known = request
            .header("if-none-match")
            .and_then(|tag| self.version_of(tag));
        let wait = request
            .parameter("wait")
            .unwrap_or("0")
            .parse::<f64>()
            .ok()
            .filter(|seconds| (0.0..=1e6).contains(seconds));
        let Some(wait) = wait else {
            return Response::problem(400, "wait: give seconds, such as wait=30");
        };
        let wait = Duration::from_secs_f64(wait).min(BOARD_WAIT_MAX);
        match self
            .context
            .feed
            .board_after(known, self.context.clock.now() + wait)
        {
            Some(view) => {
                let tag = format!("\"{:x}-{}\"", self.context.feed.instance(), view.version);
                Response::json(&view.rows).header("ETag", tag)
            }
            None => Response::empty(304),
        }
    }

    fn version_of(&self, tag: &str) -> Option<u64> {
        let (instance, version) = tag.trim_matches('"').split_once('-')?;
        let is_ours = u64::from_str_radix(instance, 16) == Ok(self.context.feed.instance());
        version.parse().ok().filter(|_| is_ours)
    }

    fn runs(&self) -> Result<Vec<RunSummary>, Response> {
        match self.context.feed.data().runs(self.context.clock.wall()) {
            Ok(list) => Ok(list.runs),
            Err(error) => Err(Response::problem(500, &error.to_string())),
        }
    }

    /// Returns the run with this id, or the latest with this label.
    fn run(&self, id: &str) -> Result<RunDirectory, Response> {
        self.context.feed.data().named_run(id).map_err(|error| {
            if error.is_invalid_input() {
                missing(id)
            } else {
                Response::problem(500, &error.to_string())
            }
        })
    }

    fn run_summary(&self, id: &str) -> Result<Response, Response> {
        let run = self.run(id)?;
        let id = run.execution_id();
        let runs = self.runs()?;
        let summary = runs.iter().find(|run| run.execution_id == *id);
        summary.map(Response::json).ok_or_else(|| missing(id))
    }
}

fn missing(id: &str) -> Response {
    Response::problem(404, &format!("no run is called {id:?}"))
}

/// Returns the parameters of a path; `None` for an unknown path.
fn parameters(path: &[&str]) -> Option<&'static [&'static str]> {
    Some(match path {
        ["api", "v1", "board"] => &["wait"],
        ["api", "v1", "runs", _, "events"] => &["from_seq", "type", "grep", "since", "limit"],
        ["api", "v1", "events" | "ws"] => &["execution", "type", "since", "cursor", "from_seq"],
        ["api", "v1", "panes", _, "screen"] => &["socket", "viewed"],
        ["api", "v1", "panes", _, "input"] | ["api", "v1", "wait"] => &["socket"],
        ["healthz" | "metrics"]
        | ["api", "v1", "schema" | "runs"]
        | ["api", "v1", "runs", _]
        | ["api", "v1", "rows", _, "dismiss"] => &[],
        _ => return None,
    })
}

/// Writes the events of a run as JSON Lines, unchanged from its log.
fn run_events(run: &RunDirectory, query: &EventsQuery, stream: &Stream) -> io::Result<()> {
    if query.is_place() {
        return later_events(run, query, stream);
    }
    let log = match LogReader::open_lines(run, query.query.clone()) {
        Ok(log) => log,
        Err(error) => {
            let mut stream = stream;
            return Response::problem(500, &error.to_string()).write(&mut stream, true);
        }
    };
    let mut body = ChunkedBody::start(stream, "application/jsonl; charset=utf-8")?;
    let numbered = log.filter(|record| {
        let seq = record.envelope.seq.unwrap_or(u64::MAX);
        seq >= query.from_seq
    });
    for record in numbered.take(query.limit) {
        let line = record.line();
        body.write_all(line.strip_suffix(b"\n").unwrap_or(line))?;
        body.write_all(b"\n")?;
    }
    body.finish()
}

/// Writes the events from a number on, which is found without reading those before it.
fn later_events(run: &RunDirectory, query: &EventsQuery, mut stream: &Stream) -> io::Result<()> {
    let before = query.from_seq - 1;
    let mut log = match run.follow_after(before, None) {
        Ok(log) => log.in_this_thread(),
        Err(error) => return Response::problem(500, &error.to_string()).write(&mut stream, true),
    };
    let mut body = ChunkedBody::start(stream, "application/jsonl; charset=utf-8")?;
    let mut left = query.limit;
    while left > 0
        && let Some(record) = log.next().map_err(io::Error::other)?
    {
        if LogGapRange::of(&record.envelope).is_some_and(|numbers| numbers.last > before) {
            let line = record.line();
            body.write_all(line.strip_suffix(b"\n").unwrap_or(line))?;
            body.write_all(b"\n")?;
            left -= 1;
        }
    }
    body.finish()
}

/// Returns the metrics of the board, the streams of events and the logs.
fn metrics(context: &ApiContext) -> String {
    let (feed, clock) = (&context.feed, &context.clock);
    let mut metrics = Metrics::default();
    let view = feed.board_after(None, clock.now());
    let rows = view.map(|view| view.rows).unwrap_or_default();
    let attention = Attention::ALL.map(|attention| {
        let count = rows
            .iter()
            .filter(|row| row.attention() == attention)
            .count();
        (format!("{{attention=\"{attention}\"}}"), count)
    });
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
    let lags = per_stream(&|stream| end.saturating_sub(stream.position.load(Ordering::Relaxed)));
    let help = "Events that a stream has not reached yet.";
    metrics.samples("stream_lag_events", help, &lags);
    let missed = per_stream(&|stream| stream.missed.load(Ordering::Relaxed));
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
        let kind = if name.ends_with("_total") {
            "counter"
        } else {
            "gauge"
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

/// The most simultaneous long responses: the rest of the connections answers short requests, each in milliseconds. A model
/// that supervises fifty panes waits in all of them at once.
const SLOTS_MAX: usize = 56;

/// Counts long responses. Clones share the counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots(Arc<AtomicUsize>);

/// The right to one long response. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct Slot(Arc<AtomicUsize>);

impl Slots {
    /// Takes a slot; `None` if all are taken.
    pub fn take(&self) -> Option<Slot> {
        let slot = Slot(Arc::clone(&self.0));
        let taken = self.0.fetch_add(1, Ordering::Relaxed);
        (taken < SLOTS_MAX).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_is_dropped_is_free_again() {
        let slots = Slots::default();
        let mut taken: Vec<Slot> = std::iter::from_fn(|| slots.clone().take()).collect();
        assert_eq!(taken.len(), SLOTS_MAX);
        assert!(slots.take().is_none());
        taken.pop();
        assert!(slots.take().is_some());
    }
}
