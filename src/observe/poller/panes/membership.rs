//! Panes that come under observation: from their first line, from a baseline, or resumed.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::{PaneSlot, ReplyContext, SessionPanes, UnopenedPane};
use crate::event::PaneId;
use crate::observe::pane_observer::{Begin, Pane, PaneOptions, PaneOutput, sync_point};
use crate::observe::pane_transfers::{Arrival, Moving};
use crate::observe::session_outcome::SessionOutcome;
use crate::tmux::{
    BASELINE_ROWS, DepartedPane, DrainMessage, DrainOrder, DrainOutput, Margin, PaneCapture,
    PaneState, bytes_read_by,
};
use crate::track::{Capture, PaneNumbers, Row};

/// The time to wait for a pane that moves here from another session. That session's poller notices the
/// departure with its next capture.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(3);

/// The delay of pipes if all panes are captured first. The sessions of a server start one after
/// another, and the captures of the later ones would wait for the pipes of the earlier ones.
const PIPE_DELAY: Duration = Duration::from_millis(300);

impl SessionPanes {
    /// Starts to observe a pane, unless it must be captured again first. `slot` is what was known of it.
    pub(super) fn start_observing(
        &mut self,
        id: &PaneId,
        slot: Option<PaneSlot>,
        captured: &mut PaneCapture,
        context: ReplyContext<'_>,
    ) -> Option<Box<Pane>> {
        let existed = self.existed(slot.as_ref(), context);
        let mut unopened = match slot {
            Some(PaneSlot::Unopened(unopened)) => unopened,
            _ => UnopenedPane {
                margin: Margin::Rows(BASELINE_ROWS),
                state: captured.state.clone().into(),
                is_fresh: !existed,
                pipe_after: None,
                held_since: None,
            },
        };
        let known = self.emitter.resume_points.get(id).cloned();
        // Another session may have observed the pane after this one: what that one hands over is newer.
        match self.config.transfers.arrive(id, self.config.session_id) {
            Arrival::New => {
                let begin = match &known {
                    Some(resume_point) => Begin::Resume(resume_point),
                    None if existed => Begin::Baseline,
                    None => Begin::Fresh,
                };
                self.open(id, unopened, captured, &begin, context)
            }
            Arrival::Moved(moving) => {
                let is_deepest = context.again && unopened.margin == Margin::All;
                Some(self.take_over(*moving, id, captured, is_deepest, context))
            }
            Arrival::Held => {
                let since = *unopened.held_since.get_or_insert(context.now);
                if context.now.saturating_duration_since(since) < ARRIVAL_TIMEOUT {
                    unopened.margin = Margin::All;
                    self.slots.insert(id.clone(), PaneSlot::Unopened(unopened));
                    return None;
                }
                // What that session reported of the pane is unknown here.
                let known = known.unwrap_or_default().without_lines();
                self.open(id, unopened, captured, &Begin::Resume(&known), context)
            }
        }
    }

    /// Returns true if a pane without a resume point existed before its observation.
    fn existed(&self, slot: Option<&PaneSlot>, context: ReplyContext<'_>) -> bool {
        match slot {
            Some(PaneSlot::Unwatched) => true,
            Some(PaneSlot::Unopened(unopened)) => !unopened.is_fresh,
            _ => context.first && !self.config.fresh,
        }
    }

    /// Continues a pane that moved here from another session.
    fn take_over(
        &mut self,
        Moving {
            mut pane,
            resume_point,
        }: Moving,
        id: &PaneId,
        captured: &mut PaneCapture,
        is_deepest: bool,
        context: ReplyContext<'_>,
    ) -> Box<Pane> {
        self.emitter.resume_points.insert(id.clone(), resume_point);
        self.add_command(&mut captured.state);
        self.emitter.collect(id, false, context.now, |out| {
            pane.arrive(&captured.state, out);
            pane.handle_capture(captured, is_deepest, out);
        });
        self.needs_another_round |= context.again && pane.needs_full_capture();
        Box::new(pane)
    }

