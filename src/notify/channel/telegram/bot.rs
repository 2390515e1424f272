//! Telegram's Bot API over HTTP: calls of one bot, and what becomes of them. No text has the bot's token.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::calls::Call;
use crate::agent_loop::Secret;
use crate::error::{Error, Result};
use crate::notify::channel::Unsent;
use crate::notify::channel::http::{Answer, Client, Failure, Request, Target};

/// The longest wait that is obeyed, in seconds: a day.
const RETRY_SECONDS_MAX: u64 = 24 * 3600;

/// The API of one bot. The token is a part of each URL.
#[derive(Clone)]
pub(super) struct Bot {
    base: Target,
    token: Secret,
    pub client: Client,
}

impl fmt::Debug for Bot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bot").field(&self.base).finish()
    }
}

/// What the API says to a call.
pub(super) struct Reply {
    pub answer: Answer,
    json: Value,
    /// Its explanation of an error, without the token.
    pub description: String,
}

impl Reply {
    /// Returns the result of the call; null if the answer broke off.
    pub fn result(self) -> Result<Value, Unsent> {
        if (200..300).contains(&self.answer.status) && self.json["ok"] != false {
            return Ok(self.json["result"].clone());
        }
        let parameters = &self.json["parameters"];
        if let Some(id) = parameters["migrate_to_chat_id"].as_i64() {
            return Err(Unsent::Never(format!(
                "the group has become a supergroup; write chat = {id}"
            )));
        }
        match self.answer.check(&self.description) {
            Err(Unsent::Later(wait, words)) => {
                let seconds = parameters["retry_after"]
                    .as_u64()
                    .map(|seconds| seconds.min(RETRY_SECONDS_MAX));
                Err(Unsent::Later(
                    seconds.map(Duration::from_secs).or(wait),
                    words,
                ))
            }
            Err(unsent) => Err(unsent),
            Ok(()) => Err(Unsent::Never(self.description)),
        }
    }

    /// Returns true if the message already says this, or does not exist any more.
    pub fn is_edited_or_gone(&self) -> bool {
        let gone = [
            "message is not modified",
            "message to edit not found",
            "message can't be edited",
            "message_id_invalid",
        ];
        let description = self.description.to_ascii_lowercase();
        self.answer.status == 400 && gone.iter().any(|words| description.contains(words))
    }
}

impl Bot {
    pub fn new(base: &str, is_plain_allowed: bool, token: Secret, client: Client) -> Result<Self> {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b":-_".contains(&byte);
        let text = token.expose();
        if text.is_empty() || !text.bytes().all(is_valid) {
            return Err(Error::invalid(
                "the token has characters that no token of Telegram has",
            ));
        }
        let base = Target::new(base, is_plain_allowed)?;
        Ok(Self {
            base,
            token,
            client,
        })
    }

    /// Calls a method. The server may hold the call back for a while, and answer with so many bytes.
    pub fn call(&self, call: &Call, patience: Duration, bytes_max: u64) -> CallResult {
        let target = self
            .base
            .join(&format!("bot{}/{}", self.token.expose(), call.method));
        let body = call.body.to_string().into_bytes();
        let mut request = Request::json(&target, &body);
        request.patience = patience;
        request.answer_bytes_max = bytes_max;
        let answer = self.client.send(&request)?;
        let json = answer.json();
        let description = json["description"].as_str().unwrap_or_default();
        Ok(Reply {
            description: self.token.redact(description),
            answer,
            json,
        })
    }
}

pub(super) type CallResult = std::result::Result<Reply, Failure>;
