//! The lines of one run that are not in its file yet, and the numbers of those that found no room
//! (pure).

use crate::event::{Envelope, ExecutionId, LogGapRange, TdEvent};
use crate::history::line::{LINE_BYTES_MAX, LineWriter, parse_line};

/// The number of buffers kept for the next batch; a batch rarely has more runs with many lines.
const BUFFERS_MAX: usize = 4;
/// The largest buffer that is kept; a larger one returns to the system.
const BUFFER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The bytes that may be pending in this run.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingLimits {
    /// For output text.
    pub(super) text: usize,
    /// For life-cycle events, which have reserved room.
    pub(super) life: usize,
}

impl PendingLimits {
    /// While writing works, lines are pending only until the end of their batch.
    pub(super) const NONE: Self = Self {
        text: usize::MAX,
        life: usize::MAX,
    };
}

/// Buffers for reuse, so that a batch allocates no memory.
#[derive(Debug, Default)]
pub(super) struct BufferPool(Vec<Vec<u8>>);

impl BufferPool {
    fn take(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    fn give(&mut self, mut buffer: Vec<u8>) {
        if self.0.len() < BUFFERS_MAX && (1..=BUFFER_BYTES_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            self.0.push(buffer);
        }
    }
}

/// Pending lines in order, followed by a gap of events that found no room.
#[derive(Debug, Default)]
pub(super) struct PendingLines {
    lines: Vec<u8>,
    gap: Option<LogGapRange>,
    /// Text was dropped. All text is dropped until everything pending is written; otherwise short
    /// texts would pass between long ones, each with its own gap.
    is_dropping_text: bool,
    /// The number of events that were dropped here or on the bus since the last
    /// [`take_dropped`](Self::take_dropped).
    dropped: u64,
}

/// The state before a write, which appended the gap to the lines.
#[derive(Debug)]
pub(super) struct WriteAttempt {
    mark: usize,
    gap: Option<LogGapRange>,
}

impl PendingLines {
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.gap.is_none()
    }

    pub(super) fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Appends the event if it fits, or adds its number to the gap.
    pub(super) fn push(
        &mut self,
        writer: &mut LineWriter,
        buffers: &mut BufferPool,
        id: &ExecutionId,
        envelope: &Envelope,
        limits: PendingLimits,
    ) {
        let is_text = envelope.event.is_text();
        if self.lines.capacity() == 0 {
            self.lines = buffers.take();
        }
        let start = self.lines.len();
        let limit = if is_text { limits.text } else { limits.life };
        let mut is_too_long = false;
        let written = if is_text && self.is_dropping_text {
            false
        } else {
            self.write_gap(writer, id);
            let before = self.lines.len();
            let is_encoded = writer.push(&mut self.lines, envelope).is_ok();
            // No reader would accept the line.
            is_too_long = (self.lines.len() - before) as u64 > LINE_BYTES_MAX;
            is_encoded && !is_too_long && self.lines.len() <= limit
        };
        if written {
            self.gap = None;
        } else {
            self.lines.truncate(start);
            self.lines.shrink_to(limits.life);
            self.is_dropping_text |= is_text && !is_too_long;
            if let Some(gap) = LogGapRange::of(envelope) {
                self.add_missing(gap);
            }
        }
        self.dropped += match (&envelope.event, LogGapRange::of(envelope)) {
            // Events that the bus dropped.
            (TdEvent::LogGap { .. }, Some(gap)) => gap.last - gap.first + 1,
            _ => u64::from(!written),
        };
    }

    /// Returns the number of events dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Adds numbers whose events will not be in the file. The gap is written before the next line.
    pub(super) fn add_missing(&mut self, gap: LogGapRange) {
        match &mut self.gap {
            Some(open) => open.widen(gap),
            None => self.gap = Some(gap),
        }
    }

    /// Inserts a header before all lines.
    pub(super) fn push_front(&mut self, writer: &mut LineWriter, header: &Envelope) {
        let mut line = Vec::new();
        // A header can always be serialized; without one the lines are still valid.
        if writer.push(&mut line, header).is_ok() {
            self.lines.splice(..0, line);
        }
    }

    /// Returns the first pending number, including missing ones.
    pub(super) fn first_seq(&self) -> Option<u64> {
        let mut lines = self.lines.split(|&byte| byte == b'\n');
        let first = lines.find_map(numbers).or(self.gap)?;
        Some(first.first)
    }

    /// Returns the first and last pending numbers; `None` if nothing with a number is pending.
    pub(super) fn seq_range(&self) -> Option<(u64, u64)> {
        let mut backwards = self.lines.rsplit(|&byte| byte == b'\n');
        let last = self.gap.or_else(|| backwards.find_map(numbers))?;
        Some((self.first_seq()?, last.last))
    }

    /// Appends the gap to the lines for one write. If the write fails, the gap may still grow.
    pub(super) fn begin_write(
        &mut self,
        writer: &mut LineWriter,
        id: &ExecutionId,
    ) -> WriteAttempt {
        let mark = self.lines.len();
        self.write_gap(writer, id);
        WriteAttempt {
            mark,
            gap: self.gap.take(),
        }
    }

    /// Removes the first `kept` bytes, which a failed write has written.
    pub(super) fn write_failed(&mut self, attempt: WriteAttempt, kept: usize) {
        if kept <= attempt.mark {
            self.lines.truncate(attempt.mark);
            self.gap = attempt.gap;
        }
        self.lines.drain(..kept.min(self.lines.len()));
    }

