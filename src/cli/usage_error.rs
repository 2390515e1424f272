//! Converts the errors of clap into failures of one line, with suggestions.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

use super::command_line::{self, visible_subcommands};
use super::failure::Failure;

/// Returns the failure for an error of clap about these words, the first of which is the program's name.
pub(super) fn failure(error: &clap::Error, typed: &[OsString]) -> Failure {
    let command = command_line::command();
    let (path, place) = place_of(&command, typed);
    let subcommands = || {
        let names = visible_subcommands(place).map(Command::get_name);
        names.collect::<Vec<_>>().join(", ")
    };
    let text = match error.kind() {
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("no subcommand is given: {}", subcommands())
        }
        ErrorKind::InvalidSubcommand => {
            let mut text = folded(error);
            // After a subcommand, the words have other meanings.
            if path == PROGRAM
                && let Some(meant) = meant_by(error)
            {
                text.truncate(text.find("; did you mean").unwrap_or(text.len()));
                text.push_str(&format!("; did you mean {meant}?"));
            }
            let end = if text.ends_with('?') { "" } else { ";" };
            format!("{text}{end} there are: {}", subcommands())
        }
        _ => folded(error),
    };
    let failure = usage!("{text}; see {path} --help");
    if place.get_name() == "run" {
        failure.of_run()
    } else {
        failure
    }
}

/// Returns the subcommand that the words name, and its path in words.
fn place_of<'a>(command: &'a Command, typed: &[OsString]) -> (String, &'a Command) {
    let (mut path, mut place) = (PROGRAM.to_owned(), command);
    let mut words = typed.iter().skip(1).map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        if let Some(found) = place.find_subcommand(&*word) {
            path = format!("{path} {}", found.get_name());
            place = found;
        } else if takes_the_next_word(command, &word) || takes_the_next_word(place, &word) {
            words.next();
        }
    }
    (path, place)
}

/// Returns true if the word is an option whose value is the word after it.
fn takes_the_next_word(command: &Command, word: &str) -> bool {
    let is_named = |option: &&Arg| match word.strip_prefix("--") {
        Some(long) => option.get_long() == Some(long),
        None => match word
            .strip_prefix('-')
            .map(|short| short.chars().collect::<Vec<_>>())
        {
            Some(short) => short.len() == 1 && option.get_short() == Some(short[0]),
            None => false,
        },
    };
    let option = command.get_arguments().find(is_named);
    option.is_some_and(|option| {
        let values = option.get_num_args();
        option.get_action().takes_values() && values.is_none_or(|values| values.min_values() > 0)
    })
}

const PROGRAM: &str = "td-observe";

/// Names that other programs use for a subcommand, and its name here.
const OTHER_WORDS: [(&[&str], &str); 3] = [
    (&["list", "ls", "history"], "runs"),
    (&["grep", "search"], "log"),
    (&["ui", "top", "attach"], "tui"),
];

/// Returns the subcommand that corresponds to the typed word of another program.
fn meant_by(error: &clap::Error) -> Option<&'static str> {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let mut words = OTHER_WORDS.iter();
    let found = words.find(|(words, _)| words.contains(&typed.as_str()));
    found.map(|(_, meant)| *meant)
}

/// Returns true if a suggested option is similar to the typed one.
fn is_similar(meant: &str, error: &clap::Error) -> bool {
    let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg) else {
        return true;
    };
    let bare = |option: &str| {
        let name = option.trim_start_matches('-');
        name.split('=').next().unwrap_or_default().to_owned()
    };
    // Most options are long, and clap suggests any option with common letters.
    strsim::jaro(&bare(typed), &bare(meant)) > 0.85
}

