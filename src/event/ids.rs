//! Texts with a type of their own: ids, which are cheap to clone, and the evidence that an agent has ended.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }
        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }
        impl From<&$name> for $name {
            fn from(id: &$name) -> Self {
                id.clone()
            }
        }
        impl Deref for $name {
            type Target = str;
            fn deref(&self) -> &str {
                &self.0
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }
        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

string_id! {
    /// The id of an execution: a tmux session, a child process, a loop or an agent. Cheap to clone.
    ExecutionId
}
string_id! {
    /// The id of a pane, as its tmux server writes it: `%7`. Cheap to clone.
    PaneId
}

string_id! {
    /// The evidence that an agent has ended: a description of the record that shows it, or a text that begins
    /// with `inferred` if no record does.
    ///
    /// ```
    /// use td_observe::event::EndEvidence;
    /// assert!(!EndEvidence::from("stop_reason end_turn").is_inferred());
    /// assert!(EndEvidence::from("inferred: nothing was written for 10s").is_inferred());
    /// ```
    #[derive(Default)]
    EndEvidence
}

impl EndEvidence {
    /// Returns true if no record states that the agent ended.
    pub fn is_inferred(&self) -> bool {
        self.0.starts_with("inferred")
    }
}
