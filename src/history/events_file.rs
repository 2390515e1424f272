//! `events.jsonl` of one run: the pending lines, and the file to which whole lines are appended.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::error::if_exists;
use crate::event::{Envelope, ExecutionId, LogGapRange, TdEvent};
use crate::history::background::LostRun;
use crate::history::dir_handle::{DirHandle, EVENTS, FileId};
use crate::history::line::{LINE_BYTES_MAX, LineWriter, parse_line};
use crate::history::tail::{self, Repair};
use crate::timestamp::Timestamp;

/// The interval at which the writer checks that no other program has removed or truncated the file. A run
/// with fewer than a thousand writes per second is checked before each write. More frequent checks cost more
/// than the writes: since Linux 6.13, reading a file's times makes the next write update the time in inode
/// and journal.
///
/// Lines written to a removed file within this interval are lost. Lines written after a truncation precede
/// the header that reports it, and the first of them may continue an incomplete line; the number in the
/// header is still correct.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// The file. Its descriptor may be closed temporarily.
#[derive(Debug)]
pub(super) struct EventsFile {
    /// Shared with `td-sync`, which may sync the file after it is closed here.
    pub(super) file: Option<Arc<File>>,
    pub(super) id: FileId,
    /// The length at the last write or check.
    pub(super) len: u64,
    /// The time of the first line, if there is one.
    pub(super) began: Option<Timestamp>,
    /// True if the file ends within a line of another writer.
    newline_due: bool,
    /// The time of the last check.
    checked_at: Option<Instant>,
}

/// The result of opening the file.
#[derive(Debug)]
pub(super) struct OpenedEvents {
    pub(super) events: EventsFile,
    pub(super) repair: Repair,
    pub(super) last_seq: Option<u64>,
    pub(super) last_ts: Option<Timestamp>,
}

/// A change to the file by another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileChange {
    /// No change.
    None,
    /// The file is shorter.
    Truncated,
    /// The file has been unlinked; data written to it are lost.
    Removed,
}

/// Readable for repairs. Every write goes to the end, whatever other programs do to the file.
const FLAGS: OFlags = OFlags::RDWR.union(OFlags::APPEND);

impl EventsFile {
    /// Opens or creates the file and repairs its end.
    pub(super) fn open(dir: &DirHandle) -> io::Result<OpenedEvents> {
        let file = dir.file(EVENTS, FLAGS | OFlags::CREATE)?;
        let repair = tail::repair(&file)?;
        let last_seq = tail::last_seq(&file)?;
        let last_ts = tail::last_ts(&file)?;
        let events = Self {
            id: FileId::of(&file)?,
            len: file.metadata()?.len(),
            began: tail::first_ts(&file)?,
            newline_due: repair == Repair::Failed,
            checked_at: None,
            file: Some(Arc::new(file)),
        };
        Ok(OpenedEvents {
            events,
            repair,
            last_seq,
            last_ts,
        })
    }

