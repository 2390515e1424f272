//! Maps keys and commands to the actions of the user, and describes them for the help (pure).

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::cells::wrapped;
use super::layout::{Focus, ViewKind};
use crate::timestamp::{Timestamp, ago, local_time};

/// An action of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    Suspend,
    /// Redraws the whole screen.
    Redraw,
    /// Follows, or stops following.
    TogglePause,
    /// Leaves the innermost open layer: help, search, filter, time, view.
    Back,
    SwitchFocus,
    Show(ViewKind),
    Move(Motion),
    /// Selects the next or previous row that needs the user.
    NextWaiting {
        is_forward: bool,
    },
    /// Opens a row: its view on a narrow screen, otherwise its pane.
    Enter,
    OpenPrompt(PromptKind),
    /// Dismisses the selected row until its next change, or brings it back.
    Dismiss {
        is_dismissed: bool,
    },
    NextMatch {
        is_forward: bool,
    },
    InvertFilter,
    CopyLine,
    CopyView,
    CopyLinks,
    ToggleWrap,
    ToggleZoom,
    ToggleHelp,
    /// Moves through time, by cells of the timeline.
    Time {
        cells: i64,
    },
    /// Shows a longer or a shorter span of time.
    TimeSpan {
        is_longer: bool,
    },
    Edit(Edit),
    /// Shows an earlier or a later input.
    EarlierInput {
        is_older: bool,
    },
    /// Accepts the input.
    Accept,
    /// Completes a command, or changes whether Enter follows an answer.
    Complete,
    /// A key without a binding in this state.
    Unknown(String),
}

/// A movement in the board or in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Motion {
    Up,
    Down,
    HalfUp,
    HalfDown,
    PageUp,
    PageDown,
    Start,
    End,
    Left,
    Right,
}

/// The purpose of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptKind {
    Search,
    Filter,
    Command,
    Answer,
}

impl PromptKind {
    /// Returns the mark before the input.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Search => "/",
            Self::Filter => "filter: ",
            Self::Command => ":",
            Self::Answer => "answer: ",
        }
    }
}

/// An edit of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    Insert(String),
    Backspace,
    Delete,
    /// Removes everything before the cursor.
    Clear,
    /// Removes the word before the cursor.
    Word,
    Left,
    Right,
    Start,
    End,
}

/// Returns the index after a motion in a list that shows this many rows.
pub(super) fn moved(at: usize, last: usize, rows: usize, motion: Motion) -> usize {
    let page = rows.saturating_sub(1).max(1);
    let half = (rows / 2).max(1);
    let to = match motion {
        Motion::Up => at.saturating_sub(1),
        Motion::Down => at + 1,
        Motion::HalfUp => at.saturating_sub(half),
        Motion::HalfDown => at + half,
        Motion::PageUp => at.saturating_sub(page),
        Motion::PageDown => at + page,
        Motion::Start => 0,
        Motion::End => last,
        Motion::Left | Motion::Right => at,
    };
    to.min(last)
}

/// The state that gives a key its meaning.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyContext {
    pub has_prompt: bool,
    pub has_help: bool,
    pub view: ViewKind,
    pub focus: Focus,
    /// True if the view is not scrolled to the right.
    pub is_leftmost: bool,
    /// True if the selected row needs the user.
    pub needs_you: bool,
}

/// Returns the action of a key in the state of the UI.
pub(super) fn action(key: KeyEvent, context: KeyContext) -> Action {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if is_control && !context.has_prompt => return Action::Quit,
        KeyCode::Char('c') if is_control => return Action::Back,
        KeyCode::Char('z') if is_control => return Action::Suspend,
        _ => {}
    }
    if context.has_prompt || context.has_help {
        typing(key, is_control, !context.has_prompt)
    } else {
        normal(key, is_control, context)
    }
}

