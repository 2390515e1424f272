//! Starts a command with pipes or with its own terminal, runs it to its end in the calling thread, and passes
//! its output to the callback, into events or into memory.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::time::{Duration, Instant};

use pty_process::blocking as pty;
use rustix::process::Signal;

use super::command::{ByteSink, Command, CommandOutcome, CommandOutput, GRACE, OnOutput, Stdin};
use super::output::{HeadTailBuffer, OutputBatcher, TextSink};
use super::questions::Questions;
use super::record_splitter::{PartHandler, RecordPart, RecordSplitter};
use super::status_query::{ANSWER, StatusQuery};
use super::terminal::{ForegroundLoan, PtySize, RawMode, is_typed_at};
use crate::agent::AgentEvent;
use crate::bus::{BlockingEmitter, EventEmitter};
use crate::child::{
    ChildInput, ChildListener, ExitReport, Limits, OutputReader, OutputStream, ProcessGroup,
    Supervisor, cannot_start,
};
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::event::{TdEvent, lines_in};
use crate::thread::Stop;
use crate::timestamp::Timestamp;

/// The poll interval of the size of the user's terminal.
const SIZE_CHECK: Duration = Duration::from_millis(200);

/// The time within which the signal for a change of size arrives that was found by polling.
const RESIZE_SIGNAL: Duration = Duration::from_secs(1);

impl Command {
    /// Runs the command to its end in this thread and returns everything that it printed.
    ///
    /// # Errors
    /// `is_missing_program()` if the program does not exist; the system's errors for starting, reading and
    /// killing it. A command that fails or times out is not an error.
    pub fn output(self) -> Result<CommandOutput> {
        let started = StartedCommand::start(&self)?;
        let (events, stop) = (EventTarget::None, crossbeam_channel::never());
        let (outcome, outputs) = run(self, started, events, OutputMode::Collect, &stop)?;
        let [(stdout, lost_stdout), (stderr, lost_stderr)] =
            outputs.map(HeadTailBuffer::into_bytes);
        Ok(CommandOutput {
            outcome,
            stdout,
            stderr,
            lost_bytes: lost_stdout + lost_stderr,
        })
    }

    /// Runs the command to its end in this thread and emits `ExecutionStarted`, `ExecutionOutput` and
    /// `ExecutionCompleted`.
    ///
    /// While the log is full, the command is blocked, as by a slow terminal, for at most 5 s without progress
    /// of the log. After that, events that do not fit are dropped and counted.
    ///
    /// # Errors
    /// The errors of [`Command::output`]. A command that cannot be started emits nothing.
    pub fn observe(self, emitter: &EventEmitter) -> Result<CommandOutcome> {
        observe_command(self, || Ok(emitter.clone()), &crossbeam_channel::never())
    }
}

/// Runs a command and emits its events. `emitter` is called after the start of the command. The command is
/// terminated when `stop` is closed.
pub(crate) fn observe_command(
    command: Command,
    emitter: impl FnOnce() -> Result<EventEmitter>,
    stop: &Stop,
) -> Result<CommandOutcome> {
    let started = StartedCommand::start(&command)?;
    let emitter = emitter()?;
    emitter.execution_started(&command.line(), &command.directory_shown());
    let target = EventTarget::execution(&emitter);
    let (line, timeout) = (command.line(), command.timeout.unwrap_or_default());
    match run(command, started, target, OutputMode::Emit, stop) {
        Ok((outcome, _)) => {
            if outcome.timed_out {
                let message = format!("{line} did not end within {timeout:?} and was terminated");
                emitter.error("timeout", &message);
            }
            let duration_ms = outcome.duration_ms();
            emitter.execution_completed(outcome.exit_code, outcome.signal, duration_ms);
            Ok(outcome)
        }
        Err(error) => {
            emitter.error("process", &format!("{error:?}"));
            Err(error)
        }
    }
}

