//! The arguments as typed. Some subcommands turn theirs into a `Config` before they run.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::schema::TypedSchema;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use clap_complete::aot::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use super::agent_hooks::TypedHooks;
use super::agents::TypedAgents;
use super::ask::TypedAsk;
use super::config::{Config, TypedConfig};
use super::export::TypedExport;
use super::failure::Failure;
#[cfg(feature = "kernel")]
use super::kernel::TypedKernel;
use super::log::TypedLog;
use super::loops::TypedLoop;
#[cfg(feature = "mcp")]
use super::mcp::{SKILL_EXAMPLES, TypedMcp};
#[cfg(feature = "tui")]
use super::next::TypedNext;
#[cfg(feature = "notify")]
use super::notify::TypedNotify;
use super::observer::{STOP_EXAMPLES, TypedService, TypedStart};
use super::options::TypedOptions;
use super::replay::TypedReplay;
#[cfg(feature = "report")]
use super::report::TypedReport;
use super::run::TypedRun;
use super::runs::TypedRuns;
#[cfg(feature = "serve")]
use super::serve::TypedServe;
#[cfg(feature = "redis")]
use super::ship::TypedShip;
use super::states::TypedStates;
use super::status::TypedStatus;
#[cfg(feature = "tui")]
use super::tmux::TypedTmux;
#[cfg(feature = "tui")]
use super::tui_args::TypedTui;
use super::wait::TypedWait;
use super::watch::TypedWatch;
use super::{chapters, known};

/// Shows what tmux panes, commands and agents are doing, and keeps what they did.
#[derive(Debug, Parser)]
#[command(
    name = "td-observe",
    version,
    after_help = include_str!("help/td-observe.txt").trim_end(),
    max_term_width = 100,
    disable_help_subcommand = true
)]
pub(super) struct Args {
    #[command(flatten)]
    pub options: TypedOptions,
    #[command(subcommand)]
    pub command: Command,
    /// What the configuration says, for the subcommands that it concerns.
    #[arg(skip)]
    pub config: Config,
}

/// Returns the subcommands that the help shows.
pub(super) fn visible_subcommands(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    (command.get_subcommands()).filter(|command| !command.is_hide_set())
}

