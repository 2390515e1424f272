//! The panes of the observed servers, as requests name them, and the bodies of those requests.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::request::Request;
use super::response::Response;
use crate::clock::Clock;
use crate::error::Error;
use crate::event::PaneId;
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
    /// The rules for what leaves the observer.
    pub rules: Rules,
    /// Clients may type.
    pub allows_input: bool,
}

/// The panes of a target, of one server.
#[derive(Debug)]
pub(super) struct FoundPanes {
    pub server: Server,
    pub socket: PathBuf,
    /// At least one; the one that a client of tmux has comes first.
    pub panes: Vec<PaneId>,
}

impl Panes {
    /// Returns the servers that a request means, which end their queries with the observer.
    pub fn servers(&self, request: &Request, stop: &Stop) -> Result<Vec<ObservedServer>, Response> {
        let chosen = request.parameter("socket").map(Path::new);
        let is_chosen = |of: &&ObservedServer| {
            chosen.is_none_or(|socket| {
                let real = |path: &Path| std::fs::canonicalize(path).ok();
                socket == of.socket
                    || real(socket).is_some_and(|real_one| real(&of.socket) == Some(real_one))
            })
        };
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

    /// Finds the panes of a target among all servers.
    ///
    /// # Errors
    /// The response to send instead: 404 if there are none, 409 if several servers have some.
    pub(super) fn find(
        &self,
        target: &Target,
        request: &Request,
        (stop, clock): (&Stop, &Clock),
    ) -> Result<FoundPanes, Response> {
        let mut found = Vec::new();
        for ObservedServer { server, socket } in self.servers(request, stop)? {
            let listing = match Listing::fetch(&server, clock) {
                Ok(listing) => listing,
                Err(error) if error.is_gone() => continue,
                Err(error) => return Err(failed(&error)),
            };
            let mut panes = target.resolve(&listing);
            panes.sort_by_key(|pane| !(pane.window_active && pane.pane_active));
            if !panes.is_empty() {
                let panes = panes.iter().map(|state| state.pane()).collect();
                let of = FoundPanes {
                    server,
                    socket: socket.clone(),
                    panes,
                };
                found.push((socket, of));
            }
        }
        only(target, found)
    }

    /// Refuses input unless it is allowed.
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

/// Returns what was found at the only server that has it.
///
/// # Errors
/// The response to send instead.
pub(super) fn only<T>(target: &Target, mut found: Vec<(PathBuf, T)>) -> Result<T, Response> {
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
    found.pop().map(|(_, found)| found).ok_or_else(|| {
        let why = format!(
            "no observed server has {:?}: see /api/v1/board",
            target.as_str()
        );
        Response::problem(404, &why)
    })
}

/// Reads a target that is a part of a path.
pub(super) fn target(id: &str) -> Result<Target, Response> {
    Target::parse(id).map_err(|error| {
        let why = format!("{error}; in a path, % is written as %25, so that %3 is %253");
        Response::problem(400, &why)
    })
}

/// Reads a body, which is one JSON object.
pub(super) fn body<T: DeserializeOwned>(body: &[u8]) -> Result<T, Response> {
    // A structure could also be read from an array.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(Response::problem(400, "the body is no JSON object"));
    }
    serde_json::from_slice(body)
        .map_err(|error| Response::problem(400, &format!("the body cannot be used: {error}")))
}

/// Returns the answer to a request that tmux failed.
pub(super) fn failed(error: &Error) -> Response {
    let status = match (error.is_timeout(), error.is_gone()) {
        (true, _) => 504,
        (_, true) => 404,
        _ => 500,
    };
    Response::problem(status, &error.to_string())
}
