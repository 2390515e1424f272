//! One tape in the writer's hands: lines wait here, go to the file, and are whole whatever happens.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;

use super::queue::What;
use super::{Run, files};
use crate::event::PaneId;
use crate::recording::{Missing, Recording};
use crate::redact::Rules;
use crate::timestamp::Timestamp;

/// How many tapes are open at once; the one that was written least recently is closed and opened
/// again when it is written to. See the log's first comment for the sum.
pub(super) const FILES_MAX: usize = 64;

/// A tape.
#[derive(Debug)]
pub(super) struct OpenTape {
    pub run: Arc<Run>,
    pub pane: PaneId,
    recording: Recording,
    /// Whole lines that are not in the file.
    out: String,
    file: Option<File>,
    /// Which file of the pane it is, once it was made.
    number: Option<u32>,
    /// How long the file is as far as its lines are whole.
    len: u64,
    /// Which write of any tape was the last of this one.
    pub used_at: u64,
    /// It cannot be written at all, and why.
    pub is_given_up: bool,
}

impl OpenTape {
    pub fn new(run: Arc<Run>, pane: PaneId, rules: Rules) -> Self {
        let title = run.title.as_ref().map(|title| format!("{title} {pane}"));
        Self {
            recording: Recording::new(title, rules),
            run,
            pane,
            out: String::new(),
            file: None,
            number: None,
            len: 0,
            used_at: 0,
            is_given_up: false,
        }
    }

    /// Takes what happened; whether the tape ends with it.
    pub fn take(&mut self, what: What, at: Timestamp) -> bool {
        if self.is_given_up {
            return false;
        }
        let (recording, out) = (&mut self.recording, &mut self.out);
        match what {
            What::Begin { size, screen } => recording.begin(size, &screen, at, out),
            What::Bytes(bytes) => recording.bytes(&bytes, at, out),
            What::Resized(size) => recording.resized(size, at, out),
            What::Missing(missing) => self.missing(&missing, at),
            What::Ended(exit_status) => {
                recording.ended(exit_status, at, out);
                return true;
            }
        }
        false
    }

    fn missing(&mut self, missing: &Missing, at: Timestamp) {
        self.recording.missing(missing, at, &mut self.out);
    }

    pub fn flush_due(&mut self, now: Timestamp) {
        self.recording.flush_due(now, &mut self.out);
    }

    pub fn flush(&mut self) {
        self.recording.flush(&mut self.out);
    }

    pub fn finish(&mut self) {
        self.recording.finish(&mut self.out);
    }

    /// Whether output waits to be joined with more.
    pub fn is_pending(&self) -> bool {
        self.recording.is_pending()
    }

    /// Whether lines wait to be written.
    pub fn is_due(&self) -> bool {
        !self.out.is_empty() && !self.is_given_up
    }

    pub fn is_open(&self) -> bool {
        self.file.is_some()
    }

    pub fn close(&mut self) {
        self.file = None;
    }

    /// Nothing of it is written any more.
    pub fn give_up(&mut self) {
        self.is_given_up = true;
        self.file = None;
        self.out = String::new();
    }

    /// Writes all lines; how many bytes that were. When it fails, what is in the file is whole lines,
    /// and the others are tried again with the next call.
    pub fn write(&mut self) -> io::Result<u64> {
        let mut written = 0;
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.open()?,
        };
        while written < self.out.len() {
            match file.write(&self.out.as_bytes()[written..]) {
                Ok(0) => return Err(self.torn(&file, written, io::ErrorKind::WriteZero.into())),
                Ok(more) => written += more,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(self.torn(&file, written, cause)),
            }
        }
        self.len += written as u64;
        self.out.clear();
        self.out.shrink_to(1 << 20);
        self.file = Some(file);
        Ok(written as u64)
    }

    /// The file, with nothing behind its last whole line.
    fn open(&mut self) -> io::Result<File> {
        let Some(number) = self.number else {
            let (file, number) = files::create(&self.run.directory, &self.pane)?;
            self.number = Some(number);
            return Ok(file);
        };
        let file = files::reopen(&self.run.directory, &self.pane, number)?;
        let len = file.metadata()?.len();
        if len > self.len {
            file.set_len(self.len)?;
        }
        Ok(file)
    }

    /// Keeps what is whole of a write that failed behind so many bytes.
    fn torn(&mut self, file: &File, written: usize, cause: io::Error) -> io::Error {
        let whole = memchr::memrchr(b'\n', &self.out.as_bytes()[..written]).map_or(0, |at| at + 1);
        self.len += whole as u64;
        self.out.drain(..whole);
        // What cannot be cut now is cut when the file is opened again.
        if let Err(cause) = file.set_len(self.len) {
            log::debug!("cannot cut a tape: {cause}");
        }
        cause
    }
}
