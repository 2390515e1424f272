//! OpenAI's chat completions: chunks, a finish reason, perhaps a count of tokens, `[DONE]`; with
//! all of the tools' inputs.

use serde_json::Value;

use super::super::intake::Intake;
use super::super::response::StopReason;
use super::anthropic::failure;
use super::{Dialect, Flaw};

/// Where the answer stands.
#[derive(Debug, Default)]
pub(in super::super) struct Chat {
    /// Calls, by the index that the API gives them, and their place.
    calls: Vec<(u64, usize)>,
    /// Why it ends was said.
    is_finished: bool,
    is_over: bool,
}

impl Dialect for Chat {
    fn event(&mut self, event: &Value, intake: &mut Intake<'_>) -> Result<(), Flaw> {
        if !event["error"].is_null() {
            return Err(failure(&event["error"]));
        }
        let usage = &event["usage"];
        if let Some(tokens) = usage["prompt_tokens"].as_u64() {
            intake.usage().input_tokens = tokens;
        }
        if let Some(tokens) = usage["completion_tokens"].as_u64() {
            intake.usage().output_tokens = tokens;
        }
        let choices = event["choices"].as_array().map_or(&[][..], Vec::as_slice);
        for choice in choices {
            // Other answers to the same prompt would be mixed into this one.
            if choice["index"].as_u64().unwrap_or_default() == 0 {
                self.choice(choice, intake)?;
            }
        }
        Ok(())
    }

    fn done(&mut self, intake: &mut Intake<'_>) {
        self.end_calls(intake);
        self.is_over = true;
    }

    fn is_whole(&self) -> bool {
        // Without a reason it was `[DONE]` that was said of something else.
        self.is_over && self.is_finished
    }

    fn is_done(&self) -> bool {
        self.is_over
    }
}

impl Chat {
    fn choice(&mut self, choice: &Value, intake: &mut Intake<'_>) -> Result<(), Flaw> {
        let delta = &choice["delta"];
        for text in [&delta["content"], &delta["refusal"]] {
            if let Some(text) = text.as_str() {
                intake.text(text.to_owned());
            }
        }
        let calls = delta["tool_calls"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        for call in calls {
            self.call(call, intake)?;
        }
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.is_finished = true;
            // What was cut has no input that is whole, and says so itself.
            self.end_calls(intake);
            intake.stop(match reason {
                "stop" => StopReason::EndTurn,
                "tool_calls" | "function_call" => StopReason::ToolUse,
                "length" => StopReason::MaxTokens,
                "content_filter" => StopReason::Refusal,
                other => StopReason::Other(other.to_owned()),
            });
        }
        Ok(())
    }

    fn call(&mut self, call: &Value, intake: &mut Intake<'_>) -> Result<(), Flaw> {
        let index = call["index"].as_u64().unwrap_or_default();
        let function = &call["function"];
        let known = self.calls.iter().find(|(known, _)| *known == index);
        let at = match known {
            Some((_, at)) => *at,
            None => {
                let (id, name) = (&call["id"], &function["name"]);
                let at = intake.call(
                    id.as_str().unwrap_or_default(),
                    name.as_str().unwrap_or_default(),
                );
                let at = at.ok_or_else(|| Flaw::new("the answer calls too many tools"))?;
                self.calls.push((index, at));
                at
            }
        };
        let arguments = function["arguments"].as_str().unwrap_or_default();
        match intake.input(at, arguments) {
            true => Ok(()),
            false => Err(Flaw::new("the inputs of the tools are too long")),
        }
    }

    fn end_calls(&mut self, intake: &mut Intake<'_>) {
        for (_, at) in &self.calls {
            intake.call_done(*at);
        }
    }
}
