//! Server-sent events: their framing and the events of three APIs (pure).

mod frame;

mod anthropic;
mod chat;
mod record;
mod responses;

pub(super) use anthropic::AnthropicMessage;
pub(super) use chat::ChatCompletion;
pub(super) use frame::{Framing, SseEvent, SseFrames};
pub(crate) use record::{SseRecord, SseRecords};
pub(super) use responses::ResponseStream;