    /// Removes all lines after a write.
    pub(super) fn write_done(&mut self, buffers: &mut BufferPool) {
        buffers.give(std::mem::take(&mut self.lines));
        self.gap = None;
        self.is_dropping_text = false;
    }

    /// Applies the limits when writing begins to fail; before that there are none.
    pub(super) fn drop_excess(
        &mut self,
        writer: &mut LineWriter,
        buffers: &mut BufferPool,
        id: &ExecutionId,
        limits: PendingLimits,
    ) {
        if self.lines.len() <= limits.text {
            return;
        }
        let before = std::mem::take(self);
        self.dropped = before.dropped;
        for line in before
            .lines
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let Ok(envelope) = parse_line(line) else {
                continue;
            };
            match (&envelope.event, LogGapRange::of(&envelope)) {
                // Counted already; the gap is written again before the next line.
                (TdEvent::LogGap { .. }, Some(gap)) => self.add_missing(gap),
                _ => self.push(writer, buffers, id, &envelope, limits),
            }
        }
        if let Some(gap) = before.gap {
            self.add_missing(gap);
        }
    }

    /// Appends the gap as a line. The caller decides whether the line stays.
    fn write_gap(&mut self, writer: &mut LineWriter, id: &ExecutionId) {
        if let Some(gap) = self.gap {
            // A gap can always be serialized.
            let _ = writer.push(&mut self.lines, &gap.envelope(id.clone()));
        }
    }
}

/// Returns the numbers that a line represents.
fn numbers(line: &[u8]) -> Option<LogGapRange> {
    LogGapRange::of(&parse_line(line).ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::timestamp::Timestamp;

    fn envelope(seq: u64, is_text: bool, size: usize) -> Envelope {
        let execution_id = ExecutionId::from("a");
        let event = if is_text {
            TdEvent::TokenReceived {
                execution_id,
                iteration: 1,
                token: "x".repeat(size),
                pane: None,
            }
        } else {
            TdEvent::Warning {
                execution_id,
                context: "c".into(),
                message: "y".repeat(size),
            }
        };
        Envelope::new(Some(seq), Timestamp::default(), event)
    }

    /// Checks that the lines and their gaps account for each number once, in order.
    fn accounted(lines: &[u8]) -> u64 {
        let mut next = 1;
        for line in lines
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let LogGapRange { first, last, .. } = numbers(line).unwrap();
            assert_eq!(first, next, "{}", String::from_utf8_lossy(lines));
            assert!(last >= first);
            next = last + 1;
        }
        next
    }

    proptest! {
        /// For all sequences of pushes and failed writes, each number is in the file once and in
        /// order, as an event or in a gap, and the pending bytes respect the limits.
        #[test]
        fn every_number_is_accounted_for(
            steps in proptest::collection::vec((0..10u8, any::<bool>(), 0..300usize), 1..120),
        ) {
            let (mut pending, mut writer, mut buffers) =
                (PendingLines::default(), LineWriter::default(), BufferPool::default());
            let (id, mut file, mut seq) = (ExecutionId::from("a"), Vec::new(), 0);
            let mut limits = PendingLimits::NONE;
            for (what, is_text, size) in steps {
                match what {
                    0..7 => {
                        seq += 1;
                        pending.push(&mut writer, &mut buffers, &id, &envelope(seq, is_text, size), limits);
                        prop_assert!(pending.len() <= limits.life);
                    }
                    7..9 => {
                        let attempt = pending.begin_write(&mut writer, &id);
                        let lines = pending.lines();
                        let cut = (size * lines.len() / 300).min(lines.len());
                        let kept = lines[..cut].iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
                        file.extend_from_slice(&lines[..kept]);
                        pending.write_failed(attempt, kept);
                        limits = PendingLimits { text: 1000, life: 1500 };
                        pending.drop_excess(&mut writer, &mut buffers, &id, limits);
                        prop_assert!(pending.len() <= limits.life);
                    }
                    _ => {
                        let _ = pending.begin_write(&mut writer, &id);
                        file.extend_from_slice(pending.lines());
                        pending.write_done(&mut buffers);
                        prop_assert!(pending.is_empty());
                        limits = PendingLimits::NONE;
                    }
                }
            }
            let _ = pending.begin_write(&mut writer, &id);
            file.extend_from_slice(pending.lines());
            prop_assert_eq!(accounted(&file), seq + 1);
        }
    }

    #[test]
    fn life_cycle_events_have_reserved_room() {
        let (mut pending, mut writer, mut buffers) = (
            PendingLines::default(),
            LineWriter::default(),
            BufferPool::default(),
        );
        let id = ExecutionId::from("a");
        let limits = PendingLimits {
            text: 1000,
            life: 2000,
        };
        for seq in 1..=5 {
            pending.push(
                &mut writer,
                &mut buffers,
                &id,
                &envelope(seq, true, 400),
                limits,
            );
        }
        assert_eq!(pending.seq_range(), Some((1, 5)));
        pending.push(
            &mut writer,
            &mut buffers,
            &id,
            &envelope(6, false, 10),
            limits,
        );
        pending.push(
            &mut writer,
            &mut buffers,
            &id,
            &envelope(7, true, 1),
            limits,
        );
        let text = String::from_utf8(pending.lines().to_vec()).unwrap();
        let gap = r#"{"seq":5,"ts":"1970-01-01T00:00:00.000000Z","event":{"type":"LogGap","execution_id":"a","first_seq":2,"last_seq":5}}"#;
        assert_eq!(text.lines().nth(1), Some(gap));
        assert_eq!(text.lines().count(), 3);
        assert_eq!(pending.seq_range(), Some((1, 7)));
    }
}
