//! Shows the question of a waiting row, and answers it (pure).

use super::effect::Effect;
use super::model::{Answered, Model};
use super::prompt::{Prompt, PromptKind};
use super::view::ViewKind;
use super::wrapping::wrapped_to;
use crate::board::{Attention, Row, RowState};
use crate::event::AgentState;
use crate::face::last_text;
use crate::face::sanitize::one_line;

/// The maximum number of lines of a question on the screen. Dialogues have a sentence or two.
const LINES_MAX: usize = 3;

/// Returns the question of a waiting row: the agent's question, or else its last line.
pub(super) fn question_of(row: &Row) -> Option<String> {
    let is_waiting = row.state == RowState::Agent(AgentState::Waiting.into());
    Some(last_text(row)).filter(|asks| is_waiting && !asks.is_empty())
}

impl Model {
    /// Returns the question below the output of a waiting row, in lines of the view.
    pub(super) fn question_in_view(&self) -> Vec<String> {
        let is_end = self.view == ViewKind::Output
            && self.at.is_none()
            && self.filter.is_none()
            && self.window.is_end;
        let row = self.selected_row().filter(|_| is_end);
        let Some(question) = row.and_then(question_of) else {
            return Vec::new();
        };
        // The last line already shows the question.
        let last = self.lines().last().map(|line| line.text.text.trim());
        if last == Some(&question) {
            return Vec::new();
        }
        let (columns, rows) = self.view_size();
        let lines_max = LINES_MAX.min(rows / 2);
        match lines_max {
            0 => Vec::new(),
            lines_max => wrapped_to(&format!("asks: {question}"), columns, lines_max),
        }
    }

    /// Returns the question that the input line answers, for the lines above it.
    pub(super) fn question_in_prompt(&self) -> Vec<String> {
        let answered = self.answered.as_ref().filter(|_| self.prompt.is_some());
        let question =
            answered.and_then(|answered| Some((&answered.row.name, question_of(&answered.row)?)));
        let Some((name, question)) = question else {
            return Vec::new();
        };
        let (width, height) = (usize::from(self.size.0), usize::from(self.size.1));
        let text = format!("{} asks: {question}", one_line(name));
        let lines_max = LINES_MAX.min(height.saturating_sub(1));
        wrapped_to(&text, width, lines_max)
    }

    pub(super) fn begin_answer(&mut self) {
        let Some(row) = self.selected_row().cloned() else {
            return self.show_message("no row is selected");
        };
        if !self.settings.allows_input {
            return self.show_message("answers are off: start td-observe tui with --allow-input");
        }
        if row.pane.is_none() || row.has_ended() {
            return self.show_message("there is no pane to type into");
        }
        if row.attention() != Attention::NeedsYou {
            let text = format!(
                "{} does not wait for an answer; Enter goes to its pane",
                row.name
            );
            return self.show_message(&text);
        }
        self.prompt = Some(Prompt::new(PromptKind::Answer, ""));
        self.answered = Some(Answered {
            row,
            is_change_confirmed: false,
            is_empty_confirmed: false,
        });
    }

    /// Sends the answer. If the question has changed, or the input is empty, only a second Enter sends it.
    pub(super) fn answer(&mut self, mut prompt: Prompt) {
        let Some(mut answered) = self.answered.take() else {
            return;
        };
        let is_empty = prompt.text().is_empty();
        let now = self.rows.iter().find(|now| now.key() == answered.row.key());
        let is_same = now.is_some_and(|now| {
            (&now.state, &now.asks) == (&answered.row.state, &answered.row.asks)
        });
        let why = if is_empty && !answered.is_empty_confirmed {
            answered.is_empty_confirmed = true;
            "nothing was sent: type an answer, or Esc; Enter again sends just Enter"
        } else if !is_same && !answered.is_change_confirmed {
            answered.is_change_confirmed = true;
            "the question has changed meanwhile: Enter sends nevertheless"
        } else {
            prompt.presses_enter |= is_empty;
            self.effects.push(Effect::Answer {
                row: Box::new(answered.row),
                presses_enter: prompt.presses_enter,
                text: prompt.text(),
            });
            return;
        };
        self.show_message(why);
        self.prompt = Some(prompt);
        self.answered = Some(answered);
    }
}
