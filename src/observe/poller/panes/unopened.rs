//! A pane that awaits its first capture.

use std::time::Instant;

use crate::tmux::{Margin, PaneState};

/// A pane that the next capture opens.
pub(super) struct UnopenedPane {
    /// The depth of that capture.
    pub margin: Margin,
    /// The pane's state in the listing.
    pub state: PaneState,
    /// The pane is reported from its first line.
    pub is_fresh: bool,
    /// The time before which its pipe is not opened.
    pub pipe_after: Option<Instant>,
}
