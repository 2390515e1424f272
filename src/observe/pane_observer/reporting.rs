//! From a pane's captures and bytes to events: its tracker finds the changed lines, which are throttled, styled,
//! and split at the ends of turns.

use std::time::Instant;

use super::agent_states::JUDGE_DELAY;
use super::listener::{PaneListener, StateListener, StreamEnd, StreamedView};
use super::output::{Completion, PIPE_CONTEXT, PaneEmission, PaneOutput};
use super::streamed_pane::{Fed, StreamedPane};
use super::{Follow, Pane, PipeNews};
use crate::agent::Turn;
use crate::event::{Links, Styles, TdEvent, line_ends_in};
use crate::observe::polled_pane::PolledPane;
use crate::tmux::{DroppedBytes, Freshness, PaneCapture, PaneState, PipeToken, ResyncData};
use crate::track::{Capture, Change, ShellMark, SyncPoint, TerminalNotice, Throttled};

impl Pane {
    /// Takes a capture, and moves its digest out; `deepest` if no deeper capture is possible.
    pub fn handle_capture(
        &mut self,
        captured: &mut PaneCapture,
        deepest: bool,
        out: &mut PaneOutput<'_>,
    ) {
        self.follow_captures(out);
        let Follow::Captures(polled) = &mut self.follow else {
            return;
        };
        let digest = std::mem::take(&mut captured.digest);
        let PaneCapture { state, capture, .. } = &*captured;
        let respawned = capture.pid != self.shape.pid;
        let continues = capture.dead.is_none() && !respawned;
        let closed = self.piping.captured(state.piped, continues, out.now);
        let changes = polled.apply(capture, digest, deepest);
        let had_changes = polled.tracker.had_changes();
        self.report_pipe(closed, out);
        self.update_piped(state.piped, out);
        self.update_title(&state.title, out);
        self.open_successor(state, out);
        self.update_shape(state.numbers, out);
        let Some(changes) = changes else {
            return;
        };
        if had_changes {
            self.activity.last_news = Some(out.now);
        }
        if let (Some(turns), Follow::Captures(polled)) = (&mut self.turns, &self.follow) {
            turns.handle_capture(capture, &polled.tracker);
        }
        self.emit(changes, out);
        self.agent.is_screen_stale = false;
        self.judge(capture, out);
        self.activity.bytes_after = capture.bytes_after;
        self.note_death(capture.dead, out);
    }

    /// Takes a time at which nothing had changed since the last capture.
    pub fn handle_unchanged(
        &mut self,
        state: &PaneState,
        proof: Freshness,
        out: &mut PaneOutput<'_>,
    ) {
        let grew = proof.server_bytes.zip(self.activity.bytes_after);
        self.activity.others_print = grew.is_some_and(|(now, then)| now > then);
        self.confirm_unchanged(proof);
        self.update_piped(state.piped, out);
        self.update_title(&state.title, out);
        let Follow::Captures(polled) = &mut self.follow else {
            return;
        };
        let changes = polled.unchanged(state, proof);
        if let Some(turns) = &mut self.turns {
            turns.handle_unchanged(proof.at);
        }
        self.emit(changes, out);
    }

    /// Takes bytes, and emits the changes that they make. Returns the shell's marks in them.
    pub fn feed(&mut self, bytes: &[u8], out: &mut PaneOutput<'_>) -> Vec<ShellMark> {
        // A program that has ended prints no more: these are another one's.
        self.respawned(out);
        let Some(stream) = self.stream_mut() else {
            return Vec::new();
        };
        let Fed {
            changes,
            marks,
            notices,
        } = stream.feed(bytes, out.now);
        self.activity.last_news = Some(out.now);
        if self.agent.states.is_some() {
            self.agent.judge_at.get_or_insert(out.now + JUDGE_DELAY);
        }
        for changes in changes {
            self.emit_of_stream(changes, out);
        }
        // The cursor's line, such as a prompt, is no change yet.
        self.pass_on(&[], out.now);
        for notice in notices {
            if let TerminalNotice::Title(title) = &notice {
                self.agent.title.clone_from(title);
            }
            if let Some(states) = &mut self.agent.states {
                states.handle_notice(&notice, out.now);
            }
        }
        marks
    }

