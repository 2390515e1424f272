//! Qwen Code's session files: messages, tools with ids, and telemetry of errors (pure).
//!
//! Measured on 0.24.4: `~/.qwen/projects/DIRECTORY/chats/SESSION.jsonl`. No record marks the end of
//! a turn; its last record is the answer without a tool.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    AnyText, EventTime, EventWriter, Flag, List, Maybe, RecordHandler, Str, StreamStatus, Time,
    token_counts,
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
pub struct QwenRecord<'a> {
    timestamp: Time<'a>,
    #[serde(rename = "type")]
    kind: Str<'a>,
    subtype: Str<'a>,
    message: Maybe<QwenMessage<'a>>,
    usage_metadata: Maybe<QwenTokens>,
    tool_call_result: Maybe<CallResult<'a>>,
    system_payload: Maybe<Payload<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct QwenMessage<'a> {
    parts: List<QwenPart<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct QwenPart<'a> {
    text: Str<'a>,
    thought: Flag,
    function_call: Maybe<FunctionCall<'a>>,
    function_response: Maybe<FunctionResponse<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct FunctionCall<'a> {
    id: Str<'a>,
    name: Str<'a>,
    args: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct FunctionResponse<'a> {
    id: Str<'a>,
    response: AnyText,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct CallResult<'a> {
    status: Str<'a>,
}

token_counts!(QwenTokens, "promptTokenCount", "candidatesTokenCount");

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, bound(deserialize = "'de: 'a"))]
struct Payload<'a> {
    ui_event: Maybe<UiEvent<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct UiEvent<'a> {
    #[serde(rename = "event.name")]
    name: Str<'a>,
    error_message: Str<'a>,
    prompt_id: Str<'a>,
}

/// Separates the session from the number of the prompt in a prompt id. Requests of sub-agents and
/// of background work, such as Qwen Code's memory, have a name in this place: `SESSION#NAME-ID#0`.
const PROMPT_NUMBER: &str = "########";

impl UiEvent<'_> {
    /// Returns true if the record is about a request of the conversation itself.
    fn is_of_conversation(&self) -> bool {
        let id = self.prompt_id.as_str();
        let number = id.rsplit_once(PROMPT_NUMBER).map(|(_, number)| number);
        id.is_empty()
            || number.is_some_and(|number| {
                !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
            })
    }
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
    type Record<'a> = QwenRecord<'a>;

    fn record(&mut self, record: QwenRecord<'_>, writer: &mut EventWriter) {
        let when = writer.time(record.timestamp.read());
        match record.kind.as_str() {
            "user" => {
                *self = Self {
                    records_responses: self.records_responses,
                    ..Self::default()
                };
                prompt(&record, writer);
            }
            "assistant" => self.answer(record, when, writer),
            "tool_result" => {
                self.has_response = false;
                let is_good = record
                    .tool_call_result
                    .0
                    .is_none_or(|result| matches!(result.status.as_str(), "" | "success"));
                let parts = record.message.0.unwrap_or_default().parts.0;
                for response in parts
                    .into_iter()
                    .filter_map(|part| part.function_response.0)
                {
                    let text = response.response.text.as_str();
                    writer.tool_completed(response.id.as_str(), is_good, text, when);
                }
                writer.working("a tool's result");
            }
            "system" => {
                let payload = record.system_payload.0.unwrap_or_default();
                let event = payload.ui_event.0.unwrap_or_default();
                if record.subtype.as_str() != "ui_telemetry" || !event.is_of_conversation() {
                    return;
                }
                match event.name.as_str() {
                    "qwen-code.api_response" => {
                        (self.has_response, self.records_responses) = (true, true);
                        let is_answer = writer.open_tools().next().is_none();
                        if writer.status() == StreamStatus::Working && is_answer {
                            self.is_unwritten = true;
                            writer.set_status(
                                StreamStatus::MaybeDone,
                                "inferred: the API has answered",
                            );
                        }
                    }
                    // If the request is retried, an answer follows.
                    "qwen-code.api_error" => {
                        writer.failed(event.error_message.as_str(), "an API error");
                    }
                    _ => {}
                }
            }
            _ => writer.mark_unknown(),
        }
    }

    fn end_turn(&mut self, writer: &mut EventWriter) {
        if self.is_unwritten || writer.status() == StreamStatus::Working {
            self.is_over = true;
        } else {
            writer.end_turn();
        }
    }
}

fn prompt(record: &QwenRecord<'_>, writer: &mut EventWriter) {
    let Some(message) = &record.message.0 else {
        return;
    };
    let texts = message.parts.0.iter().map(|part| part.text.as_str());
    let text = texts.collect::<Vec<&str>>().join("\n");
    if text.trim().is_empty() {
        return;
    }
    writer.abandon_tools();
    writer.prompt_sent(&text);
}

impl QwenSession {
    fn answer(&mut self, record: QwenRecord<'_>, when: EventTime, writer: &mut EventWriter) {
        let parts = record.message.0.unwrap_or_default().parts.0;
        let (mut text, mut has_tool_calls) = (String::new(), false);
        for part in &parts {
            if !part.text.is_absent() && !part.thought.is_set() {
                text.push_str(part.text.as_str());
            }
        }
        writer.set_answer(&text);
        writer.token(text.clone().into());
        for call in parts
            .iter()
            .filter_map(|part| part.function_call.0.as_ref())
        {
            has_tool_calls = true;
            let args = call.args.map_or("", RawValue::get);
            writer.tool_started(call.id.as_str(), call.name.as_str(), args, when, true);
        }
        // An answer that the user has stopped is recorded as far as it arrived, without the
        // response of the API.
        let is_stopped =
            self.records_responses && !self.has_response && record.usage_metadata.0.is_none();
        self.has_response = false;
        self.is_unwritten = false;
        let usage = record.usage_metadata.0.unwrap_or_default().usage();
        writer.response_completed(&text, usage, has_tool_calls);
        if is_stopped && !has_tool_calls {
            return writer.interrupted("a human interrupted it".to_owned());
        }
        writer.answered(&text, has_tool_calls);
        if writer.status() == StreamStatus::MaybeDone && std::mem::take(&mut self.is_over) {
            writer.end_turn();
        }
    }
}
