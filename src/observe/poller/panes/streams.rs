//! The streamed panes of a session: opens and closes pipes, and handles their output.

use std::collections::HashMap;
use std::time::Instant;

use crossbeam_channel::Receiver;

use super::{ReplyContext, SessionPanes, UnopenedPane};
use crate::event::PaneId;
use crate::observe::pane_observer::{Pane, sync_point};
use crate::observe::poller::pipes::SessionPipes;
use crate::tmux::{
    BASELINE_ROWS, CaptureRequest, DrainMessage, DrainOutput, Margin, NewPanes, PaneCapture,
    PaneReply, PaneRequest, PaneState, ResyncRequest, ResyncSpec,
};

impl SessionPanes {
    /// Returns the requests of the extra captures; see [`SessionPanes::needs_more_captures`].
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

    /// Returns whether the last extra captures revealed panes that need another round.
    pub fn take_needs_another_round(&mut self) -> bool {
        std::mem::take(&mut self.needs_another_round)
    }

    /// Ends a round of extra captures: openings and comparisons without a reply have failed.
    pub fn end_extra_captures(&mut self, now: Instant) {
        if let Some(pipes) = &mut self.pipes {
            pipes.discard_requested();
        }
        self.panes
            .values_mut()
            .for_each(|pane| pane.check_failed(now));
    }

    /// Returns how the gateway must treat new panes.
    pub fn new_panes(&self, is_first: bool) -> NewPanes {
        match self.pipes {
            Some(_) if !(is_first && self.config.captured_first) => NewPanes::List,
            _ => NewPanes::Capture,
        }
    }

    /// Returns whether all watched panes are streamed.
    pub fn is_streamed(&self) -> bool {
        let mut watched = self.panes.iter().filter(|(id, _)| self.is_watched(id));
        self.pipes.is_some() && watched.all(|(_, pane)| pane.is_streamed())
    }

    /// Returns whether one of these panes must be captured before it is opened.
    pub fn lists_unopened_pane(&self, panes: &[PaneReply]) -> bool {
        let mut listed = panes
            .iter()
            .filter(|reply| matches!(reply, PaneReply::Listed(_)));
        self.pipes.is_some() && listed.any(|reply| self.is_watched(&reply.state().pane()))
    }

    /// Polls all panes, because nothing arrives from the drains any more.
    pub fn pipes_lost(&mut self, now: Instant) {
        self.pipes = None;
        for (id, pane) in &mut self.panes {
            self.emitter
                .collect(id, false, now, |out| pane.follow_captures(out));
        }
        self.detach_leaving(now);
    }

    /// Notes a listed pane, which the next extra captures open.
    pub(super) fn await_opening(
        &mut self,
        id: &PaneId,
        state: PaneState,
        context: ReplyContext<'_>,
    ) {
        let existed = self.existed(id, context);
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

    /// Starts to stream a pane if the reply opened its pipe; else closes the pipe.
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
            // If the capture was too short, both it and the pipe are requested again. tmux opens no
            // pipe for a program that has ended.
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

    /// Closes a requested pipe of a pane that is not opened yet.
    pub(super) fn drop_opening(&mut self, id: &PaneId) {
        if let Some(pipes) = &mut self.pipes
            && let Some(token) = pipes.take_requested(id)
        {
            pipes.close(&token);
        }
    }

    /// Ignores a pane that is not selected, or not any more.
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

    /// Returns the channel of the drains' messages, if panes are streamed.
    pub fn arrivals(&self) -> Option<&Receiver<DrainMessage>> {
        self.pipes.as_ref().map(SessionPipes::messages)
    }

    /// Returns whether a message contains output of a watched pane.
    pub fn continues_stream(&self, message: &DrainMessage) -> bool {
        let pipes = self.pipes.as_ref();
        let owner = pipes.and_then(|pipes| pipes.owner(&message.token));
        matches!(message.output, DrainOutput::Bytes(_))
            && owner.is_some_and(|id| self.is_watched(id))
    }

    /// Handles a message of a drain. Returns whether the request in progress is outdated.
    pub fn arrived(&mut self, DrainMessage { token, output }: DrainMessage, now: Instant) -> bool {
        let Some(pipes) = &mut self.pipes else {
            return false;
        };
        let Some(id) = pipes.owner(&token).cloned() else {
            // The pane was released meanwhile.
            pipes.close(&token);
            return false;
        };
        if !self.config.selection.contains(&id) {
            self.stop_watching(&id, now);
            return true;
        }
        // The pane is out of the maps meanwhile, as in `handle_pane_reply`.
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

    /// Ends the thread that reads the drains.
    pub fn shutdown(self) {
        if let Some(Err(panicked)) = self.pipes.map(SessionPipes::shutdown) {
            log::error!("{panicked}");
        }
    }
}
