//! Serves the observers of all hosts as one, by the same API: a face does not know that there are several.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::board::{HostBoard, HostState, Status};
use super::events::{self, HostEvents};
use super::link::Link;
use crate::api::{
    Answer, ChunkedBody, Request, Response, SILENCE, Service, Slots, Stream, get_lines, get_within,
    is_gone, percent_encoded, post, post_lines, send_events,
};
use crate::board::json_schema;
use crate::clock::Clock;
use crate::event::PaneId;
use crate::history::parse_line;
use crate::thread::{Stop, is_stopped};

/// The longest time that a client may wait for a change of the board.
const BOARD_WAIT_MAX: Duration = Duration::from_secs(60);

/// The time that a host has to answer a request.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// The difference of two clocks from which on it is a problem, in microseconds: the ages that faces show are wrong by it.
const CLOCK_MICROS_MAX: i64 = 2_000_000;

/// Answers requests for all hosts.
#[derive(Clone)]
pub(super) struct Hub {
    pub links: Arc<[Arc<Link>]>,
    pub board: Arc<HostBoard>,
    pub slots: Slots,
    pub clock: Clock,
}

/// The answer to a request that is one response, or why there is none.
type Answered = Result<Response, Response>;

impl Service for Hub {
    fn answer(
        &self,
        request: &Request,
        body: &[u8],
        mut stream: &Stream,
        stop: &Stop,
    ) -> io::Result<()> {
        let with_body = request.method != "HEAD";
        let segments = request.segments();
        let path: Vec<&str> = segments.iter().map(String::as_str).collect();
        let is_long = matches!(path[..], ["api", "v1", "events" | "wait"])
            || matches!(path[..], ["api", "v1", "board"] if request.parameter("wait").is_some());
        let slot = self.slots.take().filter(|_| is_long);
        if is_long && slot.is_none() {
            let why = "there are too many streams and waits already; try again later";
            return Response::problem(503, why).write(&mut stream, with_body);
        }
        let response = match (request.method.as_str(), path.as_slice()) {
            ("GET" | "HEAD", ["healthz"]) => Ok(Response::json(&self.health())),
            ("GET" | "HEAD", ["api", "v1", "board"]) => self.board(request),
            ("GET" | "HEAD", ["api", "v1", "schema"]) => Ok(Response::json(&json_schema())),
            ("GET" | "HEAD", ["api", "v1", "runs"]) => Ok(self.runs()),
            ("GET" | "HEAD", ["api", "v1", "runs", id]) => self.run(id),
            ("GET", ["api", "v1", "runs", id, "events"]) => match self.of_id(id) {
                Ok((link, id)) => return link.run_events(&id, request, stream, stop),
                Err(problem) => Err(problem),
            },
            ("HEAD", ["api", "v1", "events"]) => {
                let cursor = events::position_of(&self.links);
                Ok(Response::empty(200).header("ETag", cursor))
            }
            ("GET", ["api", "v1", "events"]) => {
                match HostEvents::open(&self.links, request, &self.clock) {
                    Ok(mut events) => {
                        let sent = send_events(&mut events, stream, &self.clock, stop);
                        events.stop();
                        return sent;
                    }
                    Err(problem) => Err(problem),
                }
            }
            ("GET" | "HEAD", ["api", "v1", "panes", id, "screen"]) => self.screen(id, request),
            ("POST", ["api", "v1", "panes", id, "input"]) => self.input(id, request, body),
            ("POST", ["api", "v1", "rows", id, "dismiss"]) => self.dismiss(id, body),
            ("POST", ["api", "v1", "wait"]) => match self.of_server(request, None) {
                Ok((link, server)) => return link.wait(&server, (request, body), stream, stop),
                Err(problem) => Err(problem),
            },
            _ => Err(Response::problem(
                404,
                &format!("the board of several hosts has nothing at {}", request.path),
            )),
        };
        let response = response.unwrap_or_else(|problem| problem);
        response.write(&mut stream, with_body)
    }
}

