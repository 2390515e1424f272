//! One recording while it is written: encodes input, keeps whole lines and appends them to the file.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use super::files;
use super::pane_encoder::PaneEncoder;
use super::queue::{PaneInput, RecordedRun};
use crate::event::PaneId;
use crate::redact::Rules;
use crate::timestamp::Timestamp;

/// The most recordings that are open at once. The least recently written one is closed, and opened
/// again when it is written to. The sum of all descriptors is in the documentation of `history`.
pub(super) const FILES_MAX: usize = 64;

/// A recording and its file.
#[derive(Debug)]
pub(super) struct PaneRecording {
    pub run: Arc<RecordedRun>,
    pub pane: PaneId,
    encoder: PaneEncoder,
    /// Whole lines that are not in the file yet.
    lines: String,
    file: Option<File>,
    /// The number of the pane's file, once it is created.
    number: Option<u32>,
    /// The length of the file up to its last whole line.
    len: u64,
    /// The writer's count of writes at the last write of this recording.
    pub used_at: u64,
    /// True if the file cannot be written at all.
    pub is_abandoned: bool,
}

impl PaneRecording {
    pub fn new(run: Arc<RecordedRun>, pane: PaneId, rules: Rules) -> Self {
        let title = run.title.as_ref().map(|title| format!("{title} {pane}"));
        Self {
            encoder: PaneEncoder::new(title, rules),
            run,
            pane,
            lines: String::new(),
            file: None,
            number: None,
            len: 0,
            used_at: 0,
            is_abandoned: false,
        }
    }

    /// Encodes an input. Returns `true` if it ends the recording.
    pub fn input(&mut self, input: PaneInput, at: Timestamp) -> bool {
        if self.is_abandoned {
            return false;
        }
        let (encoder, lines) = (&mut self.encoder, &mut self.lines);
        match input {
            PaneInput::Begin { size, screen } => encoder.begin(size, &screen, at, lines),
            PaneInput::Bytes(bytes) => encoder.bytes(&bytes, at, lines),
            PaneInput::Resized(size) => encoder.resized(size, at, lines),
            PaneInput::Missing(missing) => encoder.missing(missing, at, lines),
            PaneInput::Ended(exit_status) => {
                encoder.ended(exit_status, at, lines);
                return true;
            }
        }
        false
    }

    pub fn flush_due(&mut self, now: Timestamp) {
        self.encoder.flush_due(now, &mut self.lines);
    }

    pub fn flush(&mut self) {
        self.encoder.flush(&mut self.lines);
    }

    pub fn finish(&mut self) {
        self.encoder.finish(&mut self.lines);
    }

    /// Returns `true` if the encoder holds a burst.
    pub fn is_pending(&self) -> bool {
        self.encoder.is_pending()
    }

    /// Returns `true` if there are lines to write.
    pub fn is_due(&self) -> bool {
        !self.lines.is_empty() && !self.is_abandoned
    }

    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    pub fn close(&mut self) {
        self.file = None;
    }

    /// Discards all lines, also those that follow.
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
        self.file = None;
        self.lines = String::new();
    }

    /// Writes all lines and returns their bytes. After an error the file holds whole lines only,
    /// and the next call retries the others.
    pub fn write(&mut self) -> io::Result<u64> {
        let mut written = 0;
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        while written < self.lines.len() {
            match file.write(&self.lines.as_bytes()[written..]) {
                Ok(0) => {
                    let cause = io::ErrorKind::WriteZero.into();
                    return Err(self.keep_whole_lines(&file, written, cause));
                }
                Ok(more) => written += more,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(self.keep_whole_lines(&file, written, cause)),
            }
        }
        self.len += written as u64;
        self.lines.clear();
        self.lines.shrink_to(1 << 20);
        self.file = Some(file);
        Ok(written as u64)
    }

    /// Opens the file and cuts it after its last whole line.
    fn open(&mut self) -> io::Result<File> {
        let Some(number) = self.number else {
            let (file, number) = files::create(&self.run.directory, &self.pane)?;
            self.number = Some(number);
            return Ok(file);
        };
        let file = files::reopen(&self.run.directory, &self.pane, number)?;
        if file.metadata()?.len() > self.len {
            file.set_len(self.len)?;
        }
        Ok(file)
    }

    /// Keeps the whole lines of a write that failed after `written` bytes.
    fn keep_whole_lines(&mut self, file: &File, written: usize, cause: io::Error) -> io::Error {
        let bytes = &self.lines.as_bytes()[..written];
        let whole = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        self.len += whole as u64;
        self.lines.drain(..whole);
        // If the file cannot be cut now, `open` cuts it later.
        if let Err(cause) = file.set_len(self.len) {
            log::debug!("cannot truncate a recording: {cause}");
        }
        cause
    }
}
