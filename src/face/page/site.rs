//! What `td-observe serve` answers: the files of the page, what the page shows, and the API of the observer.

use std::io;

use serde_json::{Value, json};

use super::assets::{self, Asset};
use super::data::PageData;
use crate::api::{
    FindObserver, Gate, Observer, Request, Response, Routes, Service, Slots, Stream, forward,
    input_beside,
};
use crate::board::is_elsewhere;
use crate::clock::Clock;
use crate::thread::Stop;

/// The service behind the address of the page.
pub(crate) struct Site {
    pub gate: Gate,
    pub find: FindObserver,
    /// The page may type into panes.
    pub allows_input: bool,
    /// The name of this machine.
    pub host: String,
    pub slots: Slots,
    pub clock: Clock,
    pub data: PageData,
}

impl Service for Site {
    fn answer(
        &self,
        request: &Request,
        body: &[u8],
        stream: &Stream,
        stop: &Stop,
    ) -> io::Result<()> {
        let segments = request.segments();
        let path: Vec<&str> = segments.iter().map(String::as_str).collect();
        let response = match self.checked(request, &path) {
            Ok(Some(asset)) => asset.response(),
            Ok(None) => match path.as_slice() {
                ["page", "about"] => self.about(),
                ["page", ..] => return self.data.answer(request, stream, stop),
                ["api" | "healthz" | "metrics", ..] => {
                    return self.api(request, (&path, body), stream, stop);
                }
                _ => Response::problem(404, &format!("there is nothing at {}", request.path)),
            },
            Err(response) => response,
        };
        let mut stream = stream;
        response.write(&mut stream, request.method != "HEAD")
    }
}

impl Site {
    /// Checks a request; returns the file that it asks for, if it asks for one. Those are no secret, and a browser
    /// sends no token for them.
    fn checked(
        &self,
        request: &Request,
        path: &[&str],
    ) -> Result<Option<&'static Asset>, Response> {
        self.gate.check_place(request)?;
        match assets::find(path) {
            Some(_) if !matches!(request.method.as_str(), "GET" | "HEAD") => {
                let why = format!("{} is not supported here, but GET, HEAD", request.method);
                Err(Response::problem(405, &why).header("Allow", "GET, HEAD".to_owned()))
            }
            Some(asset) => Ok(Some(asset)),
            None => self.gate.check_token(request).map(|()| None),
        }
    }

    fn about(&self) -> Response {
        Response::json(&json!({
            "version": env!("CARGO_PKG_VERSION"),
            "allow_input": self.allows_input,
            "host": self.host,
            "page": assets::tag(),
        }))
    }

    /// Answers a request for the API. Whether it may type is this server's affair.
    fn api(
        &self,
        request: &Request,
        (path, body): (&[&str], &[u8]),
        mut stream: &Stream,
        stop: &Stop,
    ) -> io::Result<()> {
        let with_body = request.method != "HEAD";
        let types = match path {
            ["api", "v1", "panes", _, "input"] => request.method == "POST",
            ["api", "v1", "wait"] => sends_text(body),
            _ => false,
        };
        if types && !self.allows_input {
            let why = "this server types nothing: td-observe serve --allow-input lets it";
            return Response::problem(403, why).write(&mut stream, with_body);
        }
        match ((self.find)(), path) {
            (Ok(Observer::Here(context)), _) => {
                let about = json!({
                    "pid": std::process::id(),
                    "data_dir": context.feed.data().path(),
                    "version": env!("CARGO_PKG_VERSION"),
                    "allow_input": self.allows_input,
                });
                let slots = self.slots.clone();
                let routes = Routes {
                    context,
                    slots,
                    about,
                };
                routes.answer(request, body, stream, stop)
            }
            (Ok(Observer::At(socket)), ["api", "v1", "panes", id, "input"])
                if request.method == "POST" && !is_for_host(request) =>
            {
                let typed = (*id, request, body);
                input_beside(&socket, typed, (stop, &self.clock)).write(&mut stream, with_body)
            }
            (Ok(Observer::At(socket)), _) => forward(&socket, request, body, stream, stop),
            (Err(why), _) => Response::problem(503, &why).write(&mut stream, with_body),
        }
    }
}

/// Returns true if a request is for a tmux server on another host, whose observer types.
fn is_for_host(request: &Request) -> bool {
    request.parameter("socket").is_some_and(is_elsewhere)
}

/// Returns true if the body of a wait has a text to type.
fn sends_text(body: &[u8]) -> bool {
    let body: Result<Value, _> = serde_json::from_slice(body);
    // What is no JSON is refused as such by the API.
    body.is_ok_and(|body| body.get("send").is_some_and(|text| !text.is_null()))
}
