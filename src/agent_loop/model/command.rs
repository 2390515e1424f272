//! A model that is a command: the prompt goes in, what it prints is the answer.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, never};

use super::LlmClient;
use super::cancel::Cancel;
use super::error::{LlmError, Why};
use super::intake::Intake;
use super::reader::{Flaw, Reader, reader};
use super::request::Request;
use super::response::{Response, StreamChunk};
use crate::agent::Format;
use crate::agent_loop::running::Running;
use crate::child::{ChildListener, OutputStream};
use crate::clock::Clock;
use crate::error::Error;
use crate::process::{Command, CommandControl, CommandOutcome, Stdin, run_with_listener};

/// The prompt, for commands that take it as an argument.
const PROMPT: &str = "TD_PROMPT";

/// A file that has the prompt.
const PROMPT_FILE: &str = "TD_PROMPT_FILE";

/// Linux takes no variable beyond 128 KiB (`MAX_ARG_STRLEN`), its name, `=` and NUL included; a
/// command that is given one cannot be started.
const PROMPT_BYTES_MAX: usize = 127 * 1024;

/// How long it has after a cancel. A cancel is seen within 100 ms and is to be over within 200: who
/// handles `TERM` by taking away a lock file has the time for it.
const CANCEL_GRACE: Duration = Duration::from_millis(50);

/// How long a command may stay when its records say that it has finished: some hang then, and all
/// that they had to say is said.
const AFTER_END: Duration = Duration::from_secs(30);

/// What is shown of standard error when a command fails: its last lines.
const TAIL_BYTES: usize = 2_000;

/// `TERM`, as numbers go.
const TERM: i32 = 15;

type OnOutput = Box<dyn FnMut(OutputStream, &[u8]) + Send>;

/// Asks a command, once for each request.
///
/// The command gets the prompt's text ([`Request::text`]) on its standard input and as `TD_PROMPT`.
/// A text beyond 127 KiB, which Linux would refuse, or with a NUL in it is not in `TD_PROMPT`,
/// which is then not set at all: half a prompt would do harm unseen. Standard input has all of it
/// always, and `TD_PROMPT_FILE` names a file that has, where the request names one. A command that
/// reads none of these is not held up.
///
/// What it prints is read in a [`Format`]: of plain text every piece is the answer, as it comes; of
/// an agent's records their text is, and everything else is reported ([`StreamChunk::Agent`]). A
/// command that fails, whose stream breaks off, or whose result is an error is an [`LlmError`]
/// with what had come.
///
/// It leads a process group of its own, which is ended with it: at its time limit with `TERM`, and
/// `KILL` after the grace; when it is cancelled the same, with 50 ms of grace.
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
#[must_use = "a client does nothing until it is asked"]
pub struct CommandClient {
    /// What is run, once for each request.
    command: Command,
    cancel_grace: Duration,
    after_end: Duration,
    max_turns: Option<u32>,
    on_output: Option<OnOutput>,
    running: Running,
    clock: Clock,
}

impl CommandClient {
    /// Runs this command for each request: its program, arguments, variables, directory, format,
    /// time limit and grace count, and whatever else was set of it does not.
    pub fn new(command: Command) -> Self {
        Self {
            command,
            cancel_grace: CANCEL_GRACE,
            after_end: AFTER_END,
            max_turns: None,
            on_output: None,
            running: Running::default(),
            clock: Clock::system(),
        }
    }

    /// A line for `sh -c`; what it prints is what its first records say.
    pub fn shell(line: impl Into<OsString>) -> Self {
        Self::new(Command::shell(line).format(Format::Auto))
    }

    /// Where it runs.
    pub(in crate::agent_loop) fn directory(mut self, path: &Path) -> Self {
        self.command = self.command.directory(path);
        self
    }

