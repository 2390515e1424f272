//! The process of a kernel that this program starts: its command, its environment and its end.
//!
//! A kernel must not outlive this program. On Linux, the system kills the kernel when the thread that started
//! it ends for any reason (`setpriv --pdeathsig` of util-linux). Python's kernel also detects by itself that
//! its parent is gone (`JPY_PARENT_PID`).

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io;
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use rustix::event::PollFd;
use rustix::process::Signal;

use super::connection::ConnectionInfo;
use super::kernelspec::{JupyterDirs, KernelSpec};
use crate::child::{KillHandle, OutputReader, ProcessGroup};
use crate::error::{Error, Result};

const READ_BYTES: usize = 16 * 1024;

/// The words before a command that let the system kill it when its parent thread ends, where the program
/// `setpriv` exists.
const GUARD: [&str; 4] = ["setpriv", "--pdeathsig", "KILL", "--"];

/// The parameters to start a kernel, also used for a restart.
#[derive(Clone, Debug)]
pub(super) struct KernelStart {
    pub spec: KernelSpec,
    pub connection_file: PathBuf,
    /// Kills the kernel from another thread.
    pub kill_handle: KillHandle,
}

#[derive(Debug)]
pub(super) struct KernelProcess {
    pub group: ProcessGroup,
    outputs: [OutputReader; 2],
    /// The last bytes of its own output, for example the error of a failed import.
    pub tail: Vec<u8>,
}

impl KernelProcess {
    pub fn start(start: &KernelStart) -> Result<Self> {
        let argv = start.spec.command(&start.connection_file);
        // Without the guard, a missing program is reported by its own name.
        let is_guarded = cfg!(target_os = "linux")
            && argv.first().is_some_and(|program| program_exists(program))
            && program_exists(OsStr::new(GUARD[0]));
        let guard = GUARD.iter().filter(|_| is_guarded).map(OsString::from);
        let mut words = guard.chain(argv);
        let variables = start.spec.env.iter();
        // A specification has at least one argument.
        let mut command = Command::new(words.next().unwrap_or_default());
        command
            .args(words)
            .envs(variables.map(|(name, value)| (name, expanded(value))))
            .env("JPY_PARENT_PID", std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut group = ProcessGroup::start(&mut command)?;
        group.connect(&start.kill_handle);
        let outputs = group
            .outputs()
            .map_err(|cause| Error::other("cannot read the output of the kernel").because(cause))?;
        Ok(Self {
            group,
            outputs,
            tail: Vec::new(),
        })
    }

    /// Returns the descriptors that are ready when the process has printed something or has ended.
    pub fn waits_for(&self) -> impl Iterator<Item = PollFd<'_>> {
        let outputs = self.outputs.iter().filter_map(OutputReader::waits_for);
        self.group.exit_fd().into_iter().chain(outputs)
    }

    /// Reads the process's own output, so that a full pipe does not block it.
    pub fn read(&mut self) {
        let mut buffer = [0; READ_BYTES];
        let tail = &mut self.tail;
        for output in &mut self.outputs {
            let read = output.read(&mut buffer, READ_BYTES, |bytes| {
                tail.extend_from_slice(bytes);
                // The number of last bytes of a kernel's own output that are kept for the message about its end.
                let surplus = tail.len().saturating_sub(4096);
                tail.drain(..surplus);
            });
            if let Err(cause) = read {
                log::debug!("cannot read the output of the kernel: {cause}");
            }
        }
    }

    /// Describes the end of the kernel, with the last line of its own output.
    pub fn describe_exit(&self, status: ExitStatus) -> String {
        let mut text = format!("the kernel has ended ({status})");
        let output = String::from_utf8_lossy(&self.tail);
        if let Some(line) = output.lines().rev().find(|line| !line.trim().is_empty()) {
            text.push_str(": ");
            text.extend(line.trim().chars().take(200));
        }
        text
    }

    /// Kills the rest of the process group and reaps the kernel.
    pub fn kill(mut self) {
        self.group.signal(Signal::KILL);
        // The exit status is not needed; dropping the group reaps the kernel.
        let _ = self.group.try_wait();
    }
}

/// Returns true if a program exists at its path or in a directory of `PATH`.
fn program_exists(program: &OsStr) -> bool {
    if program.as_encoded_bytes().contains(&b'/') {
        return Path::new(program).is_file();
    }
    let path = env::var_os("PATH");
    let mut directories = path.iter().flat_map(env::split_paths);
    directories.any(|directory| directory.join(program).is_file())
}

/// Replaces `${NAME}` with the variable's value, as Jupyter does for the environment of a specification.
fn expanded(value: &str) -> OsString {
    let mut rest = value;
    let mut out = OsString::new();
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            break;
        };
        out.push(before);
        match env::var_os(name) {
            Some(value) => out.push(value),
            None => out.push(format!("${{{name}}}")),
        }
        rest = after;
    }
    out.push(rest);
    out
}

pub(super) fn remove_connection_file(path: &Path) {
    if let Err(cause) = std::fs::remove_file(path)
        // The kernel may have removed the file.
        && cause.kind() != io::ErrorKind::NotFound
    {
        log::warn!("cannot remove {path:?}: {cause}");
    }
}

/// Chooses ports and a key for a new kernel, and writes its connection file to Jupyter's runtime directory.
pub(super) fn prepare_start(spec: &KernelSpec) -> Result<(ConnectionInfo, KernelStart)> {
    let directory = JupyterDirs::of_environment().runtime().ok_or_else(|| {
        Error::invalid(
            "there is no directory for connection files: set HOME or JUPYTER_RUNTIME_DIR",
        )
    })?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&directory)
        .map_err(|cause| Error::file("cannot create", &directory, cause))?;
    let ports = free_ports()
        .map_err(|cause| Error::other("cannot find free ports for a kernel").because(cause))?;
    let ip = Ipv4Addr::LOCALHOST.to_string();
    let info = ConnectionInfo::new(ip, ports, random_digits()?, spec.name().to_owned());
    let connection_file = directory.join(format!("kernel-td-{}.json", random_digits()?));
    info.write(&connection_file)?;
    let start = KernelStart {
        spec: spec.clone(),
        connection_file,
        kill_handle: KillHandle::default(),
    };
    Ok((info, start))
}

/// Returns five free ports. If another program binds one before the kernel does, the kernel ends with an
/// error.
fn free_ports() -> io::Result<[u16; 5]> {
    let mut ports = [0; 5];
    // Keep each port bound until all five are known, so that they differ.
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// Returns 32 random hexadecimal digits, for a unique id or a key.
pub(super) fn random_digits() -> Result<String> {
    // The bytes of a session id and of a key: 128 bits, as in a UUID.
    let mut bytes = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|cause| Error::other("cannot read random bytes").because(cause))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
