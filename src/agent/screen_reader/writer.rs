//! Converts settled rows to the events of a conversation: prompts, answers, tools, ends of turns (pure).

use std::collections::VecDeque;

use super::Layout;
use super::align::{ConversationRow, RowPart};
use super::opencode::is_queued;
use crate::agent::AgentEvent;
use crate::agent::summary::{result, summary, tool_result};

/// The number of typed texts to remember. They distinguish prompts from errors, because both are in boxes.
const TYPED_MAX: usize = 64;

/// The number of characters of a box or a paragraph to keep: as many as an event carries of a tool's output.
const RESULT_CHARS_MAX: usize = 500;

/// Converts the rows of a conversation to events.
#[derive(Debug, Default)]
pub(super) struct ConversationWriter {
    open: OpenBox,
    /// True if the last row was a tool that was reported together with its end.
    is_after_tool: bool,
    /// True if a prompt was sent and its turn has not ended.
    is_turn_open: bool,
    typed: VecDeque<String>,
    notice: String,
    /// Rows of the answer that are not reported yet.
    text: String,
    /// True if a part of the answer was reported, so that later rows continue it.
    has_text: bool,
    paragraph: String,
}

/// The box of the last row.
#[derive(Debug, Default)]
enum OpenBox {
    #[default]
    None,
    Tool {
        name: String,
        output: String,
    },
    Other(String),
}

impl ConversationWriter {
    /// Records the text in the input box, which may become a prompt.
    pub fn add_typed(&mut self, text: &str) {
        let text = letters(text);
        if !text.is_empty() && self.typed.back() != Some(&text) {
            self.typed.push_back(text);
            if self.typed.len() > TYPED_MAX {
                self.typed.pop_front();
            }
        }
    }

    /// Returns true if the user has typed this text.
    pub fn was_typed(&self, text: &str) -> bool {
        self.typed.contains(&letters(text))
    }

    /// Records the text of a notice. A box with the same text is an error.
    pub fn set_notice(&mut self, text: &str) {
        if !text.is_empty() {
            self.notice = letters(text);
        }
    }

    /// Processes a settled row.
    pub fn add_row(
        &mut self,
        row: &ConversationRow,
        layout: &Layout,
        events: &mut Vec<AgentEvent>,
    ) {
        let continues = row.kind == RowPart::Boxed && !row.is_head;
        if continues && !matches!(self.open, OpenBox::None) {
            self.append(row);
            return;
        }
        // The remaining rows of a box whose head was not captured, or was reported already:
        // opencode first draws a tool in one row, and in a box once it has output. Within a turn,
        // the rows are a tool's output.
        if continues && (self.is_after_tool || self.is_turn_open) {
            return;
        }
        self.close(events);
        self.is_after_tool = row.kind == RowPart::Tool;
        match row.kind {
            RowPart::Text => self.append_answer(row),
            RowPart::Boxed => match layout.tool(&row.text) {
                Some(tool) => {
                    self.open = OpenBox::Tool {
                        name: self.start_tool(tool, events),
                        output: String::new(),
                    }
                }
                None => self.open = OpenBox::Other(row.text.trim().to_owned()),
            },
            RowPart::Tool => {
                let tool = layout.tool(&row.text).unwrap_or(("", row.text.as_str()));
                let tool_name = self.start_tool(tool, events);
                events.push(completed(tool_name, ""));
            }
            RowPart::End => {
                self.flush(events);
                self.is_turn_open = false;
                if !row.text.ends_with("interrupted") {
                    events.push(AgentEvent::TurnCompleted {
                        marker: summary(&row.text),
                        summary: summary(&std::mem::take(&mut self.paragraph)),
                    });
                }
            }
        }
    }

    pub fn close(&mut self, events: &mut Vec<AgentEvent>) {
        match std::mem::take(&mut self.open) {
            OpenBox::None => {}
            OpenBox::Tool { name, output } => {
                self.is_after_tool = true;
                events.push(completed(name, output.trim_end()));
            }
            OpenBox::Other(text) => self.close_other(&text, events),
        }
    }

    /// Reports the answer received so far.
    pub fn flush(&mut self, events: &mut Vec<AgentEvent>) {
        if !self.text.is_empty() {
            let token = std::mem::take(&mut self.text);
            events.push(AgentEvent::TokenReceived { token });
        }
    }

    /// Reports that rows were lost here.
    pub fn rows_lost(&mut self, events: &mut Vec<AgentEvent>) {
        self.close(events);
        self.flush(events);
        events.push(AgentEvent::TokenReceived {
            // Replaces rows that were not captured.
            token: "[… rows not seen]".to_owned(),
        });
    }

    /// Ends the turn independently of the screen.
    pub fn end_turn(&mut self, events: &mut Vec<AgentEvent>) {
        self.close(events);
        self.flush(events);
        self.is_turn_open = false;
    }

    fn append_answer(&mut self, row: &ConversationRow) {
        let begins = self.text.is_empty() && !self.has_text;
        if row.is_spaced {
            self.paragraph.clear();
            if !begins {
                self.text.push('\n');
            }
        }
        self.text.push_str(&row.text);
        self.text.push('\n');
        self.has_text = true;
        if self.paragraph.len() < RESULT_CHARS_MAX {
            self.paragraph.push_str(row.text.trim());
            self.paragraph.push(' ');
        }
    }

    fn start_tool(&mut self, (name, rest): (&str, &str), events: &mut Vec<AgentEvent>) -> String {
        self.flush(events);
        self.has_text = false;
        // If the layout does not know the name, the first word is the name: `Read README.md`.
        let (name, args) = match name {
            "" => rest.split_once(' ').unwrap_or((rest, "")),
            name => (name, rest),
        };
        let tool_name = summary(name);
        events.push(AgentEvent::ToolCallStarted {
            tool_name: tool_name.clone(),
            tool_args_summary: summary(args),
        });
        tool_name
    }

    fn append(&mut self, row: &ConversationRow) {
        let (text, end) = match &mut self.open {
            OpenBox::None => return,
            OpenBox::Other(_) if is_queued(row) => return,
            OpenBox::Other(text) => (text, ' '),
            OpenBox::Tool { output, .. } => (output, '\n'),
        };
        if text.len() <= RESULT_CHARS_MAX * 4 {
            if !text.is_empty() {
                text.push(end);
            }
            text.push_str(row.text.trim_end());
        }
    }

    /// Reports a box without a tool: a prompt or an error.
    fn close_other(&mut self, text: &str, events: &mut Vec<AgentEvent>) {
        let text_letters = letters(text);
        let was_typed = self.typed.contains(&text_letters);
        let is_error = text_letters == self.notice || (self.is_turn_open && !was_typed);
        self.flush(events);
        self.has_text = false;
        self.paragraph.clear();
        self.is_turn_open = !is_error;
        events.push(if is_error && !was_typed {
            AgentEvent::AgentFailed {
                error: result(text),
                evidence: "screen".to_owned(),
            }
        } else {
            AgentEvent::PromptSent {
                prompt_summary: summary(text),
                token_count: None,
            }
        });
    }
}

fn completed(tool_name: String, output: &str) -> AgentEvent {
    AgentEvent::ToolCallCompleted {
        tool_name,
        success: true,
        result_summary: tool_result(output),
        duration_ms: 0,
    }
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}
