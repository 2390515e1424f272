//! `td-observe demo`: a private tmux server with a build, a progress bar and agents, in the terminal UI or as
//! lines.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::never;
use tempfile::TempDir;

use super::command_line::TypedDemo;
use super::failure::Failure;
use super::options::{self, Options};
use super::signals::Signals;
use super::{checks, live};
use crate::agent::StateRules;
use crate::child::{self, Invocation};
use crate::clock::Clock;
use crate::engine::Builder;
use crate::observe::Watch;
use crate::tmux::{DrainProgram, Server, Target};

/// The scripts of the sessions, for a plain `sh`. Each sleeps for a second at its beginning and after its
/// last line, so that all of its lines are observed.
const SESSIONS: [(&str, &str); 3] = [
    ("build", include_str!("demo/build.sh")),
    ("progress", include_str!("demo/progress.sh")),
    ("agent", include_str!("demo/agent.sh")),
];

/// The session that the terminal UI shows in addition: an agent that asks a question.
#[cfg(feature = "tui")]
const QUESTION: (&str, &str) = ("question", include_str!("demo/question.sh"));

/// Maximum duration of a demo that prints lines.
const LONGEST: Duration = Duration::from_secs(20);

/// Returns true if the demo shows the terminal UI.
#[cfg(feature = "tui")]
pub(super) fn has_ui(options: &Options, typed: &TypedDemo) -> bool {
    let prints_lines = typed.plain || options.json || options.quiet || options.no_log;
    !prints_lines && super::output::has_terminal()
}

/// Shows the demo in the terminal UI until the user quits.
#[cfg(feature = "tui")]
pub(super) fn run_ui(options: &Options, typed: &TypedDemo) -> Result<ExitCode, Failure> {
    let clock = Clock::system();
    let directory = DemoDirectory::make()?;
    checks::check_tmux(&directory.server(), &clock)?;
    let data = directory.data_path(options);
    let server = PrivateServer::start(directory, &[&SESSIONS[..], &[QUESTION]].concat(), &clock)?;
    // The scripts run for seconds only; their panes remain visible afterwards.
    let tmux = server.0.server();
    tmux.run(["set-option", "-g", "remain-on-exit", "on"], &clock)?;
    let socket = tmux.run(["display-message", "-p", "#{socket_path}"], &clock)?;
    super::tui::run_demo(
        Path::new(socket.trim_end()),
        &data,
        options.coloured,
        typed.seconds.map(Duration::from_secs),
    )
}

/// Runs the demo to the end of its sessions, or of its time.
pub(super) fn run(options: &Options, typed: &TypedDemo) -> Result<ExitCode, Failure> {
    let clock = Clock::system();
    let directory = DemoDirectory::make()?;
    let cleanup = directory.clone();
    let signals = Signals::catch(move || cleanup.clear())?;
    checks::check_tmux(&directory.server(), &clock)?;
    let mut builder = Builder::new().clock(clock.clone());
    if !options.no_log {
        builder = builder.data_dir(directory.data_path(options));
    }
    let mut engine = builder
        .start()
        .map_err(|error| options::unusable(error, false))?;
    // Its drop ends the server and removes the directory, also after an error.
    let server = PrivateServer::start(directory, &SESSIONS, &clock)?;
    let printing = live::print(&engine, options, Some(StateRules::builtin()), &clock)?;
    let mut sessions = Watch::new(server.0.server()).stream(DrainProgram::this()?);
    for (name, _) in SESSIONS {
        sessions = sessions.target(Target::parse(name)?);
    }
    engine.watch(sessions)?;
    let ended = live::until_done(
        engine,
        printing,
        &signals,
        &clock.after(typed.seconds.map_or(LONGEST, Duration::from_secs)),
        &clock,
    );
    drop(server);
    if let (Some(path), false) = (&options.data_dir, options.no_log) {
        message!(
            "the log of the demo is kept in {}",
            path.join("runs").display()
        );
    }
    if !options.quiet && !options.json {
        message!("that was the demo; your own sessions: td-observe watch");
    }
    Ok(live::code(ended.failed))
}

