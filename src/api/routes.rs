//! The routes of the API, version 1.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::json;

use super::context::ApiContext;
use super::events::{self, EventsQuery};
use super::metrics::metrics;
use super::request::Request;
use super::response::{ChunkedBody, Response};
use super::slots::Slots;
use super::{input, screen, wait, ws};
use crate::board::json_schema;
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

impl Routes {
    /// Answers a request.
    pub fn answer(
        &self,
        request: &Request,
        body: &[u8],
        mut stream: &UnixStream,
        stop: &Stop,
    ) -> io::Result<()> {
        let context = &self.context;
        let with_body = request.method != "HEAD";
        let segments = request.segments();
        let path: Vec<&str> = segments.iter().map(String::as_str).collect();
        let allowed: &[&str] = match path.as_slice() {
            ["api", "v1", "panes", _, "input"] | ["api", "v1", "wait"] => &["POST"],
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
            ["healthz"] => Response::json(&json!({"status": "ok", "observer": self.about})),
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
            ["api", "v1", "panes", id, "screen"] => {
                screen::screen(context, id, request, with_body, stop)
            }
            ["api", "v1", "panes", id, "input"] => input::input(context, id, (request, body), stop),
            ["api", "v1", "wait"] => {
                return wait::wait(context, (request, body), stream, stop);
            }
            ["api", "v1", "events"] => {
                return match events::open(context, request) {
                    Ok(events) if with_body => events::send(events, stream, &context.clock, stop),
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

    /// Returns the rows of the board, immediately or once they have changed.
    fn board(&self, request: &Request) -> Response {
        let known = request
            .header("if-none-match")
            .and_then(|tag| self.version_of(tag));
        let wait = request.parameter("wait").unwrap_or("0").parse::<f64>();
        let wait = wait.ok().filter(|seconds| (0.0..=1e6).contains(seconds));
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
        ["api", "v1", "panes", _, "screen" | "input"] | ["api", "v1", "wait"] => &["socket"],
        ["healthz" | "metrics"] | ["api", "v1", "schema" | "runs"] | ["api", "v1", "runs", _] => {
            &[]
        }
        _ => return None,
    })
}

/// Writes the events of a run as JSON Lines, unchanged from its log.
fn run_events(run: &RunDirectory, query: &EventsQuery, stream: &UnixStream) -> io::Result<()> {
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