/// Runs a command to its end and passes its output to `listener` as it is read. Within 100 ms after `stop` is
/// closed, the command's group is terminated, and it is killed after `stop_grace`.
///
/// Ignores the command's output callback, its format, its limits of lines and bytes, and its terminal.
pub(crate) fn run_with_listener(
    command: &Command,
    stop: &Stop,
    stop_grace: Duration,
    listener: &mut impl ChildListener,
) -> Result<CommandOutcome> {
    let started = StartedCommand::start(command)?;
    let began = started.began;
    let report = started.supervise(command, stop, stop_grace, listener)?;
    let duration = command.clock.now().saturating_duration_since(began);
    Ok(CommandOutcome::new(&report, duration))
}

/// The use of the output, in addition to the callback and the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputMode {
    /// No output is collected. An agent's records become typed events.
    Emit,
    /// Both outputs are collected unchanged, within the command's limits.
    Collect,
    /// As for `Collect`, but lines are emitted only when they are complete.
    CollectLines,
}

/// Supervises a started command to its end; returns its outcome and the collected outputs.
pub(super) fn run(
    mut command: Command,
    mut started: StartedCommand,
    events: EventTarget,
    mode: OutputMode,
    stop: &Stop,
) -> Result<(CommandOutcome, [HeadTailBuffer; 2])> {
    let began = started.began;
    let sink = CommandSink {
        on_output: command.on_output.take(),
        events,
    };
    let mut batcher = OutputBatcher::new(sink, started.pty.is_some(), command.lines_max);
    batcher.complete_lines = mode == OutputMode::CollectLines;
    batcher.passes_bytes = command.byte_sink.is_some();
    let (collected_bytes, records) = match mode {
        OutputMode::Emit => (0, RecordSplitter::new(command.format)),
        OutputMode::Collect | OutputMode::CollectLines => (command.collected_bytes, None),
    };
    let mut monitor = CommandMonitor {
        batcher,
        records,
        agent_id: command.name(),
        clock: command.clock.clone(),
        collected: OutputStream::ALL.map(|_| HeadTailBuffer::new(collected_bytes)),
        byte_sink: command.byte_sink.take(),
        pty: started.pty.take(),
        status_query: StatusQuery::default(),
        questions: (command.stdin == Stdin::Closed).then(Questions::default),
        size_checked_at: began,
        resized_at: None,
        foreground: started.foreground.take(),
        has_warned_of_stop: false,
    };
    let stop_grace = command.grace.min(GRACE);
    let report = started.supervise(&command, stop, stop_grace, &mut monitor)?;
    Ok(monitor.finish(&report, began))
}

/// Receives the output of a command while it runs.
struct CommandMonitor {
    batcher: OutputBatcher<CommandSink>,
    /// Splits standard output where it consists of an agent's records.
    records: Option<RecordSplitter>,
    agent_id: String,
    clock: Clock,
    collected: [HeadTailBuffer; 2],
    byte_sink: Option<Box<dyn ByteSink>>,
    pty: Option<(pty_process::blocking::Pty, PtySize)>,
    status_query: StatusQuery,
    size_checked_at: Instant,
    resized_at: Option<Instant>,
    /// The questions of a command whose input is closed.
    questions: Option<Questions>,
    foreground: Option<ForegroundLoan>,
    has_warned_of_stop: bool,
}

impl ChildListener for CommandMonitor {
    fn output(&mut self, stream: OutputStream, bytes: &[u8], now: Instant) {
        if let Some((pty, _)) = &mut self.pty
            && self.status_query.is_asked(bytes)
        {
            // The user's terminal may answer later what follows, such as `CSI c`. A program that does not read what it
            // has asked for gets no more answers: the terminal is full, and a write does not wait.
            let _ = pty.write(ANSWER);
        }
        if let Some(sink) = &mut self.byte_sink {
            sink.take(stream, bytes);
        }
        if let Some(questions) = &mut self.questions {
            questions.push(stream, bytes);
        }
        self.collected[stream.index()].push(bytes);
        if stream == OutputStream::Stdout && self.records.is_some() {
            self.split(now, |records, wall, handle| {
                records.push(bytes, wall, handle);
            });
        } else {
            self.batcher.push(stream, bytes, now);
        }
    }

    fn has_room(&self, stream: OutputStream) -> bool {
        (self.byte_sink.as_ref()).is_none_or(|sink| sink.has_room(stream))
    }

    fn is_closed(&mut self, stream: OutputStream) -> bool {
        (self.byte_sink.as_mut()).is_some_and(|sink| sink.is_closed(stream))
    }

