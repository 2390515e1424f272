//! Shared code of the tests: a tmux server for each test, and waiting with a ceiling.

// Each test module uses a part of this.
#![allow(dead_code)]

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::never;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use td_observe::Clock;
use td_observe::internals::child::{self, ChildOutput, Invocation};
use td_observe::internals::tmux::{
    CAPTURE_ROWS_MAX, CaptureResult, CaptureSpec, Listing, PaneState, capture,
};
use td_observe::internals::track::TmuxVersion;
use td_observe::tmux::Server;

/// The longest time that a test waits for anything before it fails.
pub const CEILING: Duration = Duration::from_secs(20);

/// Calls `attempt` until it returns a value; at the ceiling, panics with its last error.
#[track_caller]
pub fn wait_for<T, E: Debug>(
    what: &str,
    ceiling: Duration,
    attempt: impl FnMut() -> Result<T, E>,
) -> T {
    within(ceiling, attempt)
        .unwrap_or_else(|instead| panic!("waited {ceiling:?} for {what}; last seen: {instead:#?}"))
}

/// Like `wait_for`, but returns the last error of `attempt` at the ceiling.
pub fn within<T, E>(ceiling: Duration, mut attempt: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let began = Instant::now();
    loop {
        match attempt() {
            Err(_) if began.elapsed() < ceiling => thread::sleep(Duration::from_millis(5)),
            done => return done,
        }
    }
}

/// Returns a file in the directory of `.ci/peers`; says so if it is not there.
#[allow(clippy::print_stderr)]
pub fn peer(file: &str) -> Option<PathBuf> {
    let fetched = std::env::var_os("TD_PEERS").map(PathBuf::from).or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
        Some(cache?.join("td-observe/peers"))
    });
    let found = fetched.map(|directory| directory.join(file));
    let found = found.filter(|path| path.exists());
    if found.is_none() {
        eprintln!("!!! {file} is not there (.ci/peers fetches it): skipped");
    }
    found
}

/// Pseudo-random numbers.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        // Knuth's MMIX constants.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// A tmux server for one test: its own name, its sockets in its own directory, no configuration. It ends
/// with the test. The test fails if the server ended earlier, unless it ended cleanly: by `kill-server`,
/// by SIGTERM or with its last session. A test that kills it in another way calls
/// [`TmuxServer::will_be_killed`].
pub struct TmuxServer {
    directory: tempfile::TempDir,
    name: String,
    /// A program that runs tmux elsewhere.
    enter: Option<PathBuf>,
    env: Vec<(OsString, OsString)>,
    /// The process of the first server that replied.
    started: OnceLock<Pid>,
    will_be_killed: AtomicBool,
}

impl TmuxServer {
    /// Prepares a server, which starts with its first session.
    pub fn new() -> Self {
        Self::with_env(&[])
    }

    /// Like `new`, with more variables in its environment.
    pub fn with_env(more: &[(&str, &str)]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = tempfile::Builder::new()
            .prefix("td-test-")
            .tempdir()
            .unwrap();
        let mut env: Vec<(OsString, OsString)> =
            vec![("TMUX_TMPDIR".into(), directory.path().into())];
        env.extend(more.iter().map(|(name, value)| (name.into(), value.into())));
        Self {
            directory,
            name: format!("td-test-{}-{number}", std::process::id()),
            enter: None,
            env,
            started: OnceLock::new(),
            will_be_killed: AtomicBool::new(false),
        }
    }

    /// Prepares a server that this program starts, which gets tmux's command line.
    pub fn entered(enter: &Path) -> Self {
        let mut server = Self::new();
        server.enter = Some(enter.into());
        server
    }

    /// Allows the test to kill the server's process.
    pub fn will_be_killed(&self) {
        self.will_be_killed.store(true, Ordering::Relaxed);
    }

    /// Returns the file that tmux writes when it ends cleanly, and not when it crashes.
    fn last_word(&self) -> PathBuf {
        self.directory.path().join("ended-in-order")
    }

