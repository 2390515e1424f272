//! The Anthropic Messages API: a message from `message_start` to `message_stop` (pure).

use crate::agent::stream::claude::{ApiEvent, LiveMessage, StreamStep};
use crate::agent::stream::{EventWriter, RecordHandler, StreamStatus};

#[derive(Debug, Default)]
pub struct AnthropicMessage {
    message: LiveMessage,
}

impl RecordHandler for AnthropicMessage {
    type Record<'a> = ApiEvent<'a>;

    fn record(&mut self, event: ApiEvent<'_>, writer: &mut EventWriter) {
        match event.kind.as_str() {
            "message_start" => {
                writer.cut_off_by("another message began");
                writer.working("message_start");
            }
            "ping" => return,
            "" => {}
            _ if writer.status() == StreamStatus::Unknown => writer.working("an event"),
            _ => {}
        }
        let error = event.error.0.as_ref();
        let error = error.map(|error| {
            let kind = error.kind.get().unwrap_or("error");
            match error.message.as_str() {
                "" => kind.to_owned(),
                message => format!("{kind}: {message}"),
            }
        });
        if event.kind.is_absent() {
            // The body of a response that is not a stream.
            return match error {
                Some(error) => writer.failed(&error, "an error in the place of a stream"),
                None => writer.mark_unknown(),
            };
        }
        let when = writer.time(None);
        match self.message.event(event, when, false, writer) {
            StreamStep::Continues => {}
            StreamStep::Failed => {
                writer.failed(error.as_deref().unwrap_or("error"), "an error event");
            }
            StreamStep::Stopped => self.stopped(writer),
        }
    }
}

impl AnthropicMessage {
    fn stopped(&mut self, writer: &mut EventWriter) {
        let message = std::mem::take(&mut self.message);
        writer.api_answer(message.text.as_str(), message.usage, message.has_tool_calls);
        let reason = message.stop_reason.as_str();
        let is_whole = !matches!(
            reason,
            "max_tokens" | "refusal" | "model_context_window_exceeded"
        );
        match reason {
            // The caller must run the tools or repeat the request.
            "tool_use" | "pause_turn" => {
                writer.set_status(StreamStatus::Unknown, format!("stop_reason {reason}"));
            }
            _ => {
                let evidence = format!("message_stop, stop_reason {reason}");
                writer.end_api_turn(reason, is_whole, evidence);
            }
        }
    }
}
