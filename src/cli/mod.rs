//! The command line: turns arguments into plain configuration and runs subcommands, one file for each.
//!
//! Threads: the main thread owns the engine and waits for signals, for the end of the sources and for the
//! printer. `td-signals` turns signals into a message, and `td-printer` of `face/printer.rs` prints events.

#[macro_use]
mod failure;
#[macro_use]
mod output;

mod command_line;
mod config;
mod duration;
mod options;

mod usage_error;

mod agent_hooks;
mod agents;
mod demo;
mod loops;
mod own_reports;
mod pass_through;
mod run;

mod ask;
#[cfg(feature = "kernel")]
mod kernel;
#[cfg(feature = "tui")]
mod next;
mod states;
mod wait;
mod watch;
#[cfg(feature = "hosts")]
mod watch_hosts;
mod watch_observer;

mod announced;
#[cfg(feature = "redis")]
mod from;
#[cfg(feature = "mcp")]
mod mcp;
mod observer;
mod private_file;
#[cfg(feature = "redis")]
mod redis_args;
#[cfg(feature = "serve")]
mod serve;
#[cfg(feature = "redis")]
mod ship;
mod status;
#[cfg(feature = "tui")]
mod tmux;
#[cfg(feature = "tui")]
mod tui;
#[cfg(feature = "tui")]
mod tui_args;

mod hooks;

mod history;
#[cfg(feature = "hosts")]
mod hosts;

mod export;
#[cfg(feature = "sqlite")]
mod export_sqlite;
mod log;
mod log_once;
mod log_show;
#[cfg_attr(
    not(feature = "sqlite"),
    allow(dead_code, reason = "the export as a database uses it")
)]
mod progress;
mod replay;
#[cfg(feature = "report")]
mod report;
#[cfg(all(feature = "hosts", feature = "report"))]
mod report_hosts;
mod runs;

#[cfg(feature = "notify")]
mod notify;
#[cfg(feature = "notify")]
mod notifying;

mod chapters;
mod guide;
mod known;
mod schema;

mod checks;
mod live;
mod signals;

use std::ffi::OsString;
use std::process::ExitCode;

use command_line::{Args, Command, NotParsed};
use failure::Failure;
use options::Options;
use output::print_message;

/// Runs the program with these arguments, the first of which is its name.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if let Some(code) = run_part(args.get(1..).unwrap_or_default()) {
        return code;
    }
    if let Some(code) = guide::answer_completion() {
        return code;
    }
    let args = with_default_command(args);
    if args.len() == 1 {
        // The help precedes the error about the missing subcommand. A closed output is no error.
        let _ = command_line::command().print_help();
    }
    let args = match command_line::parse(args.iter().cloned()) {
        Ok(args) => args,
        Err(NotParsed::Clap(error)) if !error.use_stderr() => {
            // Help or the version. A closed output is no error.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(NotParsed::Clap(error)) => return fail(&usage_error::failure(&error, &args)),
        Err(NotParsed::Refused(failure)) => return fail(&failure),
    };
    let is_run = matches!(args.command, Command::Run(_));
    match dispatch(args) {
        Ok(code) => code,
        Err(failure) if is_run => fail(&failure.of_run()),
        Err(failure) => fail(&failure),
    }
}

/// Runs as a part of another td-observe, if these are the arguments of one: a drain, which tmux starts for each pane, or a
/// guard, which ends the connections to hosts after a program that was killed. The parser of command lines would take
/// half a megabyte, and a third of the time that a drain takes to start.
fn run_part(args: &[OsString]) -> Option<ExitCode> {
    match args {
        [name, address, token] if name == "drain" => {
            let drained = crate::tmux::drain(&address.to_string_lossy(), &token.to_string_lossy());
            Some(drained.map_or_else(|error| fail(&error.into()), |()| ExitCode::SUCCESS))
        }
        #[cfg(feature = "hosts")]
        [name] if name == hosts::GUARD => {
            crate::child::guard(std::io::stdin().lock());
            Some(ExitCode::SUCCESS)
        }
        _ => None,
    }
}

