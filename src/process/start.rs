//! Starts a command with pipes or with its own terminal, and supervises it to its end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ChildStdin, Stdio};
use std::time::{Duration, Instant};

use pty_process::blocking as pty;

use super::command::{Command, Stdin};
use super::terminal::{ForegroundLoan, PtySize, RawMode, is_typed_at};
use crate::child::{
    ChildInput, ChildListener, ExitReport, Limits, OutputReader, ProcessGroup, Supervisor,
    cannot_start,
};
use crate::error::{Error, Result};
use crate::thread::Stop;

/// The requested capacity of an output pipe. With the default of 64 KiB, a command that prints much often
/// waits for its reader. With more, many commands would exceed a user's limit for pipes (64 MiB,
/// `pipe-user-pages-soft`).
const PIPE_BYTES: usize = 256 * 1024;

/// The time for which outputs that another process holds open are read after the end of a command. With `exec
/// > >(tee build.log)`, another process writes the last lines.
const LINGER: Duration = Duration::from_millis(300);

pub(super) struct StartedCommand {
    pub began: Instant,
    group: ProcessGroup,
    outputs: [OutputReader; 2],
    stdin: Option<ChildStdin>,
    /// The command's own terminal, and its size.
    pub pty: Option<(pty::Pty, PtySize)>,
    /// The terminal that gets the typed keys, and the raw mode of the user's terminal.
    keys: Option<(RawMode, OwnedFd)>,
    /// The user's terminal, while the command is its foreground.
    pub foreground: Option<ForegroundLoan>,
}

impl StartedCommand {
    pub fn start(command: &Command) -> Result<Self> {
        let began = command.clock.now();
        let mut started = match command.pty_size {
            None => Self::with_pipes(command, began)?,
            Some(size) => Self::with_pty(command, size, began)?,
        };
        started.group.connect(&command.control.kill_handle);
        if command.stdin == Stdin::Inherited && started.pty.is_none() {
            let group = started.group.pid();
            started.foreground = ForegroundLoan::lend(group, &command.control.modes);
        }
        Ok(started)
    }

    fn with_pipes(command: &Command, began: Instant) -> Result<Self> {
        let mut child = std_command(command);
        child
            .stdin(stdin_of(command))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut group = ProcessGroup::start(&mut child)?;
        let stdin = group.child().stdin.take();
        let outputs = group
            .outputs()
            .map_err(|cause| cannot_read(command, cause))?;
        outputs[0].enlarge_pipe(PIPE_BYTES);
        Ok(Self {
            began,
            group,
            outputs,
            stdin,
            pty: None,
            keys: None,
            foreground: None,
        })
    }

    fn with_pty(command: &Command, size: PtySize, began: Instant) -> Result<Self> {
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
        let mut group = ProcessGroup::led_by(child);
        let stdin = group.child().stdin.take();
        let descriptors = || -> io::Result<_> {
            let output = OutputReader::new(Some(pty.as_fd().try_clone_to_owned()?))?;
            let keys = match is_typed {
                true => Some((
                    RawMode::enter(&command.control.modes)?,
                    pty.as_fd().try_clone_to_owned()?,
                )),
                false => None,
            };
            Ok(([output, OutputReader::new(None::<OwnedFd>)?], keys))
        };
        let (outputs, keys) = descriptors().map_err(|cause| cannot_read(command, cause))?;
        Ok(Self {
            began,
            group,
            outputs,
            stdin,
            pty: Some((pty, size)),
            keys,
            foreground: None,
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
