//! Events of OpenAI's chat completions: chunks, a finish reason, an optional usage, and `[DONE]`, with
//! the inputs of tools.

use serde_json::Value;

use super::super::response::StopReason;
use super::super::response_builder::ResponseBuilder;
use super::answer::{AnswerError, Dialect};
use super::anthropic::failure;

/// The state of an answer.
#[derive(Debug, Default)]
pub(in super::super) struct ChatDialect {
    /// Calls: their index in the API, and their own index.
    calls: Vec<(u64, usize)>,
    /// True after a finish reason.
    is_finished: bool,
    is_done: bool,
}

impl Dialect for ChatDialect {
    fn event(
        &mut self,
        event: &Value,
        response: &mut ResponseBuilder<'_>,
    ) -> Result<(), AnswerError> {
        if !event["error"].is_null() {
            return Err(failure(&event["error"]));
        }
        let usage = &event["usage"];
        if let Some(tokens) = usage["prompt_tokens"].as_u64() {
            response.usage().input_tokens = tokens;
        }
        if let Some(tokens) = usage["completion_tokens"].as_u64() {
            response.usage().output_tokens = tokens;
        }
        let choices = event["choices"].as_array().map_or(&[][..], Vec::as_slice);
        for choice in choices {
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
        // Without a finish reason, `[DONE]` does not end an answer.
        self.is_done && self.is_finished
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

impl ChatDialect {
    fn choice(
        &mut self,
        choice: &Value,
        response: &mut ResponseBuilder<'_>,
    ) -> Result<(), AnswerError> {
        let delta = &choice["delta"];
        for text in [&delta["content"], &delta["refusal"]] {
            if let Some(text) = text.as_str() {
                response.text(text.to_owned());
            }
        }
        let calls = delta["tool_calls"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        for call in calls {
            self.call(call, response)?;
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.is_finished = true;
            // The input of a truncated call is invalid, which its own error reports.
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

    fn call(
        &mut self,
        call: &Value,
        response: &mut ResponseBuilder<'_>,
    ) -> Result<(), AnswerError> {
        let index = call["index"].as_u64().unwrap_or_default();
        let function = &call["function"];
        let known = self.calls.iter().find(|(known, _)| *known == index);
        let call_index = match known {
            Some((_, call_index)) => *call_index,
            None => {
                let (id, name) = (&call["id"], &function["name"]);
                let call_index = response.begin_call(
                    id.as_str().unwrap_or_default(),
                    name.as_str().unwrap_or_default(),
                );
                let call_index = call_index
                    .ok_or_else(|| AnswerError::new("the answer calls too many tools"))?;
                self.calls.push((index, call_index));
                call_index
            }
        };
        let arguments = function["arguments"].as_str().unwrap_or_default();
        match response.add_input(call_index, arguments) {
            true => Ok(()),
            false => Err(AnswerError::new("the inputs of the tools are too long")),
        }
    }

    fn end_calls(&mut self, response: &mut ResponseBuilder<'_>) {
        for (_, call_index) in &self.calls {
            response.end_call(*call_index);
        }
    }
}