    /// How long it has to end when it is cancelled; 50 ms unless told otherwise. With more, a
    /// cancel may take as much more than its 200 ms.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.cancel_grace = grace;
        self
    }

    /// How long it may stay after its records have said that it has finished; then it is ended,
    /// with a warning, and its answer counts. 30 s unless told otherwise.
    pub fn after_end(mut self, wait: Duration) -> Self {
        self.after_end = wait;
        self
    }

    /// How many messages of its model there may be, as far as its records tell them; when it goes on
    /// beyond that it is ended, and [`LlmError::is_max_turns`]. Any number, unless told otherwise.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = Some(turns);
        self
    }

    /// Called with all that it prints, as it is read, on the thread that asks, which waits
    /// meanwhile: for files. Secrets are not taken out.
    pub fn on_output(mut self, hear: impl FnMut(OutputStream, &[u8]) + Send + 'static) -> Self {
        self.on_output = Some(Box::new(hear));
        self
    }

    #[cfg(feature = "cli")]
    /// What ends the command that runs, from another thread.
    pub(in crate::agent_loop) fn running(&self) -> Running {
        self.running.clone()
    }

    fn command(&self, request: &Request, control: &CommandControl) -> Command {
        let prompt = request.text();
        let mut command = self
            .command
            .again()
            .control(control)
            // Of a loop around this one.
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
        let timeout = self.command.time_limit();
        let deadline = timeout.and_then(|timeout| self.clock.now().checked_add(timeout));
        let deadline = deadline.map_or_else(never, |deadline| self.clock.at(deadline));
        let mut ear = Ear {
            reader: reader(self.command.output_format()),
            intake: Intake::new(chunks, cancel).until(deadline),
            flaw: None,
            tail: Vec::new(),
            on_output: &mut self.on_output,
            clock: self.clock.clone(),
            control: &control,
            after_end: self.after_end,
            max_turns: self.max_turns,
            has_used_up: false,
            ended_at: None,
            has_hung: false,
        };
        let outcome = run_with_listener(&command, cancel.stop(), self.cancel_grace, &mut ear);
        let name = command.name();
        match outcome {
            Ok(outcome) => ear.end(&outcome, &name, timeout),
            // It may have run for a while before it could not be attended any more.
            Err(error) => Err(ear.intake.failed(LlmError::other(error))),
        }
    }
}

impl fmt::Debug for CommandClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment may hold keys.
        f.debug_struct("CommandClient")
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

/// Hears what the command does.
struct Ear<'a> {
    reader: Box<dyn Reader>,
    intake: Intake<'a>,
    flaw: Option<Flaw>,
    /// The end of standard error.
    tail: Vec<u8>,
    on_output: &'a mut Option<OnOutput>,
    clock: Clock,
    control: &'a CommandControl,
    after_end: Duration,
    max_turns: Option<u32>,
    /// It was ended for that.
    has_used_up: bool,
    /// Since when its records say that it has finished.
    ended_at: Option<Instant>,
    has_hung: bool,
}

impl ChildListener for Ear<'_> {
    fn output(&mut self, stream: OutputStream, bytes: &[u8], _: Instant) {
        if let Some(hear) = &mut self.on_output {
            hear(stream, bytes);
        }
        if stream == OutputStream::Stderr {
            self.tail.extend_from_slice(bytes);
            let over = self.tail.len().saturating_sub(TAIL_BYTES);
            self.tail.drain(..over);
        } else if self.flaw.is_none() {
            let read = self.reader.push(bytes, self.clock.wall(), &mut self.intake);
            self.flaw = read.err();
            let turns = self.intake.begun();
            let is_over = self.reader.is_done();
            if self.max_turns.is_some_and(|max| turns > max) && !is_over && !self.has_used_up {
                self.has_used_up = true;
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
        let until = since.checked_add(self.after_end)?;
        if now < until {
            return Some(until);
        }
        if !std::mem::replace(&mut self.has_hung, true) {
            let message = format!(
                "the command had finished and did not end within {:?}: it was ended",
                self.after_end
            );
            self.intake.warn("model", message);
            self.control.end(TERM);
        }
        None
    }
}

impl Ear<'_> {
    /// What came of it.
    fn end(
        mut self,
        outcome: &CommandOutcome,
        name: &str,
        timeout: Option<Duration>,
    ) -> Result<Response, LlmError> {
        let is_cancelled = outcome.was_ended && !self.has_hung && !self.has_used_up;
        // What is held back is text that came, also of an answer that was cut.
        let (reader, now) = (&mut self.reader, self.clock.wall());
        let finished = reader.finish(now, &mut self.intake);
        let flaw = self.flaw.take().or(finished.err());
        let tail = String::from_utf8_lossy(&self.tail).trim().to_owned();
        let said = match tail.as_str() {
            "" => self.reader.beside().trim().to_owned(),
            _ => tail,
        };
        let how = match (outcome.exit_code, outcome.signal) {
            (_, Some(signal)) => format!("{name} was ended by signal {signal}"),
            (code, None) => format!("{name} failed with exit code {}", code.unwrap_or(1)),
        };
        let error = if is_cancelled {
            LlmError::cancelled()
        } else if self.has_used_up && outcome.was_ended {
            let turns = self.max_turns.unwrap_or_default();
            Flaw::turns(format!("{name} had {turns} answers and went on")).into_error("")
        } else if outcome.timed_out {
            let timeout = timeout.unwrap_or_default();
            LlmError::new(
                Why::Timeout,
                Error::timeout(format!("{name} did not answer within {timeout:?}")),
            )
        } else if let Some(flaw) = flaw {
            match outcome.is_success() || self.has_hung {
                true => flaw.into_error(&said),
                false if said.is_empty() => flaw.into_error(&how),
                false => flaw.into_error(&format!("{how}: {said}")),
            }
        } else if outcome.is_success() || self.has_hung {
            return Ok(self.intake.done());
        } else {
            Flaw::new(how).into_error(&said)
        };
        Err(self.intake.failed(error))
    }
}