impl Hub {
    fn board(&self, request: &Request) -> Answered {
        let known = request.header("if-none-match");
        let known = known.and_then(|tag| tag.trim_matches('"').parse().ok());
        let wait = request.parameter("wait").unwrap_or("0").parse::<f64>().ok();
        let wait = wait.filter(|seconds| (0.0..=1e6).contains(seconds));
        let wait =
            wait.ok_or_else(|| Response::problem(400, "wait: give seconds, such as wait=30"))?;
        let wait = Duration::from_secs_f64(wait).min(BOARD_WAIT_MAX);
        Ok(match self.board.after(known, self.clock.now() + wait) {
            Some((rows, version)) => Response::json(&rows).header("ETag", format!("\"{version}\"")),
            None => Response::empty(304),
        })
    }

    fn health(&self) -> Value {
        self.board.with(|hosts| {
            let problems: Vec<String> = hosts.iter().flat_map(problems_of).collect();
            let status = if problems.is_empty() {
                "ok"
            } else {
                "degraded"
            };
            let hosts: Vec<Value> = hosts.iter().map(about).collect();
            json!({"status": status, "problems": problems, "hosts": hosts, "time": self.clock.wall()})
        })
    }

    fn runs(&self) -> Response {
        let mut all = Vec::new();
        for link in self.links.iter() {
            match link.runs() {
                Ok(runs) => all.extend(runs),
                Err(why) => log::info!("{why}"),
            }
        }
        Response::json(&all)
    }

    fn run(&self, id: &str) -> Answered {
        let (link, id) = self.of_id(id)?;
        let mut summary = link.get_json(&format!("/api/v1/runs/{}", percent_encoded(&id)))?;
        link.rewriter.summary(&mut summary);
        Ok(Response::json(&summary))
    }

    fn screen(&self, id: &str, request: &Request) -> Answered {
        let (link, server) = self.of_server(request, Some(id))?;
        let viewed = request.parameter("viewed") == Some("true");
        let pane = percent_encoded(id);
        let server = percent_encoded(&server);
        let path = format!("/api/v1/panes/{pane}/screen?viewed={viewed}&socket={server}");
        Ok(Response::json(&link.get_json(&path)?))
    }

    fn input(&self, id: &str, request: &Request, body: &[u8]) -> Answered {
        let (link, server) = self.of_server(request, Some(id))?;
        let (pane, server) = (percent_encoded(id), percent_encoded(&server));
        link.post_json(&format!("/api/v1/panes/{pane}/input?socket={server}"), body)
    }

    fn dismiss(&self, id: &str, body: &[u8]) -> Answered {
        let dismissed = serde_json::from_slice::<Value>(body).ok();
        let dismissed = dismissed.and_then(|body| body.get("dismissed")?.as_bool());
        if let Some(dismissed) = dismissed
            && self.board.dismiss(id, dismissed)
        {
            return Ok(Response::json(&json!({"id": id, "dismissed": dismissed})));
        }
        let (link, own) = self.of_id(id)?;
        let path = format!("/api/v1/rows/{}/dismiss", percent_encoded(&own));
        link.post_json(&path, body)?;
        Ok(Response::json(&json!({"id": id, "dismissed": dismissed})))
    }

    /// Returns the link to the host of a row or a run, and the id that the host knows. An id without a host's name is this
    /// host's own.
    pub(super) fn of_id(&self, id: &str) -> Result<(&Link, String), Response> {
        // The id on this host has no name before it, so any id is one.
        let named = self.links.iter().filter(|link| link.rewriter.0.is_some());
        let local = self.links.iter().filter(|link| link.rewriter.0.is_none());
        let mut found = named
            .chain(local)
            .filter_map(|link| Some((&**link, link.rewriter.own_id(id)?.to_owned())));
        found
            .next()
            .ok_or_else(|| Response::problem(404, &format!("no host has {id:?}")))
    }

    /// Returns the link to the host whose tmux server a request names, and the socket as the host knows it. Without one,
    /// it is that of the only row of the pane.
    fn of_server(
        &self,
        request: &Request,
        pane: Option<&str>,
    ) -> Result<(&Link, String), Response> {
        let server = match (request.parameter("socket"), pane) {
            (Some(server), _) => server.to_owned(),
            (None, Some(pane)) => self.server_of(&PaneId::from(pane))?,
            (None, None) => {
                return Err(Response::problem(
                    400,
                    "socket: give that of the row's tmux server, HOST:PATH",
                ));
            }
        };
        let mut links = self.links.iter();
        let found = links.find_map(|link| Some((link, link.rewriter.own_path(&server)?)));
        let (link, own) = found.ok_or_else(|| {
            Response::problem(404, &format!("no host has the tmux server {server:?}"))
        })?;
        Ok((link, own.to_owned()))
    }

