//! A key that is in no log, no error and no event.

use std::fmt;
use std::sync::Arc;

use crate::redact::Rules;

/// What stands in a key's place.
const MASK: &str = "[redacted:api-key]";

/// A key. It is shown nowhere: `{:?}` has a mask in its place, and there is no other way to print
/// it.
///
/// ```
/// use td_observe::agent_loop::Secret;
/// assert_eq!(format!("{:?}", Secret::new("sk-ant-123456789")), "[redacted:api-key]");
/// ```
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// A key, without blanks and line ends around it, as files have them.
    pub fn new(key: &str) -> Self {
        Self(Arc::from(key.trim()))
    }

    /// The key, for the one place that sends it.
    pub(super) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// A text without the key, wherever it stands in it.
    pub(in super::super) fn hide(&self, text: &str) -> String {
        match self.0.is_empty() || !text.contains(&*self.0) {
            true => text.to_owned(),
            false => text.replace(&*self.0, MASK),
        }
    }

    /// The same, and without anything else that looks like a key: what a server says of a request
    /// may have a part of it.
    pub(super) fn hide_all(&self, text: &str) -> String {
        Rules::builtin().text(&self.hide(text)).into_owned()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}
