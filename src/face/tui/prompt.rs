//! The input line for a search, a filter, a command or an answer, and the searchable help (pure).

use unicode_width::UnicodeWidthChar;

use super::board::{QUESTION_LINES_MAX, question_of};
use super::cells::wrapped_to;
use super::effect::Effect;
use super::keys::{Edit, Motion, PromptKind, help_lines, help_rows, moved};
use crate::agent::KnownAgent;
use crate::board::{Row, RowState};
use crate::event::{AgentState, Dialogue};
use crate::face::sanitize::one_line;

/// The longest input, in characters. tmux receives an answer in parts of 4 KiB.
const CHARS_MAX: usize = 4_000;

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

/// The maximum number of inputs to remember.
const INPUTS_MAX: usize = 200;

/// The inputs since the start. Answers are not remembered, because they may be secrets.
#[derive(Debug, Default)]
pub(super) struct InputHistory {
    inputs: Vec<(PromptKind, String)>,
    /// The input that is shown, and the text that was typed before it.
    shown: Option<(usize, String)>,
}

impl InputHistory {
    pub fn add(&mut self, kind: PromptKind, text: &str) {
        self.shown = None;
        if kind == PromptKind::Answer || text.trim().is_empty() {
            return;
        }
        let input = (kind, text.to_owned());
        self.inputs.retain(|before| *before != input);
        self.inputs.push(input);
        if self.inputs.len() > INPUTS_MAX {
            self.inputs.remove(0);
        }
    }

    /// Resets the position, because another input line begins or the line was edited.
    pub fn begin(&mut self) {
        self.shown = None;
    }

    /// Returns the input of the same kind before the shown one; remembers the typed text.
    pub fn older(&mut self, kind: PromptKind, typed: &str) -> Option<String> {
        let (end, draft) = match &self.shown {
            Some((at, draft)) => (*at, draft.clone()),
            None => (self.inputs.len(), typed.to_owned()),
        };
        let at = self.inputs[..end]
            .iter()
            .rposition(|(other, _)| *other == kind)?;
        self.shown = Some((at, draft));
        Some(self.inputs[at].1.clone())
    }

    /// Returns the input after the shown one; after the last one, the typed text.
    pub fn newer(&mut self, kind: PromptKind) -> Option<String> {
        let (at, draft) = self.shown.take()?;
        let later = self.inputs.iter().skip(at + 1);
        let Some(next) = later.clone().position(|(other, _)| *other == kind) else {
            return Some(draft);
        };
        self.shown = Some((at + 1 + next, draft));
        Some(self.inputs[at + 1 + next].1.clone())
    }
}

/// The searchable help.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Help {
    pub typed: String,
    pub top: usize,
}

/// A row that is being answered.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    /// The row, with its question when the answer began.
    pub row: Row,
    /// True if the user has been warned that the answer is empty.
    is_empty_confirmed: bool,
}

/// What is typed, and the message that replies to it.
#[derive(Debug, Default)]
pub(super) struct InputLine {
    pub prompt: Option<Prompt>,
    history: InputHistory,
    pub answered: Option<Answered>,
    pub help: Option<Help>,
    /// A message at the bottom until the next key.
    pub message: Option<String>,
}

/// Returns true if an input line can be opened for a row: its agent needs the user, or takes a prompt.
fn is_answerable(row: &Row) -> bool {
    let RowState::Agent(state) = &row.state else {
        return false;
    };
    let is_agent = row.agent.as_deref().is_some_and(|agent| agent != "shell");
    match state.known() {
        Some(AgentState::Waiting) => true,
        Some(AgentState::Idle | AgentState::Done | AgentState::Error | AgentState::Limited) => {
            is_agent && !row.is_view()
        }
        _ => false,
    }
}

/// Returns what distinguishes the question of a row from another one; `None` if it has none.
fn question_key(row: &Row) -> Option<(Option<&str>, Option<&str>)> {
    let id = row.question_id.as_deref();
    let asks = row.asks.as_deref().filter(|_| id.is_none());
    row.is_waiting().then_some((id, asks))
}

