//! A command to run, its limits, and its control for another thread.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::process::Signal;

use super::terminal::{PtySize, SavedModes};
use crate::agent::Format;
use crate::child::{ExitCause, ExitReport, KillHandle, OutputStream};
use crate::clock::Clock;

/// The default time between the termination of a command and its kill, and its limit when the observer stops.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// The most signals that wait to be passed on: more than a command of which each asks the same.
const PASSED_SIGNALS: usize = 16;

/// A callback for printed text.
pub(super) type OnOutput = Box<dyn FnMut(OutputStream, &str) + Send>;

/// Receives every byte of a command's outputs as printed. Runs on the thread that supervises the command, and
/// must not block it.
pub(crate) trait ByteSink: Send {
    fn take(&mut self, stream: OutputStream, bytes: &[u8]);

    /// Returns false while the sink has no room for this output, which is not read then.
    fn has_room(&self, _stream: OutputStream) -> bool {
        true
    }

    /// Returns true if the reader of this output has gone; the command's output is closed then.
    fn is_closed(&mut self, _stream: OutputStream) -> bool {
        false
    }

    /// Passes on the last lines of standard error that a limit has held back, because they may explain a failure.
    fn explain_failure(&mut self) {}
}

/// A writer that gets both outputs, such as a terminal.
struct Mirror<W> {
    to: Option<W>,
}

impl<W: Write + Send> ByteSink for Mirror<W> {
    fn take(&mut self, _: OutputStream, bytes: &[u8]) {
        if let Some(to) = &mut self.to
            && to.write_all(bytes).and_then(|()| to.flush()).is_err()
        {
            // The writer's reader is gone; the command continues.
            self.to = None;
        }
    }
}

/// The standard input of a command.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stdin {
    /// No input: the command reads an end of file.
    #[default]
    Closed,
    /// This program's standard input. If it is a terminal, the command becomes its foreground process, which
    /// gets all keys, including Ctrl-C and Ctrl-Z, and can ask for a password.
    Inherited,
    /// These bytes, then an end of file. They are written while the output is read. A command that does not
    /// read them causes no error and no blocking.
    Bytes(Arc<[u8]>),
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("Closed"),
            Self::Inherited => f.write_str("Inherited"),
            // The bytes may be many, and secret.
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
        }
    }
}

/// A command whose output is available while it is printed.
///
/// The command leads its own process group. After its timeout, the group gets `TERM`, and `KILL` after the
/// grace period. Commands such as `docker exec …` run the program elsewhere.
///
/// ```no_run
/// use std::time::Duration;
/// use td_observe::process::Command;
///
/// # fn main() -> td_observe::Result<()> {
/// let output = Command::new("make")
///     .arg("test")
///     .timeout(Duration::from_secs(600))
///     .on_output(|stream, text| print!("[{}] {text}", stream.as_str()))
///     .output()?;
/// println!("{} after {:?}", output.outcome.code(), output.outcome.duration);
/// # Ok(())
/// # }
/// ```
#[must_use = "a command does nothing until it is run"]
pub struct Command {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    /// `None` removes a variable.
    pub(super) env: Vec<(OsString, Option<OsString>)>,
    pub(super) directory: Option<PathBuf>,
    pub(super) stdin: Stdin,
    pub(super) pty_size: Option<PtySize>,
    pub(crate) timeout: Option<Duration>,
    pub(super) grace: Duration,
    pub(super) lines_max: Option<u64>,
    pub(super) collected_bytes: usize,
    pub(crate) format: Format,
    pub(super) on_output: Option<OnOutput>,
    pub(super) byte_sink: Option<Box<dyn ByteSink>>,
    pub(crate) control: CommandControl,
    pub(crate) clock: Clock,
}