/// Offers the chapters of the guide and the commands.
fn topics(typed: &OsStr) -> Vec<CompletionCandidate> {
    let command = Args::command();
    let commands = visible_subcommands(&command).map(|command| command.get_name().to_owned());
    let topics = chapters::chapter_names().map(str::to_owned);
    let mut names: Vec<String> = topics.chain(commands).collect();
    names.sort();
    names.dedup();
    known::candidates(&typed.to_string_lossy(), names)
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show td-observe at work on a private tmux server
    Demo(TypedDemo),
    /// Show the lines of tmux sessions or panes as they are printed
    Watch(TypedWatch),
    /// Run a command, show and keep its output, and exit with its code
    Run(TypedRun),
    /// Run code on a Jupyter kernel, or show what its clients run
    #[cfg(feature = "kernel")]
    Kernel(Box<TypedKernel>),
    /// Repeat an agent until a check passes
    Loop(Box<TypedLoop>),
    /// Report the end of background agents from the files they write
    Agents(TypedAgents),
    /// List, print or try the rules that read the state of agents from screens
    States(TypedStates),
    /// Wait until a pane shows a line, ends or falls silent
    Wait(TypedWait),
    /// Prompt an agent, wait for its turn, and print the answer
    Ask(TypedAsk),
    /// Show the pane that has needed you longest, in tmux or on this terminal
    #[cfg(feature = "tui")]
    Next(TypedNext),
    /// Print lines for ~/.tmux.conf: keys, and the counts in the status line
    #[cfg(feature = "tui")]
    Tmux(TypedTmux),
    /// Observe in the background, from now on
    Start(Box<TypedStart>),
    /// End the observer in the background
    #[command(after_help = STOP_EXAMPLES)]
    Stop,
    /// Show who needs you, and what everything is doing
    Status(TypedStatus),
    /// Show the board and its rows in a full-screen terminal UI; the default without arguments
    #[cfg(feature = "tui")]
    Tui(Box<TypedTui>),
    /// Serve the board as a web page, also to a phone, and the API over TCP
    #[cfg(feature = "serve")]
    Serve(Box<TypedServe>),
    /// Serve agents that supervise agents, by MCP on standard input and output
    #[cfg(feature = "mcp")]
    Mcp(Box<TypedMcp>),
    /// Print a skill file that teaches an agent this command line
    #[cfg(feature = "mcp")]
    #[command(after_help = SKILL_EXAMPLES)]
    Skill,
    /// Ship the history to Redis, from which other machines read it
    #[cfg(feature = "redis")]
    Ship(TypedShip),
    /// Start the observer with your login, by systemd
    Service(TypedService),
    /// Show, check or begin the configuration
    Config(TypedConfig),
    /// Try a channel of notifications, or show what was sent and withheld
    #[cfg(feature = "notify")]
    Notify(TypedNotify),
    /// List the runs in the history, or prune them
    Runs(TypedRuns),
    /// Print what a run has shown, and follow it
    Log(TypedLog),
    /// Show a run as it happened, at its original speed or another
    Replay(TypedReplay),
    /// Report what everything did in the last hours, and what still needs you
    #[cfg(feature = "report")]
    Report(TypedReport),
    /// Convert a run to a terminal recording or to text
    Export(TypedExport),
    /// Print the settings that let an agent report its state
    Hooks(TypedHooks),
    /// Print the JSON Schema of events, or of reports
    Schema(TypedSchema),
    /// Print the script that completes td-observe in a shell
    Completions(TypedCompletions),
    /// Write the manual pages into a directory
    Man(TypedMan),
    /// Print a chapter of the guide, or the help of a command
    Help(TypedHelp),
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/demo.txt").trim_end())]
pub(super) struct TypedDemo {
    /// Print lines, also on a terminal
    #[arg(long)]
    pub plain: bool,
    /// End after N seconds at the latest [default: 20 for lines, none for the terminal UI]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: Option<u64>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/completions.txt").trim_end())]
pub(super) struct TypedCompletions {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub shell: Shell,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  td-observe man ~/.local/share/man/man1
  td-observe man /tmp/man && man -l /tmp/man/td-observe-watch.1

The directory is created if it is missing. Each command has its own page.")]
pub(super) struct TypedMan {
    /// The directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
}

#[derive(Debug, clap::Args)]
#[command(after_help = include_str!("help/help.txt").trim_end())]
pub(super) struct TypedHelp {
    /// A chapter, or a command
    #[arg(value_name = "TOPIC", add = ArgValueCompleter::new(topics))]
    pub words: Vec<OsString>,
}

// The command line as clap parses it: each subcommand with the global options that apply to it.

const SERVER: [&str; 2] = ["server_name", "server_socket"];
const ALL: &[&str] = &[
    "server_name",
    "server_socket",
    "config",
    "data_dir",
    "no_log",
    "json",
    "color",
    "quiet",
    "verbose",
];

/// The global options that do not apply to a subcommand: its help omits them, and the parser refuses them.
const MEANINGLESS: &[(&str, &[&str])] = &[
    ("demo", &["server_name", "server_socket", "config"]),
    ("watch", &[]),
    ("run", &SERVER),
    #[cfg(feature = "kernel")]
    ("kernel", &SERVER),
    ("loop", &SERVER),
    ("agents", &SERVER),
    (
        "states",
        &[
            "server_name",
            "server_socket",
            "config",
            "no_log",
            "color",
            "quiet",
        ],
    ),
    ("wait", &["no_log", "color"]),
    ("ask", &["config", "no_log", "color"]),
    #[cfg(feature = "tui")]
    (
        "next",
        &[
            "server_name",
            "server_socket",
            "config",
            "no_log",
            "json",
            "color",
            "quiet",
        ],
    ),
    #[cfg(feature = "tui")]
    ("tmux", ALL),
    ("start", &["no_log", "color"]),
    (
        "stop",
        &[
            "server_name",
            "server_socket",
            "config",
            "no_log",
            "json",
            "color",
        ],
    ),
    ("status", &["server_name", "server_socket", "no_log"]),
    #[cfg(feature = "tui")]
    ("tui", &["no_log", "json", "quiet"]),
    #[cfg(feature = "serve")]
    ("serve", &["no_log", "json", "color", "quiet"]),
    #[cfg(feature = "mcp")]
    ("mcp", &["no_log", "json", "color", "quiet"]),
    #[cfg(feature = "mcp")]
    ("skill", ALL),
    #[cfg(feature = "redis")]
    ("ship", &["server_name", "server_socket", "no_log", "color"]),
    ("service", &["no_log", "json", "color", "quiet"]),
    (
        "config",
        &[
            "server_name",
            "server_socket",
            "data_dir",
            "no_log",
            "color",
            "quiet",
        ],
    ),
    #[cfg(feature = "notify")]
    ("notify", &["no_log", "color", "quiet"]),
    (
        "runs",
        &["server_name", "server_socket", "config", "no_log", "color"],
    ),
    ("log", &["server_name", "server_socket", "no_log"]),
    (
        "replay",
        &["server_name", "server_socket", "config", "no_log"],
    ),
    #[cfg(feature = "report")]
    ("report", &["server_name", "server_socket", "no_log"]),
    (
        "export",
        &[
            "server_name",
            "server_socket",
            "config",
            "no_log",
            "json",
            "color",
            "quiet",
        ],
    ),
    ("hooks", ALL),
    ("schema", ALL),
    ("completions", ALL),
    ("man", ALL),
    ("help", ALL),
];

/// The global options that are accepted but pointless in a subcommand: its help omits them.
const POINTLESS: [(&str, &str); 3] = [("demo", "quiet"), ("runs", "quiet"), ("replay", "quiet")];

/// Builds the command line for parsing, help, completions and manual pages.
pub(super) fn command() -> clap::Command {
    let command = Args::command();
    let global: Vec<Arg> = (command.get_arguments())
        .filter(|arg| arg.is_global_set())
        .cloned()
        .collect();
    let mut command = command.mut_subcommands(|subcommand| {
        let name = subcommand.get_name();
        let Some((_, meaningless)) = MEANINGLESS.iter().find(|(of, _)| *of == name) else {
            return subcommand;
        };
        // clap adds a global option to a subcommand only if the subcommand has no option with this id.
        let is_hidden = |id: &str| meaningless.contains(&id) || POINTLESS.contains(&(name, id));
        let hidden: Vec<Arg> = (global.iter())
            .filter(|arg| is_hidden(arg.get_id().as_str()))
            .map(|arg| arg.clone().hide(true))
            .collect();
        subcommand.args(hidden)
    });
    // A pruning from a timer prints nothing.
    let quiet: Vec<Arg> = of_ids(&global, &["quiet"]).collect();
    edit(&mut command, &["runs", "prune"], |prune| prune.args(quiet));
    // These options are part of the unit, which is removed.
    let own = command.find_subcommand("service").into_iter();
    let own: Vec<Arg> = own
        .flat_map(|service| service.get_arguments().cloned())
        .collect();
    let unused = of_ids(&own, &["agents", "allow_input"]).chain(of_ids(&global, &SERVER));
    let hidden: Vec<Arg> = unused.map(|arg| arg.hide(true)).collect();
    edit(&mut command, &["service", "uninstall"], |uninstall| {
        uninstall.args(hidden)
    });
    command
}

/// Edits the subcommand with these names where it is: `mut_subcommand` moves all subcommands after it.
fn edit(
    command: &mut clap::Command,
    names: &[&str],
    edited: impl FnOnce(clap::Command) -> clap::Command,
) {
    let found = names
        .iter()
        .try_fold(command, |command, name| command.find_subcommand_mut(name));
    if let Some(subcommand) = found {
        *subcommand = edited(std::mem::take(subcommand));
    }
}

fn of_ids(args: &[Arg], ids: &[&str]) -> impl Iterator<Item = Arg> {
    args.iter()
        .filter(|arg| ids.contains(&arg.get_id().as_str()))
        .cloned()
}

/// The reason why arguments name no subcommand to run.
pub(super) enum NotParsed {
    /// The arguments request help or the version, or the usage is wrong.
    Clap(clap::Error),
    Refused(Failure),
}

/// Parses the arguments, the first of which is the program's name.
pub(super) fn parse(typed: impl IntoIterator<Item = OsString>) -> Result<Args, NotParsed> {
    let typed: Vec<OsString> = typed.into_iter().collect();
    let mut command = command();
    let mut matches = (command.try_get_matches_from_mut(&typed)).map_err(NotParsed::Clap)?;
    if let Some(failure) = refused(&matches) {
        return Err(NotParsed::Refused(failure));
    }
    let mut config = Config::default();
    if takes_configuration(&matches) {
        let named = matches.get_one::<PathBuf>("config");
        let loaded = Config::load(named.map(PathBuf::as_path), &command);
        let loaded = loaded.map_err(|failure| NotParsed::Refused(of(&matches, failure)))?;
        // The observer that a service starts reads the configuration itself.
        if matches.subcommand_name() != Some("service") {
            config = loaded;
            if config.has_defaults() {
                command = config.applied_to(self::command());
                matches = (command.try_get_matches_from_mut(&typed)).map_err(NotParsed::Clap)?;
            }
        }
    }
    let args = Args::from_arg_matches(&matches);
    let args = args.map_err(|error| NotParsed::Clap(error.format(&mut command)))?;
    Ok(Args { config, ..args })
}

/// Returns true if the configuration concerns the subcommand.
fn takes_configuration(matches: &ArgMatches) -> bool {
    let Some((name, of)) = matches.subcommand() else {
        return false;
    };
    match name {
        "config" => false,
        "service" => of.subcommand_name() == Some("install"),
        // Another host asks for the socket, and a status line for the text, whatever is wrong in the file.
        "status" if of.get_flag("print_socket") || of.contains_id("format") => {
            of.try_contains_id("hosts").unwrap_or_default()
        }
        _ => {
            let meaningless = MEANINGLESS.iter().find(|(of, _)| *of == name);
            meaningless.is_none_or(|(_, ids)| !ids.contains(&"config"))
        }
    }
}

/// Refuses a global option that does not apply to the subcommand.
fn refused(matches: &ArgMatches) -> Option<Failure> {
    let name = matches.subcommand_name()?;
    let (_, meaningless) = MEANINGLESS.iter().find(|(of, _)| *of == name)?;
    let is_typed = |id: &&&str| matches.value_source(id) == Some(ValueSource::CommandLine);
    let id = meaningless.iter().find(is_typed)?;
    let why = match *id {
        "server_name" | "server_socket" => {
            format!("-L and -S choose a tmux server, and {name} uses none of yours: leave them out")
        }
        "config" => format!("--config names a configuration, and {name} uses none: leave it out"),
        "data_dir" => format!("--data-dir chooses a history, and {name} uses none: leave it out"),
        "no_log" if matches!(name, "start" | "tui" | "serve" | "mcp" | "service") => {
            "the observer always keeps a history: leave --no-log out".to_owned()
        }
        "no_log" => format!("--no-log keeps no history, and {name} writes none: leave it out"),
        id => {
            let option = match id {
                "quiet" => "-q",
                "verbose" => "-v",
                "color" => "--color",
                _ => "--json",
            };
            format!("{option} has no meaning here: leave it out")
        }
    };
    let failure = usage!("{name}: {why}; see td-observe {name} --help");
    Some(of(matches, failure))
}

/// Returns the failure with the exit code of the subcommand.
fn of(matches: &ArgMatches, failure: Failure) -> Failure {
    match matches.subcommand_name() {
        Some("run") => failure.of_run(),
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    mod args {

        use super::super::*;
        use clap::CommandFactory;

        #[test]
        fn the_arguments_are_sound() {
            Args::command().debug_assert();
        }

        #[test]
        fn options_may_precede_or_follow_the_subcommand() {
            for typed in [
                ["td-observe", "--json", "-L", "w", "watch", "job", "-v"],
                ["td-observe", "watch", "--json", "job", "-v", "-L", "w"],
                ["td-observe", "-v", "watch", "-L", "w", "job", "--json"],
            ] {
                let args = Args::try_parse_from(typed).unwrap();
                assert!(args.options.json && args.options.verbose == 1, "{args:?}");
                assert_eq!(args.options.server_name, ["w"]);
            }
        }
    }

    mod command_line {

        use super::super::*;

        #[test]
        fn each_entry_names_a_subcommand_and_its_options() {
            let command = Args::command();
            for (name, meaningless) in MEANINGLESS {
                assert!(command.find_subcommand(name).is_some(), "{name}");
                for id in *meaningless {
                    let known = command.get_arguments().any(|arg| arg.get_id() == id);
                    assert!(known, "{name} {id}");
                }
            }
            super::super::command().debug_assert();
        }

        #[test]
        fn a_meaningless_option_is_refused_wherever_it_is() {
            let parsed = |words: &[&str]| {
                let words = std::iter::once("td-observe").chain(words.iter().copied());
                parse(words.map(OsString::from))
            };
            for words in [
                &["runs", "-L", "work"][..],
                &["-L", "work", "runs"],
                &["runs", "prune", "-n", "--no-log"],
                &["states", "-S", "/tmp/x"],
                &["schema", "--data-dir", "/tmp"],
                &["start", "--no-log"],
                &["man", "/tmp/x", "-v"],
            ] {
                assert!(
                    matches!(parsed(words), Err(NotParsed::Refused(_))),
                    "{words:?}"
                );
            }
            for words in [
                &["runs", "prune", "-n", "--json"][..],
                &["watch", "-L", "work", "--no-log", "-q", "-v"],
                &["wait", "-L", "work", "a", "--exit", "--json"],
                &["wait", "a", "--exit", "--data-dir", "/tmp"],
            ] {
                assert!(parsed(words).is_ok(), "{words:?}");
            }
        }
    }
}