    fn server_of(&self, pane: &PaneId) -> Result<String, Response> {
        let rows = self.board.after(None, self.clock.now());
        let rows = rows.map(|(rows, _)| rows).unwrap_or_default();
        let live = rows.into_iter().filter(|row| !row.has_ended());
        let mut servers: Vec<String> = live
            .filter(|row| row.pane.as_ref() == Some(pane))
            .filter_map(|row| row.server)
            .collect();
        servers.dedup();
        match &mut servers[..] {
            [server] => Ok(std::mem::take(server)),
            [] => Err(Response::problem(
                404,
                &format!("no host has the pane {pane}"),
            )),
            _ => Err(Response::problem(
                409,
                &format!("several hosts have the pane {pane}: name its server: socket=HOST:PATH"),
            )),
        }
    }
}

fn problems_of(of: &HostState) -> Vec<String> {
    if of.status != Status::Connected {
        return Vec::new();
    }
    let name = of.name();
    let own = of.problems.iter();
    let own = own.map(|problem| format!("{name}: the history cannot be written: {problem}"));
    let clock = of.clock.filter(|micros| micros.abs() >= CLOCK_MICROS_MAX);
    let clock = clock.map(|micros| {
        let (seconds, way) = (
            micros.abs() / 1_000_000,
            if micros > 0 { "ahead" } else { "behind" },
        );
        format!("{name}: its clock is {seconds} s {way}: ages are wrong by this")
    });
    let version = env!("CARGO_PKG_VERSION");
    let older = (of.version != version).then(|| {
        let of = if of.version.is_empty() { "an unknown one" } else { &of.version };
        format!("{name}: its observer has the version {of}, this program {version}: what one of them lacks is not shown")
    });
    own.chain(clock).chain(older).collect()
}

fn about(of: &HostState) -> Value {
    let (state, since, why) = match &of.status {
        Status::Connecting(since) => ("connecting", Some(since), None),
        Status::Connected => ("connected", None, None),
        Status::Unreachable(since, why) => ("unreachable", Some(since), Some(why.to_string())),
    };
    json!({
        "name": of.name(),
        "state": state,
        "since": since,
        "why": why,
        "version": of.version,
        "allow_input": of.allows_input,
        "clock_ahead_ms": of.clock.map(|micros| micros / 1_000),
    })
}

impl Link {
    /// Requests JSON from the host.
    pub(super) fn get_json(&self, path: &str) -> Result<Value, Response> {
        let socket = self.socket().map_err(|why| Response::problem(503, &why))?;
        let answer = get_within(&socket, path, None, ANSWER_TIME);
        json_of(answer)
    }

    /// Sends JSON to the host.
    fn post_json(&self, path: &str, body: &[u8]) -> Answered {
        let body: Value = serde_json::from_slice(body)
            .map_err(|cause| Response::problem(400, &format!("the body is no JSON: {cause}")))?;
        let socket = self.socket().map_err(|why| Response::problem(503, &why))?;
        json_of(post(&socket, path, &body)).map(|value| Response::json(&value))
    }

    /// Returns the summaries of the host's runs.
    pub(super) fn runs(&self) -> Result<Vec<Value>, String> {
        let runs = self.get_json("/api/v1/runs");
        let runs = runs.map_err(|problem| problem.detail())?;
        let Value::Array(mut runs) = runs else {
            return Err("the observer's runs cannot be read".to_owned());
        };
        runs.iter_mut().for_each(|run| self.rewriter.summary(run));
        Ok(runs)
    }

