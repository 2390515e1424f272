//! Starts the observer in the background, and stops it. Its diagnostics are in a file of bounded size, and one
//! older file.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use rustix::fs::{fstat, ftruncate};
use rustix::stdio::{dup2_stderr, stderr};

use super::super::output;
use super::announcement::{self, Announcement};
use super::args::TypedStart;
use super::team_servers::unobserved;
use crate::api::{get_problems, get_within};
use crate::child::{DetachedStart, open_log, start_detached};
use crate::cli::failure::Failure;
use crate::cli::options::Options;
use crate::clock::Clock;
use crate::thread::park;

/// The time within which the observer must be ready.
const START_TIME: Duration = Duration::from_secs(15);

/// The time within which the observer must end; the limits of the engine are shorter.
const STOP_TIME: Duration = Duration::from_secs(20);

const POLL: Duration = Duration::from_millis(5);

/// The variable that limits the number of glibc's arenas in the observer.
pub(super) const MEMORY_ENV: (&str, &str) = ("MALLOC_ARENA_MAX", "2");

/// Starts the observer, and returns when it is ready.
pub(super) fn start(options: &Options, typed: &TypedStart) -> Result<ExitCode, Failure> {
    let clock = Clock::system();
    let data = options.home()?;
    crate::history::DataDir::new(data.clone())
        .prepare()
        .map_err(|error| super::super::options::unusable(error, true))?;
    if let Some(known) = answering(&data)? {
        if typed.allow_input && !known.allow_input {
            return Err(failure!(
                "an observer is already running (pid {}), without --allow-input: end it with td-observe stop first",
                known.pid
            ));
        }
        // Without -L and -S, the user accepts the servers that the running observer observes.
        let chosen = options
            .servers
            .iter()
            .filter(|server| server.chosen().is_some());
        let sockets = chosen.filter_map(|server| server.socket_path());
        if let Some(missing) = sockets
            .into_iter()
            .find(|socket| !known.servers.contains(socket))
        {
            return Err(failure!(
                "an observer is already running (pid {}), and does not observe {}: end it with td-observe stop, and name all servers",
                known.pid,
                missing.display()
            ));
        }
        let given = typed.given();
        let others = given
            .iter()
            .filter(|(name, value)| known.options.get(*name) != Some(*value));
        let others: Vec<&str> = others.map(|(name, _)| name.as_str()).collect();
        if !others.is_empty() {
            message!(
                "the running observer does not take {}: end it with td-observe stop first",
                others.join(", ")
            );
        }
        return report((options, typed), &known, "an observer is already running");
    }
    let mut args: Vec<OsString> = std::env::args_os().skip(1).collect();
    args.extend(["--foreground", "--detached"].map(OsString::from));
    let log = log_path(&data);
    let program =
        std::env::current_exe().map_err(|cause| failure!("cannot find this program: {cause}"))?;
    let started = start_detached(
        &DetachedStart {
            program: program.into_os_string(),
            args,
            env: memory_env(),
            log: log.clone(),
        },
        START_TIME,
        &clock,
    )?;
    if let Some(known) = running(&data)? {
        return report((options, typed), &known, "observing");
    }
    // The last line of its log contains the reason.
    let reason = std::fs::read_to_string(&log).unwrap_or_default();
    let reason = reason.lines().next_back().unwrap_or(&started);
    let reason = match reason.strip_prefix("td-observe: ").unwrap_or(reason).trim() {
        "" => "it left no message; the disk may be full",
        reason => reason,
    };
    Err(failure!(
        "the observer did not start: {reason} (see {})",
        log.display()
    ))
}

/// Stops the observer, and returns when it has ended.
pub(in crate::cli) fn stop(options: &Options) -> Result<ExitCode, Failure> {
    let clock = Clock::system();
    let data = options.home()?;
    let Some(known) = running(&data)? else {
        message!("no observer runs for {}", data.display());
        return Ok(ExitCode::SUCCESS);
    };
    let pid = i32::try_from(known.pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    let Some(pid) = pid else {
        return Err(failure!("the observer's announcement has no process"));
    };
    // Its log file may be on a disk that is full.
    let problems = get_problems(&known.socket);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM)
        .map_err(|cause| failure!("cannot stop process {}: {cause}", known.pid))?;
    let deadline = clock.now() + STOP_TIME;
    while announcement::is_running(&data)? {
        if clock.now() >= deadline {
            return Err(failure!(
                "process {} did not end within {} s",
                known.pid,
                STOP_TIME.as_secs()
            ));
        }
        park(Some(POLL));
    }
    for problem in problems {
        message!("the history could not be written to the end: {problem}");
    }
    if options.quiet {
        return Ok(ExitCode::SUCCESS);
    }
    output::print(&format!("stopped: pid {}\n", known.pid))
}

