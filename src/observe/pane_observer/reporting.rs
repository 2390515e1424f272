//! From a pane's captures to its output: the tracker finds the changed lines, which are throttled, styled, split
//! at the ends of turns, and collected as events (pure).

use std::time::Instant;

use super::{Follow, Pane};
use crate::agent::Turn;
use crate::event::{CompletionReason, ExecutionId, PaneId, Styles, TdEvent, TurnEvidence};
use crate::observe::resume_point::ResumePoint;
use crate::tmux::{Freshness, PaneCapture, PaneState};
use crate::track::{Change, Throttled};

/// The context of warnings about a pane's pipe. Nothing is missing because of them, so faces show them
/// only with more detail.
pub(crate) const PIPE_CONTEXT: &str = "pipe";

/// One output.
#[derive(Debug)]
pub(in crate::observe) enum PaneEmission {
    /// An event that is emitted at once.
    Event(TdEvent),
    /// Lines, or a gap between them: they may wait until the log has room.
    Lines(TdEvent),
    /// An event for live subscribers only.
    Live(TdEvent),
    /// Something other than its transcript shows that the turn of the pane's agent is over.
    TurnOver,
}

/// Collects the output of one pane.
pub(in crate::observe) struct PaneOutput<'a> {
    pub execution_id: &'a ExecutionId,
    pub emissions: &'a mut Vec<PaneEmission>,
    pub resume_point: &'a mut ResumePoint,
    pub now: Instant,
}

/// The reason why output is complete.
#[derive(Clone, Copy)]
pub(in crate::observe) enum Completion {
    /// An agent's turn has ended.
    Turn,
    /// An agent's turn seems to have ended, because the pane is silent.
    Inferred,
    /// The program has ended, with this status if it is known.
    Exit(Option<i32>),
}

impl PaneOutput<'_> {
    /// Adds an event.
    pub fn emit(&mut self, event: TdEvent) {
        self.emissions.push(PaneEmission::Event(event));
    }

    /// Adds lines or a gap; unless `is_logged`, for live subscribers only.
    pub fn emit_lines(&mut self, event: TdEvent, is_logged: bool) {
        self.emissions.push(match is_logged {
            true => PaneEmission::Lines(event),
            false => PaneEmission::Live(event),
        });
    }

    /// Adds a notice for the reader of the pane's conversation.
    pub fn notify_turn_over(&mut self) {
        self.emissions.push(PaneEmission::TurnOver);
    }

    /// Adds a warning.
    pub fn warn(&mut self, context: &str, message: String) {
        self.emit(TdEvent::Warning {
            execution_id: self.execution_id.clone(),
            context: context.to_owned(),
            message,
        });
    }

    /// Adds the end of a pane's output so far: an agent's turn, or a program's life.
    pub fn complete(
        &mut self,
        pane: &PaneId,
        (first_line, chunk): (i64, &str),
        styles: Styles,
        completion: Completion,
    ) {
        let (reason, exit_status) = match completion {
            Completion::Turn => (CompletionReason::Turn, None),
            Completion::Inferred => (CompletionReason::Inferred, None),
            Completion::Exit(status) => (CompletionReason::Exit, status),
        };
        self.emit(TdEvent::OutputUpdate {
            execution_id: self.execution_id.clone(),
            pane: pane.clone(),
            first_line,
            chunk: chunk.to_owned(),
            is_complete: true,
            reason: Some(reason.into()),
            exit_status,
            styles,
        });
    }

    /// Adds the end of a turn of the pane's agent.
    pub fn turn_completed(
        &mut self,
        pane: &PaneId,
        marker: &str,
        summary: &str,
        evidence: Option<TurnEvidence>,
    ) {
        self.emit(TdEvent::TurnCompleted {
            execution_id: self.execution_id.clone(),
            marker: marker.to_owned(),
            summary: summary.to_owned(),
            pane: Some(pane.clone()),
            evidence: evidence.map(Into::into),
            agent_id: None,
        });
    }
}

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
        let changes = polled.tracker.apply_any(capture, deepest);
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
            let end = first_line
                .saturating_add(memchr::memchr_iter(b'\n', chunk.as_bytes()).count() as i64);
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
        out.emit_lines(event, is_logged);
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
