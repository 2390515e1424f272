//! Looks that are to be taken, and the sessions that wait for them.

use super::ask::{PaneAnswer, again};
use super::capture::Shot;
use super::state::PaneState;
use super::telling::Telling;
use crate::error::Result;

/// A session that is being looked at.
pub(super) struct Visit {
    pub telling: Telling,
    /// Looks that are still to be taken.
    pub left: usize,
}

impl Visit {
    /// Adds what a look showed, and answers if that was the last; gives itself back otherwise.
    fn shown(mut self, answer: &Result<Option<PaneAnswer>>) -> Option<Self> {
        match answer {
            Ok(Some(pane)) => self.telling.add(pane.clone()),
            // A pane that is not in the answer is gone.
            Ok(None) => {}
            Err(error) => {
                self.telling.fail(again(error));
                return None;
            }
        }
        self.left -= 1;
        if self.left == 0 {
            self.telling.tell();
            return None;
        }
        Some(self)
    }
}

/// A look that is to be taken.
pub(super) struct Task {
    /// Who waits for it.
    pub visits: Vec<usize>,
    pub listed: PaneState,
    pub shot: Shot,
}

impl Task {
    /// Serves one more.
    pub fn join(&mut self, visit: usize, shot: &Shot) {
        self.visits.push(visit);
        self.shot.depth = self.shot.depth.max(shot.depth);
        self.shot.saved |= shot.saved;
        self.shot.seam = self.shot.seam.take().or_else(|| shot.seam.clone());
    }

    /// Tells those who wait for it.
    pub fn tell(&self, visits: &mut [Option<Visit>], answer: &Result<Option<PaneAnswer>>) {
        for at in &self.visits {
            let visit = visits[*at].take();
            visits[*at] = visit.and_then(|visit| visit.shown(answer));
        }
    }
}
