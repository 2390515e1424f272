//! The panes of a session that are streamed: pipes opened, what comes through them, and
//! what is waited for when panes leave.

use std::collections::HashMap;
use std::time::Instant;

use crossbeam_channel::Receiver;

use super::unopened::UnopenedPane;
use super::{ReplyContext, SessionPanes};
use crate::event::PaneId;
use crate::observe::pane_observer::{Pane, sync_point};
use crate::observe::poller::pipes::SessionPipes;
use crate::tmux::{
    BASELINE_ROWS, CaptureRequest, DrainMessage, DrainOutput, Margin, NewPanes, PaneCapture,
    PaneReply, PaneRequest, PaneState, ResyncRequest, ResyncSpec,
};

impl SessionPanes {
    /// Returns what to ask for beside that, at once; see [`SessionPanes::needs_more_captures`].
    pub fn extra_requests(&mut self, now: Instant) -> HashMap<PaneId, PaneRequest> {
        let mut requests = self.requests();
        for (id, unopened) in &self.unopened {
            let margin = unopened.margin;
            let pipes = self.pipes.as_mut();
            let request = match pipes.filter(|_| unopened.pipe_after.is_none()) {
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
            requests.insert(id.clone(), request);
        }
        for (id, pane) in &mut self.panes {
            let Some(pipes) = &mut self.pipes else { break };
            if !self.config.selection.contains(id) {
                continue;
            }
            if let Some(request) = pane.urgent_request(now, || pipes.open_command(id)) {
                requests.insert(id.clone(), request);
            }
        }
        if let Some(trouble) = self.pipes.as_mut().and_then(SessionPipes::take_trouble) {
            self.emitter.events.warning("tmux", &trouble);
        }
        requests
    }

    /// Returns whether the reply about more has brought panes that are to be looked at as well.
    pub fn take_needs_another_round(&mut self) -> bool {
        std::mem::take(&mut self.needs_another_round)
    }

    /// There is no reply to the question about more.
    pub fn end_extra_captures(&mut self, now: Instant) {
        if let Some(pipes) = &mut self.pipes {
            pipes.discard_requested();
        }
        self.panes
            .values_mut()
            .for_each(|pane| pane.check_failed(now));
    }

    /// Returns what becomes of panes that are new.
    pub fn new_panes(&self, is_first: bool) -> NewPanes {
        match self.pipes {
            Some(_) if !(is_first && self.config.captured_first) => NewPanes::List,
            _ => NewPanes::Capture,
        }
    }

    /// Returns whether all panes that are watched are streamed.
    pub fn is_streamed(&self) -> bool {
        let shown = self.panes.iter().filter(|(id, _)| self.is_watched(id));
        self.pipes.is_some() && shown.into_iter().all(|(_, pane)| pane.is_streamed())
    }

    /// Returns whether one of these panes is to be opened with the capture that is taken next.
    pub fn lists_unopened_pane(&self, panes: &[PaneReply]) -> bool {
        let mut listed = panes
            .iter()
            .filter(|reply| matches!(reply, PaneReply::Listed(_)));
        self.pipes.is_some() && listed.any(|reply| self.is_watched(&reply.state().pane()))
    }

    /// Nothing comes from the drains any more: the panes are polled.
    pub fn pipes_lost(&mut self, now: Instant) {
        self.pipes = None;
        for (id, pane) in &mut self.panes {
            self.emitter
                .collect(id, false, now, |out| pane.follow_captures(out));
        }
        self.detach_leaving(now);
    }

    /// A pane that is to be opened with the capture that is taken next.
    pub(super) fn await_opening(
        &mut self,
        id: &PaneId,
        state: PaneState,
        context: ReplyContext<'_>,
    ) {
        let existed = self.unwatched.contains(id) || context.first && !self.config.fresh;
        let is_known = self.emitter.resume_points.contains_key(id);
        let margin = match existed && !is_known {
            true => Margin::Rows(BASELINE_ROWS),
            false => Margin::All,
        };
        self.needs_another_round |= context.again && !self.unopened.contains_key(id);
        self.unopened.entry(id.clone()).or_insert(UnopenedPane {
            margin,
            state,
            is_fresh: !existed && !is_known,
            pipe_after: None,
        });
    }

    /// Continues with the bytes of a pane, if the capture was one that they follow.
    pub(super) fn handle_pipe_reply(
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
            Some(resync)
                if resync.was_unpiped && !pane.needs_full_capture() && capture.dead.is_none() =>
            {
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
                let is_foreign = resync.is_some_and(|resync| !resync.was_unpiped);
                if is_foreign && let Some(recording) = &mut self.config.recording {
                    recording.interrupt(id);
                }
                if is_foreign || !is_captured {
                    self.emitter
                        .collect(id, false, now, |out| pane.pipe_not_opened(is_foreign, out));
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
    pub(super) fn stop_watching(&mut self, id: &PaneId, now: Instant) {
        let Some(pane) = self.panes.get_mut(id) else {
            self.unopened.remove(id);
            self.unwatched.insert(id.clone());
            return;
        };
        self.programs.forget(id);
        if let Some((pipes, token)) = self.pipes.as_mut().zip(pane.pipe()) {
            pipes.close(token);
            self.emitter
                .collect(id, false, now, |out| pane.follow_captures(out));
        }
    }

    /// Where what the drains bring comes, if present are any.
    pub fn arrivals(&self) -> Option<&Receiver<DrainMessage>> {
        self.pipes.as_ref().map(SessionPipes::messages)
    }

    /// Returns whether this is more of what a pane prints that is streamed.
    pub fn continues_stream(&self, message: &DrainMessage) -> bool {
        let pipes = self.pipes.as_ref();
        let owner = pipes.and_then(|pipes| pipes.owner(&message.token));
        matches!(message.output, DrainOutput::Bytes(_))
            && owner.is_some_and(|id| self.is_watched(id))
    }

    /// Takes in what a drain has brought. Whether other things are to be request for from now on.
    pub fn arrived(&mut self, DrainMessage { token, output }: DrainMessage, now: Instant) -> bool {
        let Some(pipes) = &mut self.pipes else {
            return false;
        };
        let Some(id) = pipes.owner(&token).cloned() else {
            // Of a pane that was let go meanwhile.
            pipes.close(&token);
            return false;
        };
        if !self.config.selection.contains(&id) {
            self.stop_watching(&id, now);
            return true;
        }
        // While it is worked on, the pane is not in the maps, as in `pane_answered`.
        let leaving = self.leaving.remove(&id);
        let (mut pane, departed) = match (leaving, self.panes.remove(&id)) {
            (Some((pane, departed)), other) => {
                if let Some(other) = other {
                    self.panes.insert(id.clone(), other);
                }
                (pane, Some(departed))
            }
            (None, Some(pane)) => (pane, None),
            (None, None) => {
                pipes.close(&token);
                return false;
            }
        };
        let emitter = &mut self.emitter;
        let mut has_printed = false;
        match output {
            DrainOutput::Connected => pane.drain_connected(),
            DrainOutput::Bytes(bytes) => {
                self.programs.note_output(&id, now);
                has_printed = true;
                for mark in emitter.collect(&id, true, now, |out| pane.feed(&bytes, out)) {
                    for job in self.programs.handle_mark(&id, mark, now) {
                        emitter.emit_job(&id, job);
                    }
                }
                if let Some(recording) = &mut self.config.recording {
                    let was_whole = !recording.needs_screen(&id);
                    recording.add_bytes(&id, &bytes);
                    if was_whole && recording.needs_screen(&id) {
                        pane.check_soon();
                    }
                }
            }
            DrainOutput::Dropped(dropped) => {
                emitter.collect(&id, true, now, |out| pane.bytes_dropped(dropped, out));
                if let Some(recording) = &mut self.config.recording {
                    recording.add_drop(&id, dropped);
                }
            }
            DrainOutput::Mark => {
                let shown = emitter.collect(&id, true, now, |out| pane.handle_mark(out));
                if let Some((recording, (sync_point, differed))) =
                    self.config.recording.as_mut().zip(shown)
                    && (differed || recording.needs_screen(&id))
                {
                    recording.add_screen(&id, &sync_point);
                }
            }
            DrainOutput::Ended => {
                emitter.collect(&id, true, now, |out| pane.pipe_ended(true, out));
            }
            DrainOutput::Lost => {
                emitter.collect(&id, true, now, |out| pane.pipe_ended(false, out));
                if let Some(recording) = &mut self.config.recording {
                    recording.interrupt(&id);
                }
            }
        }
        let is_over = !pane.is_streamed();
        if is_over {
            pipes.close(&token);
        }
        match departed {
            Some(departed) if is_over && self.programs.is_end_known(&id, now) => {
                self.finish_departure(&id, pane, departed, now);
            }
            Some(departed) => drop(self.leaving.insert(id, (pane, departed))),
            None => {
                self.panes.insert(id.clone(), pane);
                if has_printed {
                    self.search_for_agent(&id, now);
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
