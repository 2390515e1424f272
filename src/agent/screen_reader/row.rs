//! The rows of a conversation, as a layout reads them from a screen (pure).

use crate::text::first_chars;

/// The maximum number of characters of a row. No terminal is wider.
const CHARS_MAX: usize = 1_000;

/// The part of a conversation that a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowPart {
    /// A row of the agent's answer.
    Text,
    /// A row in a box: a prompt, a tool with its output, an error.
    Boxed,
    Tool,
    End,
}

/// A row of the scrolling area without decoration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConversationRow {
    pub text: String,
    pub kind: RowPart,
    /// True if a blank row or an edge precedes the row.
    pub is_spaced: bool,
    /// True for the first row of a box.
    pub is_head: bool,
    /// True if a notice covers the row, so that its text is unknown.
    pub is_covered: bool,
    /// The number of letters that were reported before the row was rewrapped.
    pub reported: usize,
}

impl ConversationRow {
    pub fn new(text: &str, kind: RowPart, is_spaced: bool) -> Self {
        Self {
            text: first_chars(text, CHARS_MAX).to_owned(),
            kind,
            is_spaced,
            is_head: false,
            is_covered: false,
            reported: 0,
        }
    }

    /// Returns true if the rows may be the same row at different times.
    pub fn is_same(&self, other: &Self) -> bool {
        self.is_covered || other.is_covered || self.text == other.text
    }

    /// Returns the weight of a match with another row.
    pub fn weight(&self) -> usize {
        const WEIGHT_MAX: usize = 8;
        match self.is_covered {
            true => 0,
            false => self.letters().take(WEIGHT_MAX).count().max(1),
        }
    }

    /// Returns the letters and digits, which rewrapping does not change.
    pub fn letters(&self) -> impl Iterator<Item = char> + '_ {
        self.text.chars().filter(|c| c.is_alphanumeric())
    }

    /// Returns the part of the row that has not been reported yet.
    pub fn unreported(&self) -> Self {
        let mut rest = self.clone();
        if self.reported > 0 {
            rest.text = cut(&self.text, self.reported).1.trim_start().to_owned();
            (rest.is_spaced, rest.is_head, rest.reported) = (false, false, 0);
        }
        rest
    }

    /// Returns the beginning of the row, up to a number of letters.
    pub fn up_to(&self, letters: usize) -> Self {
        let mut begin = self.clone();
        begin.text = cut(&self.text, letters).0.trim_end().to_owned();
        begin
    }
}

/// Splits a text after a number of letters and the other characters that follow them, up to the next blank.
fn cut(text: &str, letters: usize) -> (&str, &str) {
    let mut count = 0;
    let mut end = 0;
    for (at, c) in text.char_indices() {
        if c.is_alphanumeric() {
            count += 1;
        }
        let is_next = count > letters || (count == letters && c.is_whitespace());
        if is_next {
            break;
        }
        end = at + c.len_utf8();
    }
    text.split_at(end)
}

/// The conversation that a layout reads from a screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ConversationPage {
    /// The rows of the scrolling area, without blank rows and decoration.
    pub rows: Vec<ConversationRow>,
    /// True while the agent works; `None` if the layout does not show it.
    pub is_working: Option<bool>,
    /// True if the screen is empty or precedes a conversation.
    pub is_first: bool,
    /// The text in the input box.
    pub typed: String,
    /// The text of a notice that covers rows.
    pub notice: String,
}
