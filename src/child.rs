//! Child processes: the one way to start, feed, read, kill and reap one (no helper threads).
//!
//! A child leads a process group of its own. [`run`] writes its input while it reads its output,
//! all in the calling thread, and ends when the child has ended: what it left in the pipes by then
//! is taken, a grandchild that still holds them is not waited for. At the deadline the whole group
//! is killed and the child reaped.

mod group;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use self::group::poll_for;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::thread::{Stop, is_stopped};

pub(crate) use self::group::Group;

/// How long a wait for a child may be before the stop is looked at: a channel cannot be waited for
/// together with pipes.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// What is read at once: what a pipe holds on Linux unless somebody asked for more.
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// The most that a pipe can hold (`fs.pipe-max-size`): after reading this much, all that an ended
/// child wrote has been read.
const PIPE_BYTES_MAX: usize = 1024 * 1024;

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
pub struct Finished {
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
pub fn run(invocation: &Invocation, clock: &Clock) -> Result<Finished> {
    run_unless(invocation, clock, &crossbeam_channel::never())
}

/// The same, but the child is killed when `stop` is closed, too.
///
/// # Errors
/// As for [`run`]; `is_gone()` when it was stopped.
pub(crate) fn run_unless(invocation: &Invocation, clock: &Clock, stop: &Stop) -> Result<Finished> {
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
    let talked = Talk::new(&mut group, invocation).and_then(|mut talk| {
        talk.until(&mut group, deadline, clock, stop)
            .map(|status| (status, talk))
    });
    match talked {
        Ok((Some(status), talk)) => Ok(Finished {
            status,
            truncated: talk.stdout.truncated || talk.stderr.truncated,
            stdout: talk.stdout.kept,
            stderr: talk.stderr.kept,
        }),
        Ok((None, _)) => {
            group.kill_and_reap(clock);
            if is_stopped(stop) {
                let program = program.to_string_lossy();
                return Err(Error::gone(format!("{program} was stopped")));
            }
            Err(Error::timeout(format!(
                "{} did not end within {:?} and was killed",
                program.to_string_lossy(),
                invocation.timeout
            )))
        }
        Err(cause) => {
            group.kill_and_reap(clock);
            Err(
                Error::other(format!("cannot talk to {}", program.to_string_lossy()))
                    .because(cause),
            )
        }
    }
}

/// The two sides of the conversation with a child.
struct Talk<'a> {
    /// What is still to be written; closed when there is nothing more.
    stdin: Option<(ChildStdin, &'a [u8])>,
    stdout: Drain<ChildStdout>,
    stderr: Drain<ChildStderr>,
}

impl<'a> Talk<'a> {
    fn new(group: &mut Group, invocation: &'a Invocation) -> io::Result<Self> {
        let child = group.child();
        let stdin = match child.stdin.take() {
            Some(pipe) if !invocation.stdin.is_empty() => {
                rustix::io::ioctl_fionbio(&pipe, true)?;
                Some((pipe, invocation.stdin.as_slice()))
            }
            // Closed at once: the child reads an end of file.
            _ => None,
        };
        let bytes_max = invocation.output_bytes_max;
        let stdout = Drain::new(child.stdout.take(), bytes_max)?;
        let stderr = Drain::new(child.stderr.take(), bytes_max)?;
        Ok(Self {
            stdin,
            stdout,
            stderr,
        })
    }

    /// Writes and reads until the child has ended; `None` when the deadline or the stop came first.
    fn until(
        &mut self,
        group: &mut Group,
        deadline: Instant,
        clock: &Clock,
        stop: &Stop,
    ) -> io::Result<Option<ExitStatus>> {
        let mut buffer = vec![0; READ_CHUNK_BYTES];
        loop {
            self.write()?;
            // The order matters: what an ended child wrote is all in the pipes, so that one more
            // read after the end was seen takes everything.
            let status = group.try_wait()?;
            self.stdout.take(&mut buffer)?;
            self.stderr.take(&mut buffer)?;
            if status.is_some() {
                return Ok(status);
            }
            let left = deadline.saturating_duration_since(clock.now());
            if left.is_zero() || is_stopped(stop) {
                return Ok(None);
            }
            let nap = group.nap(left.min(STOP_CHECK));
            let mut waited = Vec::with_capacity(4);
            if let Some((pipe, _)) = &self.stdin {
                waited.push(PollFd::new(pipe, PollFlags::OUT));
            }
            if let Some(pipe) = &self.stdout.pipe {
                waited.push(PollFd::new(pipe, PollFlags::IN));
            }
            if let Some(pipe) = &self.stderr.pipe {
                waited.push(PollFd::new(pipe, PollFlags::IN));
            }
            if let Some(exit) = &group.exit {
                waited.push(PollFd::new(exit, PollFlags::IN));
            }
            poll_for(&mut waited, nap)?;
        }
    }

    fn write(&mut self) -> io::Result<()> {
        while let Some((pipe, rest)) = &mut self.stdin {
            match pipe.write(rest) {
                Ok(written) => {
                    *rest = rest.get(written..).unwrap_or_default();
                    if rest.is_empty() {
                        self.stdin = None;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The child does not want to read: that is its own affair.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => self.stdin = None,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// One output pipe and what is kept of it.
struct Drain<P> {
    /// `None` once it has ended.
    pipe: Option<P>,
    kept: Vec<u8>,
    bytes_max: usize,
    truncated: bool,
}

impl<P: Read + AsFd> Drain<P> {
    fn new(pipe: Option<P>, bytes_max: usize) -> io::Result<Self> {
        if let Some(pipe) = &pipe {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(Self {
            pipe,
            kept: Vec::new(),
            bytes_max,
            truncated: false,
        })
    }

    /// Takes what is there, but no more than a pipe can hold: somebody may write without end.
    fn take(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let mut taken = 0;
        while taken < PIPE_BYTES_MAX
            && let Some(pipe) = &mut self.pipe
        {
            match pipe.read(buffer) {
                Ok(0) => self.pipe = None,
                Ok(count) => {
                    let room = self.bytes_max - self.kept.len();
                    self.kept.extend_from_slice(&buffer[..count.min(room)]);
                    self.truncated |= count > room;
                    taken += count;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
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

    fn run_now(invocation: &Invocation) -> Result<Finished> {
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