    /// Sends the events of a run, as lines.
    fn run_events(
        &self,
        id: &str,
        request: &Request,
        mut stream: &Stream,
        stop: &Stop,
    ) -> io::Result<()> {
        let socket = match self.socket() {
            Ok(socket) => socket,
            Err(why) => return Response::problem(503, &why).write(&mut stream, true),
        };
        let query: Vec<String> = request
            .query
            .iter()
            .map(|(name, value)| format!("{}={}", percent_encoded(name), percent_encoded(value)))
            .collect();
        let path = format!(
            "/api/v1/runs/{}/events?{}",
            percent_encoded(id),
            query.join("&")
        );
        let mut body: Option<ChunkedBody<&Stream>> = None;
        let mut failed = None;
        let read = get_lines(
            (&socket, &path),
            (ANSWER_TIME, &self.clock),
            || is_stopped(stop) || is_gone(stream),
            |line| {
                let Ok(mut envelope) = parse_line(line) else {
                    return;
                };
                self.rewriter.envelope(&mut envelope);
                let written = serde_json::to_vec(&envelope).map_err(io::Error::other);
                let written = written.and_then(|line| {
                    let body = match &mut body {
                        Some(body) => body,
                        None => body.insert(ChunkedBody::start(
                            stream,
                            "application/jsonl; charset=utf-8",
                        )?),
                    };
                    body.write_all(&line)?;
                    body.write_all(b"\n")
                });
                failed = written.err();
            },
        );
        match (failed, read, body) {
            (Some(cause), ..) => Err(cause),
            // Whoever reads it sees that it is not complete.
            (None, Err(error), Some(_)) => Err(io::Error::other(error.to_string())),
            (None, Err(error), None) => {
                Response::problem(503, &error.to_string()).write(&mut stream, true)
            }
            (None, Ok(()), Some(body)) => body.finish(),
            (None, Ok(()), None) => {
                Response::text("application/jsonl; charset=utf-8", "").write(&mut stream, true)
            }
        }
    }

    /// Waits on a target of the host.
    fn wait(
        &self,
        server: &str,
        (request, body): (&Request, &[u8]),
        mut stream: &Stream,
        stop: &Stop,
    ) -> io::Result<()> {
        let prepared = || {
            let socket = self.socket().map_err(|why| Response::problem(503, &why))?;
            let body: Value = serde_json::from_slice(body).map_err(|cause| {
                Response::problem(400, &format!("the body is no JSON: {cause}"))
            })?;
            Ok::<_, Response>((socket, body))
        };
        let (socket, body) = match prepared() {
            Ok(prepared) => prepared,
            Err(problem) => return problem.write(&mut stream, true),
        };
        let path = format!("/api/v1/wait?socket={}", percent_encoded(server));
        let accepted = request.header("accept").unwrap_or_default();
        let takes_lines = accepted.contains("application/x-ndjson");
        let mut out = None;
        if takes_lines {
            out = Some(ChunkedBody::start(stream, "application/x-ndjson")?);
        }
        let (mut last, mut failed) = (Value::Null, None);
        let asked = post_lines(
            (&socket, &path),
            &body,
            (4 * SILENCE, &self.clock),
            || is_stopped(stop) || is_gone(stream),
            |line| {
                let Ok(value) = serde_json::from_slice::<Value>(line) else {
                    // The sign of life.
                    if let Some(out) = &mut out {
                        failed = out.write_all(b"\n").and_then(|()| out.flush()).err();
                    }
                    return;
                };
                if let Some(out) = &mut out {
                    let line = format!("{value}\n");
                    failed = out
                        .write_all(line.as_bytes())
                        .and_then(|()| out.flush())
                        .err();
                }
                last = value;
            },
        );
        if let Some(cause) = failed {
            return Err(cause);
        }
        match (out, asked) {
            (Some(out), Ok(())) => out.finish(),
            // Without its end, the answer is seen to be broken.
            (Some(_), Err(error)) => Err(io::Error::other(error.to_string())),
            (None, Ok(())) if last.get("outcome").is_some() => {
                Response::json(&last).write(&mut stream, true)
            }
            (None, Ok(())) => problem_of(400, &last).write(&mut stream, true),
            (None, Err(error)) => {
                Response::problem(503, &error.to_string()).write(&mut stream, true)
            }
        }
    }
}

/// Returns the JSON of an answer; what a host says passes as nothing else.
fn json_of(answer: crate::Result<Answer>) -> Result<Value, Response> {
    let answer = answer.map_err(|error| Response::problem(503, &error.to_string()))?;
    let value: Value = serde_json::from_slice(&answer.body)
        .map_err(|_| Response::problem(503, "the answer of the host cannot be read"))?;
    match answer.status {
        200 => Ok(value),
        status => Err(problem_of(status, &value)),
    }
}

fn problem_of(status: u16, value: &Value) -> Response {
    let detail = value.get("detail").and_then(Value::as_str);
    Response::problem(status, detail.unwrap_or("the host refuses the request"))
}