    fn tick(&mut self, now: Instant) -> Option<Instant> {
        if now >= self.size_checked_at + SIZE_CHECK {
            self.follow_size(now);
        }
        self.batcher.tick(now)
    }

    /// The command's own terminal sends the signal for a change of size when it is resized.
    fn passes_on(&mut self, signal: Signal, now: Instant) -> bool {
        if signal != Signal::WINCH {
            return true;
        }
        self.follow_size(now);
        self.resized_at.is_none_or(|at| now >= at + RESIZE_SIGNAL)
    }

    fn stopped(&mut self, signal: i32) -> bool {
        if let Some(foreground) = &self.foreground {
            foreground.command_stopped(signal);
            return true;
        }
        if !std::mem::replace(&mut self.has_warned_of_stop, true) {
            let message = match signal {
                21 | 22 => {
                    "it was stopped because it uses the terminal, which it does not have: run --stdin \
                     lends it yours, and --pty gives it one"
                }
                _ => "it was stopped, and waits for a CONT signal",
            };
            self.batcher
                .sink
                .warning(&format!("{message} (signal {signal})"));
        }
        false
    }
}

impl CommandMonitor {
    /// Gives the command's own terminal the size of this program's terminal.
    fn follow_size(&mut self, now: Instant) {
        self.size_checked_at = now;
        if let Some((pty, size)) = &mut self.pty
            && let Some(changed) = size.changed()
        {
            (*size, self.resized_at) = (changed, Some(now));
            if let Err(error) = pty.resize(changed.of_pty()) {
                log::warn!("cannot resize the terminal of the command: {error}");
            }
        }
    }

    /// Splits records. Their events are emitted after all text that was printed before them.
    fn split(
        &mut self,
        now: Instant,
        split: impl FnOnce(&mut RecordSplitter, Timestamp, PartHandler<'_>),
    ) {
        let (batcher, agent_id) = (&mut self.batcher, &self.agent_id);
        if let Some(records) = &mut self.records {
            split(records, self.clock.wall(), &mut |part| match part {
                RecordPart::Text(bytes) | RecordPart::Unknown(bytes) => {
                    batcher.push(OutputStream::Stdout, bytes, now);
                }
                RecordPart::Event(event) => {
                    batcher.flush(now);
                    batcher.sink.agent(event, agent_id);
                }
            });
        }
    }

    fn finish(
        mut self,
        report: &ExitReport,
        began: Instant,
    ) -> (CommandOutcome, [HeadTailBuffer; 2]) {
        let now = self.clock.now();
        if let Some(records) = &mut self.records
            && !report.status.success()
        {
            records.failure = Some(report.status.to_string());
        }
        self.split(now, RecordSplitter::finish);
        if report.is_output_held {
            self.batcher.sink.warning(
                "a process that the command left behind holds its output: what it prints is not read",
            );
        }
        if let Some(foreground) = self.foreground.take() {
            foreground.take_back(report.status.code().is_none());
        }
        let duration = now.saturating_duration_since(began);
        let mut outcome = CommandOutcome::new(report, duration);
        if !outcome.is_success() {
            self.batcher.end_lines_after_failure(now);
            if let Some(sink) = &mut self.byte_sink {
                sink.explain_failure();
            }
        }
        outcome.lost_lines = self.batcher.finish(now).1;
        let records = self.records.as_ref();
        outcome.has_whole_messages =
            records.is_some_and(|records| records.parser.has_whole_messages());
        outcome.has_asked = self
            .questions
            .is_some_and(|questions| questions.has_asked(!outcome.is_success()));
        (outcome, self.collected)
    }
}

/// The time for which outputs that another process holds open are read after the end of a command. With `exec
/// > >(tee build.log)`, another process writes the last lines.
const LINGER: Duration = Duration::from_millis(300);

/// The raw mode of the user's terminal, and the terminal that gets the typed keys.
type TypedKeys = (RawMode, OwnedFd);

pub(super) struct StartedCommand {
    pub began: Instant,
    group: ProcessGroup,
    outputs: [OutputReader; 2],
    stdin: Option<ChildStdin>,
    /// The command's own terminal, and its size.
    pub pty: Option<(pty::Pty, PtySize)>,
    keys: Option<TypedKeys>,
    /// The user's terminal, while the command is its foreground.
    pub foreground: Option<ForegroundLoan>,
}

impl StartedCommand {
    pub fn start(command: &Command) -> Result<Self> {
        let began = command.clock.now();
        let (mut group, outputs, pty, keys) = match command.pty_size {
            None => {
                let (group, outputs) = start_with_pipes(command)?;
                (group, outputs, None, None)
            }
            Some(size) => {
                let (group, outputs, pty, keys) = start_with_pty(command, size)?;
                (group, outputs, Some((pty, size)), keys)
            }
        };
        group.connect(&command.control.kill_handle);
        let foreground = if command.stdin == Stdin::Inherited && pty.is_none() {
            ForegroundLoan::lend(group.pid(), &command.control.modes)
        } else {
            None
        };
        Ok(Self {
            began,
            stdin: group.child.stdin.take(),
            group,
            outputs,
            pty,
            keys,
            foreground,
        })
    }

