//! A model client that runs a command, with the prompt as its input and the answer as its output.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::tool::RunningCommand;
use super::messages::{Request, Response, StreamChunk};
use super::reader::{AnswerReader, reader};
use super::{AnswerError, Cancel, LlmClient, LlmError, LlmErrorKind, ResponseBuilder};
use crate::agent::Format;
use crate::child::{ChildListener, OutputStream};
use crate::clock::Clock;
use crate::error::Error;
use crate::process::{Command, CommandControl, CommandOutcome, Stdin, run_with_listener};
use crossbeam_channel::{Sender, never};

/// The environment variable with the prompt, for commands that pass it as an argument.
const PROMPT: &str = "TD_PROMPT";

/// The environment variable with the path of the prompt's file.
const PROMPT_FILE: &str = "TD_PROMPT_FILE";

/// Maximum size of the prompt in the environment. Linux does not start a command with a variable of
/// more than 128 KiB (`MAX_ARG_STRLEN`), including its name, `=` and NUL.
const PROMPT_BYTES_MAX: usize = 127 * 1024;

/// Default time between `TERM` and `KILL` after a cancellation. A cancellation is noticed within 100 ms
/// and must end within 200 ms. This time is enough to remove a lock file.
const CANCEL_GRACE: Duration = Duration::from_millis(50);

/// Default time that a command may run after its records report its end. Some programs hang at that
/// point, although their output is complete.
const EXIT_TIMEOUT: Duration = Duration::from_secs(30);

/// The number of the signal `TERM`.
const TERM: i32 = 15;

type OnOutput = Box<dyn FnMut(OutputStream, &[u8]) + Send>;

/// Runs a command once for each request.
///
/// The command receives the prompt ([`Request::text`]) on its standard input and in the variable
/// `TD_PROMPT`. The variable is not set for a prompt of more than 127 KiB, which Linux would reject, or
/// with a NUL, because it would be truncated without notice. Standard input always contains the whole
/// prompt. `TD_PROMPT_FILE` contains the path of its file, if the request has one. A command need not
/// read any of these.
///
/// The output is read in a [`Format`]. Plain text is the answer. Of the records of an agent, the text is
/// the answer, and everything else is reported ([`StreamChunk::Agent`]). If the command fails, its output
/// is incomplete, or its result is an error, the client returns an [`LlmError`] with the partial answer.
///
/// The command leads its own process group. At the timeout, the group receives `TERM` and, after the
/// grace period, `KILL`; after a cancellation, the grace period is 50 ms.
///
/// ```no_run
/// use std::time::Duration;
/// use td_observe::agent::Format;
/// use td_observe::process::Command;
/// use td_observe::agent_loop::{Cancel, CommandClient, LlmClient, Request};
///
/// let claude = Command::shell("claude -p --output-format stream-json --verbose")
///     .format(Format::Claude)
///     .timeout(Duration::from_secs(3600));
/// let mut claude = CommandClient::new(claude);
/// let response = claude.complete(&Request::prompt("Add auth"), &Cancel::new());
/// ```
#[must_use = "a client has no effect until it gets a request"]
pub struct CommandClient {
    /// The command to run for each request.
    command: Command,
    cancel_grace: Duration,
    exit_timeout: Duration,
    max_turns: Option<u32>,
    on_output: Option<OnOutput>,
    /// True once the command's agent has written a whole message.
    has_whole_messages: bool,
    running: RunningCommand,
    clock: Clock,
}

impl CommandClient {
    /// Creates a client that runs this command for each request. The client uses the program, arguments,
    /// variables, directory, format, timeout and grace period, and ignores the other settings.
    pub fn new(command: Command) -> Self {
        Self {
            command,
            cancel_grace: CANCEL_GRACE,
            exit_timeout: EXIT_TIMEOUT,
            max_turns: None,
            on_output: None,
            has_whole_messages: false,
            running: RunningCommand::default(),
            clock: Clock::system(),
        }
    }

    /// Creates a client for `sh -c` that detects the format from the first records.
    pub fn shell(line: impl Into<OsString>) -> Self {
        Self::new(Command::shell(line).format(Format::Auto))
    }

