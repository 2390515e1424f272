//! The lines of one run that are on their way to its file, and the numbers of those that had no room (pure).

use crate::event::LogGapRange;
use crate::event::{Envelope, ExecutionId, TdEvent};
use crate::history::line::{LineWriter, parse_line};

/// Buffers kept for the next batch; a batch seldom has more runs with much to say.
const BUFFERS_MAX: usize = 4;
/// A buffer that grew beyond this is given back to the system.
const BUFFER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How many bytes may wait, this run's lines included.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingLimits {
    /// For output text.
    pub(super) text: usize,
    /// For life-cycle events, which have reserved room.
    pub(super) life: usize,
}

impl PendingLimits {
    /// While writing works, lines wait for the end of their batch only.
    pub(super) const NONE: Self = Self {
        text: usize::MAX,
        life: usize::MAX,
    };
}

/// Used buffers, so that a batch needs no new memory.
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

/// Lines that wait, in order; a gap stands for what came behind them and had no room.
#[derive(Debug, Default)]
pub(super) struct PendingLines {
    lines: Vec<u8>,
    gap: Option<LogGapRange>,
    /// Text was dropped: all text is, until everything that waits is written. Else short texts
    /// would slip in between long ones, each with a gap before it.
    is_dropping_text: bool,
    /// How many events were left out since that was last asked, here or on the way here.
    dropped: u64,
}

/// A gap that was put behind the lines for one try.
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

    /// Puts the event behind the others if it fits, else its number into the gap.
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
        let written = if is_text && self.is_dropping_text {
            false
        } else {
            self.write_gap(writer, id);
            writer.push(&mut self.lines, envelope).is_ok() && self.lines.len() <= limit
        };
        if written {
            self.gap = None;
        } else {
            self.lines.truncate(start);
            self.lines.shrink_to(limits.life);
            self.is_dropping_text |= is_text;
            if let Some(gap) = LogGapRange::of(envelope) {
                self.add_missing(gap);
            }
        }
        self.dropped += match (&envelope.event, LogGapRange::of(envelope)) {
            // What the bus had to leave out.
            (TdEvent::LogGap { .. }, Some(gap)) => gap.last - gap.first + 1,
            _ => u64::from(!written),
        };
    }

    /// How many events were left out since this was last asked.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Numbers whose events will not be in the file. They follow on each other: a gap is written
    /// before the next line is.
    pub(super) fn add_missing(&mut self, gap: LogGapRange) {
        match &mut self.gap {
            Some(open) => open.widen(gap),
            None => self.gap = Some(gap),
        }
    }

    /// Puts a header before everything else.
    pub(super) fn push_front(&mut self, writer: &mut LineWriter, header: &Envelope) {
        let mut line = Vec::new();
        // A header is always JSON; without one the lines are worth no less.
        if writer.push(&mut line, header).is_ok() {
            self.lines.splice(..0, line);
        }
    }

    /// The first number that waits, a missing one included.
    pub(super) fn first_seq(&self) -> Option<u64> {
        let mut lines = self.lines.split(|&byte| byte == b'\n');
        let first = lines.find_map(numbers).or(self.gap)?;
        Some(first.first)
    }

    /// The numbers from the first that waits to the last; `None` when nothing with a number waits.
    pub(super) fn seq_range(&self) -> Option<(u64, u64)> {
        let mut backwards = self.lines.rsplit(|&byte| byte == b'\n');
        let last = self.gap.or_else(|| backwards.find_map(numbers))?;
        Some((self.first_seq()?, last.last))
    }

    /// Writes the gap behind the lines, for one try: it may still grow if that fails.
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

    /// After a try that wrote only the first `kept` bytes.
    pub(super) fn write_failed(&mut self, attempt: WriteAttempt, kept: usize) {
        if kept <= attempt.mark {
            self.lines.truncate(attempt.mark);
            self.gap = attempt.gap;
        }
        self.lines.drain(..kept.min(self.lines.len()));
    }

    /// After a try that wrote everything.
    pub(super) fn write_done(&mut self, buffers: &mut BufferPool) {
        buffers.give(std::mem::take(&mut self.lines));
        self.gap = None;
        self.is_dropping_text = false;
    }

    /// Drops what is beyond the limits: called when writing has begun to fail, because until then
    /// there were none.
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
                // Counted before; it is written again before the next line.
                (TdEvent::LogGap { .. }, Some(gap)) => self.add_missing(gap),
                _ => self.push(writer, buffers, id, &envelope, limits),
            }
        }
        if let Some(gap) = before.gap {
            self.add_missing(gap);
        }
    }

    /// Appends the gap as a line and keeps it: whoever calls decides whether the line stays.
    fn write_gap(&mut self, writer: &mut LineWriter, id: &ExecutionId) {
        if let Some(gap) = self.gap {
            // A gap is always JSON.
            let _ = writer.push(&mut self.lines, &gap.envelope(id.clone()));
        }
    }
}

/// The numbers that a line stands for.
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
        /// Whatever is pushed and however tries fail: each number is in the file once, as itself
        /// or in a gap, in order, and what waits stays within its bounds.
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
    fn life_has_room_where_text_has_none() {
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
