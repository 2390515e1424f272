//! Child processes: the one way to start, feed, read, kill and reap one (no helper threads).
//!
//! A child leads a process group of its own. [`run`] writes its input while it reads its output,
//! all in the calling thread, and ends when the child has ended: what it left in the pipes by then
//! is taken, a grandchild that still holds them is not waited for. At the deadline the whole group
//! is killed and the child reaped. What is read while it comes, and ended more gently, is attended:
//! `Attendance`.

mod attend;
mod group;
mod inlet;
mod outlet;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crossbeam_channel::never;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::thread::Stop;

pub use self::attend::OutputStream;
pub(crate) use self::attend::{Attendance, Attended, Bounds, ChildListener, End};
pub(crate) use self::group::{Group, Leash, cannot_start};
pub(crate) use self::inlet::Inlet;
pub(crate) use self::outlet::Outlet;

/// What to run, and within which bounds.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The program, looked for in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables to set beside the inherited ones.
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs.
    pub directory: PathBuf,
    /// What it reads from its standard input, which then ends.
    pub stdin: Vec<u8>,
    /// How much is kept of its standard output, and as much of its standard error; more is read
    /// and thrown away.
    pub output_bytes_max: usize,
    /// How long it may run.
    pub timeout: Duration,
}

/// A child that ended by itself.
#[derive(Debug)]
pub struct ChildOutput {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// Whether one of them was longer than what was kept.
    pub truncated: bool,
}

/// Runs a program to its end.
///
/// # Errors
/// `is_missing_program()` when there is no such program; `is_timeout()` when it ran too long and
/// was killed.
pub fn run(invocation: &Invocation, clock: &Clock) -> Result<ChildOutput> {
    run_until_stopped(invocation, clock, &crossbeam_channel::never())
}

