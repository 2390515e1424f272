//! `td-observe demo`: a private tmux server with a build, a progress bar and agents, in the terminal UI or as
//! lines.

mod server;

#[cfg(feature = "tui")]
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use super::args::TypedDemo;
use super::failure::Failure;
use super::options::Options;
use super::signals::Signals;
use super::{keeping, live, server_checks};
use crate::agent::StateRules;
use crate::clock::Clock;
use crate::engine::Builder;
use crate::observe::Watch;
use crate::tmux::{DrainProgram, Target};

use server::{DemoDirectory, PrivateServer};

/// The scripts of the sessions, for a plain `sh`. Each sleeps for a second at its beginning and after its
/// last line, so that all of its lines are observed.
const SESSIONS: [(&str, &str); 3] = [
    ("build", include_str!("build.sh")),
    ("progress", include_str!("progress.sh")),
    ("agent", include_str!("agent.sh")),
];

/// The session that the terminal UI shows in addition: an agent that asks a question.
#[cfg(feature = "tui")]
const QUESTION: (&str, &str) = ("question", include_str!("question.sh"));

/// Maximum duration of a demo that prints lines.
const LONGEST: Duration = Duration::from_secs(20);

/// Returns true if the demo shows the terminal UI.
#[cfg(feature = "tui")]
pub(super) fn has_ui(options: &Options, typed: &TypedDemo) -> bool {
    let prints_lines = typed.plain || options.json || options.quiet || options.no_log;
    !prints_lines && super::tui::has_terminal()
}

/// Shows the demo in the terminal UI until the user quits.
#[cfg(feature = "tui")]
pub(super) fn run_ui(options: &Options, typed: &TypedDemo) -> Result<ExitCode, Failure> {
    let clock = Clock::system();
    let directory = DemoDirectory::make()?;
    server_checks::check_tmux(&directory.server(), &clock)?;
    let data = directory.data_path(options);
    let server = PrivateServer::start(directory, &[&SESSIONS[..], &[QUESTION]].concat(), &clock)?;
    // The scripts run for seconds only; their panes remain visible afterwards.
    server
        .server()
        .run(["set-option", "-g", "remain-on-exit", "on"], &clock)?;
    let socket = (server.server()).run(["display-message", "-p", "#{socket_path}"], &clock)?;
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
    server_checks::check_tmux(&directory.server(), &clock)?;
    let mut builder = Builder::new().clock(clock.clone());
    if !options.no_log {
        builder = builder.data_dir(directory.data_path(options));
    }
    let mut engine = builder.start().map_err(keeping::unusable)?;
    // Its drop ends the server and removes the directory, also after an error.
    let server = PrivateServer::start(directory, &SESSIONS, &clock)?;
    let printing = live::print(&engine, options, Some(StateRules::builtin()), &clock)?;
    let mut sessions = Watch::new(server.server()).stream(DrainProgram::this()?);
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
