//! The pane in which a command or a loop runs (pure).

use serde::{Deserialize, Serialize};

use crate::event::PaneId;

/// A pane of a tmux server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Place {
    /// The socket of the server: a path, which begins with a host and a colon if it is on another one.
    pub server: String,
    /// The pane.
    pub pane: PaneId,
}

impl Place {
    /// Returns true if the server is on another host.
    #[cfg(any(feature = "mcp", feature = "tui"))]
    pub(crate) fn is_elsewhere(&self) -> bool {
        is_elsewhere(&self.server)
    }
}

/// Returns true if a tmux server's socket is on another host. Those of this one are absolute paths.
#[cfg(any(feature = "mcp", feature = "serve", feature = "tui"))]
pub(crate) fn is_elsewhere(server: &str) -> bool {
    !server.starts_with('/')
}
