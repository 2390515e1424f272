//! Maps keys to the actions of the user (pure).

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::layout::Focus;
use super::model::Model;
use super::prompt::{Edit, PromptKind};
use super::view::ViewKind;
use crate::board::{Attention, Row};

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
    NextMatch {
        is_forward: bool,
    },
    InvertFilter,
    CopyLine,
    CopyView,
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

/// Returns the action of a key in the state of the UI.
pub(super) fn action(key: KeyEvent, model: &Model) -> Action {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if is_control && model.prompt.is_none() => return Action::Quit,
        KeyCode::Char('c') if is_control => return Action::Back,
        KeyCode::Char('z') if is_control => return Action::Suspend,
        _ => {}
    }
    if model.prompt.is_some() || model.help.is_some() {
        return typing(key, is_control, model);
    }
    normal(key, is_control, model)
}

fn typing(key: KeyEvent, is_control: bool, model: &Model) -> Action {
    let is_help = model.prompt.is_none();
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

fn normal(key: KeyEvent, is_control: bool, model: &Model) -> Action {
    let is_timeline = model.view == ViewKind::Timeline;
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
        KeyCode::Char('h') | KeyCode::Left if model.focus == Focus::View && model.left == 0 => {
            Action::Back
        }
        KeyCode::Char('h') | KeyCode::Left if model.focus == Focus::View => {
            Action::Move(Motion::Left)
        }
        KeyCode::Right if model.focus == Focus::Board => Action::SwitchFocus,
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
        KeyCode::Char('a') if model.selected_row().is_some_and(needs_you) => {
            Action::OpenPrompt(PromptKind::Answer)
        }
        KeyCode::Char('n') => Action::NextMatch { is_forward: true },
        KeyCode::Char('N') => Action::NextMatch { is_forward: false },
        KeyCode::Char('!') => Action::InvertFilter,
        KeyCode::Char('y') => Action::CopyLine,
        KeyCode::Char('Y') => Action::CopyView,
        KeyCode::Char('w') => Action::ToggleWrap,
        KeyCode::Char('z') => Action::ToggleZoom,
        KeyCode::Char('?') | KeyCode::F(1) => Action::ToggleHelp,
        KeyCode::Char(c) => match ViewKind::ALL.into_iter().find(|view| view.has_key(c)) {
            Some(view) => Action::Show(view),
            None => unknown(key.code, false),
        },
        code => unknown(code, is_control),
    }
}

fn needs_you(row: &Row) -> bool {
    row.attention() == Attention::NeedsYou
}

fn unknown(code: KeyCode, is_control: bool) -> Action {
    let name = code.to_string();
    Action::Unknown(match is_control {
        true => format!("Ctrl-{name}"),
        false => name,
    })
}
