//! Beginnings and ends of a pane: opened, its program's end, closed, moved, or detached.

use std::time::{Duration, Instant};

use super::views::Views;
use super::{Follow, Pane};
use crate::event::{GapEvidence, GapReason, PaneCloseReason, Styles, TdEvent};
use crate::observe::pane_observer::output::{Completion, PaneOutput};
use crate::tmux::PaneState;
use crate::track::ProcessExit;

/// A pane with output within this time before it vanished may have printed more: programs print their
/// last lines right before they end.
const JUST_ACTIVE: Duration = Duration::from_millis(500);

/// The wait for an exit status. tmux reports the exit of a program within a second after the end of
/// its terminal. A program that closes its terminal and continues has no status.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

impl Pane {
    pub(super) fn opened(&mut self, state: &PaneState, out: &mut PaneOutput<'_>) {
        (self.dead, self.dying, self.has_new_program) = (None, None, false);
        self.ended = None;
        out.emit(TdEvent::PaneOpened {
            execution_id: out.execution_id.clone(),
            pane: self.id.clone(),
            width: state.width,
            height: state.height,
            command: state.command.clone(),
        });
    }

    /// Returns true if the program has ended and `pid` is its successor.
    pub fn is_respawned(&self, pid: u32) -> bool {
        self.dead.is_some() && pid != 0 && pid != self.shape.pid
    }

    /// Notes that the pane is gone. `server_bytes` is the number of bytes that its server has read by
    /// now. The exit status and the last bytes may still arrive.
    pub fn mark_gone(&mut self, server_bytes: Option<u64>, now: Instant) {
        self.gone.get_or_insert((now, server_bytes));
    }

    /// Closes a pane that is gone, after everything about it has arrived.
    pub fn close(&mut self, out: &mut PaneOutput<'_>) {
        let (gone_at, server_bytes) = self.gone.unwrap_or((out.now, None));
        let was_active = self
            .last_news
            .is_some_and(|at| gone_at.saturating_duration_since(at) < JUST_ACTIVE);
        let (changes, is_complete) = match &mut self.follow {
            Follow::Captures(polled) => (polled.tracker.end(), false),
            Follow::Bytes(stream) => (stream.end(out.now), stream.is_complete()),
        };
        self.emit(changes, out);
        if self.dying.is_some() {
            self.died(self.ended.unwrap_or_default(), out);
        }
        self.finish(out);
        if self.dead.is_none() {
            let may_lack_output = match (self.bytes_after, server_bytes) {
                // The drain has read everything that tmux had.
                _ if self.stream().is_some() => !is_complete,
                // The server has read nothing since, from any pane.
                (Some(then), Some(now)) if then == now => false,
                // It has, perhaps from this pane, unless this one was idle while others printed.
                (Some(_), Some(_)) => was_active || !self.others_print,
                _ => was_active,
            };
            if may_lack_output {
                // Output after the last capture may be lost.
                out.emit(TdEvent::OutputGap {
                    execution_id: out.execution_id.clone(),
                    pane: self.id.clone(),
                    first_line: self.tracker().next_line(),
                    lost_lines: None,
                    reason: GapReason::Ambiguous.into(),
                    evidence: GapEvidence::Possible.into(),
                });
            }
            self.complete(Completion::Exit(self.exit_status()), out);
        }
        self.emit_closed(PaneCloseReason::Closed, self.exit_status(), out);
    }

    /// Notes that all output of the pane is missing.
    pub fn mark_output_missing(&mut self, now: Instant) {
        // Makes `close` assume that the server has read bytes after the capture.
        (self.bytes_after, self.last_news) = (Some(0), Some(now));
    }

    /// Ends the observation in this session; another session resumes it.
    pub fn leave(&mut self, out: &mut PaneOutput<'_>) {
        self.follow_captures(out);
        self.finish(out);
        self.emit_closed(PaneCloseReason::Moved, None, out);
    }

    fn emit_closed(
        &self,
        reason: PaneCloseReason,
        exit_status: Option<i32>,
        out: &mut PaneOutput<'_>,
    ) {
        out.emit(TdEvent::PaneClosed {
            execution_id: out.execution_id.clone(),
            pane: self.id.clone(),
            reason: reason.into(),
            exit_status,
        });
    }

    /// Resumes the observation in this session.
    pub fn arrive(&mut self, state: &PaneState, out: &mut PaneOutput<'_>) {
        let dead = self.dead;
        self.views = Views::default();
        self.opened(state, out);
        self.dead = dead;
        self.gone = None;
    }

    /// Emits what is pending. The pane continues without an observer.
    pub fn detach(&mut self, out: &mut PaneOutput<'_>) {
        let changes = match &mut self.follow {
            Follow::Captures(polled) => polled.tracker.detach(),
            Follow::Bytes(stream) => stream.detach(out.now),
        };
        self.emit(changes, out);
        self.finish(out);
    }

    /// Returns the exit status of the program, if it has ended and the status is known.
    pub fn exit_status(&self) -> Option<i32> {
        self.death().and_then(ProcessExit::exit_status)
    }

    /// Returns how the program ended, according to tmux, else to the kernel.
    pub fn death(&self) -> Option<ProcessExit> {
        let known = self.dead.filter(|dead| dead.exit_status().is_some());
        known.or(self.ended)
    }

    /// Takes the program's exit as the kernel reports it.
    pub fn program_ended(&mut self, death: ProcessExit, out: &mut PaneOutput<'_>) {
        self.ended = Some(death);
        if self.dying.is_some() {
            self.died(death, out);
        }
    }

    /// Returns true if the pane has changed at this time.
    pub fn has_news_of(&self, now: Instant) -> bool {
        self.last_news == Some(now)
    }

    /// Handles that the program has ended and tmux keeps the pane: its output is complete. tmux may
    /// learn the exit status later than the end of the terminal.
    pub(super) fn note_death(&mut self, dead: Option<ProcessExit>, out: &mut PaneOutput<'_>) {
        let Some(mut death) = dead else {
            (self.dead, self.dying) = (None, None);
            return;
        };
        if self.dead.is_some() {
            return;
        }
        if death.exit_status().is_none() {
            death = self.ended.unwrap_or(death);
        }
        let since = *self.dying.get_or_insert(out.now);
        let waits = out.now.saturating_duration_since(since) < STATUS_TIMEOUT;
        if death.exit_status().is_some() || !waits {
            self.died(death, out);
        }
    }

    /// Returns when the wait for an exit status ends.
    pub(super) fn death_due(&self) -> Option<Instant> {
        Some(self.dying? + STATUS_TIMEOUT)
    }

    /// Completes the output without an exit status, if the wait for it is over.
    pub(super) fn emit_death(&mut self, out: &mut PaneOutput<'_>) {
        if self.death_due().is_some_and(|due| due <= out.now) {
            self.died(self.ended.unwrap_or_default(), out);
        }
    }

    fn died(&mut self, death: ProcessExit, out: &mut PaneOutput<'_>) {
        (self.dead, self.dying) = (Some(death), None);
        self.finish(out);
        self.complete(Completion::Exit(death.exit_status()), out);
    }

    /// Emits that the output is complete up to here.
    pub(super) fn complete(&self, why: Completion, out: &mut PaneOutput<'_>) {
        let next = self.tracker().next_line();
        out.complete(&self.id, (next, ""), Styles::default(), why);
    }
}
