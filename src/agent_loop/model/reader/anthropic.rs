//! Anthropic's Messages API: a message from `message_start` to `message_stop`, with all of its
//! tools' inputs.

use serde_json::Value;

use super::super::intake::Intake;
use super::super::response::StopReason;
use super::{Dialect, Flaw};

/// Where the message stands.
#[derive(Debug, Default)]
pub(in super::super) struct Anthropic {
    /// Calls whose input is not complete: the index of their block, and their place.
    open: Vec<(u64, usize)>,
    is_over: bool,
}

impl Dialect for Anthropic {
    fn event(&mut self, event: &Value, intake: &mut Intake<'_>) -> Result<(), Flaw> {
        let index = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => count(&event["message"]["usage"], intake),
            "content_block_start" => return self.block(index, &event["content_block"], intake),
            "content_block_delta" => {
                let delta = &event["delta"];
                if let Some(text) = delta["text"].as_str() {
                    intake.text(text.to_owned());
                } else if let Some(json) = delta["partial_json"].as_str()
                    && let Some((_, at)) = self.open.iter().find(|(open, _)| *open == index)
                    && !intake.input(*at, json)
                {
                    return Err(Flaw::new("the inputs of the tools are too long"));
                }
            }
            "content_block_stop" => {
                if let Some(open) = self.open.iter().position(|(open, _)| *open == index) {
                    let (_, at) = self.open.remove(open);
                    intake.call_done(at);
                }
            }
            "message_delta" => {
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    intake.stop(match reason {
                        "end_turn" => StopReason::EndTurn,
                        "tool_use" => StopReason::ToolUse,
                        "max_tokens" => StopReason::MaxTokens,
                        "stop_sequence" => StopReason::StopSequence,
                        "refusal" => StopReason::Refusal,
                        other => StopReason::Other(other.to_owned()),
                    });
                }
                count(&event["usage"], intake);
            }
            "message_stop" => self.is_over = true,
            "error" => return Err(failure(&event["error"])),
            // Pings, and what a newer version says.
            _ => {}
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.is_over
    }

    fn is_done(&self) -> bool {
        self.is_over
    }
}

impl Anthropic {
    fn block(&mut self, index: u64, block: &Value, intake: &mut Intake<'_>) -> Result<(), Flaw> {
        // Tools that the API runs itself are its own affair.
        if block["type"] == "tool_use" {
            let (id, name) = (&block["id"], &block["name"]);
            let at = intake.call(
                id.as_str().unwrap_or_default(),
                name.as_str().unwrap_or_default(),
            );
            let at = at.ok_or_else(|| Flaw::new("the answer calls too many tools"))?;
            // Empty as a rule: it follows in deltas.
            let input = block["input"].as_object().filter(|input| !input.is_empty());
            if input.is_some() {
                intake.input(at, &block["input"].to_string());
            }
            self.open.push((index, at));
        } else if let Some(text) = block["text"].as_str() {
            intake.text(text.to_owned());
        }
        Ok(())
    }
}

/// Counts are of the whole message so far: the last one of each holds.
fn count(usage: &Value, intake: &mut Intake<'_>) {
    if let Some(tokens) = usage["input_tokens"].as_u64() {
        intake.usage().input_tokens = tokens;
    }
    if let Some(tokens) = usage["output_tokens"].as_u64() {
        intake.usage().output_tokens = tokens;
    }
}

/// What an API says of its failure.
pub(super) fn failure(error: &Value) -> Flaw {
    let kind = error["type"].as_str().or(error["code"].as_str());
    let message = error["message"].as_str().or(error.as_str());
    Flaw::new(match (kind, message) {
        (Some(kind), Some(message)) => format!("the API failed: {kind}: {message}"),
        (Some(one), None) | (None, Some(one)) => format!("the API failed: {one}"),
        (None, None) => format!("the API failed: {error}"),
    })
}
