//! Interprets OpenAI's chat completions: chunks, a finish reason, an optional usage, and `[DONE]`, with
//! complete tool inputs.

use serde_json::Value;

use super::super::error::ReadResult;
use super::super::response::StopReason;
use super::super::response_builder::ResponseBuilder;
use super::answer::{Dialect, set_usage};
use super::anthropic::failure;

#[derive(Debug, Default)]
pub(in super::super) struct ChatDialect {
    /// The calls: their indexes in the API and in the response.
    calls: Vec<(u64, usize)>,
    /// True after a finish reason.
    is_finished: bool,
    is_done: bool,
}

impl Dialect for ChatDialect {
    fn event(&mut self, event: &Value, response: &mut ResponseBuilder<'_>) -> ReadResult {
        if !event["error"].is_null() {
            return Err(failure(&event["error"]));
        }
        let usage = &event["usage"];
        set_usage(
            &usage["prompt_tokens"],
            &usage["completion_tokens"],
            response,
        );
        for choice in event["choices"].as_array().into_iter().flatten() {
            // Alternative answers to the same prompt are skipped.
            if choice["index"].as_u64().unwrap_or_default() == 0 {
                self.choice(choice, response)?;
            }
        }
        Ok(())
    }

    fn done(&mut self, response: &mut ResponseBuilder<'_>) {
        self.end_calls(response);
        self.is_done = true;
    }

    fn is_complete(&self) -> bool {
        // `[DONE]` alone does not complete an answer; a finish reason must precede it.
        self.is_done && self.is_finished
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

impl ChatDialect {
    fn choice(&mut self, choice: &Value, response: &mut ResponseBuilder<'_>) -> ReadResult {
        let delta = &choice["delta"];
        for text in [&delta["content"], &delta["refusal"]] {
            if let Some(text) = text.as_str() {
                response.text(text.to_owned());
            }
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call, response)?;
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.is_finished = true;
            // The input of a truncated call is invalid, which the parsing of the input reports.
            self.end_calls(response);
            response.stop(match reason {
                "stop" => StopReason::EndTurn,
                "tool_calls" | "function_call" => StopReason::ToolUse,
                "length" => StopReason::MaxTokens,
                "content_filter" => StopReason::Refusal,
                other => StopReason::Other(other.to_owned()),
            });
        }
        Ok(())
    }

    fn call(&mut self, call: &Value, response: &mut ResponseBuilder<'_>) -> ReadResult {
        let index = call["index"].as_u64().unwrap_or_default();
        let function = &call["function"];
        let known = self.calls.iter().find(|(known, _)| *known == index);
        let call_index = match known {
            Some((_, call_index)) => *call_index,
            None => {
                let (id, name) = (call["id"].as_str(), function["name"].as_str());
                let call_index =
                    response.begin_call(id.unwrap_or_default(), name.unwrap_or_default())?;
                self.calls.push((index, call_index));
                call_index
            }
        };
        let arguments = function["arguments"].as_str().unwrap_or_default();
        response.add_input(call_index, arguments)
    }

    fn end_calls(&mut self, response: &mut ResponseBuilder<'_>) {
        for (_, call_index) in &self.calls {
            response.end_call(*call_index);
        }
    }
}