    pub(in crate::agent_loop) fn directory(mut self, path: &Path) -> Self {
        self.command = self.command.directory(path);
        self
    }

    /// Sets the time between `TERM` and `KILL` after a cancellation; defaults to 50 ms. A longer time
    /// extends the 200 ms within which a cancellation ends.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = grace;
        self
    }

    /// Sets the time that the command may run after its records report its end; defaults to 30 s. After
    /// this time, the client terminates the command, emits a warning and returns the answer.
    pub fn exit_timeout(mut self, wait: Duration) -> Self {
        self.exit_timeout = wait;
        self
    }

    /// Sets the maximum number of messages of the command's model, if its records contain them; defaults to
    /// no limit. A command that exceeds it is terminated, and the error is [`LlmError::is_max_turns`].
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = Some(turns);
        self
    }

    /// Sets a callback that receives all output, for example to store it. It runs on the caller's
    /// thread, which waits for it. Secrets are not redacted.
    pub fn on_output(
        mut self,
        on_output: impl FnMut(OutputStream, &[u8]) + Send + 'static,
    ) -> Self {
        self.on_output = Some(Box::new(on_output));
        self
    }

    /// Returns true if the command's agent wrote whole messages: see
    /// [`StreamParser::has_whole_messages`](crate::agent::StreamParser::has_whole_messages).
    pub fn has_whole_messages(&self) -> bool {
        self.has_whole_messages
    }

    /// Returns a handle that can kill the running command from another thread.
    #[cfg(feature = "cli")]
    pub(in crate::agent_loop) fn running(&self) -> RunningCommand {
        self.running.clone()
    }

    fn command(&self, request: &Request, control: &CommandControl) -> Command {
        let prompt = request.text();
        let mut command = self
            .command
            .copy_without_io()
            .control(control)
            // Removes the variables of an enclosing loop.
            .env_remove(PROMPT)
            .env_remove(PROMPT_FILE);
        if prompt.len() <= PROMPT_BYTES_MAX && !prompt.contains('\0') {
            command = command.env(PROMPT, &prompt);
        }
        if let Some(path) = &request.prompt_file {
            command = command.env(PROMPT_FILE, path);
        }
        command.stdin(Stdin::Bytes(Arc::from(prompt.into_bytes())))
    }
}

impl LlmClient for CommandClient {
    fn stream(
        &mut self,
        request: &Request,
        chunks: &Sender<StreamChunk>,
        cancel: &Cancel,
    ) -> Result<Response, LlmError> {
        if cancel.is_cancelled() {
            return Err(LlmError::cancelled());
        }
        let control = self.running.begin();
        let command = self.command(request, &control);
        let timeout = self.command.timeout;
        let deadline = timeout.and_then(|timeout| self.clock.now().checked_add(timeout));
        let deadline = deadline.map_or_else(never, |deadline| self.clock.at(deadline));
        let mut listener = CommandListener {
            reader: reader(self.command.format, &self.clock),
            response: ResponseBuilder::new(chunks, cancel).deadline(deadline),
            error: None,
            stderr_tail: Vec::new(),
            has_answered: false,
            on_output: &mut self.on_output,
            control: &control,
            exit_timeout: self.exit_timeout,
            max_turns: self.max_turns,
            exceeded_turns: false,
            ended_at: None,
            has_hung: false,
        };
        let outcome = run_with_listener(&command, cancel.stop(), self.cancel_grace, &mut listener);
        let name = command.name();
        self.has_whole_messages |= listener.reader.has_whole_messages();
        match outcome {
            Ok(outcome) => listener.finish(&outcome, &name, timeout),
            // The command may have produced output before its supervision failed.
            Err(error) => Err(listener.response.fail(LlmError::other(error))),
        }
    }
}

impl fmt::Debug for CommandClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment may contain keys.
        f.debug_struct("CommandClient")
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

/// Reads the output of the command, and limits its turns and its run time.
struct CommandListener<'a> {
    reader: Box<dyn AnswerReader>,
    response: ResponseBuilder<'a>,
    error: Option<AnswerError>,
    stderr_tail: Vec<u8>,
    /// True if the command has printed anything on standard output.
    has_answered: bool,
    on_output: &'a mut Option<OnOutput>,
    control: &'a CommandControl,
    exit_timeout: Duration,
    max_turns: Option<u32>,
    /// True if the command was terminated because it exceeded its turns.
    exceeded_turns: bool,
    /// The time at which the records of the command reported its end.
    ended_at: Option<Instant>,
    /// True if the command was terminated because it did not exit after its end.
    has_hung: bool,
}

