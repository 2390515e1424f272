//! The input line for a search, a filter, a command or an answer (pure).

use unicode_width::UnicodeWidthChar;

/// The longest input, in characters. tmux receives an answer in parts of 4 KiB.
const CHARS_MAX: usize = 4_000;

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

/// An input line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prompt {
    pub kind: PromptKind,
    chars: Vec<char>,
    cursor: usize,
    /// True if Enter is pressed after an answer.
    pub presses_enter: bool,
    /// The text being completed, and the index of the completion that is shown.
    completed: Option<(String, usize)>,
}

impl Prompt {
    pub fn new(kind: PromptKind, text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        Self {
            kind,
            cursor: chars.len(),
            chars,
            presses_enter: true,
            completed: None,
        }
    }

    pub fn text(&self) -> String {
        self.chars.iter().collect()
    }

    /// Returns the part of the text that fits into `columns`, and the column of the cursor in it.
    pub fn shown(&self, columns: usize) -> (String, usize) {
        let width =
            |chars: &[char]| -> usize { chars.iter().map(|c| c.width().unwrap_or(0)).sum() };
        let mut start = 0;
        while start < self.cursor && width(&self.chars[start..self.cursor]) >= columns.max(1) {
            start += 1;
        }
        let mut shown = String::new();
        let mut used = 0;
        for c in &self.chars[start..] {
            used += c.width().unwrap_or(0);
            if used > columns {
                break;
            }
            shown.push(*c);
        }
        (shown, width(&self.chars[start..self.cursor]))
    }

    /// Shows the next of the completions that `complete` returns for the typed text.
    pub fn complete(&mut self, complete: impl Fn(&str) -> Vec<String>) {
        let (typed, next) = match self.completed.take() {
            Some((typed, shown)) => (typed, shown + 1),
            None => (self.text(), 0),
        };
        let completions = complete(&typed);
        if completions.is_empty() {
            return;
        }
        let next = next % completions.len();
        self.chars = completions[next].chars().take(CHARS_MAX).collect();
        self.cursor = self.chars.len();
        self.completed = Some((typed, next));
    }

    pub fn edit(&mut self, edit: Edit) {
        self.completed = None;
        match edit {
            Edit::Insert(text) => {
                // A line end in a paste would press Enter.
                let typed = text.chars().map(|c| {
                    if matches!(c, '\n' | '\r' | '\t') {
                        ' '
                    } else {
                        c
                    }
                });
                for c in typed.filter(|c| !c.is_control()) {
                    if self.chars.len() < CHARS_MAX {
                        self.chars.insert(self.cursor, c);
                        self.cursor += 1;
                    }
                }
            }
            Edit::Backspace if self.cursor > 0 => {
                self.cursor -= 1;
                self.chars.remove(self.cursor);
            }
            Edit::Delete if self.cursor < self.chars.len() => {
                self.chars.remove(self.cursor);
            }
            Edit::Backspace | Edit::Delete => {}
            Edit::Clear => {
                self.chars.drain(..self.cursor);
                self.cursor = 0;
            }
            Edit::Word => {
                let before = &self.chars[..self.cursor];
                let end = before
                    .iter()
                    .rposition(|c| !c.is_whitespace())
                    .map_or(0, |at| at + 1);
                let start = before[..end]
                    .iter()
                    .rposition(|c| c.is_whitespace())
                    .map_or(0, |at| at + 1);
                self.chars.drain(start..self.cursor);
                self.cursor = start;
            }
            Edit::Left => self.cursor = self.cursor.saturating_sub(1),
            Edit::Right => self.cursor = (self.cursor + 1).min(self.chars.len()),
            Edit::Start => self.cursor = 0,
            Edit::End => self.cursor = self.chars.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edits() -> impl Strategy<Value = Edit> {
        prop_oneof![
            "[a-z 漢\n\u{1b}]{0,4}".prop_map(Edit::Insert),
            Just(Edit::Backspace),
            Just(Edit::Delete),
            Just(Edit::Clear),
            Just(Edit::Word),
            Just(Edit::Left),
            Just(Edit::Right),
            Just(Edit::Start),
            Just(Edit::End),
        ]
    }

    proptest! {
        #[test]
        fn the_cursor_stays_in_the_text(all in prop::collection::vec(edits(), 0..60), columns in 0_usize..20) {
            let mut prompt = Prompt::new(PromptKind::Search, "a word");
            for edit in all {
                prompt.edit(edit);
                prop_assert!(prompt.cursor <= prompt.chars.len());
                prop_assert!(!prompt.text().contains(char::is_control));
                let (shown, cursor) = prompt.shown(columns);
                prop_assert!(cursor <= columns.max(1), "{shown:?} {cursor} {columns}");
            }
        }
    }

    #[test]
    fn a_word_is_removed_with_the_blanks_after_it() {
        let mut prompt = Prompt::new(PromptKind::Answer, "yes please  ");
        prompt.edit(Edit::Word);
        assert_eq!(prompt.text(), "yes ");
    }
}