/// Returns the lines of a dialogue: its text, then its choices with their keys.
fn dialogue_lines(name: &str, dialogue: &Dialogue, (columns, rows): (usize, usize)) -> Vec<String> {
    let choices: Vec<String> = dialogue
        .choices
        .iter()
        .map(|choice| {
            let mark = if choice.selected { '>' } else { ' ' };
            let (key, label) = (one_line(&choice.key), one_line(&choice.label));
            format!("{mark} {key:<2} {label}")
        })
        .collect();
    let mut lines = vec![format!("{name} asks:")];
    for line in dialogue.text.lines() {
        lines.extend(wrapped_to(&one_line(line), columns, rows));
    }
    let room = rows.saturating_sub(choices.len()).max(1);
    if lines.len() > room {
        lines.truncate(room);
        if let Some(last) = lines.last_mut() {
            *last = "…".to_owned();
        }
    }
    lines.extend(choices);
    lines.truncate(rows);
    lines
}

impl InputLine {
    /// Shows a message at the bottom until the next key.
    pub fn show(&mut self, text: &str) {
        self.message = Some(text.to_owned());
    }

    pub fn open(&mut self, kind: PromptKind, typed: &str) {
        self.history.begin();
        self.prompt = Some(Prompt::new(kind, typed));
    }

    /// Closes the input line or the help; returns true if one was open.
    pub fn close(&mut self) -> bool {
        if self.prompt.take().is_some() {
            self.answered = None;
            return true;
        }
        self.help.take().is_some()
    }

    /// Shows an earlier input, or a later one, or the text typed before.
    pub fn earlier(&mut self, is_older: bool) {
        let Some(prompt) = &mut self.prompt else {
            return;
        };
        let found = if is_older {
            self.history.older(prompt.kind, &prompt.text())
        } else {
            self.history.newer(prompt.kind)
        };
        if let Some(text) = found {
            *prompt = Prompt::new(prompt.kind, &text);
        }
    }

    pub fn edit(&mut self, edit: Edit) {
        if let Some(help) = &mut self.help {
            match edit {
                Edit::Insert(text) => help.typed.push_str(&text),
                Edit::Backspace => {
                    help.typed.pop();
                }
                Edit::Clear | Edit::Word => help.typed.clear(),
                _ => {}
            }
            help.top = 0;
        } else if let Some(prompt) = &mut self.prompt {
            if prompt.chars.is_empty() && edit == Edit::Backspace {
                self.close();
                return;
            }
            prompt.edit(edit);
            self.history.begin();
            if let Some(answered) = &mut self.answered {
                answered.is_empty_confirmed = false;
            }
            // A single letter or digit is a choice in an agent's dialogue; Enter would answer the next
            // dialogue.
            let is_choice = self.answered.as_ref().is_some_and(|answered| {
                let agent = answered.row.agent.as_deref();
                let dialogue = answered.row.dialogue.as_deref();
                let has_choices = dialogue.is_some_and(|dialogue| !dialogue.choices.is_empty());
                answered.row.asks.is_some() && KnownAgent::takes_keys(agent, has_choices)
            });
            prompt.presses_enter = !(is_choice && prompt.chars.len() == 1);
        }
    }

    /// Inserts pasted text. Without an input line, its letters would act as keys.
    pub fn paste(&mut self, text: String) {
        if self.prompt.is_some() {
            self.edit(Edit::Insert(text));
        } else {
            self.show("pasted text is ignored; / searches, : takes commands");
        }
    }

    /// Takes the input, and remembers it.
    pub fn accept(&mut self) -> Option<Prompt> {
        let prompt = self.prompt.take()?;
        self.history.add(prompt.kind, &prompt.text());
        Some(prompt)
    }

    pub fn begin_answer(&mut self, row: Option<Row>, allows_input: bool) {
        let Some(row) = row else {
            return self.show("no row is selected");
        };
        if !allows_input {
            return self.show("answers are off: start td-observe tui with --allow-input");
        }
        if row.pane.is_none() || row.has_ended() {
            return self.show("there is no pane to type into");
        }
        if !is_answerable(&row) {
            let why = "neither waits for an answer nor is an idle agent; Enter goes to its pane";
            return self.show(&format!("{} {why}", row.full_name()));
        }
        self.prompt = Some(Prompt::new(PromptKind::Answer, ""));
        self.answered = Some(Answered {
            row,
            is_empty_confirmed: false,
        });
    }

