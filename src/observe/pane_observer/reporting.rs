//! From a pane's captures and bytes to events: its tracker finds the changed lines, which are throttled, styled,
//! and split at the ends of turns.

use super::{Follow, Pane};
use crate::agent::Turn;
use crate::event::{Styles, TdEvent, line_ends_in};
use crate::observe::pane_observer::output::{Completion, PaneEmission, PaneOutput};
use crate::tmux::{Freshness, PaneCapture, PaneState};
use crate::track::{Change, ShellMark, TerminalNotice, Throttled};

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
        let changes = polled.tracker.apply(capture, deepest);
        let had_changes = polled.tracker.had_changes();
        polled
            .next_capture
            .note_capture(capture, digest, deepest, changes.is_some());
        self.report_pipe(closed, out);
        self.update_piped(state.piped, out);
        self.update_title(&state.title, out);
        self.update_shape(state.numbers, out);
        let Some(changes) = changes else {
            return;
        };
        if had_changes {
            self.last_news = Some(out.now);
        }
        if self.dead.is_some() && respawned {
            self.opened(state, out);
        }
        if let (Some(turns), Follow::Captures(polled)) = (&mut self.turns, &self.follow) {
            turns.handle_capture(capture, &polled.tracker);
        }
        self.emit(changes, out);
        self.judge(capture, out);
        self.bytes_after = capture.bytes_after;
        self.note_death(capture.dead, out);
    }

    /// Takes a time at which nothing had changed since the last capture.
    pub fn handle_unchanged(
        &mut self,
        state: &PaneState,
        proof: Freshness,
        out: &mut PaneOutput<'_>,
    ) {
        let grew = proof.server_bytes.zip(self.bytes_after);
        self.others_print = grew.is_some_and(|(now, then)| now > then);
        self.confirm_unchanged(proof);
        self.update_piped(state.piped, out);
        self.update_title(&state.title, out);
        let Follow::Captures(polled) = &mut self.follow else {
            return;
        };
        polled.next_capture.note_unchanged(state, proof);
        let changes = polled.tracker.unchanged(proof.at, proof.server_bytes);
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
        let (changes, marks) = stream.feed(bytes, out.now);
        self.last_news = Some(out.now);
        self.schedule_judging(out.now);
        for changes in changes {
            self.emit_of_stream(changes, out);
        }
        self.take_notices(bytes, out);
        marks
    }

    /// Takes the program's messages to its terminal, other than text.
    fn take_notices(&mut self, bytes: &[u8], out: &PaneOutput<'_>) {
        let mut notices = Vec::new();
        if let Some(stream) = self.stream_mut() {
            stream.notices.push(bytes, &mut notices);
        }
        for notice in notices {
            if let TerminalNotice::Title(title) = &notice {
                self.title.clone_from(title);
            }
            if let Some(states) = &mut self.states {
                states.handle_notice(&notice, out.now);
            }
        }
    }

    pub(super) fn emit_of_stream(&mut self, changes: Vec<Change>, out: &mut PaneOutput<'_>) {
        if changes.is_empty() {
            return;
        }
        if let (Some(turns), Follow::Bytes(stream)) = (&mut self.turns, &self.follow) {
            turns.handle_capture(&stream.capture(), stream.tracker());
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
        for change in &changes {
            out.resume_point.note_change(change);
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
        if self.hides(&change) {
            return;
        }
        let styles = match &change {
            Change::Lines { first_line, chunk } => self.styles(*first_line, chunk),
            Change::Revised { line, text } => self.styles(*line, text),
            Change::Screen { .. } | Change::Gap { .. } => Styles::default(),
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
        out.emissions.push(match is_logged {
            true => PaneEmission::Lines(event),
            false => PaneEmission::Live(event),
        });
    }

    /// Returns the styles that a streamed pane's lines have now; a line that has changed since has
    /// none.
    pub(super) fn styles(&self, first_line: i64, text: &str) -> Styles {
        match &self.follow {
            Follow::Captures(_) => Styles::default(),
            Follow::Bytes(stream) => stream.styles(first_line, text),
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