// The demo's tmux server: it has its own name and sockets, no configuration, and leaves nothing behind.

/// The time within which tmux must start.
const START: Duration = Duration::from_secs(5);

/// A directory that only this user can enter, and the name of a server in it. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct DemoDirectory {
    directory: Arc<TempDir>,
    name: String,
}

impl DemoDirectory {
    /// Creates the directory, which is removed when the last clone is dropped.
    pub fn make() -> Result<Self, Failure> {
        let usual = std::env::temp_dir();
        // Maximum length of the parent directory. The path of a socket has at most 107 bytes, of which the names
        // below the parent take up to 64.
        let parent = if usual.as_os_str().len() <= 40 {
            &usual
        } else {
            Path::new("/tmp")
        };
        // tempfile creates directories with mode 0700.
        let directory = tempfile::Builder::new()
            .prefix("td-demo-")
            .tempdir_in(parent)
            .map_err(|error| {
                let parent = parent.display();
                failure!("cannot create a directory in {parent}: {error}; set TMPDIR")
            })?;
        Ok(Self {
            directory: Arc::new(directory),
            name: format!("td-demo-{}", std::process::id()),
        })
    }

    /// Returns the path of the demo's log: that of `--data-dir`, or one that is removed at the end.
    pub fn data_path(&self, options: &Options) -> PathBuf {
        let path = options.data_dir.clone();
        path.unwrap_or_else(|| self.directory.path().join("data"))
    }

    /// Returns the server of the directory, which need not run.
    pub fn server(&self) -> Server {
        Server::named(self.name.as_str()).with_env("TMUX_TMPDIR", self.directory.path())
    }

    /// Ends the server and removes the directory.
    pub fn clear(&self) {
        match self.server().run(["kill-server"], &Clock::system()) {
            Ok(_) => {}
            // The server has ended with its last session, or was never started.
            Err(error) if error.is_gone() || error.is_missing_program() => {}
            Err(error) => log::warn!("the demo's tmux server may still run: {error:?}"),
        }
        if let Err(error) = fs::remove_dir_all(self.directory.path())
            && error.kind() != std::io::ErrorKind::NotFound
        {
            log::warn!("cannot remove {}: {error}", self.directory.path().display());
        }
    }
}

/// A running server. Dropping it ends the server.
#[derive(Debug)]
pub(super) struct PrivateServer(DemoDirectory);

impl PrivateServer {
    /// Starts the server with these sessions, each a name and a script for `sh`.
    pub fn start(
        directory: DemoDirectory,
        sessions: &[(&str, &str)],
        clock: &Clock,
    ) -> Result<Self, Failure> {
        // The guard comes first, because a server may run even if a later session fails to start.
        let server = Self(directory);
        for (name, script) in sessions {
            server.start_session(name, script, clock)?;
        }
        Ok(server)
    }

    fn start_session(&self, name: &str, script: &str, clock: &Clock) -> Result<(), Failure> {
        let server = ["-u", "-L", &self.0.name, "-f", "/dev/null"];
        let session = ["new-session", "-d", "-s", name, "-x", "100", "-y", "30"];
        // Given several words, tmux starts `sh` directly, without the user's shell.
        let args = [&server[..], &session, &["sh", "-c", script]].concat();
        let invocation = Invocation {
            program: "tmux".into(),
            args: args.into_iter().map(OsString::from).collect(),
            env: vec![("TMUX_TMPDIR".into(), self.0.directory.path().into())],
            directory: "/".into(),
            stdin: Vec::new(),
            output_bytes_max: 64 * 1024,
            timeout: START,
        };
        let finished = child::run(&invocation, clock, &never())?;
        if finished.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&finished.stderr).into_owned();
        Err(failure!(
            "cannot start a tmux server for the demo: {stderr}"
        ))
    }
}

impl Drop for PrivateServer {
    fn drop(&mut self) {
        self.0.clear();
    }
}