/// Adds the subcommand `tui` where there is none and a terminal is available.
fn with_default_command(args: Vec<OsString>) -> Vec<OsString> {
    #[cfg(feature = "tui")]
    if args.len() == 1 && output::has_terminal() {
        return [args, vec!["tui".into()]].concat();
    }
    args
}

fn takes_several_servers(command: &Command) -> bool {
    match command {
        Command::Start(_) | Command::Service(_) => true,
        #[cfg(feature = "notify")]
        Command::Notify(_) => true,
        #[cfg(feature = "tui")]
        Command::Tui(_) => true,
        #[cfg(feature = "serve")]
        Command::Serve(_) => true,
        #[cfg(feature = "mcp")]
        Command::Mcp(_) => true,
        _ => false,
    }
}

/// Prints the failure in one line and returns its exit code.
fn fail(failure: &Failure) -> ExitCode {
    print_message(failure.text());
    failure.exit_code()
}

fn dispatch(args: Args) -> Result<ExitCode, Failure> {
    let mut options = Options::from_typed(args.options)?;
    if matches!(
        args.command,
        Command::Watch(_) | Command::Wait(_) | Command::Ask(_)
    ) {
        observer::use_observed_server(&mut options);
    }
    if options.servers.len() > 1 && !takes_several_servers(&args.command) {
        return Err(usage!("-L and -S both choose a tmux server: give one"));
    }
    if takes_several_servers(&args.command) {
        args.config.choose_servers(&mut options);
    }
    #[cfg(feature = "notify")]
    {
        options.notifications = args.config.notifications;
    }
    #[cfg(feature = "hosts")]
    {
        options.host_settings = args.config.hosts;
    }
    options.config = args.config.path.or(options.config);
    let log = match &args.command {
        Command::Start(typed) => observer::log(&options, typed)?,
        #[cfg(feature = "tui")]
        Command::Tui(_) => Some(tui::log(&options)?),
        #[cfg(feature = "tui")]
        Command::Demo(typed) if demo::has_ui(&options, typed) => Some(tui::log(&options)?),
        _ => None,
    };
    output::start_diagnostics(options.verbose, log);
    checks::check_address_space()?;
    #[cfg(feature = "hosts")]
    let hosts = match hosts_of(&args.command, options.json) {
        Some(of) => hosts::begin(of, &mut options)?,
        None => match &args.command {
            #[cfg(all(feature = "redis", feature = "report"))]
            Command::Report(typed) => hosts::begin_from(&typed.from, &mut options, true)?,
            _ => None,
        },
    };
    let ended = perform(args.command, options);
    #[cfg(feature = "hosts")]
    drop(hosts);
    ended
}

/// Returns how a command reads hosts, if it does.
#[cfg(feature = "hosts")]
fn hosts_of(command: &Command, is_json: bool) -> Option<hosts::HostUse<'_>> {
    use crate::hosts::{Copied, CopyKind};
    let (typed, copies, waits_for) = match command {
        // What another host asks this one is asked of this one alone. A status line is drawn every few seconds, and
        // waits for its command.
        Command::Status(typed)
            if typed.print_socket || typed.format.is_some() && !typed.hosts.are_typed() =>
        {
            return None;
        }
        Command::Status(typed) => (
            &typed.hosts,
            CopyKind::None,
            (!typed.watch).then_some(Copied::Nothing),
        ),
        Command::Watch(typed) => (&typed.hosts, CopyKind::None, Some(Copied::Nothing)),
        Command::Wait(typed) => (&typed.hosts, CopyKind::None, Some(Copied::Nothing)),
        Command::Log(typed) if typed.follow => {
            let names = typed.runs.iter();
            let names = names.map(|name| name.to_string_lossy().into_owned());
            // The last lines are those of a copy that is level.
            let copied = match typed.lines {
                Some(_) => Copied::Level,
                None => Copied::Listed,
            };
            (
                &typed.hosts,
                CopyKind::Followed(names.collect()),
                Some(copied),
            )
        }
        Command::Log(typed) => (&typed.hosts, CopyKind::Whole, Some(Copied::Listed)),
        #[cfg(feature = "tui")]
        Command::Tui(typed) => (&typed.hosts, CopyKind::Ends, None),
        #[cfg(feature = "serve")]
        Command::Serve(typed) => (&typed.hosts, CopyKind::Ends, None),
        #[cfg(feature = "mcp")]
        // The first call of an agent lists the panes.
        Command::Mcp(typed) => (&typed.hosts, CopyKind::Ends, Some(Copied::Nothing)),
        _ => return None,
    };
    let tells = match command {
        Command::Status(typed) => !typed.watch && typed.format.is_none() && !is_json,
        Command::Watch(_) | Command::Wait(_) | Command::Log(_) => true,
        _ => false,
    };
    Some(hosts::HostUse {
        typed,
        copies,
        waits_for,
        tells,
    })
}

