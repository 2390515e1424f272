//! Streaming in the pane observer: its beginning, its checks and its end.

use std::time::{Duration, Instant};

use super::{Follow, Pane, PipeNews, PolledPane};
use crate::observe::next_capture::NextCapture;
use crate::observe::pane_observer::output::{PIPE_CONTEXT, PaneOutput};
use crate::observe::pane_observer::streamed_pane::StreamedPane;
use crate::tmux::{DroppedBytes, PaneCapture, PaneState, PipeToken, ResyncData};
use crate::track::{Capture, PaneNumbers, SyncPoint};

/// The delay from a change to the search of the stream's screen for turns and states. States of agents
/// change within seconds, so a shorter delay gains nothing.
const JUDGE_DELAY: Duration = Duration::from_millis(100);

impl Pane {
    pub(super) fn stream(&self) -> Option<&StreamedPane> {
        match &self.follow {
            Follow::Bytes(stream) => Some(stream),
            Follow::Captures(_) => None,
        }
    }

    pub(super) fn stream_mut(&mut self) -> Option<&mut StreamedPane> {
        match &mut self.follow {
            Follow::Bytes(stream) => Some(stream),
            Follow::Captures(_) => None,
        }
    }

    /// Returns the pipe that streams the pane.
    pub fn pipe(&self) -> Option<&PipeToken> {
        self.stream().map(StreamedPane::token)
    }

    /// Returns true if bytes may still arrive.
    pub fn is_streamed(&self) -> bool {
        self.stream().is_some_and(|stream| !stream.is_over())
    }

    /// Notes that no pipe was opened; `is_foreign` if another program has one open.
    pub fn pipe_not_opened(&mut self, is_foreign: bool, out: &mut PaneOutput<'_>) {
        match is_foreign {
            true => {
                let news = self.piping.opening_refused(out.now);
                self.report_pipe(news, out);
            }
            false => self.piping.cannot_open(out.now),
        }
    }

    /// Takes from the listing whether the pane has a pipe.
    pub(super) fn update_piped(&mut self, piped: bool, out: &mut PaneOutput<'_>) {
        if self.stream().is_none() {
            let news = self.piping.listed(piped, out.now);
            self.report_pipe(news, out);
        }
    }

    pub(super) fn report_pipe(&self, news: Option<PipeNews>, out: &mut PaneOutput<'_>) {
        if let Some(news) = news.filter(|_| self.streams) {
            let sentence = news.sentence(self.id.as_str());
            out.warn(PIPE_CONTEXT, sentence);
        }
    }

    /// Switches to streaming from a sync point whose capture the tracker has just applied.
    pub fn follow_bytes(
        &mut self,
        sync_point: &SyncPoint,
        token: PipeToken,
        times: (Instant, Instant),
    ) {
        if let Follow::Captures(polled) = std::mem::take(&mut self.follow) {
            let stream = StreamedPane::new(polled.tracker, sync_point, token, times);
            self.follow = Follow::Bytes(Box::new(stream));
        }
        self.piping.opened();
    }

    /// Switches to polling if the pane is streamed.
    pub fn follow_captures(&mut self, out: &mut PaneOutput<'_>) {
        if self.stream().is_none() {
            return;
        }
        if let Follow::Bytes(stream) = std::mem::take(&mut self.follow) {
            let (mut tracker, changes) = stream.into_polled(out.now);
            tracker.set_settle_period(self.settle);
            self.follow = Follow::Captures(Box::new(PolledPane {
                tracker,
                next_capture: NextCapture::after_stream(),
            }));
            (self.bytes_after, self.judge_at) = (None, None);
            self.emit(changes, out);
        }
    }

    /// Notes that the drain has connected.
    pub fn drain_connected(&mut self) {
        if let Some(stream) = self.stream_mut() {
            stream.drain_connected();
        }
        self.piping.drain_connected();
    }

    /// Notes that no more bytes arrive through the pipe; `in_order` if none are lost.
    pub fn pipe_ended(&mut self, in_order: bool, out: &mut PaneOutput<'_>) {
        let Some(stream) = self.stream_mut() else {
            return;
        };
        stream.pipe_ended(in_order);
        self.piping.ended(in_order, out.now);
        if !in_order {
            let message = format!(
                "the drain of pane {} is gone, and with it what it had",
                self.id
            );
            out.warn("tmux", message);
        }
    }

    pub(super) fn respawned(&mut self, out: &mut PaneOutput<'_>) {
        if self.dead.is_none() || std::mem::replace(&mut self.has_new_program, true) {
            return;
        }
        if let Some(stream) = self.stream_mut() {
            let changes = stream.begin_program(out.now);
            self.emit_of_stream(changes, out);
        }
    }

    /// Notes that bytes are missing here.
    pub fn bytes_dropped(&mut self, dropped: DroppedBytes, out: &mut PaneOutput<'_>) {
        if let Some(stream) = self.stream_mut() {
            let changes = stream.bytes_dropped(dropped, out.now);
            self.emit_of_stream(changes, out);
        }
    }

