//! Who listens to the panes of a session beside its events: waits, which must not miss a line.

use std::time::Instant;

use super::{PaneSlot, SessionPanes};
use crate::event::PaneId;
use crate::observe::pane_observer::listener::{OpeningListener, PaneListener, StateListener};
use crate::tmux::DrainOrder;

impl SessionPanes {
    /// Adds a listener to a pane; drops it if the pane is not streamed.
    pub fn listen(&mut self, id: &PaneId, listener: Box<dyn PaneListener>, now: Instant) {
        let Some(pane) = self.slots.get_mut(id).and_then(PaneSlot::open_mut) else {
            return;
        };
        if pane.listen(listener, now)
            && let (Some(pipes), Some(token)) = (&self.pipes, pane.pipe())
        {
            pipes.drains.order(DrainOrder::Mark(token.clone()));
        }
    }

    /// Adds a listener of panes that open from now on.
    pub fn listen_to_openings(&mut self, listener: Box<dyn OpeningListener>) {
        self.openings.retain(|opening| opening.is_wanted());
        self.openings.push(listener);
    }

    /// Adds a listener of a pane's states; drops it if they are not observed.
    pub fn listen_to_states(&mut self, id: &PaneId, listener: Box<dyn StateListener>) {
        if let Some(pane) = self.slots.get_mut(id).and_then(PaneSlot::open_mut) {
            pane.listen_to_states(listener);
        }
    }
}