impl ChildListener for CommandListener<'_> {
    fn output(&mut self, stream: OutputStream, bytes: &[u8], _: Instant) {
        if let Some(on_output) = self.on_output {
            on_output(stream, bytes);
        }
        if stream == OutputStream::Stderr {
            self.stderr_tail.extend_from_slice(bytes);
            // Maximum number of bytes from the end of standard error in the error of a failed command.
            let excess = self.stderr_tail.len().saturating_sub(2_000);
            self.stderr_tail.drain(..excess);
            return;
        }
        self.has_answered |= !bytes.is_empty();
        if self.error.is_none() {
            self.error = self.reader.push(bytes, &mut self.response).err();
            let turns = self.response.turns_started();
            let is_done = self.reader.is_done();
            if self.max_turns.is_some_and(|max| turns > max) && !is_done && !self.exceeded_turns {
                self.exceeded_turns = true;
                self.control.end(TERM);
            }
        }
    }

    fn tick(&mut self, now: Instant) -> Option<Instant> {
        if !self.reader.is_done() {
            self.ended_at = None;
            return None;
        }
        let since = *self.ended_at.get_or_insert(now);
        let until = since.checked_add(self.exit_timeout)?;
        if now < until {
            return Some(until);
        }
        if !std::mem::replace(&mut self.has_hung, true) {
            let message = format!(
                "the command had finished, but did not exit within {:?}, so it was terminated",
                self.exit_timeout
            );
            self.response.warn(message);
            self.control.end(TERM);
        }
        None
    }
}

impl CommandListener<'_> {
    /// Returns the response, or an error with the partial response.
    fn finish(
        mut self,
        outcome: &CommandOutcome,
        name: &str,
        timeout: Option<Duration>,
    ) -> Result<Response, LlmError> {
        let is_cancelled = outcome.was_ended && !self.has_hung && !self.exceeded_turns;
        // The reader may hold back bytes, which are also part of an incomplete answer.
        let finished = self.reader.finish(&mut self.response);
        let error = self.error.take().or(finished.err());
        let stderr = String::from_utf8_lossy(&self.stderr_tail).trim().to_owned();
        let details = match stderr.as_str() {
            "" => self.reader.other_text().trim().to_owned(),
            _ => stderr,
        };
        let failure = match (outcome.exit_code, outcome.signal) {
            (_, Some(signal)) => format!("{name} was killed by signal {signal}"),
            (code, None) => format!("{name} failed with exit code {}", code.unwrap_or(1)),
        };
        let error = if is_cancelled {
            LlmError::cancelled()
        } else if self.exceeded_turns && outcome.was_ended {
            let turns = self.max_turns.unwrap_or_default();
            AnswerError::max_turns(format!("{name} continued after {turns} answers")).into_error("")
        } else if outcome.timed_out {
            let timeout = timeout.unwrap_or_default();
            LlmError::new(
                LlmErrorKind::Timeout,
                Error::timeout(format!("{name} did not answer within {timeout:?}")),
            )
        } else if outcome.exit_code == Some(127) && !self.has_answered {
            // A shell reports a program that it does not find.
            LlmError::other(Error::missing(match details.as_str() {
                "" => failure,
                details => format!("{failure}: {details}"),
            }))
        } else if let Some(error) = error {
            let details = if outcome.is_success() || self.has_hung {
                details
            } else if details.is_empty() {
                failure
            } else {
                format!("{failure}: {details}")
            };
            error.into_error(&details)
        } else if outcome.is_success() || self.has_hung {
            return Ok(self.response.finish());
        } else {
            AnswerError::new(failure).into_error(&details)
        };
        Err(self.response.fail(error))
    }
}

// A model client that replays recorded answers, one file per request.

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
            // Default number of bytes to read at once: as many as a network delivers at once.
            read_bytes: 4 * 1024,
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