    /// Supervises the command until its end. When `stop` is closed, its group is terminated, and killed
    /// after `stop_grace`.
    pub fn supervise(
        self,
        command: &Command,
        stop: &Stop,
        stop_grace: Duration,
        listener: &mut impl ChildListener,
    ) -> Result<ExitReport> {
        let timeout = command.timeout;
        let limits = Limits {
            deadline: timeout.and_then(|timeout| self.began.checked_add(timeout)),
            grace: command.grace,
            stop_grace,
            linger: LINGER,
            signals: &command.control.signals,
            passed: &command.control.passed,
            stop,
        };
        let terminal = io::stdin();
        let (_raw_mode, input) = match (self.keys, self.stdin, &command.stdin) {
            (Some((raw_mode, pty)), ..) => {
                (Some(raw_mode), ChildInput::typed(terminal.as_fd(), pty))
            }
            (None, Some(pipe), Stdin::Bytes(bytes)) => {
                let input = ChildInput::bytes(pipe, bytes).map_err(|cause| {
                    Error::other(format!("cannot write to {}", command.name())).because(cause)
                })?;
                (None, input)
            }
            _ => (None, ChildInput::none()),
        };
        Supervisor::new(self.group, input, self.outputs, limits, &command.clock)
            .run(listener)
            .map_err(|cause| {
                Error::other(format!("cannot supervise {}", command.name())).because(cause)
            })
    }
}

fn start_with_pipes(command: &Command) -> Result<(ProcessGroup, [OutputReader; 2])> {
    let mut child = std_command(command);
    child
        .stdin(stdin_of(command))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut group = ProcessGroup::start(&mut child)?;
    let outputs = group
        .outputs()
        .map_err(|cause| cannot_read(command, cause))?;
    // The requested capacity of an output pipe. With the default of 64 KiB, a command that prints much often
    // waits for its reader. With more, many commands would exceed a user's limit for pipes (64 MiB,
    // `pipe-user-pages-soft`).
    outputs[0].enlarge_pipe(256 * 1024);
    Ok((group, outputs))
}

fn start_with_pty(
    command: &Command,
    size: PtySize,
) -> Result<(ProcessGroup, [OutputReader; 2], pty::Pty, Option<TypedKeys>)> {
    let failed = |cause: pty_process::Error| {
        Error::other(format!("cannot open a terminal for {}", command.name())).because(cause)
    };
    let (pty, child_end) = pty::open().map_err(failed)?;
    pty.resize(size.of_pty()).map_err(failed)?;
    let is_typed = command.stdin == Stdin::Inherited && is_typed_at();
    let mut child = pty::Command::from(std_command(command));
    if !is_typed {
        child = child.stdin(stdin_of(command));
    }
    // The child leads its own session, and therefore its own group.
    let child = child.spawn(child_end).map_err(|error| match error {
        pty_process::Error::Io(cause) => {
            cannot_start(&command.program, command.directory.as_deref(), cause)
        }
        other => failed(other),
    })?;
    let group = ProcessGroup::led_by(child);
    let descriptors = || -> io::Result<_> {
        let output = OutputReader::new(Some(pty.as_fd().try_clone_to_owned()?))?;
        let keys = if is_typed {
            let raw_mode = RawMode::enter(&command.control.modes)?;
            Some((raw_mode, pty.as_fd().try_clone_to_owned()?))
        } else {
            None
        };
        Ok(([output, OutputReader::new(None::<OwnedFd>)?], keys))
    };
    let (outputs, keys) = descriptors().map_err(|cause| cannot_read(command, cause))?;
    Ok((group, outputs, pty, keys))
}

fn std_command(command: &Command) -> std::process::Command {
    let mut child = std::process::Command::new(&command.program);
    child.args(&command.args);
    for (name, value) in &command.env {
        match value {
            Some(value) => child.env(name, value),
            None => child.env_remove(name),
        };
    }
    if let Some(directory) = &command.directory {
        child.current_dir(directory);
    }
    child
}

fn stdin_of(command: &Command) -> Stdio {
    match command.stdin {
        Stdin::Closed => Stdio::null(),
        Stdin::Inherited => Stdio::inherit(),
        Stdin::Bytes(_) => Stdio::piped(),
    }
}

fn cannot_read(command: &Command, cause: io::Error) -> Error {
    Error::other(format!("cannot read the output of {}", command.name())).because(cause)
}

/// The result of a validation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValidationResult {
    /// The exit code; 128 plus the signal that ended the command; 124 for a timeout.
    pub exit_code: i32,
    /// The standard output; its beginning and end if it is longer than 2 MiB.
    pub stdout: String,
    /// The standard error, with the same limit.
    pub stderr: String,
    /// The duration of the command.
    pub duration_ms: u64,
    /// True if the command was terminated because of its timeout.
    pub timed_out: bool,
    /// True if the command was terminated on request. It has not passed then, regardless of its exit code.
    pub was_ended: bool,
    /// The number of lines beyond the limit, which were not emitted.
    pub lost_lines: u64,
}