fn typing(key: KeyEvent, is_control: bool, is_help: bool) -> Action {
    match key.code {
        KeyCode::Esc => Action::Back,
        KeyCode::Enter if is_help => Action::Back,
        KeyCode::Enter => Action::Accept,
        KeyCode::Tab => Action::Complete,
        KeyCode::Backspace => Action::Edit(Edit::Backspace),
        KeyCode::Delete => Action::Edit(Edit::Delete),
        KeyCode::Left => Action::Edit(Edit::Left),
        KeyCode::Right => Action::Edit(Edit::Right),
        KeyCode::Home => Action::Edit(Edit::Start),
        KeyCode::End => Action::Edit(Edit::End),
        KeyCode::Up if is_help => Action::Move(Motion::Up),
        KeyCode::Down if is_help => Action::Move(Motion::Down),
        KeyCode::Up => Action::EarlierInput { is_older: true },
        KeyCode::Down => Action::EarlierInput { is_older: false },
        KeyCode::PageUp if is_help => Action::Move(Motion::PageUp),
        KeyCode::PageDown if is_help => Action::Move(Motion::PageDown),
        KeyCode::Char('a') if is_control => Action::Edit(Edit::Start),
        KeyCode::Char('e') if is_control => Action::Edit(Edit::End),
        KeyCode::Char('u') if is_control => Action::Edit(Edit::Clear),
        KeyCode::Char('w') if is_control => Action::Edit(Edit::Word),
        KeyCode::Char('h') if is_control => Action::Edit(Edit::Backspace),
        KeyCode::Char('?') if is_help => Action::Back,
        KeyCode::Char(c) if !is_control && !key.modifiers.contains(KeyModifiers::ALT) => {
            Action::Edit(Edit::Insert(c.to_string()))
        }
        code => unknown(code, is_control),
    }
}

fn normal(key: KeyEvent, is_control: bool, context: KeyContext) -> Action {
    let is_timeline = context.view == ViewKind::Timeline;
    let is_in_view = context.focus == Focus::View;
    match key.code {
        KeyCode::Char('d') if is_control => Action::Move(Motion::HalfDown),
        KeyCode::Char('u') if is_control => Action::Move(Motion::HalfUp),
        KeyCode::Char('f') if is_control => Action::Move(Motion::PageDown),
        KeyCode::Char('b') if is_control => Action::Move(Motion::PageUp),
        KeyCode::Char('e' | 'n') if is_control => Action::Move(Motion::Down),
        KeyCode::Char('y' | 'p') if is_control => Action::Move(Motion::Up),
        KeyCode::Char('l' | 'r') if is_control => Action::Redraw,
        KeyCode::Char(_) if is_control || key.modifiers.contains(KeyModifiers::ALT) => {
            unknown(key.code, is_control)
        }
        KeyCode::Char('q') => Action::Quit,
        KeyCode::Char('j') | KeyCode::Down => Action::Move(Motion::Down),
        KeyCode::Char('k') | KeyCode::Up => Action::Move(Motion::Up),
        KeyCode::Char(' ') | KeyCode::PageDown => Action::Move(Motion::PageDown),
        KeyCode::PageUp => Action::Move(Motion::PageUp),
        KeyCode::Char('g') | KeyCode::Home => Action::Move(Motion::Start),
        KeyCode::Char('d') => Action::Move(Motion::HalfDown),
        KeyCode::Char('u') => Action::Move(Motion::HalfUp),
        KeyCode::Char('b') => Action::Move(Motion::PageUp),
        KeyCode::Char('p') => Action::TogglePause,
        KeyCode::Char('G' | 'F') | KeyCode::End => Action::Move(Motion::End),
        KeyCode::Char('h') | KeyCode::Left if is_timeline => Action::Time { cells: -1 },
        KeyCode::Right if is_timeline => Action::Time { cells: 1 },
        KeyCode::Char('<') => Action::Time { cells: -10 },
        KeyCode::Char('>') => Action::Time { cells: 10 },
        KeyCode::Char('+' | '=') => Action::TimeSpan { is_longer: false },
        KeyCode::Char('-') => Action::TimeSpan { is_longer: true },
        // The board is to the left of the view.
        KeyCode::Char('h') | KeyCode::Left if is_in_view && context.is_leftmost => Action::Back,
        KeyCode::Char('h') | KeyCode::Left if is_in_view => Action::Move(Motion::Left),
        KeyCode::Right if !is_in_view => Action::SwitchFocus,
        KeyCode::Right => Action::Move(Motion::Right),
        KeyCode::Tab | KeyCode::BackTab => Action::SwitchFocus,
        KeyCode::Enter => Action::Enter,
        KeyCode::Esc | KeyCode::Backspace => Action::Back,
        KeyCode::Char(']') => Action::NextWaiting { is_forward: true },
        KeyCode::Char('[') => Action::NextWaiting { is_forward: false },
        KeyCode::Char('/') => Action::OpenPrompt(PromptKind::Search),
        KeyCode::Char('f') => Action::OpenPrompt(PromptKind::Filter),
        KeyCode::Char(':') => Action::OpenPrompt(PromptKind::Command),
        KeyCode::Char('r') => Action::OpenPrompt(PromptKind::Answer),
        // `a` for answer; in other rows, the key has no binding.
        KeyCode::Char('a') if context.needs_you => Action::OpenPrompt(PromptKind::Answer),
        KeyCode::Char('x') => Action::Dismiss { is_dismissed: true },
        KeyCode::Char('X') => Action::Dismiss {
            is_dismissed: false,
        },
        KeyCode::Char('n') => Action::NextMatch { is_forward: true },
        KeyCode::Char('N') => Action::NextMatch { is_forward: false },
        KeyCode::Char('!') => Action::InvertFilter,
        KeyCode::Char('y') => Action::CopyLine,
        KeyCode::Char('Y') => Action::CopyView,
        KeyCode::Char('U') => Action::CopyLinks,
        KeyCode::Char('w') => Action::ToggleWrap,
        KeyCode::Char('z') => Action::ToggleZoom,
        KeyCode::Char('?') | KeyCode::F(1) => Action::ToggleHelp,
        KeyCode::Char(c) => {
            let mut views = ViewKind::ALL.into_iter();
            let view = views.find(|view| view.name().starts_with(c));
            view.map_or_else(|| unknown(key.code, false), Action::Show)
        }
        code => unknown(code, is_control),
    }
}