    pub(super) fn emit_of_stream(&mut self, changes: Vec<Change>, out: &mut PaneOutput<'_>) {
        if changes.is_empty() {
            return;
        }
        if let (Some(turns), Follow::Bytes(stream)) = (&mut self.turns, &self.follow) {
            turns.handle_capture(&stream.tracker.capture(), &stream.tracker.tracker);
            turns.note_output();
        }
        self.emit(changes, out);
    }

    pub(super) fn finish(&mut self, out: &mut PaneOutput<'_>) {
        for throttled in self.throttle.finish() {
            self.emit_one(throttled, out);
        }
    }

    pub(super) fn emit(&mut self, changes: Vec<Change>, out: &mut PaneOutput<'_>) {
        if !changes.is_empty() {
            self.pass_on(&changes, out.now);
        }
        let turns = self.turns.as_mut();
        let mut turns =
            turns.map_or_else(Vec::new, |turns| turns.handle_changes(&changes, out.now));
        if self.reads_conversation() {
            // The agent's conversation reports its turns.
            turns.clear();
        }
        if turns.is_empty() {
            return self.emit_throttled(changes, out);
        }
        for change in changes {
            let Change::Lines { first_line, chunk } = change else {
                self.emit_throttled(vec![change], out);
                continue;
            };
            let (mut line, mut rest) = (first_line, chunk.as_str());
            let end = first_line.saturating_add(line_ends_in(&chunk));
            let is_here = |turn: &Turn| turn.line.is_some_and(|at| (first_line..end).contains(&at));
            let (here, elsewhere): (Vec<_>, Vec<_>) = turns.into_iter().partition(is_here);
            turns = elsewhere;
            for turn in here {
                let next = turn.line.map_or(end, |number| number + 1);
                let (lines, later) = split_lines(rest, next.abs_diff(line));
                self.emit_turn((line, lines), &turn, out);
                (line, rest) = (next, later);
            }
            if !rest.is_empty() {
                let chunk = rest.to_owned();
                let first_line = line;
                self.emit_throttled(vec![Change::Lines { first_line, chunk }], out);
            }
        }
        // Turns whose markers are not among the new lines.
        for turn in turns {
            self.emit_turn((self.tracker().next_line(), ""), &turn, out);
        }
    }

    /// Emits the lines up to the end of a turn, and the end itself.
    pub(super) fn emit_turn(&mut self, update: (i64, &str), turn: &Turn, out: &mut PaneOutput<'_>) {
        self.finish(out);
        let styles = self.styles(update.0, update.1);
        out.complete(&self.id, update, styles, Completion::Turn);
        out.turn_completed(&self.id, &turn.marker, &turn.summary, None);
    }

    pub(super) fn emit_throttled(&mut self, changes: Vec<Change>, out: &mut PaneOutput<'_>) {
        for throttled in self.throttle.throttle(changes, out.now) {
            self.emit_one(throttled, out);
        }
    }

