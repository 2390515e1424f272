//! Shows the pane of a row: in the client of this terminal, by attaching to its server, or through ssh.

use std::path::{Path, PathBuf};

use crossbeam_channel::Receiver;

use super::terminal::Terminal;
use crate::board::{Place, Row};
use crate::child::TerminalProgram;
use crate::clock::Clock;
use crate::error::Result;
use crate::event::PaneId;
use crate::feed::real;
use crate::tmux::Server;

/// The reason why a pane cannot be shown or typed into.
pub(super) const UNKNOWN_SERVER: &str = "the tmux server of this pane is not known";

/// Returns the program that shows a pane of another host on this terminal.
pub(super) type Visit = dyn Fn(&Row, &Place) -> std::result::Result<TerminalProgram, String>;

/// The terminal of the UI within tmux.
pub(crate) struct OwnTerminal {
    /// The socket of the tmux server.
    pub server: PathBuf,
    /// The pane; `None` for a popup, which covers the panes until the UI ends.
    pub pane: Option<PaneId>,
}

/// Where a pane is shown now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    InView,
    /// The UI runs in a popup that covers it.
    BehindPopup,
}

/// Shows a pane of another host until its user detaches.
fn visit_host(
    program: TerminalProgram,
    terminal: &mut Terminal,
    ended: &Receiver<i32>,
) -> Result<Option<std::result::Result<Shown, String>>> {
    terminal.lend(|| match program.run(ended) {
        Ok(None) => None,
        Ok(Some(status)) if status.success() => Some(Ok(Shown::InView)),
        Ok(Some(status)) => Some(Err(format!("ssh ended with {status}"))),
        Err(error) => Some(Err(format!("{error:?}"))),
    })
}

/// Shows a row's pane: by switching the tmux client that shows the UI if both belong to the same server,
/// otherwise by attaching. The inner error is the reason why the pane cannot be shown.
pub(super) fn jump(
    row: &Row,
    (own, visit): (Option<&OwnTerminal>, Option<&Visit>),
    terminal: &mut Terminal,
    ended: &Receiver<i32>,
    clock: &Clock,
) -> Result<Option<std::result::Result<Shown, String>>> {
    let Some(place) = row.place().or_else(|| row.in_pane.clone()) else {
        return Ok(Some(Err(UNKNOWN_SERVER.to_owned())));
    };
    if place.is_elsewhere() {
        let program = match visit {
            Some(visit) => visit(row, &place),
            None => Err("this host cannot be visited from here".to_owned()),
        };
        return match program {
            Ok(program) => visit_host(program, terminal, ended),
            Err(why) => Ok(Some(Err(why))),
        };
    }
    let (pane, socket) = (&place.pane, &place.server);
    let server = Server::socket(socket);
    if let Some(own) = own
        && real(&own.server) == real(Path::new(&socket))
    {
        let shown = match own.pane {
            Some(_) => Shown::InView,
            None => Shown::BehindPopup,
        };
        let switched = server.switch_own_client(own.pane.as_ref(), pane, clock);
        return Ok(Some(match switched {
            Ok(()) => Ok(shown),
            Err(error) => Err(format!("{error:?}")),
        }));
    }
    terminal.lend(|| match server.attach(pane, clock, ended) {
        Ok(None) => None,
        Ok(Some(status)) if status.success() => Some(Ok(Shown::InView)),
        Ok(Some(status)) => Some(Err(format!("tmux attach-session ended with {status}"))),
        Err(error) => Some(Err(format!("{error:?}"))),
    })
}
