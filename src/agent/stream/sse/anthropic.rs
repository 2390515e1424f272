//! The Anthropic Messages API: a message from `message_start` to `message_stop` (pure).

use super::super::claude::{Event, Live, Streamed};
use super::super::grammar::Grammar;
use super::super::scribe::Scribe;
use super::super::standing::Standing;

/// The meaning of Anthropic's stream.
#[derive(Debug, Default)]
pub struct Anthropic {
    live: Live,
}

impl Grammar for Anthropic {
    type Record<'a> = Event<'a>;

    fn record(&mut self, event: Event<'_>, scribe: &mut Scribe) {
        match event.kind.as_str() {
            "message_start" => {
                if scribe.standing() == Standing::Working {
                    scribe.cut("another message began");
                }
                scribe.working("message_start");
            }
            "ping" => return,
            "" => {}
            _ if scribe.standing() == Standing::Unknown => scribe.working("an event"),
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
            // The body of an answer that is no stream.
            return match error {
                Some(error) => scribe.failed(&error, "an error in the place of a stream"),
                None => scribe.unknown(),
            };
        }
        let when = scribe.when(None);
        match self.live.event(event, when, false, scribe) {
            Streamed::Goes => {}
            Streamed::Failed => {
                scribe.failed(error.as_deref().unwrap_or("error"), "an error event");
            }
            Streamed::Stopped => self.stopped(scribe),
        }
    }
}

impl Anthropic {
    fn stopped(&mut self, scribe: &mut Scribe) {
        let live = std::mem::take(&mut self.live);
        scribe.said(live.text.as_str());
        scribe.response(live.text.as_str(), live.usage, live.has_tool_calls);
        // An answer is whole; an agent that could complete is not in sight.
        scribe.told();
        match live.stop_reason.as_str() {
            // Who asked is to run the tools, or to ask again.
            "tool_use" | "pause_turn" => {
                scribe.stand(
                    Standing::Unknown,
                    format!("stop_reason {}", live.stop_reason),
                );
            }
            reason => {
                scribe.turn_completed(reason);
                if matches!(
                    reason,
                    "max_tokens" | "refusal" | "model_context_window_exceeded"
                ) {
                    scribe.warn(format!("the answer is not whole: {reason}"));
                }
                scribe.stand(
                    Standing::Done,
                    format!("message_stop, stop_reason {reason}"),
                );
            }
        }
    }
}
