//! An API key that appears in no log, error or event.

use std::fmt;
use std::sync::Arc;

use ureq::http::HeaderValue;

use crate::error::{Error, Result};
use crate::redact::Rules;

/// The replacement for a key.
const MARKER: &str = "[redacted:api-key]";

/// Log targets of the HTTP library, which record complete requests and responses at the level trace.
/// The program silences them.
pub(crate) const SECRET_LOG_TARGETS: [&str; 2] = ["ureq::util", "ureq_proto::util"];

/// An API key that cannot be printed: `{:?}` shows a marker instead.
///
/// ```
/// use td_observe::agent_loop::Secret;
/// assert_eq!(format!("{:?}", Secret::new("sk-ant-123456789")), "[redacted:api-key]");
/// ```
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Creates a secret from a key, without surrounding whitespace.
    pub fn new(key: &str) -> Self {
        Self(Arc::from(key.trim()))
    }

    /// Returns a header value that consists of a prefix and the key.
    ///
    /// # Errors
    /// `is_invalid_input()` when the key contains characters that no key contains.
    pub(super) fn header(&self, prefix: &str) -> Result<HeaderValue> {
        let value = format!("{prefix}{}", self.0);
        let is_graphic = self.0.bytes().all(|byte| byte.is_ascii_graphic());
        let mut value = HeaderValue::try_from(value)
            .ok()
            .filter(|_| is_graphic)
            .ok_or_else(|| Error::invalid("the API key contains invalid characters"))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Returns the rules that redact the key in text that arrives in pieces: none for a key that is
    /// shorter than any real one, because harmless words contain it.
    pub(super) fn rules(&self) -> Rules {
        let rules = Rules::none().with_values([("api-key", &*self.0)]);
        rules.unwrap_or_else(|_| Rules::none())
    }

    /// Replaces the key in a text with a marker.
    pub(super) fn redact(&self, text: &str) -> String {
        match self.0.is_empty() {
            true => text.to_owned(),
            false => text.replace(&*self.0, MARKER),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MARKER)
    }
}

/// Returns a log target that would record the key, if the application's logger accepts one.
pub(super) fn logged_target() -> Option<&'static str> {
    let mut targets = SECRET_LOG_TARGETS.into_iter();
    targets.find(|target| log::log_enabled!(target: *target, log::Level::Trace))
}
