//! The streamed panes of a session: opens and closes pipes.

use std::time::Instant;

use crossbeam_channel::Receiver;

use super::{ReplyContext, SessionPanes, UnopenedPane};
use crate::event::PaneId;
use crate::observe::pane_observer::{Pane, sync_point};
use crate::observe::poller::pipes::SessionPipes;
use crate::tmux::{BASELINE_ROWS, DrainMessage, DrainOutput, Margin, PaneCapture, PaneState};

impl SessionPanes {
    /// Returns true if all watched panes are streamed.
    pub fn is_streamed(&self) -> bool {
        let mut watched = self.panes.iter().filter(|(id, _)| self.is_watched(id));
        self.pipes.is_some() && watched.all(|(_, pane)| pane.is_streamed())
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

    /// Returns true if a message contains output of a watched pane.
    pub fn continues_stream(&self, message: &DrainMessage) -> bool {
        let pipes = self.pipes.as_ref();
        let owner = pipes.and_then(|pipes| pipes.owner(&message.token));
        matches!(message.output, DrainOutput::Bytes(_))
            && owner.is_some_and(|id| self.is_watched(id))
    }

    /// Ends the thread that reads the drains.
    pub fn shutdown(self) {
        if let Some(Err(panicked)) = self.pipes.map(SessionPipes::shutdown) {
            log::error!("{panicked}");
        }
    }
}