    /// Emits a change as an event, for all subscribers or for live ones only.
    pub(super) fn emit_one(&self, throttled: Throttled, out: &mut PaneOutput<'_>) {
        let (change, is_logged) = match throttled {
            Throttled::Logged(change) => (change, true),
            Throttled::Live(change) => (change, false),
        };
        let is_hidden = self.hides(&change);
        let (styles, links) = match &change {
            _ if is_hidden => Default::default(),
            Change::Lines { first_line, chunk } => self.styles(*first_line, chunk),
            Change::Revised { line, text } => self.styles(*line, text),
            Change::Screen { .. } | Change::Gap { .. } => Default::default(),
        };
        let (execution_id, pane) = (out.execution_id.clone(), self.id.clone());
        let event = match change {
            Change::Lines { first_line, chunk } => TdEvent::OutputUpdate {
                execution_id,
                pane,
                first_line,
                chunk,
                is_complete: false,
                reason: None,
                exit_status: None,
                styles,
                links,
            },
            Change::Revised { line, text } => TdEvent::OutputRevised {
                execution_id,
                pane,
                line,
                text,
                styles,
            },
            Change::Screen {
                width,
                height,
                cursor,
                rows,
            } => TdEvent::ScreenUpdate {
                execution_id,
                pane,
                width,
                height,
                cursor,
                rows,
            },
            Change::Gap {
                first_line,
                lost_lines,
                reason,
                evidence,
            } => TdEvent::OutputGap {
                execution_id,
                pane,
                first_line,
                lost_lines,
                reason: reason.into(),
                evidence: evidence.into(),
            },
        };
        out.emissions.push(if is_hidden {
            PaneEmission::Hidden(event)
        } else if is_logged {
            PaneEmission::Lines(event)
        } else {
            PaneEmission::Live(event)
        });
    }

    /// Returns the styles and links that a streamed pane's lines have now; a line that has changed since has
    /// none.
    pub(super) fn styles(&self, first_line: i64, text: &str) -> (Styles, Links) {
        match &self.follow {
            Follow::Captures(_) => Default::default(),
            Follow::Bytes(stream) => stream.tracker.styles(first_line, text),
        }
    }
}

