//! Telegram: a bot sends notifications to a chat, edits what is settled, and takes answers from buttons.
//!
//! Source: Telegram's "Bot API", version 10.1: the methods `sendMessage`, `editMessageText`, `getUpdates` and
//! `answerCallbackQuery`, and the types that they name.
//!
//! With [`Telegram::with_answers`], the thread `td-telegram` asks for presses of buttons and blocks in `getUpdates`.
//! It ends when the client is shut down or the channel is dropped. The channel's own thread and this one share the
//! buttons of the messages that are still open, and nothing else.
//!
//! A button names its question and its choice by a digest. A press counts if it comes from the configured chat and
//! from one of the configured users, and if the button belongs to an item that has not been settled meanwhile.
//! Presses of all other buttons, also those from before a restart, are told that the question is no longer open.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::Sender;
use serde_json::Value;

use super::http::{ANSWER_BYTES_MAX, Client};
use super::{Answers, Channel, Sent, Unsent};
use crate::agent_loop::Secret;
use crate::clock::Clock;
use crate::error::Result;
use crate::notify::message::Note;
use crate::thread::{Handle, lock, spawn};
use bot::{Bot, CallResult};
use buttons::{Buttons, keyboard};
pub(in crate::notify) use calls::Chat;
use calls::{Call, TEXT_UNITS_MAX, cut_units, edit_message, send_message, text};
use presses::Reader;

mod calls;

mod buttons;

mod bot;

mod presses;

/// The base of the API's URLs.
const BASE_URL: &str = "https://api.telegram.org";

/// How long a channel that ends waits for its thread. It is shut down before and only a connection attempt may delay
/// it; then it ends on its own.
const JOIN_TIMEOUT: Duration = Duration::from_millis(50);

/// A chat of Telegram.
pub(in crate::notify) struct Telegram {
    bot: Bot,
    chat: Chat,
    warnings: Sender<String>,
    /// The buttons of open messages; `None` if the channel takes no answers.
    buttons: Option<Arc<Mutex<Buttons>>>,
    reader: Option<Handle<()>>,
}

impl fmt::Debug for Telegram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telegram")
            .field("bot", &self.bot)
            .field("takes_answers", &self.buttons.is_some())
            .finish_non_exhaustive()
    }
}

impl Telegram {
    /// Creates a channel. `url` replaces the base of the API's URLs. `warnings` gets what the user should know about
    /// answers, without the channel's name; warnings that find it full are dropped.
    ///
    /// # Errors
    /// `is_invalid_input()` when the URL is none, or would send the token in plain text to another machine, and when
    /// the token has characters that no token has.
    pub fn new(
        chat: Chat,
        token: Secret,
        url: Option<&str>,
        is_plain_allowed: bool,
        client: Client,
        warnings: Sender<String>,
    ) -> Result<Self> {
        Ok(Self {
            bot: Bot::new(url.unwrap_or(BASE_URL), is_plain_allowed, token, client)?,
            chat,
            warnings,
            buttons: None,
            reader: None,
        })
    }

    /// Adds buttons to questions, and starts the thread that takes the answers of these users.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn with_answers(mut self, users: Vec<i64>, answers: Arc<dyn Answers>) -> Result<Self> {
        let buttons = Arc::new(Mutex::new(Buttons::default()));
        let reader = Reader {
            bot: self.bot.clone(),
            chat: self.chat.clone(),
            users,
            answers,
            buttons: Arc::clone(&buttons),
            warnings: self.warnings.clone(),
        };
        self.reader = Some(spawn("td-telegram", move || reader.run())?);
        self.buttons = Some(buttons);
        Ok(self)
    }

    /// Returns the keyboard of a message's open questions.
    fn keyboard(&self, note: &Note) -> Option<Value> {
        self.buttons.as_ref().and_then(|_| keyboard(note))
    }

    fn call(&self, call: &Call) -> CallResult {
        self.bot.call(call, Duration::ZERO, ANSWER_BYTES_MAX)
    }

    /// Sends a text, and returns the number of its message if the answer has it.
    fn send_text(&self, text: &str, keyboard: Option<Value>) -> Result<Option<i64>, Unsent> {
        let reply = self.call(&send_message(&self.chat, text, keyboard));
        // Telegram has no way to recognize a message that is sent again.
        let result = reply.map_err(|failure| failure.of_unique())?.result()?;
        Ok(result["message_id"].as_i64())
    }
}

impl Channel for Telegram {
    fn send(&mut self, note: &Note) -> Result<Sent, Unsent> {
        // The user may press a button before the answer to this call has arrived.
        if let Some(buttons) = &self.buttons {
            lock(buttons).add(note);
        }
        let sent = self.send_text(&text(note), self.keyboard(note));
        if let (Err(Unsent::Never(_)), Some(buttons)) = (&sent, &self.buttons) {
            lock(buttons).remove(&note.id);
        }
        Ok(Sent(sent?.map(|id| id.to_string())))
    }

    fn update(&mut self, note: &Note, sent: &Sent) -> Result<(), Unsent> {
        if let Some(buttons) = &self.buttons {
            lock(buttons).retain_open(note);
        }
        let Some(message_id) = sent.0.as_deref().and_then(|id| id.parse().ok()) else {
            return Ok(());
        };
        let edit = edit_message(&self.chat, message_id, &text(note), self.keyboard(note));
        // Editing twice is the same as once.
        let reply = self
            .call(&edit)
            .map_err(|failure| failure.of_idempotent())?;
        if reply.is_edited_or_gone() {
            return Ok(());
        }
        reply.result().map(|_| ())
    }

    fn output(&mut self, text: &str) -> Result<(), Unsent> {
        if text.trim().is_empty() {
            return Ok(());
        }
        self.send_text(&cut_units(text, TEXT_UNITS_MAX), None)
            .map(|_| ())
    }

    fn adopt(&mut self, note: &Note, _sent: &Sent) {
        if let Some(buttons) = &self.buttons {
            lock(buttons).add(note);
        }
    }

    fn abort(&self) -> Box<dyn Fn() + Send> {
        let client = self.bot.client.clone();
        Box::new(move || client.shutdown())
    }
}

impl Drop for Telegram {
    fn drop(&mut self) {
        let Some(reader) = self.reader.take() else {
            return;
        };
        self.bot.client.shutdown();
        match reader.join_deadline(Clock::system().now() + JOIN_TIMEOUT) {
            Ok(Err(panicked)) => log::warn!("{panicked}"),
            Err(thread) => {
                log::debug!("{} is still connecting, and ends on its own", thread.name());
            }
            Ok(Ok(())) => {}
        }
    }
}

#[cfg(test)]
mod tests;
