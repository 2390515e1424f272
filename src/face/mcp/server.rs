//! What the server is given.

use crate::api::FindObserver;
use crate::board::Place;
use crate::clock::Clock;
use crate::history::DataDir;

/// What the server is given.
pub(crate) struct McpServer {
    /// Finds the observer, and starts one if none runs.
    pub find: FindObserver,
    pub data: DataDir,
    pub allows_input: bool,
    /// If not empty: it types only into these targets.
    pub only: Vec<String>,
    /// The pane in which the client runs.
    pub own: Option<Place>,
    /// It tells Claude Code when a row begins to need someone.
    pub has_channel: bool,
    pub clock: Clock,
}
