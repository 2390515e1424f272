//! Finds out when a kernel answers and its outputs arrive (pure).
//!
//! A subscription takes effect a moment after the connection: what a kernel publishes before is lost. So
//! the client asks until it sees that the kernel was busy with one of its questions.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::content::KernelInfoContent;
use super::wire::{Channel, Message};
use crate::error::{Error, Result};

/// The time in which a kernel answers its first request, unless it is seen to be busy.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The pause between two first requests.
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The most questions.
const ASKED_MAX: usize = 64;

/// Makes the streams of a Python kernel pass on text after 20 ms instead of ipykernel's 200 ms.
const PROMPT_OUTPUT: &str = r#"exec("import sys\nfor stream in (sys.stdout, sys.stderr):\n    if hasattr(stream, 'flush_interval'):\n        stream.flush_interval = 0.02", {})"#;

/// Returns the content of the request that makes a Python kernel pass on what code prints as it comes.
pub(super) fn prompt_output() -> Value {
    json!({
        "code": PROMPT_OUTPUT, "silent": true, "store_history": false, "user_expressions": {},
        "allow_stdin": false, "stop_on_error": false,
    })
}

/// The state of the questions.
#[derive(Debug)]
pub(super) struct Readiness {
    began: Instant,
    ask_at: Instant,
    /// The ids of the requests.
    asked: Vec<String>,
    info: Option<KernelInfoContent>,
    /// The kernel published something about one of the requests.
    is_heard: bool,
    /// The kernel runs code, and answers later.
    is_busy: bool,
}

impl Readiness {
    pub fn new(now: Instant) -> Self {
        Self {
            began: now,
            ask_at: now,
            asked: Vec::new(),
            info: None,
            is_heard: false,
            is_busy: false,
        }
    }

    /// Returns the channels on which the kernel is asked now.
    ///
    /// # Errors
    /// If the kernel has not answered in time.
    pub fn due(&mut self, now: Instant) -> Result<&'static [Channel]> {
        if !self.is_busy && now >= self.began + ANSWER_WITHIN {
            return Err(Error::timeout(format!(
                "the kernel has not answered for {} s: it runs other code, or the key of the \
                 connection file is not its key",
                ANSWER_WITHIN.as_secs()
            )));
        }
        if now < self.ask_at || self.asked.len() >= ASKED_MAX {
            return Ok(&[]);
        }
        self.ask_at = now + ASK_AGAIN;
        // A kernel that runs code answers on its control socket only.
        Ok(match self.asked.is_empty() {
            true => &[Channel::Shell, Channel::Control],
            false => &[Channel::Control],
        })
    }

    /// Returns the time of the next question, or of the check whether the time is over.
    pub fn deadline(&self, now: Instant) -> Instant {
        self.ask_at.max(now + Duration::from_millis(1))
    }

    /// Takes the id of a request that was sent.
    pub fn asked(&mut self, id: String) {
        self.asked.push(id);
    }

    /// Takes a message of the kernel.
    pub fn note(&mut self, message: &Message) {
        let is_ours = self.asked.contains(&message.parent_id);
        if message.channel == Channel::Iopub {
            self.is_busy |= message.parent_type == "execute_request";
            self.is_heard |= is_ours;
        } else if is_ours && message.msg_type == "kernel_info_reply" {
            self.info = Some(message.content().unwrap_or_default());
        }
    }

    /// Returns what the kernel is, if it is ready.
    pub fn ready(&self) -> Option<&KernelInfoContent> {
        self.info.as_ref().filter(|_| self.is_heard)
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{answer, printed};
    use super::*;

    const ASKED: (&str, &str) = ("1", "kernel_info_request");

    fn asked(now: Instant) -> Readiness {
        let mut readiness = Readiness::new(now);
        assert_eq!(readiness.due(now).unwrap().len(), 2);
        readiness.asked("1".to_owned());
        readiness
    }

    fn reply() -> Message {
        let content = json!({ "language_info": { "name": "python" } });
        answer(Channel::Shell, "kernel_info_reply", ASKED, content)
    }

    fn status() -> Message {
        let content = json!({ "execution_state": "busy" });
        answer(Channel::Iopub, "status", ASKED, content)
    }

    #[test]
    fn a_kernel_is_ready_when_it_has_answered_and_is_heard() {
        for messages in [[reply(), status()], [status(), reply()]] {
            let mut readiness = asked(Instant::now());
            readiness.note(&messages[0]);
            assert!(readiness.ready().is_none());
            readiness.note(&messages[1]);
            assert_eq!(readiness.ready().unwrap().language_info.name, "python");
        }
    }

    #[test]
    fn it_is_asked_again_on_its_control_socket_until_the_time_is_over() {
        let now = Instant::now();
        let mut readiness = asked(now);
        assert!(readiness.due(now).unwrap().is_empty());
        let again = readiness.deadline(now);
        assert_eq!(readiness.due(again).unwrap(), [Channel::Control]);
        // What it answers to others is no answer.
        readiness.note(&answer(
            Channel::Shell,
            "kernel_info_reply",
            ("2", "kernel_info_request"),
            json!({}),
        ));
        let late = readiness.due(now + ANSWER_WITHIN).unwrap_err();
        assert!(late.to_string().contains("has not answered for 10 s"));
    }

    #[test]
    fn a_busy_kernel_has_time_and_is_asked_a_bounded_number_of_times() {
        let mut now = Instant::now();
        let mut readiness = asked(now);
        readiness.note(&printed("of another client", "text"));
        for _ in 0..1_000 {
            now += Duration::from_secs(1);
            for _ in readiness.due(now).unwrap() {
                readiness.asked("again".to_owned());
            }
        }
        assert_eq!(readiness.asked.len(), ASKED_MAX);
    }
}
