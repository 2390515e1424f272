//! Child processes: the one way to start, feed, read, kill and reap a child (no helper threads).
//!
//! A child leads a process group of its own. A `Supervisor` writes its input, reads its output and
//! enforces its limits in the calling thread, until it reports the child's exit. [`run`] collects the
//! output of a short command in this way: the output is complete up to the child's end, a grandchild that
//! still holds the pipes does not delay it, and the whole group is killed at the deadline.

mod group;
#[cfg(feature = "hosts")]
mod guard;
#[cfg(feature = "tui")]
mod on_terminal;

mod supervisor;

#[cfg(feature = "cli")]
mod event_variables;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crossbeam_channel::never;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::thread::Stop;

#[cfg(feature = "cli")]
pub(crate) use self::event_variables::event_variables;
#[cfg(feature = "notify")]
pub(crate) use self::event_variables::variable;
#[cfg(feature = "cli")]
pub(crate) use self::group::{DetachedStart, open_log, start_detached};
pub(crate) use self::group::{
    KillHandle, OutputReader, ProcessGroup, Stat, cannot_start, processes, stat,
};
#[cfg(feature = "hosts")]
pub(crate) use self::guard::{Guard, guard};
#[cfg(feature = "tui")]
pub(crate) use self::on_terminal::{TerminalProgram, run_on_terminal};
pub(crate) use self::supervisor::{
    ChildInput, ChildListener, ExitCause, ExitReport, Limits, Supervisor,
};
pub use crate::event::OutputStream;

/// A program to run, and its limits.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// The program, searched for in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables to set in addition to the inherited ones.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory.
    pub directory: PathBuf,
    /// The whole standard input.
    pub stdin: Vec<u8>,
    /// The most bytes that are kept of standard output, and of standard error. The rest is read and
    /// discarded.
    pub output_bytes_max: usize,
    /// The time after which the program is killed.
    pub timeout: Duration,
}

/// The exit status and the output of a child that ended by itself.
#[derive(Debug)]
pub struct ChildOutput {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// True when either output was longer than its limit.
    pub truncated: bool,
}

/// Runs a program to its end, and kills it when `stop` is closed.
///
/// # Errors
/// `is_missing_program()` when the program does not exist; `is_timeout()` when it was killed after its
/// timeout; `is_gone()` when it was stopped.
pub fn run(invocation: &Invocation, clock: &Clock, stop: &Stop) -> Result<ChildOutput> {
    let limits = Limits {
        deadline: clock.now().checked_add(invocation.timeout),
        grace: Duration::ZERO,
        stop_grace: Duration::ZERO,
        linger: Duration::ZERO,
        signals: &never(),
        passed: &never(),
        stop,
    };
    let mut command = Command::new(&invocation.program);
    command
        .args(&invocation.args)
        .envs(invocation.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&invocation.directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut group = ProcessGroup::start(&mut command)?;
    let mut collector = OutputCollector {
        outputs: [Vec::new(), Vec::new()],
        bytes_max: invocation.output_bytes_max,
        truncated: false,
    };
    let stdin = group.child.stdin.take();
    let supervise = || {
        let input = match stdin {
            Some(pipe) => ChildInput::bytes(pipe, &invocation.stdin)?,
            None => ChildInput::none(),
        };
        let outputs = group.outputs()?;
        Supervisor::new(group, input, outputs, limits, clock).run(&mut collector)
    };
    let report = supervise();
    let name = invocation.program.to_string_lossy();
    let report = report.map_err(|cause| {
        Error::other(format!("cannot exchange data with {name}")).because(cause)
    })?;
    match report.cause {
        ExitCause::Exited => {
            let [stdout, stderr] = collector.outputs;
            Ok(ChildOutput {
                status: report.status,
                stdout,
                stderr,
                truncated: collector.truncated,
            })
        }
        ExitCause::Terminated => Err(Error::gone(format!("{name} was stopped"))),
        ExitCause::TimedOut => Err(Error::timeout(format!(
            "{name} did not end within {:?} and was killed",
            invocation.timeout
        ))),
    }
}

struct OutputCollector {
    outputs: [Vec<u8>; 2],
    bytes_max: usize,
    truncated: bool,
}

impl ChildListener for OutputCollector {
    fn output(&mut self, stream: OutputStream, bytes: &[u8], _: Instant) {
        let kept = &mut self.outputs[stream.index()];
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
        run(invocation, &Clock::system(), &never())
    }

    #[test]
    fn input_is_written_while_output_is_read() {
        let stdin = vec![b'x'; 900_000];
        let finished = run_now(&Invocation {
            stdin: stdin.clone(),
            ..shell("cat; pwd >&2")
        });
        let finished = finished.unwrap();
        assert!(finished.status.success());
        assert!(
            finished.stdout == stdin,
            "{} bytes were read",
            finished.stdout.len()
        );
        assert_eq!(finished.stderr, b"/\n");
        assert!(!finished.truncated);
    }

    #[test]
    fn unread_input_is_not_an_error() {
        let finished = run_now(&Invocation {
            stdin: vec![b'x'; 900_000],
            timeout: Duration::MAX,
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
    fn the_whole_group_is_killed_at_the_deadline() {
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
    fn a_grandchild_that_holds_the_pipe_does_not_delay_the_end() {
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
    fn a_grandchild_that_never_stops_writing_does_not_delay_the_end() {
        let clock = Clock::system();
        let began = clock.now();
        // `timeout` and the broken pipe both end the grandchild.
        let finished = run_now(&shell("timeout 12 yes & echo done >&2")).unwrap();
        assert_eq!(finished.stderr, b"done\n");
        assert!(clock.now() - began < Duration::from_secs(10));
    }

    #[test]
    fn the_error_of_a_missing_program_contains_a_hint() {
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
