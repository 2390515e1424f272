//! Lends the terminal to other programs: to the shell on Ctrl-Z, to tmux on a jump.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crossbeam_channel::{Receiver, select_biased};

use super::terminal::{LoanEnd, Terminal};
use crate::api::real;
use crate::board::Row;
use crate::clock::Clock;
use crate::error::Result;
use crate::event::PaneId;
use crate::process::{is_typed_at, stop_own_group};
use crate::tmux::Server;

/// The interval of checks for the return to the foreground.
const BACKGROUND_CHECK: Duration = Duration::from_millis(100);

/// The reason why a pane cannot be shown or typed into.
pub(super) const UNKNOWN_SERVER: &str = "the tmux server of this pane is not known";

/// Stops the whole job until `fg`. A signal ends the program also in the background, where it must not touch
/// the terminal.
pub(super) fn suspend(
    terminal: &mut Terminal,
    ended: &Receiver<i32>,
    clock: &Clock,
) -> Result<LoanEnd<()>> {
    terminal.lend(|| {
        stop_own_group();
        while !is_typed_at() {
            select_biased! {
                recv(ended) -> _ => return LoanEnd::Over,
                recv(clock.after(BACKGROUND_CHECK)) -> _ => {}
            }
        }
        LoanEnd::Back(())
    })
}

/// Shows a row's pane: by switching the tmux client of the pane `own` if both belong to the same server,
/// otherwise by attaching. The inner error is the reason why the pane cannot be shown.
pub(super) fn jump(
    row: &Row,
    own: Option<&(PathBuf, PaneId)>,
    terminal: &mut Terminal,
    ended: &Receiver<i32>,
    clock: &Clock,
) -> Result<LoanEnd<std::result::Result<(), String>>> {
    let (Some(pane), Some(socket)) = (&row.pane, &row.server) else {
        return Ok(LoanEnd::Back(Err(UNKNOWN_SERVER.to_owned())));
    };
    let server = Server::socket(socket);
    if let Some((own_socket, own)) = own
        && real(own_socket) == real(Path::new(&socket))
    {
        let switched = server.switch_client(own, pane, clock);
        return Ok(LoanEnd::Back(
            switched.map_err(|error| format!("{error:?}")),
        ));
    }
    terminal.lend(|| match server.attach(pane, clock, ended) {
        Ok(None) => LoanEnd::Over,
        Ok(Some(status)) if status.success() => LoanEnd::Back(Ok(())),
        Ok(Some(status)) => LoanEnd::Back(Err(format!("tmux attach-session ended with {status}"))),
        Err(error) => LoanEnd::Back(Err(format!("{error:?}"))),
    })
}