/// Runs a command.
fn perform(command: Command, options: Options) -> Result<ExitCode, Failure> {
    match command {
        #[cfg(feature = "tui")]
        Command::Demo(typed) if demo::has_ui(&options, &typed) => demo::run_ui(&options, &typed),
        Command::Demo(typed) => demo::run(&options, &typed),
        Command::Watch(typed) => watch::run(&options, watch::Config::from_typed(typed)?),
        Command::Run(typed) => run::run(&options, run::Config::from_typed(typed, &options)?),
        #[cfg(feature = "kernel")]
        Command::Kernel(typed) => kernel::run(&options, kernel::Config::from_typed(*typed)?),
        Command::Loop(typed) => loops::run(&options, loops::Config::from_typed(*typed, &options)?),
        Command::Agents(typed) => agents::run(&options, &typed),
        Command::Hooks(typed) => agent_hooks::run(&typed),
        Command::States(typed) => states::run(&options, &typed),
        Command::Wait(typed) => wait::run(&options, &typed),
        Command::Ask(typed) => ask::run(&options, &typed),
        #[cfg(feature = "tui")]
        Command::Next(typed) => next::run(&options, &typed),
        #[cfg(feature = "tui")]
        Command::Tmux(typed) => tmux::run(&typed),
        Command::Start(typed) => observer::start(&options, &typed),
        Command::Stop => observer::stop(&options),
        Command::Status(typed) => status::run(&options, &typed),
        #[cfg(feature = "tui")]
        Command::Tui(typed) => tui::run(options, *typed, None),
        #[cfg(feature = "serve")]
        Command::Serve(typed) => serve::run(options, *typed),
        #[cfg(feature = "mcp")]
        Command::Mcp(typed) => mcp::run(options, *typed),
        #[cfg(feature = "mcp")]
        Command::Skill => mcp::print_skill(),
        #[cfg(feature = "redis")]
        Command::Ship(typed) => ship::run(&options, &typed),
        Command::Config(typed) => config::run(&options, &typed, &command_line::command()),
        #[cfg(feature = "notify")]
        Command::Notify(typed) => notify::run(&options, &typed),
        Command::Service(typed) => observer::service(&options, &typed),
        Command::Runs(typed) => runs::run(&options, typed),
        Command::Log(typed) => log::run(&options, log::Config::from_typed(typed, &options)?),
        Command::Replay(typed) => replay::run(&options, typed),
        #[cfg(feature = "report")]
        Command::Report(typed) => report::run(&options, typed),
        Command::Export(typed) => export::run(&options, typed),
        Command::Schema(typed) => schema::run(&typed),
        Command::Completions(typed) => guide::print_completions(typed.shell),
        Command::Man(typed) => guide::write_manual(&typed.directory),
        Command::Help(typed) => guide::run(&typed.words),
    }
}
