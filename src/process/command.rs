//! What to run, and within which bounds.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::control::CommandControl;
use super::terminal::PtySize;
use crate::agent::Format;
use crate::bus::EventEmitter;
use crate::child::OutputStream;
use crate::clock::Clock;
use crate::error::Result;

use super::outcome::{CommandOutcome, CommandOutput};
use super::run;

/// How long a command may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(5);

/// What is kept of each output unless told otherwise: more is read by nobody at once.
const COLLECTED_BYTES: usize = 16 * 1024 * 1024;

/// What a command reads.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stdin {
    /// Nothing: it finds an end of file.
    #[default]
    Closed,
    /// What this program reads. Where this program has a terminal, the command becomes its
    /// foreground: it gets the keys, Ctrl-C and Ctrl-Z included, and may ask for a password.
    Inherited,
    /// These bytes, and then the end. They are written while the output is read; a command that
    /// does not read them is not waited for, and that is no error.
    Bytes(Arc<[u8]>),
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("Closed"),
            Self::Inherited => f.write_str("Inherited"),
            // They may be long, and secret.
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
        }
    }
}

/// A closure that hears what is printed.
pub(super) type OnOutput = Box<dyn FnMut(OutputStream, &str) + Send>;

/// A command to run, whose output is seen while it is printed.
///
/// It leads a process group of its own. When its time is up the group gets `TERM`, and `KILL` when
/// the grace is over. Where the program runs is nobody's business: `docker exec …` is a command
/// like any other.
///
/// ```no_run
/// use std::time::Duration;
/// use td_observe::process::Command;
///
/// # fn main() -> td_observe::Result<()> {
/// let output = Command::new("make")
///     .arg("test")
///     .timeout(Duration::from_secs(600))
///     .on_output(|stream, text| print!("[{}] {text}", stream.name()))
///     .output()?;
/// println!("{} after {:?}", output.outcome.code(), output.outcome.duration);
/// # Ok(())
/// # }
/// ```
#[must_use = "a command does nothing until it is run"]
pub struct Command {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    /// `None` takes a variable away.
    pub(super) env: Vec<(OsString, Option<OsString>)>,
    pub(super) directory: Option<PathBuf>,
    pub(super) stdin: Stdin,
    pub(super) screen: Option<PtySize>,
    pub(super) timeout: Option<Duration>,
    pub(super) grace: Duration,
    pub(super) lines_max: Option<u64>,
    pub(super) collected_bytes: usize,
    pub(super) format: Format,
    pub(super) on_output: Option<OnOutput>,
    pub(super) mirror: Option<Box<dyn Write + Send>>,
    pub(super) control: CommandControl,
    pub(super) clock: Clock,
}

