//! A model that answers what it once answered: recorded files, one a call, read as if they came now.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use crossbeam_channel::Sender;

use super::LlmClient;
use super::cancel::Cancel;
use super::error::LlmError;
use super::intake::Intake;
use super::reader::reader;
use super::request::Request;
use super::response::{Response, StreamChunk};
use crate::agent::Format;
use crate::clock::Clock;
use crate::error::Error;

/// What is read at once unless told otherwise: what a network gives at once.
const PIECE_BYTES: usize = 4 * 1024;

/// Plays recorded answers, for tests and for looking again.
///
/// The files are what a command printed or an API sent, byte for byte; a file that breaks off is an
/// answer that was cut.
///
/// ```no_run
/// use td_observe::agent::Format;
/// use td_observe::agent_loop::{Cancel, LlmClient, RecordedClient, Request};
///
/// let mut model = RecordedClient::new(Format::Sse, ["first.sse", "second.sse"]);
/// let first = model.complete(&Request::prompt("hello"), &Cancel::new());
/// ```
#[derive(Debug)]
pub struct RecordedClient {
    format: Format,
    answers: VecDeque<PathBuf>,
    piece_bytes: usize,
    clock: Clock,
}

impl RecordedClient {
    /// Answers with these files, one after the other.
    pub fn new(format: Format, files: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self {
            format,
            answers: files.into_iter().map(Into::into).collect(),
            piece_bytes: PIECE_BYTES,
            clock: Clock::system(),
        }
    }

    /// How many bytes are read at once; 4 KiB unless told otherwise, and 1 at least.
    pub fn pieces_of(mut self, bytes: usize) -> Self {
        self.piece_bytes = bytes.max(1);
        self
    }

    /// How many answers are left.
    pub fn left(&self) -> usize {
        self.answers.len()
    }
}

impl LlmClient for RecordedClient {
    fn stream(
        &mut self,
        _request: &Request,
        chunks: &Sender<StreamChunk>,
        cancel: &Cancel,
    ) -> Result<Response, LlmError> {
        let path = self.answers.pop_front();
        let path = path.ok_or_else(|| LlmError::message("no recorded answer is left"))?;
        let mut file = File::open(&path)
            .map_err(|cause| Error::file("cannot open the recorded answer", &path, cause))?;
        let mut reader = reader(self.format);
        let mut intake = Intake::new(chunks, cancel);
        let mut piece = vec![0; self.piece_bytes];
        loop {
            if cancel.is_cancelled() {
                return Err(intake.failed(LlmError::cancelled()));
            }
            let read = match file.read(&mut piece) {
                Ok(0) => reader.finish(self.clock.wall(), &mut intake),
                Ok(count) => match reader.push(&piece[..count], self.clock.wall(), &mut intake) {
                    Ok(()) => continue,
                    broken => broken,
                },
                Err(cause) => {
                    let error = Error::file("cannot read the recorded answer", &path, cause);
                    return Err(intake.failed(LlmError::other(error)));
                }
            };
            // An answer that was handed on up to a cancel was not handed on.
            return match read {
                _ if cancel.is_cancelled() => Err(intake.failed(LlmError::cancelled())),
                Ok(()) => Ok(intake.done()),
                Err(flaw) => Err(intake.failed(flaw.into_error(reader.beside().trim()))),
            };
        }
    }
}
