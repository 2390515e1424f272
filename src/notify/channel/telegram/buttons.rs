//! The buttons of messages: the keyboard that a message gets, and what the data of a pressed button stands for (pure).

use std::collections::VecDeque;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::calls::cut_units;
use crate::notify::channel::Asked;
use crate::notify::message::{ITEMS_MAX, Item, Note};
use crate::notify::news::NewsId;

/// The messages whose buttons are known. A user has a handful of open questions, and this bounds the memory.
const NOTES_MAX: usize = 256;

/// The most bytes of a button's data (`InlineKeyboardButton`, `callback_data`: "1-64 bytes").
const DATA_BYTES_MAX: usize = 64;

/// The most UTF-16 units of a button's label. The API documents no limit, and phones show about 30.
const LABEL_UNITS_MAX: usize = 64;

/// The most buttons of a message. Telegram shows 100, and a dialogue has at most a dozen choices.
const BUTTONS_MAX: usize = 50;

/// A choice of an open question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Button {
    /// What a press of it sends.
    data: String,
    pub asked: Asked,
    pub key: String,
    pub label: String,
}

/// Returns the data of a button: the message's id, and a digest of the question and the choice. The digest does not
/// depend on places in a message or in a list, which another process may order differently.
fn data(note_id: &str, item: &Item, question_id: &str, key: &str, label: &str) -> String {
    let about = json!([item.row, question_id, key, label]).to_string();
    let digest = Sha256::digest(about.as_bytes());
    let digest: String = digest[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("{note_id}.{digest}")
}

/// Returns the id of the message in a button's data.
fn note_id(data: &str) -> Option<&str> {
    Some(data.rsplit_once('.')?.0)
}

/// Returns the buttons of an item: none if it is settled, is no question, or is not to be read in the message.
fn buttons_of(note_id: &str, item: &Item) -> Vec<Button> {
    // Without its text nobody can know what he answers.
    let (None, Some(question_id), Some(_)) = (item.settled, &item.question_id, &item.text) else {
        return Vec::new();
    };
    let choices = item.choices.iter().filter(|choice| !choice.key.is_empty());
    let buttons = choices.map(|choice| Button {
        data: data(note_id, item, question_id, &choice.key, &choice.label),
        asked: Asked {
            question_id: question_id.clone(),
            news: NewsId::of(item),
        },
        key: choice.key.clone(),
        label: match choice.label.trim() {
            "" => choice.key.clone(),
            label => label.to_owned(),
        },
    });
    buttons
        .filter(|button| button.data.len() <= DATA_BYTES_MAX)
        .collect()
}

/// Returns the buttons of a message and the name of the row of each.
fn buttons(note: &Note) -> Vec<(&str, Button)> {
    let shown = note.items.iter().take(ITEMS_MAX);
    let buttons = shown.flat_map(|item| {
        let buttons = buttons_of(&note.id, item).into_iter();
        buttons.map(|button| (item.name.as_str(), button))
    });
    buttons.take(BUTTONS_MAX).collect()
}

/// Returns the `InlineKeyboardMarkup` of a message: one button a line; `None` without buttons.
pub(super) fn keyboard(note: &Note) -> Option<Value> {
    let buttons = buttons(note);
    let rows = buttons.iter().map(|(name, button)| {
        let label = match note.items.len() {
            1 => button.label.clone(),
            _ => format!("{name}: {}", button.label),
        };
        json!([{"text": cut_units(&label, LABEL_UNITS_MAX), "callback_data": button.data}])
    });
    let rows: Vec<Value> = rows.collect();
    (!rows.is_empty()).then(|| json!({"inline_keyboard": rows}))
}

/// The buttons of open messages, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Buttons(VecDeque<(String, Vec<Button>)>);

impl Buttons {
    /// Adds those of a message, and forgets those of the oldest one if there are too many.
    pub fn add(&mut self, note: &Note) {
        self.remove(&note.id);
        let buttons: Vec<Button> = buttons(note)
            .into_iter()
            .map(|(_, button)| button)
            .collect();
        if buttons.is_empty() {
            return;
        }
        if self.0.len() == NOTES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((note.id.clone(), buttons));
    }

    /// Forgets those of a message.
    pub fn remove(&mut self, note_id: &str) {
        self.0.retain(|(id, _)| id != note_id);
    }

    /// Forgets those of a message's settled items. What has been answered does not come back.
    pub fn retain_open(&mut self, note: &Note) {
        let open = buttons(note);
        for (id, known) in &mut self.0 {
            if *id == note.id {
                known.retain(|button| open.iter().any(|(_, open)| open.data == button.data));
            }
        }
        self.0.retain(|(_, known)| !known.is_empty());
    }

    /// Returns the button with this data.
    pub fn get(&self, data: &str) -> Option<&Button> {
        let id = note_id(data)?;
        let (_, buttons) = self.0.iter().find(|(known, _)| known == id)?;
        buttons.iter().find(|button| button.data == data)
    }

    /// Forgets all buttons of a question.
    pub fn answered(&mut self, asked: &Asked) {
        for (_, buttons) in &mut self.0 {
            buttons.retain(|button| button.asked != *asked);
        }
        self.0.retain(|(_, buttons)| !buttons.is_empty());
    }
}