    /// Stores the server's process id at its first reply.
    fn note_start(&self) {
        if self.started.get().is_some() {
            return;
        }
        let last_word = self.last_word();
        let question = ["set-option", "-s", "history-file"].map(OsStr::new);
        let mut question: Vec<&OsStr> = question.into();
        question.push(last_word.as_os_str());
        question.extend([";", "display-message", "-p", "#{pid}"].map(OsStr::new));
        let answer = self.run(&question, "");
        let pid = String::from_utf8_lossy(&answer.stdout).trim().parse();
        if let Some(pid) = pid.ok().and_then(Pid::from_raw) {
            // Several threads may run this at once; all of them get the same id.
            let _ = self.started.set(pid);
        }
    }

    /// Checks that the original process still runs or has ended cleanly; otherwise returns its state.
    fn is_as_started(&self) -> Result<(), String> {
        let Some(started) = self.started.get() else {
            return Ok(());
        };
        if self.will_be_killed.load(Ordering::Relaxed) || self.last_word().exists() {
            return Ok(());
        }
        let answer = self.run(&["display-message", "-p", "#{pid}"].map(OsStr::new), "");
        let pid = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        // It may have ended cleanly just now.
        if pid == started.as_raw_nonzero().to_string() || self.last_word().exists() {
            return Ok(());
        }
        Err(format!(
            "the tmux server {} was process {started:?} and is not any more: {}",
            self.name,
            shown(&answer)
        ))
    }

    pub fn socket(&self) -> PathBuf {
        let uid = rustix::process::getuid().as_raw();
        self.directory
            .path()
            .join(format!("tmux-{uid}"))
            .join(&self.name)
    }

    /// Returns a directory that exists as long as the server.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the server as a value of the library.
    pub fn server(&self) -> Server {
        Server::socket(self.socket())
    }

    /// Runs one tmux command; returns its output without the last line end.
    #[track_caller]
    pub fn tmux(&self, args: &[&str]) -> String {
        let args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
        self.tmux_os(&args)
    }

    /// Like `tmux`, with arguments that need not be UTF-8.
    #[track_caller]
    pub fn tmux_os(&self, args: &[&OsStr]) -> String {
        let finished = self.try_tmux(args, "");
        assert!(
            finished.status.success(),
            "tmux {args:?} on {}: {}",
            self.name,
            shown(&finished)
        );
        String::from_utf8(finished.stdout)
            .unwrap()
            .trim_end_matches('\n')
            .to_owned()
    }

    /// Runs tmux commands, one per line.
    #[track_caller]
    pub fn script(&self, lines: &str) {
        self.answer(lines);
    }

    /// Makes tmux reap its children. tmux 3.3a misses the exit of some (9 of 40) on a busy machine until
    /// another child ends; it may miss that of this one, too, so nothing waits for it.
    #[track_caller]
    pub fn reap(&self) {
        self.tmux(&["run-shell", "-b", "true"]);
    }

    /// Like `script`, but returns the output.
    #[track_caller]
    pub fn answer(&self, lines: &str) -> String {
        let finished = self.try_tmux(&["source-file", "-"].map(OsStr::new), lines);
        assert!(
            finished.status.success(),
            "script {lines} on {}: {}",
            self.name,
            shown(&finished)
        );
        String::from_utf8(finished.stdout).unwrap()
    }

    /// Like `tmux_os`, but ignores failures.
    pub fn try_tmux(&self, args: &[&OsStr], stdin: &str) -> ChildOutput {
        let args: Vec<OsString> = args
            .iter()
            // A semicolon at the end of an argument would separate commands.
            .map(|arg| match arg.as_bytes().strip_suffix(b";") {
                Some(start) => OsString::from_vec([start, b"\\;"].concat()),
                None => OsString::from(arg),
            })
            .collect();
        let args: Vec<&OsStr> = args.iter().map(OsString::as_os_str).collect();
        let finished = self.run(&args, stdin);
        if finished.status.success() {
            self.note_start();
        }
        finished
    }

