//! The channels through which notifications reach the user. Each one sends and updates messages, in its own thread.

mod bell;
mod tmux;

mod command;
mod desktop;

#[cfg(test)]
mod testing;

use std::time::Duration;

use super::message::Note;
use super::news::NewsId;

mod http;
mod ntfy;
mod telegram;
mod webhook;

pub(super) mod build;

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod stand_in;

/// A way to reach the user. The thread of a channel calls it; it may block within its own timeouts.
pub(super) trait Channel: Send {
    /// Sends a message, or sends it again.
    ///
    /// # Errors
    /// What is to be done about it.
    fn send(&mut self, note: &Note) -> Result<Sent, Unsent>;

    /// Shows that items of a sent message are settled; all of them if [`Note::is_settled`]. Does nothing where the
    /// channel cannot change what it has sent.
    ///
    /// # Errors
    /// What is to be done about it.
    fn update(&mut self, note: &Note, sent: &Sent) -> Result<(), Unsent>;

    /// Sends lines that rows print, as one message that is not too long.
    ///
    /// # Errors
    /// What is to be done about it.
    fn output(&mut self, text: &str) -> Result<(), Unsent>;

    /// Takes over a message that an earlier observer has sent, and that still holds.
    fn adopt(&mut self, _note: &Note, _sent: &Sent) {}

    /// Returns what ends a call that waits, within milliseconds; called from another thread at the observer's end.
    fn abort(&self) -> Box<dyn Fn() + Send> {
        Box::new(|| {})
    }
}

/// What a channel must know to change a message that it has sent, such as the message's number there. It is kept in
/// `notify.jsonl`, so that another process can change it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent(pub Option<String>);

/// Why a message was not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unsent {
    /// It may be sent again, after this time if the other side has named one.
    Later(Option<Duration>, String),
    /// It may have arrived, and the channel cannot tell: sending it again might show it twice.
    Unconfirmed(String),
    /// There is nobody to tell here now.
    Nobody(&'static str),
    /// It will never be taken.
    Never(String),
}

/// A question that a button answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// The id that the question had when it was sent; another observer gives it another one.
    pub question_id: String,
    /// What has been asked, the same for each observer.
    pub news: NewsId,
}

/// Answers a question in the name of the user.
pub(super) trait Answers: Send + Sync {
    /// Types the key of a choice into the row's pane if this question is still open there.
    ///
    /// # Errors
    /// Why it was not typed, in words for the user.
    fn answer(&self, asked: &Asked, key: &str) -> Result<(), String>;
}
