//! Extracts the conversation rows from an agent's screen, according to the agent's layout (pure).

use super::align::{ConversationPage, ConversationRow, RowPart};
use super::opencode::OpencodeLayout;
use crate::agent::decoration::{LineKind, bare_line};
use crate::agent::{AgentProgram, KnownAgent};

/// The maximum number of rows to examine. No terminal is taller.
const ROWS_MAX: usize = 500;

#[derive(Clone, Debug, Default)]
pub(super) enum Layout {
    Opencode(OpencodeLayout),
    /// The layout of an unknown agent: all scrolling rows are text.
    #[default]
    Unknown,
}

impl Layout {
    pub fn of(program: &AgentProgram) -> Self {
        match program {
            // Kilo is a fork of opencode.
            AgentProgram::Known(KnownAgent::Opencode | KnownAgent::Kilo) => {
                Self::Opencode(OpencodeLayout::default())
            }
            AgentProgram::Known(_) | AgentProgram::Other(_) => Self::Unknown,
        }
    }

    /// Returns the conversation rows of a screen; `None` for another screen, such as a menu or a
    /// partly drawn screen.
    pub fn page(&mut self, rows: &[&str], width: usize) -> Option<ConversationPage> {
        let rows = &rows[..rows.len().min(ROWS_MAX)];
        match self {
            Self::Opencode(layout) => layout.page(rows, width),
            Self::Unknown => Some(page(rows)),
        }
    }

    /// Returns the number of leading rows that are final.
    pub fn sealed(&self, rows: &[ConversationRow]) -> usize {
        match self {
            Self::Opencode(_) => OpencodeLayout::sealed(rows),
            Self::Unknown => 0,
        }
    }

    /// Returns the name and the arguments of a tool, if the first row of a box is that of a tool.
    pub fn tool<'a>(&self, head: &'a str) -> Option<(&'a str, &'a str)> {
        match self {
            Self::Opencode(_) => OpencodeLayout::tool(head),
            Self::Unknown => None,
        }
    }

    /// Returns true if the layout shows which rows are final and where a conversation begins.
    pub fn shows_ends(&self) -> bool {
        matches!(self, Self::Opencode(_))
    }
}

// Reads the screens of an unknown full-screen program: text without frames, footers and spinners (pure).

/// The maximum height of an input box.
const BOX_ROWS_MAX: usize = 6;

/// Words in rows that list keys.
const KEYS: &[&str] = &["esc", "ctrl+", "ctrl-", "ctrl ", "^c", "shift+", "enter "];
const KEY_ROWS: usize = 3;

fn page(rows: &[&str]) -> ConversationPage {
    let end = content_end(rows);
    let mut page = ConversationPage::default();
    let mut is_spaced = true;
    for row in &rows[..end] {
        let shape = bare_line(row);
        match shape.kind {
            LineKind::Blank | LineKind::Rule => is_spaced = true,
            _ if is_busy(shape.text) => is_spaced = true,
            LineKind::Bullet | LineKind::Input | LineKind::Text => {
                page.rows
                    .push(ConversationRow::new(shape.text, RowPart::Text, is_spaced));
                is_spaced = false;
            }
        }
    }
    page.is_first = page.rows.is_empty();
    page
}

/// Returns the row at which the footer begins: the input box, hints or a status line.
fn content_end(rows: &[&str]) -> usize {
    let shape = |row: usize| bare_line(rows[row]).kind;
    let shown = |row: &usize| shape(*row) != LineKind::Blank;
    let Some(last) = (0..rows.len()).rfind(shown) else {
        return 0;
    };
    let mut end = last + 1;
    // The number of bottom rows that are searched for the input box.
    let foot = end.saturating_sub(12);
    let edge = (foot..end).rfind(|row| shape(*row) == LineKind::Rule);
    if let Some(lower) = edge {
        let first = lower.saturating_sub(BOX_ROWS_MAX + 1).max(foot);
        end = (first..lower)
            .rfind(|row| shape(*row) == LineKind::Rule)
            .unwrap_or(lower);
    } else if let Some(prompt) =
        (end.saturating_sub(KEY_ROWS + 1)..end).rfind(|row| shape(*row) == LineKind::Input)
    {
        end = prompt;
    }
    // Skips hints that have no box.
    for row in (end.saturating_sub(KEY_ROWS)..end).rev() {
        let text = bare_line(rows[row]).text.to_lowercase();
        if shape(row) != LineKind::Blank && !KEYS.iter().any(|key| text.contains(key)) {
            break;
        }
        end = row;
    }
    end
}

/// Returns true if the row shows a spinner or a running timer.
fn is_busy(text: &str) -> bool {
    let mut chars = text.chars();
    let Some(first) = chars.next() else {
        return false;
    };
    let is_mark = ('\u{2800}'..='\u{28ff}').contains(&first)
        || "✻✽✶✳✢⣾◐◓◑◒◴◷◶◵⬝■".contains(first)
        || (matches!(first, '|' | '/' | '-' | '\\' | '*' | '·')
            && (text.contains('…') || text.contains("...")));
    is_mark && chars.next().is_none_or(char::is_whitespace)
}