/// Splits a chunk after `count` lines.
fn split_lines(chunk: &str, count: u64) -> (&str, &str) {
    let last = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_sub(1));
    let end = last.and_then(|last| chunk.match_indices('\n').nth(last));
    chunk.split_at(end.map_or(0, |(at, _)| at + 1))
}

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
        self.stream().map(|stream| &stream.token)
    }

    /// Returns true if bytes may still arrive.
    pub fn is_streamed(&self) -> bool {
        self.stream().is_some_and(|stream| !stream.is_over())
    }

    /// Notes that no pipe was opened; `is_foreign` if another program has one open.
    pub fn pipe_not_opened(&mut self, is_foreign: bool, out: &mut PaneOutput<'_>) {
        if is_foreign {
            let news = self.piping.opening_refused(out.now);
            self.report_pipe(news, out);
        } else {
            self.piping.cannot_open(out.now)
        }
        self.listeners.give_up_stream();
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
            self.listeners.stream_begins(&stream.tracker, times.1);
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
            self.follow = Follow::Captures(Box::new(PolledPane::after_stream(tracker)));
            self.end_listening(&changes, out.now);
            (self.activity.bytes_after, self.agent.judge_at) = (None, None);
            self.emit(changes, out);
        }
    }

    /// Adds a listener. Returns true if it begins at a mark, which the caller must request from the drain. A
    /// listener of a pane that is not streamed, and will not be at once, is dropped.
    pub fn listen(&mut self, listener: Box<dyn PaneListener>, now: Instant) -> bool {
        match &self.follow {
            Follow::Bytes(stream) if stream.is_over() => false,
            Follow::Bytes(stream) if stream.is_connecting() => {
                let stream = &stream.tracker;
                self.listeners.begin(listener, StreamedView { stream, now });
                false
            }
            Follow::Bytes(_) => {
                self.listeners.await_mark(listener);
                true
            }
            Follow::Captures(_) => {
                if self.streams && self.shape.dead.is_none() && self.piping.opens_soon(now) {
                    self.listeners.await_stream(listener);
                }
                false
            }
        }
    }

    /// Adds a listener of the agent's states, if they are observed.
    pub fn listen_to_states(&mut self, listener: Box<dyn StateListener>) {
        if self.agent.states.is_some() {
            self.listeners.add_state_listener(listener);
        }
    }

    /// Passes changes of a streamed pane on to its listeners.
    fn pass_on(&mut self, changes: &[Change], now: Instant) {
        match &self.follow {
            Follow::Bytes(stream) => self.listeners.changed(&stream.tracker, changes, now),
            Follow::Captures(_) => self.listeners.awaited(changes),
        }
    }

    /// Ends the stream for its listeners, which may poll the pane from here on.
    pub(super) fn end_listening(&mut self, changes: &[Change], now: Instant) {
        let tracker = match &self.follow {
            Follow::Captures(polled) => &polled.tracker,
            Follow::Bytes(stream) => &stream.tracker.tracker,
        };
        self.listeners.end(StreamEnd::Polled {
            tracker,
            changes,
            now,
        });
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
        stream.pipe_ended(in_order, out.now);
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
        if self.life.dead.is_none() || std::mem::replace(&mut self.life.has_new_program, true) {
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
    pub fn compare(&mut self, captured: PaneCapture, out: &mut PaneOutput<'_>) -> bool {
        let PaneCapture {
            state,
            capture,
            resync,
            ..
        } = captured;
        // After a rest, this capture is the first that shows another program.
        self.open_successor(&state, out);
        let point = sync_point(capture, resync.unwrap_or_default());
        let needs_mark = self
            .stream_mut()
            .is_some_and(|stream| stream.check.handle_capture(point, out.now));
        if needs_mark {
            self.listeners.comparison_requested();
        }
        needs_mark
    }

    /// Notes that the requested capture failed, if one was requested.
    pub fn check_failed(&mut self, now: Instant) {
        if let Some(stream) = self.stream_mut() {
            stream.check.capture_failed(now);
        }
    }

    /// Takes the drain's mark. Returns the compared capture, if the comparison was possible, and
    /// whether it differed from the stream.
    pub fn handle_mark(&mut self, out: &mut PaneOutput<'_>) -> Option<(SyncPoint, bool)> {
        let Follow::Bytes(stream) = &self.follow else {
            return None;
        };
        let (stream, now) = (&stream.tracker, out.now);
        if !self.listeners.mark_arrived(StreamedView { stream, now }) {
            return None;
        }
        let compared = self.stream_mut()?.handle_mark(out.now);
        self.emit_of_stream(compared.changes, out);
        let sync_point = compared.sync_point?;
        if std::mem::take(&mut self.agent.is_screen_stale) || compared.differed {
            self.agent.judge_at.get_or_insert(out.now + JUDGE_DELAY);
        }
        self.note_death(sync_point.capture.dead, out);
        Some((sync_point, compared.differed))
    }

    /// Requests a comparison as soon as possible.
    pub fn check_soon(&mut self) {
        if let Some(stream) = self.stream_mut() {
            stream.check.check_soon();
        }
    }

    /// Takes the listing of a streamed pane. Returns true if its size has changed.
    pub fn handle_listed(&mut self, state: &PaneState, out: &mut PaneOutput<'_>) -> bool {
        self.update_piped(state.piped, out);
        if self.stream().is_none() {
            return false;
        }
        let old = self.shape;
        self.open_successor(state, out);
        self.update_shape(state.numbers, out);
        if let Some(stream) = self.stream_mut().filter(|_| state.dead.is_none()) {
            stream.handle_listing(state.numbers, out.now);
        }
        (old.width, old.height) != (state.width, state.height)
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
        has_timed_out || self.needs_check(out.now)
    }

    /// Returns the text of the screen.
    pub fn screen_text(&self) -> String {
        self.shown()
            .map_or_else(String::new, |capture| screen_text(&capture))
    }

    /// Returns the screen, if it is known.
    pub(super) fn shown(&self) -> Option<Capture> {
        let streamed = self
            .stream()
            .map(|stream| stream.tracker.complete_capture());
        streamed.or_else(|| self.agent.shown.clone())
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
