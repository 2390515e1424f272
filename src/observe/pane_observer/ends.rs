//! Beginnings and ends of a pane: opened, its program's end, closed, moved, or detached.

use std::time::{Duration, Instant};

use super::views::Views;
use super::{Follow, Pane};
use crate::event::{GapEvidence, GapReason, PaneCloseReason, Styles, TdEvent};
use crate::observe::pane_output::{Completion, PaneOutput};
use crate::tmux::PaneState;
use crate::track::ProcessExit;

/// A pane that showed something new within this time before it vanished may have printed more:
/// programs print their last lines right before they end.
const JUST_ACTIVE: Duration = Duration::from_millis(500);

/// tmux learns of the end of a program's terminal before it hears of the program's own end, and what
/// it knows is seen within a second; one that has closed its terminal and runs on has no status.
const STATUS_COMES: Duration = Duration::from_secs(2);

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

    /// Returns whether its program has ended, and this is another one in its place.
    pub fn is_respawned(&self, pid: u32) -> bool {
        self.dead.is_some() && pid != 0 && pid != self.shape.pid
    }

    /// The pane is gone. `server_bytes` is what its server has read by now. How its program ended, and
    /// its last bytes, may yet come.
    pub fn mark_gone(&mut self, server_bytes: Option<u64>, now: Instant) {
        self.gone.get_or_insert((now, server_bytes));
    }

    /// The pane is gone, and all that can be known of it is known.
    pub fn close(&mut self, out: &mut PaneOutput<'_>) {
        let (gone_at, server_bytes) = self.gone.unwrap_or((out.now, None));
        let active = self
            .last_news
            .is_some_and(|at| gone_at.saturating_duration_since(at) < JUST_ACTIVE);
        let (changes, all_came) = match &mut self.follow {
            Follow::Captures(polled) => (polled.tracker_mut().end(), false),
            Follow::Bytes(stream) => (stream.end(out.now), stream.is_complete()),
        };
        self.emit(changes, out);
        if self.dying.is_some() {
            self.died(self.ended.unwrap_or_default(), out);
        }
        self.finish(out);
        let next = self.tracker().next_line();
        if self.dead.is_none() {
            let more = match (self.bytes_after, server_bytes) {
                // The drain read to the end of what tmux had.
                _ if self.stream().is_some() => !all_came,
                // The server has read nothing since, of any pane.
                (Some(then), Some(now)) if then == now => false,
                // It has: perhaps of this pane, unless this one rested while others printed.
                (Some(_), Some(_)) => active || !self.others_print,
                _ => active,
            };
            if more {
                // The pane took with it what it printed after the last capture, if it did.
                out.emit(TdEvent::OutputGap {
                    execution_id: out.execution_id.clone(),
                    pane: self.id.clone(),
                    first_line: next,
                    lost_lines: None,
                    reason: GapReason::Ambiguous.into(),
                    evidence: GapEvidence::Possible.into(),
                });
            }
            out.complete(
                &self.id,
                (next, ""),
                Styles::default(),
                Completion::Exit(self.exit_status()),
            );
        }
        self.emit_closed(PaneCloseReason::Closed, self.exit_status(), out);
    }

    /// Nothing of what it printed was seen.
    pub fn mark_output_missing(&mut self, now: Instant) {
        // By the bytes that the server has read, some came after the capture.
        (self.bytes_after, self.last_news) = (Some(0), Some(now));
    }

    /// The pane is another session's from now on, and is reported there from where it was.
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

    /// The pane was another session's.
    pub fn arrive(&mut self, state: &PaneState, out: &mut PaneOutput<'_>) {
        let dead = self.dead;
        self.views = Views::default();
        self.opened(state, out);
        self.dead = dead;
        self.gone = None;
    }

    /// Reports what is pending: the observer stops and the pane remains.
    pub fn detach(&mut self, out: &mut PaneOutput<'_>) {
        let changes = match &mut self.follow {
            Follow::Captures(polled) => polled.tracker_mut().detach(),
            Follow::Bytes(stream) => stream.detach(out.now),
        };
        self.emit(changes, out);
        self.finish(out);
    }

    /// Returns what its program exited with, if it has and that is known.
    pub fn exit_status(&self) -> Option<i32> {
        self.death().and_then(ProcessExit::exit_status)
    }

    /// Returns how its program ended: as tmux has it, else as the kernel does.
    pub fn death(&self) -> Option<ProcessExit> {
        let known = self.dead.filter(|dead| dead.exit_status().is_some());
        known.or(self.ended)
    }

    /// The end of its program, as the kernel reports it.
    pub fn program_ended(&mut self, death: ProcessExit, out: &mut PaneOutput<'_>) {
        self.ended = Some(death);
        if self.dying.is_some() {
            self.died(death, out);
        }
    }

    /// Returns whether it has shown something new at this moment.
    pub fn has_news_of(&self, now: Instant) -> bool {
        self.last_news == Some(now)
    }

    /// The program has ended and tmux keeps the pane: its output is complete. What it exited with tmux
    /// may know a moment later than that its terminal is closed.
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
        let waits = out.now.saturating_duration_since(since) < STATUS_COMES;
        if death.exit_status().is_some() || !waits {
            self.died(death, out);
        }
    }

    /// When it is not waited for a status any more.
    pub(super) fn death_due(&self) -> Option<Instant> {
        Some(self.dying? + STATUS_COMES)
    }

    /// A status that has not come by now does not come.
    pub(super) fn emit_death(&mut self, out: &mut PaneOutput<'_>) {
        if self.death_due().is_some_and(|due| due <= out.now) {
            self.died(self.ended.unwrap_or_default(), out);
        }
    }

    fn died(&mut self, death: ProcessExit, out: &mut PaneOutput<'_>) {
        (self.dead, self.dying) = (Some(death), None);
        self.finish(out);
        let next = self.tracker().next_line();
        out.complete(
            &self.id,
            (next, ""),
            Styles::default(),
            Completion::Exit(death.exit_status()),
        );
    }
}
