//! Interprets events of Anthropic's Messages API, from `message_start` to `message_stop`, with complete
//! tool inputs.

use serde_json::Value;

use super::super::error::{AnswerError, ReadResult};
use super::super::response::StopReason;
use super::super::response_builder::ResponseBuilder;
use super::answer::{Dialect, set_usage};

#[derive(Debug, Default)]
pub(in super::super) struct AnthropicDialect {
    /// Calls whose input is incomplete: the indexes of their blocks and of the calls.
    open: Vec<(u64, usize)>,
    is_done: bool,
}

impl Dialect for AnthropicDialect {
    fn event(&mut self, event: &Value, response: &mut ResponseBuilder<'_>) -> ReadResult {
        let index = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                let usage = &event["message"]["usage"];
                set_usage(&usage["input_tokens"], &usage["output_tokens"], response);
            }
            "content_block_start" => return self.block(index, &event["content_block"], response),
            "content_block_delta" => {
                let delta = &event["delta"];
                if let Some(text) = delta["text"].as_str() {
                    response.text(text.to_owned());
                } else if let Some(json) = delta["partial_json"].as_str()
                    && let Some((_, call)) = self.open.iter().find(|(open, _)| *open == index)
                {
                    response.add_input(*call, json)?;
                }
            }
            "content_block_stop" => {
                if let Some(open) = self.open.iter().position(|(open, _)| *open == index) {
                    let (_, call) = self.open.remove(open);
                    response.end_call(call);
                }
            }
            "message_delta" => {
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    response.stop(match reason {
                        "end_turn" => StopReason::EndTurn,
                        "tool_use" => StopReason::ToolUse,
                        "max_tokens" => StopReason::MaxTokens,
                        "stop_sequence" => StopReason::StopSequence,
                        "refusal" => StopReason::Refusal,
                        other => StopReason::Other(other.to_owned()),
                    });
                }
                let usage = &event["usage"];
                set_usage(&usage["input_tokens"], &usage["output_tokens"], response);
            }
            "message_stop" => self.is_done = true,
            "error" => return Err(failure(&event["error"])),
            // Pings, and events of newer versions.
            _ => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

impl AnthropicDialect {
    fn block(
        &mut self,
        index: u64,
        block: &Value,
        response: &mut ResponseBuilder<'_>,
    ) -> ReadResult {
        // Tools that the API runs itself are skipped.
        if block["type"] == "tool_use" {
            let (id, name) = (block["id"].as_str(), block["name"].as_str());
            let call = response.begin_call(id.unwrap_or_default(), name.unwrap_or_default())?;
            // Usually empty, because the input follows in deltas.
            let input = block["input"].as_object().filter(|input| !input.is_empty());
            if input.is_some() {
                response.add_input(call, &block["input"].to_string())?;
            }
            self.open.push((index, call));
        } else if let Some(text) = block["text"].as_str() {
            response.text(text.to_owned());
        }
        Ok(())
    }
}

pub(super) fn failure(error: &Value) -> AnswerError {
    let kind = error["type"].as_str().or(error["code"].as_str());
    let message = error["message"].as_str().or(error.as_str());
    AnswerError::new(match (kind, message) {
        (Some(kind), Some(message)) => format!("the API failed: {kind}: {message}"),
        (Some(text), None) | (None, Some(text)) => format!("the API failed: {text}"),
        (None, None) => format!("the API failed: {error}"),
    })
}
