//! Presses of buttons: the thread that asks Telegram for them, checks who presses, and answers the question.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::Sender;
use serde_json::Value;

use super::bot::Bot;
use super::buttons::Buttons;
use super::calls::{Chat, POLL_SECONDS, answer_query, get_updates, next_offset};
use crate::notify::channel::http::{ANSWER_BYTES_MAX, Failure};
use crate::notify::channel::{Answers, Unsent};
use crate::thread::lock;

/// The most bytes of an answer to `getUpdates`. A message of 4,096 characters has 24 KiB in JSON's escapes, its
/// entities and buttons as much again; an answer that is never complete would be asked for for ever.
const UPDATES_BYTES_MAX: u64 = 1024 * 1024;

/// The wait after a conflict with another reader or a refusal: both last until the user does something.
const REFUSED_WAIT: Duration = Duration::from_secs(60);

/// The first and the longest wait after a failure of the network or the server.
const FAILED_WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The wait after an empty answer that came sooner than this. Telegram holds a call back; a proxy that does not would
/// be asked as fast as the network is, 50 times a second.
const EMPTY_WAIT: Duration = Duration::from_secs(1);

/// The users whose refusal is reported.
const STRANGERS_MAX: usize = 8;

/// The thread's state.
pub(super) struct Reader {
    pub bot: Bot,
    pub chat: Chat,
    pub users: Vec<i64>,
    pub answers: Arc<dyn Answers>,
    pub buttons: Arc<Mutex<Buttons>>,
    pub warnings: Sender<String>,
}

/// What has been reported, once each.
#[derive(Default)]
struct Reported {
    conflict: bool,
    refusal: bool,
    strangers: Vec<i64>,
}

impl Reader {
    /// Takes presses until the client is shut down.
    pub fn run(self) {
        let mut reported = Reported::default();
        let mut offset = None;
        let mut failed_wait = FAILED_WAITS.0;
        while !self.bot.client.is_shut_down() {
            let clock = self.bot.client.clock();
            let begun = clock.now();
            let wait = match self.poll(offset) {
                Ok(updates) => {
                    failed_wait = FAILED_WAITS.0;
                    for update in &updates {
                        self.take(&update["callback_query"], &mut reported);
                    }
                    // It confirms them at the next call, and is forgotten after that: after a week without updates
                    // their numbers go on anywhere ("Update", `update_id`).
                    offset = next_offset(&updates);
                    if !updates.is_empty() || clock.now() >= begun + EMPTY_WAIT {
                        continue;
                    }
                    EMPTY_WAIT
                }
                Err(PollError::Failed(wait)) => {
                    let wait = wait.unwrap_or(failed_wait);
                    failed_wait = (failed_wait * 2).min(FAILED_WAITS.1);
                    wait
                }
                Err(PollError::Conflict(words)) => {
                    if !std::mem::replace(&mut reported.conflict, true) {
                        self.warn(format!(
                            "another program takes the answers of this bot, so that buttons may do nothing: {words}"
                        ));
                    }
                    REFUSED_WAIT
                }
                Err(PollError::Refused(words)) => {
                    if !std::mem::replace(&mut reported.refusal, true) {
                        self.warn(format!("cannot take answers: {words}"));
                    }
                    REFUSED_WAIT
                }
            };
            self.bot.client.wait(wait);
        }
    }

    fn poll(&self, offset: Option<i64>) -> Result<Vec<Value>, PollError> {
        let call = get_updates(offset, POLL_SECONDS);
        let patience = Duration::from_secs(POLL_SECONDS);
        let reply = match self.bot.call(&call, patience, UPDATES_BYTES_MAX) {
            Ok(reply) => reply,
            Err(Failure::Impossible(words)) => return Err(PollError::Refused(words)),
            Err(Failure::NotSent(_) | Failure::Unknown(_)) => return Err(PollError::Failed(None)),
        };
        if reply.answer.status == 409 {
            return Err(PollError::Conflict(reply.description));
        }
        match reply.result() {
            Ok(Value::Array(updates)) => Ok(updates),
            Ok(_) => Err(PollError::Failed(None)),
            Err(Unsent::Later(wait, _)) => Err(PollError::Failed(wait)),
            Err(Unsent::Nobody(words)) => Err(PollError::Refused(words.to_owned())),
            Err(Unsent::Never(words) | Unsent::Unconfirmed(words)) => {
                Err(PollError::Refused(words))
            }
        }
    }

    /// Takes a press, and says what has become of it.
    fn take(&self, query: &Value, reported: &mut Reported) {
        let Some(id) = query["id"].as_str() else {
            return;
        };
        let words = self.outcome(query, reported);
        let answer = answer_query(id, &words);
        // The press has done what it does. An old one can no longer be answered, and the user presses again if he
        // sees nothing.
        if let Ok(reply) = self.bot.call(&answer, Duration::ZERO, ANSWER_BYTES_MAX)
            && let Err(unsent) = reply.result()
        {
            log::debug!("a press of a button was not acknowledged: {unsent:?}");
        }
    }

    fn outcome(&self, query: &Value, reported: &mut Reported) -> String {
        let user = query["from"]["id"].as_i64();
        let is_here = self.chat.is(&query["message"]["chat"]);
        if !is_here || !user.is_some_and(|user| self.users.contains(&user)) {
            if let Some(user) = user.filter(|_| is_here) {
                self.report_stranger(user, reported);
            }
            return "You may not answer here".into();
        }
        let data = query["data"].as_str().unwrap_or_default();
        let Some(button) = lock(&self.buttons).get(data).cloned() else {
            return "This question is no longer open".into();
        };
        match self.answers.answer(&button.asked, &button.key) {
            Ok(()) => {
                lock(&self.buttons).answered(&button.asked);
                format!("Answered: {}", button.label)
            }
            Err(why) => why,
        }
    }

    /// Reports a user who may not answer, because it may be the owner, who does not know his number.
    fn report_stranger(&self, user: i64, reported: &mut Reported) {
        let strangers = &mut reported.strangers;
        if strangers.len() < STRANGERS_MAX && !strangers.contains(&user) {
            strangers.push(user);
            self.warn(format!(
                "the user {user} has pressed a button and is not in `users`; the press was refused"
            ));
        }
    }

    fn warn(&self, words: String) {
        // The receiver is gone at the end of the observer, and a full queue has other warnings.
        let _ = self.warnings.try_send(words);
    }
}

/// Why there are no updates.
enum PollError {
    /// It may work after this time.
    Failed(Option<Duration>),
    /// Another program asks, too.
    Conflict(String),
    Refused(String),
}