    /// Runs tmux with unchanged arguments.
    fn run(&self, args: &[&OsStr], stdin: &str) -> ChildOutput {
        let mut all: Vec<OsString> = self.enter.iter().map(OsString::from).collect();
        all.extend(["tmux", "-u", "-L", &self.name, "-f", "/dev/null"].map(OsString::from));
        all.extend(args.iter().map(OsString::from));
        let invocation = Invocation {
            program: all.remove(0),
            args: all,
            env: self.env.clone(),
            directory: self.directory.path().into(),
            stdin: stdin.into(),
            output_bytes_max: 1 << 24,
            timeout: CEILING,
        };
        child::run(&invocation, &Clock::system(), &never()).unwrap()
    }

    /// Starts a session with a silent pane of this size, whose history has so many lines; returns its terminal.
    pub fn silent_pane(&self, name: &str, (width, height): (u32, u32), history: u32) -> File {
        let limit = history.to_string();
        // New panes get the current limit.
        self.tmux(&["set-option", "-g", "history-limit", &limit]);
        let pane = self.new_session(name, width, height, "exec cat");
        // From 3.7 on, a later global limit applies to panes whose session has no own limit.
        let session = format!("={name}:");
        self.tmux(&["set-option", "-t", &session, "history-limit", &limit]);
        self.terminal(&pane)
    }

    /// Starts a session; returns the id of its pane. `command` is for the shell.
    #[track_caller]
    pub fn new_session(&self, name: &str, width: u32, height: u32, command: &str) -> String {
        let (width, height) = (width.to_string(), height.to_string());
        let shape = ["-x", &width, "-y", &height, "-P", "-F", "#{pane_id}"];
        let mut args = vec!["new-session", "-d", "-s", name];
        args.extend(shape);
        args.push(command);
        self.tmux(&args)
    }

    #[track_caller]
    pub fn version(&self) -> TmuxVersion {
        TmuxVersion::parse(&self.tmux(&["display-message", "-p", "#{version}"]))
    }

