//! Qwen Code's session files: messages, tools with ids, and telemetry of errors (pure).
//!
//! Measured on 0.24.4: `~/.qwen/projects/DIRECTORY/chats/SESSION.jsonl`. No record marks the end of
//! a turn; its last record is the answer without a tool.

use super::{EventTime, EventWriter, Json, RecordHandler, StreamStatus, TokenUsage};

/// Returns true if a prompt id is that of the conversation itself: `SESSION########NUMBER`. Requests
/// of sub-agents and of background work, such as Qwen Code's memory, have the id `SESSION#NAME-ID#0`.
fn is_of_conversation(id: &str) -> bool {
    let number = id.rsplit_once("########").map(|(_, number)| number);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    id.is_empty() || number.is_some_and(is_number)
}

#[derive(Debug, Default)]
pub struct QwenSession {
    /// True if the API has responded since the last record of the conversation.
    has_response: bool,
    /// True if the session records the responses of the API.
    records_responses: bool,
    /// True if the API has responded, but the answer is not written yet, which may take seconds.
    is_unwritten: bool,
    /// True if the screen showed the end of the turn before the answer was written.
    is_over: bool,
}

impl RecordHandler for QwenSession {
    fn record(&mut self, record: &Json<'_>, writer: &mut EventWriter) {
        let when = writer.time(record["timestamp"].time());
        match record["type"].text() {
            "user" => {
                *self = Self {
                    records_responses: self.records_responses,
                    ..Self::default()
                };
                prompt(record, writer);
            }
            "assistant" => self.answer(record, when, writer),
            "tool_result" => {
                self.has_response = false;
                let status = record["toolCallResult"]["status"].text();
                let is_good = matches!(status, "" | "success");
                for part in record["message"]["parts"].list() {
                    let response = &part["functionResponse"];
                    if response.is_object() {
                        let text = response["response"].any_text();
                        writer.tool_completed(response["id"].text(), is_good, text.as_str(), when);
                    }
                }
                writer.working("a tool's result");
            }
            "system" => {
                let event = &record["systemPayload"]["uiEvent"];
                let is_its = is_of_conversation(event["prompt_id"].text());
                if record["subtype"].text() != "ui_telemetry" || !is_its {
                    return;
                }
                match event["event.name"].text() {
                    "qwen-code.api_response" => {
                        (self.has_response, self.records_responses) = (true, true);
                        let is_answer = writer.tools.own_open().next().is_none();
                        if writer.status == StreamStatus::Working && is_answer {
                            self.is_unwritten = true;
                            writer.set_status(
                                StreamStatus::MaybeDone,
                                "inferred: the API has answered",
                            );
                        }
                    }
                    // If the request is retried, an answer follows.
                    "qwen-code.api_error" => {
                        writer.failed(event["error_message"].text(), "an API error");
                    }
                    _ => {}
                }
            }
            _ => writer.mark_unknown(),
        }
    }

    fn end_turn(&mut self, writer: &mut EventWriter) {
        if self.is_unwritten || writer.status == StreamStatus::Working {
            self.is_over = true;
        } else {
            writer.end_turn();
        }
    }
}

fn prompt(record: &Json<'_>, writer: &mut EventWriter) {
    let parts = record["message"]["parts"].list().iter();
    let text = parts
        .map(|part| part["text"].text())
        .collect::<Vec<_>>()
        .join("\n");
    if !text.trim().is_empty() {
        writer.abandon_tools();
        writer.prompt_sent(&text);
    }
}

impl QwenSession {
    fn answer(&mut self, record: &Json<'_>, when: EventTime, writer: &mut EventWriter) {
        let parts = record["message"]["parts"].list();
        let texts = parts
            .iter()
            .filter(|part| part["thought"].as_bool() != Some(true));
        let text: String = texts.map(|part| part["text"].text()).collect();
        writer.set_answer(&text);
        writer.token(text.clone().into());
        let mut has_tool_calls = false;
        for call in parts.iter().map(|part| &part["functionCall"]) {
            if call.is_object() {
                has_tool_calls = true;
                let (id, arguments) = (call["id"].text(), call["args"].arguments());
                writer.tool_started(id, call["name"].text(), &arguments, when, true);
            }
        }
        let usage = &record["usageMetadata"];
        // An answer that the user has stopped is recorded as far as it arrived, without the
        // response of the API.
        let is_stopped = self.records_responses && !self.has_response && !usage.is_object();
        self.has_response = false;
        self.is_unwritten = false;
        let usage = TokenUsage::of(usage, "promptTokenCount", "candidatesTokenCount")
            .with_thoughts(&usage["thoughtsTokenCount"], &usage["totalTokenCount"]);
        writer.response_completed(&text, usage, has_tool_calls);
        if is_stopped && !has_tool_calls {
            return writer.interrupted("a human interrupted it".to_owned());
        }
        writer.answered(&text, has_tool_calls);
        if writer.status == StreamStatus::MaybeDone && std::mem::take(&mut self.is_over) {
            writer.end_turn();
        }
    }
}