    /// Opens a pane. If the capture is too short, requests a deeper one and returns `None`.
    fn open(
        &mut self,
        id: &PaneId,
        mut unopened: UnopenedPane,
        captured: &mut PaneCapture,
        begin: &Begin<'_>,
        context: ReplyContext<'_>,
    ) -> Option<Box<Pane>> {
        if context.first && self.config.captured_first {
            unopened.pipe_after = Some(context.now + PIPE_DELAY);
        }
        let capture = &captured.capture;
        let is_whole = capture.is_complete() || matches!(begin, Begin::Baseline);
        // A full-screen program started after the listing, so the screen behind it was not captured.
        let is_hidden = capture.alternate && capture.saved.is_none();
        let is_deepest = context.again && unopened.margin == Margin::All;
        if (!is_whole || is_hidden) && !is_deepest {
            self.needs_another_round |= context.again;
            let unopened = UnopenedPane {
                margin: Margin::All,
                state: captured.state.clone().into(),
                is_fresh: matches!(begin, Begin::Fresh),
                ..unopened
            };
            self.slots.insert(id.clone(), PaneSlot::Unopened(unopened));
            return None;
        }
        // From here on the pane counts as known, even if this thread panics.
        let resume_points = &mut self.emitter.resume_points;
        resume_points.entry(id.clone()).or_default();
        log::debug!("{}: observes pane {id}", context.name);
        self.add_command(&mut captured.state);
        self.openings.retain(|opening| opening.is_wanted());
        let rules = &self.config.rules;
        let is_judged = rules.states.is_some();
        let options = PaneOptions {
            begin,
            rules,
            front: is_judged
                .then(|| self.config.views.front(captured.capture.pid))
                .flatten(),
            streams: self.pipes.is_some(),
            pipe_after: unopened.pipe_after,
            listeners: match begin {
                Begin::Fresh => self
                    .openings
                    .iter()
                    .map(|opening| opening.opens(id))
                    .collect(),
                Begin::Baseline | Begin::Resume(_) => Vec::new(),
            },
        };
        let open = |out: &mut PaneOutput<'_>| Pane::open(captured, options, out);
        Some(Box::new(self.emitter.collect(id, false, context.now, open)))
    }

    /// Adds the pane's foreground program to its state; requests it for a new pane.
    pub(super) fn add_command(&mut self, state: &mut PaneState) {
        let (id, commands) = (state.pane(), &mut self.config.commands);
        if !commands.contains_key(&id)
            && let Ok(listing) = self.config.gateway.listing()
        {
            let named = listing.panes.iter();
            *commands = named
                .map(|state| (state.pane(), state.command.clone()))
                .collect();
        }
        state.command = commands.get(&id).cloned().unwrap_or_default();
    }

    /// Handles that a pane is no longer in the session.
    pub(super) fn pane_departed(
        &mut self,
        id: &PaneId,
        departed: &HashMap<PaneId, DepartedPane>,
        now: Instant,
    ) {
        let departed = departed.get(id).copied();
        let is_moved = departed.is_some_and(|departed| departed.moved);
        match self.slots.remove(id) {
            Some(PaneSlot::Open(pane)) => {
                // A pane that moves to another session is released at once.
                if let Some((pipes, token)) = self.pipes.as_ref().zip(pane.pipe())
                    && pane.is_streamed()
                    && is_moved
                {
                    pipes.drains.order(DrainOrder::Finish(token.clone()));
                }
                self.begin_departure(id, pane, departed, now);
            }
            Some(PaneSlot::Unopened(unopened)) if unopened.is_fresh && !is_moved => {
                self.handle_vanished(id, unopened, now);
            }
            Some(leaving @ PaneSlot::Leaving(..)) => {
                self.slots.insert(id.clone(), leaving);
            }
            Some(PaneSlot::Unwatched | PaneSlot::Unopened(_)) | None => {}
        }
    }

