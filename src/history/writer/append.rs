//! Converts events to lines of their runs, which are written at the end of each batch.

use std::time::Instant;

use super::LogWriter;
use crate::event::{Envelope, ExecutionId, LogGapRange, TdEvent};
use crate::history::active_run::{ActiveRun, WriterContext};
use crate::history::events_file::PendingLimits;
use crate::history::notice::LogNoticeKind;
use crate::timestamp::Timestamp;

/// The number of pending bytes that are written before the end of their batch.
const WRITE_BYTES_MAX: usize = 1024 * 1024;

/// The time by which events of several threads may be out of order although the clock was not set back.
const CLOCK_SLACK_MICROS: i64 = 1_000_000;

/// The number of executions without an open run that are reported individually; further ones are only
/// counted.
const UNKNOWN_MAX: usize = 1024;

impl LogWriter {
    /// Writes a batch, with one write for each run in it. Omits events without a number, which are only for
    /// viewers.
    pub fn append(&mut self, batch: &[Envelope], now: Instant) {
        let mut with_lines = std::mem::take(&mut self.with_lines);
        let same_run =
            |a: &Envelope, b: &Envelope| a.event.execution_id() == b.event.execution_id();
        for group in batch.chunk_by(same_run) {
            let mut rest = group;
            while let Some(first) = rest.first() {
                let id = first.event.execution_id();
                let Some(run) = self.runs.get_mut(id) else {
                    self.count_unknown(rest);
                    break;
                };
                if !std::mem::replace(&mut run.has_batch_lines, true) {
                    with_lines.push(run.id.clone());
                }
                rest = run.push(&mut self.context, rest);
                if !rest.is_empty() {
                    self.flush(id, now);
                }
            }
        }
        for id in &with_lines {
            self.flush(id, now);
            if let Some(run) = self.runs.get_mut(id) {
                run.has_batch_lines = false;
                if !run.queue_metadata(&self.syncer, &self.context.clock) {
                    self.sync_at.get_or_insert(now);
                }
            }
        }
        self.sync_written(&with_lines, now);
        with_lines.clear();
        self.with_lines = with_lines;
    }

    fn count_unknown(&mut self, group: &[Envelope]) {
        let Some(first) = group.first() else { return };
        if self.skipped.contains(first.event.execution_id()) {
            return;
        }
        self.not_kept += group
            .iter()
            .filter(|envelope| envelope.seq.is_some())
            .count() as u64;
        let id = first.event.execution_id();
        if self.unknown_executions.len() < UNKNOWN_MAX && !self.unknown_executions.contains(id) {
            let id = ExecutionId::from(id);
            let message = format!(
                "the events of {:?} are not logged: it has no open run",
                &*id
            );
            self.context.notify(&id, LogNoticeKind::NotKept, message);
            self.unknown_executions.insert(id);
        }
    }
}

impl ActiveRun {
    /// Takes events, which stay pending until [`ActiveRun::flush`]. Returns the remaining events if enough
    /// bytes are pending to be written first.
    pub(super) fn push<'a>(
        &mut self,
        context: &mut WriterContext,
        mut events: &'a [Envelope],
    ) -> &'a [Envelope] {
        while let Some((envelope, rest)) = events.split_first() {
            events = rest;
            // An event without a number is only for viewers.
            if envelope.seq.is_some() {
                self.push_one(context, envelope);
                if self.failure.is_none() && self.pending.len() >= WRITE_BYTES_MAX {
                    break;
                }
            }
        }
        events
    }

    fn push_one(&mut self, context: &mut WriterContext, envelope: &Envelope) {
        self.watch_clock(context, envelope.ts);
        if let TdEvent::SessionStarted { session: name, .. }
        | TdEvent::SessionRenamed { to: name, .. } = &envelope.event
        {
            self.note_name(name);
        }
        if let Some(gap) = LogGapRange::of(envelope) {
            self.next_seq = self.next_seq.max(gap.last.saturating_add(1));
        }
        let limits = if self.failure.is_some() {
            self.limits(context)
        } else {
            PendingLimits::NONE
        };
        let before = self.pending.len();
        let writer = &mut context.writer;
        self.pending.push(writer, &self.id, envelope, limits);
        self.account(context, before);
    }

    /// Reports once per run that times are unreliable.
    fn watch_clock(&mut self, context: &mut WriterContext, ts: Timestamp) {
        if ts >= self.latest {
            self.latest = ts;
        } else if !self.is_clock_reported && ts.micros() + CLOCK_SLACK_MICROS < self.latest.micros()
        {
            self.is_clock_reported = true;
            let message = format!(
                "the clock was set back from {} to {ts}; events are in the order of their numbers",
                self.latest
            );
            context.notify(&self.id, LogNoticeKind::ClockWentBack, message);
        }
    }
}
