//! Starting a command: with pipes or with a terminal of its own, and with what it reads.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ChildStdin, Stdio};

use pty_process::blocking as pty;

use super::command::{Command, Stdin};
use super::terminal::{self, Lent, PtySize, Raw};
use crate::child::{Group, Outlet, cannot_start};
use crate::error::{Error, Result};

/// What a pipe is asked to hold. With the usual 64 KiB a command that prints much takes turns with
/// its reader; more than this for each of many commands would use up what a user may have in pipes
/// (64 MiB, `pipe-user-pages-soft`).
const PIPE_BYTES: usize = 256 * 1024;

/// A command that runs.
pub(super) struct Started {
    pub group: Group,
    pub outlets: [Outlet; 2],
    /// Its own terminal, to be set to another size.
    pub own: Option<(pty::Pty, PtySize)>,
    /// What it reads is written here.
    pub fed: Option<ChildStdin>,
    /// What is typed goes here.
    pub keys: Option<(Raw, OwnedFd)>,
    /// The user's terminal, which it has.
    pub lent: Option<Lent>,
}

pub(super) fn start(command: &Command) -> Result<Started> {
    let mut started = match command.screen {
        None => with_pipes(command)?,
        Some(screen) => with_terminal(command, screen)?,
    };
    started.group.hand_over(&command.control.leash);
    if command.stdin == Stdin::Inherited && started.own.is_none() {
        let group = started.group.pid();
        started.lent = group.and_then(|group| Lent::lend(group, &command.control.modes));
    }
    Ok(started)
}

fn with_pipes(command: &Command) -> Result<Started> {
    let mut child = plain(command);
    child
        .stdin(stdin(command))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut group = Group::start(&mut child)?;
    let fed = group.child().stdin.take();
    let (stdout, stderr) = (group.child().stdout.take(), group.child().stderr.take());
    let outlets = || Ok([Outlet::new(stdout)?, Outlet::new(stderr)?]);
    let outlets = outlets().map_err(|cause| cannot_read(command, cause))?;
    outlets[0].widen(PIPE_BYTES);
    Ok(Started {
        group,
        outlets,
        own: None,
        fed,
        keys: None,
        lent: None,
    })
}

fn with_terminal(command: &Command, screen: PtySize) -> Result<Started> {
    let failed = |cause: pty_process::Error| {
        Error::other(format!("cannot give {} a terminal", command.name())).because(cause)
    };
    let (own, theirs) = pty::open().map_err(failed)?;
    own.resize(screen.size()).map_err(failed)?;
    let is_typed = command.stdin == Stdin::Inherited && terminal::is_typed();
    let mut child = pty::Command::from(plain(command));
    if !is_typed {
        child = child.stdin(stdin(command));
    }
    // A session of its own, and so a group of its own.
    let child = child.spawn(theirs).map_err(|error| match error {
        pty_process::Error::Io(cause) => {
            cannot_start(&command.program, command.directory.as_deref(), cause)
        }
        other => failed(other),
    })?;
    let mut group = Group::led_by(child);
    let fed = group.child().stdin.take();
    let ends = || -> io::Result<_> {
        let outlet = Outlet::new(Some(own.as_fd().try_clone_to_owned()?))?;
        let keys = match is_typed {
            true => Some((
                Raw::begin(&command.control.modes)?,
                own.as_fd().try_clone_to_owned()?,
            )),
            false => None,
        };
        Ok(([outlet, Outlet::new(None::<OwnedFd>)?], keys))
    };
    let (outlets, keys) = ends().map_err(|cause| cannot_read(command, cause))?;
    Ok(Started {
        group,
        outlets,
        own: Some((own, screen)),
        fed,
        keys,
        lent: None,
    })
}

fn plain(command: &Command) -> std::process::Command {
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

fn stdin(command: &Command) -> Stdio {
    match command.stdin {
        Stdin::Closed => Stdio::null(),
        Stdin::Inherited => Stdio::inherit(),
        Stdin::Bytes(_) => Stdio::piped(),
    }
}

fn cannot_read(command: &Command, cause: io::Error) -> Error {
    Error::other(format!("cannot read what {} prints", command.name())).because(cause)
}
