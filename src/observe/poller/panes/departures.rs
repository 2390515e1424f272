//! Panes that leave their session: their last bytes are awaited, then they are closed or handed over.

use std::collections::HashMap;
use std::time::Instant;

use super::{ReplyContext, SessionPanes};
use crate::event::PaneId;
use crate::observe::pane_observer::Begin;
use crate::observe::pane_observer::Pane;
use crate::observe::session_outcome::SessionOutcome;
use crate::tmux::{DepartedPane, PaneCapture, bytes_read_by};
use crate::track::{Capture, PaneNumbers, Row};

impl SessionPanes {
    /// Handles that a pane is no longer in the session.
    pub(super) fn pane_departed(
        &mut self,
        id: &PaneId,
        departed: &HashMap<PaneId, DepartedPane>,
        now: Instant,
    ) {
        let Some(pane) = self.panes.remove(id) else {
            return;
        };
        let departed = departed.get(id).copied();
        if pane.is_streamed() {
            // A pane that moves to another session is released at once.
            if let Some((pipes, token)) = self.pipes.as_ref().zip(pane.pipe())
                && departed.is_some_and(|departed| departed.moved)
            {
                pipes.finish(token);
            }
        }
        self.begin_departure(id, pane, departed, now);
    }

    /// Closes a pane, or keeps it until its last bytes have arrived and its program's end is known.
    fn begin_departure(
        &mut self,
        id: &PaneId,
        mut pane: Pane,
        departed: Option<DepartedPane>,
        now: Instant,
    ) {
        pane.mark_gone(bytes_read_by(self.config.server_pid), now);
        self.programs.pane_closed(id, now);
        let is_moved = departed.is_some_and(|departed| departed.moved);
        if pane.is_streamed() || !is_moved && !self.programs.is_end_known(id, now) {
            self.leaving.insert(id.clone(), (pane, departed));
        } else {
            self.finish_departure(id, pane, departed, now);
        }
    }

    /// Closes a pane of which nothing more can be learned, or hands it over to another session.
    pub(super) fn finish_departure(
        &mut self,
        id: &PaneId,
        mut pane: Pane,
        departed: Option<DepartedPane>,
        now: Instant,
    ) {
        if let Some((pipes, token)) = self.pipes.as_mut().zip(pane.pipe()) {
            pipes.close(token);
        }
        let ending = self.programs.close(id, now);
        self.config.conversations.forget(id);
        let (emitter, may_wait) = (&mut self.emitter, self.pipes.is_some());
        if departed.is_some_and(|departed| departed.moved) {
            emitter.collect(id, may_wait, now, |out| pane.leave(out));
            let resume_point = emitter.resume_points.remove(id).unwrap_or_default();
            self.config.transfers.leave(id, pane, resume_point);
            return;
        }
        self.config.transfers.forget(id);
        if let Some(proof) = departed.and_then(|departed| departed.freshness) {
            pane.confirm_unchanged(proof);
        }
        for job in ending.jobs {
            emitter.emit_job(id, job);
        }
        emitter.collect(id, may_wait, now, |out| {
            if let Some(death) = ending.death {
                pane.program_ended(death, out);
            }
            pane.close(out);
        });
        emitter.resume_points.remove(id);
        self.outcome
            .program_ended(pane.death(), ending.is_interactive);
        if let Some(recording) = &mut self.config.recording {
            recording.end(id, pane.exit_status());
        }
    }

    /// Handles a new pane that ended before its first capture: all its output is missing.
    pub(super) fn handle_vanished(
        &mut self,
        id: &PaneId,
        departed: &HashMap<PaneId, DepartedPane>,
        now: Instant,
    ) {
        let Some(unopened) = self.unopened.remove(id) else {
            return;
        };
        if !unopened.is_fresh || departed.get(id).is_some_and(|departed| departed.moved) {
            return;
        }
        let capture = Capture {
            numbers: PaneNumbers {
                width: unopened.state.width,
                height: unopened.state.height,
                ..PaneNumbers::default()
            },
            rows: vec![Row::default(); unopened.state.height as usize],
            ..Capture::default()
        };
        let mut captured = PaneCapture {
            state: unopened.state,
            capture,
            ..PaneCapture::default()
        };
        let context = ReplyContext {
            name: "",
            first: false,
            again: true,
            now,
        };
        if let Some(mut pane) = self.open(id, &mut captured, &Begin::Fresh, context) {
            pane.mark_output_missing(now);
            self.begin_departure(id, pane, None, now);
        }
    }

    /// Handles the end of the session: its panes have ended or moved.
    pub fn close(&mut self, departed: &HashMap<PaneId, DepartedPane>, now: Instant) {
        let uncaptured: Vec<PaneId> = self.unopened.keys().cloned().collect();
        for id in uncaptured {
            self.handle_vanished(&id, departed, now);
        }
        let mut ids: Vec<PaneId> = self.panes.keys().cloned().collect();
        ids.sort();
        for id in ids {
            self.pane_departed(&id, departed, now);
        }
    }

    /// Returns the outcome of the session's programs that have ended so far.
    pub fn outcome(&self) -> SessionOutcome {
        self.outcome
    }

    /// Stops observing the panes, which continue.
    pub fn detach(&mut self, now: Instant) {
        self.detach_leaving(now);
        for (id, mut pane) in self.panes.drain() {
            self.config.transfers.forget(&id);
            self.emitter
                .collect(&id, self.pipes.is_some(), now, |out| pane.detach(out));
        }
    }

    /// Requests the bytes that the drains hold, before the observer stops.
    pub fn finish(&mut self) {
        if let Some(pipes) = &self.pipes {
            let streamed = self.panes.values().filter(|pane| pane.is_streamed());
            streamed
                .filter_map(Pane::pipe)
                .for_each(|token| pipes.finish(token));
        }
    }

    /// Returns true if bytes or exits are still to be awaited at the end.
    pub fn has_pending_bytes(&self) -> bool {
        let mut streamed = self.panes.values().filter(|pane| pane.is_streamed());
        !self.leaving.is_empty() || streamed.next().is_some()
    }

    /// Emits delayed output of departed panes, and closes those that are complete.
    pub(super) fn emit_leaving(&mut self, now: Instant) {
        for (id, (pane, _)) in &mut self.leaving {
            self.emitter.collect(id, self.pipes.is_some(), now, |out| {
                pane.handle_timeout(out)
            });
        }
        let complete = self.leaving.iter().filter(|(id, (pane, departed))| {
            let is_moved = departed.is_some_and(|departed| departed.moved);
            !pane.is_streamed() && (is_moved || self.programs.is_end_known(id, now))
        });
        let complete: Vec<PaneId> = complete.map(|(id, _)| id.clone()).collect();
        for id in complete {
            if let Some((pane, departed)) = self.leaving.remove(&id) {
                self.finish_departure(&id, pane, departed, now);
            }
        }
    }

    /// Closes departed panes without waiting for their last bytes.
    pub(super) fn detach_leaving(&mut self, now: Instant) {
        for (id, (pane, departed)) in std::mem::take(&mut self.leaving) {
            self.finish_departure(&id, pane, departed, now);
        }
    }
}
