//! Detects when a kernel answers and its published outputs arrive (pure).
//!
//! A subscription takes effect some time after the connection, and earlier outputs are lost. The client
//! therefore repeats a request until it receives a published message about one of the requests.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::content::KernelInfoContent;
use super::wire::{Channel, Message};
use crate::error::{Error, Result};

/// The time in which a kernel that is not busy must answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// The pause between two requests.
const RETRY_AFTER: Duration = Duration::from_millis(200);

const REQUESTS_MAX: usize = 64;

/// Python code that sets the flush interval of the streams to 20 ms; ipykernel's default is 200 ms.
const PROMPT_OUTPUT: &str = r#"exec("import sys\nfor stream in (sys.stdout, sys.stderr):\n    if hasattr(stream, 'flush_interval'):\n        stream.flush_interval = 0.02", {})"#;

/// Returns the content of the request that sets the streams of a Python kernel to send output promptly.
pub(super) fn prompt_output() -> Value {
    json!({
        "code": PROMPT_OUTPUT, "silent": true, "store_history": false, "user_expressions": {},
        "allow_stdin": false, "stop_on_error": false,
    })
}

/// The state of the requests.
#[derive(Debug)]
pub(super) struct Readiness {
    began: Instant,
    next_request_at: Instant,
    request_ids: Vec<String>,
    info: Option<KernelInfoContent>,
    /// True once a published message about one of the requests has arrived.
    is_subscribed: bool,
    /// True if the kernel runs code and will answer later.
    is_busy: bool,
}

impl Readiness {
    pub fn new(now: Instant) -> Self {
        Self {
            began: now,
            next_request_at: now,
            request_ids: Vec::new(),
            info: None,
            is_subscribed: false,
            is_busy: false,
        }
    }

    /// Returns the channels on which a request must be sent now.
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
        if now < self.next_request_at {
            return Ok(&[]);
        }
        self.next_request_at = now + RETRY_AFTER;
        // A kernel that runs code only answers on its control socket.
        Ok(match self.request_ids.len() {
            0 => &[Channel::Shell, Channel::Control],
            1..REQUESTS_MAX => &[Channel::Control],
            _ => &[],
        })
    }

    /// Returns the time of the next request or timeout check.
    pub fn deadline(&self) -> Instant {
        self.next_request_at
    }

    /// Records the id of a sent request.
    pub fn add_request(&mut self, id: String) {
        self.request_ids.push(id);
    }

    /// Handles a message of the kernel.
    pub fn note(&mut self, message: &Message) {
        let is_ours = self.request_ids.contains(&message.parent_id);
        if message.channel == Channel::Iopub {
            self.is_busy |= message.parent_type == "execute_request";
            self.is_subscribed |= is_ours;
        } else if is_ours && message.msg_type == "kernel_info_reply" {
            self.info = Some(message.content().unwrap_or_default());
        }
    }

    /// Returns the description of the kernel, once it is ready.
    pub fn ready(&self) -> Option<&KernelInfoContent> {
        self.info.as_ref().filter(|_| self.is_subscribed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{answer, printed};
    use super::*;

    const ASKED: (&str, &str) = ("1", "kernel_info_request");

    fn requested(now: Instant) -> Readiness {
        let mut readiness = Readiness::new(now);
        assert_eq!(readiness.due(now).unwrap().len(), 2);
        readiness.add_request("1".to_owned());
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
    fn a_kernel_is_ready_when_it_has_answered_and_its_outputs_arrive() {
        for messages in [[reply(), status()], [status(), reply()]] {
            let mut readiness = requested(Instant::now());
            readiness.note(&messages[0]);
            assert!(readiness.ready().is_none());
            readiness.note(&messages[1]);
            assert_eq!(readiness.ready().unwrap().language_info.name, "python");
        }
    }

    #[test]
    fn requests_are_repeated_on_the_control_socket_until_the_timeout() {
        let now = Instant::now();
        let mut readiness = requested(now);
        assert!(readiness.due(now).unwrap().is_empty());
        let again = readiness.deadline();
        assert_eq!(readiness.due(again).unwrap(), [Channel::Control]);
        // Replies to other clients do not count.
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
    fn a_busy_kernel_has_no_timeout_and_gets_a_bounded_number_of_requests() {
        let mut now = Instant::now();
        let mut readiness = requested(now);
        readiness.note(&printed("of another client", "text"));
        for _ in 0..1_000 {
            now += Duration::from_secs(1);
            for _ in readiness.due(now).unwrap() {
                readiness.add_request("again".to_owned());
            }
        }
        assert_eq!(readiness.request_ids.len(), REQUESTS_MAX);
        // The client still sleeps between two checks.
        assert_eq!(readiness.deadline(), now + RETRY_AFTER);
    }
}
