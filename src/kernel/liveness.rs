//! A kernel's signs of life: its first answer, its heartbeat, and interrupts that it missed (pure).
//!
//! A subscription takes effect some time after the connection, and earlier outputs are lost. The client
//! therefore repeats a request until it receives a published message about one of the requests.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cell::KernelInfoContent;
use super::protocol::{Channel, Message};
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
    /// The time of the next request or timeout check.
    pub next_request_at: Instant,
    pub request_ids: Vec<String>,
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

/// The pause between two heartbeats.
const EVERY: Duration = Duration::from_secs(1);

/// The time after which a kernel that does not answer a heartbeat counts as dead. Kernels answer in a
/// separate thread, even while they run code.
const BEAT_WITHIN: Duration = Duration::from_secs(3);

/// The heartbeat of one connection. The next one is sent only after the last one was answered.
#[derive(Debug, Default)]
pub(super) struct Beat {
    /// The time of the next heartbeat.
    next_at: Option<Instant>,
    /// The time of the heartbeat that was not answered yet.
    sent_at: Option<Instant>,
    is_silent: bool,
}

impl Beat {
    /// Returns true if a heartbeat is due, and records it as sent.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.sent_at.is_none() && self.next_at.is_none_or(|at| now >= at);
        if is_due {
            self.sent_at = Some(now);
            self.next_at = Some(now + EVERY);
        }
        is_due
    }

    /// Records an answer. Returns true if the kernel was silent before.
    pub fn answered(&mut self) -> bool {
        self.sent_at = None;
        std::mem::take(&mut self.is_silent)
    }

    /// Returns true the first time it is called after an answer is late.
    pub fn is_late(&mut self, now: Instant) -> bool {
        let is_late = !self.is_silent && self.sent_at.is_some_and(|at| now >= at + BEAT_WITHIN);
        self.is_silent |= is_late;
        is_late
    }

    /// Returns the time at which a heartbeat is due or an answer is late; `None` while the kernel is silent.
    pub fn deadline(&self) -> Option<Instant> {
        match self.sent_at {
            Some(_) if self.is_silent => None,
            Some(sent_at) => Some(sent_at + BEAT_WITHIN),
            None => self.next_at,
        }
    }
}

/// Returns the error for a kernel that does not answer its heartbeat.
pub(super) fn silent() -> Error {
    Error::gone("the kernel has not answered its heartbeat for 3 s: it is stopped or dead")
}

/// The time after which an interrupt counts as missed, unless it has ended the code or raised an exception by
/// then.
const RETRY_DELAY: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub(super) struct MissedInterrupt {
    /// The number of interrupts before the request.
    before: u64,
    /// The time at which the interrupt is repeated.
    pub retry_at: Option<Instant>,
}

impl MissedInterrupt {
    pub fn new(before: u64) -> Self {
        Self {
            before,
            retry_at: None,
        }
    }

    /// Returns true, once, when the interrupt must be repeated.
    pub fn is_due(&mut self, now: Instant) -> bool {
        self.retry_at.take_if(|retry_at| now >= *retry_at).is_some()
    }

    /// Handles a message of the request; `interrupts` is the number of interrupts so far.
    pub fn note(&mut self, msg_type: &str, interrupts: u64, now: Instant) {
        match msg_type {
            // A kernel ignores interrupts while it runs no code.
            "execute_input" if interrupts > self.before => self.retry_at = Some(now + RETRY_DELAY),
            // The interrupt was not missed.
            "error" | "execute_reply" => self.retry_at = None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    mod readiness {
        use super::super::*;
        use crate::kernel::protocol::samples::{answer, printed};

        const ASKED: (&str, &str) = ("1", "kernel_info_request");

        fn requested(now: Instant) -> Readiness {
            let mut readiness = Readiness::new(now);
            assert_eq!(readiness.due(now).unwrap().len(), 2);
            readiness.request_ids.push("1".to_owned());
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
            let again = readiness.next_request_at;
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
                    readiness.request_ids.push("again".to_owned());
                }
            }
            assert_eq!(readiness.request_ids.len(), REQUESTS_MAX);
            // The client still sleeps between two checks.
            assert_eq!(readiness.next_request_at, now + RETRY_AFTER);
        }
    }

    mod beat {
        use proptest::prelude::*;

        use super::super::*;

        proptest! {
            /// Heartbeats are at least one second apart, each waits for the answer to the one before, and each
            /// silence is reported once, three seconds after the heartbeat, if the caller polls at every
            /// deadline.
            #[test]
            fn beats_and_silences(answers in prop::collection::vec(0_u64..8_000, 1..20)) {
                let mut now = Instant::now();
                let mut beat = Beat::default();
                prop_assert_eq!(beat.deadline(), None);
                for wait in answers {
                    prop_assert!(beat.is_due(now));
                    prop_assert!(!beat.is_due(now + Duration::from_secs(60)), "one at a time");
                    let (sent, answered) = (now, now + Duration::from_millis(wait));
                    let late = sent + Duration::from_secs(3);
                    prop_assert_eq!(beat.deadline(), Some(late));
                    prop_assert!(!beat.is_late(late - Duration::from_millis(1)));
                    let is_silent = answered >= late;
                    if is_silent {
                        prop_assert!(beat.is_late(late));
                        prop_assert!(!beat.is_late(answered), "reported once");
                        prop_assert_eq!(beat.deadline(), None);
                    }
                    prop_assert_eq!(beat.answered(), is_silent);
                    let next = sent + Duration::from_secs(1);
                    prop_assert_eq!(beat.deadline(), Some(next));
                    prop_assert!(answered >= next || !beat.is_due(answered));
                    now = answered.max(next);
                }
            }
        }
    }

    mod missed_interrupt {
        use super::super::*;

        #[test]
        fn only_interrupts_before_the_code_are_missed() {
            let now = Instant::now();
            for (interrupts, then, is_due) in [
                (3, "stream", false),
                (4, "stream", true),
                (4, "error", false),
                (4, "execute_reply", false),
            ] {
                let mut missed = MissedInterrupt::new(3);
                missed.note("status", interrupts, now);
                missed.note("execute_input", interrupts, now);
                missed.note(then, interrupts, now);
                assert!(!missed.is_due(now));
                assert_eq!(missed.is_due(now + RETRY_DELAY), is_due, "{then}");
                assert!(!missed.is_due(now + RETRY_DELAY) && missed.retry_at.is_none());
                missed.note("execute_input", interrupts, now);
                assert_eq!(missed.retry_at.take().is_some(), interrupts > 3);
                assert!(missed.retry_at.take().is_none() && !missed.is_due(now + RETRY_DELAY));
            }
        }
    }
}
