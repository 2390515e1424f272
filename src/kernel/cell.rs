//! One execution request, from its messages to its outputs and its end (pure).
//!
//! A cell has ended when the kernel has replied and is idle again. The two messages arrive on different
//! sockets, in any order.

use std::time::Instant;

use super::content::{
    ClearContent, DisplayContent, ErrorContent, InputContent, LogLine, QuestionContent,
    ReplyContent, StatusContent, StreamContent, joined,
};
use super::feed::MissedOutputs;
use super::wire::{Channel, Message};
use crate::event::OutputStream;

/// The MIME type of display data that contain a log line.
const LOG_TYPE: &str = "application/vnd.td-observe.log+json";

/// The largest printed exception that is recognized when the reply repeats it.
const PRINTED_ERROR_BYTES: usize = 16 * 1024;

#[derive(Clone, Debug)]
pub(crate) enum CellOutput {
    /// Printed text.
    Text {
        stream: OutputStream,
        text: String,
    },
    /// A displayed value.
    Display(DisplayContent),
    /// The value of the last expression.
    Result(DisplayContent),
    /// The new form of a value that was displayed before.
    Update(DisplayContent),
    Error(ErrorContent),
    /// The output so far is removed, now or when the next output arrives.
    Clear {
        wait: bool,
    },
}

/// The effect of a message on a cell.
#[derive(Debug)]
pub(crate) enum CellStep {
    /// The kernel runs this code.
    Begins {
        code: String,
        count: Option<u32>,
    },
    Output(CellOutput),
    /// The code asks the user for input.
    Question(QuestionContent),
    /// The message has no output.
    Nothing,
}

/// The end of a cell's code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CellStatus {
    /// The code ran to its end.
    #[default]
    Ok,
    /// The code raised an exception.
    Error {
        /// The name of the exception, such as `ValueError`.
        name: String,
        /// The exception's message.
        message: String,
    },
    /// The kernel did not finish the code, because it was interrupted or earlier code had failed.
    Aborted,
}

impl CellStatus {
    /// Returns the status as a kernel names it.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error { .. } => "error",
            Self::Aborted => "aborted",
        }
    }

    /// Returns true if the code ran to its end.
    pub fn is_ok(&self) -> bool {
        *self == Self::Ok
    }
}

#[derive(Debug, Default)]
pub(crate) struct Cell {
    pub count: Option<u32>,
    pub status: CellStatus,
    /// True once the kernel has published an exception, which the reply repeats.
    has_error: bool,
    /// The last text on standard error: some exceptions are printed instead of published.
    last_stderr: String,
    /// The exception of the reply. It is held until the kernel is idle, because it may still be published.
    replied_error: Option<ErrorContent>,
    /// True once the kernel has replied to the request.
    pub has_reply: bool,
    /// True once the kernel is idle: all outputs of the cell have arrived.
    pub is_idle: bool,
}

impl Cell {
    /// Handles a message that belongs to this request.
    pub fn take(&mut self, message: &Message) -> CellStep {
        match (message.channel, message.msg_type.as_str()) {
            (Channel::Iopub, _) => self.published(message),
            (Channel::Shell, "execute_reply") => {
                self.has_reply = true;
                self.replied(message.content().unwrap_or_default())
            }
            (Channel::Stdin, "input_request") => {
                CellStep::Question(message.content().unwrap_or_default())
            }
            _ => CellStep::Nothing,
        }
    }