    /// Reopens the file after its descriptor was closed. Returns `false` if it is missing or was replaced.
    pub(super) fn reopen(&mut self, dir: &DirHandle) -> io::Result<bool> {
        if self.file.is_none() {
            match if_exists(dir.file(EVENTS, FLAGS))? {
                Some(file) if FileId::of(&file)? == self.id => self.file = Some(Arc::new(file)),
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Returns `true` if the directory still contains this file.
    pub(super) fn is_in_place(&self, dir: &DirHandle) -> bool {
        dir.identity(EVENTS)
            .is_ok_and(|found| found == Some(self.id))
    }

    /// Detects changes to the file by other programs if a check is due. Called before every write.
    pub(super) fn check(&mut self, now: Instant) -> io::Result<FileChange> {
        let Some(file) = &self.file else {
            return Ok(FileChange::Removed);
        };
        if self.checked_at.is_some_and(|at| now < at + CHECK_INTERVAL) {
            return Ok(FileChange::None);
        }
        let metadata = file.metadata()?;
        if metadata.nlink() == 0 {
            return Ok(FileChange::Removed);
        }
        self.checked_at = Some(now);
        let before = std::mem::replace(&mut self.len, metadata.len());
        if self.len == before {
            return Ok(FileChange::None);
        }
        // The other program may have left an incomplete line.
        let mut last = [b'\n'];
        if self.len > 0 {
            file.read_exact_at(&mut last, self.len - 1)?;
        }
        self.newline_due = last != *b"\n";
        Ok(if self.len < before {
            FileChange::Truncated
        } else {
            FileChange::None
        })
    }

    /// Appends whole lines, in a single write if the system accepts them at once. An error comes with the
    /// number of bytes in the file, which are whole lines. After it, the file still ends with a whole line,
    /// or the next write begins a new line.
    pub(super) fn append(&mut self, lines: &[u8]) -> Result<(), (usize, io::Error)> {
        let Some(file) = self.file.clone() else {
            return Err((0, io::ErrorKind::NotFound.into()));
        };
        if self.newline_due {
            (&*file).write_all(b"\n").map_err(|cause| (0, cause))?;
            self.len += 1;
            self.newline_due = false;
        }
        let mut done = 0;
        while done < lines.len() {
            let cause = match (&*file).write(&lines[done..]) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(written) => {
                    done += written;
                    self.len += written as u64;
                    continue;
                }
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
                Err(cause) => cause,
            };
            let written = &lines[..done];
            let kept = memchr::memrchr(b'\n', written).map_or(0, |at| at + 1);
            if kept < done {
                match remove_partial_line(&file, &written[kept..]) {
                    Ok(len) => self.len = len,
                    Err(_) => self.newline_due = true,
                }
            }
            return Err((kept, cause));
        }
        Ok(())
    }
}

/// Removes an incomplete line from the end, if it is still there. Returns the length of the file.
fn remove_partial_line(file: &File, torn: &[u8]) -> io::Result<u64> {
    let len = file.metadata()?.len();
    let start = len
        .checked_sub(torn.len() as u64)
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    let mut found = vec![0; torn.len()];
    file.read_exact_at(&mut found, start)?;
    if found != torn {
        return Err(io::Error::other("another program wrote to the file"));
    }
    file.set_len(start)?;
    Ok(start)
}

/// The bytes that may be pending in this run.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingLimits {
    /// For output text.
    pub(super) text: usize,
    /// For life-cycle events, which have reserved room.
    pub(super) lifecycle: usize,
}

impl PendingLimits {
    /// While writing works, lines are pending only until the end of their batch.
    pub(super) const NONE: Self = Self {
        text: usize::MAX,
        lifecycle: usize::MAX,
    };
}

/// Pending lines in order, followed by a gap for events without room.
#[derive(Debug, Default)]
pub(super) struct PendingLines {
    lines: Vec<u8>,
    gap: Option<LogGapRange>,
    /// True while text is dropped, which lasts until everything pending is written. Otherwise, short texts
    /// would pass between long ones, each with its own gap.
    is_dropping_text: bool,
}

impl PendingLines {
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.gap.is_none()
    }

    /// Appends the event if it fits, or adds its number to the gap. Adds events that are dropped here, or were on
    /// the bus, to `lost`.
    pub(super) fn push(
        &mut self,
        writer: &mut LineWriter,
        lost: &mut LostRun,
        envelope: &Envelope,
        limits: PendingLimits,
    ) {
        let is_text = envelope.event.is_text();
        if self.lines.capacity() == 0 {
            self.lines = writer.take_buffer();
        }
        let start = self.lines.len();
        let limit = if is_text {
            limits.text
        } else {
            limits.lifecycle
        };
        let mut is_too_long = false;
        let written = if is_text && self.is_dropping_text {
            false
        } else {
            self.write_gap(writer, &lost.execution_id);
            let before = self.lines.len();
            let is_encoded = writer.push(&mut self.lines, envelope).is_ok();
            // Readers reject longer lines.
            is_too_long = (self.lines.len() - before) as u64 > LINE_BYTES_MAX;
            is_encoded && !is_too_long && self.lines.len() <= limit
        };
        if written {
            self.gap = None;
        } else {
            self.lines.truncate(start);
            self.lines.shrink_to(limits.lifecycle);
            self.is_dropping_text |= is_text && !is_too_long;
            if let Some(gap) = LogGapRange::of(envelope) {
                self.add_missing(gap);
            }
        }
        // A `LogGap` stands for events that the bus dropped.
        if (!written || matches!(envelope.event, TdEvent::LogGap { .. }))
            && let Some(LogGapRange { first, last, .. }) = LogGapRange::of(envelope)
        {
            lost.add(first, last);
        }
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
        // A header can always be serialized; without a header, the lines are still valid.
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

    /// Adds the events of the pending lines to `lost`; those of gaps are there already.
    pub(super) fn give_up(&self, lost: &mut LostRun) {
        for line in self.lines.split(|&byte| byte == b'\n') {
            if let Ok(envelope) = parse_line(line)
                && !matches!(envelope.event, TdEvent::LogGap { .. })
                && let Some(LogGapRange { first, last, .. }) = LogGapRange::of(&envelope)
            {
                lost.add(first, last);
            }
        }
    }

    /// Writes everything with `append`, which returns an error together with the number of bytes that it has
    /// written. Returns that number, and the error; the rest stays pending.
    pub(super) fn write(
        &mut self,
        writer: &mut LineWriter,
        id: &ExecutionId,
        append: impl FnOnce(&[u8]) -> Result<(), (usize, io::Error)>,
    ) -> (usize, io::Result<()>) {
        let before_gap = self.lines.len();
        self.write_gap(writer, id);
        let bytes = self.lines.len();
        let Err((kept, cause)) = append(&self.lines) else {
            writer.give_buffer(std::mem::take(&mut self.lines));
            (self.gap, self.is_dropping_text) = (None, false);
            return (bytes, Ok(()));
        };
        if kept <= before_gap {
            // The gap may continue to grow.
            self.lines.truncate(before_gap);
        } else {
            self.gap = None;
        }
        self.lines.drain(..kept);
        (kept, Err(cause))
    }

    /// Applies the limits when writing begins to fail; they do not apply before.
    pub(super) fn drop_excess(
        &mut self,
        writer: &mut LineWriter,
        lost: &mut LostRun,
        limits: PendingLimits,
    ) {
        if self.lines.len() <= limits.text {
            return;
        }
        let before = std::mem::take(self);
        for line in before
            .lines
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let Ok(envelope) = parse_line(line) else {
                continue;
            };
            match (&envelope.event, LogGapRange::of(&envelope)) {
                // Already counted; the gap is written again before the next line.
                (TdEvent::LogGap { .. }, Some(gap)) => self.add_missing(gap),
                _ => self.push(writer, lost, &envelope, limits),
            }
        }
        if let Some(gap) = before.gap {
            self.add_missing(gap);
        }
    }

