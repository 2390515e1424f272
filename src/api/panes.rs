//! The panes of the observed tmux servers: finds the target of a request, and parses request bodies.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::response::Response;
use crate::clock::Clock;
use crate::error::Error;
use crate::event::PaneId;
use crate::feed::real;
use crate::redact::Rules;
use crate::thread::Stop;
use crate::tmux::{Listing, Server, Target};

/// A tmux server under observation, and its socket.
#[derive(Clone, Debug)]
pub(crate) struct ObservedServer {
    pub server: Server,
    pub socket: PathBuf,
}

/// The panes of all observed servers.
#[derive(Clone, Debug)]
pub(crate) struct Panes {
    pub servers: Vec<ObservedServer>,
    /// The redaction rules for responses.
    pub rules: Rules,
    /// Clients may type into panes.
    pub allows_input: bool,
}

/// The panes of a target, of one server.
#[derive(Debug)]
pub(super) struct FoundPanes {
    pub server: Server,
    /// The panes, at least one. The active pane of the current window comes first.
    pub panes: Vec<PaneId>,
}

impl Panes {
    /// Returns the servers, or the chosen one. Their queries end when the observer stops.
    pub fn servers(
        &self,
        chosen: Option<&Path>,
        stop: &Stop,
    ) -> Result<Vec<ObservedServer>, Response> {
        let is_chosen =
            |of: &&ObservedServer| chosen.is_none_or(|socket| real(socket) == real(&of.socket));
        let found = self.servers.iter().filter(is_chosen);
        let found = found.map(|of| ObservedServer {
            server: of.server.clone().until(stop.clone()),
            socket: of.socket.clone(),
        });
        let found: Vec<ObservedServer> = found.collect();
        match (found.is_empty(), chosen) {
            (true, Some(socket)) => Err(Response::problem(
                404,
                &format!("no server at {socket:?} is observed: see /healthz"),
            )),
            _ => Ok(found),
        }
    }

    /// Finds the panes of a target among all servers; also returns the socket of their server.
    ///
    /// # Errors
    /// The response to send instead: 404 if there are none, 409 if several servers have some.
    pub(super) fn find(
        &self,
        target: &Target,
        chosen: Option<&Path>,
        (stop, clock): (&Stop, &Clock),
    ) -> Result<(PathBuf, FoundPanes), Response> {
        let mut found = Vec::new();
        for ObservedServer { server, socket } in self.servers(chosen, stop)? {
            let listing = match Listing::fetch(&server, clock) {
                Ok(listing) => listing,
                Err(error) if error.is_gone() => continue,
                Err(error) => return Err(failed(&error)),
            };
            let mut panes = target.resolve(&listing);
            panes.sort_by_key(|pane| !(pane.window_active && pane.pane_active));
            if !panes.is_empty() {
                let panes = panes.iter().map(|state| state.pane()).collect();
                found.push((socket, FoundPanes { server, panes }));
            }
        }
        require_single(target, found)
    }

    /// Returns an error unless input is allowed.
    pub fn check_input(&self) -> Result<(), Response> {
        match self.allows_input {
            true => Ok(()),
            false => Err(Response::problem(
                403,
                "this observer types nothing: end it with td-observe stop, and allow input with td-observe start --allow-input",
            )),
        }
    }
}

/// Returns the result of the server that has the target, which must be the only one, and its socket.
pub(super) fn require_single<T>(
    target: &Target,
    mut found: Vec<(PathBuf, T)>,
) -> Result<(PathBuf, T), Response> {
    if found.len() > 1 {
        let sockets: Vec<String> = found
            .iter()
            .map(|(socket, _)| socket.display().to_string())
            .collect();
        let why = format!(
            "{} servers have {:?}: choose one with ?socket=PATH, of {}",
            found.len(),
            target.as_str(),
            sockets.join(", ")
        );
        return Err(Response::problem(409, &why));
    }
    found.pop().ok_or_else(|| {
        let why = format!(
            "no observed server has {:?}: see /api/v1/board",
            target.as_str()
        );
        Response::problem(404, &why)
    })
}

/// Parses a target in a request path.
pub(super) fn target(id: &str) -> Result<Target, Response> {
    Target::parse(id).map_err(|error| {
        let why = format!("{error}; in a path, % is written as %25, so that %3 is %253");
        Response::problem(400, &why)
    })
}

/// Parses a body, which must be a JSON object.
pub(super) fn body<T: DeserializeOwned>(body: &[u8]) -> Result<T, Response> {
    // serde would also accept an array.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(Response::problem(400, "the body is no JSON object"));
    }
    serde_json::from_slice(body)
        .map_err(|error| Response::problem(400, &format!("the body cannot be used: {error}")))
}

/// Returns the response to a request for which tmux failed.
pub(super) fn failed(error: &Error) -> Response {
    let status = match (error.is_timeout(), error.is_gone()) {
        (true, _) => 504,
        (_, true) => 404,
        _ => 500,
    };
    Response::problem(status, &error.to_string())
}