    /// Returns the arguments that capture rows as printed, with the blanks at their ends and no others.
    #[track_caller]
    pub fn capture_rows(&self) -> &'static str {
        if self.version() >= TmuxVersion::new(3, 4) {
            "capture-pane -p -N -T"
        } else {
            "capture-pane -p -N"
        }
    }

    /// Returns the current listing of the server.
    #[track_caller]
    pub fn listing(&self) -> Listing {
        Listing::fetch(&self.server(), &Clock::system()).unwrap()
    }

    /// Returns the current state of a pane.
    #[track_caller]
    pub fn pane(&self, pane: &str) -> PaneState {
        let listing = self.listing();
        listing
            .pane(pane)
            .cloned()
            .unwrap_or_else(|| panic!("no pane {pane} in {listing:#?}"))
    }

    /// Returns the text of a pane's screen.
    #[track_caller]
    pub fn screen(&self, pane: &str) -> String {
        self.tmux(&["capture-pane", "-p", "-t", pane])
    }

    /// Returns the output of `capture-pane -p -J` with further arguments. Tabs become blanks, because
    /// tmux 3.6 and newer keeps tabs.
    #[track_caller]
    pub fn joined(&self, pane: &str, more: &[&str]) -> String {
        let mut args = vec!["capture-pane", "-p", "-J", "-t", pane];
        args.extend(more);
        let raw = self.tmux(&args);
        if !raw.contains('\t') {
            return raw;
        }
        let spec = CaptureSpec {
            pane: pane.into(),
            depth: if more.contains(&"-S") {
                CAPTURE_ROWS_MAX
            } else {
                0
            },
            saved: true,
            resync: None,
        };
        let known = self.listing().server;
        let shown = capture(&self.server(), &Clock::system(), &known, &[spec]).unwrap();
        let Some(CaptureResult::Captured(view)) = shown.into_iter().next() else {
            panic!("no pane {pane}")
        };
        let rows = match view.capture.saved {
            Some(saved) if more.contains(&"-a") => saved.rows,
            _ => view.capture.rows,
        };
        let mut text = String::new();
        for row in rows {
            text.push_str(&row.text);
            if !row.wrapped {
                text.push('\n');
            }
        }
        text.trim_end_matches('\n').to_owned()
    }

    #[track_caller]
    pub fn wait_for_text(&self, pane: &str, text: &str) {
        wait_for(&format!("{text:?} in {pane}"), CEILING, || {
            let screen = self.screen(pane);
            if screen.contains(text) {
                Ok(())
            } else {
                Err(screen)
            }
        });
    }

    /// Starts a bash at its prompt in a session of its own; returns its pane.
    #[track_caller]
    pub fn shell(&self, session: &str) -> String {
        let pane = self.new_session(session, 80, 24, "PS1='$ ' exec bash --norc --noprofile");
        self.wait_for_text(&pane, "$");
        pane
    }

    /// Types a line, and Enter.
    #[track_caller]
    pub fn types(&self, target: &str, line: &str) {
        self.tmux(&["send-keys", "-t", target, "-l", "--", line]);
        self.tmux(&["send-keys", "-t", target, "Enter"]);
    }

    /// Opens the terminal of a pane: the pane shows the written bytes like output of its program.
    #[track_caller]
    pub fn terminal(&self, pane: &str) -> File {
        let path = self.tmux(&["display-message", "-p", "-t", pane, "#{pane_tty}"]);
        let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
        File::from(rustix::fs::open(path, flags, Mode::empty()).unwrap())
    }

    #[track_caller]
    pub fn pid(&self) -> Pid {
        Pid::from_raw(
            self.tmux(&["display-message", "-p", "#{pid}"])
                .parse()
                .unwrap(),
        )
        .unwrap()
    }

    /// Ends the server now and waits until it is gone.
    #[track_caller]
    pub fn kill(&self) {
        let pid = self.pid();
        self.tmux(&["kill-server"]);
        wait_for("the end of the server", CEILING, || {
            if test_kill_process(pid).is_err() {
                Ok(())
            } else {
                Err(pid)
            }
        });
    }
}

impl Drop for TmuxServer {
    fn drop(&mut self) {
        let as_started = self.is_as_started();
        // Often no server is left.
        let _ = self.run(&[OsStr::new("kill-server")], "");
        if let Err(instead) = as_started
            && !thread::panicking()
        {
            panic!("{instead}");
        }
    }
}

/// A process that is stopped until this value is dropped.
pub struct Stopped(Pid);

impl Stopped {
    pub fn new(pid: Pid) -> Self {
        kill_process(pid, Signal::STOP).unwrap();
        let stopped = Self(pid);
        // A signal arrives later in threads that run on another processor.
        wait_for("its threads to stop", CEILING, || {
            stopped.are_threads_stopped()
        });
        stopped
    }

    /// Returns an error with the state of a thread that still runs (Linux; elsewhere it is unknown).
    fn are_threads_stopped(&self) -> Result<(), String> {
        let tasks = format!("/proc/{}/task", self.0.as_raw_nonzero());
        let states = fs::read_dir(tasks).into_iter().flatten().flatten();
        let states = states.filter_map(|task| fs::read_to_string(task.path().join("stat")).ok());
        for stat in states {
            let state = stat.rsplit_once(") ").map_or("", |(_, state)| state);
            if !state.starts_with(['T', 't', 'Z', 'X']) {
                return Err(stat);
            }
        }
        Ok(())
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

fn shown(finished: &ChildOutput) -> String {
    format!(
        "{}\n--- stdout\n{}\n--- stderr\n{}",
        finished.status,
        String::from_utf8_lossy(&finished.stdout),
        String::from_utf8_lossy(&finished.stderr)
    )
}
