//! Panes that leave their session: their last bytes are waited for, then they are closed or handed
//! over.

use std::collections::HashMap;
use std::time::Instant;

use super::{ReplyContext, SessionPanes};
use crate::event::PaneId;
use crate::observe::pane_observer::Begin;
use crate::observe::pane_observer::Pane;
use crate::observe::pane_output::PaneOutput;
use crate::observe::session_outcome::SessionOutcome;
use crate::tmux::{DepartedPane, PaneCapture, bytes_read_by};
use crate::track::{Capture, PaneNumbers, Row};

impl SessionPanes {
    /// A pane is no longer the session's.
    pub(super) fn close_pane(
        &mut self,
        id: &PaneId,
        left: &HashMap<PaneId, DepartedPane>,
        now: Instant,
    ) {
        let Some(pane) = self.panes.remove(id) else {
            return;
        };
        let left = left.get(id).copied();
        if pane.is_streamed() {
            // One that continues elsewhere is let go there and then.
            if let Some((pipes, token)) = self.pipes.as_ref().zip(pane.pipe())
                && left.is_some_and(|left| left.moved)
            {
                pipes.finish(token);
            }
        }
        self.parts(id, pane, left, now);
    }

    /// Its last bytes may be on their way, and its program's end may not be known yet.
    fn parts(&mut self, id: &PaneId, mut pane: Pane, left: Option<DepartedPane>, now: Instant) {
        pane.is_gone(bytes_read_by(self.config.server_pid), now);
        self.programs.pane_closed(id, now);
        let is_moved = left.is_some_and(|left| left.moved);
        if pane.is_streamed() || !is_moved && !self.programs.is_end_known(id, now) {
            self.leaving.insert(id.clone(), (pane, left));
        } else {
            self.closed(id, pane, left, now);
        }
    }

    /// All that can be known of a pane that has left is known.
    pub(super) fn closed(
        &mut self,
        id: &PaneId,
        mut pane: Pane,
        left: Option<DepartedPane>,
        now: Instant,
    ) {
        let mut resume_point = self.outputs.resume_points.remove(id).unwrap_or_default();
        if let Some((pipes, token)) = self.pipes.as_mut().zip(pane.pipe()) {
            pipes.close(token);
        }
        let ending = self.programs.close(id, now);
        self.config.conversations.forget(id);
        let mut out = PaneOutput {
            emitter: &self.outputs.emitter,
            resume_point: &mut resume_point,
            blocking: self.pipes.is_some().then_some(&mut self.outputs.blocking),
            now,
        };
        if left.is_some_and(|left| left.moved) {
            pane.leave(&mut out);
            self.config.transfers.leave(id, pane, resume_point);
            return;
        }
        self.config.transfers.forget(id);
        if let Some(proof) = left.and_then(|left| left.freshness) {
            pane.proved(proof);
        }
        for job in ending.jobs {
            out.emitter
                .emit(job.into_event(out.emitter.execution_id(), id));
        }
        if let Some(death) = ending.death {
            pane.program_ended(death, &mut out);
        }
        pane.close(&mut out);
        self.outcome
            .program_ended(pane.death(), ending.is_interactive);
        if let Some(recording) = &mut self.config.recording {
            recording.end(id, pane.exit_status());
        }
    }

    /// A pane that has just appeared is gone before it could be looked at: whatever it printed, no one
    /// saw it.
    pub(super) fn vanished(
        &mut self,
        id: &PaneId,
        left: &HashMap<PaneId, DepartedPane>,
        now: Instant,
    ) {
        let Some(to_open) = self.to_open.remove(id) else {
            return;
        };
        if !to_open.is_fresh || left.get(id).is_some_and(|left| left.moved) {
            return;
        }
        let capture = Capture {
            numbers: PaneNumbers {
                width: to_open.state.width,
                height: to_open.state.height,
                ..PaneNumbers::default()
            },
            rows: vec![Row::default(); to_open.state.height as usize],
            ..Capture::default()
        };
        let mut captured = PaneCapture {
            state: to_open.state,
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
            pane.is_missing_all(now);
            self.parts(id, pane, None, now);
        }
    }

    /// The session is gone: its panes have ended, or are another session's.
    pub fn close(&mut self, left: &HashMap<PaneId, DepartedPane>, now: Instant) {
        let never_seen: Vec<PaneId> = self.to_open.keys().cloned().collect();
        for id in never_seen {
            self.vanished(&id, left, now);
        }
        let mut ids: Vec<PaneId> = self.panes.keys().cloned().collect();
        ids.sort();
        for id in ids {
            self.close_pane(&id, left, now);
        }
    }

    /// Returns how the session's programs have ended so far.
    pub fn outcome(&self) -> SessionOutcome {
        self.outcome
    }

    /// The observer stops and the panes continue.
    pub fn detach(&mut self, now: Instant) {
        self.detach_leaving(now);
        for (id, mut pane) in self.panes.drain() {
            self.config.transfers.forget(&id);
            pane.detach(&mut self.outputs.of(&id, self.pipes.is_some(), now));
        }
    }

    /// The observer stops and the panes continue: asks for what is on its way.
    pub fn finish(&mut self) {
        if let Some(pipes) = &self.pipes {
            let streamed = self.panes.values().filter(|pane| pane.is_streamed());
            streamed
                .filter_map(Pane::pipe)
                .for_each(|token| pipes.finish(token));
        }
    }

    /// Returns whether bytes are on their way that are to be waited for at the end.
    pub fn awaits_bytes(&self) -> bool {
        let mut streamed = self.panes.values().filter(|pane| pane.is_streamed());
        !self.leaving.is_empty() || streamed.next().is_some()
    }

    /// Reports what was held back of panes that have left, and closes those of which nothing comes.
    pub(super) fn emit_leaving(&mut self, now: Instant) {
        for (id, (pane, _)) in &mut self.leaving {
            pane.emit_due(&mut self.outputs.of(id, self.pipes.is_some(), now));
        }
        let over = self.leaving.iter().filter(|(id, (pane, left))| {
            let is_moved = left.is_some_and(|left| left.moved);
            !pane.is_streamed() && (is_moved || self.programs.is_end_known(id, now))
        });
        let over: Vec<PaneId> = over.map(|(id, _)| id.clone()).collect();
        for id in over {
            if let Some((pane, left)) = self.leaving.remove(&id) {
                self.closed(&id, pane, left, now);
            }
        }
    }

    /// Detaches from panes that have left: their last bytes are not waited for any more.
    pub(super) fn detach_leaving(&mut self, now: Instant) {
        for (id, (pane, left)) in std::mem::take(&mut self.leaving) {
            self.closed(&id, pane, left, now);
        }
    }
}
