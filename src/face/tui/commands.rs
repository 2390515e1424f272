//! Parses and completes the commands of the input line that begins with a colon (pure).

use super::action::Action;
use super::prompt::PromptKind;
use super::view::ViewKind;
use crate::timestamp::{Timestamp, ago, local_time};

/// A parsed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Act(Action),
    Filter(String),
    Search(String),
    /// Goes to a time; `None` means now.
    At(Option<Timestamp>),
    /// Goes to the row or run with this name.
    Open(String),
}

/// The commands, in the order of completion.
pub(super) const NAMES: [&str; 18] = [
    "open ", "answer", "at ", "now", "search ", "filter ", "output", "logs", "screen", "timeline",
    "events", "follow", "jump", "copy", "wrap", "zoom", "help", "quit",
];

/// The accepted forms of a time.
const TIMES: &str = "10m, 2h ago, -1d, 13:14, yesterday, yesterday 13:14 or 2026-11-23 13:14";

/// Returns the commands that begin with the typed text; after `open`, the names of rows that do.
pub(super) fn complete(typed: &str, rows: &[String]) -> Vec<String> {
    let begins = |name: &str, typed: &str| name.to_lowercase().starts_with(&typed.to_lowercase());
    match typed.strip_prefix("open ") {
        Some(prefix) => {
            let rows = rows.iter().filter(|name| begins(name, prefix.trim_start()));
            rows.map(|name| format!("open {name}")).collect()
        }
        None => {
            let names = NAMES.iter().filter(|name| begins(name, typed));
            names.map(|name| (*name).to_owned()).collect()
        }
    }
}

/// Parses a time as people write it.
fn time(typed: &str, now: Timestamp) -> Option<Timestamp> {
    let bare = typed.strip_suffix("ago").map(str::trim_end);
    let bare = bare.or_else(|| typed.strip_prefix('-').map(str::trim_start));
    match bare {
        Some(bare) => ago(bare, now),
        None => ago(typed, now).or_else(|| local_time(typed, now)),
    }
}

/// Parses a command; the error is a message for the user.
pub(super) fn parse(typed: &str, now: Timestamp) -> Result<Option<Command>, String> {
    let typed = typed.trim();
    let (name, rest) = typed.split_once(' ').unwrap_or((typed, ""));
    let rest = rest.trim();
    if name.is_empty() {
        return Ok(None);
    }
    let act = |action| Ok(Some(Command::Act(action)));
    if let Some(view) = ViewKind::ALL
        .into_iter()
        .find(|view| is_short_for(name, view.name()))
    {
        return act(Action::Show(view));
    }
    match name {
        "q" | "q!" | "quit" | "exit" | "x" | "wq" | "qa" => act(Action::Quit),
        "h" | "help" => act(Action::ToggleHelp),
        "follow" => act(Action::Move(super::action::Motion::End)),
        "wrap" => act(Action::ToggleWrap),
        "zoom" => act(Action::ToggleZoom),
        "jump" => act(Action::Enter),
        "copy" => act(Action::CopyView),
        "answer" => act(Action::OpenPrompt(PromptKind::Answer)),
        "filter" => Ok(Some(Command::Filter(rest.to_owned()))),
        "search" => Ok(Some(Command::Search(rest.to_owned()))),
        "now" => Ok(Some(Command::At(None))),
        "open" => Ok(Some(Command::Open(rest.to_owned()))),
        "at" => match time(rest, now) {
            Some(at) => Ok(Some(Command::At(Some(at)))),
            None => Err(format!("at {rest}: give {TIMES}")),
        },
        _ => Err(format!(
            "{name} is no command; Tab completes, ? shows the keys"
        )),
    }
}

/// Returns true if the typed text abbreviates the name of a view.
fn is_short_for(typed: &str, name: &str) -> bool {
    !matches!(typed, "h" | "q") && name.starts_with(typed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_parsed() {
        let now = Timestamp::from_micros(1_768_989_600_000_000);
        let before = |seconds: i64| {
            let at = Timestamp::from_micros(now.micros() - seconds * 1_000_000);
            Ok(Some(Command::At(Some(at))))
        };
        for (typed, expected) in [
            ("", Ok(None)),
            ("q", Ok(Some(Command::Act(Action::Quit)))),
            (
                "out",
                Ok(Some(Command::Act(Action::Show(ViewKind::Output)))),
            ),
            ("filter !a b", Ok(Some(Command::Filter("!a b".into())))),
            ("at 10m", before(600)),
            ("at 2d", before(2 * 86_400)),
            ("at 1h ago", before(3600)),
            ("at -1h", before(3600)),
            ("open a b", Ok(Some(Command::Open("a b".into())))),
            ("now", Ok(Some(Command::At(None)))),
        ] {
            assert_eq!(parse(typed, now), expected, "{typed}");
        }
        for wrong in [
            "at",
            "at x",
            "at 99999999999999d",
            "at --1h",
            "at ago",
            "rm",
        ] {
            assert!(parse(wrong, now).is_err(), "{wrong}");
        }
        // Each form in the error message is accepted.
        let error = parse("at x", now).unwrap_err();
        let forms = error
            .strip_prefix("at x: give ")
            .unwrap()
            .replace(" or ", ", ");
        for form in forms.split(", ") {
            assert!(parse(&format!("at {form}"), now).is_ok(), "{form}");
        }
        // A time of day means the last 24 hours, in any zone.
        let Ok(Some(Command::At(Some(at)))) = parse("at 13:14", now) else {
            panic!("no time")
        };
        let ago = now.micros() - at.micros();
        assert!((0..=25 * 3_600_000_000).contains(&ago), "{ago}");
        assert_eq!(complete("f", &[]), ["filter ", "follow"]);
        assert_eq!(complete("", &[]).len(), NAMES.len());
        let rows = ["build %0", "nightly", "Build all"].map(str::to_owned);
        assert_eq!(
            complete("open bu", &rows),
            ["open build %0", "open Build all"]
        );
        assert_eq!(complete("open ", &rows).len(), 3);
    }
}
