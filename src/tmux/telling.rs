//! An answer to a question about a session, while the looks for it are taken.

use super::ask::{Asker, PaneAnswer, SessionAnswer};
use super::capture::Shot;
use super::state::PaneState;

/// An answer in the making.
#[derive(Debug)]
pub(super) struct Telling {
    pub asker: Asker<SessionAnswer>,
    pub answer: SessionAnswer,
    /// Looks that are to be taken, with what the listing had of their panes.
    pub looks: Vec<(PaneState, Shot)>,
    /// A history grew by an eighth of what it holds.
    pub flood: bool,
}

impl Telling {
    /// Whether somebody still waits for it.
    pub fn is_awaited(&self) -> bool {
        self.asker.is_there()
    }

    /// Adds what a look showed.
    pub fn add(&mut self, pane: PaneAnswer) {
        if let SessionAnswer::There { panes, .. } = &mut self.answer {
            panes.push(pane);
        }
    }

    pub fn fail(self, error: crate::error::Error) {
        self.asker.answer(Err(error));
    }

    /// All looks have been taken.
    pub fn tell(mut self) {
        if let SessionAnswer::There { panes, .. } = &mut self.answer {
            // As the listing has them: by window and place.
            panes.sort_by_key(|pane| {
                let state = pane.state();
                (state.window_index, state.pane_index, state.pane_number())
            });
        }
        self.asker.answer(Ok(self.answer));
    }
}
