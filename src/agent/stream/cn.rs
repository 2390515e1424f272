//! Continue CLI's session files: a document of messages without ids and times (pure).
//!
//! Measured on 1.5: `~/.continue/sessions/SESSION.json`. Failures, and turns that the user has stopped, are not
//! recorded, except that a tool was refused; the last message of a turn is the answer without a tool.

use super::document::MessageHandler;
use super::note::CostTotal;
use super::{EventWriter, Json, StreamStatus, TokenUsage};
use crate::timestamp::Timestamp;

#[derive(Debug, Default)]
pub struct CnHistory {
    cost: CostTotal,
}

impl MessageHandler for CnHistory {
    fn list<'a>(&self, document: &'a Json<'a>) -> &'a Json<'a> {
        &document["history"]
    }

    fn identity(&self, item: &Json<'_>) -> String {
        let message = &item["message"];
        format!(
            "{} {}",
            message["role"].text(),
            message["content"].arguments()
        )
    }

    fn time(&self, _item: &Json<'_>) -> Option<Timestamp> {
        None
    }

    fn head(&mut self, document: &Json<'_>, writer: &mut EventWriter) {
        let session = document["sessionId"].text();
        writer.note(self.cost.added(session, &document["usage"]["totalCost"]));
    }

    fn message(&mut self, item: &Json<'_>, is_new: bool, writer: &mut EventWriter) {
        let message = &item["message"];
        match message["role"].text() {
            "user" if is_new => {
                writer.abandon_tools();
                writer.prompt_sent(message["content"].any_text().as_str());
            }
            "assistant" => {
                let content = &message["content"];
                let parts = content.list().iter().map(|part| part["text"].text());
                let text = content.text().to_owned() + &parts.collect::<String>();
                let has_tool_calls = !message["toolCalls"].list().is_empty();
                if is_new {
                    writer.set_answer(&text);
                    writer.token(text.as_str().into());
                    let usage =
                        TokenUsage::of(&message["usage"], "prompt_tokens", "completion_tokens");
                    writer.response_completed(&text, usage, has_tool_calls);
                    writer.answered(&text, has_tool_calls);
                }
                for state in item["toolCallStates"].list() {
                    tool(state, writer);
                }
            }
            _ => {}
        }
    }
}

fn tool(state: &Json<'_>, writer: &mut EventWriter) {
    let (id, when) = (state["toolCallId"].text(), writer.time(None));
    let function = &state["toolCall"]["function"];
    let arguments = function["arguments"].arguments();
    writer.tool_started(id, function["name"].text(), &arguments, when, true);
    let status = state["status"].text();
    if !matches!(status, "done" | "errored" | "canceled") {
        return;
    }
    let text = state["output"].any_text();
    writer.tool_completed(id, status == "done", text.as_str(), when);
    // The agent waits for the user when a tool is refused.
    if status == "canceled" && writer.status == StreamStatus::Working {
        writer.interrupted("a human refused a tool".to_owned());
    }
}
