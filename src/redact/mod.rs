//! Redaction: removes keys and tokens from events before any lane receives them (pure).
//!
//! A rule (`rules.toml`) describes the lead that announces a secret and the bytes of its body, so
//! that a secret can be followed through text that arrives in pieces. **Text is never delayed** to
//! wait for more: each piece is judged on its own. Up to eleven bytes of a truncated secret may be
//! shown before it is recognized; all further bytes are redacted, wherever the text is cut. The cost
//! is over-redaction: a text that ends where a secret may have begun is redacted, although the text
//! that follows might have shown otherwise.

mod value;

mod rule;

mod finder;

mod block;
mod scan;

mod stream;

mod terminal;

mod line;
mod pane;
mod redactor;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::Result;
pub use redactor::Redactor;
use scan::{Continuation, RuleSet, TextEnd};
pub use stream::TextStream;
pub(crate) use terminal::TerminalStream;

/// The beginning of a marker, which replaces a secret; the rule's id and `]` follow.
pub(crate) const MARKER: &str = "[redacted:";

/// Returns the length of the marker at the text's beginning, if there is one.
fn marker_len(text: &[u8]) -> Option<usize> {
    let kind = text.strip_prefix(MARKER.as_bytes())?;
    let len = kind
        .iter()
        .take(33)
        .take_while(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || **b == b'-')
        .count();
    (len > 0 && kind.get(len) == Some(&b']')).then_some(MARKER.len() + len + 1)
}

/// Rules for secrets. Cheap to clone.
///
/// ```
/// use td_observe::redact::Rules;
/// let rules = Rules::builtin();
/// assert_eq!(rules.text("a clean line"), "a clean line");
/// let url = format!("postgres://app:{}@db/main", "hunter2!");
/// assert_eq!(rules.text(&url), "postgres://app:[redacted:url-password]@db/main");
/// ```
#[derive(Clone, Debug)]
pub struct Rules(Arc<RuleSet>);

/// Maximum number of passes over a whole text: a secret may hide the end of another one directly
/// before it, which a further pass finds.
const PASSES_MAX: usize = 4;

impl Rules {
    /// Returns the built-in rules.
    pub fn builtin() -> Self {
        static BUILTIN: std::sync::LazyLock<Rules> = std::sync::LazyLock::new(|| {
            let set = rule::read(include_str!("rules.toml")).and_then(RuleSet::new);
            #[expect(clippy::expect_used, reason = "the text is fixed, and a test reads it")]
            Rules(Arc::new(set.expect("the built-in rules are valid")))
        });
        BUILTIN.clone()
    }

    /// Returns no rules, which redact nothing.
    pub fn none() -> Self {
        #[expect(
            clippy::expect_used,
            reason = "an empty set has nothing that could fail"
        )]
        Self(Arc::new(
            RuleSet::new(Vec::new()).expect("no rules are valid"),
        ))
    }

    /// Adds rules in the format of `rules.toml`. Where an added rule and an earlier one match at the
    /// same position, the marker names the earlier one.
    ///
    /// # Errors
    /// `is_invalid_input()` for other text, and for unusable rules, which the message names.
    pub fn with_toml(&self, text: &str) -> Result<Self> {
        let mut rules = self.0.rules.clone();
        rules.extend(rule::read(text)?);
        Ok(Self(Arc::new(RuleSet::new(rules)?)))
    }

    /// Redacts a whole text that is no part of a stream, such as a label or a summary. The beginning
    /// of a secret at its end is redacted, too, because the text may be truncated.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for _ in 0..PASSES_MAX {
            if self.0.finder.find(text.as_bytes(), 0).is_none() {
                break;
            }
            let mut spans = Vec::new();
            self.0.scan(
                text.as_bytes(),
                Continuation::None,
                TextEnd::Cut,
                &mut spans,
            );
            if spans.is_empty() {
                break;
            }
            let redacted = stream::redact_spans(&self.0, &text, &spans, false);
            if redacted == text {
                break;
            }
            text = Cow::Owned(redacted);
        }
        text
    }
}
