//! The evidence that a background agent has ended: a description of the record that shows it.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// Prefix of evidence that no record states.
const INFERRED: &str = "inferred";

/// The evidence that an agent has ended: a description of the record that shows it, or a text that begins
/// with `inferred` if no record does.
///
/// ```
/// use td_observe::EndEvidence;
/// assert!(!EndEvidence::from("stop_reason end_turn").is_inferred());
/// assert!(EndEvidence::from("inferred: nothing was written for 10s").is_inferred());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EndEvidence(String);

impl EndEvidence {
    /// Returns the text as events contain it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns true if no record states that the agent ended.
    pub fn is_inferred(&self) -> bool {
        self.0.starts_with(INFERRED)
    }

    pub(super) fn text_mut(&mut self) -> &mut String {
        &mut self.0
    }
}

impl From<String> for EndEvidence {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for EndEvidence {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Deref for EndEvidence {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EndEvidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
