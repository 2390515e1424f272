//! The data of the page: answers the paths below `/page/` with JSON.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use super::lines::Place;
use super::live;
use super::params::{invalid, number, parsed, view};
use super::source::PageSource;
use super::timeline::Bands;
use crate::api::{FindObserver, Request, Response, is_gone};
use crate::board::Row;
use crate::clock::Clock;
use crate::face::find_row::find_row;
use crate::feed::latest_ended;
use crate::history::DataDir;
use crate::thread::{Stop, is_stopped};

/// The data of the page, as JSON.
#[derive(Clone)]
pub(crate) struct PageData {
    pub(super) source: PageSource,
    /// What the timeline has read so far.
    bands: Arc<Bands>,
}

impl PageData {
    /// Creates the data of a page that shows an observer and the histories in a data directory.
    pub fn new(find: FindObserver, data: DataDir, clock: Clock) -> Self {
        Self {
            source: PageSource { find, data, clock },
            bands: Arc::default(),
        }
    }

    /// Answers a request for a path below `/page/`, except `/page/about`, which is the server's.
    ///
    /// # Errors
    /// If the client is gone.
    pub fn answer<S: AsFd>(&self, request: &Request, stream: &S, stop: &Stop) -> io::Result<()>
    where
        for<'a> &'a S: Write,
    {
        let with_body = request.method != "HEAD";
        let mut out = stream;
        let response = match self.response(request, stream, stop) {
            Ok(Answer::Response(response)) => response,
            Ok(Answer::Live(live)) if with_body => {
                return live.send(&self.source, stream, stop);
            }
            Ok(Answer::Live(_)) => Response::empty(200),
            Err(problem) => problem,
        };
        response.write(&mut out, with_body)
    }

    fn response(
        &self,
        request: &Request,
        stream: &impl AsFd,
        stop: &Stop,
    ) -> Result<Answer, Response> {
        if !["GET", "HEAD"].contains(&request.method.as_str()) {
            let why = format!("{} is not supported here, but GET", request.method);
            return Err(Response::problem(405, &why).header("Allow", "GET, HEAD".to_owned()));
        }
        let segments = request.segments();
        let [_, name] = segments.as_slice() else {
            return Err(nothing_at(request));
        };
        let known: &[&str] = match name.as_str() {
            "lines" => &["row", "view", "before", "after", "at"],
            "live" => &["row", "view", "after"],
            "search" => &["row", "view", "q"],
            "timeline" => &["span"],
            "history" => &[],
            _ => return Err(nothing_at(request)),
        };
        request.check_parameters(known).map_err(invalid)?;
        let is_over = || is_stopped(stop) || is_gone(stream);
        let response = match name.as_str() {
            "lines" => {
                let place = Place::of(request)?;
                let page = self
                    .source
                    .lines(&self.row(request)?, view(request)?, place, &is_over);
                Response::json(&page)
            }
            "live" => {
                let after = match request.header("last-event-id") {
                    Some(id) => Some(parsed("Last-Event-ID", id)?),
                    None => number(request, "after")?,
                };
                let after = after.ok_or_else(|| {
                    invalid("after: give the number of the last event".to_owned())
                })?;
                let (row, view) = (self.row(request)?, view(request)?);
                let live = live::Live::new(row, view, after);
                return Ok(Answer::Live(Box::new(live)));
            }
            "search" => {
                let typed = request.parameter("q").unwrap_or_default();
                let (row, view) = (self.row(request)?, view(request)?);
                Response::json(&self.source.search(&row, view, typed, &is_over)?)
            }
            "timeline" => {
                let span = number(request, "span")?.unwrap_or(3600);
                Response::json(&self.source.timeline(span, &self.bands, &is_over)?)
            }
            _ => {
                let now = self.source.clock.wall();
                Response::json(&latest_ended(&self.source.data, now, &is_over))
            }
        };
        Ok(Answer::Response(response))
    }

    /// Returns the row that the request names.
    fn row(&self, request: &Request) -> Result<Row, Response> {
        let id = request.parameter("row").unwrap_or_default();
        let source = (&self.source.find, &self.source.clock);
        let found = find_row(source, &self.source.data, id);
        found.ok_or_else(|| Response::problem(404, &format!("no row is called {id:?}")))
    }
}

/// An answer to a request.
enum Answer {
    Response(Response),
    /// A stream, which ends with the client.
    Live(Box<live::Live>),
}

fn nothing_at(request: &Request) -> Response {
    Response::problem(404, &format!("there is nothing at {}", request.path))
}
