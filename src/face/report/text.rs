//! The texts of a report: redacted, bounded, on one line, and left out on demand (pure).

use serde::{Deserialize, Deserializer, Serialize};

use crate::redact::Rules;
use crate::text::{first_bytes, joined_words};

/// The most characters of a text; summaries in logs have 200, and errors up to 2,000.
const CHARS_MAX: usize = 500;

/// The most bytes of a text that are read, so that a huge one costs little. What is shown of it is much shorter, so that
/// no part of a secret that is cut here is shown.
const BYTES_MAX: usize = 16 * 1024;

/// A text of a program, an agent or a user. Only [`Texts`] makes it, so that none is in a report as it was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub(crate) struct Text(String);

impl Text {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Text {
    /// Makes the text of a report that another host has written: what it says is redacted and bounded again.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let taken = Texts::new(Rules::builtin(), false).take(&text);
        Ok(taken.unwrap_or(Self(String::new())))
    }
}

/// Makes the texts of a report.
#[derive(Clone, Debug)]
pub(crate) struct Texts {
    rules: Rules,
    is_left_out: bool,
}

impl Texts {
    /// Redacts with these rules. With `is_left_out`, there are no texts.
    pub fn new(rules: Rules, is_left_out: bool) -> Self {
        Self { rules, is_left_out }
    }

    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns true if texts are left out.
    pub fn is_left_out(&self) -> bool {
        self.is_left_out
    }

    /// Returns the last lines of a text that are not empty, at most `max`. Secrets over several lines are redacted, too, if
    /// they begin in it.
    pub fn last_lines(&self, text: &str, max: usize, is_shown: impl Fn(&str) -> bool) -> Vec<Text> {
        if self.is_left_out {
            return Vec::new();
        }
        let redacted = self.rules.text(text);
        let shown = redacted.lines().rev().filter(|line| is_shown(line));
        let mut lines: Vec<Text> = shown.filter_map(|line| self.take(line)).take(max).collect();
        lines.reverse();
        lines
    }

    /// Returns a text on one line; `None` if it is empty, or if texts are left out.
    pub fn take(&self, text: &str) -> Option<Text> {
        if self.is_left_out || text.trim().is_empty() {
            return None;
        }
        // Before lines are joined and cut, which would hide what the rules look for.
        let text = self.rules.text(first_bytes(text, BYTES_MAX));
        let mut line = joined_words(&text, usize::MAX);
        if let Some((end, _)) = line.char_indices().nth(CHARS_MAX) {
            line.truncate(end);
            line.push('…');
        }
        (!line.is_empty()).then_some(Text(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_secret_and_no_line_end_is_in_a_text() {
        let texts = Texts::new(Rules::builtin(), false);
        let key = format!("ghp_{}", "0123456789".repeat(4));
        let text = texts.take(&format!("first\n{key}\u{1b}[31m red")).unwrap();
        assert!(!text.as_str().contains("0123456789"), "{text:?}");
        assert!(text.as_str().starts_with("first [redacted:"), "{text:?}");
        assert_eq!(texts.take(" \n"), None);
        assert_eq!(Texts::new(Rules::builtin(), true).take("text"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_bounded_and_has_no_control_characters(text in any::<String>(), times in 1usize..400) {
            let taken = Texts::new(Rules::none(), false).take(&text.repeat(times));
            let taken = taken.as_ref().map_or("", Text::as_str);
            prop_assert!(taken.chars().count() <= CHARS_MAX + 1);
            prop_assert!(!taken.contains(char::is_control));
        }
    }
}
