//! A model client that replays recorded answers, one file per request.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use crossbeam_channel::Sender;

use super::LlmClient;
use super::cancel::Cancel;
use super::error::LlmError;
use super::reader::reader;
use super::request::Request;
use super::response::{Response, StreamChunk};
use super::response_builder::ResponseBuilder;
use crate::agent::Format;
use crate::clock::Clock;
use crate::error::Error;

/// Default number of bytes to read at once: as many as a network delivers at once.
const READ_BYTES: usize = 4 * 1024;

/// Replays recorded answers, for tests and analysis.
///
/// The files contain the output of a command or an API, byte for byte; a truncated file is an
/// incomplete answer.
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
    read_bytes: usize,
    clock: Clock,
}

impl RecordedClient {
    /// Creates a client that answers with these files in order.
    pub fn new(format: Format, files: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self {
            format,
            answers: files.into_iter().map(Into::into).collect(),
            read_bytes: READ_BYTES,
            clock: Clock::system(),
        }
    }

    /// Sets the number of bytes to read at once, at least 1; defaults to 4 KiB.
    pub fn read_bytes(mut self, bytes: usize) -> Self {
        self.read_bytes = bytes.max(1);
        self
    }

    /// Returns the number of remaining answers.
    pub fn remaining(&self) -> usize {
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
        let path = path.ok_or_else(|| LlmError::message("no recorded answer remains"))?;
        let mut file = File::open(&path)
            .map_err(|cause| Error::file("cannot open the recorded answer", &path, cause))?;
        let mut reader = reader(self.format, &self.clock);
        let mut response = ResponseBuilder::new(chunks, cancel);
        let mut buffer = vec![0; self.read_bytes];
        loop {
            if cancel.is_cancelled() {
                return Err(response.fail(LlmError::cancelled()));
            }
            let read = match file.read(&mut buffer) {
                Ok(0) => reader.finish(&mut response),
                Ok(count) => match reader.push(&buffer[..count], &mut response) {
                    Ok(()) => continue,
                    error => error,
                },
                Err(cause) => {
                    let error = Error::file("cannot read the recorded answer", &path, cause);
                    return Err(response.fail(LlmError::other(error)));
                }
            };
            // After a cancellation, chunks were dropped, so the answer counts as cancelled.
            return match read {
                _ if cancel.is_cancelled() => Err(response.fail(LlmError::cancelled())),
                Ok(()) => Ok(response.finish()),
                Err(error) => Err(response.fail(error.into_error(reader.other_text().trim()))),
            };
        }
    }
}
