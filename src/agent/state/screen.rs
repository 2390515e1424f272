//! The rows of a pane's screen, and the facts that tmux reports about it (pure).

use crate::event::Cursor;

/// A screen, from which rules detect an agent's state.
///
/// ```
/// use td_observe::AgentState;
/// use td_observe::agent::{AgentScreen, StateRules};
/// let rules = StateRules::builtin();
/// // The last screen of an agent that has exited, and the shell below it.
/// let rows = ["⏺ It is.", "──────", "❯ ", "──────", "  ? for shortcuts", "me@host:~/a$ "];
/// let detected = rules.detect(&AgentScreen::of(&rows)).unwrap();
/// assert_eq!((detected.agent.as_str(), detected.state), ("shell", AgentState::Idle));
/// // Files quote screens: an editor's screen has no state.
/// let screen = AgentScreen { program: Some("vim"), ..AgentScreen::of(&rows[..5]) };
/// assert_eq!(rules.detect(&screen), None);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct AgentScreen<'a> {
    /// The rows from the top. Trailing blanks and blank rows at the bottom do not matter.
    pub rows: &'a [&'a str],
    /// The cursor; if unknown, it is assumed to be in the last non-blank row.
    pub cursor: Option<Cursor>,
    /// The foreground program of the terminal, as tmux reports it in `pane_current_command`.
    pub program: Option<&'a str>,
}

impl<'a> AgentScreen<'a> {
    /// Creates a screen from rows alone.
    #[must_use]
    pub fn of(rows: &'a [&'a str]) -> Self {
        Self {
            rows,
            cursor: None,
            program: None,
        }
    }
}
