//! The pane in which a command or a loop runs (pure).

use serde::{Deserialize, Serialize};

use crate::event::PaneId;

/// A pane of a tmux server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Place {
    /// The socket of the server.
    pub server: String,
    /// The pane.
    pub pane: PaneId,
}