impl Command {
    /// Creates a command without arguments. The program is searched for in `PATH`.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            directory: None,
            stdin: Stdin::Closed,
            pty_size: None,
            timeout: None,
            grace: GRACE,
            lines_max: None,
            // The default limit of each collected output: more than a person reads at once.
            collected_bytes: 16 * 1024 * 1024,
            format: Format::Text,
            on_output: None,
            byte_sink: None,
            control: CommandControl::new(),
            clock: Clock::system(),
        }
    }

    /// Creates a command that runs a line with `sh -c`.
    pub fn shell(line: impl Into<OsString>) -> Self {
        Self::new("sh").arg("-c").arg(line)
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable in addition to the inherited ones.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), Some(value.into())));
        self
    }

    /// Removes an inherited environment variable.
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.env.push((name.into(), None));
        self
    }

    /// Sets the working directory. Defaults to that of this program.
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = Some(path.into());
        self
    }

    /// Sets the standard input. Defaults to [`Stdin::Closed`].
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Gives the command its own terminal, so that it keeps its colours. Both outputs are then reported as
    /// standard output.
    pub fn pty(mut self, size: PtySize) -> Self {
        self.pty_size = Some(size);
        self
    }

    /// Sets the time after which the command is terminated. Defaults to no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the time between the termination of the command and the kill of its group. Defaults to 5 s;
    /// with zero the group is killed at once.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Limits the number of reported lines. Further lines are read and counted in
    /// [`CommandOutcome::lost_lines`](super::CommandOutcome::lost_lines), and one warning reports the cut. If the
    /// command fails, the last 100 of them on standard error (16 KiB) are reported at the end. Defaults to no
    /// limit.
    pub fn line_limit(mut self, lines: u64) -> Self {
        self.lines_max = Some(lines);
        self
    }

    /// Limits the number of bytes of each output in [`CommandOutput`](super::CommandOutput): half for the
    /// beginning, half for the end. Defaults to 16 MiB.
    pub fn collect(mut self, bytes_max: usize) -> Self {
        self.collected_bytes = bytes_max;
        self
    }

    /// Sets the format of the standard output. Defaults to plain text.
    ///
    /// With another format, [`Command::observe`] emits typed events for the records of the output, as those
    /// of iteration 1, between `ExecutionStarted` and `ExecutionCompleted`: prompts, tokens, tools, turns and
    /// the agent's end. A stream that ends early is reported as a failure. Records are not repeated as text.
    /// Lines that are not records, and all of standard error, become `ExecutionOutput` in order;
    /// [`Command::on_output`] and [`Command::line_limit`] apply only to these. The exit code is the
    /// command's.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// Returns a copy that runs the same program with the same arguments, variables, directory, timeout,
    /// grace period and format; without input, callback, sink for bytes, control and terminal.
    pub(crate) fn copy_without_io(&self) -> Self {
        Self {
            args: self.args.clone(),
            env: self.env.clone(),
            directory: self.directory.clone(),
            timeout: self.timeout,
            grace: self.grace,
            format: self.format,
            clock: self.clock.clone(),
            ..Self::new(&self.program)
        }
    }

    /// Sets a callback for text as it is printed. The callback runs on the thread that runs the command and
    /// blocks it. Text that begins with `\r` replaces the open line.
    pub fn on_output(mut self, callback: impl FnMut(OutputStream, &str) + Send + 'static) -> Self {
        self.on_output = Some(Box::new(callback));
        self
    }

    /// Copies every byte to a writer as it is printed, for a terminal that shows the command as if it ran
    /// there. Secrets are not redacted.
    pub fn mirror(mut self, to: impl Write + Send + 'static) -> Self {
        self.byte_sink = Some(Box::new(Mirror { to: Some(to) }));
        self
    }

    /// Passes every byte to a sink as it is printed. Secrets are not redacted.
    #[cfg(feature = "cli")]
    pub(crate) fn byte_sink(mut self, to: impl ByteSink + 'static) -> Self {
        self.byte_sink = Some(Box::new(to));
        self
    }

    /// Connects a control, with which another thread can end the command.
    pub fn control(mut self, control: &CommandControl) -> Self {
        self.control = control.clone();
        self
    }

    pub(crate) fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Returns the command as a line that a shell accepts.
    pub fn line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        // A word with a NUL cannot be quoted; such a command fails to start.
        shlex::try_join(words.iter().map(AsRef::as_ref)).unwrap_or_else(|_| words.join(" "))
    }

    /// Returns the program's name without its directory.
    pub fn name(&self) -> String {
        let path = std::path::Path::new(&self.program);
        let name = path.file_name().unwrap_or(OsStr::new("command"));
        name.to_string_lossy().into_owned()
    }

    /// Returns the working directory, as an absolute path if possible.
    pub(crate) fn directory_shown(&self) -> String {
        let directory = self.directory.clone().unwrap_or_else(|| PathBuf::from("."));
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        let directory = directory.to_string_lossy();
        directory.trim_end_matches("/.").to_owned()
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("line", &self.line())
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

/// Ends one command from any thread; see [`Command::control`](super::Command::control). Clones control
/// the same command.
#[derive(Clone, Debug)]
pub struct CommandControl {
    requests: Sender<Signal>,
    pub(super) signals: Receiver<Signal>,
    pass_requests: Sender<Signal>,
    pub(super) passed: Receiver<Signal>,
    pub(super) kill_handle: KillHandle,
    pub(super) modes: SavedModes,
}

impl Default for CommandControl {
    fn default() -> Self {
        Self::new()
    }
}

impl CommandControl {
    /// Creates a control that is not connected to a command yet.
    pub fn new() -> Self {
        // The first request terminates the command; further ones have no effect.
        let (requests, signals) = bounded(1);
        let (pass_requests, passed) = bounded(PASSED_SIGNALS);
        Self {
            requests,
            signals,
            pass_requests,
            passed,
            kill_handle: KillHandle::default(),
            modes: SavedModes::default(),
        }
    }

    /// Terminates the command with a signal (`SIGTERM` is 15), and kills it after its grace period, as its
    /// timeout does.
    pub fn end(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            // A full channel already has a request.
            let _ = self.requests.try_send(signal);
        }
    }

    /// Passes a signal on to the command alone, such as `SIGUSR1`, which many programs answer; one that is passed on
    /// before the command has started reaches it then.
    pub fn pass(&self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            // Signals are no queue: the system merges equal ones, too.
            let _ = self.pass_requests.try_send(signal);
        }
    }

    /// Kills the command and its group immediately and restores the terminal, for a program that must exit.
    pub fn kill(&self) {
        self.kill_handle.kill();
        self.modes.restore();
    }
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandOutcome {
    /// The exit code; `None` when a signal ended the command.
    pub exit_code: Option<i32>,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// The time from the start of the command to its end.
    pub duration: Duration,
    /// True if the command was terminated because of its timeout.
    pub timed_out: bool,
    /// True if the command was terminated through its control or because the observer stopped.
    pub was_ended: bool,
    /// The number of lines beyond the limit, which were only counted: see
    /// [`Command::line_limit`](super::Command::line_limit).
    pub lost_lines: u64,
    /// True if the output shows that the command has asked for input, although its input was closed.
    pub has_asked: bool,
    /// True if the command is an agent that wrote whole messages: see
    /// [`StreamParser::has_whole_messages`](crate::agent::StreamParser::has_whole_messages).
    pub has_whole_messages: bool,
}

