//! Types into a pane beside the observer: a face on the same machine types through tmux itself, and reads only the
//! questions from the observer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::client::get_board;
use super::http::{Request, Response};
use super::panes::{ObservedServer, Panes, input};
use crate::board::Row;
use crate::clock::Clock;
use crate::error::Result;
use crate::event::PaneId;
use crate::redact::Rules;
use crate::thread::Stop;
use crate::tmux::Server;

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
    let row_of = |pane: &PaneId, socket: &Path| {
        let now = board_rows(observer)?.into_iter().find(|row| {
            let is_there = row.pane.as_ref() == Some(pane) && !row.has_ended();
            is_there && (row.server.as_ref()).is_some_and(|server| Path::new(server) == socket)
        });
        Ok(now)
    };
    input(&panes, &row_of, typed, (stop, clock))
}

fn board_rows(observer: &Path) -> Result<Vec<Row>> {
    let board = get_board(observer, None, Duration::ZERO)?;
    Ok(board.map(|(rows, _)| rows).unwrap_or_default())
}
