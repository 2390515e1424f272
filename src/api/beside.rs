//! Types into a pane beside the observer: a face on the same machine types through tmux itself, and reads only the
//! questions from the observer.

#[cfg(feature = "serve")]
use std::collections::BTreeSet;
use std::path::Path;
#[cfg(feature = "serve")]
use std::path::PathBuf;
use std::time::Duration;

use super::client::get_board;
#[cfg(feature = "serve")]
use super::http::{Request, Response};
#[cfg(feature = "serve")]
use super::panes::{ObservedServer, Panes, input};
use crate::board::Row;
#[cfg(feature = "serve")]
use crate::clock::Clock;
use crate::error::Result;
use crate::event::PaneId;
#[cfg(feature = "serve")]
use crate::redact::Rules;
#[cfg(feature = "serve")]
use crate::thread::Stop;
#[cfg(feature = "serve")]
use crate::tmux::Server;

#[cfg(feature = "serve")]
/// Types into a pane of a server that the observer at a socket observes, as `POST /api/v1/panes/{id}/input` does.
pub(crate) fn input_beside(
    observer: &Path,
    typed: (&str, &Request, &[u8]),
    (stop, clock): (&Stop, &Clock),
) -> Response {
    let rows = match board_rows(observer) {
        Ok(rows) => rows,
        Err(error) => return Response::problem(503, &error.to_string()),
    };
    let sockets: BTreeSet<PathBuf> = (rows.iter().filter(|row| row.is_observed()))
        .filter_map(|row| row.server.as_ref().map(PathBuf::from))
        .collect();
    let servers = sockets.into_iter().map(|socket| ObservedServer {
        server: Server::socket(&socket),
        socket,
    });
    let panes = Panes {
        servers: servers.collect(),
        // Nothing that a pane shows is returned.
        rules: Rules::builtin(),
        allows_input: true,
    };
    let row_of = |pane: &PaneId, socket: &Path| row_of_place(observer, pane, socket);
    input(&panes, &row_of, typed, (stop, clock))
}

/// Returns the present row of a pane of the tmux server at a socket, on the board of the observer at another.
pub(super) fn row_of_place(observer: &Path, pane: &PaneId, socket: &Path) -> Result<Option<Row>> {
    let mut rows = board_rows(observer)?.into_iter();
    Ok(rows.find(|row| {
        let is_there = row.pane.as_ref() == Some(pane) && !row.has_ended();
        is_there && (row.server.as_ref()).is_some_and(|server| Path::new(server) == socket)
    }))
}

fn board_rows(observer: &Path) -> Result<Vec<Row>> {
    let board = get_board(observer, None, Duration::ZERO)?;
    Ok(board.map(|(rows, _)| rows).unwrap_or_default())
}