impl CommandOutcome {
    pub(super) fn new(report: &ExitReport, duration: Duration) -> Self {
        Self {
            exit_code: report.status.code(),
            signal: report.status.signal(),
            duration,
            timed_out: report.cause == ExitCause::TimedOut,
            was_ended: report.cause == ExitCause::Terminated,
            lost_lines: 0,
            has_asked: false,
            has_whole_messages: false,
        }
    }

    /// Returns true if the command exited with 0 before its timeout.
    pub fn is_success(&self) -> bool {
        self.exit_code == Some(0) && !self.timed_out
    }

    /// Returns the outcome as one number, as shells do: the exit code, 128 plus the signal, or 124 for a
    /// timeout.
    pub fn code(&self) -> i32 {
        if self.timed_out {
            // The exit code of a timeout, as in `timeout(1)`.
            return 124;
        }
        match (self.exit_code, self.signal) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            // A child always has an exit code or a signal.
            (None, None) => 1,
        }
    }

    /// Returns the duration in whole milliseconds.
    pub fn duration_ms(&self) -> u64 {
        u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The outcome of a command, with everything that it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandOutput {
    /// The end of the command.
    pub outcome: CommandOutcome,
    /// Its standard output, byte for byte.
    pub stdout: Vec<u8>,
    /// Its standard error, byte for byte. Empty for a command with its own terminal, which has only one
    /// output.
    pub stderr: Vec<u8>,
    /// The number of bytes missing in the middle of `stdout` and `stderr`: see
    /// [`Command::collect`](super::Command::collect).
    pub lost_bytes: u64,
}