    /// Closes a pane, or keeps it until its last bytes have arrived and its program's end is known.
    fn begin_departure(
        &mut self,
        id: &PaneId,
        mut pane: Box<Pane>,
        departed: Option<DepartedPane>,
        now: Instant,
    ) {
        pane.mark_gone(bytes_read_by(self.config.server_pid), now);
        self.programs.pane_closed(id, now);
        let is_moved = departed.is_some_and(|departed| departed.moved);
        if pane.is_streamed() || !is_moved && !self.programs.is_end_known(id, now) {
            let leaving = PaneSlot::Leaving(pane, departed);
            self.slots.insert(id.clone(), leaving);
        } else {
            self.finish_departure(id, *pane, departed, now);
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
        self.names.forget(id);
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
        let was_at_prompt = ending.was_at_prompt();
        for job in ending.jobs {
            emitter.emit_job(id, job);
        }
        emitter.collect(id, may_wait, now, |out| {
            if let Some(death) = ending.death {
                pane.program_ended(death, out);
            }
            pane.close(was_at_prompt, out);
        });
        emitter.resume_points.remove(id);
        self.outcome
            .program_ended(pane.death(), ending.is_interactive);
        if let Some(recording) = &mut self.config.recording {
            recording.end(id, pane.exit_status());
        }
    }

    /// Handles a new pane that ended before its first capture: all its output is missing.
    fn handle_vanished(&mut self, id: &PaneId, unopened: UnopenedPane, now: Instant) {
        let (width, height) = (unopened.state.width, unopened.state.height);
        let capture = Capture {
            numbers: PaneNumbers {
                width,
                height,
                ..PaneNumbers::default()
            },
            rows: vec![Row::default(); height as usize],
            ..Capture::default()
        };
        let mut captured = PaneCapture {
            state: (*unopened.state).clone(),
            capture,
            ..PaneCapture::default()
        };
        let context = ReplyContext {
            name: "",
            first: false,
            again: true,
            now,
            second: 0,
        };
        if let Some(mut pane) = self.open(id, unopened, &mut captured, &Begin::Fresh, context) {
            pane.mark_output_missing(now);
            self.begin_departure(id, pane, None, now);
        }
    }

    /// Handles the end of the session: its panes have ended or moved.
    pub fn close(&mut self, departed: &HashMap<PaneId, DepartedPane>, now: Instant) {
        let mut ids: Vec<PaneId> = self.slots.keys().cloned().collect();
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
        for (id, slot) in self.slots.drain() {
            if let PaneSlot::Open(mut pane) = slot {
                self.config.transfers.forget(&id);
                self.emitter
                    .collect(&id, self.pipes.is_some(), now, |out| pane.detach(out));
            }
        }
    }

    /// Requests the bytes that the drains hold, before the observer stops.
    pub fn finish(&mut self) {
        if let Some(pipes) = &self.pipes {
            let panes = self.slots.values().filter_map(PaneSlot::open);
            panes
                .filter(|pane| pane.is_streamed())
                .filter_map(Pane::pipe)
                .for_each(|token| pipes.drains.order(DrainOrder::Finish(token.clone())));
        }
    }

    /// Returns true if bytes or exits are still to be awaited at the end.
    pub fn has_pending_bytes(&self) -> bool {
        self.slots.values().any(|slot| match slot {
            PaneSlot::Open(pane) => pane.is_streamed(),
            PaneSlot::Leaving(..) => true,
            PaneSlot::Unwatched | PaneSlot::Unopened(_) => false,
        })
    }

    /// Emits delayed output of departed panes, and closes those that are complete.
    pub(super) fn emit_leaving(&mut self, now: Instant) {
        let may_wait = self.pipes.is_some();
        for (id, slot) in &mut self.slots {
            if let PaneSlot::Leaving(pane, _) = slot {
                let step = |out: &mut PaneOutput<'_>| pane.handle_timeout(out);
                self.emitter.collect(id, may_wait, now, step);
            }
        }
        let programs = &self.programs;
        let is_complete = |id: &PaneId, pane: &Pane, departed: &Option<DepartedPane>| {
            let is_moved = departed.is_some_and(|departed| departed.moved);
            !pane.is_streamed() && (is_moved || programs.is_end_known(id, now))
        };
        let complete = self.slots.extract_if(|id, slot| {
            matches!(slot, PaneSlot::Leaving(pane, departed) if is_complete(id, pane, departed))
        });
        let complete: Vec<_> = complete.collect();
        self.finish_departures(complete, now);
    }

    /// Closes departed panes without waiting for their last bytes.
    pub(super) fn detach_leaving(&mut self, now: Instant) {
        let is_leaving = |_: &PaneId, slot: &mut PaneSlot| matches!(slot, PaneSlot::Leaving(..));
        let leaving: Vec<_> = self.slots.extract_if(is_leaving).collect();
        self.finish_departures(leaving, now);
    }

    fn finish_departures(&mut self, slots: Vec<(PaneId, PaneSlot)>, now: Instant) {
        for (id, slot) in slots {
            if let PaneSlot::Leaving(pane, departed) = slot {
                self.finish_departure(&id, *pane, departed, now);
            }
        }
    }

    /// Returns true if all watched panes are streamed.
    pub fn is_streamed(&self) -> bool {
        let mut watched = self.slots.iter().filter(|(id, _)| self.is_watched(id));
        let is_streamed = |slot: &PaneSlot| slot.open().is_none_or(Pane::is_streamed);
        self.pipes.is_some() && watched.all(|(_, slot)| is_streamed(slot))
    }

    /// Polls all panes, because nothing arrives from the drains any more.
    pub fn pipes_lost(&mut self, now: Instant) {
        self.pipes = None;
        for (id, slot) in &mut self.slots {
            if let PaneSlot::Open(pane) = slot {
                self.emitter
                    .collect(id, false, now, |out| pane.follow_captures(out));
            }
        }
        self.detach_leaving(now);
    }

    /// Notes a listed pane, which the next extra captures open.
    pub(super) fn await_opening(
        &mut self,
        id: &PaneId,
        slot: Option<PaneSlot>,
        state: PaneState,
        context: ReplyContext<'_>,
    ) {
        let slot = match slot {
            Some(slot @ PaneSlot::Unopened(_)) => slot,
            slot => {
                let existed = self.existed(slot.as_ref(), context);
                let is_known = self.emitter.resume_points.contains_key(id);
                self.needs_another_round |= context.again;
                PaneSlot::Unopened(UnopenedPane {
                    margin: if existed && !is_known {
                        Margin::Rows(BASELINE_ROWS)
                    } else {
                        Margin::All
                    },
                    state: state.into(),
                    is_fresh: !existed && !is_known,
                    pipe_after: None,
                    held_since: None,
                })
            }
        };
        self.slots.insert(id.clone(), slot);
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
        let Some(token) = pipes.requested.remove(id) else {
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
                pipes.owners.insert(token, id.clone());
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
            && let Some(token) = pipes.requested.remove(id)
        {
            pipes.close(&token);
        }
    }

    /// Ignores a pane that is not selected, or not any more.
    pub(super) fn stop_watching(&mut self, id: &PaneId, now: Instant) {
        match self.slots.get_mut(id) {
            Some(PaneSlot::Open(pane)) => {
                self.programs.forget(id);
                self.names.forget(id);
                if let Some((pipes, token)) = self.pipes.as_mut().zip(pane.pipe()) {
                    pipes.close(token);
                    self.emitter
                        .collect(id, false, now, |out| pane.follow_captures(out));
                }
            }
            Some(PaneSlot::Leaving(..)) => {}
            Some(PaneSlot::Unwatched | PaneSlot::Unopened(_)) | None => {
                self.slots.insert(id.clone(), PaneSlot::Unwatched);
            }
        }
    }

    /// Returns the channel of the drains' messages, if panes are streamed.
    pub fn arrivals(&self) -> Option<&Receiver<DrainMessage>> {
        self.pipes.as_ref().map(|pipes| pipes.drains.messages())
    }

    /// Returns true if a message contains output of a watched pane.
    pub fn continues_stream(&self, message: &DrainMessage) -> bool {
        let pipes = self.pipes.as_ref();
        let owner = pipes.and_then(|pipes| pipes.owners.get(&message.token));
        matches!(message.output, DrainOutput::Bytes(_))
            && owner.is_some_and(|id| self.is_watched(id))
    }

    /// Ends the thread that reads the drains.
    pub fn shutdown(self) {
        if let Some(Err(panicked)) = self.pipes.map(|pipes| pipes.drains.shutdown()) {
            log::error!("{panicked}");
        }
    }
}