impl ValidationResult {
    /// Returns true if the validation passed.
    pub fn passed(&self) -> bool {
        self.exit_code == 0 && !self.was_ended
    }
}

/// Runs a shell command as the validation of an iteration and emits `ValidationStarted`, one
/// `ValidationOutput` per line as it is printed, and `ValidationCompleted`. Without an emitter it emits
/// nothing and returns the same result.
///
/// A validation that exceeds its timeout is terminated with its whole group, which is a result and not an
/// error.
///
/// ```no_run
/// use std::{path::Path, time::Duration};
/// use td_observe::process::run_validation;
///
/// # fn main() -> td_observe::Result<()> {
/// let timeout = Duration::from_secs(600);
/// let result = run_validation("cargo test", Path::new("."), timeout, None, 1)?;
/// println!("{} after {} ms", result.exit_code, result.duration_ms);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If `sh` or the directory does not exist; the system's errors for starting and reading the command.
pub fn run_validation(
    command: &str,
    workdir: &Path,
    timeout: Duration,
    emitter: Option<&EventEmitter>,
    iteration: u32,
) -> Result<ValidationResult> {
    validate(
        Command::shell(command)
            .directory(workdir)
            .timeout(timeout)
            // The default limit of lines that become events: more than a person reads in a week.
            .line_limit(1_000_000)
            // The most bytes that are kept of each output of a validation.
            .collect(2 * 1024 * 1024),
        command,
        emitter,
        iteration,
    )
}

/// Runs a validation with the limits of `command`; `line` is its name in the events.
///
/// # Errors
/// The errors of [`run_validation`].
pub fn validate(
    command: Command,
    line: &str,
    emitter: Option<&EventEmitter>,
    iteration: u32,
) -> Result<ValidationResult> {
    let stop = crossbeam_channel::never();
    validate_until_stopped(command, line, emitter, iteration, &stop)
}

