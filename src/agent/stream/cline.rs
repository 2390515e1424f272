//! Cline's session files: a document of messages with ids and times (pure).
//!
//! Measured on 3.0.65: `~/.cline/data/sessions/SESSION/SESSION.messages.json`. No message marks the end of a turn, or
//! that the user has stopped it; its last one is the answer without a tool.

use super::document::MessageHandler;
use super::note::cost_of;
use super::{EventTime, EventWriter, Json, TokenUsage, first};
use crate::timestamp::Timestamp;

pub struct ClineMessages;

impl MessageHandler for ClineMessages {
    fn list<'a>(&self, document: &'a Json<'a>) -> &'a Json<'a> {
        &document["messages"]
    }

    fn identity(&self, message: &Json<'_>) -> String {
        message["id"].text().to_owned()
    }

    fn time(&self, message: &Json<'_>) -> Option<Timestamp> {
        message["ts"].time()
    }

    fn message(&mut self, message: &Json<'_>, is_new: bool, writer: &mut EventWriter) {
        let when = writer.time(message["ts"].time());
        let (content, metadata) = (&message["content"], &message["metadata"]);
        if message["role"].text() == "user" {
            results(content.list(), when, writer);
            let text = text_of(content);
            if is_new && !text.trim().is_empty() {
                writer.abandon_tools();
                writer.prompt_sent(typed(&text));
            }
        } else if metadata["displayRole"].text() == "error" {
            if is_new {
                writer.failed(&text_of(content), "a message with an error");
            }
        } else if metadata["displayOnly"].as_bool() != Some(true) {
            let text = text_of(content);
            let calls = || {
                content
                    .list()
                    .iter()
                    .filter(|part| part["type"].text() == "tool_use")
            };
            let has_tool_calls = calls().next().is_some();
            if is_new {
                writer.set_answer(&text);
                writer.token(text.as_str().into());
                let usage = TokenUsage::of(&message["metrics"], "inputTokens", "outputTokens");
                writer.response_completed(&text, usage, has_tool_calls);
                writer.note(cost_of(&message["metrics"]["cost"]));
            }
            for call in calls() {
                let (id, name) = (call["id"].text(), call["name"].text());
                writer.tool_started(id, name, &call["input"].arguments(), when, true);
            }
            if is_new {
                writer.answered(&text, has_tool_calls);
            }
        }
    }
}

/// Returns the text of a message, which is a text or a list of parts.
fn text_of(content: &Json<'_>) -> String {
    let parts = content.list().iter();
    let texts = parts.filter(|part| part["type"].text() == "text");
    let texts: Vec<&str> = texts.map(|part| part["text"].text()).collect();
    content.text().to_owned() + &texts.join("\n")
}

/// Returns what the user has typed, which Cline encloses in `<user_input mode="act">`.
fn typed(text: &str) -> &str {
    let inner = text
        .split_once("<user_input")
        .and_then(|(_, rest)| rest.split_once('>'));
    let inner = inner.and_then(|(_, rest)| rest.split_once("</user_input>"));
    inner.map_or(text, |(typed, _)| typed)
}

fn results(parts: &[Json<'_>], when: EventTime, writer: &mut EventWriter) {
    for part in parts
        .iter()
        .filter(|part| part["type"].text() == "tool_result")
    {
        let content = &part["content"];
        // One command of several has failed.
        let has_failed = |run: &Json<'_>| run["success"].as_bool() == Some(false);
        let is_good =
            part["is_error"].as_bool() != Some(true) && !content.list().iter().any(has_failed);
        let text = content.any_text();
        let mut runs = content.list().iter();
        let of_run =
            runs.find_map(|run| Some(first([run["result"].as_str()?, run["error"].text()])));
        let text = first([text.as_str(), of_run.unwrap_or_default()]);
        writer.tool_completed(part["tool_use_id"].text(), is_good, text, when);
        writer.working("a tool's result");
    }
}
