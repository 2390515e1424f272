//! `td-observe tui`: shows the terminal UI, with a private observer if none runs.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use super::command_line::{self, Command, NotParsed};
use super::failure::Failure;
use super::observer::{self, PrivateObserver};
use super::options::{Options, own_place, own_server};
use super::output;
use super::signals::Signals;
use super::tui_args::TypedTui;
use crate::api::STARTING;
use crate::child::open_log;
use crate::clock::Clock;
use crate::face::tui::{OwnTerminal, Theme, TuiOptions, VisitHost};
use crate::history::DataDir;
#[cfg(feature = "hosts")]
use crate::hosts::SshCommand;

/// Returns the destination of the diagnostics, which must not disturb the UI on the terminal.
pub(super) fn log(options: &Options) -> Result<Box<dyn Write + Send>, Failure> {
    if options.verbose == 0 {
        return Ok(Box::new(io::sink()));
    }
    let data = options.home()?;
    DataDir::new(data.clone())
        .prepare()
        .map_err(|error| super::options::unusable(error, true))?;
    let path = data.join("tui.log");
    let file =
        open_log(&path).map_err(|cause| failure!("cannot write to {}: {cause}", path.display()))?;
    Ok(Box::new(file))
}

/// Shows the UI until the user quits, or the time is up.
pub(super) fn run(
    options: Options,
    typed: TypedTui,
    longest: Option<Duration>,
) -> Result<ExitCode, Failure> {
    if !output::has_terminal() {
        return Err(usage!(
            "tui: standard input and output are no terminal: td-observe status prints the board, td-observe watch the lines"
        ));
    }
    let signals = Signals::catch(|| {})?;
    let options = Arc::new(options);
    let data = options.home()?;
    let allows_input = typed.allow_input;
    let private = match observer::running(&data)? {
        Some(_) => None,
        None => {
            DataDir::new(data)
                .prepare()
                .map_err(|error| super::options::unusable(error, true))?;
            let start = typed.own.start(allows_input);
            Some(PrivateObserver::start(options.clone(), start)?)
        }
    };
    let shown = show(&options, private.as_ref(), allows_input, &signals, longest);
    let ended = private.map(PrivateObserver::end).transpose();
    shown?;
    ended.map(|code| code.unwrap_or(ExitCode::SUCCESS))
}

/// Shows the UI on the demo's server, and allows input.
pub(super) fn run_demo(
    socket: &Path,
    data: &Path,
    coloured: bool,
    longest: Option<Duration>,
) -> Result<ExitCode, Failure> {
    let words = ["td-observe", "tui", "--allow-input", "-S"]
        .map(OsString::from)
        .into_iter()
        .chain([socket.into(), "--data-dir".into(), data.into()]);
    let args = match command_line::parse(words) {
        Ok(args) => args,
        Err(NotParsed::Refused(failure)) => return Err(failure),
        Err(NotParsed::Clap(error)) => return Err(Failure::other(error.to_string())),
    };
    let mut options = Options::from_typed(args.options)?;
    options.coloured = coloured;
    match args.command {
        Command::Tui(typed) => run(options, *typed, longest),
        _ => Err(failure!("the demo shows the terminal UI")),
    }
}

fn show(
    options: &Options,
    private: Option<&PrivateObserver>,
    allows_input: bool,
    signals: &Signals,
    longest: Option<Duration>,
) -> Result<(), Failure> {
    let data = options.home()?;
    let own = private.map(PrivateObserver::finder);
    let data_path = data.clone();
    let find = move || match &own {
        Some(own) => own().ok_or_else(|| STARTING.to_owned()),
        None => observer::find(&data_path),
    };
    let variable = |name: &str| std::env::var(name).ok();
    let tui = TuiOptions {
        find: Arc::new(find),
        data: options.data()?,
        allows_input,
        visit: visit(options),
        theme: Theme::from_env(options.coloured, variable),
        own: own_terminal(),
        max_duration: longest,
        clock: Clock::system(),
    };
    Ok(crate::face::tui::run(tui, &signals.first)?)
}

fn own_terminal() -> Option<OwnTerminal> {
    let server = own_server()?;
    let pane = own_place().map(|(_, pane)| pane);
    Some(OwnTerminal { server, pane })
}

/// Returns what shows the panes of other hosts, if several are read.
#[cfg(feature = "hosts")]
fn visit(options: &Options) -> Option<VisitHost> {
    let ssh = SshCommand::from_variable(std::env::var_os("TD_SSH_COMMAND")).ok()?;
    let visit: VisitHost = Arc::new(move |row, place| ssh.visit(row, place));
    options.are_visited.then_some(visit)
}

#[cfg(not(feature = "hosts"))]
fn visit(_: &Options) -> Option<VisitHost> {
    None
}