impl Command {
    /// A program, looked for in `PATH`, without arguments.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            directory: None,
            stdin: Stdin::Closed,
            screen: None,
            timeout: None,
            grace: GRACE,
            lines_max: None,
            collected_bytes: COLLECTED_BYTES,
            format: Format::Text,
            on_output: None,
            mirror: None,
            control: CommandControl::new(),
            clock: Clock::system(),
        }
    }

    /// A line for `sh -c`.
    pub fn shell(line: impl Into<OsString>) -> Self {
        Self::new("sh").arg("-c").arg(line)
    }

    /// One more argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// More arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// A variable beside the inherited ones.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), Some(value.into())));
        self
    }

    /// Without a variable that this program may have.
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.env.push((name.into(), None));
        self
    }

    /// Where it runs; here, unless told otherwise.
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = Some(path.into());
        self
    }

    /// What it reads; nothing, unless told otherwise.
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Gives it a terminal of its own, so that it keeps its colours: both outputs are one then,
    /// and come as standard output.
    pub fn pty(mut self, screen: PtySize) -> Self {
        self.screen = Some(screen);
        self
    }

    /// How long it may run; for ever, unless told otherwise.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// How long it has to end after it was asked to; then its group is killed. 5 s unless told
    /// otherwise; with none it is killed at once.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Hands on so many lines at most; more are read, and counted in
    /// [`CommandOutcome::lost_lines`], and one warning says so. All, unless told otherwise.
    pub fn line_limit(mut self, lines: u64) -> Self {
        self.lines_max = Some(lines);
        self
    }

    /// How many bytes of each output [`CommandOutput`] has at most: of more the beginning and the end, a
    /// half each. 16 MiB unless told otherwise.
    pub fn collect(mut self, bytes_max: usize) -> Self {
        self.collected_bytes = bytes_max;
        self
    }

    /// What its standard output is: plain text, unless told otherwise.
    ///
    /// With another format [`Command::observe`] makes typed events of its records, those of
    /// iteration 1, beside `ExecutionStarted` and `ExecutionCompleted`: prompts, tokens, tools,
    /// turns, and how the agent ended; a stream that just ends was cut, and that is said. A record
    /// does not come again as text. Lines that are no records are `ExecutionOutput` as ever, in
    /// their place, and so is all of standard error; [`Command::on_output`] and
    /// [`Command::line_limit`] have to do with these alone. The exit code stays the command's.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// The same command once more: what is run, where, with what, within which time, and how its
    /// output is read; without those who hear it, and without what ends it.
    pub(crate) fn again(&self) -> Self {
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

    /// How long it may run.
    pub(crate) fn time_limit(&self) -> Option<Duration> {
        self.timeout
    }

    /// The format of its output.
    pub(crate) fn output_format(&self) -> Format {
        self.format
    }

    /// Called with each piece of text while it is printed, on the thread that runs the command,
    /// which waits meanwhile. A piece that begins with `\r` replaces the line that is open.
    pub fn on_output(mut self, hear: impl FnMut(OutputStream, &str) + Send + 'static) -> Self {
        self.on_output = Some(Box::new(hear));
        self
    }

    /// Gets every byte as it is printed, beside everything else: a terminal that is to look as if
    /// the command ran there. Secrets are not taken out.
    pub fn mirror(mut self, to: impl Write + Send + 'static) -> Self {
        self.mirror = Some(Box::new(to));
        self
    }

    /// Lets another thread end it.
    pub fn control(mut self, control: &CommandControl) -> Self {
        self.control = control.clone();
        self
    }

    /// What ends it.
    pub(crate) fn control_handle(&self) -> CommandControl {
        self.control.clone()
    }

    /// Takes the time from elsewhere.
    pub(crate) fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// The command as a line that a shell would understand.
    pub fn line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.args);
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        // NUL bytes, which no program can be given: it is going to fail.
        shlex::try_join(words.iter().map(AsRef::as_ref)).unwrap_or_else(|_| words.join(" "))
    }

    /// What it is called: the program's name without its directory.
    pub fn name(&self) -> String {
        let path = std::path::Path::new(&self.program);
        let name = path.file_name().unwrap_or(OsStr::new("command"));
        name.to_string_lossy().into_owned()
    }

    /// Where it runs, absolute where that is known.
    pub(crate) fn directory_shown(&self) -> String {
        let directory = self.directory.clone().unwrap_or_else(|| PathBuf::from("."));
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        let directory = directory.to_string_lossy();
        directory.trim_end_matches("/.").to_owned()
    }

    /// Runs it to its end, in this thread, and gives all that it printed.
    ///
    /// # Errors
    /// `is_missing_program()` when there is no such program; what the system says when it cannot
    /// be started, read or killed. A command that fails or takes too long is no error.
    pub fn output(self) -> Result<CommandOutput> {
        run::output(self)
    }

    /// Runs it to its end, in this thread; what it does becomes events of the emitter:
    /// `ExecutionStarted`, `ExecutionOutput`, `ExecutionCompleted`.
    ///
    /// Where the log is behind, the command is made to wait, as by a terminal; not for longer than
    /// 5 s, when the disk stands still: then what has no room is dropped and counted.
    ///
    /// # Errors
    /// As for [`Command::output`]. There are no events of a command that could not be started.
    pub fn observe(self, emitter: &EventEmitter) -> Result<CommandOutcome> {
        run::observe_command(self, || Ok(emitter.clone()), &run::never())
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
