//! The calls of Telegram's Bot API as values, and texts in its unit of length (pure).

use serde_json::{Value, json};

use crate::notify::message::Note;

/// The most UTF-16 units of a message (`sendMessage`, `text`: "1-4096 characters"; the API counts UTF-16 units).
pub(super) const TEXT_UNITS_MAX: usize = 4096;

/// How long Telegram holds a call back until a button is pressed (`getUpdates`, `timeout`). Proxies often cut
/// connections that are silent for 30 s.
pub(super) const POLL_SECONDS: u64 = 25;

/// The most presses of one call (`getUpdates`, `limit`: "Values between 1-100"). Each repeats its whole message.
const UPDATES_MAX: u64 = 10;

/// The most UTF-16 units of an answer to a press (`answerCallbackQuery`, `text`: "0-200 characters").
const TOAST_UNITS_MAX: usize = 200;

/// The chat that gets the messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::notify) enum Chat {
    /// The number of a user, a group or a channel.
    Id(i64),
    /// The name of a public group or channel, with its `@`.
    Name(String),
}

impl Chat {
    pub(super) fn json(&self) -> Value {
        match self {
            Self::Id(id) => json!(id),
            Self::Name(name) => json!(name),
        }
    }

    /// Returns true if a `Chat` of the API is this one.
    pub(super) fn is(&self, chat: &Value) -> bool {
        match self {
            Self::Id(id) => chat["id"].as_i64() == Some(*id),
            Self::Name(name) => {
                let name = name.trim_start_matches('@');
                let found = chat["username"].as_str();
                found.is_some_and(|found| found.eq_ignore_ascii_case(name))
            }
        }
    }
}

/// A method of the API, and its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub method: &'static str,
    pub body: Value,
}

/// Returns the call that sends a message.
pub(super) fn send_message(chat: &Chat, text: &str, keyboard: Option<Value>) -> Call {
    let mut body = json!({
        "chat_id": chat.json(),
        "text": text,
        // Messages contain what agents print, and Telegram would fetch the pages behind its links.
        "link_preview_options": {"is_disabled": true},
    });
    if let Some(keyboard) = keyboard {
        body["reply_markup"] = keyboard;
    }
    Call {
        method: "sendMessage",
        body,
    }
}

/// Returns the call that changes a message. Without a keyboard, its buttons are removed.
pub(super) fn edit_message(
    chat: &Chat,
    message_id: i64,
    text: &str,
    keyboard: Option<Value>,
) -> Call {
    let mut call = send_message(chat, text, keyboard);
    call.method = "editMessageText";
    call.body["message_id"] = json!(message_id);
    if call.body["reply_markup"].is_null() {
        call.body["reply_markup"] = json!({"inline_keyboard": []});
    }
    call
}

/// Returns the text of a message.
pub(super) fn text(note: &Note) -> String {
    let body = note.body(TEXT_UNITS_MAX);
    let body = body.trim();
    let text = match note.title() {
        title if body.is_empty() => title,
        title => format!("{title}\n\n{body}"),
    };
    cut_units(&text, TEXT_UNITS_MAX)
}

/// Returns the beginning of a text that has at most so many UTF-16 units.
pub(super) fn fitting_units(text: &str, units_max: usize) -> &str {
    // No character has more units than bytes.
    if text.len() <= units_max {
        return text;
    }
    let mut units = 0;
    for (start, c) in text.char_indices() {
        units += c.len_utf16();
        if units > units_max {
            return &text[..start];
        }
    }
    text
}

/// Returns a text of at most so many UTF-16 units, whose cut shows.
pub(super) fn cut_units(text: &str, units_max: usize) -> String {
    if fitting_units(text, units_max).len() == text.len() {
        return text.to_owned();
    }
    format!("{}…", fitting_units(text, units_max.saturating_sub(1)))
}

/// Returns the call that asks for presses, after those before `offset`.
pub(super) fn get_updates(offset: Option<i64>, timeout_seconds: u64) -> Call {
    let mut body = json!({
        "timeout": timeout_seconds,
        "limit": UPDATES_MAX,
        "allowed_updates": ["callback_query"],
    });
    if let Some(offset) = offset {
        body["offset"] = json!(offset);
    }
    Call {
        method: "getUpdates",
        body,
    }
}

/// Returns the call that tells a user what has become of his press.
pub(super) fn answer_query(query_id: &str, text: &str) -> Call {
    Call {
        method: "answerCallbackQuery",
        body: json!({
            "callback_query_id": query_id,
            "text": fitting_units(text, TOAST_UNITS_MAX),
        }),
    }
}

/// Returns the number after those of all updates (`getUpdates`, `offset`).
pub(super) fn next_offset(updates: &[Value]) -> Option<i64> {
    let ids = updates
        .iter()
        .filter_map(|update| update["update_id"].as_i64());
    ids.max().map(|id| id.saturating_add(1))
}
