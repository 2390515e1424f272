//! A response that refuses a request: its message, its retry delay, and its error (pure).

use std::time::Duration;

use serde_json::Value;

use super::super::error::LlmErrorKind;
use super::connection::ResponseHead;
use super::retry::{self, RetryPolicy};
use crate::agent::summary::{result, summary};
use crate::timestamp::Timestamp;

pub(super) struct Refusal {
    pub head: ResponseHead,
    /// The redacted message.
    pub message: String,
}

impl Refusal {
    /// Reads the body, which may be truncated. `redact` removes keys from its text.
    pub fn new(head: ResponseHead, body: &[u8], redact: impl Fn(&str) -> String) -> Self {
        let text = String::from_utf8_lossy(body);
        let message = serde_json::from_str::<Value>(&text).ok().and_then(|body| {
            let error = match &body["error"] {
                Value::Null => &body,
                error => error,
            };
            let message = error["message"].as_str().or(error.as_str())?;
            Some(match error["type"].as_str() {
                Some(kind) => format!("{kind}: {message}"),
                None => message.to_owned(),
            })
        });
        // The body may be HTML or empty.
        let message = message.unwrap_or_else(|| text.into_owned());
        Self {
            message: result(&redact(&message)),
            head,
        }
    }

    /// Returns the delay before a retry after this number of attempts; `None` if a retry cannot succeed.
    pub fn delay(&self, attempts: u32, policy: &RetryPolicy, now: Timestamp) -> Option<Duration> {
        if !retry::is_retryable(self.head.status) {
            return None;
        }
        let millis = self.head.retry_after_ms.as_ref();
        let millis = millis.and_then(|millis| millis.trim().parse().ok());
        let requested = millis.map(Duration::from_millis).or_else(|| {
            let header = self.head.retry_after.as_ref()?;
            retry::requested_delay(header, now)
        });
        policy.delay(attempts, requested)
    }

    /// Returns the error after this number of attempts.
    pub fn error(&self, attempts: u32) -> (LlmErrorKind, String) {
        let status = self.head.status;
        let mut message = format!("the server answered with status {status}: {}", self.message);
        if (300..400).contains(&status) {
            message.push_str(" (redirects are not followed)");
        } else if attempts > 1 {
            message.push_str(&format!(" (after {attempts} attempts)"));
        }
        if let Some(delay) = self.head.retry_after.as_ref().filter(|_| status == 429) {
            message.push_str(&format!(" (requested delay: {})", summary(delay)));
        }
        let kind = match status {
            429 => LlmErrorKind::Limited,
            _ => LlmErrorKind::Other,
        };
        (kind, message)
    }
}
