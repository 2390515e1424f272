//! What a face does through an observer, here or at a socket: it types into panes, and waits.

#[cfg(feature = "mcp")]
use std::cell::Cell;
use std::path::Path;

#[cfg(feature = "mcp")]
use serde_json::Value;
use serde_json::json;

use super::access::Observer;
use super::beside::row_of_place;
use super::client::post;
#[cfg(feature = "mcp")]
use super::client::wait_at;
use super::http::percent_encoded;
use super::typing::Input;
#[cfg(feature = "mcp")]
use super::wait::wait_here;
#[cfg(feature = "mcp")]
use super::wait_client::WaitReport;
use crate::board::Place;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::PaneId;
use crate::thread::Stop;
#[cfg(feature = "mcp")]
use crate::thread::is_stopped;
use crate::tmux::{Server, Typing};
#[cfg(feature = "mcp")]
use crate::wait::WaitOutcome;

impl Observer {
    /// Types into a pane through tmux itself, as a face on the same machine does: only the questions are read from the
    /// observer, and whether the face may type is its own affair. On another host, its observer types, if it lets clients.
    ///
    /// # Errors
    /// Those of [`Input::send`].
    pub fn send(
        &self,
        place: &Place,
        input: &Input<'_>,
        (stop, clock): (&Stop, &Clock),
    ) -> Result<PaneId> {
        if let (true, Self::At(observer)) = (place.is_elsewhere(), self) {
            return type_elsewhere(observer, place, input);
        }
        let socket = Path::new(&place.server);
        let server = Server::socket(socket).until(stop.clone());
        let row_of = |pane: &PaneId| match self {
            Self::Here(context) => Ok(context.row_of(pane, socket)),
            Self::At(observer) => row_of_place(observer, pane, socket),
        };
        let panes = std::slice::from_ref(&place.pane);
        input.send((&server, panes), &row_of, (stop, clock))
    }

    /// Waits on a target of a tmux server, in the observer, which streams its panes. The body has the conditions of
    /// `POST /api/v1/wait`, and the text that `begun` types, if there is one, as `sent`. Once everything that is printed
    /// counts, `begun` is called; if it returns false, the wait ends. Returns `None` if it did, or after a stop.
    ///
    /// # Errors
    /// The reason in words: the observer refuses the wait, or does not answer.
    #[cfg(feature = "mcp")]
    pub fn wait(
        &self,
        server: &Path,
        body: &Value,
        begun: &(dyn Fn() -> bool + Sync),
        (stop, clock): (&Stop, &Clock),
    ) -> std::result::Result<Option<WaitOutcome>, String> {
        match self {
            Self::Here(context) => wait_here(context, (server, body), begun, stop),
            Self::At(observer) => {
                let is_refused = Cell::new(false);
                let report = |report| {
                    if report == WaitReport::Begun && !begun() {
                        is_refused.set(true);
                    }
                };
                let is_over = || is_stopped(stop) || is_refused.get();
                wait_at(observer, (server, body), (&report, &is_over), clock)
            }
        }
    }
}

/// Has the observer of another host type into a pane.
fn type_elsewhere(observer: &Path, place: &Place, input: &Input<'_>) -> Result<PaneId> {
    let mut body = match &input.typing {
        Typing::Text { text, .. } if input.may_leave_enter => json!({"text": text}),
        Typing::Text {
            text,
            presses_enter,
        } => json!({"text": text, "enter": presses_enter}),
        Typing::Keys(keys) | Typing::Choice(keys) => json!({"keys": keys}),
    };
    if let Some(answers) = input.answers {
        body["answers"] = json!(answers);
    }
    let (pane, server) = (percent_encoded(&place.pane), percent_encoded(&place.server));
    let path = format!("/api/v1/panes/{pane}/input?socket={server}");
    let answer = post(observer, &path, &body)?;
    match answer.status {
        200 => Ok(place.pane.clone()),
        _ => Err(Error::invalid(answer.problem())),
    }
}
