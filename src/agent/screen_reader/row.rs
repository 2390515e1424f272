//! The rows of a conversation on a screen, as a layout reads them (pure).

/// Characters of a row that are kept: no terminal is wider.
const CHARS_MAX: usize = 1_000;

/// What a row is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowPart {
    /// What the agent writes.
    Text,
    /// A row in a box: a prompt, a tool with its output, an error.
    Boxed,
    /// A tool in one row.
    Tool,
    /// The end of a turn.
    End,
}

/// A row of the area that scrolls, without what stands around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConversationRow {
    pub text: String,
    pub kind: RowPart,
    /// A blank row, or an edge, stands above it.
    pub is_spaced: bool,
    /// A box begins with it.
    pub is_head: bool,
    /// Something lies above the row, so that its text is not known.
    pub is_covered: bool,
    /// So many of its letters were told, before it was wrapped as it is now.
    pub told: usize,
}

impl ConversationRow {
    pub fn new(text: &str, kind: RowPart, is_spaced: bool) -> Self {
        let end = text.char_indices().nth(CHARS_MAX);
        Self {
            text: end.map_or(text, |(end, _)| &text[..end]).to_owned(),
            kind,
            is_spaced,
            is_head: false,
            is_covered: false,
            told: 0,
        }
    }

    /// Whether both may be the same row at two times.
    pub fn is_same(&self, other: &Self) -> bool {
        self.is_covered || other.is_covered || self.text == other.text
    }

    /// How much it says that it equals another one.
    pub fn weight(&self) -> usize {
        const WEIGHT_MAX: usize = 8;
        match self.is_covered {
            true => 0,
            false => self.letters().take(WEIGHT_MAX).count().max(1),
        }
    }

    /// Its letters and digits, which stay the same however it is wrapped.
    pub fn letters(&self) -> impl Iterator<Item = char> + '_ {
        self.text.chars().filter(|c| c.is_alphanumeric())
    }

    /// What of it is still to be told.
    pub fn rest(&self) -> Self {
        let mut rest = self.clone();
        if self.told > 0 {
            rest.text = cut(&self.text, self.told).1.trim_start().to_owned();
            (rest.is_spaced, rest.is_head, rest.told) = (false, false, 0);
        }
        rest
    }

    /// The row up to so many letters.
    pub fn before(&self, letters: usize) -> Self {
        let mut begin = self.clone();
        begin.text = cut(&self.text, letters).0.trim_end().to_owned();
        begin
    }
}

/// Cuts a text behind so many letters, and what follows them up to the next blank.
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

/// What a layout reads off a screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ConversationPage {
    /// The rows of the area that scrolls, blank ones and decoration left out.
    pub rows: Vec<ConversationRow>,
    /// Whether the agent works; `None` where the layout does not tell.
    pub is_working: Option<bool>,
    /// Nothing is shown, or what an agent shows before a conversation.
    pub is_first: bool,
    /// What is typed into the input box.
    pub typed: String,
    /// What a notice says that lies above the rows.
    pub notice: String,
}