    pub fn missing(&self) -> &'static str {
        match self.has_reply {
            true => "has replied and did not report that it is idle",
            // Python's kernel does this when an interrupt arrives between the code's end and the reply.
            false => "is idle and has not replied",
        }
    }

    /// Stops waiting for the missing message. Returns the exception that was held for it.
    pub fn give_up(&mut self) -> CellStep {
        self.is_idle = true;
        if !self.has_reply && self.status.is_ok() {
            self.status = CellStatus::Aborted;
        }
        self.unpublished_error()
    }

    fn published(&mut self, message: &Message) -> CellStep {
        let output = match message.msg_type.as_str() {
            "status" => {
                let status: StatusContent = message.content().unwrap_or_default();
                self.is_idle |= status.execution_state == "idle";
                return self.unpublished_error();
            }
            "execute_input" => {
                let input: InputContent = message.content().unwrap_or_default();
                self.count = input.execution_count.or(self.count);
                return CellStep::Begins {
                    code: input.code,
                    count: self.count,
                };
            }
            "stream" => {
                let content: StreamContent = message.content().unwrap_or_default();
                let stream = match content.name.as_str() {
                    "stderr" => OutputStream::Stderr,
                    _ => OutputStream::Stdout,
                };
                if stream == OutputStream::Stderr && content.text.len() <= PRINTED_ERROR_BYTES {
                    self.last_stderr.clone_from(&content.text);
                }
                CellOutput::Text {
                    stream,
                    text: content.text,
                }
            }
            "display_data" => CellOutput::Display(message.content().unwrap_or_default()),
            "update_display_data" => CellOutput::Update(message.content().unwrap_or_default()),
            "execute_result" => CellOutput::Result(message.content().unwrap_or_default()),
            "clear_output" => {
                let content: ClearContent = message.content().unwrap_or_default();
                CellOutput::Clear { wait: content.wait }
            }
            "error" => {
                let content: ErrorContent = message.content().unwrap_or_default();
                self.failed(&content);
                self.has_error = true;
                CellOutput::Error(content)
            }
            _ => return CellStep::Nothing,
        };
        CellStep::Output(output)
    }

    fn replied(&mut self, reply: ReplyContent) -> CellStep {
        self.count = reply.execution_count.or(self.count);
        match reply.status.as_str() {
            "error" => {
                let error = ErrorContent {
                    ename: reply.ename,
                    evalue: reply.evalue,
                    traceback: reply.traceback,
                };
                self.failed(&error);
                if !(error.ename.is_empty() && error.traceback.is_empty()) {
                    self.replied_error = Some(error);
                }
                self.unpublished_error()
            }
            "aborted" | "abort" => {
                self.status = CellStatus::Aborted;
                CellStep::Nothing
            }
            _ => CellStep::Nothing,
        }
    }

    /// Returns the exception of the reply if the kernel is idle and has not published or printed it.
    fn unpublished_error(&mut self) -> CellStep {
        let error = self.replied_error.take_if(|_| self.is_idle);
        let is_shown =
            |error: &ErrorContent| self.has_error || self.last_stderr.ends_with(&error_text(error));
        match error.filter(|error| !is_shown(error)) {
            Some(error) => CellStep::Output(CellOutput::Error(error)),
            None => CellStep::Nothing,
        }
    }

    fn failed(&mut self, error: &ErrorContent) {
        self.status = CellStatus::Error {
            name: error.ename.clone(),
            message: error.evalue.clone(),
        };
    }
}

impl CellOutput {
    pub fn log_line(&self) -> Option<LogLine> {
        let (Self::Display(content) | Self::Update(content)) = self else {
            return None;
        };
        serde_json::from_value(content.data.get(LOG_TYPE)?.clone()).ok()
    }

    /// Returns the output as text of a stream; `None` if it has no text form.
    pub fn text(&self) -> Option<(OutputStream, String)> {
        match self {
            Self::Text { stream, text } => Some((*stream, text.clone())),
            Self::Display(content) | Self::Result(content) | Self::Update(content) => {
                Some((OutputStream::Stdout, plain_text(content)?))
            }
            Self::Error(error) => Some((OutputStream::Stderr, error_text(error))),
            // The next text overwrites a line that has not ended.
            Self::Clear { .. } => Some((OutputStream::Stdout, "\r".to_owned())),
        }
    }

    /// Returns the approximate size of the output in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Text { text, .. } => text.len(),
            Self::Display(content) | Self::Result(content) | Self::Update(content) => content
                .data
                .values()
                .map(|value| value.as_str().map_or(64, str::len))
                .sum(),
            Self::Error(error) => error.traceback.iter().map(String::len).sum(),
            Self::Clear { .. } => 0,
        }
    }
}

fn plain_text(content: &DisplayContent) -> Option<String> {
    joined(content.data.get("text/plain")?).map(with_line_end)
}

fn error_text(error: &ErrorContent) -> String {
    with_line_end(match error.traceback.as_slice() {
        [] => format!("{}: {}", error.ename, error.evalue),
        lines => lines.join("\n"),
    })
}

fn with_line_end(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Receives the outputs and questions of a cell.
pub(crate) trait CellListener {
    fn output(&mut self, output: &CellOutput);

    /// Receives the number of outputs that were dropped because the caller was too slow.
    fn missed(&mut self, missed: MissedOutputs);

    /// Returns the answer to a question of the code; `None` if there is no answer, or once `is_over()`
    /// returns true because the question is void.
    fn answer(
        &mut self,
        _question: &QuestionContent,
        _is_over: &dyn Fn() -> bool,
    ) -> Option<String> {
        None
    }

    /// Returns true if the code may ask for input.
    fn allows_questions(&self) -> bool {
        false
    }

    /// Does what is due now; returns the time by which the next call is due.
    fn tick(&mut self, _now: Instant) -> Option<Instant> {
        None
    }
}

pub(super) struct DiscardedOutput;

impl CellListener for DiscardedOutput {
    fn output(&mut self, _: &CellOutput) {}

    fn missed(&mut self, _: MissedOutputs) {}
}

#[cfg(test)]
#[path = "cell_tests.rs"]
mod tests;