/// Joins the lines of the first paragraph, and appends clap's suggestion if there is one.
fn folded(error: &clap::Error) -> String {
    let full = error.render().to_string();
    let lines = full
        .lines()
        .map(str::trim)
        .take_while(|line| !line.is_empty());
    let mut text = lines.collect::<Vec<_>>().join(" ");
    if let Some(rest) = text.strip_prefix("error: ") {
        text = rest.to_owned();
    }
    for kind in [
        ContextKind::SuggestedArg,
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedValue,
    ] {
        let meant = match error.get(kind) {
            Some(ContextValue::String(meant)) => meant,
            // The best suggestion comes last.
            Some(ContextValue::Strings(all)) if !all.is_empty() => &all[all.len() - 1],
            _ => continue,
        };
        if kind != ContextKind::SuggestedArg || is_similar(meant, error) {
            text.push_str(&format!("; did you mean {meant}?"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    mod usage_error {

        use super::super::*;
        use crate::cli::command_line::Args;
        use clap::Parser;

        fn failure(typed: &[&str]) -> Failure {
            let words: Vec<OsString> = typed.iter().map(OsString::from).collect();
            super::super::failure(&Args::try_parse_from(typed).unwrap_err(), &words)
        }

        #[test]
        fn wrong_usage_is_one_line() {
            for (typed, expected) in [
                (&["td-observe"][..], "no subcommand is given"),
                (
                    &["td-observe", "wacth"],
                    "did you mean watch? there are: demo, watch, run",
                ),
                (&["td-observe", "list"], "did you mean runs? there are"),
                (&["td-observe", "grep"], "did you mean log? there are"),
                (&["td-observe", "attach"], "did you mean tui? there are"),
                (
                    &["td-observe", "tui", "--allow-inptu"],
                    "did you mean --allow-input?",
                ),
                (
                    &["td-observe", "hooks", "shwo"],
                    "there are: show; see td-observe hooks --help",
                ),
                (
                    &["td-observe", "hooks"],
                    "no subcommand is given: show; see",
                ),
                (
                    &["td-observe", "watch", "--inteval", "1s"],
                    "did you mean --interval?",
                ),
                (
                    &["td-observe", "watch", "--interval", "0s"],
                    "must not be zero",
                ),
                (
                    &["td-observe", "watch", "--interval=-1s"],
                    "write a time as",
                ),
                (&["td-observe", "watch", "--interval"], "--interval"),
                (&["td-observe", "watch", "--source", "pipe"], "poll, stream"),
                (
                    &["td-observe", "export", "build"],
                    "see td-observe export --help",
                ),
                (
                    &["td-observe", "runs", "prune", "--keep-age", "x"],
                    "see td-observe runs prune --help",
                ),
                (&["td-observe", "watch", "--mode", "robot"], "human, ai"),
                (&["td-observe", "watch", "--lines", "-3"], "-3"),
                (
                    &["td-observe", "watch", "--sync", "x\ny"],
                    "none, interval or always",
                ),
                (&["td-observe", "--color", "blue", "watch"], "blue"),
                (&["td-observe", "demo", "--seconds", "0"], "0"),
            ] {
                let failure = failure(typed);
                assert_eq!(failure, Failure::usage(failure.text()));
                assert!(failure.text().contains(expected), "{typed:?}: {failure:?}");
                assert!(!failure.text().contains("Usage:"), "{failure:?}");
            }
        }

        /// What `run` refuses differs from what the command exits with.
        #[test]
        fn run_refuses_with_125() {
            for (typed, is_run) in [
                (&["td-observe", "run", "--max-lines", "0", "true"][..], true),
                (&["td-observe", "run"], true),
                (&["td-observe", "--color", "blue", "run", "true"], true),
                (&["td-observe", "--data-dir", "watch", "run"], true),
                (&["td-observe", "-L", "run", "watch", "--inteval"], false),
                (
                    &["td-observe", "watch", "--execution-id", "run", "--x"],
                    false,
                ),
            ] {
                let failure = failure(typed);
                let refused = Failure::usage(failure.text()).of_run();
                assert_eq!(failure == refused, is_run, "{typed:?}: {failure:?}");
            }
        }

        #[test]
        fn only_similar_names_are_suggested() {
            for typed in [
                &["td-observe", "tui", "--all"][..],
                &["td-observe", "hooks", "list"],
                &["td-observe", "xyzzy"],
            ] {
                let failure = failure(typed);
                assert!(!failure.text().contains("did you mean"), "{failure:?}");
            }
            for (word, meant) in OTHER_WORDS
                .iter()
                .flat_map(|(words, meant)| words.iter().map(move |word| (*word, *meant)))
            {
                let failure = failure(&["td-observe", word]);
                let expected = format!("did you mean {meant}? there are");
                assert!(failure.text().contains(&expected), "{word}: {failure:?}");
                assert_eq!(failure.text().matches("did you mean").count(), 1);
            }
        }
    }
}
