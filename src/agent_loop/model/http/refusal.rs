//! An answer that is none: what it says, whether asking again is of use, and what error it is (pure).

use std::time::Duration;

use serde_json::Value;

use super::super::error::Why;
use super::exchange::Head;
use super::retry::{self, Retry};
use crate::agent::summary::{result, summary};
use crate::timestamp::Timestamp;

/// What came in the place of an answer.
pub(super) struct Refused {
    head: Head,
    message: String,
}

impl Refused {
    /// From a body that may be cut; `hide` takes keys out of what is shown.
    pub fn new(head: Head, body: &[u8], hide: impl Fn(&str) -> String) -> Self {
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
        // A page of HTML, or nothing.
        let message = message.unwrap_or_else(|| text.into_owned());
        Self {
            message: result(&hide(&message)),
            head,
        }
    }

    /// Its status.
    pub fn status(&self) -> u16 {
        self.head.status
    }

    /// What it says, without keys.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// How long to wait before asking again, after so many times; `None` if that is of no use.
    pub fn delay(&self, asked: u32, retry: &Retry, now: Timestamp) -> Option<Duration> {
        if !retry::may_help(self.head.status) {
            return None;
        }
        let millis = self.head.retry_after_ms.as_ref();
        let millis = millis.and_then(|millis| millis.trim().parse().ok());
        let wished = millis.map(Duration::from_millis).or_else(|| {
            let header = self.head.retry_after.as_ref()?;
            retry::wished(header, now)
        });
        retry.delay(asked, wished)
    }

    /// What it is when it is not asked again.
    pub fn error(&self, asked: u32) -> (Why, String) {
        let status = self.head.status;
        let mut what = format!("it answered with status {status}: {}", self.message);
        if (300..400).contains(&status) {
            what.push_str(" (redirects are not followed)");
        } else if asked > 1 {
            what.push_str(&format!(" (asked {asked} times)"));
        }
        if let Some(wish) = self.head.retry_after.as_ref().filter(|_| status == 429) {
            what.push_str(&format!(" (it asks to wait: {})", summary(wish)));
        }
        let why = match status {
            429 => Why::Limited,
            _ => Why::Other,
        };
        (why, what)
    }
}