    /// Returns the accepted answer. If the input is empty, only a second Enter sends it. If the question has changed,
    /// nothing is sent, and the new question is shown.
    pub fn answer(&mut self, mut prompt: Prompt, rows: &[Row]) -> Option<Effect> {
        let mut answered = self.answered.take()?;
        let is_empty = prompt.chars.is_empty();
        let now = rows.iter().find(|now| now.key() == answered.row.key());
        let is_same = now.is_some_and(|now| {
            is_answerable(now) && question_key(now) == question_key(&answered.row)
        });
        if is_empty && !answered.is_empty_confirmed {
            answered.is_empty_confirmed = true;
            self.show("nothing was sent: type an answer, or Esc; Enter again sends just Enter");
        } else if !is_same {
            let name = one_line(&answered.row.full_name());
            let Some(now) = now.filter(|now| is_answerable(now)) else {
                self.show(&format!("nothing was typed: {name} does not wait any more"));
                return None;
            };
            self.show(if now.is_waiting() {
                "nothing was typed: the question has changed to the one below"
            } else {
                "nothing was typed: the question is gone; Enter sends a prompt"
            });
            answered.row = now.clone();
        } else {
            prompt.presses_enter |= is_empty;
            return Some(Effect::Answer {
                row: Box::new(answered.row),
                presses_enter: prompt.presses_enter,
                text: prompt.text(),
            });
        }
        self.prompt = Some(prompt);
        self.answered = Some(answered);
        None
    }

    /// Returns the question that the input line answers, for the lines above it.
    pub fn question(&self, (width, height): (u16, u16)) -> Vec<String> {
        let answered = self.answered.as_ref().filter(|_| self.prompt.is_some());
        if let Some(answered) = answered
            && let Some(dialogue) = &answered.row.dialogue
        {
            let size = (usize::from(width), usize::from(height.saturating_sub(2)));
            return dialogue_lines(&one_line(&answered.row.full_name()), dialogue, size);
        }
        let question = answered
            .and_then(|answered| Some((answered.row.full_name(), question_of(&answered.row)?)));
        let Some((name, question)) = question else {
            return Vec::new();
        };
        let text = format!("{} asks: {question}", one_line(&name));
        let lines_max = QUESTION_LINES_MAX.min(usize::from(height.saturating_sub(1)));
        wrapped_to(&text, usize::from(width), lines_max)
    }

    pub fn move_in_help(&mut self, motion: Motion, (width, height): (u16, u16)) {
        let rows = help_rows(height).max(1);
        if let Some(help) = &mut self.help {
            let count = help_lines(&help.typed, width).len();
            // A page is all rows.
            help.top = moved(help.top, count.saturating_sub(rows), rows + 1, motion);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    #[test]
    fn earlier_inputs_are_restored_in_order() {
        let mut history = InputHistory::default();
        let (search, command) = (PromptKind::Search, PromptKind::Command);
        for (kind, text) in [
            (search, "one"),
            (command, "now"),
            (search, "two"),
            (search, " "),
            (PromptKind::Answer, "secret"),
            (search, "one"),
        ] {
            history.add(kind, text);
        }
        let is = |found: Option<String>, expected: Option<&str>| {
            assert_eq!(found.as_deref(), expected);
        };
        is(history.newer(search), None);
        is(history.older(search, "dra"), Some("one"));
        is(history.older(search, "one"), Some("two"));
        is(history.older(search, "two"), None);
        is(history.newer(search), Some("one"));
        is(history.newer(search), Some("dra"));
        is(history.newer(search), None);
        is(history.older(PromptKind::Answer, ""), None);
        is(history.older(command, ""), Some("now"));
        history.begin();
        is(history.newer(command), None);
        for number in 0..2 * INPUTS_MAX {
            history.add(search, &number.to_string());
        }
        assert_eq!(history.inputs.len(), INPUTS_MAX);
    }
}
