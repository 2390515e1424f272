//! What a face does through an observer, here or at a socket: it types into panes, and waits.

use std::cell::Cell;
use std::path::Path;

use serde_json::Value;

use super::access::Observer;
use super::beside::row_of_place;
use super::client::wait_at;
use super::typing::Input;
use super::wait::{WaitReport, wait_here};
use crate::board::Place;
use crate::clock::Clock;
use crate::error::Result;
use crate::event::PaneId;
use crate::thread::{Stop, is_stopped};
use crate::tmux::Server;
use crate::wait::WaitOutcome;

impl Observer {
    /// Types into a pane through tmux itself, as a face on the same machine does: only the questions are read from the
    /// observer, and whether the face may type is its own affair.
    ///
    /// # Errors
    /// Those of [`Input::send`].
    pub fn send(
        &self,
        place: &Place,
        input: &Input<'_>,
        (stop, clock): (&Stop, &Clock),
    ) -> Result<PaneId> {
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
