//! The command line as clap parses it: each subcommand with the global options that apply to it.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};

use super::args::Args;
use super::failure::Failure;

const SERVER: [&str; 2] = ["server_name", "server_socket"];
const ALL: &[&str] = &[
    "server_name",
    "server_socket",
    "data_dir",
    "no_log",
    "json",
    "color",
    "quiet",
    "verbose",
];

/// The global options that do not apply to a subcommand: its help omits them, and the parser refuses them. The
/// help lists the subcommands in this order.
const MEANINGLESS: &[(&str, &[&str])] = &[
    ("demo", &SERVER),
    ("watch", &[]),
    ("run", &SERVER),
    #[cfg(feature = "kernel")]
    ("kernel", &SERVER),
    ("loop", &SERVER),
    ("agents", &SERVER),
    (
        "states",
        &["server_name", "server_socket", "no_log", "color", "quiet"],
    ),
    ("wait", &["no_log", "color"]),
    ("start", &["no_log", "color"]),
    (
        "stop",
        &["server_name", "server_socket", "no_log", "json", "color"],
    ),
    ("status", &["server_name", "server_socket", "no_log"]),
    #[cfg(feature = "tui")]
    ("tui", &["no_log", "json", "quiet"]),
    ("service", &["no_log", "json", "color", "quiet"]),
    ("runs", &["server_name", "server_socket", "no_log", "color"]),
    ("log", &["server_name", "server_socket", "no_log"]),
    ("replay", &["server_name", "server_socket", "no_log"]),
    (
        "export",
        &[
            "server_name",
            "server_socket",
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
pub(super) fn command() -> Command {
    let mut command = Args::command();
    let global: Vec<Arg> = (command.get_arguments())
        .filter(|arg| arg.is_global_set())
        .cloned()
        .collect();
    for (name, meaningless) in MEANINGLESS {
        // clap adds a global option to a subcommand only if the subcommand has no option with this id.
        let is_hidden = |id: &str| meaningless.contains(&id) || POINTLESS.contains(&(*name, id));
        let hidden = global
            .iter()
            .filter(|arg| is_hidden(arg.get_id().as_str()))
            .map(|arg| arg.clone().hide(true));
        command = command.mut_subcommand(name, |subcommand| subcommand.args(hidden));
    }
    // A pruning from a timer prints nothing.
    let quiet: Vec<Arg> = of_ids(&global, &["quiet"]).collect();
    command = command.mut_subcommand("runs", |runs| {
        runs.mut_subcommand("prune", |prune| prune.args(quiet))
    });
    // These options are part of the unit, which is removed.
    command.mut_subcommand("service", |service| {
        let own: Vec<Arg> = service.get_arguments().cloned().collect();
        let unused = of_ids(&own, &["agents", "allow_input"]).chain(of_ids(&global, &SERVER));
        let hidden: Vec<Arg> = unused.map(|arg| arg.hide(true)).collect();
        service.mut_subcommand("uninstall", |uninstall| uninstall.args(hidden))
    })
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
    let mut command = command();
    let matches = (command.try_get_matches_from_mut(typed)).map_err(NotParsed::Clap)?;
    if let Some(failure) = refused(&matches) {
        return Err(NotParsed::Refused(failure));
    }
    Args::from_arg_matches(&matches).map_err(|error| NotParsed::Clap(error.format(&mut command)))
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
        "data_dir" => format!("--data-dir chooses a history, and {name} uses none: leave it out"),
        "no_log" if matches!(name, "start" | "tui" | "service") => {
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
    Some(usage!("{name}: {why}; see td-observe {name} --help"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        super::command().debug_assert();
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