fn unknown(code: KeyCode, is_control: bool) -> Action {
    let name = code.to_string();
    Action::Unknown(if is_control {
        format!("Ctrl-{name}")
    } else {
        name
    })
}

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
    let mut views = ViewKind::ALL.into_iter();
    // The beginning of a view's name stands for it.
    if let Some(view) = views.find(|view| view.name().starts_with(name)) {
        return act(Action::Show(view));
    }
    match name {
        "q" | "q!" | "quit" | "exit" | "x" | "wq" | "qa" => act(Action::Quit),
        "h" | "help" => act(Action::ToggleHelp),
        "follow" => act(Action::Move(Motion::End)),
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
            None => Err(format!(
                "at {rest}: give 10m, 2h ago, -1d, 13:14, yesterday, yesterday 13:14 or 2026-11-23 13:14"
            )),
        },
        _ => Err(format!(
            "{name} is no command; Tab completes, ? shows the keys"
        )),
    }
}

/// The keys and their meaning, separated by several blanks, in groups below a heading.
const HELP: &str = include_str!("keys.txt");

/// A line of the help on the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HelpLine {
    pub is_heading: bool,
    /// The keys, or the heading; empty if the line continues a meaning.
    pub keys: &'static str,
    pub meaning: String,
}

/// Returns the width of the column of keys.
pub(super) fn key_columns(width: u16) -> u16 {
    if width < 60 { 10 } else { 20 }
}

/// Returns the lines of the help whose keys or meaning contain the typed text.
pub(super) fn help_lines(typed: &str, width: u16) -> Vec<HelpLine> {
    let typed = typed.to_lowercase();
    let columns = usize::from(width.saturating_sub(key_columns(width))).max(8);
    let mut lines = Vec::new();
    let (mut heading, mut is_begun) = ("", true);
    for line in HELP.lines() {
        if let Some(next) = line.strip_prefix("# ") {
            (heading, is_begun) = (next, !typed.is_empty());
            continue;
        }
        let (keys, meaning) = line.split_once("  ").unwrap_or((line, ""));
        let text = format!("{heading} {keys} {}", meaning.trim_start());
        if !text.to_lowercase().contains(&typed) {
            continue;
        }
        if !std::mem::replace(&mut is_begun, true) {
            lines.push(HelpLine {
                is_heading: true,
                keys: heading,
                meaning: String::new(),
            });
        }
        let rows = wrapped(meaning.trim_start(), columns)
            .into_iter()
            .enumerate();
        lines.extend(rows.map(|(part, meaning)| HelpLine {
            is_heading: false,
            // A long meaning continues on the lines below.
            keys: if part == 0 { keys } else { "" },
            meaning,
        }));
    }
    lines
}

/// Returns the number of lines of the help on a screen of this height: below the title, above the bottom
/// line.
pub(super) fn help_rows(height: u16) -> usize {
    usize::from(height.saturating_sub(2))
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
