//! Messages for tests.

use serde_json::{Value, json};

use super::wire::{Channel, Message, Signer};
use super::zmtp::Multipart;

/// Returns a kernel's message about the execution request `id`.
pub(super) fn message(channel: Channel, msg_type: &str, id: &str, content: Value) -> Message {
    answer(channel, msg_type, (id, "execute_request"), content)
}

/// Returns a kernel's message about the request with an id and a type.
pub(super) fn answer(
    channel: Channel,
    msg_type: &str,
    (id, request): (&str, &str),
    content: Value,
) -> Message {
    let header = json!({ "msg_id": "m", "msg_type": msg_type });
    let parent = json!({ "msg_id": id, "msg_type": request });
    let parts = [header, parent, json!({}), content].map(|part| part.to_string());
    let frames = ["topic", "<IDS|MSG>", ""].into_iter();
    let frames = frames.chain(parts.iter().map(String::as_str));
    let frames: Multipart = frames.map(str::as_bytes).collect();
    Message::read(channel, &frames, &Signer::new(b"")).unwrap()
}

/// Returns a status message.
pub(super) fn status(id: &str, state: &str) -> Message {
    let content = json!({ "execution_state": state });
    message(Channel::Iopub, "status", id, content)
}

/// Returns a message with printed text.
pub(super) fn printed(id: &str, text: &str) -> Message {
    let content = json!({ "name": "stdout", "text": text });
    message(Channel::Iopub, "stream", id, content)
}