    /// Appends the gap as a line. The caller decides if the line stays.
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
    use super::*;
    use crate::timestamp::Timestamp;
    use proptest::prelude::*;

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
    /// Returns the next number, and how many are in gaps.
    fn accounted(lines: &[u8]) -> (u64, u64) {
        let (mut next, mut missing) = (1, 0);
        for line in lines
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let LogGapRange { first, last, .. } = numbers(line).unwrap();
            assert_eq!(first, next, "{}", String::from_utf8_lossy(lines));
            assert!(last >= first);
            if line.windows(6).any(|text| text == b"LogGap") {
                missing += last - first + 1;
            }
            next = last + 1;
        }
        (next, missing)
    }

    fn lost_run() -> LostRun {
        LostRun::new("a".into(), "a".into(), String::new())
    }

    proptest! {
        /// For all sequences of pushes and failed writes, each number is in the file once and in
        /// order, as an event or in a gap, and the pending bytes respect the limits.
        #[test]
        fn every_number_is_accounted_for(
            steps in proptest::collection::vec((0..10u8, any::<bool>(), 0..300usize), 1..120),
        ) {
            let (mut pending, mut writer) = (PendingLines::default(), LineWriter::default());
            let (id, mut file, mut seq) = (ExecutionId::from("a"), Vec::new(), 0);
            let mut lost = lost_run();
            let mut limits = PendingLimits::NONE;
            for (step, is_text, size) in steps {
                match step {
                    0..7 => {
                        seq += 1;
                        pending.push(&mut writer, &mut lost, &envelope(seq, is_text, size), limits);
                        prop_assert!(pending.len() <= limits.lifecycle);
                    }
                    7..9 => {
                        let _ = pending.write(&mut writer, &id, |lines| {
                            let cut = (size * lines.len() / 300).min(lines.len());
                            let kept = lines[..cut].iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
                            file.extend_from_slice(&lines[..kept]);
                            Err((kept, io::ErrorKind::StorageFull.into()))
                        });
                        limits = PendingLimits { text: 1000, lifecycle: 1500 };
                        pending.drop_excess(&mut writer, &mut lost, limits);
                        prop_assert!(pending.len() <= limits.lifecycle);
                    }
                    _ => {
                        let _ = pending.write(&mut writer, &id, |lines| {
                            file.extend_from_slice(lines);
                            Ok(())
                        });
                        prop_assert!(pending.is_empty());
                        limits = PendingLimits::NONE;
                    }
                }
            }
            let _ = pending.write(&mut writer, &id, |lines| {
                file.extend_from_slice(lines);
                Ok(())
            });
            let (next, missing) = accounted(&file);
            prop_assert_eq!((next, missing), (seq + 1, lost.events));
        }
    }

    #[test]
    fn life_cycle_events_have_reserved_room() {
        let (mut pending, mut writer) = (PendingLines::default(), LineWriter::default());
        let mut lost = lost_run();
        let limits = PendingLimits {
            text: 1000,
            lifecycle: 2000,
        };
        for seq in 1..=5 {
            pending.push(&mut writer, &mut lost, &envelope(seq, true, 400), limits);
        }
        assert_eq!((lost.events, lost.first_seq, lost.last_seq), (4, 2, 5));
        pending.push(&mut writer, &mut lost, &envelope(6, false, 10), limits);
        pending.push(&mut writer, &mut lost, &envelope(7, true, 1), limits);
        let text = String::from_utf8(pending.lines.clone()).unwrap();
        let gap = r#"{"seq":5,"ts":"1970-01-01T00:00:00.000000Z","event":{"type":"LogGap","execution_id":"a","first_seq":2,"last_seq":5}}"#;
        assert_eq!(text.lines().nth(1), Some(gap));
        assert_eq!(text.lines().count(), 3);
        pending.give_up(&mut lost);
        assert_eq!((lost.events, lost.first_seq, lost.last_seq), (7, 1, 7));
    }
}
