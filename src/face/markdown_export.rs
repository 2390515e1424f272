//! Exports the conversations of a run's agents as Markdown: prompts, answers, tools with their results (pure).

use std::collections::BTreeMap;
use std::fmt::Write;

use super::sanitize::{one_line, push_sanitized};
use super::session_labels::SessionLabels;
use crate::agent::tool_question;
use crate::event::{AgentState, Dialogue, Envelope, PaneId, TdEvent};

/// Collects the conversations, one envelope at a time.
#[derive(Debug, Default)]
pub(crate) struct MarkdownExport {
    /// The only pane to export.
    pane: Option<PaneId>,
    labels: SessionLabels,
    /// The text of each agent, under its heading.
    texts: BTreeMap<String, Conversation>,
}

/// The conversation of one agent.
#[derive(Debug, Default)]
struct Conversation {
    text: String,
    /// True while pieces of an answer follow each other.
    is_answer: bool,
    asks: Option<String>,
}

impl MarkdownExport {
    pub fn new(pane: Option<PaneId>) -> Self {
        Self {
            pane,
            ..Self::default()
        }
    }

    /// Adds the next envelope of the run.
    pub fn push(&mut self, envelope: &Envelope) {
        let event = &envelope.event;
        self.labels.note(event);
        if self.pane.is_some() && event.pane() != self.pane.as_ref() {
            return;
        }
        let entry = match event {
            TdEvent::PromptSent { prompt_summary, .. } => Entry::Prompt(prompt_summary),
            TdEvent::TokenReceived { token, .. } => Entry::Answer(token),
            TdEvent::ToolCallStarted {
                tool_name,
                tool_args_summary,
                ..
            } => Entry::Tool(tool_name, tool_args_summary),
            TdEvent::ToolCallCompleted {
                success,
                result_summary,
                ..
            } => Entry::Result(*success, result_summary),
            TdEvent::AgentState { dialogue, .. } if Dialogue::is_again(dialogue.as_deref()) => {
                return;
            }
            TdEvent::AgentState { state, asks, .. } if *state == AgentState::Waiting => {
                match asks.as_deref() {
                    Some(asks) => Entry::Question(asks),
                    None => return,
                }
            }
            _ => return,
        };
        let heading = self.labels.label(event.execution_id(), event.pane()).text;
        let of_agent = self.texts.entry(heading).or_default();
        of_agent.add(entry, event.pane().is_some());
    }

    /// Returns the Markdown; `None` if the run has no conversation.
    pub fn finish(self) -> Option<String> {
        let spoken = self.texts.into_iter().filter(|(_, of)| !of.text.is_empty());
        let sections = spoken.map(|(heading, of)| {
            let mut section = format!("# {}\n", one_line(&heading));
            push_text(&mut section, &of.text);
            section
        });
        let text = sections.collect::<Vec<_>>().join("\n");
        (!text.is_empty()).then_some(text)
    }
}

