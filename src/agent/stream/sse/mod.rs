//! Server-sent events: how they are framed, and what three APIs say in them (pure).

mod anthropic;
mod chat;
mod frame;
mod record;
mod responses;

pub(super) use anthropic::Anthropic;
pub(super) use chat::Chat;
pub(super) use frame::{Event, Frames, SseEvents};
pub(crate) use record::{SseRecord, SseRecords};
pub(super) use responses::Responses;