/// Returns the variable that limits the observer's memory, unless the user sets it. glibc gives each thread
/// its own arena. Events are freed by other threads than those that allocate them, so free memory would
/// accumulate in all arenas.
fn memory_env() -> Vec<(OsString, OsString)> {
    let (name, value) = MEMORY_ENV;
    let is_set = std::env::var_os(name).is_some();
    (!is_set)
        .then(|| (name.into(), value.into()))
        .into_iter()
        .collect()
}

/// Waits until a starting observer is ready, and returns the running observer.
fn running(data: &Path) -> Result<Option<Announcement>, Failure> {
    let clock = Clock::system();
    let deadline = clock.now() + START_TIME;
    loop {
        if let Some(known) = announcement::running(data)? {
            return Ok(Some(known));
        }
        // A starting observer has the lock, and announces itself soon.
        if !announcement::is_running(data)? || clock.now() >= deadline {
            return Ok(None);
        }
        park(Some(POLL));
    }
}

/// Returns the running observer as [`running`] does, once it has answered. One that was killed keeps its lock and its
/// socket until the kernel has taken it apart, and one that is stopped keeps them and does not answer.
fn answering(data: &Path) -> Result<Option<Announcement>, Failure> {
    let clock = Clock::system();
    let deadline = clock.now() + START_TIME;
    while let Some(known) = running(data)? {
        let left = deadline.saturating_duration_since(clock.now());
        if left.is_zero() || get_within(&known.socket, "/healthz", None, left).is_ok() {
            return Ok(Some(known));
        }
        park(Some(POLL));
    }
    Ok(None)
}

fn report(
    (options, typed): (&Options, &TypedStart),
    known: &Announcement,
    state: &str,
) -> Result<ExitCode, Failure> {
    if typed.print_socket {
        return output::print(&format!("{}\n", known.socket.display()));
    }
    if options.quiet {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(teams) = unobserved(&known.servers) {
        output::print_message(&teams);
    }
    output::print(&if options.json {
        output::json_lines([known])
    } else {
        known.line(state)
    })
}

fn log_path(data: &Path) -> PathBuf {
    data.join("observer.log")
}

/// A writer to standard error, which is the log file. Panics bypass it, because they are rare and short.
#[derive(Debug)]
pub(super) struct RotatedLog {
    path: PathBuf,
}

impl RotatedLog {
    /// Creates a writer that rotates the file in this data directory.
    pub fn new(data: &Path) -> Self {
        Self {
            path: log_path(data),
        }
    }

    /// Makes room for more bytes. If the file cannot be replaced, it is truncated, because it must not fill the
    /// disk.
    fn make_room(&self, bytes: usize) -> io::Result<()> {
        let written = fstat(stderr())?;
        let size = u64::try_from(written.st_size).unwrap_or(0);
        // The size at which the file is renamed to `observer.log.1`.
        if size == 0 || size.saturating_add(bytes as u64) <= 1024 * 1024 {
            return Ok(());
        }
        let identity = (written.st_dev, written.st_ino);
        self.rotate(identity)
            .or_else(|_| Ok(ftruncate(stderr(), 0)?))
    }

    /// Renames the file, and redirects standard error to a new one. `written` identifies the present file, so
    /// that another file at its path is not renamed.
    fn rotate(&self, written: (u64, u64)) -> io::Result<()> {
        let in_place = self.path.symlink_metadata();
        if in_place.is_ok_and(|found| (found.dev(), found.ino()) == written) {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        let file: File = open_log(&self.path)?;
        Ok(dup2_stderr(file)?)
    }
}

impl Write for RotatedLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.make_room(bytes.len())?;
        io::stderr().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