/// Runs a validation and terminates it when `stop` is closed.
pub(crate) fn validate_until_stopped(
    command: Command,
    line: &str,
    emitter: Option<&EventEmitter>,
    iteration: u32,
    stop: &Stop,
) -> Result<ValidationResult> {
    let started = StartedCommand::start(&command)?;
    let target = match emitter {
        Some(emitter) => {
            emitter.validation_started(iteration, line);
            EventTarget::Validation {
                emitter: BlockingEmitter::new(emitter.clone()),
                iteration,
            }
        }
        None => EventTarget::None,
    };
    let (outcome, outputs) = run(command, started, target, OutputMode::CollectLines, stop)?;
    let text =
        |output: HeadTailBuffer| String::from_utf8_lossy(&output.into_bytes().0).into_owned();
    let [stdout, stderr] = outputs.map(text);
    let result = ValidationResult {
        exit_code: outcome.code(),
        stdout,
        stderr,
        duration_ms: outcome.duration_ms(),
        timed_out: outcome.timed_out,
        was_ended: outcome.was_ended,
        lost_lines: outcome.lost_lines,
    };
    if let Some(emitter) = emitter {
        emitter.validation_completed(iteration, result.exit_code, result.duration_ms);
    }
    Ok(result)
}

pub(super) enum EventTarget {
    None,
    /// `ExecutionOutput`.
    Execution(BlockingEmitter),
    /// One `ValidationOutput` per line.
    Validation {
        emitter: BlockingEmitter,
        iteration: u32,
    },
}

impl EventTarget {
    pub fn execution(emitter: &EventEmitter) -> Self {
        Self::Execution(BlockingEmitter::new(emitter.clone()))
    }

    fn emitter(&self) -> Option<&EventEmitter> {
        match self {
            Self::None => None,
            Self::Execution(to) | Self::Validation { emitter: to, .. } => Some(&to.emitter),
        }
    }
}

/// Passes text to the callback and emits it.
pub(crate) struct CommandSink {
    pub(super) on_output: Option<OnOutput>,
    pub(super) events: EventTarget,
}

/// Emits text of other sources than commands like a command's output: as batched `ExecutionOutput`.
#[cfg(feature = "kernel")]
pub(crate) type TextEvents = OutputBatcher<CommandSink>;

#[cfg(feature = "kernel")]
impl TextEvents {
    /// Creates a batcher that emits at most `lines_max` lines for an execution.
    pub fn of_execution(emitter: &EventEmitter, lines_max: Option<u64>) -> Self {
        Self::new(CommandSink::of_execution(emitter), false, lines_max)
    }
}

impl CommandSink {
    /// Creates a sink that emits `ExecutionOutput`.
    pub fn of_execution(emitter: &EventEmitter) -> Self {
        Self {
            on_output: None,
            events: EventTarget::execution(emitter),
        }
    }

    /// Emits an event that an agent's record contains.
    pub fn agent(&mut self, event: AgentEvent, agent_id: &str) {
        if let EventTarget::Execution(emitter) = &mut self.events {
            let id = emitter.emitter.execution_id().clone();
            // The iteration of all agent events of a command, which has no loop.
            emitter.emit(event.into_event(&id, agent_id, 1));
        }
    }
}

impl TextSink for CommandSink {
    fn text(&mut self, stream: OutputStream, text: String, is_transient: bool) {
        if let Some(on_output) = &mut self.on_output {
            on_output(stream, &text);
        }
        match &mut self.events {
            EventTarget::None => {}
            EventTarget::Execution(emitter) => {
                let event = TdEvent::ExecutionOutput {
                    execution_id: emitter.emitter.execution_id().clone(),
                    stream: stream.into(),
                    text,
                };
                if is_transient {
                    // The history gets a later state of the same line.
                    emitter.emitter.emit_live(event);
                } else {
                    emitter.emit(event);
                }
            }
            EventTarget::Validation { emitter, iteration } => {
                for line in lines_in(&text) {
                    let line = line.strip_suffix('\r').unwrap_or(line);
                    emitter.emit(TdEvent::ValidationOutput {
                        execution_id: emitter.emitter.execution_id().clone(),
                        iteration: *iteration,
                        // A leading `\r` marks the replacement of an emitted part of a long line.
                        line: line.trim_start_matches('\r').to_owned(),
                        is_stderr: stream == OutputStream::Stderr,
                    });
                }
            }
        }
    }

    fn warning(&mut self, message: &str) {
        match self.events.emitter() {
            None => log::warn!("{message}"),
            Some(emitter) => drop(emitter.warning("process", message)),
        }
    }
}

impl fmt::Debug for CommandSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandSink")
            .field("emitter", &self.events.emitter())
            .finish_non_exhaustive()
    }
}