    /// Takes a capture to compare with. Returns true if a mark must be requested from the drain.
    pub fn compare(&mut self, captured: PaneCapture, now: Instant) -> bool {
        let PaneCapture {
            capture, resync, ..
        } = captured;
        let point = sync_point(capture, resync.unwrap_or_default());
        self.stream_mut()
            .is_some_and(|stream| stream.handle_check(point, now))
    }

    /// Notes that the requested capture failed, if one was requested.
    pub fn check_failed(&mut self, now: Instant) {
        if let Some(stream) = self.stream_mut() {
            stream.check_failed(now);
        }
    }

    /// Takes the drain's mark. Returns the compared capture, if the comparison was possible, and
    /// whether it differed from the stream.
    pub fn handle_mark(&mut self, out: &mut PaneOutput<'_>) -> Option<(SyncPoint, bool)> {
        let compared = self.stream_mut()?.handle_mark(out.now);
        self.emit_of_stream(compared.changes, out);
        let sync_point = compared.sync_point?;
        self.note_death(sync_point.capture.dead, out);
        Some((sync_point, compared.differed))
    }

    /// Requests a comparison as soon as possible.
    pub fn check_soon(&mut self) {
        if let Some(stream) = self.stream_mut() {
            stream.check_soon();
        }
    }

    /// Takes the listing of a streamed pane. Returns true if its size has changed.
    pub fn handle_listed(&mut self, state: &PaneState, out: &mut PaneOutput<'_>) -> bool {
        self.update_piped(state.piped, out);
        if self.stream().is_none() {
            return false;
        }
        let old = self.shape;
        if self.dead.is_some() && state.pid != self.shape.pid {
            self.respawned(out);
            self.opened(state, out);
        }
        self.update_shape(state.numbers, out);
        if let Some(stream) = self.stream_mut().filter(|_| state.dead.is_none()) {
            stream.handle_listing(state.numbers, out.now);
        }
        (old.width, old.height) != (state.width, state.height)
    }

    /// Requests a check after a change of size or program, which redraws the screen.
    pub(super) fn handle_reshape(&mut self, old: PaneNumbers) {
        let new = self.shape;
        let Some(stream) = self.stream_mut() else {
            return;
        };
        if !old.has_shape_of(&new) {
            stream.check_soon();
        }
    }

    /// Emits the stream's settled changes. Returns true if the pane's request has changed.
    pub(super) fn emit_streamed(&mut self, out: &mut PaneOutput<'_>) -> bool {
        let Some(stream) = self.stream_mut() else {
            return false;
        };
        let was_over = stream.is_over();
        let changes = stream.handle_timeout(out.now);
        let has_timed_out = stream.is_over() && !was_over;
        self.emit_of_stream(changes, out);
        if has_timed_out {
            // Reported once, until a drain connects.
            if self.piping.drain_timed_out(out.now) {
                let message = format!(
                    "the drain of pane {} does not come: polling it instead",
                    self.id
                );
                out.warn("tmux", message);
            }
        }
        if self.judge_at.is_some_and(|at| at <= out.now) {
            self.judge_at = None;
            self.judge_streamed(out);
        }
        has_timed_out || self.needs_check(out.now)
    }

    /// Returns the text of the screen.
    pub fn screen_text(&self) -> String {
        self.shown()
            .map_or_else(String::new, |capture| screen_text(&capture))
    }

    /// Returns the screen, if it is known.
    pub(super) fn shown(&self) -> Option<Capture> {
        let streamed = self.stream().map(StreamedPane::capture);
        streamed.or_else(|| self.shown.clone())
    }

    pub(super) fn schedule_judging(&mut self, now: Instant) {
        if self.states.is_some() {
            self.judge_at.get_or_insert(now + JUDGE_DELAY);
        }
    }

    fn judge_streamed(&mut self, out: &mut PaneOutput<'_>) {
        if let Some(capture) = self.stream().map(StreamedPane::capture) {
            self.judge(&capture, out);
        }
    }
}

/// Returns the part of a capture that shows the screen.
pub(super) fn screen_of(capture: &Capture) -> Capture {
    Capture {
        rows: capture.rows[capture.history_rows()..].to_vec(),
        saved: None,
        ..*capture
    }
}

/// Returns the rows of the screen as text, without the history.
pub(super) fn screen_text(capture: &Capture) -> String {
    let rows = capture.rows[capture.history_rows()..].iter();
    rows.map(|row| row.text.as_str())
        .collect::<Vec<&str>>()
        .join("\n")
}

pub(in crate::observe) fn sync_point(capture: Capture, resync: ResyncData) -> SyncPoint {
    SyncPoint {
        capture,
        modes: resync.modes,
        pending: resync.pending,
        version: resync.version,
    }
}
