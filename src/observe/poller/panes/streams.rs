//! The panes of a session that are streamed: pipes opened, what comes through them, and
//! what is waited for when panes leave.

use std::collections::HashMap;
use std::time::Instant;

use crossbeam_channel::Receiver;

use super::to_open::ToOpen;
use super::{ReplyContext, SessionPanes};
use crate::event::PaneId;
use crate::observe::pane_observer::{Pane, sync_point};
use crate::observe::poller::pipes::SessionPipes;
use crate::tmux::{
    BASELINE_ROWS, CaptureRequest, DrainMessage, DrainOutput, Margin, NewPanes, PaneCapture,
    PaneReply, PaneRequest, PaneState, ResyncRequest, ResyncSpec,
};

impl SessionPanes {
    /// Returns what to ask for beside that, at once; see [`SessionPanes::needs_more`].
    pub fn wants_more(&mut self, now: Instant) -> HashMap<PaneId, PaneRequest> {
        let mut wants = self.wants();
        for (id, to_open) in &self.to_open {
            let margin = to_open.margin;
            let pipes = self.pipes.as_mut();
            let want = match pipes.filter(|_| to_open.pipe_after.is_none()) {
                Some(pipes) => PaneRequest::Resync(ResyncRequest {
                    margin,
                    known: None,
                    spec: ResyncSpec {
                        open_pipe: pipes.open_command(id),
                    },
                }),
                None => PaneRequest::Capture(CaptureRequest {
                    known: None,
                    margin,
                    settles_at: None,
                    is_resting: false,
                }),
            };
            wants.insert(id.clone(), want);
        }
        for (id, pane) in &mut self.panes {
            let Some(pipes) = &mut self.pipes else { break };
            if !self.config.selection.shows(id) {
                continue;
            }
            if pane.wants_pipe_recheck(now) {
                wants.insert(id.clone(), PaneRequest::Presence);
            } else if pane.wants_pipe(now) {
                let open = pipes.open_command(id);
                if open.is_none() {
                    pane.has_no_place(now);
                }
                wants.insert(id.clone(), pane.want_seam(open));
            } else if pane.wants_look() {
                wants.insert(id.clone(), pane.want_seam(None));
            } else if pane.wants_check(now) {
                pane.comparing();
                wants.insert(id.clone(), pane.want_seam(None));
            }
        }
        if let Some(trouble) = self.pipes.as_mut().and_then(SessionPipes::take_trouble) {
            self.outputs.emitter.warning("tmux", &trouble);
        }
        wants
    }

    /// Returns whether the answer about more has brought panes that are to be looked at as well.
    pub fn has_found_late(&mut self) -> bool {
        std::mem::take(&mut self.found_late)
    }

    /// There is no answer to the question about more.
    pub fn unanswered(&mut self, now: Instant) {
        if let Some(pipes) = &mut self.pipes {
            pipes.discard_requested();
        }
        self.panes
            .values_mut()
            .for_each(|pane| pane.not_compared(now));
    }

    /// Returns what becomes of panes that are new.
    pub fn newcomers(&self, is_first: bool) -> NewPanes {
        match self.pipes {
            Some(_) if !(is_first && self.config.captured_first) => NewPanes::List,
            _ => NewPanes::Capture,
        }
    }

    /// Returns whether all panes that are watched are streamed.
    pub fn is_streamed(&self) -> bool {
        let shown = self.panes.iter().filter(|(id, _)| self.shows(id));
        self.pipes.is_some() && shown.into_iter().all(|(_, pane)| pane.is_streamed())
    }

    /// Returns whether one of these panes is to be opened with the capture that is taken next.
    pub fn is_to_open(&self, panes: &[PaneReply]) -> bool {
        let mut told = panes
            .iter()
            .filter(|answer| matches!(answer, PaneReply::Listed(_)));
        self.pipes.is_some() && told.any(|answer| self.shows(&answer.state().pane()))
    }

    /// Nothing comes from the drains any more: the panes are polled.
    pub fn lost_pipes(&mut self, now: Instant) {
        self.pipes = None;
        for (id, pane) in &mut self.panes {
            pane.follow_looks(&mut self.outputs.of(id, false, now));
        }
        self.detach_leaving(now);
    }

    /// A pane that is to be opened with the capture that is taken next.
    pub(super) fn is_to_be_opened(
        &mut self,
        id: &PaneId,
        state: PaneState,
        context: ReplyContext<'_>,
    ) {
        let stood_there = self.passed_over.contains(id) || context.first && !self.config.fresh;
        let is_known = self.outputs.resume_points.contains_key(id);
        let margin = match stood_there && !is_known {
            true => Margin::Rows(BASELINE_ROWS),
            false => Margin::All,
        };
        self.found_late |= context.again && !self.to_open.contains_key(id);
        self.to_open.entry(id.clone()).or_insert(ToOpen {
            margin,
            state,
            is_fresh: !stood_there && !is_known,
            pipe_after: None,
        });
    }