/// The same, but the child is killed when `stop` is closed, too.
///
/// # Errors
/// As for [`run`]; `is_gone()` when it was stopped.
pub(crate) fn run_until_stopped(
    invocation: &Invocation,
    clock: &Clock,
    stop: &Stop,
) -> Result<ChildOutput> {
    let program = invocation.program.as_os_str();
    let deadline = clock.now() + invocation.timeout;
    let mut command = Command::new(program);
    command
        .args(&invocation.args)
        .envs(invocation.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&invocation.directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut group = Group::start(&mut command)?;
    let mut kept = Kept {
        stdout: Vec::new(),
        stderr: Vec::new(),
        bytes_max: invocation.output_bytes_max,
        truncated: false,
    };
    let attended = attend(
        &mut group,
        &mut kept,
        &invocation.stdin,
        deadline,
        clock,
        stop,
    );
    let name = program.to_string_lossy();
    match attended {
        Ok(attended) => match attended.end {
            End::Itself => Ok(ChildOutput {
                status: attended.status,
                stdout: kept.stdout,
                stderr: kept.stderr,
                truncated: kept.truncated,
            }),
            End::Asked => Err(Error::gone(format!("{name} was stopped"))),
            End::Timeout => Err(Error::timeout(format!(
                "{name} did not end within {:?} and was killed",
                invocation.timeout
            ))),
        },
        Err(cause) => {
            group.kill_and_reap(clock);
            Err(Error::other(format!("cannot talk to {name}")).because(cause))
        }
    }
}

fn attend(
    group: &mut Group,
    kept: &mut Kept,
    stdin: &[u8],
    deadline: Instant,
    clock: &Clock,
    stop: &Stop,
) -> io::Result<Attended> {
    let child = group.child();
    let inlet = match child.stdin.take() {
        Some(pipe) => Inlet::bytes(pipe, stdin)?,
        None => Inlet::None,
    };
    let outlets = [
        Outlet::new(child.stdout.take())?,
        Outlet::new(child.stderr.take())?,
    ];
    let bounds = Bounds {
        deadline: Some(deadline),
        grace: Duration::ZERO,
        stop_grace: Duration::ZERO,
        linger: Duration::ZERO,
    };
    Attendance {
        group,
        inlet,
        outlets,
        bounds,
        orders: &never(),
        stop,
        clock,
    }
    .run(kept)
}

/// What is kept of both outputs.
struct Kept {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    bytes_max: usize,
    truncated: bool,
}

impl ChildListener for Kept {
    fn output(&mut self, stream: OutputStream, bytes: &[u8], _: Instant) {
        let kept = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        let room = self.bytes_max - kept.len();
        kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.truncated |= bytes.len() > room;
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, Signal};

    use super::*;

    fn shell(script: &str) -> Invocation {
        Invocation {
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            env: Vec::new(),
            directory: "/".into(),
            stdin: Vec::new(),
            output_bytes_max: 1 << 20,
            timeout: Duration::from_secs(20),
        }
    }

    fn run_now(invocation: &Invocation) -> Result<ChildOutput> {
        run(invocation, &Clock::system())
    }

    #[test]
    fn feeds_and_reads_at_the_same_time() {
        let stdin = vec![b'x'; 900_000];
        let finished = run_now(&Invocation {
            stdin: stdin.clone(),
            ..shell("cat; pwd >&2")
        });
        let finished = finished.unwrap();
        assert!(finished.status.success());
        assert!(
            finished.stdout == stdin,
            "{} bytes came back",
            finished.stdout.len()
        );
        assert_eq!(finished.stderr, b"/\n");
        assert!(!finished.truncated);
    }

    #[test]
    fn a_child_that_does_not_read_is_no_error() {
        let finished = run_now(&Invocation {
            stdin: vec![b'x'; 900_000],
            ..shell("exit 7")
        });
        assert_eq!(finished.unwrap().status.code(), Some(7));
    }

    #[test]
    fn output_is_bounded() {
        let invocation = Invocation {
            output_bytes_max: 10,
            ..shell("head -c 300000 /dev/zero | tr '\\0' y")
        };
        let finished = run_now(&invocation).unwrap();
        assert_eq!(finished.stdout, b"yyyyyyyyyy");
        assert!(finished.truncated);
    }

    #[test]
    fn at_the_deadline_the_whole_group_is_killed() {
        let clock = Clock::system();
        let began = clock.now();
        let script = "trap '' TERM; sleep 1000 & echo $$ > /dev/stderr; wait";
        let invocation = Invocation {
            timeout: Duration::from_millis(200),
            ..shell(script)
        };
        let error = run_now(&invocation).unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
        assert!(clock.now() - began < Duration::from_secs(10));
    }

    #[test]
    fn a_grandchild_that_holds_the_pipe_is_not_waited_for() {
        let clock = Clock::system();
        let began = clock.now();
        let finished = run_now(&shell("sleep 12 & echo $!; echo done")).unwrap();
        assert!(finished.stdout.ends_with(b"done\n"), "{finished:?}");
        assert!(clock.now() - began < Duration::from_secs(10));
        let text = String::from_utf8(finished.stdout).unwrap();
        let grandchild = Pid::from_raw(text.lines().next().unwrap().parse().unwrap()).unwrap();
        rustix::process::kill_process(grandchild, Signal::KILL).unwrap();
    }

    #[test]
    fn a_grandchild_that_never_stops_writing_is_not_waited_for() {
        let clock = Clock::system();
        let began = clock.now();
        // `timeout` and the broken pipe both end it.
        let finished = run_now(&shell("timeout 12 yes & echo done >&2")).unwrap();
        assert_eq!(finished.stderr, b"done\n");
        assert!(clock.now() - began < Duration::from_secs(10));
    }

    #[test]
    fn a_missing_program_says_what_to_do() {
        let error = run_now(&Invocation {
            program: "td-no-such-thing".into(),
            ..shell("")
        });
        let error = error.unwrap_err();
        assert!(error.is_missing_program(), "{error:?}");
        assert!(error.to_string().contains("PATH"), "{error}");
        let error = run_now(&Invocation {
            directory: "/no/such/place".into(),
            ..shell("")
        });
        assert!(!error.unwrap_err().is_missing_program());
    }
}
