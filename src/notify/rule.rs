//! Rules for notifications: what is told of which rows, when, and through which channels (pure).

use std::time::Duration;

use super::message::News;
use crate::history::glob_matches;

/// The time for which a question must stand: an agent that works on its own often answers it within a second or two.
const QUESTION_STANDS: Duration = Duration::from_secs(5);

/// A rule of the configuration, `[[notify]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// What is told.
    pub when: Vec<News>,
    /// Patterns for the names of rows; empty for all.
    pub only: Vec<String>,
    /// How long it must hold; `None` for 5 s for a question, and at once for the rest.
    pub after: Option<Duration>,
    /// The names of channels.
    pub to: Vec<String>,
}

impl Rule {
    /// Returns how long this must hold before it is told; `None` if the rule does not tell it of this row.
    pub fn after(&self, news: News, name: &str) -> Option<Duration> {
        if !self.is_about(name) || !self.when.contains(&news) {
            return None;
        }
        let default = match news {
            News::Waiting => QUESTION_STANDS,
            _ => Duration::ZERO,
        };
        Some(self.after.unwrap_or(default))
    }

    /// Returns true if a row with this name is one of the rule's.
    pub fn is_about(&self, name: &str) -> bool {
        let is_named = |pattern: &String| pattern == name || glob_matches(pattern, name);
        self.only.is_empty() || self.only.iter().any(is_named)
    }
}