/// A part of a conversation.
enum Entry<'a> {
    Prompt(&'a str),
    Answer(&'a str),
    Tool(&'a str, &'a str),
    Result(bool, &'a str),
    Question(&'a str),
}

impl Conversation {
    /// Adds a part. The messages of an agent in a pane are whole; other answers arrive in pieces.
    fn add(&mut self, entry: Entry<'_>, is_whole: bool) {
        let was_answer = std::mem::replace(&mut self.is_answer, matches!(entry, Entry::Answer(_)));
        let continues = was_answer && self.is_answer && !is_whole;
        let out = &mut self.text;
        if !continues && !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        // Writing to a string cannot fail.
        let _ = match entry {
            Entry::Answer(text) if continues => out.write_str(text),
            Entry::Answer(text) if text.trim().is_empty() => Ok(()),
            Entry::Answer(text) => write!(out, "\n{}", with_newline(text, is_whole)),
            Entry::Prompt(text) => write!(out, "\n## Prompt\n\n{}\n", quoted(text)),
            Entry::Tool(name, args) => {
                let what = tool_question(name, args).filter(|what| what != name);
                let what = what.map_or(String::new(), |what| format!(": {}", code(&what)));
                write!(out, "\n- **{}**{what}\n", one_line(name))
            }
            Entry::Result(success, text) => {
                let mark = if success { "" } else { "failed: " };
                let lines = format!("{mark}{}", text.trim());
                let lines = lines.lines().map(|line| format!("\n      {line}"));
                writeln!(out, "{}", lines.collect::<String>())
            }
            // A question is repeated with each change of its state.
            Entry::Question(text) if self.asks.as_deref() == Some(text) => Ok(()),
            Entry::Question(text) => {
                self.asks = Some(text.to_owned());
                write!(out, "\n*asks: {}*\n", one_line(text))
            }
        };
    }
}

fn with_newline(text: &str, is_whole: bool) -> String {
    if is_whole {
        format!("{}\n", text.trim_end())
    } else {
        text.to_owned()
    }
}

/// Returns a text as a quotation.
fn quoted(text: &str) -> String {
    let lines = text.trim().lines().map(|line| format!("> {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a text as code in a line.
fn code(text: &str) -> String {
    let text = one_line(text);
    if text.contains('`') {
        format!("`` {text} ``")
    } else {
        format!("`{text}`")
    }
}

/// Appends a text without control sequences, ended by a newline.
fn push_text(out: &mut String, text: &str) {
    for line in text.lines() {
        push_sanitized(out, line);
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamp::Timestamp;

    fn exported(events: Vec<TdEvent>) -> Option<String> {
        let mut export = MarkdownExport::new(None);
        for event in events {
            export.push(&Envelope::new(None, Timestamp::from_micros(0), event));
        }
        export.finish()
    }

    fn prompt(text: &str, pane: Option<PaneId>) -> TdEvent {
        TdEvent::PromptSent {
            execution_id: "work@1".into(),
            iteration: 1,
            prompt_summary: text.into(),
            token_count: None,
            pane,
        }
    }

    fn token(text: &str, pane: Option<PaneId>) -> TdEvent {
        TdEvent::TokenReceived {
            execution_id: "work@1".into(),
            iteration: 1,
            token: text.into(),
            pane,
        }
    }

    #[test]
    fn a_conversation_is_markdown_with_its_prompts_tools_and_answers() {
        let pane = Some(PaneId::from("%1"));
        let text = exported(vec![
            prompt("Fix it\nplease", pane.clone()),
            token("I look.", pane.clone()),
            TdEvent::ToolCallStarted {
                execution_id: "work@1".into(),
                iteration: 1,
                tool_name: "Bash".into(),
                tool_args_summary: r#"{"command":"cargo test"}"#.into(),
                pane: pane.clone(),
            },
            TdEvent::ToolCallCompleted {
                execution_id: "work@1".into(),
                iteration: 1,
                tool_name: "Bash".into(),
                success: false,
                result_summary: "1 failed".into(),
                duration_ms: 5,
                pane: pane.clone(),
            },
            token("It is **done**.\u{1b}[0m", pane),
        ]);
        let text = text.unwrap();
        let expected = "\n## Prompt\n\n> Fix it\n> please\n\nI look.\n\n- **Bash**: `cargo test`\n\n      \
                        failed: 1 failed\n\nIt is **done**.";
        assert!(text.starts_with("# ") && text.contains(expected), "{text}");
    }

    #[test]
    fn pieces_of_an_answer_are_joined_and_a_run_without_a_conversation_has_none() {
        let text = exported(vec![
            prompt("Go", None),
            token("one ", None),
            token("two", None),
        ]);
        assert!(text.unwrap().ends_with("> Go\n\none two\n"));
        assert_eq!(exported(Vec::new()), None);
    }
}
