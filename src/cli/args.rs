//! The arguments as typed. Some subcommands turn theirs into a `Config` before they run.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{ArgAction, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::aot::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use super::agent_args::{TypedAgents, TypedStates};
use super::agent_hooks::TypedHooks;
use super::chapters;
use super::completers;
use super::history_args::{TypedExport, TypedLog, TypedReplay, TypedRuns};
#[cfg(feature = "kernel")]
use super::kernel_args::TypedKernel;
use super::loop_args::TypedLoop;
use super::observer::{STOP_EXAMPLES, TypedService, TypedStart};
use super::run_args::TypedRun;
use super::schema;
use super::status_args::TypedStatus;
#[cfg(feature = "tui")]
use super::tui_args::TypedTui;
use super::wait_args::TypedWait;
use super::watch_args::TypedWatch;

const EXAMPLES: &str = "\
Examples:
  td-observe tui                      the terminal UI; also without a subcommand
  td-observe demo                     see it at work on a private tmux server
  td-observe watch                    all sessions of your tmux server
  td-observe watch build agent:1      one session, and one window of another
  td-observe watch --json | jq .      for programs: one event per line
  td-observe run make test            a command: live output, same exit code
  td-observe loop --task 'Fix the tests' --agent ./agent --check 'make test'
                                      repeats an agent until the check passes
  td-observe agents tasks/            reports the end of each background agent
  td-observe runs                     the runs in the history
  td-observe log build --follow       past and new output of the session build
  td-observe replay build --speed 4   the same, four times as fast
  td-observe help streaming           a chapter of the guide
  td-observe help                     all commands and chapters

Runs are kept in ~/.taskdaemon/runs (see --data-dir and --no-log).
Exit codes: 0 done or stopped, 1 failed, 2 wrong usage, 127 tmux is missing,
130 interrupted twice; more in the help of wait and status. run exits with the
code of its command: 124 after --timeout, 126 and 127 if it cannot start.";

/// Shows what tmux panes, commands and agents are doing, and keeps what they did.
#[derive(Debug, Parser)]
#[command(
    name = "td-observe",
    version,
    after_help = EXAMPLES,
    max_term_width = 100,
    disable_help_subcommand = true
)]
pub(super) struct Args {
    #[command(flatten)]
    pub options: TypedOptions,
    #[command(subcommand)]
    pub command: Command,
}

/// Returns the subcommands that the help shows.
pub(super) fn visible_subcommands(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    (command.get_subcommands()).filter(|command| !command.is_hide_set())
}

/// Offers the chapters of the guide and the commands.
fn topics(typed: &OsStr) -> Vec<CompletionCandidate> {
    let command = Args::command();
    let commands = visible_subcommands(&command).map(|command| command.get_name().to_owned());
    let topics = chapters::names().map(str::to_owned);
    let mut names: Vec<String> = topics.chain(commands).collect();
    names.sort();
    names.dedup();
    completers::candidates(&typed.to_string_lossy(), names)
}

/// The heading of [`TypedOptions`].
const GLOBAL: &str = "Global options";

/// Options of several subcommands, which may precede or follow the subcommand. The table in `command_line`
/// names the options that do not apply to a subcommand.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = GLOBAL)]
pub(super) struct TypedOptions {
    /// Use the tmux server of this name, as tmux -L does
    #[arg(short = 'L', value_name = "NAME", global = true, action = ArgAction::Append)]
    pub server_name: Vec<OsString>,
    /// Use the tmux server at this socket, as tmux -S does
    #[arg(short = 'S', value_name = "PATH", global = true, value_hint = ValueHint::AnyPath, action = ArgAction::Append)]
    pub server_socket: Vec<PathBuf>,
    /// Keep runs and your own rules here [default: $TD_DATA_DIR, else ~/.taskdaemon]
    #[arg(long, value_name = "DIR", global = true, value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
    /// Keep no history
    #[arg(long, global = true)]
    pub no_log: bool,
    /// Print JSON, one object per line, and nothing else
    #[arg(long, global = true)]
    pub json: bool,
    /// Use colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        global = true
    )]
    pub color: When,
    /// Print nothing but problems
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Show more detail (repeat for more)
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub verbose: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum When {
    Auto,
    Always,
    Never,
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
    /// Start the observer with your login, by systemd
    Service(TypedService),
    /// List the runs in the history, or prune them
    Runs(TypedRuns),
    /// Print what a run has shown, and follow it
    Log(TypedLog),
    /// Show a run as it happened, at its original speed or another
    Replay(TypedReplay),
    /// Convert a run to a terminal recording or to text
    Export(TypedExport),
    /// Print the settings that let an agent report its state
    Hooks(TypedHooks),
    /// Print the JSON Schema of events
    #[command(after_help = schema::EXAMPLES)]
    Schema,
    /// Print the script that completes td-observe in a shell
    Completions(TypedCompletions),
    /// Write the manual pages into a directory
    Man(TypedMan),
    /// Print a chapter of the guide, or the help of a command
    Help(TypedHelp),
    /// Reads the pipe of a pane; started by watch
    #[command(hide = true)]
    Drain(TypedDrain),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  td-observe demo                    on a terminal: the terminal UI; q quits
  td-observe demo --plain            the lines as they come, twenty seconds at most
  td-observe demo --seconds 60       a minute at most
  td-observe demo --data-dir /tmp/d  keeps the runs there

In the terminal UI, one of the agents asks a question: r answers it.
The tmux server, its sockets and the runs are in a temporary directory, which
the demo removes at its end. With --data-dir it keeps the runs there.")]
pub(super) struct TypedDemo {
    /// Print lines, also on a terminal
    #[arg(long)]
    pub plain: bool,
    /// End after N seconds at the latest [default: 20 for lines, none for the terminal UI]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: Option<u64>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  source <(td-observe completions bash)         in ~/.bashrc
  source <(td-observe completions zsh)          in ~/.zshrc, after compinit
  td-observe completions fish | source          in ~/.config/fish/config.fish
  eval (td-observe completions elvish | slurp)  in ~/.config/elvish/rc.elv
  td-observe completions powershell | Out-String | Invoke-Expression
                                                in $PROFILE

Options and subcommands are completed, and so are tmux targets, runs, event
types and chapters of the guide. Create the script again after an update.")]
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
#[command(after_help = "\
Examples:
  td-observe help            all commands and chapters
  td-observe help streaming  a chapter of the guide
  td-observe help watch      the help of a command
  td-observe help agents     both, where a command and a chapter share a name

On a terminal, a chapter is shown with $PAGER, or with less.")]
pub(super) struct TypedHelp {
    /// A chapter, or a command
    #[arg(value_name = "TOPIC", add = ArgValueCompleter::new(topics))]
    pub words: Vec<OsString>,
}

/// The arguments of [`crate::tmux::drain`].
#[derive(Debug, clap::Args)]
pub(super) struct TypedDrain {
    pub address: String,
    pub token: String,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

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
