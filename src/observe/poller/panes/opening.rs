//! Panes that come under observation: from their first line, from a baseline, or resumed.

use std::time::Duration;

use super::{ReplyContext, SessionPanes, UnopenedPane};
use crate::event::PaneId;
use crate::observe::pane_observer::PaneOutput;
use crate::observe::pane_observer::{Begin, Pane, PaneOptions, settle_time};
use crate::observe::pane_transfers::{Arrival, Moving};
use crate::observe::resume_point::ResumePoint;
use crate::tmux::{Margin, PaneCapture, PaneState};

/// The time to wait for a pane that moves here from another session. That session's poller notices the
/// departure with its next capture.
const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(3);

/// The delay of pipes if all panes are captured first. The sessions of a server start one after
/// another, and the captures of the later ones would wait for the pipes of the earlier ones.
const PIPE_DELAY: Duration = Duration::from_millis(300);

impl SessionPanes {
    /// Starts to observe a pane, unless it must be captured again first.
    pub(super) fn start_observing(
        &mut self,
        id: &PaneId,
        captured: &mut PaneCapture,
        context: ReplyContext<'_>,
    ) -> Option<Pane> {
        let known = self.emitter.resume_points.get(id).cloned();
        if known.is_none() {
            match self.config.transfers.arrive(id, self.config.session_id) {
                Arrival::New => {}
                Arrival::Moved(moving) => {
                    return Some(self.take_over(*moving, id, captured, context));
                }
                Arrival::Held => {
                    let since = *self.arriving.entry(id.clone()).or_insert(context.now);
                    if context.now.saturating_duration_since(since) < ARRIVAL_TIMEOUT {
                        return None;
                    }
                    // What that session reported of the pane is unknown here.
                    return self.open(id, captured, &Begin::Resume(&ResumePoint::new()), context);
                }
            }
        }
        let existed = self.existed(id, context);
        let begin = match &known {
            Some(resume_point) => Begin::Resume(resume_point),
            None if existed => Begin::Baseline,
            None => Begin::Fresh,
        };
        self.open(id, captured, &begin, context)
    }

    /// Returns true if a pane without a resume point existed before its observation.
    pub(super) fn existed(&self, id: &PaneId, context: ReplyContext<'_>) -> bool {
        self.unwatched.contains(id) || context.first && !self.config.fresh
    }

    /// Continues a pane that moved here from another session.
    pub(super) fn take_over(
        &mut self,
        Moving {
            mut pane,
            resume_point,
        }: Moving,
        id: &PaneId,
        captured: &mut PaneCapture,
        context: ReplyContext<'_>,
    ) -> Pane {
        let is_deepest = self.is_deepest(id, context);
        self.arriving.remove(id);
        self.unopened.remove(id);
        self.emitter.resume_points.insert(id.clone(), resume_point);
        self.add_command(&mut captured.state);
        self.emitter.collect(id, false, context.now, |out| {
            pane.arrive(&captured.state, out);
            pane.handle_capture(captured, is_deepest, out);
        });
        self.needs_another_round |= context.again && pane.needs_full_capture();
        pane
    }

    /// Returns true if the capture of an unopened pane is as deep as possible.
    fn is_deepest(&self, id: &PaneId, context: ReplyContext<'_>) -> bool {
        let margin = self.unopened.get(id).map(|unopened| unopened.margin);
        context.again && margin == Some(Margin::All)
    }

    /// Opens a pane. If the capture is too short, requests a deeper one and returns `None`.
    pub(super) fn open(
        &mut self,
        id: &PaneId,
        captured: &mut PaneCapture,
        begin: &Begin<'_>,
        context: ReplyContext<'_>,
    ) -> Option<Pane> {
        let is_held = context.first && self.config.captured_first;
        let pipe_after = is_held.then(|| context.now + PIPE_DELAY);
        let capture = &captured.capture;
        let is_whole = capture.is_complete() || matches!(begin, Begin::Baseline);
        // A full-screen program started after the listing, so the screen behind it was not captured.
        let is_hidden = capture.alternate && capture.saved.is_none();
        if (!is_whole || is_hidden) && !self.is_deepest(id, context) {
            self.needs_another_round |= context.again;
            let unopened = UnopenedPane {
                margin: Margin::All,
                state: captured.state.clone(),
                is_fresh: matches!(begin, Begin::Fresh),
                pipe_after,
            };
            self.unopened.insert(id.clone(), unopened);
            return None;
        }
        let unopened = self.unopened.remove(id);
        let pipe_after = pipe_after.or(unopened.and_then(|unopened| unopened.pipe_after));
        self.unwatched.remove(id);
        self.arriving.remove(id);
        // From here on the pane counts as known, even if this thread panics.
        let resume_points = &mut self.emitter.resume_points;
        resume_points.entry(id.clone()).or_default();
        log::debug!("{}: observes pane {id}", context.name);
        self.add_command(&mut captured.state);
        let options = PaneOptions {
            begin,
            baseline_lines: self.config.baseline_lines,
            settle: settle_time(&self.config.schedule),
            turns: self.config.turns.as_ref(),
            states: self.config.states.as_ref(),
            shows_screen: self.config.shows_screens,
            streams: self.pipes.is_some(),
            pipe_after,
        };
        let open = |out: &mut PaneOutput<'_>| Pane::open(captured, options, out);
        Some(self.emitter.collect(id, false, context.now, open))
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
}
