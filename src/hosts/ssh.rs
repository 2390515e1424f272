//! Runs ssh: asks a program on a host, and forwards the socket of its observer to one here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::name::HostName;
use super::problem::Problem;
#[cfg(feature = "tui")]
use crate::child::TerminalProgram;
use crate::child::{ChildOutput, Guard, Invocation, OutputReader, ProcessGroup, run};
use crate::clock::Clock;
use crate::thread::Stop;

/// The options of each connection. It never asks for anything, and is never shared: a shared one would outlive this
/// program. A host that falls silent is noticed by its missing answers, and its connection ends a little later by itself.
const OPTIONS: [&str; 9] = [
    "BatchMode=yes",
    "ConnectTimeout=8",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=2",
    "ControlPath=none",
    "RemoteCommand=none",
    "RequestTTY=no",
    "PermitLocalCommand=no",
    // What reaches the socket types as the user.
    "StreamLocalBindMask=0177",
];

/// The time in which a host must answer a question: the connection's own time, and a second for each hop and the program.
const ASK_TIME: Duration = Duration::from_secs(12);

/// The most that is kept of an answer: a path, or some lines of an error.
const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// The limits of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskLimits {
    pub time: Duration,
    /// The most that is kept of it.
    pub bytes: usize,
}

impl AskLimits {
    /// The limits of an answer of some lines.
    pub const SHORT: Self = Self {
        time: ASK_TIME,
        bytes: ANSWER_BYTES_MAX,
    };
}

/// The ssh that is used, as words: a program and its first arguments.
#[derive(Clone, Debug)]
pub(crate) struct SshCommand {
    program: OsString,
    args: Vec<OsString>,
}

impl SshCommand {
    /// Returns the command that `TD_SSH_COMMAND` names, or `ssh`.
    ///
    /// # Errors
    /// The reason why the variable is no command, in words.
    pub fn from_variable(value: Option<OsString>) -> Result<Self, String> {
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            return Ok(Self {
                program: "ssh".into(),
                args: Vec::new(),
            });
        };
        let text = value.to_string_lossy();
        let words = shlex::split(&text)
            .ok_or_else(|| format!("TD_SSH_COMMAND: a quote is not closed in {text:?}"))?;
        let mut words = words.into_iter().map(OsString::from);
        let program = words.next().ok_or("TD_SSH_COMMAND names no program")?;
        Ok(Self {
            program,
            args: words.collect(),
        })
    }

    /// Returns the words of a connection to a host, without what it is for.
    fn words(&self, more: &[&str], host: &HostName) -> Vec<OsString> {
        let options = OPTIONS.iter().flat_map(|option| ["-o", option]);
        let own = options.chain(more.iter().copied());
        let own = own.chain([host.as_str()]).map(OsString::from);
        self.args.iter().cloned().chain(own).collect()
    }

    /// Asks a host: runs a command of the remote shell there, and returns what it prints.
    ///
    /// # Errors
    /// If ssh cannot be started, or the host does not answer in time.
    pub(super) fn ask(
        &self,
        host: &HostName,
        command: &str,
        limits: AskLimits,
        (stop, clock): (&Stop, &Clock),
    ) -> crate::Result<ChildOutput> {
        // A forward of the user's own would fail beside the session that has it.
        let mut args = self.words(&["-T", "-o", "ClearAllForwardings=yes"], host);
        args.push(command.into());
        let invocation = Invocation {
            program: self.program.clone(),
            args,
            env: Vec::new(),
            directory: "/".into(),
            stdin: Vec::new(),
            output_bytes_max: limits.bytes,
            timeout: limits.time,
        };
        run(&invocation, clock, stop)
    }

    /// Returns the command that runs a command of the remote shell on this terminal.
    #[cfg(feature = "tui")]
    pub(super) fn on_terminal(&self, host: &HostName, command: &str) -> TerminalProgram {
        let mut ssh = Command::new(&self.program);
        ssh.args(&self.args)
            .args(["-t", "-o", "ControlPath=none", "-o", "LogLevel=ERROR"])
            .args([host.as_str(), command]);
        TerminalProgram(ssh)
    }

    /// Forwards a socket of a host to one here.
    ///
    /// # Errors
    /// If ssh cannot be started.
    pub(super) fn forward(
        &self,
        host: &HostName,
        (local, remote): (&Path, &str),
        guard: &Arc<Guard>,
    ) -> Result<Tunnel, Problem> {
        // What an ssh that was killed has left.
        let _ = std::fs::remove_file(local);
        let address = format!("{}:{remote}", local.display());
        let more = [
            "-N",
            // Forwards of the user's own configuration may exist already.
            "-o",
            "ExitOnForwardFailure=no",
            "-o",
            "StreamLocalBindUnlink=yes",
            "-L",
            &address,
        ];
        let mut command = Command::new(&self.program);
        command
            .args(self.words(&more, host))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let failed = |error: crate::Error| Problem::ssh_is_missing(&error);
        let mut group = ProcessGroup::start(&mut command).map_err(failed)?;
        guard.watch(&group);
        let [_, errors] = group
            .outputs()
            .map_err(|cause| Problem::new(format!("ssh cannot be read: {cause}")))?;
        Ok(Tunnel {
            group,
            errors,
            said: Vec::new(),
            socket: local.to_owned(),
            guard: Arc::clone(guard),
        })
    }
}

/// A running ssh that forwards a socket. Dropping it ends the ssh.
#[derive(Debug)]
pub(super) struct Tunnel {
    group: ProcessGroup,
    errors: OutputReader,
    /// What ssh has said on its standard error.
    said: Vec<u8>,
    /// The socket here.
    socket: PathBuf,
    guard: Arc<Guard>,
}

impl Tunnel {
    /// Returns true if the ssh has ended.
    pub fn has_ended(&self) -> bool {
        self.group.has_ended().unwrap_or(true)
    }

    /// Returns what ssh has said on its standard error so far.
    pub fn words(&mut self) -> String {
        let said = &mut self.said;
        let read = self.errors.read(&mut [0; 4096], ANSWER_BYTES_MAX, |bytes| {
            let room = ANSWER_BYTES_MAX.saturating_sub(said.len());
            said.extend_from_slice(&bytes[..bytes.len().min(room)]);
        });
        if let Err(cause) = read {
            log::debug!("ssh cannot be read: {cause}");
        }
        String::from_utf8_lossy(&self.said).into_owned()
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        // The group kills and reaps the ssh when it is dropped.
        self.guard.forget(&self.group);
        let _ = std::fs::remove_file(&self.socket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_replaces_ssh() {
        let of = |value: &str| SshCommand::from_variable(Some(value.into()));
        let own = of("/opt/my ssh' -F x").unwrap_err();
        assert!(own.contains("quote"), "{own}");
        let own = of("'/opt/my ssh' -F x").unwrap();
        assert_eq!(own.program, "/opt/my ssh");
        assert_eq!(own.args, ["-F", "x"]);
        assert_eq!(of("").unwrap().program, "ssh");
        assert!(of("  ").is_err());
        let words = own.words(&["-N"], &"web".parse().unwrap());
        assert_eq!(words.first().unwrap(), "-F");
        assert_eq!(words.last().unwrap(), "web");
    }
}