    /// Continues with the bytes of a pane, if the capture was one that they follow.
    pub(super) fn pipe_answered(
        &mut self,
        pane: &mut Pane,
        id: &PaneId,
        PaneCapture {
            capture, resync, ..
        }: PaneCapture,
        now: Instant,
    ) {
        let Some(pipes) = &mut self.pipes else { return };
        let Some(token) = pipes.take_requested(id) else {
            return;
        };
        match resync {
            // A capture that is too short is taken again, and the pipe opened anew. Nothing comes of a
            // program that has ended, and tmux opens no pipe then.
            Some(resync) if resync.was_unpiped && !pane.deeper && capture.dead.is_none() => {
                let times = (self.config.gateway.epoch(), now);
                let point = sync_point(capture, resync);
                pane.follow_bytes(&point, token.clone(), times);
                if let Some(recording) = &mut self.config.recording {
                    recording.interrupt(id);
                    recording.add_screen(id, &point);
                }
                pipes.set_owner(id, token);
            }
            resync => {
                pipes.close(&token);
                let is_captured = resync.is_some();
                let theirs = resync.is_some_and(|resync| !resync.was_unpiped);
                if theirs && let Some(recording) = &mut self.config.recording {
                    recording.interrupt(id);
                }
                if theirs || !is_captured {
                    let out = self.outputs.of(id, false, now);
                    pane.has_no_pipe(theirs, &out);
                }
            }
        }
    }

    /// The pane is not opened yet: what its pipe would bring is not wanted.
    pub(super) fn drop_opening(&mut self, id: &PaneId) {
        if let Some(pipes) = &mut self.pipes
            && let Some(token) = pipes.take_requested(id)
        {
            pipes.close(&token);
        }
    }

    /// A pane that is not watched, or no more.
    pub(super) fn pass_over(&mut self, id: &PaneId, now: Instant) {
        let Some(pane) = self.panes.get_mut(id) else {
            self.to_open.remove(id);
            self.passed_over.insert(id.clone());
            return;
        };
        self.programs.forget(id);
        if let Some((pipes, token)) = self.pipes.as_mut().zip(pane.pipe()) {
            pipes.close(token);
            pane.follow_looks(&mut self.outputs.of(id, false, now));
        }
    }

    /// Where what the drains bring comes, if there are any.
    pub fn arrivals(&self) -> Option<&Receiver<DrainMessage>> {
        self.pipes.as_ref().map(SessionPipes::messages)
    }

    /// Returns whether this is more of what a pane prints that is streamed.
    pub fn is_more_of_a_stream(&self, drained: &DrainMessage) -> bool {
        let pipes = self.pipes.as_ref();
        let owner = pipes.and_then(|pipes| pipes.owner(&drained.token));
        matches!(drained.output, DrainOutput::Bytes(_)) && owner.is_some_and(|id| self.shows(id))
    }

    /// Takes in what a drain has brought. Whether other things are to be asked for from now on.
    pub fn arrived(&mut self, DrainMessage { token, output }: DrainMessage, now: Instant) -> bool {
        let Some(pipes) = &mut self.pipes else {
            return false;
        };
        let Some(id) = pipes.owner(&token).cloned() else {
            // Of a pane that was let go meanwhile.
            pipes.close(&token);
            return false;
        };
        if !self.config.selection.shows(&id) {
            self.pass_over(&id, now);
            return true;
        }
        // While it is worked on, the pane is not in the maps, as in `pane_answered`.
        let leaving = self.leaving.remove(&id);
        let (mut pane, left) = match (leaving, self.panes.remove(&id)) {
            (Some((pane, left)), other) => {
                if let Some(other) = other {
                    self.panes.insert(id.clone(), other);
                }
                (pane, Some(left))
            }
            (None, Some(pane)) => (pane, None),
            (None, None) => {
                pipes.close(&token);
                return false;
            }
        };
        let mut out = self.outputs.of(&id, true, now);
        let mut has_printed = false;
        match output {
            DrainOutput::Connected => pane.pipe_begun(),
            DrainOutput::Bytes(bytes) => {
                self.programs.note_output(&id, now);
                has_printed = true;
                for mark in pane.feed(&bytes, &mut out) {
                    for job in self.programs.handle_mark(&id, mark, now) {
                        let event = job.into_event(out.emitter.execution_id(), &id);
                        out.emitter.emit(event);
                    }
                }
                if let Some(recording) = &mut self.config.recording {
                    let was_whole = !recording.needs_screen(&id);
                    recording.add_bytes(&id, &bytes);
                    if was_whole && recording.needs_screen(&id) {
                        pane.wants_look_soon();
                    }
                }
            }
            DrainOutput::Dropped(dropped) => {
                pane.missed(dropped, &mut out);
                if let Some(recording) = &mut self.config.recording {
                    recording.add_drop(&id, dropped);
                }
            }
            DrainOutput::Mark => {
                let shown = pane.marked(&mut out);
                if let Some((recording, (seam, parted))) = self.config.recording.as_mut().zip(shown)
                    && (parted || recording.needs_screen(&id))
                {
                    recording.add_screen(&id, &seam);
                }
            }
            DrainOutput::Ended => pane.pipe_over(true, &out),
            DrainOutput::Lost => {
                pane.pipe_over(false, &out);
                if let Some(recording) = &mut self.config.recording {
                    recording.interrupt(&id);
                }
            }
        }
        let is_over = !pane.is_streamed();
        if is_over {
            pipes.close(&token);
        }
        match left {
            Some(left) if is_over && self.programs.is_end_known(&id, now) => {
                self.closed(&id, pane, left, now);
            }
            Some(left) => drop(self.leaving.insert(id, (pane, left))),
            None => {
                self.panes.insert(id.clone(), pane);
                if has_printed {
                    self.look_for_agent(&id, now);
                }
            }
        }
        is_over
    }

    /// Ends what reads the drains.
    pub fn shutdown(self) {
        if let Some(Err(panicked)) = self.pipes.map(SessionPipes::shutdown) {
            log::error!("{panicked}");
        }
    }
}
