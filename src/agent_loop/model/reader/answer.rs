//! Interfaces of the readers of answers.

use serde_json::Value;

use super::super::error::ReadResult;
use super::super::response_builder::ResponseBuilder;

pub(in super::super) trait AnswerReader: Send {
    /// Processes bytes, cut anywhere.
    ///
    /// # Errors
    /// When the answer cannot become complete.
    fn push(&mut self, bytes: &[u8], response: &mut ResponseBuilder<'_>) -> ReadResult;

    /// Ends the answer.
    ///
    /// # Errors
    /// When the answer is incomplete.
    fn finish(&mut self, response: &mut ResponseBuilder<'_>) -> ReadResult;

    /// Returns true if the answer is complete, so that later bytes do not belong to it.
    fn is_done(&self) -> bool {
        false
    }

    /// Returns the last text outside of records, which may explain a missing answer.
    fn other_text(&self) -> &str {
        ""
    }
}

/// Interprets the events of one API.
pub(in super::super) trait Dialect: Send {
    /// Processes an event.
    ///
    /// # Errors
    /// When the API reports a failure, or the event makes the answer incomplete.
    fn event(&mut self, event: &Value, response: &mut ResponseBuilder<'_>) -> ReadResult;

    fn done(&mut self, _response: &mut ResponseBuilder<'_>) {}

    /// Returns true if the answer is complete when its stream has ended.
    fn is_complete(&self) -> bool {
        self.is_done()
    }

    /// Returns true if later events do not belong to the answer.
    fn is_done(&self) -> bool;
}

/// Sets the usage. Counts are cumulative, so the last ones are final.
pub(super) fn set_usage(
    input_tokens: &Value,
    output_tokens: &Value,
    response: &mut ResponseBuilder<'_>,
) {
    let usage = response.usage();
    usage.input_tokens = input_tokens.as_u64().unwrap_or(usage.input_tokens);
    usage.output_tokens = output_tokens.as_u64().unwrap_or(usage.output_tokens);
}
